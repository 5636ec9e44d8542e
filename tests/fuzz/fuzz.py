"""Fuzz the readers of foreign files, requests and command lines, guided by code coverage.

    python tests/fuzz/fuzz.py all --executions 1000000
    python tests/fuzz/fuzz.py config --minutes 5 --corpus fuzzed
    python tests/fuzz/fuzz.py config --input FILE

A reader may reject an input only with a `UserError` of one line. Any other exception and any
violated assertion is a finding. Findings are told apart by the line that raised them, and their
inputs are stored: `--input` runs one again and shows the traceback. Prints one table; the exit
status is 1 if there is a finding.

Needs `atheris`: the dependency group `fuzz`.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import NamedTuple

from fuzz_attention import prepare_dashboard, prepare_events, prepare_records
from fuzz_config import prepare_config, prepare_overrides
from fuzz_data import (
    prepare_archives,
    prepare_cleaning,
    prepare_corpus,
    prepare_reading,
    prepare_tokenizer,
)
from fuzz_documents import prepare_documents
from fuzz_inputs import LONGEST_INPUT, Prepared
from fuzz_runs import prepare_runs, prepare_verifying
from fuzz_serving import prepare_connections, prepare_requests

try:
    import atheris
except ImportError:
    atheris = None

ROOT = Path(__file__).parents[2]
FINDINGS = "findings"  # folder inside the folder of corpora
MEMORY = 3000  # MiB; an execution that needs more is a finding
HANGS = 30  # seconds; an execution that takes longer is a finding


class Target(NamedTuple):
    """A reader to fuzz."""

    prepare: Callable[[Path], Prepared]  # called with an empty folder
    share: int  # weight in the executions of `all`; fast targets get more


class Result(NamedTuple):
    """Outcome of fuzzing a target."""

    executions: int
    per_second: int  # preparation excluded
    edges: int  # of the code that was reached
    findings: list[tuple[Path, str]]  # input and error


TARGETS = {
    "reading": Target(prepare_reading, 240),
    "cleaning": Target(prepare_cleaning, 660),
    "corpus": Target(prepare_corpus, 50),
    "archives": Target(prepare_archives, 80),
    "tokenizer": Target(prepare_tokenizer, 50),
    "documents": Target(prepare_documents, 100),
    "config": Target(prepare_config, 30),
    "overrides": Target(prepare_overrides, 3),
    "runs": Target(prepare_runs, 120),
    "verifying": Target(prepare_verifying, 8),
    "records": Target(prepare_records, 660),
    "events": Target(prepare_events, 20),
    "dashboard": Target(prepare_dashboard, 80),
    "requests": Target(prepare_requests, 100),
    "connections": Target(prepare_connections, 80),
}


# --- One target, in a separate process ------------------------------------------------------


def locate(error: BaseException) -> str:
    """Return the type of an exception and the last line in this repository that it passed."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(ROOT) and ".venv" not in frame.filename
    ]
    last = frames[-1]
    name = Path(last.filename).relative_to(ROOT).as_posix()
    return f"{type(error).__name__} at {name}:{last.lineno}"


def run_again(name: str, path: Path) -> None:
    """Run one input of a target; its exception is not caught."""
    with tempfile.TemporaryDirectory() as work:
        check, _ = TARGETS[name].prepare(Path(work))
        check(atheris.FuzzedDataProvider(path.read_bytes()))


def fuzz_here(name: str, folder: Path, options: list[str]) -> None:
    """Fuzz one target until libFuzzer ends the process.

    Args:
        name: name of the target.
        folder: folder for corpora and findings.
        options: options of libFuzzer.
    """
    warnings.simplefilter("ignore")
    corpus, findings = folder / name, folder / FINDINGS
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    memory = Path("/dev/shm")
    work = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None, prefix="nmt-fuzz-"))
    (folder / f"{name}.work").write_text(str(work))
    with atheris.instrument_imports(include=["nmt"]):
        from nmt.errors import UserError, fail

        check, seeds = TARGETS[name].prepare(work)
    for number, content in enumerate(seeds):
        (corpus / f"seed_{number:02d}").write_bytes(content)
    seen: set[str] = set()

    def execute(content: bytes) -> None:
        try:
            check(atheris.FuzzedDataProvider(content))
        except UserError as error:
            with redirect_stderr(io.StringIO()) as stderr, suppress(SystemExit):
                fail(error)
            if len(stderr.getvalue().splitlines()) == 1:
                return
            finding: Exception = error
        except Exception as error:
            finding = error
        else:
            return
        place = locate(finding)
        if place in seen:
            return
        seen.add(place)
        path = findings / f"{name}_{re.sub(r'[^A-Za-z0-9]+', '_', place)}"
        path.write_bytes(content)
        reason = f"{place}: {finding!r}"
        path.with_suffix(".txt").write_text(reason, errors="backslashreplace")

    atheris.Setup([sys.argv[0], *options], execute)
    atheris.Fuzz()


# --- All targets -----------------------------------------------------------------------------


def list_with_times(folder: Path) -> set[tuple[Path, int]]:
    """Return the files of a folder with their modification times."""
    return {(path, path.stat().st_mtime_ns) for path in folder.iterdir()}


def fuzz_target(name: str, folder: Path, executions: int, seconds: float, seed: int = 0) -> Result:
    """Fuzz a target in a separate process, and read the statistics of libFuzzer.

    Args:
        name: name of the target.
        folder: folder for corpora and findings.
        executions: number of executions; 0: unlimited.
        seconds: time limit; 0: unlimited.
        seed: of the inputs; 0: another one each time.
    """
    (folder / FINDINGS).mkdir(parents=True, exist_ok=True)
    before = list_with_times(folder / FINDINGS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB; that of a child begins here
    options = [
        f"-runs={executions or -1}",
        f"-seed={seed}",
        f"-max_total_time={math.ceil(seconds)}",
        f"-max_len={LONGEST_INPUT}",
        f"-rss_limit_mb={MEMORY + peak // 1024}",
        f"-timeout={HANGS}",
        f"-artifact_prefix={folder / FINDINGS / name}_",
        "-print_final_stats=1",
        str(folder / name),
    ]
    done = subprocess.run(
        [sys.executable, __file__, name, "--corpus", folder, "--inside", *options],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    work = folder / f"{name}.work"
    if work.exists():
        shutil.rmtree(work.read_text(), ignore_errors=True)
        work.unlink()
    new = [path for path, _ in sorted(list_with_times(folder / FINDINGS) - before)]
    findings = [
        (path, path.with_suffix(".txt").read_text() if path.with_suffix(".txt") in new else "")
        for path in new
        if path.suffix != ".txt"
    ]
    if done.returncode:
        log = folder / FINDINGS / f"{name}.log"
        log.write_text(done.stdout)
        findings.append((log, f"the process ended with status {done.returncode}"))

    def last(label: str) -> int:
        values = re.findall(rf"{label}: *(\d+)", done.stdout)
        return int(values[-1]) if values else 0

    executions, rate = last("stat::number_of_executed_units"), last("stat::average_exec_per_sec")
    return Result(executions, rate or executions, last(" cov"), findings)


def print_table(results: dict[str, Result]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("target", "executions", "per second", "edges", "findings")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, result in results.items():
        numbers = (result.executions, result.per_second, result.edges, len(result.findings))
        table.add_row(name, *(f"{number:,}" for number in numbers))
    total = sum(result.executions for result in results.values())
    findings = sum(len(result.findings) for result in results.values())
    table.add_section()
    table.add_row("all", f"{total:,}", "", "", f"{findings:,}")
    Console().print(table)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", choices=["all", *TARGETS])
    until = parser.add_mutually_exclusive_group(required=True)
    until.add_argument("--executions", type=int, help="executions of all targets together")
    until.add_argument("--minutes", type=float, help="time for all targets together")
    until.add_argument("--input", type=Path, help="run this input again")
    until.add_argument("--inside", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument(
        "--corpus", type=Path, help="folder for findings and for inputs that reach new code"
    )
    return parser.parse_args(arguments)


def main() -> int:
    """Run the command line; return the exit status."""
    arguments = parse(sys.argv[1:])
    if atheris is None:
        print("error: atheris is missing: python -m pip install 'atheris>=3,<4'", file=sys.stderr)
        return 2
    os.environ["KERAS_BACKEND"] = "numpy"  # it imports fastest; no model is run
    if arguments.input:
        run_again(arguments.target, arguments.input)
        return 0
    folder = arguments.corpus or Path(tempfile.mkdtemp(prefix="nmt-fuzz-"))
    if arguments.inside:
        fuzz_here(arguments.target, folder, arguments.inside)
    names = list(TARGETS) if arguments.target == "all" else [arguments.target]
    shares = sum(TARGETS[name].share for name in names)
    results = {}
    for name in names:
        executions = -(-(arguments.executions or 0) * TARGETS[name].share // shares)
        seconds = 60 * (arguments.minutes or 0) / len(names)
        results[name] = fuzz_target(name, folder, executions, seconds)
    print_table(results)
    findings = [finding for result in results.values() for finding in result.findings]
    for path, reason in findings:
        print(f"{path}: {reason}")
    if not findings and arguments.corpus is None:
        shutil.rmtree(folder)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
