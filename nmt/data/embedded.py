"""The corpus that comes with the package: written sentences, and pairs generated from patterns."""

from __future__ import annotations

import lzma
from itertools import islice
from pathlib import Path

from nmt.data.splitting import Pair
from nmt.errors import UserError


def phrasebook_dir() -> Path:
    """Return the folder of the written sentences, one table per topic."""
    return _locate("phrasebook")


def read_patterns(count: int, key: str) -> list[Pair]:
    """Return the first generated pairs, Spanish and English.

    Args:
        count: the number of pairs.
        key: the configuration key that has this number, for messages.

    Raises:
        UserError: the table has fewer pairs, or is missing.
    """
    path = _locate("patterns.tsv.xz")
    try:
        with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
            pairs = [Pair(*line.rstrip("\n").split("\t")) for line in islice(file, count)]
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing: reinstall nmt") from error
    if len(pairs) < count:
        raise UserError(
            f"{key} must be at most {len(pairs)}, the number of generated pairs, got {count}"
        )
    return pairs


def _locate(name: str) -> Path:
    """Return the path of embedded data: inside an installed wheel, or in a checkout."""
    package = Path(__file__).parents[1]
    packaged = package / f"_{name}"
    return packaged if packaged.exists() else package.parent / "data" / name
