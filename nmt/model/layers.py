"""Layers that all models share: the base of sized layers, dense layers, token embeddings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import keras
from keras import ops

from nmt.model.mixed import multiply_to_float32
from nmt.model.sizes import AttentionSizes, BlockSizes, RecurrentSizes, TransformerSizes

Tensor = Any

_RATES = ("dropout", "attention_dropout", "ffn_dropout")


class SizedLayer(keras.layers.Layer):
    """A layer built from a sizes object, whose fields are its configuration.

    Args:
        sizes: an instance of ``sizes_class``; None: its fields are keywords, and those of
            ``default_sizes`` may be left out.
        **kwargs: these fields, and the arguments of every Keras layer.

    Raises:
        TypeError: a size is missing or not passed by keyword.
        ValueError: see ``sizes_class``.
    """

    sizes_class: ClassVar[type[AttentionSizes | BlockSizes | RecurrentSizes]] = TransformerSizes
    default_sizes: ClassVar[dict[str, Any]] = {}
    sizes: Any

    def __init__(self, sizes: Any = None, **kwargs: Any) -> None:
        if sizes is None:
            sizes, kwargs = self.sizes_class.split_config(self.default_sizes | kwargs)
        if not isinstance(sizes, self.sizes_class):
            raise TypeError(f"sizes must be passed by keyword, such as d_model={sizes!r}")
        super().__init__(**kwargs)
        self.sizes = sizes

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that rebuild the layer."""
        names = [field.name for field in dataclasses.fields(self.sizes_class)]
        return super().get_config() | {name: getattr(self.sizes, name) for name in names}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Rebuild the layer as a part of a model."""
        sizes, layer_config = cls.sizes_class.split_config(cls.default_sizes | config)
        return cls(sizes=sizes, **layer_config)

    @property
    def has_dropout(self) -> bool:
        """Whether a dropout rate of the sizes is above zero."""
        return any(getattr(self.sizes, name, 0.0) for name in _RATES)

    def build_others(self, width: int) -> None:
        """Build the layers that are not built yet, with inputs [B, L, ``width``].

        Where the constructor of a subclass adds layers, their weights exist before the first call.
        """
        for layer in self._flatten_layers(include_self=False, recursive=False):
            if not layer.built:
                layer.build((None, None, width))


class StandaloneLayer(SizedLayer):
    """A layer [B, L, D] -> [B, L, D] that is a part of a model, or stands alone.

    Args:
        sizes: set where the layer belongs to a model; dropout is then on when a key is given. None:
            a standalone layer, whose sizes (the fields of ``sizes_class``) are keywords and whose
            dropout Keras's ``training`` switches on.
        seed: seed of a standalone layer's dropout.
        **kwargs: the sizes of a standalone layer, and the arguments of every Keras layer.

    Raises:
        TypeError: a size is missing or not passed by keyword.
        ValueError: see ``sizes_class``.
    """

    def __init__(self, sizes: Any = None, *, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.standalone = sizes is None
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: self.sizes.d_model})
        self.supports_masking = True
        self.seed = seed
        self.generator = None
        if self.standalone and self.has_dropout:
            self.generator = keras.random.SeedGenerator(seed)

    def compute_output_shape(self, x_shape: Any, *other_shapes: Any, **named_shapes: Any) -> Any:
        """Return the shape of ``x``."""
        return x_shape

    def compute_output_spec(self, *tensors: Any, **arguments: Any) -> Any:
        """Return symbolic outputs, the weights included where they are requested."""
        return keras.Operation.compute_output_spec(self, *tensors, **arguments)  # by tracing `call`

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that rebuild the layer."""
        seed = {"seed": self.seed} if self.standalone else {}
        return super().get_config() | seed

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Rebuild the layer as it was: standalone if it has a seed."""
        return cls(**config) if "seed" in config else super().from_config(config)


def _by_rows(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function to a matrix whose rows are all positions of ``x``: [.., I] -> [.., O]."""
    if len(x.shape) == 2:
        return function(x)
    shape = ops.shape(x)
    rows = function(ops.reshape(x, (-1, shape[-1])))
    return ops.reshape(rows, (*shape[:-1], rows.shape[-1]))


@keras.saving.register_keras_serializable("nmt")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense`, applied to all positions of a batch as the rows of one matrix.

    XLA computes the gradients of kernel and bias faster from a matrix than from three axes.
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """[.., I] -> [.., units]."""
        return _by_rows(partial(super().call, training=training), inputs)


@keras.saving.register_keras_serializable("nmt")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization`, on the rows of one matrix for the reason of `Dense`."""

    def call(self, inputs: Tensor) -> Tensor:
        """[.., D] -> [.., D]."""
        return _by_rows(super().call, inputs)


@keras.saving.register_keras_serializable("nmt")
class TokenEmbedding(keras.layers.Layer):
    """One table [V, D] for source tokens, target tokens and output logits (Press & Wolf 2017).

    Args:
        vocabulary_size: V.
        d_model: D.
        output_bias: whether logits have a bias [V].
        **kwargs: the arguments of every Keras layer.
    """

    def __init__(
        self, vocabulary_size: int, d_model: int, *, output_bias: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model
        self.output_bias = output_bias
        self.bias: Any = None

    def build(self, ids_shape: Any = None) -> None:
        """Create the table; its shape does not depend on the input."""
        self.table = self.add_weight(
            shape=(self.vocabulary_size, self.d_model),
            initializer=keras.initializers.RandomNormal(stddev=self.d_model**-0.5),
            name="table",
        )
        if self.output_bias:
            self.bias = self.add_weight(
                shape=(self.vocabulary_size,), initializer="zeros", name="bias"
            )
        self.built = True

    def compute_output_shape(self, ids_shape: Any) -> Any:
        """[B, L] -> [B, L, D]. A third axis, which `EncoderDecoder.build` passes, is ignored."""
        return (*ids_shape[:2], self.d_model)

    def call(self, ids: Tensor) -> Tensor:
        """Return the rows of ``ids``, times sqrt(D): [B, L] -> [B, L, D]."""
        rows = ops.take(ops.convert_to_tensor(self.table), ids, axis=0)
        return ops.cast(rows, self.compute_dtype) * self.d_model**0.5

    def logits(self, x: Tensor) -> Tensor:
        """Score every token of the vocabulary: [..., D] -> float32 [..., V].

        Products are summed, and stay, in float32 whatever the compute dtype: bfloat16 would round
        a logit near 10 by up to 0.03.
        """
        table = ops.cast(ops.convert_to_tensor(self.table), self.compute_dtype)
        if self.compute_dtype in ("float16", "bfloat16"):
            logits = multiply_to_float32(ops.cast(x, self.compute_dtype), table)
        else:
            x, table = ops.cast(x, "float32"), ops.cast(table, "float32")
            logits = ops.matmul(x, ops.transpose(table))
        if self.bias is None:
            return logits
        return logits + ops.cast(ops.convert_to_tensor(self.bias), "float32")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that rebuild the layer."""
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "d_model": self.d_model,
            "output_bias": self.output_bias,
        }
