"""Several models that write one translation together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from keras import ops

from nmt.errors import UserError
from nmt.model.contract import AttentionKind, Model

Tensor = Any
State = Any


class Ensemble:
    """Models of one vocabulary; what it gives as logits is the mean of their log-probabilities.

    A search normalizes them: probabilities are the geometric mean of the models', renormalized.
    Each model keeps the state that it would have alone.

    Args:
        models: at least one.
    """

    name = "ensemble"
    # Attention is that of one model.
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
        """Let every model read the source: see `nmt.model.contract.Decoder`."""
        return tuple(
            model.start(
                source,
                beam_size=beam_size,
                max_length=max_length,
                track_coverage=track_coverage,
            )
            for model in self.models
        )

    def step(self, tokens: Tensor, index: Tensor, state: State) -> tuple[Tensor, State]:
        """Score what follows: see `nmt.model.contract.Decoder`."""
        logits, states = zip(
            *(
                model.step(tokens, index, own)
                for model, own in zip(self.models, state, strict=True)
            ),
            strict=True,
        )
        return _mean_log_probs(logits), states

    def reorder(self, state: State, parents: Tensor) -> State:
        """Let hypotheses change places: see `nmt.model.contract.Decoder`."""
        return tuple(
            model.reorder(own, parents) for model, own in zip(self.models, state, strict=True)
        )

    def capacity(self, state: State) -> Tensor:
        """Return the positions that a state has room for, the same for all."""
        return self.models[0].capacity(state[0])

    def grow(self, state: State, positions: Tensor) -> State:
        """Make room for more positions."""
        return tuple(
            model.grow(own, positions) for model, own in zip(self.models, state, strict=True)
        )

    def growing_axes(self, state: State) -> State:
        """Return the axes that `grow` makes longer."""
        return tuple(model.growing_axes(own) for model, own in zip(self.models, state, strict=True))

    def coverage(self, state: State) -> tuple[Tensor, Tensor]:
        """Return the mean of the attention that each token has received, and the mask."""
        received, masks = zip(
            *(model.coverage(own) for model, own in zip(self.models, state, strict=True)),
            strict=True,
        )
        return sum(received[1:], received[0]) / len(received), masks[0]

    def __call__(
        self,
        inputs: Mapping[str, Tensor],
        dropout_key: Tensor | None = None,
        return_attention: bool = False,
    ) -> Any:
        """Return mean log-probabilities float32 [B, T, V]: see `nmt.model.contract.Model`.

        Raises:
            UserError: attention is asked for.
        """
        if return_attention:
            raise UserError("attention is that of one model: give one run")
        return _mean_log_probs([model(inputs, dropout_key) for model in self.models])


def _mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """Return the mean of the log-probabilities, float32 [..., V]."""
    found = [ops.log_softmax(ops.cast(one, "float32"), axis=-1) for one in logits]
    return sum(found[1:], found[0]) / len(found)
