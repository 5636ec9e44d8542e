"""Tables of some dev translations, which a run keeps after every evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from nmt.errors import UserError
from nmt.files import make_folder, write_inside


class Sample(NamedTuple):
    """A dev sentence and its translation; no cell has a TAB or a line break."""

    source: str
    reference: str
    output: str


def write_samples(folder: Path, step: int, samples: Iterable[Sample]) -> None:
    """Write the table of the evaluation after an update, atomically.

    Raises:
        UserError: it cannot be written.
    """
    rows = ("\t".join(row) + "\n" for row in (Sample._fields, *samples))
    write_inside(make_folder(folder), f"step_{step:08d}.tsv", "".join(rows))


def list_sample_files(folder: Path) -> list[Path]:
    """Return the tables in ``samples`` of a run, which may not exist, the oldest first."""
    return sorted(folder.glob("step_*.tsv"))


def read_samples(path: Path) -> list[Sample]:
    """Read a table.

    Raises:
        UserError: it is damaged.
    """
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    rows = [line.split("\t") for line in lines]
    for number, row in enumerate(rows, 1):
        if len(row) != len(Sample._fields):
            raise UserError(f"{path} is damaged: line {number} has {len(row)} columns")
    return [Sample(*row) for row in rows[1:]]  # the first is a header


def read_newest_samples(folder: Path) -> list[Sample]:
    """Read the newest table in ``samples`` of a run; empty without one.

    Raises:
        UserError: it is damaged.
    """
    return [sample for path in list_sample_files(folder)[-1:] for sample in read_samples(path)]
