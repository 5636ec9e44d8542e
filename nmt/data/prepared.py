"""A corpus written by `nmt.preparing`, and its batches, without a list of pairs in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import DataConfig
from nmt.data.batches import BatchPlan
from nmt.data.caching import is_complete
from nmt.data.corpus import Corpus
from nmt.data.mixture import count_repeats
from nmt.data.noise import RowNoise
from nmt.data.packing import PackedRows
from nmt.data.records import map_records, read_records, type_of_ids
from nmt.data.shuffling import Permutation
from nmt.data.splitting import DEV, TEST, TRAIN, Pair
from nmt.data.tokenizer import Tokenizer, load_tokenizer
from nmt.errors import UserError
from nmt.text.source_words import SourceWords

MANIFEST_FILE = "prepared.json"
BEGUN_FILE = "begun.json"  # the inputs; written at the start of a preparation
FORMAT = 1
RECORDS_FILE = "rows.bin"  # in the folder of a shard: see `nmt.data.records`
SHARDS, TOKENIZER, TESTS = "shards", "tokenizer", "tests"  # folders
_OTHER_FILES = 512  # files that a process may open in addition to the shards
_SAMPLED_ROWS = 64  # rows that are read at a time for a sample
_BATCHES = 1 << 20  # key of the order of batches; the keys of rows are indices of shapes


@dataclass(frozen=True)
class PreparedCorpus(Corpus):
    """A folder of ``nmt.prepare``, which has ids of the training pairs, and not their text."""

    folder: Path = Path()
    manifest: Mapping[str, Any] = field(default_factory=dict)
    repeats: Mapping[str, int] = field(default_factory=dict)  # by source
    stage_repeats: tuple[Mapping[str, int], ...] = ()  # likewise, of each stage

    @property
    def train(self) -> list[Pair]:
        """Not available, as the text does not fit into memory.

        Raises:
            UserError: always.
        """
        raise UserError(f"{self.folder} has the ids of training pairs, and not their text")

    @cached_property
    def epoch_pairs(self) -> int:
        """Pairs in an epoch, repeats included."""
        shards = self.manifest["shards"]
        return sum(self.repeats.get(shard["source"], 0) * shard["pairs"] for shard in shards)

    @property
    def train_pairs(self) -> int:
        """Training pairs, without repeats."""
        return int(self.manifest["pairs"][TRAIN])

    def load_tokenizer(self) -> Tokenizer:
        """Load the tokenizer that encoded the corpus."""
        return load_tokenizer(self.folder / TOKENIZER)

    def source_words(self) -> SourceWords | None:
        """Load the words of the training sources; None if nmt.prepare did not count them."""
        return SourceWords.load(self.folder / TOKENIZER)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a prepared corpus.

    Raises:
        UserError: the folder is not a prepared corpus, or its preparation is not finished.
    """
    key = f"data.prepared={folder}"
    try:
        text = (folder / MANIFEST_FILE).read_text(encoding="utf-8")
        manifest = json.loads(text)
    except (FileNotFoundError, NotADirectoryError) as error:
        if (folder / BEGUN_FILE).is_file():
            raise UserError(
                f"{key} is not finished: run the same nmt.prepare command again"
            ) from error
        raise UserError(f"{key} is not a prepared corpus: make one with nmt.prepare") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{key}: {MANIFEST_FILE} cannot be read ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise UserError(f"{key} is of another version of nmt.prepare: prepare the corpus anew")
    if "${" in text:  # OmegaConf would resolve it, and an untrusted manifest read the environment
        raise UserError(
            f"{key}: {MANIFEST_FILE} has a reference (${{…}}), which nmt.prepare never writes"
        )
    return manifest


def load_prepared(config: DataConfig) -> PreparedCorpus:
    """Read a prepared corpus, without its rows.

    Raises:
        UserError: the folder is incomplete, or not a prepared corpus.
    """
    folder = Path(str(config.prepared)).expanduser()
    manifest = read_manifest(folder)
    sizes: dict[str, int] = {}  # source -> pairs
    for shard in manifest["shards"]:
        if not is_complete(folder / SHARDS / shard["name"]):
            raise UserError(
                f"data.prepared={folder}: the shard {shard['name']} is missing or damaged: copy "
                "the folder again, or prepare the corpus anew"
            )
        sizes[shard["source"]] = sizes.get(shard["source"], 0) + shard["pairs"]
    stage_repeats = [count_repeats(config, sizes, stage.weights) for stage in config.stages]
    return PreparedCorpus(
        mixture=(),
        dev=_read_table(folder / f"{DEV}.tsv"),
        test=_read_table(folder / f"{TEST}.tsv"),
        rejected=manifest["rejected"],
        lines=manifest["lines"],
        archives=manifest["archives"],
        length_ratios=manifest["length_ratios"],
        tests={name: _read_table(folder / TESTS / f"{name}.tsv") for name in manifest["tests"]},
        folder=folder,
        manifest=manifest,
        repeats=count_repeats(config, sizes),
        stage_repeats=tuple(stage_repeats),
    )


def _read_table(path: Path) -> list[Pair]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        return [Pair(*line.split("\t")) for line in lines]
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path} is missing or damaged: prepare the corpus anew") from error


class PreparedBatches(BatchPlan):
    """The training batches of a prepared corpus.

    Rows are shuffled over all shards, and batches over all shapes, by computed permutations: time
    and memory of the first batch do not grow with the corpus.

    Args:
        corpus: the prepared corpus.
        repeats: source -> how often an epoch has its pairs; others are left out.
        positions: per side in one batch, as in `InMemoryBatches`.
        seed: of the shuffles.
        noise: see `BatchPlan`.
    """

    def __init__(
        self,
        corpus: PreparedCorpus,
        repeats: Mapping[str, int],
        *,
        positions: int,
        seed: int,
        noise: RowNoise | None = None,
    ) -> None:
        manifest = corpus.manifest
        shards = [shard for shard in manifest["shards"] if repeats.get(shard["source"], 0)]
        shard_repeats = [repeats[shard["source"]] for shard in shards]
        row_indices = {
            length: _RowIndex(shards, shard_repeats, i)
            for i, length in enumerate(manifest["row_lengths"])
        }
        self._row_indices = [index for index in row_indices.values() if index.rows]

        def total(key: str) -> int:
            return sum(shard[key] * n for shard, n in zip(shards, shard_repeats, strict=True))

        super().__init__(
            {length: index.rows for length, index in row_indices.items() if index.rows},
            positions=positions,
            pairs=total("pairs"),
            skipped=total("too_long"),
            tokens_per_epoch=total("tokens"),
            noise=noise,
        )
        _allow_open_files(len(shards), corpus.folder)
        dtype = type_of_ids(manifest["vocabulary_size"])
        self._records = [
            map_records(
                corpus.folder / SHARDS / shard["name"] / RECORDS_FILE, sum(shard["rows"]), dtype
            )
            for shard in shards
        ]
        # Earlier versions called it "weighed".
        self._has_weights = manifest["has_weights" if "has_weights" in manifest else "weighed"]
        self._seed = seed

    def locate(self, step: int, shuffle: int = 0) -> tuple[int, np.ndarray]:
        """See `BatchPlan.locate`."""
        epoch, position = divmod(step, self.steps_per_epoch)
        keys = self._seed, epoch, shuffle
        batches = Permutation(self.steps_per_epoch, *keys, _BATCHES)
        shape_index, rows = self.rows_of_batch(int(batches(np.array([position]))[0]))
        row_index = self._row_indices[shape_index]
        return shape_index, Permutation(row_index.rows, *keys, shape_index)(rows)

    def read_rows(self, shape_index: int, rows: np.ndarray) -> PackedRows:
        """See `BatchPlan.read_rows`."""
        records = [np.zeros(0, self._records[0][1].dtype)]
        shards, shard_rows = self._row_indices[shape_index].locate(rows)
        for shard, row in zip(shards.tolist(), shard_rows.tolist(), strict=True):
            begins, content = self._records[shard]
            records.append(content[begins[row] : begins[row + 1]])
        sizes = np.array([len(record) for record in records[1:]], np.int64)
        begins = np.cumsum(sizes) - sizes
        return read_records(np.concatenate(records), begins, has_weights=self._has_weights)


def sample_ids(
    corpus: PreparedCorpus, count: int, seed: int = 1
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the ids of training pairs without EOS, sources and targets, in random order.

    Args:
        corpus: the prepared corpus.
        count: the number of pairs; fewer if an epoch has fewer.
        seed: of the sample.
    """
    longest = max(corpus.manifest["row_lengths"])
    batches = PreparedBatches(corpus, corpus.repeats, positions=_SAMPLED_ROWS * longest, seed=seed)
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for step in range(batches.steps_per_epoch):
        rows = batches.read_rows(*batches.locate(step))
        for ids, side in zip(sides, (rows.source, rows.target), strict=True):
            ids += np.split(side.ids, np.cumsum(side.lengths)[:-1])
        if len(sides[0]) >= count:
            break
    return sides[0][:count], sides[1][:count]


class _RowIndex:
    """Where the rows of one length are, numbered through all shards and their repeats.

    Args:
        shards: entries of the manifest.
        repeats: how often an epoch has each shard.
        length: index of the row length.
    """

    def __init__(
        self, shards: Sequence[Mapping[str, Any]], repeats: Sequence[int], length: int
    ) -> None:
        counts = np.repeat([shard["rows"][length] for shard in shards], repeats).astype(np.int64)
        begins = np.repeat([sum(shard["rows"][:length]) for shard in shards], repeats)
        self._shards = np.repeat(np.arange(len(shards)), repeats)
        self._ends = np.cumsum(counts)
        self._shifts = begins.astype(np.int64) - (self._ends - counts)
        self.rows = int(counts.sum())

    def locate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the shard of each row, and its number in that shard."""
        entries = np.searchsorted(self._ends, rows, "right")
        return self._shards[entries], rows + self._shifts[entries]


def _allow_open_files(count: int, folder: Path) -> None:
    """Raise the limit of open files for ``count`` mappings; each keeps a file open.

    Raises:
        UserError: the system's limit is lower.
    """
    try:
        import resource
    except ImportError:  # not a POSIX system: no such limit
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
