"""Pictures of attention, heads and weights: numbers in, a figure out."""
