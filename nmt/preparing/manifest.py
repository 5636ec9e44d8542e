"""The end of a preparation: tables of the pairs to score on, and the manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nmt.data.caching import digest_texts
from nmt.data.prepared import FORMAT, MANIFEST_FILE, SHARDS, TESTS, TOKENIZER
from nmt.data.splitting import DEV, TEST, TRAIN
from nmt.data.tokenizer import load_tokenizer
from nmt.errors import attach_filename
from nmt.files import digest_file, read_json, write_json
from nmt.preparing import split
from nmt.preparing.clean import CleanCorpus
from nmt.preparing.encode import has_weights
from nmt.preparing.files import read_gzip
from nmt.preparing.stages import INFO_FILE, REJECTED_FILE, Preparation


def write_manifest(preparation: Preparation, corpus: CleanCorpus) -> dict[str, Any]:
    """Write the tables of dev, test and ``data.tests``, and then the manifest; return it.

    Shards of training data have their rejected lines; those of dev and test files are written here.
    """
    folder = preparation.folder
    split_folders = [folder / split.STAGE / shard.name for shard in corpus.shards]
    for name in (DEV, TEST):
        lines = (line for path in split_folders for line in read_gzip(path / f"{name}.tsv.gz"))
        _write_lines(folder / f"{name}.tsv", lines)
    (folder / TESTS).mkdir(exist_ok=True)
    for name, test in preparation.tests.items():
        lines = (f"{source}\t{target}" for source, target in test.pairs)
        _write_lines(folder / TESTS / f"{name}.tsv", lines)
    sources = preparation.config.data.sources
    scored = [shard.folder for shard in corpus.shards if not sources[shard.source].is_training]
    if scored:  # concatenated .gz files are one .gz file
        rejected_lines = b"".join((path / REJECTED_FILE).read_bytes() for path in scored)
        (folder / REJECTED_FILE).write_bytes(rejected_lines)
    clean_infos = [read_json(shard.folder / INFO_FILE) for shard in corpus.shards]
    split_infos = [read_json(path / INFO_FILE) for path in split_folders]
    rejected = Counter[str]()
    for info in clean_infos + split_infos:
        rejected.update(info["rejected"])
    shard_folders = sorted(path for path in (folder / SHARDS).iterdir() if path.name[0] != ".")
    shards = [{"name": path.name} | read_json(path / INFO_FILE) for path in shard_folders]
    tokenizer = load_tokenizer(folder / TOKENIZER)
    manifest = {
        "format": FORMAT,
        "configuration": _list_settings(preparation),
        "lines": sum(info["lines"] for info in clean_infos),
        "pairs": {name: sum(info[name] for info in split_infos) for name in (TRAIN, DEV, TEST)},
        "rejected": dict(rejected.most_common()),
        "archives": corpus.archives,
        "length_ratios": corpus.length_ratios,
        "tests": list(preparation.tests),
        "row_lengths": sorted(set(preparation.config.prepare.row_lengths)),
        "vocabulary_size": tokenizer.vocabulary_size,
        "tokenizer": tokenizer.fingerprint,
        "has_weights": has_weights(preparation.config.data),
        "shards": shards,
        "digest": digest_texts(
            [digest_file(folder / f"{name}.tsv") for name in (DEV, TEST)],
            tokenizer.fingerprint,
            *(shard["sha256"] for shard in shards),
        ),
    }
    write_json(folder / MANIFEST_FILE, manifest)
    return manifest


def _list_settings(preparation: Preparation) -> dict[str, Any]:
    """Return the configuration without the keys on which the result does not depend."""
    settings = asdict(preparation.config) | {"output": None, "cache_dir": None}
    settings["prepare"]["processes"] = None
    return settings


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with attach_filename(path), path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
