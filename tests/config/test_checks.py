"""Every check says which key is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from sample_configs import PINNED, changed, configured
from sample_corpora import complaint

from nmt.config import Config, SourceConfig
from nmt.config.schema import check_config


@pytest.fixture(scope="module")
def default() -> Config:
    """A configuration of the embedded corpus; `changed` copies it."""
    return configured(*PINNED)


ADAMW = {"training.optimizer": "adamw"}
FITTING = {"training.batch_tokens": "auto", "training.update_tokens": 3072}
FUSED = {"model.attention_kernel": "fused"}
NAN = float("nan")


def shortly(value: Any) -> str:
    return str(value)[:60]


def one_key(key: str, *values: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(key, {key: value}) for value in values]


def sources(**of: dict[str, Any]) -> dict[str, Any]:
    """Return the change that makes these the sources."""
    return {"data.sources": {name: SourceConfig(**keys) for name, keys in of.items()}}


TSV = {"kind": "files", "path": "x.tsv"}
OTHER = TSV | {"path": "y.tsv"}
ZIP = {"kind": "zip", "url": "http://one/a.zip"}
PATTERNS = {"kind": "patterns", "split": "train", "pairs": 9}
PARALLEL = {"kind": "files", "path": ["a.es", "a.en"]}

OF_SOURCES = [
    ("data.sources is empty", sources()),
    ("invalid name 'a b'", sources(**{"a b": TSV})),
    ("invalid name ''", sources(**{"": TSV})),
    *[("data.sources.one.kind", sources(one={"kind": kind})) for kind in ("tatoebe", "", "clean")],
    ("data=phrasebook needs data.sources.one.path=FILE", sources(one={"kind": "files"})),
    ("data=phrasebook needs data.train=FILE", sources(pairs=TSV | {"path": ""})),
    ("source 'two' needs data.sources.two.path=FILE", sources(one=TSV, two={"kind": "files"})),
    ("source 'pairs' needs data.train=FILE", sources(one=PARALLEL, pairs={"kind": "files"})),
    ("data.sources.one.path=['a', 'b', 'c']: give", sources(one=TSV | {"path": ["a", "b", "c"]})),
    ("data.sources.one.path=['a', 1]: give", sources(one=TSV | {"path": ["a", 1]})),
    ("needs data.archive=FILE", sources(pairs={"kind": "zip"})),
    *[
        (
            "data.sources.one.columns must be two different columns",
            sources(one=TSV | {"columns": columns}),
        )
        for columns in ([0], [0, 1, 1], [0, 1, 2, 3], [], [1, 1], [-1, 0], [0, -1], [[0], [1]])
    ],
    (
        "data.sources.two.columns must be two different columns",
        sources(one=TSV, two=OTHER | {"columns": [1, 1]}),
    ),
    ("data.sources.two.columns=[0, 2]", sources(one=TSV, two=PATTERNS | {"columns": [0, 2]})),
    ("data.sources.one.archive needs kind=zip", sources(one=TSV | {"archive": "a"})),
    ("data.sources.one.url needs kind=zip", sources(one=PARALLEL | {"url": "a"})),
    *[
        (
            f"must be an address with http:// or https://, got {url}",
            sources(one=ZIP | {"url": url}),
        )
        for url in (
            "file:///etc/passwd",
            "ftp://host/a.zip",
            "a.zip",
            "//host/a.zip",
            "http://[bad/a.zip",
        )
    ],
    ("data.sources.one.path needs kind=files", sources(one=ZIP | {"path": "a"})),
    (
        "data.sources.one.split must be one of",
        sources(one=TSV | {"split": "all"}),
    ),
    ("data.sources has no training data", sources(one=TSV | {"split": "dev"})),
    (
        "data.sources has no training data",
        sources(one=TSV | {"split": "dev"}, two=OTHER | {"split": "test"}),
    ),
    ("data.sources.one.pairs needs kind=patterns", sources(one=TSV | {"pairs": 5})),
    ("data.sources.one.pairs", sources(one=PATTERNS | {"pairs": -1})),
    *[
        ("data.sources.one.split", sources(one=PATTERNS | {"split": split}, two=TSV))
        for split in ("shares", "dev", "test")
    ],
    *[
        ("data.sources.one.weight", sources(one=TSV | {"weight": weight}))
        for weight in (0.0, -1.0, float("nan"), float("inf"))
    ],
    *[("data.sources.one.tag", sources(one=TSV | {"tag": tag})) for tag in ("", " ", "a b", "a ")],
    ("data.sources.one.sha256 needs kind=zip", sources(one=TSV | {"sha256": "a" * 64})),
    *[
        ("data.sha256 must be the 64 hexadecimal digits", sources(pairs=ZIP | {"sha256": wrong}))
        for wrong in ("a" * 63, "a" * 65, "g" * 64)
    ],
]

REFUSED = [
    *OF_SOURCES,
    *one_key("data.min_words", 0, -1),
    ("data.max_words", {"data.min_words": 5, "data.max_words": 4}),
    *one_key("data.max_characters", 0),
    *one_key("data.max_length_ratio", 0.99, NAN),
    *one_key("data.dev", -1.0, NAN, 1.5),
    *one_key("data.source_language", "spanish", "es-123456789", "", "e"),
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
    ("not divisible by num_heads=3", {"model.num_heads": 3}),
    (
        "model.d_model must be even",
        {"model.d_model": 9, "model.num_heads": 3},
    ),
    *one_key("model.norm", "none"),
    *one_key("model.positions", "round"),
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
    *one_key("training.batch_tokens", 0, "all", "auto"),
    *one_key("training.update_tokens", 0),
    ("training.accumulate", {"training.update_tokens": 1536, "training.accumulate": 3}),
    ("training.accumulate", {**FITTING, "training.accumulate": 2}),
    ("training.row_lengths", {**FITTING, "training.row_lengths": [3073]}),
    ("training.update_tokens=3072 has", {**FITTING, "training.row_lengths": [3073]}),
    (
        "training.max_update_tokens=64 has",
        {
            "training.batch_tokens": "auto",
            "training.max_update_tokens": 64,
            "training.row_lengths": [65],
        },
    ),
    *one_key("training.stop_behind", 0, 50),
    *one_key("training.epsilon", 0, -1e-9),
    *one_key("training.parallel_parts", 0),
    *one_key("training.dropout_warmup_epochs", -1.0),
    *one_key("training.log_every", 0),
    *one_key("training.evaluate_every", 0, -5),
    *one_key("training.probe_every", 0),
    *one_key("training.attention_every", 0),
    *one_key("training.evaluation_sentences", -1),
    *one_key("training.samples", -1),
    *one_key("training.tokenizer_lines", 1),
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
    *one_key("training.evaluation_share", 0, 1, -0.1, 2.0),
    *one_key("training.max_steps", 0, -1),
    *one_key("training.max_epochs", 0.0),
    *one_key("training.max_minutes", 0.0, -1.0),
    *one_key("decoding.beam_size", 0),
    *one_key("decoding.batch_size", 0),
    *one_key("decoding.length_penalty", -0.1, NAN),
    *one_key("decoding.no_repeat_ngram", -1),
    *one_key("decoding.max_length_ratio", -0.1),
    *one_key("decoding.max_length_margin", 0),
]


@pytest.mark.parametrize(("culprit", "changes"), REFUSED, ids=shortly)
def test_a_wrong_value_is_named(default: Config, culprit: str, changes: dict[str, Any]) -> None:
    message = complaint(lambda: check_config(changed(default, changes)))
    assert culprit in message


@pytest.mark.parametrize(
    "changes",
    [
        sources(one=TSV | {"columns": [7, 2]}),
        sources(one=PARALLEL),
        sources(one=PARALLEL, two=PARALLEL | {"path": ["b", "c"]}),
        sources(one=TSV, two=ZIP, three={"kind": "zip", "archive": "a.zip"}),
        sources(one=ZIP, two=ZIP, three=ZIP | {"url": "http://two/a.zip", "archive": "here"}),
        sources(one=ZIP, two=ZIP | {"url": "http://one/b.zip"}),
        sources(one=ZIP, two=ZIP | {"url": "http://two/a.zip"}),  # kept by the whole address
        sources(one=ZIP | {"sha256": "0123456789abcdefABCDEF" + "0" * 42}),
        sources(one=PATTERNS),
        sources(one=PATTERNS | {"pairs": 0, "columns": [1, 0]}, two={"kind": "phrasebook"}),
        sources(one=TSV | {"split": "train"}, two=OTHER | {"split": "dev", "weight": 1e-9}),
        sources(one=TSV | {"weight": 1000.0, "tag": "<año>"}, two=OTHER | {"tag": "2"}),
        {"data.sources.patterns.pairs": 1, "data.sources.patterns.weight": 0.99},
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
    ids=shortly,
)
def test_values_at_the_edge_are_taken(default: Config, changes: dict[str, Any]) -> None:
    check_config(changed(default, changes))


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
    ids=shortly,
)
def test_a_value_that_cannot_work_is_named(
    default: Config, culprit: str, changes: dict[str, Any]
) -> None:
    assert culprit in complaint(lambda: check_config(changed(default, changes)))
