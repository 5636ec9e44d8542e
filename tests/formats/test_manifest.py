"""The manifest: samples, their comparison, and what is written down."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from nmt.config import Config
from nmt.errors import UserError
from nmt.formats import manifest
from nmt.formats.manifest import Check, Difference
from nmt.inference.results import Translation


class Letters:
    """A token per character."""

    vocabulary_size = 30
    fingerprint = "f"

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.arange(len(text)) for text in texts]


def translation(text: str, log_prob: float) -> Translation:
    return Translation(text, log_prob, log_prob, ())


def test_samples_are_the_newest_ones_that_fit(tmp_path: Path) -> None:
    for step, source in ((5, "old"), (12, "new")):
        rows = f"source\treference\toutput\n{source}\ta\tb\n{source} and too long\ta\tb\n \ta\tb\n"
        (tmp_path / f"step_{step:08d}.tsv").write_text(rows, encoding="utf-8")
    assert manifest.read_samples(tmp_path, ["probe"], Letters(), 10) == ["new"]
    assert manifest.read_samples(tmp_path / "none", ["probe"], Letters(), 10) == ["probe"]
    assert manifest.read_samples(tmp_path / "none", ["probe"], Letters(), 5) == []


def test_damaged_samples_are_named(tmp_path: Path) -> None:
    (tmp_path / "step_00000001.tsv").write_bytes(b"source\treference\toutput\n\xff\ta\tb\n")
    with pytest.raises(UserError, match=r"step_00000001\.tsv is damaged"):
        manifest.read_samples(tmp_path, ["probe"], Letters(), 10)


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

    check = manifest.compare(sources, run, export, rescore)
    assert check.sentences == 4
    assert [(found.source, found.cause) for found in check.different] == [
        ("b", "tie"), ("c", "search"), ("d", "weights"),
    ]  # fmt: skip
    assert [found.source for found in check.wrong] == ["d"]
    unknown = manifest.compare(sources, run, export)
    assert [found.source for found in unknown.wrong] == ["c", "d"]
    assert "-2.5000  z" in str(check.wrong[0])


def test_content(tmp_path: Path, compose: Callable[..., Config]) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "weights").write_bytes(b"123")
    (tmp_path / manifest.MANIFEST_FILE).touch()
    difference = Difference("a", "b", -1.0, "c", -2.0, "search")
    content = manifest.make_manifest(
        tmp_path,
        "the run",
        compose("decoding.beam_size=7"),
        Letters(),
        {"BLEU": 50.1},
        Check(3, [difference]),
        {"format": "some", "quantization": "int8"},
    )
    assert json.loads(json.dumps(content)) == {
        "format": "some",
        "quantization": "int8",
        "nmt": version("nmt"),
        "run": "the run",
        "scores": {"BLEU": 50.1},
        "source_language": "es",
        "target_language": "en",
        "tokenizer": {"kind": "unigram", "fingerprint": "f", "vocabulary_size": 30},
        "positions": 256,
        "decoding": content["decoding"],
        "check": {
            "sentences": 3,
            "equal": 2,
            "different": [
                {
                    "source": "a",
                    "run": "b",
                    "run_log_prob": -1.0,
                    "export": "c",
                    "export_log_prob": -2.0,
                    "cause": "search",
                }
            ],
        },
        "files": {"deep/weights": hashlib.sha256(b"123").hexdigest()},
    }
    assert content["decoding"]["beam_size"] == 7
