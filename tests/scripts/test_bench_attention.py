"""The attention benchmark: estimates of memory, and its table."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import bench_attention
import numpy as np
import pytest
from attention_steps import KERAS
from bench_attention import ARRAYS, CHUNKED, EXPLICIT, KINDS, MIB
from rich.console import Console

ROOT = Path(__file__).parents[2]

PLAN = {"width": 8, "heads": 2, "causal": False, "precision": "float32", "batch": 1}


def row(kind: str, length: int, **others: Any) -> dict[str, Any]:
    blank = {"kind": kind, "length": length, "measured": True, "bytes": MIB, "seconds": [1.0]}
    return PLAN | blank | others


def test_memory_is_computed_in_proportion_to_the_scores() -> None:
    plan = row(EXPLICIT, 4000, batch=3)
    scores = 3 * 2 * 4000**2
    assert bench_attention.compute_bytes(plan, []) == 4 * ARRAYS * scores
    measured = [
        row(EXPLICIT, 1000, bytes=100),
        row(EXPLICIT, 2000, bytes=300),
        row(EXPLICIT, 3000, bytes=1, measured=False),
        row(KERAS, 2000, bytes=5),
    ]
    assert bench_attention.compute_bytes(plan, measured) == 300 * 4 * 3
    # Memory of a short row is mostly not scores, so the estimate is capped by that of scores.
    short = [row(EXPLICIT, 1, bytes=10**6)]
    assert bench_attention.compute_bytes(plan, short) == 4 * ARRAYS * scores


def test_what_would_not_fit_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def ask(plan: dict[str, Any]) -> dict[str, int]:
        measured.append(plan["kind"])
        return {"bytes": 7}

    monkeypatch.setattr(bench_attention, "ask", ask)
    monkeypatch.setattr(bench_attention, "available_memory", lambda: 1_000_000)
    rows = [
        bench_attention.measure_memory_of(PLAN | {"kind": kind, "length": 1000}, [], gpu)
        for kind, gpu in ((EXPLICIT, False), (CHUNKED, False), (EXPLICIT, True))
    ]
    assert measured == [CHUNKED, EXPLICIT]
    assert [row["measured"] for row in rows] == [False, True, True]
    assert [row["bytes"] for row in rows] == [4 * ARRAYS * 2 * 1000**2, 7, 7]


def test_ratios_are_medians_of_pairs() -> None:
    rows = [row(kind, 64, seconds=[0.1, 0.2, 0.3]) for kind in KINDS]
    rows[KINDS.index(CHUNKED)] |= {"seconds": [0.2, 0.1, 0.15], "bytes": MIB // 4}
    rows += [row(kind, 128) for kind in KINDS]
    rows[len(KINDS)] |= {"measured": False, "seconds": [], "bytes": 3000 * MIB}
    found = PLAN | {"backend": "jax", "device": "a machine", "rows": rows}
    output = io.StringIO()
    Console(file=output, width=120).print(bench_attention.tabulate(found))
    lines = [line.strip("│").split("│") for line in output.getvalue().splitlines() if "│" in line]
    cells = [[cell.strip() for cell in line] for line in lines]
    assert cells[0] == ["1 × 64", EXPLICIT, "200.00", "1.000", "1.000", "1", "1.000"]
    assert cells[1] == ["", CHUNKED, "150.00", "0.500", "0.500", "0", "0.250"]
    assert cells[4] == ["1 × 128", EXPLICIT, "–", "–", "–", "≈ 3,000", "1.000"]
    assert cells[5] == ["", CHUNKED, "1,000.00", "1.000", "–", "1", "0.000"]


def test_layers_that_differ_are_not_timed() -> None:
    results = {"one": (0.0, [np.array([1.0, -2.0])]), "other": (0.0, [np.array([1.0, -2.1])])}
    bench_attention.check(results, 0.06)
    with pytest.raises(AssertionError, match="other are off by"):
        bench_attention.check(results, 0.04)


def test_lengths_that_are_in_the_file_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[int] = []

    def ask(plan: dict[str, Any]) -> dict[str, Any]:
        if "device" in plan:
            return {"backend": "jax", "device": "a machine", "gpu": False}
        if "kind" in plan:
            return {"bytes": 7}
        measured.append(plan["length"])
        if plan["length"] == 128 and len(measured) == 2:
            raise KeyboardInterrupt
        return {kind: [1.0] * plan["turns"] for kind in plan["kinds"]}

    def start(*options: str) -> int:
        command = ["bench", "--lengths", "64,128", "--json", str(path), *options]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            bench_attention.main()
        return ended.value.code

    path = tmp_path / "attention.json"
    monkeypatch.setattr(bench_attention, "ask", ask)
    assert start() == 130
    assert "128 × 64" in capsys.readouterr().out
    assert start() == 0
    assert measured == [64, 128, 128]
    rows = json.loads(path.read_text())["rows"]
    assert [one["length"] for one in rows] == [64] * len(KINDS) + [128] * len(KINDS)
    assert start("--causal") == 2
    assert "of other settings" in capsys.readouterr().err


@pytest.mark.slow
def test_every_layer_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "attention.json"
    sizes = ["--lengths", "16", "--tokens", "32", "--width", "32", "--heads", "2", "--causal"]
    command = [sys.executable, str(ROOT / "scripts" / "bench" / "bench_attention.py"), *sizes]
    subprocess.run([*command, "--turns", "2", "--json", str(path)], check=True)
    rows = json.loads(path.read_text())["rows"]
    assert [one["kind"] for one in rows] == list(KINDS)
    for one in rows:
        assert (one["batch"], one["length"], one["measured"]) == (2, 16, True)
        assert len(one["seconds"]) == 2
        assert min(one["seconds"]) > 0
