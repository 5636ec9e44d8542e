"""Traces of beam search."""
