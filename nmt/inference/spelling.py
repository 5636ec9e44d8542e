"""How sentences are spelled for a tokenizer: with signs it knows, and slots apart from words."""

from __future__ import annotations

import re
from typing import NamedTuple

from nmt.data.tokenizer import UNK, Tokenizer
from nmt.text.scripts import is_unspaced_letter
from nmt.text.spans import SLOTS

# Substitutes of signs that are missing from a vocabulary: their bytes mean nothing to a model.
_SUBSTITUTES = {
    **dict.fromkeys("“”„‟«»‘’‚‛", '"'),
    **dict.fromkeys("—–―‐‑−", "-"),
    "…": "...",
    ";": ",",
}
_SIGNS = "".join(_SUBSTITUTES)
# Stress, vowels and other marks on Latin, Greek, Cyrillic, Hebrew and Arabic letters.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u0655\u0670"
_BYTE = re.compile("<0x[0-9A-F]{2}>")  # a piece of SentencePiece
_SLOT = f"[{SLOTS[0]}-{SLOTS[-1]}]"
_CHANGED = re.compile(
    r"(?P<clause> [—–―] |(?<=\w)… (?=[^\W\d_A-ZÀ-ÖØ-Þ]))"  # a dash or an ellipsis as a comma
    r"|(?P<apostrophe>(?<=\w)[’‘](?=\w))"
    rf"|(?P<sign>[{_SIGNS}])"
    rf"|(?P<letter>\w)(?P<marks>[{_MARKS}]+)"
    # Behind a slot, a word would have other pieces than behind a space.
    rf"|(?P<joint>(?<={_SLOT})(?=[^\W\d_])|(?<=[^\W\d_])(?={_SLOT}))"
)


def has_sign(tokenizer: Tokenizer, sign: str) -> bool:
    """Whether a piece of a vocabulary has a sign."""
    return sign in "".join(tokenizer.pieces(tokenizer.encode([f"a{sign}"])[0]))


class Spelling(NamedTuple):
    """A text as a tokenizer reads it."""

    text: str
    origins: tuple[int, ...]  # of each character, its index in the text that is spelled


class Speller:
    """Spells sentences.

    Args:
        tokenizer: a sign is replaced if no piece has it, and pieces have its substitute.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._spelled: dict[str, bool] = {}
        signs = {*_SIGNS, *"".join(_SUBSTITUTES.values())}
        known = {sign for sign in signs if has_sign(tokenizer, sign)}
        self._substitutes = {
            sign: other
            for sign, other in _SUBSTITUTES.items()
            if sign not in known and known.issuperset(other)
        }

    def can_spell(self, character: str) -> bool:
        """Whether a tokenizer spells a character, or its substitute, without byte pieces."""
        if character not in self._spelled:
            [ids] = self._tokenizer.encode([self._substitutes.get(character, character)])
            pieces = self._tokenizer.pieces(ids)
            self._spelled[character] = UNK not in ids and not any(map(_BYTE.fullmatch, pieces))
        return self._spelled[character]

    def spell(self, text: str) -> Spelling:
        """Return a text with slots as it is encoded."""
        parts: list[str] = []
        origins: list[int] = []
        end = 0
        for match in _CHANGED.finditer(text):
            begin, stop = match.span()
            parts += [text[end:begin], new := self._substitute(match, text)]
            origins += [*range(end, begin), *[min(begin, len(text) - 1)] * len(new)]
            end = stop
        return Spelling("".join([*parts, text[end:]]), (*origins, *range(end, len(text))))

    def _substitute(self, match: re.Match[str], text: str) -> str:
        sign = match[0].strip()
        if match["joint"] is not None:
            neighbors = text[match.start() - 1 : match.start() + 1]
            return "" if any(map(is_unspaced_letter, neighbors)) else " "
        if match["marks"]:  # those that no piece has are left out of words that pieces spell
            if not self.can_spell(match["letter"]):
                return match[0]
            return match["letter"] + "".join(filter(self.can_spell, match["marks"]))
        if sign not in self._substitutes:
            return match[0]
        if match["clause"]:
            return ", "
        return "'" if match["apostrophe"] else self._substitutes[sign]
