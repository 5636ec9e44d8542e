"""Inputs reach the targets, findings are stored, and a missing package is named."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import ModuleType

import fuzz
import pytest
from fuzz_serving import BODIES, prepare_requests


def test_what_to_install_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz, "atheris", None)
    monkeypatch.setattr(sys, "argv", ["fuzz.py", "all", "--executions", "1"])
    assert fuzz.main() == 2
    assert capsys.readouterr().err == (
        "error: atheris is missing: python -m pip install 'atheris>=3,<4'\n"
    )


@pytest.fixture
def atheris() -> ModuleType:
    return pytest.importorskip("atheris")


@pytest.mark.parametrize("target", ["reading", "records", "documents"])
def test_some_hundred_executions_find_nothing(
    atheris: ModuleType, target: str, tmp_path: Path
) -> None:
    result = fuzz.fuzz_target(target, tmp_path, 300, 0, seed=1)
    assert result.executions == 300
    assert result.edges > 0
    assert result.findings == []


def test_a_finding_is_kept(
    atheris: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tests" / "fuzz"
    shutil.copytree(Path(fuzz.__file__).parent, folder)
    target = folder / "fuzz_data.py"
    source = target.read_text(encoding="utf-8")
    true, wrong = "list(range(skipped + 1, count + 1))", "list(range(2, count + 2))"
    assert true in source
    target.write_text(source.replace(true, wrong), encoding="utf-8")
    monkeypatch.setattr(fuzz, "__file__", str(folder / "fuzz.py"))
    [(path, reason)] = fuzz.fuzz_target("reading", tmp_path, 300, 0, seed=1).findings
    assert path.is_file()
    assert reason.startswith("AssertionError at tests/fuzz/fuzz_data.py:")


class Bytes:
    """Draws the first of all choices, then given bytes: an `atheris.FuzzedDataProvider`."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def ConsumeIntInRange(self, first: int, last: int) -> int:  # noqa: N802
        return first

    def remaining_bytes(self) -> int:
        return len(self.content)

    def ConsumeBytes(self, count: int) -> bytes:  # noqa: N802
        return self.content[:count]


@pytest.mark.parametrize("body", BODIES)
def test_the_service_that_is_fuzzed_answers(body: str, tmp_path: Path) -> None:
    """Its translator stands in for a real one, whose methods may change."""
    check, _ = prepare_requests(tmp_path)
    check(Bytes(body.encode()))
