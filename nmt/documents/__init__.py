"""Documents in and out: formats, and their markup projected onto translations."""
