"""What makes a line a pair to train on, and the reasons why one is none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nmt.data.cleaning import JOINERS, clean_text
from nmt.data.reading import Line
from nmt.data.splitting import Pair

if TYPE_CHECKING:
    from nmt.config import DataConfig

DUPLICATE = "duplicate"
HELD_OUT = "in dev or test"  # why a line that is fit to train on is not trained on
NO_WEIGHT = "weight that is no number"


def clean_pair(line: Line) -> Pair | str:
    """Return the cleaned pair, or the reason why there is none."""
    if line.fault:
        return line.fault
    if line.sides is None:
        return "missing column"
    pair = Pair(clean_text(line.sides[0]), clean_text(line.sides[1]))
    return pair if all(side.strip(JOINERS) for side in pair) else "empty side"


def judge(line: Line, config: DataConfig) -> Pair | str:
    """Return the cleaned pair to train on, or the reason why there is none."""
    pair = clean_pair(line)
    if isinstance(pair, str):
        return pair
    words = [side.count(" ") + 1 for side in pair]
    if min(words) < config.min_words:
        return "too short"
    short, long = sorted(map(len, pair))  # characters
    if max(words) > config.max_words or long > config.max_characters:
        return "too long"
    if long - short > config.length_ratio_margin and long > config.max_length_ratio * short:
        return "length ratio"
    return pair


def read_weight(text: str) -> float | None:
    """Return the weight of a pair; None if it is not a finite number of at least 0."""
    try:
        weight = float(text)
    except ValueError:
        return None
    return weight if 0 <= weight < math.inf else None
