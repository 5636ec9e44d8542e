"""What was learned and forgotten, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sample_configs import configured

from nmt.analysis.comparison import history as module
from nmt.analysis.comparison.history import (
    History,
    list_progress,
    list_slices,
    make_history,
    read_history,
    translate_history,
)
from nmt.analysis.comparison.history_report import (
    as_json,
    choose_examples,
    describe,
    list_tables,
    render_history,
    tabulate_example,
)
from nmt.analysis.comparison.slices import Slice
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.runs.folder import RunFolder

# Of five sentences after three evaluations.
SCORES = [
    [90.0, 10.0, 85.0, 0.0, 20.0],
    [90.0, 80.0, 10.0, 0.0, 95.0],
    [95.0, 90.0, 90.0, 0.0, 70.0],
]
PAIRS = [Pair(f"s{n}", f"t{n}") for n in range(5)]
OUTPUTS = [[f"o{step}{n}" for n in range(5)] for step in (1, 2, 2)]
HISTORY = History("samples", PAIRS, [10, 20, 30], OUTPUTS, np.array(SCORES), 80.0)


def test_learned_and_forgotten_by_hand() -> None:
    assert HISTORY.learned_at.tolist() == [0, 1, 0, -1, 1]
    assert HISTORY.forgotten.tolist() == [False, False, False, False, True]
    assert HISTORY.forgetting_events.tolist() == [0, 0, 1, 0, 1]
    first, second, third = list_progress(HISTORY)
    assert first[0] == 10
    assert first[2:] == (2, 2, 0, 0)
    assert second[2:] == (3, 2, 0, 1)
    assert third[2:] == (3, 0, 1, 1)
    assert third.score == pytest.approx(69.0)


def test_kinds_are_in_the_order_in_which_they_were_learned() -> None:
    count = 40
    scores = np.zeros((3, count))
    scores[0:, :10] = 100  # learned at once
    scores[1:, 10:14] = 100  # four of ten at the second evaluation
    scores[2:, 10:20] = 100
    scores[0, 20:30] = 100  # and forgotten
    history = History(
        "samples", [Pair("s", "t")] * count, [5, 6, 7], [[""] * count] * 3, scores, 80
    )
    members = np.arange(count) // 10
    slices = [Slice(f"kind {n}", "", members == n) for n in (3, 1, 0, 2)]
    slices.append(Slice("few", "", np.arange(count) < 9))
    slices.append(
        Slice("few right", "", np.isin(np.arange(count), [*range(16, 20), *range(30, 40)]))
    )
    progress = list_slices(history, slices)
    assert [(each.slice.name, each.half_at) for each in progress] == [
        ("kind 0", 5),
        ("kind 1", 7),
        ("few right", None),
        ("kind 3", None),
        ("kind 2", None),
    ]
    assert progress[1].right == [0.0, 0.4, 1.0]
    findings = describe(history, list_progress(history), progress)
    assert findings[0].startswith("20 of 40 sentences are right after update 7")
    assert any("10 of these are forgotten" in each for each in findings)
    most = "the most between two evaluations."
    assert [each for each in findings if each.endswith(most)] == [
        f"Between updates 0 and 5, 20 were learned: {most}",
        f"Between updates 5 and 6, 10 were forgotten: {most}",
    ]
    assert any(each.endswith("kind 3; where kind 2.") for each in findings)


def test_examples_and_tables() -> None:
    examples = choose_examples(HISTORY)
    assert examples["Forgotten"] == [4]
    assert examples["Learned last"] == [1]
    assert examples["Never right"] == [3]
    listing = tabulate_example(HISTORY, 0)
    assert listing.rows == [("10", "90.0", "o10"), ("20", "90.0", "o20")]  # 30 is as 20
    progress = list_progress(HISTORY)
    tables = list_tables(HISTORY, progress, [])
    assert [row[0] for row in tables[0].rows] == ["10", "20", "30"]
    page = render_history("<run>", HISTORY, progress, [])
    assert "&lt;run&gt;" in page
    assert "<run>" not in page
    content = json.loads(json.dumps(as_json(HISTORY, progress, [])))
    assert content["sentences"][4]["learned_at"] == 20
    assert content["sentences"][3]["learned_at"] is None


def test_scores_are_of_the_sentences() -> None:
    history = make_history("samples", [Pair("a", "one two")], [1, 2], [[""], ["one two"]], 80, "en")
    assert history.scores[:, 0] == pytest.approx([0, 100])
    with pytest.raises(UserError, match="no sentence"):
        make_history("samples", [], [1, 2], [[], []], 80, "en")


def test_pairs_may_change_when_a_run_is_resumed(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_config(configured("model=tiny"))
    run.dev_outputs.append({"step": 1, "pairs": [["a", "A"], ["b", "B"]], "outputs": ["x", "y"]})
    run.dev_outputs.append({"step": 2, "outputs": ["x", "B"]})
    run.dev_outputs.append({"step": 3, "pairs": [["b", "B"], ["c", "C"]], "outputs": ["z", "C"]})
    history = read_history(run, 80)
    assert history.pairs == [Pair("b", "B")]
    assert history.outputs == [["y"], ["B"], ["z"]]
    run.dev_outputs.append({"step": 4, "outputs": ["z"]})
    with pytest.raises(UserError, match=r"dev_outputs\.jsonl is damaged"):
        read_history(run, 80)


def test_checkpoints_are_copied_before_the_first_is_translated_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    run.write_config(configured("model=tiny"))
    run.checkpoints.folder.mkdir()
    for step in (1, 2):
        run.checkpoints.path(step).touch()
    copied: list[str] = []

    def translate(*_: Any, **__: Any) -> list[str]:
        assert copied == ["1", "2"]  # training may remove them from now on
        return ["T"]

    corpus = SimpleNamespace(scored_pairs=lambda split: [Pair("s", "t")])
    monkeypatch.setattr(module, "extract_checkpoint", lambda _, folder: copied.append(folder.name))
    monkeypatch.setattr(module, "read_corpus", lambda *_: corpus)
    monkeypatch.setattr(module, "Translator", SimpleNamespace(load=lambda *_, **__: None))
    monkeypatch.setattr(module, "translate_with_progress", translate)
    console: Any = SimpleNamespace(print=print)
    assert translate_history(run, 80, tmp_path, console).outputs == [["T"], ["T"]]
