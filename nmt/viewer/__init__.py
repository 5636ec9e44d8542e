"""Attention in a browser: its bytes, the viewer that draws them, and pages that hold both."""
