"""Makes ``data/generator`` importable: it rebuilds the embedded corpus, and is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "data"))
