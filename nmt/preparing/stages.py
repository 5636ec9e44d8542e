"""What the stages of a preparation share: its configuration, folders, shards, and pair states."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from nmt.config.preparation import PreparationConfig
from nmt.data.corpus import EvaluationSet
from nmt.preparing.pool import ShardPool

WORK = "work"  # folder of intermediate results, removed at the end
INFO_FILE = "info.json"  # of a shard in any stage: its counts
REJECTED_FILE = "rejected.tsv.gz"  # of a shard in any stage: reason, file:number, line


class PairState(IntEnum):
    """What happens to a pair, as stored in uint8 [pairs]."""

    TRAIN = 0
    DEV = 1
    TEST = 2
    DUPLICATE = 3
    NEAR_DUPLICATE = 4
    HELD_OUT = 5  # shares a side with a pair of dev or test


class CleanShard(NamedTuple):
    """A shard after cleaning. Pairs are numbered through all shards."""

    folder: Path
    source: str
    start: int  # number of its first pair
    pairs: int

    @property
    def name(self) -> str:
        """The name of its folder, in every stage."""
        return self.folder.name

    @property
    def end(self) -> int:
        """The number after that of its last pair."""
        return self.start + self.pairs


@dataclass(frozen=True)
class Preparation:
    """A preparation in progress."""

    config: PreparationConfig
    tests: Mapping[str, EvaluationSet]
    pool: ShardPool

    @property
    def folder(self) -> Path:
        """The folder of the prepared corpus."""
        return self.pool.folder

    @property
    def work(self) -> Path:
        """The folder of intermediate results."""
        return self.folder / WORK

    def log(self, message: str) -> None:
        """Print a message."""
        self.pool.console.print(message)

    def log_rate(self, message: str, count: int, start: float) -> None:
        """Print a message with the time since ``start`` (monotonic), and the count per second."""
        seconds = time.monotonic() - start
        self.log(f"{message} in {seconds:,.1f} s ({count / max(seconds, 1e-3):,.0f}/s)")
