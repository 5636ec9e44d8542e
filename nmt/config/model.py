"""The ``model`` group: each kind of model has keys of its own."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.config.checks import MISSING, check_above_zero, check_at_least, check_between, check_choice
from nmt.errors import UserError
from nmt.model.sizes import (
    ACTIVATIONS,
    CELLS,
    HEADS,
    KERNELS,
    NORMS,
    POSITIONS,
    SCORES,
    SINUSOIDAL,
)


@dataclass
class ModelConfig:
    """The keys of every model."""

    name: str = MISSING
    kind: str = MISSING  # transformer | rnn
    d_model: int = MISSING  # model width D, of embeddings and of the decoder's output
    encoder_layers: int = MISSING
    decoder_layers: int = MISSING
    # On embeddings and on every residual branch, or between recurrent layers. null: chosen for the
    # size of the training split, see `nmt.training.defaults.default_dropout`.
    dropout: float | None = MISSING
    max_length: int = MISSING  # longest sequence in tokens, end mark included
    # Rank of the adapters that are trained in place of the matrices; null: disabled. Loading
    # merges them into the matrices.
    lora_rank: int | None = MISSING
    # Name patterns of the matrices that have adapters. null: see `Model.add_adapters`.
    lora_on: list[str] | None = MISSING


@dataclass
class TransformerConfig(ModelConfig):
    """The encoder-decoder transformer (Vaswani et al. 2017) and its variants."""

    kind: str = "transformer"
    num_heads: int = MISSING  # H; the width of a head is D / H
    heads: str = MISSING  # split | own | pooled, see `nmt.model.sizes.AttentionSizes`
    key_value_heads: int | None = MISSING  # shared by queries; 1: multi-query; null: H
    attention_biases: bool = MISSING
    attention_output: bool = MISSING  # whether attention has an output projection
    qk_norm: bool = MISSING  # normalise queries and keys
    ffn_width: int = MISSING  # F
    norm: str = MISSING  # pre | post
    norm_epsilon: float = MISSING  # added to the variances
    # sinusoidal | sinusoidal_halves | learned | rotary | relative | alibi | none
    positions: str = MISSING
    activation: str = MISSING  # relu | relu2 | gelu | silu | swiglu
    output_bias: bool = MISSING  # whether the logits have a bias
    attention_dropout: float = MISSING  # on attention weights
    ffn_dropout: float = MISSING  # inside the feed-forward block
    attention_kernel: str = MISSING  # explicit | fused | chunked
    remat: bool = MISSING  # recompute block activations in the backward pass: less memory


@dataclass
class RecurrentConfig(ModelConfig):
    """The recurrent encoder-decoder with attention (Bahdanau et al. 2015, Luong et al. 2015)."""

    kind: str = "rnn"
    cell: str = MISSING  # gru | lstm
    state_width: int = MISSING  # of the decoder's state; each encoder direction has half of it
    attention: str = MISSING  # additive | dot | general | cross (the transformer's own layer)
    num_heads: int = MISSING  # H of attention=cross; 1 for the others
    input_feeding: bool = MISSING  # whether the decoder reads its previous context vector
    bridge: bool = MISSING  # whether the decoder starts from the encoder's last states
    attention_dropout: float = MISSING  # on attention weights


MODEL_CONFIGS: dict[str, type[ModelConfig]] = {
    "transformer": TransformerConfig,
    "rnn": RecurrentConfig,
}


def check_model(config: ModelConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first invalid key and its valid values.
    """
    for key in ("d_model", "encoder_layers", "decoder_layers"):
        check_at_least(f"model.{key}", getattr(config, key), 1)
    if config.lora_rank is not None:
        check_at_least("model.lora_rank", config.lora_rank, 1)
        if config.lora_on == []:
            raise UserError(
                "model.lora_on is empty: give name patterns of matrices, such as [value,inner]"
            )
    if config.dropout is not None:
        check_between("model.dropout", config.dropout, 0, 0.95)
    if isinstance(config, TransformerConfig):
        _check_transformer(config)
    if isinstance(config, RecurrentConfig):
        _check_recurrent(config)


def _check_transformer(config: TransformerConfig) -> None:
    for key in ("num_heads", "ffn_width"):
        check_at_least(f"model.{key}", getattr(config, key), 1)
    _check_heads("model.d_model", config.d_model, config.num_heads)
    check_above_zero("model.norm_epsilon", config.norm_epsilon)
    if config.positions in SINUSOIDAL and config.d_model % 2:
        raise UserError(
            f"model.d_model must be even for sinusoidal positions, got {config.d_model}"
        )
    check_choice("model.norm", config.norm, NORMS)
    check_choice("model.positions", config.positions, POSITIONS)
    check_choice("model.activation", config.activation, ACTIVATIONS)
    check_choice("model.attention_kernel", config.attention_kernel, KERNELS)
    for key in ("attention_dropout", "ffn_dropout"):
        check_between(f"model.{key}", getattr(config, key), 0, 0.95)
    if config.attention_kernel == "fused" and config.attention_dropout:
        raise UserError(
            "model.attention_kernel=fused needs model.attention_dropout=0, got "
            f"{config.attention_dropout}"
        )
    if config.positions == "rotary" and config.d_model // config.num_heads % 2:
        raise UserError(
            "model.positions=rotary needs an even model.d_model / model.num_heads, got "
            f"{config.d_model // config.num_heads}"
        )
    _check_variants(config)


def _check_variants(config: TransformerConfig) -> None:
    """Check how heads share the model's width and their keys and values."""
    check_choice("model.heads", config.heads, HEADS)
    shared = config.key_value_heads
    if shared is None:
        return
    check_at_least("model.key_value_heads", shared, 1)
    if config.num_heads % shared:
        raise UserError(
            f"model.key_value_heads={shared} must divide model.num_heads={config.num_heads}"
        )
    if shared < config.num_heads and (config.heads == "pooled" or not config.attention_output):
        required = (
            "model.heads=split" if config.heads == "pooled" else "model.attention_output=true"
        )
        raise UserError(
            f"model.key_value_heads={shared} needs {required}: heads that share values "
            "differ in their output projection only"
        )


def _check_recurrent(config: RecurrentConfig) -> None:
    check_choice("model.cell", config.cell, CELLS)
    check_choice("model.attention", config.attention, SCORES)
    for key in ("state_width", "num_heads"):
        check_at_least(f"model.{key}", getattr(config, key), 1)
    check_between("model.attention_dropout", config.attention_dropout, 0, 0.95)
    if config.state_width % 2:
        raise UserError(
            "model.state_width must be even, since each direction of the encoder has half of it, "
            f"got {config.state_width}"
        )
    if config.attention == "cross":
        _check_heads("model.state_width", config.state_width, config.num_heads)
    elif config.num_heads > 1:
        raise UserError(
            f"model.attention={config.attention} needs model.num_heads=1, got {config.num_heads}"
        )


def _check_heads(key: str, width: int, heads: int) -> None:
    if width % heads:
        raise UserError(f"{key}={width} must be divisible by model.num_heads={heads}")
