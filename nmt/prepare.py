"""From a configuration to what a run needs: corpus, tokenizer, batches. Slow parts are cached."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from nmt.config import Config
from nmt.data.batches import Batches
from nmt.data.corpus import Corpus, load_corpus
from nmt.data.encoded import EncodedCorpus, cached_folder, digest, encode_pairs, load_encoded
from nmt.data.tokenizer import Tokenizer, load_tokenizer, train_tokenizer
from nmt.errors import UserError
from nmt.run import RunFolder

SMALL_CORPUS = 20_000  # training pairs below which a model soon knows its corpus by heart


def dropout_for(pairs: int) -> float:
    """Return the dropout rate for a number of training pairs.

    0.1 is the base model's of Vaswani et al. 2017; small corpora want 0.3 (Sennrich & Zhang 2019,
    Revisiting Low-Resource Neural Machine Translation).
    """
    return 0.3 if pairs < SMALL_CORPUS else 0.1


def learning_rate_for(d_model: int) -> float:
    """Return the peak learning rate of Adam for a model width.

    The best rate falls with 1 / width (Yang et al. 2022, Tensor Programs V). On the embedded corpus
    2e-3 and 4e-3 did equally well at a width of 128.
    """
    return 0.256 / d_model


def corpus_of(config: Config, console: Console) -> Corpus:
    """Read, clean and split the corpus of a configuration."""
    return load_corpus(config.data, cache_dir=Path(config.cache_dir), report=console.print)


def record_of(corpus: Corpus) -> dict[str, Any]:
    """Return what a run folder keeps of its corpus: the counts, and a digest of each split."""
    splits = {name: getattr(corpus, name) for name in ("train", "dev", "test")}
    return {
        "lines": corpus.lines,
        "rejected": corpus.rejected,
        "pairs": {name: len(pairs) for name, pairs in splits.items()},
        "digests": {
            name: digest([text for pair in pairs for text in pair])
            for name, pairs in splits.items()
        },
    }


def changed_since(run: RunFolder, corpus: Corpus) -> bool:
    """Whether the corpus is no longer the one that the run was trained on."""
    return run.read_corpus_record().get("digests") != record_of(corpus)["digests"]


def corpus_of_run(run: RunFolder, console: Console) -> Corpus:
    """Read the corpus that a run was trained on; say so if it has changed since."""
    corpus = corpus_of(run.config, console)
    if changed_since(run, corpus):
        console.print("warning: the corpus has changed since this run was trained on it")
    return corpus


def tokenizer_of(config: Config, corpus: Corpus, console: Console) -> Tokenizer:
    """Train the tokenizer on the training split, or take it from the cache."""
    texts = [text for pair in corpus.train for text in pair]
    key = digest(texts, json.dumps(asdict(config.tokenizer), sort_keys=True))
    said: list[str] = []

    def write(folder: Path) -> None:
        console.print(f"training the {config.tokenizer.kind} tokenizer on {len(texts):,} lines")
        train_tokenizer(config.tokenizer, texts, said.append).save(folder)
        (folder / "log.txt").write_text("\n".join(said), encoding="utf-8")

    folder = cached_folder(Path(config.cache_dir) / "tokenizers" / key, write)
    for line in (folder / "log.txt").read_text(encoding="utf-8").splitlines():
        console.print(line)
    return load_tokenizer(folder)


def training_batches(config: Config, corpus: Corpus, tokenizer: Tokenizer) -> Batches:
    """Encode the training split and plan its batches.

    Raises:
        UserError: no pair fits into a row.
    """
    encoded = load_encoded(corpus.train, tokenizer, Path(config.cache_dir))
    batches = _batches(config, encoded)
    if not batches.pairs:
        raise UserError(
            "every training pair is longer than training.row_lengths="
            f"{config.training.row_lengths} tokens: add a longer row length"
        )
    return batches


def validation_batches(config: Config, corpus: Corpus, tokenizer: Tokenizer) -> Batches | None:
    """Encode the dev split and plan its batches; None if there is nothing to validate on."""
    batches = _batches(config, encode_pairs(corpus.dev, tokenizer))
    return batches if batches.pairs else None


def _batches(config: Config, encoded: EncodedCorpus) -> Batches:
    training = config.training
    return Batches(
        encoded,
        row_lengths=training.row_lengths,
        tokens=training.batch_tokens * training.accumulate,
        multiple=training.accumulate,
        seed=config.seed,
    )
