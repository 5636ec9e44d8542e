"""Workers that are measured train as one does, each on a core of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import tiny_overrides

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_workers_share_the_batch_of_one_and_have_its_loss(tmp_path: Path) -> None:
    script = str(ROOT / "scripts" / "bench" / "bench_workers.py")
    sizes = ["--workers", "1", "2", "--batch-tokens", "256", "--updates", "2", "--turns", "2"]
    done = subprocess.run(
        [sys.executable, script, *tiny_overrides(tmp_path), *sizes],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    one, two, twice = map(json.loads, done.stdout.splitlines())
    assert [row["workers"] for row in (one, two, twice)] == [1, 2, 2]
    assert [row["batches"] for row in (one, two, twice)] == [[[4, 64]], [[4, 64]], [[8, 64]]]
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert twice["loss"] != pytest.approx(one["loss"], rel=1e-5)
    assert one["of_as_many_alone"] == one["by_time_of_cores"] == 1
    for row in (two, twice):
        assert 0 < row["lowest"] <= row["of_as_many_alone"] <= row["highest"]
        assert row["by_time_of_cores"] > 0
