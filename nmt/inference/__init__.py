"""Search over next-token scores, translation of text with a trained model, and its scores."""
