"""Formats of other programs, in and out: SavedModel, CTranslate2, LiteRT, Keras, MarianMT."""
