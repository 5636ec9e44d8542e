"""The record table: its row, and that every track is a configuration."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import record
from record import METRICS, TATOEBA, TRACKS, Trial, format_row, measure, score_on_tatoeba

from nmt.data.splitting import Pair
from nmt.files import write_json
from nmt.runs.resuming import compose_config


@pytest.mark.parametrize("track", TRACKS)
def test_every_track_is_a_configuration(track: str) -> None:
    corpus = compose_config(TRACKS[track]).data.name
    assert corpus == ("phrasebook" if track == "default" else "tatoeba")


def trial(bleu: float, updates: int, minutes: float, commit: str = "abc1234") -> Trial:
    folder: Any = SimpleNamespace(
        load_weights=lambda: ({"a": np.zeros((1000, 1000)), "b": np.zeros(640_000)}, Path("w")),
        metrics=SimpleNamespace(read=lambda: [{"step": 1}, {"step": updates}]),
    )
    scores = {"BLEU": bleu, "chrF2++": 60.0}
    conditions = {"machine": "2 cores", "commit": commit, "date": "2026-11-29"}
    return Trial(folder, scores, {}, **conditions, minutes=minutes, memory=2.0 + minutes / 100)


def test_a_row_has_mean_and_spread() -> None:
    trials = [trial(50, 9000, 9.5), trial(52, 8000, 9.7), trial(51, 8500, 9.6)]
    cells = format_row("cpu-10", trials).strip("| ").split(" | ")
    assert cells[:4] == ["`cpu-10`", "3", "51.0 (1.0)", "60.0 (0.0)"]
    assert cells[4:8] == ["1.6 million", "8,000 to 9,000", "9.5 to 9.7", "2.1 GiB"]
    assert cells[8:] == ["2 cores", "abc1234", "2026-11-29", "`bash scripts/record.sh cpu-10`"]
    alone = format_row("gpu", [trial(50, 9000, 9.5)])
    assert alone.startswith("| `gpu` | 1 | 50.0 | 60.0 | 1.6 million | 9,000 | 9.5 |")
    assert "| abc1234 to def5678 |" in format_row("gpu", [trials[0], trial(50, 9, 9, "def5678")])


def test_after_an_interruption_finished_seeds_are_not_trained_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trained: list[str] = []

    def run_training(command: list[str], **options: Any) -> None:
        trained.extend(part for part in command if part.startswith("seed="))
        folder = tmp_path / f"run{len(trained)}"
        folder.mkdir()
        scores = {metric: {"value": 50.5, "signature": f"{metric}|v"} for metric in METRICS}
        write_json(folder / record.TEST_SCORES_FILE, {"scores": scores})
        (tmp_path / "latest").unlink(missing_ok=True)
        (tmp_path / "latest").symlink_to(folder.name)

    conditions = {"describe_machine": "2 cores", "git": "abc1234"}
    for name in conditions:
        monkeypatch.setattr(record, name, lambda *_, name=name: conditions[name])
    monkeypatch.setattr(record.subprocess, "run", run_training)
    monkeypatch.setattr(record.RunFolder, "open", lambda path: SimpleNamespace(path=path))
    (tmp_path / "interrupted").mkdir()
    first = measure([], 1, tmp_path)
    measure([], 3, tmp_path)
    again = measure([], 1, tmp_path)
    assert trained == ["seed=1", "seed=3"]
    assert again == first
    assert (first.folder.path, first.machine, first.commit) == (
        tmp_path / "run1",
        "2 cores",
        "abc1234",
    )
    assert first.scores == {"BLEU": 50.5, "chrF2++": 50.5}
    assert first.signatures["BLEU"] == "BLEU|v"
    for name, value in (("describe_machine", "4 cores"), ("git", "abc1234-dirty")):
        conditions[name] = value
        measure([], 1, tmp_path)
        measure([], 1, tmp_path)
    # The other machine once, changed code each time.
    assert trained == ["seed=1", "seed=3", *["seed=1"] * 3]
    conditions["git"] = "abc1234"
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    measure([], 1, tmp_path)
    assert len(trained) == 6


def test_sentences_of_training_are_not_scored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pairs = [Pair("a", "b"), Pair("c", "d"), Pair("e", "f"), Pair("g", "h")]
    corpora = iter([SimpleNamespace(test=pairs), SimpleNamespace(train=[Pair("x", "d"), pairs[0]])])
    monkeypatch.setattr(record, "load_corpus", lambda config, **options: next(corpora))

    def evaluate(command: list[Any], **options: Any) -> None:
        scores = {"BLEU": {"value": 33.0}, "chrF2++": {"value": 52.0}}
        command[-1].write_text(record.json.dumps({"scores": scores}))

    monkeypatch.setattr(record.subprocess, "run", evaluate)
    run: Any = SimpleNamespace(config=compose_config([TATOEBA]), path=tmp_path)
    assert score_on_tatoeba(run, [], tmp_path) == {"BLEU": 33.0, "chrF2++": 52.0}
    assert (tmp_path / "source").read_text() == "e\ng\n"
    assert (tmp_path / "reference").read_text() == "f\nh\n"
