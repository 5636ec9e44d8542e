"""Corrections are kept line by line, only on request, and whatever their texts contain."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fake_service import Running, serving
from fastapi import HTTPException
from sample_corpora import complaint

from nmt.serving import corrections as module
from nmt.serving.corrections import CorrectionFile
from nmt.serving.schema import Correction

pytestmark = pytest.mark.xdist_group("serving")

LANGUAGES = ("es", "en")
CAR = {"source": "El coche.", "translation": "The coach.", "correction": "The car."}
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "corrections.tsv"


@pytest.fixture
def service(path: Path) -> Iterator[Running]:
    with serving(corrections=CorrectionFile(path, LANGUAGES), max_characters=100) as running:
        yield running


def read(path: Path) -> list[list[str]]:
    """Return the cells of each line without its date, which is checked."""
    text = path.read_text(encoding="utf-8")
    assert not text or text.endswith("\n")
    rows = [line.split("\t") for line in text.split("\n")[:-1]]
    assert all(len(row) == 4 and _DATE.fullmatch(row[3]) for row in rows)
    return [row[:3] for row in rows]


def test_a_correction_becomes_a_line(service: Running, path: Path) -> None:
    assert service.ask("GET", "/info").json["corrections"] is True
    answer = service.correct(**CAR)
    assert (answer.status, answer.json) == (200, {"lines": 1})
    assert read(path) == [["El coche.", "The car.", "The coach."]]


def test_nothing_is_kept_unless_asked_for(tmp_path: Path) -> None:
    with serving() as running:
        assert running.ask("GET", "/info").json["corrections"] is False
        answer = running.correct(**CAR)
    assert answer.status == 404
    assert answer.json == {
        "error": "this service keeps no corrections: start it with --corrections FILE.tsv"
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "correction", "translation", "rows"),
    [
        ("a\tb", "c\td\r", "e\nf", [["a b", "c d", "e f"]]),
        (
            "Uno. Dos.",
            "One. Two.",
            "Won. Too.",
            [["Uno.", "One.", "Won."], ["Dos.", "Two.", "Too."]],
        ),
        ("Uno.\nDos.", "One.\nTwo.", "X", [["Uno.", "One.", "X"], ["Dos.", "Two.", "X"]]),
        ("Uno. Dos.", "One, two.", "Won. Too.", [["Uno. Dos.", "One, two.", "Won. Too."]]),
        ("sí\u2028no", "yes\x85no", "", [["sí", "yes", ""], ["no", "no", ""]]),
    ],
)
def test_tabs_lines_and_sentences(
    service: Running,
    path: Path,
    source: str,
    correction: str,
    translation: str,
    rows: list[list[str]],
) -> None:
    answer = service.correct(source=source, correction=correction, translation=translation)
    assert answer.json == {"lines": len(rows)}
    assert read(path) == rows


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"correction": " \n"}, 422, "correction must not be empty"),
        ({"source": ""}, 422, "source must not be empty"),
        ({"source": "\0"}, 422, "source must not be empty"),
        ({"correction": None}, 422, "correction: Input should be a valid string"),
        ({"correction": "\ud800"}, 422, "correction holds half of a surrogate pair"),
        ({"more": 1}, 422, "unknown field 'more'"),
        ({"correction": "x" * 101}, 413, "a text of 101 characters is longer than the 100 allowed"),
        ({"source": "x" * 300_000}, 413, "the body is larger"),
    ],
)
def test_what_is_no_correction_is_refused(
    service: Running, path: Path, changes: dict[str, Any], status: int, error: str
) -> None:
    answer = service.correct(**CAR | changes)
    assert answer.status == status
    assert error in answer.json["error"]
    assert read(path) == []


def test_a_form_of_another_site_is_refused(service: Running, path: Path) -> None:
    """A browser sends JSON to another site only if that site permits it."""
    body = json.dumps(CAR)
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = service.ask("POST", "/corrections", body, {"Content-Type": kind})
        assert answer.status == 422
    assert read(path) == []


def test_concurrent_corrections_do_not_mix(service: Running, path: Path) -> None:
    texts = [str(number) * 40 for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(
            lambda text: service.correct(source=text, correction=text, translation=text), texts
        )
        assert {answer.status for answer in answers} == {200}
    assert sorted(read(path)) == sorted([text] * 3 for text in texts)


def test_lines_are_appended_to_what_is_there(path: Path) -> None:
    path.write_text("sol\tsun", encoding="utf-8")  # without a line end, as an editor left it
    file = CorrectionFile(path, LANGUAGES)
    assert path.read_text(encoding="utf-8") == "sol\tsun"
    file.add(Correction(**CAR))
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "sol\tsun"
    assert lines[1].startswith("El coche.\tThe car.\t")
    path.unlink()  # taken away for training
    file.add(Correction(**CAR))
    assert read(path) == [["El coche.", "The car.", "The coach."]]


def test_a_full_disk_leaves_whole_lines(
    service: Running, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.correct(**CAR)
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        answer = service.correct(**CAR)
    assert answer.status == 500
    assert answer.json == {"error": "the correction was not kept: No space left on device"}
    assert path.read_bytes() == before


class HalfWritten(io.FileIO):
    """A file on a disk that has room for half of what is written."""

    def write(self, content: Any) -> int:
        return super().write(content[: len(content) // 2])


def test_a_line_that_is_written_in_part_is_taken_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = CorrectionFile(path, LANGUAGES)
    file.add(Correction(**CAR))
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode, **_: HalfWritten(path, mode))
        with pytest.raises(HTTPException, match="not kept: No space left on device"):
            file.add(Correction(**CAR))
    assert path.read_bytes() == before


def test_the_file_does_not_grow_forever(
    service: Running, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FILE", 100)
    statuses = [service.correct(**CAR).status for _ in range(3)]
    assert statuses == [200, 507, 507]
    assert len(read(path)) == 1


def test_unusable_files_are_refused_at_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "folder.tsv"
    folder.mkdir()
    assert "cannot be written" in complaint(lambda: CorrectionFile(folder, LANGUAGES))
    missing = tmp_path / "missing" / "a.tsv"
    assert "cannot be written" in complaint(lambda: CorrectionFile(missing, LANGUAGES))
    other = tmp_path / "a.txt"
    assert "ends in .tsv" in complaint(lambda: CorrectionFile(other, LANGUAGES))
    assert not other.exists()
