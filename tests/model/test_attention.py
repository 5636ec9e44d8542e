"""Attention equals Keras's own, a loop over tokens, and the finite differences of that loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from numpy.typing import NDArray

from nmt.model.attention import KeyValues, scaled_dot_product_attention
from nmt.model.attention_roles import CausalSelfAttention, CrossAttention, SelfAttention
from nmt.model.dropout import dropout
from nmt.model.masks import ancestor_mask, causal_mask, segment_mask
from nmt.model.multi_head import MultiHeadAttention
from nmt.model.sizes import AttentionSizes

pytestmark = pytest.mark.backend

Array = NDArray[Any]

B, T, S, D = 2, 5, 7, 8
PROJECTIONS = ("query", "key", "value", "output_projection")
KERNELS = ("explicit", "fused")


def differentiated(
    function: Callable[..., Any], probe: Array, variables: list[keras.Variable]
) -> Callable[..., tuple[Array, list[Array]]]:
    """Return a function of ``tensors``: (function(*tensors), gradients of its product with probe).

    The gradients are those of the tensors, and then those of the variables. On JAX it is compiled,
    once for all calls: operation by operation, each of them would be compiled by itself.
    """
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        def derivative(*tensors: Array) -> tuple[Array, list[Array]]:
            watched = [tf.convert_to_tensor(array) for array in tensors]
            with tf.GradientTape() as tape:
                tape.watch(watched)
                output = function(*watched)
                scalar = ops.sum(output * probe)
            sources = [*watched, *(variable.value for variable in variables)]
            actual = tape.gradient(scalar, sources, unconnected_gradients="zero")
            return ops.convert_to_numpy(output), [ops.convert_to_numpy(g) for g in actual]

        return derivative

    import jax

    def pure(arrays: list[Any], values: list[Any]) -> Any:
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            output = function(*arrays)
            return ops.sum(output * probe), output

    jitted = jax.jit(jax.grad(pure, argnums=(0, 1), has_aux=True))

    def derivative_jax(*tensors: Array) -> tuple[Array, list[Array]]:
        values = [variable.value for variable in variables]
        (array_gradients, value_gradients), output = jitted(
            [jax.numpy.asarray(a) for a in tensors], values
        )
        actual = [
            ops.convert_to_numpy(gradient) for gradient in (*array_gradients, *value_gradients)
        ]
        return ops.convert_to_numpy(output), actual

    return derivative_jax


@contextmanager
def double_precision() -> Iterator[None]:
    """Let JAX have float64, which it otherwise rounds to float32; TensorFlow always has it."""
    if keras.config.backend() != "jax":
        yield
        return
    import jax

    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


def normal(seed: int, *shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def random_mask(seed: int, *shape: int) -> Array:
    """Return a mask in which about half may attend, and every query to something."""
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < 0.5
    np.put_along_axis(mask, rng.integers(0, shape[-1], (*shape[:-1], 1)), True, axis=-1)
    return mask


def check_gradients(
    actual: list[Array], exact: list[Array], scalar: Callable[[], float], *, tolerance: float
) -> None:
    """Compare every entry of every gradient with central differences of ``scalar``."""
    step = 1e-5
    for gradient, array in zip(actual, exact, strict=True):
        assert gradient.shape == array.shape
        for place in np.ndindex(*array.shape):
            original = array[place]
            array[place] = original + step
            above = scalar()
            array[place] = original - step
            below = scalar()
            array[place] = original
            assert gradient[place] == pytest.approx((above - below) / (2 * step), abs=tolerance)


def randomised(layer: MultiHeadAttention, seed: int = 0) -> MultiHeadAttention:
    """Build a layer and give it random weights, biases included."""
    layer.build()
    for number, weight in enumerate(layer.weights):
        weight.assign(0.5 * normal(100 * seed + number, *weight.shape))
    return layer


def weights_of(layer: MultiHeadAttention) -> list[keras.Variable]:
    """Return the kernels and biases of query, key, value and output, in this order."""
    return [
        weight
        for name in PROJECTIONS
        for weight in (getattr(layer, name).kernel, getattr(layer, name).bias)
    ]


def keras_twin(layer: MultiHeadAttention) -> tuple[Any, list[keras.Variable]]:
    """Return Keras's layer with the same weights, and these in the order of `weights_of`."""
    width, heads = layer.sizes.d_model, layer.num_heads
    twin = keras.layers.MultiHeadAttention(num_heads=heads, key_dim=width // heads)
    twin.build((None, None, width), (None, None, width), (None, None, width))
    theirs = [
        weight
        for dense in (twin.query_dense, twin.key_dense, twin.value_dense, twin.output_dense)
        for weight in (dense.kernel, dense.bias)
    ]
    for our, their in zip(weights_of(layer), theirs, strict=True):
        their.assign(np.reshape(ops.convert_to_numpy(our), their.shape))
    return twin, theirs


def attend_by_loop(
    x: Array, memory: Array, mask: Array, weights: list[Array], heads: int
) -> tuple[Array, Array]:
    """Attend token by token and head by head, in the precision of the inputs.

    Returns:
        (output [B, T, D], weights [B, H, T, S]).
    """
    query_kernel, query_bias, key_kernel, key_bias, value_kernel, value_bias, kernel, bias = weights
    width = x.shape[-1] // heads
    output = np.zeros_like(x)
    shares = np.zeros((len(x), heads, x.shape[1], memory.shape[1]), x.dtype)
    for b in range(len(x)):
        keys = [token @ key_kernel + key_bias for token in memory[b]]
        values = [token @ value_kernel + value_bias for token in memory[b]]
        for t, token in enumerate(x[b]):
            query = token @ query_kernel + query_bias
            merged = np.zeros_like(query)
            for h in range(heads):
                part = slice(h * width, (h + 1) * width)
                visible = [s for s in range(len(keys)) if mask[b, h, t, s]]
                scores = np.array([query[part] @ keys[s][part] / np.sqrt(width) for s in visible])
                exponentials = np.exp(scores - scores.max())
                for s, share in zip(visible, exponentials / exponentials.sum(), strict=True):
                    shares[b, h, t, s] = share
                    merged[part] += share * values[s][part]
            output[b, t] = merged @ kernel + bias
    return output, shares


def call(layer: MultiHeadAttention, x: Any, memory: Any, **arguments: Any) -> Any:
    """Call a layer in its role; self-attention leaves ``memory`` out."""
    if isinstance(layer, CrossAttention):
        return layer(x, memory, **arguments)
    return layer(x, **arguments)


def role(name: str, heads: int, kernel: str) -> tuple[MultiHeadAttention, Array, Array]:
    """Return a layer with random weights, its input and its memory (the input again for self)."""
    kind = CrossAttention if name == "cross" else SelfAttention
    layer = randomised(kind(AttentionSizes(D, heads, kernel=kernel)))
    x = normal(1, B, T, D)
    return layer, x, normal(2, B, S, D) if name == "cross" else x


@pytest.mark.parametrize(
    ("name", "heads", "kernel"),
    [
        ("self", 1, "explicit"),
        ("self", 4, "fused"),
        ("cross", 1, "fused"),
        ("cross", 4, "explicit"),
    ],
)
def test_outputs_and_gradients_equal_those_of_keras(name: str, heads: int, kernel: str) -> None:
    layer, x, memory = role(name, heads, kernel)
    twin, theirs = keras_twin(layer)
    mask = random_mask(3, B, T, memory.shape[1])
    probe = normal(4, B, T, D)  # makes a scalar of the output, with a gradient of its own per entry
    inputs = [x, memory] if name == "cross" else [x]

    def our_output(x: Any, memory: Any = None) -> Any:
        return call(layer, x, memory, attention_mask=mask[:, None])

    def their_output(x: Any, memory: Any = None) -> Any:
        memory = x if memory is None else memory
        return twin(x, memory, memory, attention_mask=mask)

    output, ours = differentiated(our_output, probe, weights_of(layer))(*inputs)
    twins_output, expected = differentiated(their_output, probe, theirs)(*inputs)
    np.testing.assert_allclose(output, twins_output, atol=1e-5)
    assert len(ours) == len(expected) == len(inputs) + 8
    for our, their in zip(ours, expected, strict=True):
        np.testing.assert_allclose(our, np.reshape(their, our.shape), atol=1e-5, rtol=1e-5)
        # A gradient of zeros would agree with anything broken alike; only the key bias has one:
        # it adds the same to all scores of a query, and a softmax does not see that.
    small = [n for n, gradient in enumerate(ours) if np.abs(gradient).max() < 1e-3]
    assert small == [len(inputs) + 3]


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("name", ["self", "cross"])
def test_outputs_and_weights_equal_a_loop_over_tokens(name: str, heads: int) -> None:
    layer, x, memory = role(name, heads, "explicit")
    mask = random_mask(5, B, heads, T, memory.shape[1])  # another one for every head
    output, weights = call(layer, x, memory, attention_mask=mask, return_weights=True)
    exact = [np.float64(ops.convert_to_numpy(weight)) for weight in weights_of(layer)]
    expected, shares = attend_by_loop(np.float64(x), np.float64(memory), mask, exact, heads)
    np.testing.assert_allclose(ops.convert_to_numpy(output), expected, atol=1e-5)
    np.testing.assert_allclose(ops.convert_to_numpy(weights), shares, atol=1e-6)


@pytest.mark.parametrize(("heads", "kernel"), [(1, "explicit"), (2, "explicit"), (2, "fused")])
def test_gradients_equal_finite_differences_of_the_loop(heads: int, kernel: str) -> None:
    """Every entry of every gradient, against central differences of the float64 loop.

    With steps of 1e-5 the truncation error of the differences is about 1e-10 and their rounding
    error 2^-53 / 1e-5, about 1e-11: what remains is the float32 rounding of the layer.
    """
    layer = randomised(CrossAttention(AttentionSizes(4, heads, kernel=kernel)))
    x, memory = normal(6, 1, 3, 4), normal(7, 1, 4, 4)
    mask = random_mask(8, 1, heads, 3, 4)
    probe = normal(9, 1, 3, 4)
    _, actual = differentiated(
        lambda x, memory: layer(x, memory, attention_mask=mask), probe, weights_of(layer)
    )(x, memory)
    exact = [np.float64(a) for a in (x, memory, *map(ops.convert_to_numpy, weights_of(layer)))]

    def scalar() -> float:
        output, _ = attend_by_loop(exact[0], exact[1], mask, exact[2:], heads)
        return float(np.sum(output * probe))

    check_gradients(actual, exact, scalar, tolerance=2e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_equal_finite_differences_of_the_float64_layer(kernel: str) -> None:
    """Directional derivatives of a float64 layer against its own central differences.

    The softmax runs in float32 all the same, so each weight is off by up to d = 2^-24 = 6e-8 and
    the scalar, a sum over about 100 products with them, by about 10 d. A central difference with
    step e has an error of about 10 d / e + e^2 M / 6, M the third derivative (of order 10 along a
    unit direction): 6e-7 / 3e-3 + 1e-5 = 2e-4 for e = 3e-3. The derivatives are of order 1.
    """
    with double_precision():
        layer = randomised(CrossAttention(AttentionSizes(D, 2, kernel=kernel), dtype="float64"))
        inputs = [normal(10, B, T, D, dtype="float64"), normal(11, B, S, D, dtype="float64")]
        mask = random_mask(12, B, 1, T, S)
        probe = normal(13, B, T, D, dtype="float64")

        variables = weights_of(layer)
        derivative = differentiated(
            lambda x, memory: layer(x, memory, attention_mask=mask), probe, variables
        )
        output, actual = derivative(*inputs)
        assert output.dtype == np.float64
        original = [ops.convert_to_numpy(variable) for variable in variables]
        for seed in range(5):
            direction = [normal(20 + seed, *g.shape, dtype="float64") for g in actual]
            length = np.sqrt(sum(np.sum(part**2) for part in direction))
            direction = [part / length for part in direction]
            step, sides = 3e-3, []
            for side in (step, -step):
                for variable, value, part in zip(variables, original, direction[2:], strict=True):
                    variable.assign(value + side * part)
                moved = [a + side * part for a, part in zip(inputs, direction[:2], strict=True)]
                sides.append(float(np.sum(derivative(*moved)[0] * probe)))
            for variable, value in zip(variables, original, strict=True):
                variable.assign(value)
            slope = sum(np.sum(g * part) for g, part in zip(actual, direction, strict=True))
            assert slope == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=5e-4)
            assert abs(slope) > 0.02


def test_segment_mask_written_out() -> None:
    queries = np.array([[1, 1, 2, 0], [3, 0, 0, 1]])
    keys = np.array([[1, 2, 2, 1, 0], [1, 3, 0, 0, 3]])
    no, yes = False, True
    expected = np.array(
        [
            [
                [yes, no, no, yes, no],  # segment 1
                [yes, no, no, yes, no],  # segment 1
                [no, yes, yes, no, no],  # segment 2
                [no, no, no, no, no],  # padding sees nothing, not even padding
            ],
            [
                [no, yes, no, no, yes],  # segment 3
                [no, no, no, no, no],
                [no, no, no, no, no],
                [yes, no, no, no, no],  # segment 1
            ],
        ]
    )
    mask = ops.convert_to_numpy(segment_mask(queries, keys))
    assert mask.dtype == np.bool_
    np.testing.assert_array_equal(mask, expected[:, None])


def test_causal_mask_written_out() -> None:
    mask = ops.convert_to_numpy(causal_mask(4))
    assert mask.dtype == np.bool_
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    np.testing.assert_array_equal(mask, np.array([[expected]], bool))


def test_masked_weights_are_exactly_zero_and_rows_sum_to_one() -> None:
    query, key, value = normal(14, B, T, 2, 3), normal(15, B, S, 2, 3), normal(16, B, S, 2, 3)
    mask = random_mask(17, B, 1, T, S)
    _, weights = scaled_dot_product_attention(query, key, value, mask, return_weights=True)
    shares = ops.convert_to_numpy(weights)
    assert shares.shape == (B, 2, T, S)
    hidden = ~np.broadcast_to(mask, shares.shape)
    assert (shares[hidden] == 0).all()
    assert (shares[~hidden] > 0).all()
    np.testing.assert_allclose(shares.sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_query_that_may_attend_to_nothing_gets_zeros(kernel: str) -> None:
    query, key, value = normal(18, B, T, 2, 3), normal(19, B, S, 2, 3), normal(20, B, S, 2, 3)
    mask = random_mask(21, B, 1, T, S)
    mask[0, 0, 2] = False
    mask[1] = False

    def output(query: Any, key: Any, value: Any) -> Any:
        return scaled_dot_product_attention(query, key, value, mask, kernel=kernel)[0]

    outputs, actual = differentiated(output, normal(21, B, T, 2, 3), [])(query, key, value)
    assert (outputs[0, 2] == 0).all()
    assert (outputs[1] == 0).all()
    assert (outputs[0, [0, 1, 3, 4]] != 0).all()
    assert all(np.isfinite(gradient).all() for gradient in actual)
    assert (actual[0][1] == 0).all()  # nothing depends on a query that sees nothing
    assert (actual[2][1] == 0).all()  # nor on values that nobody sees
    assert (actual[0][0, 0] != 0).any()


def test_weights_of_a_query_that_may_attend_to_nothing_are_zero() -> None:
    query, key, value = normal(18, B, T, 2, 3), normal(19, B, S, 2, 3), normal(20, B, S, 2, 3)
    mask = np.zeros((B, 1, 1, S), bool)
    output, weights = scaled_dot_product_attention(query, key, value, mask, return_weights=True)
    assert (ops.convert_to_numpy(weights) == 0).all()
    assert (ops.convert_to_numpy(output) == 0).all()


@pytest.mark.parametrize("masked", [True, False])
def test_fused_equals_explicit(masked: bool) -> None:
    query, key, value = normal(22, B, T, 4, 3), normal(23, B, S, 4, 3), normal(24, B, S, 4, 3)
    mask = random_mask(25, B, 4, T, S) if masked else None

    def actual(kernel: str) -> tuple[Array, list[Array]]:
        return differentiated(
            lambda *inputs: scaled_dot_product_attention(*inputs, mask, kernel=kernel)[0],
            normal(26, *query.shape),
            [],
        )(query, key, value)

    (explicit, explicit_gradients), (fused, fused_gradients) = map(actual, KERNELS)
    np.testing.assert_allclose(fused, explicit, atol=1e-6)
    for left, right in zip(fused_gradients, explicit_gradients, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)


@pytest.mark.parametrize("shape", [(T, S), (3, 1, S), (3, T, S), (1, 1, T, S)])
def test_masks_may_lack_axes_in_every_kernel(shape: tuple[int, ...]) -> None:
    query, key, value = normal(22, B, T, 3, 4), normal(23, B, S, 3, 4), normal(24, B, S, 3, 4)
    mask = random_mask(25, *shape)
    full = np.broadcast_to(mask, (B, 3, T, S))
    expected, _ = scaled_dot_product_attention(query, key, value, full)
    for kernel in (*KERNELS, "chunked"):
        actual, _ = scaled_dot_product_attention(query, key, value, mask, kernel=kernel)
        np.testing.assert_allclose(
            ops.convert_to_numpy(actual), ops.convert_to_numpy(expected), atol=1e-6
        )


def test_a_fused_kernel_still_returns_weights() -> None:
    query, key, value = normal(22, B, T, 4, 3), normal(23, B, S, 4, 3), normal(24, B, S, 4, 3)
    inputs = (query, key, value, random_mask(25, B, 4, T, S))
    explicit = scaled_dot_product_attention(*inputs, return_weights=True)
    fused = scaled_dot_product_attention(*inputs, kernel="fused", return_weights=True)
    for left, right in zip(fused, explicit, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(left), ops.convert_to_numpy(right))
    assert scaled_dot_product_attention(*inputs)[1] is None


@pytest.mark.parametrize("size", [40, 200])
@pytest.mark.parametrize("kernel", KERNELS)
def test_large_float16_inputs_stay_finite(kernel: str, size: int) -> None:
    """Queries and keys of ±size, 64 wide: products of ±64 size², scores of ±8 size².

    The largest float16 is 65,504. At 40 the products leave its range (102,400) and the scores do
    not (12,800); at 200 both do (320,000). The key of like sign gets all the weight: the output
    is its value.
    """
    query = np.full((1, 2, 1, 64), size, np.float16)
    query[0, 1] = -size
    key = np.full((1, 3, 1, 64), -size, np.float16)
    key[0, 0] = size
    value = normal(27, 1, 3, 1, 64).astype(np.float16)
    mask = np.array([[[[True, True, True], [True, False, True]]]])
    output, _ = scaled_dot_product_attention(query, key, value, mask, kernel=kernel)
    assert keras.backend.standardize_dtype(output.dtype) == "float16"
    actual = ops.convert_to_numpy(output)
    np.testing.assert_allclose(actual[0, 0], value[0, 0], atol=1e-3)
    np.testing.assert_allclose(actual[0, 1], value[0, 2], atol=1e-3)


def test_causal_self_attention_needs_no_mask_to_be_causal() -> None:
    layer = randomised(CausalSelfAttention(AttentionSizes(D, 2)))
    x = normal(28, B, T, D)
    output, weights = layer(x, return_weights=True)
    masked = layer(x, attention_mask=causal_mask(T))
    np.testing.assert_allclose(
        ops.convert_to_numpy(output), ops.convert_to_numpy(masked), atol=1e-6
    )
    above = np.triu(np.ones((T, T), bool), 1)
    assert (ops.convert_to_numpy(weights)[..., above] == 0).all()
    changed = x.copy()
    changed[:, 3] += 1
    right = ops.convert_to_numpy(layer(changed))
    np.testing.assert_allclose(right[:, :3], ops.convert_to_numpy(output)[:, :3], atol=1e-6)
    assert (np.abs(right - ops.convert_to_numpy(output))[:, 3:].max(-1) > 1e-3).all()


def test_self_attention_without_a_mask_sees_everything() -> None:
    layer = randomised(SelfAttention(AttentionSizes(D, 2)))
    x = normal(29, B, T, D)
    output, weights = layer(x, return_weights=True)
    assert (ops.convert_to_numpy(weights) > 0).all()
    everything = layer(x, attention_mask=np.ones((1, 1, T, T), bool))
    np.testing.assert_allclose(
        ops.convert_to_numpy(output), ops.convert_to_numpy(everything), atol=1e-6
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_steps_with_a_cache_equal_the_whole_sequence(kernel: str) -> None:
    layer = randomised(CausalSelfAttention(AttentionSizes(D, 2, kernel=kernel)))
    x = normal(30, B, T, D)
    full = ops.convert_to_numpy(layer(x))
    # Two hypotheses; the second reads the sequence backwards, and its slots are not to be seen by
    # the first. Cache entries beyond the current position must not matter either.
    back = x[:, ::-1]
    whole_back = ops.convert_to_numpy(layer(back))
    slots = 2 * (T + 2)
    cache = KeyValues(1e3 * normal(31, B, 2, D // 2, slots), 1e3 * normal(32, B, 2, slots, D // 2))
    ancestors = np.full((B, 2, T + 2), -1, np.int32)
    for index in range(T):
        ancestors[:, :, index] = [0, 1]
        output, cache = layer.step(
            np.stack([x[:, index], back[:, index]], axis=1).reshape(-1, D),
            cache,
            ancestor_mask(ancestors),
            ops.convert_to_tensor(index, "int32"),
            2,
        )
        actual = ops.convert_to_numpy(output).reshape(B, 2, D)
        np.testing.assert_allclose(actual[:, 0], full[:, index], atol=1e-5, err_msg=str(index))
        np.testing.assert_allclose(actual[:, 1], whole_back[:, index], atol=1e-5)
    keys, values = (ops.convert_to_numpy(part) for part in layer.project(x))  # [B, T, H, K]
    kept_keys, kept_values = (ops.convert_to_numpy(part) for part in cache)
    np.testing.assert_allclose(kept_keys[..., : 2 * T : 2].transpose(0, 3, 1, 2), keys, atol=1e-5)
    np.testing.assert_allclose(
        kept_values[:, :, : 2 * T : 2].transpose(0, 2, 1, 3), values, atol=1e-5
    )


def test_who_descends_from_whom_by_hand() -> None:
    """Two hypotheses, three positions; the second hypothesis continues the first."""
    ancestors = np.array([[[0, 0, -1], [0, 1, -1]]], np.int32)
    expected = [
        [[True, False], [True, False], [False, False]],
        [[True, False], [False, True], [False, False]],
    ]
    mask = ops.convert_to_numpy(ancestor_mask(ancestors))
    np.testing.assert_array_equal(mask, np.array(expected).reshape(1, 1, 2, 6))


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="d_model=8 is not divisible by num_heads=3"):
        SelfAttention(AttentionSizes(8, 3))
    with pytest.raises(ValueError, match="one of 'explicit', 'fused', 'chunked', got 'flash'"):
        CrossAttention(AttentionSizes(8, 2, kernel="flash"))


@pytest.mark.parametrize("kind", [SelfAttention, CausalSelfAttention, CrossAttention])
def test_configuration_rebuilds_the_layer(kind: type[MultiHeadAttention]) -> None:
    sizes = AttentionSizes(D, 4, dropout=0.3, kernel="fused")
    layer = randomised(kind(sizes, name="there", dtype="float32"))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is kind
    assert again.get_config() == layer.get_config()
    assert again.sizes == sizes
    assert (again.num_heads, again.name) == (4, "there")
    assert again.built  # as its original was
    again.set_weights(layer.get_weights())
    x, memory = normal(33, B, T, D), normal(34, B, S, D)
    np.testing.assert_array_equal(
        ops.convert_to_numpy(call(again, x, memory, return_weights=True)[0]),
        ops.convert_to_numpy(call(layer, x, memory, return_weights=True)[0]),
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_are_dropped_only_with_a_key(kernel: str) -> None:
    query, key, value = normal(35, B, T, 2, 3), normal(36, B, S, 2, 3), normal(37, B, S, 2, 3)
    place = ops.convert_to_tensor(5, "uint32")

    def attend(**arguments: Any) -> tuple[Array, Array]:
        actual = scaled_dot_product_attention(query, key, value, return_weights=True, **arguments)
        return ops.convert_to_numpy(actual[0]), ops.convert_to_numpy(actual[1])

    plain, weights = attend()
    without_key, _ = attend(dropout_rate=0.5, kernel=kernel)
    without_rate, _ = attend(dropout_key=place, kernel=kernel)
    np.testing.assert_array_equal(without_key, plain)
    np.testing.assert_array_equal(without_rate, plain)

    dropped, returned = attend(dropout_rate=0.5, dropout_key=place, kernel=kernel)
    np.testing.assert_array_equal(returned, weights)  # before dropout
    thinned = ops.convert_to_numpy(dropout(weights, 0.5, place))
    assert (thinned == 0).any()
    expected = np.einsum("bhts,bshk->bthk", thinned, value)
    np.testing.assert_allclose(dropped, expected, atol=1e-6)
    # Without weights asked for, a fused kernel must not skip the dropout either.
    silent, none = scaled_dot_product_attention(
        query, key, value, dropout_rate=0.5, dropout_key=place, kernel=kernel
    )
    assert none is None
    np.testing.assert_allclose(ops.convert_to_numpy(silent), expected, atol=1e-6)


def test_a_layer_passes_its_rate_and_its_key_on() -> None:
    layer = randomised(CrossAttention(AttentionSizes(D, 2, dropout=0.5)))
    same = CrossAttention(AttentionSizes(D, 2))
    same.build()
    same.set_weights(layer.get_weights())
    x, memory = normal(38, B, T, D), normal(39, B, S, D)
    key = ops.convert_to_tensor(9, "uint32")
    first, again, plain, without_rate = (
        ops.convert_to_numpy(actual[0])
        for actual in (
            layer(x, memory, dropout_key=key),
            layer(x, memory, dropout_key=key),
            layer(x, memory),
            same(x, memory, dropout_key=key),
        )
    )
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(plain, without_rate)
    assert np.abs(first - plain).max() > 1e-2
