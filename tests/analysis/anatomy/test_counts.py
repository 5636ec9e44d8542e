"""Counts of a small model, worked out by hand."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import PLAIN
from rich.console import Console
from sample_configs import OPTIONS

from nmt.analysis.anatomy.counts import count_by_part
from nmt.analysis.anatomy.terminal import tabulate_parameters
from nmt.config import Config
from nmt.model import AttentionSizes, Transformer, TransformerSizes
from nmt.model.costs import Costs, count_training_flops_per_token
from nmt.model.transformer_costs import count_attention_kernels
from nmt.runs.building import build_model

# Those in folders are variants of these.
MODELS = [name.removeprefix("model=") for name in OPTIONS if re.match("model=[^/]*$", name)]

# D = 8, H = 2, F = 12, V = 11; 2 encoder and 3 decoder layers.
SMALL: dict[str, Any] = PLAIN | {
    "vocabulary_size": 11,
    "d_model": 8,
    "num_heads": 2,
    "ffn_width": 12,
    "encoder_layers": 2,
    "decoder_layers": 3,
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
    model = Transformer(TransformerSizes(**SMALL | changes))
    parts = count_by_part(model)
    assert sum(parts.values()) == model.count_params()
    assert all(count > 0 for count in parts.values())
    assert ("positions" in parts) == (changes.get("positions") == "learned")


@pytest.mark.parametrize("changes", VARIANTS)
def test_parts_by_hand(changes: dict[str, Any]) -> None:
    config = SMALL | changes
    parts = count_by_part(Transformer(TransformerSizes(**config)))
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


def small(**changes: Any) -> Costs:
    """Return the account of the small model."""
    return TransformerSizes(**SMALL | changes).costs


ATTENTIONS = [
    {"heads": "own", "num_heads": 4},
    {"heads": "pooled", "attention_output": False},
    {"heads": "pooled", "attention_biases": False, "qk_norm": True},
    {"key_value_heads": 1, "num_heads": 4},
    {"key_value_heads": 2, "num_heads": 4, "heads": "own", "attention_biases": False},
    {"attention_output": False, "qk_norm": True},
    {"qk_norm": "self", "num_heads": 4},
    {"positions": "relative"},
    {"positions": "rotary"},
    {"positions": "none", "attention_biases": False},
]


@pytest.mark.parametrize(
    "changes", [*VARIANTS, *ATTENTIONS, {"activation": "relu2"}, {"activation": "gelu"}]
)
def test_the_closed_form_is_what_the_model_has(changes: dict[str, Any]) -> None:
    expected = {part.name: part.parameters for part in small(**changes).list_parts()}
    assert {"positions": 0} | count_by_part(
        Transformer(TransformerSizes(**SMALL | changes))
    ) == expected


def value(formula: str, sizes: TransformerSizes) -> int:
    """Work out a formula."""
    attention = sizes.cross_attention
    names = {
        "V": sizes.vocabulary_size,
        "D": sizes.d_model,
        "H": sizes.num_heads,
        "K": attention.head_width,
        "G": attention.groups,
        "F": sizes.ffn_width,
        "P": sizes.max_length,
        "E": sizes.encoder_layers,
        "U": sizes.decoder_layers,
    }
    return int(eval(formula.replace("·", "*").replace("²", "**2"), names))


@pytest.mark.parametrize("changes", [*VARIANTS, *ATTENTIONS])
def test_formulas_give_their_numbers(changes: dict[str, Any]) -> None:
    sizes = TransformerSizes(**SMALL | changes)
    for part in sizes.costs.list_parts():
        if part.parameters:
            assert value(part.formula, sizes) == part.parameters, part.formula


@pytest.mark.parametrize("name", MODELS)
def test_the_closed_form_of_every_configuration(name: str, compose: Callable[..., Any]) -> None:
    """One layer of each stack stands for all, so that the big ones are not built in full."""
    config: Config = compose(f"model={name}", "model.encoder_layers=1", "model.decoder_layers=1")
    counted = count_by_part(build_model(config, 50, precision="float32"))
    once = {part.name: part.parameters for part in config.model.make_sizes(50).costs.list_parts()}
    assert {"positions": 0} | counted == {"positions": 0} | once
    if config.model.kind != "transformer":
        return
    sizes = compose(f"model={name}").model
    parameters = {part.name: part.parameters for part in sizes.make_sizes(50).costs.list_parts()}
    layers = {"encoder": sizes.encoder_layers, "decoder": sizes.decoder_layers}
    for part, stack in (
        ("encoder self-attention", "encoder"),
        ("decoder masked self-attention", "decoder"),
        ("cross-attention", "decoder"),
    ):
        assert parameters[part] == layers[stack] * once[part]
    assert parameters["feed-forward"] == sum(layers.values()) * once["feed-forward"] // 2


def test_published_sizes() -> None:
    # GPT-3: 96 layers of width 12,288 (Brown et al. 2020, table 2.1); heads do not matter.
    assert 96 * count_attention_kernels(AttentionSizes(12288, 96)) == 57_982_058_496


def test_the_base_model_has_the_papers_size(compose: Callable[..., Any]) -> None:
    # Vaswani et al. 2017, section 5.1 and table 3: 65 million with about 37,000 pieces.
    config = compose("model=base", "model.norm=post").model
    total = sum(part.parameters for part in config.make_sizes(37_000).costs.list_parts())
    assert total == pytest.approx(65e6, rel=0.04)


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
        # Heads of 4 that share one key and value: keys and values are 8 x 4 instead of 8 x 8, in
        # each of eight attentions: 9,288 - 8 x 2 x 32 x 3.
        ({"key_value_heads": 1}, 7752),
        # Values of both heads are 8 wide: 64 more in each of eight: 9,288 + 8 x 64 x 3.
        ({"heads": "pooled"}, 10824),
        ({"attention_output": False}, 7752),  # 64 less in each
    ],
)
def test_operations_by_hand(changes: dict[str, Any], expected: int) -> None:
    assert count_training_flops_per_token(small(**changes)) == expected


def test_operations_of_each_side_by_hand() -> None:
    flops = small().count_flops(source_length=5, target_length=7)
    assert (flops.source_matrices, flops.target_matrices) == (2 * 1280, 2 * 1816)
    # Scores and sums, 2 x 8 each, over 5 positions in 2 layers; over 5 + 7 in 3 layers.
    assert flops.source_products == 2 * 2 * 8 * 5 * 2
    assert flops.target_products == 2 * 2 * 8 * 12 * 3
    assert flops.source == 2560 + 320


@pytest.mark.parametrize("changes", [{}, *ATTENTIONS])
def test_operations_are_those_of_the_matrices_that_exist(changes: dict[str, Any]) -> None:
    """Every kernel is met once by a token of one side; a model has no other kernels."""
    model = Transformer(TransformerSizes(**SMALL | changes))
    kernels = sum(
        weight.shape[0] * weight.shape[1]
        for name, weight in model.named_weights().items()
        if name.endswith("kernel")
    )
    flops = small(**changes).count_flops(source_length=0, target_length=0)
    assert (flops.source + flops.target) / 2 == kernels + 11 * 8


def test_what_decoding_keeps_by_hand() -> None:
    """3 layers; keys and values of 8 numbers each, 4 bytes each, on either side."""
    assert small().count_state() == (0, 3 * 2 * 8 * 4, 3 * 2 * 8 * 4)
    assert small(key_value_heads=1).count_state() == (0, 3 * 2 * 4 * 4, 3 * 2 * 4 * 4)
    assert small(heads="pooled").count_state("bfloat16") == (0, 3 * 24 * 2, 3 * 24 * 2)


@pytest.mark.parametrize("changes", [{}, {"key_value_heads": 1}, {"heads": "pooled"}])
def test_decoding_keeps_what_is_counted(changes: dict[str, Any]) -> None:
    model = Transformer(TransformerSizes(**SMALL | changes))
    state = model.start(np.array([[4, 5, 6, 7, 2]]), beam_size=3, max_length=6)
    costs = model.sizes.costs.count_state()
    assert sum(np.asarray(part).nbytes for arrays in state.cache for part in arrays) == 6 * 3 * (
        costs.target
    )
    assert sum(np.asarray(part).nbytes for arrays in state.memory for part in arrays) == 5 * (
        costs.source
    )


class Unknown:
    """A model with a part that no transformer has."""

    sizes = TransformerSizes(**SMALL)

    def named_weights(self) -> dict[str, np.ndarray]:
        return {
            "encoder_0/self_attention/query/kernel": np.zeros((8, 8)),
            "encoder_0/self_attention_norm/gamma": np.zeros(8),
            "encoder_0/self_attention_norm/beta": np.zeros(8),
            "encoder_0/mixture/router/kernel": np.zeros((8, 3)),
            "encoder_0/mixture/router/scale": np.zeros(3),
            "temperature": np.zeros(()),
        }


def test_what_is_not_known_is_counted_under_its_own_name() -> None:
    counted = count_by_part(Unknown())  # type: ignore[arg-type]
    assert counted == {
        "encoder self-attention": 64,
        "layer normalisation": 16,
        "router": 27,
        "temperature": 1,
    }
    shown = io.StringIO()
    table = tabulate_parameters(small().list_parts(), counted)
    Console(file=shown, width=100).print(table)
    rows = [line.split() for line in shown.getvalue().splitlines()]
    assert ["router", "not", "known", "27"] in rows
    assert ["temperature", "not", "known", "1"] in rows
    assert rows[-1][-1] == "108"
