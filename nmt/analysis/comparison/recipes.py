"""Recipes: runs whose configurations differ only in the seed, and their mean scores.

A paired test says whether two models differ. To compare two recipes, train several seeds of each
(Reimers & Gurevych 2017, Reporting Score Distributions Makes a Difference).
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nmt.analysis.comparison.analysis import SystemResult
from nmt.analysis.comparison.runs import find_differences
from nmt.analysis.comparison.table import MISSING, describe_differences
from nmt.analysis.tables import Listing
from nmt.config.schema import flatten
from nmt.data.splitting import TRAIN
from nmt.runs.folder import RunFolder

_METRICS = ("BLEU", "chrF2++")
_DIGITS = 8  # of a digest in a name
_NOTE = (
    "Means of complete runs that differ only in the seed, with standard deviations in brackets. "
    "Difference: from the first recipe, ± standard error. It is significant at 5% above 4.3 "
    "standard errors with two seeds each, 2.8 with three, 2.3 with five (Student's t-test)."
)
# Keys that do not determine what a run learns: names and places of files, whose content is compared
# instead; how the work is divided; reports. Batches are compared by `positions_per_update`.
_NEUTRAL = re.compile(
    r"seed|name|model\.name|runs_dir|cache_dir"
    r"|data\.(name|rejected_file|prepared|sources\.\w+\.(archive|path|url|run))"
    r"|training\.(batch_tokens|update_tokens|max_update_tokens|accumulate|parallel_parts|devices"
    r"|jit_compile|resume|log_every|keep_checkpoints|samples|probes|probe_every|attention_every)"
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

    Checkpoints, files of translations and runs without scores on their test split, which are
    incomplete, belong to no recipe. Of runs with the same seed, the last one counts.

    Returns:
        The recipes; empty if none has several runs.
    """
    configurations: list[dict[str, Any]] = []
    groups: list[dict[int, SystemResult]] = []  # by seed
    for result in results:
        run = result.system.run
        if run is None or result.system.model is not run or not run.test_scores():
            continue
        configuration = _describe_training(run)
        if configuration not in configurations:
            configurations.append(configuration)
            groups.append({})
        groups[configurations.index(configuration)][run.config.seed] = result
    if all(len(group) < 2 for group in groups):
        return []
    by_recipe = [list(group.values()) for group in groups]
    names = _choose_names(by_recipe, configurations)
    return [Recipe(*each) for each in zip(names, by_recipe, strict=True)]


def _describe_training(run: RunFolder) -> dict[str, Any]:
    """Return what determines the weights of a run, apart from its seed."""
    values = {key: value for key, value in flatten(run.config) if not _NEUTRAL.fullmatch(key)}
    digest = run.read_corpus_record().get("digests", {}).get(TRAIN, "")
    return values | {
        "training.positions_per_update": run.config.training.positions_per_update,
        "data.digest": digest[:_DIGITS],
        **run.read_components(),
    }


def _choose_names(
    groups: Sequence[Sequence[SystemResult]], configurations: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the names of the runs if they tell recipes apart, otherwise what differs."""
    names = [{run.config.name for each in group if (run := each.system.run)} for group in groups]
    every_name = [name for group in names for name in group]
    if len(every_name) == len(set(every_name)) == len(groups):
        return every_name
    return [
        describe_differences(changed) or group[0].system.name
        for changed, group in zip(find_differences(configurations), groups, strict=True)
    ]


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
