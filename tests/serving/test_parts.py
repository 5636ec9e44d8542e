"""Texts translated part by part are what the translator gives in one go."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import SMALL, Letters, transformer

from nmt import Translator
from nmt.config import DecodingConfig
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.results import Translation
from nmt.serving.parts import SegmentTranslator


@pytest.mark.filterwarnings("ignore:a text of")
def test_the_three_steps_give_what_the_translator_gives() -> None:
    model = transformer(
        vocabulary_size=Letters.vocabulary_size,
        **SMALL,
    )
    decoding = DecodingConfig(
        beam_size=2, length_penalty=0.6, max_length_ratio=1.0, max_length_margin=3, batch_size=8
    )
    translator = Translator(KerasEngine(model), Letters(), decoding, longest=6)
    parts = SegmentTranslator(translator)
    texts = ["hola", "", "holaholaholahola"]
    cut = [parts.cut(text) for text in texts]
    assert [len(of_text) for of_text in cut] == [1, 0, 4]
    found = [
        [parts.hypotheses([ids], beam_size=2, length_penalty=0.6, n_best=2)[0] for ids in of_text]
        for of_text in cut
    ]
    for of_text, expected in zip(found, translator.hypotheses(texts, n_best=2), strict=True):
        joined = parts.join(of_text, 2)
        assert [one.text for one in joined] == [one.text for one in expected]
        assert [one.score for one in joined] == pytest.approx([one.score for one in expected])
    assert translator.segmenter.max_tokens == 5, "the translator is as it was"
    assert translator.hypotheses(["hola"])[0][0].text == found[0][0][0].text


def test_attention_may_be_computed_beside_a_search_that_is_compiled() -> None:
    model = transformer(vocabulary_size=Letters.vocabulary_size, **SMALL)
    decoding = DecodingConfig(
        beam_size=1, length_penalty=0.6, max_length_ratio=1.0, max_length_margin=3, batch_size=8
    )
    alone, both = (
        SegmentTranslator(Translator(KerasEngine(model), Letters(), decoding)) for _ in "ab"
    )
    best = Translation("abc", -1.0, -1.0, (4, 5, 6, 2))
    texts = ["hola", "adios", "holahola"]

    def search(parts: SegmentTranslator) -> list[list[Translation]]:
        ids = [part for text in texts for part in parts.cut(text)]
        return parts.hypotheses(ids, beam_size=2, length_penalty=0.6, n_best=2)

    def attend(parts: SegmentTranslator) -> list[np.ndarray]:
        return [attention.cross for text in texts if (attention := parts.attention(text, best))]

    both.load_attention()
    with ThreadPoolExecutor(2) as pool:
        searching, attending = pool.submit(search, both), pool.submit(attend, both)
    expected = search(alone)
    for found, wanted in zip(searching.result(), expected, strict=True):
        assert [one.text for one in found] == [one.text for one in wanted]
    for weights, wanted in zip(attending.result(), attend(alone), strict=True):
        np.testing.assert_allclose(weights, wanted, atol=1e-5)
