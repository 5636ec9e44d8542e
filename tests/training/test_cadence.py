"""Intervals between interruptions."""

from __future__ import annotations

import pytest

from nmt.training.cadence import Cadence


def test_an_interruption_is_due_at_every_multiple_by_default() -> None:
    cadence = Cadence()
    assert [step for step in range(1, 10) if cadence.is_due(step, 3)] == [3, 6, 9]
    cadence.schedule(3)
    assert [step for step in range(4, 10) if cadence.is_due(step, 3)] == [6, 9]


@pytest.mark.parametrize(
    ("cost", "interval"), [(0.0, 10), (1.0, 10), (1.2, 20), (10.0, 90), (10.1, 100)]
)
def test_the_interval_is_the_least_multiple_that_keeps_to_the_share(
    cost: float, interval: int
) -> None:
    """A tenth of the time, where an update takes a second."""
    cadence = Cadence()
    cadence.adapt(10, 0.1, cost, 1.0)
    cadence.schedule(20)
    assert (cadence.interval, cadence.following) == (interval, 20 + interval)
    assert cost <= 0.1 * (cost + interval)
    assert interval == 10 or cost > 0.1 * (cost + interval - 10)


def test_a_clock_that_stands_still_is_no_division_by_zero() -> None:
    cadence = Cadence()
    cadence.adapt(10, 0.1, 0.0, 0.0)
    assert cadence.interval == 10
