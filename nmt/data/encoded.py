"""The encoded corpus: token ids, cached once per (corpus, tokenizer) and memory-mapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from nmt.data.caching import cached_folder, digest_texts, save_array
from nmt.data.ragged import RaggedIds
from nmt.data.splitting import Pair
from nmt.data.tokenizer import Tokenizer
from nmt.startup.console import make_console
from nmt.startup.progress import track
from nmt.text.context import CONTEXT_MARK, remove_context
from nmt.text.shared_spans import keep_shared_spans
from nmt.text.spans import SLOTS

_CHUNK = 20_000  # lines encoded in one call; tensorflow-text works on a call in parallel


class EncodedCorpus:
    """Aligned source and target sequences, without BOS and EOS.

    Args:
        source: ids of the source side.
        target: ids of the target side.
        weights: float32 [pairs], of pairs in the loss; None: all are 1.
    """

    def __init__(
        self, source: RaggedIds, target: RaggedIds, weights: np.ndarray | None = None
    ) -> None:
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source sequences, {len(target)} target sequences")
        self.source = source
        self.target = target
        self.weights = weights

    def __len__(self) -> int:
        return len(self.source)


def keep_spans_of_pairs(pairs: Sequence[Pair], tokenizer: Tokenizer) -> Sequence[Pair]:
    """Return pairs with slots in place of kept spans, if the tokenizer reserves slots."""
    slots = SLOTS[: tokenizer.slots]
    return [Pair(*keep_shared_spans(*pair, slots)) for pair in pairs] if slots else pairs


def fit_contexts(
    pairs: Sequence[Pair], tokenizer: Tokenizer, max_tokens: int, tags: Sequence[str] = ()
) -> list[Pair]:
    """Return pairs without the contexts with which their sources would be too long.

    A sentence keeps all the room that it would have without a context, as in use: see
    `nmt.inference.segmenting.Segmenter`.

    Args:
        pairs: as the model sees them.
        tokenizer: of the pairs.
        max_tokens: of a source, without EOS.
        tags: words that may stand before a context.
    """
    fitted = list(pairs)
    with_context = [i for i, pair in enumerate(pairs) if CONTEXT_MARK in pair.source]
    kept = keep_spans_of_pairs([pairs[i] for i in with_context], tokenizer)
    lengths = map(len, tokenizer.encode([pair.source for pair in kept]))
    for i, length in zip(with_context, lengths, strict=True):
        if length > max_tokens:
            fitted[i] = Pair(remove_context(pairs[i].source, tags), pairs[i].target)
    return fitted


def _encode_texts(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    track: Callable[[Iterator[RaggedIds]], Iterator[RaggedIds]] = iter,
) -> RaggedIds:
    """Encode texts chunk by chunk, as lists of ids take much memory; ``track`` shows progress."""
    starts = range(0, len(texts), _CHUNK)
    encoded = (RaggedIds.of(tokenizer.encode(texts[i : i + _CHUNK])) for i in starts)
    return RaggedIds.join(list(track(encoded)) or [RaggedIds.of([])])


def encode_pairs(pairs: Sequence[Pair], tokenizer: Tokenizer) -> EncodedCorpus:
    """Encode pairs in memory."""
    pairs = keep_spans_of_pairs(pairs, tokenizer)
    return EncodedCorpus(
        _encode_texts(tokenizer, [pair.source for pair in pairs]),
        _encode_texts(tokenizer.target, [pair.target for pair in pairs]),
    )


def load_encoded(pairs: Sequence[Pair], tokenizer: Tokenizer, cache: Path) -> EncodedCorpus:
    """Return ``pairs`` encoded, through the cache; repeats, as of a mixture, are encoded once."""
    numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
    order = np.array([numbers[pair] for pair in pairs], np.int64)
    distinct = keep_spans_of_pairs([*numbers], tokenizer)
    texts = [text for number in order.tolist() for text in distinct[number]]
    folder = cache / "encoded" / digest_texts(texts, tokenizer.fingerprint)

    def write(path: Path) -> None:
        console = make_console(stderr=True)
        for name, side in (("source", tokenizer), ("target", tokenizer.target)):
            show = partial(
                track,
                total=len(distinct),
                label=f"encoding {name}",
                console=console,
                count=RaggedIds.__len__,
            )
            texts_of_side = [getattr(pair, name) for pair in distinct]
            sequences = _encode_texts(side, texts_of_side, show).take(order)
            save_array(path / f"{name}.ids.npy", sequences.ids)
            save_array(path / f"{name}.offsets.npy", sequences.offsets)

    cached_folder(folder, write)

    def load(name: str) -> RaggedIds:
        ids, offsets = folder / f"{name}.ids.npy", folder / f"{name}.offsets.npy"
        return RaggedIds(np.load(ids, mmap_mode="r"), np.load(offsets, mmap_mode="r"))

    return EncodedCorpus(load("source"), load("target"))
