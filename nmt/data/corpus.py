"""Sentence pairs: read from named sources, filtered, and split without leaks.

`load_corpus` is the entry point. Every line becomes one `Pair` or is counted under one reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TextIO

from nmt.config.sources import PATTERNS, RUN, TRANSLATIONS, resolve_same_sources
from nmt.data.contexts import ContextReader
from nmt.data.embedded import read_patterns
from nmt.data.filtering import (
    CORRECTED,
    DUPLICATE,
    HELD_OUT,
    INVALID_WEIGHT,
    choose_length_ratio,
    clean_pair,
    filter_line,
    find_corrected,
    parse_weight,
)
from nmt.data.mixture import (
    Contexts,
    Mixture,
    PairsBySource,
    list_pairs,
    mix_sources,
    sample_run,
    to_model_view,
)
from nmt.data.reading import Line, Row, parse_row, read_rows
from nmt.data.rejections import check_accepted, open_rejected_file, write_rejected
from nmt.data.splitting import DEV, TEST, TRAIN, Pair, normalized, split
from nmt.errors import UserError, suggest

if TYPE_CHECKING:
    from nmt.config import DataConfig, SourceConfig


@dataclass(frozen=True)
class Corpus:
    """The training pairs by source, the dev and test splits, and the counts of all lines."""

    mixture: Mixture
    dev: list[Pair]
    test: list[Pair]
    rejected: dict[str, int]  # reason -> lines, the most frequent first
    lines: int  # all lines read, accepted or rejected
    archives: dict[str, str] = field(default_factory=dict)  # source of kind zip -> its SHA-256
    tests: dict[str, list[Pair]] = field(default_factory=dict)  # additional test sets, by name
    stages: tuple[Mixture, ...] = ()  # mixtures of `data.stages`; empty: `mixture` throughout
    length_ratios: dict[str, float] = field(default_factory=dict)  # see `choose_length_ratio`

    def scored_pairs(self, name: str) -> list[Pair]:
        """Return dev, test, or one of ``data.tests`` by its name.

        Raises:
            UserError: no split has that name.
        """
        splits = {DEV: self.dev, TEST: self.test} | self.tests
        if name not in splits:
            raise UserError(f"there is no split '{name}'{suggest(name, splits)}")
        return splits[name]

    @cached_property
    def train(self) -> list[Pair]:
        """The pairs of an epoch, repeats included."""
        return list_pairs(self.mixture)

    @property
    def epoch_pairs(self) -> int:
        """Pairs in an epoch, repeats and generated pairs included."""
        return len(self.train)

    @property
    def train_pairs(self) -> int:
        """Training pairs that were read from lines, without repeats."""
        return sum(len(source.pairs) for source in self.mixture if source.is_read)


class EvaluationSet(NamedTuple):
    """Pairs of ``data.tests``, which are scored on and must not be trained on."""

    pairs: list[Pair]  # as the model sees them
    source_view: list[Pair]  # as sources may have them: see `to_source_view`


def load_corpus(
    config: DataConfig,
    *,
    cache_dir: Path,
    tests: Mapping[str, EvaluationSet] = MappingProxyType({}),
    run_pairs: Mapping[str, Sequence[Pair]] = MappingProxyType({}),
    read_only: bool = False,
    rejected_file: Path | None = None,
    log: Callable[[str], None] = lambda message: None,
) -> Corpus:
    """Read, filter and split the configured corpus; the same files always give the same corpus.

    Args:
        config: the ``data`` group of the configuration.
        cache_dir: keeps downloaded archives.
        tests: the sets that ``data.tests`` names.
        run_pairs: training pairs of other runs, by the source of kind ``run`` that they are for.
        read_only: whether ``cache_dir`` is left unchanged.
        rejected_file: where rejected lines are written, with their reasons. It is an argument so
            that reading the corpus of a run never writes where the run's configuration says.
        log: called with progress messages.

    Raises:
        UserError: a file is missing or damaged, a download fails, no line is usable, or
            ``data.dev`` and ``data.test`` are too large for the corpus.
    """
    config = resolve_same_sources(config)
    archives: dict[str, str] = {}
    with open_rejected_file(config, rejected_file) as file:
        corpus_filter = _CorpusFilter(config, file, log, has_tests=bool(tests))
        read = partial(
            read_rows,
            config.sources,
            cache_dir=cache_dir,
            log=log,
            hashes=archives,
            languages=(config.source_language, config.target_language),
            read_only=read_only,
        )
        test_pairs = [pair for test in tests.values() for pair in test.source_view]
        splits = _read_splits(config, corpus_filter, read, run_pairs, test_pairs, log)
    mixture, *stages = _mix_stages(config, splits[TRAIN], corpus_filter)
    corpus = Corpus(
        mixture,
        dev=_join_sources(config, splits[DEV], corpus_filter.contexts),
        test=_join_sources(config, splits[TEST], corpus_filter.contexts),
        rejected=dict(corpus_filter.rejected.most_common()),
        lines=corpus_filter.lines,
        archives=archives,
        tests={name: test.pairs for name, test in tests.items()},
        stages=tuple(stages),
        length_ratios=corpus_filter.length_ratios,
    )
    _log_sizes(corpus, log)
    return corpus


def _mix_stages(
    config: DataConfig, train: PairsBySource, corpus_filter: _CorpusFilter
) -> list[Mixture]:
    """Return the mixture without stages, and that of each stage.

    Raises:
        UserError: one has no pairs.
    """
    mixtures = [
        mix_sources(config, train, corpus_filter.weights, source_weights, corpus_filter.contexts)
        for source_weights in ({}, *(stage.weights for stage in config.stages))
    ]
    if not all(mixtures):
        raise UserError(
            f"data={config.name}: nothing is left to train on, every pair shares a side with one "
            "in dev or test"
        )
    return mixtures


def _read_splits(
    config: DataConfig,
    corpus_filter: _CorpusFilter,
    read: Callable[[str], Iterator[Row]],
    run_pairs: Mapping[str, Sequence[Pair]],
    test_pairs: Sequence[Pair],
    log: Callable[[str], None],
) -> dict[str, PairsBySource]:
    """Read all sources; return the accepted pairs of each split, by source."""
    accepted = {
        name: corpus_filter.read(name, read(name))
        for name, source in config.sources.items()
        if source.kind not in (PATTERNS, RUN)
    }
    sizes = {name: len(pairs) for name, pairs in accepted.items()}
    for name, pairs in run_pairs.items():
        sample = sample_run(config, name, pairs, sizes)
        rows = (
            Row(str(config.sources[name].run), number, (pair.source.encode(), pair.target.encode()))
            for number, pair in enumerate(sample, 1)
        )
        accepted[name] = corpus_filter.read(name, rows)
    splits = _split_sources(config, corpus_filter.without_file_overlap(accepted), log)
    splits[TRAIN] |= _read_patterns(config.sources)
    splits[TRAIN] |= corpus_filter.without_held_out(splits, test_pairs)
    return splits


class _CorpusFilter:
    """Accepts or rejects the lines of all sources, counts them, and writes rejected ones."""

    def __init__(
        self,
        config: DataConfig,
        file: TextIO | None,
        log: Callable[[str], None],
        *,
        has_tests: bool,
    ) -> None:
        self._config, self._file, self._log = config, file, log
        self.length_ratios: dict[str, float] = {}  # by source
        self.weights: dict[str, dict[Pair, float]] = {}  # source -> pair -> weight in the loss
        self.contexts: dict[str, dict[Pair, str]] = {}  # of ordered sources, by pair
        self.rejected: Counter[str] = Counter()  # reason -> lines
        self.lines = 0
        # Training pairs accepted so far, by tag and direction.
        self._accepted: dict[tuple[str | None, bool], set[Pair]] = {}
        # Accepted pairs may be rejected as held out after all sources are read; this keeps their
        # lines for the report: source -> pair -> line.
        self._lines_of: dict[str, dict[Pair, Line]] = {}
        self._keeps_lines = has_tests or any(
            source.split != "shares" for source in config.sources.values()
        )
        # Normalized sources of kind translations: pairs of another run give way to them.
        self._corrected: set[str] = set()

    def read(self, name: str, rows: Iterator[Row]) -> list[Pair]:
        """Return the accepted pairs of a source.

        Raises:
            UserError: no line is accepted.
        """
        source = self._config.sources[name]
        is_training = source.split in ("shares", "train")
        accepted = self._accepted.setdefault((source.tag, source.reverse), set())
        weights = self.weights.setdefault(name, {}) if len(source.columns or ()) > 2 else None
        lines_of = self._lines_of.setdefault(name, {})
        pairs = []
        lines_before, rejected_before = self.lines, self.rejected.copy()
        ratio = 1.0
        if is_training:
            ratio, rows = choose_length_ratio(self._config, name, rows, self._log)
            self.length_ratios[name] = ratio
        previous = ContextReader(self._config, source)
        contexts = self.contexts.setdefault(name, {})
        corrected: set[int] = set()
        if source.kind == TRANSLATIONS:
            rows = iter(all_rows := list(rows))
            corrected = find_corrected(all_rows)
        for index, row in enumerate(rows):
            line = parse_row(row)
            context = previous.read(line)
            self.lines += 1
            # Dev and test files are only cleaned, so that scores on them stay comparable.
            pair = filter_line(line, self._config, ratio) if is_training else clean_pair(line)
            if isinstance(pair, Pair) and (
                index in corrected
                or (source.kind == RUN and normalized(pair.source) in self._corrected)
            ):
                pair = CORRECTED
            elif is_training and pair in accepted:
                pair = DUPLICATE
            weight = 1.0 if weights is None else parse_weight(line.weight)
            if isinstance(pair, Pair) and weight is None:
                pair = INVALID_WEIGHT
            if not isinstance(pair, Pair):
                self._reject(pair, line)
                continue
            if weights is not None and weight is not None:
                weights[pair] = weight
            pairs.append(pair)
            if context:
                contexts[pair] = context
            if is_training:
                accepted.add(pair)
                if self._keeps_lines:
                    lines_of[pair] = line
        if source.kind == TRANSLATIONS:
            self._corrected |= {normalized(pair.source) for pair in pairs}
        lines = self.lines - lines_before
        check_accepted(self._config, name, len(pairs), lines, self.rejected - rejected_before)
        return pairs

    def without_file_overlap(self, pairs: PairsBySource) -> PairsBySource:
        """Return pairs by source, where sources with shares have no side of a dev or test file.

        Otherwise a share drawn for test could hold pairs of the dev file, and the reverse.
        """
        sources = self._config.sources
        files = [name for name in pairs if sources[name].split in (DEV, TEST)]
        shared = {name: pairs[name] for name in pairs if sources[name].split == "shares"}
        held_out = [pair for name in files for pair in pairs[name]]
        return pairs | self._without_overlap(shared, held_out)

    def without_held_out(
        self, splits: Mapping[str, PairsBySource], test_pairs: Sequence[Pair]
    ) -> PairsBySource:
        """Return training pairs, by source, that share no side with a pair to score on.

        Sources that are already free of them, as they were split by groups, are not returned.

        Args:
            splits: of the corpus.
            test_pairs: pairs of ``data.tests``, as the sources may have them.
        """
        groups = [*splits[DEV].values(), *splits[TEST].values(), test_pairs]
        unchecked = {
            name: pairs
            for name, pairs in splits[TRAIN].items()
            if self._config.sources[name].split != "shares" or test_pairs
        }
        return self._without_overlap(unchecked, [pair for pairs in groups for pair in pairs])

    def _without_overlap(self, pairs: PairsBySource, held_out: Sequence[Pair]) -> PairsBySource:
        """Reject pairs that share a normalized side with a held-out pair; return the others."""
        if not held_out:
            return pairs
        sources = {normalized(pair.source) for pair in held_out}
        targets = {normalized(pair.target) for pair in held_out}
        disjoint: PairsBySource = {}
        for name, source_pairs in pairs.items():
            disjoint[name] = []
            for pair in source_pairs:
                if normalized(pair.source) in sources or normalized(pair.target) in targets:
                    if name in self._lines_of:  # generated pairs come from no line
                        self._reject(HELD_OUT, self._lines_of[name][pair])
                else:
                    disjoint[name].append(pair)
        return disjoint

    def _reject(self, reason: str, line: Line) -> None:
        self.rejected[reason] += 1
        if self._file:
            write_rejected(self._file, reason, line)


def _split_sources(
    config: DataConfig, pairs: PairsBySource, log: Callable[[str], None]
) -> dict[str, PairsBySource]:
    """Return the pairs of each split by source: from files of their own, and from shares."""
    splits: dict[str, PairsBySource] = {TRAIN: {}, DEV: {}, TEST: {}}
    shared: list[tuple[str, Pair]] = []
    for name, source_pairs in pairs.items():
        destination = config.sources[name].split
        if destination == "shares":
            shared += [(name, pair) for pair in source_pairs]
        else:
            splits[destination][name] = source_pairs
    if shared:
        destinations = split(
            [pair for _, pair in shared],
            dev=0 if splits[DEV] else config.dev,
            test=0 if splits[TEST] else config.test,
            seed=config.split_seed,
            log=log,
        )
        for (name, pair), destination in zip(shared, destinations, strict=True):
            splits[destination].setdefault(name, []).append(pair)
    return splits


def _read_patterns(sources: Mapping[str, SourceConfig]) -> PairsBySource:
    """Return the generated pairs of every source of kind patterns."""
    return {
        name: [
            Pair(*(pair[column] for column in source.columns or (0, 1)))
            for pair in read_patterns(source.pairs, f"data.sources.{name}.pairs")
        ]
        for name, source in sources.items()
        if source.kind == PATTERNS and source.pairs
    }


def _join_sources(config: DataConfig, pairs: PairsBySource, contexts: Contexts) -> list[Pair]:
    """Return the pairs of all sources in configured order, as the model sees them."""
    return [
        pair
        for name in config.sources
        for pair in to_model_view(config, name, pairs.get(name, []), contexts.get(name))
    ]


def _log_sizes(corpus: Corpus, log: Callable[[str], None]) -> None:
    train = corpus.train_pairs
    accepted = train + len(corpus.dev) + len(corpus.test)
    log(
        f"corpus: {corpus.lines:,} lines, {accepted:,} pairs kept: "
        f"{train:,} train, {len(corpus.dev):,} dev, {len(corpus.test):,} test"
    )
    for number, mixture in enumerate(corpus.stages, 1):
        sizes = (f"{source.name} {len(source.pairs) * source.repeats:,}" for source in mixture)
        log(f"stage {number}: {', '.join(sizes)} pairs an epoch")
    if len(corpus.mixture) > 1 or any(source.repeats > 1 for source in corpus.mixture):
        for source in corpus.mixture:
            times = f", {source.repeats} times an epoch" if source.repeats > 1 else ""
            log(f"source '{source.name}': {len(source.pairs):,} pairs to train on{times}")
