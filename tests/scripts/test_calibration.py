"""The check of p-values: it finds tests that are not calibrated, and only those."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import calibration
import numpy as np
import pytest

from nmt.inference.significance import compare_outputs


def test_uniform_values_are_told_from_others() -> None:
    generator = np.random.default_rng(1)
    uniform = generator.random(500)
    assert calibration.compare_with_uniform(uniform)[1] > 0.01
    assert calibration.compare_with_uniform(uniform**2)[1] < 1e-6
    assert calibration.compare_with_uniform(np.full(4, 0.5))[0] == 0.5
    # The 5% point of the statistic for many values is 1.358.
    values = (np.arange(10_000) + 0.5) / 10_000 * (1 - 0.01358)
    assert calibration.compare_with_uniform(values)[1] == pytest.approx(0.05, abs=0.005)


def test_the_bootstrap_of_sacrebleu_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = write_runs(tmp_path, "ab")
    monkeypatch.setattr(
        sys, "argv", ["calibration.py", *runs, "--trials", "60", "--samples", "199"]
    )
    calibration.main()
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert len(lines) == 9
    for cells in lines:
        p_value = float(cells[3])
        assert (p_value < 1e-6) == cells[1].endswith("bootstrap"), cells


def test_pairs_of_runs_are_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The p-values are those of `nmt.evaluate --compare`."""
    runs = write_runs(tmp_path, "abcd")
    monkeypatch.setattr(sys, "argv", ["calibration.py", *runs])
    calibration.main()
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 5
    shown = [line.split()[1:] for line in captured.err.splitlines()]
    tables = [json.loads(Path(run, "evaluation_test.json").read_text())["outputs"] for run in runs]
    references = [row["reference"] for row in tables[0]]
    outputs = [[row["output"] for row in table] for table in tables]
    for number in range(2):
        pair = outputs[2 * number : 2 * number + 2]
        tests = compare_outputs(*pair, references, language="en")
        assert [p_values[number] for p_values in shown] == [
            f"{test.p_value:.3f}" for test in tests.values()
        ]
    monkeypatch.setattr(sys, "argv", ["calibration.py", *runs[:3]])
    with pytest.raises(SystemExit):
        calibration.main()


def write_runs(folder: Path, names: str) -> list[str]:
    """Write evaluations of systems that do not differ, and return their folders."""
    rng = random.Random(1)
    words = "one two red green house river bread sleeps reads near with of".split()
    references = [" ".join(rng.choices(words, k=6)) for _ in range(80)]
    for name in names:
        rows = [
            {
                "reference": reference,
                "output": " ".join("x" if rng.random() < 0.3 else w for w in reference.split()),
            }
            for reference in references
        ]
        (folder / name).mkdir()
        content = json.dumps({"outputs": rows})
        (folder / name / "evaluation_test.json").write_text(content, encoding="utf-8")
    return [str(folder / name) for name in names]
