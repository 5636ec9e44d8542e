"""Use an installed nmt outside a checkout, as its users do; called by scripts/check_wheel.sh.

The environment variable NMT_BIN names the folder of its commands.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

BIN = Path(os.environ["NMT_BIN"])
TRAIN = [
    "model=tiny",
    "data.sources.patterns.pairs=200",
    "data.dev=20",
    "data.test=20",
    "training.max_minutes=null",
    "training.max_steps=2",
    "training.jit_compile=off",
    "training.evaluation_sentences=8",
    "decoding.max_length_margin=4",
]
PATIENCE_S = 60


def call(command: str, *arguments: str) -> str:
    print(f"  {command} {' '.join(arguments)}"[:100], file=sys.stderr)
    done = subprocess.run(
        [BIN / command, *arguments], check=False, capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        sys.exit(f"{command} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def ask(address: str) -> Any:
    """Return the JSON at an address, once it answers."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                found = json.load(answer)
        except OSError:
            found = None
        if found:
            return found
        if time.monotonic() > end:
            sys.exit(f"{address} does not answer")
        time.sleep(0.5)


def check_dashboard() -> None:
    """Ask TensorBoard for the plugin, its runs, and its viewer."""
    command = [str(BIN / "tensorboard"), "--logdir", "runs", "--port", "0", "--load_fast", "false"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            lines = iter(server.stderr.readline, "")
            found = (re.search(r"http://[^ ]+:(\d+)/", line) for line in lines)
            port = next(match[1] for match in found if match)
            base = f"http://localhost:{port}/data"
            listing = ask(f"{base}/plugins_listing")
            assert listing["attention"]["tab_name"] == "Attention", listing
            assert ask(f"{base}/plugin/attention/runs"), "no run is shown"
            with urllib.request.urlopen(f"{base}/plugin/attention/viewer.js") as answer:
                assert b"export function mount" in answer.read()
        finally:
            server.terminate()


def main() -> None:
    import nmt

    package = Path(nmt.__file__).resolve()
    assert BIN.parent.resolve() in package.parents, f"{package} is not the installed package"
    assert (package.parent / "py.typed").is_file()
    call("nmt-train", *TRAIN)
    lines = call("nmt-translate", "Hola.", "Hoy hace frío.").splitlines()
    assert len(lines) == 2, lines
    check_dashboard()


if __name__ == "__main__":
    main()
