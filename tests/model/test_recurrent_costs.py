"""The account of recurrent models, against models, formulas and numbers worked out by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from conftest import RECURRENT

from nmt.analysis.anatomy.counts import count_by_part
from nmt.model import Recurrent, RecurrentSizes
from nmt.model.costs import BatchShape, count_training_flops_per_token

SIZES = RECURRENT | {"dropout": 0.1}  # V = 11, D = 6, R = 8
VARIANTS = [
    {"cell": cell, "attention": attention, "num_heads": 2 if attention == "cross" else 1} | changes
    for (cell, attention), changes in zip(
        product(("gru", "lstm"), ("additive", "dot", "general", "cross")),
        2 * [{}, {"input_feeding": False}, {"bridge": False, "encoder_layers": 2}]
        + [{"decoder_layers": 3}, {"encoder_layers": 3, "input_feeding": False, "bridge": False}],
        strict=True,
    )
]


def sizes_of(**changes: Any) -> RecurrentSizes:
    return RecurrentSizes(**SIZES | changes)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_closed_form_is_what_the_model_has(changes: dict[str, Any]) -> None:
    sizes = sizes_of(**changes)
    parts = sizes.costs.list_parts()
    assert {part.name: part.parameters for part in parts} == count_by_part(Recurrent(sizes))
    names = {
        **{"V": 11, "D": 6, "R": 8, "g": 3 if sizes.cell == "gru" else 4},
        **{"E": sizes.encoder_layers, "U": sizes.decoder_layers},
    }
    for part in parts:
        formula = part.formula.replace("·", "*").replace("²", "**2").replace("−", "-")
        assert eval(formula, names) == part.parameters, part.formula


def test_operations_by_hand() -> None:
    """A GRU has three gates; six operations for each weight that a token meets in training."""
    # Source: 6 x 24 + 8 x 24 / 2 of the encoder, 8 x 8 of the keys: 304.
    # Target: 12 x 24 + 8 x 24 of the decoder, 8 x 8 of the queries, 16 x 6 to write from, 11 x 6.
    assert count_training_flops_per_token(sizes_of().costs) == (304 + 706) * 6 / 2
    # Without keys, queries and input feeding: 240 and 6 x 24 + 8 x 24 + 96 + 66.
    plain = sizes_of(attention="dot", input_feeding=False).costs
    assert count_training_flops_per_token(plain) == (240 + 498) * 6 / 2
    flops = plain.count_flops(source_length=5, target_length=9)
    assert (flops.source_products, flops.target_products) == (0, 4 * 8 * 5)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_decoding_keeps_what_is_counted(changes: dict[str, Any]) -> None:
    sizes = sizes_of(**changes)
    state = Recurrent(sizes).start(np.array([[4, 5, 6, 7, 2]]), beam_size=3, max_length=6)

    def count(*tensors: Any) -> int:
        return sum(np.asarray(x).nbytes for x in tensors if not isinstance(x, tuple))

    costs = sizes.costs.count_state()
    states = [tensor for layer in state.layers for tensor in layer]
    assert count(*states, state.attentional) == 3 * costs.hypothesis
    assert count(*state.memory) == 5 * costs.source
    assert costs.target == 0


def test_activations_by_hand() -> None:
    estimates = sizes_of().costs.estimate_activations(BatchShape(2, 5, "bfloat16"))
    # The encoder reads 6 and the decoder 12 numbers; gates and state are 5 x 8 in each.
    assert estimates["recurrent layers"] == 10 * (6 + 12 + 2 * 40) * 2
    assert estimates["attention weights"] == 10 * 5 * 4
    assert estimates["attention vectors"] == 10 * (4 * 8 + 6) * 2
    assert estimates["dropout"] == 10 * 3 * 6
    assert estimates["loss"] == 10 * 11 * 4
