"""Search over hand-made tables of probabilities, and over a tiny model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
from conftest import transformer
from keras import ops
from numpy.typing import NDArray

import nmt.inference.search
from nmt.inference.beam_search import BeamSearch, coverage_penalty, length_penalty
from nmt.inference.compiled import compile_over
from nmt.inference.contract import SearchParameters
from nmt.inference.greedy import Greedy, Sample
from nmt.inference.search import (
    FREE,
    IMPOSSIBLE,
    Algorithm,
    Constraints,
    Hypotheses,
    run,
    top_k,
)
from nmt.model.dropout import fold
from nmt.model.transformer import Transformer

pytestmark = pytest.mark.backend

Array = NDArray[Any]

PAD, BOS, EOS, A, B = range(5)
V = 5


# --- Steps without a model. -----------------------------------------------------------------------


def logarithms(probabilities: Array) -> Array:
    """Return logits; what has no probability at all becomes `IMPOSSIBLE`."""
    found = np.full(probabilities.shape, IMPOSSIBLE, np.float32)
    found[probabilities > 0] = np.log(probabilities[probabilities > 0])
    return found


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
    """The next token depends on the sentence and on everything before: the state is their hash.

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
        """All sequences of up to ``limit`` tokens that end with the end mark."""
        prefixes: list[tuple[int, ...]] = [()]
        for _ in range(limit):
            yield from ((*prefix, EOS) for prefix in prefixes)
            prefixes = [(*prefix, token) for prefix in prefixes for token in (BOS, A, B)]

    def beam(
        self, sentence: int, size: int, alpha: float, limit: int
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
                ),
                reverse=True,
            )[: 2 * size]
            ended += [
                (log_prob / penalty(length, alpha), tokens)
                for log_prob, tokens in candidates
                if tokens[-1] == EOS
            ]
            live = [entry for entry in candidates if entry[1][-1] != EOS][:size]
        return sorted(ended, reverse=True)[:size]


# What JAX compiles is of one shape: most searches are of these sentences, with this room for
# tokens and this width of prefixes.
SENTENCES = range(20)
ROOM = 12
FORCED = 3


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def same(state: Any, parents: Any) -> Any:
    """Reorder a state that is the same for all hypotheses."""
    return state


def numpy(found: Hypotheses) -> Hypotheses:
    return Hypotheses(*(ops.convert_to_numpy(part) for part in found))


def constraints(
    limits: Sequence[int], prefix: Any = None, parameters: SearchParameters | None = None
) -> Constraints:
    """Limits, and prefixes [B, P] (none by default)."""
    given = np.full((len(limits), FORCED), FREE) if prefix is None else np.array(prefix)
    parts = (ops.convert_to_tensor(np.asarray(part, np.int32)) for part in (limits, given))
    return Constraints(*parts, parameters or SearchParameters())


def jitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on JAX, which otherwise compiles every operation; TensorFlow is quicker without."""
    if keras.config.backend() == "tensorflow":
        return function
    import jax

    return jax.jit(function)


@cache
def program(algorithm: Algorithm, max_length: int) -> Callable[[Any, Constraints], Hypotheses]:
    """Return a search: on JAX compiled, once for all numbers and tables."""

    def searched(state: Any, given: Constraints) -> Hypotheses:
        return run(algorithm, state, given, max_length=max_length)

    return jitted(searched)


def run_greedy(
    steps: Any, state: Any, limits: Sequence[int], length: int = ROOM, **more: Any
) -> Hypotheses:
    prefix = more.pop("prefix", None)
    algorithm = Greedy(step=steps.step, bos=BOS, eos=EOS, **more)
    return numpy(program(algorithm, length)(state, constraints(limits, prefix)))


def run_beam(
    steps: Any,
    state: Any,
    limits: Sequence[int],
    *,
    size: int,
    alpha: float = 0.0,
    reorder: Any = same,
    length: int = ROOM,
    n_best: int = 0,
    ended_size: int = 0,
    prefix: Any = None,
    **more: Any,
) -> Hypotheses:
    algorithm = BeamSearch(
        step=steps.step,
        reorder=reorder,
        bos=BOS,
        eos=EOS,
        size=size,
        ended_size=ended_size or size,
        **more,
    )
    given = constraints(
        limits, prefix, SearchParameters(length_penalty=alpha, n_best=n_best or size)
    )
    return numpy(program(algorithm, length)(state, given))


def sequences(found: Hypotheses, sentence: int = 0) -> list[list[int]]:
    """Return the tokens of each hypothesis, and check what stands behind them."""
    listed = []
    for row, length in zip(found.tokens[sentence], found.lengths[sentence], strict=True):
        assert (row[length:] == 0).all()
        listed.append(row[:length].tolist())
    return listed


# --- Greedy. --------------------------------------------------------------------------------------

# Greedy takes a (0.6), then the end (0.4): 0.24. It misses b and the end: 0.4 x 0.9 = 0.36.
TRAP = Bigrams(
    after_bos=[0, 0, 0, 0.6, 0.4],
    after_a=[0, 0, 0.4, 0.3, 0.3],
    after_b=[0, 0, 0.9, 0.05, 0.05],
)


def test_greedy_takes_the_most_probable_token() -> None:
    found = run_greedy(TRAP, TRAP.state, [4])
    assert sequences(found) == [[A, EOS]]
    assert found.tokens.shape == (1, 1, ROOM)
    np.testing.assert_array_equal(found.lengths, [[2]])
    np.testing.assert_allclose(found.log_probs, [[math.log(0.24)]], rtol=1e-6)
    np.testing.assert_array_equal(found.scores, found.log_probs)


def test_greedy_follows_the_argmax_of_every_history() -> None:
    steps = Histories(seed=1, ending=-0.5)
    found = run_greedy(steps, steps.state(SENTENCES, 1), [9] * 20)
    lengths = set()
    for sentence in SENTENCES:
        tokens: list[int] = []
        while EOS not in tokens:
            scores = steps.next_log_probs(sentence, tokens)
            tokens.append(EOS if len(tokens) == 8 else int(np.argmax(scores)))
        assert sequences(found, sentence) == [tokens]
        expected = steps.log_prob(sentence, tokens)
        assert found.log_probs[sentence, 0] == pytest.approx(expected, rel=1e-5)
        lengths.add(len(tokens))
    assert len(lengths) > 2  # sentences that ended early went on beside others


# --- Beam, by hand. -------------------------------------------------------------------------------


def test_beam_finds_what_greedy_misses() -> None:
    """k = 2. Step 1: a 0.6, b 0.4. Step 2: b end 0.36, a end 0.24, a a 0.18, a b 0.18.

    Two have ended, and 0.18 can only fall: the search stops.
    """
    found = run_beam(TRAP, TRAP.state, [4], size=2)
    assert sequences(found) == [[B, EOS], [A, EOS]]
    np.testing.assert_allclose(found.log_probs, [[math.log(0.36), math.log(0.24)]], rtol=1e-6)
    np.testing.assert_array_equal(found.scores, found.log_probs)


def test_an_ended_hypothesis_outlives_better_prefixes_that_come_to_nothing() -> None:
    """Kept in one list with the prefixes, the best hypothesis would be lost in step 1.

    k = 2. Step 1: a 0.36, b 0.34, end 0.3: both prefixes are better than what ended. Step 2:
    b b 0.17, a a 0.162, b a 0.136, a b 0.126. Step 3: b b b 0.085, a a a 0.0729, b b a 0.068,
    a a b 0.0567. Step 4, the last: a a a end 0.0729 x 0.2 = 0.01458, b b b end 0.0085.
    """
    steps = Bigrams(
        after_bos=[0, 0, 0.3, 0.36, 0.34],
        after_a=[0, 0, 0.2, 0.45, 0.35],
        after_b=[0, 0, 0.1, 0.4, 0.5],
    )
    found = run_beam(steps, steps.state, [4], size=2)
    assert sequences(found) == [[EOS], [A, A, A, EOS]]
    np.testing.assert_allclose(found.log_probs, [[math.log(0.3), math.log(0.01458)]], rtol=1e-5)


# The end 0.4, or a 0.6 and then: the end 0.6 (0.36 together), or b 0.4 and the end 1 (0.24).
OVERTAKING = Bigrams(
    after_bos=[0, 0, 0.4, 0.6, 0],
    after_a=[0, 0, 0.6, 0, 0.4],
    after_b=[0, 0, 1, 0, 0],
)


@pytest.mark.parametrize(
    ("alpha", "expected", "scores"),
    [
        # Without a penalty: ln 0.4 = -0.9163, ln 0.36 = -1.0217, ln 0.24 = -1.4271.
        (0.0, [[EOS], [A, EOS], [A, B, EOS]], [-0.916291, -1.021651, -1.427116]),
        # Divided by 6/6, 7/6 and 8/6: -0.9163, -0.8757, -1.0703. The second overtakes.
        (1.0, [[A, EOS], [EOS], [A, B, EOS]], [-0.875701, -0.916291, -1.070337]),
        # By 1, (7/6)^3 = 1.5880 and (8/6)^3 = 2.3704: -0.9163, -0.6434, -0.6021: the third, too.
        (3.0, [[A, B, EOS], [A, EOS], [EOS]], [-0.602065, -0.643371, -0.916291]),
    ],
)
@pytest.mark.parametrize("size", [1, 3])
def test_a_longer_hypothesis_overtakes_under_a_length_penalty(
    size: int, alpha: float, expected: list[list[int]], scores: list[float]
) -> None:
    found = run_beam(OVERTAKING, OVERTAKING.state, [5], size=size, alpha=alpha)
    assert sequences(found) == expected[:size]
    np.testing.assert_allclose(found.scores, [scores[:size]], rtol=1e-5)


def test_length_penalty_by_hand() -> None:
    """((5 + length) / 6) ** alpha: 1 for a single token, 2 ** alpha for seven."""
    lengths = ops.convert_to_tensor(np.array([1, 4, 7, 13], np.int32))

    def found(alpha: float) -> Array:
        return ops.convert_to_numpy(length_penalty(lengths, alpha))

    np.testing.assert_allclose(found(0.0), [1, 1, 1, 1])
    np.testing.assert_allclose(found(1.0), [1, 1.5, 2, 3], rtol=1e-6)
    np.testing.assert_allclose(found(0.5), [1, 1.2247449, 1.4142136, 1.7320508], rtol=1e-6)


# The end is always the least probable: 0.1.
TALKATIVE = Bigrams(
    after_bos=[0, 0, 0.1, 0.5, 0.4],
    after_a=[0, 0, 0.1, 0.5, 0.4],
    after_b=[0, 0, 0.1, 0.3, 0.6],
)


def test_limits_force_the_end_mark_in_greedy_search() -> None:
    found = run_greedy(TALKATIVE, TALKATIVE.state, [1, 3, 2])
    assert [sequences(found, i) for i in range(3)] == [[[EOS]], [[A, A, EOS]], [[A, EOS]]]
    expected = [0.1, 0.5 * 0.5 * 0.1, 0.5 * 0.1]  # the forced end mark costs what it costs
    np.testing.assert_allclose(found.log_probs[:, 0], np.log(expected), rtol=1e-5)


def test_limits_force_the_end_mark_in_beam_search() -> None:
    """k = 2, limits 1 and 3.

    One token: there is but one hypothesis. Three: step 1 a 0.5, b 0.4, (end 0.1); step 2 a a 0.25,
    b b 0.24, a b 0.2, b a 0.12; step 3 a a end 0.025, b b end 0.024. What ended in step 1, 0.1, is
    better than both.
    """
    found = run_beam(TALKATIVE, TALKATIVE.state, [1, 3], size=2)
    assert sequences(found, 0)[0] == [EOS]
    assert found.log_probs[0, 0] == pytest.approx(math.log(0.1), rel=1e-5)
    assert found.scores[0, 1] <= IMPOSSIBLE / 2  # there is no second one
    assert sequences(found, 1) == [[EOS], [A, A, EOS]]
    np.testing.assert_allclose(found.log_probs[1], np.log([0.1, 0.025]), rtol=1e-5)


# --- Beam, against plain Python. ------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_beam_as_wide_as_the_tree_enumerates_it(alpha: float) -> None:
    """Four tokens, one of which ends, and up to four of them: 1 + 3 + 9 + 27 = 40 sequences."""
    steps = Histories(seed=2)
    size, limit = 40, 4
    found = run_beam(
        steps,
        steps.state([3, 8], size),
        [limit, limit],
        size=size,
        alpha=alpha,
        reorder=steps.reorder,
    )
    for row, sentence in enumerate((3, 8)):
        expected = sorted(
            (
                (steps.log_prob(sentence, tokens) / penalty(len(tokens), alpha), list(tokens))
                for tokens in steps.everything(limit)
            ),
            reverse=True,
        )
        assert len(expected) == size
        np.testing.assert_allclose(found.scores[row], [score for score, _ in expected], rtol=1e-5)
        assert sequences(found, row) == [tokens for _, tokens in expected]
        np.testing.assert_allclose(
            found.log_probs[row],
            [steps.log_prob(sentence, tokens) for _, tokens in expected],
            rtol=1e-5,
        )


@pytest.mark.parametrize(("alpha", "ending"), [(0.0, 0.0), (1.0, 1.0)])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_stopping_early_never_changes_the_result(size: int, alpha: float, ending: float) -> None:
    """Against a search that goes on to the limit, at several limits and propensities to end."""
    limits = [12, 3, 7, 12, 9, 10, 11, 12, 5, 12] * 2
    steps = Histories(3, ending)
    found = run_beam(
        steps,
        steps.state(SENTENCES, size),
        limits,
        size=size,
        alpha=alpha,
        reorder=steps.reorder,
    )
    for row, (sentence, limit) in enumerate(zip(SENTENCES, limits, strict=True)):
        expected = steps.beam(sentence, size, alpha, limit)
        assert sequences(found, row) == [list(tokens) for _, tokens in expected]
        scores = [score for score, _ in expected]
        np.testing.assert_allclose(found.scores[row], scores, rtol=1e-5)


def test_max_length_is_room_and_no_limit() -> None:
    steps = Histories(seed=6)
    limits, state = [ROOM, 4] * 10, steps.state(SENTENCES, 5)
    tight, roomy = (
        run_beam(steps, state, limits, size=5, alpha=0.6, reorder=steps.reorder, length=length)
        for length in (ROOM, 60)
    )
    np.testing.assert_array_equal(roomy.tokens[..., :ROOM], tight.tokens)
    assert (roomy.tokens[..., ROOM:] == 0).all()
    np.testing.assert_array_equal(roomy.lengths, tight.lengths)
    np.testing.assert_allclose(roomy.log_probs, tight.log_probs, rtol=1e-6)
    np.testing.assert_allclose(roomy.scores, tight.scores, rtol=1e-6)
    state = steps.state(SENTENCES, 1)
    short, long = (run_greedy(steps, state, limits, length) for length in (ROOM, 60))
    np.testing.assert_array_equal(long.tokens[..., :ROOM], short.tokens)
    np.testing.assert_allclose(long.log_probs, short.log_probs, rtol=1e-6)


class Exhausted(Bigrams):
    """After three tokens nothing but NaN: whoever goes on looking finds nothing."""

    @staticmethod
    def step(tokens: Any, index: Any, state: Any) -> tuple[Any, Any]:
        logits, state = Bigrams.step(tokens, index, state)
        return ops.where(index < 3, logits, float("nan")), state


def test_search_stops_when_nothing_better_can_come() -> None:
    """The end is nearly certain everywhere: after two steps both of k = 2 have ended."""
    sure = [0, 0, 0.98, 0.012, 0.008]
    steps = Exhausted(sure, sure, sure)
    found = run_beam(steps, steps.state, [30], size=2, length=30)
    assert sequences(found) == [[EOS], [A, EOS]]
    np.testing.assert_allclose(found.scores, [np.log([0.98, 0.012 * 0.98])], rtol=1e-4)
    one = run_greedy(steps, steps.state, [30], length=30)
    assert sequences(one) == [[EOS]]
    np.testing.assert_allclose(one.scores, [[math.log(0.98)]], rtol=1e-4)


class Patient(Bigrams):
    """Once begun with a, it goes on with a and ends at the seventh token, all with certainty."""

    @staticmethod
    def step(tokens: Any, index: Any, state: Any) -> tuple[Any, Any]:
        logits, state = Bigrams.step(tokens, index, state)
        end = logarithms(np.array([0.0, 0.0, 1.0, 0.0, 0.0]))
        return ops.where(index < 6, logits, end), state


def test_search_goes_on_while_the_length_penalty_may_still_turn_the_tables() -> None:
    """k = 1, alpha = 1. The end at once: ln 0.55 = -0.598. Else a, ln 0.45 = -0.799.

    Ended after two tokens, the latter would have -0.799 / (7/6) = -0.684 and lose; at the limit of
    seven it has -0.799 / 2 = -0.399 and wins.
    """
    steps = Patient([0, 0, 0.55, 0.45, 0], [0, 0, 0, 1, 0], [0, 0, 1, 0, 0])
    found = run_beam(steps, steps.state, [7], size=1, alpha=1.0)
    assert sequences(found) == [[A] * 6 + [EOS]]
    np.testing.assert_allclose(found.scores, [[math.log(0.45) / 2]], rtol=1e-5)
    without_penalty = run_beam(steps, steps.state, [7], size=1)
    assert sequences(without_penalty) == [[EOS]]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_beam_of_one_is_greedy_where_only_the_limit_ends(alpha: float) -> None:
    """Elsewhere it is better: it remembers endings that were the second choice (`OVERTAKING`)."""
    steps = Histories(seed=7, ending=-20.0)
    limits, state = [5, 1, 8, 3] * 5, steps.state(SENTENCES, 1)
    beam = run_beam(steps, state, limits, size=1, alpha=alpha, reorder=steps.reorder)
    plain = run_greedy(steps, state, limits)
    np.testing.assert_array_equal(beam.tokens, plain.tokens)
    np.testing.assert_array_equal(beam.lengths, plain.lengths)
    np.testing.assert_allclose(beam.log_probs, plain.log_probs, rtol=1e-6)
    assert beam.lengths[:, 0].tolist() == limits


def test_a_beam_of_one_is_never_worse_than_greedy() -> None:
    steps = Histories(seed=8)
    limits, state = [8] * 20, steps.state(SENTENCES, 1)
    beam = run_beam(steps, state, limits, size=1, reorder=steps.reorder)
    plain = run_greedy(steps, state, limits)
    assert (beam.log_probs >= plain.log_probs - 1e-5).all()
    equal = (beam.tokens == plain.tokens).all(-1)
    assert equal.sum() >= 5


def test_sentences_of_a_batch_do_not_influence_each_other() -> None:
    """Limits differ: one sentence is finished for long while the other still grows."""
    steps = Histories(seed=9, ending=0.5)
    limits, reorder = [9, 2] * 10, steps.reorder
    together = run_beam(
        steps, steps.state(SENTENCES, 5), limits, size=5, alpha=0.6, reorder=reorder
    )
    greedily = run_greedy(steps, steps.state(SENTENCES, 1), limits)
    for row in (5, 6):
        sentence, limit = SENTENCES[row], limits[row]
        alone = run_beam(
            steps, steps.state([sentence], 5), [limit], size=5, alpha=0.6, reorder=reorder
        )
        np.testing.assert_array_equal(together.tokens[row], alone.tokens[0])
        np.testing.assert_allclose(together.scores[row], alone.scores[0], rtol=1e-6)
        assert (alone.scores > IMPOSSIBLE / 2).sum() == (5 if limit > 2 else 4)  # there are no more
        one = run_greedy(steps, steps.state([sentence], 1), [limit])
        np.testing.assert_array_equal(greedily.tokens[row], one.tokens[0])
        np.testing.assert_allclose(greedily.log_probs[row], one.log_probs[0], rtol=1e-6)


def test_states_follow_their_prefixes() -> None:
    """Log-probabilities are those of the tokens, though the state saw the prefix alone."""
    steps = Histories(seed=10)

    def deviation(reorder: Any) -> float:
        state = steps.state(SENTENCES, 5)
        found = run_beam(steps, state, [8] * 20, size=5, reorder=reorder)
        return max(
            abs(steps.log_prob(sentence, tokens) - found.log_probs[row, n])
            for row, sentence in enumerate(SENTENCES)
            for n, tokens in enumerate(sequences(found, row))
        )

    assert deviation(steps.reorder) < 1e-4
    assert deviation(same) > 0.1  # and the test would notice


@pytest.mark.parametrize("size", [0, 2])
def test_lengths_count_every_token_up_to_the_end_mark(size: int) -> None:
    """A model may choose any id, even 0; hypotheses are cut by their lengths."""
    steps = Bigrams(
        after_bos=[0, 0, 0, 1, 0],
        after_a=[0.9, 0, 0.1, 0, 0],
        after_b=[0, 0, 1, 0, 0],
    )
    found = (
        run_beam(steps, steps.state, [5], size=size)
        if size
        else run_greedy(steps, steps.state, [5])
    )
    for n, score in enumerate(found.scores[0]):
        if score > IMPOSSIBLE / 2:
            length = found.lengths[0, n]
            assert found.tokens[0, n, length - 1] == EOS
            assert (found.tokens[0, n, : length - 1] != EOS).all()


# --- With a model. --------------------------------------------------------------------------------

SOURCE = np.array([[4, 5, 6, 7, 9, 2], [8, 3, 2, PAD, PAD, PAD]], np.int32)  # S = 6
LIMITS = np.array([6, 4], np.int32)
LENGTH = 6
WIDTH = 4  # of the beam


@cache
def tiny() -> Transformer:
    """Return the one model, whose weights `change` sets."""
    return transformer(
        vocabulary_size=11,
        d_model=8,
        num_heads=2,
        ffn_width=12,
        encoder_layers=1,
        decoder_layers=2,
    )


def change(seed: int) -> Transformer:
    """Return the model with random weights, the same ones for the same seed."""
    for number, weight in enumerate(tiny().weights):
        values = np.random.default_rng(100 * seed + number).standard_normal(weight.shape)
        weight.assign(1 + 0.2 * values if weight.name == "gamma" else 0.6 * values)
    return tiny()


def without_padding(logits: Any) -> Any:
    """Forbid id 0, which as a target would be padding and hidden by masks."""
    return ops.where(ops.arange(ops.shape(logits)[-1]) > 0, logits, IMPOSSIBLE)


def search(source: Any, limits: Any, size: int, length: Any = LENGTH) -> Any:
    """Search with the model: greedily where ``size`` is 0."""
    model = tiny()

    def step(tokens: Any, index: Any, state: Any) -> tuple[Any, Any]:
        logits, state = model.step(tokens, index, state)
        return without_padding(logits), state

    state = model.start(source, beam_size=max(1, size), max_length=length)
    marks: dict[str, Any] = {"step": step, "bos": BOS, "eos": EOS}
    algorithm = (
        BeamSearch(reorder=model.reorder, size=size, ended_size=size, **marks)
        if size
        else Greedy(**marks)
    )
    free = ops.full((ops.shape(limits)[0], 1), FREE, "int32")
    numbers = SearchParameters(length_penalty=0.6, n_best=max(1, size))
    return tuple(run(algorithm, state, Constraints(limits, free, numbers), max_length=length))


@cache
def compiled_search(size: int) -> Callable[..., Hypotheses]:
    """Return a search; the greedy one takes its room as the engine gives it on JAX: as a length."""

    def greedy(source: Any, limits: Any, room: Any) -> Any:
        return search(source, limits, 0, ops.shape(room)[0])

    def beam(source: Any, limits: Any) -> Any:
        return search(source, limits, size)

    if size:
        fast = compile_over(tiny(), beam, (2, 1))
        return lambda source, limits: Hypotheses(*fast(source, limits))
    with_room = compile_over(tiny(), greedy, (2, 1, 1))
    return lambda source, limits: Hypotheses(*with_room(source, limits, np.arange(LENGTH)))


@pytest.mark.parametrize("size", [0, WIDTH])
def test_scores_are_teacher_forced_log_probabilities(size: int) -> None:
    lengths = set()
    for seed in (1, 2):  # two models, of which one is quick to end
        model = change(seed)
        found = compiled_search(size)(SOURCE, LIMITS)
        for n in range(found.tokens.shape[1]):
            chosen = found.tokens[:, n]  # [B, T]
            # Behind the end mark both are padding.
            target_in = np.concatenate([np.full((len(SOURCE), 1), BOS), chosen[:, :-1]], axis=1)
            target_in[target_in == EOS] = PAD
            logits = model({"source": SOURCE, "target": target_in.astype(np.int32)})
            log_probs = ops.convert_to_numpy(ops.log_softmax(without_padding(logits)))
            of_chosen = np.take_along_axis(log_probs, chosen[..., None], -1)[..., 0]
            for row, length in enumerate(found.lengths[:, n]):
                assert chosen[row, length - 1] == EOS
                expected = of_chosen[row, :length].sum()
                assert found.log_probs[row, n] == pytest.approx(expected, abs=1e-4)
                divisor = penalty(length, 0.6) if size else 1.0
                assert found.scores[row, n] == pytest.approx(expected / divisor, abs=1e-4)
                lengths.add(int(length))
    assert len(lengths) > 1


@pytest.mark.parametrize("size", [0, WIDTH])
def test_compiled_search_equals_eager_and_sees_new_weights(size: int) -> None:
    fast = compiled_search(size)
    change(2)
    before = fast(SOURCE, LIMITS)
    assert all(isinstance(part, np.ndarray) for part in before)
    change(3)
    source, limits = ops.convert_to_tensor(SOURCE), ops.convert_to_tensor(LIMITS)
    slow, after = numpy(Hypotheses(*search(source, limits, size))), fast(SOURCE, LIMITS)
    np.testing.assert_array_equal(after.tokens, slow.tokens)
    np.testing.assert_array_equal(after.lengths, slow.lengths)
    np.testing.assert_allclose(after.log_probs, slow.log_probs, atol=1e-4)
    np.testing.assert_allclose(after.scores, slow.scores, atol=1e-4)
    assert (before.tokens != after.tokens).any()
    if keras.config.backend() == "tensorflow":  # one trace for all shapes
        narrower = fast(SOURCE[1:, :3], LIMITS[1:])
        np.testing.assert_array_equal(narrower.tokens[0], after.tokens[1])


def test_any_function_of_the_model_is_compiled_for_any_shape() -> None:
    model = change(5)
    target = np.array([[1, 4, 5, 3, PAD, PAD], [1, 6, 7, 9, 3, 4]], np.int32)

    def half(source: Any, target: Any, half: Any) -> Any:
        return {"out": model({"source": source, "target": target}) * half}

    fast = compile_over(model, half, (2, 2), floats=1)
    expected = ops.convert_to_numpy(model({"source": SOURCE, "target": target}))
    found = fast(SOURCE.astype(np.int64), target, 0.5)  # other integers are cast
    assert list(found) == ["out"]
    np.testing.assert_allclose(found["out"], 0.5 * expected, atol=1e-5)
    assert keras.backend.standardize_dtype(found["out"].dtype) == "float32"
    narrower = fast(SOURCE[1:, :3], target[1:], 1)
    np.testing.assert_allclose(narrower["out"], expected[1:], atol=1e-5)


# --- What an output must and must not hold. -------------------------------------------------------


def test_what_is_never_put_out_leaves_room_for_the_rest() -> None:
    """The begin mark is the most probable token everywhere; scores are still the model's own."""
    steps = Bigrams(
        after_bos=[0.05, 0.5, 0.05, 0.3, 0.1],
        after_a=[0.05, 0.6, 0.25, 0.05, 0.05],
        after_b=[0.05, 0.6, 0.25, 0.05, 0.05],
    )
    expected = math.log(0.3 * 0.25)
    found = run_greedy(steps, steps.state, [4], never=(PAD, BOS))
    assert sequences(found) == [[A, EOS]]
    assert found.log_probs[0, 0] == pytest.approx(expected, rel=1e-5)
    found = run_beam(steps, steps.state, [4], size=2, never=(PAD, BOS))
    assert sequences(found) == [[A, EOS], [EOS]]
    assert found.log_probs[0, 0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_prefixes_are_taken_and_cost_what_they_cost(size: int) -> None:
    """Each sentence has a prefix of its own length; the best of all that begin with it is found."""
    steps = Histories(seed=4)
    prefixes = [[B, A, FREE], [A, FREE, FREE], [FREE, FREE, FREE], [B, B, B]] * 5
    limits, state = [6] * 20, steps.state(SENTENCES, max(1, size))
    if size:
        found = run_beam(steps, state, limits, size=size, reorder=steps.reorder, prefix=prefixes)
    else:
        found = run_greedy(steps, state, limits, prefix=prefixes)
    for row, (sentence, prefix) in enumerate(zip(SENTENCES, prefixes, strict=True)):
        forced = [token for token in prefix if token != FREE]
        listed = sequences(found, row)
        assert len(listed) == max(1, size)
        for tokens, log_prob in zip(listed, found.log_probs[row], strict=True):
            assert tokens[: len(forced)] == forced
            assert log_prob == pytest.approx(steps.log_prob(sentence, tokens), rel=1e-5)


def test_one_wanted_of_a_beam_is_its_best() -> None:
    steps = Histories(seed=5)
    for alpha in (0.0, 1.0):
        all_of, one_of, only = (
            run_beam(
                steps,
                steps.state(SENTENCES, 5),
                [10] * 20,
                size=5,
                alpha=alpha,
                reorder=steps.reorder,
                n_best=n,
                ended_size=kept,
            )
            for n, kept in ((5, 5), (1, 5), (1, 1))
        )
        for found in (one_of, only):
            np.testing.assert_array_equal(found.tokens[:, :1], all_of.tokens[:, :1])
            np.testing.assert_allclose(found.scores[:, :1], all_of.scores[:, :1], rtol=1e-6)
        assert only.tokens.shape[1] == 1


def test_a_search_in_pieces_is_the_search_in_one() -> None:
    steps = Histories(seed=7)
    algorithm = BeamSearch(
        step=steps.step, reorder=steps.reorder, bos=BOS, eos=EOS, size=5, ended_size=5
    )
    given = constraints([9, 4, 7, 8] * 5, parameters=SearchParameters(length_penalty=0.6, n_best=5))
    state = steps.state(SENTENCES, 5)
    whole = numpy(program(algorithm, ROOM)(state, given))
    progress = algorithm.begin(state, given, ROOM)
    advance = jitted(algorithm.advance)
    for until in (1, 4, 5, 9):
        progress = advance(progress, given, until)
    assert not ops.convert_to_numpy(algorithm.unfinished(progress, given)).any()
    pieces = numpy(algorithm.result(progress))
    for one, two in zip(whole, pieces, strict=True):
        np.testing.assert_array_equal(one, two)


def test_coverage_penalty_by_hand() -> None:
    """0.2 (ln 0.5 + ln 1 + 0): what is covered twice counts once, padding does not count."""
    coverage = np.array([[[0.5, 2.0, 0.0]]], np.float32)
    mask = np.array([[[True, True, False]]])
    found = ops.convert_to_numpy(coverage_penalty(coverage, mask, 0.2))
    np.testing.assert_allclose(found, [[0.2 * math.log(0.5)]], rtol=1e-5)


def test_a_penalty_ranks_and_does_not_prune() -> None:
    """In the state: the token before, which makes endings after b cost 2. Then a's overtakes."""

    def step(tokens: Any, index: Any, state: Any) -> tuple[Any, Any]:
        logits, _ = TRAP.step(tokens, index, TRAP.state)
        return logits, tokens

    def coverage(state: Any) -> tuple[Any, Any]:
        received = ops.where(ops.equal(state, B), math.exp(-2), 1.0)
        return received[..., None], np.ones((1, 1, 1), bool)

    algorithm = BeamSearch(
        step=step,
        reorder=lambda state, parents: ops.take_along_axis(state, parents, axis=1),
        bos=BOS,
        eos=EOS,
        size=2,
        ended_size=2,
        coverage=coverage,
    )
    given = constraints([4], parameters=SearchParameters(coverage_penalty=1.0, n_best=2))
    found = numpy(run(algorithm, ops.zeros((1, 2), "int32"), given, max_length=4))
    assert sequences(found)[0] == [A, EOS]
    np.testing.assert_allclose(found.scores[0, 0], math.log(0.24), rtol=1e-5)
    np.testing.assert_allclose(found.log_probs[0, 0], math.log(0.24), rtol=1e-5)


# --- Sampling. ------------------------------------------------------------------------------------

COIN = Bigrams(
    after_bos=[0, 0, 0.1, 0.6, 0.3],
    after_a=[0, 0, 1, 0, 0],
    after_b=[0, 0, 1, 0, 0],
)


@cache
def drawer(**arguments: Any) -> Callable[[Any, Constraints, Any], Hypotheses]:
    """Return a draw of at most three tokens, as `program` returns a search."""

    def draw(state: Any, given: Constraints, keys: Any) -> Hypotheses:
        algorithm = Sample(step=Bigrams.step, bos=BOS, eos=EOS, key=keys, **arguments)
        return run(algorithm, state, given, max_length=3)

    return jitted(draw)


def drawn(
    count: int = 4000, key: int = 1, *, temperature: float = 1.0, top_p: float = 1.0, **more: Any
) -> list[int]:
    """Return how often end, a and b were drawn first."""
    given = constraints([3], parameters=SearchParameters(temperature=temperature, top_p=top_p))
    keys = ops.convert_to_tensor(np.array([key], np.uint32))
    draw = drawer(samples=count, uses_top_p=top_p < 1, **more)
    found = numpy(draw(COIN.state, given, keys))
    first = found.tokens[0, :, 0]
    np.testing.assert_allclose(
        found.log_probs[0], np.log(np.array([0.1, 0.6, 0.3]))[first - EOS], rtol=1e-5
    )
    return [int((first == token).sum()) for token in (EOS, A, B)]


@pytest.mark.parametrize(
    ("arguments", "shares"),
    [
        ({}, [0.1, 0.6, 0.3]),
        ({"never": (PAD, BOS)}, [0.1, 0.6, 0.3]),
        # Squares, made to sum up to 1: 0.01, 0.36 and 0.09 of 0.46.
        ({"temperature": 0.5}, [0.0217, 0.7826, 0.1957]),
        ({"top_k": 2}, [0, 2 / 3, 1 / 3]),
        ({"top_p": 0.85}, [0, 2 / 3, 1 / 3]),  # 0.6 alone does not make 0.85
        ({"top_p": 0.5}, [0, 1, 0]),
        ({"top_p": 1.0, "top_k": 5}, [0.1, 0.6, 0.3]),
    ],
    ids=str,
)
def test_tokens_are_drawn_as_often_as_they_should(
    arguments: dict[str, Any], shares: list[float]
) -> None:
    count = 4000
    found = drawn(count, **arguments)
    assert sum(found) == count
    for times, share in zip(found, shares, strict=True):
        assert abs(times - count * share) <= 4 * math.sqrt(count * share * (1 - share)) + 1


def unmixed(x: int) -> int:
    """Undo the hash of `nmt.model.dropout`, which makes every number of exactly one."""
    low = 0xFFFFFFFF
    x ^= x >> 16
    x = x * pow(0x846CA68B, -1, 1 << 32) & low
    x ^= x >> 15 ^ x >> 30
    x = x * pow(0x7FEB352D, -1, 1 << 32) & low
    return x ^ x >> 16


def key_of(wanted: int, *places: int) -> int:
    """Return the key that is ``wanted`` once these places have been folded into it."""
    for place in reversed(places):
        wanted = unmixed(wanted) - (place + 1) * 0x9E3779B9 & 0xFFFFFFFF
    return wanted


@pytest.mark.parametrize("barred", [PAD, BOS])
def test_the_largest_number_draws_nothing_barred(barred: int) -> None:
    """A key by which the barred token gets the largest noise there is."""
    key = key_of(0xFFFFFFFF, 0, 0, barred)  # of the sentence: sample 0, position 0, the token
    folded = ops.convert_to_tensor(key, "uint32")
    for place in (0, 0, barred):
        folded = fold(folded, place)
    assert int(ops.convert_to_numpy(folded)) == 0xFFFFFFFF
    assert sum(drawn(1, key, never=(PAD, BOS))) == 1  # of the others


@pytest.mark.parametrize("arguments", [{}, {"top_k": 4}, {"top_p": 0.999}], ids=str)
def test_no_temperature_draws_anything_barred(arguments: dict[str, Any]) -> None:
    """Hot, all others are drawn alike; cold, the most probable of them."""
    top_p = arguments.get("top_p", 1.0)
    draw = drawer(
        samples=999, uses_top_p=top_p < 1, top_k=arguments.get("top_k", 0), never=(PAD, BOS)
    )
    likely = [0.2, 0.3, 0.1, 0.25, 0.15]
    keys = ops.convert_to_tensor(np.array([1], np.uint32))

    def first(temperature: float) -> list[int]:
        given = constraints([2], parameters=SearchParameters(temperature=temperature, top_p=top_p))
        found = numpy(draw(Bigrams(likely, likely, likely).state, given, keys))
        return np.bincount(found.tokens[0, :, 0], minlength=V).tolist()

    hot = first(1e30)
    assert sum(hot[EOS:]) == 999
    assert min(hot[EOS:]) > 333 - 4 * math.sqrt(999 * 2 / 9)
    assert first(1e-5) == first(1e-44) == [0, 0, 0, 999, 0]


def test_draws_are_functions_of_the_key() -> None:
    assert drawn(200, key=5) == drawn(200, key=5)
    assert drawn(200, key=5) != drawn(200, key=6)


@pytest.mark.parametrize("length", [40, 1023, 1024, 1057, 4000])
def test_the_largest_are_found_in_groups_as_in_the_whole(length: int) -> None:
    generator = np.random.default_rng(length)
    values = generator.normal(size=(2, 3, length)).astype(np.float32)
    values[0, 0] = -np.inf
    values[0, 0, length // 2 :][:12] = np.arange(12)
    values[0, 1, -1] = 50.0
    values[0, 2, 8:40] = 40.0 + np.arange(32)  # all in one group
    values[1, 0] = -5.0  # all equal
    for count in (1, 3, 12):
        best, places = (np.asarray(part) for part in top_k(ops.convert_to_tensor(values), count))
        assert best.shape == places.shape == (2, 3, count)
        assert places.dtype == np.int32
        np.testing.assert_array_equal(best, -np.sort(-values, axis=-1)[..., :count])
        np.testing.assert_array_equal(np.take_along_axis(values, places, axis=-1), best)
        assert all(len(set(row.tolist())) == count for row in places.reshape(-1, count))


@pytest.mark.parametrize("length", [1024, 1057])
def test_as_many_are_found_as_there_are_groups_and_more(length: int) -> None:
    values = np.random.default_rng(length).normal(size=(2, length)).astype(np.float32)
    groups = -(-length // 32)
    for count in (groups - 1, groups, groups + 1, length):
        best, places = (np.asarray(part) for part in top_k(ops.convert_to_tensor(values), count))
        np.testing.assert_array_equal(places, np.argsort(-values, axis=-1)[:, :count])
        np.testing.assert_array_equal(best, np.take_along_axis(values, places, axis=-1))


@pytest.mark.parametrize("size", [16, 17, 40])
def test_a_wide_beam_finds_the_same_without_groups(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1,040 pieces, in 33 groups, twice as many candidates as the beam is wide."""
    table = np.random.default_rng(size).normal(size=(1, 7, 1040)).astype(np.float32)

    def step(tokens: Any, index: Any, state: Any) -> tuple[Any, Any]:
        rows = (tokens * 3 + index) % 7
        return ops.take_along_axis(state, rows[:, :, None], axis=1), state

    found = []
    for long in (nmt.inference.search._LONG, math.inf):
        monkeypatch.setattr(nmt.inference.search, "_LONG", long)
        search = BeamSearch(step=step, reorder=same, bos=BOS, eos=EOS, size=size, ended_size=size)
        given = constraints([3], parameters=SearchParameters(n_best=size))
        compiled = jitted(
            lambda state, given, search=search: run(search, state, given, max_length=3)
        )
        found.append(numpy(compiled(ops.convert_to_tensor(table), given)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
