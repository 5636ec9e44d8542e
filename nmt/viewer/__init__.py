"""Attention in a browser: the record format, the viewer, and pages with both."""
