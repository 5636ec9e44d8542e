"""What an export says of itself: where it is from, what it needs, and how it was checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.data.cleaning import clean_text
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.files import digest_file
from nmt.formats.folder import MANIFEST_FILE
from nmt.inference.results import Translation

TIE = 1e-3  # nats: hypotheses so close in log-probability may change places

Rescore = Callable[[str, Translation], float]


@dataclass(frozen=True)
class Difference:
    """A sample that the export translates otherwise than the run."""

    source: str
    run: str
    run_log_prob: float  # nats
    export: str
    export_log_prob: float  # nats
    # "tie": two translations of the same log-probability; "search": the export gives the run's
    # translation the run's log-probability, but its search ends elsewhere; "weights": neither.
    cause: str

    def __str__(self) -> str:
        return (
            f"differs ({self.cause}): {self.source}\n"
            f"  run     {self.run_log_prob:9.4f}  {self.run}\n"
            f"  export  {self.export_log_prob:9.4f}  {self.export}"
        )


@dataclass(frozen=True)
class Check:
    """The samples, translated by the run and by its export."""

    sentences: int
    different: list[Difference]

    @property
    def wrong(self) -> list[Difference]:
        """What the same numbers in another order of summation cannot explain."""
        return [difference for difference in self.different if difference.cause == "weights"]


def compare(
    sources: Sequence[str],
    run: Sequence[Translation],
    export: Sequence[Translation],
    rescore: Rescore | None = None,
) -> Check:
    """Compare translations of ``sources``.

    Args:
        sources: the samples.
        run: their translations by the run.
        export: the same by the export.
        rescore: the log-probability that the export gives to a translation of a source; None
            where the export's search is the run's own.
    """
    different = []
    for source, ours, theirs in zip(sources, run, export, strict=True):
        if ours.text == theirs.text:
            continue
        cause = "weights"
        if abs(ours.log_prob - theirs.log_prob) <= TIE:
            cause = "tie"
        elif rescore and abs(rescore(source, ours) - ours.log_prob) <= TIE:
            cause = "search"
        different.append(
            Difference(source, ours.text, ours.log_prob, theirs.text, theirs.log_prob, cause)
        )
    return Check(len(sources), different)


def read_samples(
    folder: Path, probes: Sequence[str], tokenizer: Tokenizer, longest: int
) -> list[str]:
    """Return the sources that a run showed last in ``samples/``, or else its probes.

    Sentences longer than those of training are left out: formats treat them differently.

    Args:
        folder: ``samples`` of the run; it may not exist.
        probes: ``training.probes``.
        tokenizer: the run's.
        longest: tokens, end mark included, of the longest sentence in training.

    Raises:
        UserError: the samples are damaged.
    """
    sources = list(probes)
    newest = max(folder.glob("step_*.tsv"), default=None)
    if newest:
        try:
            rows = newest.read_text(encoding="utf-8").splitlines()[1:]
        except (OSError, ValueError) as error:
            raise UserError(f"{newest} is damaged: {error}") from error
        sources = [row.split("\t")[0] for row in rows]
    encoded = tokenizer.encode([clean_text(source) for source in sources])
    return [source for source, ids in zip(sources, encoded, strict=True) if 0 < len(ids) < longest]


def make_manifest(
    folder: Path,
    run: str,
    config: Config,
    tokenizer: Tokenizer,
    scores: dict[str, float | None],
    check: Check,
    details: dict[str, Any],
) -> dict[str, Any]:
    """Return the manifest of the export in ``folder``.

    Args:
        folder: all of its files are hashed.
        run: name of the run.
        config: of the run, with the export's search.
        tokenizer: of the run.
        scores: of the run on its test split.
        check: from `compare`.
        details: what the format adds.
    """
    return {
        **details,
        "nmt": version("nmt"),
        "run": run,
        "scores": scores,
        "source_language": config.data.languages[0],
        "target_language": config.data.languages[1],
        "tokenizer": {
            "kind": config.tokenizer.kind,
            "fingerprint": tokenizer.fingerprint,
            "vocabulary_size": tokenizer.vocabulary_size,
        },
        "positions": config.model.max_length,
        "decoding": dataclasses.asdict(config.decoding),
        "check": {
            "sentences": check.sentences,
            "equal": check.sentences - len(check.different),
            "different": [dataclasses.asdict(difference) for difference in check.different],
        },
        "files": {
            str(path.relative_to(folder).as_posix()): digest_file(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != MANIFEST_FILE
        },
    }
