"""The interface of all models, for search, training, analysis and exporters.

Importing this module loads no Keras.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from nmt.model.sizes import RecurrentSizes, TransformerSizes

Tensor = Any
State = Any  # nested tensors, each with the batch as its first axis


class AttentionKind(NamedTuple):
    """One kind of attention of a model."""

    name: str  # key of its weights
    title: str
    rows: str  # tokens that attend: "source", "target_in" or "target_out"
    columns: str  # tokens attended to
    causal: bool = False  # whether a row attends only to itself and to earlier tokens

    @property
    def is_cross(self) -> bool:
        """Whether one side attends to the other."""
        return self.columns.startswith("source") != self.rows.startswith("source")

    @property
    def slug(self) -> str:
        """The title, for file names and TensorBoard tags."""
        return self.title.replace(" ", "_").replace("-", "_")


ENCODER = AttentionKind("encoder", "encoder self-attention", "source", "source")
DECODER = AttentionKind(
    "decoder", "decoder masked self-attention", "target_in", "target_in", causal=True
)
# Rows are labelled with the token that a position predicts: users align outputs, not inputs.
CROSS = AttentionKind("cross", "cross-attention", "target_out", "source")


class Decoder(Protocol):
    """The interface that search needs.

    Attributes:
        max_length: longest sequence in tokens, source or target.
        vocabulary_size: V.
    """

    max_length: int
    vocabulary_size: int

    def start(
        self,
        source: Tensor,
        *,
        beam_size: int,
        max_length: int | Tensor,
        track_coverage: bool = False,
    ) -> State:
        """Encode the source and return the state before the first target token.

        Args:
            source: int [B, S], padded with id 0.
            beam_size: k, hypotheses per sentence.
            max_length: T, the capacity in target positions; `grow` adds more.
            track_coverage: whether `coverage` will be called.
        """

    def step(self, tokens: Tensor, index: Tensor, state: State) -> tuple[Tensor, State]:
        """Score the successors of ``tokens`` int [B, k], which stand at position ``index``.

        Returns:
            (logits float32 [B, k, V], the next state).
        """

    def reorder(self, state: State, parents: Tensor) -> State:
        """Let hypothesis i continue hypothesis ``parents[i]``; parents are int [B, k]."""

    def capacity(self, state: State) -> Tensor:
        """Return T, the number of target positions that a state can hold: int scalar."""

    def grow(self, state: State, positions: Tensor) -> State:
        """Increase the capacity by ``positions``."""

    def growing_axes(self, state: State) -> State:
        """Return, for every tensor of a state, the axis that `grow` lengthens; -1: no axis."""

    def coverage(self, state: State) -> tuple[Tensor, Tensor]:
        """Return the attention that source tokens have received, from a state that tracks it.

        Returns:
            (float32 [B, k, S], the attention summed over steps; bool [B, 1, S], False for padding).
        """


class Model(Decoder, Protocol):
    """The interface of a trainable model, in addition to that of `keras.Model`."""

    name: str
    embedding: Any  # `nmt.model.layers.TokenEmbedding`
    sizes: TransformerSizes | RecurrentSizes
    weights: Sequence[Any]

    @property
    def attention_kinds(self) -> tuple[AttentionKind, ...]:
        """The kinds of attention of the model, in display order."""

    def attention_layers(self, kind: str) -> Sequence[Any]:
        """Return the layers of one kind of attention, the first layer first.

        Each has ``num_heads`` and ``head_weights(number)``: (variable, index) of the weights that
        silence a head when they are set to zero; heads count from 0.
        """

    def __call__(
        self,
        inputs: Mapping[str, Tensor],
        dropout_key: Tensor | None = None,
        return_attention: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Return logits float32 [B, T, V], or (logits, attention weights per kind and layer).

        Args:
            inputs: ``source`` int [B, S] and ``target`` int [B, T]; for packed rows also
                ``source_segments``, ``source_positions`` [B, S], ``target_segments`` and
                ``target_positions`` [B, T]. Without them, a row is one pair and id 0 is padding.
            dropout_key: see `nmt.model.dropout`; None: no dropout, unless Keras trains.
            return_attention: whether to return attention weights too: a dictionary with a list per
                kind, of float32 [B, H, rows, columns] per layer.
            training: passed by Keras; if true and without a key, the model draws a key.
        """

    def token_table(self) -> Any:
        """Return the token embeddings float32 [V, D]."""

    def position_table(self) -> Any:
        """Return the position embeddings float32 [max_length, D]; None for models without them."""

    def distance_profiles(self, length: int) -> dict[str, Any]:
        """Return the effect of the distance of two tokens on their attention score.

        Args:
            length: L; distances run from 1 - L (the key is ahead) to L - 1.

        Returns:
            By title, float32 [H or 1, 2 L - 1], NaN where the mask hides the key; empty for models
            whose scores do not depend on distances.
        """

    def trained_weights(self) -> dict[str, Any]:
        """Return the trainable weights, named as in `named_weights`."""

    def add_adapters(self, rank: int, patterns: Sequence[str] | None = None) -> None:
        """Train W + A B in place of W (Hu et al. 2021, section 4.1), and freeze all other weights.

        Every matching matrix of attention, feed-forward or recurrence gets A [in, r], initialised
        at random, and B [r, out], initialised with zeros.

        Args:
            rank: r.
            patterns: a matrix matches if any name on its path does. None: the model's default,
                which for a transformer is values and feed-forward, where adapters were found to
                achieve more per parameter than in queries and keys (He et al. 2022, Towards a
                Unified View of Parameter-Efficient Transfer Learning), and for a recurrent model
                every matrix.

        Raises:
            ValueError: a pattern matches no matrix.
        """

    def named_weights(self) -> dict[str, Any]:
        """Return every weight by its path inside the model, which omits the model's name."""

    def count_params(self) -> int:
        """Return the number of parameters."""

    def save(self, path: Any) -> None:
        """Write a ``.keras`` file."""
