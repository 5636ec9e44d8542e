"""Why a translation has a word: what `/explain` answers, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_service import FakeTranslator, Running, serving, until

from nmt import Translator, explain
from nmt.errors import UserError
from nmt.serving.limits import count_explanation
from nmt.serving.segments import SegmentTranslator

pytestmark = pytest.mark.xdist_group("serving")


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with serving() as running:
        yield running


def test_a_word_is_explained_by_the_words_of_its_sentence(service: Running) -> None:
    answer = service.explain(
        text="Hola|la casa", sentence="la casa", prefix="", word="house", other="hut"
    )
    assert answer.status == 200
    assert answer.json == {
        "word": "house",
        "other": "hut",
        "log_prob": -0.5,
        "other_log_prob": -2.5,
        "source": [
            {"text": "la", "begin": 5, "end": 7, "contribution": 0.2, "contrast": 1.5},
            {"text": "casa", "begin": 8, "end": 12, "contribution": 0.4, "contrast": -0.25},
        ],
        "prefix": [
            {"text": "BOS", "contribution": 0.4, "contrast": 0.0},
            {"text": "its own pieces", "contribution": 0.0},
        ],
        "source_contrast": 2.0,
        "prefix_contrast": -0.75,
        "support": 3.25,
    }
    assert service.translator.explained[-1] == ("la casa", "", "house", "hut")
    assert service.explain(text="a", sentence="a", prefix="b ", word="c").json["other"] == "home"
    assert service.translator.explained[-1] == ("a", "b ", "c")


def test_a_model_without_contributions_gives_contrasts_and_says_why() -> None:
    translator = FakeTranslator()
    translator.missing_contributions = "it is recurrent"
    with serving(translator) as running:
        answer = running.explain(text="la casa", sentence="la casa", word="house").json
        assert answer["contributions_missing"] == "it is recurrent"
        assert answer["source"][0] == {"text": "la", "begin": 0, "end": 2, "contrast": 1.5}


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"text": "a", "sentence": "a"}, 422, "word: Field required"),
        ({"text": "a", "sentence": "a", "word": ""}, 422, "word: String should have at least"),
        ({"text": "la casa", "sentence": "casa", "word": "b"}, 422, "sentence must be a sentence"),
        ({"text": "a", "sentence": "a", "word": "b", "why": "c"}, 422, "unknown field 'why'"),
        ({"text": "a", "sentence": "a", "word": "b", "prefix": "\ud800"}, 422, "prefix holds"),
        ({"text": "a", "sentence": "a", "word": "b", "other": "b"}, 422, "the word and the other"),
        ({"text": "a", "sentence": "a", "word": "b", "glossary": "c"}, 422, "unknown glossary"),
        ({"text": "a", "sentence": "a", "word": "a" * 5001}, 413, "a text of 5,001 characters"),
        ({"text": "a" * 257, "sentence": "a" * 257, "word": "b"}, 413, "words are explained in"),
        ({"text": "a", "sentence": "a", "word": "fail"}, 500, "the word could not be explained"),
    ],
)
def test_errors_name_the_cause(
    service: Running, body: dict[str, object], status: int, error: str
) -> None:
    answer = service.explain(**body)
    assert answer.status == status
    assert answer.json["error"].startswith(error)


def test_an_engine_without_a_keras_model_answers_as_for_attention() -> None:
    translator = FakeTranslator()
    translator.loading_error = UserError("attention needs the Keras engine")
    with serving(translator) as running:
        refused = running.explain(text="a", sentence="a", word="b")
        attention = running.post({"text": "a", "attention": True})
        assert (refused.status, refused.json) == (attention.status, attention.json)
        assert refused.status == 400
        assert running.translate("Hola") == [[{"text": "hello"}]]


def test_work_is_limited_and_does_not_delay_translations() -> None:
    work = count_explanation(2, 1)
    with serving(max_work=work, max_queue=work) as running, ThreadPoolExecutor() as pool:
        assert running.explain(text="aaa", sentence="aaa", word="b").status == 413
        assert running.explain(text="a", sentence="a", word="bbb").status == 413
        translator = running.translator
        translator.attention_gate.clear()
        first = pool.submit(running.explain, text="a", sentence="a", word="b")
        until(lambda: bool(translator.explained))
        second = pool.submit(running.explain, text="aa", sentence="aa", word="b")
        until(lambda: running.measured("nmt_queue_work") == work)
        assert running.explain(text="a", sentence="a", word="b").status == 503
        translator.attention_gate.set()
        assert first.result().status == second.result().status == 200
        translator.attention_gate.clear()
        third = pool.submit(running.explain, text="a", sentence="a", word="b")
        until(lambda: len(translator.explained) == 3)
        assert running.translate("Hola") == [[{"text": "hello"}]]
        translator.attention_gate.set()
        assert third.result().status == 200
    is_allowed = [count_explanation(tokens, tokens) <= 32_768 for tokens in (85, 86)]
    assert is_allowed == [True, False], "docs/serving.md says so"


def test_a_real_translator_says_what_explain_says(parrot_run: Path) -> None:
    lines = (parrot_run / "samples" / "step_00000100.tsv").read_text(encoding="utf-8").splitlines()
    sentence = max((line.split("\t")[0] for line in lines[1:]), key=len)
    translator = Translator.load(parrot_run, engine="keras")
    whole = explain(translator, sentence)
    explained = whole.words[1]
    with serving(SegmentTranslator(translator), timeout_s=60) as running:
        [[best]] = running.translate(sentence, sentences=True)
        assert best["text"] == whole.translation
        place = best["text"].index(explained.word, len(whole.words[0].word))
        body = {
            "text": sentence,
            "sentence": best["sentences"][0]["source"],
            "prefix": best["text"][:place],
            "word": explained.word,
        }
        answer = running.explain(**body).json
        assert answer["other"] == explained.other
        assert answer["log_prob"] == pytest.approx(explained.log_prob, abs=1e-3)
        assert answer["other_log_prob"] == pytest.approx(explained.other_log_prob, abs=1e-3)
        parts = [*answer["source"], *answer["prefix"]]
        assert sum(part["contribution"] for part in parts) == pytest.approx(1, abs=1e-3)
        own = sum(part["contribution"] for part in answer["source"])
        assert own == pytest.approx(explained.source_share, abs=1e-3)
        assert answer["source_contrast"] == pytest.approx(explained.all_source.contrast, abs=1e-2)
        assert answer["prefix_contrast"] == pytest.approx(explained.all_prefix.contrast, abs=1e-2)
        assert answer["support"] == pytest.approx(explained.support, abs=1e-2)
        for part in answer["source"][:-1]:
            assert sentence[part["begin"] : part["end"]] == part["text"]
        against = running.explain(**body, other="house").json
        single = explain(translator, sentence, why=explained.word, not_="house").words[0]
        assert against["other_log_prob"] == pytest.approx(single.other_log_prob, abs=1e-3)
        same = running.explain(**body, other=explained.word)
        assert same.status == 422
        assert "must differ" in same.json["error"]
