"""Texts translated segment by segment are what the translator gives in one go."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SMALL, Letters, small_tokenizer, transformer
from fake_service import serving

from nmt import Translator
from nmt.analysis.explaining.choice import ChoiceExplainer, ChoiceExplanation, Reason
from nmt.config import DecodingConfig
from nmt.data.tokenizer import EOS
from nmt.errors import UserError
from nmt.inference.contract import SearchRequest
from nmt.inference.engines import Engines
from nmt.inference.features import SENTENCE_FEATURES, WORD_FEATURES
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.quality import QUALITY_FILE, StoredQuality
from nmt.inference.quality_model import Linear, QualityModel
from nmt.inference.results import Translation, Word, list_distinct
from nmt.inference.segments import Segment, SegmentedText
from nmt.serving.segments import SegmentTranslator, SentenceSpan
from nmt.text.spans import SLOTS
from nmt.text.tags import read_tags

GREEDY = DecodingConfig(
    beam_size=1,
    length_penalty=0.6,
    max_length_ratio=1.0,
    max_length_margin=3,
    batch_size=8,
    no_repeat_ngram=0,
)
BEAM = replace(GREEDY, beam_size=2)


@pytest.mark.filterwarnings("ignore:a text of")
def test_the_three_steps_give_what_the_translator_gives() -> None:
    model = transformer(
        vocabulary_size=Letters.vocabulary_size,
        **SMALL,
    )
    translator = Translator(Engines(KerasEngine(model)), Letters(), BEAM, longest=6)
    served = SegmentTranslator(translator)
    texts = ["hola", "", "holaholaholahola"]
    segmented = [served.segment(text) for text in texts]
    assert [len(text.segments) for text in segmented] == [1, 0, 4]
    request = SearchRequest(beam_size=2, length_penalty=0.6, n_best=2)
    hypotheses = [
        [served.hypotheses([segment], request)[0] for segment in text.segments]
        for text in segmented
    ]
    together = translator.hypotheses(texts, n_best=2)
    for text, translated, expected in zip(segmented, hypotheses, together, strict=True):
        joined = served.join(text, translated, 2).translations
        distinct = list_distinct(expected)  # both may be the source, which replaces a loop
        assert [best.text for best in joined] == [best.text for best in distinct]
        assert [best.score for best in joined] == pytest.approx([best.score for best in distinct])
    assert translator.segmenter.max_tokens == 5, "the translator is as it was"
    assert translator.hypotheses(["hola"])[0][0].text == hypotheses[0][0][0].text


def test_equal_translations_are_listed_once() -> None:
    model = transformer(vocabulary_size=Letters.vocabulary_size, **SMALL)
    served = SegmentTranslator(Translator(Engines(KerasEngine(model)), Letters(), GREEDY))
    scored = (("a", -1.0), ("a", -2.0), ("b", -3.0))
    rows = [[Translation(text, score, score, ()) for text, score in scored]]
    joined = served.join(served.segment("hola"), rows, 3).translations
    assert [(each.text, each.score) for each in joined] == [("a", -1.0), ("b", -3.0)]


def test_white_space_between_sentences_is_kept() -> None:
    model = transformer(vocabulary_size=Letters.vocabulary_size, **SMALL)
    translator = Translator(Engines(KerasEngine(model)), Letters(), GREEDY)
    served = SegmentTranslator(translator)
    source = " hola\n\nadios\n"
    text = served.segment(source)
    hypotheses = served.hypotheses(text.segments, SearchRequest())
    [joined] = served.join(text, hypotheses, 1).translations
    assert joined == translator.hypotheses([source])[0][0]
    assert joined.text.count("\n") == 3
    assert served.attention("hola\nadios", joined) is None


def test_what_checks_health_and_warms_up_is_searched() -> None:
    engine = KerasEngine(transformer(vocabulary_size=Letters.vocabulary_size, **SMALL))
    translator = Translator(Engines(engine), Letters(), BEAM, languages=("zh", "en"))
    served = SegmentTranslator(translator)
    assert served.segment("a").segments[0].is_copied
    with serving(served, health_s=60) as running:  # compiles a search, or two
        assert running.ask("GET", "/healthz").status == 200
    assert engine.programs
    attended: list[list[int]] = []
    compute = engine.attention

    def attention(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> Any:
        attended.extend(ids.tolist() for ids in [*sources, *targets])
        return compute(sources, targets)

    engine.attention = attention  # type: ignore[method-assign]
    served.load_attention()
    assert attended == [[4], [4]]


def test_a_service_that_cannot_search_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = KerasEngine(transformer(vocabulary_size=Letters.vocabulary_size, **SMALL))
    served = SegmentTranslator(Translator(Engines(engine), Letters(), GREEDY))
    monkeypatch.setattr(engine, "search", None)
    with serving(served) as running:
        assert running.ask("GET", "/healthz").status == 503


def test_confidence_is_that_of_the_translator() -> None:
    model = transformer(vocabulary_size=Letters.vocabulary_size, **SMALL)
    rng = np.random.default_rng(1)  # with other weights, a sentence may have no words
    model.set_weights([rng.normal(0, 0.3, each.shape) for each in model.get_weights()])
    sentence, word = (
        Linear.unfitted(np.zeros((2, len(names)))) for names in (SENTENCE_FEATURES, WORD_FEATURES)
    )
    stored = StoredQuality()
    stored.__dict__["model"] = QualityModel(sentence, ((0.0, 0.7), (1.0, 1.0)), word)
    translator = Translator(Engines(KerasEngine(model)), Letters(), BEAM, quality=stored)
    served = SegmentTranslator(translator)
    assert served.explain_missing_quality() == ""
    source = "hola\n\n  adios\n"
    text = served.segment(source)
    assert len(text.segments) > 1
    request = SearchRequest(quality=True)
    hypotheses = [served.hypotheses([each], request)[0] for each in text.segments]
    [joined] = served.join(text, hypotheses, 1).translations
    [[expected]] = translator.run([source], request)
    assert joined == expected
    assert joined.confidence == pytest.approx(0.7)
    words = [joined.text[word.begin : word.end] for word in joined.words]
    assert "".join(words) == "".join(joined.text.split())
    spans = {span for word in joined.words for span in word.sources}
    assert any(begin >= source.index("adios") for begin, _ in spans), "characters of the whole text"


def test_a_run_without_confidence_says_why(tmp_path: Path) -> None:
    model = transformer(vocabulary_size=Letters.vocabulary_size, **SMALL)

    def explain() -> str:
        stored = StoredQuality(tmp_path)
        translator = Translator(Engines(KerasEngine(model)), Letters(), GREEDY, quality=stored)
        return SegmentTranslator(translator).explain_missing_quality()

    with pytest.warns(UserWarning, match="confidence is unknown"):
        assert explain() == (
            "the run has no quality.json: create it with python -m nmt.inspect quality"
        )
    (tmp_path / QUALITY_FILE).write_text("{", encoding="utf-8")
    assert "cannot be used" in explain()


def test_attention_may_be_computed_beside_a_search_that_is_compiled() -> None:
    model = transformer(vocabulary_size=Letters.vocabulary_size, **SMALL)
    separate, both = (
        SegmentTranslator(Translator(Engines(KerasEngine(model)), Letters(), GREEDY)) for _ in "ab"
    )
    best = Translation("abc", -1.0, -1.0, (4, 5, 6, 2))
    texts = ["hola", "adios", "holahola"]

    def search(served: SegmentTranslator) -> list[list[Translation]]:
        segments = [segment for text in texts for segment in served.segment(text).segments]
        return served.hypotheses(segments, SearchRequest(beam_size=2, length_penalty=0.6, n_best=2))

    def attend(served: SegmentTranslator) -> list[np.ndarray]:
        return [attention.cross for text in texts if (attention := served.attention(text, best))]

    both.load_attention()
    with ThreadPoolExecutor(2) as pool:
        searching, attending = pool.submit(search, both), pool.submit(attend, both)
    expected = search(separate)
    for hypotheses, reference in zip(searching.result(), expected, strict=True):
        assert [best.text for best in hypotheses] == [best.text for best in reference]
    for weights, reference_weights in zip(attending.result(), attend(separate), strict=True):
        np.testing.assert_allclose(weights, reference_weights, atol=1e-5)


def test_sentences_stand_inside_of_the_tags_around_them() -> None:
    model = transformer(vocabulary_size=Letters.vocabulary_size, **SMALL)
    decoding = DecodingConfig(1, 0.6, 1.0, 3, 8, no_repeat_ngram=0)
    served = SegmentTranslator(Translator(Engines(KerasEngine(model)), Letters(), decoding))
    source = read_tags("<b>hola.</b> <i>adios</i>")
    segments = tuple(Segment(np.zeros(0, np.int32), text) for text in ("hola.", "adios"))
    text = SegmentedText((segments[0], replace(segments[1], space=" ")), "", source)
    words = (Word(0, 2, None, ((0, 4),)), Word(2, 3, None, ((4, 5),)))
    hypotheses = [
        [Translation("hi.", 0.0, 0.0, (), words=words)],
        [Translation("bye", 0.0, 0.0, (), words=(Word(0, 3, None, ((0, 5),)),))],
    ]
    assert served.join(text, hypotheses, 1).sentences == []
    [translation], sentences = served.join(text, hypotheses, 1, with_sentences=True)
    assert translation.text == "<b>hi.</b> <i>bye</i>"
    assert sentences == [SentenceSpan(3, 6, "hola."), SentenceSpan(14, 17, "adios")]


def test_an_explanation_names_whole_words_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    model = transformer(vocabulary_size=Letters.vocabulary_size, **SMALL)
    served = SegmentTranslator(Translator(Engines(KerasEngine(model)), Letters(), GREEDY))
    reason = Reason("tren", 0.5, 1.0, (0, 4))
    explained = ChoiceExplanation(-0.5, "b", -2.5, (reason,), (), 2.0, 0.0, 3.0)
    monkeypatch.setattr(ChoiceExplainer, "explain", lambda *_: explained)
    text = served.segment("trenn")
    text = text._replace(segments=(replace(text.segments[0], text="tren"),))
    explanation, _ = served.explain(text, 0, "", ["a"])
    assert explanation.source[0].span == (0, 5)


def test_alternatives_inside_of_a_remark_are_words_of_it() -> None:
    tokenizer = small_tokenizer(lowercases=True, slots=3)
    random.seed(1)  # of the weights: two of the likeliest pieces may be written alike
    model = transformer(vocabulary_size=tokenizer.vocabulary_size, **SMALL)
    served = SegmentTranslator(Translator(Engines(KerasEngine(model)), tokenizer, GREEDY))
    source = "Ana (mi hermana) y yo."
    inside, after = (
        served.segment(source, prefixes={source: prefix})
        for prefix in ("Ana (my ", "Ana (my sister) ")
    )
    [inner], [outer] = (served.alternatives(text.segments, 3) for text in (inside, after))
    for words, beginning in ((inner, "Ana (my"), (outer, "Ana (my sister)")):
        assert len(words) == 3
        for word in words:
            begun = word.prefix.removesuffix(word.text)
            assert begun.rstrip() == beginning
    [inner_part] = served.segment("mi hermana", prefixes={"mi hermana": "my "}).segments
    expected = served.alternatives([inner_part], 3)[0]
    assert [word.text for word in inner] == [word.text for word in expected]
    with pytest.raises(UserError, match="words of a remark"):
        served.explain(served.segment(source), 0, "Ana (my ", ["sister"])


def test_an_explanation_shows_a_later_remark_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = small_tokenizer(lowercases=True, slots=3)
    model = transformer(vocabulary_size=tokenizer.vocabulary_size, **SMALL)
    served = SegmentTranslator(Translator(Engines(KerasEngine(model)), tokenizer, GREEDY))
    shown: list[tuple[str, ...]] = []

    def explain(_: ChoiceExplainer, *segments: Segment) -> ChoiceExplanation:
        shown.extend(segment.target_spans for segment in segments)
        return ChoiceExplanation(0.0, "b", -2.5, (), (), 2.0, 0.0, 3.0)

    monkeypatch.setattr(ChoiceExplainer, "explain", explain)
    text = served.segment("Ana (mi hermana) y yo (la ana).")
    served.explain(text, 0, "Ana (my sister) ", ["and"])
    assert shown == [("(my sister)", "(…)")] * 2


def test_attention_shows_what_a_remark_became() -> None:
    tokenizer = small_tokenizer(lowercases=True, slots=3)
    model = transformer(vocabulary_size=tokenizer.vocabulary_size, **SMALL)
    served = SegmentTranslator(Translator(Engines(KerasEngine(model)), tokenizer, GREEDY))
    [ids] = tokenizer.target.encode([f"Ana {SLOTS[0]} and I."])
    translation = Translation("Ana (my sister) and I.", 0.0, 0.0, (*map(int, ids), EOS))
    attention = served.attention("Ana (mi hermana) y yo.", translation)
    assert attention is not None
    assert "(mi hermana)" in attention.source
    assert "(my sister)" in attention.target_out
