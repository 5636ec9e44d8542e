"""Prepares a corpus, stage by stage; an interrupted preparation resumes where it stopped."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from nmt.config.preparation import PreparationConfig
from nmt.config.sources import resolve_same_sources
from nmt.data.corpus import EvaluationSet
from nmt.data.prepared import MANIFEST_FILE, read_manifest
from nmt.errors import attach_filename
from nmt.preparing.clean import check_packages, clean_corpus
from nmt.preparing.duplicates import find_duplicates
from nmt.preparing.encode import encode_corpus
from nmt.preparing.inputs import forget_refused, record_inputs
from nmt.preparing.manifest import write_manifest
from nmt.preparing.pool import ShardPool
from nmt.preparing.split import split_corpus
from nmt.preparing.stages import WORK, Preparation
from nmt.startup.devices import cores


def prepare(
    config: PreparationConfig, tests: Mapping[str, EvaluationSet], console: Console
) -> dict[str, Any]:
    """Start or resume preparing a corpus; return the manifest.

    Raises:
        UserError: a source is invalid, no pair is left to train on, or the folder was begun with
            another configuration.
    """
    folder = Path(config.output).expanduser()
    config = replace(config, data=resolve_same_sources(config.data))
    forget_refused(folder)
    record_inputs(folder, config, tests)
    if (folder / MANIFEST_FILE).is_file():
        shutil.rmtree(folder / WORK, ignore_errors=True)
        console.print(f"{folder} is prepared already")
        return read_manifest(folder)
    check_packages(config)
    with ShardPool(folder, config.prepare.processes or cores(), console) as pool:
        preparation = Preparation(config, tests, pool)
        corpus = clean_corpus(preparation)
        states = find_duplicates(preparation, corpus.shards)
        split_corpus(preparation, corpus.shards, states)
        encode_corpus(preparation, corpus.shards)
        manifest = write_manifest(preparation, corpus)
    with attach_filename(folder):
        shutil.rmtree(folder / WORK)
    return manifest
