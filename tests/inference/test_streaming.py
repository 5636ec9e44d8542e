"""Files and pipes reach a stream line by line, after the lines before them."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest
from rich.progress import Progress

from nmt.inference import streaming
from nmt.inference.lines import CHUNK
from nmt.inference.resuming import count_done
from nmt.inference.streaming import make_progress, translate_file, translate_pipe
from nmt.text.context import PreviousSentences, add_contexts

LINES = ["Ana vino.", "Ella ríe. Luis no.", "", "Tres.", "Cuatro.", "Cinco."]


def stream(chunks: Iterable[list[str]]) -> Generator[list[str]]:
    """Return lines as they are read."""
    yield from chunks


def in_context(count: int) -> list[str]:
    return list(add_contexts(LINES, PreviousSentences(count, "es")))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("done", range(len(LINES) + 1))
def test_a_resumed_file_has_the_contexts_of_the_whole(path: Path, done: int, count: int) -> None:
    read: list[str] = []
    previous = PreviousSentences(count, "es")
    translate_file(path, done, stream, read.extend, shows_progress=False, previous=previous)
    assert read == in_context(count)[done:]
    assert (read == LINES[done:]) == (count == 0 or done == len(LINES))


def test_a_pipe_has_the_contexts_of_a_file(path: Path) -> None:
    read: list[str] = []
    previous = PreviousSentences(1, "es")
    translate_pipe(io.BytesIO(path.read_bytes()), stream, read.extend, previous)
    assert read == in_context(1)


def test_lines_that_are_compared_on_resuming_have_their_contexts(
    path: Path, tmp_path: Path
) -> None:
    def translate(lines: list[str]) -> list[str]:
        return [line.upper() for line in lines]

    output = tmp_path / "out.txt"
    written = "".join(f"{line}\n" for line in translate(in_context(1))[:5])
    output.write_text(written, encoding="utf-8")
    done = count_done(output, path, translate, previous=PreviousSentences(1, "es"))
    assert done == (5, len(written.encode()))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize("done", [0, CHUNK])
def test_a_progress_bar_shows_the_share_of_the_lines_that_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, done: int
) -> None:
    """Although the whole file is read ahead."""
    bars: list[Progress] = []

    def make(*, is_visible: bool) -> Progress:
        bars.append(make_progress(is_visible=is_visible))
        return bars[0]

    monkeypatch.setattr(streaming, "make_progress", make)
    path = tmp_path / "in.txt"
    path.write_text("Mañana\n" * (4 * CHUNK), encoding=encoding)
    shares: list[float] = []

    def read_ahead(chunks: Iterable[list[str]]) -> Generator[list[str]]:
        yield from list(chunks)

    def write(lines: list[str]) -> None:
        shares.append(bars[0].tasks[0].percentage)

    translate_file(path, done, read_ahead, write, shows_progress=False, encoding=encoding)
    expected = [0, 25, 50, 75, 100][done // CHUNK :]
    assert [*shares, bars[0].tasks[0].percentage] == pytest.approx(expected, abs=0.01)
