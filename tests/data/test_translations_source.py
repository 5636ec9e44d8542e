"""Corrections as a source: the newest translation wins, pairs of a run fill up, none is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sample_configs import LANGUAGES, composed, configured
from sample_corpora import complaint, configure

from nmt.config import SourceConfig
from nmt.config.files import from_composed
from nmt.data.corpus import Corpus, EvaluationSet, load_corpus
from nmt.data.splitting import Pair
from nmt.runs.resuming import job_config

Lines = Sequence[str]


def write_table(folder: Path, *lines: str) -> str:
    path = folder / "corrections.tsv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def load(path: str, run_pairs: dict[str, list[Pair]] | None = None, **changes: Any) -> Corpus:
    sources = {"corrections": SourceConfig(kind="translations", path=path, split="train", weight=1)}
    for name in run_pairs or {}:
        sources[name] = SourceConfig(kind="run", run="run", split="train", weight=3)
    of_load = {key: changes.pop(key) for key in ("rejected_file", "tests") if key in changes}
    config = configure(sources, **changes)
    return load_corpus(config, cache_dir=Path("nowhere"), run_pairs=run_pairs or {}, **of_load)


def general(count: int) -> list[Pair]:
    return [Pair(f"frase {number}", f"sentence {number}") for number in range(count)]


def test_the_newest_translation_of_a_text_wins(tmp_path: Path) -> None:
    rejected = tmp_path / "rejected.tsv"
    table = write_table(
        tmp_path,
        "el coche\tthe car\tthe coach\t2026-01-01T00:00:00Z",
        "la casa\tthe house\tthe home\t2026-01-01T00:00:00Z",
        "el  coche\tthe automobile\tthe car\t2026-01-02T00:00:00Z",
        "el coche\tthe car\tthe automobile\t2026-01-03T00:00:00Z",
        "la casa\t\tthe house\t2026-01-03T00:00:00Z",  # nothing was written
    )
    corpus = load(table, rejected_file=rejected)
    assert corpus.train == [Pair("la casa", "the house"), Pair("el coche", "the car")]
    assert corpus.rejected == {"corrected later": 2, "empty side": 1}
    assert f"corrected later\t{table}:3\t" in rejected.read_text(encoding="utf-8")


def test_a_rejected_translation_does_not_replace_one(tmp_path: Path) -> None:
    """Nor does one whose weight is no number."""
    long = " ".join(["car"] * 30)
    table = write_table(
        tmp_path,
        "el coche\tthe car\t1",
        f"el coche\t{long}\t1",
        "la casa\tthe house\t2",
        "la casa\tthe home\tmany",
    )
    source = SourceConfig("translations", path=table, split="train", weight=1, columns=[0, 1, 2])
    corpus = load_corpus(configure({"corrections": source}), cache_dir=Path("nowhere"))
    assert corpus.train == [Pair("el coche", "the car"), Pair("la casa", "the house")]
    assert corpus.rejected == {"length ratio": 1, "weight that is no number": 1}


@pytest.mark.parametrize(("size", "count"), [(100, 6), (4, 4), (6, 6)])
def test_pairs_of_a_run_are_as_many_as_their_weight_allows(
    tmp_path: Path, size: int, count: int
) -> None:
    table = write_table(tmp_path, "el coche\tthe car", "la casa\tthe house")
    corpus = load(table, {"general": general(size)})
    corrections, others = corpus.mixture
    assert (corrections.repeats, others.repeats) == (1, 2 if count < 6 else 1)
    assert len(others.pairs) == count
    assert set(others.pairs) <= set(general(size))
    assert others.pairs[0] == general(1)[0]
    if size == 100:  # spread over the corpus
        assert others.pairs[-1].source == "frase 83"
    assert corpus.lines == 2 + count


def test_pairs_of_a_run_give_way_to_corrections(tmp_path: Path) -> None:
    table = write_table(tmp_path, "¡El coche!\tThe automobile!")
    pairs = [Pair("El coche.", "The car."), Pair("la casa", "the house")]
    corpus = load(table, {"general": pairs})
    assert corpus.train[0] == Pair("¡El coche!", "The automobile!")
    assert set(corpus.train[1:]) == {Pair("la casa", "the house")}
    assert corpus.rejected == {"corrected later": 1}


def test_tags_do_not_hide_a_corrected_sentence(tmp_path: Path) -> None:
    table = write_table(tmp_path, "<2en> el coche\tthe automobile", "la casa\tthe home")
    pairs = [Pair("el coche", "the car"), Pair("<2en> la casa", "the house"), *general(1)]
    corpus = load(table, {"general": pairs}, known_tags=["<2en>"])
    assert set(corpus.mixture[1].pairs) == set(general(1))
    assert corpus.rejected == {"corrected later": 2}


def test_tags_and_directions_of_a_run_do_not_hide_a_test_pair(tmp_path: Path) -> None:
    test = [Pair("el coche", "the car"), Pair("<2en> la casa", "the house")]
    pairs = [
        Pair("<2en> El coche.", "The automobile."),
        Pair("<2es> The car!", "¡El carro!"),
        Pair("a house", "La casa."),
        *general(1),
    ]
    corpus = load(
        write_table(tmp_path, "hola\thello", "sol\tsun"),
        {"general": pairs},
        tests={"x": EvaluationSet(test, test)},
        known_tags=["<2en>", "<2es>"],
    )
    assert set(corpus.mixture[1].pairs) == set(general(1))
    assert corpus.rejected == {"in dev or test": 3}


def test_files_of_translators_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "messages.po"
    path.write_text('msgid "Guardar"\nmsgstr "Save"\n', encoding="utf-8")
    assert load(str(path)).train == [Pair("Guardar", "Save")]
    path.write_text('msgid ""\nmsgstr "Language: de\\n"\n', encoding="utf-8")
    message = complaint(lambda: load(str(path)))
    assert message.startswith(f"data.train={path}: its target language is de")
    gone = tmp_path / "gone.tmx"
    assert "does not exist" in complaint(lambda: load(str(gone)))


CORRECTIONS = ("data=corrections", "data.train=c.tsv")


def test_no_correction_is_rejected_for_its_length(tmp_path: Path) -> None:
    long = " ".join(f"palabra{number}" for number in range(500))
    table = write_table(tmp_path, f"{long}\tshort", f"x\t{long} two", "a\tb")
    overrides = ("data=corrections", f"data.train={table}", "training.start_from=run", *LANGUAGES)
    config = configured(*overrides)
    assert len(load_corpus(config.data, cache_dir=tmp_path).mixture[0].pairs) == 3


def test_it_configures_training_and_can_be_overridden() -> None:
    config = configured(*CORRECTIONS, "training.start_from=run", *LANGUAGES)
    assert config.data.sources["general"].run == "run"
    assert (config.training.new_vocabulary, config.data.dev, config.data.test) == (False, 0, 0)
    default = configured()
    assert config.training.max_epochs is not None
    assert default.training.max_epochs is None
    overrides = (*CORRECTIONS, *LANGUAGES, "training.start_from=run", "training.max_epochs=3")
    assert configured(*overrides).training.max_epochs == 3
    assert configured(*overrides, "training=default").training.new_vocabulary is None
    without_run = configured(*overrides, "~data.sources.general")
    assert list(without_run.data.sources) == ["corrections"]


def test_corrections_need_the_run_that_they_correct() -> None:
    message = complaint(lambda: job_config(composed(*CORRECTIONS), list(CORRECTIONS)))
    assert message.startswith("data=corrections needs training.start_from=RUN")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("data.sources.a.kind=run",), "source 'a' needs data.sources.a.run=RUN"),
        (
            ("data.sources.a.kind=files", "data.sources.a.run=x"),
            "run needs kind=run, got kind=files",
        ),
        (("data.sources.a.kind=translations",), "needs data.sources.a.path=FILE"),
    ],
)
def test_incomplete_sources_say_what_they_need(overrides: Sequence[str], message: str) -> None:
    added = [f"+{override}" for override in overrides]
    assert message in complaint(lambda: from_composed(composed(*added)))
