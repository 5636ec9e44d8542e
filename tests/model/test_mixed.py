"""Products in half precision with float32 results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from nmt.model.mixed import multiply_to_float32

pytestmark = pytest.mark.backend

D, V = 32, 11
HALVES = ("float16", "bfloat16")


def inputs(dtype: str) -> tuple[Any, Any, Any]:
    """Return x [2, 3, D] and a table [V, D] in half precision, and a gradient float32 [2, 3, V]."""
    generator = np.random.default_rng(4)
    x, table = (
        ops.cast(generator.normal(size=shape).astype(np.float32), dtype)
        for shape in ((2, 3, D), (V, D))
    )
    return x, table, ops.convert_to_tensor(generator.normal(size=(2, 3, V)).astype(np.float32))


def differentiate(x: Any, table: Any, upstream: Any) -> tuple[Any, Any, Any]:
    """Return the product, and the gradients of x and of the table."""
    if keras.config.backend() == "jax":
        import jax

        product, back = jax.vjp(multiply_to_float32, x, table)
        return (product, *back(upstream))
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch([x, table])
        product = multiply_to_float32(x, table)
    return (product, *tape.gradient(product, [x, table], output_gradients=upstream))


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    if keras.config.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=True, autograph=False)


def exactly(array: Any) -> np.ndarray:
    return np.asarray(ops.cast(array, "float32"), np.float64)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("wrap", [compiled, lambda function: function], ids=["compiled", "eager"])
def test_only_the_operands_are_rounded(dtype: str, wrap: Callable[..., Any]) -> None:
    x, table, upstream = inputs(dtype)
    product, x_gradient, table_gradient = wrap(differentiate)(x, table, upstream)
    assert keras.backend.standardize_dtype(product.dtype) == "float32"
    back = exactly(ops.cast(upstream, dtype))
    np.testing.assert_allclose(exactly(product), exactly(x) @ exactly(table).T, atol=2e-5)
    rounding = 2.0**-8 if dtype == "bfloat16" else 2.0**-11  # half a unit in the last place
    x_expected = back @ exactly(table)
    table_expected = back.reshape(-1, V).T @ exactly(x).reshape(-1, D)
    for gradient, expected in ((x_gradient, x_expected), (table_gradient, table_expected)):
        assert keras.backend.standardize_dtype(gradient.dtype) == dtype
        np.testing.assert_allclose(exactly(gradient), expected, rtol=rounding, atol=2e-5)


@pytest.mark.parametrize("dtype", HALVES)
def test_no_compiled_product_has_float32_operands(dtype: str) -> None:
    """Three products, one forward and two backward, of half-precision operands each."""
    x, table, upstream = inputs(dtype)
    if keras.config.backend() == "jax":
        import jax

        program = jax.make_jaxpr(differentiate)(x, table, upstream)
        operands = [
            [str(variable.aval.dtype) for variable in equation.invars]
            for equation in program.jaxpr.eqns
            if equation.primitive.name == "dot_general"
        ]
        forward = str(jax.make_jaxpr(multiply_to_float32)(x, table))
        assert forward.count("preferred_element_type=float32") == 1
        assert operands in ([[dtype] * 2] * 2, [[dtype] * 2] * 3)  # forward may be nested
        return
    graph = compiled(differentiate).get_concrete_function(x, table, upstream).graph
    products = [node for node in graph.get_operations() if node.type in ("XlaDotV2", "MatMul")]
    operands = [[tensor.dtype.name for tensor in node.inputs] for node in products]
    assert operands == [[dtype] * 2] * 3
