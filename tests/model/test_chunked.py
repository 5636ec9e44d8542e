"""Chunked attention is the explicit path, block by block, and holds nothing of T times S."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
from keras import ops
from numpy.typing import NDArray

from nmt.model.attention import scaled_dot_product_attention
from nmt.model.chunked import chunked_attention
from nmt.model.dropout import FULL_SHARE, DropoutKey
from nmt.model.masks import SegmentMask

pytestmark = pytest.mark.backend

Array = NDArray[Any]

B, T, S, H, G, K, C = 2, 11, 14, 4, 2, 3, 5
BLOCK = 4
TENSORFLOW = keras.config.backend() == "tensorflow"
RNG = np.random.default_rng(0)
# Segments of two rows, packed and padded. Their last queries may attend to nothing.
QUERIES = np.array([[1] * 4 + [2] * 5 + [0] * 2, [1] * 2 + [2] * 4 + [3] * 5], np.int32)
KEYS = np.array([[1] * 6 + [2] * 6 + [0] * 2, [2] * 3 + [1] * 7 + [4] * 4], np.int32)


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def uint32(value: int) -> Any:
    return ops.convert_to_tensor(value, dtype="uint32")


def spread_out(queries: Array, keys: Array, *, causal: bool) -> Array:
    """Return the mask bool [B, 1, T, S] that these segments stand for."""
    mask = (queries[:, :, None] == keys[:, None]) & (keys[:, None] > 0)
    return (mask & np.tri(*mask.shape[1:], dtype=bool) if causal else mask)[:, None]


class Case(NamedTuple):
    """One call; unset options have their simplest values."""

    mask: Array | tuple[Array, Array, bool] | None = None
    lengths: tuple[int, int] = (T, S)
    groups: int = G
    bias: bool = False
    dropout_key: Any = None
    block: int = BLOCK

    def tensors(self) -> list[Array]:
        """Return the tensors to differentiate: query, key, value and, if present, the bias."""
        queries, keys = self.lengths
        shapes = [(B, queries, H, K), (B, keys, self.groups, K), (B, keys, self.groups, C)]
        actual = [normal(seed, *shape) for seed, shape in enumerate(shapes)]
        return actual + [normal(3, H, queries + keys - 1)] * self.bias

    def chunked(self, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        mask = SegmentMask(*self.mask) if isinstance(self.mask, tuple) else self.mask
        return chunked_attention(
            query,
            key,
            value,
            mask,
            distance_bias=bias,
            dropout_rate=0.3,
            dropout_key=self.dropout_key,
            block=self.block,
        )

    def explicit(self, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        mask = self.mask
        if isinstance(mask, tuple):
            mask = spread_out(mask[0], mask[1], causal=mask[2])
        return scaled_dot_product_attention(
            query,
            key,
            value,
            mask,
            distance_bias=bias,
            dropout_rate=0.3,
            dropout_key=self.dropout_key,
        )[0]


CASES = {
    "no mask": Case(),
    "heads of their own, whole blocks": Case(lengths=(8, 12), groups=H, bias=True),
    "every head its mask": Case(RNG.random((B, H, T, S)) < 0.4, dropout_key=uint32(7)),
    "one mask for all heads": Case(
        RNG.random((B, 1, T, S)) < 0.2, bias=True, dropout_key=uint32(5)
    ),
    "one mask for all": Case(RNG.random((T, S)) < 0.5, groups=1),
    "keys": Case(RNG.random((B, 1, 1, S)) < 0.6),
    "queries": Case(RNG.random((1, H, T, 1)) < 0.6),
    "segments": Case(
        (QUERIES, KEYS, False),
        bias=True,
        dropout_key=DropoutKey(uint32(3), uint32(FULL_SHARE // 2)).at_row(5),
    ),
    "causal segments": Case((QUERIES, QUERIES, True), (T, T), bias=True, dropout_key=uint32(9)),
    "causal, more keys": Case((QUERIES, KEYS, True)),
    "causal, more queries": Case((KEYS, QUERIES, True), (S, T)),
    "less than a block": Case((QUERIES, QUERIES, True), (T, T), bias=True, block=64),
}


# Each is compiled on JAX, which takes a second.
NAMES = (
    list(CASES)
    if TENSORFLOW
    else ["no mask", "one mask for all heads", "keys", "segments", "causal, more queries"]
)


def differentiate(
    function: Callable[..., Any], tensors: Sequence[Array], probe: Array, how: str = "plain"
) -> list[Array]:
    """Return function(*tensors), then the gradients of its product with ``probe``.

    Args:
        function: of tensors.
        tensors: what it is called with.
        probe: of the shape of its output.
        how: on TensorFlow, "plain" (eagerly), "graph", "dynamic" (a graph for all lengths) or
            "compiled". JAX always compiles.
    """
    if not TENSORFLOW:
        import jax

        def scalar(*inner: Any) -> Any:
            output = function(*inner)
            return ops.sum(output * probe), output

        numbers = tuple(range(len(tensors)))
        gradients, output = jax.jit(jax.grad(scalar, numbers, has_aux=True))(*tensors)
        return [np.asarray(x) for x in (output, *gradients)]

    import tensorflow as tf

    def derivative(*inner: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(inner)
            output = function(*inner)
            scalar = tf.reduce_sum(output * probe)
        return [output, *tape.gradient(scalar, inner)]

    if how != "plain":
        signature = [
            tf.TensorSpec([None, None, *x.shape[2:]] if x.ndim == 4 else [H, None], tf.float32)
            for x in tensors
        ]
        derivative = tf.function(
            derivative,
            input_signature=signature if how == "dynamic" else None,
            jit_compile=how == "compiled",
            autograph=False,
        )
    return [x.numpy() for x in derivative(*map(tf.convert_to_tensor, tensors))]


def assert_equal(actual: list[Array], expected: list[Array]) -> None:
    names = ("output", "query", "key", "value", "bias")
    for name, left, right in zip(names, actual, expected, strict=False):
        assert np.abs(right).max() > 0.1, name
        np.testing.assert_allclose(left, right, atol=1e-5, err_msg=name)
    assert len(actual) == len(expected)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_and_gradients_equal_the_explicit_path(name: str) -> None:
    case = CASES[name]
    probe = normal(4, B, case.lengths[0], H, C)
    actual = differentiate(case.chunked, case.tensors(), probe)
    assert_equal(actual, differentiate(case.explicit, case.tensors(), probe))


@pytest.mark.parametrize(
    ("name", "how"),
    [("one mask for all heads", "dynamic"), ("causal segments", "compiled")][not TENSORFLOW :],
)
def test_the_same_in_a_graph_and_recomputed(name: str, how: str) -> None:
    case = CASES[name]
    probe = normal(4, B, case.lengths[0], H, C)
    actual = differentiate(keras.remat(case.chunked), case.tensors(), probe, how)
    assert_equal(actual, differentiate(case.explicit, case.tensors(), probe))


def test_queries_that_may_attend_to_nothing_get_zeros() -> None:
    """Theirs are zeros exactly, and they leave no trace in the gradients of the others."""
    case = CASES["causal segments"]
    probe = normal(4, B, T, H, C)
    output, query_gradient, key_gradient, value_gradient, _ = differentiate(
        case.chunked, case.tensors(), probe
    )
    padding = QUERIES == 0
    for array in (output, query_gradient, key_gradient, value_gradient):
        assert (array[padding] == 0).all()
        assert (array[~padding] != 0).any()


@pytest.mark.parametrize("spoilt", ["first query", "last key"])
def test_blocks_in_the_future_are_left_out(spoilt: str) -> None:
    """NaN spreads to every block that is computed with it."""
    length = 3 * BLOCK
    ones = np.ones((B, length), np.int32)
    query, key, value = (normal(seed, B, length, 1, K) for seed in range(3))
    for array in [query[:, 0]] if spoilt == "first query" else [key[:, -1], value[:, -1]]:
        array[:] = np.nan

    def attend(*tensors: Any) -> Any:
        return chunked_attention(*tensors, SegmentMask(ones, ones, True), block=BLOCK)

    actual = differentiate(attend, [query, key, value], normal(4, B, length, 1, K))
    output, query_gradient, key_gradient, value_gradient = (np.isfinite(x) for x in actual)
    if spoilt == "first query":
        assert not output[:, 0].any()
        assert not key_gradient[:, 0].any()
        assert key_gradient[:, BLOCK:].all()
        assert value_gradient[:, BLOCK:].all()
    else:
        assert not output[:, -1].any()
        assert output[:, :-BLOCK].all()
        assert query_gradient[:, :-BLOCK].all()


def test_half_precision_is_near_and_overflows_nowhere() -> None:
    """Scores of 80,000 are beyond float16: 200 times 200 times 4, over the root of 4."""
    case = Case((QUERIES, QUERIES, True), (T, T))
    tensors, probe = case.tensors(), normal(4, B, T, H, C)
    expected = differentiate(case.explicit, tensors, probe)
    large = np.full((1, 9, 1, 4), 200.0, np.float32)
    for dtype, tolerance in (("float16", 2e-3), ("bfloat16", 3e-2)):

        def attend(*inner: Any, dtype: str = dtype) -> Any:
            output = case.chunked(*(ops.cast(x, dtype) for x in inner))
            assert keras.backend.standardize_dtype(output.dtype) == dtype
            return ops.cast(output, "float32")

        for left, right in zip(differentiate(attend, tensors, probe), expected, strict=True):
            np.testing.assert_allclose(left, right, atol=tolerance * np.abs(right).max())
        inner = (ops.cast(x, dtype) for x in (large, large * np.linspace(-1, 1, 9)[:, None, None]))
        output = chunked_attention(*inner, ops.cast(large, dtype), None, block=BLOCK)
        np.testing.assert_array_equal(ops.convert_to_numpy(ops.cast(output, "float32")), large)


def jax_sizes(jaxpr: Any) -> Iterator[int]:
    """Yield the number of elements of every result, inside loops too."""
    for equation in jaxpr.eqns:
        yield from (result.aval.size for result in equation.outvars)
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, tuple) else (parameter,):
                if hasattr(inner := getattr(inner, "jaxpr", inner), "eqns"):
                    yield from jax_sizes(inner)


def tensorflow_sizes(graph: Any) -> Iterator[int]:
    """Yield the number of elements of every result, inside loops too."""
    for operation in graph.get_operations():
        for result in operation.outputs:
            yield result.shape.num_elements() or 0
        for name in ("cond", "body"):
            if operation.type in ("While", "StatelessWhile"):
                inner = graph._get_function(operation.get_attr(name).name)
                yield from tensorflow_sizes(inner.graph)


@pytest.mark.parametrize("lengths", [(0, S), (T, 0)])
def test_without_queries_or_keys_outputs_are_empty_or_zeros(lengths: tuple[int, int]) -> None:
    inputs = Case(lengths=lengths).tensors()
    output, _ = scaled_dot_product_attention(*inputs, kernel="chunked")
    expected = np.zeros((B, lengths[0], H, C))
    np.testing.assert_array_equal(ops.convert_to_numpy(output), expected)


@pytest.mark.parametrize("kernel", ["chunked", "explicit"])
def test_nothing_has_an_element_for_every_query_and_key(kernel: str) -> None:
    length = 64
    segments = np.ones((1, length), np.int32)
    case = Case((segments, segments, True), (length, length), H, True, uint32(3), block=8)
    attend = getattr(case, kernel)
    tensors = [normal(0, 1, length, H, K)] * 3 + [normal(1, H, 2 * length - 1)]
    if TENSORFLOW:
        import tensorflow as tf

        def derivative(*inner: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(inner)
                scalar = tf.reduce_sum(attend(*inner))
            return tape.gradient(scalar, inner)

        traced = tf.function(derivative, autograph=False).get_concrete_function(*tensors)
        largest = max(tensorflow_sizes(traced.graph))
    else:
        import jax

        gradient = jax.grad(lambda *inner: ops.sum(attend(*inner)), (0, 1, 2, 3))
        largest = max(jax_sizes(jax.make_jaxpr(gradient)(*tensors).jaxpr))
    assert (largest < length * length) == (kernel == "chunked")
