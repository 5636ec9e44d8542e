"""Documents over HTTP: translated as by the library, in turns with others, within limits."""

from __future__ import annotations

import base64
import io
import json
import socket
import sys
import threading
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fake_service import SOON, Answer, FakeTranslator, Running, serving, until

from nmt.documents.formats import DocumentOptions, extract
from nmt.documents.translating import translate_document
from nmt.inference.contract import SearchRequest
from nmt.serving import documents as documents_module

PAGE = "<p>Hola <b>mundo</b>, la <i>casa</i></p><p>la casa</p><p>Hola|mundo</p><p>la casa</p>"
EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    """One that the tests leave as they found it."""
    with serving() as running:
        yield running


def send(
    running: Running, query: str, body: str | bytes, headers: dict[str, str] | None = None
) -> Answer:
    return running.ask("POST", f"/documents?{query}", body, headers)


def events(answer: Answer) -> list[tuple[str, Any]]:
    """Return the names and contents of a stream."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = answer.body.decode().split("\n\n")
    assert blocks.pop() == ""
    lines = [block.split("\n") for block in blocks]
    return [
        (name.removeprefix("event: "), json.loads(content.removeprefix("data: ")))
        for name, content in lines
    ]


def translated(content: dict[str, Any]) -> str:
    return base64.b64decode(content["content"]).decode()


class Direct:
    """Translates texts by the fake translator, without a service."""

    def __init__(self) -> None:
        self.fake = FakeTranslator()
        self.begin_document = self.fake.begin_document

    def stream(
        self, chunks: Iterable[Sequence[str]], request: SearchRequest
    ) -> Iterator[list[list[Any]]]:
        for texts in chunks:
            yield [self.translate(self.fake.segment(text), request) for text in texts]

    def translate(self, text: Any, request: SearchRequest) -> list[Any]:
        hypotheses = self.fake.hypotheses(text.segments, request)
        return self.fake.join(text, hypotheses, 1).translations


# ---- translating ----


def test_a_document_is_what_the_library_makes_of_it(service: Running) -> None:
    document = extract(PAGE.encode(), "html", DocumentOptions("es", "en"))
    expected, report = translate_document(document, Direct())
    answer = send(service, "name=page.html", PAGE)
    assert answer.status == 200
    assert answer.body == expected
    assert expected.startswith(b"<p><i>house</i> the <b>MUNDO,</b> hello</p>")
    assert answer.headers["content-type"] == "text/html"
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith('attachment; filename="page.en.html"')
    assert json.loads(answer.headers["document-report"])["segments"] == report.segments == 4


def test_a_stream_says_how_far_it_is_and_ends_with_the_document(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "_REPORT_S", 0.0)
    monkeypatch.setattr(documents_module, "_CHUNK", 2)
    texts = "".join(f"<p>w{n}</p>" for n in range(5)) + "<p>lose</p><p>w0</p>"
    plain = send(service, "name=page.html", texts)
    *progress, (last, content) = events(send(service, "name=page.html", texts, EVENTS))
    assert progress == [("progress", {"done": n, "total": 6}) for n in (0, 2, 4, 6)]
    assert last == "document"
    assert base64.b64decode(content.pop("content")) == plain.body
    assert content == {
        "name": "page.en.html",
        "media_type": "text/html",
        "segments": 7,
        "lost_spans": ["12"],
        "unaligned": 0,
        "untranslated": 0,
        "skipped": 0,
        "terms": [],
    }
    assert json.loads(plain.headers["document-report"]) == {
        "segments": 7,
        "lost_spans": 1,
        "unaligned": 0,
        "untranslated": 0,
        "skipped": 0,
        "terms": 0,
        "unused_terms": 0,
    }


def test_progress_is_reported_from_time_to_time_only(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "_REPORT_S", 2 * SOON)
    monkeypatch.setattr(documents_module, "_CHUNK", 1)
    answer = send(service, "format=lines", "a\nb\nc\n", EVENTS)
    assert [name for name, _ in events(answer)] == ["progress", "document"]


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        ("name=a.txt", "Hola\nmundo\n\nla casa\n", "world hello\n\nhouse the\n"),
        ("name=a.txt&format=lines", "Hola\nmundo\n\nla casa", "hello\nworld\n\nhouse the\n"),
        ("format=text", "Hola mundo", "world hello"),
        ("name=a.html&format=text", "<p>\n\nHola", "<P>\n\nhello"),
        ("name=PAGE.HTM", "<p>Hola</p>", "<p>hello</p>"),
        ("name=a.csv&columns=b", "a,b\nla,la casa\n", "a,b\nla,house the\n"),
        ("name=a.csv&columns=1,2", "la,Hola\n", "the,hello\n"),
        ("name=a.txt&encoding=utf-16-le", "Hola".encode("utf-16-le"), "hello"),
        ("format=lines&encoding=latin-1", "a\xf1o\n".encode("latin-1"), "A\xd1O\n"),
        ("name=a.txt", "", ""),
        ("format=lines", "", ""),
    ],
)
def test_formats_and_their_options(
    service: Running, query: str, body: str | bytes, expected: str
) -> None:
    answer = send(service, query, body.encode() if isinstance(body, str) else body)
    assert answer.status == 200, answer.body
    assert answer.body.decode() == expected


def test_markup_is_aligned_and_other_texts_are_not(service: Running) -> None:
    service.translator.calls.clear()
    send(service, "name=a.html", "<p>Hola <b>mundo</b></p><p>la casa</p>")
    assert {tuple(texts): request.words for texts, request in service.translator.calls} == {
        ("la casa",): False,
        ("Hola mundo",): True,
    }


# ---- refusals ----


def zip_bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", b" " * (32 << 20))
    return file.getvalue()


LAUGHS = (
    """<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><xliff>&b;</xliff>"""
)


@pytest.mark.parametrize("headers", [{}, EVENTS], ids=["file", "events"])
@pytest.mark.parametrize(
    ("query", "body", "status", "message"),
    [
        ("", b"a", 415, "the file name has no ending: give format=NAME, one of lines, text"),
        ("name=a.pdf", b"%PDF", 415, "files '.pdf' are unknown"),
        ("name=a.docx.exe", b"", 415, "files '.exe' are unknown"),
        ("format=doc", b"", 415, "format 'doc' is unknown"),
        ("name=a.html&nmae=b", b"", 422, "unknown parameter 'nmae'; did you mean 'name'?"),
        ("name=a.txt&columns=1", b"", 422, "columns are for format table, not for text"),
        ("name=a.docx&encoding=utf-8", b"", 422, "format office names its encoding itself"),
        ("name=a.txt&encoding=rot13", b"", 422, "unknown encoding 'rot13'"),
        ("name=a.txt&encoding=punycode", b"", 422, "unknown encoding 'punycode'"),
        ("name=a.txt&encoding=a%00", b"", 422, "unknown encoding"),
        ("name=a.csv", b"a,b\n", 400, "a table needs columns=NAME,..."),
        ("name=a.txt", b"\xff", 400, "the document is not UTF-8"),
        ("name=a.srt", b"ma\xf1ana", 400, "seems to be CP1252"),
        ("name=a.srt", b"ma\xf1ana", 400, "give encoding=cp1252, or convert it"),
        ("name=a.html", b"<meta charset=punycode>-", 400, "it is for names of hosts"),
        ("format=lines", b"a\n\xff\n", 400, "the document is not UTF-8 (byte 0xff"),
        ("name=a.xlf", LAUGHS.encode(), 400, "DOCTYPE has definitions"),
        ("name=a.docx", zip_bomb(), 400, "unpacks to more than 200 times its size"),
        ("name=a.docx", b"no archive", 400, "damaged DOCX or ODT archive"),
        ("name=a.json", b"[" * 100_000, 400, "more than 200 nested levels"),
        ("name=a.JSON", b'{"a": "b",}', 400, "the catalogue is not valid JSON ("),
        ("name=a.srt", b"no cues", 400, "cue"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_translated_is_refused_in_one_line(
    service: Running,
    query: str,
    body: bytes,
    status: int,
    message: str,
    headers: dict[str, str],
) -> None:
    answer = send(service, query, body, headers)
    assert answer.status == status, answer.body
    assert answer.json.keys() == {"error"}
    error = answer.json["error"]
    assert message in error
    assert "\n" not in error
    assert len(error) <= 301
    assert "--encoding" not in error


def test_a_form_is_no_document(service: Running) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = send(service, "name=a.html", "--x\r\n\r\n<p>Hola\r\n--x--", headers)
    assert answer.status == 415
    assert answer.json == {"error": "the body of the request is the document itself, not a form"}


def test_a_missing_package_is_named(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polib", None)
    monkeypatch.delitem(sys.modules, "nmt.documents.po", raising=False)
    answer = send(service, "name=a.po", b"")
    assert answer.status == 501
    assert answer.json == {"error": "format po needs polib: pip install 'nmt[documents]'"}


def test_only_documents_may_be_as_large_as_documents() -> None:
    with serving(max_document=2000, max_body=100) as running:
        assert send(running, "name=a.txt", b"a".ljust(2000)).status == 200
        chunks = (b"a" * 500 for _ in range(5))
        header = {"Transfer-Encoding": "chunked"}
        for body, headers in ((b"a" * 2001, {}), (chunks, header)):
            answer = running.ask(
                "POST", "/documents?name=a.txt", body, headers, encode_chunked=bool(headers)
            )
            assert answer.status == 413
            assert answer.json == {"error": "the body is larger than the 2,000 bytes allowed"}
        assert running.post(json.dumps({"text": "a" * 200})).status == 413


def connect(running: Running, query: str, body: bytes, length: int | None = None) -> socket.socket:
    """Send a document, or the beginning of one."""
    client = socket.create_connection(("127.0.0.1", running.port), SOON)
    length = len(body) if length is None else length
    head = f"POST /documents?{query} HTTP/1.1\r\nHost: here\r\nContent-Length: {length}\r\n\r\n"
    client.sendall(head.encode() + body)
    return client


def test_a_document_that_does_not_arrive_is_refused_and_makes_room() -> None:
    with serving(timeout_s=0.5) as running:
        with connect(running, "name=a.txt", b"a", 2) as client, client.makefile("rb") as answer:
            assert answer.readline().split()[1] == b"408"
        until(lambda: send(running, "name=a.txt", b"Hola").status == 200)


def test_pages_of_other_sites_may_not_send_documents(service: Running) -> None:
    for site, status in (("cross-site", 403), ("same-origin", 200), ("none", 200)):
        answer = send(service, "name=a.txt", b"Hola", {"Sec-Fetch-Site": site})
        assert answer.status == status


def test_a_failure_of_the_model_is_one_line(
    service: Running, caplog: pytest.LogCaptureFixture
) -> None:
    answer = send(service, "name=a.txt", b"fail")
    assert answer.status == 500
    assert answer.json == {"error": "the translation failed"}
    assert "asked to fail" in caplog.text
    _, (last, content) = events(send(service, "name=a.txt", b"fail", EVENTS))
    assert (last, content) == ("error", {"error": "the translation failed"})
    until(lambda: send(service, "name=a.txt", b"Hola").body == b"hello")  # one document at a time


# ---- documents beside others ----


def other_client(number: int) -> dict[str, str]:
    return {"X-Forwarded-For": f"10.0.0.{number}"}  # the service trusts proxies of its machine


def test_a_client_has_one_document_at_a_time_and_a_service_a_few() -> None:
    with serving(max_documents=2) as running, ThreadPoolExecutor() as pool:
        running.translator.gate.clear()
        mine = pool.submit(send, running, "name=a.txt", b"Hola", other_client(1))
        until(lambda: running.measured('nmt_documents_total{format="text"}') == 1)
        answer = send(running, "name=b.txt", b"la", other_client(1))
        assert answer.status == 503
        assert answer.headers["retry-after"] == "1"
        assert "one document at a time" in answer.json["error"]
        assert "from your address" in answer.json["error"]
        other = pool.submit(send, running, "name=a.txt", b"mundo", other_client(2))
        until(lambda: running.measured('nmt_documents_total{format="text"}') == 2)
        answer = send(running, "name=b.txt", b"la", other_client(3))
        assert answer.status == 503
        assert answer.json == {"error": "2 documents are translated: try again soon"}
        running.translator.gate.set()
        assert [mine.result().body, other.result().body] == [b"hello", b"world"]
        assert send(running, "name=b.txt", b"la", other_client(3)).body == b"the"


def test_a_client_that_hangs_up_cancels_the_rest() -> None:
    body = "\n\n".join(f"w{n}" for n in range(300)).encode()
    with serving(max_batch=2) as running:
        running.translator.gate.clear()
        client = connect(running, "name=a.txt", body)
        assert running.translator.started.wait(SOON)
        client.close()
        gone = 'nmt_requests_total{path="/documents",status="499"}'
        until(lambda: running.measured(gone) == 1)
        assert running.measured("nmt_queue_work") == 0
        running.translator.gate.set()
        assert running.translate("Hola") == [[{"text": "hello"}]]
        assert send(running, "name=a.txt", b"la casa").body == b"house the"
        texts = [text for batch, _ in running.translator.calls for text in batch]
        assert len(texts) == 2 + 1 + 1


def test_a_stream_that_nobody_reads_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "\n\n".join(f"w{n}" for n in range(300)).encode()
    with serving(max_batch=2) as running:
        running.translator.gate.clear()
        client = socket.create_connection(("127.0.0.1", running.port), SOON)
        head = (
            "POST /documents?name=a.txt HTTP/1.1\r\nHost: here\r\nAccept: text/event-stream\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        client.sendall(head.encode() + body)
        received = b""
        while b"event: progress" not in received:
            received += client.recv(1000)
        assert running.translator.started.wait(SOON)
        client.close()
        until(lambda: running.measured('nmt_requests_total{path="/documents",status="200"}') == 1)
        assert running.measured("nmt_queue_work") == 0
        running.translator.gate.set()
        until(lambda: send(running, "name=a.txt", b"la casa").body == b"house the")
        texts = [text for batch, _ in running.translator.calls for text in batch]
        assert len(texts) == 2 + 1


@pytest.mark.parametrize("headers", [{}, EVENTS], ids=["file", "events"])
def test_a_document_that_takes_too_long(headers: dict[str, str]) -> None:
    late = {"error": "no translation within 1.5 seconds: send a smaller document"}
    with serving(document_timeout_s=1.5) as running:
        running.translator.gate.clear()
        answer = send(running, "name=a.txt", b"slow", headers)
        if headers:
            assert events(answer)[-1] == ("error", late)
        else:
            assert answer.status == 503
            assert answer.json == late
        running.translator.gate.set()
        until(lambda: send(running, "name=a.txt", b"la casa").body == b"house the")


def test_a_sentence_waits_for_a_few_batches_of_a_large_document() -> None:
    document = "".join(f"<p>d{n}</p><p>d{n} <b>e</b> f</p>" for n in range(200)).encode()
    with serving(max_batch=4) as running, ThreadPoolExecutor() as pool:
        running.translator.gate.clear()
        large = pool.submit(send, running, "name=a.html", document)
        assert running.translator.started.wait(SOON)
        waiting = running.measured("nmt_queue_work")
        assert waiting > 0
        for options in ({}, {"quality": True}, {"beam": 1}):
            pool.submit(running.translate, "small", **options)
        until(lambda: running.measured("nmt_queue_work") == waiting + 5 * (4 + 6 + 1))
        running.translator.gate.set()
        assert large.result().status == 200
        found = [
            number for number, (texts, _) in enumerate(running.translator.calls) if "small" in texts
        ]
        assert len(found) == 3
        assert found[-1] <= 4
        assert len(running.translator.calls) >= 100
        assert all(len(texts) <= 4 for texts, _ in running.translator.calls)


def test_a_document_fills_a_small_part_of_the_queue_and_waits_while_it_is_full() -> None:
    document = "\n\n".join(f"d{n:03}" for n in range(100)).encode()
    with serving(max_queue=800, max_work=800, max_batch=2) as running, ThreadPoolExecutor() as pool:
        running.translator.gate.clear()
        busy = pool.submit(running.translate, "busy")
        assert running.translator.started.wait(SOON)
        full = pool.submit(running.translate, ["a" * 10] * 20)
        until(lambda: running.measured("nmt_queue_work") == 800)
        large = pool.submit(send, running, "name=a.txt", document)
        until(lambda: running.measured('nmt_documents_total{format="text"}') == 1)
        assert running.measured("nmt_queue_work") == 800
        running.translator.gate.set()
        assert busy.result()
        assert len(full.result()) == 20
        assert large.result().body == document.upper()
        # 100 of work, an eighth of the queue, are 6 texts of 4 tokens at beam 4.
        running.translator.calls.clear()
        running.translator.started.clear()
        running.translator.gate.clear()
        large = pool.submit(send, running, "name=a.txt", document)
        assert running.translator.started.wait(SOON)
        assert running.measured("nmt_queue_work") == (6 - 2) * 4 * 4
        running.translator.gate.set()
        assert large.result().body == document.upper()


def test_what_is_copied_waits_for_no_room_in_the_queue() -> None:
    with serving(max_queue=8, max_work=8) as running:
        document = b"=" * 1000
        assert send(running, "name=a.txt", document).body == document
        assert running.translate(document.decode()) == [[{"text": document.decode()}]]


def test_a_service_that_stops_ends_its_documents() -> None:
    body = "\n\n".join(f"w{n}" for n in range(300)).encode()
    with serving() as running, ThreadPoolExecutor() as pool:
        running.translator.gate.clear()
        begun = pool.submit(send, running, "name=a.txt", body)
        assert running.translator.started.wait(SOON)
        running.app.state.service.is_stopping = True
        running.translator.gate.set()
        for answer in (begun.result(), send(running, "name=a.txt", b"late")):
            assert answer.status == 503
            assert answer.json == {"error": "the service is stopping"}


def test_reading_a_document_does_not_hold_up_others(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, gate = threading.Event(), threading.Event()

    def wait_and_extract(*arguments: Any) -> Any:
        started.set()
        assert gate.wait(SOON)
        return extract(*arguments)

    monkeypatch.setattr(documents_module, "extract", wait_and_extract)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(send, service, "name=a.txt", b"Hola")
        assert started.wait(SOON)
        assert service.ask("GET", "/healthz").status == 200
        assert service.translate("la casa") == [[{"text": "house the"}]]
        assert not answer.done()
        gate.set()
        assert answer.result().body == b"hello"


# ---- telling ----


def test_info_lists_formats_and_limits(service: Running) -> None:
    info = service.ask("GET", "/info").json
    assert info["formats"]["html"] == [".html", ".htm", ".xhtml"]
    assert info["formats"]["text"] == [".txt"]
    assert info["formats"]["lines"] == []
    assert info["limits"]["max_document"] == 1024 * 1024
    assert info["limits"]["max_documents"] == 2
    assert info["limits"]["document_timeout_s"] == SOON


def test_metrics_count_documents() -> None:
    with serving() as running:
        send(running, "name=a.txt", b"Hola")
        send(running, "name=a.html", b"Hola")
        send(running, "name=a.pdf", b"Hola")
        assert send(running, "name=a.txt&glossary=none", b"Hola").status == 422
        assert running.measured('nmt_documents_total{format="text"}') == 1
        assert running.measured('nmt_documents_total{format="html"}') == 1
        assert running.measured('nmt_requests_total{path="/documents",status="415"}') == 1
