"""MarianMT's folders, as `transformers` reads and writes them: into runs, and out of them."""
