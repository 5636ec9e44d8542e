"""Matches the brackets of the beginning of a translation to those of its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_MOST = 50  # brackets of a text that are compared
_ADDED = 2  # cost of brackets that match none of the source
_LEFT_OUT = 1  # cost of brackets of the source that the translation lacks
_NEVER = 1000  # cost of a forbidden match: above the sum of all others


class SourceBrackets(NamedTuple):
    """A text in round or square brackets."""

    text: str  # with its brackets
    slot: int | None = None  # the number of its slot, if it is a kept span
    is_remark: bool = False  # whether it is translated by itself, so that no translation lacks it


def match_brackets(sources: Sequence[SourceBrackets], texts: Sequence[str]) -> list[int | None]:
    """Return for each text in brackets of a translation the slot of its match in the source.

    None: it has no match, or one without a slot.

    Brackets match in order, with the least cost (Wagner & Fischer 1974). Brackets other than those
    of remarks may be left out; most of them are around one word, and remarks are several words.

    Args:
        sources: in order.
        texts: those of the beginning of the translation, with their brackets, in order. The last
            ones may lack their end.
    """
    sources, texts = sources[:_MOST], texts[:_MOST]
    # For each number of sources, the least cost of matching them with the texts before, and how.
    row: list[tuple[int, tuple[int | None, ...]]] = [(0, ())]
    for source in sources:
        row.append((row[-1][0] + _skip(source), ()))
    for text in texts:
        above, row = row, [(row[0][0] + _ADDED, (*row[0][1], None))]
        for number, source in enumerate(sources):
            cost, matched = above[number]
            added, others = above[number + 1]
            skipped, before = row[-1]
            row.append(
                min(
                    (cost + _compare(source, text), (*matched, number)),
                    (skipped + _skip(source), before),
                    (added + _ADDED, (*others, None)),
                    key=lambda option: option[0],
                )
            )
    _, numbers = min(row, key=lambda option: option[0])
    slots = [None if number is None else sources[number].slot for number in numbers]
    return [*slots, *[None] * (len(texts) - len(slots))]


def _skip(source: SourceBrackets) -> int:
    return _NEVER if source.is_remark else _LEFT_OUT


def _compare(source: SourceBrackets, text: str) -> int:
    """Return the cost of taking a text in brackets for the translation of another one."""
    if source.slot is not None and not source.is_remark:  # it is copied
        return 0 if source.text.startswith(text) else _NEVER
    has_fewer_words = (" " in text) < (" " in source.text) and text[-1] in ")]"
    has_more_words = (" " in text) > (" " in source.text)
    more = 1 if source.is_remark else 2  # others are mostly around one word
    return (source.text[0] != text[0]) + has_fewer_words + more * has_more_words
