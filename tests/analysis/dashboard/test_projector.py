"""A running TensorBoard serves the written files to its projector."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE
from tensorboard import program
from tensorboard.plugins.core.core_plugin import CorePluginLoader
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin

from nmt.analysis.dashboard.projector import TENSOR_NAME, Counts, make_visible, write_projector
from nmt.data.encoded import EncodedCorpus
from nmt.data.ragged import RaggedIds
from nmt.errors import UserError
from nmt.text.context import CONTEXT_MARK
from nmt.text.spans import SLOTS
from nmt.training.events import EventWriter

PIECES = ["<pad>", "<s>", "</s>", "<unk>", "▁gato", "o\ts", "##en", ".", "<0x0A>", "\u2028", "▁"]


def counts() -> Counts:
    def side(*sentences: list[int]) -> RaggedIds:
        return RaggedIds.of([np.array(ids) for ids in sentences])

    encoded = EncodedCorpus(side([4, 4, 5], [4, 7]), side([6, 7], [6]))
    return Counts.of(encoded, len(PIECES), ("es", "en"))


def test_counts_and_languages_by_hand() -> None:
    token_counts = counts()
    assert token_counts.source.tolist() == [0, 0, 0, 0, 3, 1, 0, 1, 0, 0, 0]
    assert token_counts.target.tolist() == [0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0]
    assert token_counts.languages()[4:8] == ["es", "es", "en", "both"]
    assert token_counts.languages()[0] == "none"


def test_what_shows_nothing_is_made_visible() -> None:
    shown = [make_visible(piece) for piece in PIECES]
    assert shown[5] == "o<U+0009>s"
    assert shown[9] == "<U+2028>"
    assert [shown[i] for i in (0, 4, 8, 10)] == ["<pad>", "▁gato", "<0x0A>", "▁"]
    assert make_visible("a b\u200d") == "a<U+0020>b<U+200D>"


def test_the_projector_serves_vectors_and_labels(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one" / "logs"
    with EventWriter(folder) as writer:
        writer.scalar("x", 1.0, 1)
    table = np.random.default_rng(1).standard_normal((len(PIECES), 6)).astype(np.float32)
    table[0] = 0
    files = write_projector(folder, table, PIECES, counts())
    assert all(path.is_file() for path in files)

    board = program.TensorBoard(plugins=[CorePluginLoader(), ProjectorPlugin])
    options = ["--logdir", str(tmp_path / "runs"), "--port", "0", "--load_fast", "false"]
    options += ["--reload_interval", "0"]  # no thread reads when the process ends
    board.configure(["tensorboard", *options])
    address = board.launch()
    url = f"{address}data/plugin/projector/"

    def get(route: str, **query: str) -> bytes:
        with urllib.request.urlopen(f"{url}{route}?{urllib.parse.urlencode(query)}") as answer:
            return bytes(answer.read())

    def enabled() -> bool:
        with urllib.request.urlopen(f"{address}data/plugins_listing") as answer:
            return bool(json.loads(answer.read())["projector"]["enabled"])

    deadline = time.monotonic() + PATIENCE / 1000
    while not (runs := json.loads(get("runs"))):
        assert time.monotonic() < deadline, "TensorBoard found no run with embeddings"
        time.sleep(0.1)
    assert runs == ["one/logs"]
    while not enabled():  # found out in a thread, when it is first asked
        assert time.monotonic() < deadline, "TensorBoard does not show its projector"
        time.sleep(0.1)
    run_parameters = {"run": runs[0], "name": TENSOR_NAME}
    [described] = json.loads(get("info", run=runs[0]))["embeddings"]
    assert described["tensorShape"] == [len(PIECES), 6]
    served = np.frombuffer(get("tensor", **run_parameters), np.float32).reshape(table.shape)
    np.testing.assert_allclose(served, table, rtol=1e-4)
    lines = get("metadata", **run_parameters).decode("utf-8").split("\n")
    assert lines[0].split("\t") == [
        *("piece", "id", "kind", "source count es", "target count en", "language")
    ]
    assert lines[-1] == ""
    rows = [line.split("\t") for line in lines[1:-1]]
    assert [len(row) for row in rows] == [6] * len(PIECES)
    assert [row[0] for row in rows] == [make_visible(piece) for piece in PIECES]
    assert [row[1] for row in rows] == [str(i) for i in range(len(PIECES))]
    assert [row[2] for row in rows] == [
        *("padding", "BOS", "EOS", "unknown", "begin of a word", "inside of a word"),
        *("inside of a word", "punctuation", "byte", "punctuation", "punctuation"),
    ]
    assert rows[4][3:] == ["3", "0", "es"]


def test_without_counts_there_are_three_columns(tmp_path: Path) -> None:
    *_, labels = write_projector(tmp_path, np.zeros((len(PIECES), 2)), PIECES, None)
    header, *rows = labels.read_text(encoding="utf-8").splitlines()
    assert header == "piece\tid\tkind"
    assert len(rows) == len(PIECES)


def test_reserved_tokens_are_kinds_of_their_own(tmp_path: Path) -> None:
    reserved = ["▁<2en>", "▁2en", ">>es<<", f"▁{CONTEXT_MARK}", SLOTS[0], SLOTS[-1], "¿"]
    pieces = [*PIECES[:4], *reserved]
    *_, labels = write_projector(tmp_path, np.zeros((len(pieces), 2)), pieces, None, tags=[4])
    kinds = [line.split("\t")[2] for line in labels.read_text(encoding="utf-8").splitlines()]
    assert kinds[5:] == [
        *("tag", "begin of a word", "tag", "context mark", "slot", "slot", "punctuation")
    ]


def test_a_folder_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "logs"
    blocked.write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_projector(blocked, np.zeros((2, 2)), PIECES[:2], None)
