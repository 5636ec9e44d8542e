"""Which slices tell two systems apart: tests of the interaction of slice and system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt.analysis.comparison.slices import Slice
from nmt.inference.significance import (
    EXCHANGES,
    Exchanges,
    PairedTest,
    Statistics,
    compare_selections,
    correct_p_values,
)

MIN_SENTENCES = 10  # sentences inside and outside of a slice that is tested
ALPHA = 0.05  # a corrected p-value below it is significant
_MAX_FINDINGS = 4


@dataclass(frozen=True)
class SliceResult:
    """The scores of two systems inside and outside of a slice."""

    slice: Slice
    inside: tuple[float, float]  # of the first and the second system
    outside: tuple[float, float]
    test: PairedTest | None  # of the difference inside minus outside; None: too few sentences
    p_value: float | None  # corrected for the number of slices

    @property
    def difference(self) -> float:
        """Inside, second minus first."""
        return self.inside[1] - self.inside[0]

    @property
    def is_significant(self) -> bool:
        """Whether the difference of the systems depends significantly on the slice."""
        return self.p_value is not None and self.p_value <= ALPHA


def score_slices(
    first: Statistics, second: Statistics, slices: Sequence[Slice], count: int = EXCHANGES
) -> list[SliceResult]:
    """Return the scores of both systems in each slice, with corrected tests.

    Args:
        first: statistics of one system.
        second: of the other one.
        slices: of these sentences.
        count: exchanges of each test.
    """
    sentences = len(first.counts)
    tested = [each for each in slices if MIN_SENTENCES <= each.size <= sentences - MIN_SENTENCES]
    tests: dict[str, PairedTest] = {}
    corrected: dict[str, float] = {}
    if tested:
        results = _test(first, second, tested, count)
        names = [each.name for each in tested]
        tests = dict(zip(names, results, strict=True))
        p_values = correct_p_values([result.p_value for result in results])
        corrected = dict(zip(names, p_values, strict=True))
    return [
        SliceResult(
            each,
            (first.score(each.members), second.score(each.members)),
            (first.score(~each.members), second.score(~each.members)),
            tests.get(each.name),
            corrected.get(each.name),
        )
        for each in slices
    ]


def _test(
    first: Statistics, second: Statistics, slices: Sequence[Slice], count: int
) -> list[PairedTest]:
    """Test whether the difference inside of each slice is that outside."""
    selections = np.stack([each.members for each in slices])
    exchanges = Exchanges(len(first.counts), count)
    return compare_selections(first, second, selections, exchanges, contrasts=True)


def choose_findings(
    first: Statistics,
    second: Statistics,
    results: Sequence[SliceResult],
    count: int = EXCHANGES,
) -> list[SliceResult]:
    """Return significant slices, the one with the most evidence first, without repetition.

    A slice that shares sentences with one before it is left out unless the systems also differ
    there without those sentences.
    """
    chosen: list[SliceResult] = []
    remaining = [result for result in results if result.is_significant and result.test]
    covered = np.zeros(len(first.counts), bool)
    number_of_tests = sum(result.test is not None for result in results)
    while remaining and len(chosen) < _MAX_FINDINGS:
        best = max(remaining, key=lambda result: result.test.evidence if result.test else 0.0)
        chosen.append(best)
        covered |= best.slice.members
        left = [each for each in remaining if each is not best]
        remaining = _drop_explained(first, second, left, ~covered, number_of_tests, count)
    return chosen


def _drop_explained(
    first: Statistics,
    second: Statistics,
    results: Sequence[SliceResult],
    free: np.ndarray,
    number_of_tests: int,
    exchanges: int,
) -> list[SliceResult]:
    """Return the results that are significant among the free sentences alone."""
    rests = [each.slice._replace(members=each.slice.members[free]) for each in results]
    count = int(free.sum())
    testable = [
        (result, rest)
        for result, rest in zip(results, rests, strict=True)
        if MIN_SENTENCES <= rest.size <= count - MIN_SENTENCES
    ]
    if not testable:
        return []
    tests = _test(
        first._replace(counts=first.counts[free]),
        second._replace(counts=second.counts[free]),
        [rest for _, rest in testable],
        exchanges,
    )
    return [
        result
        for (result, _), test in zip(testable, tests, strict=True)
        if test.p_value * number_of_tests <= ALPHA and _agree(result, test)
    ]


def _agree(result: SliceResult, test: PairedTest) -> bool:
    """Whether the difference has the same sign as with all sentences."""
    return result.test is not None and result.test.difference * test.difference > 0
