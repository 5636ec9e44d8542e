"""Documents in and out: formats, and their markup carried over to translations."""
