"""Insight into a trained model: numbers about its heads, pictures, traces, the dashboard."""
