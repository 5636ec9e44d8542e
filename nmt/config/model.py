"""The ``model`` group."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.config.checks import MISSING, check_at_least, check_between, check_one_of
from nmt.errors import UserError


@dataclass
class ModelConfig:
    """The encoder-decoder transformer (Vaswani et al. 2017) and its variants."""

    name: str = MISSING
    d_model: int = MISSING  # model width D
    num_heads: int = MISSING  # H; a head is D / H wide
    ffn_width: int = MISSING  # F
    encoder_layers: int = MISSING
    decoder_layers: int = MISSING
    norm: str = MISSING  # pre | post
    positions: str = MISSING  # sinusoidal | learned
    activation: str = MISSING  # relu | relu2 | gelu | swiglu
    # On embeddings and on every residual branch. null: by the size of the training split, see
    # `nmt.training.defaults.dropout_for`.
    dropout: float | None = MISSING
    attention_dropout: float = MISSING  # on attention weights
    ffn_dropout: float = MISSING  # inside the feed-forward block
    max_length: int = MISSING  # longest sequence in tokens, end mark included
    attention_kernel: str = MISSING  # explicit | fused
    remat: bool = MISSING  # recompute block activations in the backward pass: less memory


def check_model(config: ModelConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first key that is wrong and what it may be.
    """
    for key in ("d_model", "num_heads", "ffn_width", "encoder_layers", "decoder_layers"):
        check_at_least(f"model.{key}", getattr(config, key), 1)
    if config.d_model % config.num_heads:
        raise UserError(
            f"model.d_model={config.d_model} is not divisible by model.num_heads={config.num_heads}"
        )
    if config.positions == "sinusoidal" and config.d_model % 2:
        raise UserError(f"model.d_model={config.d_model} must be even for sinusoidal positions")
    check_one_of("model.norm", config.norm, ("pre", "post"))
    check_one_of("model.positions", config.positions, ("sinusoidal", "learned"))
    check_one_of("model.activation", config.activation, ("relu", "relu2", "gelu", "swiglu"))
    check_one_of("model.attention_kernel", config.attention_kernel, ("explicit", "fused"))
    rates = ["attention_dropout", "ffn_dropout"] + ["dropout"] * (config.dropout is not None)
    for key in rates:
        check_between(f"model.{key}", getattr(config, key), 0, 0.95)
    if config.attention_kernel == "fused" and config.attention_dropout:
        raise UserError(
            "model.attention_kernel=fused has no dropout inside: set model.attention_dropout=0"
        )
