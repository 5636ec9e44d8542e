"""The base of all models: token ids in, next-token logits out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from nmt.model.contract import AttentionKind
from nmt.model.dropout import resolve_key
from nmt.model.layers import SizedLayer

Tensor = Any

PAD = 0  # the id of padding in every tokenizer


def _peek_seed() -> int:
    """Return a seed that follows `keras.utils.set_random_seed`, without advancing Python's random.

    Keras draws the seeds of initial weights from Python's generator: those must not change.
    """
    generator = random.Random()
    generator.setstate(random.getstate())
    return generator.getrandbits(31)


def find_segments(ids: Tensor) -> Tensor:
    """Return segment ids int32 [B, L] for rows of one text each: 1 for tokens, 0 for padding."""
    return ops.cast(ops.not_equal(ids, PAD), "int32")


def start_coverage(source: Tensor, beam_size: int, *, is_tracked: bool) -> Tensor | tuple[()]:
    """Return the attention that source tokens have received: zeros [B, k, S]; (): not tracked."""
    batch, length = ops.shape(source)
    return ops.zeros((batch, beam_size, length), "float32") if is_tracked else ()


def add_coverage(coverage: Tensor | tuple[()], weights: Tensor) -> Tensor | tuple[()]:
    """Add the mean over heads of attention weights [B, H, k, S], if coverage is tracked."""
    return coverage if isinstance(coverage, tuple) else coverage + ops.mean(weights, axis=1)


class EncoderDecoder(SizedLayer, keras.Model):
    """The part of `nmt.model.contract.Model` that all models share; see there for its methods.

    Weights exist as soon as a model is constructed: a constructor ends with ``self.build()``.
    Dropout is on when a key is passed, and when Keras trains the model (``fit``).

    Subclasses have a `TokenEmbedding` called ``embedding`` and implement

    - for training: `forward`;
    - for search, which evaluations need: `start`, `step`, `capacity`, and states that have the
      methods `reorder`, `grow` and `growing_axes`, and for coverage the fields ``coverage`` and
      ``memory_mask``: see `Decoder`;
    - for attention weights: ``attention_kinds``, `attention_layers`, and weights from `forward`.
    """

    adapter_patterns: ClassVar[tuple[str, ...]] = ("value", "inner", "outer")  # of `add_adapters`
    attention_kinds: tuple[AttentionKind, ...] = ()

    built: bool

    def __init__(self, sizes: Any = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.vocabulary_size = self.sizes.vocabulary_size
        self.max_length = self.sizes.max_length
        self.generator = keras.random.SeedGenerator(_peek_seed()) if self.has_dropout else None

    def build(self, *input_shapes: Any) -> None:
        """Create every weight; no shape depends on the input."""
        if self.built:
            return
        self.build_others(self.sizes.hidden_width)
        self.built = True

    def call(
        self,
        inputs: dict[str, Tensor],
        dropout_key: Tensor | None = None,
        return_attention: bool = False,
        training: bool | None = None,
    ) -> Any:
        """See `Model.__call__`."""
        dropout_key = resolve_key(dropout_key, self.generator, training)
        source_segments = inputs.get("source_segments")
        target_segments = inputs.get("target_segments")
        if source_segments is None:
            source_segments = find_segments(inputs["source"])
        if target_segments is None:
            target_segments = find_segments(inputs["target"])
        logits, weights = self.forward(
            inputs, source_segments, target_segments, dropout_key, return_attention
        )
        if not return_attention:
            return logits
        names = [kind.name for kind in self.attention_kinds]
        return logits, dict(zip(names, weights, strict=True))

    def forward(
        self,
        inputs: dict[str, Tensor],
        source_segments: Tensor,
        target_segments: Tensor,
        dropout_key: Tensor | None,
        return_attention: bool,
    ) -> tuple[Tensor, tuple[list[Tensor], ...]]:
        """Run encoder and decoder.

        Args:
            inputs: see `Model.__call__`.
            source_segments: int [B, S]; 0 is padding.
            target_segments: int [B, T].
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_attention: whether attention weights are needed.

        Returns:
            (logits float32 [B, T, V], for each of `attention_kinds` the weights of each layer).
        """
        raise NotImplementedError

    @staticmethod
    def reorder(state: Any, parents: Tensor) -> Any:
        """See `Decoder.reorder`."""
        return state.reorder(parents)

    @staticmethod
    def grow(state: Any, positions: Tensor) -> Any:
        """See `Decoder.grow`."""
        return state.grow(positions)

    @staticmethod
    def growing_axes(state: Any) -> Any:
        """See `Decoder.growing_axes`."""
        return state.growing_axes()

    @staticmethod
    def coverage(state: Any) -> tuple[Tensor, Tensor]:
        """See `Decoder.coverage`."""
        return state.coverage, state.memory_mask[:, 0]

    def token_table(self) -> np.ndarray:
        """See `Model.token_table`."""
        return np.asarray(self.embedding.table, np.float32)

    def position_table(self) -> np.ndarray | None:
        """See `Model.position_table`."""
        return None

    def distance_profiles(self, length: int) -> dict[str, np.ndarray]:
        """See `Model.distance_profiles`."""
        return {}

    def named_weights(self) -> dict[str, keras.Variable]:
        """See `Model.named_weights`."""
        return {weight.path.split("/", 1)[1]: weight for weight in self.weights}

    def trained_weights(self) -> dict[str, keras.Variable]:
        """See `Model.trained_weights`."""
        return {name: weight for name, weight in self.named_weights().items() if weight.trainable}

    def add_adapters(self, rank: int, patterns: Sequence[str] | None = None) -> None:
        """See `Model.add_adapters`."""
        layers = [
            layer for layer in self._flatten_layers() if isinstance(layer, keras.layers.Dense)
        ]
        paths = [layer.path.split("/")[1:] for layer in layers]
        patterns = self.adapter_patterns if patterns is None else patterns
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for path in paths for name in path):
                names = ", ".join(sorted({name for path in paths for name in path}))
                raise ValueError(f"no matrix matches {pattern!r}; choose from: {names}")
        for weight in self.weights:
            weight.trainable = False
        for layer, path in zip(layers, paths, strict=True):
            if any(fnmatchcase(name, pattern) for name in path for pattern in patterns):
                with ExitStack() as scopes:  # so that the adapters' paths begin with the layer's
                    for name in layer.path.split("/")[:-1]:
                        scopes.enter_context(keras.name_scope(name))
                    layer.enable_lora(rank)
