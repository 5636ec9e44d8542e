"""Measure the service under load, with and without dynamic batching. One JSON line per row.

    python scripts/bench/bench_serve.py --run runs/latest --clients 64 --seconds 60

Each client on this machine sends one sentence of the run's test split, waits for the answer, and
sends the next. The two services run one after the other.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

WITHOUT = ["--max-batch", "1", "--max-wait-ms", "0"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the service under load.")
    parser.add_argument("--run", type=Path, default=Path("runs/latest"))
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    arguments = parser.parse_args()
    sentences = [
        output["source"]
        for output in json.loads((arguments.run / "evaluation_test.json").read_text("utf-8"))[
            "outputs"
        ]
    ]
    for name, options in (("dynamic batching", []), ("one sentence at a time", WITHOUT)):
        command = [sys.executable, "-m", "nmt.serve", "--run", str(arguments.run), "--port", "0"]
        service = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        assert service.stdout is not None
        line = service.stdout.readline()
        if not line:
            sys.exit(service.wait() or 1)  # it has printed the reason
        port = int(line.rsplit(":", 1)[1])
        row = load(port, sentences, arguments.clients, arguments.seconds)
        service.send_signal(signal.SIGTERM)
        print(json.dumps({"row": name, **row, "exit_status": service.wait()}), flush=True)


def load(port: int, sentences: list[str], clients: int, seconds: float) -> dict[str, object]:
    """Send requests for ``seconds``; return counts by status, latencies and rate."""
    statuses: Counter[str] = Counter()
    latencies: list[float] = []
    lock = threading.Lock()
    begin = time.monotonic()

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        index = number
        while time.monotonic() - begin < seconds:
            body = json.dumps({"text": sentences[index % len(sentences)]})
            index += clients
            start = time.monotonic()
            try:
                headers = {"Content-Type": "application/json"}
                connection.request("POST", "/translate", body, headers)
                answer = connection.getresponse()
                answer.read()
                status = str(answer.status)
            except (OSError, http.client.HTTPException) as error:
                status = type(error).__name__
                connection.close()
            with lock:
                statuses[status] += 1
                latencies.append(1e3 * (time.monotonic() - start))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ordered = sorted(latencies)
    return {
        "clients": clients,
        "statuses": dict(statuses),
        "sentences_per_second": round(statuses["200"] / (time.monotonic() - begin), 1),
        "p50_ms": round(statistics.median(ordered), 1),
        "p99_ms": round(ordered[int(0.99 * len(ordered))], 1),
    }


if __name__ == "__main__":
    main()
