"""Joined weights: nothing is lost, and what the optimizer tells apart stays apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from nmt.runs.building import build_model
from nmt.training.weight_groups import LARGE, WeightGroups

pytestmark = pytest.mark.backend


def weights_of(compose: Callable[..., Any]) -> dict[str, keras.Variable]:
    named: dict[str, keras.Variable] = build_model(
        compose("model=tiny"), 40, precision="float32"
    ).named_weights()
    return named


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
def test_parting_undoes_joining(compose: Callable[..., Any], optimizer: str) -> None:
    weights = list(weights_of(compose).values())
    groups = WeightGroups(weights, optimizer)
    generator = np.random.default_rng(0)
    tensors = [
        ops.convert_to_tensor(generator.standard_normal(tuple(w.shape)).astype(np.float32))
        for w in weights
    ]
    joined = groups.join(tensors)
    sizes = sum(int(np.prod(tensor.shape)) for tensor in joined)
    assert sizes == sum(int(np.prod(w.shape)) for w in weights)
    for tensor, again in zip(tensors, groups.split(joined), strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(tensor), ops.convert_to_numpy(again))


def test_groups_follow_the_optimizer(compose: Callable[..., Any]) -> None:
    named = weights_of(compose)
    weights = list(named.values())
    kernels = [name for name in named if name.endswith("kernel")]

    def shapes(optimizer: str) -> list[tuple[int, ...]]:
        groups = WeightGroups(weights, optimizer)
        return sorted(tuple(variable.shape) for variable in groups.make_variables(weights))

    elements = sum(int(np.prod(w.shape)) for w in weights)
    in_kernels = sum(int(np.prod(named[name].shape)) for name in kernels)
    assert shapes("adam") == [(elements,)]
    assert shapes("adamw") == sorted([(in_kernels,), (elements - in_kernels,)])
    apart = [tuple(named[name].shape) for name in kernels]
    assert shapes("muon") == sorted([*apart, (elements - in_kernels,)])


def test_kernels_of_adapters_are_kernels() -> None:
    shapes = {"lora_kernel_a": (4, 2), "lora_kernel_b": (2, 4), "bias": (3,)}
    weights = [keras.Variable(np.zeros(shape), name=name) for name, shape in shapes.items()]

    def shapes_of(optimizer: str) -> list[tuple[int, ...]]:
        groups = WeightGroups(weights, optimizer)
        return [tuple(variable.shape) for variable in groups.make_variables(weights)]

    assert shapes_of("adamw") == [(16,), (3,)]
    assert shapes_of("muon") == [(4, 2), (2, 4), (3,)]


def test_variables_copy_only_what_is_joined(compose: Callable[..., Any]) -> None:
    small = [keras.Variable(np.full(n, float(n), np.float32), name="bias") for n in (2, 3)]
    large = keras.Variable(np.zeros((LARGE // 8, 8), np.float32), name="table")
    weights = [small[0], large, small[1]]
    groups = WeightGroups(weights, "adam")
    joined, single = groups.make_variables(weights)
    assert single is large
    np.testing.assert_array_equal(ops.convert_to_numpy(joined), [2, 2, 3, 3, 3])
    assert groups.copied_indices() == [0, 2]
