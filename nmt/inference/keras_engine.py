"""The engine that runs the Keras model itself, with its key/value cache."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import keras
import numpy as np
from keras import ops

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.errors import UserError
from nmt.inference.alignment import Aligner
from nmt.inference.compiled import compile_with_weights
from nmt.inference.contract import FREE, BeamOptions, Hypothesis, SamplingOptions
from nmt.inference.programs import (
    LENGTH_STEP,
    OneCallPrograms,
    SteppedPrograms,
    pad_sequences,
)
from nmt.inference.search import Constraints, is_possible
from nmt.model.contract import Model
from nmt.startup.devices import cores, gpus

Cached = TypeVar("Cached")


class KerasEngine:
    """Searches, samples and scores with a Keras model, and returns its attention.

    Args:
        model: the model; the weights are read at every call.
        aligner: makes alignments of its attention; None: without a lexicon.
    """

    def __init__(self, model: Model, aligner: Aligner | None = None) -> None:
        self.model = model
        self._aligner = aligner or Aligner()
        on_tensorflow = keras.config.backend() == "tensorflow"
        on_gpu = bool(gpus())
        self.workers = cores() if on_tensorflow and not on_gpu else 1
        self.max_length = model.max_length
        self._programs = (
            SteppedPrograms(model) if on_tensorflow else OneCallPrograms(model, on_gpu=on_gpu)
        )
        self._attention = compile_with_weights(model, self._weights, (2, 2))
        self._scores = compile_with_weights(model, self._log_probs, (2, 2, 2))
        self._cache: dict[Any, Any] = {}

    @property
    def keras_engine(self) -> KerasEngine:
        """This engine."""
        return self

    @property
    def can_align(self) -> bool:
        """Whether the model has cross-attention."""
        return any(kind.is_cross for kind in self.model.attention_kinds)

    @property
    def programs(self) -> int:
        """Number of compiled searches, one per combination of `StaticOptions`."""
        return len(self._programs.compiled)

    def cached(self, make: Callable[[Model], Cached]) -> Cached:
        """Return ``make(model)``, which is called once: analyses keep compiled functions so."""
        if make not in self._cache:
            self._cache[make] = make(self.model)
        value: Cached = self._cache[make]
        return value

    def supports(self, options: BeamOptions | SamplingOptions) -> bool:
        """Return True: this engine supports all options."""
        return True

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions | SamplingOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        """Search for, or sample, the outputs of a batch: see `Engine.search`."""
        source = pad_sequences(sources)
        keys = np.zeros(len(sources), np.int32)
        if isinstance(options, SamplingOptions):
            keys = sampling_keys(sources, options.seed)
        prefixes = np.broadcast_to(prefix, (len(sources), prefix.shape[-1])).astype(np.int32)
        if not prefixes.shape[1]:
            prefixes = np.full((len(sources), 1), FREE, np.int32)
        constraints = Constraints(limits.astype(np.int32), prefixes, options.parameters)
        outputs = self._programs.search(options.static_options, source, constraints, keys)
        return [
            [
                Hypothesis(tuple(map(int, tokens[:length])), float(log_prob), float(score))
                for tokens, length, log_prob, score in zip(*sentence, strict=True)
                if is_possible(score)
            ][: options.n_best]
            for sentence in zip(*outputs, strict=True)
        ]

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return the log-probability of every target token: see `Engine.score`."""
        source, target_in, target_out = self._forced(sources, targets)
        log_probs = self._scores(source, target_in, target_out)
        return [row[: len(ids) + 1] for row, ids in zip(log_probs, targets, strict=True)]

    def attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[dict[str, np.ndarray]]:
        """Return the attention weights of each pair, float32, without padded positions.

        Args:
            sources: ids without EOS, S - 1 of them, of similar length.
            targets: ids without EOS, T - 1 of them, one per source.

        Returns:
            Per pair and kind of attention: [layers, H, rows, columns], S or T each.
        """
        layers = self._attention(*self._forced(sources, targets)[:2])
        weights = []
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            extent = {"source": len(source) + 1, "target_in": len(target) + 1}
            extent["target_out"] = extent["target_in"]
            weights.append(
                {
                    kind.name: np.stack(
                        [
                            layer[row, :, : extent[kind.rows], : extent[kind.columns]]
                            for layer in layers[kind.name]
                        ]
                    )
                    for kind in self.model.attention_kinds
                }
            )
        return weights

    def align(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return how much target tokens are aligned to source tokens: see `Engine.align`."""
        if not self.can_align:
            raise UserError(
                "alignments need attention, which this model or ensemble lacks: give one run that "
                "has it"
            )
        name = next(kind.name for kind in self.model.attention_kinds if kind.is_cross)
        layers = self._attention(*self._forced(sources, targets)[:2])[name]
        weights = np.asarray(layers[self._aligner.choose_layer(len(layers))]).mean(1)  # [B, T, S]
        return [
            self._aligner.align(row[: len(target) + 1, : len(source) + 1], source, target)
            for row, source, target in zip(weights, sources, targets, strict=True)
        ]

    def _forced(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return sources [B, S], and targets [B, T] as decoder inputs and as its outputs."""
        source, target = (
            pad_sequences(side, LENGTH_STEP)[:, : self.max_length] for side in (sources, targets)
        )
        shifted = np.concatenate([np.full((len(target), 1), BOS, np.int32), target[:, :-1]], axis=1)
        shifted[shifted == EOS] = PAD  # after the end: ignored
        return source, shifted, target

    def _weights(self, source: Any, target: Any) -> Any:
        return self.model({"source": source, "target": target}, return_attention=True)[1]

    def _log_probs(self, source: Any, target: Any, labels: Any) -> Any:
        logits = self.model({"source": source, "target": target})
        chosen = ops.take_along_axis(logits, labels[..., None], axis=-1)
        return (chosen - ops.logsumexp(logits, axis=-1, keepdims=True))[..., 0]


def sampling_keys(sources: Sequence[np.ndarray], seed: int) -> np.ndarray:
    """Return random keys int32 [B], which depend on the ids of each source and the seed only."""
    keys = [zlib.crc32(ids.astype("<i4").tobytes(), seed) for ids in sources]
    return np.array(keys, np.uint32).view(np.int32)
