"""Greedy search and sampling: hypotheses that do not compete with each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from keras import ops

from nmt.inference.contract import SearchParameters
from nmt.inference.search import (
    Constraints,
    HypothesisTensors,
    State,
    StepFunction,
    Tensor,
    best_continuations,
    forced_tokens,
    log_prob,
    output_lengths,
    repeating_tokens,
)
from nmt.model.dropout import fold, uniform

COLDEST = 1e-6  # lowest effective temperature: below it, quotients may overflow float32


class _Chains(NamedTuple):
    """The progress of k independent hypotheses per sentence."""

    index: Tensor  # int32 scalar: tokens so far
    done: Tensor  # bool [B, k]
    last: Tensor  # int32 [B, k]
    tokens: Tensor  # int32 [B, k, T]
    log_probs: Tensor  # float32 [B, k]
    keys: Tensor  # int32 [B, k]: bits of the random keys
    state: State


@dataclass(frozen=True)
class Greedy:
    """Take the most probable token at every position. One hypothesis per sentence.

    Its score is its log-probability.

    Attributes:
        step: see `nmt.inference.search`.
        bos: id of the token that begins a sequence.
        eos: id of the token that ends a sequence.
        suppressed: ids that no output contains; never EOS.
        uses_no_repeat_ngram: whether `SearchParameters.no_repeat_ngram` is applied.
    """

    step: StepFunction
    bos: int
    eos: int
    suppressed: tuple[int, ...] = ()
    uses_no_repeat_ngram: bool = False

    def begin(self, state: State, batch_size: int | Tensor, max_length: int | Tensor) -> _Chains:
        """See `Algorithm.begin`."""
        return self._begin(state, ops.zeros((batch_size, 1), "int32"), max_length)

    def _begin(self, state: State, keys: Tensor, max_length: int | Tensor) -> _Chains:
        shape = (ops.shape(keys)[0], ops.shape(keys)[1])
        return _Chains(
            index=ops.convert_to_tensor(0, "int32"),
            done=ops.zeros(shape, "bool"),
            last=ops.full(shape, self.bos, "int32"),
            tokens=ops.zeros((*shape, max_length), "int32"),
            log_probs=ops.zeros(shape, "float32"),
            keys=keys,
            state=state,
        )

    def unfinished(self, progress: _Chains, constraints: Constraints) -> Tensor:
        """Return bool [B]: whether a hypothesis has not ended."""
        return ops.logical_not(ops.all(progress.done, axis=1))

    def choose(
        self, logits: Tensor, forced: Tensor, progress: _Chains, parameters: SearchParameters
    ) -> tuple[Tensor, Tensor]:
        """Return the chosen ids int32 [B, k] and their log-probabilities [B, k]."""
        repeating = None
        if self.uses_no_repeat_ngram:
            repeating = repeating_tokens(
                progress.tokens, progress.index, parameters.no_repeat_ngram, logits.shape[-1]
            )
        log_probs, tokens = best_continuations(logits, forced, 1, self.suppressed, repeating)
        # Not argmax, which tells the zeros 0 and -0 apart by an operation that LiteRT lacks.
        best_log_prob, best = ops.top_k(log_probs, 1)
        chosen = ops.take_along_axis(tokens, ops.cast(best, "int32"), axis=-1)
        return chosen[..., 0], best_log_prob[..., 0]

    def advance(self, progress: _Chains, constraints: Constraints, until: Tensor) -> _Chains:
        """Search up to position ``until``, or until all hypotheses have ended."""

        def is_unfinished(*fields: Any) -> Tensor:
            now = _Chains(*fields)
            return ops.logical_and(now.index < until, ops.logical_not(ops.all(now.done)))

        def extend(*fields: Any) -> tuple[Any, ...]:
            now = _Chains(*fields)
            logits, state = self.step(now.last, now.index, now.state)
            logits = ops.cast(logits, "float32")
            forced = forced_tokens(constraints, now.index, self.eos)
            chosen, log_probs = self.choose(logits, forced, now, constraints.parameters)
            chosen = ops.where(now.done, 0, chosen)
            return tuple(
                _Chains(
                    index=now.index + 1,
                    done=ops.logical_or(now.done, ops.equal(chosen, self.eos)),
                    last=chosen,
                    tokens=ops.slice_update(now.tokens, (0, 0, now.index), chosen[:, :, None]),
                    log_probs=now.log_probs + ops.where(now.done, 0.0, log_probs),
                    keys=now.keys,
                    state=state,
                )
            )

        return _Chains(*ops.while_loop(is_unfinished, extend, tuple(progress)))

    def result(self, progress: _Chains) -> HypothesisTensors:
        """Return the hypotheses, the most probable first."""
        order = ops.argsort(-progress.log_probs, axis=1)
        log_probs = ops.take_along_axis(progress.log_probs, order, axis=1)
        tokens = ops.take_along_axis(progress.tokens, order[:, :, None], axis=1)
        return HypothesisTensors(tokens, output_lengths(tokens, self.eos), log_probs, log_probs)


@dataclass(frozen=True)
class Sample(Greedy):
    """Draw every token from the model's distribution; k hypotheses per sentence.

    Draws depend on the key of a sentence, the number of the sample and the position only, so the
    rest of the batch does not change them. Log-probabilities and scores are those of the model,
    without temperature, top-k and top-p.

    Attributes:
        key: uint32 [B], one key per sentence.
        samples: k.
        top_k: draw from the k most probable tokens only (Fan et al. 2018); 0: from all.
        uses_top_p: whether `SearchParameters.top_p` is applied.
    """

    key: Tensor = None
    samples: int = 1
    top_k: int = 0
    uses_top_p: bool = False

    def begin(self, state: State, batch_size: int | Tensor, max_length: int | Tensor) -> _Chains:
        """See `Algorithm.begin`."""
        numbers = ops.arange(self.samples, dtype="int32")[None, :]
        # TensorFlow cannot gather uint32 on a GPU.
        keys = ops.cast(fold(self.key[:, None], numbers), "int32")
        return self._begin(state, keys, max_length)

    def choose(
        self, logits: Tensor, forced: Tensor, progress: _Chains, parameters: SearchParameters
    ) -> tuple[Tensor, Tensor]:
        """Draw by the Gumbel-max trick: the largest of logit plus Gumbel noise."""
        vocabulary = logits.shape[-1]
        tokens = ops.broadcast_to(ops.arange(vocabulary, dtype="int32"), ops.shape(logits))
        # Forbidden after the division: no temperature can bring a quotient near -inf.
        scaled = logits / ops.maximum(parameters.temperature, COLDEST)
        for token in self.suppressed:
            scaled = ops.where(ops.equal(tokens, token), -math.inf, scaled)
        count = min(self.top_k or vocabulary, vocabulary)
        if count < vocabulary or self.uses_top_p:
            scaled, tokens = ops.top_k(scaled, count)
            tokens = ops.cast(tokens, "int32")
            if self.uses_top_p and count > 1:
                shares = ops.softmax(scaled, axis=-1)
                before = ops.cumsum(shares, axis=-1) - shares
                scaled = ops.where(before < parameters.top_p, scaled, -math.inf)
        # Noise depends on the token, not on its rank.
        keys = ops.cast(progress.keys, "uint32")
        keys = ops.expand_dims(fold(keys, progress.index), -1)
        noise = -ops.log(-ops.log(uniform(fold(keys, tokens))))
        best = ops.argmax(scaled + noise, axis=-1, keepdims=True)
        chosen = ops.take_along_axis(tokens, best, axis=-1)
        is_forced = ops.greater_equal(forced, 0)[:, None, None]
        chosen = ops.where(is_forced, ops.maximum(forced, 0)[:, None, None], chosen)
        normalizer = ops.logsumexp(logits, axis=-1, keepdims=True)
        return chosen[..., 0], log_prob(logits, normalizer, chosen)
