"""The run folder, its checkpoints and its metrics: written whole, read safely."""
