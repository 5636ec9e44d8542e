"""A run of pairs from Python is that of a file with the same pairs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import corpus_lines

from nmt.errors import UserError
from nmt.training.pairs import compose_with_pairs

if TYPE_CHECKING:
    from workshop import Workshop

pytest_plugins = ("workshop",)
pytestmark = pytest.mark.xdist_group("workshop")

LANGUAGES = ("data.source_language=es", "data.target_language=en")
FEW = ("training.max_steps=2", "training.evaluate_every=2", "decoding.beam_size=1")


def list_pairs(lines: int) -> list[list[str]]:
    return [line.split("\t")[:2] for line in corpus_lines(lines)]


def without_corpus(overrides: list[str]) -> list[str]:
    keys = ("data=", "data.train=", "data.dev=", "data.test=")
    return [override for override in overrides if not override.startswith(keys)]


def test_pairs_train_what_their_file_trains(kept: Workshop) -> None:
    from_file = kept.train(*FEW)
    settings = [*without_corpus(kept.overrides), "data.dev=16", "data.test=16"]

    def fit(*overrides: str, **arguments: Any) -> Any:
        from rich.console import Console

        from nmt import fit

        return fit([*overrides], console=Console(quiet=True), **arguments)

    run = fit(*settings, *FEW, pairs=(tuple(pair) for pair in list_pairs(200)))
    digests = [each.folder.read_corpus_record()["digests"] for each in (from_file, run)]
    assert digests[0] == digests[1]
    losses = [
        [line["train/loss"] for line in each.metrics if "train/loss" in line]
        for each in (from_file, run)
    ]
    assert losses[0] == losses[1]

    resume = [f"training.resume={run.path}", "training.max_steps=3"]
    with pytest.raises(UserError, match="the corpus has changed"):
        fit(*resume, f"cache_dir={run.folder.config.cache_dir}", pairs=list_pairs(100))
    with pytest.raises(UserError, match="started without dev from Python: leave out dev"):
        fit(*resume, pairs=list_pairs(200), dev=[("a", "b")])
    Path(run.folder.config.data.sources["pairs"].path).unlink()
    assert fit(*resume, f"cache_dir={run.folder.config.cache_dir}", pairs=list_pairs(200)).complete


def test_dev_and_test_become_sources_of_their_own(tmp_path: Path) -> None:
    splits = {"pairs": list_pairs(20), "dev": [("a", "b")], "test": [("c", "d")]}
    config = compose_with_pairs([*LANGUAGES, f"cache_dir={tmp_path}"], splits)
    sources = config.data.sources
    assert {name: source.split for name, source in sources.items()} == {
        "pairs": "shares",
        "dev": "dev",
        "test": "test",
    }
    assert Path(sources["dev"].path).read_text(encoding="utf-8") == "a\tb\n"
    assert Path(sources["test"].path).parent == tmp_path / "pairs"


@pytest.mark.parametrize(
    ("overrides", "splits", "message"),
    [
        ((), {"pairs": [("a", "b")]}, "set BCP 47 tags"),
        (LANGUAGES, {"dev": [("a", "b")]}, "dev and test need pairs"),
        *(
            ((*LANGUAGES, override), {"pairs": [("a", "b")]}, f"leave out {override}")
            for override in (
                "data=tatoeba",
                "data.train=x",
                "+data.encoding=cp1252",
                "data.sources.pairs.path=x",
            )
        ),
    ],
)
def test_what_contradicts_pairs_is_refused(
    overrides: tuple[str, ...], splits: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        compose_with_pairs([*overrides, f"cache_dir={tmp_path}"], splits)
    assert list(tmp_path.iterdir()) == []
