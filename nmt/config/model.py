"""The ``model`` group: each kind of model has keys of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

from nmt.config.checks import MISSING, PositiveFloat, PositiveInt, Valid, between, one_of
from nmt.errors import UserError
from nmt.model import sizes

Dropout = Annotated[float, between(0, 0.95)]
UNSET_DROPOUT = 0.1  # for summaries of models before training, where only a value above 0 matters
QK_NORM = Valid("false, true or self", lambda value: value in sizes.QK_NORMS)


@dataclass
class ModelConfig:
    """The keys of every model."""

    name: str = MISSING  # part of a run's name
    kind: str = MISSING  # transformer | rnn
    d_model: PositiveInt = MISSING  # model width D, of embeddings and of the decoder's output
    encoder_layers: PositiveInt = MISSING  # blocks
    decoder_layers: PositiveInt = MISSING  # blocks
    # On embeddings and residual branches, or between recurrent layers. null: chosen for the size of
    # the training split, as docs/hydra.md says.
    dropout: Dropout | None = MISSING
    max_length: int = MISSING  # longest sequence in tokens, EOS included
    # Rank of the adapters that are trained in place of the matrices; null: disabled. Loading
    # merges them into the matrices.
    lora_rank: PositiveInt | None = MISSING
    # Name patterns of the matrices that have adapters. null: those that docs/adaptation.md names.
    lora_on: list[str] | None = MISSING

    def make_sizes(self, vocabulary_size: int) -> sizes.TransformerSizes | sizes.RecurrentSizes:
        """Return the sizes of the model; a dropout of None counts as `UNSET_DROPOUT`."""
        arguments = asdict(self)
        del arguments["name"], arguments["kind"], arguments["lora_rank"], arguments["lora_on"]
        if self.dropout is None:
            arguments["dropout"] = UNSET_DROPOUT
        kind = sizes.RecurrentSizes if isinstance(self, RecurrentConfig) else sizes.TransformerSizes
        return kind(vocabulary_size=vocabulary_size, **arguments)


@dataclass
class TransformerConfig(ModelConfig):
    """The encoder-decoder transformer (Vaswani et al. 2017) and its variants."""

    kind: str = "transformer"  # chosen with the model
    num_heads: PositiveInt = MISSING  # H; the width of a head is D / H
    # split: columns of one matrix | own: a matrix for each head | pooled: a whole matrix of values
    # for each head, and the heads are added
    heads: Annotated[str, one_of(*sizes.HEADS)] = MISSING
    key_value_heads: PositiveInt | None = MISSING  # shared by queries; 1: multi-query; null: H
    attention_biases: bool = MISSING  # of the projections of queries, keys, values and outputs
    attention_output: bool = MISSING  # whether attention has an output projection
    # Normalise queries and keys; self: those of self-attention only.
    qk_norm: Annotated[bool | str, QK_NORM] = MISSING
    ffn_width: PositiveInt = MISSING  # F, inside the feed-forward block
    norm: Annotated[str, one_of(*sizes.NORMS)] = MISSING  # before a block's layers, or after
    norm_epsilon: PositiveFloat = MISSING  # added to the variances
    positions: Annotated[str, one_of(*sizes.POSITIONS)] = MISSING  # how layers know them
    activation: Annotated[str, one_of(*sizes.ACTIVATIONS)] = MISSING  # of the feed-forward block
    output_bias: bool = MISSING  # whether the logits have a bias
    attention_dropout: Dropout = MISSING  # on attention weights
    ffn_dropout: Dropout = MISSING  # inside the feed-forward block
    # explicit: a table of scores | fused: the device's kernel | chunked: keys in parts, less memory
    attention_kernel: Annotated[str, one_of(*sizes.KERNELS)] = MISSING
    remat: bool = MISSING  # recompute block activations in the backward pass: less memory


@dataclass
class RecurrentConfig(ModelConfig):
    """The recurrent encoder-decoder with attention (Bahdanau et al. 2015, Luong et al. 2015)."""

    kind: str = "rnn"  # chosen with the model
    cell: Annotated[str, one_of(*sizes.CELLS)] = MISSING  # of the recurrent layers
    state_width: PositiveInt = MISSING  # of the decoder; each encoder direction has half of it
    attention: Annotated[str, one_of(*sizes.SCORES)] = MISSING  # cross: the transformer's own layer
    num_heads: PositiveInt = MISSING  # H of attention=cross; 1 for the others
    input_feeding: bool = MISSING  # whether the decoder reads its previous context vector
    bridge: bool = MISSING  # whether the decoder starts from the encoder's last states
    attention_dropout: Dropout = MISSING  # on attention weights


MODEL_CONFIGS: dict[str, type[ModelConfig]] = {
    config.kind: config for config in (TransformerConfig, RecurrentConfig)
}


def check_model(config: ModelConfig) -> None:
    """Raise a `UserError` if the keys contradict each other."""
    if config.lora_rank is not None and config.lora_on == []:
        raise UserError(
            "model.lora_on is empty: give name patterns of matrices, such as [value,inner]"
        )
    if (
        isinstance(config, TransformerConfig)
        and config.attention_kernel == "fused"
        and config.attention_dropout
    ):
        raise UserError(
            "model.attention_kernel=fused needs model.attention_dropout=0, got "
            f"{config.attention_dropout}"
        )
    try:
        config.make_sizes(vocabulary_size=1)
    except ValueError as error:
        raise UserError(f"model.{error}") from error
