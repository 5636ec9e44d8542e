"""The costs of a model in closed form: parameters, arithmetic, memory.

Importing this loads no Keras: `costs` of a sizes object needs no model. The dimensions in formulas
are those of `nmt.model`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

PRECISIONS = {"float32": 4, "bfloat16": 2}  # bytes of a number in compute dtype
FULL = 4  # bytes of a float32: norms, softmax and loss use it whatever the precision
TRAINING = 3  # forward and backward relative to forward: backward has two products for each one


@dataclass(frozen=True)
class Part:
    """The parameters of one part of a model."""

    name: str
    formula: str
    parameters: int

    @classmethod
    def evaluate(cls, name: str, formula: str, dimensions: dict[str, int]) -> Part:
        """Return a part with the number of parameters that its formula gives."""
        expression = formula.replace("·", "*").replace("²", "**2").replace("−", "-")
        return cls(name, formula, int(eval(expression, {"__builtins__": {}}, dimensions)))


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of one token's forward pass: 2 per multiplication and addition.

    They exclude look-ups, biases, norms, activations and softmax, which together are of the order
    of 1 / D of the rest.
    """

    source_matrices: int  # for a source token: the encoder, the decoder's keys and values of it
    target_matrices: int  # for a target token: the rest of the decoder, the output table
    source_products: int  # of queries with keys, and of weights with values
    target_products: int

    @property
    def source(self) -> int:
        """All operations of a source token."""
        return self.source_matrices + self.source_products

    @property
    def target(self) -> int:
        """All operations of a target token."""
        return self.target_matrices + self.target_products


class StateBytes(NamedTuple):
    """The memory of decoding, in bytes."""

    hypothesis: int  # for each hypothesis
    target: int  # for each token of each hypothesis
    source: int  # for each source token, once for all hypotheses of its sentence


class BatchShape(NamedTuple):
    """The shape of a training batch, on each side."""

    rows: int
    length: int
    precision: str  # key of `PRECISIONS`

    @property
    def positions(self) -> int:
        """N."""
        return self.rows * self.length

    @property
    def bytes_each(self) -> int:
        """Bytes of a number in compute dtype."""
        return PRECISIONS[self.precision]

    def vector_bytes(self, width: int) -> int:
        """Return the bytes of [N, width]."""
        return self.positions * width * self.bytes_each


class Costs(Protocol):
    """The costs of one model, from its sizes only."""

    labels: tuple[tuple[str, str], ...]  # (layer name in weight paths, name of the part)

    def describe(self) -> str:
        """Return the dimensions in the formulas as text."""

    def list_parts(self) -> list[Part]:
        """Return the parameters by part; they sum to those of the model."""

    def count_flops(self, *, source_length: int, target_length: int) -> Flops:
        """Count the arithmetic of a source and a target token (Kaplan et al. 2020, section 2.1).

        Matrices cost 2 per weight. Training computes the products of all T target positions, masked
        ones included; decoding with a cache attends to half of them on average.

        Args:
            source_length: S, positions that each source and each target token attends to.
            target_length: T, positions of the target that each target token attends to.
        """

    def estimate_activations(self, batch: BatchShape) -> dict[str, int]:
        """Estimate the bytes stored for the backward pass of one batch, by part."""

    def count_state(self, precision: str = "float32") -> StateBytes:
        """Count the memory of decoding."""


def count_training_flops_per_token(costs: Costs) -> float:
    """Return operations per real token in training all weights, averaged over both sides.

    As is usual, they exclude the products of attention, which depend on sentence lengths, and what
    ``remat`` computes a second time.
    """
    flops = costs.count_flops(source_length=0, target_length=0)
    return TRAINING * (flops.source + flops.target) / 2
