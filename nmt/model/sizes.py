"""The hyperparameters of a model, in one object. Importing this loads no Keras."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from nmt.model.costs import Costs

NORMS = ("pre", "post")
SINUSOIDAL = ("sinusoidal", "sinusoidal_halves")
BIASED = ("relative", "alibi")  # positions that add a bias to the scores of self-attention
POSITIONS = (*SINUSOIDAL, "learned", "rotary", *BIASED, "none")
ACTIVATIONS = ("relu", "relu2", "gelu", "silu", "swiglu")
KERNELS = ("explicit", "fused", "chunked")
HEADS = ("split", "own", "pooled")
QK_NORMS = (False, True, "self")
CELLS = ("gru", "lstm")
SCORES = ("additive", "dot", "general", "cross")
RELATIVE_BUCKETS, RELATIVE_FARTHEST = 32, 128  # as in T5
NORM_EPSILON = 1e-6  # default of all normalisation layers
# What blocks and transformers constructed by keywords use where nothing is given. In
# `TransformerSizes` these fields are required, so that no key of a configuration is lost on the way
# to a layer.
BLOCK_DEFAULTS = {
    "norm": "pre",
    "positions": "sinusoidal",
    "activation": "relu",
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "ffn_dropout": 0.0,
    "attention_kernel": "explicit",
}
TRANSFORMER_DEFAULTS = BLOCK_DEFAULTS | {"max_length": 256, "remat": False}


class _Sizes:
    """The methods that all sizes share."""

    @classmethod
    def split_config(cls, config: dict[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Split a layer's configuration into its sizes and the arguments of every Keras layer."""
        names = {item.name for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
        sizes = cls(**{key: value for key, value in config.items() if key in names})
        return sizes, {key: value for key, value in config.items() if key not in names}


def _check_choices(sizes: _Sizes, **choices: tuple[Any, ...]) -> None:
    for name, values in choices.items():
        if (value := getattr(sizes, name)) not in values:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, values))}, got {value!r}")


def _check_rates(**rates: float) -> None:
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise ValueError(f"{name} must be in [0, 1), got {rate}")


@dataclass(frozen=True)
class AttentionSizes(_Sizes):
    """The sizes of one attention layer.

    Raises:
        ValueError: an unsupported choice; D, H or G is not positive, or the rate not in [0, 1); H
            does not divide D, or G does not divide H; shared values are pooled, or not followed by
            an output projection; rotary heads have an odd width.
    """

    d_model: int  # D
    num_heads: int  # H; 1 is single-head attention. A head is K = D / H wide
    dropout: float = 0.0  # rate on the attention weights
    # "explicit", "fused" or "chunked": see `nmt.model.attention.scaled_dot_product_attention`
    kernel: str = "explicit"
    # "split": one matrix [D, D], whose columns are divided among the heads;
    # "own": a matrix [D, K] for each head, which is the same function;
    # "pooled": a matrix [D, D] for the values of each head, and the heads' outputs are added
    # instead of concatenated
    heads: str = "split"
    # G, heads of keys and values, each shared by H / G heads of queries (Ainslie et al. 2023);
    # 1: multi-query attention (Shazeer 2019); None: H
    key_value_heads: int | None = None
    biases: bool = True  # whether the projections have biases
    output: bool = True  # whether there is an output projection [D, D]
    # Whether the queries and keys of each head are normalised to unit mean square, with a learned
    # scale (Henry et al. 2020, Dehghani et al. 2023, section 2)
    qk_norm: bool = False
    rotary: bool = False  # whether queries and keys are rotated by their positions (Su et al. 2021)

    def __post_init__(self) -> None:
        sizes = {"d_model": self.d_model, "num_heads": self.num_heads}
        for name, size in (sizes | {"key_value_heads": self.groups}).items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        _check_rates(dropout=self.dropout)
        if self.d_model % self.num_heads:
            raise ValueError(
                f"d_model={self.d_model} is not divisible by num_heads={self.num_heads}"
            )
        _check_choices(self, kernel=KERNELS, heads=HEADS)
        if self.num_heads % self.groups:
            raise ValueError(
                f"num_heads={self.num_heads} is not divisible by key_value_heads={self.groups}"
            )
        if self.groups < self.num_heads and (self.heads == "pooled" or not self.output):
            raise ValueError(
                f"key_value_heads={self.groups}: heads that share values need heads='split' or "
                "'own', and an output projection"
            )
        if self.rotary and self.head_width % 2:
            raise ValueError(
                f"d_model / num_heads must be even for rotary positions, got {self.head_width}"
            )

    @property
    def head_width(self) -> int:
        """K, the width of a query and a key."""
        return self.d_model // self.num_heads

    @property
    def groups(self) -> int:
        """G, heads of keys and values."""
        return self.num_heads if self.key_value_heads is None else self.key_value_heads

    @property
    def value_width(self) -> int:
        """C, the width of a value: K, or D where heads are pooled."""
        return self.d_model if self.heads == "pooled" else self.head_width

    @property
    def key_value_width(self) -> int:
        """G·(K + C), the width of all keys and values of a position."""
        return self.groups * (self.head_width + self.value_width)


@dataclass(frozen=True, kw_only=True)
class BlockSizes(_Sizes):
    """The sizes of a block of a transformer.

    Raises:
        ValueError: an unsupported choice, or a rate that is not in [0, 1); see also
            `AttentionSizes`.
    """

    d_model: int  # D
    num_heads: int  # H
    heads: str = "split"  # this and the next four: see `AttentionSizes`
    key_value_heads: int | None = None  # G; None: H
    attention_biases: bool = True  # of the projections
    attention_output: bool = True  # whether there is an output projection
    qk_norm: bool | str = False  # normalise queries and keys; "self": not those of cross-attention
    ffn_width: int  # F
    norm: str  # "pre" or "post" (as in the paper)
    norm_epsilon: float = NORM_EPSILON  # added to the variance in layer normalisation
    # One of `POSITIONS`, see `nmt.model.positions`. Only "rotary" changes a block; for "relative"
    # and "alibi" its calls need a ``distance_bias``.
    positions: str
    activation: str  # one of `ACTIVATIONS`, see `nmt.model.blocks.FeedForward`
    dropout: float  # rate on residual branches and embeddings
    attention_dropout: float  # rate on attention weights
    ffn_dropout: float  # rate inside the feed-forward block
    attention_kernel: str  # "explicit", "fused" or "chunked"

    def __post_init__(self) -> None:
        _check_choices(
            self,
            norm=NORMS,
            positions=POSITIONS,
            activation=ACTIVATIONS,
            qk_norm=QK_NORMS,
            attention_kernel=KERNELS,
        )
        _check_rates(
            dropout=self.dropout,
            ffn_dropout=self.ffn_dropout,
            attention_dropout=self.attention_dropout,
        )
        _ = self.cross_attention, self.self_attention  # they check the other fields
        if self.positions in SINUSOIDAL and self.d_model % 2:
            raise ValueError(f"d_model must be even for sinusoidal positions, got {self.d_model}")

    @property
    def hidden_width(self) -> int:
        """D, the width of the layers' inputs and outputs."""
        return self.d_model

    @property
    def cross_attention(self) -> AttentionSizes:
        """The sizes of cross-attention."""
        return AttentionSizes(
            self.d_model,
            self.num_heads,
            self.attention_dropout,
            self.attention_kernel,
            self.heads,
            self.key_value_heads,
            self.attention_biases,
            self.attention_output,
            self.qk_norm is True,
        )

    @property
    def self_attention(self) -> AttentionSizes:
        """The sizes of self-attention, which is the only kind that rotary positions act on."""
        return dataclasses.replace(
            self.cross_attention,
            rotary=self.positions == "rotary",
            qk_norm=self.qk_norm is not False,
        )


@dataclass(frozen=True, kw_only=True)
class TransformerSizes(BlockSizes):
    """The sizes of a transformer.

    Raises:
        ValueError: an unsupported choice; see also `AttentionSizes`.
    """

    vocabulary_size: int  # V, shared by source and target; embeddings and output are tied
    encoder_layers: int  # number of encoder blocks
    decoder_layers: int  # number of decoder blocks
    output_bias: bool = False  # whether the logits have a bias [V]
    max_length: int  # longest sequence in tokens, source or target
    remat: bool  # recompute each block in the backward pass instead of keeping its activations

    @property
    def costs(self) -> Costs:
        """The costs of such a model: parameters, arithmetic, memory."""
        from nmt.model.transformer_costs import TransformerCosts

        return TransformerCosts(self)


@dataclass(frozen=True, kw_only=True)
class RecurrentSizes(_Sizes):
    """The sizes of a recurrent encoder-decoder with attention.

    Raises:
        ValueError: an unsupported choice, an odd R, or a rate that is not in [0, 1); see also
            `AttentionSizes`.
    """

    vocabulary_size: int  # V, shared by source and target; embeddings and output are tied
    d_model: int  # D, the width of embeddings and of the attentional states
    # R, the width of the states; each direction of the encoder has R / 2
    state_width: int
    cell: str  # "gru" or "lstm"
    encoder_layers: int  # number of bidirectional layers
    decoder_layers: int  # number of layers
    attention: str  # one of `SCORES`, see `nmt.model.scores`
    num_heads: int  # H of "cross"; 1 for the others
    # Whether the decoder reads its previous attentional state (Luong et al. 2015, section 3.3)
    input_feeding: bool
    # Whether the decoder's initial states are a projection of the encoder's final states, not zeros
    bridge: bool
    dropout: float  # rate on embeddings, between layers and before the output
    attention_dropout: float  # rate on attention weights
    max_length: int  # longest sequence in tokens, source or target

    def __post_init__(self) -> None:
        _check_choices(self, cell=CELLS, attention=SCORES)
        _check_rates(dropout=self.dropout, attention_dropout=self.attention_dropout)
        if self.state_width < 2 or self.state_width % 2:
            raise ValueError(f"state_width must be even and at least 2, got {self.state_width}")
        if self.attention != "cross" and self.num_heads != 1:
            raise ValueError(
                f"attention={self.attention!r} needs num_heads=1, got {self.num_heads}"
            )
        if self.state_width % self.num_heads:
            raise ValueError(
                f"state_width={self.state_width} is not divisible by num_heads={self.num_heads}"
            )
        _ = self.cross_attention

    @property
    def hidden_width(self) -> int:
        """R, the width of the layers' outputs."""
        return self.state_width

    @property
    def costs(self) -> Costs:
        """The costs of such a model: parameters, arithmetic, memory."""
        from nmt.model.recurrent_costs import RecurrentCosts

        return RecurrentCosts(self)

    @property
    def cross_attention(self) -> AttentionSizes:
        """The sizes of attention "cross"."""
        return AttentionSizes(self.state_width, self.num_heads, self.attention_dropout)
