"""The check of p-values: it finds tests that are not calibrated, and only those."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import calibration
import numpy as np
import pytest


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
    draw = random.Random(1)
    words = "one two red green house river bread sleeps reads near with of".split()
    references = [" ".join(draw.choices(words, k=6)) for _ in range(80)]
    for name in "ab":
        rows = [
            {
                "reference": reference,
                "output": " ".join("x" if draw.random() < 0.3 else w for w in reference.split()),
            }
            for reference in references
        ]
        (tmp_path / name).mkdir()
        content = json.dumps({"outputs": rows})
        (tmp_path / name / "evaluation_test.json").write_text(content, encoding="utf-8")
    runs = [str(tmp_path / name) for name in "ab"]
    monkeypatch.setattr(
        sys, "argv", ["calibration.py", *runs, "--trials", "60", "--samples", "199"]
    )
    calibration.main()
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert len(lines) == 9
    for cells in lines:
        p_value = float(cells[3])
        assert (p_value < 1e-6) == cells[1].endswith("bootstrap"), cells
