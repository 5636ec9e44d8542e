"""Sentence pairs: read from named sources, filtered, and split without leaks.

`load_corpus` is the entry point. Every line becomes one `Pair` or is counted under one reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nmt.config.sources import PATTERNS, RUN, list_paths, resolve_same_sources
from nmt.data.corpus_filter import CorpusFilter
from nmt.data.embedded import read_patterns
from nmt.data.mixture import (
    Contexts,
    Groups,
    Mixture,
    PairsBySource,
    list_by_occurrence,
    list_pairs,
    mix_sources,
    sample_run,
    to_model_view,
)
from nmt.data.reading import Row, read_rows
from nmt.data.rejections import open_rejected_file, write_rejected
from nmt.data.splitting import DEV, TEST, TRAIN, Pair, check_split, split
from nmt.errors import UserError

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
    # Pairs of all of `tests`, as sources may have them: see `EvaluationSet`.
    held_out_tests: list[Pair] = field(default_factory=list)
    stages: tuple[Mixture, ...] = ()  # mixtures of `data.stages`; empty: `mixture` throughout
    length_ratios: dict[str, float] = field(default_factory=dict)  # see `choose_length_ratio`
    # Of dev and test, if a source has a `group_column`: the group of each pair, "" for none.
    groups: dict[str, list[str]] = field(default_factory=dict)

    def scored_pairs(self, name: str) -> list[Pair]:
        """Return dev, test, or one of ``data.tests`` by its name.

        Raises:
            UserError: no split has that name.
        """
        check_split(name, self.tests)
        return ({DEV: self.dev, TEST: self.test} | self.tests)[name]

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
        read_only: for an existing run: ``cache_dir`` stays unchanged, languages are not checked.
        rejected_file: where rejected lines are written, with their reasons. It is an argument so
            that reading the corpus of a run never writes where the run's configuration says.
        log: called with progress messages.

    Raises:
        UserError: a file is missing, damaged or in another language, a download fails, no line is
            usable, or ``data.dev`` and ``data.test`` are too large for the corpus.
    """
    config = resolve_same_sources(config)
    archives: dict[str, str] = {}
    with open_rejected_file(config, rejected_file) as file:
        reject = partial(write_rejected, file) if file else lambda reason, line: None
        checks = config.check_languages and not read_only
        corpus_filter = CorpusFilter(
            config, log, reject, has_tests=bool(tests), checks_languages=checks
        )
        read = partial(
            read_rows,
            config.sources,
            cache_dir=cache_dir,
            log=log,
            hashes=archives,
            languages=(config.source_language, config.target_language),
            read_only=read_only,
        )
        splits = _read_splits(config, corpus_filter, read, run_pairs, tests, log)
    mixture, *stages = _mix_stages(config, splits[TRAIN], corpus_filter)
    corpus = Corpus(
        mixture,
        dev=_join_sources(config, splits[DEV], corpus_filter.contexts),
        test=_join_sources(config, splits[TEST], corpus_filter.contexts),
        rejected=dict(corpus_filter.rejected.most_common()),
        lines=corpus_filter.lines,
        archives=archives,
        tests={name: test.pairs for name, test in tests.items()},
        held_out_tests=_list_source_views(tests),
        stages=tuple(stages),
        length_ratios=corpus_filter.length_ratios,
        groups=_list_groups(config, splits, corpus_filter),
    )
    _log_sizes(corpus, log)
    return corpus


def _mix_stages(
    config: DataConfig, train: PairsBySource, corpus_filter: CorpusFilter
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
        reason = _explain_no_training_data(config)
        raise UserError(f"data={config.name}: nothing is left to train on, {reason}")
    return mixtures


def _explain_no_training_data(config: DataConfig) -> str:
    """Return why no pair is left for training."""
    files = {
        Path(path).expanduser() for each in config.sources.values() for path in list_paths(each)
    }
    for name, path in config.tests.items():
        if Path(path).expanduser() in files:
            return f"data.tests.{name}={path} is the training data itself: give another file"
    names = ["dev", "test", *(f"data.tests.{name}={path}" for name, path in config.tests.items())]
    return f"every pair shares a side with one in {', '.join(names[:-1])} or {names[-1]}"


def _read_splits(
    config: DataConfig,
    corpus_filter: CorpusFilter,
    read: Callable[[str], Iterator[Row]],
    run_pairs: Mapping[str, Sequence[Pair]],
    tests: Mapping[str, EvaluationSet],
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
    accepted = corpus_filter.without_file_overlap(accepted)
    splits = _split_sources(config, accepted, corpus_filter.groups, log)
    splits[DEV] |= corpus_filter.dev_without_test(splits)
    splits[TRAIN] |= _read_patterns(config.sources)
    splits[TRAIN] |= corpus_filter.without_held_out(splits, _list_source_views(tests))
    return splits


def _list_source_views(tests: Mapping[str, EvaluationSet]) -> list[Pair]:
    return [pair for test in tests.values() for pair in test.source_view]


def _split_sources(
    config: DataConfig, pairs: PairsBySource, groups: Groups, log: Callable[[str], None]
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
            groups=[groups.get(name, {}).get(pair, [""])[0] for name, pair in shared],
        )
        for (name, pair), destination in zip(shared, destinations, strict=True):
            splits[destination].setdefault(name, []).append(pair)
    if all(source.split != "shares" for source in config.sources.values()):
        for name, size in ((DEV, config.dev), (TEST, config.test)):
            if size and not splits[name]:
                log(f"data.{name}={size:.10g} is ignored: no source has split=shares")
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


def _list_groups(
    config: DataConfig, splits: Mapping[str, PairsBySource], corpus_filter: CorpusFilter
) -> dict[str, list[str]]:
    """Return the group of each pair of dev and test, "" for none; empty without groups."""
    if not corpus_filter.has_groups:
        return {}
    return {
        split_name: [
            group
            for name in config.sources
            for group in list_by_occurrence(
                splits[split_name].get(name, []), corpus_filter.groups.get(name, {})
            )
        ]
        for split_name in (DEV, TEST)
    }


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
