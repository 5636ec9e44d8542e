"""Several models that write one translation by the mean of their log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from keras import ops

from nmt.errors import UserError
from nmt.model.contract import AttentionKind, Model

Tensor = Any
State = Any


class Ensemble:
    """Models with one vocabulary, searched like one model.

    Its logits are the mean of the models' log-probabilities; a search normalizes them, so that
    probabilities are the renormalized geometric mean. The state is a tuple of the models' states.
    An ensemble has no attention.

    Args:
        models: at least one.
    """

    name = "ensemble"
    attention_kinds: tuple[AttentionKind, ...] = ()

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = tuple(models)
        self.max_length = min(model.max_length for model in models)
        self.vocabulary_size = models[0].vocabulary_size
        self.weights = [weight for model in models for weight in model.weights]

    def start(
        self,
        source: Tensor,
        *,
        beam_size: int,
        max_length: int | Tensor,
        track_coverage: bool = False,
    ) -> State:
        """See `Decoder.start`."""
        return tuple(
            model.start(
                source, beam_size=beam_size, max_length=max_length, track_coverage=track_coverage
            )
            for model in self.models
        )

    def step(self, tokens: Tensor, index: Tensor, state: State) -> tuple[Tensor, State]:
        """See `Decoder.step`."""
        steps = [model.step(tokens, index, model_state) for model, model_state in self._zip(state)]
        logits, states = zip(*steps, strict=True)
        return _mean_log_probs(logits), states

    def reorder(self, state: State, parents: Tensor) -> State:
        """See `Decoder.reorder`."""
        return tuple(model.reorder(model_state, parents) for model, model_state in self._zip(state))

    def capacity(self, state: State) -> Tensor:
        """See `Decoder.capacity`: the smallest one of the models."""
        capacities = (
            ops.cast(model.capacity(model_state), "int32")
            for model, model_state in self._zip(state)
        )
        return reduce(ops.minimum, capacities)

    def grow(self, state: State, positions: Tensor) -> State:
        """See `Decoder.grow`."""
        return tuple(model.grow(model_state, positions) for model, model_state in self._zip(state))

    def growing_axes(self, state: State) -> State:
        """See `Decoder.growing_axes`."""
        return tuple(model.growing_axes(model_state) for model, model_state in self._zip(state))

    def coverage(self, state: State) -> tuple[Tensor, Tensor]:
        """Return the mean of the models' coverage, and the mask: see `Decoder.coverage`."""
        results = [model.coverage(model_state) for model, model_state in self._zip(state)]
        coverages, masks = zip(*results, strict=True)
        return sum(coverages[1:], coverages[0]) / len(coverages), masks[0]

    def __call__(
        self,
        inputs: Mapping[str, Tensor],
        dropout_key: Tensor | None = None,
        return_attention: bool = False,
    ) -> Any:
        """Return mean log-probabilities float32 [B, T, V]: see `Model.__call__`.

        Raises:
            UserError: attention is requested.
        """
        if return_attention:
            raise UserError("an ensemble has no attention: give one run")
        return _mean_log_probs([model(inputs, dropout_key) for model in self.models])

    def _zip(self, state: State) -> Iterator[tuple[Model, State]]:
        """Return each model with its state."""
        return zip(self.models, state, strict=True)


def _mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """Return the mean of the log-probabilities, float32 [..., V]."""
    log_probs = [ops.log_softmax(ops.cast(each, "float32"), axis=-1) for each in logits]
    return sum(log_probs[1:], log_probs[0]) / len(log_probs)
