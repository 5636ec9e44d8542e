"""The table of hallucinations: its pairs, its areas, its statistics."""

from __future__ import annotations

import argparse
from pathlib import Path

import hallucinations
import numpy as np
import pytest
from hallucinations import STATISTICS, Measured, area_under_curve, shuffle


@pytest.mark.parametrize("count", [2, 3, 10])
def test_no_pair_keeps_its_source(count: int) -> None:
    others = shuffle(count, seed=1)
    assert sorted(others) == list(range(count))
    assert np.all(others != np.arange(count))


def test_areas_by_hand() -> None:
    assert area_under_curve(np.array([3.0, 2.0]), np.array([1.0, 0.0])) == 1
    assert area_under_curve(np.array([3.0, 1.0]), np.array([2.0, 0.0])) == 0.75
    assert area_under_curve(np.array([1.0]), np.array([1.0, 0.0])) == 0.75


def pair(source: list[list[float]], support: float, probability: float) -> Measured:
    shares = np.array(source)
    rest = np.zeros((len(shares), len(shares)))
    rest[:, 0] = 1 - shares.sum(-1)
    log_probs, supports = np.log(np.full(len(shares), probability)), np.full(len(shares), support)
    return Measured(shares, rest, log_probs, supports, supports[:1])


def test_statistics_are_larger_for_what_the_source_decides() -> None:
    real = pair([[0.7, 0.1], [0.1, 0.8]], 1.0, 0.5)
    made = pair([[0.2, 0.2], [0.2, 0.2]], -1.0, 0.1)
    for name, statistic in STATISTICS.items():
        assert statistic(real) > statistic(made), name


@pytest.mark.xdist_group("tiny run")
def test_a_run_is_measured(tiny_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hallucinations.run(argparse.Namespace(run=tiny_run, pairs=12, seed=1))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith(("dev: 12 pairs", "test: 12 pairs"))]
    rows = [line.split("|") for line in lines if line.startswith("|")]
    areas = rows[2 : 2 + len(STATISTICS)]
    assert all(0 <= float(cell) <= 1 for row in areas for cell in row[2:4])
    assert len(rows) == 2 + len(STATISTICS) + 2 + 3
    chosen = rows[-3]
    assert chosen[1].endswith("nats (5% of real dev words) ")
    assert float(chosen[2].strip(" %")) <= 7  # of a few dozen words
    assert all(0 <= float(cell.strip(" %")) <= 100 for row in rows[-3:] for cell in row[2:6])
