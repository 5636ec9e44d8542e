"""Beam search: prefixes that compete with each other, with length and coverage penalties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from keras import ops

from nmt.inference.search import (
    IMPOSSIBLE,
    Constraints,
    HypothesisTensors,
    State,
    StepFunction,
    Tensor,
    best_continuations,
    forced_tokens,
    is_possible,
    output_lengths,
    repeating_tokens,
)

Reorder = Callable[[State, Tensor], State]


def length_penalty(length: Tensor, alpha: Tensor | float) -> Tensor:
    """Return ((5 + length) / 6) ** alpha: Wu et al. 2016, equation 14."""
    return ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def coverage_penalty(coverage: Tensor, mask: Tensor, beta: Tensor | float) -> Tensor:
    """Return beta * sum_i log(min(coverage_i, 1)): Wu et al. 2016, equation 14; at most 0.

    Args:
        coverage: float32 [B, k, S], the attention each source token has received.
        mask: bool [B, 1, S], False for padding.
        beta: weight of the penalty.

    Returns:
        float32 [B, k].
    """
    clipped = ops.clip(coverage, 1e-6, 1.0)
    return beta * ops.sum(ops.where(mask, ops.log(clipped), 0.0), axis=-1)


class _BeamProgress(NamedTuple):
    """The progress of a beam search: k live prefixes, and n ended hypotheses beside them."""

    index: Tensor  # int32 scalar: tokens so far
    live_tokens: Tensor  # int32 [B, k, T]
    live_log_probs: Tensor  # float32 [B, k], best first
    ended_tokens: Tensor  # int32 [B, n, T]
    ended_log_probs: Tensor  # float32 [B, n]
    ended_scores: Tensor  # float32 [B, n], best first
    state: State


@dataclass(frozen=True)
class BeamSearch:
    """Keep the ``beam_size`` best prefixes, and the best ended hypotheses beside them.

    A sentence is finished when no live prefix can still become one of its
    `SearchParameters.n_best` best hypotheses, so stopping early never changes the result.

    Attributes:
        step: see `nmt.inference.search`.
        reorder: ``reorder(state, parents)`` returns the state in which hypothesis i continues
            hypothesis ``parents[:, i]``, int32 [B, k].
        bos: id of the token that begins a sequence.
        eos: id of the token that ends a sequence.
        beam_size: k.
        ended_size: n, ended hypotheses kept per sentence; from `SearchParameters.n_best` to k.
        suppressed: ids that no output contains; never EOS.
        coverage: returns (received [B, k, S], mask [B, 1, S]) of a state, see `coverage_penalty`;
            None: no coverage penalty.
        uses_no_repeat_ngram: whether `SearchParameters.no_repeat_ngram` is applied.
    """

    step: StepFunction
    reorder: Reorder
    bos: int
    eos: int
    beam_size: int
    ended_size: int
    suppressed: tuple[int, ...] = ()
    coverage: Callable[[State], tuple[Tensor, Tensor]] | None = None
    uses_no_repeat_ngram: bool = False

    def begin(
        self, state: State, batch_size: int | Tensor, max_length: int | Tensor
    ) -> _BeamProgress:
        """See `Algorithm.begin`."""
        k, n = self.beam_size, self.ended_size
        return _BeamProgress(
            index=ops.convert_to_tensor(0, "int32"),
            live_tokens=ops.zeros((batch_size, k, max_length), "int32"),
            # All prefixes are empty and equal: only one of them may be extended.
            live_log_probs=ops.where(
                ops.arange(k, dtype="int32") > 0,
                IMPOSSIBLE,
                ops.zeros((batch_size, k), "float32"),
            ),
            ended_tokens=ops.zeros((batch_size, n, max_length), "int32"),
            ended_log_probs=ops.full((batch_size, n), IMPOSSIBLE, "float32"),
            ended_scores=ops.full((batch_size, n), IMPOSSIBLE, "float32"),
            state=state,
        )

    def unfinished(self, progress: _BeamProgress, constraints: Constraints) -> Tensor:
        """Return bool [B]: whether a prefix could still become one of the n best."""
        # A log-probability only falls, and its divisor is at most that of the longest output.
        alpha, n_best = constraints.parameters.length_penalty, constraints.parameters.n_best
        attainable = progress.live_log_probs[:, 0] / length_penalty(constraints.limits, alpha)
        worst = progress.ended_scores[:, 0 if self.ended_size == 1 else n_best - 1]
        return ops.logical_and(attainable > worst, progress.index < constraints.limits)

    def advance(
        self, progress: _BeamProgress, constraints: Constraints, until: Tensor
    ) -> _BeamProgress:
        """See `Algorithm.advance`."""

        def is_unfinished(*fields: Any) -> Tensor:
            now = _BeamProgress(*fields)
            return ops.logical_and(now.index < until, ops.any(self.unfinished(now, constraints)))

        def extend(*fields: Any) -> tuple[Any, ...]:
            return tuple(self._extend(_BeamProgress(*fields), constraints))

        return _BeamProgress(*ops.while_loop(is_unfinished, extend, tuple(progress)))

    def _extend(self, beam: _BeamProgress, constraints: Constraints) -> _BeamProgress:
        """Return the progress one position later."""
        k = self.beam_size
        last = ops.take(beam.live_tokens, ops.maximum(beam.index - 1, 0), axis=2)  # [B, k]
        last = ops.where(ops.equal(beam.index, 0), self.bos, last)
        logits, state = self.step(last, beam.index, beam.state)
        # Of 2k candidates at most k end (one per prefix), so k prefixes always stay alive.
        forced = forced_tokens(constraints, beam.index, self.eos)
        repeating = None
        if self.uses_no_repeat_ngram:
            n = constraints.parameters.no_repeat_ngram
            repeating = repeating_tokens(beam.live_tokens, beam.index, n, logits.shape[-1])
        next_log_probs, next_tokens = best_continuations(
            ops.cast(logits, "float32"), forced, 2 * k, self.suppressed, repeating
        )
        total = ops.expand_dims(beam.live_log_probs, -1) + next_log_probs  # [B, k, c]
        count = next_log_probs.shape[-1]
        log_probs, flat = ops.top_k(ops.reshape(total, (-1, k * count)), 2 * k)  # [B, 2k]
        flat = ops.cast(flat, "int32")
        parent = flat // count
        token = ops.take_along_axis(ops.reshape(next_tokens, (-1, k * count)), flat, axis=1)
        tokens = ops.take_along_axis(beam.live_tokens, parent[:, :, None], axis=1)  # [B, 2k, T]
        tokens = ops.slice_update(tokens, (0, 0, beam.index), token[:, :, None])
        ends = ops.equal(token, self.eos)

        live_log_probs, chosen = ops.top_k(ops.where(ends, IMPOSSIBLE, log_probs), k)
        chosen = ops.cast(chosen, "int32")

        has_ended = self.may_end(ends, log_probs)
        ended = log_probs / length_penalty(beam.index + 1, constraints.parameters.length_penalty)
        if self.coverage is not None:
            penalty = coverage_penalty(
                *self.coverage(state), constraints.parameters.coverage_penalty
            )
            ended = ended + ops.take_along_axis(penalty, parent, axis=1)
        pool = ops.concatenate([beam.ended_scores, ops.where(has_ended, ended, IMPOSSIBLE)], axis=1)
        ended_scores, best_ended = ops.top_k(pool, self.ended_size)  # of [B, n + 2k]
        best_ended = ops.cast(best_ended, "int32")
        pool_tokens = ops.concatenate([beam.ended_tokens, tokens], axis=1)
        pool_log_probs = ops.concatenate([beam.ended_log_probs, log_probs], axis=1)
        return _BeamProgress(
            index=beam.index + 1,
            live_tokens=ops.take_along_axis(tokens, chosen[:, :, None], axis=1),
            live_log_probs=live_log_probs,
            ended_tokens=ops.take_along_axis(pool_tokens, best_ended[:, :, None], axis=1),
            ended_log_probs=ops.take_along_axis(pool_log_probs, best_ended, axis=1),
            ended_scores=ended_scores,
            state=self.reorder(state, ops.take_along_axis(parent, chosen, axis=1)),
        )

    def may_end(self, ends: Tensor, log_probs: Tensor) -> Tensor:
        """Return bool [B, 2k]: which candidates, best first, may become ended hypotheses.

        All that end may; in fairseq and transformers, only those among the k best.

        Args:
            ends: bool [B, 2k], whether a candidate's last token is EOS.
            log_probs: float32 [B, 2k].
        """
        # At its limit, a sentence has one possible ending per prefix; the others do not count.
        return ops.logical_and(ends, is_possible(log_probs))

    def result(self, progress: _BeamProgress) -> HypothesisTensors:
        """Return the best ended hypotheses."""
        tokens = progress.ended_tokens
        return HypothesisTensors(
            tokens,
            output_lengths(tokens, self.eos),
            progress.ended_log_probs,
            progress.ended_scores,
        )
