"""What a model costs, by closed form: parameters, arithmetic, memory.

Importing this loads no Keras.

Every object of sizes has its `Costs`. Dimensions in formulas: `D` model width, `H` heads, `K` width
of a head, `G` heads of keys and values, `F` feed-forward width, `R` width of a recurrent state, `V`
vocabulary, `P` positions (max_length), `E` and `C` encoder and decoder layers, `S` and `T` source
and target length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

PRECISIONS = {"float32": 4, "bfloat16": 2}  # bytes of a number, where it is not always a float32
FULL = 4  # bytes of a float32: norms, softmax and loss have it whatever the precision
TRAINING = 3  # forward and backward against forward: a backward pass has two products for each one


@dataclass(frozen=True)
class Part:
    """One line of the account of a model's parameters."""

    name: str
    formula: str
    parameters: int


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


class StateBytes(NamedTuple):
    """What decoding keeps in memory, in bytes."""

    hypothesis: int  # once for each hypothesis
    target: int  # for each token of each hypothesis
    source: int  # for each source token, once for all hypotheses of its sentence


class Batch(NamedTuple):
    """The rows that a training step reads, on each side."""

    rows: int
    length: int
    precision: str  # key of `PRECISIONS`

    @property
    def positions(self) -> int:
        """N."""
        return self.rows * self.length

    @property
    def bytes_each(self) -> int:
        """Of a number, where it is not always a float32."""
        return PRECISIONS[self.precision]

    def count_vectors(self, width: int) -> int:
        """Return the bytes of [N, width]."""
        return self.positions * width * self.bytes_each


class Costs(Protocol):
    """The account of one model, from its sizes alone."""

    labels: tuple[tuple[str, str], ...]  # (folder in the names of weights, part it belongs to)

    def describe(self) -> str:
        """Return the sizes that the closed forms are made of."""
        ...

    def list_parts(self) -> list[Part]:
        """Return the parameters by part; they sum to those of the model."""
        ...

    def count_flops(self, *, source_length: int, target_length: int) -> Flops:
        """Count the arithmetic of a source and a target token (Kaplan et al. 2020, section 2.1).

        Matrices cost 2 per weight. A row of T target positions is worked out whole in training,
        masked ones included; one at a time, with keys and values kept, a token attends to half of
        them on average.

        Args:
            source_length: S, positions that each source and each target token attends to.
            target_length: T, positions of the target that each target token attends to.
        """
        ...

    def estimate_activations(self, batch: Batch) -> dict[str, int]:
        """Estimate the bytes kept for the backward pass of one batch, by part."""
        ...

    def count_state(self, precision: str = "float32") -> StateBytes:
        """Count what decoding keeps."""
        ...


def count_training_flops_per_token(costs: Costs) -> float:
    """Return operations per real token in training, averaged over both sides.

    The products of attention, which depend on the sentence lengths, are left out, as is usual.
    """
    flops = costs.count_flops(source_length=0, target_length=0)
    return TRAINING * (flops.source + flops.target) / 2
