"""Models, precisions and batch sizes that several benchmarks share."""

from __future__ import annotations

# The order of tables.
SIZES = ("small", "base", "big", "tiny")
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
# Positions per side. Each fills a large GPU for 5 to 30 ms, and fits into 16 GB in float32.
BATCH_TOKENS = dict(zip(SIZES, (16384, 8192, 4096, 256), strict=True))
