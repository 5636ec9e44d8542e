"""Accept a line as a pair to train on, or reject it with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING

from nmt.data.reading import Line, Row, parse_row
from nmt.data.splitting import Pair
from nmt.text.cleaning import JOINERS, clean_text

if TYPE_CHECKING:
    from nmt.config import DataConfig, SourceConfig

_MAX_WEIGHT = 3.4e38  # of a float32
# Reasons that other modules give; they appear in corpus.json and in the file of rejected lines.
DUPLICATE = "duplicate"
HELD_OUT = "in dev or test"  # shares a side with a pair to score on
INVALID_WEIGHT = "weight that is no number"
CORRECTED = "corrected later"  # its source has a newer translation

# The length ratio and the languages of a source are those of its first lines, up to this number and
# size: they do not depend on how the others are cut into shards.
SAMPLED_LINES, SAMPLED_BYTES = 20_000, 1 << 25
MIN_SAMPLED_PAIRS = 100  # with fewer usable lines, the ratio is 1
# A median ratio between 1 / SIMILAR and SIMILAR counts as 1: all alphabets are in that range.
# Chinese, Japanese and Korean characters stand for two to four letters each.
SIMILAR = 1.5


def read_head(rows: Iterator[Row]) -> tuple[list[Row], Iterator[Row]]:
    """Return the first rows of a source, up to 20,000 or 32 MiB, and all of its rows."""
    head: list[Row] = []
    size = 0
    for row in rows:
        head.append(row)
        size += sum(map(len, row.lines))
        if len(head) >= SAMPLED_LINES or size >= SAMPLED_BYTES:
            break
    return head, chain(head, rows)


def choose_length_ratio(
    config: DataConfig, name: str, head: Sequence[Row], log: Callable[[str], None]
) -> float:
    """Return the usual length ratio of a source: configured, or measured on its first rows."""
    if config.typical_length_ratio is not None:
        return config.typical_length_ratio
    ratio = _measure_length_ratio(head)
    if ratio != 1:
        log(
            f"source '{name}': a target usually has {ratio:.2f} times as many characters as its "
            "source; data.max_length_ratio is relative to that"
        )
    return ratio


def _measure_length_ratio(head: Sequence[Row]) -> float:
    """Return the median of target characters by source characters."""
    ratios = []
    for row in head:
        line = parse_row(row)
        source, target = (len(side.strip()) for side in line.sides or ("", ""))
        if line.fault is None and source and target:
            ratios.append(target / source)
    ratio = median(ratios) if len(ratios) >= MIN_SAMPLED_PAIRS else 1.0
    return 1.0 if 1 / SIMILAR <= ratio <= SIMILAR else ratio


def clean_pair(line: Line) -> Pair | str:
    """Return the cleaned pair, or the reason for rejecting the line."""
    if line.fault:
        return line.fault
    if line.sides is None:
        return "missing column"
    pair = Pair(clean_text(line.sides[0]), clean_text(line.sides[1]))
    return pair if all(side.strip(JOINERS) for side in pair) else "empty side"


def filter_line(line: Line, config: DataConfig, length_ratio: float) -> Pair | str:
    """Return the cleaned pair to train on, or the reason for rejecting the line.

    The length ratio is the usual number of target characters by source characters.
    """
    pair = clean_pair(line)
    if isinstance(pair, str):
        return pair
    words = [side.count(" ") + 1 for side in pair]
    if min(words) < config.min_words:
        return "too short"
    if max(words) > config.max_words or max(map(len, pair)) > config.max_characters:
        return "too long"
    limits = config.max_length_ratio, config.length_ratio_margin
    return "length ratio" if differ_in_length(*pair, length_ratio, *limits) else pair


def clean_line(
    line: Line, config: DataConfig, source: SourceConfig, length_ratio: float
) -> Pair | str:
    """Return the pair of a line of a source, or why it is rejected, whatever the other lines.

    Dev and test files are only cleaned, so that scores on them stay comparable.
    """
    pair = filter_line(line, config, length_ratio) if source.is_training else clean_pair(line)
    is_invalid = source.has_weights and not _is_weight(line.weight)
    return INVALID_WEIGHT if is_invalid and isinstance(pair, Pair) else pair


def find_superseded(rows: Sequence[Row], clean: Callable[[Line], Pair | str]) -> set[int]:
    """Return the indices of rows whose source has another translation in a later row.

    Args:
        rows: all rows of a source.
        clean: returns the pair of a line, or why it is rejected.
    """
    corrected: set[int] = set()
    last: dict[str, int] = {}
    for index, row in enumerate(rows):
        pair = clean(parse_row(row))
        if isinstance(pair, Pair):
            if pair.source in last:
                corrected.add(last[pair.source])
            last[pair.source] = index
    return corrected


def differ_in_length(
    source: str, target: str, length_ratio: float, max_ratio: float, margin: float
) -> bool:
    """Whether the lengths of a pair differ too much, in characters of the wordier language.

    Args:
        source: a text.
        target: its translation.
        length_ratio: usual number of target characters by source characters.
        max_ratio: longer side / shorter side.
        margin: difference in characters that is always allowed.
    """
    source_length = len(source) * max(length_ratio, 1)
    target_length = len(target) * max(1 / length_ratio, 1)
    short, long = sorted((source_length, target_length))
    return long - short > margin and long > max_ratio * short


def _is_weight(text: str) -> bool:
    """Whether a text is a float32 number of at least 0."""
    try:
        return 0 <= float(text) <= _MAX_WEIGHT
    except ValueError:
        return False
