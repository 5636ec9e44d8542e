"""The experiments that compare: every trial composes, has a name of its own, and is of one size."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml
from sample_configs import OPTIONS, configured

from nmt.config import Config
from nmt.config.files import conf_dir

pytestmark = pytest.mark.xdist_group("configurations")

COMPARISONS = [
    option.removeprefix("experiment=")
    for option in OPTIONS
    if option.startswith("experiment=compare_")
]
ALIKE = 0.1  # of the parameters of `compact`


def read(name: str) -> dict[str, Any]:
    return yaml.safe_load((conf_dir() / "experiment" / f"{name}.yaml").read_text("utf-8"))


def list_trials(name: str) -> list[tuple[str, ...]]:
    """Return the overrides of each trial, as Hydra's sweeper makes them."""
    params = read(name)["hydra"]["sweeper"]["params"]
    choices = [[f"{key}={value}" for value in str(params[key]).split(",")] for key in params]
    return list(itertools.product(*choices))


def compose_trials(name: str) -> list[Config]:
    return [configured(f"experiment={name}", *trial) for trial in list_trials(name)]


def count_parameters(config: Config, vocabulary_size: int) -> int:
    costs = config.model.make_sizes(vocabulary_size).costs
    return sum(part.parameters for part in costs.list_parts())


def test_what_is_compared() -> None:
    counts = {name.removeprefix("compare_"): len(list_trials(name)) for name in COMPARISONS}
    assert counts == {"models": 5, "heads": 8, "positions": 6, "norms": 6, "tokenizers": 3}


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_trial_has_a_name_and_a_model_of_its_own(name: str) -> None:
    assert read(name)["hydra"]["mode"] == "MULTIRUN"
    trials = compose_trials(name)
    assert len({config.name for config in trials}) == len(trials)
    variants = {str((config.model, config.tokenizer)) for config in trials}
    assert len(variants) == len(trials)
    assert {config.runs_dir for config in trials} == {f"runs/{name}"}
    # Nothing else differs.
    assert len({str((config.data, config.training, config.decoding)) for config in trials}) == 1


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("vocabulary_size", [4000, 8000])
def test_trials_are_of_one_size(name: str, vocabulary_size: int) -> None:
    reference = count_parameters(configured("model=compact"), vocabulary_size)
    sizes = {
        config.name: count_parameters(config, vocabulary_size) / reference
        for config in compose_trials(name)
    }
    assert {name: size for name, size in sizes.items() if abs(size - 1) > ALIKE} == {}


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_is_made_on_other_corpora_as_well(name: str) -> None:
    for trial in list_trials(name)[:1]:
        config = configured(f"experiment={name}", "data=tatoeba", *trial)
        assert config.data.name == "tatoeba"
