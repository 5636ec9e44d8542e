"""What is written is read back with TensorBoard's own readers."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tensorboard.backend.event_processing.plugin_event_accumulator import (
    TENSORS,
    EventAccumulator,
)
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.util.tensor_util import make_ndarray

from nmt.training.events import EventWriter


def read(folder: Path) -> Any:
    """Return the run as the dashboards see it, with every point kept."""
    return EventAccumulator(str(folder), size_guidance={TENSORS: 0}).Reload()


def points(run: Any, tag: str) -> list[tuple[int, Any]]:
    return [(e.step, make_ndarray(e.tensor_proto).tolist()) for e in run.Tensors(tag)]


def plugin(run: Any, tag: str) -> str:
    return run.SummaryMetadata(tag).plugin_data.plugin_name


def png(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(buffer, "png")
    return buffer.getvalue()


def test_scalars_keep_tag_step_and_value(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "logs") as writer:
        writer.scalar("train/loss", 6.5, 10)
        writer.scalar("train/loss", 5.25, 20)
        writer.scalar("dev/bleu", float("nan"), 20)
    run = read(tmp_path / "logs")
    assert run.Tags()["tensors"] == ["train/loss", "dev/bleu"]
    assert points(run, "train/loss") == [(10, 6.5), (20, 5.25)]
    assert plugin(run, "train/loss") == "scalars"
    [(step, value)] = points(run, "dev/bleu")
    assert step == 20
    assert value != value


def test_an_image_keeps_its_bytes_and_its_size(tmp_path: Path) -> None:
    picture = png(width=31, height=17)
    with EventWriter(tmp_path) as writer:
        writer.image("attention/decoder 1", picture, 3)
    run = read(tmp_path)
    assert plugin(run, "attention/decoder 1") == "images"
    [(step, [width, height, written])] = points(run, "attention/decoder 1")
    assert (step, width, height) == (3, b"31", b"17")
    assert written == picture
    assert Image.open(io.BytesIO(written)).size == (31, 17)


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a" + 40 * b"\0"])
def test_only_png_files_are_images(tmp_path: Path, data: bytes) -> None:
    with EventWriter(tmp_path) as writer, pytest.raises(ValueError, match="PNG"):
        writer.image("x", data, 1)


def test_a_text_keeps_its_unicode(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as writer:
        writer.text("samples", "| ¿Dónde? | 你 |", 7)
        writer.text("samples", "lone surrogate \ud800", 8)
    run = read(tmp_path)
    assert plugin(run, "samples") == "text"
    assert points(run, "samples") == [(7, "| ¿Dónde? | 你 |".encode()), (8, b"lone surrogate ?")]


def test_hparams_are_typed_and_tensorboard_makes_the_table(tmp_path: Path) -> None:
    values = {"tied": True, "layers": 4, "rate": 0.5, "kind": "bpe", "clip": None, "cols": [0, 1]}
    with EventWriter(tmp_path) as writer:
        writer.hparams(values)
    run = read(tmp_path)
    tag = "_hparams_/session_start_info"
    assert run.Tags()["tensors"] == [tag]
    assert plugin(run, tag) == "hparams"
    content = run.SummaryMetadata(tag).plugin_data.content
    start = hparams_metadata.parse_session_start_info_plugin_data(content)
    kinds = {name: value.WhichOneof("kind") for name, value in start.hparams.items()}
    assert kinds == {
        "tied": "bool_value",
        "layers": "number_value",
        "rate": "number_value",
        "kind": "string_value",
        "clip": "string_value",
        "cols": "string_value",
    }
    shown = {name: getattr(value, kinds[name]) for name, value in start.hparams.items()}
    assert shown == {**values, "clip": "None", "cols": "[0, 1]"}


def test_a_resumed_run_replaces_what_it_writes_again(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as writer:
        for step in range(1, 11):
            writer.scalar("loss", step, step)
            writer.scalar("not written again", step, step)
    with EventWriter(tmp_path, purge_step=6) as writer:
        for step in range(6, 9):
            writer.scalar("loss", 100 + step, step)
    run = read(tmp_path)
    old = [(step, float(step)) for step in range(1, 6)]
    assert points(run, "loss") == [*old, (6, 106.0), (7, 107.0), (8, 108.0)]
    assert points(run, "not written again") == old


def test_a_resumed_run_is_last_though_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for now, purge_step, steps in ((5_000, None, range(1, 6)), (1_000, 3, range(3, 5))):
        monkeypatch.setattr("nmt.training.events.time.time_ns", lambda now=now: now)
        with EventWriter(tmp_path, purge_step=purge_step) as writer:
            for step in steps:
                writer.scalar("loss", step, step)
    assert [step for step, _ in points(read(tmp_path), "loss")] == [1, 2, 3, 4]


def test_a_run_may_be_resumed_twice(tmp_path: Path) -> None:
    for purge_step, steps in ((None, range(1, 9)), (7, range(7, 10)), (4, range(4, 6))):
        with EventWriter(tmp_path, purge_step=purge_step) as writer:
            for step in steps:
                writer.scalar("loss", step, step)
    assert [step for step, _ in points(read(tmp_path), "loss")] == [1, 2, 3, 4, 5]


def test_a_second_writer_without_purge_step_adds(tmp_path: Path) -> None:
    for step in (1, 2):
        with EventWriter(tmp_path) as writer:
            writer.scalar("loss", step, step)
    assert points(read(tmp_path), "loss") == [(1, 1.0), (2, 2.0)]


def test_what_was_flushed_can_be_read_while_the_file_is_open(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    writer.scalar("loss", 1.0, 1)
    writer.flush()
    assert points(read(tmp_path), "loss") == [(1, 1.0)]
    writer.scalar("loss", 2.0, 2)
    writer.close()
    writer.close()
    assert points(read(tmp_path), "loss") == [(1, 1.0), (2, 2.0)]


def test_what_utf8_cannot_encode_becomes_question_marks(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as writer:
        writer.blob("probe/\udcff", b"record", 1, plugin="plugin")
        writer.text("samples", "\ud800", 1)
        writer.hparams({"data.path": "a\udcff.tsv"})
    assert {"probe/?", "samples"} <= set(read(tmp_path).Tags()["tensors"])


def test_tensorflow_is_not_imported(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from nmt.training.events import EventWriter
folder, png = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()
with EventWriter(folder, purge_step=1) as writer:
    writer.scalar("loss", 1.0, 1)
    writer.image("picture", png, 1)
    writer.text("samples", "text", 1)
    writer.hparams({"layers": 2, "clip": None})
    writer.flush()
assert "tensorflow" not in sys.modules
"""
    picture = tmp_path / "picture.png"
    picture.write_bytes(png(3, 2))
    command = [sys.executable, "-c", program, str(tmp_path / "logs"), str(picture)]
    subprocess.run(command, check=True, timeout=120)
    assert set(read(tmp_path / "logs").Tags()["tensors"]) >= {"loss", "picture", "samples"}
