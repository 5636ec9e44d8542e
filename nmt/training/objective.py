"""The loss, as (sums, token count): who needs a mean divides, after all replicas have summed."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from nmt.data.tokenizer import UNK
from nmt.model.dropout import dropout, fold

Tensor = Any

_WORDS = 2  # the place of this among the users of a dropout key; the model's are 0 and 1


class TokenLoss(NamedTuple):
    """Float32 scalars, summed over target tokens."""

    objective: Tensor  # with label smoothing: what is minimised, in nats
    nll: Tensor  # negative log-likelihood of the labels, in nats: what is reported
    tokens: Tensor  # how many labels counted


def hide_words(batch: dict[str, Tensor], rate: float, key: Tensor) -> dict[str, Tensor]:
    """Let the decoder read a share of the target words as unknown (Bowman et al. 2016, 3.1).

    What comes next has to be told from the source, then. Begin marks and labels stay.

    Args:
        batch: see `nmt.data.batches`.
        rate: share of the words.
        key: see `nmt.model.dropout`.
    """
    if not rate:
        return batch
    target = batch["target"]
    kept = dropout(ops.ones(ops.shape(target), "float32"), rate, fold(key, _WORDS)) > 0
    kept = ops.logical_or(kept, ops.equal(batch["target_positions"], 0))
    return batch | {"target": ops.where(kept, target, UNK)}


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    counted: Tensor,
    *,
    label_smoothing: float,
    weights: Tensor | None = None,
) -> TokenLoss:
    """Cross-entropy against labels smoothed over the vocabulary (Szegedy et al. 2016, section 7).

    The smoothed label is (1 - e) on the label plus e / V on every token, the label included.

    Args:
        logits: [..., V].
        labels: int [...].
        counted: bool [...], False for padding.
        label_smoothing: e.
        weights: float32 [...], by which the objective of each label is multiplied; None: 1. What is
            reported does not know them, nor does what sums are divided by.
    """
    logits = ops.cast(logits, "float32")
    weight = ops.cast(counted, "float32")
    normalizer = ops.logsumexp(logits, axis=-1)
    label_logit = ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    nll = normalizer - label_logit
    objective = nll
    if label_smoothing:
        uniform = normalizer - ops.mean(logits, axis=-1)
        objective = (1 - label_smoothing) * nll + label_smoothing * uniform
    return TokenLoss(
        objective=ops.sum(objective * (weight if weights is None else weight * weights)),
        nll=ops.sum(nll * weight),
        tokens=ops.sum(weight),
    )
