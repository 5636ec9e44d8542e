"""``--help`` explains keys in the words of the dataclasses."""

from __future__ import annotations

from dataclasses import fields

import pytest
from sample_configs import composed

from nmt.config.help import describe_keys, read_meanings
from nmt.config.model import RecurrentConfig, TransformerConfig
from nmt.config.training import TrainingConfig

pytestmark = pytest.mark.xdist_group("configurations")


@pytest.mark.parametrize("schema", [TransformerConfig, RecurrentConfig, TrainingConfig])
def test_every_key_is_found(schema: type) -> None:
    assert set(read_meanings(schema)) == {item.name for item in fields(schema)}


def test_comments_above_and_beside_a_key() -> None:
    meanings = read_meanings(TransformerConfig)
    assert meanings["max_length"] == "longest sequence in tokens, end mark included"
    assert meanings["lora_rank"].startswith("Rank of the adapters")
    assert meanings["lora_rank"].endswith("into the matrices. (at least 1, or null)")
    assert meanings["norm"] == "(one of pre, post)"


def test_values_are_those_of_the_command_line() -> None:
    text = describe_keys(composed("model=rnn", "training.max_minutes=3"))
    lines = text.splitlines()
    assert {"model.cell=gru", "training.max_minutes=3.0", "data.sources.NAME.kind"} <= set(lines)
    assert "model.heads" not in text
