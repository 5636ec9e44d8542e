"""Intervals between evaluations, and the cost that they follow from."""

from __future__ import annotations

import pytest

from nmt.training.cadence import ATTENTION_PART, EVALUATION_PART, Cadence, CostMeter


def test_an_evaluation_is_due_at_every_multiple_by_default() -> None:
    cadence = Cadence()
    assert [step for step in range(1, 10) if cadence.is_due(step, 3)] == [3, 6, 9]
    cadence.schedule(3)
    assert [step for step in range(4, 10) if cadence.is_due(step, 3)] == [6, 9]


def test_no_evaluation_is_due_before_the_interval_is_over() -> None:
    cadence = Cadence(interval=6)
    cadence.schedule(3)
    assert [step for step in range(4, 16) if cadence.is_due(step, 3)] == [9, 12, 15]
    cadence.reset()
    assert [step for step in range(4, 10) if cadence.is_due(step, 3)] == [6, 9]
    assert cadence == Cadence()


def test_evaluations_and_attention_logs_divide_their_share() -> None:
    parts = EVALUATION_PART + ATTENTION_PART
    assert parts == pytest.approx(1)
    assert EVALUATION_PART > ATTENTION_PART > 0


@pytest.mark.parametrize("update_seconds", [1.0, 0.0625])
@pytest.mark.parametrize(
    ("cost", "interval"), [(0.0, 10), (1.0, 10), (1.2, 20), (10.0, 90), (10.1, 100)]
)
def test_the_interval_is_the_least_multiple_that_keeps_to_the_share(
    cost: float, interval: int, update_seconds: float
) -> None:
    """A tenth of the time, where an evaluation costs as much as so many updates."""
    cadence = Cadence()
    cadence.adapt(10, 0.1, cost * update_seconds, update_seconds)
    cadence.schedule(20)
    assert (cadence.interval, cadence.following) == (interval, 20 + interval)
    assert cost <= 0.1 * (cost + interval)
    assert interval == 10 or cost > 0.1 * (cost + interval - 10)


def test_a_clock_that_stands_still_is_no_division_by_zero() -> None:
    cadence = Cadence()
    cadence.adapt(10, 0.1, 0.0, 0.0)
    assert cadence.interval == 10


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        return self.now


def test_the_interval_keeps_evaluations_to_their_share() -> None:
    """Updates take a second; an evaluation takes 3 seconds before it is scheduled, 1 after."""
    clock, step = Clock(), 0
    meter = CostMeter(clock.read, every=2, share=0.25)
    cadence = Cadence()
    intervals = []
    for _ in range(3):
        meter.restart(step, clock.now)
        step += 4
        clock.now += 4.0
        meter.begin(step)
        clock.now += 3.0
        meter.schedule(step, cadence)
        clock.now += 1.0
        meter.end()
        intervals.append(cadence.interval)
        assert (cadence.following, cadence.every) == (step + cadence.interval, 2)
    # The first one compiles. Then 4 seconds are a quarter of 16, so that 12 updates lie between.
    assert intervals == [0, 12, 12]


def test_without_an_update_the_interval_stays() -> None:
    """As where a run ends right after a log of attention."""
    clock = Clock()
    meter = CostMeter(clock.read, every=2, share=0.25)
    cadence = Cadence(interval=6)
    for step, updates in ((4, 4), (8, 0)):
        meter.restart(step - updates, clock.now)
        clock.now += updates
        meter.begin(step)
        clock.now += 3.0
        meter.schedule(step, cadence)
        meter.end()
    assert (cadence.interval, cadence.following) == (6, 14)


def test_without_a_limit_the_interval_stays() -> None:
    clock = Clock()
    meter = CostMeter(clock.read, every=2, share=None)
    meter.restart(0, clock.now)
    cadence = Cadence()
    for step in (4, 8):
        clock.now += 4.0
        meter.begin(step)
        clock.now += 50.0
        meter.schedule(step, cadence)
        meter.end()
    assert cadence.interval == 0
