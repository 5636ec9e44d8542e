"""The recurrent model equals a NumPy transcription of it, and keeps its invariants."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from conftest import RECURRENT
from keras import ops
from numpy.typing import NDArray
from test_recurrent_attention import part, read_by_hand
from test_recurrent_layers import automatically, run_by_hand, step_by_hand
from test_transformer import compiled, logits_and_gradients, randomised, stepper

from nmt.data.batches import InMemoryBatches
from nmt.data.encoded import EncodedCorpus
from nmt.data.ragged import RaggedIds
from nmt.inference.contract import BeamOptions
from nmt.inference.keras_engine import KerasEngine
from nmt.model import (
    input_feeding,
    recurrent,
    recurrent_attention,
    recurrent_layers,
    scores,
)
from nmt.model.contract import CROSS
from nmt.model.encoder_decoder import PAD
from nmt.model.recurrent import Recurrent
from nmt.model.sizes import RecurrentSizes
from nmt.runs.building import merge_adapters
from nmt.runs.resuming import compose_config
from nmt.training.backend import make_step
from nmt.training.defaults import resolve_config

pytestmark = pytest.mark.backend

Array = NDArray[Any]
Inputs = dict[str, Array]
Pair = tuple[list[int], list[int]]  # source, target as the decoder reads it

# Every option at least once, combined with options that it may interfere with.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "deep": {"cell": "lstm", "attention": "dot", "bridge": False}
    | {"encoder_layers": 2, "decoder_layers": 2},
    "apart": {"attention": "general", "input_feeding": False, "decoder_layers": 2},
    "heads": {"cell": "lstm", "attention": "cross", "num_heads": 2},
    "sums apart": {"cell": "lstm", "input_feeding": False, "bridge": False},
    "heads, deep": {"attention": "cross", "num_heads": 4, "decoder_layers": 2},
}
each_variant = pytest.mark.parametrize("variant", VARIANTS)

# Two rows of two pairs each; all tests share their shapes, for which JAX compiles once.
ROWS: list[list[Pair]] = [
    [([4, 5, 2], [1, 6]), ([8, 2], [1])],  # 5 of 6 source and 3 of 4 target positions
    [([9, 10], [1]), ([3, 7, 6, 2], [1, 5])],  # 6 of 6 and 3 of 4
]


def packed(rows: list[list[Pair]]) -> Inputs:
    """Return rows of pairs [B, 6] and [B, 4], and which segments their tokens belong to."""
    actual = {}
    for side, (name, length) in enumerate((("source", 6), ("target", 4))):
        ids, segments = (np.zeros((len(rows), length), np.int32) for _ in range(2))
        for row, pairs in enumerate(rows):
            at = 0
            for number, pair in enumerate(pairs, start=1):
                here = slice(at, at + len(pair[side]))
                ids[row, here], segments[row, here] = pair[side], number
                at = here.stop
        actual |= {name: ids, f"{name}_segments": segments}
    return actual


INPUTS = packed(ROWS)
SINGLE = packed([[([4, 5, 6, 7, 8, 9], [1, 7, 5, 9])], [([10, 3, 4, 2], [1, 4])]])


@cache
def made(changes: frozenset[tuple[str, Any]]) -> Recurrent:
    settings = RECURRENT | dict(changes)
    others = {key: settings.pop(key) for key in ("name", "dtype") if key in settings}
    return randomised(Recurrent(RecurrentSizes(**settings), **others))


def make(variant: str = "default", **changes: Any) -> Recurrent:
    """Return a model with random weights: the same one for the same changes, so do not alter it."""
    return made(frozenset((VARIANTS[variant] | changes).items()))


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function compiled once: loops are slow operation by operation."""
    if keras.config.backend() == "jax":
        return compiled(function)
    import tensorflow as tf

    return tf.function(function, autograph=False)


@cache
def forward(model: Recurrent) -> Callable[..., Any]:
    """Return a compiled forward pass of a model."""
    return traced(lambda inputs: model(inputs, return_attention=True))


def run(model: Recurrent, inputs: Inputs) -> tuple[Array, Array]:
    """Return logits and weights of attention."""
    logits, weights = forward(model)(inputs)
    assert list(weights) == [CROSS.name]
    assert len(weights[CROSS.name]) == 1
    return ops.convert_to_numpy(logits), ops.convert_to_numpy(weights[CROSS.name][0])


def key_of(number: int) -> Any:
    return ops.convert_to_tensor(number, "uint32")


# --- The transcription: one pair, token by token, in float64. -------------------------------------


def pair_by_hand(model: Recurrent, pair: Pair) -> tuple[Array, Array]:
    """Return the logits [T, V] and the weights of attention [H, T, S] of one pair."""
    sizes = model.sizes
    w = {
        name: np.float64(ops.convert_to_numpy(of_it))
        for name, of_it in model.named_weights().items()
    }
    table = w["embedding/table"]
    source, target = (table[ids] * np.sqrt(sizes.d_model) for ids in pair)
    states, segments = source, np.ones(len(source))
    for i in range(sizes.encoder_layers):
        sides = [
            run_by_hand(
                sizes.cell, part(w, f"encoder_{i}/{way}"), states, segments, reverse=reverse
            )
            for way, reverse in (("forwards", False), ("backwards", True))
        ]
        states = np.concatenate(sides, axis=-1)
    layers: list[tuple[Array, ...]] = []
    for i in range(sizes.decoder_layers):
        begin = np.zeros(sizes.state_width)
        if sizes.bridge:
            last = np.concatenate([sides[0][-1], sides[1][0]])
            begin = np.tanh(last @ w[f"bridge_{i}/kernel"] + w[f"bridge_{i}/bias"])
        layers.append((begin,) * (1 if sizes.cell == "gru" else 2))
    a, logits, weights = np.zeros(sizes.d_model), [], []
    for x in target:
        x = np.concatenate([x, a]) if sizes.input_feeding else x
        for i, before in enumerate(layers):
            layers[i] = step_by_hand(sizes.cell, part(w, f"decoder_{i}"), x, before)
            x = layers[i][0]
        a, expected_weights = read_by_hand(
            sizes.attention, part(w, "reading"), x, states, segments, sizes.num_heads
        )
        logits.append(table @ a)
        weights.append(expected_weights)
    return np.array(logits), np.array(weights).transpose(1, 0, 2)


@each_variant
def test_packed_rows_are_the_transcription_of_each_pair(variant: str) -> None:
    model = make(variant)
    logits, weights = run(model, INPUTS)
    assert logits.dtype == weights.dtype == np.float32
    for row, pairs in enumerate(ROWS):
        begin_source = begin_target = 0
        for pair in pairs:
            source, target = (
                slice(begin, begin + len(side))
                for begin, side in zip((begin_source, begin_target), pair, strict=True)
            )
            expected, expected_weights = pair_by_hand(model, pair)
            np.testing.assert_allclose(logits[row, target], expected, atol=2e-5)
            np.testing.assert_allclose(weights[row, :, target, source], expected_weights, atol=1e-5)
            begin_source, begin_target = source.stop, target.stop


# --- Invariants. ----------------------------------------------------------------------------------


@each_variant
def test_neighbours_in_a_row_do_not_know_of_each_other(variant: str) -> None:
    model = make(variant)
    logits, _ = run(model, INPUTS)
    for number in (1, 2):
        changed = {}
        for side in ("source", "target"):
            here = INPUTS[f"{side}_segments"] == number
            changed[side] = np.where(here, INPUTS[side] % 10 + 1, INPUTS[side])
        changed_logits, _ = run(model, INPUTS | changed)
        apart = np.abs(changed_logits - logits).max(-1)
        segments = INPUTS["target_segments"]
        assert (apart[segments == number] > 1e-3).all()
        assert (apart[segments == 3 - number] < 1e-6).all()


@each_variant
def test_attention_stays_within_its_segment(variant: str) -> None:
    _, weights = run(make(variant), INPUTS)
    target, source = INPUTS["target_segments"], INPUTS["source_segments"]
    same = (target[:, :, None] == source[:, None]) & (source[:, None] > 0)
    for head in range(weights.shape[1]):
        assert not weights[:, head][~same].any()
        np.testing.assert_allclose(weights[:, head].sum(-1), same.any(-1), atol=1e-6)


@each_variant
def test_padding_changes_nothing(variant: str) -> None:
    model = make(variant)
    filled = {
        side: np.where(INPUTS[f"{side}_segments"] == 0, 9, INPUTS[side])
        for side in ("source", "target")
    }
    logits, _ = run(model, INPUTS)
    changed_logits, _ = run(model, INPUTS | filled)
    assert np.isfinite(changed_logits).all()
    real = INPUTS["target_segments"] > 0
    np.testing.assert_allclose(changed_logits[real], logits[real], atol=1e-6)


def test_without_segments_a_row_is_one_pair_and_zeros_are_padding() -> None:
    model = make()
    plain = {side: SINGLE[side] for side in ("source", "target")}
    logits = ops.convert_to_numpy(compiled(model)(plain))
    expected, weights = run(model, SINGLE)
    np.testing.assert_allclose(logits, expected, atol=1e-6)
    assert (weights[1, :, :2, 4:] == 0).all()  # nobody attends to padding


@each_variant
def test_a_prediction_does_not_see_what_follows(variant: str) -> None:
    model = make(variant)
    logits, _ = run(model, SINGLE)
    for position in range(1, 4):
        target = SINGLE["target"].copy()
        target[:, position] = 3
        changed_logits, _ = run(model, SINGLE | {"target": target})
        np.testing.assert_allclose(changed_logits[:, :position], logits[:, :position], atol=1e-6)
        assert (np.abs(changed_logits - logits)[0, position:].max(-1) > 1e-4).all()


@each_variant
def test_every_source_token_reaches_every_prediction(variant: str) -> None:
    model = make(variant)
    logits, _ = run(model, SINGLE)
    for position in range(6):
        source = SINGLE["source"].copy()
        source[0, position] = 1
        changed_logits, _ = run(model, SINGLE | {"source": source})
        assert (np.abs(changed_logits - logits)[0].max(-1) > 1e-4).all()
        # The other sentence does not change.
        np.testing.assert_allclose(changed_logits[1], logits[1], atol=1e-6)


@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("default", {"dropout": 0.2, "attention_dropout": 0.2, "decoder_layers": 2}),
        ("deep", {"dropout": 0.2}),
        ("heads", {"attention_dropout": 0.2}),
    ],
)
def test_stated_gradients_are_the_automatic_ones(
    variant: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make(variant, **changes)
    probe = np.random.default_rng(5).standard_normal((2, 4, 11)).astype(np.float32)
    probe *= (INPUTS["target_segments"] > 0)[..., None]
    logits, stated = logits_and_gradients(model, INPUTS, probe, dropout_key=key_of(3))
    for module in (recurrent_layers, input_feeding, scores):
        monkeypatch.setattr(module, "call_with_gradient", automatically)
    same, automatic = logits_and_gradients(model, INPUTS, probe, dropout_key=key_of(3))
    np.testing.assert_allclose(logits, same, atol=1e-6)
    for name, left, right in zip(model.named_weights(), stated, automatic, strict=True):
        np.testing.assert_allclose(left, right, atol=2e-5, err_msg=name)
        # A bias on the keys moves all scores of a query alike.
        assert np.abs(right).max() > 1e-4 or name.endswith("key/bias"), name


class WithWeights:
    """A model that returns logits and weights of attention as one tensor [B, T, V + H S]."""

    def __init__(self, model: Recurrent) -> None:
        self.model, self.trainable_variables = model, model.trainable_variables

    def __call__(self, inputs: Inputs, **arguments: Any) -> Any:
        logits, weights = self.model(inputs, return_attention=True, **arguments)
        by_target = ops.transpose(weights[CROSS.name][0], (0, 2, 1, 3))
        return ops.concatenate([logits, ops.reshape(by_target, (*logits.shape[:2], -1))], axis=-1)


def test_weights_of_attention_have_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    dropout = {"dropout": 0.2, "attention_dropout": 0.2}
    model: Any = WithWeights(make("heads, deep", **dropout))
    probe = np.random.default_rng(5).standard_normal((2, 4, 11 + 4 * 6)).astype(np.float32)
    probe *= (INPUTS["target_segments"] > 0)[..., None]
    probe[..., :11] *= 0.1
    outputs, stated = logits_and_gradients(model, INPUTS, probe, dropout_key=key_of(3))
    for module in (recurrent_layers, input_feeding, scores):
        monkeypatch.setattr(module, "call_with_gradient", automatically)
    same, automatic = logits_and_gradients(model, INPUTS, probe, dropout_key=key_of(3))
    np.testing.assert_allclose(outputs, same, atol=1e-6)
    for name, left, right in zip(model.model.named_weights(), stated, automatic, strict=True):
        np.testing.assert_allclose(left, right, atol=2e-5, err_msg=name)


# --- Decoding. ------------------------------------------------------------------------------------


@each_variant
def test_hypotheses_that_change_places_keep_their_past(variant: str) -> None:
    """Step by step, two prefixes cross over and one splits: logits are those of whole prefixes."""
    model = make(variant)
    source = SINGLE["source"]
    tokens = np.array([[3, 4], [6, 7]], np.int32)  # [B, k], the same at every step
    parents = np.array([[[1, 0], [1, 1]], [[0, 0], [1, 0]], [[1, 0], [0, 1]]], np.int32)
    state = model.start(source, beam_size=2, max_length=3, track_coverage=True)
    prefixes = [[[int(token)] for token in row] for row in tokens]
    for index in range(4):
        logits, state = stepper(model)(tokens, ops.convert_to_tensor(index, "int32"), state)
        assert keras.backend.standardize_dtype(logits.dtype) == "float32"
        target = np.zeros((2, 2, 4), np.int32)  # [B, k, T]
        target[:, :, : index + 1] = prefixes
        for place in range(2):
            segments = (target[:, place] > 0).astype(np.int32)
            inputs = {"target": target[:, place], "target_segments": segments}
            full, weights = run(model, SINGLE | inputs)
            actual = ops.convert_to_numpy(logits)[:, place]
            np.testing.assert_allclose(actual, full[:, index], atol=1e-5)
            received = weights[:, :, : index + 1].mean(1).sum(1)  # [B, S]
            coverage, mask = model.coverage(state)
            np.testing.assert_allclose(
                ops.convert_to_numpy(coverage)[:, place], received, atol=1e-5
            )
            np.testing.assert_array_equal(ops.convert_to_numpy(mask)[:, 0], source != PAD)
        if index < 3:
            state = model.reorder(state, parents[index])
            prefixes = [
                [[*row[parent], int(token)] for parent, token in zip(chosen, news, strict=True)]
                for row, chosen, news in zip(prefixes, parents[index], tokens, strict=True)
            ]


@each_variant
def test_nothing_in_a_state_grows(variant: str) -> None:
    model = make(variant)
    state = model.start(SINGLE["source"], beam_size=3, max_length=2)
    assert int(model.capacity(state)) == model.max_length
    assert model.grow(state, 4) is state
    axes = keras.tree.flatten(model.growing_axes(state))
    assert axes == [-1] * len(keras.tree.flatten(state))
    assert all(tensor.shape[0] == 2 for tensor in keras.tree.flatten(state))
    # The memory belongs to the sentence, whatever the number of hypotheses.
    assert {tuple(tensor.shape[:3]) for tensor in keras.tree.flatten(state.memory)} == {
        (2, model.sizes.num_heads, 6)
    }
    assert isinstance(state.coverage, tuple)


@pytest.mark.parametrize(
    "variant",
    [pytest.param(name, marks=() if name == "heads" else pytest.mark.slow) for name in VARIANTS],
)
def test_the_score_of_a_search_is_that_of_its_output(variant: str) -> None:
    # With other weights than the rest: outputs of several lengths win.
    model = randomised(Recurrent(RecurrentSizes(**RECURRENT | VARIANTS[variant])), seed=4)
    engine = KerasEngine(model)
    sources = [np.array(ids, np.int32) for ids in ([4, 5, 6, 7], [8, 9, 10], [3], [5, 5])]
    limits = np.array([15, 5, 3, 12], np.int32)
    beam = BeamOptions(3, length_penalty=2.0, n_best=2)  # which outputs of few tokens do not win
    actual = engine.search(sources, limits, beam, np.zeros(0, np.int32))
    for place in range(2):
        outputs = [np.array(sentence[place].tokens[:-1], np.int32) for sentence in actual]
        for sentence, scored in zip(actual, engine.score(sources, outputs), strict=True):
            assert sentence[place].log_prob == pytest.approx(scored.sum(), abs=1e-4)
    # Some leave the batch before others.
    assert len({len(left.tokens) for sentence in actual for left in sentence}) > 1


# --- Training. ------------------------------------------------------------------------------------


def corpus(pairs: int, words: int, longest: int) -> EncodedCorpus:
    """Return sequences and their reversals."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(2, longest, size=pairs)
    source = [generator.integers(4, 4 + words, size=n, dtype=np.int32) for n in lengths]
    return EncodedCorpus(RaggedIds.of(source), RaggedIds.of([ids[::-1] for ids in source]))


def training(*overrides: str) -> Any:
    plain = ["model=tiny", "training.jit_compile=off", "training.parallel_parts=1"]
    return resolve_config(compose_config([*plain, *overrides]), pairs=40).training


def test_repeated_steps_lower_the_loss() -> None:
    rows = InMemoryBatches(corpus(20, 7, 5), row_lengths=[8], positions=16, seed=1)
    model = randomised(Recurrent(RecurrentSizes(**RECURRENT | {"dropout": 0.1}), name="recurrent"))
    step = make_step(model, training("training.clip_norm=1"), seed=1)
    batch = rows.batch(0)
    assert batch["source_segments"].max() > 1
    first = step.update(batch, 1e-2, 1)
    for number in range(2, 30):
        last = step.update(batch, 1e-2, number)
    assert float(last.nll) < 0.7 * float(first.nll)


@pytest.mark.slow
@each_variant
def test_digits_are_learnt_backwards(variant: str) -> None:
    rows = InMemoryBatches(corpus(8000, 10, 9), row_lengths=[32], positions=1024, seed=1)
    sizes = {"vocabulary_size": 14, "d_model": 32, "state_width": 64, "dropout": 0.1}
    keras.utils.set_random_seed(1)
    model = Recurrent(RecurrentSizes(**RECURRENT | VARIANTS[variant] | sizes), name="recurrent")
    step = make_step(model, training("training.jit_compile=on"), seed=1)
    for number in range(1, 801):
        step.update(rows.batch(number), 3e-3 * min(1, number / 100), number)
    generator = np.random.default_rng(9)
    unseen = [generator.integers(4, 14, size=n, dtype=np.int32) for n in [3, 5, 7, 8] * 25]
    limits = np.array([len(ids) + 3 for ids in unseen], np.int32)
    with step.use_averages():
        engine = KerasEngine(model)
        actual = engine.search(
            unseen, limits, BeamOptions(4, length_penalty=0.6), np.zeros(0, np.int32)
        )
    right = [
        list(sentence[0].tokens[:-1]) == ids[::-1].tolist()
        for sentence, ids in zip(actual, unseen, strict=True)
    ]
    assert np.mean(right) >= 0.99


# --- Dropout and precision. -----------------------------------------------------------------------

DROPPING = {"dropout": 0.3, "attention_dropout": 0.3}


def test_dropout_is_a_function_of_its_key() -> None:
    model = make(**DROPPING)
    keyed = compiled(lambda key: model(INPUTS, dropout_key=key))
    left, same, right = (ops.convert_to_numpy(keyed(key_of(number))) for number in (1, 1, 2))
    np.testing.assert_array_equal(left, same)
    assert np.abs(left - right).max() > 1e-2
    # Without a key there is no dropout, whatever the rates.
    logits = ops.convert_to_numpy(compiled(model)(INPUTS))
    np.testing.assert_allclose(logits, run(make(), INPUTS)[0], atol=1e-6)
    assert np.abs(left - logits).max() > 1e-2


@pytest.mark.parametrize(("variant", "places"), [("deep", 6), ("apart", 5)])
def test_dropout_has_its_places(variant: str, places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On both embeddings, between layers, on attention weights and on attentional states.

    Each has a key of its own, and what it zeroes is felt.
    """
    actual: list[Any] = []

    def zero_one(x: Any, rate: float, key: Any, *, chosen: Any, **_: Any) -> Any:
        if key is None or not rate:
            return x
        actual.append(key)
        return ops.where(ops.equal(key, chosen), ops.zeros_like(x), x)

    model = make(variant, **DROPPING)

    def run_without(chosen: Any) -> Any:
        actual.clear()
        for module in (recurrent, recurrent_attention):
            monkeypatch.setattr(module, "dropout", functools.partial(zero_one, chosen=chosen))
        return model(INPUTS, dropout_key=key_of(3)), tuple(actual)

    run_one = traced(run_without)
    logits, keys = run_one(key_of(0))  # which is the key of none
    chosen = {int(ops.convert_to_numpy(key)) for key in keys}
    assert len(chosen) == len(keys) == places
    real = INPUTS["target_segments"] > 0
    for key in chosen:
        apart = np.abs(ops.convert_to_numpy(run_one(key_of(key))[0] - logits))
        assert (apart.max(-1)[real] > 1e-3).all()


def test_mixed_precision() -> None:
    """Weights and logits are float32; logits agree with float32 to the digits of the narrow type.

    One rounding is off by 2^-8 of a value; most of them are off either way.
    """
    model, exact = make("heads", dtype="mixed_bfloat16"), make("heads")
    assert {weight.dtype for weight in model.weights} == {"float32"}
    assert model.compute_dtype == "bfloat16"
    actual, gradients = logits_and_gradients(model, INPUTS, np.ones((2, 4, 11), np.float32))
    expected, exact_gradients = logits_and_gradients(exact, INPUTS, np.ones((2, 4, 11), np.float32))
    assert actual.dtype == np.float32
    real = INPUTS["target_segments"] > 0
    np.testing.assert_allclose(actual[real], expected[real], atol=4 / 256)
    for left, right in zip(gradients, exact_gradients, strict=True):
        np.testing.assert_allclose(left, right, atol=8 / 256 * (1 + np.abs(right).max()))
    state = model.start(SINGLE["source"], beam_size=2, max_length=3)
    tokens, index = np.ones((2, 2), np.int32), ops.convert_to_tensor(0, "int32")
    logits, after = stepper(model)(tokens, index, state)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    before, now = (
        [x.dtype for x in keras.tree.flatten(expected_weights)]
        for expected_weights in (state, after)
    )
    assert before == now


# --- The contract of a model. ---------------------------------------------------------------------


def test_what_it_says_of_itself() -> None:
    model = make("heads")
    assert model.attention_kinds == (CROSS,)
    (layer,) = model.attention_layers(CROSS.name)
    assert layer.num_heads == 2
    with pytest.raises(KeyError):
        model.attention_layers("encoder")
    assert (model.vocabulary_size, model.max_length) == (11, 16)
    assert model.token_table().shape == (11, 6)
    assert model.position_table() is None
    assert model.distance_profiles(5) == {}
    names = model.named_weights()
    assert len(names) == len(model.weights)
    assert {"embedding/table", "encoder_0/backwards/recurrent/kernel", "bridge_0/bias"} <= {*names}
    assert {"decoder_0/inputs/kernel", "reading/combine/kernel"} <= {*names}
    assert list(make("heads", name="another").named_weights()) == list(names)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "rnn"}, "cell must be one of 'gru', 'lstm', got 'rnn'"),
        ({"attention": "luong"}, "attention must be one of .*, got 'luong'"),
        ({"state_width": 7}, "state_width must be even and at least 2, got 7"),
        ({"state_width": 0}, "state_width must be even and at least 2, got 0"),
        ({"num_heads": 2}, "attention='additive' needs num_heads=1, got 2"),
        ({"attention": "cross", "num_heads": 3}, "state_width=8 is not divisible by num_heads=3"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RecurrentSizes(**RECURRENT | changes)


@pytest.mark.parametrize("variant", ["default", "deep", "heads"])
def test_a_saved_model_is_the_model(variant: str, tmp_path: Path) -> None:
    model = make(variant, name="mine")
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is Recurrent
    assert again.get_config() == model.get_config()
    assert (again.name, again.sizes) == ("mine", model.sizes)
    assert list(again.named_weights()) == list(model.named_weights())
    for left, right in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(left, right)


def test_configuration_rebuilds_the_model() -> None:
    model = make("deep", dtype="mixed_bfloat16", name="mine", **DROPPING)
    config = model.get_config()
    again = Recurrent.from_config(config)
    assert again.get_config() == config
    assert (again.name, again.dtype_policy.name) == ("mine", "mixed_bfloat16")
    assert [w.shape for w in again.weights] == [w.shape for w in model.weights]


@each_variant
def test_adapters_are_part_of_every_product(variant: str) -> None:
    """Also of those that a cell or attention computes from kernels, without the layer."""
    sizes = RecurrentSizes(**(RECURRENT | VARIANTS[variant]))
    model = randomised(Recurrent(sizes))
    before = {name: np.array(weight) for name, weight in model.named_weights().items()}
    model.add_adapters(2, ["*"])
    rng = np.random.default_rng(0)
    for weight in model.trained_weights().values():
        weight.assign(rng.standard_normal(weight.shape) * 0.3)
    merged = merge_adapters({name: np.array(w) for name, w in model.named_weights().items()})
    adapted, _ = run(model, INPUTS)
    outputs = []
    for weights in (before, merged):
        plain = randomised(Recurrent(sizes))
        for name, weight in plain.named_weights().items():
            weight.assign(weights[name])
        outputs.append(run(plain, INPUTS)[0])
    assert np.abs(adapted - outputs[0]).max() > 0.05
    np.testing.assert_allclose(outputs[1], adapted, atol=2e-5)
