"""The last stages: the tokenizer, and the shards that training maps into memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from nmt.config import DataConfig
from nmt.config.data import list_tags
from nmt.config.preparation import PreparationConfig
from nmt.data.encoded import encode_pairs
from nmt.data.mixture import to_model_view
from nmt.data.packing import pack
from nmt.data.prepared import RECORDS_FILE, SHARDS, TOKENIZER
from nmt.data.records import type_of_ids, write_records
from nmt.data.splitting import TRAIN, Pair
from nmt.data.tokenizer import load_tokenizer
from nmt.data.tokenizer_training import list_texts, read_training_log, train_and_save
from nmt.errors import UserError
from nmt.files import digest_file, read_json, write_json
from nmt.preparing import split
from nmt.preparing.clean import PAIRS_FILE, WEIGHTS_FILE
from nmt.preparing.files import read_gzip
from nmt.preparing.pool import Task
from nmt.preparing.split import SAMPLE_FILE, STATES_FILE
from nmt.preparing.stages import INFO_FILE, REJECTED_FILE, CleanShard, PairState, Preparation
from nmt.text.source_words import SourceWords


def encode_corpus(preparation: Preparation, shards: Sequence[CleanShard]) -> None:
    """Train the tokenizer, and write the shards that training reads.

    Raises:
        UserError: no pair is left to train on.
    """
    config = preparation.config
    split_folders = [preparation.folder / split.STAGE / shard.name for shard in shards]
    pairs = sum(read_json(folder / INFO_FILE)[TRAIN] for folder in split_folders)
    if not pairs:
        raise UserError(
            f"data={config.data.name}: nothing is left to train on, every pair is a duplicate "
            "or shares a side with one in dev or test"
        )
    start = time.monotonic()
    preparation.pool.run(".", write_tokenizer, [Task(TOKENIZER, (config, split_folders))], 1)
    tokenizer_folder = preparation.folder / TOKENIZER
    for line in read_training_log(tokenizer_folder):
        preparation.log(line)
    preparation.log(f"trained the tokenizer in {time.monotonic() - start:,.1f} s")
    start = time.monotonic()
    tasks = [
        Task(shard.name, (config, shard, split_folder, tokenizer_folder))
        for shard, split_folder in zip(shards, split_folders, strict=True)
        if config.data.sources[shard.source].is_training
    ]
    preparation.pool.run(SHARDS, encode_shard, tasks, len(tasks))
    preparation.log_rate(f"encoded {pairs:,} pairs", pairs, start)


def write_tokenizer(config: PreparationConfig, split_folders: Sequence[Path], folder: Path) -> None:
    """Train the tokenizer on the samples of all shards, and merge the words of their sources.

    Raises:
        UserError: they are empty, or the vocabulary is too small.
    """
    lines = (line for path in split_folders for line in read_gzip(path / SAMPLE_FILE))
    pairs = [Pair(*line.split("\t")) for line in lines]
    if not pairs:
        raise UserError(
            f"prepare.tokenizer_lines={config.prepare.tokenizer_lines} drew no line: raise it, and "
            "name another folder"
        )
    texts = list_texts(config.tokenizer, pairs)
    train_and_save(folder, config.tokenizer, texts, list_tags(config.data))
    words = [each for each in map(SourceWords.load, split_folders) if each is not None]
    if len(words) < len(split_folders):  # an earlier version split them: the sample's words
        words = [SourceWords.count(pair.source for pair in pairs)]
    SourceWords.merge(words).save(folder)


def encode_shard(
    config: PreparationConfig,
    shard: CleanShard,
    split_folder: Path,
    tokenizer_folder: Path,
    folder: Path,
) -> None:
    """Write the rows of a shard, and all its rejected lines."""
    tokenizer = _load_tokenizer(tokenizer_folder)
    indices = np.flatnonzero(np.load(split_folder / STATES_FILE) == PairState.TRAIN)
    lines = read_gzip(shard.folder / PAIRS_FILE)
    pairs = [Pair(*lines[i].split("\t")) for i in indices]
    corpus = encode_pairs(to_model_view(config.data, shard.source, pairs), tokenizer)
    if has_weights(config.data):
        corpus.weights = _load_weights(shard)[indices]
    lengths = sorted(set(config.prepare.row_lengths))
    packed = pack(
        corpus.source.lengths + 1,  # EOS
        corpus.target.lengths + 1,
        lengths,
        leaves_room=config.data.noise.is_on,
    )
    dtype = type_of_ids(tokenizer.vocabulary_size)
    tokens = write_records(folder / RECORDS_FILE, corpus, packed, dtype)
    # Concatenated .gz files are one .gz file.
    rejected = [path / REJECTED_FILE for path in (shard.folder, split_folder)]
    (folder / REJECTED_FILE).write_bytes(b"".join(path.read_bytes() for path in rejected))
    row_counts = {rows.length: len(rows) for rows in packed}
    packed_pairs = sum(len(rows.pairs) for rows in packed)
    info = {
        "source": shard.source,
        "pairs": packed_pairs,
        "too_long": len(corpus) - packed_pairs,
        "tokens": tokens,
        "rows": [row_counts.get(length, 0) for length in lengths],
        "sha256": digest_file(folder / RECORDS_FILE),
    }
    write_json(folder / INFO_FILE, info)


def has_weights(data: DataConfig) -> bool:
    """Whether pairs have weights in the loss: all do if those of any source do."""
    return any(source.has_weights for source in data.sources.values())


def _load_weights(shard: CleanShard) -> np.ndarray:
    path = shard.folder / WEIGHTS_FILE
    return np.load(path) if path.is_file() else np.ones(shard.pairs, np.float32)


_load_tokenizer = lru_cache(1)(load_tokenizer)
