"""What search, training, inspection and exporters know of a model: this, and not which one it is.

Importing this module loads no Keras.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from nmt.model.sizes import RecurrentSizes, Sizes

Tensor = Any
State = Any  # a nest of tensors, each of which begins with the batch


class AttentionKind(NamedTuple):
    """One kind of attention that a model has."""

    name: str  # key of its weights
    title: str
    rows: str  # tokens that attend: "source", "target_in" or "target_out"
    columns: str  # tokens attended to
    causal: bool = False  # whether a row attends to itself and to what stands before it alone

    @property
    def is_cross(self) -> bool:
        """Whether one side attends to the other."""
        return self.columns.startswith("source") != self.rows.startswith("source")

    @property
    def slug(self) -> str:
        """The title, in file names and TensorBoard's tags."""
        return self.title.replace(" ", "_").replace("-", "_")


ENCODER = AttentionKind("encoder", "encoder self-attention", "source", "source")
DECODER = AttentionKind(
    "decoder", "decoder masked self-attention", "target_in", "target_in", causal=True
)
# Labelled with the token that a position writes: alignment is of what comes out.
CROSS = AttentionKind("cross", "cross-attention", "target_out", "source")


class Decoder(Protocol):
    """What a search needs of a model.

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
        """Read ``source`` int [B, S], padded with id 0, and get ready to write.

        Args:
            source: of B sentences.
            beam_size: k, hypotheses per sentence.
            max_length: T, positions there is room for; `grow` makes more.
            track_coverage: whether `coverage` will be asked for.
        """
        ...

    def step(self, tokens: Tensor, index: Tensor, state: State) -> tuple[Tensor, State]:
        """Score what follows ``tokens`` int [B, k], which stand at position ``index``.

        Returns:
            (logits float32 [B, k, V], the state after it).
        """
        ...

    def reorder(self, state: State, parents: Tensor) -> State:
        """Let the hypothesis in place i go on from the one in place ``parents`` int [B, k]."""
        ...

    def capacity(self, state: State) -> Tensor:
        """Return T, the positions that a state has room for: int scalar."""
        ...

    def grow(self, state: State, positions: Tensor) -> State:
        """Make room for more positions."""
        ...

    def growing_axes(self, state: State) -> State:
        """Return, for every tensor of a state, the axis that `grow` makes longer; -1: none."""
        ...

    def coverage(self, state: State) -> tuple[Tensor, Tensor]:
        """Return what a state that tracks it knows of the attention to the source.

        Returns:
            (float32 [B, k, S], the attention that each token has received; bool [B, 1, S], False
            for padding).
        """
        ...


class Model(Decoder, Protocol):
    """What everything else needs of a model, beside what every Keras model has."""

    name: str
    sizes: Sizes | RecurrentSizes
    weights: Sequence[Any]

    @property
    def attention_kinds(self) -> tuple[AttentionKind, ...]:
        """The kinds of attention it has, in the order in which they are shown."""
        ...

    def attention_layers(self, kind: str) -> Sequence[Any]:
        """Return the layers of one kind of attention, the first layer first.

        Each has ``num_heads``, and ``head_weights(number)``: (variable, index) of the weights that
        are to be zero for nothing of a head to come through, heads counted from 0.
        """
        ...

    def __call__(
        self,
        inputs: Mapping[str, Tensor],
        dropout_key: Tensor | None = None,
        return_attention: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Return logits float32 [B, T, V], or (logits, attention weights per kind and layer).

        Args:
            inputs: ``source`` int [B, S] and ``target`` int [B, T]; where rows hold several pairs
                also ``source_segments``, ``source_positions`` [B, S], ``target_segments`` and
                ``target_positions`` [B, T]. Without them, a row is one pair and id 0 is padding.
            dropout_key: see `nmt.model.dropout`; None: no dropout, unless Keras trains.
            return_attention: whether a dictionary is returned too: of each kind a list of weights
                float32 [B, H, rows, columns], one per layer.
            training: passed by Keras; where it is true and no key is given, one is drawn.
        """
        ...

    def embed_source(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return two tensors [B, S, D] for int [B, S]: what the encoder reads, and tokens alone."""
        ...

    def score_embedded(self, embedded: Tensor, target: Tensor, positions: Tensor) -> Tensor:
        """Return the logits float32 [B, V] of one position per row, without padding.

        Args:
            embedded: [B, S, D] from `embed_source`.
            target: int [B, T], shifted.
            positions: int [B], from 0 to T - 1.
        """
        ...

    def token_table(self) -> Any:
        """Return the vectors of tokens float32 [V, D]."""
        ...

    def position_table(self) -> Any:
        """Return the vectors of positions float32 [max_length, D]; None if it has no such table."""
        ...

    def distance_profiles(self, length: int) -> dict[str, Any]:
        """Return what the distance of two tokens does to their score, where it is known as that.

        Args:
            length: L, distances from 1 - L (the key stands ahead) to L - 1.

        Returns:
            By title, float32 [H or 1, 2 L - 1]; nothing where positions act otherwise.
        """
        ...

    def trained_weights(self) -> dict[str, Any]:
        """Return the weights that training changes, as `named_weights` does."""
        ...

    def add_adapters(self, rank: int, parts: Sequence[str] | None = None) -> None:
        """Train a product of two matrices of this rank beside those of ``parts``, and nothing else.

        Without parts, it is the model's to say: of a transformer those of values and feed-forward,
        where as many numbers were found to do more than in queries and keys (He et al. 2022,
        Towards a Unified View of Parameter-Efficient Transfer Learning), of a recurrent model all.

        Raises:
            ValueError: there is no such part.
        """
        ...

    def named_weights(self) -> dict[str, Any]:
        """Return every weight by its path inside the model, whatever the model is called."""
        ...

    def count_params(self) -> int:
        """Return the number of parameters."""
        ...

    def save(self, path: Any) -> None:
        """Write a ``.keras`` file."""
        ...
