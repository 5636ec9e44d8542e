"""Parameters, operations, memory and norms of a model."""
