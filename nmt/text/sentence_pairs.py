"""A text and its translation, cut into the sentences that translate each other."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.text.cleaning import clean_text
from nmt.text.scripts import join_sentences
from nmt.text.sentences import split_sentences


def align_sentences(source: str, target: str, languages: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the sentences of a text with their translations, in order, each cleaned.

    Lines translate each other if both sides have equally many, and so do the sentences of a line.
    Where the numbers differ, the whole line, or the whole text, is one pair.

    Args:
        source: a text.
        target: its translation.
        languages: BCP 47 tags of both.
    """
    pairs: list[tuple[str, str]] = []
    for lines in _zip_or_join(source.splitlines(), target.splitlines(), languages):
        sources, targets = map(split_sentences, lines, languages)
        pairs += _zip_or_join(sources, targets, languages)
    return pairs


def _zip_or_join(
    sources: Sequence[str], targets: Sequence[str], languages: tuple[str, str]
) -> list[tuple[str, str]]:
    """Return pairs of parts; a single one of all parts if the sides have different numbers."""
    sides = [list(filter(None, map(clean_text, side))) for side in (sources, targets)]
    if len(sides[0]) == len(sides[1]):
        return list(zip(*sides, strict=True))
    source, target = map(join_sentences, sides, languages)
    return [(source, target)]
