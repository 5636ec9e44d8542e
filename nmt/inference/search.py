"""Parts that all search algorithms share: constraints, results, and the best next tokens.

No algorithm knows a model. It calls ``step(tokens, index, state)`` with ``tokens`` int32 [B, k],
the tokens at position ``index`` (int32 scalar), one for each of the k hypotheses of a sentence. The
step returns the logits float32 [B, k, V] of the next tokens, and the next state. The first axis of
every tensor in a state is the batch.

A search runs in one go (`run`) or a few positions at a time: between two calls of `advance`,
finished sentences can be taken out of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from keras import ops

from nmt.inference.contract import FREE, SearchParameters

Tensor = Any
State = Any
StepFunction = Callable[[Tensor, Tensor, State], tuple[Tensor, State]]

IMPOSSIBLE = -1e9  # log-probability of forbidden tokens; finite, so that sums stay ordered

_GROUP = 32  # neighbours whose largest is found first, on axes of at least `_LONG`: see `top_k`
_LONG = 1024


class Constraints(NamedTuple):
    """Limits and prefixes of each sentence's output, and the parameters of the search."""

    limits: Tensor  # int32 [B]: most tokens, EOS included; at least 1
    prefix: Tensor  # int32 [B, P]: ids that the output begins with, then `FREE`; P at least 1
    parameters: SearchParameters = SearchParameters()


class HypothesisTensors(NamedTuple):
    """The outputs of a search, n per sentence, best first."""

    tokens: Tensor  # int32 [B, n, T]: without BOS; with EOS, then zeros
    lengths: Tensor  # int32 [B, n]: tokens, EOS included
    log_probs: Tensor  # float32 [B, n]: sum over the tokens, in nats
    scores: Tensor  # float32 [B, n]: hypotheses are ranked by it; `IMPOSSIBLE`: fewer than n exist


class Algorithm(Protocol):
    """A search algorithm.

    Its progress is a NamedTuple with a scalar ``index``; the first axis of all else is the batch.
    """

    def begin(self, state: State, batch_size: int | Tensor, max_length: int | Tensor) -> Any:
        """Return the progress before the first token, with room for ``max_length`` T tokens."""
        ...

    def unfinished(self, progress: Any, constraints: Constraints) -> Tensor:
        """Return bool [B]: whether another position could change a sentence's result."""
        ...

    def advance(self, progress: Any, constraints: Constraints, until: Tensor) -> Any:
        """Search up to position ``until``, or until all sentences are finished."""
        ...

    def result(self, progress: Any) -> HypothesisTensors:
        """Return the hypotheses."""
        ...


def run(
    algorithm: Algorithm, state: State, constraints: Constraints, *, max_length: int | Tensor
) -> HypothesisTensors:
    """Return the result of a whole search; ``max_length`` T is at least the largest limit."""
    progress = algorithm.begin(state, ops.shape(constraints.limits)[0], max_length)
    return algorithm.result(algorithm.advance(progress, constraints, max_length))


def is_possible(log_prob: Any) -> Any:
    """Return whether log-probabilities or scores belong to hypotheses that exist."""
    return log_prob > IMPOSSIBLE / 2


def forced_tokens(constraints: Constraints, index: Tensor, eos: int) -> Tensor:
    """Return int32 [B]: the one id allowed at ``index``, or `FREE`."""
    length = ops.shape(constraints.prefix)[1]
    inside = ops.take(constraints.prefix, ops.minimum(index, length - 1), axis=1)
    prefix = ops.where(index < length, inside, FREE)
    return ops.where(ops.greater_equal(index, constraints.limits - 1), eos, prefix)


def top_k(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest values of the last axis, best first, and their indices.

    On a long axis, only the c groups of neighbours with the largest members are searched: every
    kernel for the whole axis takes several times as long as these two steps. With c groups or
    fewer, the kernel searches the whole axis.

    Args:
        values: float [..., V], V known, at least c of them finite.
        count: c, at most V.

    Returns:
        (float [..., c], int32 [..., c]).
    """
    length = values.shape[-1]
    if length < _LONG or count * _GROUP >= length:
        best, indices = ops.top_k(values, count)
        return best, ops.cast(indices, "int32")
    lead = ops.shape(values)[:-1]
    flat = ops.reshape(values, (-1, length))
    if length % _GROUP:
        flat = ops.pad(flat, ((0, 0), (0, -length % _GROUP)), constant_values=-math.inf)
    groups = ops.reshape(flat, (-1, flat.shape[-1] // _GROUP, _GROUP))
    first = ops.expand_dims(ops.arange(ops.shape(groups)[0], dtype="int32"), -1)
    _, chosen = ops.top_k(ops.max(groups, axis=-1), count)  # [rows, c]
    chosen = ops.cast(chosen, "int32")
    members = ops.take(
        ops.reshape(groups, (-1, _GROUP)), chosen + first * groups.shape[1], axis=0
    )  # [rows, c, _GROUP]
    best, indices = ops.top_k(ops.reshape(members, (-1, count * _GROUP)), count)
    indices = ops.cast(indices, "int32")
    group = ops.take(ops.reshape(chosen, (-1,)), indices // _GROUP + first * count, axis=0)
    indices = group * _GROUP + indices % _GROUP
    return ops.reshape(best, (*lead, count)), ops.reshape(indices, (*lead, count))


def repeating_tokens(tokens: Tensor, index: Tensor, n: Tensor, vocabulary_size: int) -> Tensor:
    """Return bool [B, k, V]: which next tokens would complete an n-gram that occurred before.

    Args:
        tokens: int32 [B, k, T]; those after the first ``index`` are ignored.
        index: int32 scalar, tokens so far.
        n: int32 scalar, at least 1.
        vocabulary_size: V.
    """
    length = ops.shape(tokens)[2]
    ends = ops.arange(length, dtype="int32")  # where an n-gram ends

    def compare(back: Tensor, matches: Tensor) -> Tensor:
        """Compare the tokens at ``back`` + 1 before every end and before ``index``."""
        before = ops.take(tokens, ops.maximum(ends - 1 - back, 0), axis=2)
        last = ops.take(tokens, ops.maximum(index - 1 - back, 0), axis=2)[..., None]
        return ops.logical_and(matches, ops.logical_and(before == last, ends > back))

    inside = ops.broadcast_to(ends < index, ops.shape(tokens))
    matches = ops.fori_loop(0, n - 1, compare, inside)
    rows = ops.shape(tokens)[0] * ops.shape(tokens)[1]
    row = ops.broadcast_to(ops.arange(rows, dtype="int32")[:, None], (rows, length))
    indices = ops.stack([row, ops.reshape(tokens, (rows, length))], axis=-1)
    occurrences = ops.scatter(
        ops.reshape(indices, (-1, 2)),
        ops.reshape(ops.cast(matches, "float32"), (-1,)),
        (rows, vocabulary_size),
    )
    return ops.reshape(occurrences > 0, (*ops.shape(tokens)[:2], vocabulary_size))


def best_continuations(
    logits: Tensor,
    forced: Tensor,
    count: int,
    suppressed: tuple[int, ...],
    repeating: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the best next tokens of every hypothesis, without a log-softmax over all tokens.

    Args:
        logits: float32 [B, k, V].
        forced: int32 [B], from `forced_tokens`.
        count: c, allowed tokens to return.
        suppressed: ids that are forbidden.
        repeating: bool [B, k, V], tokens that are forbidden too; None: no others.

    Returns:
        (log-probabilities float32 [B, k, c'], `IMPOSSIBLE` for forbidden tokens; their ids int32),
        where c' = c + len(suppressed), but at most V.
    """
    count = min(count + len(suppressed), logits.shape[-1])
    if repeating is None:
        best, tokens = top_k(logits, count)
        largest, probable = best[..., :1], tokens[..., :1]
    else:
        best, tokens = top_k(ops.where(repeating, IMPOSSIBLE, logits), count)
        largest, probable = top_k(logits, 1)
    # Softmax is one kernel, where a logarithm of sums is three passes over the logits.
    probability = ops.take_along_axis(ops.softmax(logits, axis=-1), probable, axis=-1)
    normalizer = largest - ops.log(probability)
    log_probs = best - normalizer
    for token in suppressed:
        log_probs = ops.where(ops.equal(tokens, token), IMPOSSIBLE, log_probs)
    is_forced = ops.greater_equal(forced, 0)[:, None, None]
    token = ops.maximum(forced, 0)[:, None, None]
    token_log_prob = log_prob(logits, normalizer, ops.broadcast_to(token, ops.shape(best[..., :1])))
    is_first = ops.equal(ops.arange(count, dtype="int32"), 0)
    return (
        ops.where(is_forced, ops.where(is_first, token_log_prob[..., None], IMPOSSIBLE), log_probs),
        ops.where(is_forced, token, tokens),
    )


def log_prob(logits: Tensor, normalizer: Tensor, tokens: Tensor) -> Tensor:
    """Return the log-probability [B, k] of ``tokens`` [B, k, 1] under logits [B, k, V]."""
    return (ops.take_along_axis(logits, tokens, axis=-1) - normalizer)[..., 0]


def output_lengths(tokens: Tensor, eos: int) -> Tensor:
    """Count tokens up to EOS, which every hypothesis has: [..., T] -> int32 [...]."""
    return ops.cast(ops.argmax(ops.equal(tokens, eos), axis=-1), "int32") + 1
