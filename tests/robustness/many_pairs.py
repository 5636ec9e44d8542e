"""Pass many pairs from a Python generator: memory is bounded, and batches are those of a file.

    python tests/robustness/many_pairs.py --pairs 1000000

Pairs are two sentences of the embedded phrasebook each, drawn at random. One process writes what a
generator yields to the table that `nmt.fit` would read, another one reads the same pairs from a
file. Both train a tokenizer and plan the batches. Prints a table, and exits with 1 if the batches
differ, or if writing the table took more than 64 MiB. No model is trained.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAX_MEMORY = 64  # MiB, to write the table
BATCHES = 200  # compared, at even intervals of an epoch
SETTINGS = (
    *("data.source_language=es", "data.target_language=en", "data.dev=1000", "data.test=1000"),
    *("tokenizer.vocabulary_size=4000", "training.batch_tokens=4096"),
)


class Measurement(NamedTuple):
    """What one process measured; memory is the growth of its peak since its imports, in MiB."""

    spooling_seconds: float
    spooling_memory: float
    seconds: float
    memory: float
    pairs: int
    digest: str  # of batches


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="(%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="many-pairs-") as name:
        folder = Path(name)
        with (folder / "pairs.tsv").open("w", encoding="utf-8") as file:
            file.writelines(f"{source}\t{target}\n" for source, target in draw(arguments.pairs))
        jobs = [(folder, arguments.pairs, is_iterator) for is_iterator in (True, False)]
        # A process for each, because the peak of its memory never falls.
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            iterator, file_ = pool.starmap(measure, jobs, chunksize=1)
    print(f"\n| {arguments.pairs:,} pairs | generator | file |\n|---|---:|---:|")
    print(f"| table written | {iterator.spooling_seconds:.0f} s | – |")
    print(f"| memory for that | {iterator.spooling_memory:.0f} MiB | – |")
    print(f"| batches planned | {iterator.seconds:.0f} s | {file_.seconds:.0f} s |")
    print(f"| memory in all | {iterator.memory:,.0f} MiB | {file_.memory:,.0f} MiB |")
    print(f"| pairs in the training split | {iterator.pairs:,} | {file_.pairs:,} |")
    print(f"| digest of {BATCHES} batches | {iterator.digest[:12]} | {file_.digest[:12]} |")
    is_same = (iterator.pairs, iterator.digest) == (file_.pairs, file_.digest)
    sys.exit(0 if is_same and iterator.spooling_memory < MAX_MEMORY else 1)


def draw(count: int) -> Iterator[tuple[str, str]]:
    """Yield pairs of two sentences of the phrasebook, always the same ones."""
    from nmt.data.embedded import phrasebook_dir

    sentences = [
        line.split("\t")
        for path in sorted(phrasebook_dir().glob("*.tsv"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    generator = random.Random(1)
    for _ in range(count):
        first, second = generator.choices(sentences, k=2)
        yield f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"


def measure(folder: Path, count: int, is_iterator: bool) -> Measurement:
    """Plan the batches of pairs from a generator or from a file."""
    from rich.console import Console

    from nmt.runs.resuming import compose_config
    from nmt.training.pairs import compose_with_pairs
    from nmt.training.preparation import plan_training, prepare_corpus, prepare_tokenizer

    settings = [*SETTINGS, f"cache_dir={folder / ('iterator' if is_iterator else 'file')}"]
    before, start = read_peak(), time.monotonic()
    if is_iterator:
        config = compose_with_pairs(settings, {"pairs": draw(count)})
    else:
        config = compose_config([*settings, "data=files", f"data.train={folder / 'pairs.tsv'}"])
    spooling_memory, spooling_seconds = read_peak() - before, time.monotonic() - start
    console = Console(stderr=True)
    corpus = prepare_corpus(config, console)
    tokenizer = prepare_tokenizer(config, corpus, console)
    [plan] = plan_training(config, corpus, tokenizer)
    digest = hashlib.sha256()
    for step in range(0, plan.steps_per_epoch, max(1, plan.steps_per_epoch // BATCHES)):
        for name, array in sorted(plan.batch(step).items()):
            digest.update(name.encode() + array.tobytes())
    return Measurement(
        spooling_seconds,
        spooling_memory,
        time.monotonic() - start,
        read_peak() - before,
        plan.pairs,
        digest.hexdigest(),
    )


def read_peak() -> float:
    """Return the most memory that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # in KiB on Linux


if __name__ == "__main__":
    main()
