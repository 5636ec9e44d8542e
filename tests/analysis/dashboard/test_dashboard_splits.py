"""Two runs on whole splits: what the dashboard lists, and the attention that it computes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sacrebleu import sentence_chrf

from nmt.analysis.dashboard.attending import Attender, AttentionProcess, AttentionRequest
from nmt.analysis.dashboard.splits import PREFIX, Splits
from nmt.errors import UserError
from nmt.inference.translator import Translator
from nmt.runs.averaging import extract_checkpoint
from nmt.runs.folder import RunFolder
from nmt.viewer.records import decode

pytest_plugins = ("translators",)
A, B = "a/logs", "b/logs"


@pytest.fixture(scope="module")
def runs(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of two copies of a run; the second one has other translations."""
    folder = tmp_path_factory.mktemp("two_runs")
    for name in "ab":
        shutil.copytree(tiny_run, folder / name)
        for evaluation in (folder / name).glob("evaluation_*"):  # also those of other tests
            if evaluation.name != "evaluation_test.json":
                evaluation.unlink()
    path = folder / "b/evaluation_test.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    for number, row in enumerate(content["outputs"]):
        row["output"] = row["reference"] if number < 3 else row["output"]
    path.write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.fixture
def splits(runs: Path) -> Iterator[Splits]:
    splits = Splits(str(runs))
    yield splits
    splits.close()


def rows_of(run: Path) -> list[dict[str, str]]:
    content = json.loads((run / "evaluation_test.json").read_text(encoding="utf-8"))
    rows: list[dict[str, str]] = content["outputs"]
    return rows


def test_both_runs_have_test_and_dev_sentences(splits: Splits) -> None:
    assert splits.list_shared(A, B) == [
        {"name": "test", "title": "test split"},
        {"name": "dev", "title": "dev sentences, during training"},
    ]
    for other in ("c/logs", "..", "../x/logs", "/"):
        assert splits.list_shared(A, other) == []
    assert Splits("").list_shared(A, B) == []


def test_other_evaluations_are_listed_with_their_search(splits: Splits, runs: Path) -> None:
    titles = {
        "split_test_greedy": "test split, greedy",
        "test_news": "news (test set)",
        "file_old_news_beam_7_penalty_0.1": "old news (file), beam 7 penalty 0.1",
    }
    names = [f"evaluation_{name}.json" for name in titles]
    paths = [runs / run / name for run in "ab" for name in names]
    for path in paths:
        shutil.copy(path.parent / "evaluation_test.json", path)
    listed = {each["name"]: each["title"] for each in splits.list_shared(A, B)}
    for path in paths:
        path.unlink()
    assert titles.items() <= listed.items()


def test_wins_and_losses_have_the_scores_of_sentences(splits: Splits, runs: Path) -> None:
    answer = splits.compare(A, B, "test", 0, better=1, count=2)
    rows = rows_of(runs / "a")
    assert answer["sentences"] == len({row["source"] for row in rows})
    assert answer["wins"] == (0, 3)
    assert [row["scores"][1] for row in answer["rows"]] == [pytest.approx(100)] * 2
    gains = [row["scores"][1] - row["scores"][0] for row in answer["rows"]]
    assert gains == sorted(gains, reverse=True)
    for row in answer["rows"]:
        assert row["outputs"][1] == row["reference"]
        score = sentence_chrf(row["outputs"][0], [row["reference"]], word_order=2).score
        assert row["scores"][0] == pytest.approx(score)
    assert answer["means"][1] > answer["means"][0]
    assert splits.compare(A, B, "test", 0, better=0, count=2)["rows"] == []
    # The other way round, they are losses.
    swapped = splits.compare(B, A, "test", 0, better=0, count=2)
    assert [row["id"] for row in swapped["rows"]] == [row["id"] for row in answer["rows"]]
    with pytest.raises(UserError, match=r"a has no translations of the news split\."):
        splits.compare(A, B, "news", 0, better=0, count=2)


def test_dev_sentences_are_compared_at_the_nearest_evaluation(splits: Splits, runs: Path) -> None:
    records = RunFolder.open(runs / "a").dev_outputs.read()
    steps = [record["step"] for record in records]
    assert len(steps) > 1
    for asked, expected in ((0, steps[0]), (steps[1] - 1, steps[1]), (10**6, steps[-1])):
        answer = splits.compare(A, B, "dev", asked, better=1, count=5)
        assert answer["steps"] == [expected, expected]
        assert answer["wins"] == (0, 0)


def test_attention_is_that_of_the_weights_that_made_the_translation(
    splits: Splits, runs: Path, tmp_path: Path
) -> None:
    row = rows_of(runs / "a")[0]
    sentence = f"{PREFIX}test/{row['source']}"
    [point] = splits.steps(B, sentence)
    assert point["note"] == "the best weights"
    record = decode(splits.record(B, sentence, point["step"]))
    attention = Translator.load(runs / "b", unit="line").attention(row["source"])
    assert attention is not None
    assert (record.sentence, record.reference) == (row["source"], row["reference"])
    assert record.tokens["target_out"] == attention.tokens("target_out")
    np.testing.assert_allclose(record.weights["cross"], attention.weights["cross"], atol=1e-3)

    # Dev sentences have those of the checkpoints, too.
    run = RunFolder.open(runs / "a")
    records = run.dev_outputs.read()
    source = records[0]["pairs"][0][0]
    sentence = f"{PREFIX}dev/{source}"
    steps = {each["step"]: each["note"] for each in splits.steps(A, sentence)}
    evaluated = {record["step"] for record in records}
    kept = [step for step in run.checkpoints.steps() if step in evaluated]
    assert steps.keys() == {*kept, point["step"]}
    [other] = [step for step in kept if step != point["step"]][-1:]
    assert steps[other] == "a kept checkpoint"
    record = decode(splits.record(A, sentence, other))
    model = extract_checkpoint(run.checkpoints.path(other), tmp_path / "model")
    attention = Translator.load(model.path, unit="line").attention(source)
    assert attention is not None
    np.testing.assert_allclose(record.weights["cross"], attention.weights["cross"], atol=1e-3)

    assert splits.steps(A, f"{PREFIX}test/no such sentence") == []
    with pytest.raises(UserError, match="has not translated this sentence"):
        splits.record(A, f"{PREFIX}test/no such sentence", other)
    with pytest.raises(UserError, match="has not kept the weights of update 1000000"):
        splits.record(A, sentence, 10**6)


def test_a_run_that_reads_context_reads_no_corpus_for_it(context_run: Path) -> None:
    splits, run = Splits(str(context_run.parent)), f"{context_run.name}/logs"
    sentence = f"{PREFIX}test/{rows_of(context_run)[0]['source']}"
    [point] = splits.steps(run, sentence)
    with pytest.raises(UserError, match="choose one of its dev sentences"):
        splits.record(run, sentence, point["step"])


def test_a_damaged_evaluation_is_named(runs: Path, tmp_path: Path) -> None:
    for name in "ab":
        shutil.copytree(runs / name, tmp_path / name)
    (tmp_path / "b/evaluation_test.json").write_text('{"outputs": [7]}', encoding="utf-8")
    damaged = Splits(str(tmp_path))
    assert damaged.list_shared(A, B)[0]["name"] == "test"
    with pytest.raises(UserError, match=r"b/evaluation_test\.json is damaged"):
        damaged.compare(A, B, "test", 0, better=1, count=2)
    source = rows_of(runs / "a")[0]["source"]
    assert damaged.steps(B, f"{PREFIX}test/{source}") == []


def test_a_problem_of_a_run_is_told_and_the_process_lives_on(runs: Path) -> None:
    process = AttentionProcess()
    source = rows_of(runs / "a")[0]["source"]
    good = AttentionRequest(str(runs / "a"), None, source, "")
    try:
        with pytest.raises(UserError, match="does not exist"):
            process.compute(AttentionRequest(str(runs / "c"), None, source, ""))
        with pytest.raises(UserError, match="it has no attention"):
            process.compute(AttentionRequest(str(runs / "a"), None, "", ""))
        assert decode(process.compute(good)).sentence == source
        # It is started again after it has ended.
        assert process._process is not None
        process._process.kill()
        process._process.wait()
        with pytest.raises(UserError, match="TensorBoard's output says why"):
            process.compute(good)
        with pytest.raises(UserError, match="does not exist"):
            process.compute(AttentionRequest(str(runs / "c"), None, source, ""))
    finally:
        process.close()
    assert process._process is None


def test_other_weights_are_read_again(runs: Path, tmp_path: Path) -> None:
    """A run that trains on gets other best weights."""
    run = tmp_path / "run"
    shutil.copytree(runs / "a", run)
    folder = RunFolder.open(run)
    source = rows_of(run)[0]["source"]
    attender, request = Attender(), AttentionRequest(str(run), None, source, "")
    before = decode(attender.compute(request)).weights["encoder"]
    kept = folder.checkpoints.steps()
    other = extract_checkpoint(folder.checkpoints.path(kept[0]), tmp_path / "other")
    shutil.copyfile(other.checkpoints.best, folder.checkpoints.best)
    os.utime(folder.checkpoints.best, (10**9, 10**9))
    after = decode(attender.compute(request)).weights["encoder"]
    assert not np.array_equal(before, after)
