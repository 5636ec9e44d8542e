"""A corpus that `nmt.preparing` has written, and batches of it: no list of pairs in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import DataConfig
from nmt.data.batches import Batch, BatchPlan, lay_out
from nmt.data.caching import is_complete
from nmt.data.corpus import Corpus
from nmt.data.mixture import count_repeats
from nmt.data.records import map_records, read_records, type_of_ids
from nmt.data.shuffling import Permutation
from nmt.data.splitting import DEV, TEST, TRAIN, Pair
from nmt.data.tokenizer import Tokenizer, load_tokenizer
from nmt.errors import UserError

MANIFEST_FILE = "prepared.json"
BEGUN_FILE = "begun.json"  # the configuration; there from the beginning
FORMAT = 1
RECORDS_FILE = "rows.bin"  # of a shard: see `nmt.data.records`
SHARDS, TOKENIZER, TESTS = "shards", "tokenizer", "tests"  # folders
_OTHER_FILES = 512  # open beside the shards
_BATCHES = 1 << 20  # the key of the order of batches; those of rows are indices of shapes


@dataclass(frozen=True)
class PreparedCorpus(Corpus):
    """What a folder of ``nmt.prepare`` holds; the text to train on is not kept."""

    folder: Path = Path()
    manifest: Mapping[str, Any] = field(default_factory=dict)
    repeats: Mapping[str, int] = field(default_factory=dict)  # by source
    mixtures: tuple[Mapping[str, int], ...] = ()  # the same, of each stage

    @property
    def train(self) -> list[Pair]:
        """Refuse: it is what does not fit.

        Raises:
            UserError: always.
        """
        raise UserError(f"{self.folder} keeps ids, and not the text that is trained on")

    @cached_property
    def epoch_pairs(self) -> int:
        """Pairs of an epoch, repetitions included."""
        shards = self.manifest["shards"]
        return sum(self.repeats.get(one["source"], 0) * one["pairs"] for one in shards)

    @property
    def train_pairs(self) -> int:
        """Pairs to train on."""
        return int(self.manifest["pairs"][TRAIN])

    def load_tokenizer(self) -> Tokenizer:
        """Load what the ids were made with."""
        return load_tokenizer(self.folder / TOKENIZER)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what is said about a prepared corpus.

    Raises:
        UserError: the folder holds none, or one that is not finished.
    """
    key = f"data.prepared={folder}"
    try:
        text = (folder / MANIFEST_FILE).read_text(encoding="utf-8")
        manifest = json.loads(text)
    except (FileNotFoundError, NotADirectoryError) as error:
        if (folder / BEGUN_FILE).is_file():
            raise UserError(
                f"{key} is not finished: go on with the command of nmt.prepare that began it"
            ) from error
        raise UserError(f"{key} is no prepared corpus: make one with nmt.prepare") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{key}: {MANIFEST_FILE} cannot be read ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise UserError(f"{key} is of another version of nmt.prepare: prepare the corpus anew")
    if "${" in text:  # it may come from elsewhere, and would read the environment
        raise UserError(
            f"{key}: {MANIFEST_FILE} refers to elsewhere; one of nmt.prepare has values"
        )
    return manifest


def load_prepared(config: DataConfig) -> PreparedCorpus:
    """Read a prepared corpus; its rows stay on the disk.

    Raises:
        UserError: the folder is not whole, or holds none.
    """
    folder = Path(str(config.prepared)).expanduser()
    manifest = read_manifest(folder)
    for one in manifest["shards"]:
        if not is_complete(folder / SHARDS / one["name"]):
            raise UserError(
                f"data.prepared={folder}: the shard {one['name']} is missing or damaged: copy the "
                "folder again, or prepare the corpus anew"
            )
    sizes = _sizes(manifest)
    mixtures = [count_repeats(config, sizes, stage.weights) for stage in config.stages]
    return PreparedCorpus(
        mixture=(),
        dev=_read_table(folder / f"{DEV}.tsv"),
        test=_read_table(folder / f"{TEST}.tsv"),
        rejected=manifest["rejected"],
        lines=manifest["lines"],
        archives=manifest["archives"],
        length_ratios=manifest.get("length_ratios", {}),  # earlier folders have none
        tests={name: _read_table(folder / TESTS / f"{name}.tsv") for name in manifest["tests"]},
        folder=folder,
        manifest=manifest,
        repeats=count_repeats(config, sizes),
        mixtures=tuple(mixtures),
    )


def _sizes(manifest: Mapping[str, Any]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for one in manifest["shards"]:
        sizes[one["source"]] = sizes.get(one["source"], 0) + one["pairs"]
    return sizes


def _read_table(path: Path) -> list[Pair]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        return [Pair(*line.split("\t")) for line in lines]
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path} is missing or damaged: prepare the corpus anew") from error


class PreparedBatches(BatchPlan):
    """The training batches of a prepared corpus, addressed by step like all others.

    Rows are shuffled over all shards, and batches over all shapes, by permutations that are
    computed and not kept: neither time nor memory of the first batch grows with the corpus.

    Args:
        corpus: what to train on.
        repeats: how often an epoch has the pairs of a source.
        tokens: positions per side in one batch, as in `Batches`.
        seed: of the order.
    """

    def __init__(
        self, corpus: PreparedCorpus, repeats: Mapping[str, int], *, tokens: int, seed: int
    ) -> None:
        manifest = corpus.manifest
        used = [one for one in manifest["shards"] if repeats.get(one["source"], 0)]
        times = [repeats[one["source"]] for one in used]
        tables = {
            length: _Table(used, times, i) for i, length in enumerate(manifest["row_lengths"])
        }
        self._tables = [table for table in tables.values() if table.rows]
        super().__init__(
            {length: table.rows for length, table in tables.items() if table.rows},
            tokens=tokens,
            pairs=_sum(used, times, "pairs"),
            skipped=_sum(used, times, "too_long"),
            tokens_per_epoch=_sum(used, times, "tokens"),
        )
        _allow_files(len(used), corpus.folder)
        dtype = type_of_ids(manifest["vocabulary_size"])
        self._records = [
            map_records(
                corpus.folder / SHARDS / one["name"] / RECORDS_FILE, sum(one["rows"]), dtype
            )
            for one in used
        ]
        self._weighed = manifest["weighed"]
        self._seed = seed

    def draw(self, step: int, order: int = 0) -> tuple[int, np.ndarray]:
        """Return the shape of the batch of a step, and its rows: see `BatchPlan.draw`."""
        epoch, position = divmod(step, self.steps_per_epoch)
        keys = self._seed, epoch, order
        batches = Permutation(self.steps_per_epoch, *keys, _BATCHES)
        shape, rows = self.part(int(batches(np.array([position]))[0]))
        return shape, Permutation(self._tables[shape].rows, *keys, shape)(rows)

    def assemble(self, shape: int, rows: np.ndarray, size: int | None = None) -> Batch:
        """Lay out rows of one shape: see `BatchPlan.assemble`."""
        shards, of_shards = self._tables[shape].find(rows)
        lying = zip(shards.tolist(), of_shards.tolist(), strict=True)
        found = [_cut(self._records[shard], row) for shard, row in lying]
        sizes = np.array([len(record) for record in found], np.int64)
        begins = np.cumsum(sizes) - sizes
        none = np.zeros(0, self._records[0][1].dtype)
        parts = read_records(np.concatenate([none, *found]), begins, weighed=self._weighed)
        return lay_out(self.size_of(shape, size), *parts)


def _cut(shard: tuple[np.ndarray, np.ndarray], row: int) -> np.ndarray:
    begins, records = shard
    return records[begins[row] : begins[row + 1]]


class _Table:
    """The rows of one length, in the order of shards: where each of them lies.

    Args:
        shards: of the manifest.
        times: how often an epoch has each.
        length: index of the row length.
    """

    def __init__(
        self, shards: Sequence[Mapping[str, Any]], times: Sequence[int], length: int
    ) -> None:
        counts = np.repeat([one["rows"][length] for one in shards], times).astype(np.int64)
        begins = np.repeat([sum(one["rows"][:length]) for one in shards], times).astype(np.int64)
        self._shards = np.repeat(np.arange(len(shards)), times)
        self._ends = np.cumsum(counts)
        self._from = begins - (self._ends - counts)  # to add to a row's number
        self.rows = int(counts.sum())

    def find(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the shard of each row, and which of its rows it is."""
        entries = np.searchsorted(self._ends, rows, "right")
        return self._shards[entries], rows + self._from[entries]


def _sum(shards: Sequence[Mapping[str, Any]], times: Sequence[int], key: str) -> int:
    return sum(one[key] * n for one, n in zip(shards, times, strict=True))


def _allow_files(count: int, folder: Path) -> None:
    """Let this process keep so many files open: a mapping keeps its own.

    Raises:
        UserError: the system does not allow it.
    """
    try:
        import resource
    except ImportError:  # not a POSIX system, which has no such limit
        return
    needed = count + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UserError(
            f"{folder} has {count:,} shards and this system lets a process open {hard:,} files: "
            f"prepare it with larger prepare.shard_lines, or raise the limit (ulimit -Hn {needed})"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
