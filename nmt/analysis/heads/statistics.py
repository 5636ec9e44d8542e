"""What the heads of a model attend to, in numbers.

Everything here is NumPy on the weights of single sentence pairs, without padding. A *row* is one
position that attends. Averages are over the rows of all sentences, so that each token counts alike.

The first row of masked self-attention can attend to nothing but itself. Rows without a choice say
nothing about a head and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.inference.results import Attention
from nmt.model.contract import AttentionKind

Array = NDArray[Any]

MOST = 0.5  # a head that gives more than this share of its weight to one place is named after it
BROAD = 0.75  # entropy, as a share of the largest possible, from which a head is broad

Sums = dict[tuple[str, str], tuple[Array, int]]  # (kind, measure) -> (sum over rows, rows)
Means = dict[str, dict[str, Array]]  # kind -> measure -> mean over rows


def entropy(weights: Array) -> Array:
    """Return the entropy in nats of distributions over the last axis: [..., S] -> [...]."""
    return -np.sum(weights * np.log(np.where(weights > 0, weights, 1)), axis=-1)


def divergence(weights: Array) -> Array:
    """Return how unlike any two heads of a layer are, row by row.

    The Jensen–Shannon divergence, by which Clark et al. 2019 (What Does BERT Look At?, section 6)
    compare heads: 0 where both attend alike, log 2 = 0.693 nats where to nothing in common.

    Args:
        weights: [..., H, T, S].

    Returns:
        [..., H, H, T], in nats.
    """
    one, other = weights[..., :, None, :, :], weights[..., None, :, :, :]
    alone = entropy(weights)
    mean = (alone[..., :, None, :] + alone[..., None, :, :]) / 2
    return np.maximum(entropy((one + other) / 2) - mean, 0)  # rounding may go below


def diagonal(length: int, width: int) -> NDArray[np.int64]:
    """Return the column at the same relative place as each row.

    The middle of row t lies at (t + 1/2) / T of the rows; the column is the one of S that covers
    this place.

    Args:
        length: T, the number of rows.
        width: S, the number of columns.
    """
    return (2 * np.arange(length) + 1) * width // (2 * length)


def measure(weights: Array, kind: AttentionKind) -> dict[str, Array]:
    """Measure each row that has a choice.

    Args:
        weights: [..., T, S] of one sentence pair.
        kind: of attention.

    Returns:
        By name, [..., rows]:

        - entropy, in nats;
        - entropy_share: entropy over that of a uniform row, log of the positions it may attend to;
        - confidence: the largest weight (Voita et al. 2019, Analyzing Multi-Head Self-Attention);
        - distance: the mean of |position - attended position|, in positions for self-attention.
          For cross-attention in shares of the sentence: position t of T lies at (t + 1/2) / T;
        - mark: the weight on the end mark of the source; in masked self-attention, whose input has
          none, on the begin mark;
        - previous, own, next (self-attention; next not where it is masked): the weight on the
          position before, on the own one, on the one behind, over the rows that have such a one;
        - diagonal (cross-attention): the weight on the column of `diagonal`.
    """
    length, width = weights.shape[-2:]
    positions = np.arange(length)
    choices = positions + 1 if kind.causal else np.full(length, width)
    rows = positions[choices > 1]
    free = weights[..., rows, :]
    nats = entropy(free)
    if kind.is_cross:
        away = np.abs((rows[:, None] + 0.5) / length - (np.arange(width) + 0.5) / width)
    else:
        away = np.abs(rows[:, None] - np.arange(width))
    found = {
        "entropy": nats,
        "entropy_share": nats / np.log(choices[rows]),
        "confidence": free.max(-1),
        "distance": (free * away).sum(-1),
        "mark": free[..., 0 if kind.causal else width - 1],
    }
    if kind.is_cross:
        return found | {"diagonal": weights[..., rows, diagonal(length, width)[rows]]}
    has_previous, has_next = rows[rows > 0], rows[rows < width - 1]
    found["previous"] = weights[..., has_previous, has_previous - 1]
    found["own"] = weights[..., rows, rows]
    if not kind.causal:
        found["next"] = weights[..., has_next, has_next + 1]
    return found


def sum_up(attention: Attention) -> Sums:
    """Sum up the measures of one sentence pair over its rows.

    Returns:
        [layers, H] for each measure of `measure`, and [layers, H, H] for "divergence".
    """
    found = {}
    for kind in attention.kinds:
        weights = np.asarray(attention.weights[kind.name], np.float64)
        of_rows = measure(weights, kind)
        first = 1 if kind.causal else 0
        of_rows["divergence"] = divergence(weights[..., first:, :])
        for name, values in of_rows.items():
            found[kind.name, name] = values.sum(-1), values.shape[-1]
    return found


def average(many: Iterable[Sums]) -> Means:
    """Return the mean of each measure over the rows of all sentences.

    A measure for which there is not a single row is left out.
    """
    total: Sums = {}
    for one in many:
        for key, (values, rows) in one.items():
            so_far = total.get(key, (np.zeros_like(values), 0))
            total[key] = so_far[0] + values, so_far[1] + rows
    found: Means = {}
    for (kind, name), (values, rows) in total.items():
        if rows:
            found.setdefault(kind, {})[name] = values / rows
    return found


def name_role(kind: AttentionKind, values: dict[str, float]) -> str:
    """Say what a head does, by rule.

    - More than half of its weight goes to one place: it is named after that place ("previous
      token", "own token", "next token", "diagonal", "end mark", "begin mark").
    - Or its largest weight is more than half, on average: "focused". It looks at single tokens,
      and which ones is not a matter of position. Heads of cross-attention that align words are.
    - Or its entropy is more than three quarters of a uniform row's: "broad".
    - Or else: "mixed".

    Args:
        kind: of attention.
        values: its means, by name of measure.
    """
    mark = "begin mark" if kind.causal else "end mark"
    places = {
        "previous": "previous token",
        "own": "own token",
        "next": "next token",
        "diagonal": "diagonal",
        "mark": mark,
    }
    favourite = max((name for name in places if name in values), key=values.__getitem__)
    if values[favourite] > MOST:
        return places[favourite]
    if values["confidence"] > MOST:
        return "focused"
    return "broad" if values["entropy_share"] > BROAD else "mixed"


def find_most_like(divergences: Array) -> list[tuple[int, float] | None]:
    """Return for each head the other one that attends most alike, and their divergence.

    Args:
        divergences: [H, H], in nats.

    Returns:
        (index of the other head, divergence) per head; None for an only head.
    """
    if len(divergences) == 1:
        return [None]
    others = np.where(np.eye(len(divergences), dtype=bool), np.inf, divergences)
    return [(int(np.argmin(row)), float(np.min(row))) for row in others]


def summarize_probes(attentions: Sequence[Attention]) -> dict[str, float]:
    """Return what training shows of its probe sentences, by TensorBoard tag.

    The entropy in nats of every kind and layer, and the share of cross-attention that goes to the
    end mark; means over heads.
    """
    if not attentions:
        return {}
    found = average(map(sum_up, attentions))
    kinds = attentions[0].kinds
    wanted = [(kind.name, "entropy", "entropy") for kind in kinds]
    wanted += [(kind.name, "mark", "end_mark") for kind in kinds if kind.is_cross]
    return {
        f"attention/{tag}/{kind}_layer_{layer}": float(heads.mean())
        for kind, name, tag in wanted
        for layer, heads in enumerate(found.get(kind, {}).get(name, ()), start=1)
    }
