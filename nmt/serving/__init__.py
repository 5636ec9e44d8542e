"""Translation over HTTP: requests grouped into batches, and the application that takes them."""
