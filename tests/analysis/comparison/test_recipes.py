"""Means over the seeds of recipes: which runs belong together, and what is said of them."""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_configs import COMPLETION, changed, configured

from nmt.analysis.comparison.analysis import SystemResult
from nmt.analysis.comparison.recipes import (
    Average,
    Recipe,
    find_recipes,
    recipes_as_json,
    tabulate_recipes,
)
from nmt.analysis.comparison.systems import System
from nmt.config import Config
from nmt.inference.significance import RATE, Statistics
from nmt.runs.folder import COMPONENTS_FILE, TEST_SCORES_FILE, RunFolder


@pytest.fixture(scope="module")
def config() -> Config:
    return configured("model=tiny", "data=phrasebook")


def make_run(
    path: Path,
    config: Config,
    score: float,
    *,
    corpus: str = "a" * 64,
    components: dict[str, str] | None = None,
    **changes: Any,
) -> SystemResult:
    """Return a complete run with some other values; its chrF2++ is 10 more than its BLEU."""
    path.mkdir()
    run = RunFolder(path)
    run.write_config(changed(config, {"runs_dir": str(path.parent), **changes}))
    run.write_json(TEST_SCORES_FILE, {"scores": {"BLEU": {"value": score}}})
    run.write_corpus_record({"digests": {"train": corpus}})
    run.write_json(COMPONENTS_FILE, components or {})
    statistics = {
        name: Statistics(RATE, np.array([[value, 100.0]]))
        for name, value in (("BLEU", score), ("chrF2++", score + 10))
    }
    return SystemResult(System(path.name, path, run, run), statistics)


def make_runs(folder: Path, config: Config, key: str) -> list[SystemResult]:
    """Return three seeds with one value, two seeds with another, and one with a third."""
    scores = {1: (40.0, 41.0, 45.0), 2: (44.0, 47.0), 3: (50.0,)}
    return [
        make_run(folder / f"{value}_{seed}", config, score, **{key: value, "seed": seed})
        for value, values in scores.items()
        for seed, score in enumerate(values)
    ]


def test_recipes_are_runs_that_differ_only_in_the_seed(tmp_path: Path, config: Config) -> None:
    results = make_runs(tmp_path, config, "training.warmup_steps")
    shuffled = [results[index] for index in (0, 3, 1, 5, 4, 2)]
    recipes = find_recipes(shuffled)
    assert [recipe.name for recipe in recipes] == [
        f"training.warmup_steps={value}" for value in (1, 2, 3)
    ]
    assert [[each.system.name for each in recipe.results] for recipe in recipes] == [
        ["1_0", "1_1", "1_2"],
        ["2_0", "2_1"],
        ["3_0"],
    ]


def test_names_of_runs_are_names_of_recipes_if_they_tell_them_apart(
    tmp_path: Path, config: Config
) -> None:
    runs = [
        make_run(tmp_path / f"{name}{seed}", config, 1.0, name=name, seed=seed, **model)
        for name, model in (("a", {}), ("b", {"model.dropout": 0.25}))
        for seed in (1, 2)
    ]
    assert [recipe.name for recipe in find_recipes(runs)] == ["a", "b"]
    other = make_run(tmp_path / "c3", config, 1.0, name="c", seed=3)
    assert [recipe.name for recipe in find_recipes([*runs, other])] == [
        f"dropout={config.model.dropout:g}",
        "dropout=0.25",
    ]
    assert [recipe.name for recipe in find_recipes([runs[0], other])] == ["a1"]


def test_other_data_and_components_are_other_recipes(tmp_path: Path, config: Config) -> None:
    plain = [make_run(tmp_path / f"p{seed}", config, 1.0, seed=seed) for seed in (1, 2)]
    cleaned = [
        make_run(tmp_path / f"c{seed}", config, 1.0, seed=seed, corpus="b" * 64) for seed in (1, 2)
    ]
    focal = make_run(tmp_path / "f1", config, 1.0, components={"loss": "focal"})
    more = changed(config, {})
    more.data.sources["back"] = dataclasses.replace(more.data.sources["written"])
    added = make_run(tmp_path / "b1", more, 1.0, corpus="c" * 64)
    recipes = find_recipes([*plain, *cleaned])
    assert [(recipe.name, list(recipe.results)) for recipe in recipes] == [
        ("data.digest=aaaaaaaa", plain),
        ("data.digest=bbbbbbbb", cleaned),
    ]
    recipes = find_recipes([*plain, focal, added])
    assert [recipe.results for recipe in recipes] == [plain, [focal], [added]]
    kind = more.data.sources["back"].kind
    assert recipes[2].name == f"data.digest=cccccccc, data.sources.back.kind={kind}"


def test_machine_and_places_are_no_part_of_a_recipe(tmp_path: Path) -> None:
    config = configured("model=tiny", "data=files", *COMPLETION["data=files"])
    runs = [
        make_run(tmp_path / "1", config, 1.0, seed=1),
        make_run(
            tmp_path / "2",
            config,
            1.0,
            **{
                "seed": 2,
                "training.parallel_parts": 4,
                "training.log_every": 7,
                "training.probes": ["Uno."],
                "data.rejected_file": "rejected.tsv",
                "data.sources.pairs.path": "/elsewhere/corpus.tsv",
            },
        ),
    ]
    [recipe] = find_recipes(runs)
    assert list(recipe.results) == runs
    larger = make_run(tmp_path / "3", config, 1.0, **{"training.batch_tokens": 1024, "seed": 3})
    assert len(find_recipes([*runs, larger])) == 2  # other updates


def test_incomplete_runs_and_repeated_seeds_do_not_count(tmp_path: Path, config: Config) -> None:
    runs = [make_run(tmp_path / f"{seed}", config, 40.0, seed=seed) for seed in (1, 2, 3)]
    (tmp_path / "3" / TEST_SCORES_FILE).unlink()
    again = make_run(tmp_path / "4", config, 40.0, seed=1)
    [recipe] = find_recipes([*runs, again])
    assert list(recipe.results) == [again, runs[1]]
    assert find_recipes([runs[0], again]) == []


def test_checkpoints_and_files_belong_to_no_recipe(tmp_path: Path, config: Config) -> None:
    runs = [make_run(tmp_path / f"{seed}", config, 1.0, seed=seed) for seed in (1, 2)]
    checkpoint = dataclasses.replace(
        runs[0], system=dataclasses.replace(runs[0].system, model=RunFolder(tmp_path / "copy"))
    )
    file = dataclasses.replace(
        runs[0], system=System("file", tmp_path / "file", None, None, ["One."])
    )
    [recipe] = find_recipes([checkpoint, file, *runs])
    assert list(recipe.results) == runs
    assert find_recipes([checkpoint, file, runs[0]]) == []


def test_means_and_differences_by_hand(tmp_path: Path, config: Config) -> None:
    first, second, third = find_recipes(make_runs(tmp_path, config, "training.warmup_steps"))
    assert first.average("BLEU", first) == Average(42.0, pytest.approx(7**0.5), None, None)
    # Variances 7 and 4.5, of means 7 / 3 and 4.5 / 2.
    expected = Average(45.5, pytest.approx(4.5**0.5), 3.5, pytest.approx((7 / 3 + 4.5 / 2) ** 0.5))
    assert second.average("BLEU", first) == expected
    assert third.average("BLEU", first) == Average(50.0, None, 8.0, None)

    listing = tabulate_recipes([first, second, third])
    assert [row[1:] for row in listing.rows] == [
        ["3", "42.00 (2.65)", "–", "52.00 (2.65)", "–"],
        ["2", "45.50 (2.12)", "+3.50 ± 2.14", "55.50 (2.12)", "+3.50 ± 2.14"],
        ["1", "50.00", "+8.00", "60.00", "+8.00"],
    ]
    content = recipes_as_json([first, second, third])
    assert content[1]["systems"] == ["2_0", "2_1"]
    assert content[1]["scores"]["chrF2++"] == {
        "mean": 55.5,
        "standard_deviation": pytest.approx(statistics.stdev([44.0, 47.0])),
        "difference": 3.5,
        "standard_error": expected.standard_error,
    }


def test_the_standard_error_is_that_of_simulated_recipes() -> None:
    rng = np.random.default_rng(1)

    def make_recipe(spread: float, count: int) -> Recipe:
        scores = rng.normal(50, spread, count)
        results = [
            SystemResult(
                System("", Path(), None, None),
                {"BLEU": Statistics(RATE, np.array([[score, 100.0]]))},
            )
            for score in scores
        ]
        return Recipe("", results)

    averages = []
    for _ in range(2000):
        first = make_recipe(1.0, 3)
        averages.append(make_recipe(2.0, 5).average("BLEU", first))
    observed = statistics.pvariance(average.difference or 0.0 for average in averages)
    expected = statistics.mean((average.standard_error or 0.0) ** 2 for average in averages)
    assert expected == pytest.approx(1 / 3 + 4 / 5, rel=0.05)
    assert observed == pytest.approx(expected, rel=0.1)
