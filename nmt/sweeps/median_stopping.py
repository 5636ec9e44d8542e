"""Early stopping of a run that has fallen behind its siblings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from nmt.errors import UserError
from nmt.runs.corpus import read_dev_digest
from nmt.runs.folder import METRICS_FILE, RunFolder

TAG = "dev/chrF2++"  # unlike BLEU, it differs between models that are still near 0
MIN_SIBLINGS = 2  # runs with as many evaluations, without which no run is behind


def is_behind(run: RunFolder, share: float) -> bool:
    """Return whether at least a share of the sibling runs has a better best score.

    Siblings are the runs in the same folder with the same dev split; only those with as many
    evaluations are compared, up to the same evaluation. With a share of 0.5, this resembles the
    median stopping rule of Golovin et al. 2017 (Google Vizier, section 3.2.2), which compares with
    the running averages of trials that have ended. After the first evaluation it is too early to
    tell.

    Args:
        run: the run.
        share: share of the siblings, in (0, 1].
    """
    scores = _read_scores(run)
    count = len(scores)
    if count < 2:
        return False
    siblings = [others[:count] for others in _read_siblings(run) if len(others) >= count]
    ahead = sum(max(others) > max(scores) for others in siblings)
    return len(siblings) >= MIN_SIBLINGS and ahead >= share * len(siblings)


def _read_siblings(run: RunFolder) -> Iterator[list[float]]:
    """Yield the scores of the other runs in the same folder that have the same dev split."""
    digest = read_dev_digest(run)
    for path in run.path.parent.glob(f"*/{METRICS_FILE}"):
        if not path.parent.is_symlink() and path.parent != run.path:
            with suppress(UserError, OSError, TypeError, ValueError):  # damaged, perhaps removed
                sibling = RunFolder(path.parent)
                if read_dev_digest(sibling) == digest:
                    yield _read_scores(sibling)


def _read_scores(run: RunFolder) -> list[float]:
    """Return the scores of a run's evaluations."""
    return [float(record[TAG]) for record in run.metrics.read() if record.get(TAG) is not None]
