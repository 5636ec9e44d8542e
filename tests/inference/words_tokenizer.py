"""A tokenizer of a few pieces that a test names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class WordsTokenizer:
    """Writes pieces; it is the tokenizer of both sides."""

    target: Any

    def __init__(self, pieces: Sequence[str]) -> None:
        self.target = self
        self._pieces = pieces

    def decode(self, sequences: Any) -> list[str]:
        return ["".join(self._pieces[i] for i in ids).strip() for ids in sequences]
