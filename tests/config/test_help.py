"""``--help`` explains keys in the words of the dataclasses."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from sample_configs import composed

from nmt.config.files import conf_dir
from nmt.config.help import describe_groups, describe_keys, read_meanings
from nmt.config.model import RecurrentConfig, TransformerConfig
from nmt.config.training import TrainingConfig

pytestmark = pytest.mark.xdist_group("configurations")


@pytest.mark.parametrize("schema", [TransformerConfig, RecurrentConfig, TrainingConfig])
def test_every_key_is_found(schema: type) -> None:
    assert set(read_meanings(schema)) == {item.name for item in fields(schema)}


def test_comments_above_and_beside_a_key() -> None:
    meanings = read_meanings(TransformerConfig)
    assert meanings["max_length"] == "longest sequence in tokens, EOS included"
    assert meanings["lora_rank"].startswith("Rank of the adapters")
    assert meanings["lora_rank"].endswith("into the matrices. (at least 1, or null)")
    assert meanings["norm"] == "before a block's layers, or after (one of pre, post)"


@pytest.mark.parametrize("model", ["small", "rnn"])
def test_every_key_has_a_meaning_without_names_of_the_code(model: str) -> None:
    keys = re.split(r"^(?=\w)", describe_keys(composed(f"model={model}")), flags=re.MULTILINE)
    for key, *meaning in (entry.splitlines() for entry in keys if entry):
        assert meaning, key
        assert not re.match(r"\(|.*`[A-Za-z.]+`", meaning[0].strip()), key


def test_options_are_those_that_can_be_chosen() -> None:
    lines = dict(line.split(": ") for line in describe_groups(conf_dir()).splitlines())
    assert lines["size"] == "l, m, s, xl, xs"
    assert set(lines) >= {"data", "decoding", "experiment", "model", "tokenizer", "training"}
    chosen = [f"{group}={name}" for group in lines for name in lines[group].split(", ")]
    assert {"model=heads/one", "data=files", "tokenizer=bpe"} <= set(chosen)
    assert not any("schema" in each or "shared" in each for each in chosen)
    assert composed("model=heads/one").model.num_heads == 1
    assert describe_groups(conf_dir(), ["size"]) == "size: l, m, s, xl, xs"


def test_values_are_those_of_the_command_line() -> None:
    text = describe_keys(composed("model=rnn", "training.max_minutes=3"))
    lines = text.splitlines()
    assert {"model.cell=gru", "training.max_minutes=3.0", "data.sources.NAME.kind"} <= set(lines)
    assert "model.heads" not in text
