"""Weights as a CTranslate2 model: which models it supports, and how one is written.

CTranslate2 declares the variables of a Transformer (`ctranslate2.specs`) and computes it in C++,
several times faster than TensorFlow on CPUs. Conversion works on arrays and does not load Keras.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.tokenizer import BOS, EOS, UNK, Tokenizer
from nmt.errors import UserError
from nmt.model.sinusoids import sinusoids
from nmt.model.sizes import (
    RELATIVE_BUCKETS,
    RELATIVE_FARTHEST,
    SINUSOIDAL,
    RecurrentSizes,
    TransformerSizes,
)
from nmt.runs.building import check_weight

# The kinds of positions that it computes; of linear biases (ALiBi), only those of a decoder.
_POSITIONS = (*SINUSOIDAL, "learned", "rotary", "relative", "none")


class NotConvertibleError(UserError):
    """CTranslate2 is not installed, does not support the model, or the run has no weights yet."""


def check_supported(
    tokenizer: Tokenizer, sizes: TransformerSizes | RecurrentSizes
) -> TransformerSizes:
    """Check that CTranslate2 is installed and supports the model and its vocabulary.

    Returns:
        The sizes, which are a transformer's.

    Raises:
        NotConvertibleError: CTranslate2 cannot be imported or does not support the model, or two
            tokens are the same string.
    """
    try:
        import ctranslate2  # noqa: F401
    except ImportError as error:
        raise NotConvertibleError(f"CTranslate2 does not run here ({error})") from error
    if not isinstance(sizes, TransformerSizes):
        raise NotConvertibleError("CTranslate2 does not support recurrent models")
    for is_used, feature in (
        (sizes.heads == "pooled", "pooled heads (model.heads=pooled)"),
        (sizes.qk_norm is True, "normalised queries of cross-attention (model.qk_norm=true)"),
        (sizes.positions not in _POSITIONS, f"model.positions={sizes.positions}"),
    ):
        if is_used:
            raise NotConvertibleError(f"CTranslate2 does not support {feature}")
    tokens = tokenizer.pieces(range(tokenizer.vocabulary_size))
    if len(set(tokens)) < len(tokens):
        raise NotConvertibleError(
            "CTranslate2 identifies tokens by their text, and two tokens of this tokenizer have "
            "the same text"
        )
    return sizes


def write_model(
    weights: Mapping[str, np.ndarray],
    origin: Path,
    sizes: TransformerSizes,
    tokenizer: Tokenizer,
    folder: Path,
    quantization: str = "float32",
    alignment_layer: int = -1,
) -> None:
    """Write a model that `ctranslate2.Translator` loads.

    Args:
        weights: by name, as in `nmt.model.contract.Model.named_weights`.
        origin: the checkpoint's path, for messages.
        sizes: the transformer's sizes.
        tokenizer: its tokenizer.
        folder: an existing folder.
        quantization: of the weights: "float32", "int8" or "float16".
        alignment_layer: index of the decoder layer whose attention CTranslate2 returns, as the mean
            of all heads.

    Raises:
        NotConvertibleError: the model has a weight that CTranslate2 does not compute with.
        UserError: weights do not fit the sizes.
    """
    tokens = tokenizer.pieces(range(tokenizer.vocabulary_size))
    spec = _Specification(weights, origin, sizes).spec
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.unk_token = tokens[UNK]
    spec.config.bos_token = spec.config.decoder_start_token = tokens[BOS]
    spec.config.eos_token = tokens[EOS]
    spec.decoder.alignment_layer = np.int16(alignment_layer)
    spec.decoder.alignment_heads = np.int16(sizes.num_heads)
    spec.config.layer_norm_epsilon = sizes.norm_epsilon
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))


class _Specification:
    """A `ctranslate2.specs.TransformerSpec` with copies of a model's weights.

    Args: see `write_model`.
    """

    def __init__(
        self, weights: Mapping[str, np.ndarray], origin: Path, sizes: TransformerSizes
    ) -> None:
        self._weights, self._origin, self._sizes = weights, origin, sizes
        self._unused = set(weights)
        self.spec = spec = self._make_spec()
        width = sizes.d_model
        table = self._take("embedding/table", sizes.vocabulary_size, width)
        # Embeddings are multiplied by sqrt(D) on both sides, which CTranslate2 does by default.
        spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = table
        spec.decoder.projection.weight = table
        if sizes.output_bias:
            spec.decoder.projection.bias = self._take("embedding/bias", sizes.vocabulary_size)
        for stack in (spec.encoder, spec.decoder):
            if hasattr(stack, "position_encodings"):
                stack.position_encodings.encodings = self._make_positions()
        for number, layer in enumerate(spec.encoder.layer):
            name = f"encoder_{number}"
            self._fill_self_attention(layer.self_attention, f"{name}/self_attention")
            self._fill_relative_bias(layer.self_attention, "encoder_bias")
            self._fill_feed_forward(layer.ffn, name)
        for number, layer in enumerate(spec.decoder.layer):
            name = f"decoder_{number}"
            cross = f"{name}/cross_attention"
            self._fill_self_attention(layer.self_attention, f"{name}/causal_self_attention")
            self._fill_relative_bias(layer.self_attention, "decoder_bias")
            self._fill_norm(layer.attention.layer_norm, f"{cross}_norm")
            self._fill_projections(layer.attention.linear[0], cross, "query")
            self._fill_projections(layer.attention.linear[1], cross, "key", "value")
            self._fill_output(layer.attention.linear[2], cross)
            if sizes.qk_norm:  # here CTranslate2 would normalise the queries of all heads together
                del layer.attention.q_norm, layer.attention.k_norm
            self._fill_feed_forward(layer.ffn, name)
        if sizes.norm == "pre":
            self._fill_norm(spec.encoder.layer_norm, "encoder_norm")
            self._fill_norm(spec.decoder.layer_norm, "decoder_norm")
        if self._unused:
            raise NotConvertibleError(f"CTranslate2 has no weight {min(self._unused)}")

    def _make_spec(self) -> Any:
        """Return a specification without weights."""
        from ctranslate2.specs import (
            TransformerDecoderSpec,
            TransformerEncoderSpec,
            TransformerSpec,
        )
        from ctranslate2.specs.common_spec import Activation

        sizes = self._sizes
        # relu(x) ** 2 is relu(x) * x: a gated block whose gate has the weights of its inner layer.
        activation, gated = {
            "relu": (Activation.RELU, False),
            "relu2": (Activation.RELU, True),
            "gelu": (Activation.GELUTanh, False),  # Keras's default is the approximation by tanh
            "silu": (Activation.SWISH, False),
            "swiglu": (Activation.SWISH, True),
        }[sizes.activation]
        options: dict[str, Any] = {
            "pre_norm": sizes.norm == "pre",
            "activation": activation,
            "ffn_glu": gated,
            "relative_attention_bias": sizes.positions == "relative",
            "rotary_dim": 0 if sizes.positions == "rotary" else None,  # 0: whole heads
            "rotary_interleave": False,  # pairs are of the two halves of a head
            "qk_norm": sizes.qk_norm == "self",
        }
        return TransformerSpec(
            TransformerEncoderSpec(sizes.encoder_layers, sizes.num_heads, **options),
            TransformerDecoderSpec(sizes.decoder_layers, sizes.num_heads, **options),
        )

    def _make_positions(self) -> np.ndarray:
        """Return the positions added to the embeddings [P, D]; zeros where attention holds them."""
        shape = (self._sizes.max_length, self._sizes.d_model)
        if self._sizes.positions == "learned":
            return self._take("positions/table", *shape)
        if self._sizes.positions in SINUSOIDAL:
            return sinusoids(*shape, halves=self._sizes.positions == "sinusoidal_halves")
        return np.zeros(shape, np.float32)

    def _take(self, name: str, *shape: int) -> np.ndarray:
        """Return a copy of a weight, since quantization changes arrays in place."""
        weight = self._weights.get(name)
        check_weight(self._origin, name, weight, shape)
        self._unused.discard(name)
        return np.array(weight, np.float32)

    def _fill_linear(self, spec: Any, inputs: int, outputs: int, name: str) -> None:
        spec.weight = self._take(f"{name}/kernel", inputs, outputs).T
        spec.bias = self._take(f"{name}/bias", outputs)

    def _fill_norm(self, spec: Any, name: str) -> None:
        width = self._sizes.d_model
        spec.gamma = self._take(f"{name}/gamma", width)
        spec.beta = self._take(f"{name}/beta", width)

    def _fill_self_attention(self, spec: Any, name: str) -> None:
        self._fill_norm(spec.layer_norm, f"{name}_norm")
        self._fill_projections(spec.linear[0], name, "query", "key", "value")
        self._fill_output(spec.linear[1], name)
        if self._sizes.qk_norm:
            width = self._sizes.self_attention.head_width
            spec.q_norm.gamma = self._take(f"{name}/query_norm/scale", width)
            spec.k_norm.gamma = self._take(f"{name}/key_norm/scale", width)

    def _fill_projections(self, spec: Any, name: str, *roles: str) -> None:
        """Stack the projections of all heads to queries, keys or values: [sum of widths, D]."""
        heads = [self._split_heads(f"{name}/{role}", shared=role != "query") for role in roles]
        spec.weight = np.concatenate([kernel.T for kernels, _ in heads for kernel in kernels])
        spec.bias = np.concatenate([bias for _, biases in heads for bias in biases])

    def _split_heads(self, name: str, *, shared: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return kernels [D, K] and biases [K] of H heads, repeated where heads share them."""
        sizes = self._sizes.cross_attention
        width, head_width = sizes.d_model, sizes.head_width
        heads = sizes.groups if shared else sizes.num_heads
        if sizes.heads == "own":
            names = [f"{name}/head_{number}" for number in range(heads)]
            kernels = [self._take(f"{head}/kernel", width, head_width) for head in names]
            biases = [self._take_bias(head, head_width) for head in names]
        else:
            kernel = self._take(f"{name}/kernel", width, heads * head_width)
            kernels = np.split(kernel, heads, axis=1)
            biases = np.split(self._take_bias(name, heads * head_width), heads)
        repeats = range(sizes.num_heads // heads)
        return [k for k in kernels for _ in repeats], [b for b in biases for _ in repeats]

    def _take_bias(self, name: str, width: int) -> np.ndarray:
        if not self._sizes.attention_biases:
            return np.zeros(width, np.float32)
        return self._take(f"{name}/bias", width)

    def _fill_output(self, spec: Any, name: str) -> None:
        """Fill in the output projection; the identity if the model has no such projection."""
        width = self._sizes.d_model
        spec.weight, spec.bias = np.eye(width, dtype=np.float32), np.zeros(width, np.float32)
        if self._sizes.attention_output:
            spec.weight = self._take(f"{name}/output/kernel", width, width).T
            spec.bias = self._take_bias(f"{name}/output", width)

    def _fill_relative_bias(self, spec: Any, name: str) -> None:
        """Fill in the relative position bias; all layers of a stack share one table."""
        if self._sizes.positions == "relative":
            shape = (RELATIVE_BUCKETS, self._sizes.num_heads)
            spec.relative_attention_bias = self._take(f"{name}/table", *shape)
            spec.relative_attention_max_distance = np.dtype("int32").type(RELATIVE_FARTHEST)

    def _fill_feed_forward(self, spec: Any, block: str) -> None:
        name = f"{block}/feed_forward"
        width, inner = self._sizes.d_model, self._sizes.ffn_width
        self._fill_norm(spec.layer_norm, f"{name}_norm")
        self._fill_linear(spec.linear_1, inner, width, f"{name}/outer")
        gate = f"{name}/gate" if self._sizes.activation == "swiglu" else f"{name}/inner"
        self._fill_linear(spec.linear_0, width, inner, gate)
        if self._sizes.activation in ("relu2", "swiglu"):
            self._fill_linear(spec.linear_0_noact, width, inner, f"{name}/inner")
