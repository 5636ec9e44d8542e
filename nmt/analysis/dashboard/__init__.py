"""TensorBoard: the dashboard of attention, and the projector."""
