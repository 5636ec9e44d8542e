"""Files of lines that are too long: one line out per line in, in constant memory."""

from __future__ import annotations

import io
import sys
import threading
import tracemalloc
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.lines import LONGEST_LINE
from nmt.errors import UserError
from nmt.inference.lines import format_lines, group_arriving, group_lines
from nmt.inference.results import Translation
from nmt.inference.resuming import count_done
from nmt.inference.streaming import translate_file, translate_pipe
from nmt.inference.text_files import open_output, open_pipe

Result = TypeVar("Result")

HUGE = 100_000_000  # bytes of a line
MIB = 1 << 20


@pytest.fixture
def peak() -> Iterator[Callable[[], int]]:
    """Measure the most bytes that Python objects took at once, from here on."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A sparse file whose second and third line have a hundred megabytes each."""
    path = tmp_path / "in.txt"
    with path.open("wb") as file:
        file.write(b"uno\n")
        for _ in range(2):
            file.seek(HUGE, io.SEEK_CUR)
            file.write(b"\n")
        file.write(b"cuatro\r\ncinco")
    return path


def shorten(lines: list[str]) -> list[str]:
    """Stand in for a translator."""
    return [f"{line[:6]} {len(line)}" for line in lines]


def in_turn(work: Callable[[list[str]], Result], chunks: Iterable[list[str]]) -> Generator[Result]:
    """A stream that does not read ahead."""
    for chunk in chunks:
        yield work(chunk)


def translated(path: Path, output: Path, done: int = 0, begin: int | None = None) -> list[str]:
    """Return the lines of the output."""
    with open_output(output, begin=begin) as out:
        translate_file(
            path,
            done,
            partial(in_turn, shorten),
            lambda outputs: print("\n".join(outputs), file=out),
            shows_progress=False,
        )
    return output.read_text(encoding="utf-8").split("\n")


@pytest.mark.parametrize(
    ("is_terminal", "expected"), [(True, b"s\xed \\u2026\n"), (False, "sí …\n".encode())]
)
def test_standard_output_takes_any_character(
    is_terminal: bool, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    with open_output(None) as out:
        print("sí …", file=out, flush=True)
    assert written.getvalue() == expected


def test_a_huge_line_is_cut_with_one_warning(
    tmp_path: Path, source: Path, peak: Callable[[], int]
) -> None:
    with pytest.warns(UserWarning, match="^line 2 is longer than 1 MiB: ") as warned:
        written = translated(source, tmp_path / "out.txt")
    huge = "\0" * 6 + f" {LONGEST_LINE}"
    assert written == ["uno 3", huge, huge, "cuatro 6", "cinco 5", ""]
    assert len(warned) == 1
    assert peak() < 8 * MIB


@pytest.mark.long
@pytest.mark.parametrize(("done", "number"), [(1, 2), (2, 3), (3, None)])
def test_translating_goes_on_around_huge_lines(
    tmp_path: Path, source: Path, peak: Callable[[], int], done: int, number: int | None
) -> None:
    """Those that are done are skipped, and the warning numbers the next as the file does."""
    output = tmp_path / "out.txt"
    with warnings.catch_warnings(record=True):
        complete = translated(source, output)
    resumed_text = "".join(f"{line}\n" for line in complete[:done])
    output.write_text(f"{resumed_text}{complete[done][:3]}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert count_done(output, source, shorten) == (done, len(resumed_text))
        assert caught == []
        assert translated(source, output, done, len(resumed_text)) == complete
    assert [str(each.message)[:7] for each in caught] == ([f"line {number} "] if number else [])
    assert peak() < 8 * MIB


def test_an_output_with_a_huge_line_is_not_gone_on_with(
    tmp_path: Path, source: Path, peak: Callable[[], int]
) -> None:
    with pytest.raises(UserError, match=r"^line 1 of .* is not the translation"):
        count_done(source, source, shorten)
    assert peak() < 16 * MIB


def test_an_output_line_over_the_limit_is_gone_on_with(tmp_path: Path) -> None:
    """A translation may be longer than its source."""
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("uno\ndos\n")

    def lengthen(lines: list[str]) -> list[str]:
        return [line * MIB for line in lines]

    written = "uno" * MIB + "\n"
    output.write_text(written)
    assert count_done(output, source, lengthen) == (1, len(written))
    output.write_text("una" * MIB + "\n")
    with pytest.raises(UserError, match=r"^line 1 of .* is not the translation"):
        count_done(output, source, lengthen)


@pytest.mark.parametrize("shift", range(4))
def test_no_character_is_cut(tmp_path: Path, shift: int) -> None:
    path = tmp_path / "in.txt"
    path.write_text("a" * shift + "👍" * LONGEST_LINE + "\nb\n", encoding="utf-8")
    outputs: list[str] = []
    with pytest.warns(UserWarning, match="^line 1 is longer"):
        translate_file(path, 0, partial(in_turn, list), outputs.extend, shows_progress=False)
    assert outputs == ["a" * shift + "👍" * ((LONGEST_LINE - shift) // 4), "b"]


def test_a_huge_line_of_a_pipe_is_cut(
    source: Path, monkeypatch: pytest.MonkeyPatch, peak: Callable[[], int]
) -> None:
    lengths: list[int] = []
    with source.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        stream = partial(in_turn, lambda lines: list(map(len, lines)))
        with pytest.warns(UserWarning, match="^line 2 is longer"):
            translate_pipe(open_pipe(None), stream, lengths.extend)
    assert lengths == [3, LONGEST_LINE, LONGEST_LINE, 6, 5]
    assert peak() < 8 * MIB


def test_long_lines_make_small_groups() -> None:
    """A thousand lines of a mebibyte are not held together."""
    half = "a" * (MIB // 2)
    assert [len(group) for group in group_lines([half] * 5)] == [2, 2, 1]
    assert [len(group) for group in group_lines(["a"] * 5, size=2)] == [2, 2, 1]
    assert [len(group) for group in group_lines(["b", "a" * MIB, "b"])] == [2, 1]


def test_tabs_around_sentences_stay_unless_columns_need_them() -> None:
    translation = Translation("\tHi.\u2028\tBye.", log_prob=-1.0, score=-0.5, tokens=())
    assert format_lines([translation], with_scores=False, keeps_lines=False) == ["\tHi. \tBye."]
    assert format_lines([translation], with_scores=True, keeps_lines=False) == [
        "-0.5000\t-1.0000\t Hi.  Bye."
    ]


def test_lines_that_arrive_late_do_not_hold_back_those_before() -> None:
    turn = threading.Semaphore(0)

    def slow() -> Iterator[str]:
        for number in range(5):
            assert turn.acquire(timeout=30)
            yield str(number)

    groups = group_arriving(slow())
    arrived: list[str] = []
    for number in range(5):
        assert next(groups) == []  # no line has arrived: started chunks may finish
        turn.release()
        arrived += next(groups)
        assert arrived == [str(i) for i in range(number + 1)]
    assert list(groups) in ([], [[]])


@given(st.lists(st.text(max_size=5), max_size=50), st.integers(1, 7))
def test_arriving_lines_keep_their_order_and_groups_their_size(lines: list[str], size: int) -> None:
    groups = list(group_arriving(iter(lines), size))
    assert [line for group in groups for line in group] == lines
    assert max(map(len, groups), default=0) <= size


def test_few_huge_lines_are_held_at_once() -> None:
    groups = list(group_arriving(["a" * MIB] * 5 + ["b"] * 3))
    assert max(sum(map(len, group)) for group in groups) <= MIB + 3
    assert sum(map(len, groups)) == 8


def test_what_goes_wrong_while_reading_is_raised_behind_what_was_read() -> None:
    def broken() -> Iterator[str]:
        yield "one"
        raise OSError("the disk is gone")

    groups = group_arriving(broken())
    outputs: list[str] = []
    with pytest.raises(OSError, match="the disk is gone"):
        outputs.extend(line for group in groups for line in group)
    assert outputs == ["one"]


def test_a_line_has_as_many_translations_as_are_wanted() -> None:
    translations = [Translation(text, log_prob=-1.0, score=-0.5, tokens=()) for text in "ab"]
    assert format_lines(translations, with_scores=False, keeps_lines=False, count=1) == ["a"]
    assert format_lines(translations, False, False, 4) == ["a", "b", "b", "b"]
    assert format_lines(translations, False, True, 4) == ["a", "b"]


def test_equal_translations_are_listed_once_unless_they_are_samples() -> None:
    scored = (("a", -1.0), ("a", -2.0), ("b", -3.0))
    translations = [Translation(text, score, score, ()) for text, score in scored]
    lines = ["-1.0000\t-1.0000\ta", "-3.0000\t-3.0000\tb"]
    assert format_lines(translations, True, True, 3) == lines
    assert format_lines(translations, True, False, 3) == [*lines, lines[-1]]
    assert format_lines(translations, False, True, 2) == ["a", "b"]
    assert format_lines(translations, False, True, 3, repeats=True) == ["a", "a", "b"]
