"""One dial: ``size=``, and what is chosen for it."""

from __future__ import annotations

import pytest
from sample_configs import configured

from nmt.training.defaults import describe_choices, resolve_config

pytestmark = pytest.mark.xdist_group("configurations")

SIZES = ("xs", "s", "m", "l", "xl")


def test_a_larger_size_has_no_smaller_part() -> None:
    rows = []
    for size in SIZES:
        config = configured(f"size={size}")
        vocabulary = config.tokenizer.vocabulary_size
        costs = config.model.make_sizes(vocabulary).costs
        parameters = sum(part.parameters for part in costs.list_parts())
        rows.append((parameters, vocabulary, config.training.positions_per_update))
    for values in zip(*rows, strict=True):
        assert list(values) == sorted(values)
    assert len(set(rows)) == len(rows) - 1  # xs and s differ in minutes


def test_overrides_win_over_a_size() -> None:
    config = configured(
        "size=m", "model=tiny", "training.max_minutes=1", "tokenizer.vocabulary_size=99"
    )
    assert (config.model.name, config.model.d_model) == ("tiny", 64)
    assert (config.training.max_minutes, config.tokenizer.vocabulary_size) == (1, 99)


def test_a_recipe_wins_over_a_size() -> None:
    config = configured("size=m", "experiment=tatoeba_10m")
    assert config.training.max_minutes == configured("experiment=tatoeba_10m").training.max_minutes


def test_choices_are_printed_as_overrides() -> None:
    config = resolve_config(configured("size=xs"), pairs=100_000)
    line = describe_choices(config)
    assert line.startswith("chose: model.d_model=128 ")
    assert "model.dropout=0.1 " in line
    assert "None" not in line
    again = resolve_config(configured("size=xs", *line.split()[1:]), pairs=10)
    assert (again.model, again.training.learning_rate) == (
        config.model,
        config.training.learning_rate,
    )
