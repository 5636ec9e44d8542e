"""Greedy search, sampling and beam search over a ``step`` callable, in ``keras.ops`` and float32.

Search knows no model. It calls ``step(tokens, index, state)``: ``tokens`` int32 [B, k] stand at
position ``index`` (int32 scalar), one for each of the k hypotheses of a sentence, and it gets the
logits float32 [B, k, V] of what follows, and the next state. Every tensor of a state begins with
the batch.

A search can be run in one go (`run`), or a few positions at a time: between two calls of `advance`,
sentences that are finished can be taken out of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from keras import ops

from nmt.inference.contract import Numbers
from nmt.model.dropout import fold, uniform

Tensor = Any
State = Any
Step = Callable[[Tensor, Tensor, State], tuple[Tensor, State]]
Reorder = Callable[[State, Tensor], State]

IMPOSSIBLE = -1e9  # log-probability of what cannot be chosen; finite, so that sums stay ordered
FREE = -1  # in a prefix: the position is not forced
_GROUP, _LONG = 32, 1024  # neighbours of which the largest is found first, where there are so many
COLDEST = 1e-6  # what any lower temperature counts as: by less, quotients may leave float32


class Rules(NamedTuple):
    """What each sentence's output must obey."""

    limits: Tensor  # int32 [B]: most tokens, end mark included; at least 1
    prefix: Tensor  # int32 [B, P]: ids that the output begins with, then `FREE`; P at least 1
    numbers: Numbers = Numbers()


class Hypotheses(NamedTuple):
    """The outputs of a search, best first; n per sentence."""

    tokens: Tensor  # int32 [B, n, T]: no begin mark; the end mark, then zeros
    lengths: Tensor  # int32 [B, n]: tokens, end mark included
    log_probs: Tensor  # float32 [B, n]: sum over the tokens, in nats
    scores: Tensor  # float32 [B, n]: what hypotheses are ranked by; `IMPOSSIBLE`: there are fewer


class Algorithm(Protocol):
    """A search whose progress is a NamedTuple with ``index``, all else beginning with the batch."""

    def begin(self, state: State, rules: Rules, max_length: int | Tensor) -> Any:
        """Return the progress before the first token; ``max_length`` T is room for tokens."""
        ...

    def unfinished(self, progress: Any, rules: Rules) -> Tensor:
        """Return bool [B]: whether going on could change a sentence's result."""
        ...

    def advance(self, progress: Any, rules: Rules, until: Tensor) -> Any:
        """Go on to position ``until``, or until all sentences are finished."""
        ...

    def result(self, progress: Any) -> Hypotheses:
        """Return what was found."""
        ...


def run(
    algorithm: Algorithm, state: State, rules: Rules, *, max_length: int | Tensor
) -> Hypotheses:
    """Search from beginning to end; ``max_length`` T is at least the largest limit."""
    progress = algorithm.begin(state, rules, max_length)
    return algorithm.result(algorithm.advance(progress, rules, max_length))


def length_penalty(length: Tensor, alpha: Tensor | float) -> Tensor:
    """((5 + length) / 6) ** alpha: Wu et al. 2016, equation 14. ``alpha`` 0 is no penalty."""
    return ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def coverage_penalty(coverage: Tensor, mask: Tensor, beta: Tensor | float) -> Tensor:
    """beta * sum_i log(min(coverage_i, 1)): Wu et al. 2016, equation 14; at most 0.

    Args:
        coverage: float32 [B, k, S], the attention each source token has received.
        mask: bool [B, 1, S], True for tokens that are no padding.
        beta: weight.

    Returns:
        float32 [B, k].
    """
    received = ops.clip(coverage, 1e-6, 1.0)
    return beta * ops.sum(ops.where(mask, ops.log(received), 0.0), axis=-1)


def _forced(rules: Rules, index: Tensor, eos: int) -> Tensor:
    """Return int32 [B]: the one id allowed at ``index``, or `FREE`."""
    places = ops.shape(rules.prefix)[1]
    inside = ops.take(rules.prefix, ops.minimum(index, places - 1), axis=1)
    prefix = ops.where(index < places, inside, FREE)
    return ops.where(ops.greater_equal(index, rules.limits - 1), eos, prefix)


def top_k(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest of the last axis, best first, and their places.

    Where the axis is long, only the c groups of neighbours with the largest members are looked
    through: every kernel for the whole axis takes several times as long as these two steps. With no
    more than c groups, all would be looked through, and the kernel takes the axis as it is.

    Args:
        values: float [..., V], V known, at least c of them finite.
        count: c, at most V.

    Returns:
        (float [..., c], int32 [..., c]).
    """
    length = values.shape[-1]
    if length < _LONG or count * _GROUP >= length:
        best, places = ops.top_k(values, count)
        return best, ops.cast(places, "int32")
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
    best, places = ops.top_k(ops.reshape(members, (-1, count * _GROUP)), count)
    places = ops.cast(places, "int32")
    group = ops.take(ops.reshape(chosen, (-1,)), places // _GROUP + first * count, axis=0)
    places = group * _GROUP + places % _GROUP
    return ops.reshape(best, (*lead, count)), ops.reshape(places, (*lead, count))


def _candidates(
    logits: Tensor, forced: Tensor, count: int, never: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Return the best continuations of every hypothesis, without a log-softmax over all.

    Args:
        logits: float32 [B, k, V].
        forced: int32 [B], from `_forced`.
        count: how many are wanted, c.
        never: ids that are not allowed.

    Returns:
        (log-probabilities float32 [B, k, c'], `IMPOSSIBLE` for what is not allowed; their ids
        int32), with c' = c + len(never), or V if that is less.
    """
    count = min(count + len(never), logits.shape[-1])
    best, tokens = top_k(logits, count)
    largest = best[..., :1]
    normalizer = largest + ops.log(ops.sum(ops.exp(logits - largest), axis=-1, keepdims=True))
    log_probs = best - normalizer
    for token in never:
        log_probs = ops.where(ops.equal(tokens, token), IMPOSSIBLE, log_probs)
    one = ops.greater_equal(forced, 0)[:, None, None]
    token = ops.maximum(forced, 0)[:, None, None]
    allowed = _log_prob(logits, normalizer, ops.broadcast_to(token, ops.shape(tokens[..., :1])))
    first = ops.equal(ops.arange(count), 0)
    return (
        ops.where(one, ops.where(first, allowed[..., None], IMPOSSIBLE), log_probs),
        ops.where(one, token, tokens),
    )


def _log_prob(logits: Tensor, normalizer: Tensor, tokens: Tensor) -> Tensor:
    """Log-probability [B, k] of ``tokens`` [B, k, 1] under logits [B, k, V]."""
    return (ops.take_along_axis(logits, tokens, axis=-1) - normalizer)[..., 0]


def _lengths(tokens: Tensor, eos: int) -> Tensor:
    """Count the tokens up to the end mark, which every hypothesis has: [..., T] -> int32 [...]."""
    return ops.cast(ops.argmax(ops.equal(tokens, eos), axis=-1), "int32") + 1


class _Chains(NamedTuple):
    """The progress of hypotheses that know nothing of each other."""

    index: Tensor  # int32 scalar: tokens so far
    done: Tensor  # bool [B, k]
    last: Tensor  # int32 [B, k]
    tokens: Tensor  # int32 [B, k, T]
    log_probs: Tensor  # float32 [B, k]
    keys: Tensor  # int32 [B, k]: bits of what random choices are drawn from
    state: State


@dataclass(frozen=True)
class Greedy:
    """Take the most probable token at every position. One hypothesis per sentence.

    Its score is its log-probability.

    Attributes:
        step: see the module.
        bos: id of the begin mark.
        eos: id of the end mark.
        never: ids that are never put out, the end mark not among them.
    """

    step: Step
    bos: int
    eos: int
    never: tuple[int, ...] = ()

    def begin(self, state: State, rules: Rules, max_length: int | Tensor) -> _Chains:
        """Return the progress before the first token."""
        return self._begin(state, ops.zeros((ops.shape(rules.limits)[0], 1), "int32"), max_length)

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

    def unfinished(self, progress: _Chains, rules: Rules) -> Tensor:
        """Return bool [B]: whether a hypothesis has not ended."""
        return ops.logical_not(ops.all(progress.done, axis=1))

    def choose(
        self, logits: Tensor, forced: Tensor, progress: _Chains, numbers: Numbers
    ) -> tuple[Tensor, Tensor]:
        """Return the chosen ids int32 [B, k] and their log-probabilities [B, k]."""
        log_probs, tokens = _candidates(logits, forced, 1, self.never)
        gained, best = ops.top_k(log_probs, 1)  # argmax looks at the bits of zeros, LiteRT cannot
        chosen = ops.take_along_axis(tokens, ops.cast(best, "int32"), axis=-1)
        return chosen[..., 0], gained[..., 0]

    def advance(self, progress: _Chains, rules: Rules, until: Tensor) -> _Chains:
        """Go on to position ``until``, or until all hypotheses have ended."""

        def going(*fields: Any) -> Tensor:
            now = _Chains(*fields)
            return ops.logical_and(now.index < until, ops.logical_not(ops.all(now.done)))

        def extend(*fields: Any) -> tuple[Any, ...]:
            now = _Chains(*fields)
            logits, state = self.step(now.last, now.index, now.state)
            logits = ops.cast(logits, "float32")
            forced = _forced(rules, now.index, self.eos)
            chosen, gained = self.choose(logits, forced, now, rules.numbers)
            chosen = ops.where(now.done, 0, chosen)
            return tuple(
                _Chains(
                    index=now.index + 1,
                    done=ops.logical_or(now.done, ops.equal(chosen, self.eos)),
                    last=chosen,
                    tokens=ops.slice_update(now.tokens, (0, 0, now.index), chosen[:, :, None]),
                    log_probs=now.log_probs + ops.where(now.done, 0.0, gained),
                    keys=now.keys,
                    state=state,
                )
            )

        return _Chains(*ops.while_loop(going, extend, tuple(progress)))

    def result(self, progress: _Chains) -> Hypotheses:
        """Return the hypotheses, the most probable first."""
        order = ops.argsort(-progress.log_probs, axis=1)
        log_probs = ops.take_along_axis(progress.log_probs, order, axis=1)
        tokens = ops.take_along_axis(progress.tokens, order[:, :, None], axis=1)
        return Hypotheses(tokens, _lengths(tokens, self.eos), log_probs, log_probs)


@dataclass(frozen=True)
class Sample(Greedy):
    """Draw every token from the model's distribution; k hypotheses per sentence.

    Draws are functions of the key of a sentence, the number of the sample and the position, and so
    the same whatever else is in the batch. Log-probabilities and scores are the model's own,
    temperature and cuts left aside.

    Attributes:
        key: uint32 [B], one key per sentence.
        samples: k.
        top_k: draw from the k most probable tokens only (Fan et al. 2018); 0: from all.
        nucleus: whether `Numbers.top_p` counts.
    """

    key: Tensor = None
    samples: int = 1
    top_k: int = 0
    nucleus: bool = False

    def begin(self, state: State, rules: Rules, max_length: int | Tensor) -> _Chains:
        """Return the progress before the first token."""
        numbers = ops.arange(self.samples, dtype="int32")[None, :]
        # TensorFlow gathers no uint32 on a GPU.
        keys = ops.cast(fold(self.key[:, None], numbers), "int32")
        return self._begin(state, keys, max_length)

    def choose(
        self, logits: Tensor, forced: Tensor, progress: _Chains, numbers: Numbers
    ) -> tuple[Tensor, Tensor]:
        """Draw by the Gumbel-max trick: the largest of logit plus Gumbel noise."""
        vocabulary = logits.shape[-1]
        tokens = ops.broadcast_to(ops.arange(vocabulary, dtype="int32"), ops.shape(logits))
        # Behind the division: however hot or cold, no quotient comes near it.
        heat = logits / ops.maximum(numbers.temperature, COLDEST)
        for token in self.never:
            heat = ops.where(ops.equal(tokens, token), -math.inf, heat)
        count = min(self.top_k or vocabulary, vocabulary)
        if count < vocabulary or self.nucleus:
            heat, tokens = ops.top_k(heat, count)
            tokens = ops.cast(tokens, "int32")
            if self.nucleus and count > 1:
                shares = ops.softmax(heat, axis=-1)
                before = ops.cumsum(shares, axis=-1) - shares
                heat = ops.where(before < numbers.top_p, heat, -math.inf)
        # Noise belongs to the token, not to its rank.
        keys = ops.cast(progress.keys, "uint32")
        places = ops.expand_dims(fold(keys, progress.index), -1)
        noise = -ops.log(-ops.log(uniform(fold(places, tokens))))
        best = ops.argmax(heat + noise, axis=-1, keepdims=True)
        chosen = ops.take_along_axis(tokens, best, axis=-1)
        bound = ops.greater_equal(forced, 0)[:, None, None]
        chosen = ops.where(bound, ops.maximum(forced, 0)[:, None, None], chosen)
        return chosen[..., 0], _log_prob(
            logits, ops.logsumexp(logits, axis=-1, keepdims=True), chosen
        )


class _Beam(NamedTuple):
    """The progress of a beam search: k live prefixes, and apart from them n ended hypotheses."""

    index: Tensor  # int32 scalar: tokens so far
    live_tokens: Tensor  # int32 [B, k, T]
    live_log_probs: Tensor  # float32 [B, k], best first
    ended_tokens: Tensor  # int32 [B, n, T]
    ended_log_probs: Tensor  # float32 [B, n]
    ended_scores: Tensor  # float32 [B, n], best first
    state: State


@dataclass(frozen=True)
class BeamSearch:
    """Keep the ``size`` best prefixes, and apart from them the best ended hypotheses.

    A sentence is finished when no live prefix can still beat the worst ended hypothesis that is
    wanted (`Numbers.n_best`), so stopping early never changes the result.

    Attributes:
        step: see the module.
        reorder: ``reorder(state, parents)``: place i goes on from place ``parents`` int32 [B, k].
        bos: id of the begin mark.
        eos: id of the end mark.
        size: k.
        kept: n, ended hypotheses kept per sentence; at most k, and at least as many as are wanted.
        never: ids that are never put out, the end mark not among them.
        coverage: of a state: (received [B, k, S], mask [B, 1, S]), see `coverage_penalty`; None:
            it does not count.
    """

    step: Step
    reorder: Reorder
    bos: int
    eos: int
    size: int
    kept: int
    never: tuple[int, ...] = ()
    coverage: Callable[[State], tuple[Tensor, Tensor]] | None = None

    def begin(self, state: State, rules: Rules, max_length: int | Tensor) -> _Beam:
        """Return the progress before the first token."""
        k, n, batch = self.size, self.kept, ops.shape(rules.limits)[0]
        return _Beam(
            index=ops.convert_to_tensor(0, "int32"),
            live_tokens=ops.zeros((batch, k, max_length), "int32"),
            # All prefixes are the same empty one: only one of them may be extended.
            live_log_probs=ops.where(
                ops.arange(k) > 0, IMPOSSIBLE, ops.zeros((batch, k), "float32")
            ),
            ended_tokens=ops.zeros((batch, n, max_length), "int32"),
            ended_log_probs=ops.full((batch, n), IMPOSSIBLE, "float32"),
            ended_scores=ops.full((batch, n), IMPOSSIBLE, "float32"),
            state=state,
        )

    def unfinished(self, progress: _Beam, rules: Rules) -> Tensor:
        """Return bool [B]: whether a prefix could still become one of the n best."""
        # A log-probability only falls, and its divisor is at most that of the longest output.
        alpha, wanted = rules.numbers.length_penalty, rules.numbers.n_best
        attainable = progress.live_log_probs[:, 0] / length_penalty(rules.limits, alpha)
        worst = progress.ended_scores[:, 0 if self.kept == 1 else wanted - 1]
        return ops.logical_and(attainable > worst, progress.index < rules.limits)

    def advance(self, progress: _Beam, rules: Rules, until: Tensor) -> _Beam:
        """Go on to position ``until``, or until all sentences are finished."""

        def going(*fields: Any) -> Tensor:
            now = _Beam(*fields)
            return ops.logical_and(now.index < until, ops.any(self.unfinished(now, rules)))

        def extend(*fields: Any) -> tuple[Any, ...]:
            return tuple(self._extended(_Beam(*fields), rules))

        return _Beam(*ops.while_loop(going, extend, tuple(progress)))

    def _extended(self, beam: _Beam, rules: Rules) -> _Beam:
        k = self.size
        last = ops.take(beam.live_tokens, ops.maximum(beam.index - 1, 0), axis=2)  # [B, k]
        last = ops.where(ops.equal(beam.index, 0), self.bos, last)
        logits, state = self.step(last, beam.index, beam.state)
        # Of 2k candidates at most k end (one per prefix), so k prefixes always stay alive.
        forced = _forced(rules, beam.index, self.eos)
        scores, tokens = _candidates(ops.cast(logits, "float32"), forced, 2 * k, self.never)
        total = ops.expand_dims(beam.live_log_probs, -1) + scores  # [B, k, c]
        count = scores.shape[-1]
        log_probs, flat = ops.top_k(ops.reshape(total, (-1, k * count)), 2 * k)  # [B, 2k]
        flat = ops.cast(flat, "int32")
        parent = flat // count
        token = ops.take_along_axis(ops.reshape(tokens, (-1, k * count)), flat, axis=1)
        tokens = ops.take_along_axis(beam.live_tokens, parent[:, :, None], axis=1)  # [B, 2k, T]
        tokens = ops.slice_update(tokens, (0, 0, beam.index), token[:, :, None])
        ends = ops.equal(token, self.eos)

        live_log_probs, chosen = ops.top_k(ops.where(ends, IMPOSSIBLE, log_probs), k)
        chosen = ops.cast(chosen, "int32")

        possible = self.endings(ends, log_probs)
        ended = log_probs / length_penalty(beam.index + 1, rules.numbers.length_penalty)
        if self.coverage is not None:
            received = coverage_penalty(*self.coverage(state), rules.numbers.coverage_penalty)
            ended = ended + ops.take_along_axis(received, parent, axis=1)
        pool = ops.concatenate([beam.ended_scores, ops.where(possible, ended, IMPOSSIBLE)], axis=1)
        ended_scores, kept = ops.top_k(pool, self.kept)  # of [B, n + 2k]
        kept = ops.cast(kept, "int32")
        pool_tokens = ops.concatenate([beam.ended_tokens, tokens], axis=1)
        pool_log_probs = ops.concatenate([beam.ended_log_probs, log_probs], axis=1)
        return _Beam(
            index=beam.index + 1,
            live_tokens=ops.take_along_axis(tokens, chosen[:, :, None], axis=1),
            live_log_probs=live_log_probs,
            ended_tokens=ops.take_along_axis(pool_tokens, kept[:, :, None], axis=1),
            ended_log_probs=ops.take_along_axis(pool_log_probs, kept, axis=1),
            ended_scores=ended_scores,
            state=self.reorder(state, ops.take_along_axis(parent, chosen, axis=1)),
        )

    def endings(self, ends: Tensor, log_probs: Tensor) -> Tensor:
        """Return bool [B, 2k]: which candidates, best first, become ended hypotheses.

        All that end. Others let only the k best do so (fairseq, transformers).

        Args:
            ends: bool [B, 2k], whether a candidate's last token is the end mark.
            log_probs: float32 [B, 2k].
        """
        # A limited sentence has one ending per prefix; the impossible ones must not count.
        return ops.logical_and(ends, log_probs > IMPOSSIBLE / 2)

    def result(self, progress: _Beam) -> Hypotheses:
        """Return the best hypotheses that ended."""
        tokens = progress.ended_tokens
        return Hypotheses(
            tokens,
            _lengths(tokens, self.eos),
            progress.ended_log_probs,
            progress.ended_scores,
        )
