"""Stored translations of two runs, and the order of the sentences that they differ in."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sacrebleu import sentence_chrf
from sample_configs import configured

from nmt.analysis.comparison.stored import (
    StoredOutputs,
    list_stored,
    rank_stored,
    read_dev_outputs,
    read_evaluation,
)
from nmt.data.contexts import add_contexts_to_pairs
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.runs.folder import RunFolder

PAIRS = [Pair("uno", "one"), Pair("dos", "two"), Pair("tres", "three"), Pair("seis", "six")]


def make_run(folder: Path) -> RunFolder:
    run = RunFolder(folder)
    run.write_config(configured("decoding.beam_size=4", "decoding.length_penalty=0.6"))
    run.checkpoints.folder.mkdir()
    run.checkpoints.best.write_bytes(b"")
    os.utime(run.checkpoints.best, (100, 100))
    return run


def write_evaluation(run: RunFolder, name: str, outputs: list[str], modified: int = 200) -> Path:
    rows = [
        {"source": pair.source, "reference": pair.target, "output": output}
        for pair, output in zip(PAIRS, outputs, strict=True)
    ]
    path = run.write_json(name, {"outputs": rows})
    os.utime(path, (modified, modified))
    return path


def test_the_sentences_have_the_same_name_in_all_runs(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    names = {
        "evaluation_test.json": "test",
        "evaluation_split_dev_beam_4_penalty_0.6.json": "split_dev",
        "evaluation_split_dev_greedy.json": "split_dev_greedy",
        "evaluation_test_news.json": "test_news",
        "evaluation_file_news.en_beam_4_penalty_0.6.json": "file_news.en",
        "evaluation_test_news_whole.json": "test_news_whole",  # names of users, not suffixes
        "evaluation_file_talk_int8_beam_4_penalty_1.json": "file_talk_int8_beam_4_penalty_1",
    }
    for file in names:
        write_evaluation(run, file, ["a"] * 4)
    # Other texts than the sentences, or other translators than this run.
    for suffix in ("_joined_3", "_by_sentence", "_whole", "_with_2_more", "_by_group_int8"):
        write_evaluation(run, f"evaluation_split_test_beam_4_penalty_0.6{suffix}.json", ["a"] * 4)
    write_evaluation(run, "evaluation_split_old_beam_4_penalty_0.6.json", ["a"] * 4, modified=99)
    assert list_stored(run) == {name: tmp_path / file for file, name in names.items()}
    run.dev_outputs.append({"step": 5, "pairs": PAIRS, "outputs": ["a"] * 4})
    assert list_stored(run)["dev"] == tmp_path / "dev_outputs.jsonl"


def test_the_split_is_named_alike_in_training_and_by_evaluate(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    path = write_evaluation(run, "evaluation_split_test_beam_4_penalty_0.6.json", ["a"] * 4)
    assert list_stored(run) == {"test": path}


def test_an_evaluation_is_read_if_its_unit_is_a_line(tmp_path: Path) -> None:
    path = write_evaluation(make_run(tmp_path), "evaluation_test.json", list("abcd"))
    assert read_evaluation(path) == StoredOutputs(PAIRS, list("abcd"))
    content = json.loads(path.read_text(encoding="utf-8"))
    for changed in ({"unit": "sentence"}, {"outputs": 1}, {"outputs": [{}]}):
        path.write_text(json.dumps(content | changed), encoding="utf-8")
        assert read_evaluation(path) is None


def test_dev_outputs_repeat_their_pairs_only_if_they_change(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.dev_outputs.append({"step": 5, "pairs": PAIRS[:2], "outputs": ["a", "b"]})
    run.dev_outputs.append({"step": 9, "outputs": ["c", "d"]})
    assert read_dev_outputs(run) == {
        5: StoredOutputs(PAIRS[:2], ["a", "b"]),
        9: StoredOutputs(PAIRS[:2], ["c", "d"]),
    }
    run.dev_outputs.append({"step": 12, "outputs": ["c"]})
    with pytest.raises(UserError, match=r"dev_outputs\.jsonl is damaged: 1 outputs of 2 pairs"):
        read_dev_outputs(run)


def test_the_largest_differences_are_at_both_ends() -> None:
    first = StoredOutputs(PAIRS, ["one", "wto", "thre", "six"])
    # In another order, and without "seis".
    second = StoredOutputs([PAIRS[2], PAIRS[1], PAIRS[0]], ["three", "two", "on"])
    changes = rank_stored(first, second, "en")
    assert [change.pair.source for change in changes] == ["uno", "tres", "dos"]
    assert changes[1].outputs == ("thre", "three")
    for change in changes:
        expected = [
            sentence_chrf(output, [change.pair.target], word_order=2).score
            for output in change.outputs
        ]
        assert change.scores == pytest.approx(expected, abs=1e-9)


def test_sentences_are_the_same_whatever_stands_before_them() -> None:
    plain = StoredOutputs(PAIRS, list("abcd"))
    in_context = StoredOutputs(add_contexts_to_pairs(PAIRS, 1, "es"), list("efgh"))
    assert in_context.pairs != PAIRS
    assert {change.outputs for change in rank_stored(plain, in_context, "en")} == {
        ("a", "e"),
        ("b", "f"),
        ("c", "g"),
        ("d", "h"),
    }
    assert rank_stored(plain, StoredOutputs([Pair("x", "y")], ["z"]), "en") == []
