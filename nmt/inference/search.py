"""Greedy and beam search over a ``step`` callable, in ``keras.ops`` and float32.

Search knows no model. It calls ``step(tokens, index, state)``: ``tokens`` int32 [N] stand at
position ``index`` (int32 scalar), and it gets the logits float32 [N, V] of what follows, and the
next state. ``N`` is the number of sentences times the number of live hypotheses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

Tensor = Any
State = Any
Step = Callable[[Tensor, Tensor, State], tuple[Tensor, State]]
Reorder = Callable[[State, Tensor], State]

IMPOSSIBLE = -1e9  # log-probability of what cannot be chosen; finite, so that sums stay ordered


class Hypotheses(NamedTuple):
    """The outputs of a search, best first; n per sentence."""

    tokens: Tensor  # int32 [B, n, T]: no begin mark; the end mark, then zeros
    lengths: Tensor  # int32 [B, n]: tokens, end mark included
    log_probs: Tensor  # float32 [B, n]: sum over the tokens, in nats
    scores: Tensor  # float32 [B, n]: log_probs / length_penalty(lengths)


def length_penalty(length: Tensor, alpha: float) -> Tensor:
    """((5 + length) / 6) ** alpha: Wu et al. 2016, equation 14. ``alpha`` 0 is no penalty."""
    return ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def _log_probabilities(logits: Tensor, index: Tensor, limits: Tensor, eos: int) -> Tensor:
    """Log-softmax [..., V]; where a sentence has reached its limit, only the end mark is left.

    ``limits`` broadcasts to the leading dimensions of ``logits``.
    """
    scores = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    last = ops.expand_dims(ops.greater_equal(index, limits - 1), -1)
    others = ops.not_equal(ops.arange(ops.shape(scores)[-1], dtype="int32"), eos)
    return ops.where(ops.logical_and(last, others), IMPOSSIBLE, scores)


def _lengths(tokens: Tensor, eos: int) -> Tensor:
    """Count the tokens up to the end mark, which every hypothesis has: [..., T] -> int32 [...]."""
    return ops.cast(ops.argmax(ops.equal(tokens, eos), axis=-1), "int32") + 1


def greedy(
    step: Step, state: State, limits: Tensor, *, bos: int, eos: int, max_length: int | Tensor
) -> Hypotheses:
    """Take the most probable token at every position.

    Args:
        step: see the module; N = B.
        state: the first state.
        limits: int32 [B], most tokens per sentence, end mark included; at least 1.
        bos: id of the begin mark.
        eos: id of the end mark.
        max_length: T, at least the largest of ``limits``.

    Returns:
        One hypothesis per sentence; its score is its log-probability.
    """
    batch = ops.shape(limits)[0]
    limits = ops.cast(limits, "int32")

    def unfinished(index: Tensor, done: Tensor, *_: Any) -> Tensor:
        return ops.logical_and(index < max_length, ops.logical_not(ops.all(done)))

    def extend(
        index: Tensor, done: Tensor, last: Tensor, tokens: Tensor, log_probs: Tensor, state: State
    ) -> tuple[Any, ...]:
        logits, state = step(last, index, state)
        scores = _log_probabilities(logits, index, limits, eos)  # [B, V]
        best = ops.cast(ops.argmax(scores, axis=-1), "int32")  # [B]
        gained = ops.max(scores, axis=-1)
        best = ops.where(done, 0, best)
        log_probs = log_probs + ops.where(done, 0.0, gained)
        tokens = ops.slice_update(tokens, (0, index), best[:, None])
        return index + 1, ops.logical_or(done, ops.equal(best, eos)), best, tokens, log_probs, state

    _, _, _, tokens, log_probs, _ = ops.while_loop(
        unfinished,
        extend,
        (
            ops.convert_to_tensor(0, "int32"),
            ops.zeros((batch,), "bool"),
            ops.full((batch,), bos, "int32"),
            ops.zeros((batch, max_length), "int32"),
            ops.zeros((batch,), "float32"),
            state,
        ),
    )
    tokens, log_probs = tokens[:, None], log_probs[:, None]
    return Hypotheses(tokens, _lengths(tokens, eos), log_probs, log_probs)


class _Beam(NamedTuple):
    """What a beam search carries; ``k`` is the beam size."""

    index: Tensor  # int32 scalar, tokens chosen so far
    live_tokens: Tensor  # int32 [B, k, T]
    live_log_probs: Tensor  # float32 [B, k], descending
    ended_tokens: Tensor  # int32 [B, k, T]
    ended_log_probs: Tensor  # float32 [B, k]
    ended_scores: Tensor  # float32 [B, k], descending; IMPOSSIBLE where there is none yet
    state: State


def beam_search(
    step: Step,
    state: State,
    reorder: Reorder,
    limits: Tensor,
    *,
    bos: int,
    eos: int,
    beam_size: int,
    alpha: float,
    max_length: int | Tensor,
) -> Hypotheses:
    """Keep the ``beam_size`` best prefixes, and apart from them the best ended hypotheses.

    A sentence is finished when no live prefix can still beat the worst ended hypothesis, so
    stopping early never changes the result.

    Args:
        step: see the module; N = B * beam_size, the hypotheses of a sentence side by side.
        state: the first state, for N hypotheses.
        reorder: ``reorder(state, parents)`` selects hypotheses: ``parents`` int32 [N] are indices
            into the N old ones, each within its own sentence.
        limits: int32 [B], most tokens per sentence, end mark included; at least 1.
        bos: id of the begin mark.
        eos: id of the end mark.
        beam_size: k.
        alpha: exponent of `length_penalty`, at least 0.
        max_length: T, at least the largest of ``limits``.

    Returns:
        k hypotheses per sentence; scores of `IMPOSSIBLE` mark that there are fewer.
    """
    k = beam_size
    batch = ops.shape(limits)[0]
    limits = ops.cast(limits, "int32")
    sentence = ops.expand_dims(ops.arange(batch, dtype="int32") * k, 1)  # [B, 1]

    def unfinished(*fields: Any) -> Tensor:
        beam = _Beam(*fields)
        attainable = beam.live_log_probs[:, 0] / length_penalty(limits, alpha)  # [B]
        hopeful = ops.logical_and(attainable > beam.ended_scores[:, -1], beam.index < limits)
        return ops.logical_and(beam.index < max_length, ops.any(hopeful))

    def extend(*fields: Any) -> tuple[Any, ...]:
        beam = _Beam(*fields)
        previous = ops.maximum(beam.index - 1, 0)
        last = ops.take(beam.live_tokens, previous, axis=2)  # [B, k]
        last = ops.where(ops.equal(beam.index, 0), bos, last)
        logits, state = step(ops.reshape(last, (-1,)), beam.index, beam.state)
        vocabulary = logits.shape[-1]
        scores = _log_probabilities(
            ops.reshape(logits, (-1, k, vocabulary)), beam.index, limits[:, None], eos
        )
        total = ops.expand_dims(beam.live_log_probs, -1) + scores  # [B, k, V]
        # Of 2k candidates at most k end (one per prefix), so k prefixes always stay alive.
        log_probs, flat = ops.top_k(ops.reshape(total, (-1, k * vocabulary)), 2 * k)  # [B, 2k]
        flat = ops.cast(flat, "int32")
        parent, token = flat // vocabulary, flat % vocabulary
        tokens = ops.take_along_axis(beam.live_tokens, parent[:, :, None], axis=1)  # [B, 2k, T]
        tokens = ops.slice_update(tokens, (0, 0, beam.index), token[:, :, None])
        ends = ops.equal(token, eos)

        live_log_probs, chosen = ops.top_k(ops.where(ends, IMPOSSIBLE, log_probs), k)
        chosen = ops.cast(chosen, "int32")
        live_tokens = ops.take_along_axis(tokens, chosen[:, :, None], axis=1)
        parents = sentence + ops.take_along_axis(parent, chosen, axis=1)  # [B, k]

        # A limited sentence has one ending per prefix; the impossible ones must not count.
        possible = ops.logical_and(ends, log_probs > IMPOSSIBLE / 2)
        ended = log_probs / length_penalty(beam.index + 1, alpha)
        pool_scores = ops.concatenate(
            [beam.ended_scores, ops.where(possible, ended, IMPOSSIBLE)], axis=1
        )  # [B, 3k]
        ended_scores, kept = ops.top_k(pool_scores, k)
        kept = ops.cast(kept, "int32")
        pool_tokens = ops.concatenate([beam.ended_tokens, tokens], axis=1)
        pool_log_probs = ops.concatenate([beam.ended_log_probs, log_probs], axis=1)
        return tuple(
            _Beam(
                index=beam.index + 1,
                live_tokens=live_tokens,
                live_log_probs=live_log_probs,
                ended_tokens=ops.take_along_axis(pool_tokens, kept[:, :, None], axis=1),
                ended_log_probs=ops.take_along_axis(pool_log_probs, kept, axis=1),
                ended_scores=ended_scores,
                state=reorder(state, ops.reshape(parents, (-1,))),
            )
        )

    first = _Beam(
        index=ops.convert_to_tensor(0, "int32"),
        live_tokens=ops.zeros((batch, k, max_length), "int32"),
        # At first all prefixes are the same empty one: only one of them may be extended.
        live_log_probs=ops.where(ops.arange(k) > 0, IMPOSSIBLE, ops.zeros((batch, k), "float32")),
        ended_tokens=ops.zeros((batch, k, max_length), "int32"),
        ended_log_probs=ops.full((batch, k), IMPOSSIBLE, "float32"),
        ended_scores=ops.full((batch, k), IMPOSSIBLE, "float32"),
        state=state,
    )
    beam = _Beam(*ops.while_loop(unfinished, extend, tuple(first)))
    return Hypotheses(
        beam.ended_tokens,
        _lengths(beam.ended_tokens, eos),
        beam.ended_log_probs,
        beam.ended_scores,
    )
