"""What must be settled before TensorFlow or JAX is imported, and what there is to compute on."""
