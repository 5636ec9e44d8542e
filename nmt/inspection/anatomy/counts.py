"""What a model is made of: parameters by part, and arithmetic per token, by closed form.

Dimensions: `D` model width, `F` feed-forward width, `V` vocabulary, `P` positions (max_length),
`E` and `C` encoder and decoder layers, `S` and `T` source and target length.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.config import ModelConfig

if TYPE_CHECKING:  # closed forms need no Keras
    from nmt.model.contract import Model

_PARTS = (
    ("causal_self_attention", "decoder masked self-attention"),
    ("self_attention", "encoder self-attention"),
    ("cross_attention", "cross-attention"),
    ("feed_forward", "feed-forward"),
    ("embedding", "embeddings (tied)"),
    ("positions", "positions"),
)
_NORMS = ("gamma", "beta")  # names of the weights of layer normalisation


@dataclass(frozen=True)
class Part:
    """One line of the account of a model's parameters."""

    name: str
    formula: str
    parameters: int


def count_attention_parameters(d_model: int, *, biases: bool) -> int:
    """Return the parameters of one attention: queries, keys, values and output, [D, D] each.

    Heads do not matter: H heads of D / H make a matrix of D columns.
    """
    return 4 * d_model**2 + (4 * d_model if biases else 0)


def _count_feed_forward_kernels(config: ModelConfig) -> int:
    return (3 if config.activation == "swiglu" else 2) * config.d_model * config.ffn_width


def count_in_closed_form(config: ModelConfig, vocabulary_size: int) -> list[Part]:
    """Return the parameters of a model by part, from its sizes alone.

    Args:
        config: the ``model`` group of a configuration.
        vocabulary_size: V.
    """
    width, inner = config.d_model, config.ffn_width
    encoder, decoder = config.encoder_layers, config.decoder_layers
    attention = count_attention_parameters(width, biases=True)
    gated = config.activation == "swiglu"
    feed_forward = _count_feed_forward_kernels(config) + (2 if gated else 1) * inner + width
    of_feed_forward = "3·D·F + 2·F + D" if gated else "2·D·F + F + D"
    pre = config.norm == "pre"
    norms = 2 * encoder + 3 * decoder + (2 if pre else 0)
    parts = [
        Part("embeddings (tied)", "V·D", vocabulary_size * width),
        Part(
            "positions",
            "P·D" if config.positions == "learned" else "sinusoidal: none",
            config.max_length * width if config.positions == "learned" else 0,
        ),
        Part("encoder self-attention", "E·(4·D² + 4·D)", encoder * attention),
        Part("decoder masked self-attention", "C·(4·D² + 4·D)", decoder * attention),
        Part("cross-attention", "C·(4·D² + 4·D)", decoder * attention),
        Part("feed-forward", f"(E + C)·({of_feed_forward})", (encoder + decoder) * feed_forward),
        Part(
            "layer normalisation",
            f"(2·E + 3·C{' + 2' if pre else ''})·2·D",
            norms * 2 * width,
        ),
    ]
    return [part for part in parts if part.parameters or part.name == "positions"]


def count_by_part(model: Model) -> dict[str, int]:
    """Count the parameters that a model has; the values sum to ``model.count_params()``.

    Weights of a part that is not known here are counted under the name of that part.
    """
    counts: Counter[str] = Counter()
    for name, weight in model.named_weights().items():
        folders = name.split("/")
        own = folders[-2] if len(folders) > 1 else name
        if folders[-1] in _NORMS:  # in folders of their own: "encoder_0/feed_forward_norm/gamma"
            own = "layer normalisation"
        part = next((label for key, label in _PARTS if key in folders), own)
        counts[part] += math.prod(weight.shape)
    return dict(counts)


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of one token's forward pass: 2 per multiplication and addition.

    Left out are look-ups, biases, norms, activations and softmax: together they are of the order
    of 1 / D of the rest.
    """

    source_matrices: int  # what a source token meets: the encoder, keys and values for the decoder
    target_matrices: int  # what a target token meets: the rest of the decoder, the output table
    source_products: int  # of queries with keys, and of weights with values
    target_products: int

    @property
    def source(self) -> int:
        """Of a source token."""
        return self.source_matrices + self.source_products

    @property
    def target(self) -> int:
        """Of a target token."""
        return self.target_matrices + self.target_products


TRAINING = 3  # forward and backward against forward: a backward pass has two products for each one


def count_flops_per_token(
    config: ModelConfig, vocabulary_size: int, *, source_length: int, target_length: int
) -> Flops:
    """Count the arithmetic of one source and one target token (Kaplan et al. 2020, section 2.1).

    Matrices cost 2 per weight. The products of attention cost 4·D per layer and position attended
    to: 2·D for the scores and 2·D for the sum of values. A row of T target positions is worked out
    whole in training, masked ones included; one at a time, with keys and values kept, a token
    attends to half of them on average.

    Args:
        config: the ``model`` group of a configuration.
        vocabulary_size: V.
        source_length: S, positions that each source token and each target token attends to.
        target_length: T, positions of the target that each target token attends to.
    """
    width, layers = config.d_model, config.decoder_layers
    feed_forward = _count_feed_forward_kernels(config)
    attention = count_attention_parameters(width, biases=False)
    source = config.encoder_layers * (attention + feed_forward) + layers * attention // 2
    target = layers * (attention + attention // 2 + feed_forward) + vocabulary_size * width
    return Flops(
        source_matrices=2 * source,
        target_matrices=2 * target,
        source_products=4 * width * source_length * config.encoder_layers,
        target_products=4 * width * (source_length + target_length) * layers,
    )


def count_training_flops_per_token(config: ModelConfig, vocabulary_size: int) -> float:
    """Return operations per real token in training, averaged over both sides.

    The products of attention, which depend on the sentence lengths, are left out, as is usual.
    """
    flops = count_flops_per_token(config, vocabulary_size, source_length=0, target_length=0)
    return TRAINING * (flops.source + flops.target) / 2
