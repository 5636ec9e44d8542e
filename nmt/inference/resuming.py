"""Where to resume an interrupted translation of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nmt.data.encodings import UTF_8, open_text
from nmt.data.lines import LONGEST_LINE, is_cut, split_lines
from nmt.errors import UserError
from nmt.inference.lines import decode_line
from nmt.text.context import NO_CONTEXT, PreviousSentences, add_contexts

_CHECKED = 8  # lines of the output that are translated again, and compared
_MAX_DIFFERENT = 0.25  # share of these lines that may differ

Translate = Callable[[list[str]], list[str]]  # one line of output per line


class _Line(NamedTuple):
    number: int  # from 1
    text: str  # in the source
    written: bytes  # in the output, from `split_lines`

    @property
    def is_complete(self) -> bool:
        """Whether the output line has its line feed."""
        return self.written.endswith(b"\n") or is_cut(self.written)

    def differs(self, expected: str) -> bool:
        """Return whether the output line is neither the expected one nor its beginning."""
        return not f"{expected}\n".encode().startswith(self.written)


def count_done(
    output: Path,
    source: Path,
    translate: Translate,
    encoding: str = UTF_8,
    previous: PreviousSentences = NO_CONTEXT,
) -> tuple[int, int]:
    """Return how many complete lines an interrupted translation has written, and their bytes.

    Both files stay unchanged. Some lines of the output, and an incomplete last one, are translated
    again and compared: an output with other content is rejected.

    Args:
        output: file of translations.
        source: file that was being translated.
        translate: translates with the options of the interrupted translation.
        encoding: encoding of the source.
        previous: adds the previous sentences to each line, as context.

    Raises:
        UserError: the output has more lines than the source, contains other lines, or is not a
            regular file.
    """
    if not output.is_file():
        raise UserError(f"{output} is not a regular file, so it cannot be resumed")
    (empty,) = translate([""])
    try:
        lines, done, size = _count_lines(output)
        source_lines, checked = _choose_checked(
            _pair_lines(source, output, lines, encoding, previous), done, empty
        )
    except OSError as error:
        raise UserError(f"{error.filename or output} cannot be read: {error.strerror}") from error
    if source_lines < lines:
        raise UserError(
            f"{output} has {lines} lines, more than the {source_lines} of {source}: it is not the "
            "translation of that file"
        )
    expected = translate([line.text for line in checked])
    different = [line for line, text in zip(checked, expected, strict=True) if line.differs(text)]
    # The other lines of a batch may decide a near tie between two hypotheses.
    certain = [line for line in different if not line.text.strip() or not line.is_complete]
    if certain or len(different) > _MAX_DIFFERENT * len(checked):
        number = (certain or different)[0].number
        raise UserError(
            f"line {number} of {output} is not the translation of that line of {source}: resume "
            "with the options of the first start, or name another output"
        )
    return done, size


def _count_lines(path: Path) -> tuple[int, int, int]:
    """Return the lines of a file, the number of complete ones, and the bytes of these."""
    done = complete_size = size = 0
    with path.open("rb") as file:
        for block in iter(partial(file.readline, LONGEST_LINE), b""):
            size += len(block)
            if block.endswith(b"\n"):
                done, complete_size = done + 1, size
    return done + (size > complete_size), done, complete_size


def _pair_lines(
    source: Path, output: Path, count: int, encoding: str, previous: PreviousSentences
) -> Iterator[_Line]:
    """Yield the first ``count`` lines that both files have."""
    with source.open("rb") as read, output.open("rb") as written:
        lines = map(decode_line, split_lines(open_text(read, str(source), encoding)))
        texts = add_contexts(lines, previous)
        yield from map(_Line, range(1, count + 1), texts, split_lines(written))


def _choose_checked(lines: Iterable[_Line], done: int, empty: str) -> tuple[int, list[_Line]]:
    """Count lines, and choose those to translate again.

    Some are spread over the complete lines; the incomplete one is added, and the first empty line
    whose translation is not ``empty``.
    """
    checked: list[_Line] = []
    count = spread = 0
    empty_differs = False
    for line in lines:
        count = line.number
        if not line.is_complete:
            checked.append(line)
        elif not line.text.strip():
            if not empty_differs and line.differs(empty):
                empty_differs = True
                checked.append(line)
        elif spread < _CHECKED and count > spread * done // _CHECKED:
            spread += 1
            checked.append(line)
    return count, checked
