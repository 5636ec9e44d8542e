"""The configuration of ``nmt.prepare``: a corpus, its tokenizer, and how it is prepared."""

from __future__ import annotations

from dataclasses import dataclass, field

from nmt.config.checks import MISSING, check_at_least, check_between
from nmt.config.data import PATTERNS, DataConfig, check_data
from nmt.config.tokenizer import TokenizerConfig, check_tokenizer
from nmt.errors import UserError

MAX_HELD_OUT = 100_000  # pairs of dev, and of test: they are lists in memory


@dataclass
class PrepareConfig:
    """The ``prepare`` group: pieces of work, and what is left out of a large corpus besides."""

    shard_lines: int = MISSING  # lines read, at most; a shard is what one process works on
    processes: int | None = MISSING  # null: one for each core
    row_lengths: list[int] = MISSING  # static row lengths in tokens, as in training
    tokenizer_lines: int = MISSING  # of both languages together, drawn from the training pairs
    # Leaves out pairs of which a side is, with this probability, in another language; null: none.
    language_certainty: float | None = MISSING
    encoding_faults: bool = MISSING  # leaves out text decoded wrongly, such as "EspaÃ±a"
    # Leaves out pairs as similar as this to an earlier one, from 0.5 to 1 (all alike); null: none.
    near_duplicates: float | None = MISSING


@dataclass
class PreparationConfig:
    """All of it."""

    output: str = MISSING  # folder
    cache_dir: str = MISSING
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    prepare: PrepareConfig = field(default_factory=PrepareConfig)


def check_preparation(config: PreparationConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first key that is wrong and what it may be.
    """
    check_data(config.data)
    check_tokenizer(config.tokenizer)
    prepare = config.prepare
    check_at_least("prepare.shard_lines", prepare.shard_lines, 1)
    if prepare.processes is not None:
        check_at_least("prepare.processes", prepare.processes, 1)
    if not prepare.row_lengths:
        raise UserError("prepare.row_lengths is empty: give one to three row lengths in tokens")
    for length in prepare.row_lengths:
        check_between("prepare.row_lengths", length, 2, 2**15)  # lengths are kept in 16 bits
    check_at_least("prepare.tokenizer_lines", prepare.tokenizer_lines, 2)
    for key in ("language_certainty", "near_duplicates"):
        if getattr(prepare, key) is not None:
            check_between(f"prepare.{key}", getattr(prepare, key), 0.5, 1)
    _refuse_what_training_decides(config.data)


def _refuse_what_training_decides(data: DataConfig) -> None:
    """Refuse what is no matter of preparation, or cannot be of a large corpus."""
    if data.prepared is not None:
        raise UserError(f"data.prepared={data.prepared} is prepared already: give its sources")
    for name, source in data.sources.items():
        if source.kind == PATTERNS:
            raise UserError(
                f"data.sources.{name} is generated and needs no preparation: leave it out "
                f"with ~data.sources.{name}"
            )
    if data.rejected_file is not None:
        raise UserError(
            f"data.rejected_file={data.rejected_file}: leave it out, rejected lines stand in the "
            "shards of the output"
        )
    if data.stages:
        raise UserError("data.stages: leave them out, they are given to nmt.train")
    for key in ("dev", "test"):
        if getattr(data, key) > MAX_HELD_OUT:
            raise UserError(
                f"data.{key}={getattr(data, key):g} is more than {MAX_HELD_OUT:,}: some thousands "
                "are enough to score on"
            )
