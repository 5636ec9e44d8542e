"""A model's weights laid out as another program reads them: no Keras, no inference."""
