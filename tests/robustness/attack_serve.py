"""Attack the service while well-behaved clients saturate it. Prints one table.

    python tests/robustness/attack_serve.py --run runs/latest --minutes 10

Good clients send one sentence of the run's test split at a time, and compare the answer with the
library's translation. In the first phase they are alone. In the second, a quarter of the clients
attacks: 5% of all send malformed requests, 5% send huge ones, 5% open connections and hang, 5%
request as much attention as allowed, and 5% send documents, large and damaged ones.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

HEAD = b"POST /translate HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
MALFORMED = (
    b"\x00\xff\r\n\r\n",
    HEAD + b"Content-Length: -1\r\n\r\n",
    HEAD + b"Content-Length: 1\r\n\r\n{",
    HEAD + b'Content-Length: 18\r\n\r\n{"text": "\\ud800" }',
    HEAD + b'Content-Length: 25\r\n\r\n{"text": "a", "beam": 999}',
    HEAD + b"Content-Length: 100000000\r\n\r\n",
    HEAD + b"X: " + b"x" * 100_000,
)
HUNG = (b"", HEAD, HEAD + b"Content-Length: 100\r\n\r\n{")
GONE_S = 2.0  # seconds after which half of the huge clients leave
HUNG_S = 10.0  # seconds for which a hung client holds its connection
ATTENDED = 4  # texts per request for attention, the largest accepted number
PAUSE_S = 0.5  # seconds between the requests of an attacker


@dataclass
class Phase:
    """Observations of all clients in one phase."""

    end: float  # seconds of the monotonic clock
    seconds: list[float] = field(default_factory=list)  # latencies of answered good requests
    wrong: int = 0
    statuses: dict[str, Counter[str]] = field(default_factory=dict)  # counts by kind of client
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_running(self) -> bool:
        return time.monotonic() < self.end

    def count(self, kind: str, status: int | str) -> None:
        with self.lock:
            self.statuses.setdefault(kind, Counter())[str(status)] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description="Attack the service.")
    parser.add_argument("--run", type=Path, default=Path("runs/latest"))
    parser.add_argument(
        "--alone", type=float, default=1, help="minutes of the phase without attacks"
    )
    parser.add_argument(
        "--minutes", type=float, default=2, help="minutes of the phase with attacks"
    )
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("options", nargs="*", help="options of the service, after --")
    arguments = parser.parse_args()
    outputs = json.loads((arguments.run / "evaluation_test.json").read_text("utf-8"))["outputs"]
    sources = [output["source"] for output in outputs]
    expected = library_answers(arguments.run, sources)
    with tempfile.TemporaryFile("w+") as errors:
        process, port = start(arguments.run, arguments.options, errors)
        try:
            rows = measure(process.pid, port, sources, expected, arguments)
            process.send_signal(signal.SIGTERM)
            rows["exit status"] = [process.wait(60)]
        finally:
            process.kill()
        errors.seek(0)
        rows["lines of errors, distinct"] = [len(set(errors))]
    print(f"| {'':32} | {'good alone':>12} | {'attacked':>12} |\n|---|---:|---:|")
    for name, values in rows.items():
        alone, attacked = ["", *values][-2:]
        print(f"| {name:32} | {alone!s:>12} | {attacked!s:>12} |")


def library_answers(run: Path, sources: list[str]) -> list[str]:
    """Translate in a separate process, which ends before the measurement."""
    code = (
        "import json, sys; from nmt import Translator; "
        "print(json.dumps(Translator.load(sys.argv[1]).translate(json.load(sys.stdin))))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(run)]
    done = subprocess.run(
        command, input=json.dumps(sources), stdout=subprocess.PIPE, text=True, check=True
    )
    answers: list[str] = json.loads(done.stdout)
    return answers


def start(run: Path, options: list[str], errors: Any) -> tuple[subprocess.Popen[str], int]:
    """Start the service; return it and its port."""
    command = [sys.executable, "-m", "nmt.serve", "--run", str(run), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        errors.seek(0)
        sys.exit(errors.read() or "the service did not start")
    return process, int(line.rsplit(":", 1)[1])


def measure(
    pid: int, port: int, sources: list[str], expected: list[str], arguments: argparse.Namespace
) -> dict[str, list[Any]]:
    """Run both phases; return the rows of the table."""
    # Warm-up: the first beam search compiles, and the first attention loads the Keras model.
    for options in ({}, {"beam": 16}, {"attention": True}):
        post(port, json.dumps({"text": sources[0], **options}).encode())
    phases: list[Phase] = []
    after_a_minute: list[float] = []
    resident: list[float] = []
    for attacked, minutes in ((False, arguments.alone), (True, arguments.minutes)):
        timer = threading.Timer(60, lambda: after_a_minute.append(resident_mb(pid)))
        timer.start()
        phases.append(run_phase(port, sources, expected, arguments.clients, 60 * minutes, attacked))
        timer.join()
        resident.append(resident_mb(pid))
    rows: dict[str, list[Any]] = {
        "small good requests": [sum(p.statuses["good"].values()) for p in phases],
        "of them answered (200)": [p.statuses["good"]["200"] for p in phases],
        "wrong answers": [p.wrong for p in phases],
        "p50, ms": [milliseconds(p.seconds, 50) for p in phases],
        "p99, ms": [milliseconds(p.seconds, 99) for p in phases],
    }
    for kind in ("good", "malformed", "huge", "hung", "attention", "documents"):
        for status in sorted(
            {s for p in phases for s in p.statuses.get(kind, Counter())} - {"200"}
        ):
            rows[f"{kind}: {status}"] = [p.statuses.get(kind, Counter())[status] for p in phases]
    for kind in ("huge", "attention", "documents"):
        rows[f"{kind}: 200"] = [p.statuses.get(kind, Counter())["200"] for p in phases]
    rows["health at the end"] = [request(port, "GET", "/healthz")[0]]
    rows["RSS after 1 minute, MB"] = after_a_minute
    rows["RSS at the end, MB"] = resident
    rows["minutes"] = [arguments.alone, arguments.minutes]
    return rows


def run_phase(
    port: int, sources: list[str], expected: list[str], count: int, seconds: float, attacked: bool
) -> Phase:
    """Run the good clients, always the same number, and optionally the attackers."""
    phase = Phase(time.monotonic() + seconds)
    share = max(1, round(0.05 * count))
    good = (port, phase, sources, expected)
    threads = [
        threading.Thread(target=good_client, args=(*good, number))
        for number in range(count - 5 * share)
    ]
    if attacked:
        attacks = [
            partial(attack, port, phase) for attack in (malformed_client, huge_client, hung_client)
        ]
        attacks += [
            partial(attack, port, phase, sources) for attack in (attention_client, document_client)
        ]
        threads += [
            threading.Thread(target=attack, args=(number,))
            for attack in attacks
            for number in range(share)
        ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return phase


def request(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def post(port: int, body: bytes) -> tuple[int, bytes]:
    return request(port, "POST", "/translate", body)


def good_client(
    port: int, phase: Phase, sources: list[str], expected: list[str], number: int
) -> None:
    """Request one translation after the other; compare each answer."""
    chance = random.Random(number)
    while phase.is_running:
        index = chance.randrange(len(sources))
        start = time.monotonic()
        try:
            status, answer = post(port, json.dumps({"text": sources[index]}).encode())
        except (OSError, http.client.HTTPException) as error:
            phase.count("good", type(error).__name__)
            continue
        phase.count("good", status)
        if status == 200:
            is_correct = json.loads(answer)["translations"][0][0]["text"] == expected[index]
            with phase.lock:
                phase.seconds.append(time.monotonic() - start)
                phase.wrong += not is_correct
        else:
            time.sleep(0.1)


def malformed_client(port: int, phase: Phase, number: int) -> None:
    """Send malformed requests."""
    chance = random.Random(number)
    while phase.is_running:
        try:
            with socket.create_connection(("127.0.0.1", port), 60) as client:
                client.sendall(chance.choice(MALFORMED))
                client.shutdown(socket.SHUT_WR)
                phase.count("malformed", client.recv(1000)[9:12].decode() or "dropped")
        except OSError as error:
            phase.count("malformed", type(error).__name__)
        time.sleep(PAUSE_S)


def huge_client(port: int, phase: Phase, number: int) -> None:
    """Request as much as allowed, and more; sometimes leave before the answer."""
    chance = random.Random(number)
    while phase.is_running:
        words = chance.choices(["hola,", "mundo.", "la", "casa", "frío", "hoy"], k=800)
        count = chance.choice((1, 2, 5, 50))  # of about 4,000 characters each
        body = {"text": [" ".join(words)] * count, "beam": chance.choice((None, 16))}
        content = json.dumps(body, ensure_ascii=False).encode()
        length = f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode()
        stays = chance.random() < 0.5
        try:
            with socket.create_connection(("127.0.0.1", port), 60 if stays else GONE_S) as client:
                client.sendall(HEAD + length + content)
                phase.count("huge", client.recv(1000)[9:12].decode() or "dropped")
        except TimeoutError:
            phase.count("huge", "left")
        except OSError as error:
            phase.count("huge", type(error).__name__)
        time.sleep(PAUSE_S)


def attention_client(port: int, phase: Phase, sources: list[str], number: int) -> None:
    """Request attention for the longest sentences, one request after the other."""
    chance = random.Random(number)
    longest = sorted(sources, key=len)[-4 * ATTENDED :]
    while phase.is_running:
        body = {"text": chance.sample(longest, min(ATTENDED, len(longest))), "attention": True}
        try:
            phase.count("attention", post(port, json.dumps(body).encode())[0])
        except (OSError, http.client.HTTPException) as error:
            phase.count("attention", type(error).__name__)


def document_client(port: int, phase: Phase, sources: list[str], number: int) -> None:
    """Send documents, one after the other: large pages, and damaged files."""
    chance = random.Random(number)
    while phase.is_running:
        texts = chance.choices(sources, k=chance.choice((10, 1000, 20_000)))
        path, body = chance.choice(
            (
                ("name=a.html", "".join(f"<p>{text}</p>" for text in texts).encode()),
                ("name=a.txt", " ".join(texts).encode()),
                ("name=a.docx", chance.randbytes(100_000)),
                ("name=a.xlf", b"<!DOCTYPE x [<!ENTITY a 'b'>]><xliff/>"),
                ("name=a.json", b"[" * 1_000_000),
            )
        )
        try:
            phase.count("documents", request(port, "POST", f"/documents?{path}", body)[0])
        except (OSError, http.client.HTTPException) as error:
            phase.count("documents", type(error).__name__)
        time.sleep(PAUSE_S)


def hung_client(port: int, phase: Phase, number: int) -> None:
    """Open connections, send nothing or half of a request, and wait."""
    chance = random.Random(number)
    connections: list[tuple[float, socket.socket]] = []
    while phase.is_running:
        try:
            client = socket.create_connection(("127.0.0.1", port), 60)
            client.sendall(chance.choice(HUNG))
            connections.append((time.monotonic(), client))
            phase.count("hung", "opened")
        except OSError as error:
            phase.count("hung", type(error).__name__)
        while connections and time.monotonic() - connections[0][0] > HUNG_S:
            connections.pop(0)[1].close()
        time.sleep(PAUSE_S)
    for _, client in connections:
        client.close()


def milliseconds(seconds: list[float], percentile: int) -> float:
    if len(seconds) < 2:
        return float("nan")
    return round(1e3 * statistics.quantiles(seconds, n=100)[percentile - 1], 1)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process; Linux only."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


if __name__ == "__main__":
    main()
