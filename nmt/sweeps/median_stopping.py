"""Trials of a sweep that have fallen behind the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from nmt.runs.folder import METRICS_FILE, RunFolder

TAG = "dev/chrF2++"  # tells apart what is still near a BLEU of 0
LEAST = 2  # others that have come as far, without which nobody is behind


def is_behind(run: RunFolder, share: float) -> bool:
    """Return whether a run's best score so far is below that of a share of the runs beside it.

    Of the others, evaluations up to as many count: with a share of 0.5, this is the rule of the
    median of Golovin et al. 2017 (Google Vizier, section 3.5.2). The first evaluation is too early
    to tell.

    Args:
        run: the run.
        share: of the others, in (0, 1].
    """
    own = _read_scores(run.path / METRICS_FILE)
    if len(own) < 2:
        return False
    others = [scores[: len(own)] for scores in _list_others(run) if len(scores) >= len(own)]
    ahead = sum(max(scores) > max(own) for scores in others)
    return len(others) >= LEAST and ahead >= share * len(others)


def _list_others(run: RunFolder) -> Iterator[list[float]]:
    """Yield the scores of the runs in the same folder."""
    for path in run.path.parent.glob(f"*/{METRICS_FILE}"):
        if not path.parent.is_symlink() and path.parent != run.path:
            yield _read_scores(path)


def _read_scores(path: Path) -> list[float]:
    """Return the scores of a run's evaluations; what another process is writing is left out."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if TAG in row:
            found.append(float(row[TAG]))
    return found
