"""The configuration of ``nmt.prepare``: a corpus, its tokenizer, and how it is prepared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from nmt.config.checks import MISSING, PositiveInt, at_least, between, check_value, check_values
from nmt.config.data import DataConfig, check_data
from nmt.config.sources import PATTERNS, RUN, TRANSLATIONS
from nmt.config.tokenizer import TokenizerConfig, check_tokenizer
from nmt.errors import UserError

MAX_HELD_OUT = 100_000  # pairs of dev, and of test: both are lists in memory


@dataclass
class PrepareConfig:
    """The ``prepare`` group: sharding, and filters for large corpora."""

    shard_lines: PositiveInt = MISSING  # largest number in a shard, the work of one process
    processes: PositiveInt | None = MISSING  # null: one for each core
    row_lengths: list[int] = MISSING  # static row lengths in tokens, as in training
    # Of both languages in total, sampled from the training pairs.
    tokenizer_lines: Annotated[int, at_least(2)] = MISSING
    # Rejects pairs with a side in another language, with this probability; null: disabled.
    language_certainty: Annotated[float, between(0.5, 1)] | None = MISSING
    encoding_faults: bool = MISSING  # rejects wrongly decoded text, such as "EspaÃ±a"
    # Rejects pairs that are at least so similar to an earlier one, from 0.5 to 1 (identical);
    # null: disabled.
    near_duplicates: Annotated[float, between(0.5, 1)] | None = MISSING


@dataclass
class PreparationConfig:
    """The whole configuration of a preparation."""

    output: str = MISSING  # folder
    cache_dir: str = MISSING
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    prepare: PrepareConfig = field(default_factory=PrepareConfig)


def check_preparation(config: PreparationConfig) -> None:
    """Raise a `UserError` that names the first invalid key and its valid values."""
    check_values(config)
    check_data(config.data)
    check_tokenizer(config.tokenizer)
    if not config.prepare.row_lengths:
        raise UserError("prepare.row_lengths is empty: give one to three row lengths in tokens")
    for length in config.prepare.row_lengths:
        # Lengths are stored in 16 bits.
        check_value("prepare.row_lengths", length, between(2, 2**15))
    _check_preparable(config.data)


def _check_preparable(data: DataConfig) -> None:
    """Refuse keys that belong to training, and sources that are too small to need preparation."""
    if data.prepared is not None:
        raise UserError(f"data.prepared={data.prepared} is already prepared: give its sources")
    for name, source in data.sources.items():
        if source.kind == PATTERNS:
            raise UserError(
                f"data.sources.{name} is generated and needs no preparation: leave it out with "
                f"~data.sources.{name}"
            )
        if source.group_column is not None:
            raise UserError(
                f"data.sources.{name}.group_column is for corpora that fit into memory: leave it "
                "out, or give dev and test as files"
            )
        if source.kind in (RUN, TRANSLATIONS):
            raise UserError(
                f"data.sources.{name}.kind={source.kind} needs no preparation: give the source to "
                "nmt.train"
            )
    if data.rejected_file is not None:
        raise UserError(
            f"data.rejected_file={data.rejected_file}: leave it out, the shards of the output "
            "hold the rejected lines"
        )
    if data.context:
        raise UserError("data.context is for corpora that fit into memory: set it to 0")
    if data.stages:
        raise UserError("data.stages: leave them out, and give them to nmt.train")
    for key in ("dev", "test"):
        if getattr(data, key) > MAX_HELD_OUT:
            raise UserError(
                f"data.{key} must be at most {MAX_HELD_OUT:,}, got {getattr(data, key):g}: some "
                "thousands are enough to score on"
            )
