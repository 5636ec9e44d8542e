"""Small prepared corpora."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sample_corpora import configure, table

from nmt.config import DataConfig, TokenizerConfig
from nmt.config.preparation import PreparationConfig, PrepareConfig, check_preparation
from nmt.data.corpus import EvaluationSet
from nmt.data.prepared import PreparedBatches, PreparedCorpus, load_prepared
from nmt.data.splitting import Pair
from nmt.preparing.prepare import prepare

PREPARE: dict[str, Any] = {
    "shard_lines": 40,
    "processes": 1,
    "row_lengths": [32],
    "tokenizer_lines": 1000,
    "language_certainty": None,
    "encoding_faults": False,
    "near_duplicates": None,
}


def plan(
    folder: Path,
    pairs: Sequence[tuple[str, str]] | None = None,
    *,
    data: DataConfig | None = None,
    tests: dict[str, str] | None = None,
    vocabulary_size: int = 400,
    **changes: Any,
) -> PreparationConfig:
    """Return a configuration that prepares ``pairs``, or ``data``, in a folder.

    Args:
        folder: for the table of pairs, and for ``output``.
        pairs: pairs of a single source.
        data: several sources instead.
        tests: value of ``data.tests``.
        vocabulary_size: vocabulary size of the tokenizer.
        changes: keys of the group ``prepare``, and of the only source.
    """
    prepare_changes = {key: changes.pop(key) for key in PREPARE.keys() & changes.keys()}
    if pairs is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pairs.tsv").write_text(table(list(pairs)), encoding="utf-8")
        data = configure(path=str(folder / "pairs.tsv"), **changes)
    assert data is not None
    config = PreparationConfig(
        output=str(folder / "prepared"),
        cache_dir=str(folder / "cache"),
        data=replace(data, tests=tests or {}),
        tokenizer=TokenizerConfig("bpe", vocabulary_size, 0, 1.0, lowercase_source=False, slots=0),
        prepare=PrepareConfig(**(PREPARE | prepare_changes)),
    )
    check_preparation(config)
    return config


def prepared(
    config: PreparationConfig, tests: dict[str, list[Pair]] | None = None, **data: Any
) -> PreparedCorpus:
    """Prepare a corpus and load it; ``data`` holds keys for training on it."""
    Path(config.output).mkdir(parents=True, exist_ok=True)
    sets = {name: EvaluationSet(pairs, pairs) for name, pairs in (tests or {}).items()}
    prepare(config, sets, Console(quiet=True))
    return load_prepared(replace(config.data, prepared=config.output, **data))


def batches_of(corpus: PreparedCorpus, *, tokens: int = 128, seed: int = 1) -> PreparedBatches:
    return PreparedBatches(corpus, corpus.repeats, positions=tokens, seed=seed)


def ids_in(batches: Iterator[dict[str, np.ndarray]]) -> Counter[tuple[tuple[int, ...], ...]]:
    """Return the pairs in batches, as ids without marks."""
    counts: Counter[tuple[tuple[int, ...], ...]] = Counter()
    for batch in batches:
        for row in range(len(batch["source"])):
            for pair in range(1, batch["source_segments"][row].max() + 1):
                sides = (
                    batch[name][row][batch[f"{side}_segments"][row] == pair]
                    for side, name in (("source", "source"), ("target", "labels"))
                )
                counts[tuple(tuple(side[:-1].tolist()) for side in sides)] += 1
    return counts


def trained_on(corpus: PreparedCorpus) -> Counter[Pair]:
    """Return the pairs of an epoch, as text."""
    tokenizer = corpus.load_tokenizer()
    counts = ids_in(batches_of(corpus).in_order())
    return Counter(
        {
            Pair(tokenizer.decode([source])[0], tokenizer.decode([target])[0]): count
            for (source, target), count in counts.items()
        }
    )


def rejected_in(corpus: PreparedCorpus) -> list[list[str]]:
    """Return the cells of all rejected lines."""
    files = sorted(corpus.folder.rglob("rejected.tsv.gz"))
    return [
        line.split("\t")
        for file in files
        for line in gzip.decompress(file.read_bytes()).decode().split("\n")[:-1]
    ]


def journal_of(folder: Path) -> list[tuple[str, str]]:
    lines = (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    return [(entry["stage"], entry["shard"]) for entry in map(json.loads, lines)]


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a prepared folder, except those that hold times."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("journal.jsonl", "begun.json")
    }
