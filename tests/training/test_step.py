"""The compiled update: accumulation, clipping, averaging, precision, replicas."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from nmt.data.batches import Batches
from nmt.data.encoded import EncodedCorpus, Sequences
from nmt.errors import UserError
from nmt.runs.building import build_model
from nmt.training.optimizer import EMA_WARMUP
from nmt.training.step import Step, make_step

VOCABULARY = 40


def corpus(pairs: int = 40, seed: int = 0) -> EncodedCorpus:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 8, size=(2, pairs))
    sides = [
        Sequences.of([generator.integers(4, VOCABULARY, size=n, dtype=np.int32) for n in side])
        for side in lengths
    ]
    return EncodedCorpus(*sides)


def batches(multiple: int = 1, tokens: int = 64) -> Batches:
    return Batches(corpus(), row_lengths=[16], tokens=tokens, multiple=multiple, seed=3)


def make(
    compose: Callable[..., Any], *overrides: str, precision: str = "float32"
) -> tuple[keras.Model, Step]:
    config = compose("model=tiny", "training.jit_compile=off", *overrides)
    keras.utils.set_random_seed(7)
    model = build_model(config, VOCABULARY, precision=precision)
    return model, make_step(model, config.training, precision=precision, seed=1)


def weights(step: Step) -> dict[str, np.ndarray]:
    return {name: array for name, array in step.state().items() if name.startswith("model/")}


@pytest.mark.backend
def test_the_loss_falls_and_counts_real_tokens(compose: Callable[..., Any]) -> None:
    _, step = make(compose)
    planned = batches()
    batch = planned.batch(0)
    first = step.update(batch, 1e-2, 1)
    assert float(first.tokens) == np.count_nonzero(batch["target_segments"])
    for number in range(2, 30):
        last = step.update(batch, 1e-2, number)
    assert float(last.nll) < 0.5 * float(first.nll)


@pytest.mark.backend
def test_evaluation_is_the_unsmoothed_loss_without_dropout(compose: Callable[..., Any]) -> None:
    model, step = make(compose, "model.dropout=0.5", "training.label_smoothing=0.3")
    batch = batches().batch(0)
    nll, tokens = step.evaluate(batch)
    logits = np.asarray(model({name: np.asarray(array) for name, array in batch.items()}))
    logits = logits.astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    counted = batch["target_segments"] > 0
    picked = np.take_along_axis(log_probs, batch["labels"][..., None], -1)[..., 0]
    assert nll == pytest.approx(-picked[counted].sum(), rel=1e-5)
    assert tokens == counted.sum()


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(
            ["training.accumulate=2", "training.parallel_parts=1"], marks=pytest.mark.backend
        ),
        ["training.parallel_parts=2"],
        ["training.parallel_parts=4"],
        ["training.parallel_parts=3"],  # not of eight rows
        pytest.param(
            ["training.accumulate=2", "training.parallel_parts=2"], marks=pytest.mark.backend
        ),
    ],
)
def test_micro_batches_and_parts_make_the_update_of_the_whole_batch(
    compose: Callable[..., Any], overrides: list[str]
) -> None:
    planned = batches(multiple=2, tokens=128)
    assert planned.shapes == [(8, 16)]
    _, whole = make(compose, "training.parallel_parts=1")
    _, split = make(compose, *overrides)
    for number in range(1, 4):
        batch = planned.batch(number)
        one, two = whole.update(batch, 1e-3, number), split.update(batch, 1e-3, number)
        assert float(one.nll) == pytest.approx(float(two.nll), rel=1e-5)
        assert float(one.gradient_norm) == pytest.approx(float(two.gradient_norm), rel=1e-4)
    for name, array in weights(whole).items():
        # A bias on the keys moves all scores of a query alike: its gradient is rounding noise,
        # which Adam blows up to whole steps. So it does with single other gradients near zero.
        if not name.endswith("key/bias"):
            apart = np.abs(weights(split)[name] - array)
            assert np.mean(apart > 1e-4) < 1e-3, name
            assert apart.max() < 1e-3, name  # one update


@pytest.mark.backend
def test_dropout_warms_up_without_another_compilation(compose: Callable[..., Any]) -> None:
    """At a share of 0 the update is that of no dropout; at 1 that of the full rate."""
    batch = batches().batch(0)
    losses = {}
    for rate in (0.0, 0.4):
        _, step = make(compose, f"model.dropout={rate}")
        for share in (0.0, 0.5, 1.0):  # at a rate of 0 no update moves the weights
            losses[rate, share] = float(step.update(batch, 0.0, 1, share).nll)
    assert losses[0.0, 1.0] == losses[0.0, 0.0]
    assert losses[0.4, 0.0] == pytest.approx(losses[0.0, 0.0], rel=1e-6)
    assert abs(losses[0.4, 0.5] - losses[0.4, 0.0]) > 1e-3
    assert abs(losses[0.4, 1.0] - losses[0.4, 0.5]) > 1e-3
    _, half = make(compose, "model.dropout=0.2")
    assert losses[0.4, 0.5] == pytest.approx(float(half.update(batch, 0.0, 1).nll), rel=1e-4)


@pytest.mark.backend
def test_words_are_unknown_in_training_alone(compose: Callable[..., Any]) -> None:
    batch = batches().batch(0)
    (_, plain), (_, hidden) = (
        make(compose, "model.dropout=0", f"training.word_dropout={rate}") for rate in (0, 0.5)
    )
    evaluated = plain.evaluate(batch)[0]
    assert hidden.evaluate(batch)[0] == evaluated
    assert float(plain.update(batch, 0.0, 1).nll) == pytest.approx(evaluated, rel=1e-5)
    losses = {float(hidden.update(batch, 0.0, number).nll) for number in (1, 2)}
    assert len(losses) == 2  # other words at every update
    assert all(abs(loss - evaluated) > 1e-3 for loss in losses)


def test_the_gradient_norm_is_of_the_mean_per_token(compose: Callable[..., Any]) -> None:
    import tensorflow as tf

    model, step = make(compose, "training.label_smoothing=0")
    # A batch of another shape before it must leave nothing behind.
    step.update(Batches(corpus(), row_lengths=[10], tokens=30, seed=3).batch(0), 0.0, 1)
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
def test_clipping_scales_the_gradient_to_its_limit(compose: Callable[..., Any]) -> None:
    # With betas of 0 and a huge epsilon, Adam's update is rate * gradient / epsilon.
    plain = ["training.beta_1=0", "training.beta_2=0", "training.epsilon=1e6"]
    moved = {}
    for limit in ("null", "0.01"):
        _, step = make(compose, *plain, f"training.clip_norm={limit}")
        before = weights(step)
        norm = float(step.update(batches().batch(0), 1e6, 1).gradient_norm)
        after = weights(step)
        squares = sum(((after[name] - before[name]) ** 2).sum() for name in after)
        moved[limit] = float(np.sqrt(squares))
        assert norm > 0.1
    assert moved["null"] == pytest.approx(norm, rel=1e-2)
    assert moved["0.01"] == pytest.approx(0.01, rel=1e-2)


@pytest.mark.backend
def test_the_learning_rate_is_the_one_given(compose: Callable[..., Any]) -> None:
    _, step = make(compose)
    before = weights(step)
    step.update(batches().batch(0), 0.0, 1)
    for name, array in weights(step).items():
        np.testing.assert_array_equal(array, before[name])
    step.update(batches().batch(0), 1e-3, 2)
    moved = max(np.abs(array - before[name]).max() for name, array in weights(step).items())
    assert 0 < moved < 2e-3  # an Adam step is about the rate


@pytest.mark.backend
def test_averages_count_updates_not_micro_batches(compose: Callable[..., Any]) -> None:
    _model, step = make(compose, "training.ema_decay=0.5", "training.accumulate=2")
    planned = batches(multiple=2, tokens=128)
    expected = weights(step)
    for number in range(1, 6):
        step.update(planned.batch(number), 1e-2, number)
        decay = min(0.5, (1 + number) / (EMA_WARMUP + number))
        now = weights(step)
        expected = {n: decay * expected[n] + (1 - decay) * now[n] for n in now}
    raw = weights(step)
    with step.averaged():
        for name, array in weights(step).items():
            np.testing.assert_allclose(array, expected[name], atol=1e-6, err_msg=name)
    for name, array in weights(step).items():
        np.testing.assert_array_equal(array, raw[name])
    assert any(np.abs(raw[name] - expected[name]).max() > 1e-4 for name in raw)


@pytest.mark.backend
@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_decay_shrinks_kernels_alone(compose: Callable[..., Any], name: str) -> None:
    rate, decay = 1e-2, 0.1
    changes = []
    for value in (0.0, decay):
        overrides = [f"training.optimizer={name}", f"training.weight_decay={value}"]
        _, step = make(compose, *overrides, "model.dropout=0", "training.parallel_parts=1")
        before = weights(step)
        step.update(batches().batch(0), rate, 1)
        after = weights(step)
        changes.append({key: after[key] - before[key] for key in before})
    for key, plain in changes[0].items():
        expected = -rate * decay * before[key] if key.endswith("kernel") else np.zeros_like(plain)
        np.testing.assert_allclose(changes[1][key] - plain, expected, atol=1e-6, err_msg=key)


@pytest.mark.backend
def test_muon_turns_kernels_orthogonally_and_leaves_the_rest_to_adam(
    compose: Callable[..., Any],
) -> None:
    overrides = ["training.clip_norm=null", "model.dropout=0"]
    _, adam = make(compose, *overrides)
    _, muon = make(compose, *overrides, "training.optimizer=muon")
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


@pytest.mark.backend
def test_fifty_losses_stay_what_they_were(compose: Callable[..., Any]) -> None:
    """A faster step must not be another step: the losses were recorded before it was made faster.

    To record them anew, after a change that is meant to alter the arithmetic, write `losses`.
    """
    overrides = ["model.dropout=0.1", "model.attention_dropout=0.1", "model.ffn_dropout=0.1"]
    overrides += ["training.parallel_parts=1", "training.jit_compile=auto"]
    _, step = make(compose, *overrides)
    generator = np.random.default_rng(12)
    state = step.state()
    for name, array in state.items():
        if name.startswith("model/") and array.ndim == 2:
            scale = array.shape[-1 if name.endswith("table") else 0] ** -0.5
            state[name] = (scale * generator.standard_normal(array.shape)).astype(np.float32)
    step.restore(state)
    planned = batches()
    updates = [step.update(planned.batch(n), 1e-3, n) for n in range(1, 51)]
    losses = [float(update.nll) / float(update.tokens) for update in updates]
    recorded = np.loadtxt(Path(__file__).parent / "losses.txt")
    assert recorded[-1] < recorded[0] - 0.5
    np.testing.assert_allclose(losses, recorded, atol=1e-4)


def test_xla_computes_what_the_graph_computes(compose: Callable[..., Any]) -> None:
    dropout = ["model.dropout=0.1", "model.attention_dropout=0.1", "model.ffn_dropout=0.1"]
    _, graph = make(compose, *dropout)
    _, xla = make(compose, *dropout, "training.jit_compile=on")
    planned = batches()
    for number in range(1, 6):
        batch = planned.batch(number)
        one, two = graph.update(batch, 1e-3, number), xla.update(batch, 1e-3, number)
        assert float(one.nll) == pytest.approx(float(two.nll), rel=1e-4)


@pytest.mark.backend
def test_a_state_restored_elsewhere_goes_on_the_same(compose: Callable[..., Any]) -> None:
    overrides = ["model.dropout=0.2", "training.ema_decay=0.9"]
    _, first = make(compose, *overrides)
    planned = batches()
    for number in range(1, 4):
        first.update(planned.batch(number), 1e-3, number)
    state = first.state()
    keras.utils.set_random_seed(99)
    _, second = make(compose, *overrides)
    second.restore(state)
    for number in range(4, 7):
        batch = planned.batch(number)
        assert float(first.update(batch, 1e-3, number).nll) == float(
            second.update(batch, 1e-3, number).nll
        )
    for name, array in first.state().items():
        np.testing.assert_array_equal(second.state()[name], array, err_msg=name)


@pytest.mark.backend
def test_a_state_of_another_configuration_is_refused(compose: Callable[..., Any]) -> None:
    _, averaging = make(compose, "training.ema_decay=0.9")
    _, plain = make(compose, "training.ema_decay=null")
    with pytest.raises(UserError, match="does not fit this configuration"):
        plain.restore(averaging.state())


def test_float16_skips_an_overflowing_update_and_lowers_the_scale(
    compose: Callable[..., Any],
) -> None:
    _model, step = make(compose, precision="mixed_float16")
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
def test_mixed_precision_follows_float32(compose: Callable[..., Any], precision: str) -> None:
    _, full = make(compose)
    _, mixed = make(compose, precision=precision)
    planned = batches()
    for number in range(1, 6):
        one = full.update(planned.batch(number), 1e-3, number)
        two = mixed.update(planned.batch(number), 1e-3, number)
        assert float(two.nll) == pytest.approx(float(one.nll), rel=2e-2)
    assert all(array.dtype == np.float32 for array in weights(mixed).values())


def test_two_replicas_with_the_same_batch_make_the_update_of_one() -> None:
    """Loss and gradients are reduced over replicas before anything is divided."""
    program = """
        import numpy as np, tensorflow as tf, keras
        cpu = tf.config.list_physical_devices("CPU")[0]
        half = tf.config.LogicalDeviceConfiguration()
        tf.config.set_logical_device_configuration(cpu, [half, half])
        from hydra import compose, initialize_config_dir
        from nmt.config import files
        from nmt.data.batches import Batches
        from nmt.data.encoded import EncodedCorpus, Sequences
        from nmt.runs.building import build_model
        from nmt.training.step import make_step
        configuration.register()
        with initialize_config_dir(str(configuration.conf_dir()), version_base="1.3"):
            config = configuration.from_composed(compose("train", [
                "model=tiny", "training.ema_decay=0.9", "training.clip_norm=0.1",
                "training.jit_compile=off"]))
        ids = [np.arange(4, 4 + n, dtype=np.int32) for n in range(1, 8)]
        corpus = EncodedCorpus(Sequences.of(ids), Sequences.of(ids[::-1]))
        batches = Batches(corpus, row_lengths=[16], tokens=64, seed=1)
        states = []
        for strategy in (tf.distribute.get_strategy(),
                         tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])):
            with strategy.scope():
                keras.utils.set_random_seed(1)
                model = build_model(config, 40, precision="float32")
                step = make_step(model, config.training, precision="float32", seed=1)
                for number in range(1, 5):
                    step.update(batches.batch(number), 1e-3, number)
                states.append(step.state())
        for name, one in states[0].items():
            if name.startswith("model/") and not name.endswith("key/bias"):
                np.testing.assert_allclose(states[1][name], one, atol=2e-5, err_msg=name)
        print("equal", len(states[0]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("equal"), done.stderr[-3000:]
