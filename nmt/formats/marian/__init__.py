"""MarianMT folders of `transformers`, converted to runs and from runs."""
