"""The last stages: the tokenizer, and shards as training reads them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path

import numpy as np

from nmt.config import DataConfig
from nmt.config.data import list_tags
from nmt.config.preparation import PreparationConfig
from nmt.data.encoded import EncodedCorpus, Sequences
from nmt.data.mixture import to_model_view
from nmt.data.packing import pack
from nmt.data.prepared import RECORDS_FILE
from nmt.data.records import type_of_ids, write_records
from nmt.data.splitting import Pair
from nmt.data.tokenizer import Tokenizer, load_tokenizer
from nmt.data.tokenizer_training import train_and_save
from nmt.preparing.clean import INFO_FILE, PAIRS_FILE, REJECTED_FILE, WEIGHTS_FILE
from nmt.preparing.held_out import FATES_FILE, SAMPLE_FILE, TO_TRAIN
from nmt.preparing.work import read_packed, write_json

_CHUNK = 20_000  # pairs encoded in one call


def write_tokenizer(config: PreparationConfig, samples: Sequence[Path], folder: Path) -> None:
    """Train the tokenizer on what was drawn for it."""
    lines = (line for sample in samples for line in read_packed(sample / SAMPLE_FILE))
    texts = [text for line in lines for text in line.split("\t")]
    train_and_save(folder, config.tokenizer, texts, list_tags(config.data))


def encode_shard(
    config: PreparationConfig,
    source: str,
    cleaned: Path,
    split: Path,
    tokenizer_folder: Path,
    folder: Path,
) -> None:
    """Write the rows of a shard, and all its rejected lines.

    Args:
        config: of the preparation.
        source: name of the shard's source.
        cleaned: folder of its pairs.
        split: folder of what becomes of them.
        tokenizer_folder: of the tokenizer.
        folder: where to.
    """
    tokenizer = _load(tokenizer_folder)
    kept = np.flatnonzero(np.load(split / FATES_FILE) == TO_TRAIN)
    lines = read_packed(cleaned / PAIRS_FILE)
    pairs = to_model_view(config.data, source, [Pair(*lines[i].split("\t")) for i in kept])
    corpus = EncodedCorpus(
        _encode(tokenizer, [pair.source for pair in pairs]),
        _encode(tokenizer.target, [pair.target for pair in pairs]),
    )
    if weighed(config.data):
        own = cleaned / WEIGHTS_FILE
        corpus.weights = np.load(own)[kept] if own.is_file() else np.ones(len(kept), np.float32)
    lengths = sorted(set(config.prepare.row_lengths))
    packed = pack(corpus.source.lengths + 1, corpus.target.lengths + 1, lengths)  # end marks
    dtype = type_of_ids(tokenizer.vocabulary_size)
    tokens = write_records(folder / RECORDS_FILE, corpus, packed, dtype)
    # Two .gz files behind each other are one.
    rejected = (cleaned / REJECTED_FILE).read_bytes() + (split / REJECTED_FILE).read_bytes()
    (folder / REJECTED_FILE).write_bytes(rejected)
    rows = {of.length: len(of) for of in packed}
    placed = sum(len(of.pairs) for of in packed)
    with (folder / RECORDS_FILE).open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    info = {
        "source": source,
        "pairs": placed,
        "too_long": len(pairs) - placed,
        "tokens": tokens,
        "rows": [rows.get(length, 0) for length in lengths],
        "sha256": digest,
    }
    write_json(folder / INFO_FILE, info)


def weighed(data: DataConfig) -> bool:
    """Whether pairs have weights in the loss: all, where those of any source have."""
    return any(len(source.columns) > 2 for source in data.sources.values())


@lru_cache(1)
def _load(folder: Path) -> Tokenizer:
    return load_tokenizer(folder)


def _encode(tokenizer: Tokenizer, texts: list[str]) -> Sequences:
    """Encode texts piece by piece: lists of ids take much memory."""
    parts = [
        Sequences.of(tokenizer.encode(texts[i : i + _CHUNK])) for i in range(0, len(texts), _CHUNK)
    ]
    lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
    ids = np.concatenate([np.zeros(0, np.int32), *(part.ids for part in parts)])
    return Sequences(ids, np.cumsum(lengths))
