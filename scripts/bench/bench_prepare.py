"""Measure nmt.prepare: speed, memory, what it rejects, and resuming after kills.

    python scripts/bench/bench_prepare.py --pairs 1000000
    python scripts/bench/bench_prepare.py --pairs 2000000 --kills 3 --near 0.8
    python scripts/bench/bench_prepare.py --pairs 100000000 --kills 3 --once 2400 --near 0.8

It generates a corpus of short pairs (Zipf-distributed words, translated word by word) with planted
duplicates, near duplicates and sentences of a test file, prepares it in a separate process, and
compares the rejected lines with the planted ones. Memory is the total of all its processes in each
stage, with shared memory counted once (Pss of /proc/PID/smaps_rollup), sampled four times a second.
Mapped files, which the system can drop, are also reported separately.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from planted_corpus import Planted, make_corpus

SCORED = ("dev", "test")
SAMPLED = 20  # shards whose pairs are compared with dev and test
Peaks = dict[str, tuple[int, int]]  # stage -> result of `measure_memory`


def measure_memory(process: int) -> tuple[int, int]:
    """Return the bytes of a process and its descendants, shared memory counted once.

    Returns:
        Total, and total without mapped files.
    """
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    sizes, waiting = Counter[str](), [process]
    while waiting:
        current = waiting.pop()
        waiting += children.get(current, [])
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{current}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss"):
                    name, size = line.split()[:2]
                    sizes[name] += 1024 * int(size)
    return sizes["Pss:"], sizes["Pss:"] - sizes["Pss_File:"]


def find_stage(folder: Path) -> str:
    """Return the current stage: the folder that was written to last."""
    changed = {}
    for path in (folder, *folder.glob("work/*/"), *folder.glob("shards/")):
        with contextlib.suppress(OSError):
            changed[path.stat().st_mtime] = path.name
    return changed[max(changed)] if changed else folder.name


def run_command(
    folder: Path, overrides: list[str], peaks: Peaks, kill_after: float | None = None
) -> tuple[float, bool]:
    """Run nmt.prepare; return its seconds, and whether it was killed.

    Args:
        folder: output folder.
        overrides: overrides of the command.
        peaks: peak memory of each stage; updated.
        kill_after: seconds; None: not killed.
    """
    start = time.monotonic()
    command = [sys.executable, "-m", "nmt.prepare", f"output={folder}", *overrides]
    process = subprocess.Popen(command)
    while process.poll() is None:
        now, stage = measure_memory(process.pid), find_stage(folder)
        before = peaks.get(stage, (0, 0))
        peaks[stage] = max(before[0], now[0]), max(before[1], now[1])
        if kill_after is not None and time.monotonic() - start > kill_after:
            process.send_signal(signal.SIGKILL)
            process.wait()
            time.sleep(1)  # its child processes end with it
            return time.monotonic() - start, True
        time.sleep(0.25)
    if process.returncode:
        sys.exit(process.returncode)
    return time.monotonic() - start, False


def read_journal(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


def compute_digest(folder: Path) -> str:
    """Return a digest of all files except those that hold times."""
    state = sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in ("journal.jsonl", "begun.json"):
            state.update(str(path.relative_to(folder)).encode())
            state.update(path.read_bytes())
    return state.hexdigest()[:16]


def print_rejected(folder: Path, planted: Planted, per_file: int, threshold: float | None) -> None:
    """Compare the rejected lines with the planted ones."""
    rejected: dict[str, set[int]] = {}
    counts: Counter[str] = Counter()
    for path in sorted(folder.glob("shards/*/rejected.tsv.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for cells in (line.split("\t") for line in file):
                name, _, number = cells[1].rpartition(":")
                file_number = int(Path(name).name.removeprefix("corpus-").partition(".")[0])
                rejected.setdefault(cells[0], set()).add(file_number * per_file + int(number) - 1)
                counts[cells[0]] += 1
    print(f"rejected: {dict(counts)}; planted duplicates: {planted.duplicates:,}")
    missing = planted.tested.keys() - set().union(*rejected.values())
    scored = "".join((folder / f"{name}.tsv").read_text(encoding="utf-8") for name in SCORED)
    trained = [line for line in missing if planted.tested[line] not in scored]
    print(f"planted leaks: {len(planted.tested):,}, trained on: {len(trained)}")
    if threshold is None:
        return
    near_rejected = rejected.get("near duplicate", set())
    otherwise_rejected = set().union(
        *(lines for reason, lines in rejected.items() if reason != "near duplicate")
    )
    for least in (threshold, threshold + 0.05, threshold + 0.1):
        similar = {
            line for line, similarity in planted.near.items() if similarity >= least
        } - otherwise_rejected
        found = len(similar & near_rejected)
        recall = found / max(1, len(similar))
        print(
            f"near duplicates of {least:.2f} and more: {found:,} of {len(similar):,}, {recall:.3f}"
        )
    for least in (threshold, threshold - 0.1):
        true = sum(planted.near.get(line, 0) >= least for line in near_rejected)
        precision = true / max(1, len(near_rejected))
        print(
            f"rejected as near, of {least:.2f} and more: {true:,} of {len(near_rejected):,}, "
            f"{precision:.3f}"
        )


def print_leaks(folder: Path) -> None:
    """Decode training pairs, and count those whose sides are in dev or test."""
    from nmt.data.prepared import load_prepared
    from nmt.data.records import map_records, read_records, type_of_ids
    from nmt.data.splitting import normalized

    corpus = load_prepared(compose_training(folder).data)
    held_out = [
        *corpus.dev,
        *corpus.test,
        *(pair for pairs in corpus.tests.values() for pair in pairs),
    ]
    sides = [{normalized(pair[i]) for pair in held_out} for i in (0, 1)]
    tokenizer, dtype = corpus.load_tokenizer(), type_of_ids(corpus.manifest["vocabulary_size"])
    shards = corpus.manifest["shards"]
    compared = leaks = 0
    for shard in shards[:: max(1, len(shards) // SAMPLED)][:SAMPLED]:
        path = folder / "shards" / shard["name"] / "rows.bin"
        begins, records = map_records(path, sum(shard["rows"]), dtype)
        _, *both, _ = read_records(records, np.asarray(begins[:-1]), has_weights=False)
        for side, forbidden in zip(both, sides, strict=True):
            texts = tokenizer.decode(np.split(side.ids, np.cumsum(side.lengths)[:-1]))
            compared += len(texts)
            leaks += sum(normalized(text) in forbidden for text in texts)
    print(f"sides trained on that were compared with dev and test: {compared:,}, leaks: {leaks}")


def compose_training(folder: Path) -> Any:
    from nmt.runs.resuming import compose_config

    return compose_config(
        ["data=prepared", f"data.prepared={folder}", "model=compact", "training.max_steps=1"]
    )


def print_batches(folder: Path) -> None:
    """Time the first batch, later ones, and an update."""
    from nmt.data.prepared import PreparedBatches, load_prepared

    config = compose_training(folder)
    start = time.perf_counter()
    corpus = load_prepared(config.data)
    tokens = config.training.batch_tokens
    batches = PreparedBatches(corpus, corpus.repeats, positions=tokens, seed=1)
    batches.batch(0)
    print(f"first batch after {time.perf_counter() - start:.2f} s")
    for size in (tokens, 4096, 25_000):
        batches = PreparedBatches(corpus, corpus.repeats, positions=size, seed=1)
        times = []
        for step in range(min(200, batches.steps_per_epoch)):
            start = time.perf_counter()
            batches.batch(step * 7919)
            times.append(1000 * (time.perf_counter() - start))
        print(f"a batch of {size:,} tokens a side: {statistics.median(times):.2f} ms")
    batches = PreparedBatches(corpus, corpus.repeats, positions=tokens, seed=1)
    milliseconds = time_step(config, batches)
    print(f"an update of model=compact on {tokens:,}: {milliseconds:.0f} ms")


def time_step(config: Any, batches: Any) -> float:
    """Return the milliseconds per update."""
    from nmt.runs.building import build_model
    from nmt.training.backend import make_step
    from nmt.training.defaults import resolve_config

    finished = resolve_config(config, batches.pairs)
    size = config.tokenizer.vocabulary_size
    model = build_model(finished, size, precision=finished.training.precision)
    step = make_step(model, finished.training, seed=1)
    times = []
    for number in range(12):
        batch = batches.batch(number)
        start = time.perf_counter()
        float(step.update(batch, 1e-4, number + 1).nll)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times[3:])


def kill_and_resume(
    folder: Path, overrides: list[str], peaks: Peaks, most: int, seconds: float
) -> float:
    """Prepare the corpus with ``most`` kills spread over ``seconds``; return its duration."""
    rng = random.Random(2)
    kills, total = 0, 0.0
    while True:
        pause = rng.uniform(0.15, 0.9) * seconds / (most + 1) + 2
        run_seconds, killed = run_command(folder, overrides, peaks, pause if kills < most else None)
        total += run_seconds
        if not killed:
            break
        kills += 1
        done = len(read_journal(folder)) if (folder / "journal.jsonl").exists() else 0
        print(f"killed after {pause:.1f} s, {done} shards of all stages finished", flush=True)
    counts = Counter((entry["stage"], entry["shard"]) for entry in read_journal(folder))
    print(f"{kills} kills; shards written more than once: {sum(n > 1 for n in counts.values())}")
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--files", type=int, default=4, help="number of corpus files")
    parser.add_argument("--near", type=float, help="prepare.near_duplicates")
    parser.add_argument("--kills", type=int, default=0, help="kills of a second preparation")
    parser.add_argument(
        "--once",
        type=float,
        metavar="SECONDS",
        help="approximate duration: kill the only preparation instead of a second one",
    )
    parser.add_argument(
        "--folder", type=Path, help="folder for everything (default: a temporary one)"
    )
    parser.add_argument("overrides", nargs="*", help="as for nmt.prepare")
    arguments = parser.parse_args()
    temporary = arguments.folder is None
    arguments.folder = arguments.folder or Path(tempfile.mkdtemp(prefix="bench_prepare_"))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    try:
        measure(arguments)
    finally:
        if temporary:
            shutil.rmtree(arguments.folder)


def measure(arguments: argparse.Namespace) -> None:
    folder: Path = arguments.folder
    output = folder / "prepared"
    if output.exists():
        raise SystemExit(f"{output} is prepared already: remove it, or choose another --folder")
    start = time.monotonic()
    planted = make_corpus(folder, arguments.pairs, arguments.files)
    size = sum(path.stat().st_size for path in folder.glob("*.gz"))
    print(
        f"generated {arguments.pairs:,} pairs, {size / 1e6:,.0f} MB packed, "
        f"in {time.monotonic() - start:.0f} s",
        flush=True,
    )
    overrides = [
        f"data.train={folder}/corpus-*.tsv.gz",
        "data.source_language=es",
        "data.target_language=en",
        f"+data.tests.tested={folder}/tested.tsv",
        "data.dev=1000",
        "data.test=1000",
        "tokenizer.vocabulary_size=16000",
        f"prepare.near_duplicates={arguments.near or 'null'}",
        *arguments.overrides,
    ]
    kills, once, peaks = arguments.kills, arguments.once, Peaks()
    if once:
        seconds = kill_and_resume(output, overrides, peaks, kills, once)
    else:
        seconds, _ = run_command(output, overrides, peaks)
    print(f"prepared in {seconds:.0f} s: {arguments.pairs / seconds:,.0f} pairs/s")
    if not once:  # the time of killed processes is not counted
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cores = used.ru_utime + used.ru_stime
        print(f"{cores:.0f} s of a core, {arguments.pairs / cores:,.0f} pairs/s of each")
    for stage, (total, unmapped) in peaks.items():
        print(
            f"peak memory, {stage}: {total / 1e9:.2f} GB, {unmapped / 1e9:.2f} without mapped files"
        )
    highest = [max(column) / 1e9 for column in zip(*peaks.values(), strict=True)]
    print(
        f"peak memory of all processes {highest[0]:.2f} GB, {highest[1]:.2f} GB without mapped "
        "files",
        flush=True,
    )
    print_rejected(output, planted, -(-arguments.pairs // arguments.files), arguments.near)
    print_leaks(output)
    if kills and not once:
        kill_and_resume(killed := folder / "killed", overrides, Peaks(), kills, seconds)
        print(
            f"digests: {compute_digest(output)} uninterrupted, {compute_digest(killed)} killed and "
            "resumed"
        )
    print_batches(output)


if __name__ == "__main__":
    main()
