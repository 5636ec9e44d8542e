"""Sentence pairs: read from files, cleaned, and split without leaks.

`load_corpus` is the one entry. A line is either kept as one `Pair` or counted under exactly one
reason; none disappears.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from unicodedata import category, normalize

from rich.table import Table

from nmt.data.grammar.expand import expand
from nmt.data.reading import Line, aligned_lines, grammar_dir, phrasebook_dir, read_lines
from nmt.data.splitting import Pair, normalized, split
from nmt.errors import UserError

if TYPE_CHECKING:  # nmt.config loads Hydra, which reading a corpus does not need
    from nmt.config import DataConfig

__all__ = [
    "Corpus",
    "Pair",
    "clean_text",
    "load_corpus",
    "normalized",
    "phrasebook_dir",
    "read_parallel",
    "rejection_table",
]

JOINERS = "\u200c\u200d"  # zero width (non-)joiner: Persian spelling and emoji need them
SPACE_SIGN = "▁"  # stands for a space inside tokenizers, which could not tell it from one
INVISIBLE = ("Cc", "Cf", "Cs")  # Unicode categories: control, format, lone surrogate


@dataclass(frozen=True)
class Corpus:
    """The three splits, each in the order of its files, and what became of the other lines."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    rejected: dict[str, int]  # reason -> lines, the most frequent first
    lines: int  # read; rejected, or one pair of one split
    patterns: int = 0  # pairs at the end of train that come from patterns, not from lines
    repeats: int = 1  # how often train has each of its other pairs


def load_corpus(
    config: DataConfig, *, cache_dir: Path, report: Callable[[str], None] = lambda message: None
) -> Corpus:
    """Read, clean and split the configured corpus; the same files always give the same corpus.

    Args:
        config: the ``data`` group of the configuration.
        cache_dir: folder that keeps a downloaded archive.
        report: takes one-line messages about what is going on.

    Raises:
        UserError: a file that is missing or damaged, a failed download, no usable line, or
            ``data.dev`` and ``data.test`` larger than the corpus allows.
    """
    pairs: list[Pair] = []
    seen: set[Pair] = set()
    rejected: Counter[str] = Counter()
    with _rejected_sink(config) as sink:
        for line in read_lines(config, cache_dir, report):
            verdict = _judge(line, config, seen)
            if isinstance(verdict, Pair):
                seen.add(verdict)
                pairs.append(verdict)
                continue
            rejected[verdict] += 1
            if sink:
                sink.write(f"{verdict}\t{line.file}:{line.number}\t{line.raw}\n")
    lines = len(pairs) + rejected.total()
    if not pairs:
        raise UserError(_no_pairs(config.kind, lines, rejected))
    train, dev, test = split(pairs, config, report)
    report(
        f"corpus: {lines:,} lines, {len(pairs):,} pairs kept: "
        f"{len(train):,} train, {len(dev):,} dev, {len(test):,} test"
    )
    expanded: list[Pair] = []
    repeats = 1
    if config.patterns:
        expanded = _expanded(config.patterns, dev + test)
        others = len(expanded) * (1 / config.pattern_share - 1)
        repeats = max(1, round(others / len(train)))
        report(
            f"patterns: {len(expanded):,} pairs more to train on; hand-written ones {repeats} times"
        )
    return Corpus(
        train=train * repeats + expanded,
        dev=dev,
        test=test,
        rejected=dict(rejected.most_common()),
        lines=lines,
        patterns=len(expanded),
        repeats=repeats,
    )


def _expanded(count: int, held_out: list[Pair]) -> list[Pair]:
    """Expand the grammar, without what shares a side with a held-out pair."""
    sources = {normalized(pair.source) for pair in held_out}
    targets = {normalized(pair.target) for pair in held_out}
    return [
        pair
        for pair in expand(grammar_dir(), count)
        if normalized(pair.source) not in sources and normalized(pair.target) not in targets
    ]


def read_parallel(source: Path, reference: Path) -> list[Pair]:
    """Read two aligned files as they are, every line a pair: for evaluation, not for training.

    Raises:
        UserError: a file that is missing or damaged, or the numbers of lines differ.
    """
    lines = aligned_lines(source, reference, "--source", "--reference")
    return [Pair(*line.sides) for line in lines if line.sides is not None]


def rejection_table(corpus: Corpus) -> Table:
    """Return a table of lines by fate: rejected for which reason, kept, and in which split."""
    table = Table("lines", "count", "share", title=f"Corpus: {corpus.lines:,} lines")
    table.columns[1].justify = table.columns[2].justify = "right"

    def row(label: str, count: int) -> None:
        table.add_row(label, f"{count:,}", f"{count / max(1, corpus.lines):.1%}")

    for reason, count in corpus.rejected.items():
        row(f"rejected: {reason}", count)
    table.add_section()
    train = (len(corpus.train) - corpus.patterns) // corpus.repeats
    row("kept", train + len(corpus.dev) + len(corpus.test))
    table.add_section()
    row("train", train)
    row("dev", len(corpus.dev))
    row("test", len(corpus.test))
    return table


def clean_text(text: str) -> str:
    """Return NFC text without control characters, every run of white space one space.

    Zero-width joiners stay. Applying it twice changes nothing. The translator cleans its input
    with it too, so that a model meets the text it was trained on.
    """
    if not text.isprintable():  # printable text has no control character, ASCII or other
        text = "".join(
            sign
            for sign in text
            if sign.isspace() or sign in JOINERS or category(sign) not in INVISIBLE
        )
    if not text.isascii():
        text = normalize("NFC", text).replace(SPACE_SIGN, "_")
    return " ".join(text.split())


def _judge(line: Line, config: DataConfig, seen: set[Pair]) -> Pair | str:
    """Return the cleaned pair, or the reason why there is none."""
    if not line.well_formed:
        return "malformed UTF-8"
    if line.sides is None:
        return "missing column"
    pair = Pair(clean_text(line.sides[0]), clean_text(line.sides[1]))
    if not all(side.strip(JOINERS) for side in pair):
        return "empty side"
    words = [side.count(" ") + 1 for side in pair]
    if min(words) < config.min_words:
        return "too short"
    short, long = sorted(map(len, pair))  # characters
    if max(words) > config.max_words or long > config.max_characters:
        return "too long"
    if long - short > config.length_ratio_margin and long > config.max_length_ratio * short:
        return "length ratio"
    return "duplicate" if pair in seen else pair


def _no_pairs(kind: str, lines: int, rejected: Counter[str]) -> str:
    if not lines:
        return f"data={kind}: the corpus is empty, 0 lines were read: add sentence pairs"
    reason, count = rejected.most_common(1)[0]
    return (
        f"data={kind}: none of the {lines:,} lines read is usable, most often because of "
        f"'{reason}' ({count:,}): check data.columns and the length limits, or see each line "
        "with data.rejected_file=FILE"
    )


@contextmanager
def _rejected_sink(config: DataConfig) -> Iterator[TextIO | None]:
    """Open ``data.rejected_file`` for writing where one is configured."""
    if not config.rejected_file:
        yield None
        return
    path = Path(config.rejected_file).expanduser()
    inputs = (config.path, config.source_path, config.target_path, config.archive)
    if path.resolve() in [Path(name).expanduser().resolve() for name in inputs if name]:
        raise UserError(f"data.rejected_file={path} would overwrite the corpus: name another file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file name that is no UTF-8 must not stop the report of what is wrong inside it.
        sink = path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as error:
        raise UserError(
            f"data.rejected_file={path} cannot be written ({error.strerror}): name another file"
        ) from error
    with sink:
        yield sink
