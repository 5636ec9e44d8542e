"""What a run keeps of its corpus, and that corpus read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nmt.data.corpus import Corpus, load_corpus
from nmt.data.encoded import digest
from nmt.runs.folder import RunFolder


def record_of(corpus: Corpus) -> dict[str, Any]:
    """Return what a run folder keeps of its corpus: counts, archives, digests of the splits."""
    splits = {name: getattr(corpus, name) for name in ("train", "dev", "test")}
    return {
        "lines": corpus.lines,
        "rejected": corpus.rejected,
        "archives": corpus.archives,
        "pairs": {name: len(pairs) for name, pairs in splits.items()},
        "digests": {
            name: digest([text for pair in pairs for text in pair])
            for name, pairs in splits.items()
        },
    }


def has_changed(run: RunFolder, corpus: Corpus) -> bool:
    """Whether the corpus is no longer the one that the run was trained on."""
    return run.read_corpus_record().get("digests") != record_of(corpus)["digests"]


def read_corpus(run: RunFolder, log: Callable[[str], None]) -> Corpus:
    """Read the corpus that a run was trained on; say so if it has changed since.

    Nothing is written, whatever the run's configuration says: it may come from elsewhere.
    """
    config = run.config
    corpus = load_corpus(config.data, cache_dir=Path(config.cache_dir), read_only=True, log=log)
    if has_changed(run, corpus):
        log("warning: the corpus has changed since this run was trained on it")
    return corpus
