"""Links read off weights that were made by hand, and off a model's own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nmt import Translator
from nmt.analysis.heads.alignment import (
    Method,
    SentencePair,
    align,
    align_heads,
    choose_most_informative,
    find_links,
    format_links,
    information,
    link_diagonally,
    list_methods,
    select,
    weigh_rows,
)
from nmt.data.tokenizer import Tokenizer

pytest_plugins = ("translators",)
pytestmark = [pytest.mark.xdist_group("tiny run"), pytest.mark.usefixtures("cached_translators")]


def test_weights_of_words_are_sums_over_source_and_means_over_target_pieces() -> None:
    source = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # word 0 has two pieces
    target = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])  # word 1 has two pieces
    cross = np.array(
        [  # rows: what position t attends to; columns: three pieces, EOS
            [0.1, 0.2, 0.3, 0.4],
            [0.5, 0.1, 0.4, 0.0],
            [0.0, 0.1, 0.9, 0.0],
            [0.2, 0.2, 0.2, 0.4],
        ]
    )[None, None]
    plain, shifted = weigh_rows(cross, source, target)[:, 0, 0]
    np.testing.assert_allclose(plain, [[0.3, 0.3, 0.4], [0.35, 0.65, 0.0]])
    np.testing.assert_allclose(shifted, [[0.6, 0.4, 0.0], [0.25, 0.55, 0.2]])


def test_a_word_that_attends_to_eos_has_no_link() -> None:
    weights = np.array([[0.5, 0.2, 0.3], [0.3, 0.3, 0.4], [0.1, 0.8, 0.1]])
    assert find_links(weights) == {(0, 0), (1, 2)}


def test_pharaoh_is_in_order_of_the_target() -> None:
    assert format_links(frozenset({(10, 2), (2, 10), (0, 0), (1, 2)})) == "0-0 1-2 10-2 2-10"
    assert format_links(frozenset()) == ""


def test_the_plain_diagonal() -> None:
    assert link_diagonally(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert link_diagonally(2, 4) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert link_diagonally(4, 1) == {(2, 0)}


def test_methods_are_told_apart_and_selected() -> None:
    methods = list_methods(2, 3, shifted=True)
    assert len(methods) == len(set(map(str, methods))) == 2 * (1 + 3) + 1
    weights = np.random.default_rng(1).dirichlet(np.ones(4), (2, 2, 3, 5))
    np.testing.assert_array_equal(select(weights, Method(2, 3, True)), weights[1, 1, 2])
    np.testing.assert_allclose(select(weights, Method(1, None, False)), weights[0, 0].mean(0))
    np.testing.assert_allclose(select(weights, Method(None, None, True)), weights[1].mean((0, 1)))
    assert str(Method(2, 3, True)) == "layer 2, head 3, shifted"


def test_information_is_of_rows_that_are_sure_of_different_words() -> None:
    assert information(np.eye(4)) == pytest.approx(np.log(4))
    assert information(np.tile([0.0, 1.0], (4, 1))) == pytest.approx(0)
    assert information(np.full((3, 3), 1 / 3)) == pytest.approx(0)
    # Layer 2 is sure, layer 1 is not.
    weights = np.stack([np.full((1, 3, 3), 1 / 3), np.eye(3)[None]])[None].repeat(2, axis=0)
    assert choose_most_informative([weights], list_methods(2, 1, shifted=True)).layer == 2


def join_pieces(tokenizer: Tokenizer, count: int) -> str:
    """Return a text of words that are one piece each."""
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    words = [piece[1:] for piece in pieces if re.fullmatch("▁[a-z]+", piece)]
    return " ".join([word for word in words if len(tokenizer.encode([word])[0]) == 1][:count])


def test_a_model_aligns_every_pair_that_has_words(tiny_run: Path) -> None:
    translator = Translator.load(tiny_run)
    texts = [
        ("¿Dónde está la estación?", "Where is the station?"),
        ("", "Nothing."),
        ("漢字 👍🏽 x", "“Odd” pieces, bytes and all…"),
        ("palabra " * 400, "too long"),
        ("Sí.", ""),
        ("Sí.", "Yes."),
        (join_pieces(translator.tokenizer, 3), join_pieces(translator.tokenizer.target, 2)),
    ]
    pairs = [SentencePair.of(source.strip(), target) for source, target in texts]
    aligned = list(align_heads(translator, pairs))
    by_engine = list(align(translator, pairs))
    are_missing = [weights is None for weights in aligned]
    assert are_missing == [False, True, False, True, True, False, False]
    assert [weights is None for weights in by_engine] == are_missing
    layers = translator.keras_engine("attention").model.attention_layers("cross")
    for pair, weights, engine_weights in zip(pairs, aligned, by_engine, strict=True):
        if weights is None or engine_weights is None:
            continue
        source, target = pair.words()
        shape = (2, len(layers), layers[0].num_heads, len(target), len(source) + 1)
        assert weights.shape == shape
        assert engine_weights.shape == shape[-2:]
        np.testing.assert_allclose(engine_weights.sum(-1), 1, atol=1e-5)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    # Words that are one piece each have the rows of that piece.
    [attention] = translator.attentions([texts[-1]])
    assert attention.cross.shape[-2:] == (2 + 1, 3 + 1)
    np.testing.assert_allclose(aligned[-1][0], attention.cross[:, :, :-1], atol=1e-6)
    np.testing.assert_allclose(aligned[-1][1], attention.cross[:, :, 1:], atol=1e-6)
