"""Rebuild ``data/patterns.tsv.xz``, the generated pairs of the embedded corpus:

    python data/build_patterns.py

Run it after a change to ``data/generator``; the same grammar always gives the same pairs.
"""

from __future__ import annotations

import lzma
from pathlib import Path

from generator import GRAMMAR_DIR
from generator.expand import expand

PAIRS = 60_000
TABLE = Path(__file__).with_name("patterns.tsv.xz")


def main() -> None:
    """Expand the grammar and write the table."""
    lines = [f"{pair.source}\t{pair.target}\n" for pair in expand(GRAMMAR_DIR, PAIRS)]
    data = lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME)
    TABLE.write_bytes(data)
    print(f"{TABLE}: {len(lines):,} pairs, {len(data):,} bytes")


if __name__ == "__main__":
    main()
