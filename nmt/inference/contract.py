"""Requests, the options they resolve to, hypotheses, and the protocol of engines. No Keras."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nmt.config import DecodingConfig
from nmt.config.decoding import MAX_LENGTH_PENALTY
from nmt.data.tokenizer import BOS, PAD
from nmt.errors import UserError
from nmt.text.terms import Glossary

if TYPE_CHECKING:
    import numpy as np

    from nmt.inference.keras_engine import KerasEngine

Tensor = Any

SUPPRESSED = (PAD, BOS)  # ids that no output contains
SEEDS = 2**32  # of samples: as many as checksums, which make their random keys
FREE = -1  # in a prefix: any token may follow


class SearchParameters(NamedTuple):
    """Scalar inputs of a compiled search: changing them compiles nothing.

    Integers (int32) come first, as `compile_with_weights` takes them.
    """

    n_best: Tensor | int = 1  # hypotheses needed per sentence: decides when to stop
    # n: no sequence of n tokens occurs twice in an output; read if `uses_no_repeat_ngram`.
    no_repeat_ngram: Tensor | int = 0
    length_penalty: Tensor | float = 0.0  # alpha of `length_penalty`, at least 0
    coverage_penalty: Tensor | float = 0.0  # beta of `coverage_penalty`, at least 0
    temperature: Tensor | float = 1.0  # logits are divided by it before sampling; above 0
    # Sample from the fewest tokens that together have this probability (Holtzman et al. 2020).
    top_p: Tensor | float = 1.0


class StaticOptions(NamedTuple):
    """Options that select a compiled search program; each combination is compiled once."""

    hypotheses: int  # k, per sentence
    keeps_n_best: bool = False  # whether more than the best is returned, however many
    tracks_coverage: bool = False  # whether the attention each source token receives is summed
    is_sampling: bool = False
    top_k: int = 0
    uses_top_p: bool = False
    uses_no_repeat_ngram: bool = False  # whether `SearchParameters.no_repeat_ngram` is applied


class BeamOptions(NamedTuple):
    """Options of a greedy or beam search, without defaults left open."""

    beam_size: int  # k; 1 is greedy
    length_penalty: float  # alpha of Wu et al. 2016, equation 14
    coverage_penalty: float = 0.0  # beta of the same equation
    n_best: int = 1  # hypotheses returned per sentence, at most `beam_size`
    no_repeat_ngram: int = 0  # n: no sequence of n tokens occurs twice in an output; 0: off
    avoids_loops: bool = False  # see `nmt.inference.repeating`; engines do not read it

    @property
    def static_options(self) -> StaticOptions:
        """Options that select the compiled program."""
        return StaticOptions(
            self.beam_size,
            keeps_n_best=self.n_best > 1,
            tracks_coverage=self.coverage_penalty > 0,
            uses_no_repeat_ngram=self.no_repeat_ngram > 0,
        )

    @property
    def parameters(self) -> SearchParameters:
        """Inputs of the compiled program."""
        return SearchParameters(
            self.n_best, self.no_repeat_ngram, self.length_penalty, self.coverage_penalty
        )


class SamplingOptions(NamedTuple):
    """Options of sampling: see `nmt.inference.greedy.Sample`."""

    samples: int  # per sentence
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    @property
    def n_best(self) -> int:
        """Number of hypotheses returned per sentence: all samples."""
        return self.samples

    @property
    def static_options(self) -> StaticOptions:
        """Options that select the compiled program."""
        return StaticOptions(
            self.samples, is_sampling=True, top_k=self.top_k, uses_top_p=self.top_p < 1
        )

    @property
    def parameters(self) -> SearchParameters:
        """Inputs of the compiled program."""
        return SearchParameters(temperature=self.temperature, top_p=self.top_p)


@dataclass(frozen=True)
class SearchRequest:
    """A user's request for a search: see `nmt.inference.translator.Translator.hypotheses`."""

    beam_size: int | None = None  # 1 is greedy; None: the run's, or `n_best` if that is larger
    length_penalty: float | None = None  # None: the run's default
    coverage_penalty: float = 0.0
    n_best: int = 1
    prefix: str = ""
    # None: the run's default; if that is 0, outputs that loop are searched again.
    no_repeat_ngram: int | None = None
    quality: bool = False  # whether translations get `confidence` and `words`
    words: bool = False  # whether they get `words` at least, which costs less than confidence
    glossary: Glossary | None = None  # terms that translations use, and report as `terms`
    # Whether terms are used at any cost; otherwise only where the translation stays probable.
    forces_terms: bool = True

    def resolve_defaults(self, decoding: DecodingConfig) -> tuple[int, float]:
        """Return beam size and length penalty, where unset those of ``decoding``.

        A default beam is widened to hold ``n_best`` hypotheses.
        """
        beam_size = self.beam_size
        if beam_size is None:
            beam_size = max(decoding.beam_size, self.n_best)
        alpha = decoding.length_penalty if self.length_penalty is None else self.length_penalty
        return beam_size, alpha

    def resolve(self, decoding: DecodingConfig, vocabulary_size: int) -> BeamOptions:
        """Return the options of the search, defaults filled in from ``decoding``.

        Raises:
            UserError: ``n_best`` is 0 or larger than the requested beam, the beam is 0 or larger
                than the vocabulary, a penalty is out of its range, a coverage penalty has no beam,
                or ``no_repeat_ngram`` is negative.
        """
        beam_size, alpha = self.resolve_defaults(decoding)
        if self.n_best < 1:
            raise UserError(f"n_best must be at least 1, got {self.n_best}")
        if beam_size < 1:
            raise UserError(f"beam_size must be at least 1, got {beam_size}")
        if self.n_best > beam_size:
            raise UserError(
                f"{self.n_best} translations need a beam of {self.n_best} or more, got {beam_size}"
            )
        if beam_size > vocabulary_size:
            raise UserError(
                f"beam_size must be at most {vocabulary_size:,}, the size of the vocabulary, "
                f"got {beam_size:,}"
            )
        if not 0 <= alpha <= MAX_LENGTH_PENALTY:
            raise UserError(
                f"length_penalty must be between 0 and {MAX_LENGTH_PENALTY}, got {alpha}"
            )
        if not 0 <= self.coverage_penalty < math.inf:
            raise UserError(
                f"coverage_penalty must be finite and at least 0, got {self.coverage_penalty}"
            )
        if self.coverage_penalty and beam_size == 1:
            raise UserError(
                f"coverage_penalty={self.coverage_penalty} needs a beam_size of 2 or more, got 1"
            )
        ngram = decoding.no_repeat_ngram if self.no_repeat_ngram is None else self.no_repeat_ngram
        if ngram < 0:
            raise UserError(f"no_repeat_ngram must be at least 0, got {ngram}")
        return BeamOptions(
            beam_size,
            alpha,
            self.coverage_penalty,
            self.n_best,
            ngram,
            avoids_loops=self.no_repeat_ngram is None and not ngram,
        )


@dataclass(frozen=True)
class SamplingRequest:
    """A user's request for samples: see `nmt.inference.translator.Translator.samples`."""

    samples: int  # per text
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    prefix: str = ""
    rank_by_agreement: bool = False  # see `Translator.minimum_bayes_risk`

    def resolve(self, decoding: DecodingConfig, vocabulary_size: int) -> SamplingOptions:
        """Return the options of sampling; a run has no defaults for them.

        Raises:
            UserError: an option is out of its range.
        """
        if self.samples < 1:
            raise UserError(f"samples must be at least 1, got {self.samples}")
        if not 0 < self.temperature < math.inf:
            raise UserError(f"temperature must be finite and above 0, got {self.temperature}")
        if self.top_k < 0:
            raise UserError(f"top_k must be at least 0, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if not 0 <= self.seed < SEEDS:
            raise UserError(f"seed must be at least 0 and below 2^32, got {self.seed}")
        return SamplingOptions(self.samples, self.temperature, self.top_k, self.top_p, self.seed)


def split_prefix(prefix: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the prefix of each of ``count`` outputs, int32 [at most P]: see `Engine.search`."""
    rows = [prefix] * count if prefix.ndim == 1 else prefix
    return [row[row != FREE] for row in rows]


class Hypothesis(NamedTuple):
    """One output of a search, as ids."""

    tokens: tuple[int, ...]  # EOS included
    log_prob: float  # sum over all tokens, EOS included, in nats
    score: float  # hypotheses are ranked by it


class Engine(Protocol):
    """Turns source ids into target ids.

    Attributes:
        max_length: positions, EOS included, of source and target.
        workers: threads; each searches one batch at a time.
    """

    max_length: int
    workers: int

    @property
    def can_align(self) -> bool:
        """Whether the model has attention, which an ensemble lacks: see `align`."""
        ...

    @property
    def keras_engine(self) -> KerasEngine | None:
        """The engine itself if it runs the Keras model, otherwise None."""
        ...

    def supports(self, options: BeamOptions | SamplingOptions) -> bool:
        """Whether `search` can follow these options."""
        ...

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions | SamplingOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        """Search for, or sample, the outputs of a batch.

        Args:
            sources: ids without EOS, at least one sentence, of similar length.
            limits: int32 [B], most tokens of each output, EOS included.
            options: options that the engine `supports`.
            prefix: int32 [P], ids that every output begins with (may be empty); or [B, P], one
                row per output, padded with `FREE`.

        Returns:
            Up to ``options.n_best`` hypotheses per sentence, best first.
        """
        ...

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return the log-probability in nats of every target token, EOS's last.

        Args:
            sources: ids without EOS, of similar length.
            targets: ids without EOS, T - 1 of them, one per source.

        Returns:
            float32 [T] per pair.
        """
        ...

    def align(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return how much every target token is aligned to each source token.

        Args:
            sources: ids without EOS, S - 1 of them, of similar length.
            targets: ids without EOS, T - 1 of them, one per source.

        Returns:
            float32 [T, S] per pair, EOS last; rows sum to 1.

        Raises:
            UserError: the engine cannot align.
        """
        ...
