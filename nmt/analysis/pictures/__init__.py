"""Pictures: numbers in, a figure out."""
