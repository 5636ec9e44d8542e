"""Settings that must precede the import of TensorFlow or JAX, and the devices they find."""
