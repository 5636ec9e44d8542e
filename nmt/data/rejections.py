"""Reports of rejected lines: the file of all of them, a table of reasons, and a warning."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.table import Table

from nmt.config.sources import FILES, TRANSLATIONS, list_paths, source_key
from nmt.data.filtering import DUPLICATE
from nmt.data.opening import matching_files
from nmt.data.reading import Line
from nmt.errors import UserError, attach_filename

if TYPE_CHECKING:
    from nmt.config import DataConfig
    from nmt.data.corpus import Corpus

# A source of at least this many lines is warned about if fewer than this share are accepted.
MIN_LINES, MIN_ACCEPTED = 100, 0.2


def rejection_table(corpus: Corpus) -> Table:
    """Return a table of all lines: rejected by reason, accepted by split."""
    table = Table("lines", "count", "share", title=f"Corpus: {corpus.lines:,} lines")
    table.columns[1].justify = table.columns[2].justify = "right"

    def row(label: str, count: int) -> None:
        table.add_row(label, f"{count:,}", f"{count / max(1, corpus.lines):.1%}")

    for reason, count in corpus.rejected.items():
        row(f"rejected: {reason}", count)
    table.add_section()
    train = corpus.train_pairs
    row("kept", train + len(corpus.dev) + len(corpus.test))
    table.add_section()
    row("train", train)
    row("dev", len(corpus.dev))
    row("test", len(corpus.test))
    for name, pairs in corpus.tests.items():
        row(f"test: {name}", len(pairs))
    return table


def check_accepted(
    config: DataConfig, name: str, pairs: int, lines: int, rejected: Counter[str]
) -> None:
    """Warn if few lines of a source are accepted as pairs.

    Raises:
        UserError: none is.
    """
    which = f"data={config.name}" if len(config.sources) == 1 else f"source '{name}'"
    if not lines:
        files = " and ".join(list_paths(config.sources[name]))
        raise UserError(f"{files or which} is empty, 0 lines were read: add sentence pairs")
    if pairs and (lines < MIN_LINES or pairs >= MIN_ACCEPTED * lines):
        return
    reason, count = rejected.most_common(1)[0]
    if pairs and reason == DUPLICATE:
        return
    kind, columns = config.sources[name].kind, ""
    if kind in (FILES, TRANSLATIONS):
        columns = f"{source_key(name, 'columns')} and "
    elif kind == "zip":  # to which no short key is passed on
        columns = f"data.sources.{name}.columns and "
    message = (
        f"{which}: {f'only {pairs:,}' if pairs else 'none'} of the {lines:,} lines read is usable, "
        f"most often because of '{reason}' ({count:,}): check {columns}the length limits, or see "
        "each line with data.rejected_file=FILE"
    )
    if not pairs:
        raise UserError(message)
    warnings.warn(message, stacklevel=3)


def write_rejected(file: TextIO, reason: str, line: Line) -> None:
    """Write one rejected line: reason, file:number, and its text."""
    file.write(f"{reason}\t{line.file}:{line.number}\t{line.raw}\n")


@contextmanager
def open_rejected_file(config: DataConfig, path: Path | None) -> Iterator[TextIO | None]:
    """Open the file for rejected lines; yield None without a path.

    Raises:
        UserError: it cannot be written, or is a file of the corpus.
    """
    if path is None:
        yield None
        return
    path = path.expanduser()
    inputs = [name for source in config.sources.values() for name in list_paths(source)]
    inputs += [source.archive for source in config.sources.values() if source.archive]
    for name in (*inputs, *config.tests.values()):
        if any(_is_same_file(path, file) for file in matching_files(name)):
            raise UserError(
                f"data.rejected_file={path} would overwrite the corpus: name another file"
            )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # backslashreplace: the name of an input file may be invalid UTF-8.
        file = path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as error:
        raise UserError(
            f"data.rejected_file={path} cannot be written ({error.strerror}): name another file"
        ) from error
    with attach_filename(path), file:
        yield file


def _is_same_file(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)
