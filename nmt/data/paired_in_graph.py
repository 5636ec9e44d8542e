"""A paired tokenizer for TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nmt.data.paired import LANGUAGE_CODE, UNK


def make_in_graph(models: tuple[bytes, bytes], pieces: Sequence[str]) -> Any:
    """Return a module that encodes source texts and decodes target ids: see `nmt.data.paired`.

    ``tokenize`` takes string [B] and gives ragged int32 [B, S]; ``detokenize`` takes ragged int32
    [B, T], without special ids, and gives string [B].
    """
    import tensorflow as tf
    import tensorflow_text

    class InGraph(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self._source, self._target = (
                tensorflow_text.SentencepieceTokenizer(model, out_type=tf.string)
                for model in models
            )
            ids = tf.range(UNK + 1, len(pieces))
            table = tf.lookup.KeyValueTensorInitializer(list(pieces)[UNK + 1 :], ids)
            self._ids = tf.lookup.StaticHashTable(table, UNK)
            self._pieces = tf.constant(list(pieces))

        def tokenize(self, texts: Any) -> Any:
            rest = tf.strings.regex_replace(texts, LANGUAGE_CODE, "", replace_global=False)
            lengths = tf.strings.length(texts) - tf.strings.length(rest)
            codes = tf.strings.substr(texts, tf.zeros_like(lengths), lengths)
            code = tf.RaggedTensor.from_row_lengths(
                tf.boolean_mask(codes, lengths > 0), tf.cast(lengths > 0, tf.int64)
            )
            pieces = tf.concat([code, self._source.tokenize(rest)], axis=1)
            return tf.ragged.map_flat_values(self._ids.lookup, pieces)

        def detokenize(self, ids: Any) -> Any:
            pieces = tf.ragged.map_flat_values(lambda flat: tf.gather(self._pieces, flat), ids)
            texts = self._target.detokenize(pieces)
            return tf.strings.strip(tf.strings.regex_replace(texts, "▁", " "))

    return InGraph()
