"""Corpus, tokenizer and batches of a run from its configuration; slow results are cached."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from dataclasses import asdict, replace
from itertools import chain, repeat
from pathlib import Path

from rich.console import Console

from nmt.config import Config
from nmt.config.data import list_reserved, list_tags
from nmt.config.sources import source_key
from nmt.data.batches import BatchPlan, InMemoryBatches
from nmt.data.caching import cached_folder, digest_texts
from nmt.data.corpus import Corpus, load_corpus
from nmt.data.encoded import EncodedCorpus, encode_pairs, fit_contexts, load_encoded
from nmt.data.language_check import check_test_sets
from nmt.data.mixture import (
    Mixture,
    SourcePairs,
    add_phrases,
    list_pairs,
    list_weights,
    to_source_view,
)
from nmt.data.noise import BatchNoise, RowNoise
from nmt.data.noise_workers import NoiseWorkers
from nmt.data.phrases import load_phrases
from nmt.data.prepared import PreparedBatches, PreparedCorpus, load_prepared
from nmt.data.splitting import Pair, normalized, sample_evenly
from nmt.data.tokenizer import UNK, Tokenizer, load_tokenizer
from nmt.data.tokenizer_training import list_texts, read_training_log, train_and_save
from nmt.errors import UserError
from nmt.runs.corpus import read_run_pairs, read_tests
from nmt.runs.folder import RunFolder
from nmt.startup.devices import cores, gpus
from nmt.text.cleaning import clean_text
from nmt.text.context import remove_context, split_context, split_tag
from nmt.text.source_words import SourceWords

_MAX_NOISE_WORKERS = 8  # one process changes 18,000 pairs per second, an H200 trains on more

_VERSION = "1"  # of the tokenizers of the same texts and configuration
_COMPARED = 5000  # training pairs on which two tokenizers are compared
_MIN_GAIN = 1.1  # tokens of the tokenizer of another run per token of a new one
_UNKNOWN = 8  # tokens as which an unknown one counts, which may be a whole word
_CANDIDATES = 1000  # training pairs from which probes are chosen without a dev split


def prepare_corpus(config: Config, console: Console) -> Corpus:
    """Read, clean and split the corpus; write rejected lines to ``data.rejected_file``, if set."""
    if config.data.prepared is not None:
        return load_prepared(config.data)
    rejected = config.data.rejected_file
    is_new = config.training.resume is None
    data = replace(config.data, check_languages=config.data.check_languages and is_new)
    tests = read_tests(data, console.print)
    check_test_sets(data, tests)
    return load_corpus(
        data,
        cache_dir=Path(config.cache_dir),
        tests=tests,
        run_pairs=read_run_pairs(config.data, console.print),
        rejected_file=Path(rejected) if rejected else None,
        log=console.print,
    )


def prepare_tokenizer(config: Config, corpus: Corpus, console: Console) -> Tokenizer:
    """Train the tokenizer on lines of the training split, or load it from the cache."""
    if isinstance(corpus, PreparedCorpus):
        return corpus.load_tokenizer()
    pairs = sample_evenly(corpus.train, config.training.tokenizer_lines // 2)
    texts = list_texts(config.tokenizer, pairs)
    reserved = list_reserved(config.data)
    settings = json.dumps(asdict(config.tokenizer), sort_keys=True)
    key = digest_texts(texts, _VERSION, settings, *reserved)

    def write(folder: Path) -> None:
        lines = 2 * len(corpus.train)
        total = f" of {lines:,}" if len(texts) < lines else ""
        kind = config.tokenizer.kind
        console.print(f"training the {kind} tokenizer on {len(texts):,}{total} lines")
        train_and_save(folder, config.tokenizer, texts, reserved)

    folder = cached_folder(Path(config.cache_dir) / "tokenizers" / key, write)
    for line in read_training_log(folder):
        console.print(line)
    return load_tokenizer(folder)


def resolve_vocabulary(config: Config, corpus: Corpus, console: Console) -> Config:
    """Return the configuration with ``training.new_vocabulary`` resolved, and its tokenizer.

    A run that starts from another trains a tokenizer if that cuts the new corpus into clearly fewer
    tokens. A small or similar corpus has nothing to gain by it (docs/experiments.md).
    """
    training, start = config.training, config.training.start_from
    if start is None or training.new_vocabulary is not None:
        return config
    run = RunFolder.open(Path(start))
    pairs = sample_evenly(corpus.train, _COMPARED)
    new, old = prepare_tokenizer(config, corpus, Console(quiet=True)), run.load_tokenizer()
    ratio = _count_tokens(old, pairs) / _count_tokens(new, pairs)
    is_new = ratio > _MIN_GAIN
    tokenizer = config.tokenizer if is_new else run.config.tokenizer
    console.print(
        f"the tokenizer of {start} cuts the corpus into {ratio:.2f} times as many tokens as a new "
        f"one: training.new_vocabulary={str(is_new).lower()}"
    )
    return replace(config, tokenizer=tokenizer, training=replace(training, new_vocabulary=is_new))


def _count_tokens(tokenizer: Tokenizer, pairs: Sequence[Pair]) -> int:
    """Return the number of tokens of pairs; unknown ones count as several."""
    sources, targets = zip(*pairs, strict=True)
    encoded = [*tokenizer.encode(sources), *tokenizer.target.encode(targets)]
    return sum(len(ids) + _UNKNOWN * int((ids == UNK).sum()) for ids in encoded)


def count_source_words(corpus: Corpus) -> SourceWords | None:
    """Return the words of the training sources; None if a prepared corpus lacks them."""
    if isinstance(corpus, PreparedCorpus):
        return corpus.source_words()
    sources = dict.fromkeys(pair.source for pair in corpus.train)
    return SourceWords.count(map(remove_context, sources))


def list_probe_candidates(corpus: Corpus) -> Sequence[Pair]:
    """Return the dev split or, if it is empty, some training pairs.

    Both may be empty: a prepared corpus has no text of its training pairs.
    """
    if corpus.dev or isinstance(corpus, PreparedCorpus):
        return corpus.dev
    return sample_evenly(corpus.train, _CANDIDATES)


def plan_training(config: Config, corpus: Corpus, tokenizer: Tokenizer) -> Sequence[BatchPlan]:
    """Encode the training split and plan the batches of each of at least one stage.

    Raises:
        UserError: no pair of a stage fits into a row, or a prepared corpus has other ids.
    """
    if isinstance(corpus, PreparedCorpus):
        return _plan_prepared(config, corpus, tokenizer)
    mixtures = corpus.stages or (corpus.mixture,)
    if config.data.phrases:
        splits = to_source_view(config.data, [*corpus.dev, *corpus.test])
        scored = chain(splits, corpus.held_out_tests)
        held_out = {normalized(side) for pair in scored for side in pair}
        phrases = {
            source.name: _find_phrases(config, source, held_out) for source in corpus.mixture
        }
        mixtures = tuple(add_phrases(each, phrases, config.data.phrases) for each in mixtures)
    noise = _make_noise(config, tokenizer)
    return [_plan_stage(config, mixture, tokenizer, noise) for mixture in mixtures]


def _find_phrases(config: Config, source: SourcePairs, held_out: Set[str]) -> list[Pair]:
    """Return the phrases of a source as the model reads them: with its tag.

    Args:
        config: the configuration.
        source: pairs of weight 0 give no phrases.
        held_out: normalized texts of dev and test, which are not used as phrases.
    """
    if not source.is_read:
        return []
    tag, tags = config.data.sources[source.name].tag, list_tags(config.data)
    if tag is None and any(split_tag(pair.source, tags)[0] for pair in source.pairs):
        return []  # the pairs have tags of their own, which their phrases would lack
    mark = f"{clean_text(tag)} " if tag is not None else ""
    pairs = [
        Pair(split_context(pair.source.removeprefix(mark))[1], pair.target)
        for pair, weight in zip(source.pairs, source.weights or repeat(1.0), strict=False)
        if weight
    ]
    return [
        Pair(f"{mark}{phrase.source}", phrase.target)
        for phrase in load_phrases(pairs, Path(config.cache_dir))
        if held_out.isdisjoint(map(normalized, phrase))
    ]


def _plan_prepared(config: Config, corpus: PreparedCorpus, tokenizer: Tokenizer) -> list[BatchPlan]:
    if tokenizer.fingerprint != corpus.manifest["tokenizer"]:
        raise UserError(
            f"data.prepared={corpus.folder} is encoded with another tokenizer: to train on it from "
            "the weights of another run, set training.new_vocabulary=true"
        )
    positions = config.training.positions_per_update
    noise = _make_noise(config, tokenizer)
    mixtures = corpus.stage_repeats or (corpus.repeats,)
    return [
        _check_not_empty(
            config,
            PreparedBatches(corpus, repeats, positions=positions, seed=config.seed, noise=noise),
        )
        for repeats in mixtures
    ]


def _plan_stage(
    config: Config, mixture: Mixture, tokenizer: Tokenizer, noise: RowNoise | None
) -> BatchPlan:
    pairs = _fit_contexts(config, list_pairs(mixture), tokenizer)
    encoded = load_encoded(pairs, tokenizer, Path(config.cache_dir))
    weights = encoded.weights = list_weights(mixture)
    if weights is not None and not weights.any():
        name = next(source.name for source in mixture if source.weights)
        raise UserError(
            f"{source_key(name, 'columns')}: every pair to train on has weight 0, so that nothing "
            "is learned: raise some weights, or leave out the third column"
        )
    return _check_not_empty(config, _plan_batches(config, encoded, noise))


def _make_noise(config: Config, tokenizer: Tokenizer) -> RowNoise | None:
    """Return what changes training pairs; None if nothing does."""
    noise = config.data.noise
    if not noise.is_on:
        return None
    tags = list_tags(config.data)
    changes = BatchNoise(noise.rates, tokenizer, config.data.languages, tags, config.seed)
    processes = min(_MAX_NOISE_WORKERS, cores() // 2) if gpus() else 0
    return NoiseWorkers(changes, processes) if processes else changes


def _check_not_empty(config: Config, batches: BatchPlan) -> BatchPlan:
    if not batches.pairs:
        raise UserError(
            "every training pair is longer than training.row_lengths="
            f"{config.training.row_lengths} tokens: add a longer row length"
        )
    return batches


def plan_dev(config: Config, corpus: Corpus, tokenizer: Tokenizer) -> InMemoryBatches | None:
    """Encode the dev split and plan its batches; None if no pair fits into a row."""
    pairs = _fit_contexts(config, corpus.dev, tokenizer)
    batches = _plan_batches(config, encode_pairs(pairs, tokenizer))
    return batches if batches.pairs else None


def _fit_contexts(config: Config, pairs: Sequence[Pair], tokenizer: Tokenizer) -> list[Pair]:
    """Return pairs whose contexts fit into the longest row."""
    if not config.data.context:
        return list(pairs)
    max_tokens = max(config.training.row_lengths) - 1  # EOS
    return fit_contexts(pairs, tokenizer, max_tokens, list_tags(config.data))


def _plan_batches(
    config: Config, encoded: EncodedCorpus, noise: RowNoise | None = None
) -> InMemoryBatches:
    training = config.training
    return InMemoryBatches(
        encoded,
        row_lengths=training.row_lengths,
        positions=training.positions_per_update,
        seed=config.seed,
        noise=noise,
    )
