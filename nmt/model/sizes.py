"""All that tells one model from another, in one object that is handed down."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

NORMS = ("pre", "post")
POSITIONS = ("sinusoidal", "learned")
ACTIVATIONS = ("relu", "relu2", "gelu", "swiglu")
KERNELS = ("explicit", "fused")
NORM_EPSILON = 1e-6  # of every layer normalisation


class _Sizes:
    """What both objects of sizes have."""

    @classmethod
    def split_off(cls, config: dict[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Return the sizes out of a layer's configuration, and what else is in it."""
        names = {item.name for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
        sizes = cls(**{key: value for key, value in config.items() if key in names})
        return sizes, {key: value for key, value in config.items() if key not in names}


@dataclass(frozen=True)
class AttentionSizes(_Sizes):
    """The sizes of one attention layer.

    Attributes:
        d_model: D.
        num_heads: H; 1 is plain single-head attention. A head is K = D / H wide.
        dropout: rate on the attention weights.
        kernel: "explicit" or "fused", see `nmt.model.attention.scaled_dot_product_attention`.

    Raises:
        ValueError: D is not divisible by H, or the kernel is unknown.
    """

    d_model: int
    num_heads: int
    dropout: float = 0.0
    kernel: str = "explicit"

    def __post_init__(self) -> None:
        if self.d_model % self.num_heads:
            raise ValueError(
                f"d_model={self.d_model} is not divisible by num_heads={self.num_heads}"
            )
        if self.kernel not in KERNELS:
            raise ValueError(f"kernel={self.kernel!r} is neither 'explicit' nor 'fused'")

    @property
    def head_width(self) -> int:
        """K."""
        return self.d_model // self.num_heads


@dataclass(frozen=True, kw_only=True)
class Sizes(_Sizes):
    """The sizes of a transformer.

    Attributes:
        vocabulary_size: V, shared by source and target; embeddings and output are tied.
        d_model: D.
        num_heads: H.
        ffn_width: F.
        encoder_layers: number of encoder blocks.
        decoder_layers: number of decoder blocks.
        norm: "pre" or "post" (the paper's).
        positions: "sinusoidal" or "learned".
        activation: "relu", "relu2", "gelu" or "swiglu".
        dropout: rate on embeddings and residual branches.
        attention_dropout: rate on attention weights.
        ffn_dropout: rate inside the feed-forward block.
        max_length: longest sequence in tokens, source or target.
        attention_kernel: "explicit" or "fused".
        remat: recompute each block in the backward pass instead of keeping its activations.

    Raises:
        ValueError: a word is none of those above, or D is not divisible by H.
    """

    vocabulary_size: int
    d_model: int
    num_heads: int
    ffn_width: int
    encoder_layers: int
    decoder_layers: int
    norm: str
    positions: str
    activation: str
    dropout: float
    attention_dropout: float
    ffn_dropout: float
    max_length: int
    attention_kernel: str
    remat: bool

    def __post_init__(self) -> None:
        words = {"norm": NORMS, "positions": POSITIONS, "activation": ACTIVATIONS}
        for name, known in words.items():
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"{name}={value!r} is none of {', '.join(map(repr, known))}")
        _ = self.attention  # checks the rest

    @property
    def attention(self) -> AttentionSizes:
        """Of every attention layer."""
        return AttentionSizes(
            self.d_model, self.num_heads, self.attention_dropout, self.attention_kernel
        )
