"""One run on one device, on two, and on one again: as many updates, the same weights."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
from conftest import tiny_overrides

from nmt.errors import UserError
from nmt.runs.checkpoint import read_arrays
from nmt.runs.folder import RunFolder
from nmt.training.process_group import ProcessGroup, make_process_group

pytestmark = [pytest.mark.xdist_group("devices"), pytest.mark.backend]

STEPS = 4
OVERRIDES = (
    *("model.dropout=0.2", "model.attention_dropout=0.1", "training.word_dropout=0.1"),
    *("training.accumulate=2", "training.batch_tokens=320", "training.log_every=1"),
    *("training.evaluate_every=2", "training.samples=2", "decoding.beam_size=1", "data.test=0"),
)
PROGRAM = """
    import sys
    from nmt.training.job import fit
    arguments = sys.argv[1:]
    two = fit([*arguments, "training.max_steps=2", "training.devices=2", "name=shared"])
    resume = f"training.resume={two.path}"
    fit([resume, "training.max_steps=4", "training.devices=1"])
    fit([*arguments, "training.max_steps=4", "training.devices=1", "name=alone"])
    try:
        fit([*arguments, "training.max_steps=1", "training.devices=3"])
    except BaseException as error:
        print(type(error).__name__, error)
"""


def test_how_many_share_an_update_changes_nothing(tmp_path: Path) -> None:
    """With dropout, of words too, and micro-batches of five rows: shared by two, one is empty."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), *tiny_overrides(tmp_path), *OVERRIDES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "UserError training.devices=3: " in done.stdout
    lines = re.findall(r"^device: CPU \(\d+ cores?(.*)\)$", done.stdout, re.MULTILINE)
    assert lines == [", divided into 2 devices", "", ""]
    folders = sorted((tmp_path / "runs").glob("*_*"))
    alone, shared = (
        RunFolder.open(next(path for path in folders if path.name.endswith(name)))
        for name in ("alone", "shared")
    )
    for name in ("train/loss", "train/gradient_norm", "dev/loss"):
        expected, values = (
            [row[name] for row in run.metrics.read() if name in row] for run in (alone, shared)
        )
        assert len(expected) == (2 if name == "dev/loss" else STEPS)
        np.testing.assert_allclose(values, expected, rtol=1e-4, err_msg=name)
    arrays, other = (read_arrays(run.checkpoints.path(STEPS))[0] for run in (alone, shared))
    assert arrays.keys() == other.keys()
    for name, array in arrays.items():
        # Of a bias on the keys the gradient is rounding noise, which Adam makes steps of.
        if name.startswith(("model/", "average/")) and not name.endswith("key/bias"):
            apart = np.abs(other[name] - array)
            assert np.mean(apart > 1e-4) < 1e-3, name


def test_by_itself_a_cpu_is_one_device() -> None:
    assert make_process_group("auto") == make_process_group("1") == ProcessGroup()
    with ProcessGroup().scope():
        assert keras.config.backend() in ("tensorflow", "jax")


def test_more_devices_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.training.process_group.gpus", lambda: ["GPU"] * 2)
    with pytest.raises(UserError, match=r"training\.devices=3: this machine has 2 GPUs"):
        make_process_group("3")


@pytest.mark.parametrize("count", [0, 1, 5, 6])
def test_results_of_shards_come_back_in_order(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    groups = [ProcessGroup((), None, process, 3) for process in range(3)]
    items = list("abcdef"[:count])
    shards = [group.shard(items) for group in groups]
    assert sum(map(len, shards)) == count
    monkeypatch.setattr(ProcessGroup, "all_gather", lambda group, results: shards)
    for group, shard in zip(groups, shards, strict=True):
        assert group.gather_shards(shard, count) == items


@pytest.mark.parametrize(
    "value", [None, "ñ" * 5, "x" * 3000, [1.5, None, "é" * 2000]], ids=["0", "5", "3000", "2000"]
)
def test_gathered_values_of_any_length_arrive(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    group = ProcessGroup((), None, 1, 2)
    shapes = []

    def gather(group: ProcessGroup, array: np.ndarray) -> np.ndarray:
        shapes.append(array.shape)
        assert array.dtype == np.int32
        return np.stack([array, array])

    monkeypatch.setattr(ProcessGroup, "_gather", gather)
    assert group.all_gather(value) == [value, value]
    assert group.broadcast(value) == value
    assert all(length.bit_count() == 1 for (length,) in shapes)  # each length is compiled once


def test_processes_that_have_come_apart_are_found_out() -> None:
    """To the bit, as what is exchanged: here, with a process that has another state."""
    state = {"model/a": np.ones((2, 3), np.float32), "optimizer/0000": np.float32(1)}
    checksums: list[int] = []

    class Pair(ProcessGroup):
        def all_gather(self, value: int) -> list[int]:  # type: ignore[override]
            checksums.append(value)
            return checksums[-2:]

    process_group = Pair((), None, 0, 2)
    checksums.append(0)
    with pytest.raises(RuntimeError, match="different weights"):
        process_group.check_same_state(state)
    process_group.check_same_state(dict(state))
    apart = np.nextafter(state["model/a"], 2).astype(np.float32)
    with pytest.raises(RuntimeError, match="different weights"):
        process_group.check_same_state(state | {"model/a": apart})
    ProcessGroup().check_same_state(state)


@pytest.mark.parametrize(
    ("error", "waits"),
    [(RuntimeError("reset by peer"), True)]
    + [(error, False) for error in (UserError("no corpus"), KeyboardInterrupt(), SystemExit(75))],
)
def test_what_may_be_the_fault_of_another_process_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, waits: bool
) -> None:
    """The monitor then says who is gone, and ends this process; else this one has failed itself."""
    order: list[str] = []
    monkeypatch.setattr("nmt.training.process_group.time.sleep", lambda _: order.append("waited"))
    monitor: Any = SimpleNamespace(fail=lambda: order.append("failed"))
    with pytest.raises(type(error)), ProcessGroup(monitor=monitor).fail_together():
        raise error
    assert order == ["waited", "failed"] if waits else ["failed"]
