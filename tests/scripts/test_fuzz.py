"""Made-up bytes reach the targets, what they find is kept, and a missing package is named."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import fuzz


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


@pytest.mark.parametrize("target", ["reading", "records"])
def test_some_hundred_executions_find_nothing(
    atheris: ModuleType, target: str, tmp_path: Path
) -> None:
    found = fuzz.fuzz_target(target, tmp_path, 300, 0)
    assert found.executions == 300
    assert found.edges > 0
    assert found.findings == []


def test_a_finding_is_kept(
    atheris: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(fuzz.__file__).read_text(encoding="utf-8")
    true, wrong = "list(range(1, count + 1))", "list(range(2, count + 2))"
    assert true in source
    script = tmp_path / "scripts" / "fuzz.py"
    script.parent.mkdir()
    script.write_text(source.replace(true, wrong), encoding="utf-8")
    monkeypatch.setattr(fuzz, "__file__", str(script))
    [(path, reason)] = fuzz.fuzz_target("reading", tmp_path, 300, 0).findings
    assert path.is_file()
    assert reason.startswith("AssertionError at scripts/fuzz.py:")
