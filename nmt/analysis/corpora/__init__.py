"""What a corpus holds, before anything is trained on it."""
