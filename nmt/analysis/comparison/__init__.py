"""Runs side by side: a table, a plot, and a page with the attention of one sentence."""
