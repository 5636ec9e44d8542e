"""The record table: its row, and that every track is a configuration."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import record
from record import TATOEBA, TRACKS, Trial, find_finished, format_row, score_on_tatoeba, train

from nmt.data.splitting import Pair
from nmt.files import write_json
from nmt.runs.resuming import compose_config


@pytest.mark.parametrize("track", TRACKS)
def test_every_track_is_a_configuration(track: str) -> None:
    corpus = compose_config(TRACKS[track]).data.name
    assert corpus == ("phrasebook" if track == "default" else "tatoeba")


def trial(bleu: float, updates: int, minutes: float) -> Trial:
    folder: Any = SimpleNamespace(
        load_weights=lambda: ({"a": np.zeros((1000, 1000)), "b": np.zeros(640_000)}, Path("w")),
        metrics=SimpleNamespace(read=lambda: [{"step": 1}, {"step": updates}]),
    )
    return Trial(folder, minutes, 2.0 + minutes / 100, {"BLEU": bleu, "chrF2++": 60.0}, {})


def test_a_row_has_mean_and_spread() -> None:
    trials = [trial(50, 9000, 9.5), trial(52, 8000, 9.7), trial(51, 8500, 9.6)]
    cells = format_row("cpu-10", trials, ("2 cores", "abc1234")).strip("| ").split(" | ")
    assert cells[:4] == ["`cpu-10`", "3", "51.0 (1.0)", "60.0 (0.0)"]
    assert cells[4:8] == ["1.6 million", "8,000 to 9,000", "9.5 to 9.7", "2.1 GiB"]
    assert cells[-1] == "`bash scripts/record.sh cpu-10`"
    [alone] = [format_row("gpu", [trial(50, 9000, 9.5)], ("2 cores", "abc1234"))]
    assert alone.startswith("| `gpu` | 1 | 50.0 | 60.0 | 1.6 million | 9,000 | 9.5 |")


def test_after_an_interruption_finished_seeds_are_not_trained_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run_training(command: list[str], **options: Any) -> None:
        folder = tmp_path / command[command.index("nmt.train") + 1]
        folder.mkdir()
        (tmp_path / "latest").unlink(missing_ok=True)
        (tmp_path / "latest").symlink_to(folder.name)

    monkeypatch.setattr(record.subprocess, "run", run_training)
    origin = ("2 cores", "abc1234")
    folders = {seed: train([f"run{seed}"], seed, tmp_path, origin) for seed in (1, 3)}
    (tmp_path / "interrupted").mkdir()
    assert folders[1] == tmp_path / "run1"
    assert find_finished(tmp_path, origin) == folders
    assert find_finished(tmp_path, ("4 cores", "abc1234")) == {}
    assert find_finished(tmp_path, ("2 cores", "abc1234-dirty")) == {}
    assert find_finished(tmp_path / "none", origin) == {}


def test_a_trial_is_loaded_from_its_run_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(record.RunFolder, "open", lambda path: SimpleNamespace(path=path))
    write_json(tmp_path / record.RECORD_FILE, {"seed": 1, "minutes": 9.5, "memory": 2.0})
    scores = {metric: {"value": 50.5, "signature": f"{metric}|v"} for metric in record.METRICS}
    write_json(tmp_path / record.TEST_SCORES_FILE, {"scores": scores})
    loaded = Trial.load(tmp_path)
    assert (loaded.folder.path, loaded.minutes, loaded.memory) == (tmp_path, 9.5, 2.0)
    assert loaded.scores == {"BLEU": 50.5, "chrF2++": 50.5}
    assert loaded.signatures["BLEU"] == "BLEU|v"


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
