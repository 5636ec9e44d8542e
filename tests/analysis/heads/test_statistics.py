"""Statistics of attention, worked out by hand on matrices that fit on a page."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from fake_attention import KINDS
from numpy.typing import NDArray

from nmt.analysis.heads.statistics import (
    average,
    diagonal,
    divergence,
    entropy,
    find_most_like,
    measure,
    name_role,
    sum_up,
    summarize_probes,
)
from nmt.inference.results import Attention

LOG2 = math.log(2)
KIND = {kind.name: kind for kind in KINDS}

# Three positions; the last column of the encoder and of cross-attention is EOS.
SELF = np.array([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.0, 1.0, 0.0]])
CAUSAL = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.125, 0.375, 0.5]])
CROSS = np.array([[0.75, 0.25, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])


def random_attention(layers: int, heads: int, source: int, target: int, seed: int) -> Attention:
    rng = np.random.default_rng(seed)

    def weights(rows: int, columns: int) -> NDArray[np.float32]:
        return rng.dirichlet(np.full(columns, 0.5), (layers, heads, rows)).astype(np.float32)

    causal = np.tril(weights(target, target)) + 1e-6 * np.tri(target)
    return Attention(
        source=["s"] * source,
        target_in=["i"] * target,
        target_out=["o"] * target,
        weights={
            "encoder": weights(source, source),
            "decoder": (causal / causal.sum(-1, keepdims=True)).astype(np.float32),
            "cross": weights(target, source),
        },
        kinds=KINDS,
    )


def listed(measures: dict[str, NDArray[Any]]) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in measures.items()}


def test_encoder_self_attention() -> None:
    quarters = 2 * 0.25 * math.log(4) + 0.5 * LOG2
    expected = {
        "entropy": [LOG2, quarters, 0],
        "entropy_share": [LOG2 / math.log(3), quarters / math.log(3), 0],
        "confidence": [0.5, 0.25, 1],  # without the weight on EOS
        "distance": [0.5, 0.75, 1],
        "mark": [0, 0.5, 0],
        "previous": [0.25, 1],  # of positions 1 and 2
        "own": [0.5, 0.25, 0],
        "next": [0.5, 0.5],  # of positions 0 and 1
    }
    assert listed(measure(SELF, KIND["encoder"])) == {
        name: pytest.approx(values) for name, values in expected.items()
    }


def test_masked_self_attention_without_the_row_that_has_no_choice() -> None:
    last = 0.125 * math.log(8) + 0.375 * math.log(8 / 3) + 0.5 * LOG2
    expected = {
        "entropy": [LOG2, last],
        "entropy_share": [1, last / math.log(3)],  # of two and of three positions
        "confidence": [0.5, 0.5],
        "distance": [0.5, 0.625],
        "mark": [0.5, 0.125],  # BOS
        "previous": [0.5, 0.375],
        "own": [0.5, 0.5],
    }
    assert listed(measure(CAUSAL, KIND["decoder"])) == {
        name: pytest.approx(values) for name, values in expected.items()
    }


def test_cross_attention_in_relative_positions() -> None:
    # Rows lie at 1/4 and 3/4, columns at 1/8, 3/8, 5/8, 7/8.
    expected = {
        "entropy": [0.75 * math.log(4 / 3) + 0.25 * math.log(4), LOG2],
        "confidence": [0.75, 0.5],
        "distance": [1 / 8, 1 / 8],
        "mark": [0, 0.5],
        "diagonal": [0.25, 0.5],  # columns 1 and 3
    }
    measures = measure(CROSS, KIND["cross"])
    assert listed({name: measures[name] for name in expected}) == {
        name: pytest.approx(values) for name, values in expected.items()
    }
    assert measures.keys() == expected.keys() | {"entropy_share"}


@pytest.mark.parametrize(
    ("length", "width", "columns"),
    [
        (3, 3, [0, 1, 2]),
        (2, 4, [1, 3]),
        (4, 2, [0, 0, 1, 1]),
        (1, 5, [2]),
        (5, 1, [0, 0, 0, 0, 0]),
        (3, 5, [0, 2, 4]),
    ],
)
def test_the_diagonal_has_the_relative_place(length: int, width: int, columns: list[int]) -> None:
    assert diagonal(length, width).tolist() == columns


def test_entropy_takes_zeros_and_any_number_of_axes() -> None:
    assert entropy(np.array([0.0, 1.0])) == 0
    assert entropy(np.full(8, 1 / 8)) == pytest.approx(3 * LOG2)
    assert entropy(np.full((2, 3, 4), 0.25)).shape == (2, 3)


def test_divergence_is_nothing_among_equals_and_log_2_among_strangers() -> None:
    first, other = np.eye(2), np.eye(2)[::-1]
    divergences = divergence(np.stack([first, first, other, np.full((2, 2), 0.5)]))  # [4, 4, 2]
    assert np.all(divergences[0, 1] == 0)
    np.testing.assert_allclose(divergences[0, 2], LOG2)
    # (1, 0) and (1/2, 1/2): their mean is (3/4, 1/4), of which H is 0.5623.
    mixed = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) - LOG2 / 2
    np.testing.assert_allclose(divergences[0, 3], mixed)
    np.testing.assert_allclose(divergences, divergences.swapaxes(0, 1))
    assert find_most_like(divergences.mean(-1))[0] == (1, 0)
    assert find_most_like(divergences.mean(-1))[2] == (3, pytest.approx(mixed))
    assert find_most_like(np.zeros((1, 1))) == [None]


def test_means_count_every_token_alike() -> None:
    attentions = [random_attention(2, 3, 4, 7, seed=1), random_attention(2, 3, 9, 2, seed=2)]
    means = average(map(sum_up, attentions))
    for kind in KINDS:
        weights = [attention.weights[kind.name].astype(np.float64) for attention in attentions]
        for name in measure(weights[0], kind):
            rows = np.concatenate(
                [measure(pair_weights, kind)[name] for pair_weights in weights], axis=-1
            )
            np.testing.assert_allclose(means[kind.name][name], rows.mean(-1), err_msg=name)
            assert means[kind.name][name].shape == (2, 3)
        assert means[kind.name]["divergence"].shape == (2, 3, 3)
    # Encoder rows: 4 + 9; decoder rows: 6 + 1, the first ones left out.
    assert sum_up(attentions[0])["decoder", "own"][1] == 6


def test_what_no_row_can_tell_is_left_out() -> None:
    """A model that writes nothing but EOS has no masked self-attention to speak of."""
    means = average([sum_up(random_attention(1, 2, 3, 1, seed=3))])
    assert "decoder" not in means
    assert means["cross"]["entropy"].shape == (1, 2)
    scalars = summarize_probes([random_attention(1, 2, 3, 1, seed=3)])
    assert list(scalars) == [
        "attention/entropy/encoder_layer_1",
        "attention/entropy/cross_layer_1",
        "attention/eos/cross_layer_1",
    ]
    assert summarize_probes([]) == {}


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("encoder", {"previous": 0.6, "own": 0.2, "next": 0.1}, "previous token"),
        ("encoder", {"previous": 0.1, "own": 0.1, "next": 0.7}, "next token"),
        ("encoder", {"previous": 0.1, "own": 0.51, "next": 0.1}, "own token"),
        ("encoder", {"mark": 0.8}, "EOS"),
        ("decoder", {"mark": 0.8}, "BOS"),
        ("cross", {"diagonal": 0.7, "mark": 0.1}, "diagonal"),
        ("cross", {"diagonal": 0.4, "confidence": 0.8}, "focused"),
        ("cross", {"diagonal": 0.5, "entropy_share": 0.8}, "broad"),
        ("encoder", {"entropy_share": 0.5}, "mixed"),
    ],
)
def test_roles(kind: str, values: dict[str, float], expected: str) -> None:
    rest = {"mark": 0.0, "confidence": 0.3, "entropy_share": 0.6}
    assert name_role(KIND[kind], rest | values) == expected
