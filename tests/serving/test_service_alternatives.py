"""Other words for a place of a translation, and translations that begin with the chosen one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_service import ALTERNATIVES, SOON, Running, serving, until

from nmt import Translator
from nmt.inference.contract import SearchRequest
from nmt.serving.limits import ALTERNATIVES_WORK
from nmt.serving.segments import SegmentTranslator

pytestmark = pytest.mark.xdist_group("serving")


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with serving() as running:
        yield running


def test_the_words_behind_a_prefix_are_given_with_what_they_begin(service: Running) -> None:
    answer = service.find_alternatives(text="la casa", sentence="la casa", prefix="the", count=2)
    assert answer.status == 200
    assert answer.json == {
        "alternatives": [
            {"text": "house", "probability": 0.5, "prefix": "the house"},
            {"text": "home", "probability": 0.25, "prefix": "the home"},
        ]
    }
    assert service.translator.asked[-1] == ("la casa", "the", 2)
    answer = service.find_alternatives(text="Hola|la casa", sentence="la casa")
    assert [each["text"] for each in answer.json["alternatives"]] == list(ALTERNATIVES)
    assert service.translator.asked[-1] == ("la casa", "", 8)


def test_a_translation_goes_on_from_what_was_chosen(service: Running) -> None:
    [[best]] = service.translate("la casa", sentences=True, prefixes={"la casa": "home "})
    assert best == {
        "text": "home the",
        "sentences": [{"begin": 0, "end": 8, "source": "la casa"}],
    }
    [[best]] = service.translate("la casa|Hola", prefixes={"la casa": "home "})
    assert best == {"text": "home the hello"}, "other sentences are as they were"
    [[best]] = service.translate("Hola", prefixes={"la casa": "home "})
    assert best == {"text": "hello"}


def test_sentences_are_located_in_the_translation(service: Running) -> None:
    [[best]] = service.translate("\N{GRINNING FACE}|la casa", sentences=True)
    assert best["text"] == "\N{GRINNING FACE} house the"
    spans = [(each["begin"], each["end"], each["source"]) for each in best["sentences"]]
    assert spans == [(0, 1, "\N{GRINNING FACE}"), (2, 11, "la casa")]
    assert service.translate("", sentences=True) == [[{"text": "", "sentences": []}]]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"text": "la casa"}, 422, "sentence: Field required"),
        (
            {"text": "la casa", "sentence": "casa"},
            422,
            "sentence must be a sentence of text: see `sentences`",
        ),
        (
            {"text": "a", "sentence": "a", "count": 17},
            422,
            "count: Input should be less than or equal to 16",
        ),
        ({"text": "a", "sentence": "a", "beam": 4}, 422, "unknown field 'beam'"),
        ({"text": "a", "sentence": "a", "prefx": "b"}, 422, "unknown field 'prefx'"),
        ({"text": "a", "sentence": "a", "prefix": "\ud800"}, 422, "prefix holds half of"),
        (
            {"text": "a", "sentence": "a", "glossary": "plants"},
            422,
            "unknown glossary 'plants': choose from: animals",
        ),
        ({"text": "a" * 5001, "sentence": "a"}, 413, "a text of 5,001 characters"),
        ({"text": "a", "sentence": "a", "prefix": "a" * 5001}, 413, "a text of 5,001 characters"),
        ({"text": "fail", "sentence": "fail"}, 500, "the alternatives could not be computed"),
    ],
)
def test_errors_name_the_cause(
    service: Running, body: dict[str, object], status: int, error: str
) -> None:
    answer = service.find_alternatives(**body)
    assert answer.status == status
    assert answer.json["error"].startswith(error)


def test_prefixes_are_as_long_as_texts_at_most(service: Running) -> None:
    assert service.post({"text": "a", "prefixes": {"a": "b" * 5001}}).status == 413
    prefixes = {str(number): "b" for number in range(129)}  # more than texts may be
    assert service.post({"text": "a", "prefixes": prefixes}).status == 200
    assert service.post({"text": "a", "prefixes": {"a": 1}}).status == 422


def test_work_is_limited_and_waits_in_the_queue_of_translations() -> None:
    work = len("la casa") * ALTERNATIVES_WORK
    with serving(max_work=work, max_queue=work) as running:
        translator = running.translator
        answer = running.find_alternatives(text="la casas", sentence="la casas")
        assert answer.status == 413
        assert answer.json == {
            "error": f"{8 * ALTERNATIVES_WORK} units of work for the alternatives of 8 tokens: "
            f"at most {work} are allowed"
        }
        with ThreadPoolExecutor() as pool:
            translator.gate.clear()
            first = pool.submit(running.translate, "Hola")
            assert translator.started.wait(SOON)
            waiting = pool.submit(running.find_alternatives, text="la casa", sentence="la casa")
            until(lambda: running.measured("nmt_queue_work") == work)
            assert running.find_alternatives(text="a", sentence="a").status == 503
            assert running.post({"text": "la casa"}).status == 503
            translator.gate.set()
            assert first.result() == [[{"text": "hello"}]]
            assert waiting.result().status == 200


def test_alternatives_that_wait_share_a_batch_and_translations_take_their_turn() -> None:
    with serving() as running, ThreadPoolExecutor(16) as pool:
        translator = running.translator
        translator.gate.clear()
        first = pool.submit(running.translate, "first")
        assert translator.started.wait(SOON)
        others = []
        for number in range(3):
            text = "a" * (number + 1)
            others.append(pool.submit(running.find_alternatives, text=text, sentence=text))
            expected = ALTERNATIVES_WORK * sum(range(1, number + 2))
            until(lambda total=expected: running.measured("nmt_queue_work") == total)
        last = pool.submit(running.translate, "Hola")
        until(lambda: running.measured("nmt_queue_work") > ALTERNATIVES_WORK * 6)
        translator.gate.set()
        assert last.result() == [[{"text": "hello"}]]
        assert first.result()
        assert all(other.result().status == 200 for other in others)
        assert running.measured("nmt_batch_parts_count") == 3
        assert [text for text, *_ in translator.asked] == ["a", "aa", "aaa"]


def test_a_real_translator_gives_the_chosen_word_and_the_model_goes_on(parrot_run: Path) -> None:
    translator = Translator.load(parrot_run, engine="ctranslate2")
    source = "¿Dónde está la estación?"
    with serving(SegmentTranslator(translator), timeout_s=60) as running:
        [[best]] = running.translate(source, sentences=True)
        [sentence] = best["sentences"]
        assert best["text"][sentence["begin"] : sentence["end"]] == best["text"]
        answer = running.find_alternatives(text=source, sentence=sentence["source"], count=4)
        words = answer.json["alternatives"]
        assert words[0]["text"] == best["text"].split()[0]
        other = words[1]
        prefixes = {sentence["source"]: f"{other['prefix']} "}
        [[chosen]] = running.translate(source, prefixes=prefixes)
        assert chosen["text"].startswith(other["prefix"])
        request = SearchRequest(prefix=other["prefix"])
        assert translator.run([source], request)[0][0].text == chosen["text"]
        refused = running.post({"text": source, "prefixes": {sentence["source"]: "we " * 200}})
        assert refused.status == 422
        assert "prefix must have at most" in refused.json["error"]
