"""Fill the disk that a run is on, again and again: nothing sound is lost, and the run goes on.

    sudo mount -t tmpfs -o size=24m tmpfs /mnt/small
    python tests/robustness/full_disk.py /mnt/small --fills 40

Trains a tiny model twice on the embedded phrasebook: once where there is room, once on the small
disk, of which a file takes all but a random rest before every start. A start that meets the full
disk must end with status 2 and one line that names a file and the disk; then the file is removed,
what is there must be sound, and the run goes on. At the end the two runs are compared as `soak.py`
does. Then exports and a translated file meet the full disk: what was there before must stay.
Prints one table, and exits with 1 if anything was wrong. KERAS_BACKEND chooses the backend.
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

CHECKPOINT = 1 << 21  # bytes; more than one of this run takes
SAID = re.compile(r"error: (\S+) cannot be written, the disk at (\S+) is full")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("disk", type=Path, help="an empty folder on a disk of some 24 MB")
    parser.add_argument("--fills", type=int, default=40, help="(%(default)s)")
    parser.add_argument("--updates", type=int, default=200, help="of the run (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the room left (%(default)s)")
    arguments = parser.parse_args()
    if shutil.disk_usage(arguments.disk).total > 1 << 28:
        sys.exit(f"{arguments.disk} is on a large disk: mount a small one there")
    with tempfile.TemporaryDirectory(prefix="full-disk-") as folder:
        wrong = fill_and_train(Path(folder), arguments.disk.resolve(), arguments)
    print("\n".join(["", *wrong]) if wrong else "\nnothing is lost, nothing is left over")
    sys.exit(1 if wrong else 0)


def fill_and_train(folder: Path, disk: Path, arguments: argparse.Namespace) -> list[str]:
    """Train on the disk, then export and translate; return what was wrong."""
    corpus = soak.write_corpus(folder / "corpus.tsv")
    whole, victim = folder / "whole", disk / "victim"
    soak.run_to_the_end(soak.train(whole, corpus, arguments.updates))
    rooms = random.Random(arguments.seed)
    met: Counter[str] = Counter()
    wrong: list[str] = []
    runs = 0
    while met.total() < arguments.fills:
        runs += 1
        ended = False
        while not ended and met.total() < arguments.fills:
            # Of every order of magnitude; or for some checkpoints, so that a run gets on.
            exponent = rooms.uniform(-12, 0) if rooms.random() < 0.5 else rooms.uniform(-0.5, 2)
            room = int(CHECKPOINT * 2**exponent)
            with filled(disk, room):
                process = soak.train(victim, corpus, arguments.updates)
                output, _ = process.communicate()
            ended = process.returncode == 0
            if not ended:
                met[name_file(output, process.returncode, disk, wrong)] += 1
            soak.say(f"{met.total()}: {room:,} bytes left: {output.strip().splitlines()[-1]}")
        soak.run_to_the_end(soak.train(victim, corpus, arguments.updates))
        wrong += [f"run {runs}: {what}" for what in soak.compare(whole, victim)]
        if met.total() < arguments.fills:
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
        met[f"{what}: {name_file(output, status, disk, wrong)}"] += 1
        soak.say(output.strip().splitlines()[-1])
        if read(export) != before:
            wrong.append(f"{export} has changed")
    print("\n| the disk was full at | times |\n|---|---|")
    for kind, count in met.most_common():
        print(f"| {kind} | {count} |")
    print(f"| in all, {runs} runs of {arguments.updates} updates | {met.total()} |")
    return wrong


@contextmanager
def filled(disk: Path, room: int) -> Iterator[None]:
    """Leave so many bytes on a disk, for a while."""
    filler = disk / "filler"
    size = shutil.disk_usage(disk).free - room
    try:
        with filler.open("wb") as file:
            if size > 0:
                os.posix_fallocate(file.fileno(), 0, size)
        yield
    finally:
        filler.unlink()


def name_file(output: str, status: int, disk: Path, wrong: list[str]) -> str:
    """Return the kind of file that a command named; note what it did not say as it should."""
    said = SAID.search(output)
    if status != 2 or said is None or said[2] != str(disk) or "Traceback" in output:
        wrong.append(f"status {status}: {output.strip()[-1500:]}")
    name = Path(said[1]).name if said else "?"
    return re.sub(r"[0-9a-f]{6,}|\d+", "N", name)


def run_command(command: list[str | Path]) -> tuple[int, str]:
    """Return status and output of a module of the package."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(soak.ROOT)},
    )
    return done.returncode, done.stdout + done.stderr


def read(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


if __name__ == "__main__":
    main()
