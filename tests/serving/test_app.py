"""What the service answers: to those who ask properly, and to those who do not."""

from __future__ import annotations

import gzip
import json
import math
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
from conftest import SMALL, Letters, transformer
from fake_service import CROSS, SOON, FakeTranslator, Running, serving, until

from nmt import Translator
from nmt.config import DecodingConfig
from nmt.errors import UserError
from nmt.inference.engines import Engines
from nmt.inference.keras_engine import KerasEngine
from nmt.serving import service as service_module
from nmt.serving import waiting
from nmt.serving.segments import SegmentTranslator


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    """One that the tests leave as they found it."""
    with serving() as running:
        yield running


@contextmanager
def busy(running: Running) -> Iterator[ThreadPoolExecutor]:
    """Hold the translator at one sentence; the pool takes requests that must wait for it."""
    with ThreadPoolExecutor(16) as pool:
        running.translator.gate.clear()
        running.translator.started.clear()
        first = pool.submit(running.translate, "first")
        assert running.translator.started.wait(SOON)
        running.translator.calls.clear()
        try:
            yield pool
        finally:
            running.translator.gate.set()
        assert first.result() == [[{"text": "FIRST"}]]


def connected(running: Running, request: bytes) -> socket.socket:
    """Send raw bytes."""
    client = socket.create_connection(("127.0.0.1", running.port), SOON)
    client.sendall(request)
    return client


def head(length: int | str, *more: str) -> bytes:
    lines = [
        "POST /translate HTTP/1.1",
        "Host: here",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        *more,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def status(client: socket.socket) -> int:
    with client, client.makefile("rb") as answer:
        return int(answer.readline().split()[1])


def received(client: socket.socket) -> int:
    """Count the bytes that come until the service drops the connection."""
    count = 0
    with client, suppress(ConnectionResetError):
        while data := client.recv(2**20):
            count += len(data)
    return count


# ---- translating ----


def test_one_text_and_many(service: Running) -> None:
    assert service.translate("Hola mundo") == [[{"text": "world hello"}]]
    assert service.translate(["la casa", "", "Hola"]) == [
        [{"text": "house the"}],
        [{"text": ""}],
        [{"text": "hello"}],
    ]
    assert service.translate([]) == []
    assert service.translate("\N{GRINNING FACE}") == [[{"text": "\N{GRINNING FACE}"}]]


def test_scores_and_alternatives(service: Running) -> None:
    assert service.translate("Hola", nbest=2, scores=True) == [
        [
            {"text": "hello", "score": -0.5, "log_prob": -1.0},
            {"text": "hello!", "score": -1.5, "log_prob": -2.0},
        ]
    ]


@pytest.mark.parametrize(
    ("options", "beam", "penalty"),
    [
        ({}, 4, 0.6),
        ({"beam": 8}, 8, 0.6),
        ({"nbest": 6}, 6, 0.6),
        ({"length_penalty": 1}, 4, 1.0),
        ({"length_penalty": 0.4499}, 4, 0.4499),
        ({"beam": None, "length_penalty": None}, 4, 0.6),
        ({"beam": 1, "length_penalty": 1.5}, 1, 0.0),
    ],
)
def test_options_reach_the_search(
    service: Running, options: dict[str, Any], beam: int, penalty: float
) -> None:
    service.translate("Hola", **options)
    request = service.translator.calls[-1][1]
    assert request.beam_size == beam
    assert request.length_penalty == penalty
    assert request.n_best == options.get("nbest", 1)


@pytest.mark.long
def test_two_hundred_penalties_cost_no_program_and_no_memory() -> None:
    model = transformer(
        vocabulary_size=Letters.vocabulary_size,
        **SMALL,
    )
    for number, weight in enumerate(model.weights):
        values = np.random.default_rng(number).standard_normal(weight.shape)
        weight.assign(1 + 0.2 * values if weight.name == "gamma" else 0.4 * values)
    decoding = DecodingConfig(
        beam_size=3,
        length_penalty=0.6,
        max_length_ratio=1.0,
        max_length_margin=3,
        batch_size=8,
        no_repeat_ngram=0,
    )
    served, fresh = (Translator(Engines(KerasEngine(model)), Letters(), decoding) for _ in range(2))
    with serving(SegmentTranslator(served), timeout_s=60) as running:  # the first compiles

        def ask(penalty: float) -> dict[str, Any]:
            return running.translate("hola", length_penalty=penalty, scores=True)[0][0]

        penalties = [2 * number / 199 for number in range(200)]
        best_hypotheses = list(map(ask, penalties[:10]))
        memory = running.measured("process_resident_memory_bytes")
        best_hypotheses += map(ask, penalties[10:])
        assert served.engine.programs <= 2  # one that forbids repetition, for outputs that loop
        assert running.measured("process_resident_memory_bytes") - memory < 4 * 2**20
    for penalty, answer in list(zip(penalties, best_hypotheses, strict=True))[::40]:
        best = fresh.hypotheses(["hola"], length_penalty=penalty)[0][0]
        assert answer["text"] == best.text
        assert answer["score"] == pytest.approx(best.score, abs=1e-5)
    assert len({answer["score"] for answer in best_hypotheses}) > 190


def test_attention_of_the_best_translation(service: Running) -> None:
    first, second = service.translate("Hola mundo", attention=True, nbest=2)[0]
    assert first["attention"]["source"] == ["▁Ho", "la", "▁mundo", "</s>"]
    assert first["attention"]["target"] == ["▁world", "▁hel", "lo", "</s>"]
    np.testing.assert_allclose(first["attention"]["weights"], CROSS, atol=1e-4)
    assert second == {"text": "world hello!"}


def test_spans_that_the_model_left_out_are_named(service: Running) -> None:
    [lost], [whole] = service.translate(["lose", "Hola"])
    assert lost == {"text": "LOSE", "lost_spans": ["12"]}
    assert whole == {"text": "hello"}


def test_confidence_of_the_best_translation_and_its_words(service: Running) -> None:
    text = "\N{GRINNING FACE}\nla casa"
    [[best, second]] = service.translate(text, quality=True, nbest=2)
    assert second == {"text": "house the\n\N{GRINNING FACE}!"}
    assert best["confidence"] == 0.612
    words = [
        (
            best["text"][word["begin"] : word["end"]],
            word["confidence"],
            [text[begin:end] for begin, end in word["sources"]],
        )
        for word in best["words"]
    ]
    assert words == [
        ("house", 0.123, ["casa"]),
        ("the", 0.9, ["la"]),
        ("\N{GRINNING FACE}", 0.9, ["\N{GRINNING FACE}"]),
    ]
    assert service.translate("Hola", quality=False) == [[{"text": "hello"}]]
    empty = {"text": "", "quality_missing": "the text is empty"}
    assert service.translate(["", "Hola"], quality=True)[0] == [empty]


def test_attention_and_confidence_may_be_requested_together(service: Running) -> None:
    [[best]] = service.translate("Hola mundo", quality=True, attention=True)
    assert best["attention"]["source"][0] == "▁Ho"
    assert len(best["words"]) == 2


def test_a_run_without_confidence_translates_and_says_why() -> None:
    with serving(max_work=40) as running:
        running.translator.missing_quality = "the run has no quality.json"
        [[best]] = running.translate("Hola", quality=True)
        assert best == {
            "text": "hello",
            "quality_missing": "the run has no quality.json",
            "words": [{"begin": 0, "end": 5, "sources": [[0, 4]]}],
        }
        request = running.translator.calls[-1][1]
        assert (request.quality, request.words) == (False, True)


def test_confidence_counts_as_two_more_hypotheses_per_translation() -> None:
    with serving(max_work=60) as running:
        assert running.translate("Hola mundo", quality=True)[0][0]["confidence"]
        assert running.translate("Hola mundo", nbest=2)
        answer = running.post({"text": "Hola mundo", "quality": True, "nbest": 2})
        assert answer.status == 413
        assert answer.json == {
            "error": "80 units of work for 10 tokens at 8 each with quality: at most 60 are allowed"
        }
        with busy(running) as pool:
            waiting = pool.submit(running.translate, "Hola mundo", quality=True)
            until(lambda: running.measured("nmt_queue_work") == 10 * (4 + 2))
        assert waiting.result()


def test_why_there_is_no_attention() -> None:
    with serving() as running:
        (empty,), (cut,) = running.translate(["", "one two three"], attention=True)
        assert empty == {
            "text": "",
            "attention": None,
            "attention_missing": "the text is empty",
        }
        assert cut["attention"] is None
        assert cut["attention_missing"] == "the text was translated in parts"
        running.translator.cross = np.zeros((6, 16, 80, 80), np.float32)
        (large,) = running.translate("Hola mundo", attention=True)[0]
        assert large["attention"] is None
        assert large["attention_missing"] == (
            "the answer would have more than 500,000 weights: ask for fewer or shorter texts"
        )


def test_what_attention_needs_is_loaded_beside_everything_else_and_once() -> None:
    with serving() as running:
        running.translate("Hola mundo")
        running.ask("GET", "/healthz")
        assert running.translator.loads == 0
        running.translator.loading_gate.clear()
        with ThreadPoolExecutor() as pool:
            waiting = [
                pool.submit(running.translate, "Hola mundo", attention=True) for _ in range(3)
            ]
            until(lambda: running.translator.loads == 1)
            assert running.translate("Hola mundo") == [[{"text": "world hello"}]]
            assert not any(answer.done() for answer in waiting)
            running.translator.loading_gate.set()
        assert all(answer.result()[0][0]["attention"] for answer in waiting)
        assert running.translator.loads == 1


def test_only_a_request_for_attention_loads_what_it_needs() -> None:
    with serving() as running:
        for path in ("/", "/healthz", "/info", "/metrics", "/openapi.json", "/nowhere"):
            running.ask("GET", path)
        running.translate("Hola mundo")
        assert running.app.state.service._keras._loading is None
        assert running.translate("Hola mundo", attention=True)[0][0]["attention"]
        assert running.translator.loads == 1


def test_info_says_whether_there_is_attention() -> None:
    translator = FakeTranslator()
    translator.has_attention = False
    with serving() as running, serving(translator) as other:
        assert running.ask("GET", "/info").json["attention"] is True
        assert other.ask("GET", "/info").json["attention"] is False


def test_attention_that_takes_too_long_to_load_is_there_for_a_later_request() -> None:
    body = {"text": "Hola mundo", "attention": True}
    with serving(timeout_s=0.5) as running:
        running.translator.loading_gate.clear()
        answer = running.post(body)
        assert answer.status == 503
        assert answer.json == {"error": "attention is being loaded: try again soon"}
        running.translator.loading_gate.set()
        until(lambda: b'"weights"' in running.post(body).body)


def test_attention_that_cannot_be_loaded() -> None:
    with serving() as running:
        running.translator.loading_error = UserError("this engine gives no attention")
        for _ in range(2):
            answer = running.post({"text": "Hola mundo", "attention": True})
            assert answer.status == 400
            assert answer.json == {"error": "this engine gives no attention"}
        assert running.translate("Hola mundo") == [[{"text": "world hello"}]]
    with serving() as running:
        running.translator.loading_error = RuntimeError("secret")
        answer = running.post({"text": "Hola mundo", "attention": True})
        assert answer.status == 500
        assert answer.json == {"error": "attention cannot be loaded"}
        running.translator.loading_error = None
        assert running.translate("Hola mundo", attention=True)[0][0]["attention"]


def test_requests_that_wait_together_are_translated_together() -> None:
    with serving(max_batch=8) as running:
        with busy(running) as pool:
            answers = [pool.submit(running.translate, f"w{n}") for n in range(10)]
            greedy = pool.submit(running.translate, "greedy", beam=1)
            attended = pool.submit(running.translate, "a b", attention=True)
            until(lambda: running.measured("nmt_queue_work") == 4 * 10 * 2 + 6 + 5 * 3)
        assert [answer.result() for answer in answers] == [[[{"text": f"W{n}"}]] for n in range(10)]
        assert greedy.result() == [[{"text": "GREEDY"}]]
        assert attended.result()[0][0]["attention"]
        sizes = sorted(len(texts) for texts, _ in running.translator.calls)
        assert sizes == [1, 3, 8]
        assert running.measured("nmt_queue_work") == 0


# ---- answers as events ----


def stream(running: Running, **body: Any) -> list[tuple[str, Any]]:
    """Return the names and contents of the events of a translation."""
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    answer = running.ask("POST", "/translate", json.dumps(body), headers)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = []
    for block in answer.body.decode().removesuffix("\n\n").split("\n\n"):
        name, content = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(content.removeprefix("data: "))))
    return events


@pytest.mark.parametrize(
    "options", [{}, {"nbest": 2, "scores": True}, {"quality": True}, {"attention": True}], ids=str
)
def test_a_stream_ends_with_the_ordinary_answer(service: Running, options: dict[str, Any]) -> None:
    texts = ["Hola mundo", "", "la casa|Hola|mundo"]
    *sentences, (last, answer) = stream(service, text=texts, **options)
    assert last == "translations"
    assert answer == service.post({"text": texts, **options}).json
    assert [name for name, _ in sentences] == ["sentence"] * 4
    assert {(each["text"], each["sentence"]): each for _, each in sentences} == {
        (text, sentence): {
            "text": text,
            "sentence": sentence,
            "source": source,
            "translation": translation,
            "space": "",
        }
        for text, sentence, source, translation in (
            (0, 0, "Hola mundo", "world hello"),
            (2, 0, "la casa", "house the"),
            (2, 1, "Hola", "hello"),
            (2, 2, "mundo", "world"),
        )
    }


def test_sentences_come_as_soon_as_their_batch_is_done() -> None:
    body = b'{"text": ["one", "two|three"]}'
    with serving(max_batch=1) as running:
        translate, gates = running.translator.hypotheses, [threading.Event() for _ in range(3)]

        def wait_and_translate(*arguments: Any, **options: Any) -> Any:
            assert gates[len(running.translator.calls)].wait(SOON)
            return translate(*arguments, **options)

        running.translator.hypotheses = wait_and_translate  # type: ignore[method-assign]
        request = head(len(body), "Accept: text/event-stream")
        with connected(running, request + body) as client, client.makefile("rb") as answer:
            for gate, expected in zip(gates, (b"ONE", b"TWO", b"THREE"), strict=True):
                gate.set()
                line = b""
                while not line.startswith(b"data: "):
                    line = answer.readline()
                assert json.loads(line.removeprefix(b"data: "))["translation"] == expected.decode()


def test_an_error_before_the_first_sentence_has_a_status_and_a_later_one_is_an_event() -> None:
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    with serving(max_batch=1) as running:
        for body, status in ((b"{", 400), (b'{"text": "fail"}', 500), (b'{"text": 1}', 422)):
            answer = running.ask("POST", "/translate", body, headers)
            assert answer.status == status
            assert answer.json.keys() == {"error"}
        events = stream(running, text=["fine", "fail"])
        assert [name for name, _ in events] == ["sentence", "error"]
        assert events[-1][1] == {"error": "the translation failed"}


def test_the_rest_of_a_stream_that_nobody_reads_is_dropped() -> None:
    body = json.dumps({"text": [f"w{n}" for n in range(100)]}).encode()
    with serving(max_batch=1) as running:
        translate, second = running.translator.hypotheses, threading.Event()

        def wait_and_translate(*arguments: Any, **options: Any) -> Any:
            assert not running.translator.calls or second.wait(SOON)
            return translate(*arguments, **options)

        running.translator.hypotheses = wait_and_translate  # type: ignore[method-assign]
        request = head(len(body), "Accept: text/event-stream")
        with connected(running, request + body) as client, client.makefile("rb") as answer:
            while not answer.readline().startswith(b"data: "):
                pass
        until(lambda: running.measured("nmt_queue_work") == 0)
        second.set()
        running.translate("next")
        assert len(running.translator.calls) <= 3


# ---- attention beside translations ----


@contextmanager
def attending(running: Running, texts: list[str]) -> Iterator[ThreadPoolExecutor]:
    """Hold the attention of these texts while it is computed."""
    with ThreadPoolExecutor(16) as pool:
        running.translator.attention_gate.clear()
        running.translator.attention_started.clear()
        answer = pool.submit(running.translate, texts, attention=True)
        assert running.translator.attention_started.wait(SOON)
        try:
            yield pool
            assert not answer.done()
        finally:
            running.translator.attention_gate.set()
        assert all(best["attention"] for best, *_ in answer.result())


def test_others_are_answered_while_attention_is_computed() -> None:
    with serving() as running, attending(running, ["Hola mundo"]):
        assert running.ask("GET", "/healthz").status == 200
        assert running.ask("GET", "/").status == 200
        assert running.translate("la casa") == [[{"text": "house the"}]]


def test_others_are_answered_while_attention_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    encode, started, gate = service_module.encode_response, threading.Event(), threading.Event()

    def wait_and_encode(*answer: Any, **options: Any) -> bytes:
        if any(answer[1]):
            started.set()
            assert gate.wait(SOON)
        return encode(*answer, **options)

    monkeypatch.setattr(service_module, "encode_response", wait_and_encode)
    with serving() as running, ThreadPoolExecutor() as pool:
        answer = pool.submit(running.translate, "Hola mundo", attention=True)
        assert started.wait(SOON)
        assert running.ask("GET", "/healthz").status == 200
        assert running.translate("la casa") == [[{"text": "house the"}]]
        assert not answer.done()
        gate.set()
        assert answer.result()[0][0]["attention"]


def test_attention_counts_as_one_more_hypothesis() -> None:
    with serving(max_work=50) as running:
        assert running.translate("Hola mundo", attention=True)[0][0]["attention"]
        assert running.translate("Hola mundo!", beam=4)
        answer = running.post({"text": "Hola mundo!", "attention": True})
        assert answer.status == 413
        assert answer.json == {
            "error": "55 units of work for 11 tokens at 4 each and attention: "
            "at most 50 are allowed"
        }
        # A text that is cut has no attention, and pays for none.
        assert running.translate("Hola|mundo!", attention=True)[0][0]["attention"] is None


def test_attention_that_waits_fills_the_queue() -> None:
    with serving(max_work=60, max_queue=60) as running:
        with attending(running, ["Hola mundo"]) as pool:
            waiting = pool.submit(running.translate, ["Hola mundo"] * 2, beam=1, attention=True)
            until(lambda: running.measured("nmt_queue_work") == 20)
            answer = running.post({"text": "Hola mundo", "attention": True})
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
            assert "waiting" in answer.json["error"]
            answer = running.post({"text": "Hola mundo!"})
            assert answer.status == 503
            assert running.translate("Hola mundo") == [[{"text": "world hello"}]]
        assert len(waiting.result()) == 2
        assert running.measured("nmt_queue_work") == 0


def test_attention_of_a_client_that_left_is_not_computed() -> None:
    body = b'{"text": ["Hola mundo", "Hola casa"], "attention": true}'
    with serving() as running:
        with attending(running, ["Hola mundo"]):
            client = connected(running, head(len(body)) + body)
            until(lambda: running.measured("nmt_queue_work") == 19)
            client.close()
            until(lambda: running.measured("nmt_queue_work") == 0)
        running.translate("Hola mundo", attention=True)
        assert running.measured("nmt_attention_seconds_count") == 2


def test_attention_of_too_many_tokens_is_refused() -> None:
    with serving() as running:
        answer = running.post({"text": [f"{'a' * 62} b"] * 4, "attention": True})
        assert answer.status == 200
        answer = running.post({"text": [f"{'a' * 62} b"] * 3 + ["a" * 65], "attention": True})
        assert answer.status == 413
        assert answer.json == {
            "error": "attention is given for at most 256 tokens, not for 257: "
            "send fewer or shorter texts, or ask without attention"
        }
        assert running.translate(["a" * 257], attention=False)


def test_an_answer_with_attention_is_of_limited_size() -> None:
    with serving() as running:
        shape = (6, 8, 60, 60)  # 172,800 weights
        running.translator.cross = np.random.default_rng(1).random(shape, np.float32)
        answer = running.post({"text": ["Hola mundo"] * 4, "attention": True})
        attended = [best["attention"] is not None for best, *_ in answer.json["translations"]]
        assert attended == [True, True, False, False]
        assert len(answer.body) < 6.1 * 500_000
        weights = answer.json["translations"][1][0]["attention"]["weights"]
        np.testing.assert_allclose(weights, running.translator.cross, atol=5.1e-4)


def test_attention_that_fails_is_one_line_and_does_not_stop_the_service(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving() as running:
        running.translator.attention_error = RuntimeError("asked to fail")
        answer = running.post({"text": "Hola mundo", "attention": True})
        assert answer.status == 500
        assert answer.json == {"error": "the attention could not be computed"}
        assert "asked to fail" in caplog.text
        running.translator.attention_error = None
        assert running.translate("Hola mundo", attention=True)[0][0]["attention"]


def test_attention_is_counted() -> None:
    with serving() as running:
        running.translate(["Hola mundo", "Hola casa", "", "a|b"], attention=True)
        running.translate("Hola mundo")
        assert running.measured("nmt_attentions_total") == 2
        assert running.measured("nmt_attention_seconds_count") == 2
        assert running.measured("nmt_sentences_total") == 5


# ---- refusing ----


@pytest.mark.parametrize(
    ("body", "expected", "message"),
    [
        (b"", 422, "must be a JSON object"),
        (b"{", 400, "not JSON"),
        (b'{"text": "Hola"', 400, "not JSON"),
        (b'{"text": "\xff\xfe"}', 400, "not UTF-8"),
        (gzip.compress(b'{"text": "Hola"}', mtime=0), 400, "compressed bodies are not supported"),
        (b"[" * 100_000, 400, "nested too deeply"),
        (b'{"text": "a", "beam": ' + b"9" * 5000 + b"}", 400, ""),
        (b"[]", 422, "must be a JSON object"),
        (b'"Hola"', 422, "must be a JSON object"),
        (b"null", 422, "must be a JSON object"),
        (b"{}", 422, "text: Field required"),
        (b'{"text": 1}', 422, "text must be a string or a list of strings"),
        (b'{"text": null}', 422, "text must be a string"),
        (b'{"text": ["a", 1]}', 422, "text must be a string"),
        (b'{"text": [["a"]]}', 422, "text must be a string"),
        (b'{"text": {"a": "b"}}', 422, "text must be a string"),
        (b'{"text": "\\ud800"}', 422, "half of a surrogate pair"),
        (b'{"text": "a", "baem": 2}', 422, "unknown field 'baem'; did you mean 'beam'?"),
        (b'{"text": "a", "\\ud800": 2}', 422, "must be a JSON object"),
        (b'{"text": "a", "beam": 0}', 422, "beam:"),
        (b'{"text": "a", "beam": 17}', 422, "beam:"),
        (b'{"text": "a", "beam": "4"}', 422, "beam:"),
        (b'{"text": "a", "beam": true}', 422, "beam:"),
        (b'{"text": "a", "beam": 2.5}', 422, "beam:"),
        (b'{"text": "a", "beam": 2, "nbest": 3}', 422, "nbest 3 needs a beam of at least 3"),
        (b'{"text": "a", "nbest": 0}', 422, "nbest:"),
        (b'{"text": "a", "nbest": 17}', 422, "nbest:"),
        (b'{"text": "a", "length_penalty": -1}', 422, "length_penalty:"),
        (b'{"text": "a", "length_penalty": NaN}', 422, "length_penalty:"),
        (b'{"text": "a", "length_penalty": Infinity}', 422, "length_penalty:"),
        (b'{"text": "a", "scores": 1}', 422, "scores:"),
        (b'{"text": "a", "attention": "yes"}', 422, "attention:"),
        (b'{"text": ["a", "a", "a", "a", "a"], "attention": true}', 413, "at most 4 texts"),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(
    service: Running, body: bytes, expected: int, message: str
) -> None:
    answer = service.post(body)
    assert answer.status == expected, answer.body
    assert answer.json.keys() == {"error"}
    assert message in answer.json["error"]
    assert len(answer.json["error"]) < 200
    assert "\n" not in answer.json["error"]


def test_only_json_is_taken(service: Running) -> None:
    body = json.dumps({"text": "Hola"})
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = service.ask("POST", "/translate", body, {"Content-Type": kind})
        assert answer.status == 422
        assert "application/json" in answer.json["error"]


def test_a_body_of_10_mb_is_refused(service: Running) -> None:
    body = json.dumps({"text": "a" * 10_000_000}).encode()
    declared = service.post(body)
    chunks = (body[start : start + 65536] for start in range(0, len(body), 65536))
    header = {"Content-Type": "application/json"}
    chunked = service.ask("POST", "/translate", chunks, header, encode_chunked=True)
    for answer in (declared, chunked):
        assert answer.status == 413
        assert answer.json == {"error": "the body is larger than the 262,144 bytes allowed"}


def test_a_declared_length_is_refused_before_the_body_comes(service: Running) -> None:
    assert status(connected(service, head(10_000_000))) == 413


def test_a_false_length_harms_nobody() -> None:
    body = b'{"text": "Hola"}'
    with serving(timeout_s=3) as running:
        assert status(connected(running, head(len(body) + 1) + body)) == 408
        assert status(connected(running, head(len(body) - 1) + body)) == 400
        for length in ("-1", "many", "1, 2"):
            assert status(connected(running, head(length) + body)) == 400
        assert running.translate("Hola") == [[{"text": "hello"}]]


def test_the_largest_body_is_taken_and_one_byte_more_is_not() -> None:
    with serving(max_body=100) as running:
        body = b'{"text": "Hola"}'
        assert running.post(body.ljust(100)).status == 200
        assert running.post(body.ljust(101)).status == 413


def test_too_many_sentences_and_too_long_ones_are_refused() -> None:
    with serving(max_body=10_000_000) as running:
        answer = running.post({"text": ["a"] * 100_000})
        assert answer.status == 413
        assert answer.json == {"error": "100,000 texts are more than the 128 allowed"}
        answer = running.post({"text": ["a", "á" * 5001]})
        assert answer.status == 413
        assert "5,001 characters" in answer.json["error"]
        assert running.translator.calls == []
        prefixes = {f"{number}": "" for number in range(100)}  # 200 texts
        assert running.post({"text": "a", "prefixes": prefixes}).status == 200
        running.translator.calls.clear()
        answer = running.post({"text": "a", "prefixes": {"a": "á" * 5001}})
        assert "5,001 characters" in answer.json["error"]
        assert running.translate(["a"] * 128) == [[{"text": "A"}]] * 128
        assert len(running.translate("á" * 5000)[0][0]["text"]) == 5000


def test_work_is_tokens_times_beam_and_too_much_of_it_is_refused() -> None:
    with serving(max_work=64) as running:
        answer = running.post({"text": ["aaaa|aaaa", "a"], "beam": 8})
        assert answer.status == 413
        assert answer.json == {
            "error": "72 units of work for 9 tokens at 8 each: at most 64 are allowed"
        }
        assert running.translator.calls == []
        assert running.translate(["aaaa|aaaa", "a"], beam=7) == [
            [{"text": "AAAA AAAA"}],
            [{"text": "A"}],
        ]
        answer = running.post({"text": "Hola casa", "beam": 4, "glossary": "animals"})
        assert answer.status == 413  # sentences that lack a term are searched again
        assert answer.json == {
            "error": "81 units of work for 9 tokens at 9 each: at most 64 are allowed"
        }


def test_texts_beyond_the_work_allowed_are_not_segmented() -> None:
    with serving(max_work=64) as running:
        running.translator.segmented.clear()
        assert running.post({"text": ["aaaa", "bbbb", "cccc", "dddd"], "beam": 8}).status == 413
        assert running.translator.segmented == ["aaaa", "bbbb", "cccc"]


def test_unknown_paths_and_methods(service: Running) -> None:
    for path in ("/nowhere", "/translate/", "/docs", "/redoc", "/../etc/passwd", "//"):
        answer = service.ask("GET", path)
        assert answer.status == 404, path
        assert answer.json == {"error": "Not Found"}
    answer = service.ask("GET", "/translate")
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"
    assert answer.json == {"error": "Method Not Allowed"}
    assert service.ask("DELETE", "/").status == 405


@pytest.mark.parametrize("path", ["/", "/healthz"])
def test_head_answers_without_a_body(service: Running, path: str) -> None:
    answer = service.ask("HEAD", path)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == service.ask("GET", path).headers["content-length"]


# ---- trouble ----


def test_a_client_that_hangs_up_is_forgotten() -> None:
    body = b'{"text": "unwanted"}'
    gone = 'nmt_requests_total{path="/translate",status="499"}'
    with serving() as running:
        with busy(running):
            connected(running, head(len(body)) + body).close()
            connected(running, head(len(body)) + body[:5]).close()
            until(lambda: running.measured(gone) == 2)
            assert running.measured("nmt_queue_work") == 0
        assert running.translate("wanted") == [[{"text": "WANTED"}]]
        assert [texts for texts, _ in running.translator.calls] == [["wanted"]]


def test_a_huge_request_holds_nobody_up_and_is_dropped_when_its_client_leaves() -> None:
    huge = json.dumps({"text": "|".join(["huge"] * 200), "beam": 16}).encode()
    with serving(max_batch_work=128) as running:
        with busy(running) as pool:
            client = connected(running, head(len(huge)) + huge)
            until(lambda: running.measured("nmt_queue_work") == 200 * 4 * 16)
            small = [pool.submit(running.translate, f"s{n}") for n in range(3)]
            until(lambda: running.measured("nmt_queue_work") == 200 * 4 * 16 + 3 * 2 * 4)
        assert [answer.result() for answer in small] == [[[{"text": f"S{n}"}]] for n in range(3)]
        batches = [sorted(texts) for texts, _ in running.translator.calls]
        assert batches.index(["s0", "s1", "s2"]) == 1
        assert batches[0] == ["huge", "huge"]
        running.translator.gate.clear()
        client.close()
        until(lambda: running.measured("nmt_queue_work") == 0)
        computed = len(running.translator.calls)
        running.translator.gate.set()
        running.translate("next")
        assert [texts for texts, _ in running.translator.calls[computed:]] == [["next"]]


def test_who_sends_no_head_or_half_of_one_is_dropped() -> None:
    with serving(timeout_s=0.5) as running:
        for begin in (b"", b"POST /translate HTTP/1.1\r\nHost:"):
            assert received(connected(running, begin)) == 0
        request = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
        client = connected(running, request)
        assert client.recv(1000)
        client.sendall(request[:5])  # the time limit applies after an answer, too
        assert received(client) < 1000


def test_who_does_not_read_an_answer_is_dropped() -> None:
    roomy = {"max_characters": 10**6, "max_body": 10**6, "max_work": 10**8, "max_queue": 10**8}
    with serving(timeout_s=2, **roomy) as running:
        body = json.dumps({"text": "a" * 600_000, "beam": 16, "nbest": 16}).encode()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", running.port))
            client.sendall(head(len(body)) + body)
            sent = 'nmt_requests_total{path="/translate",status="200"}'
            until(lambda: running.measured(sent) == 1)
            until(lambda: not running.connections)
            assert received(client) < 8_000_000


def test_connections_beyond_the_limit_are_refused_in_json() -> None:
    with serving(max_connections=2) as running:
        clients = [connected(running, b""), connected(running, b"")]
        until(lambda: len(running.connections) == 2)
        with connected(running, b"") as client, client.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body) == {"error": "more than 2 connections"}
        for client in clients:
            client.close()
        until(lambda: not running.connections)
        assert running.translate("Hola") == [[{"text": "hello"}]]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("fail", "the test translation failed"),
        ("hang", "the test translation took longer than 0.3 seconds"),
        ("die", "the thread that translates has died"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_health_check_fails_when_the_model_does(
    fault: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"health_s": 0.3} if fault == "hang" else {}
    with serving(**limits) as running:
        batcher = running.app.state.service.batcher
        if fault == "fail":
            monkeypatch.setattr(running.translator, "hypotheses", None)
        elif fault == "hang":
            running.translator.gate.clear()
        else:
            monkeypatch.setattr(batcher, "_next_batch", lambda: 1 / 0)
            running.translate("the last")
            until(lambda: not batcher.is_alive)
        for _ in range(2):
            answer = running.ask("GET", "/healthz")
            assert (answer.status, answer.json) == (503, {"error": message})
        monkeypatch.undo()
        running.translator.gate.set()
        if fault != "die":
            until(lambda: running.ask("GET", "/healthz").status == 200)


def test_the_health_check_needs_no_room_in_the_queue_and_is_not_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nmt.serving.health._HEALTHY_S", SOON)
    with serving(max_work=20, max_queue=20) as running:
        with busy(running) as pool:
            waiting = [pool.submit(running.translate, "full"), pool.submit(running.translate, "b")]
            until(lambda: running.measured("nmt_queue_work") == 20)
            checks = [pool.submit(running.ask, "GET", "/healthz") for _ in range(5)]
            until(lambda: len(running.connections) == 1 + 2 + 5)
            until(lambda: running.measured("nmt_queue_work") > 20)  # accepted, then asked
            assert running.measured("nmt_queue_work") == 20 + 4 * 1
        assert {answer.result().status for answer in checks} == {200}
        assert running.ask("GET", "/healthz").status == 200
        assert sum(texts.count("a") for texts, _ in running.translator.calls) == 1
        assert [answer.result() for answer in waiting] == [[[{"text": "FULL"}]], [[{"text": "B"}]]]


def test_an_answer_that_takes_too_long() -> None:
    with serving(timeout_s=3) as running:
        with ThreadPoolExecutor() as pool:
            running.translator.gate.clear()
            first = pool.submit(running.post, {"text": "slow"})
            assert running.translator.started.wait(SOON)
            second = pool.submit(running.post, {"text": "late"})
            for answer in (first.result(), second.result()):
                assert answer.status == 503
                assert answer.json == {"error": "no answer within 3 seconds"}
                assert answer.headers["retry-after"] == "1"
            running.translator.gate.set()
        assert running.translate("next") == [[{"text": "NEXT"}]]
        assert [texts for texts, _ in running.translator.calls] == [["slow"], ["next"]]


def test_texts_are_not_segmented_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as running:
        segmented = running.translator.segmented
        segmented.clear()
        clock = waiting.monotonic
        monkeypatch.setattr(waiting, "monotonic", lambda: math.inf if segmented else clock())
        answer = running.post({"text": ["first", "second"]})
        assert answer.status == 503
        assert answer.json == {"error": f"no answer within {SOON} seconds"}
        assert segmented == ["first"]


def test_texts_of_a_client_that_hung_up_are_not_segmented() -> None:
    body = b'{"text": ["first", "second"]}'
    gone = 'nmt_requests_total{path="/translate",status="499"}'
    with serving() as running:
        running.translator.segmented.clear()
        running.translator.segment_gate.clear()
        client = connected(running, head(len(body)) + body)
        until(lambda: bool(running.translator.segmented))
        client.close()
        until(lambda: not running.connections)
        running.translator.segment_gate.set()
        until(lambda: running.measured(gone) == 1)
        assert running.translator.segmented == ["first"]


def test_a_full_queue_refuses_until_there_is_room() -> None:
    with serving(max_work=20, max_queue=20) as running:
        with busy(running) as pool:
            waiting = pool.submit(running.translate, ["aa", "b"])
            until(lambda: running.measured("nmt_queue_work") == 12)
            answer = running.post({"text": ["c", "d", "e"]})
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
            assert "waiting" in answer.json["error"]
            fits = pool.submit(running.translate, "ee")
            until(lambda: running.measured("nmt_queue_work") == 20)
        assert waiting.result() == [[{"text": "AA"}], [{"text": "B"}]]
        assert fits.result() == [[{"text": "EE"}]]


def test_a_batch_that_fails_does_not_stop_the_service(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as running:
        answer = running.post({"text": ["fine", "fail"]})
        assert answer.status == 500
        assert answer.json == {"error": "the translation failed"}
        assert "a batch of 2 sentences failed" in caplog.text
        assert "asked to fail" in caplog.text
        assert running.translate("fine") == [[{"text": "FINE"}]]


def test_a_service_that_stops_answers_what_it_took_and_takes_no_more() -> None:
    with serving() as running:
        assert running.ask("GET", "/healthz").json == {"status": "ready"}
        with busy(running) as pool:
            waiting = pool.submit(running.translate, "accepted")
            until(lambda: running.measured("nmt_queue_work") == 32)
            running.app.state.service.is_stopping = True
            for answer in (running.ask("GET", "/healthz"), running.post({"text": "new"})):
                assert answer.status == 503
                assert answer.json == {"error": "the service is stopping"}
        assert waiting.result() == [[{"text": "ACCEPTED"}]]


def test_a_service_that_stops_answers_a_request_that_is_being_cut_into_sentences() -> None:
    with serving() as running, ThreadPoolExecutor() as pool:
        running.translator.segmented.clear()
        running.translator.segment_gate.clear()
        accepted = pool.submit(running.translate, "accepted")
        until(lambda: bool(running.translator.segmented))
        running.app.state.service.is_stopping = True
        running.translator.segment_gate.set()
        assert accepted.result() == [[{"text": "ACCEPTED"}]]


# ---- telling ----


def test_info(service: Running) -> None:
    info = service.ask("GET", "/info").json
    assert info["run"] == "a-run"
    assert (info["source_language"], info["target_language"]) == ("es", "en")
    assert info["scores"]["BLEU"] == {"value": 50.12, "half_width": 2.8}
    assert info["defaults"] == {"beam": 4, "length_penalty": 0.6}
    assert info["limits"]["max_characters"] == 5000
    assert info["limits"]["max_beam"] == 16


def test_metrics_count_what_happened() -> None:
    with serving() as running, serving() as other:
        running.translate(["a", "b", "c"])
        running.post(b"{")
        running.ask("GET", "/nowhere")
        running.ask("GET", "/elsewhere")
        assert running.measured('nmt_requests_total{path="/translate",status="200"}') == 1
        assert running.measured('nmt_requests_total{path="/translate",status="400"}') == 1
        assert running.measured('nmt_requests_total{path="other",status="404"}') == 2
        assert running.measured("nmt_sentences_total") == 3
        assert running.measured("nmt_translate_seconds_count") == 2
        assert running.measured("nmt_batch_parts_sum") == 3
        assert other.measured("nmt_sentences_total") == 0


def test_metrics_count_the_sentences_of_texts_and_of_documents() -> None:
    with serving() as running:
        running.translate(["a|b|c", ""])
        assert running.measured("nmt_sentences_total") == 3
        assert running.ask("POST", "/documents?name=a.txt", b"Hola\n\nla|casa").status == 200
        assert running.measured("nmt_sentences_total") == 6


def test_the_interface_is_described(service: Running) -> None:
    described = service.ask("GET", "/openapi.json").json
    assert described["info"]["version"] == version("nmt")
    paths = {"/translate", "/alternatives", "/explain", "/documents", "/corrections"}
    assert set(described["paths"]) == paths | {"/healthz", "/info"}
    parameters = described["paths"]["/documents"]["post"]["parameters"]
    names = {each["name"] for each in parameters}
    assert names == {"name", "format", "columns", "encoding", "glossary"}
    fields = described["components"]["schemas"]["TranslationRequest"]["properties"]
    options = {"beam", "nbest", "length_penalty", "scores", "attention", "quality", "glossary"}
    assert fields.keys() == {"text", "sentences", "prefixes", *options}
    refused = described["paths"]["/translate"]["post"]["responses"]["422"]
    assert refused["content"]["application/json"]["schema"]["$ref"].endswith("/Problem")


def test_answers_carry_security_headers(service: Running) -> None:
    for path, kind in (("/", "text/html"), ("/info", "application/json"), ("/nowhere", "")):
        headers = service.ask("GET", path).headers
        assert headers["content-type"].startswith(kind)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "unsafe" not in headers["content-security-policy"]


def test_an_unexpected_failure_is_a_problem_with_security_headers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving() as running:
        monkeypatch.setattr(running.translator, "segment", lambda *_: 1 / 0)
        answer = running.post({"text": "Hola"})
        assert (answer.status, answer.json) == (500, {"error": "internal error"})
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert running.measured('nmt_requests_total{path="/translate",status="500"}') == 1
