"""The formulas of the plan, on cases worked out by hand; the docs have its tables as printed."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import predict_scaling
import pytest
from predict_scaling import (
    Machine,
    Model,
    Plan,
    all_reduce,
    count_learned,
    expect_slowest,
    make_model,
    pass_around,
    predict,
)

ROOT = Path(__file__).parents[2]

# Numbers that are easily multiplied.
MACHINE = Machine(per_node=4, inside=100.0, latency=0.5, spread=0.1, layout=1000.0)
MODEL = Model("made up", parameters=50, flops=1.0, rate=10.0, tokens=20.0)


def test_the_docs_have_the_tables_that_the_script_prints() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "bench" / "predict_scaling.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    tables = printed.rstrip("\n").split("\n\n")
    assert len(tables) == 3
    for table in tables:
        assert f"\n\n{table}\n\n" in shown


def test_a_ring_sends_nearly_twice_the_size() -> None:
    assert pass_around(1, 800.0, 100.0, 0.5) == 0
    assert pass_around(2, 800.0, 100.0, 0.5) == 8 + 1
    assert pass_around(8, 800.0, 100.0, 0.5) == 14 + 7
    assert pass_around(8, 800.0, math.inf, 0.0) == 0


def test_nodes_pass_parts_around_at_the_same_time() -> None:
    within = 1.5 * 800 / 100 + 6 * 0.5
    assert all_reduce(4, 800.0, MACHINE, between=10.0) == within
    # Three nodes: each GPU has 200 bytes, of which it sends 4 / 3 between nodes in 4 steps.
    between = 4 / 3 * 200 / 10 + 4 * 0.5
    assert all_reduce(12, 800.0, MACHINE, between=10.0) == pytest.approx(within + between)
    assert all_reduce(2, 800.0, MACHINE, between=10.0) == 800 / 100 + 2 * 0.5
    assert all_reduce(1, 800.0, MACHINE, between=10.0) == 0


def test_the_slowest_of_many_is_ever_slower() -> None:
    assert expect_slowest(1) == 0
    # Exactly: 1 / sqrt(pi), and 1.42360 and 2.50759 (Harter 1961); the formula is approximate.
    for count, largest in ((2, 1 / math.sqrt(math.pi)), (8, 1.42360), (100, 2.50759)):
        assert expect_slowest(count) == pytest.approx(largest, rel=0.05)


def test_a_token_teaches_half_at_the_critical_batch() -> None:
    assert count_learned(predict_scaling.CRITICAL) == 0.5
    assert count_learned(0) == 1


def test_an_update_waits_for_the_slowest_then_reduces() -> None:
    found = predict(MODEL, 2, MACHINE, 10.0, Plan())
    assert (found.tokens, found.compute) == (40.0, 2.0)
    assert found.waiting == pytest.approx(0.1 * expect_slowest(2) * 2.0)
    assert found.reducing == 4 * 50 / 100 + 1.0
    assert found.layout == 0.04
    assert found.seconds == found.compute + found.waiting + found.reducing
    assert found.rate == 40.0 / found.seconds
    assert found.share == pytest.approx(2.0 / found.seconds)
    alone = predict(MODEL, 1, MACHINE, 10.0, Plan())
    assert (alone.seconds, alone.share) == (2.0, 1.0)


def test_a_batch_that_takes_longer_to_lay_out_is_waited_for() -> None:
    slow = Machine(per_node=4, latency=0.0, layout=2.0)
    assert predict(MODEL, 8, slow, 1e9, Plan()).seconds == 8 * 20 / 2 / 2  # nodes


def test_plans_change_what_they_are_about() -> None:
    plain = predict(MODEL, 4, MACHINE, 10.0, Plan())
    narrow = predict(MODEL, 4, MACHINE, 10.0, Plan(number=2))
    assert plain.reducing - narrow.reducing == 1.5 * 50 * 2 / 100
    double = predict(MODEL, 4, MACHINE, 10.0, Plan(accumulate=2))
    assert (double.tokens, double.compute) == (2 * plain.tokens, 2 * plain.compute)
    assert double.reducing == plain.reducing
    assert double.share > plain.share
    shared = predict(MODEL, 4, MACHINE, 10.0, Plan(tokens=8.0))
    assert (shared.tokens, shared.compute) == (8.0, 0.2)


def test_parameters_are_those_of_the_program() -> None:
    base = make_model("base", 37_000, Machine())
    # Vaswani et al. 2017, table 3: 65 million, with learned or sinusoidal positions alike.
    assert base.parameters / 1e6 == pytest.approx(65, abs=2)
    assert base.rate * base.flops == pytest.approx(0.15 * 989e12)
    # 6 per parameter, averaged over both sides: about half of them are met by each token.
    assert 2 < base.flops / base.parameters < 6
