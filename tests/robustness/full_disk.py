"""Fill the disk of a run again and again: no valid file is lost, and the run can resume.

    sudo mount -t tmpfs -o size=24m tmpfs /mnt/small
    python tests/robustness/full_disk.py /mnt/small --fills 40

Trains a tiny model twice on the embedded phrasebook: once with enough room, once on the small disk,
where a filler file leaves a random number of bytes before every start. A start that fills the disk
must end with status 2 and one line that names a file and the disk. Then the filler is removed, all
files must be valid, and the run must resume. At the end both runs are compared as in `soak.py`.
Then exports and a translated file meet the full disk, and earlier files must stay. Prints one
table, and exits with 1 if anything was wrong. KERAS_BACKEND selects the backend.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import soak

CHECKPOINT = 1 << 21  # bytes; more than a checkpoint of this run
MESSAGE = re.compile(r"error: (\S+) cannot be written, the disk at (\S+) is full")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("disk", type=Path, help="empty folder on a disk of about 24 MB")
    parser.add_argument("--fills", type=int, default=40, help="(%(default)s)")
    parser.add_argument("--updates", type=int, default=200, help="updates per run (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the free bytes (%(default)s)")
    arguments = parser.parse_args()
    if shutil.disk_usage(arguments.disk).total > 1 << 28:
        sys.exit(f"{arguments.disk} is on a large disk; mount a small one there")
    with tempfile.TemporaryDirectory(prefix="full-disk-") as folder:
        problems = fill_and_train(Path(folder), arguments.disk.resolve(), arguments)
    print("\n".join(["", *problems]) if problems else "\nno valid file is lost, no leftover files")
    sys.exit(1 if problems else 0)


def fill_and_train(folder: Path, disk: Path, arguments: argparse.Namespace) -> list[str]:
    """Train on the disk, then export and translate; return the problems."""
    corpus = soak.write_corpus(folder / "corpus.tsv")
    reference, victim = folder / "whole", disk / "victim"
    soak.wait_for(soak.train(reference, corpus, arguments.updates))
    rng = random.Random(arguments.seed)
    counts: Counter[str] = Counter()
    problems: list[str] = []
    runs = 0
    while counts.total() < arguments.fills:
        runs += 1
        is_complete = False
        while not is_complete and counts.total() < arguments.fills:
            # Any order of magnitude, or room for some checkpoints, so that the run makes progress.
            exponent = rng.uniform(-12, 0) if rng.random() < 0.5 else rng.uniform(-0.5, 2)
            room = int(CHECKPOINT * 2**exponent)
            with filled(disk, room):
                process = soak.train(victim, corpus, arguments.updates)
                output, _ = process.communicate()
            is_complete = process.returncode == 0
            if not is_complete:
                counts[name_file(output, process.returncode, disk, problems)] += 1
            soak.log(f"{counts.total()}: {room:,} bytes left: {output.strip().splitlines()[-1]}")
        soak.wait_for(soak.train(victim, corpus, arguments.updates))
        problems += [f"run {runs}: {what}" for what in soak.compare(reference, victim)]
        if counts.total() < arguments.fills:
            shutil.rmtree(victim)
    run = (victim / "runs" / "latest").resolve()
    commands: dict[str, list[str | Path]] = {
        f"export {name}": ["nmt.export", "--format", name]
        for name in ("keras", "ctranslate2", "tflite", "savedmodel")
    }
    commands["translations"] = ["nmt.translate", "--file", corpus, "--output", disk / "out"]
    export = run / "exports" / "keras"
    run_command([*commands["export keras"], "--run", run])
    before = read(export)
    for what, command in commands.items():
        with filled(disk, 3000):
            status, output = run_command([*command, "--run", run])
        counts[f"{what}: {name_file(output, status, disk, problems)}"] += 1
        soak.log(output.strip().splitlines()[-1])
        if read(export) != before:
            problems.append(f"{export} has changed")
    print("\n| the disk was full at | times |\n|---|---|")
    for kind, count in counts.most_common():
        print(f"| {kind} | {count} |")
    print(f"| total, {runs} runs of {arguments.updates} updates | {counts.total()} |")
    return problems


@contextmanager
def filled(disk: Path, room: int) -> Iterator[None]:
    """Fill a disk up to ``room`` bytes within a `with` block."""
    filler = disk / "filler"
    size = shutil.disk_usage(disk).free - room
    try:
        with filler.open("wb") as file:
            if size > 0:
                os.posix_fallocate(file.fileno(), 0, size)
        yield
    finally:
        filler.unlink()


def name_file(output: str, status: int, disk: Path, problems: list[str]) -> str:
    """Return the kind of file in a command's error line; add a problems line to the problems."""
    match = MESSAGE.search(output)
    if status != 2 or match is None or match[2] != str(disk) or "Traceback" in output:
        problems.append(f"status {status}: {output.strip()[-1500:]}")
    name = Path(match[1]).name if match else "?"
    return re.sub(r"[0-9a-f]{6,}|\d+", "N", name)


def run_command(command: list[str | Path]) -> tuple[int, str]:
    """Run a module; return its exit status and output."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(soak.ROOT)},
    )
    return done.returncode, done.stdout + done.stderr


def read(folder: Path) -> dict[str, bytes]:
    """Return the content of the files of a folder, by path."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


if __name__ == "__main__":
    main()
