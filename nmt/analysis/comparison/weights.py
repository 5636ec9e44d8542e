"""What differs between the weights of two checkpoints: arrays, and heads with small outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt.model.contract import Model
from nmt.runs.building import choose_weights
from nmt.runs.folder import RunFolder

_SILENT = 1e-3  # of the median norm of a layer: a head below it writes next to nothing


class HeadNorm(NamedTuple):
    """The weights through which a head writes."""

    name: str  # "cross-attention, layer 2, head 3"
    norm: float
    relative: float  # to the median of its layer


class WeightDifference(NamedTuple):
    """How the arrays of two checkpoints of one model differ."""

    arrays: int
    changed: list[tuple[str, float]]  # name and |a - b| / |a|, the largest first

    @property
    def identical(self) -> int:
        """The number of equal arrays."""
        return self.arrays - len(self.changed)


def measure_heads(model: Model) -> list[HeadNorm]:
    """Return the norm of the weights through which each head writes."""
    norms = []
    for kind in model.attention_kinds:
        for number, layer in enumerate(model.attention_layers(kind.name), start=1):
            values = [_norm(layer.head_weights(head)) for head in range(layer.num_heads)]
            median = max(float(np.median(values)), 1e-12)
            norms += [
                HeadNorm(f"{kind.title.lower()}, layer {number}, head {head}", norm, norm / median)
                for head, norm in enumerate(values, start=1)
            ]
    return norms


def _norm(weights: Sequence[tuple[Any, Any]]) -> float:
    parts = [np.asarray(weight)[part] for weight, part in weights]
    return float(np.sqrt(sum((part.astype(np.float64) ** 2).sum() for part in parts)))


def list_silent(heads: Sequence[HeadNorm]) -> list[str]:
    """Return the names of heads that write next to nothing."""
    return [head.name for head in heads if head.relative < _SILENT]


def compare_weights(first: RunFolder, second: RunFolder) -> WeightDifference | None:
    """Return how weights differ; None: the models have other arrays."""
    arrays = [choose_weights(folder.load_weights()[0]) for folder in (first, second)]
    return compare_arrays(*arrays)


def compare_arrays(
    first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]
) -> WeightDifference | None:
    """Return how arrays differ; None: their names or shapes do."""
    shapes = [{name: each.shape for name, each in arrays.items()} for arrays in (first, second)]
    if shapes[0] != shapes[1]:
        return None
    distances = {
        name: float(np.linalg.norm(array - second[name]) / max(float(np.linalg.norm(array)), 1e-12))
        for name, array in first.items()
    }
    changed = [(name, distance) for name, distance in distances.items() if distance > 0]
    return WeightDifference(len(distances), sorted(changed, key=lambda each: -each[1]))
