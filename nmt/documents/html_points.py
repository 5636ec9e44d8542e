"""Points of a page, elements without text such as icons: where they are, and their elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Kind = Literal["text", "space", "point"]  # of an item; tags are points


def find_points(kinds: Mapping[int, Kind], matches: Mapping[int, int]) -> dict[int, int]:
    """Return the last item of each point by its first item, and the first by the last.

    An element of white space is a point, too, unless nothing else divides two words.

    Args:
        kinds: of consecutive items, by their numbers.
        matches: start tags and their end tags, both ways.
    """
    texts = spaces = 0
    counts = {}  # of texts and of white space before each item
    for number, kind in kinds.items():
        counts[number] = texts, spaces
        texts += kind == "text"
        spaces += kind == "space"
    points = {}
    for number, kind in kinds.items():
        end = matches.get(number, number)
        if kind != "point" or end < number or counts[end][0] > counts[number][0]:
            continue
        has_space = counts[end][1] > counts[number][1]
        if not has_space or "space" in (kinds.get(number - 1), kinds.get(end + 1)):
            points[number], points[end] = end, number
    return points


def find_content(
    kinds: Mapping[int, Kind], points: Mapping[int, int], start: int, end: int
) -> tuple[int, int]:
    """Return the items [begin, end) of an element's content.

    Points at its ends, and the white space around them, belong to its tags instead.

    Args:
        kinds: of items, by their numbers.
        points: from `find_points`.
        start: its start tag.
        end: its end tag.
    """
    first = _skip_points(kinds, points, start + 1, 1)
    last = _skip_points(kinds, points, end - 1, -1)
    return (first, last + 1) if first <= last else (start + 1, end)


def _skip_points(
    kinds: Mapping[int, Kind], points: Mapping[int, int], begin: int, step: int
) -> int:
    """Return the first item after points and white space; without a point, ``begin``."""
    at, has_point = begin, False
    while at in points or kinds[at] == "space":
        has_point |= at in points
        at = points.get(at, at) + step
    return at if has_point else begin
