"""The command: what it refuses, and one real process from its first line to its exit."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from conftest import users_environment

from nmt import Translator, serve
from nmt.documents.formats import DocumentOptions, extract
from nmt.documents.translating import translate_document
from nmt.errors import UserError
from nmt.runs.folder import RunFolder

pytestmark = pytest.mark.xdist_group("tiny run")

SOON = 60  # seconds; the process imports TensorFlow


def refused(*arguments: str | Path) -> str:
    with pytest.raises(UserError) as error:
        serve.run(serve.make_parser().parse_args(list(map(str, arguments))))
    return str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "65536"], "--port must be from 0 to 65535, got 65536"),
        (["--max-batch", "0"], "--max-batch must be at least 1, got 0"),
        (["--max-sentences", "0"], "--max-sentences must be at least 1, got 0"),
        (["--timeout-s", "0"], "--timeout-s must be at least 1, got 0.0"),
        (["--timeout-s", "nan"], "--timeout-s must be at least 1, got nan"),
        (["--document-timeout-s", "inf"], "--document-timeout-s must be at least 1, got inf"),
        (["--max-wait-ms", "inf"], "--max-wait-ms must be at least 0, got inf"),
        (["--max-wait-ms", "-1"], "--max-wait-ms must be at least 0, got -1.0"),
        (["--max-connections", "0"], "--max-connections must be at least 1, got 0"),
        (["--max-document-kb", "0"], "--max-document-kb must be at least 1, got 0"),
        (["--max-documents", "0"], "--max-documents must be at least 1, got 0"),
        (["--document-timeout-s", "0"], "--document-timeout-s must be at least 1, got 0.0"),
        (["--health-s", "0"], "--health-s must be at least 1, got 0.0"),
        (["--queue", "100"], "--queue must be at least --max-work 32768, got 100"),
        (["--run", "nowhere"], "run nowhere does not exist"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], message: str) -> None:
    assert message in refused(*arguments)


def test_a_port_in_use_and_an_unknown_host_are_refused(tiny_run: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        message = refused("--run", tiny_run, "--port", str(port))
    assert message.startswith(f"cannot listen at 127.0.0.1, port {port}: ")
    for host in ("no.such.invalid", "two..points"):
        assert refused("--run", tiny_run, "--host", host).startswith("cannot listen at")


def test_of_two_services_that_start_at_once_one_is_refused() -> None:
    first = serve.bind("127.0.0.1", 0)
    with first, serve.bind("127.0.0.1", first.getsockname()[1]) as second:
        serve.listen(first)
        with pytest.raises(UserError, match=r"^cannot listen at 127\.0\.0\.1, port "):
            serve.listen(second)


@pytest.mark.parametrize("package", serve._PACKAGES)
def test_a_missing_package_names_the_extra(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # importing it fails
    monkeypatch.delitem(sys.modules, "nmt.serving.app", raising=False)
    message = refused("--run", tiny_run, "--port", "0")
    assert message == f"serving needs {package}: pip install 'nmt[serve]'"


def test_scores_of_a_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert serve.read_scores(folder) == {}
    path = tmp_path / "evaluation_test.json"
    score = {"name": "BLEU", "value": 50.0, "signature": "…", "mean": 50.1, "half_width": 2.0}
    path.write_text(json.dumps({"scores": {"BLEU": score}}), encoding="utf-8")
    assert serve.read_scores(folder) == {"BLEU": {"value": 50.0, "half_width": 2.0}}
    for damaged in ("{", "[]", '{"scores": 1}', '{"scores": {"BLEU": 1}}'):
        path.write_text(damaged, encoding="utf-8")
        with pytest.warns(UserWarning, match="has no scores"):
            assert serve.read_scores(folder) == {}


@contextmanager
def started(
    *arguments: str | Path, python: tuple[str, ...] = ()
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the command; yield its process and port when it says that it listens.

    Args:
        arguments: of the command.
        python: options of the interpreter.
    """
    command = [sys.executable, *python, "-m", "nmt.serve", "--port", "0", *map(str, arguments)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=users_environment(),
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        match = re.fullmatch(r"listening at http://127\.0\.0\.1:(\d+)\n", line)
        assert match, line + process.communicate(timeout=SOON)[1]
        yield process, int(match[1])
    finally:
        process.kill()
        process.communicate(timeout=SOON)


def ask(port: int, method: str, path: str, body: Any = None) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=SOON)
    headers = {"Content-Type": "application/json"}
    content = body if body is None or isinstance(body, bytes) else json.dumps(body)
    connection.request(method, path, content, headers)
    response = connection.getresponse()
    answer = response.status, response.read().decode()
    connection.close()
    return answer


@pytest.mark.usefixtures("default_signals")
def test_a_process_serves_and_ends_when_told_with_all_answered(tiny_run: Path) -> None:
    with started("--run", tiny_run) as (process, port), ThreadPoolExecutor() as pool:
        assert ask(port, "GET", "/healthz")[0] == 200
        info = json.loads(ask(port, "GET", "/info")[1])
        assert info["run"] == tiny_run.name
        assert (info["source_language"], info["target_language"]) == ("es", "en")

        request = {"text": ["Hoy hace frío.", ""], "nbest": 2, "scores": True, "attention": True}
        status, body = ask(port, "POST", "/translate", request)
        assert status == 200, body
        (best, second), (empty,) = json.loads(body)["translations"]
        assert best["score"] >= second["score"]
        attention = best["attention"]
        assert len(attention["weights"][0][0]) == len(attention["target"])
        for row in attention["weights"][0][0]:
            assert len(row) == len(attention["source"])
            assert sum(row) == pytest.approx(1, abs=0.01)
        assert (empty["text"], empty["attention"]) == ("", None)

        # The signal most likely finds the request running.
        slow = {"text": [f"Hoy hace frío, {n}." for n in range(60)], "beam": 16}
        running = pool.submit(ask, port, "POST", "/translate", slow)
        before = "nmt_sentences_total 1.0"
        while before in ask(port, "GET", "/metrics")[1]:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        status, body = running.result(SOON)
        assert status == 200, body
        assert len(json.loads(body)["translations"]) == 60
        output, errors = process.communicate(timeout=SOON)
        assert process.returncode == 0, errors
        assert (output, errors) == ("", "")
        with pytest.raises(OSError, match="refused"):
            ask(port, "GET", "/healthz")


PAGE = "<p>Hoy <b>hace</b> frío. <i>Buenos</i> días.</p><p>Hoy hace frío.</p>"


def test_the_page_translations_documents_and_corrections_load_no_tensorflow(
    tiny_run: Path, tmp_path: Path
) -> None:
    document = extract(PAGE.encode(), "html", DocumentOptions("es", "en"))
    translated = translate_document(document, Translator.load(tiny_run))[0].decode()
    table = tmp_path / "corrections.tsv"
    options = ("--run", tiny_run, "--corrections", table)
    with started(*options, python=("-X", "importtime")) as (process, port):
        for path in ("/", "/healthz", "/info", "/metrics", "/openapi.json"):
            assert ask(port, "GET", path)[0] == 200
        assert ask(port, "POST", "/translate", {"text": "Hoy hace frío."})[0] == 200
        assert ask(port, "POST", "/documents?name=a.html", PAGE.encode()) == (200, translated)
        correction = {"source": "Sí.", "translation": "No.", "correction": "Yes."}
        assert ask(port, "POST", "/corrections", correction)[0] == 200
        assert table.read_text(encoding="utf-8").startswith("Sí.\tYes.\tNo.\t20")
        process.send_signal(signal.SIGTERM)
        _, imports = process.communicate(timeout=SOON)
        assert process.returncode == 0
    packages = {line.rpartition("|")[2].strip().partition(".")[0] for line in imports.splitlines()}
    assert "ctranslate2" in packages
    assert not packages & {"keras", "tensorflow", "jax"}
