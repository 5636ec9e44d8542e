"""What a model is made of: parameters, arithmetic, memory, norms."""
