"""Types, units and checks of every configuration key. The values stand in ``conf/*.yaml``.

`register` hands these classes to Hydra as the schema, so that a misspelt key or a wrong type is
refused while the configuration is composed; `from_composed` turns the composed configuration into
plain dataclasses and makes the checks that span keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, cast

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from nmt.errors import UserError, nearest

PRECISIONS = ("auto", "float32", "mixed_bfloat16", "mixed_float16")


@dataclass
class DataConfig:
    """Which sentence pairs, how they are cleaned, and how they are split."""

    kind: str = MISSING  # phrasebook | tatoeba | tsv | parallel
    source_language: str = MISSING  # BCP 47 tag, for labels and scores only
    target_language: str = MISSING

    archive: str | None = None  # tatoeba: a zip already on disk, instead of downloading
    url: str | None = None  # tatoeba: where the zip is fetched from
    path: str | None = None  # tsv: one file, plain or .gz
    columns: list[int] = field(default_factory=lambda: [0, 1])  # source, target column from 0
    source_path: str | None = None  # parallel: two line-aligned files, plain or .gz
    target_path: str | None = None
    patterns: int = 0  # phrasebook: training pairs expanded from the grammar beside it
    pattern_share: float = 0.5  # of an epoch; hand-written pairs are repeated to come near it

    min_words: int = MISSING  # per side
    max_words: int = MISSING  # per side
    max_characters: int = MISSING  # per side
    max_length_ratio: float = MISSING  # longer side / shorter side, in characters
    length_ratio_margin: int = MISSING  # characters by which any pair may differ all the same
    rejected_file: str | None = None  # where rejected lines are written, with their reasons

    dev: float = MISSING  # pairs: a count (>= 1), or a share of the corpus (< 1)
    test: float = MISSING
    split_seed: int = MISSING  # apart from `seed`, so that runs compare on one test split


@dataclass
class TokenizerConfig:
    """The subword vocabulary, shared by both languages."""

    kind: str = MISSING  # unigram | bpe | wordpiece
    vocabulary_size: int = MISSING  # upper bound, special tokens included
    # A small corpus supports only a small vocabulary: pieces seen a few times learn nothing. The
    # size is lowered to (characters of the training split) / this many, and that is logged.
    min_characters_per_piece: int = MISSING
    character_coverage: float = MISSING  # share of characters that get a piece; the rest are bytes


@dataclass
class ModelConfig:
    """The encoder-decoder transformer (Vaswani et al. 2017) and its variants."""

    name: str = MISSING
    d_model: int = MISSING  # model width D
    num_heads: int = MISSING  # H; a head is D / H wide
    ffn_width: int = MISSING  # F
    encoder_layers: int = MISSING
    decoder_layers: int = MISSING
    norm: str = MISSING  # pre | post
    positions: str = MISSING  # sinusoidal | learned
    activation: str = MISSING  # relu | relu2 | gelu | swiglu
    # On embeddings and on every residual branch. null: by the size of the training split, see
    # `nmt.prepare.dropout_for`.
    dropout: float | None = MISSING
    attention_dropout: float = MISSING  # on attention weights
    ffn_dropout: float = MISSING  # inside the feed-forward block
    max_length: int = MISSING  # longest sequence in tokens, end mark included
    attention_kernel: str = MISSING  # explicit | fused
    remat: bool = MISSING  # recompute block activations in the backward pass: less memory


@dataclass
class TrainingConfig:
    """Batches, objective, optimizer, limits and cadence."""

    batch_tokens: int = MISSING  # positions per side in one micro-batch
    row_lengths: list[int] = MISSING  # static row lengths in tokens; each is compiled once
    accumulate: int = MISSING  # micro-batches per update
    # Parts of a batch worked on at the same time; null: two on a CPU with TensorFlow, else one.
    parallel_parts: int | None = MISSING

    label_smoothing: float = MISSING
    dropout_warmup_epochs: float = MISSING  # over which dropout grows from 0 to its full rates
    word_dropout: float = MISSING  # share of the target words that the decoder reads as unknown
    optimizer: str = MISSING  # adam | adamw | muon
    # Peak rate. null: by the width of the model, see `nmt.prepare.learning_rate_for`.
    learning_rate: float | None = MISSING
    schedule: str = MISSING  # inverse_sqrt | cosine | constant
    warmup_steps: int = MISSING  # updates; at most a tenth of max_steps is used
    beta_1: float = MISSING
    beta_2: float = MISSING
    epsilon: float = MISSING
    weight_decay: float = MISSING  # adamw and muon; kernels only
    clip_norm: float | None = MISSING  # global norm; null turns clipping off
    ema_decay: float | None = MISSING  # per update; null turns averaging off

    precision: str = MISSING  # auto | float32 | mixed_bfloat16 | mixed_float16
    jit_compile: str = MISSING  # auto | on | off

    max_steps: int | None = MISSING  # updates
    max_epochs: float | None = MISSING
    max_minutes: float | None = MISSING  # wall clock, validation included, set-up apart
    log_every: int = MISSING  # updates
    evaluate_every: int = MISSING  # updates
    early_stopping: int | None = MISSING  # evaluations without a better dev BLEU; null: never
    evaluation_sentences: int = MISSING  # of the dev split, translated greedily at an evaluation
    keep_checkpoints: int = MISSING
    resume: str | None = None  # a run folder, or "latest"

    samples: int = MISSING  # dev sentences shown in TensorBoard at every evaluation
    probes: list[str] = MISSING  # source sentences whose attention is logged; empty: none
    probe_every: int = MISSING  # evaluations between two drawings of the first two probes
    attention_every: int = MISSING  # updates between two logs of the probes' weights


@dataclass
class DecodingConfig:
    """How sentences are searched for, once training is over."""

    beam_size: int = MISSING  # 1 is greedy
    length_penalty: float = MISSING  # alpha of Wu et al. 2016, equation 14
    max_length_ratio: float = MISSING  # output tokens per source token
    max_length_margin: int = MISSING  # output tokens allowed beyond that
    batch_size: int = MISSING  # sentences


@dataclass
class Config:
    """The whole of a run."""

    name: str = MISSING
    seed: int = MISSING
    runs_dir: str = MISSING
    cache_dir: str = MISSING
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)


def register() -> None:
    """Store the schema where the defaults list of ``conf/train.yaml`` finds it."""
    ConfigStore.instance().store(name="schema", node=Config, provider="nmt")


def conf_dir() -> Path:
    """Return the folder of YAML files: inside an installed wheel, or at the top of a checkout."""
    package = Path(__file__).parent
    packaged = package / "_conf"
    return packaged if packaged.is_dir() else package.parent / "conf"


def from_composed(composed: DictConfig) -> Config:
    """Resolve, convert and check a composed configuration.

    Raises:
        UserError: an unknown key (Hydra lets ``+group.key=value`` through), a missing value, or a
            value that contradicts another.
    """
    refuse_unknown_keys(composed)
    try:
        OmegaConf.resolve(composed)
        missing = sorted(OmegaConf.missing_keys(composed))
        deleted = [
            key
            for key in known_keys()
            if OmegaConf.select(composed, key, default=MISSING) == MISSING
        ]
        if missing or deleted:
            raise UserError(f"no value for configuration key '{(missing or deleted)[0]}'")
        config = cast(Config, OmegaConf.to_object(composed))
    except OmegaConfBaseException as error:
        raise UserError(describe(error)) from error
    check(config)
    return config


def refuse_unknown_keys(composed: DictConfig) -> None:
    """Raise a `UserError` that names the first key the schema lacks, and the nearest one."""
    for key, known in _unknown_keys(composed, Config, ""):
        raise UserError(f"unknown configuration key '{key}'{nearest(key, known)}")


# Keys that runs of earlier versions lack, with the value that does what those did.
_LATER_KEYS = {
    "training.attention_every": 250,
    "training.dropout_warmup_epochs": 0,
    "training.parallel_parts": 1,
    "training.word_dropout": 0,
}


def load(path: Path) -> Config:
    """Read a run's ``config.yaml`` back, checked against today's schema."""
    try:
        stored = OmegaConf.load(path)
        if isinstance(stored, ListConfig):
            raise UserError(f"{path} is not a configuration")
        merged = OmegaConf.structured(Config)
        for key, value in _LATER_KEYS.items():
            OmegaConf.update(merged, key, value)
        merged = OmegaConf.merge(merged, stored)
    except OmegaConfBaseException as error:
        raise UserError(f"{path}: {describe(error)}") from error
    except (YAMLError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not a readable configuration: {reason}") from error
    return from_composed(cast(DictConfig, merged))


def save(config: Config, path: Path) -> None:
    """Write the resolved configuration as YAML."""
    path.write_text(OmegaConf.to_yaml(OmegaConf.structured(config)), encoding="utf-8")


def flatten(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ``("model.d_model", 256)`` and so on, in declaration order."""
    for item in fields(config):
        value = getattr(config, item.name)
        if is_dataclass(value):
            yield from flatten(value, f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, value


def known_keys(schema: type = Config, prefix: str = "") -> list[str]:
    """Return every key of the schema in dotted form, groups included."""
    keys = []
    for item in fields(schema):
        keys.append(prefix + item.name)
        group = GROUPS.get(item.name) if schema is Config else None
        if group:
            keys.extend(known_keys(group, f"{item.name}."))
    return keys


GROUPS: dict[str, type] = {
    "data": DataConfig,
    "tokenizer": TokenizerConfig,
    "model": ModelConfig,
    "training": TrainingConfig,
    "decoding": DecodingConfig,
}


def describe(error: OmegaConfBaseException) -> str:
    """Say in one line what is wrong, with the key and, if it is unknown, the nearest one."""
    key = re.sub(r"\[\d+\]", "", error.full_key or str(error.key or ""))  # elements of lists
    reason = str(error.msg or error).splitlines()[0]
    if key and key not in known_keys():
        return f"unknown configuration key '{key}'{nearest(key, known_keys())}"
    return f"configuration key '{key}': {reason}" if key else reason


def _unknown_keys(node: DictConfig, schema: type, prefix: str) -> Iterator[tuple[str, list[str]]]:
    names = {item.name for item in fields(schema)}
    for key in node:
        name = str(key)
        if name not in names:
            yield prefix + name, [prefix + known for known in names]
        elif schema is Config and name in GROUPS:
            yield from _unknown_keys(node[name], GROUPS[name], f"{name}.")


def check(config: Config) -> None:
    """Make the checks that types cannot.

    Raises:
        UserError: names the first key that is wrong and what it may be.
    """
    for key, value in flatten(config):
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{key}={value} must be a finite number")
    _between("seed", config.seed, 0, 2**32 - 1)
    data, tokenizer, model = config.data, config.tokenizer, config.model
    training, decoding = config.training, config.decoding

    _one_of("data.kind", data.kind, ("phrasebook", "tatoeba", "tsv", "parallel"))
    if data.kind == "tsv" and not data.path:
        raise UserError("data=tsv needs data.path=FILE")
    if data.kind == "parallel" and not (data.source_path and data.target_path):
        raise UserError("data=parallel needs data.source_path=FILE and data.target_path=FILE")
    if len(data.columns) != 2 or min(data.columns) < 0 or data.columns[0] == data.columns[1]:
        raise UserError(
            f"data.columns={data.columns}: give two different column numbers, source then target, "
            "counted from 0"
        )
    _at_least("data.patterns", data.patterns, 0)
    if data.patterns and data.kind != "phrasebook":
        raise UserError("data.patterns belongs to data=phrasebook")
    _between("data.pattern_share", data.pattern_share, 0.01, 0.99)
    _at_least("data.min_words", data.min_words, 1)
    _at_least("data.max_words", data.max_words, data.min_words)
    _at_least("data.max_characters", data.max_characters, 1)
    _at_least("data.max_length_ratio", data.max_length_ratio, 1)
    _at_least("data.dev", data.dev, 0)
    _at_least("data.test", data.test, 0)

    _one_of("tokenizer.kind", tokenizer.kind, ("unigram", "bpe", "wordpiece"))
    _at_least("tokenizer.vocabulary_size", tokenizer.vocabulary_size, 16)
    _at_least("tokenizer.min_characters_per_piece", tokenizer.min_characters_per_piece, 0)
    _between("tokenizer.character_coverage", tokenizer.character_coverage, 0.9, 1)

    for key in ("d_model", "num_heads", "ffn_width", "encoder_layers", "decoder_layers"):
        _at_least(f"model.{key}", getattr(model, key), 1)
    if model.d_model % model.num_heads:
        raise UserError(
            f"model.d_model={model.d_model} is not divisible by model.num_heads={model.num_heads}"
        )
    if model.positions == "sinusoidal" and model.d_model % 2:
        raise UserError(f"model.d_model={model.d_model} must be even for sinusoidal positions")
    _one_of("model.norm", model.norm, ("pre", "post"))
    _one_of("model.positions", model.positions, ("sinusoidal", "learned"))
    _one_of("model.activation", model.activation, ("relu", "relu2", "gelu", "swiglu"))
    _one_of("model.attention_kernel", model.attention_kernel, ("explicit", "fused"))
    rates = ["attention_dropout", "ffn_dropout"] + ["dropout"] * (model.dropout is not None)
    for key in rates:
        _between(f"model.{key}", getattr(model, key), 0, 0.95)
    if model.attention_kernel == "fused" and model.attention_dropout:
        raise UserError(
            "model.attention_kernel=fused has no dropout inside: set model.attention_dropout=0"
        )

    if not training.row_lengths:
        raise UserError("training.row_lengths is empty: give one to three row lengths in tokens")
    for length in training.row_lengths:
        _between("training.row_lengths", length, 2, training.batch_tokens)
    _at_least("model.max_length", model.max_length, max(training.row_lengths))
    for key in ("batch_tokens", "accumulate", "log_every"):
        _at_least(f"training.{key}", getattr(training, key), 1)
    for key in ("evaluate_every", "probe_every", "attention_every"):
        _at_least(f"training.{key}", getattr(training, key), 1)
    if training.parallel_parts is not None:
        _at_least("training.parallel_parts", training.parallel_parts, 1)
    _at_least("training.dropout_warmup_epochs", training.dropout_warmup_epochs, 0)
    for key in ("evaluation_sentences", "samples", "warmup_steps", "weight_decay"):
        _at_least(f"training.{key}", getattr(training, key), 0)
    _at_least("training.keep_checkpoints", training.keep_checkpoints, 1)
    _one_of("training.optimizer", training.optimizer, ("adam", "adamw", "muon"))
    if training.weight_decay and training.optimizer == "adam":
        raise UserError("training.weight_decay needs training.optimizer=adamw or muon")
    _one_of("training.schedule", training.schedule, ("inverse_sqrt", "cosine", "constant"))
    _one_of("training.precision", training.precision, PRECISIONS)
    _one_of("training.jit_compile", training.jit_compile, ("auto", "on", "off"))
    for key in ("beta_1", "beta_2"):
        _between(f"training.{key}", getattr(training, key), 0, 0.999999)
    if training.early_stopping is not None:
        _at_least("training.early_stopping", training.early_stopping, 1)
    _between("training.label_smoothing", training.label_smoothing, 0, 0.9)
    _between("training.word_dropout", training.word_dropout, 0, 0.95)
    if training.learning_rate is not None and training.learning_rate <= 0:
        raise UserError(f"training.learning_rate={training.learning_rate} must be above 0")
    if training.clip_norm is not None and training.clip_norm <= 0:
        raise UserError("training.clip_norm must be above 0, or null")
    if training.ema_decay is not None:
        _between("training.ema_decay", training.ema_decay, 0, 0.999999)
    limits = (training.max_steps, training.max_epochs, training.max_minutes)
    if all(limit is None for limit in limits):
        raise UserError(
            "training has no end: set training.max_steps, training.max_epochs or "
            "training.max_minutes"
        )
    if any(limit is not None and limit <= 0 for limit in limits):
        raise UserError(
            "training.max_steps, training.max_epochs and training.max_minutes must be above 0"
        )

    _at_least("decoding.beam_size", decoding.beam_size, 1)
    _at_least("decoding.batch_size", decoding.batch_size, 1)
    _at_least("decoding.length_penalty", decoding.length_penalty, 0)
    _at_least("decoding.max_length_ratio", decoding.max_length_ratio, 0)
    _at_least("decoding.max_length_margin", decoding.max_length_margin, 1)


def _one_of(key: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"{key}={value} is none of {', '.join(choices)}{nearest(value, choices)}")


def _at_least(key: str, value: float, least: float) -> None:
    if not value >= least:
        raise UserError(f"{key}={value} must be at least {least}")


def _between(key: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UserError(f"{key}={value} must lie between {low} and {high}")
