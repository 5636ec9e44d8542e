"""The configuration of ``nmt.prepare``: a corpus, its tokenizer, and how it is prepared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from nmt.config.checks import (
    MISSING,
    PositiveInt,
    RowLengths,
    at_least,
    between,
    check_value,
    check_values,
)
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
    row_lengths: RowLengths = MISSING  # static row lengths in tokens, as in training
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
    for key in ("dev", "test"):
        check_value(f"data.{key}", getattr(config.data, key), between(0, MAX_HELD_OUT))
    _check_preparable(config.data)


def _check_preparable(data: DataConfig) -> None:
    """Refuse keys that belong to training, and sources that are too small to need preparation."""
    refusals: dict[str, Any] = {  # message -> whether it applies
        f"data.prepared={data.prepared} is already prepared: give its sources": data.prepared,
        f"data.rejected_file={data.rejected_file}: leave it out, the shards of the output hold the "
        "rejected lines": data.rejected_file,
        "data.context is for corpora that fit into memory: set it to 0": data.context,
        "data.stages: leave them out, and give them to nmt.train": data.stages,
    }
    for name, source in data.sources.items():
        key = f"data.sources.{name}"
        refusals |= {
            f"{key} is generated and needs no preparation: leave it out with ~{key}": (
                source.kind == PATTERNS
            ),
            f"{key}.group_column is for corpora that fit into memory: leave it out, or give dev "
            "and test as files": source.group_column is not None,
            f"{key}.kind={source.kind} needs no preparation: give the source to nmt.train": (
                source.kind in (RUN, TRANSLATIONS)
            ),
        }
    for message, applies in refusals.items():
        if applies:
            raise UserError(message)
