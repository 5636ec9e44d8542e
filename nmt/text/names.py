"""Words that are kept, and not translated, wherever they stand: names of a list, and laughter."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from nmt.text.scripts import POSSESSIVE, strip_accents

_FILE = Path(__file__).with_name("names.txt")
_LAUGHTER = re.compile(r"([^\W\d_]{2})\1+[^\W\d_]?")  # jajaja, hahah


def is_common_name(word: str) -> bool:
    """Whether a word is a first name, or a city, of `names.txt`; case and accents do not count."""
    return strip_accents(POSSESSIVE.sub("", word).lower()) in _read_names()


def is_laughter(word: str) -> bool:
    """Whether a word is two letters again and again."""
    return _LAUGHTER.fullmatch(word.lower()) is not None


@cache
def _read_names() -> frozenset[str]:
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    names = " ".join(line for line in lines if not line.startswith("#"))
    return frozenset(strip_accents(names.lower()).split())
