"""The loss as (sums, token count); the caller divides, after all replicas have been summed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from nmt.data.tokenizer import UNK
from nmt.errors import UserError
from nmt.model.contract import Model
from nmt.model.dropout import dropout, fold
from nmt.model.loops import call_with_gradient

Tensor = Any

_WORDS = 2  # index under the dropout key; the model uses 0 and 1


class TokenLoss(NamedTuple):
    """Float32 scalars, summed over target tokens."""

    objective: Tensor  # the minimised loss in nats, with label smoothing
    nll: Tensor  # the reported negative log-likelihood of the labels, in nats
    tokens: Tensor  # labels that are not padding


def compute_loss(
    model: Model,
    batch: dict[str, Tensor],
    *,
    key: Tensor = None,
    label_smoothing: float = 0.0,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> TokenLoss:
    """Return the loss of a model on a batch.

    Args:
        model: the model.
        batch: see `nmt.data.batches`.
        key: the dropout key; None: without dropout.
        label_smoothing: see `cross_entropy`.
        loss: replaces the objective, see `nmt.training.components.Components`.

    Raises:
        UserError: ``loss`` does not return one number per label.
    """
    logits, labels = model(batch, dropout_key=key), batch["labels"]
    label_mask = ops.greater(batch["target_segments"], 0)
    label_weights = batch.get("weights")
    measured = cross_entropy(
        logits, labels, label_mask, label_smoothing=label_smoothing, label_weights=label_weights
    )
    if loss is None:
        return measured
    losses = loss(labels, ops.cast(logits, "float32"))
    shape = getattr(losses, "shape", None)
    if shape != labels.shape:  # another shape might be broadcast
        returned = type(losses).__name__ if shape is None else f"an array of shape {tuple(shape)}"
        raise UserError(
            f"the loss returns {returned}: it must return one number per label, "
            f"{tuple(labels.shape)}, as Keras losses do with reduction=None"
        )
    mask = ops.cast(label_mask, "float32")
    factors = mask if label_weights is None else mask * label_weights
    return measured._replace(objective=ops.sum(ops.cast(losses, "float32") * factors))


def apply_word_dropout(batch: dict[str, Tensor], rate: float, key: Tensor) -> dict[str, Tensor]:
    """Return the batch with a share of the decoder's input words replaced by UNK.

    Word dropout (Bowman et al. 2016, section 3.1) forces the decoder to use the source. Begin marks
    and labels stay.

    Args:
        batch: see `nmt.data.batches`.
        rate: share of the words.
        key: see `nmt.model.dropout`.
    """
    if not rate:
        return batch
    target = batch["target"]
    visible = dropout(ops.ones(ops.shape(target), "float32"), rate, fold(key, _WORDS)) > 0
    visible = ops.logical_or(visible, ops.equal(batch["target_positions"], 0))
    return batch | {"target": ops.where(visible, target, UNK)}


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    label_mask: Tensor,
    *,
    label_smoothing: float,
    label_weights: Tensor | None = None,
) -> TokenLoss:
    """Return the cross-entropy with label smoothing (Szegedy et al. 2016, section 7).

    The smoothed label is (1 - e) on the label plus e / V on every token, the label included.

    Args:
        logits: [..., V].
        labels: int [...].
        label_mask: bool [...], False for padding.
        label_smoothing: e.
        label_weights: float32 [...], factors of each label's objective; None: 1. They change
            neither the reported loss nor the token count.
    """
    logits = ops.reshape(ops.cast(logits, "float32"), (-1, logits.shape[-1]))
    labels = ops.reshape(labels, (-1,))
    mask = ops.reshape(ops.cast(label_mask, "float32"), (-1,))
    factors = mask if label_weights is None else mask * ops.reshape(label_weights, (-1,))
    normalizer = ops.logsumexp(logits, axis=-1)
    label_logit = _label_logits(logits, labels)
    nll = normalizer - label_logit
    objective = nll
    if label_smoothing:
        uniform = normalizer - ops.mean(logits, axis=-1)
        objective = (1 - label_smoothing) * nll + label_smoothing * uniform
    return TokenLoss(
        objective=ops.sum(objective * factors),
        nll=ops.sum(nll * mask),
        tokens=ops.sum(mask),
    )


def _label_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the logits [N] of labels int [N], from logits [N, V].

    The gradient compares instead of scattering: XLA fuses it with that of the softmax.
    """

    def compute(logits: Tensor) -> Any:
        labels_column = labels[:, None]
        taken = ops.take_along_axis(logits, labels_column, axis=-1)[:, 0]

        def backward(gradient: Tensor) -> tuple[Tensor]:
            is_label = ops.equal(labels_column, ops.arange(logits.shape[-1], dtype=labels.dtype))
            return (ops.where(is_label, gradient[:, None], 0.0),)

        return (taken,), backward

    return call_with_gradient(compute, logits)[0]
