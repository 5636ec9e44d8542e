"""Greedy search and sampling over hand-made tables of probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from keras import ops
from search_steps import (
    BOS,
    EOS,
    PAD,
    ROOM,
    SENTENCES,
    TALKATIVE,
    TRAP,
    A,
    B,
    Bigrams,
    Histories,
    V,
    ends_in_repeat,
    jitted,
    make_constraints,
    numpy,
    run_greedy,
    sequences,
)

from nmt.inference.contract import FREE, SearchParameters
from nmt.inference.greedy import Sample
from nmt.inference.search import (
    Constraints,
    HypothesisTensors,
    run,
)
from nmt.model.dropout import fold

pytestmark = pytest.mark.backend


def test_greedy_takes_the_most_probable_token() -> None:
    hypotheses = run_greedy(TRAP, TRAP.state, [4])
    assert sequences(hypotheses) == [[A, EOS]]
    assert hypotheses.tokens.shape == (1, 1, ROOM)
    np.testing.assert_array_equal(hypotheses.lengths, [[2]])
    np.testing.assert_allclose(hypotheses.log_probs, [[math.log(0.24)]], rtol=1e-6)
    np.testing.assert_array_equal(hypotheses.scores, hypotheses.log_probs)


def test_greedy_follows_the_argmax_of_every_history() -> None:
    steps = Histories(seed=1, ending=-0.5)
    hypotheses = run_greedy(steps, steps.state(SENTENCES, 1), [9] * 20)
    lengths = set()
    for sentence in SENTENCES:
        tokens: list[int] = []
        while EOS not in tokens:
            scores = steps.next_log_probs(sentence, tokens)
            tokens.append(EOS if len(tokens) == 8 else int(np.argmax(scores)))
        assert sequences(hypotheses, sentence) == [tokens]
        expected = steps.log_prob(sentence, tokens)
        assert hypotheses.log_probs[sentence, 0] == pytest.approx(expected, rel=1e-5)
        lengths.add(len(tokens))
    assert len(lengths) > 2  # some sentences ended early while others continued


def test_limits_force_eos_in_greedy_search() -> None:
    hypotheses = run_greedy(TALKATIVE, TALKATIVE.state, [1, 3, 2])
    assert [sequences(hypotheses, i) for i in range(3)] == [[[EOS]], [[A, A, EOS]], [[A, EOS]]]
    expected = [0.1, 0.5 * 0.5 * 0.1, 0.5 * 0.1]  # the forced EOS costs what it costs
    np.testing.assert_allclose(hypotheses.log_probs[:, 0], np.log(expected), rtol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 12])
def test_greedy_takes_the_most_probable_token_that_repeats_no_ngram(n: int) -> None:
    steps = Histories(seed=1, ending=-2.0)
    hypotheses = run_greedy(steps, steps.state(SENTENCES, 1), [12] * 20, no_repeat_ngram=n)
    forbidden = 0
    for sentence in SENTENCES:
        tokens: list[int] = []
        while EOS not in tokens:
            scores = steps.next_log_probs(sentence, tokens).copy()
            repeating = [token for token in range(V) if ends_in_repeat((*tokens, token), n)]
            forbidden += int(np.argmax(scores)) in repeating
            scores[repeating] = -math.inf
            tokens.append(EOS if len(tokens) == 11 else int(np.argmax(scores)))
        assert sequences(hypotheses, sentence) == [tokens]
        expected = steps.log_prob(sentence, tokens)  # the model's: nothing is renormalized
        assert hypotheses.log_probs[sentence, 0] == pytest.approx(expected, rel=1e-5)
    assert (forbidden > 0) == (n < 12)


def test_a_prefix_may_repeat_and_counts() -> None:
    """a a is forced twice; then a is forbidden after a, and b is less probable than a."""
    prefix = [[A, A, A]]
    hypotheses = run_greedy(TALKATIVE, TALKATIVE.state, [9], prefix=prefix, no_repeat_ngram=2)
    # After b: b 0.6, a 0.3; b b once; then a; a a and a b occurred: the end is all that is left.
    assert sequences(hypotheses) == [[A, A, A, B, B, A, EOS]]
    expected = [0.5, 0.5, 0.5, 0.4, 0.6, 0.3, 0.1]
    np.testing.assert_allclose(hypotheses.log_probs[0, 0], np.log(expected).sum(), rtol=1e-5)


def test_a_sentence_is_finished_when_all_of_its_hypotheses_have_ended() -> None:
    constraints: Any = None
    search = Sample(TRAP.step, BOS, EOS, key=ops.zeros(3, "uint32"), samples=2)
    done = np.array([[True, True], [True, False], [False, False]])
    progress = search.begin((), 3, ROOM)._replace(done=ops.convert_to_tensor(done))
    unfinished = ops.convert_to_numpy(search.unfinished(progress, constraints))
    assert unfinished.tolist() == [False, True, True]


# --- Sampling. ------------------------------------------------------------------------------------

COIN = Bigrams(
    after_bos=[0, 0, 0.1, 0.6, 0.3],
    after_a=[0, 0, 1, 0, 0],
    after_b=[0, 0, 1, 0, 0],
)


@cache
def drawer(**arguments: Any) -> Callable[[Any, Constraints, Any], HypothesisTensors]:
    """Return a draw of at most three tokens, as `program` returns a search."""

    def draw(state: Any, constraints: Constraints, keys: Any) -> HypothesisTensors:
        algorithm = Sample(step=Bigrams.step, bos=BOS, eos=EOS, key=keys, **arguments)
        return run(algorithm, state, constraints, max_length=3)

    return jitted(draw)


def count_draws(
    count: int = 4000, key: int = 1, *, temperature: float = 1.0, top_p: float = 1.0, **more: Any
) -> list[int]:
    """Return how often end, a and b were drawn first."""
    constraints = make_constraints(
        [3], parameters=SearchParameters(temperature=temperature, top_p=top_p)
    )
    keys = ops.convert_to_tensor(np.array([key], np.uint32))
    draw = drawer(samples=count, uses_top_p=top_p < 1, **more)
    hypotheses = numpy(draw(COIN.state, constraints, keys))
    first = hypotheses.tokens[0, :, 0]
    np.testing.assert_allclose(
        hypotheses.log_probs[0], np.log(np.array([0.1, 0.6, 0.3]))[first - EOS], rtol=1e-5
    )
    return [int((first == token).sum()) for token in (EOS, A, B)]


@pytest.mark.parametrize(
    ("arguments", "shares"),
    [
        ({}, [0.1, 0.6, 0.3]),
        ({"suppressed": (PAD, BOS)}, [0.1, 0.6, 0.3]),
        # Squares, made to sum up to 1: 0.01, 0.36 and 0.09 of 0.46.
        ({"temperature": 0.5}, [0.0217, 0.7826, 0.1957]),
        ({"top_k": 2}, [0, 2 / 3, 1 / 3]),
        ({"top_p": 0.85}, [0, 2 / 3, 1 / 3]),  # 0.6 alone does not make 0.85
        ({"top_p": 0.5}, [0, 1, 0]),
        # Of what the temperature makes of it: a 0.7826; of the two most probable: a 0.6667.
        ({"top_p": 0.7, "temperature": 0.5}, [0, 1, 0]),
        ({"top_p": 0.65, "top_k": 2}, [0, 1, 0]),
        ({"top_p": 1.0, "top_k": 5}, [0.1, 0.6, 0.3]),
    ],
    ids=str,
)
def test_tokens_are_drawn_as_often_as_they_should(
    arguments: dict[str, Any], shares: list[float]
) -> None:
    count = 4000
    counts = count_draws(count, **arguments)
    assert sum(counts) == count
    for times, share in zip(counts, shares, strict=True):
        assert abs(times - count * share) <= 4 * math.sqrt(count * share * (1 - share)) + 1


def unmixed(x: int) -> int:
    """Undo the hash of `nmt.model.dropout`, which makes every number of exactly one."""
    low = 0xFFFFFFFF
    x ^= x >> 16
    x = x * pow(0x846CA68B, -1, 1 << 32) & low
    x ^= x >> 15 ^ x >> 30
    x = x * pow(0x7FEB352D, -1, 1 << 32) & low
    return x ^ x >> 16


def key_of(folded: int, *numbers: int) -> int:
    """Return the key that is ``wanted`` once these places have been folded into it."""
    for number in reversed(numbers):
        folded = unmixed(folded) - (number + 1) * 0x9E3779B9 & 0xFFFFFFFF
    return folded


@pytest.mark.parametrize("barred", [PAD, BOS])
def test_the_largest_number_draws_nothing_barred(barred: int) -> None:
    """A key by which the barred token gets the largest noise there is."""
    key = key_of(0xFFFFFFFF, 0, 0, barred)  # of the sentence: sample 0, position 0, the token
    folded = ops.convert_to_tensor(key, "uint32")
    for place in (0, 0, barred):
        folded = fold(folded, place)
    assert int(ops.convert_to_numpy(folded)) == 0xFFFFFFFF
    assert sum(count_draws(1, key, suppressed=(PAD, BOS))) == 1  # of the others


@pytest.mark.parametrize("arguments", [{}, {"top_k": 4}, {"top_p": 0.999}], ids=str)
def test_no_temperature_draws_anything_barred(arguments: dict[str, Any]) -> None:
    """Hot, all others are drawn alike; cold, the most probable of them."""
    top_p = arguments.get("top_p", 1.0)
    draw = drawer(
        samples=999, uses_top_p=top_p < 1, top_k=arguments.get("top_k", 0), suppressed=(PAD, BOS)
    )
    likely = [0.2, 0.3, 0.1, 0.25, 0.15]
    keys = ops.convert_to_tensor(np.array([1], np.uint32))

    def first(temperature: float) -> list[int]:
        constraints = make_constraints(
            [2], parameters=SearchParameters(temperature=temperature, top_p=top_p)
        )
        hypotheses = numpy(draw(Bigrams(likely, likely, likely).state, constraints, keys))
        return np.bincount(hypotheses.tokens[0, :, 0], minlength=V).tolist()

    hot = first(1e30)
    assert sum(hot[EOS:]) == 999
    assert min(hot[EOS:]) > 333 - 4 * math.sqrt(999 * 2 / 9)
    assert first(1e-5) == first(1e-44) == [0, 0, 0, 999, 0]


def test_draws_are_functions_of_the_key() -> None:
    assert count_draws(200, key=5) == count_draws(200, key=5)
    assert count_draws(200, key=5) != count_draws(200, key=6)


def test_draws_do_not_depend_on_the_rank_of_a_token() -> None:
    """The end has a lower id than a and b, and a lower probability."""
    assert count_draws(200, top_k=3) == count_draws(200)


def draw_200(steps: Bigrams, prefix: Any = None) -> HypothesisTensors:
    draw = drawer(samples=200, uses_top_p=False)
    return numpy(draw(steps.state, make_constraints([3], prefix), ops.zeros(1, "uint32")))


def test_positions_are_drawn_independently() -> None:
    evenly = [0, 0, 0, 0.5, 0.5]
    hypotheses = draw_200(Bigrams(evenly, evenly, evenly))
    pairs = {tuple(tokens) for tokens in hypotheses.tokens[0, :, :2].tolist()}
    assert pairs == {(A, A), (A, B), (B, A), (B, B)}


def test_the_most_probable_sample_is_first() -> None:
    log_probs = draw_200(COIN).log_probs[0]
    assert (np.diff(log_probs) <= 0).all()
    assert log_probs[0] > log_probs[-1]


def test_samples_have_their_prefix_and_end_at_their_limit() -> None:
    hypotheses = draw_200(TALKATIVE, prefix=[[B, FREE, FREE]])
    for tokens, log_prob in zip(sequences(hypotheses), hypotheses.log_probs[0], strict=True):
        assert tokens[0] == B
        assert tokens[-1] == EOS
        expected = TALKATIVE.table[[BOS, *tokens[:-1]], tokens].sum()
        assert log_prob == pytest.approx(expected, rel=1e-5)
