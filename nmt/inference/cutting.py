"""Texts into ids, cut where they are longer than what is translated in one go."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from nmt.data.cleaning import clean_text
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError

# Where a text that is too long is cut, the first that helps: after sentences, after clauses.
_CUTS = (re.compile(r"(?<=[.!?…])\s+"), re.compile(r"(?<=[,;:)\]»—–])\s+"))


def clean_input(text: str) -> str:
    """Clean a text; what the shell could not decode comes as lone surrogates."""
    return clean_text(text.encode("utf-8", "replace").decode("utf-8"))


class Cutter:
    """Cleans, encodes and cuts texts.

    Args:
        tokenizer: whose ids it gives.
        room: most tokens of a part, without end mark.
    """

    def __init__(self, tokenizer: Tokenizer, room: int) -> None:
        self.room = room
        self._tokenizer = tokenizer
        self._warned = False

    def cut(self, text: str) -> list[np.ndarray]:
        """Return the ids int32 [length] of the parts of a text; an empty text has none."""
        return self.cut_all([text])[0]

    def cut_all(self, texts: Sequence[str]) -> list[list[np.ndarray]]:
        """Return what `cut` returns for each text."""
        cleaned = [clean_input(text) for text in texts]
        return [
            self._cut(text, ids) if text else []
            for text, ids in zip(cleaned, self._tokenizer.encode(cleaned), strict=True)
        ]

    def _cut(self, text: str, ids: np.ndarray) -> list[np.ndarray]:
        if len(ids) <= self.room:
            return [ids]
        if not self._warned:
            warnings.warn(
                f"a text of {len(ids)} tokens is longer than the {self.room} that are translated "
                "in one go: such texts are translated in parts",
                stacklevel=8,
            )
            self._warned = True
        return list(self._parts(text, ids))

    def whole(self, text: str) -> np.ndarray:
        """Return the ids int32 [S - 1] of a text that is translated in one go, without end mark.

        Raises:
            UserError: the text is empty, or would be cut in parts.
        """
        parts = self.cut(text)
        if not parts:
            raise UserError("the sentence is empty: there is nothing to translate")
        if len(parts) > 1:
            raise UserError(
                f"the sentence is longer than the {self.room} tokens that are translated in one "
                "go, and would be translated in parts: give the parts"
            )
        return parts[0]

    def _parts(
        self, text: str, ids: np.ndarray, cuts: Sequence[re.Pattern[str]] = _CUTS
    ) -> Iterator[np.ndarray]:
        """Yield parts of at most `room` tokens, as few as the best places to cut allow."""
        if len(ids) <= self.room:
            yield ids
            return
        if not cuts:
            while len(ids) > self.room:
                cut = self._last_word_begin(ids[: self.room + 1])
                yield ids[:cut]
                ids = ids[cut:]
            yield ids
            return
        pieces = cuts[0].split(text)
        encoded = self._tokenizer.encode(pieces)
        current: list[np.ndarray] = []
        for piece, piece_ids in zip(pieces, encoded, strict=True):
            if current and sum(map(len, current)) + len(piece_ids) > self.room:
                yield np.concatenate(current)
                current = []
            if len(piece_ids) > self.room:
                yield from self._parts(piece, piece_ids, cuts[1:])
            elif len(piece_ids):
                current.append(piece_ids)
        if current:
            yield np.concatenate(current)

    def _last_word_begin(self, ids: np.ndarray) -> int:
        for position in range(len(ids) - 1, 0, -1):
            if self._tokenizer.pieces(ids[position : position + 1])[0].startswith("▁"):
                return position
        return len(ids) - 1
