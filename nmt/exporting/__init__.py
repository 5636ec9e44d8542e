"""A trained model in the formats that others run: SavedModel, CTranslate2, one Keras file."""
