"""Every file composes, every value has its type, and every key is known."""

from __future__ import annotations

import types
import typing
from dataclasses import fields
from typing import Any, Union, cast

import pytest
from omegaconf import DictConfig, OmegaConf
from sample_configs import COMPLETION, LANGUAGES, OPTIONS, PINNED, configured
from sample_corpora import complaint

from nmt.config import Config, SourceConfig
from nmt.config.model import MODEL_CONFIGS
from nmt.config.noise import NoiseConfig
from nmt.config.schema import flatten, list_keys
from nmt.errors import suggest
from nmt.training.schedule import compute_learning_rate

pytestmark = pytest.mark.xdist_group("configurations")

# --- Composition ------------------------------------------------------------------------------


def test_every_group_has_files() -> None:
    groups = {option.partition("=")[0] for option in OPTIONS}
    assert {"data", "tokenizer", "model", "training", "decoding"} <= groups
    assert groups <= {
        "data",
        "tokenizer",
        "model",
        "training",
        "decoding",
        "experiment",
        "size",
        "hydra",
    }
    assert {"data=phrasebook", "data=tatoeba", *COMPLETION} <= set(OPTIONS)
    assert {f"tokenizer={kind}" for kind in ("unigram", "bpe", "wordpiece")} <= set(OPTIONS)


KINDS_OF = {
    "phrasebook": {"phrasebook", "patterns"},
    "tatoeba": {"zip"},
    "files": {"files"},
    "opus": {"zip"},
    "wmt13": {"zip"},
    "prepared": set(),
    "corrections": {"translations", "run"},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_file_composes(option: str) -> None:
    config = configured(option, *COMPLETION.get(option, []))
    group, _, name = option.partition("=")
    if group == "tokenizer":
        assert config.tokenizer.kind == name
    if group == "data":
        assert config.data.name == name
        assert {source.kind for source in config.data.sources.values()} == KINDS_OF[name]
    if group == "model":
        assert config.model.name == name.replace("/", "_")
        assert config.name == f"phrasebook_{config.model.name}"


@pytest.mark.parametrize(
    ("option", "key"),
    [
        *[(option, additions[0].partition("=")[0]) for option, additions in COMPLETION.items()],
    ],
)
def test_an_incomplete_file_says_what_it_needs(option: str, key: str) -> None:
    assert key in complaint(lambda: configured(option, *LANGUAGES))


def test_files_choose_and_keys_override() -> None:
    config = configured(
        "model=tiny", "tokenizer=bpe", "decoding=greedy", "model.d_model=32", "name=mine", "seed=7"
    )
    assert (config.name, config.seed) == ("mine", 7)
    assert (config.model.name, config.model.d_model, config.model.encoder_layers) == ("tiny", 32, 1)
    assert config.tokenizer.kind == "bpe"
    assert config.decoding.beam_size == 1


def test_the_base_model_is_that_of_the_paper() -> None:
    """Vaswani et al. 2017, table 3, row "base"."""
    model = configured("model=base").model
    assert (model.encoder_layers, model.decoder_layers) == (6, 6)
    assert (model.d_model, model.ffn_width, model.num_heads) == (512, 2048, 8)


def test_the_big_model_is_that_of_the_paper() -> None:
    """Vaswani et al. 2017, table 3, row "big"."""
    model = configured("model=big").model
    assert (model.encoder_layers, model.decoder_layers) == (6, 6)
    assert (model.d_model, model.ffn_width, model.num_heads) == (1024, 4096, 16)
    assert model.dropout == 0.3


def test_the_settings_of_the_paper_follow_its_equation_3() -> None:
    """lrate = d^-0.5 min(step^-0.5, step warmup^-1.5): Vaswani et al. 2017, section 5.3."""
    config = configured("experiment=paper_base", *COMPLETION["experiment=paper_base"])
    for step in (1, 100, 4000, 4001, 30_000, 100_000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        rate = compute_learning_rate(config.training, step, step / 100_000)
        assert rate == pytest.approx(expected, rel=1e-3)
    assert (config.model.name, config.model.norm) == ("base", "post")
    assert (config.model.dropout, config.training.label_smoothing) == (0.1, 0.1)
    assert (config.training.batch_tokens, config.training.max_steps) == (25_000, 100_000)
    assert (config.tokenizer.kind, config.tokenizer.vocabulary_size) == ("bpe", 37_000)
    assert (config.data.phrases, *vars(config.data.noise).values()) == (0,) * 8


def accepts(hint: Any, value: Any) -> bool:
    """Whether a value has exactly this type: an int is not a float, a bool is not an int."""
    if hint is Any:
        return True
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(accepts(choice, value) for choice in typing.get_args(hint))
    if origin is list:
        return type(value) is list and all(accepts(typing.get_args(hint)[0], x) for x in value)
    return type(value) is hint


@pytest.mark.parametrize("option", OPTIONS)
def test_values_have_their_types(option: str) -> None:
    config = configured(option, *COMPLETION.get(option, []))
    hints = typing.get_type_hints(Config)
    checked = 0
    for key, value in flatten(config):
        group, _, name = key.rpartition(".")
        owner = SourceConfig if group.startswith("data.sources.") else hints.get(group, Config)
        owner = NoiseConfig if group == "data.noise" else owner
        owner = type(config.model) if group == "model" else owner
        hint = typing.get_type_hints(owner)[name]
        assert accepts(hint, value), f"{key}={value!r} is no {hint}"
        checked += 1
    assert checked > 60


def test_whole_numbers_are_taken_where_fractions_may_stand() -> None:
    config = configured("data.dev=5", "training.max_minutes=3", "training.learning_rate=1")
    values = [config.data.dev, config.training.max_minutes, config.training.learning_rate]
    assert values == [5.0, 3.0, 1.0]
    assert all(type(value) is float for value in values)


@pytest.mark.parametrize(
    ("override", "key", "suggestion"),
    [
        ("+model.foo=1", "model.foo", ""),
        ("+model.d_modle=1", "model.d_modle", "did you mean 'model.d_model'?"),
        ("++training.learning_rat=1", "training.learning_rat", "'training.learning_rate'"),
        ("+model.foo.bar=1", "model.foo", ""),
        ("+sed=1", "sed", "did you mean 'seed'?"),
        ("+zzz.x=1", "zzz", ""),
        ("+decoding.beams=3", "decoding.beams", "did you mean 'decoding.beam_size'?"),
    ],
)
def test_a_key_that_was_pushed_in_is_refused(override: str, key: str, suggestion: str) -> None:
    message = complaint(lambda: configured(override))
    assert f"unknown configuration key '{key}'" in message
    assert suggestion in message


def test_a_test_set_is_one_file() -> None:
    message = "data.tests.news needs a file of pairs, or a run"
    for value in ("[a.es,a.en]", ""):
        assert complaint(lambda value=value: configured(f"data.tests.news={value}")) == message


def test_a_key_that_was_taken_out_is_missed() -> None:
    assert "seed" in complaint(lambda: configured("~seed"))
    assert "data." in complaint(lambda: configured("~data"))


def test_a_value_that_is_missing() -> None:
    assert complaint(lambda: configured("model.d_model=???")) == (
        "no value for configuration key 'model.d_model'"
    )


def test_an_interpolation_to_nowhere() -> None:
    message = complaint(lambda: configured("runs_dir=${data.nowhere}"))
    assert "runs_dir" in message or "data.nowhere" in message


def test_a_value_of_the_wrong_type_is_found_after_interpolation() -> None:
    assert "model.d_model" in complaint(lambda: configured("model.d_model=${model.activation}"))


# --- Keys -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def default() -> Config:
    """A configuration of the embedded corpus."""
    return configured(*PINNED)


def test_flatten(default: Config) -> None:
    flat = dict(flatten(default))
    assert list(flat)[:5] == ["name", "seed", "runs_dir", "cache_dir", "data.name"]
    assert list(flat)[-1] == "decoding.quantization"
    assert flat["model.d_model"] == 256
    assert flat["training.row_lengths"] == [64]
    assert flat["training.max_steps"] is None
    groups = {"data", "tokenizer", "model", "training", "decoding"}
    assert not groups & flat.keys()
    assert {key.partition(".")[0] for key in flat if "." in key} == groups
    source_keys = [key.split(".")[2:] for key in flat if key.startswith("data.sources.")]
    keys = [item.name for item in fields(SourceConfig)]
    assert source_keys == [[name, key] for name in ("written", "patterns") for key in keys]
    assert flat["data.sources.patterns.pairs"] == 60_000


def test_known_keys_are_the_keys_and_their_groups(default: Config) -> None:
    valid_keys = list_keys()
    assert len(valid_keys) == len(set(valid_keys))
    flat = {key for key, _ in flatten(default)}
    source_keys = {key for key in flat if key.startswith("data.sources.")}
    groups = {"data", "tokenizer", "model", "training", "decoding"}
    rnn_keys = {key for key, _ in flatten(configured("model=rnn"))}
    parents = groups | {"data.noise", "data.sources", "data.tests"}
    assert set(valid_keys) - flat == parents | (rnn_keys - flat)
    assert {"model.cell", "model.bridge"} <= rnn_keys - flat
    assert flat - source_keys <= set(valid_keys)


def test_every_key_has_its_value_in_a_file() -> None:
    """The schema has types only: a default would hide a value that the files lack."""
    schema = OmegaConf.structured(Config)
    with_value = {
        key
        for key in list_keys()
        if "." in key
        and not key.startswith("model.")
        and not OmegaConf.is_missing(*_owner(schema, key))
    }
    for kind, model in MODEL_CONFIGS.items():
        model_schema = OmegaConf.structured(model)
        values = [str(key) for key in model_schema if not OmegaConf.is_missing(model_schema, key)]
        assert values == ["kind"]
        assert model_schema.kind == kind
    assert with_value == {
        "data.noise",
        "data.sources",
        "data.tests",
        "data.prepared",
        "data.rejected_file",
        "training.resume",
    }


def _owner(schema: Any, key: str) -> tuple[DictConfig, str]:
    group, _, name = key.rpartition(".")
    return cast(DictConfig, OmegaConf.select(schema, group)), name


@pytest.mark.parametrize(
    ("word", "candidates", "expected"),
    [
        ("bse", ["tiny", "base", "small"], "; did you mean 'base'?"),
        ("qqq", ["small", "base"], "; choose from: base, small"),
        ("qqq", [], ""),
    ],
)
def test_suggestions(word: str, candidates: list[str], expected: str) -> None:
    assert suggest(word, candidates) == expected
