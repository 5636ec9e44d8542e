"""What every model is, whatever is between its embeddings: token ids in, next-token logits out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from nmt.model.blocks import Sized

Tensor = Any

PAD = 0  # the id of padding, as every tokenizer here has it


_RATES = ("dropout", "attention_dropout", "ffn_dropout")


def _peek_seed() -> int:
    """Return a seed that follows `keras.utils.set_random_seed`, and take no number from Python.

    Keras draws the seeds of initial weights from Python's generator: those stay the same.
    """
    generator = random.Random()
    generator.setstate(random.getstate())
    return generator.getrandbits(31)


def find_segments(ids: Tensor) -> Tensor:
    """Return int32 [B, L] for rows of one text each: 1 for tokens, 0 for padding."""
    return ops.cast(ops.not_equal(ids, PAD), "int32")


def take_positions(x: Tensor, positions: Tensor) -> Tensor:
    """Return one position per row: of [B, T, D] and int [B], [B, D]."""
    return ops.take_along_axis(x, positions[:, None, None], axis=1)[:, 0]


class EncoderDecoder(Sized, keras.Model):
    """The base of all models: `nmt.model.contract.Model`, as far as it is the same for all.

    Weights exist as soon as a model is constructed. Dropout is on when a key is given, and when
    Keras trains the model (``fit``). Its tokens are embedded by `embedding`.
    """

    adapted: ClassVar[tuple[str, ...]] = ("value", "inner", "outer")  # see `add_adapters`

    built: bool

    def __init__(self, sizes: Any, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        rates = (getattr(sizes, name, 0.0) for name in _RATES)
        self.generator = keras.random.SeedGenerator(_peek_seed()) if any(rates) else None

    @property
    def vocabulary_size(self) -> int:
        """V."""
        return self.sizes.vocabulary_size

    @property
    def max_length(self) -> int:
        """Longest sequence in tokens, source or target."""
        return self.sizes.max_length

    @property
    def inner_width(self) -> int:
        """Of what layers hand to each other."""
        raise NotImplementedError

    def build(self, *input_shapes: Any) -> None:
        """Create every weight; no shape depends on the input."""
        if self.built:
            return
        for layer in self._flatten_layers(include_self=False, recursive=False):
            layer.build((None, None, self.inner_width))
        self.built = True

    @staticmethod
    def coverage(state: Any) -> tuple[Tensor, Tensor]:
        """Return the attention received so far [B, k, S], and which tokens can receive any."""
        return state.coverage, state.memory_mask[:, 0]

    def token_table(self) -> np.ndarray:
        """Return the vectors of tokens, float32 [V, D]."""
        return np.asarray(self.embedding.table, np.float32)

    def named_weights(self) -> dict[str, keras.Variable]:
        """Return every weight by its path inside the model, whatever the model is called."""
        return {weight.path.split("/", 1)[1]: weight for weight in self.weights}

    def trained_weights(self) -> dict[str, keras.Variable]:
        """Return the weights that training changes, as `named_weights` does."""
        return {name: weight for name, weight in self.named_weights().items() if weight.trainable}

    def add_adapters(self, rank: int, parts: Sequence[str] | None = None) -> None:
        """Train W + A B in place of W (Hu et al. 2021, section 4.1), and nothing else.

        Such a matrix, of attention, feed-forward or recurrence, has its A [in, r], drawn at random,
        and its B [r, out], which begins as zeros.

        Args:
            rank: r.
            parts: patterns; a matrix counts if one of the names on its path fits one of them. None:
                `adapted`.

        Raises:
            ValueError: a pattern fits none.
        """
        matrices = [one for one in self._flatten_layers() if isinstance(one, keras.layers.Dense)]
        paths = [layer.path.split("/")[1:] for layer in matrices]
        parts = self.adapted if parts is None else parts
        for pattern in parts:
            if not any(fnmatchcase(name, pattern) for path in paths for name in path):
                known = sorted({name for path in paths for name in path})
                raise ValueError(f"no part is called '{pattern}'; there are {', '.join(known)}")
        for weight in self.weights:
            weight.trainable = False
        for layer, path in zip(matrices, paths, strict=True):
            if any(fnmatchcase(name, pattern) for name in path for pattern in parts):
                with ExitStack() as scopes:  # so that its weights are called by their place
                    for name in layer.path.split("/")[:-1]:
                        scopes.enter_context(keras.name_scope(name))
                    layer.enable_lora(rank)
