"""Blocks by keywords in any Keras model: masks, dropout, outputs, and what they store."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from conftest import PLAIN
from keras import ops
from numpy.typing import NDArray

from nmt.model import DecoderBlock, EncoderBlock, FeedForward, SelfAttention, TransformerSizes
from nmt.model.positions import list_distances, make_distance_bias

pytestmark = pytest.mark.backend

WIDTHS: dict[str, Any] = {"d_model": 16, "num_heads": 4, "ffn_width": 24}
OTHERS = {"vocabulary_size": 9, "encoder_layers": 1, "decoder_layers": 1}
IDS = np.array([[3, 4, 5, 0, 0], [6, 2, 7, 8, 1]], np.int32)  # 0 is padding
MEMORY_IDS = np.array([[4, 8, 5, 3, 6, 0, 0], [2, 2, 7, 1, 0, 0, 0]], np.int32)
X = np.random.default_rng(1).standard_normal((2, 5, 16)).astype("float32")
MEMORY = np.random.default_rng(2).standard_normal((2, 7, 16)).astype("float32")


def numpy(tensor: Any) -> NDArray[Any]:
    return ops.convert_to_numpy(tensor)


def encoder_decoder(**settings: Any) -> keras.Model:
    """Return a model of one block of each kind, which Keras gives the masks of its embedding."""
    embedding = keras.layers.Embedding(9, 16, mask_zero=True)
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    memory = EncoderBlock(**WIDTHS, **settings)(embedding(source))
    return keras.Model(
        [source, target], DecoderBlock(**WIDTHS, **settings)(embedding(target), memory)
    )


def test_padding_on_either_side_changes_nothing() -> None:
    model = encoder_decoder()
    output = numpy(model([MEMORY_IDS, IDS]))
    first = numpy(model([MEMORY_IDS[:1, :5], IDS[:1, :3]]))
    second = numpy(model([MEMORY_IDS[1:, :4], IDS[1:]]))
    np.testing.assert_allclose(output[:1, :3], first, atol=1e-5)
    np.testing.assert_allclose(output[1:], second, atol=1e-5)


def test_a_decoder_block_is_causal_under_any_mask() -> None:
    block = DecoderBlock(**WIDTHS)
    changed = X.copy()
    changed[:, 3:] += 1
    for mask in (None, np.ones((2, 5, 5), bool)):
        before, after = (numpy(block(x, MEMORY, attention_mask=mask)) for x in (X, changed))
        np.testing.assert_allclose(after[:, :3], before[:, :3], atol=1e-5)
        assert np.abs(after - before)[:, 3:].min(-1).max() > 0


def test_a_mask_of_cross_attention() -> None:
    block = DecoderBlock(**WIDTHS)
    visible = np.zeros((2, 5, 7), bool)
    visible[:, :, :4] = True
    by_mask, _, weights = block(X, MEMORY, cross_mask=visible, return_weights=True)
    assert (numpy(weights)[..., 4:] == 0).all()
    np.testing.assert_allclose(numpy(by_mask), numpy(block(X, MEMORY[:, :4])), atol=1e-5)


def test_weights_come_along_where_they_are_asked_for() -> None:
    encoder, decoder = EncoderBlock(**WIDTHS), DecoderBlock(**WIDTHS)
    output, weights = encoder(X, return_weights=True)
    np.testing.assert_allclose(numpy(encoder(X)), numpy(output), atol=1e-6)
    assert weights.shape == (2, 4, 5, 5)
    shapes = [tensor.shape for tensor in decoder(X, MEMORY, return_weights=True)]
    assert shapes == [(2, 5, 16), (2, 4, 5, 5), (2, 4, 5, 7)]


def test_dropout_follows_training_and_the_seed() -> None:
    rates = {"dropout": 0.2, "attention_dropout": 0.2, "ffn_dropout": 0.2}
    blocks = [EncoderBlock(**WIDTHS, **rates, seed=seed) for seed in (1, 1, 2)]
    for block in blocks:
        block.build((None, None, 16))
        block.set_weights(blocks[0].get_weights())
    plain = numpy(blocks[0](X))
    np.testing.assert_array_equal(numpy(blocks[0](X, training=False)), plain)
    first, same, other = (numpy(block(X, training=True)) for block in blocks)
    np.testing.assert_array_equal(same, first)
    assert np.abs(first - plain).max() > 0.1
    assert np.abs(other - first).max() > 0.1
    assert np.abs(numpy(blocks[0](X, training=True)) - first).max() > 0.1
    assert EncoderBlock(**WIDTHS).generator is None


def test_a_block_alone_computes_what_it_computes_in_a_model() -> None:
    for kind, inputs in ((EncoderBlock, (X,)), (DecoderBlock, (X, MEMORY))):
        alone, inside = kind(**WIDTHS), kind(TransformerSizes(**PLAIN | WIDTHS | OTHERS))
        inside.build()
        alone.build()
        alone.set_weights(inside.get_weights())
        np.testing.assert_array_equal(numpy(alone(*inputs)), numpy(inside(*inputs)))


def test_a_model_of_blocks_is_saved_and_cloned(tmp_path: Path) -> None:
    model = encoder_decoder(norm="post", activation="swiglu", dropout=0.1, seed=4)
    expected = numpy(model([MEMORY_IDS, IDS]))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(loaded([MEMORY_IDS, IDS])), expected)
    settings = {"norm": "post", "activation": "swiglu", "dropout": 0.1, "seed": 4}
    for layer in loaded.layers:
        if isinstance(layer, EncoderBlock | DecoderBlock):
            config = layer.get_config()
            assert (settings | WIDTHS).items() <= config.items()
            assert type(layer).from_config(config).get_config() == config


def test_a_block_is_rebuilt_alone_or_as_part_of_a_model() -> None:
    mask = np.ones((2, 5, 5), bool)
    parts = DecoderBlock(**WIDTHS), DecoderBlock(TransformerSizes(**PLAIN | WIDTHS | OTHERS))
    for block in parts:
        rebuilt = DecoderBlock.from_config(block.get_config())
        block.build()
        rebuilt.build()
        rebuilt.set_weights(block.get_weights())
        expected, output = (numpy(b(X, MEMORY, attention_mask=mask)) for b in (block, rebuilt))
        np.testing.assert_array_equal(output, expected)


def test_layers_that_classes_of_a_block_add_are_built_with_it() -> None:
    def with_dense(base: Any) -> Any:
        class WithDense(base):  # type: ignore[misc]
            def __init__(self, sizes: Any = None, **kwargs: Any) -> None:
                super().__init__(sizes, **kwargs)
                self.dense = keras.layers.Dense(3)

        return WithDense

    class Block(EncoderBlock):
        attention_class = with_dense(SelfAttention)
        feed_forward_class = with_dense(FeedForward)

    block = Block(**WIDTHS)
    block.build()
    for layer in (block.attention, block.feed_forward):
        assert layer.dense.kernel.shape == (16, 3)


def test_a_feed_forward_layer_passes_the_mask_of_padding_on() -> None:
    ids = keras.Input((None,), dtype="int32")
    x = FeedForward(**WIDTHS)(keras.layers.Embedding(9, 16, mask_zero=True)(ids))
    model = keras.Model(ids, keras.layers.GlobalAveragePooling1D()(x))
    np.testing.assert_allclose(numpy(model(IDS[:1])), numpy(model(IDS[:1, :3])), atol=1e-5)


def test_sizes_that_are_missing_or_unknown_are_named() -> None:
    with pytest.raises(TypeError, match="ffn_width"):
        EncoderBlock(d_model=16, num_heads=4)
    with pytest.raises(TypeError, match="d_model=16"):
        EncoderBlock(16)
    with pytest.raises(ValueError, match=r"Unrecognized keyword arguments.*drop"):
        EncoderBlock(**WIDTHS, drop=0.1)
    with pytest.raises(ValueError, match="d_model=16 is not divisible by num_heads=3"):
        DecoderBlock(**WIDTHS | {"num_heads": 3})
    for name in ("dropout", "attention_dropout", "ffn_dropout"):
        with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), got 1.0"):
            EncoderBlock(**WIDTHS, **{name: 1.0})


def test_inputs_of_another_width_are_named() -> None:
    for call in (lambda x: EncoderBlock(**WIDTHS)(x), lambda x: DecoderBlock(**WIDTHS)(x, MEMORY)):
        with pytest.raises(ValueError, match=r"block.* expected axis -1 .* value 16"):
            call(X[..., :8])


@pytest.mark.parametrize("positions", ["relative", "alibi"])
def test_positions_that_are_a_bias_are_not_left_out(positions: str) -> None:
    blocks = (
        EncoderBlock(**WIDTHS, positions=positions),
        DecoderBlock(**WIDTHS, positions=positions),
    )
    for block, memory in zip(blocks, ((), (MEMORY,)), strict=True):
        with pytest.raises(ValueError, match=f"positions='{positions}' .* needs distance_bias"):
            block(X, *memory)
        bias = make_distance_bias(positions, 4, causal=bool(memory), name="bias")
        biased = numpy(block(X, *memory, distance_bias=bias(list_distances(5, 5))))
        block.sizes = dataclasses.replace(block.sizes, positions="none")
        plain = numpy(block(X, *memory))
        assert np.abs(biased - plain).max() > 1e-4
