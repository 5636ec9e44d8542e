"""The gap between training and decoding is rounding, and shows what one of them lacks."""

from __future__ import annotations

from typing import Any

import keras
import pytest
from keras import ops

from nmt.model import CausalSelfAttention, DecoderBlock, Recurrent, RecurrentSizes, Transformer
from nmt.model.decoding_gap import measure_decoding_gap

pytestmark = pytest.mark.backend

SIZES = {
    **{"vocabulary_size": 12, "d_model": 16, "num_heads": 2, "ffn_width": 32},
    **{"encoder_layers": 2, "decoder_layers": 2},
}


class UnmaskedEncoder(Transformer):
    def encode(self, source: Any, mask: Any, **arguments: Any) -> Any:
        return super().encode(source, ops.ones_like(mask), **arguments)


class Scaled(Transformer):
    """Scales its logits in decoding only."""

    def step(self, tokens: Any, index: Any, state: Any) -> Any:
        logits, state = super().step(tokens, index, state)
        return logits * 1.1, state


class WindowAttention(CausalSelfAttention):
    """Attends to at most eight tokens in training, and to all of them in decoding."""

    def complete_mask(self, x: Any, attention_mask: Any) -> Any:
        positions = ops.arange(ops.shape(x)[1])
        is_near = positions[:, None] - positions[None] < 8
        return ops.logical_and(super().complete_mask(x, attention_mask), is_near)


class WindowBlock(DecoderBlock):
    self_attention_class = WindowAttention


class Window(Transformer):
    decoder_block_class = WindowBlock


def make_recurrent() -> Recurrent:
    sizes: dict[str, Any] = {"vocabulary_size": 12, "d_model": 16, "state_width": 16}
    sizes |= {"cell": "gru", "encoder_layers": 1, "decoder_layers": 1, "attention": "additive"}
    sizes |= {"num_heads": 1, "input_feeding": True, "bridge": True, "dropout": 0.5}
    return Recurrent(RecurrentSizes(**sizes, attention_dropout=0.0, max_length=16))


@pytest.mark.parametrize(
    "options",
    [
        {"dropout": 0.5},
        {"positions": "rotary", "norm": "post"},
        {"positions": "relative", "attention_kernel": "fused"},
        {"positions": "learned", "attention_kernel": "chunked"},
        {"positions": "learned", "max_length": 12},
    ],
)
def test_it_is_rounding(options: dict[str, Any]) -> None:
    keras.utils.set_random_seed(1)
    assert measure_decoding_gap(Transformer(**SIZES, **options)) < 1e-4


def test_it_is_rounding_for_a_recurrent_model() -> None:
    keras.utils.set_random_seed(1)
    assert measure_decoding_gap(make_recurrent()) < 1e-4


@pytest.mark.parametrize("model_class", [UnmaskedEncoder, Scaled, Window])
def test_it_shows_a_missing_mask_and_another_step(model_class: type[Transformer]) -> None:
    keras.utils.set_random_seed(1)
    assert measure_decoding_gap(model_class(**SIZES)) > 0.05
