"""Weights joined into a few long vectors, for arithmetic that does not depend on shapes.

A transformer has hundreds of small weights. Summing, clipping, updating and averaging each of them
apart costs more than the arithmetic itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

Tensor = Any

LARGE = 1 << 20  # elements from which a weight is a group of its own, without a copy


class WeightGroups:
    """The groups that the weights of a model are joined into.

    Args:
        weights: the trained weights of a model, in order.
        optimizer: "adam", "adamw" or "muon". Only weights that it treats alike share a group: decay
            acts on kernels alone, those of adapters included, and Muon needs each kernel as a
            matrix. None: another one, which may treat every weight differently, so that each is a
            group of its own.
    """

    def __init__(self, weights: Sequence[keras.Variable], optimizer: str | None) -> None:
        self._shapes = [tuple(weight.shape) for weight in weights]
        groups: dict[str, list[int]] = {}
        for i, weight in enumerate(weights):
            is_kernel = weight.name == "kernel" or weight.name.startswith("lora_kernel")
            name = "kernels" if is_kernel and optimizer == "adamw" else "undecayed"
            is_alone = optimizer is None or (is_kernel and optimizer == "muon")
            if is_alone or math.prod(self._shapes[i]) >= LARGE:
                name = str(i)
            groups.setdefault(name, []).append(i)
        self._names = list(groups)
        self._members = list(groups.values())

    def make_variables(self, weights: Sequence[keras.Variable]) -> list[keras.Variable]:
        """Return one variable per group: a joined copy, or the only weight of the group itself."""
        joined = self.join([weight.value for weight in weights])
        return [
            weights[members[0]] if len(members) == 1 else keras.Variable(vector, name=name)
            for name, members, vector in zip(self._names, self._members, joined, strict=True)
        ]

    def join(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return one tensor per group: a vector of all elements, or the group's only tensor."""
        return [
            tensors[members[0]]
            if len(members) == 1
            else ops.concatenate([ops.reshape(tensors[i], (-1,)) for i in members])
            for members in self._members
        ]

    def split(self, joined: Sequence[Tensor]) -> list[Tensor]:
        """Return one tensor per weight, in order and shape: the inverse of `join`."""
        tensors: dict[int, Tensor] = {}
        for members, vector in zip(self._members, joined, strict=True):
            if len(members) == 1:
                tensors[members[0]] = vector
                continue
            start = 0
            for i in members:
                size = math.prod(self._shapes[i])
                tensors[i] = ops.reshape(vector[start : start + size], self._shapes[i])
                start += size
        return [tensors[i] for i in range(len(self._shapes))]

    def copied_indices(self) -> list[int]:
        """Return the indices of the weights that `make_variables` copied."""
        return sorted(i for members in self._members if len(members) > 1 for i in members)
