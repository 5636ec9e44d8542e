"""Prepared corpora: rows of all lengths, shards and repeats; folders that cannot be used."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sample_corpora import complaint, configure, singles, table
from sample_prepared import batches_of, plan, prepared, trained_on

from nmt.config.sources import SourceConfig
from nmt.data.prepared import FORMAT, MANIFEST_FILE, _allow_open_files, load_prepared, read_manifest
from nmt.data.splitting import Pair


def test_rows_of_every_length_and_shard_are_repeated_by_their_source(tmp_path: Path) -> None:
    few = [
        (" ".join([source] * (1 + i % 3)), " ".join([target] * (1 + i % 2)))
        for i, (source, target) in enumerate(singles(7))
    ]
    texts = {"many": [(f"{source}.", f"{target}.") for source, target in singles(14)], "few": few}
    for name, pairs in texts.items():
        (tmp_path / f"{name}.tsv").write_text(table(pairs))
    sources = {
        name: SourceConfig("files", path=str(tmp_path / f"{name}.tsv"), weight=1) for name in texts
    }
    config = plan(tmp_path, data=configure(sources), row_lengths=[5, 16], shard_lines=4)
    corpus = prepared(config)
    assert corpus.repeats == {"many": 1, "few": 2}
    expected = Counter(Pair(*pair) for pair in texts["many"])
    expected.update({Pair(*pair): 2 for pair in few})
    assert trained_on(corpus) == expected
    batches = batches_of(corpus, tokens=32)
    assert [length for _, length in batches.shapes] == [5, 16]
    assert (corpus.epoch_pairs, batches.pairs, batches.skipped) == (28, 28, 0)
    few_alone = replace(corpus, repeats={"few": 2})
    assert few_alone.epoch_pairs == batches_of(few_alone).pairs == 14
    steps = range(batches.steps_per_epoch)
    located = [(shape, row) for shape, rows in map(batches.locate, steps) for row in rows.tolist()]
    in_order = [(shape, row) for shape, rows in map(batches.rows_of_batch, steps) for row in rows]
    assert sorted(located) == in_order


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "prepared.json cannot be read ("),
        ("[]", "is of another version of nmt.prepare"),
        (json.dumps({"format": FORMAT + 1}), "is of another version of nmt.prepare"),
        (json.dumps({"format": FORMAT, "a": "${oc.env:HOME}"}), "prepared.json has a reference"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / MANIFEST_FILE).write_text(text)
    error = complaint(lambda: read_manifest(tmp_path))
    assert error.startswith(f"data.prepared={tmp_path}")
    assert message in error


def test_what_is_missing_from_a_folder_is_named(tmp_path: Path) -> None:
    config = plan(tmp_path, singles(30), dev=5)
    corpus = prepared(config)
    assert "has the ids of training pairs" in complaint(lambda: corpus.train)
    data = configure(prepared=str(corpus.folder))
    dev = corpus.folder / "dev.tsv"
    dev.write_text(dev.read_text().replace("\t", " "))
    assert complaint(lambda: load_prepared(data)).startswith(f"{dev} is missing or damaged")
    shard = corpus.manifest["shards"][0]["name"]
    (corpus.folder / "shards" / shard).rename(tmp_path / "away")
    message = f"data.prepared={corpus.folder}: the shard {shard} is missing or damaged"
    assert complaint(lambda: load_prepared(data)).startswith(message)


@pytest.mark.parametrize(
    ("limits", "raised"),
    [
        ((1024, 4096), [(1512, 4096)]),
        ((1024, 1512), [(1512, 1512)]),
        ((1024, -1), [(1512, -1)]),
        ((1512, 4096), []),
        ((-1, -1), []),
    ],
)
def test_the_limit_of_open_files_is_raised_where_shards_need_it(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], raised: list[tuple[int, int]]
) -> None:
    calls: list[Any] = []
    fake = SimpleNamespace(
        RLIMIT_NOFILE=7,
        RLIM_INFINITY=-1,
        getrlimit=lambda kind: limits,
        setrlimit=lambda kind, changed: calls.append(changed),
    )
    monkeypatch.setitem(sys.modules, "resource", fake)
    _allow_open_files(1000, Path("corpus"))
    assert calls == raised


def test_more_shards_than_a_process_may_open_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(RLIMIT_NOFILE=7, RLIM_INFINITY=-1, getrlimit=lambda kind: (1024, 1511))
    monkeypatch.setitem(sys.modules, "resource", fake)
    message = complaint(lambda: _allow_open_files(1000, Path("corpus")))
    assert message.startswith("corpus has 1,000 shards and this system lets a process open 1,511")
