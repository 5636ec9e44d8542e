"""Analyse models and runs: one module per subcommand of ``python -m nmt.inspect``."""
