"""Samples, and the comparison of their translations."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from nmt import Translator
from nmt.errors import UserError
from nmt.formats.comparison import compare, read_sources
from nmt.formats.export import select_samples
from nmt.inference.results import Translation
from nmt.runs.folder import RunFolder
from nmt.text.context import CONTEXT_MARK


class Letters:
    """A token per character."""

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.arange(len(text)) for text in texts]


def translation(text: str, log_prob: float) -> Translation:
    return Translation(text, log_prob, log_prob, ())


def test_samples_are_the_newest_ones_that_fit(tmp_path: Path) -> None:
    for step, source in ((5, "old"), (12, "new")):
        rows = f"source\treference\toutput\n{source}\ta\tb\n{source} and too long\ta\tb\n \ta\tb\n"
        (tmp_path / f"step_{step:08d}.tsv").write_text(rows, encoding="utf-8")
    assert read_sources(tmp_path, ["probe"], Letters(), 10) == ["new"]
    assert read_sources(tmp_path / "none", ["probe"], Letters(), 10) == ["probe"]
    assert read_sources(tmp_path / "none", ["probe"], Letters(), 5) == []


def test_damaged_samples_are_named(tmp_path: Path) -> None:
    (tmp_path / "step_00000001.tsv").write_bytes(b"source\treference\toutput\n\xff\ta\tb\n")
    with pytest.raises(UserError, match=r"step_00000001\.tsv is damaged"):
        read_sources(tmp_path, ["probe"], Letters(), 10)


def test_differences_have_causes() -> None:
    sources = ["a", "b", "c", "d"]
    run = [translation(text, -2.0) for text in "ABCD"]
    export = [
        translation("A", -2.5),  # equal text is enough
        translation("x", -2.0009),
        translation("y", -2.5),
        translation("z", -2.5),
    ]

    def rescore(source: str, translated: Translation) -> float:
        assert translated in run
        return {"c": -2.0009, "d": -2.1}[source]

    comparison = compare(sources, run, export, rescore)
    assert comparison.sentences == 4
    assert [(item.source, item.cause) for item in comparison.differences] == [
        ("b", "tie"), ("c", "search"), ("d", "weights"),
    ]  # fmt: skip
    assert [item.source for item in comparison.wrong] == ["d"]
    unscored = compare(sources, run, export)
    assert [item.source for item in unscored.wrong] == ["c", "d"]
    assert "-2.5000  z" in str(comparison.wrong[0])


def test_samples_that_an_export_reads_otherwise_are_left_out(
    parrot_run: Path, tmp_path: Path
) -> None:
    run = RunFolder.open(shutil.copytree(parrot_run, tmp_path / "run"))
    translator = Translator.load(run.path)
    sources = [
        "Hola.",
        "Hola (no).",
        "<b>Hola</b> no.",
        "Hola & no.",
        "Hola. No.",
        "“Hola” no.",
        "S&iacute;.",
    ]
    rows = "".join(f"{source}\ta\tb\n" for source in sources)
    text = f"source\treference\toutput\n{rows}"
    (run.samples / "step_99999999.tsv").write_text(text, encoding="utf-8")
    assert select_samples(run, translator, "savedmodel") == ["Hola."]
    assert select_samples(run, translator, "keras") == ["Hola.", "Hola & no.", "S&iacute;."]


def test_a_savedmodel_gets_samples_without_their_context(parrot_run: Path, tmp_path: Path) -> None:
    run = RunFolder.open(shutil.copytree(parrot_run, tmp_path / "run"))
    row = f"Tengo sueño {CONTEXT_MARK} Hola.\ta\tb\n"
    text = f"source\treference\toutput\n{row}"
    (run.samples / "step_99999999.tsv").write_text(text, encoding="utf-8")
    assert select_samples(run, Translator.load(run.path), "savedmodel") == ["Hola."]
