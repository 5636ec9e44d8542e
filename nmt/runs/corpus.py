"""The corpus of a run: its record in the run folder, and reading it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

from nmt.config import DataConfig
from nmt.config.data import list_reverse_tags, list_tags
from nmt.config.sources import RUN, resolve_same_sources
from nmt.data.caching import digest_texts
from nmt.data.contexts import remove_contexts
from nmt.data.corpus import Corpus, EvaluationSet, load_corpus
from nmt.data.evaluation_sets import read_test_pairs
from nmt.data.languages import are_variants
from nmt.data.mixture import list_weights, to_source_view
from nmt.data.prepared import PreparedCorpus, load_prepared
from nmt.data.splitting import DEV, TEST, TRAIN, Pair
from nmt.errors import UserError
from nmt.runs.folder import RunFolder
from nmt.text.context import split_tag


def make_corpus_record(corpus: Corpus) -> dict[str, Any]:
    """Return what identifies a corpus in a run folder: counts, archives, digests of the splits."""
    splits = {DEV: corpus.dev, TEST: corpus.test}
    splits |= {f"tests.{name}": pairs for name, pairs in corpus.tests.items()}
    if isinstance(corpus, PreparedCorpus):
        digests = {TRAIN: str(corpus.manifest["digest"])}
    else:
        weights = list_weights(corpus.mixture)
        more = [] if weights is None else [weights.tobytes().hex()]
        digests = {TRAIN: _digest(corpus.train, *more)}
    digests |= {name: _digest(pairs) for name, pairs in splits.items()}
    return {
        "lines": corpus.lines,
        "rejected": corpus.rejected,
        "archives": corpus.archives,
        "length_ratios": corpus.length_ratios,
        "pairs": {TRAIN: corpus.epoch_pairs} | {name: len(pairs) for name, pairs in splits.items()},
        "digests": digests,
    }


def _digest(pairs: Sequence[Pair], *more: str) -> str:
    return digest_texts([text for pair in pairs for text in pair], *more)


def ignore(line: str) -> None:
    """Take a message that nobody reads."""


def read_tests(
    config: DataConfig,
    warn: Callable[[str], None] = ignore,
    readers: frozenset[Path] = frozenset(),
) -> dict[str, EvaluationSet]:
    """Read the test sets of ``data.tests``: tables of pairs, and test splits of runs.

    Pairs are returned in the direction in which the model translates. Those of a run with the
    opposite direction lose its tags, which would be part of targets.

    Args:
        config: the ``data`` group.
        warn: called with a line if the corpus of a run has changed since its training.
        readers: see `read_run_pairs`.

    Raises:
        UserError: a path is neither, or has no pair, or a run translates other languages or is one
            of ``readers``.
    """
    tests = {}
    sides = config.source_language, config.target_language
    for name, where in config.tests.items():
        path = Path(where).expanduser()
        if path.is_dir():
            run = RunFolder.open(path)
            run_data, key = run.config.data, f"data.tests.{name}"
            if run.path.resolve() in readers:
                raise UserError(
                    f"{key}={where}: a run cannot have its own test split as another test set: "
                    f"leave it out: '~{key}'"
                )
            try:
                pairs = read_corpus(run, ignore, readers, warn).test
            except UserError as error:
                raise UserError(
                    f"{key}={where}: its corpus cannot be read ({error}); restore it, or give a "
                    "table of pairs"
                ) from error
            if not pairs:
                raise UserError(f"{key}={where} is a run without a test split")
            is_reversed = _is_reversed(run, config.languages, key)
            source_view = to_source_view(run_data, pairs)
            if is_reversed != (run_data.reverse != config.reverse):
                source_view = _reverse(source_view)
            if is_reversed or not config.context:
                pairs = remove_contexts(pairs, list_tags(run_data))
            if is_reversed:
                pairs = _reverse_without_tags(pairs, run_data)
        else:
            pairs = read_test_pairs(path, f"data.tests.{name}", sides)
            if config.reverse:
                pairs = _reverse(pairs)
            source_view = to_source_view(config, pairs)
        tests[name] = EvaluationSet(pairs, source_view)
    return tests


def read_run_pairs(
    config: DataConfig,
    warn: Callable[[str], None] = ignore,
    readers: frozenset[Path] = frozenset(),
) -> dict[str, list[Pair]]:
    """Read the training pairs of other runs, as the sources of kind ``run`` have them.

    Args:
        config: the ``data`` group.
        warn: see `read_tests`.
        readers: folders of the runs whose corpora are being read: none may be part of itself.

    Returns:
        Pairs from ``data.source_language`` to ``data.target_language``, without contexts and those
        of weight 0, by name of the source.

    Raises:
        UserError: a run or its corpus cannot be read, or it has other languages, or the opposite
            direction and tags.
    """
    run_pairs = {}
    languages = (config.source_language, config.target_language)
    for name, source in resolve_same_sources(config).sources.items():
        if source.kind != RUN:
            continue
        key = f"data.sources.{name}"
        run = RunFolder.open(Path(str(source.run)).expanduser())
        try:
            if run.path.resolve() in readers:
                raise UserError("it would be part of itself")
            corpus = read_corpus(run, ignore, readers, warn)
            weights = list_weights(corpus.mixture)
            train: Iterable[Pair] = corpus.train
            if weights is not None:
                train = compress(train, weights)
            pairs = remove_contexts(train, list_tags(run.config.data))
        except UserError as error:
            raise UserError(
                f"{key}.run={run.path}: its corpus cannot be read ({error}); restore it, or train "
                f"without it: '~{key}'"
            ) from error
        is_reversed = _is_reversed(run, languages, key)
        if is_reversed and list_tags(run.config.data):
            raise UserError(
                f"{key}.run={run.path}: the sources of this run begin with tags, which would be "
                f"part of targets in the opposite direction: leave it out: '~{key}'"
            )
        run_pairs[name] = _reverse(pairs) if is_reversed else pairs
    return run_pairs


def _is_reversed(run: RunFolder, languages: tuple[str, str], key: str) -> bool:
    """Whether a run translates between two languages in the other direction.

    Args:
        run: the run.
        languages: BCP 47 tags; variants match, as en-GB does en.
        key: of the configuration, under which the run is used.

    Raises:
        UserError: it has other languages.
    """
    run_languages = run.config.data.languages
    if run_languages in (languages, languages[::-1]):
        return run_languages != languages
    for is_reversed, order in ((False, languages), (True, languages[::-1])):
        if all(map(are_variants, run_languages, order)):
            return is_reversed
    raise UserError(
        f"{key}: {run.path} translates {' to '.join(run_languages)}, and this corpus is of "
        f"{' and '.join(languages)}: name another run, or leave it out: '~{key}'"
    )


def _reverse(pairs: Sequence[Pair]) -> list[Pair]:
    return [Pair(pair.target, pair.source) for pair in pairs]


def _reverse_without_tags(pairs: Sequence[Pair], config: DataConfig) -> list[Pair]:
    """Return pairs of a run in the opposite of its first direction, without tags.

    Pairs that the run has in that direction already are not reversed.

    Args:
        pairs: as the run has them, without contexts.
        config: the ``data`` group of the run.
    """
    tags, reverse_tags = list_tags(config), list_reverse_tags(config)
    result = []
    for pair in pairs:
        tag, source = split_tag(pair.source, tags)
        is_reversed = tag.strip() in reverse_tags
        result.append(Pair(source, pair.target) if is_reversed else Pair(pair.target, source))
    return result


def has_corpus_changed(run: RunFolder, corpus: Corpus) -> bool:
    """Return whether the corpus differs from the one that the run was trained on."""
    return run.read_corpus_record().get("digests") != make_corpus_record(corpus)["digests"]


def read_dev_digest(run: RunFolder) -> str | None:
    """Return the digest of a run's dev split; None: it is not recorded."""
    return run.read_corpus_record().get("digests", {}).get(DEV)


def read_corpus(
    run: RunFolder,
    log: Callable[[str], None],
    readers: frozenset[Path] = frozenset(),
    warn: Callable[[str], None] | None = None,
) -> Corpus:
    """Read the corpus that a run was trained on; warn if it has changed since.

    Nothing is written, whatever the run's configuration says, since it may be untrusted.

    Args:
        run: the run.
        log: called with progress messages.
        readers: see `read_run_pairs`.
        warn: called with the warning; None: ``log``.
    """
    config, warn = run.config, warn or log
    readers |= {run.path.resolve()}
    if config.data.prepared is not None:
        corpus: Corpus = load_prepared(config.data)
    else:
        corpus = load_corpus(
            config.data,
            cache_dir=Path(config.cache_dir),
            tests=read_tests(config.data, warn, readers),
            run_pairs=read_run_pairs(config.data, warn, readers),
            read_only=True,
            log=log,
        )
    if has_corpus_changed(run, corpus):
        warn(f"warning: the corpus has changed since {run.path} was trained on it")
    return corpus
