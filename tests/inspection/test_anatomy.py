"""Counts of a small model, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from nmt.inspection.anatomy import parameters_by_part, training_flops_per_token
from nmt.model.transformer import Transformer

# D = 8, H = 2, F = 12, V = 11; 2 encoder and 3 decoder layers.
SMALL: dict[str, Any] = {
    "vocabulary_size": 11,
    "d_model": 8,
    "num_heads": 2,
    "ffn_width": 12,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "norm": "pre",
    "positions": "sinusoidal",
    "activation": "relu",
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "ffn_dropout": 0.0,
    "max_length": 16,
    "attention_kernel": "explicit",
    "remat": False,
}

VARIANTS = [
    {},
    {"norm": "post"},
    {"positions": "learned"},
    {"activation": "swiglu"},
    {"norm": "post", "positions": "learned", "activation": "swiglu", "num_heads": 1},
]


@pytest.mark.parametrize("changes", VARIANTS)
def test_parts_sum_to_the_whole(changes: dict[str, Any]) -> None:
    model = Transformer(**SMALL | changes)
    parts = parameters_by_part(model)
    assert sum(parts.values()) == model.count_params()
    assert all(count > 0 for count in parts.values())
    assert ("positions" in parts) == (changes.get("positions") == "learned")


@pytest.mark.parametrize("changes", VARIANTS)
def test_parts_by_hand(changes: dict[str, Any]) -> None:
    config = SMALL | changes
    parts = parameters_by_part(Transformer(**config))
    attention = 4 * 8 * 8 + 4 * 8  # four kernels and biases per layer: 288
    assert parts["encoder self-attention"] == 2 * attention
    assert parts["decoder masked self-attention"] == 3 * attention
    assert parts["cross-attention"] == 3 * attention
    assert parts["embeddings (tied)"] == 11 * 8
    assert parts.get("positions", 0) == (16 * 8 if config["positions"] == "learned" else 0)
    gated = config["activation"] == "swiglu"
    inner, outer = 8 * 12 + 12, 12 * 8 + 8
    assert parts["feed-forward"] == 5 * ((2 if gated else 1) * inner + outer)
    norms = 2 * 2 + 3 * 3 + (2 if config["norm"] == "pre" else 0)
    assert parts["layer normalisation"] == norms * 2 * 8


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # A source token meets 2 x (4 x 64 + 2 x 96) = 896 weights of the encoder and 3 x 2 x 64 =
        # 384 of the cross-attention's keys and values: 1,280. A target token meets 3 x (4 x 64 of
        # self-attention + 2 x 64 of cross-attention's queries and outputs + 2 x 96) = 1,728 and
        # 11 x 8 = 88 of the output: 1,816. Six operations each; (1,280 + 1,816) / 2 x 6 = 9,288.
        ({}, 9288),
        ({"norm": "post"}, 9288),  # norms and biases are no matrices,
        ({"positions": "learned"}, 9288),  # nor are look-ups
        ({"num_heads": 1}, 9288),
        # A third matrix of 96 in each of the five layers: 9,288 + 5 x 96 x 3.
        ({"activation": "swiglu"}, 10728),
        # A source token meets 448 + 1 x 128 = 576, a target token 576 + 88 = 664: 1,240 x 3.
        ({"encoder_layers": 1, "decoder_layers": 1}, 3720),
    ],
)
def test_operations_by_hand(changes: dict[str, Any], expected: int) -> None:
    assert training_flops_per_token(Transformer(**SMALL | changes)) == expected
