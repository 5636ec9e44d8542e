"""Objects from Python that replace what the configuration would build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.errors import UserError
from nmt.runs.custom_model import ModelClass, check_model_class, name_component, read_model_name
from nmt.runs.folder import RunFolder

if TYPE_CHECKING:
    import keras

Tensor = Any


@dataclass(frozen=True)
class Components:
    """An optimizer, a schedule, a loss and a model class; None: as configured.

    Attributes:
        optimizer: any Keras optimizer that `nmt.training.optimizer.check_optimizer` accepts; its
            learning rate and its options hold.
        schedule: returns the learning rate of an update, called with the number of updates before
            it: a function, or a Keras `LearningRateSchedule`.
        loss: returns the loss of every token [B, T], called with labels int [B, T] and logits
            float32 [B, T, V], in the order of Keras: a function, or a Keras `Loss` with
            ``reduction=None``. Padding is masked afterwards.
        model: a class derived from `nmt.model.Transformer` or another `EncoderDecoder`, or a
            function in its place: see `nmt.runs.custom_model`.

    Raises:
        UserError: one is of another type, or the optimizer is refused.
    """

    optimizer: keras.optimizers.Optimizer | None = None
    schedule: Callable[[int], Any] | None = None
    loss: Callable[[Tensor, Tensor], Tensor] | None = None
    model: ModelClass | None = None

    def __post_init__(self) -> None:
        for name, needed in (("schedule", "function"), ("loss", "function"), ("model", "class")):
            if not callable(value := getattr(self, name)) and value is not None:
                raise UserError(f"{name}={value!r} cannot be called: pass a {needed}")
        if hasattr(self.model, "count_params") and not isinstance(self.model, type):
            name = type(self.model).__name__
            raise UserError(f"model={name}(...) is built before the tokenizer: pass model={name}")
        if self.optimizer is not None:
            from nmt.training.optimizer import check_optimizer  # loads Keras

            check_optimizer(self.optimizer)

    @property
    def names(self) -> dict[str, str]:
        """The name of the class or function of each component that is set."""
        components = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: name_component(component)
            for name, component in components.items()
            if component is not None
        }

    @property
    def compute_rate(self) -> Callable[[int], Any] | None:
        """The schedule, or else that of the optimizer; None: the configured one."""
        if self.schedule is not None or self.optimizer is None:
            return self.schedule
        import keras

        rate = self.optimizer._learning_rate
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            return rate
        return lambda step: float(rate() if callable(rate) else rate)

    def open_start(self, path: Path) -> RunFolder:
        """Open the run that a new one starts from, with the model class if it has one.

        Raises:
            UserError: see `RunFolder.open` and `check_model_class`.
        """
        folder = RunFolder.open(path)
        if read_model_name(folder) is not None:
            folder.model_class = self.model
        check_model_class(folder)
        return folder

    def check_resumed(self, folder: RunFolder) -> None:
        """Check that a resumed run has the components that it was started with.

        Raises:
            UserError: one is missing, or another one is passed.
        """
        stored = folder.read_components()
        for name in sorted(stored.keys() | self.names.keys()):
            before, now = stored.get(name), self.names.get(name)
            if before != now:
                remedy = f"pass {name}={before}" if before else f"leave out {name}={now}"
                raise UserError(
                    f"{folder.path} was trained with {name}={before or 'as configured'}: to resume "
                    f"it, {remedy} in fit()"
                )


AS_CONFIGURED = Components()
