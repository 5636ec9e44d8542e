"""The compiled update: accumulation, clipping, averaging, precision, replicas."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
from sample_configs import configured

from nmt.data.batches import InMemoryBatches
from nmt.data.encoded import EncodedCorpus
from nmt.data.ragged import RaggedIds
from nmt.errors import UserError
from nmt.model.contract import Model
from nmt.runs.building import build_model
from nmt.training.backend import make_step
from nmt.training.defaults import resolve_config
from nmt.training.optimizer import EMA_WARMUP
from nmt.training.process_group import ProcessGroup
from nmt.training.train_step import TrainStep, count_parallel_parts, select_local_rows

pytestmark = pytest.mark.xdist_group("steps")  # they share what is traced

VOCABULARY = 40
DROPOUT = ("model.dropout=0.1", "model.attention_dropout=0.1", "model.ffn_dropout=0.1")
DROPPING = (*DROPOUT, "training.word_dropout=0.2")
# Accumulates, averages, and clips what it has summed up.
AVERAGING = ("training.accumulate=2", "training.ema_decay=0.5", "training.clip_norm=0.1")
RESTORED = ("model.dropout=0.2", "training.ema_decay=0.9")
MUON = ("training.optimizer=muon",)
FLOAT16 = ("training.precision=mixed_float16", "training.ema_decay=0.5")

Make = Callable[..., tuple[Model, TrainStep]]


def corpus(pairs: int = 40, seed: int = 0) -> EncodedCorpus:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 8, size=(2, pairs))
    sides = [
        RaggedIds.of([generator.integers(4, VOCABULARY, size=n, dtype=np.int32) for n in side])
        for side in lengths
    ]
    return EncodedCorpus(*sides)


def batches(tokens: int = 64) -> InMemoryBatches:
    return InMemoryBatches(corpus(), row_lengths=[16], positions=tokens, seed=3)


def wide_batches() -> InMemoryBatches:
    """Return batches of eight rows: of two micro-batches, or of several parts."""
    planned = batches(tokens=128)
    assert planned.shapes == [(8, 16)]
    return planned


def fresh(*overrides: str) -> tuple[Model, TrainStep]:
    """Make a model and its step, with nothing turned on that is not asked for.

    The model begins with the same weights every time.
    """
    plain = ("model=tiny", "training.clip_norm=null", "training.label_smoothing=0")
    plain += ("training.ema_decay=null", "training.jit_compile=off", "training.parallel_parts=1")
    config = resolve_config(configured(*plain, *overrides), pairs=40)
    keras.utils.set_random_seed(7)
    model = build_model(config, VOCABULARY, precision=config.training.precision)
    return model, make_step(model, config.training, seed=1)


@pytest.fixture(scope="module")
def make() -> Make:
    """Make a model and its step as `fresh` does, or take those that were made and traced before.

    They are put back to where they began: no two of the same overrides at the same time.
    """

    @cache
    def build(*overrides: str) -> tuple[Model, TrainStep, dict[str, np.ndarray]]:
        model, step = fresh(*overrides)
        return model, step, step.state()

    def again(*overrides: str) -> tuple[Model, TrainStep]:
        model, step, state = build(*overrides)
        step.restore(state)
        return model, step

    return again


def weights(step: TrainStep) -> dict[str, np.ndarray]:
    return {name: array for name, array in step.state().items() if name.startswith("model/")}


def learn(step: TrainStep) -> np.ndarray:
    """Make four updates; return their losses, and one of evaluation."""
    planned = wide_batches()
    updates = [step.update(planned.batch(number), 1e-3, number) for number in range(1, 5)]
    return np.array(
        [float(update.nll) for update in updates] + [*step.evaluate(batches().batch(0))]
    )


@pytest.mark.backend
def test_the_loss_falls_and_counts_real_tokens(make: Make) -> None:
    _, step = make()
    planned = batches()
    batch = planned.batch(0)
    first = step.update(batch, 1e-2, 1)
    assert float(first.tokens) == np.count_nonzero(batch["target_segments"])
    for number in range(2, 30):
        last = step.update(batch, 1e-2, number)
    assert float(last.nll) < 0.5 * float(first.nll)


@pytest.mark.backend
def test_evaluation_is_the_unsmoothed_loss_without_dropout(make: Make) -> None:
    model, step = make("model.dropout=0.5", "training.label_smoothing=0.3")
    batch = batches().batch(0)
    nll, tokens = step.evaluate(batch)
    logits = np.asarray(model({name: np.asarray(array) for name, array in batch.items()}))
    logits = logits.astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    counted = batch["target_segments"] > 0
    picked = np.take_along_axis(log_probs, batch["labels"][..., None], -1)[..., 0]
    assert nll == pytest.approx(-picked[counted].sum(), rel=1e-5)
    assert tokens == counted.sum()


@pytest.mark.backend
@pytest.mark.parametrize(
    ("overrides", "tokens"),
    [(AVERAGING, 7 * 16), ((*AVERAGING, "training.parallel_parts=4"), 8 * 16)],
)
def test_micro_batches_and_parts_make_the_update_of_the_whole_batch(
    make: Make, overrides: tuple[str, ...], tokens: int
) -> None:
    """Of the same rows and masks; where they cannot share seven rows, there is an empty one."""
    planned = batches(tokens)
    clipped = [override for override in overrides if "clip_norm" in override]
    _, whole = make(*clipped, *DROPPING)
    _, split = make(*overrides, *DROPPING)
    for number in range(1, 4):
        batch = planned.batch(number)
        expected, update = whole.update(batch, 1e-3, number), split.update(batch, 1e-3, number)
        assert float(update.nll) == pytest.approx(float(expected.nll), rel=1e-5)
        norm = float(expected.gradient_norm)
        assert float(update.gradient_norm) == pytest.approx(norm, rel=1e-4)
    split_weights = weights(split)
    for name, array in weights(whole).items():
        # A bias on the keys moves all scores of a query alike: its gradient is rounding noise,
        # which Adam blows up to whole steps. So it does with single other gradients near zero.
        if not name.endswith("key/bias"):
            apart = np.abs(split_weights[name] - array)
            assert np.mean(apart > 1e-4) < 1e-3, name
            assert apart.max() < 1e-3, name  # one update


@pytest.mark.parametrize(
    ("parts", "rows", "accumulate", "expected"),
    [
        *((1, 8, 1, 1), (2, 8, 1, 2), (3, 8, 1, 2), (4, 8, 2, 4), (3, 8, 2, 2)),
        *((8, 6, 1, 6), (8, 7, 1, 7), (4, 7, 1, 1), (8, 1, 1, 1), (2, 8, 8, 1)),
    ],
)
def test_parts_are_as_many_as_divide_the_rows(
    parts: int, rows: int, accumulate: int, expected: int
) -> None:
    training = configured("model=tiny").training
    config = replace(training, parallel_parts=parts, accumulate=accumulate)
    assert count_parallel_parts(config, rows) == expected


@pytest.mark.long
@pytest.mark.backend
def test_dropout_warms_up_without_another_compilation(make: Make) -> None:
    """At a share of 0 the update is that of no dropout; at 1 that of the full rate."""
    batch = batches().batch(0)
    losses = {}
    for rate in (0.0, 0.4):
        _, step = make(*([f"model.dropout={rate}"] if rate else []))
        for share in (0.0, 0.5, 1.0):  # at a rate of 0 no update moves the weights
            losses[rate, share] = float(step.update(batch, 0.0, 1, share).nll)
    assert losses[0.0, 1.0] == losses[0.0, 0.0]
    assert losses[0.4, 0.0] == pytest.approx(losses[0.0, 0.0], rel=1e-6)
    assert abs(losses[0.4, 0.5] - losses[0.4, 0.0]) > 1e-3
    assert abs(losses[0.4, 1.0] - losses[0.4, 0.5]) > 1e-3
    _, half = make(*RESTORED)
    assert losses[0.4, 0.5] == pytest.approx(float(half.update(batch, 0.0, 1).nll), rel=1e-4)


@pytest.mark.backend
def test_words_are_unknown_in_training_alone(make: Make) -> None:
    batch = batches().batch(0)
    (_, plain), (_, hidden) = make(), make("training.word_dropout=0.5")
    evaluated = plain.evaluate(batch)[0]
    assert hidden.evaluate(batch)[0] == evaluated
    assert float(plain.update(batch, 0.0, 1).nll) == pytest.approx(evaluated, rel=1e-5)
    losses = {float(hidden.update(batch, 0.0, number).nll) for number in (1, 2)}
    assert len(losses) == 2  # other words at every update
    assert all(abs(loss - evaluated) > 1e-3 for loss in losses)


def test_the_gradient_norm_is_of_the_mean_per_token(make: Make) -> None:
    import tensorflow as tf

    model, step = make()
    # A batch of another shape before it must leave nothing behind.
    step.update(wide_batches().batch(0), 0.0, 1)
    batch = batches().batch(0)
    with tf.GradientTape() as tape:
        logits = model({name: tf.constant(array) for name, array in batch.items()})
        counted = tf.constant(batch["target_segments"] > 0, tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits)
        mean = tf.reduce_sum(nll * counted) / tf.reduce_sum(counted)
    gradients = tape.gradient(mean, [weight.value for weight in model.trainable_variables])
    expected = float(tf.linalg.global_norm([tf.convert_to_tensor(g) for g in gradients]))
    assert float(step.update(batch, 0.0, 1).gradient_norm) == pytest.approx(expected, rel=1e-4)


@pytest.mark.backend
def test_weights_of_pairs_scale_the_gradient_and_not_the_reported_loss(make: Make) -> None:
    _, step = make()
    batch = batches().batch(0)
    plain = step.update(batch, 0.0, 1)
    weighted = step.update(
        batch | {"weights": np.full(batch["labels"].shape, 2, np.float32)}, 0.0, 1
    )
    assert float(weighted.nll) == pytest.approx(float(plain.nll), rel=1e-5)
    assert float(weighted.gradient_norm) == pytest.approx(2 * float(plain.gradient_norm), rel=1e-4)


@pytest.mark.backend
def test_clipping_scales_the_gradient_to_its_limit(make: Make) -> None:
    # With betas of 0 and a huge epsilon, Adam's update is rate * gradient / epsilon.
    plain = ["training.beta_1=0", "training.beta_2=0", "training.epsilon=1e6"]
    batch = batches().batch(0)
    lonely = batch | {name: batch[name].copy() for name in ("labels", "target_segments")}
    lonely["target_segments"][1:] = 0  # fewer tokens to take the mean of: a longer gradient
    lonely["target_segments"][:, 2:] = 0
    _, step = make()
    short, long = (float(step.update(rows, 0.0, 1).gradient_norm) for rows in (batch, lonely))
    limit = round((short + long) / 2, 2)
    assert 1.2 * short < limit < long / 1.2
    overrides = (*plain, f"training.clip_norm={limit}")
    for rows, expected in ((batch, short), (lonely, limit)):
        _, step = make(*overrides)
        before = weights(step)
        norm = float(step.update(rows, 1e6, 1).gradient_norm)
        assert norm == pytest.approx(short if rows is batch else long, rel=1e-4)
        after = weights(step)
        squares = sum(((after[name] - before[name]) ** 2).sum() for name in after)
        assert float(np.sqrt(squares)) == pytest.approx(expected, rel=1e-2)


@pytest.mark.backend
def test_the_learning_rate_is_the_one_given(make: Make) -> None:
    _, step = make()
    before = weights(step)
    step.update(batches().batch(0), 0.0, 1)
    for name, array in weights(step).items():
        np.testing.assert_array_equal(array, before[name])
    step.update(batches().batch(0), 1e-3, 2)
    moved = max(np.abs(array - before[name]).max() for name, array in weights(step).items())
    assert 0 < moved < 2e-3  # an Adam step is about the rate


@pytest.mark.backend
def test_averages_count_updates_not_micro_batches(make: Make) -> None:
    _model, step = make(*AVERAGING)
    planned = wide_batches()
    expected = weights(step)
    for number in range(1, 6):
        step.update(planned.batch(number), 1e-2, number)
        decay = min(0.5, (1 + number) / (EMA_WARMUP + number))
        now = weights(step)
        expected = {n: decay * expected[n] + (1 - decay) * now[n] for n in now}
    raw = weights(step)
    with step.use_averages():
        for name, array in weights(step).items():
            np.testing.assert_allclose(array, expected[name], atol=1e-6, err_msg=name)
    for name, array in weights(step).items():
        np.testing.assert_array_equal(array, raw[name])
    assert any(np.abs(raw[name] - expected[name]).max() > 1e-4 for name in raw)


@pytest.mark.long
@pytest.mark.backend
def test_decay_shrinks_kernels_alone(make: Make) -> None:
    rate, decay = 1e-2, 0.1
    # A huge epsilon leaves nothing of Adam's step but the decay. Muon's does not depend on it.
    _, adamw = make(
        "training.optimizer=adamw", f"training.weight_decay={decay}", "training.epsilon=1e6"
    )
    before = weights(adamw)
    changes = {"adamw": [{name: np.zeros_like(array) for name, array in before.items()}]}
    muon = [make(*MUON)[1], make(*MUON, f"training.weight_decay={decay}")[1]]
    for name, steps in (("adamw", [adamw]), ("muon", muon)):
        for step in steps:
            step.update(batches().batch(0), rate, 1)
            after = weights(step)
            changes.setdefault(name, []).append({key: after[key] - before[key] for key in before})
    for name, (plain, decayed) in changes.items():
        for key in before:
            expected = np.zeros_like(plain[key])
            if key.endswith("kernel"):
                expected = -rate * decay * before[key]
            shrinkage = decayed[key] - plain[key]
            np.testing.assert_allclose(shrinkage, expected, atol=1e-6, err_msg=f"{name} {key}")


@pytest.mark.long
@pytest.mark.backend
def test_muon_turns_kernels_orthogonally_and_leaves_the_rest_to_adam(make: Make) -> None:
    (_, adam), (_, muon) = make(), make(*MUON)
    before = weights(muon)
    rate = 1e-3
    for step in (adam, muon):
        step.update(batches().batch(0), rate, 1)
    after, by_adam = weights(muon), weights(adam)
    kernels = [name for name in before if name.endswith("kernel")]
    assert len(kernels) > 10
    for name in before:
        change = after[name] - before[name]
        if name in kernels:
            # Jordan et al. 2024: five iterations bring all singular values to about 0.7 to 1.2.
            values = np.linalg.svd(change / (rate * 0.2 * max(change.shape) ** 0.5), compute_uv=0)
            # A few tokens give a gradient of low rank: the rest stays where it was.
            assert values.max() < 1.3, name
            assert values[:5].min() > 0.6, name
        elif not name.endswith("key/bias"):  # its gradient is rounding noise
            np.testing.assert_allclose(change, by_adam[name] - before[name], atol=1e-6)


@pytest.fixture(scope="module")
def recorded_step(make: Make) -> Callable[..., TrainStep]:
    """Make a step whose model has the weights with which losses were recorded."""

    def begin(*overrides: str) -> TrainStep:
        # The rest are the defaults of when they were.
        defaults = ("label_smoothing=0.1", "clip_norm=1.0", "beta_2=0.98")
        _, step = make(*DROPOUT, *(f"training.{key}" for key in defaults), *overrides)
        generator = np.random.default_rng(12)
        state = step.state()
        for name, array in state.items():
            if name.startswith("model/") and array.ndim == 2:
                scale = array.shape[-1 if name.endswith("table") else 0] ** -0.5
                state[name] = (scale * generator.standard_normal(array.shape)).astype(np.float32)
        step.restore(state)
        return step

    return begin


@pytest.mark.backend
def test_fifty_losses_stay_what_they_were(recorded_step: Callable[..., TrainStep]) -> None:
    """A faster step must not be another step: the losses were recorded before it was made faster.

    To record them anew, after a change that is meant to alter the arithmetic, write `losses`.
    """
    step = recorded_step("training.jit_compile=auto")
    planned = batches()
    updates = [step.update(planned.batch(n), 1e-3, n) for n in range(1, 51)]
    losses = [float(update.nll) / float(update.tokens) for update in updates]
    recorded = np.loadtxt(Path(__file__).parent / "losses.txt")
    assert recorded[-1] < recorded[0] - 0.5
    np.testing.assert_allclose(losses, recorded, atol=1e-4)


def test_xla_computes_what_the_graph_computes(recorded_step: Callable[..., TrainStep]) -> None:
    graph, xla = recorded_step(), recorded_step("training.jit_compile=auto")
    planned = batches()
    for number in range(1, 6):
        batch = planned.batch(number)
        expected, update = graph.update(batch, 1e-3, number), xla.update(batch, 1e-3, number)
        assert float(update.nll) == pytest.approx(float(expected.nll), rel=1e-4)


@pytest.mark.backend
@pytest.mark.parametrize(
    "overrides",
    [RESTORED, (*MUON, "training.weight_decay=0.1"), FLOAT16],
    ids=["adam", "muon", "float16"],
)
def test_a_state_restored_elsewhere_goes_on_the_same(
    make: Make, overrides: tuple[str, ...]
) -> None:
    _, first = make(*overrides)
    state = first.state()
    scale = {name for name, array in state.items() if array.size == 1 and array == 2.0**15}
    assert len(scale) == (overrides == FLOAT16)
    lowered = {name: np.full_like(state[name], 2.0**12) for name in scale}
    first.restore(state | lowered)
    planned = batches()
    for number in range(1, 4):
        first.update(planned.batch(number), 1e-3, number)
    state = first.state()
    _, second = fresh(*overrides)
    other = second.state()
    assert any(np.abs(other[name] - array).max() > 1e-4 for name, array in weights(first).items())
    second.restore(state)
    for name, array in lowered.items():
        np.testing.assert_array_equal(second.state()[name], array)
    for number in range(4, 7):
        batch = planned.batch(number)
        assert float(first.update(batch, 1e-3, number).nll) == float(
            second.update(batch, 1e-3, number).nll
        )
    expected = second.state()
    for name, array in first.state().items():
        np.testing.assert_array_equal(expected[name], array, err_msg=name)


@pytest.mark.backend
def test_a_state_of_another_configuration_is_refused(make: Make) -> None:
    (_, averaging), (_, plain) = make(*AVERAGING), make()
    with pytest.raises(UserError, match="does not fit this configuration"):
        plain.restore(averaging.state())


def test_float16_skips_an_overflowing_update_and_lowers_the_scale(make: Make) -> None:
    _model, step = make("training.precision=mixed_float16")
    scale = step._optimizer.dynamic_scale  # type: ignore[attr-defined]
    scale.assign(2.0**40)  # beyond float16: every gradient overflows
    before = weights(step)
    update = step.update(batches().batch(0), 1e-3, 1)
    assert not np.isfinite(float(update.gradient_norm))
    assert np.isfinite(float(update.nll))
    for name, array in weights(step).items():
        np.testing.assert_array_equal(array, before[name])
    assert float(scale) == 2.0**39
    scale.assign(2.0**10)
    step.update(batches().batch(0), 1e-3, 2)
    assert any(np.abs(array - before[name]).max() > 0 for name, array in weights(step).items())


@pytest.mark.backend
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_follows_float32(make: Make, precision: str) -> None:
    _, full = make()
    _, mixed = make(f"training.precision={precision}")
    planned = batches()
    for number in range(1, 6):
        expected = full.update(planned.batch(number), 1e-3, number)
        update = mixed.update(planned.batch(number), 1e-3, number)
        assert float(update.nll) == pytest.approx(float(expected.nll), rel=2e-2)
    assert all(array.dtype == np.float32 for array in weights(mixed).values())


def test_on_a_gpu_an_update_has_no_branch_that_the_host_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TensorFlow reads the condition of a branch on the host, and waits for the device."""
    monkeypatch.setattr("nmt.training.tensorflow_step.gpus", lambda: ["a GPU"])
    _, step = fresh(*AVERAGING)
    step.update(wide_batches().batch(0), 1e-3, 1)
    (program,) = step._compiled_update._list_all_concrete_functions()  # type: ignore[attr-defined]
    definition = program.graph.as_graph_def()
    nodes = [node.op for part in definition.library.function for node in part.node_def]
    assert "AssignVariableOp" in nodes
    assert not {"If", "StatelessIf", "Case", "Switch"} & {*nodes, *(n.op for n in definition.node)}


def check_invalid_updates(step: TrainStep, *, half: bool) -> None:
    """Check that NaN gradients and a finite spike leave the state of a step as it was.

    Args:
        step: fresh.
        half: in float16, whose optimizer counts the updates it skipped, and halves its scale.
    """
    batch = wide_batches().batch(0)
    step.update(batch, 1e-3, 1)
    sound = step.state()
    name = next(name for name in sound if name.startswith("model/") and name.endswith("gamma"))
    spoilt = sound | {name: np.full_like(sound[name], np.nan)}
    step.restore(spoilt)
    assert bool(step.update(batch, 1e-3, 2).skipped)
    scale = {key for key, array in sound.items() if array.size == 1 and array == 2.0**15}
    for key, array in step.state().items():
        if key not in scale and not (half and array.ndim == 0):
            np.testing.assert_array_equal(array, spoilt[key], err_msg=key)
    step.restore(sound)
    norm = float(step.update(batch, 1e-3, 2).gradient_norm)
    step.restore(sound)
    update = step.update(batch, 1e-3, 2, 1.0, 0.99 * norm)
    assert bool(update.skipped)
    assert float(update.gradient_norm) == pytest.approx(norm, rel=1e-5)
    for key, array in step.state().items():
        np.testing.assert_array_equal(array, sound[key], err_msg=key)
    assert not bool(step.update(batch, 1e-3, 2, 1.0, 1.01 * norm).skipped)
    assert any((array != sound[key]).any() for key, array in weights(step).items())


class OnTwoReplicas(NamedTuple):
    """What was done under a strategy over two virtual devices."""

    precision: str
    overrides: tuple[str, ...]
    start: dict[str, np.ndarray]  # state before the updates of `learn`
    end: dict[str, np.ndarray]  # state after them, and what was measured
    reduced: list[int]  # numbers in each all-reduce of an update, of each replica
    complaint: str  # about invalid updates; empty: none


@pytest.fixture(scope="module", params=["float32", "mixed_float16"])
def on_two_replicas(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> OnTwoReplicas:
    program = """
        import json, math, sys
        import numpy as np, tensorflow as tf
        from pathlib import Path
        cpu = tf.config.list_physical_devices("CPU")[0]
        half = tf.config.LogicalDeviceConfiguration()
        tf.config.set_logical_device_configuration(cpu, [half, half])
        sys.path[:0] = [sys.argv[2], str(Path(sys.argv[2]).parent)]  # and of sample_configs
        from test_train_step import check_invalid_updates, fresh, learn, wide_batches
        folder, overrides = Path(sys.argv[1]), sys.argv[3:]
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        reduced, reduce = [], tf.distribute.ReplicaContext.all_reduce

        def all_reduce(self, op, value, options=None):
            reduced.append(sum(math.prod(part.shape) for part in tf.nest.flatten(value)))
            return reduce(self, op, value, options)

        tf.distribute.ReplicaContext.all_reduce = all_reduce
        with strategy.scope():
            model, step = fresh(*overrides)
            np.savez(folder / "start.npz", **step.state())
            np.savez(folder / "end.npz", measured=learn(step), **step.state())
            update_sizes = [count for count in reduced if count > 2]  # evaluation reduces two
            complaint = ""
            try:
                batch = wide_batches().batch(0)
                norms = list(step.gradient_norms(batch, 1).values())
                norm = float(step.update(batch, 1e-3, 1).gradient_norm)
                np.testing.assert_allclose(np.linalg.norm(norms), norm, rtol=1e-3)
                check_invalid_updates(step, half="float16" in overrides[-1])
                for weight in model.named_weights().values():
                    here, there = strategy.experimental_local_results(weight.value)
                    np.testing.assert_array_equal(here, there)
            except AssertionError as error:
                complaint = str(error) or "an assertion failed"
        (folder / "replicas.json").write_text(json.dumps([update_sizes, complaint]))
    """
    folder = tmp_path_factory.mktemp("replicas")
    overrides = (*AVERAGING, *DROPPING, f"training.precision={request.param}")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), folder, Path(__file__).parent, *overrides],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    start, end = (dict(np.load(folder / f"{name}.npz")) for name in ("start", "end"))
    reduced, complaint = json.loads((folder / "replicas.json").read_text())
    return OnTwoReplicas(request.param, overrides, start, end, reduced, complaint)


@pytest.mark.long
def test_two_replicas_make_the_update_of_one(make: Make, on_two_replicas: OnTwoReplicas) -> None:
    """They share the rows of a batch; masks belong to rows; sums are reduced before a division."""
    _, step = make(*on_two_replicas.overrides)
    start, other_start = step.state(), on_two_replicas.start
    assert start.keys() == set(other_start)
    for name, array in start.items():
        np.testing.assert_array_equal(other_start[name], array, err_msg=name)
    measured, end = learn(step), on_two_replicas.end
    half = on_two_replicas.precision == "mixed_float16"
    np.testing.assert_allclose(end["measured"], measured, rtol=1e-3 if half else 1e-5)
    for name, array in step.state().items():
        if not name.endswith("key/bias"):
            apart = np.abs(end[name] - array)
            # Adam turns the rounding of gradients near 0 into whole updates.
            assert np.mean(apart > (2e-4 if half else 2e-5)) < (0.05 if half else 1e-9), name
            if name.startswith("model/"):
                assert np.abs(array - start[name]).max() > 1e-3, name


@pytest.mark.long
def test_an_invalid_update_of_two_replicas_is_undone(on_two_replicas: OnTwoReplicas) -> None:
    """On both, in the weights that the model reads: NaN gradients, and a finite spike."""
    assert on_two_replicas.complaint == ""


@pytest.mark.long
def test_gradients_are_reduced_over_replicas_once(
    make: Make, on_two_replicas: OnTwoReplicas
) -> None:
    """Every number crosses the devices once in an update: gradients, loss and token count."""
    model, _ = make(*on_two_replicas.overrides)
    parameters = sum(math.prod(weight.shape) for weight in model.trained_weights().values())
    assert on_two_replicas.reduced == [parameters + 2] * 2


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(AVERAGING, marks=pytest.mark.backend),
        pytest.param(FLOAT16, marks=pytest.mark.backend),
        (*MUON, "training.weight_decay=0.1"),
        ("training.optimizer=adamw", "training.weight_decay=0.1", "training.epsilon=1e6"),
    ],
)
def test_an_invalid_update_changes_nothing_and_is_reported(
    make: Make, overrides: tuple[str, ...]
) -> None:
    _, step = make(*overrides)
    check_invalid_updates(step, half="float16" in overrides[0])


def test_tensorflow_is_told_to_be_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    calls: list[bool] = []
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: calls.append(True))
    fresh("training.deterministic=true")
    assert calls == [True]
    fresh()
    assert calls == [True]


@pytest.mark.backend
def test_norms_of_weights_are_parts_of_the_norm(make: Make) -> None:
    _, step = make(*AVERAGING)
    batch = wide_batches().batch(0)
    before = step.state()
    norms = step.gradient_norms(batch, 1)
    for key, array in step.state().items():
        np.testing.assert_array_equal(array, before[key], err_msg=key)
    assert {f"model/{name}" for name in norms} == set(weights(step))
    norm = float(step.update(batch, 1e-3, 1).gradient_norm)
    assert np.linalg.norm(list(norms.values())) == pytest.approx(norm, rel=1e-4)


def test_a_failed_update_leaves_the_state_whole_only_where_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What XLA compiled changes all variables or none; other operations change one by one."""
    for compiles in ("on", "off"):
        _, step = fresh(f"training.jit_compile={compiles}")
        before = step.state()

        def fail(*arguments: Any) -> Any:
            raise RuntimeError

        monkeypatch.setattr(step, "_compiled_update", fail)
        assert step.is_intact()
        with pytest.raises(RuntimeError):
            step.update(batches().batch(0), 1e-3, 1)
        assert step.is_intact() == (compiles == "on")
        step.restore(before)
        assert step.is_intact()


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 7, 12, 24])
def test_processes_share_a_batch(blocks: int, rows: int) -> None:
    """Each has as many rows of every block, one process after the other; no row has two."""
    replicas, processes = 4, 2
    teams = [
        ProcessGroup(("",) * replicas, None, process, processes) for process in range(processes)
    ]
    multiple = blocks * replicas
    shares = []
    for process_group in teams:
        local_rows = select_local_rows(process_group, multiple, blocks)
        assert local_rows is not None
        shares.append(local_rows(rows).reshape(blocks, -1))
    rows_of_all = np.concatenate(shares, axis=1).reshape(-1)
    np.testing.assert_array_equal(rows_of_all, np.arange(-(-rows // multiple) * multiple))
    assert select_local_rows(ProcessGroup(), multiple, blocks) is None
