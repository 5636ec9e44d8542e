"""All that tells one model from another, in one object that is handed down."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from nmt.model.costs import Costs

NORMS = ("pre", "post")
SINUSOIDAL = ("sinusoidal", "sinusoidal_halves")
POSITIONS = (*SINUSOIDAL, "learned", "rotary", "relative", "alibi", "none")
ACTIVATIONS = ("relu", "relu2", "gelu", "silu", "swiglu")
KERNELS = ("explicit", "fused", "chunked")
HEADS = ("split", "own", "pooled")
CELLS = ("gru", "lstm")
SCORES = ("additive", "dot", "general", "cross")
RELATIVE_BUCKETS, RELATIVE_FARTHEST = 32, 128  # of relative positions, as in T5
NORM_EPSILON = 1e-6  # of every layer normalisation that is not told another


class _Sizes:
    """What both objects of sizes have."""

    @classmethod
    def split_off(cls, config: dict[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Return the sizes out of a layer's configuration, and what else is in it."""
        names = {item.name for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
        sizes = cls(**{key: value for key, value in config.items() if key in names})
        return sizes, {key: value for key, value in config.items() if key not in names}


def _check_words(sizes: _Sizes, **known: tuple[str, ...]) -> None:
    for name, words in known.items():
        if (value := getattr(sizes, name)) not in words:
            raise ValueError(f"{name}={value!r} is none of {', '.join(map(repr, words))}")


@dataclass(frozen=True)
class AttentionSizes(_Sizes):
    """The sizes of one attention layer.

    Attributes:
        d_model: D.
        num_heads: H; 1 is plain single-head attention. A head is K = D / H wide.
        dropout: rate on the attention weights.
        kernel: "explicit", "fused" or "chunked", see
            `nmt.model.attention.scaled_dot_product_attention`.
        heads: how heads are made of the model's width. "split": one matrix [D, D] for all of them,
            whose columns they share out; "own": a matrix [D, K] for each, which is the same
            function; "pooled": values of a head are D wide, [D, D] for each, and what the heads
            read is added up instead of put side by side.
        key_value_heads: G, heads of keys and values, each shared by H / G heads of queries
            (Ainslie et al. 2023); 1: multi-query attention (Shazeer 2019); None: H.
        biases: whether the projections have biases.
        output: whether what the heads read passes through an output projection [D, D].
        qk_norm: whether the queries and keys of each head are normalised to unit mean square, with
            a learned scale (Henry et al. 2020, Dehghani et al. 2023, section 2).
        rotary: whether queries and keys are turned by their positions (Su et al. 2021).

    Raises:
        ValueError: a word is none of those above; D, H or G is not positive, or the rate not in
            [0, 1); H does not divide D, or G does not divide H; heads share values that are pooled,
            or that no projection tells apart; rotary heads of odd width.
    """

    d_model: int
    num_heads: int
    dropout: float = 0.0
    kernel: str = "explicit"
    heads: str = "split"
    key_value_heads: int | None = None
    biases: bool = True
    output: bool = True
    qk_norm: bool = False
    rotary: bool = False

    def __post_init__(self) -> None:
        sizes = {"d_model": self.d_model, "num_heads": self.num_heads}
        for name, size in (sizes | {"key_value_heads": self.groups}).items():
            if size < 1:
                raise ValueError(f"{name}={size} must be positive")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} is not in [0, 1)")
        if self.d_model % self.num_heads:
            raise ValueError(
                f"d_model={self.d_model} is not divisible by num_heads={self.num_heads}"
            )
        _check_words(self, kernel=KERNELS, heads=HEADS)
        if self.num_heads % self.groups:
            raise ValueError(
                f"num_heads={self.num_heads} is not divisible by key_value_heads={self.groups}"
            )
        if self.groups < self.num_heads and (self.heads == "pooled" or not self.output):
            raise ValueError(
                f"key_value_heads={self.groups}: heads that share values need heads='split' or "
                "'own', and an output projection to tell them apart"
            )
        if self.rotary and self.head_width % 2:
            raise ValueError(f"rotary heads must have an even width, not {self.head_width}")

    @property
    def head_width(self) -> int:
        """K, of a query and a key."""
        return self.d_model // self.num_heads

    @property
    def groups(self) -> int:
        """G, heads of keys and values."""
        return self.num_heads if self.key_value_heads is None else self.key_value_heads

    @property
    def value_width(self) -> int:
        """Of the values of a head: K, or D where heads are pooled."""
        return self.d_model if self.heads == "pooled" else self.head_width


@dataclass(frozen=True, kw_only=True)
class Sizes(_Sizes):
    """The sizes of a transformer.

    Attributes:
        vocabulary_size: V, shared by source and target; embeddings and output are tied.
        d_model: D.
        num_heads: H.
        heads: "split", "own" or "pooled", see `AttentionSizes`.
        key_value_heads: G; None: H.
        attention_biases: whether the projections of attention have biases.
        attention_output: whether attention ends in an output projection.
        qk_norm: whether queries and keys are normalised.
        ffn_width: F.
        encoder_layers: number of encoder blocks.
        decoder_layers: number of decoder blocks.
        norm: "pre" or "post" (the paper's).
        norm_epsilon: added to the variances of layer normalisation.
        positions: "sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative", "alibi" or
            "none", see `nmt.model.positions`.
        activation: "relu", "relu2", "gelu", "silu" or "swiglu".
        output_bias: whether the logits have a bias [V].
        dropout: rate on embeddings and residual branches.
        attention_dropout: rate on attention weights.
        ffn_dropout: rate inside the feed-forward block.
        max_length: longest sequence in tokens, source or target.
        attention_kernel: "explicit", "fused" or "chunked".
        remat: recompute each block in the backward pass instead of keeping its activations.

    Raises:
        ValueError: a word is none of those above, or see `AttentionSizes`.
    """

    vocabulary_size: int
    d_model: int
    num_heads: int
    heads: str = "split"
    key_value_heads: int | None = None
    attention_biases: bool = True
    attention_output: bool = True
    qk_norm: bool = False
    ffn_width: int
    encoder_layers: int
    decoder_layers: int
    norm: str
    norm_epsilon: float = NORM_EPSILON
    positions: str
    activation: str
    output_bias: bool = False
    dropout: float
    attention_dropout: float
    ffn_dropout: float
    max_length: int
    attention_kernel: str
    remat: bool

    def __post_init__(self) -> None:
        _check_words(self, norm=NORMS, positions=POSITIONS, activation=ACTIVATIONS)
        _ = self.cross_attention, self.self_attention  # which check the rest

    @property
    def costs(self) -> Costs:
        """What such a model costs."""
        from nmt.model.transformer_costs import TransformerCosts

        return TransformerCosts(self)

    @property
    def cross_attention(self) -> AttentionSizes:
        """Of every attention to the other side."""
        return AttentionSizes(
            self.d_model,
            self.num_heads,
            self.attention_dropout,
            self.attention_kernel,
            self.heads,
            self.key_value_heads,
            self.attention_biases,
            self.attention_output,
            self.qk_norm,
        )

    @property
    def self_attention(self) -> AttentionSizes:
        """Of every attention within a side: positions that turn queries and keys act here alone."""
        return dataclasses.replace(self.cross_attention, rotary=self.positions == "rotary")


@dataclass(frozen=True, kw_only=True)
class RecurrentSizes(_Sizes):
    """The sizes of a recurrent encoder-decoder with attention.

    Attributes:
        vocabulary_size: V, shared by source and target; embeddings and output are tied.
        d_model: D, of embeddings, and of what the decoder writes from.
        state_width: R, of a decoder's state and of what it attends to; each direction of the
            encoder has R / 2.
        cell: "gru" or "lstm".
        encoder_layers: bidirectional layers of the encoder.
        decoder_layers: layers of the decoder.
        attention: "additive", "dot", "general" or "cross" (the transformer's own layer).
        num_heads: H, of "cross"; 1 for the others.
        input_feeding: whether the decoder reads what it last attended to (Luong et al. 2015,
            section 3.3).
        bridge: whether the decoder begins with what a projection makes of the encoder's last
            states; otherwise with zeros.
        dropout: rate on embeddings, between layers and before the output.
        attention_dropout: rate on attention weights.
        max_length: longest sequence in tokens, source or target.

    Raises:
        ValueError: a word is none of those above, R is odd, or see `AttentionSizes`.
    """

    vocabulary_size: int
    d_model: int
    state_width: int
    cell: str
    encoder_layers: int
    decoder_layers: int
    attention: str
    num_heads: int
    input_feeding: bool
    bridge: bool
    dropout: float
    attention_dropout: float
    max_length: int

    def __post_init__(self) -> None:
        _check_words(self, cell=CELLS, attention=SCORES)
        if self.state_width % 2:
            raise ValueError(f"state_width={self.state_width} must be even")
        if self.attention != "cross" and self.num_heads != 1:
            raise ValueError(f"attention={self.attention!r} has one head, not {self.num_heads}")
        _ = self.cross_attention

    @property
    def costs(self) -> Costs:
        """What such a model costs."""
        from nmt.model.recurrent_costs import RecurrentCosts

        return RecurrentCosts(self)

    @property
    def cross_attention(self) -> AttentionSizes:
        """Of attention "cross"."""
        return AttentionSizes(self.state_width, self.num_heads, self.attention_dropout)
