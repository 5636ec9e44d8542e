"""The layers of attention in anybody's Keras model: by keywords, with the masks that Keras has."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from numpy.typing import NDArray
from test_attention import keras_twin, normal, random_mask, randomised

from nmt.model import CausalSelfAttention, CrossAttention, SelfAttention

pytestmark = pytest.mark.backend

Array = NDArray[Any]

B, T, S, D, H, VOCABULARY = 2, 5, 7, 16, 4, 9
IDS = np.array([[3, 4, 5, 0, 0], [6, 2, 7, 8, 1]], np.int32)  # 0 is padding
MEMORY_IDS = np.array([[4, 8, 5, 3, 6, 0, 0], [2, 2, 7, 1, 0, 0, 0]], np.int32)
ROLES = (SelfAttention, CausalSelfAttention, CrossAttention)
SELVES = (SelfAttention, CausalSelfAttention)


@cache
def embedding() -> keras.layers.Embedding:
    """Return an embedding that says where padding is."""
    layer = keras.layers.Embedding(VOCABULARY, D, mask_zero=True)
    layer.build((None, None))
    layer.set_weights([normal(1, VOCABULARY, D)])
    return layer


@cache
def standalone(kind: type[SelfAttention]) -> Any:
    """Return a layer as a user makes it, with random weights: the same one for the same kind."""
    return randomised(kind(d_model=D, num_heads=H))


def numpy(tensor: Any) -> Array:
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))


def functional(layer: Any, **arguments: Any) -> keras.Model:
    """Put a layer after an embedding, for ids of any length."""
    ids = keras.Input((None,), dtype="int32")
    if not isinstance(layer, CrossAttention):
        return keras.Model(ids, layer(embedding()(ids), **arguments))
    memory_ids = keras.Input((None,), dtype="int32")
    output = layer(embedding()(ids), embedding()(memory_ids), **arguments)
    return keras.Model([ids, memory_ids], output)


# --- Masks. ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["explicit", "fused", "chunked"])
@pytest.mark.parametrize("kind", ROLES)
def test_padding_behind_an_embedding_changes_nothing(kind: type[Any], kernel: str) -> None:
    layer = randomised(kind(d_model=D, num_heads=H, kernel=kernel))
    model = functional(layer)
    inputs = [IDS, MEMORY_IDS] if kind is CrossAttention else IDS
    output = numpy(model(inputs))
    assert output.shape == (B, T, D)
    if kind is CrossAttention:
        first = numpy(model([IDS[:1], MEMORY_IDS[:1, :5]]))
        second = numpy(model([IDS[1:], MEMORY_IDS[1:, :4]]))
        np.testing.assert_allclose(output, np.concatenate([first, second]), atol=1e-5)
    else:
        first = numpy(model(IDS[:1, :3]))
        np.testing.assert_allclose(output[:1, :3], first, atol=1e-5)


@pytest.mark.parametrize("kind", ROLES)
def test_a_mask_by_its_name_is_the_one_that_comes_along(kind: type[Any]) -> None:
    layer, x, memory = standalone(kind), embedding()(IDS), embedding()(MEMORY_IDS)
    if kind is CrossAttention:
        along, weights = layer(x, memory, return_weights=True)
        named = layer(numpy(x), numpy(memory), memory_mask=MEMORY_IDS != 0)
        without = layer(numpy(x), numpy(memory))
        padding = MEMORY_IDS == 0
    else:
        along, weights = layer(x, return_weights=True)
        named = layer(numpy(x), mask=IDS != 0)
        without = layer(numpy(x))
        padding = IDS == 0
    np.testing.assert_allclose(numpy(named), numpy(along), atol=1e-6)
    shares = numpy(weights)
    assert (np.moveaxis(shares, 3, 1)[padding] == 0).all()
    np.testing.assert_allclose(shares.sum(-1), 1, atol=1e-6)
    if kind is not CausalSelfAttention:  # whose tokens do not see the padding that follows them
        assert np.abs(numpy(without) - numpy(along)).max() > 0.1


@pytest.mark.parametrize("kind", ROLES)
def test_the_mask_goes_on_to_later_layers(kind: type[Any]) -> None:
    """An average after the layer leaves padding out; of cross-attention, that of the target."""
    layer = standalone(kind)
    inputs = [IDS, MEMORY_IDS] if kind is CrossAttention else IDS
    model = functional(layer)
    average = keras.layers.GlobalAveragePooling1D()(model.output)
    averaged = keras.Model(model.inputs if kind is CrossAttention else model.input, average)
    output, real = numpy(model(inputs)), (IDS != 0)[:, :, None]
    expected = (output * real).sum(1) / real.sum(1)
    np.testing.assert_allclose(numpy(averaged(inputs)), expected, atol=1e-5)
    assert np.abs(output.mean(1) - expected)[0].max() > 1e-2


@pytest.mark.parametrize("kind", ROLES)
def test_masks_of_three_and_four_axes(kind: type[Any]) -> None:
    """A mask for all heads, one for each, and both joined with that of padding."""
    layer, x = standalone(kind), embedding()(IDS)
    others = (embedding()(MEMORY_IDS),) if kind is CrossAttention else ()
    padding = (MEMORY_IDS if others else IDS) == 0
    columns = padding.shape[1]
    mask = random_mask(2, B, T, columns)
    mask[:, :, 0] = True  # so that every query sees something
    plain = [numpy(tensor) for tensor in (x, *others)]
    for attention_mask in (
        mask,
        mask.astype(np.int32),
        mask[:, None],
        np.repeat(mask[:, None], H, axis=1),
    ):
        for tensors, hidden in ((plain, ~mask), ([x, *others], ~mask | padding[:, None])):
            _, weights = layer(*tensors, attention_mask=attention_mask, return_weights=True)
            if kind is CausalSelfAttention:  # which stays so
                hidden = hidden | np.triu(np.ones((T, T), bool), 1)
            hidden = np.broadcast_to(hidden[:, None], (B, H, T, columns))
            np.testing.assert_array_equal(numpy(weights) == 0, hidden)


def test_keras_layer_of_the_same_weights_gives_the_same() -> None:
    """Only at queries other than padding: Keras's layer lets padding see nothing."""
    real = IDS != 0
    x, memory = embedding()(IDS), embedding()(MEMORY_IDS)
    for kind in ROLES:
        layer = standalone(kind)
        twin, _ = keras_twin(layer)
        if kind is CrossAttention:
            actual, expected = layer(x, memory), twin(x, memory)
        else:
            actual, expected = layer(x), twin(x, x, use_causal_mask=kind is CausalSelfAttention)
        np.testing.assert_allclose(numpy(actual)[real], numpy(expected)[real], atol=1e-5)


# --- Dropout and training. ------------------------------------------------------------------------


def test_dropout_is_keras_own_switch() -> None:
    x = normal(3, B, T, D)
    layers = [SelfAttention(d_model=D, num_heads=H, dropout=0.5, seed=seed) for seed in (1, 1, 2)]
    for layer in layers:
        layer.build((None, None, D))
        layer.set_weights(standalone(SelfAttention).get_weights())
    layer, same, other = layers
    plain = numpy(layer(x))
    np.testing.assert_array_equal(numpy(layer(x, training=False)), plain)
    np.testing.assert_allclose(plain, numpy(standalone(SelfAttention)(x)), atol=1e-6)
    first, second = numpy(layer(x, training=True)), numpy(layer(x, training=True))
    assert np.abs(first - plain).max() > 0.1
    assert np.abs(first - second).max() > 0.1
    np.testing.assert_array_equal(numpy(same(x, training=True)), first)
    np.testing.assert_array_equal(numpy(same(x, training=True)), second)
    assert np.abs(numpy(other(x, training=True)) - first).max() > 0.1
    # Without a rate there is nothing to draw.
    assert standalone(SelfAttention).generator is None
    np.testing.assert_allclose(numpy(standalone(SelfAttention)(x, training=True)), plain, atol=1e-6)


def test_a_model_is_fitted_and_saved(tmp_path: Path) -> None:
    """Whether a sentence has more of token 1 than of token 2."""
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(4)
    ids = rng.integers(1, VOCABULARY, (32, 6)).astype(np.int32)
    ids[:16, 4:] = 0
    labels = ((ids == 1).sum(1) > (ids == 2).sum(1)).astype(np.int32)
    words = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, D, mask_zero=True)(words)
    x = SelfAttention(d_model=D, num_heads=H, dropout=0.1, seed=1, name="attention")(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(words, keras.layers.Dense(2)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    seeds = model.get_layer("attention").generator.state
    assert any(variable is seeds for variable in model.variables)
    assert all(variable is not seeds for variable in model.weights)
    before = numpy(seeds)
    losses = model.fit(ids, labels, batch_size=32, epochs=12, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert (numpy(seeds) != before).any()  # they are in the state that fitting carries

    expected = numpy(model(ids))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(again(ids)), expected)
    copied = keras.models.clone_model(model)
    copied.set_weights(model.get_weights())
    np.testing.assert_array_equal(numpy(copied(ids)), expected)
    model.summary(print_fn=lambda line: None)


@pytest.mark.parametrize("kind", ROLES)
def test_a_layer_that_was_built_by_hand_is_loaded(kind: type[Any]) -> None:
    layer = kind(d_model=D, num_heads=H)
    layer.build((None, None, D))
    loaded = kind.from_config(layer.get_config())
    loaded.build_from_config(layer.get_build_config())
    assert [weight.shape for weight in loaded.weights] == [weight.shape for weight in layer.weights]


def test_a_configuration_names_every_field() -> None:
    fields = {
        **{"d_model": D, "num_heads": H, "dropout": 0.1, "heads": "own", "key_value_heads": 2},
        **{"qk_norm": True, "rotary": True, "biases": False, "seed": 3},
    }
    for kind in ROLES:
        layer = kind(name="mine", **fields)
        config = layer.get_config()
        assert fields.items() <= config.items()
        again = kind.from_config(config)
        assert again.get_config() == config
        assert again.sizes == layer.sizes
        assert (again.name, again.seed, again.standalone) == ("mine", 3, True)


# --- Precision. -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "digits"), [("mixed_bfloat16", 8), ("mixed_float16", 11)])
@pytest.mark.parametrize("kind", ROLES)
def test_layers_alone_in_mixed_precision(kind: type[Any], policy: str, digits: int) -> None:
    layer = kind(d_model=D, num_heads=H, dtype=policy)
    layer.build((None, None, D))
    layer.set_weights(standalone(kind).get_weights())
    assert {weight.dtype for weight in layer.weights} == {"float32"}
    tensors = [embedding()(IDS)]
    if kind is CrossAttention:
        tensors.append(embedding()(MEMORY_IDS))
    output, weights = layer(*tensors, return_weights=True)
    assert keras.backend.standardize_dtype(output.dtype) == policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    expected = numpy(standalone(kind)(*tensors))
    tolerance = 10 * 2.0**-digits * np.abs(expected).max()
    np.testing.assert_allclose(numpy(output), expected, atol=tolerance)
    padding = (IDS if kind in SELVES else MEMORY_IDS) == 0
    assert (np.moveaxis(numpy(weights), 3, 1)[padding] == 0).all()


# --- Other uses of a layer by Keras. --------------------------------------------------------------


@pytest.mark.parametrize("kind", ROLES)
def test_weights_are_a_second_output(kind: type[Any], tmp_path: Path) -> None:
    layer = kind(d_model=D, num_heads=H)  # Keras wants as many outputs of all calls of a layer
    model = functional(layer, return_weights=True)
    layer.set_weights(standalone(kind).get_weights())
    inputs = [IDS, MEMORY_IDS] if kind is CrossAttention else IDS
    columns = S if kind is CrossAttention else T
    assert [tuple(output.shape) for output in model.outputs] == [
        (None, None, D),
        (None, H, None, None),
    ]
    output, weights = model(inputs)
    assert tuple(weights.shape) == (B, H, T, columns)
    np.testing.assert_allclose(
        numpy(output), numpy(functional(standalone(kind))(inputs)), atol=1e-6
    )
    if kind is CrossAttention:
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")(inputs)
        for actual, expected in zip(again, (output, weights), strict=True):
            np.testing.assert_array_equal(numpy(actual), numpy(expected))


def test_shapes_are_known_without_a_call() -> None:
    for kind in SELVES:
        assert kind(d_model=D, num_heads=H).compute_output_shape((None, 5, D)) == (None, 5, D)
    layer = CrossAttention(d_model=D, num_heads=H)
    assert layer.compute_output_shape((None, 5, D), (None, 7, D)) == (None, 5, D)
    each = keras.layers.TimeDistributed(SelfAttention(d_model=D, num_heads=H))
    assert each(keras.Input((3, 5, D))).shape == (None, 3, 5, D)
    stacked = keras.Sequential(
        [keras.Input((None, D)), CausalSelfAttention(d_model=D, num_heads=H)]
    )
    assert stacked.output_shape == (None, None, D)


def test_numpy_goes_in_eagerly() -> None:
    x, memory = normal(5, B, T, D), normal(6, B, S, D)
    for layer in map(standalone, SELVES):
        assert layer(x).shape == (B, T, D)
        np.testing.assert_array_equal(numpy(layer(np.float64(x))), numpy(layer(x)))
    assert standalone(CrossAttention)(x, memory=memory).shape == (B, T, D)


def test_what_does_not_fit_is_said() -> None:
    layer, cross = standalone(SelfAttention), standalone(CrossAttention)
    x = normal(7, B, T, D)
    with pytest.raises(ValueError, match=r"self_attention.* expected axis -1 .* value 16"):
        layer(x[..., :8])
    with pytest.raises(ValueError, match="expected ndim=3, found ndim=2"):
        layer(x[0])
    with pytest.raises(ValueError, match="axis -1 of input shape to have value 16"):
        cross(x, x[..., :8])
    with pytest.raises(ValueError, match="must be 16 wide, got 8"):
        SelfAttention(d_model=D, num_heads=H).build((None, None, 8))
    with pytest.raises(ValueError, match=r"attention_mask must be \[B, T, S\] .* got \(2, 5\)"):
        layer(x, attention_mask=IDS != 0)
    with pytest.raises(TypeError, match="d_model=16"):
        SelfAttention(D)
    with pytest.raises(TypeError, match="num_heads"):
        SelfAttention(d_model=D)
    with pytest.raises(ValueError, match=r"Unrecognized keyword arguments.*drop"):
        SelfAttention(d_model=D, num_heads=H, drop=0.1)
