"""A paired tokenizer in TensorFlow's operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text

UNK = 3  # as in every tokenizer


class PairedInGraph(tf.Module):
    """Encodes source texts and decodes target ids: see `nmt.data.paired.PairedTokenizer`."""

    def __init__(self, models: tuple[bytes, bytes], pieces: Sequence[str]) -> None:
        super().__init__()
        self._source = tensorflow_text.SentencepieceTokenizer(models[0], out_type=tf.string)
        self._target = tensorflow_text.SentencepieceTokenizer(models[1], out_type=tf.string)
        known = list(pieces)[UNK + 1 :]
        ids = tf.range(UNK + 1, len(pieces))
        table = tf.lookup.KeyValueTensorInitializer(known, ids)
        self._ids = tf.lookup.StaticHashTable(table, UNK)
        self._pieces = tf.constant(list(pieces))

    def tokenize(self, texts: Any) -> Any:
        """String [B] -> ragged int32 [B, S]."""
        return tf.ragged.map_flat_values(self._ids.lookup, self._source.tokenize(texts))

    def detokenize(self, ids: Any) -> Any:
        """Ragged int32 [B, T], without special ids -> string [B]."""
        pieces = tf.ragged.map_flat_values(lambda flat: tf.gather(self._pieces, flat), ids)
        return self._target.detokenize(pieces)
