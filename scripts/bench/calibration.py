"""Check that p-values of comparisons are uniform where systems do not differ.

    python scripts/bench/calibration.py RUN_A RUN_B
    python scripts/bench/calibration.py RUN_A RUN_B RUN_C RUN_D ...

With two runs: takes the outputs of both on one test split (their `evaluation_test.json`), exchanges
them at random in every sentence, so that two systems result that do not differ, and tests these.
Repeats that, and compares the distribution of p-values with the uniform one (Kolmogorov and
Smirnov), for three tests: paired randomization as in `nmt.inference.significance`, sacreBLEU's
paired randomization, which does not count equal differences, and sacreBLEU's paired bootstrap.

With more runs: tests A against B, C against D and so on by paired randomization, and compares these
p-values with the uniform distribution. Runs of one recipe with other seeds should not differ.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.inference.significance import (
    Exchanges,
    Statistics,
    compare_scores,
    count_statistics,
    score_totals,
)

Array = NDArray[Any]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--trials", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--samples", type=int, default=999, help="of each test (%(default)s)")
    arguments = parser.parse_args()
    if len(arguments.runs) % 2:
        parser.error("runs are compared two by two: give an even number")
    tables = [json.loads((run / "evaluation_test.json").read_text()) for run in arguments.runs]
    references, *others = ([row["reference"] for row in table["outputs"]] for table in tables)
    if any(other != references for other in others):
        parser.error("the runs have other test sentences")
    counted = [
        count_statistics([row["output"] for row in t["outputs"]], references, language="en")
        for t in tables
    ]
    print("| metric | test | D | KS p | share ≤ 0.05 | share ≤ 0.01 |")
    print("|---|---|---:|---:|---:|---:|")
    for metric in counted[0]:
        statistics = [each[metric] for each in counted]
        pairs = list(zip(statistics[::2], statistics[1::2], strict=True))
        if len(pairs) == 1:
            tests = simulate(pairs[0], arguments.trials, arguments.samples)
        else:
            p_values = compare_pairs(pairs)
            tests = {"paired randomization": p_values}
            print("p-values:", *(f"{value:.3f}" for value in p_values), file=sys.stderr)
        for name, values in tests.items():
            distance, p_value = compare_with_uniform(values)
            shares = " | ".join(f"{(values <= level).mean():.3f}" for level in (0.05, 0.01))
            print(f"| {metric} | {name} | {distance:.3f} | {p_value:.2g} | {shares} |", flush=True)


def compare_pairs(pairs: Sequence[tuple[Statistics, Statistics]]) -> Array:
    """Return the p-value [pairs] of the difference between the systems of each pair."""
    exchanges = Exchanges(len(pairs[0][0].counts))
    return np.array([compare_scores(*pair, exchanges).p_value for pair in pairs])


def simulate(pair: tuple[Statistics, Statistics], trials: int, samples: int) -> dict[str, Array]:
    """Return the p-values [trials] of each test for systems that do not differ.

    Args:
        pair: statistics of two systems, whose outputs are exchanged at random.
        trials: number of exchanges.
        samples: of each test.
    """
    generator = np.random.default_rng(1)
    p_values: dict[str, list[float]] = {
        "paired randomization": [],
        "sacreBLEU's randomization": [],
        "sacreBLEU's bootstrap": [],
    }
    for trial in range(trials):
        swap = generator.integers(2, size=(len(pair[0].counts), 1)).astype(bool)
        first, second = (
            Statistics(one.metric, np.where(swap, one.counts, other.counts))
            for one, other in (pair, pair[::-1])
        )
        exchanges = Exchanges(len(swap), samples, seed=trial)
        tests = (
            compare_scores(first, second, exchanges).p_value,
            randomize_like_sacrebleu(first, second, exchanges),
            bootstrap_like_sacrebleu(first, second, samples, trial),
        )
        for values, p_value in zip(p_values.values(), tests, strict=True):
            values.append(p_value)
    return {name: np.array(values) for name, values in p_values.items()}


def randomize_like_sacrebleu(first: Statistics, second: Statistics, exchanges: Exchanges) -> float:
    """Return the p-value of ``sacrebleu --paired-ar``, which counts larger differences only."""
    change = second.counts - first.counts
    moved = np.concatenate([chunk @ change for chunk in exchanges.chunks()])  # [R, K]
    scores = [
        score_totals(first.metric, totals)
        for totals in (second.counts.sum(0) - moved, first.counts.sum(0) + moved)
    ]
    return _share_above(np.abs(scores[0] - scores[1]), abs(second.score() - first.score()))


def bootstrap_like_sacrebleu(
    first: Statistics, second: Statistics, samples: int, seed: int
) -> float:
    """Return the p-value of ``sacrebleu --paired-bs``: absolute differences less their mean."""
    generator = np.random.default_rng(seed)
    count = len(first.counts)
    weights = np.stack(
        [
            np.bincount(generator.integers(count, size=count), minlength=count)
            for _ in range(samples)
        ]
    )  # [samples, N]
    scores = [score_totals(each.metric, weights @ each.counts) for each in (first, second)]
    differences = np.abs(scores[0] - scores[1])
    return _share_above(differences - differences.mean(), abs(second.score() - first.score()))


def _share_above(values: Array, observed: float) -> float:
    return float(((values > observed).sum() + 1) / (len(values) + 1))


def compare_with_uniform(p_values: Array) -> tuple[float, float]:
    """Return the distance D of Kolmogorov and Smirnov, and the p-value of its distribution.

    The p-value is Stephens' approximation (1970).
    """
    count = len(p_values)
    ranks = np.arange(1, count + 1) / count
    ordered = np.sort(p_values)
    distance = float(max((ranks - ordered).max(), (ordered - ranks + 1 / count).max()))
    scaled = (math.sqrt(count) + 0.12 + 0.11 / math.sqrt(count)) * distance
    terms = ((-1) ** (k - 1) * math.exp(-2 * k**2 * scaled**2) for k in range(1, 101))
    return distance, min(1.0, max(0.0, 2 * sum(terms)))


if __name__ == "__main__":
    main()
