"""What greedy and beam search share: limits, prefixes, batches; and searches over a tiny model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import Any

import keras
import numpy as np
import pytest
from conftest import transformer
from keras import ops
from search_steps import (
    BOS,
    EOS,
    PAD,
    ROOM,
    SENTENCES,
    A,
    B,
    Bigrams,
    Histories,
    numpy,
    penalty,
    run_beam,
    run_greedy,
    sequences,
)

from nmt.inference.beam_search import BeamSearch
from nmt.inference.compiled import compile_with_weights
from nmt.inference.contract import FREE, SearchParameters
from nmt.inference.greedy import Greedy
from nmt.inference.search import (
    IMPOSSIBLE,
    Constraints,
    HypothesisTensors,
    is_possible,
    run,
    top_k,
)
from nmt.model.transformer import Transformer

pytestmark = pytest.mark.backend


class Exhausted(Bigrams):
    """After three tokens all logits are NaN: a search that continues fails."""

    @staticmethod
    def step(tokens: Any, index: Any, state: Any) -> tuple[Any, Any]:
        logits, state = Bigrams.step(tokens, index, state)
        return ops.where(index < 3, logits, float("nan")), state


def test_max_length_is_room_and_no_limit() -> None:
    steps = Histories(seed=6)
    limits, state = [ROOM, 4] * 10, steps.state(SENTENCES, 5)
    tight, roomy = (
        run_beam(steps, state, limits, beam_size=5, alpha=0.6, reorder=steps.reorder, length=length)
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


def test_search_stops_when_nothing_better_can_come() -> None:
    """The end is nearly certain everywhere: after two steps both of k = 2 have ended."""
    sure = [0, 0, 0.98, 0.012, 0.008]
    steps = Exhausted(sure, sure, sure)
    hypotheses = run_beam(steps, steps.state, [30], beam_size=2, length=30)
    assert sequences(hypotheses) == [[EOS], [A, EOS]]
    np.testing.assert_allclose(hypotheses.scores, [np.log([0.98, 0.012 * 0.98])], rtol=1e-4)
    greedy = run_greedy(steps, steps.state, [30], length=30)
    assert sequences(greedy) == [[EOS]]
    np.testing.assert_allclose(greedy.scores, [[math.log(0.98)]], rtol=1e-4)


def test_sentences_of_a_batch_do_not_influence_each_other() -> None:
    """Limits differ: one sentence is finished for long while the other still grows."""
    steps = Histories(seed=9, ending=0.5)
    limits, reorder = [9, 2] * 10, steps.reorder
    batch = run_beam(
        steps, steps.state(SENTENCES, 5), limits, beam_size=5, alpha=0.6, reorder=reorder
    )
    greedy_batch = run_greedy(steps, steps.state(SENTENCES, 1), limits)
    for row in (5, 6):
        sentence, limit = SENTENCES[row], limits[row]
        single = run_beam(
            steps, steps.state([sentence], 5), [limit], beam_size=5, alpha=0.6, reorder=reorder
        )
        np.testing.assert_array_equal(batch.tokens[row], single.tokens[0])
        np.testing.assert_allclose(batch.scores[row], single.scores[0], rtol=1e-6)
        assert is_possible(single.scores).sum() == (5 if limit > 2 else 4)  # no others exist
        greedy_single = run_greedy(steps, steps.state([sentence], 1), [limit])
        np.testing.assert_array_equal(greedy_batch.tokens[row], greedy_single.tokens[0])
        np.testing.assert_allclose(
            greedy_batch.log_probs[row], greedy_single.log_probs[0], rtol=1e-6
        )


@pytest.mark.parametrize("beam_size", [0, 2])
def test_lengths_count_every_token_up_to_eos(beam_size: int) -> None:
    """A model may choose any id, even 0; hypotheses are cut by their lengths."""
    steps = Bigrams(
        after_bos=[0, 0, 0, 1, 0],
        after_a=[0.9, 0, 0.1, 0, 0],
        after_b=[0, 0, 1, 0, 0],
    )
    hypotheses = (
        run_beam(steps, steps.state, [5], beam_size=beam_size)
        if beam_size
        else run_greedy(steps, steps.state, [5])
    )
    for n, score in enumerate(hypotheses.scores[0]):
        if is_possible(score):
            length = hypotheses.lengths[0, n]
            assert hypotheses.tokens[0, n, length - 1] == EOS
            assert (hypotheses.tokens[0, n, : length - 1] != EOS).all()


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_beam_of_one_is_greedy_where_only_the_limit_ends(alpha: float) -> None:
    """Elsewhere it is better: it remembers endings that were the second choice (`OVERTAKING`)."""
    steps = Histories(seed=7, ending=-20.0)
    limits, state = [5, 1, 8, 3] * 5, steps.state(SENTENCES, 1)
    beam = run_beam(steps, state, limits, beam_size=1, alpha=alpha, reorder=steps.reorder)
    plain = run_greedy(steps, state, limits)
    np.testing.assert_array_equal(beam.tokens, plain.tokens)
    np.testing.assert_array_equal(beam.lengths, plain.lengths)
    np.testing.assert_allclose(beam.log_probs, plain.log_probs, rtol=1e-6)
    assert beam.lengths[:, 0].tolist() == limits


def test_a_beam_of_one_is_never_worse_than_greedy() -> None:
    steps = Histories(seed=8)
    limits, state = [8] * 20, steps.state(SENTENCES, 1)
    beam = run_beam(steps, state, limits, beam_size=1, reorder=steps.reorder)
    plain = run_greedy(steps, state, limits)
    assert (beam.log_probs >= plain.log_probs - 1e-5).all()
    equal = (beam.tokens == plain.tokens).all(-1)
    assert equal.sum() >= 5


def test_what_is_never_put_out_leaves_room_for_the_rest() -> None:
    """BOS is the most probable token everywhere; scores are still the model's own."""
    steps = Bigrams(
        after_bos=[0.05, 0.5, 0.05, 0.3, 0.1],
        after_a=[0.05, 0.6, 0.25, 0.05, 0.05],
        after_b=[0.05, 0.6, 0.25, 0.05, 0.05],
    )
    expected = math.log(0.3 * 0.25)
    hypotheses = run_greedy(steps, steps.state, [4], suppressed=(PAD, BOS))
    assert sequences(hypotheses) == [[A, EOS]]
    assert hypotheses.log_probs[0, 0] == pytest.approx(expected, rel=1e-5)
    hypotheses = run_beam(steps, steps.state, [4], beam_size=2, suppressed=(PAD, BOS))
    assert sequences(hypotheses) == [[A, EOS], [EOS]]
    assert hypotheses.log_probs[0, 0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("beam_size", [0, 1, 5])
def test_prefixes_are_taken_and_cost_what_they_cost(beam_size: int) -> None:
    """Each sentence has a prefix of its own length; the best of all that begin with it is found."""
    steps = Histories(seed=4)
    prefixes = [[B, A, FREE], [A, FREE, FREE], [FREE, FREE, FREE], [B, B, B]] * 5
    limits, state = [6] * 20, steps.state(SENTENCES, max(1, beam_size))
    if beam_size:
        hypotheses = run_beam(
            steps, state, limits, beam_size=beam_size, reorder=steps.reorder, prefix=prefixes
        )
    else:
        hypotheses = run_greedy(steps, state, limits, prefix=prefixes)
    for row, (sentence, prefix) in enumerate(zip(SENTENCES, prefixes, strict=True)):
        forced = [token for token in prefix if token != FREE]
        listed = sequences(hypotheses, row)
        assert len(listed) == max(1, beam_size)
        for tokens, log_prob in zip(listed, hypotheses.log_probs[row], strict=True):
            assert tokens[: len(forced)] == forced
            assert log_prob == pytest.approx(steps.log_prob(sentence, tokens), rel=1e-5)


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
        best, indices = (np.asarray(part) for part in top_k(ops.convert_to_tensor(values), count))
        assert best.shape == indices.shape == (2, 3, count)
        assert indices.dtype == np.int32
        np.testing.assert_array_equal(best, -np.sort(-values, axis=-1)[..., :count])
        np.testing.assert_array_equal(np.take_along_axis(values, indices, axis=-1), best)
        assert all(len(set(row.tolist())) == count for row in indices.reshape(-1, count))


@pytest.mark.parametrize("length", [1024, 1057])
def test_as_many_are_found_as_there_are_groups_and_more(length: int) -> None:
    values = np.random.default_rng(length).normal(size=(2, length)).astype(np.float32)
    groups = -(-length // 32)
    for count in (groups - 1, groups, groups + 1, length):
        best, indices = (np.asarray(part) for part in top_k(ops.convert_to_tensor(values), count))
        np.testing.assert_array_equal(indices, np.argsort(-values, axis=-1)[:, :count])
        np.testing.assert_array_equal(best, np.take_along_axis(values, indices, axis=-1))


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
    ids = ops.arange(ops.shape(logits)[-1], dtype="int32")
    return ops.where(ids > 0, logits, IMPOSSIBLE)


def search(source: Any, limits: Any, beam_size: int, length: Any = LENGTH) -> Any:
    """Search with the model: greedily where ``beam_size`` is 0."""
    model = tiny()

    def step(tokens: Any, index: Any, state: Any) -> tuple[Any, Any]:
        logits, state = model.step(tokens, index, state)
        return without_padding(logits), state

    state = model.start(source, beam_size=max(1, beam_size), max_length=length)
    marks: dict[str, Any] = {"step": step, "bos": BOS, "eos": EOS}
    algorithm = (
        BeamSearch(reorder=model.reorder, beam_size=beam_size, ended_size=beam_size, **marks)
        if beam_size
        else Greedy(**marks)
    )
    free = ops.full((ops.shape(limits)[0], 1), FREE, "int32")
    parameters = SearchParameters(length_penalty=0.6, n_best=max(1, beam_size))
    return tuple(run(algorithm, state, Constraints(limits, free, parameters), max_length=length))


@cache
def compiled_search(beam_size: int) -> Callable[..., HypothesisTensors]:
    """Return a search; the greedy one takes its room as the engine gives it on JAX: as a length."""

    def greedy(source: Any, limits: Any, room: Any) -> Any:
        return search(source, limits, 0, ops.shape(room)[0])

    def beam(source: Any, limits: Any) -> Any:
        return search(source, limits, beam_size)

    if beam_size:
        fast = compile_with_weights(tiny(), beam, (2, 1))
        return lambda source, limits: HypothesisTensors(*fast(source, limits))
    with_room = compile_with_weights(tiny(), greedy, (2, 1, 1))
    return lambda source, limits: HypothesisTensors(*with_room(source, limits, np.arange(LENGTH)))


@pytest.mark.parametrize("beam_size", [0, WIDTH])
def test_scores_are_teacher_forced_log_probabilities(beam_size: int) -> None:
    lengths = set()
    for seed in (1, 2):  # two models, one of which ends early
        model = change(seed)
        hypotheses = compiled_search(beam_size)(SOURCE, LIMITS)
        for n in range(hypotheses.tokens.shape[1]):
            chosen = hypotheses.tokens[:, n]  # [B, T]
            # After EOS both are padding.
            target_in = np.concatenate([np.full((len(SOURCE), 1), BOS), chosen[:, :-1]], axis=1)
            target_in[target_in == EOS] = PAD
            logits = model({"source": SOURCE, "target": target_in.astype(np.int32)})
            log_probs = ops.convert_to_numpy(ops.log_softmax(without_padding(logits)))
            chosen_log_probs = np.take_along_axis(log_probs, chosen[..., None], -1)[..., 0]
            for row, length in enumerate(hypotheses.lengths[:, n]):
                assert chosen[row, length - 1] == EOS
                expected = chosen_log_probs[row, :length].sum()
                assert hypotheses.log_probs[row, n] == pytest.approx(expected, abs=1e-4)
                divisor = penalty(length, 0.6) if beam_size else 1.0
                assert hypotheses.scores[row, n] == pytest.approx(expected / divisor, abs=1e-4)
                lengths.add(int(length))
    assert len(lengths) > 1


@pytest.mark.parametrize("beam_size", [0, WIDTH])
def test_compiled_search_equals_eager_and_sees_new_weights(beam_size: int) -> None:
    fast = compiled_search(beam_size)
    change(2)
    before = fast(SOURCE, LIMITS)
    assert all(isinstance(part, np.ndarray) for part in before)
    change(3)
    source, limits = ops.convert_to_tensor(SOURCE), ops.convert_to_tensor(LIMITS)
    slow, after = numpy(HypothesisTensors(*search(source, limits, beam_size))), fast(SOURCE, LIMITS)
    np.testing.assert_array_equal(after.tokens, slow.tokens)
    np.testing.assert_array_equal(after.lengths, slow.lengths)
    np.testing.assert_allclose(after.log_probs, slow.log_probs, atol=1e-4)
    np.testing.assert_allclose(after.scores, slow.scores, atol=1e-4)
    assert (before.tokens != after.tokens).any()
    if keras.config.backend() == "tensorflow":  # one trace for all shapes
        narrower = fast(SOURCE[1:, :3], LIMITS[1:])
        np.testing.assert_array_equal(narrower.tokens[0], after.tokens[1])


def test_the_default_float_type_of_keras_changes_no_search() -> None:
    change(2)
    expected = compiled_search(WIDTH)(SOURCE, LIMITS)
    keras.config.set_floatx("float16")
    try:
        outputs = compiled_search.__wrapped__(WIDTH)(SOURCE, LIMITS)  # compiled anew
    finally:
        keras.config.set_floatx("float32")
    np.testing.assert_array_equal(outputs.tokens, expected.tokens)


def test_functions_of_several_models_are_compiled_without_warnings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def add(number: int) -> Callable[..., Any]:
        return compile_with_weights(tiny(), lambda ids: ids + number, (1,))

    with caplog.at_level("WARNING", "tensorflow"):
        assert [add(number)([1])[0] for number in range(6)] == [1, 2, 3, 4, 5, 6]
    assert "retracing" not in caplog.text


def test_several_threads_trace_a_function_once() -> None:
    threads = 4
    begin = Barrier(threads)
    traces = []

    def add(ids: Any) -> Any:
        traces.append(ids)
        time.sleep(0.1)  # in which the other threads call it
        return ids + 1

    fast = compile_with_weights(tiny(), add, (1,))

    def call(number: int) -> int:
        begin.wait()
        return int(fast([number])[0])

    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(call, range(threads))) == [1, 2, 3, 4]
    assert len(traces) == 1


def test_any_function_of_the_model_is_compiled_for_any_shape() -> None:
    model = change(5)
    target = np.array([[1, 4, 5, 3, PAD, PAD], [1, 6, 7, 9, 3, 4]], np.int32)

    def scale(source: Any, target: Any, scale: Any) -> Any:
        return {"out": model({"source": source, "target": target}) * scale}

    fast = compile_with_weights(model, scale, (2, 2), floats=1)
    expected = ops.convert_to_numpy(model({"source": SOURCE, "target": target}))
    outputs = fast(SOURCE.astype(np.int64), target, 0.5)  # other integers are cast
    assert list(outputs) == ["out"]
    np.testing.assert_allclose(outputs["out"], 0.5 * expected, atol=1e-5)
    assert keras.backend.standardize_dtype(outputs["out"].dtype) == "float32"
    narrower = fast(SOURCE[1:, :3], target[1:], 1)
    np.testing.assert_allclose(narrower["out"], expected[1:], atol=1e-5)
