"""Training runs in tests: one corpus, and most of what is traced is traced once."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from conftest import tiny_overrides
from rich.console import Console

from nmt.config import TrainingConfig
from nmt.runs import building
from nmt.training import assembly, backend
from nmt.training.job import Run, fit

if keras.config.backend() == "jax":
    from nmt.training.jax_step import JaxStep as BackendStep
else:
    from nmt.training.tensorflow_step import (  # type: ignore[assignment]
        TensorFlowStep as BackendStep,
    )


# What a step is traced with: it is told the rate, and the loop does the rest.
OF_A_STEP = (
    *("batch_tokens", "accumulate", "parallel_parts", "precision", "jit_compile", "deterministic"),
    *("label_smoothing", "word_dropout", "optimizer", "beta_1", "beta_2", "epsilon"),
    *("weight_decay", "clip_norm", "ema_decay"),
)


class Workshop:
    """Trains runs on one corpus, most of them with functions that were traced for another.

    A model, its step and its engine are kept, by all that they depend on. Who gets them again finds
    them as they were made.
    """

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "runs"
        self.overrides = [*tiny_overrides(folder), "training.ema_decay=0.9"]
        self.overrides += ["training.accumulate=2", "training.batch_tokens=128"]
        self.overrides += ["training.parallel_parts=1", "decoding.max_length_ratio=0.5"]
        self._made: dict[str, Any] = {}
        self.build_model, self.make_step = building.build_model, backend.make_step
        self.make_engine = assembly.KerasEngine

    def train(self, *overrides: str, console: Console | None = None) -> Run:
        """Train a run, or go on with one."""
        resumed = any(override.startswith("training.resume=") for override in overrides)
        given = overrides if resumed else (*self.overrides, *overrides)
        return fit(given, console=console or Console(quiet=True))

    def keep(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let runs share what is traced."""

        def build_model(config: Any, size: int, *, precision: str) -> Any:
            key = f"{config.model} {size} {precision}"
            if key not in self._made:
                self._made[key] = self.build_model(config, size, precision=precision)
            return self._made[key]

        def make_step(model: Any, config: TrainingConfig, *, seed: int, process_group: Any) -> Any:
            key = f"{id(model)} {[getattr(config, name) for name in OF_A_STEP]} {seed}"
            if key not in self._made:
                step = self.make_step(model, config, seed=seed, process_group=process_group)
                self._made[key] = step, step.state()
            step, state = self._made[key]
            step.restore(state)
            return step

        def make_engine(model: Any) -> Any:
            key = f"{id(model)}"
            if key not in self._made:
                self._made[key] = self.make_engine(model)
            return self._made[key]

        monkeypatch.setattr(building, "build_model", build_model)
        monkeypatch.setattr(backend, "make_step", make_step)
        monkeypatch.setattr(assembly, "KerasEngine", make_engine)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Let runs share what is traced, for a while."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            self.keep(monkeypatch)
            yield


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture
def kept(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """The workshop, with all runs sharing what is traced."""
    shop.keep(monkeypatch)
    return shop


@pytest.fixture
def spoil_updates(monkeypatch: pytest.MonkeyPatch) -> Callable[[Container[int]], None]:
    """Let the loss of some updates not be a number: a weight is none while they run."""
    update = BackendStep.update

    def arrange(numbers: Container[int]) -> None:
        def spoilt(self: BackendStep, batch: Any, rate: float, step: int, *more: Any) -> Any:
            if step not in numbers:
                return update(self, batch, rate, step, *more)
            state = self.state()
            name = next(name for name in state if name.endswith("gamma"))
            self.restore(state | {name: np.full_like(state[name], np.nan)})
            measured = update(self, batch, rate, step, *more)
            self.restore(self.state() | {name: state[name]})
            return measured

        monkeypatch.setattr(BackendStep, "update", spoilt)

    return arrange


@pytest.fixture
def at_update(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], None]:
    """Let something happen while an update runs."""
    update = BackendStep.update

    def arrange(number: int, happen: Callable[[], None]) -> None:
        def interrupted(self: BackendStep, batch: Any, rate: float, step: int, *more: Any) -> Any:
            if step == number:
                happen()
            return update(self, batch, rate, step, *more)

        monkeypatch.setattr(BackendStep, "update", interrupted)

    return arrange
