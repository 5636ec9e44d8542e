"""Training runs in tests: one corpus, and most programs are compiled once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from conftest import tiny_overrides
from rich.console import Console

from nmt.config import Config, TrainingConfig
from nmt.model.contract import Model
from nmt.runs import building
from nmt.training import assembly, backend, loop
from nmt.training.components import Components
from nmt.training.job import Run, fit
from nmt.training.train_step import TrainStep

if keras.config.backend() == "jax":
    from nmt.training.jax_step import JaxStep as BackendStep
else:
    from nmt.training.tensorflow_step import (  # type: ignore[assignment]
        TensorFlowStep as BackendStep,
    )


# The options that the state of a step depends on, and those of its programs.
STATE_OPTIONS = (
    *("optimizer", "beta_1", "beta_2", "epsilon", "weight_decay", "precision", "ema_decay"),
    "deterministic",
)
PROGRAM_OPTIONS = (
    *("batch_tokens", "update_tokens", "accumulate", "parallel_parts", "jit_compile"),
    *("label_smoothing", "word_dropout", "clip_norm"),
)


@contextmanager
def freezing() -> Iterator[None]:
    """Do as `excluding_present_objects`, without a visit to all objects of the tests before."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def describe(config: TrainingConfig, options: Sequence[str]) -> str:
    return str([getattr(config, option) for option in options])


class Workshop:
    """Trains runs on one corpus; most of them share models, compiled steps and engines.

    What is shared has its initial state whenever a run gets it.
    """

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "runs"
        self.overrides = [*tiny_overrides(folder), "training.ema_decay=0.9"]
        # Kept spans that the untrained model leaves out come where its alignment says.
        self.overrides += ["tokenizer.slots=0", "data.noise.spans=0"]
        self.overrides += ["training.accumulate=2", "training.batch_tokens=128"]
        self.overrides += ["training.parallel_parts=1", "decoding.max_length_ratio=0.5"]
        self._models: dict[str, tuple[Model, dict[str, np.ndarray]]] = {}
        self._steps: dict[str, tuple[TrainStep, dict[str, np.ndarray]]] = {}
        self._engines: dict[int, Any] = {}
        self.build_model, self.make_step = building.build_model, backend.make_step
        self.make_engine = assembly.KerasEngine

    def train(self, *overrides: str, console: Console | None = None, **arguments: Any) -> Run:
        """Train a run, or resume one."""
        resumes = any(override.startswith("training.resume=") for override in overrides)
        overrides = overrides if resumes else (*self.overrides, *overrides)
        return fit(overrides, console=console or Console(quiet=True), **arguments)

    def is_shared(self, model: Model) -> bool:
        return any(model is shared for shared, _ in self._models.values())

    def _build_model(self, config: Config, size: int, **arguments: Any) -> Model:
        if config.model.lora_rank is not None or config.training.freeze:  # these change the model
            return self.build_model(config, size, **arguments)
        key = f"{config.model} {size} {arguments}"
        if key not in self._models:
            model = self.build_model(config, size, **arguments)
            weights = {name: np.array(weight) for name, weight in model.named_weights().items()}
            self._models[key] = model, weights
        model, weights = self._models[key]
        for name, weight in model.named_weights().items():
            weight.assign(weights[name])
        return model

    def _make_step(
        self, model: Model, config: TrainingConfig, *, components: Components, **arguments: Any
    ) -> TrainStep:
        if not self.is_shared(model) or components.optimizer or components.loss:
            return self.make_step(model, config, components=components, **arguments)
        # A run may start from the weights of another one.
        weights = {name: np.array(weight) for name, weight in model.trained_weights().items()}
        key = f"{id(model)} {describe(config, STATE_OPTIONS)} {arguments['seed']}"
        if key not in self._steps:
            step = self.make_step(model, config, **arguments)
            self._steps[key] = step, step.state()
        step, state = self._steps[key]
        step.reconfigure(config)
        step.restore({name: weights.get(name.partition("/")[2], state[name]) for name in state})
        return step

    def _make_engine(self, model: Model) -> Any:
        if not self.is_shared(model):
            return self.make_engine(model)
        if id(model) not in self._engines:
            self._engines[id(model)] = self.make_engine(model)
        return self._engines[id(model)]

    def keep(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let runs share models, compiled steps and engines."""
        reconfigure = BackendStep.reconfigure

        def reuse_programs(step: Any, config: TrainingConfig) -> None:
            programs = vars(step).setdefault("programs", {})
            key = describe(config, PROGRAM_OPTIONS)
            if key not in programs:
                before = dict(vars(step))
                reconfigure(step, config)
                programs[key] = {k: v for k, v in vars(step).items() if v is not before.get(k)}
            vars(step).update(programs[key])

        monkeypatch.setattr(BackendStep, "reconfigure", reuse_programs)
        monkeypatch.setattr(loop, "excluding_present_objects", freezing)
        monkeypatch.setattr(building, "build_model", self._build_model)
        monkeypatch.setattr(backend, "make_step", self._make_step)
        monkeypatch.setattr(assembly, "KerasEngine", self._make_engine)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Let runs share models, compiled steps and engines, within this context."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            self.keep(monkeypatch)
            yield


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture
def kept(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """The workshop, all of whose runs share models, compiled steps and engines."""
    shop.keep(monkeypatch)
    return shop


@pytest.fixture
def spoil_updates(monkeypatch: pytest.MonkeyPatch) -> Callable[[Container[int]], None]:
    """Make the loss of some updates NaN, by a weight that is NaN while they run."""
    update = BackendStep.update

    def arrange(numbers: Container[int]) -> None:
        def spoiled(self: BackendStep, batch: Any, rate: float, step: int, *more: Any) -> Any:
            if step not in numbers:
                return update(self, batch, rate, step, *more)
            state = self.state()
            name = next(name for name in state if name.endswith("gamma"))
            self.restore(state | {name: np.full_like(state[name], np.nan)})
            measured = update(self, batch, rate, step, *more)
            self.restore(self.state() | {name: state[name]})
            return measured

        monkeypatch.setattr(BackendStep, "update", spoiled)

    return arrange


@pytest.fixture
def at_update(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], None]:
    """Call a function while an update runs."""
    update = BackendStep.update

    def arrange(number: int, happen: Callable[[], None]) -> None:
        def interrupted(self: BackendStep, batch: Any, rate: float, step: int, *more: Any) -> Any:
            if step == number:
                happen()
            return update(self, batch, rate, step, *more)

        monkeypatch.setattr(BackendStep, "update", interrupted)

    return arrange
