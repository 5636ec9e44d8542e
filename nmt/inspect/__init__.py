"""Look inside a model: one module per subcommand of ``python -m nmt.inspect``."""
