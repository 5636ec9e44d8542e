"""Statistics of attention heads.

Everything here is NumPy on the weights of single sentence pairs, without padding. A *row* is one
position that attends. Averages are over the rows of all sentences, so that each token counts the
same. The first row of masked self-attention can only attend to itself: it says nothing about a head
and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nmt.inference.results import Attention
from nmt.model.contract import AttentionKind

MAJORITY = 0.5  # a head with more than this share of its weight on one position is named after it
BROAD = 0.75  # a head is broad above this share of the maximal entropy

Sums = dict[tuple[str, str], tuple[np.ndarray, int]]  # (kind, measure) -> (sum over rows, rows)
Means = dict[str, dict[str, np.ndarray]]  # kind -> measure -> mean over rows


def entropy(weights: np.ndarray) -> np.ndarray:
    """Return the entropy in nats of distributions over the last axis: [..., S] -> [...]."""
    return -np.sum(weights * np.log(np.where(weights > 0, weights, 1)), axis=-1)


def divergence(weights: np.ndarray) -> np.ndarray:
    """Return the Jensen–Shannon divergence of any two heads of a layer, row by row.

    Clark et al. 2019 (What Does BERT Look At?, section 6) compare heads by it: 0 for equal rows,
    log 2 = 0.693 nats for rows without a common position.

    Args:
        weights: [..., H, T, S].

    Returns:
        [..., H, H, T], in nats.
    """
    first, second = weights[..., :, None, :, :], weights[..., None, :, :, :]
    entropies = entropy(weights)
    mean = (entropies[..., :, None, :] + entropies[..., None, :, :]) / 2
    return np.maximum(entropy((first + second) / 2) - mean, 0)  # rounding may give less than 0


def diagonal(length: int, width: int) -> np.ndarray:
    """Return the column at the same relative position as each row.

    The middle of row t lies at (t + 1/2) / T of the rows; the column covers that position.

    Args:
        length: T, the number of rows.
        width: S, the number of columns.
    """
    return (2 * np.arange(length) + 1) * width // (2 * length)


def measure(weights: np.ndarray, kind: AttentionKind) -> dict[str, np.ndarray]:
    """Measure each row that can attend to more than one position.

    Args:
        weights: [..., T, S] of one sentence pair.
        kind: the kind of attention.

    Returns:
        Values [..., rows] by name:

        - entropy, in nats;
        - entropy_share: entropy divided by that of a uniform row, the log of its allowed positions;
        - confidence: the largest weight (Voita et al. 2019, Analyzing Multi-Head Self-Attention),
          that on the EOS of the source excluded;
        - distance: the mean of |position - attended position|, in positions for self-attention.
          For cross-attention in shares of the sentence: position t of T lies at (t + 1/2) / T;
        - mark: the weight on the EOS of the source; in masked self-attention, whose input has
          no EOS, on BOS;
        - previous, own, next (self-attention; next only where it is not masked): the weight on the
          previous, the own and the next position, over the rows that have such a position;
        - diagonal (cross-attention): the weight on the column of `diagonal`.
    """
    length, width = weights.shape[-2:]
    positions = np.arange(length)
    choices = positions + 1 if kind.causal else np.full(length, width)
    rows = positions[choices > 1]
    free = weights[..., rows, :]
    nats = entropy(free)
    if kind.is_cross:
        distances = np.abs((rows[:, None] + 0.5) / length - (np.arange(width) + 0.5) / width)
    else:
        distances = np.abs(rows[:, None] - np.arange(width))
    values = {
        "entropy": nats,
        "entropy_share": nats / np.log(choices[rows]),
        "confidence": (free if kind.causal else free[..., :-1]).max(-1, initial=0),
        "distance": (free * distances).sum(-1),
        "mark": free[..., 0 if kind.causal else width - 1],
    }
    if kind.is_cross:
        return values | {"diagonal": weights[..., rows, diagonal(length, width)[rows]]}
    has_previous, has_next = rows[rows > 0], rows[rows < width - 1]
    values["previous"] = weights[..., has_previous, has_previous - 1]
    values["own"] = weights[..., rows, rows]
    if not kind.causal:
        values["next"] = weights[..., has_next, has_next + 1]
    return values


def sum_up(attention: Attention, *, compares_heads: bool = True) -> Sums:
    """Return the sums over the rows of one sentence pair.

    They are [layers, H] for each value of `measure`, and [layers, H, H] for "divergence".

    Args:
        attention: of the pair.
        compares_heads: whether to compute the divergence, whose memory grows with H² T S.
    """
    sums = {}
    for kind in attention.kinds:
        weights = np.asarray(attention.weights[kind.name], np.float64)
        measured = measure(weights, kind)
        first = 1 if kind.causal else 0
        if compares_heads:
            measured["divergence"] = np.stack([divergence(layer[:, first:]) for layer in weights])
        for name, values in measured.items():
            sums[kind.name, name] = values.sum(-1), values.shape[-1]
    return sums


def average(sums: Iterable[Sums]) -> Means:
    """Return the mean of each measure over the rows of all sentences, if there are any."""
    total: Sums = {}
    for pair_sums in sums:
        for key, (values, rows) in pair_sums.items():
            previous = total.get(key, (np.zeros_like(values), 0))
            total[key] = previous[0] + values, previous[1] + rows
    means: Means = {}
    for (kind, name), (values, rows) in total.items():
        if rows:
            means.setdefault(kind, {})[name] = values / rows
    return means


def name_role(kind: AttentionKind, values: dict[str, float]) -> str:
    """Return the role of a head, by the first rule that applies.

    - More than half of its weight is on one position: the name of that position ("previous token",
      "own token", "next token", "diagonal", "EOS", "BOS").
    - Its confidence is more than half: "focused". It attends to single tokens, not
      by position. Heads of cross-attention that align words do so.
    - Its entropy is more than three quarters of a uniform row's: "broad".
    - Otherwise: "mixed".

    Args:
        kind: the kind of attention.
        values: means of the head, by name of the measure.
    """
    mark = "BOS" if kind.causal else "EOS"
    roles = {
        "previous": "previous token",
        "own": "own token",
        "next": "next token",
        "diagonal": "diagonal",
        "mark": mark,
    }
    favourite = max((name for name in roles if name in values), key=values.__getitem__)
    if values[favourite] > MAJORITY:
        return roles[favourite]
    if values["confidence"] > MAJORITY:
        return "focused"
    return "broad" if values["entropy_share"] > BROAD else "mixed"


def find_most_like(divergences: np.ndarray) -> list[tuple[int, float] | None]:
    """Return the index of the head most like each head, and their divergence; None for a sole head.

    Args:
        divergences: [H, H], in nats.
    """
    if len(divergences) == 1:
        return [None]
    others = np.where(np.eye(len(divergences), dtype=bool), np.inf, divergences)
    return [(int(np.argmin(row)), float(np.min(row))) for row in others]


def summarize_probes(attentions: Sequence[Attention]) -> dict[str, float]:
    """Return scalars about the attention of the probe sentences, by TensorBoard tag.

    They are the entropy in nats of every kind and layer, and the share of cross-attention on the
    EOS, as means over heads.
    """
    if not attentions:
        return {}
    means = average(sum_up(attention, compares_heads=False) for attention in attentions)
    kinds = attentions[0].kinds
    measures = [(kind.name, "entropy", "entropy") for kind in kinds]
    measures += [(kind.name, "mark", "eos") for kind in kinds if kind.is_cross]
    return {
        f"attention/{tag}/{kind}_layer_{layer}": float(heads.mean())
        for kind, name, tag in measures
        for layer, heads in enumerate(means.get(kind, {}).get(name, ()), start=1)
    }
