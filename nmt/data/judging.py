"""What makes a line a pair to train on, and the reasons why one is none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING

from nmt.data.cleaning import JOINERS, clean_text
from nmt.data.reading import Line, Row, parse_row
from nmt.data.splitting import Pair

if TYPE_CHECKING:
    from nmt.config import DataConfig

DUPLICATE = "duplicate"
HELD_OUT = "in dev or test"  # why a line that is fit to train on is not trained on
NO_WEIGHT = "weight that is no number"

# The length ratio of a source is measured on its first lines, up to this number and size.
SAMPLED_LINES, SAMPLED_BYTES = 20_000, 1 << 25
FEWEST_PAIRS = 100  # with fewer usable lines, the ratio counts as 1
# Up to so far from 1, two languages count as equally long: all that write in alphabets do. Chinese,
# Japanese and Korean characters stand for two to four letters each.
ALIKE = 1.5


def measure_length_ratio(
    rows: Iterator[Row], columns: Sequence[int]
) -> tuple[float, Iterator[Row]]:
    """Return characters of a target by those of its source, in the median; and the same rows.

    1.0 where it is near that, or there are few pairs. It depends on the first rows alone, so that
    it is the same however the rest is cut into shards.
    """
    head: list[Row] = []
    size = 0
    for row in rows:
        head.append(row)
        size += sum(map(len, row.lines))
        if len(head) >= SAMPLED_LINES or size >= SAMPLED_BYTES:
            break
    ratios = []
    for row in head:
        line = parse_row(row, columns)
        source, target = (len(side.strip()) for side in line.sides or ("", ""))
        if line.fault is None and source and target:
            ratios.append(target / source)
    ratio = median(ratios) if len(ratios) >= FEWEST_PAIRS else 1.0
    return (1.0 if 1 / ALIKE <= ratio <= ALIKE else ratio), chain(head, rows)


def clean_pair(line: Line) -> Pair | str:
    """Return the cleaned pair, or the reason why there is none."""
    if line.fault:
        return line.fault
    if line.sides is None:
        return "missing column"
    pair = Pair(clean_text(line.sides[0]), clean_text(line.sides[1]))
    return pair if all(side.strip(JOINERS) for side in pair) else "empty side"


def judge(line: Line, config: DataConfig, length_ratio: float) -> Pair | str:
    """Return the cleaned pair to train on, or the reason why there is none.

    Args:
        line: as read.
        config: of the corpus.
        length_ratio: characters of a usual target by those of its source.
    """
    pair = clean_pair(line)
    if isinstance(pair, str):
        return pair
    words = [side.count(" ") + 1 for side in pair]
    if min(words) < config.min_words:
        return "too short"
    if max(words) > config.max_words or max(map(len, pair)) > config.max_characters:
        return "too long"
    short, long = comparable_lengths(*pair, length_ratio)
    if long - short > config.length_ratio_margin and long > config.max_length_ratio * short:
        return "length ratio"
    return pair


def comparable_lengths(source: str, target: str, length_ratio: float) -> tuple[float, float]:
    """Return the shorter and the longer length, in characters of the side that has more of them."""
    of_source = len(source) * max(length_ratio, 1)
    of_target = len(target) * max(1 / length_ratio, 1)
    return min(of_source, of_target), max(of_source, of_target)


def read_weight(text: str) -> float | None:
    """Return the weight of a pair; None if it is not a finite number of at least 0."""
    try:
        weight = float(text)
    except ValueError:
        return None
    return weight if 0 <= weight < math.inf else None
