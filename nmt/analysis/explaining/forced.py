"""Log-probabilities of pieces in forced decoding, of a Keras model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from nmt.data.tokenizer import BOS, PAD
from nmt.inference.compiled import compile_with_weights
from nmt.model.contract import Model

_ROWS = 64  # most rows of a batch
_LOGITS = 1 << 25  # most logits of a batch: 128 MiB
_FEW = 8  # rows of a small batch, on JAX
_SHORTEST = 16  # positions of the shortest rows, on JAX


def pad_length(length: int, longest: int) -> int:
    """Return the length to which rows are padded.

    TensorFlow runs every length as it is. JAX compiles each shape, so there it is a power of two,
    from 16 on, and at most ``longest``, the model's limit.
    """
    if keras.config.backend() != "jax":
        return length
    return max(length, min(max(_SHORTEST, 1 << (length - 1).bit_length()), longest))


def pad_rows(rows: Sequence[Sequence[int] | np.ndarray], length: int) -> np.ndarray:
    """Return int32 [B, length], padded with id 0."""
    padded = np.full((len(rows), length), PAD, np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


class ForcedRow(NamedTuple):
    """A source, a target that the decoder reads, and the pieces that are scored."""

    source: np.ndarray  # int [S], EOS included
    read: Sequence[int]  # ids, BOS first
    positions: Sequence[int]  # of the scored pieces: each follows ``read[: position + 1]``
    labels: Sequence[int]  # their ids


class ForcedScorer:
    """Scores pieces that are given to the model, in batches.

    Lengths are padded: see `pad_length`. On JAX, source and target have the same, and a batch has
    one of two sizes.

    Args:
        model: a Keras model; its weights are read at every call.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._compiles_shapes = keras.config.backend() == "jax"
        self._pieces = compile_with_weights(model, self._score_pieces, (2, 2, 2, 2))
        self._next = compile_with_weights(model, self._score_next, (2, 2, 1))

    def score_pieces(self, rows: Sequence[ForcedRow]) -> list[np.ndarray]:
        """Return the log-probability of the labels of each row, float32 [labels], in nats."""
        outputs: dict[int, np.ndarray] = {}
        for indices in self._batch([len(row.read) for row in rows]):
            batch = [rows[index] for index in indices]
            source, target, count = self._fill(batch)
            labels = max(len(row.labels) for row in batch)
            if self._compiles_shapes:  # one piece at each position, and as many rivals
                labels += -labels % (2 * target.shape[1])
            positions, ids = np.zeros((2, count, labels), np.int32)
            for number, row in enumerate(batch):
                positions[number, : len(row.positions)] = row.positions
                ids[number, : len(row.labels)] = row.labels
            scored = self._pieces(source, target, positions, ids)
            outputs |= {
                index: scored[number, : len(rows[index].labels)]
                for number, index in enumerate(indices)
            }
        return [outputs[index] for index in range(len(rows))]

    def score_next(self, source: np.ndarray, prefixes: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the log-probabilities of all pieces after each prefix, float32 [N, V].

        Args:
            source: int [S], EOS included.
            prefixes: ids without BOS.
        """
        outputs: dict[int, np.ndarray] = {}
        for indices in self._batch([1 + len(prefix) for prefix in prefixes]):
            rows = [ForcedRow(source, (BOS, *prefixes[index]), (), ()) for index in indices]
            sources, target, count = self._fill(rows)
            positions = np.zeros(count, np.int32)
            positions[: len(rows)] = [len(row.read) - 1 for row in rows]
            outputs |= zip(indices, self._next(sources, target, positions), strict=False)
        return np.stack([outputs[index] for index in range(len(prefixes))])

    def _batch(self, lengths: Sequence[int]) -> list[list[int]]:
        """Return the indices of the rows of each batch: rows of similar length."""
        order = np.argsort(lengths, kind="stable")
        positions = pad_length(max(lengths), self._model.max_length)
        fitting = _LOGITS // (positions * self._model.vocabulary_size)
        size = min(_ROWS, max(1, fitting))
        if self._compiles_shapes and size < _ROWS:  # a batch has _FEW rows or _ROWS
            size = min(size, _FEW)
        return [order[first : first + size].tolist() for first in range(0, len(order), size)]

    def _fill(self, rows: Sequence[ForcedRow]) -> tuple[np.ndarray, np.ndarray, int]:
        """Return padded sources [N, S] and targets [N, T], and N."""
        widths = [max(len(row[side]) for row in rows) for side in range(2)]
        count = len(rows)
        if self._compiles_shapes:
            widths = [pad_length(max(widths), self._model.max_length)] * 2
            count = _FEW if count <= _FEW else _ROWS
        filled = [*rows, *[rows[-1]] * (count - len(rows))]
        source, target = (
            pad_rows([row[side] for row in filled], widths[side]) for side in range(2)
        )
        return source, target, count

    def _score_pieces(self, source: Any, target: Any, positions: Any, labels: Any) -> Any:
        logits = self._model({"source": source, "target": target})  # [N, T, V]
        normalizers = ops.logsumexp(logits, axis=-1)  # [N, T]
        count, length, size = (ops.shape(logits)[axis] for axis in range(3))
        flat = ops.reshape(logits, (count, length * size))
        chosen = ops.take_along_axis(flat, positions * size + labels, axis=1)
        return chosen - ops.take_along_axis(normalizers, positions, axis=1)

    def _score_next(self, source: Any, target: Any, positions: Any) -> Any:
        logits = self._model({"source": source, "target": target})
        last = ops.take_along_axis(logits, positions[:, None, None], axis=1)[:, 0]  # [N, V]
        return last - ops.logsumexp(last, axis=-1, keepdims=True)
