"""Lines of text: those to translate, grouped so that memory stays constant, and translations."""

from __future__ import annotations

import codecs
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence

from nmt.data.lines import LONGEST_LINE, is_cut
from nmt.errors import UserError
from nmt.inference.results import Translation, list_distinct, to_one_line

CHUNK = 1024  # lines translated together


def decode_lines(lines: Iterable[bytes], first: int = 1) -> Iterator[str]:
    """Decode lines from `split_lines`; warn once if some are cut.

    Args:
        lines: lines in UTF-8, as `open_text` returns them.
        first: number of the first line in its file.
    """
    has_warned = False
    for number, line in enumerate(lines, first):
        if is_cut(line) and not has_warned:
            warnings.warn(
                f"line {number} is longer than 1 MiB: of such lines, only the first MiB is "
                "translated",
                stacklevel=2,
            )
            has_warned = True
        yield decode_line(line)


def decode_whole_lines(lines: Iterable[bytes], label: str) -> Iterator[str]:
    """Decode lines from `split_lines`; a line longer than 1 MiB is an error.

    Args:
        lines: lines in UTF-8, as `open_text` returns them.
        label: name of their file in messages.

    Raises:
        UserError: a line is longer than 1 MiB.
    """
    for number, line in enumerate(lines, 1):
        if is_cut(line):
            raise UserError(f"{label}: line {number} is longer than 1 MiB: break it up")
        yield decode_line(line)


def decode_line(line: bytes) -> str:
    """Return a line from `split_lines` as text, without its end."""
    if is_cut(line):  # the last character may be cut too: it is left out
        return codecs.utf_8_decode(line[:LONGEST_LINE], "strict", False)[0]
    return line.rstrip(b"\n").removesuffix(b"\r").decode()


def group_lines(lines: Iterable[str], size: int = CHUNK) -> Iterator[list[str]]:
    """Yield ``size`` lines at a time; fewer if they are so long that they would fill memory."""
    group: list[str] = []
    characters = 0
    for line in lines:
        group.append(line)
        characters += len(line)
        if len(group) == size or characters >= LONGEST_LINE:
            yield group
            group, characters = [], 0
    if group:
        yield group


def group_arriving(lines: Iterable[str], size: int = CHUNK) -> Iterator[list[str]]:
    """Yield all lines that have arrived, read by another thread.

    If none have arrived, yield an empty group and then wait for the next line. Groups are at most
    as large as those of `group_lines`.
    """
    changed = threading.Condition()
    arrived: list[str] = []
    characters = 0
    errors: list[BaseException] = []
    at_end = False

    def has_room() -> bool:
        return len(arrived) < size and characters < LONGEST_LINE

    def read() -> None:
        nonlocal characters, at_end
        try:
            for line in lines:
                with changed:
                    changed.wait_for(has_room)
                    arrived.append(line)
                    characters += len(line)
                    changed.notify_all()
        except BaseException as error:  # raised in the thread that consumes the groups
            errors.append(error)
        with changed:
            at_end = True
            changed.notify_all()

    threading.Thread(target=read, name="reader", daemon=True).start()
    may_be_empty = True
    while True:
        with changed:
            if not may_be_empty:
                changed.wait_for(lambda: arrived or at_end)
            group, is_last = arrived.copy(), at_end
            arrived.clear()
            characters = 0
            changed.notify_all()
        if is_last and not group:
            break
        yield group
        may_be_empty = bool(group)
    if errors:
        yield []  # a stream finishes the lines before the error first
        raise errors[0]


def format_lines(
    translations: Sequence[Translation],
    with_scores: bool,
    keeps_lines: bool,
    count: int = 1,
    repeats: bool = False,
) -> list[str]:
    """Return the output of one text, an item per translation; an empty text has one, too.

    Args:
        translations: of the text, best first.
        with_scores: whether score and log-probability come before the text.
        keeps_lines: whether a translation keeps its line breaks; otherwise it is one line.
        count: most translations. Unless line breaks are kept, there are always as many, so that
            output lines can be matched to input lines: the last one is repeated.
        repeats: whether equal translations are listed, as samples are; otherwise the best of them.
    """
    lines = []
    for translation in (translations if repeats else list_distinct(translations))[:count]:
        text = translation.text
        if not keeps_lines:
            text = to_one_line(text, keeps_tabs=not with_scores)
        if with_scores:
            text = f"{translation.score:.4f}\t{translation.log_prob:.4f}\t{text}"
        lines.append(text)
    padding = [] if keeps_lines else lines[-1:] * (count - len(lines))
    return lines + padding
