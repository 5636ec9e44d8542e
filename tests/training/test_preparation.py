"""From a configuration to batches: slow parts are done once, and said in the same words again."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sample_configs import changed, configured
from sample_corpora import complaint, configure, singles, table

from nmt.config import Config, SourceConfig
from nmt.data.corpus import Corpus
from nmt.data.encoded import EncodedCorpus, load_encoded
from nmt.data.mixture import SourcePairs
from nmt.data.noise_workers import NoiseWorkers
from nmt.data.prepared import PreparedCorpus
from nmt.data.splitting import Pair
from nmt.data.tokenizer import UNK
from nmt.runs.folder import RunFolder
from nmt.text.context import add_context
from nmt.training import preparation
from nmt.training.preparation import (
    list_probe_candidates,
    plan_dev,
    plan_training,
    prepare_corpus,
    prepare_tokenizer,
    resolve_vocabulary,
)

TRAIN = [Pair(f"la frase número {number}", f"sentence number {number}") for number in range(40)]
MIXTURE = (SourcePairs("pairs", TRAIN, 1, is_read=True),)
CORPUS = Corpus(MIXTURE, dev=TRAIN[:3], test=[], rejected={}, lines=40)


def tiny(folder: Path) -> Config:
    changes = {
        "cache_dir": str(folder / "cache"),
        "data.phrases": 0,
        "tokenizer.vocabulary_size": 5000,
        "tokenizer.min_characters_per_piece": 3,
        "training.batch_tokens": 128,
    }
    return changed(configured("model=tiny"), changes)


def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def said(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_rejected_lines_are_written_where_training_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "corpus.tsv").write_text(f"solo\n{table(singles(2))}")
    path = tmp_path / "rejected.tsv"
    data = configure(path=str(tmp_path / "corpus.tsv"))
    prepare_corpus(replace(tiny(tmp_path), data=data), console())
    assert not path.exists()
    data = replace(data, rejected_file=str(path))
    assert len(prepare_corpus(replace(tiny(tmp_path), data=data), console()).train) == 2
    assert path.read_text() == f"missing column\t{tmp_path / 'corpus.tsv'}:1\tsolo\n"


def test_a_tokenizer_is_trained_once_and_says_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again, other, newer = console(), console(), console(), console()
    config = tiny(tmp_path)
    tokenizer = prepare_tokenizer(config, CORPUS, first)
    assert said(first)[0] == "training the bpe tokenizer on 80 lines"
    assert said(first)[1].startswith("tokenizer.vocabulary_size 5000 is lowered to")
    assert prepare_tokenizer(config, CORPUS, again).fingerprint == tokenizer.fingerprint
    assert said(again) == said(first)[1:]
    changes = {"tokenizer.min_characters_per_piece": 4}
    prepare_tokenizer(changed(config, changes), CORPUS, other)
    assert said(other)[0] == said(first)[0]  # another configuration, another tokenizer
    monkeypatch.setattr(preparation, "_VERSION", "another")
    prepare_tokenizer(config, CORPUS, newer)
    assert said(newer) == said(first)


OTHERS = [Pair(f"otras palabras distintas {n}", f"different words {n}") for n in range(40)]


@pytest.mark.parametrize(("pairs", "is_new"), [(TRAIN[::-1], False), (OTHERS, True)])
def test_a_corpus_that_a_tokenizer_cuts_well_keeps_it(
    tmp_path: Path, pairs: list[Pair], is_new: bool
) -> None:
    """The tokenizer of the run has learned the pairs of `TRAIN`."""
    changes = {"tokenizer.vocabulary_size": 4000, "runs_dir": str(tmp_path)}
    stored = changed(tiny(tmp_path), changes)
    run, shown = RunFolder.create(stored), Console(file=io.StringIO(), width=1000)
    prepare_tokenizer(stored, CORPUS, console()).save(run.path)
    corpus = replace(CORPUS, mixture=(SourcePairs("pairs", pairs, 1, is_read=True),))
    start = {"training.start_from": str(run.path), "training.new_vocabulary": None}
    config = changed(tiny(tmp_path), start)
    resolved = resolve_vocabulary(config, corpus, shown)
    assert resolved.training.new_vocabulary is is_new
    assert resolved.tokenizer == (config if is_new else stored).tokenizer
    [line] = said(shown)
    assert line.startswith(f"the tokenizer of {run.path} cuts the corpus into ")
    assert line.endswith(f"training.new_vocabulary={str(is_new).lower()}")
    assert resolve_vocabulary(resolved, corpus, shown) == resolved
    assert resolve_vocabulary(stored, corpus, shown) == stored  # starts from no run
    assert said(shown) == [line]


@pytest.mark.parametrize(("old_tokens", "is_new"), [(109, False), (111, True)])
def test_tokenizers_are_compared_on_pairs_of_the_whole_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old_tokens: int, is_new: bool
) -> None:
    compared: list[list[Pair]] = []

    def count_tokens(tokenizer: int, pairs: list[Pair]) -> int:
        compared.append(pairs)
        return tokenizer

    run = SimpleNamespace(load_tokenizer=lambda: old_tokens, config=tiny(tmp_path))
    monkeypatch.setattr(RunFolder, "open", lambda path: run)
    monkeypatch.setattr(preparation, "prepare_tokenizer", lambda *arguments: 100)
    monkeypatch.setattr(preparation, "_count_tokens", count_tokens)
    monkeypatch.setattr(preparation, "_COMPARED", 2)
    start = {"training.start_from": str(tmp_path), "training.new_vocabulary": None}
    resolved = resolve_vocabulary(changed(tiny(tmp_path), start), CORPUS, console())
    assert resolved.training.new_vocabulary is is_new
    assert compared == [[TRAIN[0], TRAIN[20]]] * 2


def test_both_sides_are_counted_and_unknown_tokens_several_times() -> None:
    target = SimpleNamespace(encode=lambda texts: [np.array([UNK, 7])])
    tokenizer: Any = SimpleNamespace(encode=lambda texts: [np.array([7, 8, 9])], target=target)
    assert preparation._count_tokens(tokenizer, [Pair("a", "b")]) == 3 + 8 + 2


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_a_tokenizer_that_cannot_read_the_corpus_is_replaced(tmp_path: Path, kind: str) -> None:
    changes = {"tokenizer.lowercase_source": False, "tokenizer.slots": 0, "tokenizer.kind": kind}
    config = changed(tiny(tmp_path), {**changes, "runs_dir": str(tmp_path)})
    run = RunFolder.create(config)
    prepare_tokenizer(config, CORPUS, console()).save(run.path)
    pairs = [Pair(f"η πρόταση {number}", f"речення {number}") for number in range(40)]
    greek = replace(CORPUS, mixture=(SourcePairs("pairs", pairs, 1, is_read=True),))
    start = {"training.start_from": str(run.path), "training.new_vocabulary": None}
    assert resolve_vocabulary(changed(config, start), greek, console()).training.new_vocabulary


def test_a_tokenizer_is_trained_on_a_bounded_number_of_lines(tmp_path: Path) -> None:
    """Spread over all pairs, always the same; up to the bound, it changes nothing."""
    whole, bounded, again = console(), console(), console()
    config = tiny(tmp_path)
    tokenizer = prepare_tokenizer(changed(config, {"training.tokenizer_lines": 80}), CORPUS, whole)
    assert said(whole)[0] == "training the bpe tokenizer on 80 lines"
    unbounded = changed(config, {"training.tokenizer_lines": 10**9})
    assert prepare_tokenizer(unbounded, CORPUS, console()).fingerprint == tokenizer.fingerprint
    few = changed(config, {"training.tokenizer_lines": 21})
    sampled = prepare_tokenizer(few, CORPUS, bounded)
    assert said(bounded)[0] == "training the bpe tokenizer on 20 of 80 lines"
    assert sampled.fingerprint != tokenizer.fingerprint
    tenth = replace(CORPUS, mixture=(SourcePairs("pairs", TRAIN[::4], 1, is_read=True),))
    assert prepare_tokenizer(config, tenth, again).fingerprint == sampled.fingerprint
    assert not any("training the" in line for line in said(again))  # of the same lines, it is kept


def test_training_pairs_are_samples_where_there_is_no_dev(tmp_path: Path) -> None:
    assert list_probe_candidates(CORPUS) == TRAIN[:3]
    assert list_probe_candidates(replace(CORPUS, dev=[])) == TRAIN
    prepared = PreparedCorpus((), [], [], {}, 40, folder=tmp_path)
    assert list_probe_candidates(prepared) == []


def test_batches_are_planned_of_train_and_of_dev(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    tokenizer = prepare_tokenizer(config, CORPUS, console())
    training = replace(config.training, row_lengths=[32], accumulate=2)
    config = replace(config, training=training)
    [batches] = plan_training(config, CORPUS, tokenizer)
    assert (batches.pairs, batches.skipped) == (40, 0)
    assert batches.shapes == [(8, 32)]  # two micro-batches of 128 positions
    dev = plan_dev(config, CORPUS, tokenizer)
    assert dev is not None
    assert dev.pairs == 3
    assert plan_dev(config, replace(CORPUS, dev=[]), tokenizer) is None


WORDS = [f"{a}{b}" for a in "bcdfg" for b in "aeiou"]


def tagged_corpus() -> Corpus:
    """Sentences whose words are translated one by one, from one source with a tag and another."""
    rng = random.Random(1)
    pairs = []
    for _ in range(200):
        words = [rng.choice(WORDS) for _ in range(4)]
        pairs.append(Pair(" ".join(words), " ".join(f"{word}s" for word in words)))
    tagged = [Pair(f"<2en> {pair.source}", pair.target) for pair in pairs]
    mixture = (
        SourcePairs("tagged", tagged, 1, is_read=True),
        SourcePairs("patterns", pairs, 1, is_read=False),
    )
    return Corpus(mixture, dev=[], test=[], rejected={}, lines=200)


def test_phrases_of_the_pairs_are_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the tag of their source, and not those of generated pairs."""
    monkeypatch.setattr("nmt.data.phrases._FUNCTION_WORDS", 0)
    planned: list[Sequence[Pair]] = []

    def encode(pairs: Sequence[Pair], *arguments: Any) -> EncodedCorpus:
        planned.append(pairs)
        return load_encoded(pairs, *arguments)

    monkeypatch.setattr("nmt.training.preparation.load_encoded", encode)
    sources = {
        "tagged": SourceConfig(kind="files", path="a.tsv", tag="<2en>"),
        "patterns": SourceConfig(kind="patterns", pairs=200, split="train"),
    }
    config, corpus = tiny(tmp_path), tagged_corpus()
    config = replace(config, data=replace(config.data, sources=sources, phrases=0.1))
    tokenizer = prepare_tokenizer(config, corpus, console())
    plan_training(config, corpus, tokenizer)
    plan_training(replace(config, data=replace(config.data, phrases=0)), corpus, tokenizer)
    assert planned[1] == corpus.train
    assert planned[0][:400] == corpus.train
    added = planned[0][400:]
    assert len(added) == 20
    assert Pair("<2en> ba", "bas") in added
    assert all(pair.source.startswith("<2en> ") for pair in added)
    # What dev, test or another test set has is left out.
    first, second, third = added[:3]
    tested = replace(
        corpus,
        dev=[Pair(f"{first.source}!", "?")],
        test=[Pair("?", f"¿{second.target}?")],
        # As of a run whose tags are other ones.
        tests={"more": [Pair(third.source.replace("<2en>", "<any>"), "?")]},
        held_out_tests=[Pair(third.source.removeprefix("<2en> "), "?")],
    )
    plan_training(config, tested, tokenizer)
    assert {first, second, third}.isdisjoint(planned[2])
    assert {*added[3:]} < {*planned[2][400:]}


@pytest.mark.parametrize(
    ("tag", "sources", "weights", "read", "phrases"),
    [
        (None, ["uno", "dos"], [1.0, 0.0], ["uno"], ["uno"]),
        (None, ["uno", "<2en> dos"], None, [], []),  # tags that phrases would lack
        ("<2en>", ["<2en> uno"], None, ["uno"], ["<2en> uno"]),
        (None, [add_context("dos", ["uno"])], None, ["dos"], ["dos"]),
        (None, ["tres"], None, ["tres"], []),  # a test sentence
    ],
)
def test_phrases_are_those_of_bare_sentences(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tag: str | None,
    sources: list[str],
    weights: list[float] | None,
    read: list[str],
    phrases: list[str],
) -> None:
    given: list[Pair] = []

    def load_phrases(pairs: list[Pair], cache_dir: Path) -> list[Pair]:
        given.extend(pairs)
        return pairs

    monkeypatch.setattr(preparation, "load_phrases", load_phrases)
    pairs = SourcePairs(
        "a", [Pair(text, "t") for text in sources], 1, is_read=True, weights=weights
    )
    known = {"a": SourceConfig("files", path="a.tsv", tag=tag)}
    config = tiny(tmp_path)
    config = replace(config, data=replace(config.data, sources=known, known_tags=["<2en>"]))
    found = preparation._find_phrases(config, pairs, {"tres"})
    assert [pair.source for pair in given] == read
    assert [pair.source for pair in found] == phrases


def test_pairs_that_fit_into_no_row_are_not_trained_on(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    tokenizer = prepare_tokenizer(config, CORPUS, console())
    training = replace(config.training, row_lengths=[4])
    config = replace(config, training=training)
    message = complaint(lambda: plan_training(config, CORPUS, tokenizer))
    assert message.startswith("every training pair is longer than training.row_lengths=[4] tokens")
    assert plan_dev(config, CORPUS, tokenizer) is None


def test_pairs_without_weight_are_not_trained_on(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    tokenizer = prepare_tokenizer(config, CORPUS, console())
    source = replace(MIXTURE[0], weights=[0.0] * len(TRAIN))
    corpus = replace(CORPUS, mixture=(source,))
    message = complaint(lambda: plan_training(config, corpus, tokenizer))
    assert message.startswith("data.columns: every pair to train on has weight 0")
    both = replace(corpus, mixture=(source, *MIXTURE))
    [batches] = plan_training(config, both, tokenizer)
    assert batches.pairs == 80


def test_tags_of_sources_are_pieces_of_the_tokenizer(tmp_path: Path) -> None:
    """Of the same texts, another tokenizer than without them."""
    config = tiny(tmp_path)
    texts = [Pair(f"<2en> {pair.source}", pair.target) for pair in TRAIN]
    corpus = Corpus(
        (SourcePairs("pairs", texts, 1, is_read=True),), dev=[], test=[], rejected={}, lines=40
    )
    plain = prepare_tokenizer(config, corpus, console())
    sources = {"pairs": SourceConfig(kind="files", path="a.tsv", tag="<2en>")}
    tagged = replace(config, data=replace(config.data, sources=sources))
    tokenizer = prepare_tokenizer(tagged, corpus, console())
    assert tokenizer.fingerprint != plain.fingerprint
    ids = tokenizer.encode(["<2en> la frase"])[0]
    assert tokenizer.pieces(ids)[0] == "▁<2en>"


@pytest.mark.parametrize(
    ("gpus", "cores", "processes"), [([], 16, None), (["GPU"], 64, 8), (["GPU"], 4, 2)]
)
def test_processes_add_noise_where_a_gpu_trains(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: list[str],
    cores: int,
    processes: int | None,
) -> None:
    monkeypatch.setattr(preparation, "gpus", lambda: gpus)
    monkeypatch.setattr(preparation, "cores", lambda: cores)
    config = changed(tiny(tmp_path), {"data.noise.typos": 0.1})
    tokenizer = prepare_tokenizer(config, CORPUS, console())
    [batches] = plan_training(config, CORPUS, tokenizer)
    workers = batches._noise if isinstance(batches._noise, NoiseWorkers) else None
    assert (workers and workers._count) == processes
