"""Translation systems side by side, and one run over its training."""
