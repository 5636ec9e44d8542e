"""From text files to batches: reading, cleaning, splitting, tokenizing, batching."""
