"""Runs that learn corrections: outputs change towards them, and the rest stays as it was."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sample_corpora import complaint

from nmt import Translator, fit
from nmt.inference.lexicon import Lexicon
from nmt.runs.corpus import read_corpus, read_run_pairs
from nmt.runs.folder import RunFolder
from nmt.runs.samples import read_newest_samples
from nmt.training.job import Run

pytestmark = pytest.mark.xdist_group("corrections")

LEARNED = 4  # corrections


@pytest.fixture(scope="module")
def table(parrot_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write corrections: translations of other sentences."""
    samples = read_newest_samples(parrot_run / "samples")  # which the run has memorised
    path = tmp_path_factory.mktemp("corrections") / "corrections.tsv"
    rows = [
        (source, samples[-1 - number][1], target, "2026-01-01T00:00:00Z")
        for number, (source, target, _) in enumerate(samples[:LEARNED])
    ]
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def learn(start: Path, table: Path, *overrides: str, shown: io.StringIO | None = None) -> Run:
    folder = table.parent
    return fit(
        [
            f"training.start_from={start}",
            "data=corrections",
            f"data.train={table}",
            f"runs_dir={folder / 'runs'}",
            f"cache_dir={folder / 'cache'}",
            "training.jit_compile=off",
            "training.probes=[]",
            "training.samples=0",
            *overrides,
        ],
        console=Console(file=shown or io.StringIO(), width=300),
    )


@pytest.fixture(scope="module")
def start(parrot_run: Path) -> Iterator[Path]:
    """Give the run a lexicon, which the other runs must not lose."""
    Lexicon(np.array([1, 2], np.int64), np.array([0.5, 0.5], np.float32), None).save(parrot_run)
    yield parrot_run
    (parrot_run / "lexicon.npz").unlink()


@pytest.fixture(scope="module")
def corrected(start: Path, table: Path) -> Run:
    return learn(start, table, "training.max_epochs=30", "training.learning_rate=3e-3")


def test_outputs_change_towards_the_corrections(
    parrot_run: Path, table: Path, corrected: Run
) -> None:
    rows = [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()]
    pairs = [(row[0], row[1]) for row in rows]
    before, after = (
        [score.log_prob for score in Translator.load(run).score(pairs)]
        for run in (parrot_run, corrected.path)
    )
    assert all(np.array(after) > np.array(before) + 1), "nats"
    outputs = corrected.translator().translate([source for source, _ in pairs])
    assert sum(output == row[1] for output, row in zip(outputs, rows, strict=True)) >= LEARNED / 2


def test_it_trains_on_three_pairs_of_the_run_for_each_correction(
    start: Path, table: Path, corrected: Run
) -> None:
    corpus = read_corpus(corrected.folder, print)
    corrections, others = corpus.mixture
    assert (len(corrections.pairs), corrections.repeats, others.repeats) == (LEARNED, 1, 1)
    assert corpus.lines == LEARNED + 3 * LEARNED
    general = read_corpus(RunFolder.open(start), print)
    assert set(others.pairs) <= set(general.train)
    assert not {pair.source for pair in others.pairs} & {pair.source for pair in corrections.pairs}
    assert not set(corpus.train) & {*general.dev, *general.test}


def test_it_keeps_what_the_run_has_determined(start: Path, corrected: Run) -> None:
    before, after = RunFolder.open(start), corrected.folder
    assert after.load_tokenizer().fingerprint == before.load_tokenizer().fingerprint
    assert after.config.data.languages == before.config.data.languages
    assert after.config.model.dropout == before.config.model.dropout
    for key in ("row_lengths", "batch_tokens", "positions_per_update", "accumulate"):
        assert getattr(after.config.training, key) == getattr(before.config.training, key)
    assert Lexicon.load(after.path) is not None


def test_a_corrected_run_is_corrected_again(table: Path, corrected: Run, tmp_path: Path) -> None:
    more = tmp_path / "corrections.tsv"
    more.write_text("algo nuevo\tsomething new\n", encoding="utf-8")
    again = learn(corrected.path, more, "training.max_epochs=1")
    train = read_corpus(again.folder, print).train
    assert len(train) == 4
    assert set(train[1:]) <= set(read_corpus(corrected.folder, print).train)


def test_a_run_without_its_corpus_says_what_to_do(
    start: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = Path(str(RunFolder.open(start).config.data.sources["pairs"].path))
    moved = corpus.with_name("moved.tsv")
    corpus.rename(moved)
    try:
        message = complaint(lambda: learn(start, table))
        assert "its corpus cannot be read" in message
        assert "'~data.sources.general'" in message
        without_corpus = learn(start, table, "~data.sources.general", "training.max_epochs=1")
    finally:
        moved.rename(corpus)
    assert without_corpus.complete
    assert len(read_corpus(without_corpus.folder, print).train) == LEARNED


def test_a_corpus_is_not_part_of_itself(corrected: Run) -> None:
    folder = RunFolder.open(corrected.path)
    folder.config.data.sources["general"].run = str(corrected.path)
    assert "it would be part of itself" in complaint(lambda: read_corpus(folder, print))


def test_pairs_of_a_run_in_the_other_direction_are_reversed(start: Path, corrected: Run) -> None:
    data = RunFolder.open(corrected.path).config.data
    pairs = read_run_pairs(data)["general"]
    data.source_language, data.target_language = data.target_language, data.source_language
    assert [pair[::-1] for pair in read_run_pairs(data)["general"]] == pairs
    data.source_language = "fr"
    assert "translates es to en" in complaint(lambda: read_run_pairs(data))
