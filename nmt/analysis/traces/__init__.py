"""What a beam search saw."""
