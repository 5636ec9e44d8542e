"""Every file composes, every check says which key is wrong, and nothing is lost on disk."""

from __future__ import annotations

import copy
import types
import typing
from functools import cache
from pathlib import Path
from typing import Any, Union, cast

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from nmt.config import files
from nmt.config import Config
from nmt.errors import UserError, nearest
from nmt.training.schedule import learning_rate

CONF = configuration.conf_dir()

# Files that are written to be completed: what their first line tells the user to add.
COMPLETION = {
    "data=tsv": ["data.path=corpus.tsv"],
    "data=parallel": ["data.source_path=a.es", "data.target_path=a.en"],
    "experiment=paper_base": ["data.source_path=a.en", "data.target_path=a.de"],
}
OPTIONS = sorted(f"{path.parent.name}={path.stem}" for path in CONF.glob("*/*.yaml"))


def composed(*overrides: str) -> DictConfig:
    """Return what the command line would compose."""
    configuration.register()
    with initialize_config_dir(str(CONF.resolve()), version_base="1.3"):
        return compose("train", overrides=list(overrides))


@cache
def configured(*overrides: str) -> Config:
    """Return a configuration that nobody may change: the tests share it."""
    return configuration.from_composed(composed(*overrides))


def complaint(attempt: typing.Callable[[], Any]) -> str:
    """Return the message of the `UserError`, which must be one line."""
    with pytest.raises(UserError) as caught:
        attempt()
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


# Values that the tests below count on, however the files in conf/ are tuned.
PINNED = (
    "model=small",
    "seed=1",
    "model.d_model=256",
    "model.num_heads=4",
    "model.max_length=256",
    "model.attention_kernel=explicit",
    "model.attention_dropout=0",
    "training.batch_tokens=768",
    "training.row_lengths=[64]",
    "training.optimizer=adam",
    "training.weight_decay=0",
    "training.max_steps=null",
    "training.max_epochs=null",
    "training.max_minutes=8",
)


@pytest.fixture(scope="module")
def default() -> Config:
    """A configuration of the embedded corpus; `changed` copies it."""
    return configured(*PINNED)


def changed(config: Config, changes: dict[str, Any]) -> Config:
    """Return a copy with some keys, given in dotted form, set to other values."""
    config = copy.deepcopy(config)
    for key, value in changes.items():
        group, _, name = key.rpartition(".")
        owner = getattr(config, group) if group else config
        assert hasattr(owner, name), key
        setattr(owner, name, value)
    return config


# --- Composition ------------------------------------------------------------------------------


def test_every_group_has_files() -> None:
    groups = {option.partition("=")[0] for option in OPTIONS}
    assert {"data", "tokenizer", "model", "training", "decoding"} <= groups
    assert groups <= {"data", "tokenizer", "model", "training", "decoding", "experiment"}
    assert {"data=phrasebook", "data=tatoeba", *COMPLETION} <= set(OPTIONS)
    assert {f"tokenizer={kind}" for kind in ("unigram", "bpe", "wordpiece")} <= set(OPTIONS)


@pytest.mark.parametrize("option", OPTIONS)
def test_every_file_composes(option: str) -> None:
    config = configured(option, *COMPLETION.get(option, []))
    group, _, name = option.partition("=")
    if group in ("data", "tokenizer"):
        assert getattr(config, group).kind == name
    if group == "model":
        assert config.model.name == name
        assert config.name == f"phrasebook_{name}"


@pytest.mark.parametrize(
    ("option", "key"),
    [
        *[(option, additions[0].partition("=")[0]) for option, additions in COMPLETION.items()],
    ],
)
def test_an_incomplete_file_says_what_it_needs(option: str, key: str) -> None:
    assert key in complaint(lambda: configured(option))


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
        rate = learning_rate(config.training, step, step / 100_000)
        assert rate == pytest.approx(expected, rel=1e-3)
    assert (config.model.name, config.model.norm) == ("base", "post")
    assert (config.model.dropout, config.training.label_smoothing) == (0.1, 0.1)
    assert (config.training.batch_tokens, config.training.max_steps) == (25_000, 100_000)
    assert (config.tokenizer.kind, config.tokenizer.vocabulary_size) == ("bpe", 37_000)


def accepts(hint: Any, value: Any) -> bool:
    """Tell whether a value is of a type, where an int is no float and a bool no int."""
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
    for key, value in configuration.flatten(config):
        group, _, name = key.rpartition(".")
        owner = hints[group] if group else Config
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


# --- On disk ----------------------------------------------------------------------------------


@pytest.mark.parametrize("option", OPTIONS)
def test_saved_and_loaded_it_is_the_same(option: str, tmp_path: Path) -> None:
    config = configured(option, *COMPLETION.get(option, []))
    path = tmp_path / "config.yaml"
    configuration.save(config, path)
    assert configuration.load(path) == config


def test_a_run_of_an_earlier_version_is_read(default: Config, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    configuration.save(default, path)
    later = ("attention_every:", "dropout_warmup_epochs:", "parallel_parts:", "word_dropout:")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.strip().startswith(later)]
    assert len(lines) - len(kept) == len(later)
    path.write_text("".join(kept), encoding="utf-8")
    training = configuration.load(path).training
    assert (training.dropout_warmup_epochs, training.parallel_parts) == (0, 1)
    assert training.word_dropout == 0


def test_odd_values_survive_the_file(default: Config, tmp_path: Path) -> None:
    odd = changed(
        default,
        {
            "name": "año: {nuevo} #1",
            "runs_dir": "~/a b/ñ",
            "seed": 0,
            "data.rejected_file": "null",
            "data.columns": [3, 0],
            "training.probes": ["- no", "¿Sí?: 'quizá'", "👍", "1.0", "null", "on"],
            "training.epsilon": 1e-12,
            "training.learning_rate": 0.1 + 0.2,
            "training.max_steps": 2**40,
            "training.clip_norm": None,
            "training.early_stopping": None,
            "training.ema_decay": 0.999,
        },
    )
    path = tmp_path / "config.yaml"
    configuration.save(odd, path)
    assert configuration.load(path) == odd
    assert "👍" in path.read_text(encoding="utf-8")  # readable, not escaped


def test_the_file_holds_values_and_no_references(default: Config, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    configuration.save(default, path)
    text = path.read_text(encoding="utf-8")
    assert "name: phrasebook_small" in text
    assert "${" not in text
    assert "???" not in text


@pytest.mark.parametrize(
    ("old", "new", "fragment"),
    [
        ("d_model: 256", "d_modle: 256", "'model.d_modle'; did you mean 'model.d_model'?"),
        ("d_model: 256", "d_model: wide", "'model.d_model'"),
        ("d_model: 256", "d_model: ???", "'model.d_model'"),
        ("d_model: 256", "d_model: 255", "model.d_model=255"),
        ("seed: 1\n", "", "'seed'"),
        ("seed: 1\n", "seed: [1\n", "config.yaml"),
        ("seed: 1\n", "seed: 1\nsede: 2\n", "'sede'; did you mean 'seed'?"),
        ("seed: 1\n", "seed: 1\nseed: 2\n", "config.yaml"),
        ("decoding:\n", "decoding: 3\nold:\n", "config.yaml"),
    ],
)
def test_a_file_that_was_edited_badly(
    default: Config, tmp_path: Path, old: str, new: str, fragment: str
) -> None:
    path = tmp_path / "config.yaml"
    configuration.save(default, path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert fragment in complaint(lambda: configuration.load(path))


@pytest.mark.parametrize(
    "content", [b"", b"- a\n- b\n", b"only words\n", b"a: [1\n", b"\tx: 1\n", b"name: \xff\n"]
)
def test_a_file_that_is_no_configuration(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    message = complaint(lambda: configuration.load(path))
    assert str(path) in message or "no value for configuration key" in message


def test_conf_dir_holds_the_primary_configuration() -> None:
    assert (CONF / "train.yaml").is_file()


# --- Keys -------------------------------------------------------------------------------------


def test_flatten(default: Config) -> None:
    flat = dict(configuration.flatten(default))
    assert list(flat)[:5] == ["name", "seed", "runs_dir", "cache_dir", "data.kind"]
    assert list(flat)[-1] == "decoding.batch_size"
    assert flat["model.d_model"] == 256
    assert flat["training.row_lengths"] == [64]
    assert flat["training.max_steps"] is None
    groups = {"data", "tokenizer", "model", "training", "decoding"}
    assert not groups & flat.keys()
    assert {key.partition(".")[0] for key in flat if "." in key} == groups


def test_known_keys_are_the_keys_and_their_groups(default: Config) -> None:
    known = configuration.known_keys()
    assert len(known) == len(set(known))
    flat = {key for key, _ in configuration.flatten(default)}
    assert set(known) - flat == {"data", "tokenizer", "model", "training", "decoding"}
    assert flat <= set(known)


def test_every_key_has_its_value_in_a_file() -> None:
    """The schema has types only: a value of its own would hide what the files forget."""
    schema = OmegaConf.structured(Config)
    with_value = {
        key
        for key in configuration.known_keys()
        if "." in key and not OmegaConf.is_missing(*_owner(schema, key))
    }
    assert with_value == {
        "data.archive",
        "data.url",
        "data.path",
        "data.columns",
        "data.source_path",
        "data.target_path",
        "data.rejected_file",
        "data.patterns",
        "data.pattern_share",
        "training.resume",
    }


def _owner(schema: Any, key: str) -> tuple[DictConfig, str]:
    group, _, name = key.rpartition(".")
    return cast(DictConfig, schema[group]), name


@pytest.mark.parametrize(
    ("word", "candidates", "expected"),
    [
        ("bse", ["tiny", "base", "small"], "; did you mean 'base'?"),
        ("qqq", ["small", "base"], "; there is: base, small"),
        ("qqq", [], ""),
    ],
)
def test_nearest(word: str, candidates: list[str], expected: str) -> None:
    assert nearest(word, candidates) == expected


# --- Checks -----------------------------------------------------------------------------------

ADAMW = {"training.optimizer": "adamw"}
FUSED = {"model.attention_kernel": "fused"}
NAN = float("nan")


def one_key(key: str, *values: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(key, {key: value}) for value in values]


REFUSED = [
    *one_key("data.kind", "tatoebe", "", "cleaning"),
    ("data.path", {"data.kind": "tsv"}),
    ("data.path", {"data.kind": "tsv", "data.path": ""}),
    ("data.source_path", {"data.kind": "parallel", "data.target_path": "a.en"}),
    ("data.target_path", {"data.kind": "parallel", "data.source_path": "a.es"}),
    *one_key("data.columns", [0], [0, 1, 2], [], [1, 1], [-1, 0], [0, -1]),
    *one_key("data.min_words", 0, -1),
    ("data.max_words", {"data.min_words": 5, "data.max_words": 4}),
    *one_key("data.max_characters", 0),
    *one_key("data.max_length_ratio", 0.99, NAN),
    *one_key("data.dev", -1.0, NAN),
    *one_key("data.test", -0.1),
    *one_key("tokenizer.kind", "sentencepiece"),
    *one_key("tokenizer.vocabulary_size", 15, 0),
    *one_key("tokenizer.min_characters_per_piece", -1),
    *one_key("tokenizer.character_coverage", 0.89, 1.01, NAN),
    *one_key("model.d_model", 0, -256),
    *one_key("model.num_heads", 0),
    *one_key("model.ffn_width", 0),
    *one_key("model.encoder_layers", 0),
    *one_key("model.decoder_layers", 0),
    ("model.num_heads=3", {"model.num_heads": 3}),
    ("model.d_model=9", {"model.d_model": 9, "model.num_heads": 3}),
    *one_key("model.norm", "none"),
    *one_key("model.positions", "rotary"),
    *one_key("model.activation", "tanh"),
    *one_key("model.attention_kernel", "flash"),
    *one_key("model.dropout", -0.1, 0.96, 1.0, NAN),
    *one_key("model.attention_dropout", -0.1, 1.0),
    *one_key("model.ffn_dropout", -0.1, 1.0),
    ("model.attention_dropout", {**FUSED, "model.attention_dropout": 0.1}),
    *one_key("training.row_lengths", [], [1], [64, 0], [64, 769]),
    ("model.max_length", {"model.max_length": 63}),
    ("model.max_length", {"training.row_lengths": [16, 257]}),
    *one_key("training.accumulate", 0),
    *one_key("training.parallel_parts", 0),
    *one_key("training.dropout_warmup_epochs", -1.0),
    *one_key("training.log_every", 0),
    *one_key("training.evaluate_every", 0, -5),
    *one_key("training.probe_every", 0),
    *one_key("training.attention_every", 0),
    *one_key("training.evaluation_sentences", -1),
    *one_key("training.samples", -1),
    *one_key("training.warmup_steps", -1),
    ("training.weight_decay", {**ADAMW, "training.weight_decay": -0.1}),
    ("training.weight_decay", {"training.weight_decay": 0.1}),
    *one_key("training.keep_checkpoints", 0),
    *one_key("training.optimizer", "sgd"),
    *one_key("training.schedule", "linear"),
    *one_key("training.precision", "float16", "bfloat16"),
    *one_key("training.jit_compile", "yes"),
    *one_key("training.label_smoothing", -0.1, 0.91),
    *one_key("training.word_dropout", -0.1, 0.96),
    *one_key("training.learning_rate", 0.0, -1e-3),
    *one_key("training.clip_norm", 0.0, -1.0),
    *one_key("training.ema_decay", -0.1, 1.0),
    ("training.max_steps", {"training.max_minutes": None}),
    *one_key("training.max_steps", 0, -1),
    *one_key("training.max_epochs", 0.0),
    *one_key("training.max_minutes", 0.0, -1.0),
    *one_key("decoding.beam_size", 0),
    *one_key("decoding.batch_size", 0),
    *one_key("decoding.length_penalty", -0.1, NAN),
    *one_key("decoding.max_length_ratio", -0.1),
    *one_key("decoding.max_length_margin", 0),
]


@pytest.mark.parametrize(("culprit", "changes"), REFUSED, ids=lambda value: str(value))
def test_a_wrong_value_is_named(default: Config, culprit: str, changes: dict[str, Any]) -> None:
    message = complaint(lambda: configuration.check(changed(default, changes)))
    assert culprit in message


@pytest.mark.parametrize(
    ("changes", "suggestion"),
    [
        ({"model.activation": "swigl"}, "did you mean 'swiglu'?"),
        ({"training.precision": "float_32"}, "did you mean 'float32'?"),
        ({"data.kind": "tatoebe"}, "did you mean 'tatoeba'?"),
    ],
)
def test_a_misspelt_choice_is_corrected(
    default: Config, changes: dict[str, Any], suggestion: str
) -> None:
    assert suggestion in complaint(lambda: configuration.check(changed(default, changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"data.kind": "tsv", "data.path": "x.tsv", "data.columns": [7, 2], "data.patterns": 0},
        {
            **{"data.kind": "parallel", "data.source_path": "a", "data.target_path": "b"},
            "data.patterns": 0,
        },
        {"data.patterns": 1, "data.pattern_share": 0.99},
        {"data.min_words": 3, "data.max_words": 3, "data.max_length_ratio": 1.0},
        {"data.dev": 0.0, "data.test": 0.0},
        {"tokenizer.vocabulary_size": 16, "tokenizer.min_characters_per_piece": 0},
        {"tokenizer.character_coverage": 0.9},
        {"tokenizer.character_coverage": 1.0},
        {"model.d_model": 9, "model.num_heads": 3, "model.positions": "learned"},
        {"model.d_model": 2, "model.num_heads": 2, "model.ffn_width": 1},
        {"model.dropout": 0.0, "model.attention_dropout": 0.95, "model.ffn_dropout": 0.95},
        {**FUSED, "model.dropout": 0.95, "model.norm": "post", "model.activation": "swiglu"},
        {"training.row_lengths": [2, 768], "model.max_length": 768},
        {"training.row_lengths": [256]},  # of 256, the longest that the model takes
        {"training.samples": 0, "training.evaluation_sentences": 0, "training.probes": []},
        {"training.warmup_steps": 0, "training.schedule": "constant"},
        {**ADAMW, "training.weight_decay": 0.01},
        {"training.clip_norm": None, "training.ema_decay": 0.0},
        {"training.label_smoothing": 0.0, "training.precision": "mixed_float16"},
        {"training.max_minutes": None, "training.max_steps": 1},
        {"training.max_minutes": None, "training.max_epochs": 0.5},
        {"decoding.beam_size": 1, "decoding.length_penalty": 0.0, "decoding.max_length_ratio": 0.0},
    ],
    ids=lambda value: str(value),
)
def test_values_at_the_edge_are_taken(default: Config, changes: dict[str, Any]) -> None:
    configuration.check(changed(default, changes))


@pytest.mark.parametrize(
    ("culprit", "changes"),
    [
        *one_key("seed", -1, 2**32),  # NumPy refuses both
        *one_key("training.learning_rate", NAN),
        *one_key("training.clip_norm", NAN),
        *one_key("training.max_minutes", NAN),  # never reached: training would not end
        *one_key("training.beta_1", 1.0, -0.1),  # 1 - beta_1 ** step is a divisor
        *one_key("training.beta_2", 1.0),
        *one_key("training.early_stopping", 0, -1),  # over before the first update
    ],
    ids=lambda value: str(value),
)
def test_a_value_that_cannot_work_is_named(
    default: Config, culprit: str, changes: dict[str, Any]
) -> None:
    assert culprit in complaint(lambda: configuration.check(changed(default, changes)))
