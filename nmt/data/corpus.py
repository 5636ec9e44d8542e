"""Sentence pairs: read from named sources, cleaned, and split without leaks.

`load_corpus` is the one entry. A line is either kept as one `Pair` or counted under exactly one
reason; none disappears.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TextIO

from rich.table import Table

from nmt.config.data import PATTERNS, SHORT, key_of, with_same_files
from nmt.data.cleaning import clean_text
from nmt.data.embedded import read_patterns
from nmt.data.encodings import UTF_8
from nmt.data.judging import (
    DUPLICATE,
    HELD_OUT,
    NO_WEIGHT,
    clean_pair,
    judge,
    measure_length_ratio,
    read_weight,
)
from nmt.data.reading import (
    TOO_LONG,
    Line,
    Row,
    matching_files,
    parse_row,
    read_aligned,
    read_rows,
    read_table,
)
from nmt.data.splitting import DEV, TEST, TRAIN, Pair, normalized, split
from nmt.errors import UserError, attach_filename, nearest

# Of so many lines, a source that keeps less than this share is worth a word.
MANY, FEW = 100, 0.2

if TYPE_CHECKING:  # numpy is imported where it is needed: see `nmt.startup`
    import numpy as np

    from nmt.config import DataConfig, SourceConfig


@dataclass(frozen=True)
class Part:
    """What one source gives to train on."""

    source: str  # its name
    pairs: list[Pair]
    repeats: int  # how often an epoch has each of them
    read: bool  # from lines; False: generated
    weights: list[float] | None = None  # of each pair in the loss; None: all alike


@dataclass(frozen=True)
class Corpus:
    """What there is to train on, source by source, the two other splits, and all other lines."""

    parts: tuple[Part, ...]
    dev: list[Pair]
    test: list[Pair]
    rejected: dict[str, int]  # reason -> lines, the most frequent first
    lines: int  # read; rejected, or one pair of one split
    archives: dict[str, str] = field(default_factory=dict)  # source of kind zip -> its SHA-256
    tests: dict[str, list[Pair]] = field(default_factory=dict)  # by name: more to score on
    stages: tuple[tuple[Part, ...], ...] = ()  # what each stage is trained on; empty: there is one
    length_ratios: dict[str, float] = field(default_factory=dict)  # see `choose_length_ratio`

    def pairs_of(self, name: str) -> list[Pair]:
        """Return what can be scored on, by its name: dev, test, or one of ``data.tests``.

        Raises:
            UserError: there is no such.
        """
        found = {DEV: self.dev, TEST: self.test} | self.tests
        if name not in found:
            raise UserError(f"there is no split '{name}'{nearest(name, found)}")
        return found[name]

    @cached_property
    def train(self) -> list[Pair]:
        """An epoch: the pairs of every source, as often as it has them, in the order of files."""
        return list_pairs(self.parts)

    @property
    def epoch_pairs(self) -> int:
        """Pairs of an epoch, repetitions and generated pairs included."""
        return len(self.train)

    @property
    def train_pairs(self) -> int:
        """Pairs to train on, of those that were read."""
        return sum(len(part.pairs) for part in self.parts if part.read)


class ExtraTest(NamedTuple):
    """Pairs of ``data.tests``: they are scored on, and not trained on."""

    pairs: list[Pair]  # as the model sees them
    plain: list[Pair]  # as sources have them: see `as_in_sources`


def load_corpus(
    config: DataConfig,
    *,
    cache_dir: Path,
    tests: Mapping[str, ExtraTest] = MappingProxyType({}),
    read_only: bool = False,
    rejected_file: Path | None = None,
    log: Callable[[str], None] = lambda message: None,
) -> Corpus:
    """Read, clean and split the configured corpus; the same files always give the same corpus.

    Args:
        config: the ``data`` group of the configuration.
        cache_dir: folder that keeps a downloaded archive.
        tests: what ``data.tests`` names.
        read_only: whether ``cache_dir`` is only looked into.
        rejected_file: where rejected lines are written, with their reasons. It is an argument so
            that reading the corpus of a run never writes where the run's configuration says.
        log: takes one-line messages about what is going on.

    Raises:
        UserError: a file that is missing or damaged, a failed download, no usable line, or
            ``data.dev`` and ``data.test`` larger than the corpus allows.
    """
    config = with_same_files(config)
    sources = config.sources
    archives: dict[str, str] = {}
    read = partial(
        read_rows, sources, cache_dir=cache_dir, log=log, hashes=archives, read_only=read_only
    )
    with _rejected_sink(config, rejected_file) as sink:
        reader = _Reader(config, sink, log, late=bool(tests))
        kept = {
            name: reader.read(name, read(name))
            for name, source in sources.items()
            if source.kind != PATTERNS
        }
        splits = _split_sources(config, reader.leave_out_of_shares(kept), log)
        splits[TRAIN] |= _read_patterns(sources)
        reader.leave_out_of_training(splits, [pair for one in tests.values() for pair in one.plain])
    parts = _weigh(config, splits[TRAIN], reader.weights)
    stages = tuple(
        _weigh(config, splits[TRAIN], reader.weights, stage.weights) for stage in config.stages
    )
    _check_something_is_left(config, parts, *stages)
    corpus = Corpus(
        parts,
        dev=_join(config, splits[DEV]),
        test=_join(config, splits[TEST]),
        rejected=dict(reader.rejected.most_common()),
        lines=reader.lines,
        archives=archives,
        tests={name: one.pairs for name, one in tests.items()},
        stages=stages,
        length_ratios=reader.length_ratios,
    )
    _log_sizes(corpus, log)
    return corpus


def _check_something_is_left(config: DataConfig, *mixtures: tuple[Part, ...]) -> None:
    if not all(mixtures):
        raise UserError(
            f"data={config.name}: nothing is left to train on, every pair shares a side with one "
            "in dev or test"
        )


BySource = dict[str, list[Pair]]


class _Reader:
    """Judges lines, and counts what it refuses.

    Args:
        config: the ``data`` group.
        sink: takes the refused lines.
        log: takes one-line messages.
        late: whether some may turn out to be held out once all are read.
    """

    def __init__(
        self,
        config: DataConfig,
        sink: TextIO | None,
        log: Callable[[str], None],
        *,
        late: bool,
    ) -> None:
        self._config = config
        self._sink, self._log = sink, log
        self.length_ratios: dict[str, float] = {}  # by source
        # Pairs to train on, of a tag and a direction.
        self._seen: dict[tuple[str | None, bool], set[Pair]] = {}
        self.weights: dict[str, dict[Pair, float]] = {}  # source -> pair -> weight in the loss
        self.rejected: Counter[str] = Counter()
        self.lines = 0
        # The lines that may turn out to be held out: source -> pair -> line.
        self._kept: dict[str, dict[Pair, Line]] = {}
        self._late = late or any(source.split != "shares" for source in config.sources.values())

    def read(self, name: str, rows: Iterator[Row]) -> list[Pair]:
        """Return the usable pairs of a source.

        Raises:
            UserError: there is none.
        """
        source = self._config.sources[name]
        training = source.split in ("shares", "train")
        seen = self._seen.setdefault((source.tag, source.reverse), set())
        weights = self.weights.setdefault(name, {}) if len(source.columns) > 2 else None
        kept = self._kept.setdefault(name, {})
        pairs = []
        before, rejected = self.lines, self.rejected.copy()
        ratio = 1.0
        if training:
            ratio, rows = choose_length_ratio(self._config, name, rows, self._log)
            self.length_ratios[name] = ratio
        for row in rows:
            line = parse_row(row, source.columns)
            self.lines += 1
            # Dev and test files are not chosen from: their scores are to be compared.
            verdict = judge(line, self._config, ratio) if training else clean_pair(line)
            if training and verdict in seen:
                verdict = DUPLICATE
            weight = 1.0 if weights is None else read_weight(line.weight)
            if isinstance(verdict, Pair) and weight is None:
                verdict = NO_WEIGHT
            if not isinstance(verdict, Pair):
                self._reject(verdict, line)
                continue
            if weights is not None and weight is not None:
                weights[verdict] = weight
            pairs.append(verdict)
            if training:
                seen.add(verdict)
                if self._late:
                    kept[verdict] = line
        count, refused = self.lines - before, self.rejected - rejected
        if not pairs:
            raise UserError(say_few_pairs(self._config, name, 0, count, refused))
        if count >= MANY and len(pairs) < FEW * count and refused.most_common(1)[0][0] != DUPLICATE:
            few = say_few_pairs(self._config, name, len(pairs), count, refused)
            warnings.warn(few, stacklevel=2)
        return pairs

    def leave_out_of_shares(self, pairs: BySource) -> BySource:
        """Return pairs by source; those that shares are drawn from share no side with a file.

        Otherwise a share drawn for test could be in the file of dev, and the reverse.
        """
        sources = self._config.sources
        files = [name for name in pairs if sources[name].split in (DEV, TEST)]
        shared = {name: pairs[name] for name in pairs if sources[name].split == "shares"}
        return pairs | self._leave_out(shared, [pair for name in files for pair in pairs[name]])

    def leave_out_of_training(self, splits: dict[str, BySource], tested: Sequence[Pair]) -> None:
        """Take out of training what shares a side with dev or a test.

        Args:
            splits: of the corpus. Dev and test share no side with the sources that they are shares
                of, which were split by groups.
            tested: pairs of ``data.tests``, in the form of the sources.
        """
        sources = self._config.sources
        groups = [*splits[DEV].values(), *splits[TEST].values(), tested]
        held_out = [pair for pairs in groups for pair in pairs]
        checked = {
            name: pairs
            for name, pairs in splits[TRAIN].items()
            if sources[name].split != "shares" or tested
        }
        splits[TRAIN] |= self._leave_out(checked, held_out)

    def _leave_out(self, pairs: BySource, held_out: Sequence[Pair]) -> BySource:
        """Return the pairs that share no side with one held out, compared without accents."""
        if not held_out:
            return pairs
        sides = [{normalized(pair[side]) for pair in held_out} for side in (0, 1)]
        kept: BySource = {}
        for name, of_source in pairs.items():
            kept[name] = []
            for pair in of_source:
                if all(normalized(text) not in of for text, of in zip(pair, sides, strict=True)):
                    kept[name].append(pair)
                elif name in self._kept:
                    self._reject(HELD_OUT, self._kept[name][pair])
        return kept

    def _reject(self, reason: str, line: Line) -> None:
        self.rejected[reason] += 1
        if self._sink:
            self._sink.write(f"{reason}\t{line.file}:{line.number}\t{line.raw}\n")


def choose_length_ratio(
    config: DataConfig, name: str, rows: Iterator[Row], log: Callable[[str], None]
) -> tuple[float, Iterator[Row]]:
    """Return the length ratio that pairs of a source are compared with, and its rows."""
    if config.typical_length_ratio is not None:
        return config.typical_length_ratio, rows
    ratio, rows = measure_length_ratio(rows, config.sources[name].columns)
    if ratio != 1:
        log(
            f"source '{name}': a target usually has {ratio:.2f} times as many characters as its "
            "source; data.max_length_ratio is relative to that"
        )
    return ratio, rows


def _split_sources(
    config: DataConfig, kept: BySource, log: Callable[[str], None]
) -> dict[str, BySource]:
    """Return the pairs of each split by source: shares of some sources, and files of their own."""
    splits: dict[str, BySource] = {TRAIN: {}, DEV: {}, TEST: {}}
    sources = config.sources
    for name, pairs in kept.items():
        if sources[name].split != "shares":
            splits[sources[name].split][name] = pairs
    shared = [
        (name, pair) for name in kept if sources[name].split == "shares" for pair in kept[name]
    ]
    if shared:
        found = split(
            [pair for _, pair in shared],
            dev=0 if splits[DEV] else config.dev,
            test=0 if splits[TEST] else config.test,
            seed=config.split_seed,
            log=log,
        )
        for (name, pair), which in zip(shared, found, strict=True):
            splits[which].setdefault(name, []).append(pair)
    return splits


def _read_patterns(sources: Mapping[str, SourceConfig]) -> BySource:
    """Return the generated pairs of every source that has them."""
    return {
        name: [
            Pair(*(pair[column] for column in source.columns))
            for pair in read_patterns(source.pairs, f"data.sources.{name}.pairs")
        ]
        for name, source in sources.items()
        if source.kind == PATTERNS and source.pairs
    }


def _weigh(
    config: DataConfig,
    train: BySource,
    in_loss: Mapping[str, Mapping[Pair, float]],
    changed: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Part, ...]:
    """Weigh the sources against each other: see `count_repeats`.

    Args:
        config: the ``data`` group.
        train: pairs to train on.
        in_loss: weights of single pairs, of the sources that have any.
        changed: weights of sources, in place of the configuration's; 0 leaves one out.
    """
    repeats = count_repeats(config, {name: len(pairs) for name, pairs in train.items()}, changed)
    parts = []
    for name, times in repeats.items():
        pairs = train[name]
        weighed = [in_loss[name][pair] for pair in pairs] if name in in_loss else None
        joined = _join(config, {name: pairs})
        made = config.sources[name].kind == PATTERNS
        parts.append(Part(name, joined, times, read=not made, weights=weighed))
    return tuple(parts)


def count_repeats(
    config: DataConfig,
    pairs: Mapping[str, int],
    changed: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, int]:
    """Return how often an epoch has each pair of a source.

    The source that has most pairs for its weight gives each of them once; the others repeat theirs
    to come near their weights. Generated pairs are never repeated: more of them can be had.

    Args:
        config: the ``data`` group.
        pairs: of each source.
        changed: weights of sources, in place of the configuration's; 0 leaves one out.

    Returns:
        By source, in their order: at least 1; those that are left out or have no pairs are missing.
    """
    sources = config.sources
    sizes = {name: pairs[name] for name in sources if pairs.get(name) and changed.get(name) != 0}
    weights = {
        name: weight
        for name, size in sizes.items()
        if (weight := changed.get(name, _weight_of(config, name, size))) is not None
    }
    per_weight = max((sizes[name] / weights[name] for name in weights), default=0)
    return {
        name: 1
        if sources[name].kind == PATTERNS
        else max(1, round(per_weight * weights.get(name, 0) / size))
        for name, size in sizes.items()
    }


def _weight_of(config: DataConfig, name: str, pairs: int) -> float | None:
    """Return the weight of a source, by the temperature where it has none of its own.

    Arivazhagan et al. 2019, Massively Multilingual Neural Machine Translation in the Wild, 4.2.
    """
    source = config.sources[name]
    if source.weight is not None or config.temperature is None or source.kind == PATTERNS:
        return source.weight
    return pairs ** (1 / config.temperature)


def list_pairs(parts: Sequence[Part]) -> list[Pair]:
    """Return an epoch: the pairs of every part, as often as it has them, in the order of files."""
    return [pair for part in parts for pair in part.pairs * part.repeats]


def list_weights(parts: Sequence[Part]) -> np.ndarray | None:
    """Return the weight in the loss of each pair that `list_pairs` returns: float32 [pairs].

    None: all are 1.
    """
    import numpy as np

    if all(part.weights is None for part in parts):
        return None
    found = [(part.weights or [1.0] * len(part.pairs)) * part.repeats for part in parts]
    return np.array([weight for weights in found for weight in weights], np.float32)


def _join(config: DataConfig, pairs: BySource) -> list[Pair]:
    """Return pairs in the order of their sources, as the model is to see them."""
    return [pair for name in config.sources for pair in turn(config, name, pairs.get(name, []))]


def turn(config: DataConfig, name: str, pairs: list[Pair]) -> list[Pair]:
    """Return pairs of a source as the model is to see them.

    Turned around where they are to be, and with the tag of the source before its sentences.
    """
    source = config.sources[name]
    if source.reverse != config.reverse:
        pairs = [Pair(pair.target, pair.source) for pair in pairs]
    if source.tag is None:
        return pairs
    # Cleaned, as the translator will read it.
    return [Pair(clean_text(f"{source.tag} {pair.source}"), pair.target) for pair in pairs]


def as_in_sources(config: DataConfig, pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs that a model sees as its sources have them: without tags, and not turned."""
    flips: dict[str, set[bool]] = {}  # by tag; "": none
    for source in config.sources.values():
        tag = f"{clean_text(source.tag)} " if source.tag is not None else ""
        flips.setdefault(tag, set()).add(source.reverse != config.reverse)
    flips.setdefault("", {config.reverse})  # a table without tags
    plain = []
    for pair in pairs:
        # The longest that fits, as the empty one always does.
        tag = max((tag for tag in flips if pair.source.startswith(tag)), key=len)
        text = Pair(pair.source.removeprefix(tag), pair.target)
        plain += [Pair(text.target, text.source) if flip else text for flip in sorted(flips[tag])]
    return plain


def _log_sizes(corpus: Corpus, log: Callable[[str], None]) -> None:
    train = corpus.train_pairs
    kept = train + len(corpus.dev) + len(corpus.test)
    log(
        f"corpus: {corpus.lines:,} lines, {kept:,} pairs kept: "
        f"{train:,} train, {len(corpus.dev):,} dev, {len(corpus.test):,} test"
    )
    for number, parts in enumerate(corpus.stages, 1):
        mixed = ", ".join(f"{part.source} {len(part.pairs) * part.repeats:,}" for part in parts)
        log(f"stage {number}: {mixed} pairs an epoch")
    if len(corpus.parts) > 1 or any(part.repeats > 1 for part in corpus.parts):
        for part in corpus.parts:
            times = f", {part.repeats} times an epoch" if part.repeats > 1 else ""
            log(f"source '{part.source}': {len(part.pairs):,} pairs to train on{times}")


def read_parallel(source: Path, reference: Path, encoding: str | None = None) -> list[Pair]:
    """Read two aligned files as they are, every line a pair: for evaluation, not for training.

    Args:
        source: the file of sources.
        reference: the file of their translations.
        encoding: of both; None: UTF-8.

    Raises:
        UserError: a file that is missing, damaged or in another encoding, a line over 1 MiB, or the
            numbers of lines differ.
    """
    pairs = []
    lines = read_aligned(source, reference, "--source", "--reference", encoding or UTF_8)
    for line in lines:
        if line.fault == TOO_LONG:
            raise UserError(
                f"line {line.number} of {source} or of {reference} is over 1 MiB: break it up"
            )
        if line.sides is not None:
            pairs.append(Pair(*line.sides))
    return pairs


def read_pairs(path: Path, key: str) -> list[Pair]:
    """Read a table of source TAB target, cleaned, to score on; what is no pair is left out.

    Args:
        path: of the table.
        key: of the configuration, for messages.

    Raises:
        UserError: it is missing or damaged, or has no pair.
    """
    lines = read_table(path, key, (0, 1))
    found = [pair for line in lines if isinstance(pair := clean_pair(line), Pair)]
    if not found:
        raise UserError(f"{key}={path} has no line of source TAB target")
    return found


def join_pairs(pairs: Sequence[Pair], size: int) -> list[Pair]:
    """Return pairs of `size` following pairs each, joined by spaces; what is over is left out.

    Raises:
        UserError: there are fewer pairs.
    """
    if size > len(pairs):
        raise UserError(f"there are {len(pairs)} pairs to join, and {size} are to be joined")
    return [
        Pair(*(" ".join(side) for side in zip(*pairs[i : i + size], strict=True)))
        for i in range(0, len(pairs) - size + 1, size)
    ]


def rejection_table(corpus: Corpus) -> Table:
    """Return a table of lines by fate: rejected for which reason, kept, and in which split."""
    table = Table("lines", "count", "share", title=f"Corpus: {corpus.lines:,} lines")
    table.columns[1].justify = table.columns[2].justify = "right"

    def row(label: str, count: int) -> None:
        table.add_row(label, f"{count:,}", f"{count / max(1, corpus.lines):.1%}")

    for reason, count in corpus.rejected.items():
        row(f"rejected: {reason}", count)
    table.add_section()
    train = corpus.train_pairs
    row("kept", train + len(corpus.dev) + len(corpus.test))
    table.add_section()
    row("train", train)
    row("dev", len(corpus.dev))
    row("test", len(corpus.test))
    for name, pairs in corpus.tests.items():
        row(f"test: {name}", len(pairs))
    return table


def say_few_pairs(
    config: DataConfig, name: str, pairs: int, lines: int, rejected: Counter[str]
) -> str:
    """Say that no line of a source is usable, or hardly any, and what may be wrong."""
    sources = config.sources
    which = f"data={config.name}" if len(sources) == 1 else f"source '{name}'"
    if not lines:
        return f"{which} is empty, 0 lines were read: add sentence pairs"
    reason, count = rejected.most_common(1)[0]
    columns = f"{key_of(sources, name, 'columns')} and " * (sources[name].kind in SHORT["columns"])
    return (
        f"{which}: {f'only {pairs:,}' if pairs else 'none'} of the {lines:,} lines read is usable, "
        f"most often because of '{reason}' ({count:,}): check {columns}the length limits, or see "
        "each line with data.rejected_file=FILE"
    )


@contextmanager
def _rejected_sink(config: DataConfig, path: Path | None) -> Iterator[TextIO | None]:
    """Open the file for rejected lines where there is to be one."""
    if path is None:
        yield None
        return
    path = path.expanduser()
    for source in config.sources.values():
        for name in (source.path, source.source_path, source.target_path, source.archive):
            if name and any(_are_one_file(path, file) for file in matching_files(name)):
                raise UserError(
                    f"data.rejected_file={path} would overwrite the corpus: name another file"
                )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file name that is no UTF-8 must not stop the report of what is wrong inside it.
        sink = path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as error:
        raise UserError(
            f"data.rejected_file={path} cannot be written ({error.strerror}): name another file"
        ) from error
    with attach_filename(path), sink:
        yield sink


def _are_one_file(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)
