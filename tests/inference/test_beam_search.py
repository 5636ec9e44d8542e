"""Beam search by hand and against plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from keras import ops
from search_steps import (
    BOS,
    EOS,
    ROOM,
    SENTENCES,
    TALKATIVE,
    TRAP,
    A,
    Array,
    B,
    Bigrams,
    Histories,
    jitted,
    logarithms,
    make_constraints,
    numpy,
    penalty,
    program,
    run_beam,
    same,
    sequences,
)

import nmt.inference.search
from nmt.inference.beam_search import BeamSearch, coverage_penalty, length_penalty
from nmt.inference.contract import SearchParameters
from nmt.inference.search import (
    is_possible,
    run,
)

pytestmark = pytest.mark.backend


def test_beam_finds_what_greedy_misses() -> None:
    """k = 2. Step 1: a 0.6, b 0.4. Step 2: b end 0.36, a end 0.24, a a 0.18, a b 0.18.

    Two have ended, and 0.18 can only fall: the search stops.
    """
    hypotheses = run_beam(TRAP, TRAP.state, [4], beam_size=2)
    assert sequences(hypotheses) == [[B, EOS], [A, EOS]]
    np.testing.assert_allclose(hypotheses.log_probs, [[math.log(0.36), math.log(0.24)]], rtol=1e-6)
    np.testing.assert_array_equal(hypotheses.scores, hypotheses.log_probs)


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
    hypotheses = run_beam(steps, steps.state, [4], beam_size=2)
    assert sequences(hypotheses) == [[EOS], [A, A, A, EOS]]
    np.testing.assert_allclose(
        hypotheses.log_probs, [[math.log(0.3), math.log(0.01458)]], rtol=1e-5
    )


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
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_longer_hypothesis_overtakes_under_a_length_penalty(
    beam_size: int, alpha: float, expected: list[list[int]], scores: list[float]
) -> None:
    hypotheses = run_beam(OVERTAKING, OVERTAKING.state, [5], beam_size=beam_size, alpha=alpha)
    assert sequences(hypotheses) == expected[:beam_size]
    np.testing.assert_allclose(hypotheses.scores, [scores[:beam_size]], rtol=1e-5)


def test_length_penalty_by_hand() -> None:
    """((5 + length) / 6) ** alpha: 1 for a single token, 2 ** alpha for seven."""
    lengths = ops.convert_to_tensor(np.array([1, 4, 7, 13], np.int32))

    def penalties(alpha: float) -> Array:
        return ops.convert_to_numpy(length_penalty(lengths, alpha))

    np.testing.assert_allclose(penalties(0.0), [1, 1, 1, 1])
    np.testing.assert_allclose(penalties(1.0), [1, 1.5, 2, 3], rtol=1e-6)
    np.testing.assert_allclose(penalties(0.5), [1, 1.2247449, 1.4142136, 1.7320508], rtol=1e-6)


def test_limits_force_eos_in_beam_search() -> None:
    """k = 2, limits 1 and 3.

    One token: there is but one hypothesis. Three: step 1 a 0.5, b 0.4, (end 0.1); step 2 a a 0.25,
    b b 0.24, a b 0.2, b a 0.12; step 3 a a end 0.025, b b end 0.024. What ended in step 1, 0.1, is
    better than both.
    """
    hypotheses = run_beam(TALKATIVE, TALKATIVE.state, [1, 3], beam_size=2)
    assert sequences(hypotheses, 0)[0] == [EOS]
    assert hypotheses.log_probs[0, 0] == pytest.approx(math.log(0.1), rel=1e-5)
    assert not is_possible(hypotheses.scores[0, 1])  # no second hypothesis exists
    assert sequences(hypotheses, 1) == [[EOS], [A, A, EOS]]
    np.testing.assert_allclose(hypotheses.log_probs[1], np.log([0.1, 0.025]), rtol=1e-5)


def test_no_length_penalty_makes_a_second_hypothesis_of_a_given_output() -> None:
    """The penalty of twelve tokens divides by 17/6."""
    prefix = [[A] * 11]
    hypotheses = run_beam(TALKATIVE, TALKATIVE.state, [12], beam_size=2, alpha=1.0, prefix=prefix)
    assert sequences(hypotheses)[0] == [A] * 11 + [EOS]
    assert is_possible(hypotheses.scores[0]).tolist() == [True, False]


# --- Against plain Python. ------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_beam_as_wide_as_the_tree_enumerates_it(alpha: float) -> None:
    """Four tokens, one of which ends, and up to four of them: 1 + 3 + 9 + 27 = 40 sequences."""
    steps = Histories(seed=2)
    beam_size, limit = 40, 4
    hypotheses = run_beam(
        steps,
        steps.state([3, 8], beam_size),
        [limit, limit],
        beam_size=beam_size,
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
        assert len(expected) == beam_size
        np.testing.assert_allclose(
            hypotheses.scores[row], [score for score, _ in expected], rtol=1e-5
        )
        assert sequences(hypotheses, row) == [tokens for _, tokens in expected]
        np.testing.assert_allclose(
            hypotheses.log_probs[row],
            [steps.log_prob(sentence, tokens) for _, tokens in expected],
            rtol=1e-5,
        )


@pytest.mark.parametrize(("alpha", "ending"), [(0.0, 0.0), (1.0, 1.0)])
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_stopping_early_never_changes_the_result(
    beam_size: int, alpha: float, ending: float
) -> None:
    """Against a search that goes on to the limit, at several limits and propensities to end."""
    limits = [12, 3, 7, 12, 9, 10, 11, 12, 5, 12] * 2
    steps = Histories(3, ending)
    hypotheses = run_beam(
        steps,
        steps.state(SENTENCES, beam_size),
        limits,
        beam_size=beam_size,
        alpha=alpha,
        reorder=steps.reorder,
    )
    for row, (sentence, limit) in enumerate(zip(SENTENCES, limits, strict=True)):
        expected = steps.beam(sentence, beam_size, alpha, limit)
        assert sequences(hypotheses, row) == [list(tokens) for _, tokens in expected]
        scores = [score for score, _ in expected]
        np.testing.assert_allclose(hypotheses.scores[row], scores, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("beam_size", [2, 5])
def test_no_hypothesis_repeats_an_ngram(beam_size: int, n: int) -> None:
    limits = [12, 3, 7, 12, 9, 10, 11, 12, 5, 12] * 2
    steps = Histories(3, ending=-2.0)
    state = steps.state(SENTENCES, beam_size)
    hypotheses, unlimited = (
        run_beam(
            steps,
            state,
            limits,
            beam_size=beam_size,
            alpha=0.6,
            reorder=steps.reorder,
            no_repeat_ngram=n,
        )
        for n in (n, 0)
    )
    for row, (sentence, limit) in enumerate(zip(SENTENCES, limits, strict=True)):
        expected = steps.beam(sentence, beam_size, 0.6, limit, no_repeat_ngram=n)
        count = int(is_possible(hypotheses.scores[row]).sum())
        assert sequences(hypotheses, row)[:count] == [list(tokens) for _, tokens in expected]
        scores = [score for score, _ in expected]
        np.testing.assert_allclose(hypotheses.scores[row, :count], scores, rtol=1e-5)
    assert (hypotheses.tokens != unlimited.tokens).any()


class Patient(Bigrams):
    """After a first a, further tokens are a and the seventh is the end, all with certainty."""

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
    hypotheses = run_beam(steps, steps.state, [7], beam_size=1, alpha=1.0)
    assert sequences(hypotheses) == [[A] * 6 + [EOS]]
    np.testing.assert_allclose(hypotheses.scores, [[math.log(0.45) / 2]], rtol=1e-5)
    without_penalty = run_beam(steps, steps.state, [7], beam_size=1)
    assert sequences(without_penalty) == [[EOS]]


def test_states_follow_their_prefixes() -> None:
    """Log-probabilities are those of the tokens, though the state saw the prefix alone."""
    steps = Histories(seed=10)

    def deviation(reorder: Any) -> float:
        state = steps.state(SENTENCES, 5)
        hypotheses = run_beam(steps, state, [8] * 20, beam_size=5, reorder=reorder)
        return max(
            abs(steps.log_prob(sentence, tokens) - hypotheses.log_probs[row, n])
            for row, sentence in enumerate(SENTENCES)
            for n, tokens in enumerate(sequences(hypotheses, row))
        )

    assert deviation(steps.reorder) < 1e-4
    assert deviation(same) > 0.1  # and the test would notice


def test_one_wanted_of_a_beam_is_its_best() -> None:
    steps = Histories(seed=5)
    for alpha in (0.0, 1.0):
        five, best, single = (
            run_beam(
                steps,
                steps.state(SENTENCES, 5),
                [10] * 20,
                beam_size=5,
                alpha=alpha,
                reorder=steps.reorder,
                n_best=n,
                ended_size=ended_size,
            )
            for n, ended_size in ((5, 5), (1, 5), (1, 1))
        )
        for hypotheses in (best, single):
            np.testing.assert_array_equal(hypotheses.tokens[:, :1], five.tokens[:, :1])
            np.testing.assert_allclose(hypotheses.scores[:, :1], five.scores[:, :1], rtol=1e-6)
        assert single.tokens.shape[1] == 1


def test_a_search_in_pieces_is_the_search_in_one() -> None:
    steps = Histories(seed=7)
    algorithm = BeamSearch(
        step=steps.step, reorder=steps.reorder, bos=BOS, eos=EOS, beam_size=5, ended_size=5
    )
    constraints = make_constraints(
        [9, 4, 7, 8] * 5, parameters=SearchParameters(length_penalty=0.6, n_best=5)
    )
    state = steps.state(SENTENCES, 5)
    complete = numpy(program(algorithm, ROOM)(state, constraints))
    progress = algorithm.begin(state, len(constraints.limits), ROOM)
    advance = jitted(algorithm.advance)
    for until in (1, 4, 5, 9):
        progress = advance(progress, constraints, until)
    assert not ops.convert_to_numpy(algorithm.unfinished(progress, constraints)).any()
    stepped = numpy(algorithm.result(progress))
    for in_steps, at_once in zip(complete, stepped, strict=True):
        np.testing.assert_array_equal(in_steps, at_once)


def test_coverage_penalty_by_hand() -> None:
    """0.2 (ln 0.5 + ln 1 + 0): coverage above 1 counts as 1, padding does not count."""
    coverage = np.array([[[0.5, 2.0, 0.0]]], np.float32)
    mask = np.array([[[True, True, False]]])
    penalty = ops.convert_to_numpy(coverage_penalty(coverage, mask, 0.2))
    np.testing.assert_allclose(penalty, [[0.2 * math.log(0.5)]], rtol=1e-5)


def test_the_coverage_penalty_of_a_token_without_attention_is_finite() -> None:
    coverage, mask = np.zeros((1, 1, 3), np.float32), np.ones((1, 1, 3), bool)
    for beta in (0.0, 0.2):
        penalty = ops.convert_to_numpy(coverage_penalty(coverage, mask, beta))
        assert np.isfinite(penalty).all()
        assert (penalty < 0).all() == (beta > 0)


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
        beam_size=2,
        ended_size=2,
        coverage=coverage,
    )
    constraints = make_constraints([4], parameters=SearchParameters(coverage_penalty=1.0, n_best=2))
    hypotheses = numpy(run(algorithm, ops.zeros((1, 2), "int32"), constraints, max_length=4))
    assert sequences(hypotheses)[0] == [A, EOS]
    np.testing.assert_allclose(hypotheses.scores[0, 0], math.log(0.24), rtol=1e-5)
    np.testing.assert_allclose(hypotheses.log_probs[0, 0], math.log(0.24), rtol=1e-5)


@pytest.mark.parametrize("beam_size", [16, 17, 40])
def test_a_wide_beam_finds_the_same_without_groups(
    beam_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1,040 pieces, in 33 groups, twice as many candidates as the beam is wide."""
    table = np.random.default_rng(beam_size).normal(size=(1, 7, 1040)).astype(np.float32)

    def step(tokens: Any, index: Any, state: Any) -> tuple[Any, Any]:
        rows = (tokens * 3 + index) % 7
        return ops.take_along_axis(state, rows[:, :, None], axis=1), state

    results = []
    for threshold in (nmt.inference.search._LONG, math.inf):
        monkeypatch.setattr(nmt.inference.search, "_LONG", threshold)
        search = BeamSearch(
            step=step, reorder=same, bos=BOS, eos=EOS, beam_size=beam_size, ended_size=beam_size
        )
        constraints = make_constraints([3], parameters=SearchParameters(n_best=beam_size))
        compiled = jitted(
            lambda state, constraints, search=search: run(search, state, constraints, max_length=3)
        )
        results.append(numpy(compiled(ops.convert_to_tensor(table), constraints)))
    for in_groups, at_once in zip(*results, strict=True):
        np.testing.assert_allclose(in_groups, at_once, rtol=1e-6)
