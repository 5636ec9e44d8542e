"""Recipes: runs whose configurations differ only in the seed, and their mean scores.

A paired test says whether two models differ. Whether two recipes differ shows only over several
seeds, each of which gives another model (Reimers & Gurevych 2017, Reporting Score Distributions
Makes a Difference).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nmt.analysis.comparison.analysis import SystemResult
from nmt.analysis.comparison.runs import WITHOUT_EFFECT, find_differences
from nmt.analysis.comparison.table import MISSING, describe_differences
from nmt.analysis.tables import Listing
from nmt.config.schema import flatten

_METRICS = ("BLEU", "chrF2++")
_NOTE = (
    "Means of runs that differ only in the seed, with standard deviations in brackets. Difference: "
    "from the first recipe, ± standard error. With three seeds each, it is significant at 5% above "
    "2.8 standard errors (Student's t-test)."
)


class Average(NamedTuple):
    """The mean of a metric over the runs of a recipe."""

    mean: float
    standard_deviation: float | None  # None: one run
    difference: float | None  # from the first recipe; None: it is the first one
    standard_error: float | None  # of the difference; None: no difference, or one run in either


@dataclass(frozen=True)
class Recipe:
    """Runs whose configurations differ only in the seed."""

    name: str
    results: Sequence[SystemResult]

    def average(self, metric: str, first: Recipe) -> Average:
        """Return the mean of a metric, compared with that of the first recipe."""
        scores, others = (
            [result.statistics[metric].score() for result in recipe.results]
            for recipe in (self, first)
        )
        mean = statistics.mean(scores)
        deviation = statistics.stdev(scores) if len(scores) > 1 else None
        if self is first:
            return Average(mean, deviation, None, None)
        error = None
        if deviation is not None and len(others) > 1:
            variances = [statistics.variance(each) / len(each) for each in (scores, others)]
            error = math.sqrt(sum(variances))
        return Average(mean, deviation, mean - statistics.mean(others), error)


def find_recipes(results: Sequence[SystemResult]) -> list[Recipe]:
    """Group runs by recipe, in the order of their first runs.

    Checkpoints and files of translations belong to no recipe.

    Returns:
        The recipes; empty if none has several runs.
    """
    configurations: list[dict[str, Any]] = []
    groups: list[list[SystemResult]] = []
    names: list[set[str]] = []  # in the configurations of each group
    for result in results:
        run = result.system.run
        if run is None or result.system.model is not run:
            continue
        configuration = {
            key: value
            for key, value in flatten(run.config)
            if key != "seed" and key not in WITHOUT_EFFECT
        }
        if configuration not in configurations:
            configurations.append(configuration)
            groups.append([])
            names.append(set())
        index = configurations.index(configuration)
        groups[index].append(result)
        names[index].add(run.config.name)
    if all(len(group) < 2 for group in groups):
        return []
    return [
        Recipe(*each) for each in zip(_choose_names(names, configurations), groups, strict=True)
    ]


def _choose_names(
    names: Sequence[set[str]], configurations: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the names of the runs if they tell recipes apart, otherwise what differs."""
    if len(set().union(*names)) == sum(map(len, names)) == len(names):
        return [name for [name] in names]
    return [describe_differences(each) or "all" for each in find_differences(configurations)]


def tabulate_recipes(recipes: Sequence[Recipe]) -> Listing:
    """Return the table of the recipes."""
    header = ["recipe", "runs", *(cell for name in _METRICS for cell in (name, "difference"))]
    rows = [
        [
            recipe.name,
            str(len(recipe.results)),
            *(cell for name in _METRICS for cell in _cells(recipe.average(name, recipes[0]))),
        ]
        for recipe in recipes
    ]
    return Listing("Recipes", _NOTE, header, rows)


def _cells(average: Average) -> tuple[str, str]:
    mean, deviation, difference, error = average
    return (
        f"{mean:.2f}" + ("" if deviation is None else f" ({deviation:.2f})"),
        MISSING
        if difference is None
        else f"{difference:+.2f}" + ("" if error is None else f" ± {error:.2f}"),
    )


def recipes_as_json(recipes: Sequence[Recipe]) -> list[dict[str, Any]]:
    """Return the numbers of the table, and the names of the runs."""
    return [
        {
            "name": recipe.name,
            "systems": [result.system.name for result in recipe.results],
            "scores": {name: recipe.average(name, recipes[0])._asdict() for name in _METRICS},
        }
        for recipe in recipes
    ]
