"""Trials of a sweep: each in a process of its own, their records, and early stopping."""
