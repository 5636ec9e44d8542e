"""An optimizer, a schedule and a loss from Python train as the configured ones do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
from keras import ops

from nmt import fit
from nmt.config import TrainingConfig
from nmt.errors import UserError
from nmt.training.components import AS_CONFIGURED, Components
from nmt.training.job import Run
from nmt.training.objective import compute_loss
from nmt.training.schedule import TrainingSchedule
from nmt.training.trainer_state import TrainerState

if TYPE_CHECKING:
    from workshop import Workshop

pytest_plugins = ("workshop",)
pytestmark = [pytest.mark.backend, pytest.mark.xdist_group("workshop")]

FEW = ("training.max_steps=4", "training.evaluate_every=2", "data.test=0", "data.dev=0")
PLAIN = ("training.optimizer=adam", "training.schedule=constant", "training.warmup_steps=1")


def weights(run: Run) -> dict[str, np.ndarray]:
    state, _ = run.folder.checkpoints.load_latest() or ({}, {})
    return {name: array for name, array in state.items() if name.startswith("model/")}


def assert_same_weights(first: Run, second: Run, tolerance: float = 1e-5) -> None:
    for name, array in weights(first).items():
        if tolerance and name.endswith("key/bias"):
            continue  # its gradient is 0 but for rounding, which Adam enlarges
        np.testing.assert_allclose(weights(second)[name], array, atol=tolerance, err_msg=name)


def make_batch() -> dict[str, Any]:
    labels = np.array([[1, 2, 3], [4, 2, 0]])
    return {"labels": ops.convert_to_tensor(labels), "target_segments": np.minimum(labels, 1)}


def fake_model(batch: dict[str, Any], dropout_key: Any) -> Any:
    return ops.convert_to_tensor(np.random.default_rng(1).normal(size=(2, 3, 5)), "float32")


def cross_entropy(labels: Any, logits: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def test_equal_components_train_equal_weights(kept: Workshop) -> None:
    # Adam with a small epsilon would turn rounding errors of tiny gradients into whole steps.
    settings = (*FEW, *PLAIN, "training.label_smoothing=0", "training.epsilon=0.001")
    config = kept.train(*settings).folder.config.training
    rate = config.learning_rate
    assert rate is not None
    configured = kept.train(*settings, schedule=lambda step: rate)
    passed = kept.train(
        *settings,
        optimizer=keras.optimizers.Adam(
            rate, beta_1=config.beta_1, beta_2=config.beta_2, epsilon=config.epsilon
        ),
        loss=cross_entropy,
    )
    assert_same_weights(configured, passed)
    assert passed.folder.read_components() == {"optimizer": "Adam", "loss": "cross_entropy"}


def test_a_run_resumes_with_its_components_and_with_no_others(kept: Workshop) -> None:
    def lion() -> Any:
        return keras.optimizers.Lion(keras.optimizers.schedules.CosineDecay(1e-3, 10))

    whole = kept.train(*FEW, optimizer=lion())
    half = kept.train(*FEW, "training.max_steps=2", optimizer=lion())
    resume = f"training.resume={half.path}"
    with pytest.raises(UserError, match=r"trained with optimizer=Lion: .* pass optimizer=Lion in"):
        kept.train(resume, "training.max_steps=4")
    with pytest.raises(
        UserError, match=r"with loss=as configured: .* leave out loss=cross_entropy"
    ):
        kept.train(resume, "training.max_steps=4", optimizer=lion(), loss=cross_entropy)
    resumed = kept.train(resume, "training.max_steps=4", optimizer=lion())
    assert_same_weights(whole, resumed, tolerance=0)


def test_rates_of_a_schedule_are_reported(kept: Workshop) -> None:
    run = kept.train(*FEW, schedule=lambda step: 0.001 * (step + 1))
    rates = [line["train/learning_rate"] for line in run.metrics if "train/loss" in line]
    assert rates == pytest.approx([0.001, 0.002, 0.003, 0.004])


def test_weights_that_a_loss_leaves_out_stay(kept: Workshop) -> None:
    def no_loss(labels: Any, logits: Any) -> Any:
        return ops.zeros(ops.shape(labels))

    runs = [kept.train(*FEW, f"training.max_steps={steps}", loss=no_loss) for steps in (1, 2)]
    assert_same_weights(*runs, tolerance=0)


@pytest.mark.parametrize("returned", [None, -0.001, float("nan"), float("inf"), "fast"])
def test_what_is_no_rate_is_refused(returned: Any) -> None:
    schedule = TrainingSchedule(TrainingConfig(), [], [1], lambda step: returned)
    with pytest.raises(UserError, match=f"returns {returned!r} after 3 updates: it must return"):
        schedule.learning_rate(TrainerState(step=3))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda labels, logits: ops.mean(logits), r"array of shape \(\): .* per label, \(2, 3\)"),
        (lambda labels, logits: ops.mean(logits, axis=1), r"shape \(2, 5\)"),
        (lambda labels, logits: ops.zeros((2, 1)), r"shape \(2, 1\)"),
        (lambda labels, logits: None, "returns NoneType"),
        (keras.losses.SparseCategoricalCrossentropy(from_logits=True), "with reduction=None"),
    ],
)
def test_a_loss_of_another_shape_is_refused(loss: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        compute_loss(fake_model, make_batch(), loss=loss)


def test_a_keras_loss_is_the_function_that_it_names() -> None:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
    measured = compute_loss(fake_model, make_batch(), loss=loss)
    assert float(measured.objective) == pytest.approx(float(measured.nll), rel=1e-6)


def test_weights_of_pairs_scale_another_loss_too() -> None:
    weights = np.array([[0.5, 2, 1], [0, 4, 9]], np.float32)  # 9: padding
    measured = compute_loss(
        fake_model,
        make_batch() | {"weights": weights},
        loss=lambda labels, logits: ops.ones(ops.shape(labels)),
    )
    assert float(measured.objective) == 7.5
    plain = compute_loss(fake_model, make_batch())
    assert float(measured.nll) == pytest.approx(float(plain.nll), rel=1e-6)


class Halved(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step: int) -> float:
        return 0.5**step


class Rated(keras.optimizers.SGD):
    def __init__(self, rate: float, extra: int) -> None:
        super().__init__(rate)


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ({"optimizer": keras.optimizers.SGD(0.1, use_ema=True)}, "use_ema=True, and set .*ema_dec"),
        (
            {"optimizer": keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())},
            "inner_optimizer",
        ),
        ({"optimizer": "adam"}, "optimizer='adam' is not a Keras optimizer: pass one"),
        ({"optimizer": keras.optimizers.Adam}, "is not a Keras optimizer"),
        ({"optimizer": keras.optimizers.SGD(Halved())}, "SGD cannot be copied .* as schedule"),
        ({"optimizer": Rated(0.1, 2)}, "Rated cannot be copied by its get_config"),
        ({"schedule": 0.001}, "schedule=0.001 cannot be called"),
        ({"loss": "mse"}, "loss='mse' cannot be called"),
    ],
)
def test_other_objects_are_refused_before_anything_is_read(
    components: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        fit(["data=none"], **components)


def test_the_rate_of_an_optimizer_is_the_schedule_unless_there_is_one() -> None:
    constant = Components(optimizer=keras.optimizers.SGD(0.25))
    assert constant.compute_rate is not None
    assert constant.compute_rate(7) == 0.25
    falling = keras.optimizers.schedules.PiecewiseConstantDecay([2], [0.5, 0.125])
    rate = Components(optimizer=keras.optimizers.SGD(falling)).compute_rate
    assert rate is not None
    assert [float(rate(step)) for step in (0, 3)] == [0.5, 0.125]

    def schedule(step: int) -> float:
        return 1.0

    def find_rate() -> float:
        return 0.75

    called = Components(optimizer=keras.optimizers.SGD(find_rate)).compute_rate
    assert called is not None
    assert called(3) == 0.75
    assert Components(constant.optimizer, schedule).compute_rate is schedule
    assert AS_CONFIGURED.compute_rate is None
    assert AS_CONFIGURED.names == {}
