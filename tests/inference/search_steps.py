"""Steps without a model, and searches over them in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from nmt.inference.beam_search import BeamSearch
from nmt.inference.contract import FREE, SearchParameters
from nmt.inference.greedy import Greedy
from nmt.inference.search import (
    IMPOSSIBLE,
    Algorithm,
    Constraints,
    HypothesisTensors,
    run,
)

Array = NDArray[Any]

PAD, BOS, EOS, A, B = range(5)
V = 5


def logarithms(probabilities: Array) -> Array:
    """Return logits; a probability of 0 becomes `IMPOSSIBLE`."""
    logits = np.full(probabilities.shape, IMPOSSIBLE, np.float32)
    logits[probabilities > 0] = np.log(probabilities[probabilities > 0])
    return logits


class Bigrams:
    """The next token depends on the last one: rows in the order pad, bos, eos, a, b.

    The table is the state, as JAX compiles one program for all tables of a shape.
    """

    def __init__(self, after_bos: Sequence[float], after_a: Any, after_b: Any) -> None:
        uniform = [0.0, 0.0, 1.0, 0.0, 0.0]
        rows = np.array([uniform, after_bos, uniform, after_a, after_b])
        np.testing.assert_allclose(rows.sum(-1), 1)
        self.table = logarithms(rows)

    @property
    def state(self) -> Any:
        return ops.convert_to_tensor(self.table[None])  # [B = 1, V, V]

    @staticmethod
    def step(tokens: Any, index: Any, state: Any) -> tuple[Any, Any]:
        return ops.take_along_axis(state, tokens[:, :, None], axis=1), state


class Past(NamedTuple):
    """The state of `Histories`."""

    hashes: Any  # int32 [B, k]
    table: Any  # float32 [B, SIZE, V]: the same for all


class Histories:
    """The next token depends on the sentence and all tokens before: the state is their hash.

    Were states not reordered with their prefixes, log-probabilities would not be those of the
    tokens.
    """

    SIZE = 997

    def __init__(self, seed: int, ending: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.table = (1.5 * rng.standard_normal((self.SIZE, V))).astype(np.float32)
        self.table[:, EOS] += ending
        self.table[:, PAD] = IMPOSSIBLE
        normalizer = np.log(np.exp(np.float64(self.table)).sum(-1, keepdims=True))
        self.log_table = np.float64(self.table) - normalizer

    @staticmethod
    def step(tokens: Any, index: Any, state: Past) -> tuple[Any, Past]:
        hashes = (state.hashes * 31 + tokens * 7 + 1) % Histories.SIZE
        logits = ops.take_along_axis(state.table, hashes[:, :, None], axis=1)
        return logits, state._replace(hashes=hashes)

    @staticmethod
    def reorder(state: Past, parents: Any) -> Past:
        return state._replace(hashes=ops.take_along_axis(state.hashes, parents, axis=1))

    def state(self, sentences: Sequence[int], hypotheses: int) -> Past:
        rows = np.repeat(np.array(sentences, np.int32)[:, None], hypotheses, axis=1)
        tables = np.repeat(self.table[None], len(sentences), axis=0)
        return Past(ops.convert_to_tensor(rows), ops.convert_to_tensor(tables))

    def next_log_probs(self, sentence: int, prefix: Sequence[int]) -> Array:
        for token in (BOS, *prefix):
            sentence = (sentence * 31 + token * 7 + 1) % self.SIZE
        return self.log_table[sentence]

    def log_prob(self, sentence: int, tokens: Sequence[int]) -> float:
        return sum(
            float(self.next_log_probs(sentence, tokens[:place])[token])
            for place, token in enumerate(tokens)
        )

    def everything(self, limit: int) -> Iterator[tuple[int, ...]]:
        """All sequences of up to ``limit`` tokens that end with EOS."""
        prefixes: list[tuple[int, ...]] = [()]
        for _ in range(limit):
            yield from ((*prefix, EOS) for prefix in prefixes)
            prefixes = [(*prefix, token) for prefix in prefixes for token in (BOS, A, B)]

    def beam(
        self, sentence: int, beam_size: int, alpha: float, limit: int, no_repeat_ngram: int = 0
    ) -> list[tuple[float, tuple[int, ...]]]:
        """A beam search in plain Python, which never stops early: (score, tokens), best first."""
        live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        ended = []
        for length in range(1, limit + 1):
            allowed = (EOS,) if length == limit else (BOS, EOS, A, B)
            candidates = sorted(
                (
                    (log_prob + self.next_log_probs(sentence, prefix)[token], (*prefix, token))
                    for log_prob, prefix in live
                    for token in allowed
                    if not ends_in_repeat((*prefix, token), no_repeat_ngram)
                ),
                reverse=True,
            )[: 2 * beam_size]
            ended += [
                (log_prob / penalty(length, alpha), tokens)
                for log_prob, tokens in candidates
                if tokens[-1] == EOS
            ]
            live = [entry for entry in candidates if entry[1][-1] != EOS][:beam_size]
        return sorted(ended, reverse=True)[:beam_size]


# What JAX compiles is of one shape: most searches are of these sentences, with this room for
# tokens and this width of prefixes.
SENTENCES = range(20)
ROOM = 12
FORCED = 3


def ends_in_repeat(tokens: Sequence[int], n: int) -> bool:
    """Whether the last n tokens occurred before; overlapping counts. 0: never."""
    *earlier, last = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)] or [()]
    return n > 0 and last in earlier


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def same(state: Any, parents: Any) -> Any:
    """Reorder a state that is the same for all hypotheses."""
    return state


def numpy(hypotheses: HypothesisTensors) -> HypothesisTensors:
    return HypothesisTensors(*(ops.convert_to_numpy(part) for part in hypotheses))


def make_constraints(
    limits: Sequence[int], prefix: Any = None, parameters: SearchParameters | None = None
) -> Constraints:
    """Limits, and prefixes [B, P] (none by default)."""
    prefixes = np.full((len(limits), FORCED), FREE) if prefix is None else np.array(prefix)
    parts = (ops.convert_to_tensor(np.asarray(part, np.int32)) for part in (limits, prefixes))
    return Constraints(*parts, parameters or SearchParameters())


def jitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on JAX, which otherwise compiles every operation; TensorFlow is quicker without."""
    if keras.config.backend() == "tensorflow":
        return function
    import jax

    return jax.jit(function)


@cache
def program(
    algorithm: Algorithm, max_length: int
) -> Callable[[Any, Constraints], HypothesisTensors]:
    """Return a search: on JAX compiled, once for all numbers and tables."""

    def searched(state: Any, constraints: Constraints) -> HypothesisTensors:
        return run(algorithm, state, constraints, max_length=max_length)

    return jitted(searched)


def run_greedy(
    steps: Any, state: Any, limits: Sequence[int], length: int = ROOM, **more: Any
) -> HypothesisTensors:
    prefix, n = more.pop("prefix", None), more.pop("no_repeat_ngram", 0)
    algorithm = Greedy(step=steps.step, bos=BOS, eos=EOS, uses_no_repeat_ngram=n > 0, **more)
    constraints = make_constraints(limits, prefix, SearchParameters(no_repeat_ngram=n))
    return numpy(program(algorithm, length)(state, constraints))


def run_beam(
    steps: Any,
    state: Any,
    limits: Sequence[int],
    *,
    beam_size: int,
    alpha: float = 0.0,
    reorder: Any = same,
    length: int = ROOM,
    n_best: int = 0,
    ended_size: int = 0,
    prefix: Any = None,
    no_repeat_ngram: int = 0,
    **more: Any,
) -> HypothesisTensors:
    algorithm = BeamSearch(
        step=steps.step,
        reorder=reorder,
        bos=BOS,
        eos=EOS,
        beam_size=beam_size,
        ended_size=ended_size or beam_size,
        uses_no_repeat_ngram=no_repeat_ngram > 0,
        **more,
    )
    parameters = SearchParameters(
        length_penalty=alpha, n_best=n_best or beam_size, no_repeat_ngram=no_repeat_ngram
    )
    constraints = make_constraints(limits, prefix, parameters)
    return numpy(program(algorithm, length)(state, constraints))


def sequences(hypotheses: HypothesisTensors, sentence: int = 0) -> list[list[int]]:
    """Return the tokens of each hypothesis, and check what follows them."""
    listed = []
    for row, length in zip(hypotheses.tokens[sentence], hypotheses.lengths[sentence], strict=True):
        assert (row[length:] == 0).all()
        listed.append(row[:length].tolist())
    return listed


# Greedy takes a (0.6), then the end (0.4): 0.24. It misses b and the end: 0.4 x 0.9 = 0.36.
TRAP = Bigrams(
    after_bos=[0, 0, 0, 0.6, 0.4],
    after_a=[0, 0, 0.4, 0.3, 0.3],
    after_b=[0, 0, 0.9, 0.05, 0.05],
)


# The end is always the least probable: 0.1.
TALKATIVE = Bigrams(
    after_bos=[0, 0, 0.1, 0.5, 0.4],
    after_a=[0, 0, 0.1, 0.5, 0.4],
    after_b=[0, 0, 0.1, 0.3, 0.6],
)
