"""What is asked of a search, what it finds, and what searches. Importing this loads no Keras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nmt.data.tokenizer import BOS, PAD

if TYPE_CHECKING:
    import numpy as np

Tensor = Any

NEVER = (PAD, BOS)  # ids that no output holds


@dataclass(frozen=True)
class Search:
    """How a user wants to search: see `nmt.inference.translator.Translator.hypotheses`."""

    beam_size: int | None = None  # 1 is greedy; None: the run's default
    length_penalty: float | None = None  # None: the run's default
    coverage_penalty: float = 0.0
    n_best: int = 1
    prefix: str = ""


@dataclass(frozen=True)
class Draw:
    """How a user wants to sample: see `nmt.inference.translator.Translator.samples`."""

    count: int  # per text
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    prefix: str = ""
    agreeing: bool = False  # whether those that agree with the others come first


class Numbers(NamedTuple):
    """The numbers of a search, scalars: inputs of a compiled search, not part of what it is."""

    length_penalty: Tensor | float = 0.0  # alpha of `length_penalty`, at least 0
    coverage_penalty: Tensor | float = 0.0  # beta of `coverage_penalty`, at least 0
    n_best: Tensor | int = 1  # hypotheses wanted per sentence: when to stop; int32
    temperature: Tensor | float = 1.0  # logits are divided by it before a draw; above 0
    # Draw from the fewest tokens that together have this probability (Holtzman et al. 2020).
    top_p: Tensor | float = 1.0


class Kind(NamedTuple):
    """What makes one compiled search another: all but its numbers."""

    hypotheses: int  # k, per sentence
    listed: bool = False  # whether more than the best is wanted: any number of them
    covered: bool = False  # whether attention received is summed up
    sampled: bool = False
    top_k: int = 0
    nucleus: bool = False


class Beam(NamedTuple):
    """How to search."""

    size: int  # k; 1 is greedy
    length_penalty: float  # alpha of Wu et al. 2016, equation 14
    coverage_penalty: float = 0.0  # beta of the same
    n_best: int = 1  # hypotheses wanted per sentence, at most `size`

    @property
    def kind(self) -> Kind:
        """What is compiled for it."""
        wide = self.size > 1
        return Kind(
            self.size, listed=wide and self.n_best > 1, covered=wide and self.coverage_penalty > 0
        )

    @property
    def numbers(self) -> Numbers:
        """What the compiled search is given."""
        return Numbers(self.length_penalty, self.coverage_penalty, self.n_best)


class Sampling(NamedTuple):
    """How to draw: see `nmt.inference.search.Sample`."""

    samples: int  # per sentence
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    @property
    def n_best(self) -> int:
        """All samples are wanted."""
        return self.samples

    @property
    def kind(self) -> Kind:
        """What is compiled for it."""
        return Kind(self.samples, sampled=True, top_k=self.top_k, nucleus=self.top_p < 1)

    @property
    def numbers(self) -> Numbers:
        """What the compiled search is given."""
        return Numbers(temperature=self.temperature, top_p=self.top_p)


class Hypothesis(NamedTuple):
    """One hypothesis in ids."""

    tokens: tuple[int, ...]  # end mark included
    log_prob: float  # of all tokens, end mark included, in nats
    score: float  # what hypotheses are ranked by


class Engine(Protocol):
    """What turns source ids into target ids.

    Attributes:
        max_length: positions, end mark included, of source and target.
        parallel: batches that are searched at the same time, from as many threads.
        own: whether it is the model itself, a `nmt.inference.engine.KerasEngine`.
    """

    max_length: int
    parallel: int
    own: bool

    def can(self, beam: Beam) -> bool:
        """Whether `search` gives what is asked."""
        ...

    def search(
        self, sources: Sequence[np.ndarray], limits: np.ndarray, beam: Beam, prefix: np.ndarray
    ) -> list[list[Hypothesis]]:
        """Search for the best outputs of a batch.

        Args:
            sources: ids without end mark, at least one sentence, of similar length.
            limits: int32 [B], most tokens of each output, end mark included.
            beam: how to search.
            prefix: int32 [P], ids that every output begins with; may be empty.

        Returns:
            Up to `beam.n_best` hypotheses per sentence, best first.
        """
        ...

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return the log-probability in nats of every target token, the end mark's last.

        Args:
            sources: ids without end mark, of similar length.
            targets: ids without end mark, T - 1 of them, one per source.

        Returns:
            float32 [T] per pair.
        """
        ...
