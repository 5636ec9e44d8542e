"""A run and its export, compared by their translations of sample sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.data.tokenizer import Tokenizer
from nmt.inference.results import Translation
from nmt.runs.samples import read_newest_samples
from nmt.text.cleaning import clean_text

TIE = 1e-3  # nats: rounding may swap hypotheses whose log-probabilities are this close

Rescore = Callable[[str, Translation], float]  # (source, translation) -> log-probability in nats


@dataclass(frozen=True)
class Difference:
    """A sample that the export translates differently."""

    source: str
    run: str
    run_log_prob: float  # nats
    export: str
    export_log_prob: float  # nats
    # "tie": both translations have the same log-probability; "search": the export gives the run's
    # translation the run's log-probability, but finds another; "weights": it gives another one.
    cause: str

    def __str__(self) -> str:
        return (
            f"differs ({self.cause}): {self.source}\n"
            f"  run     {self.run_log_prob:9.4f}  {self.run}\n"
            f"  export  {self.export_log_prob:9.4f}  {self.export}"
        )


@dataclass(frozen=True)
class ExportCheck:
    """Samples translated by a run and by its export."""

    sentences: int
    differences: list[Difference]

    @property
    def equal(self) -> int:
        """Number of samples with the same translation."""
        return self.sentences - len(self.differences)

    @property
    def wrong(self) -> list[Difference]:
        """Differences that neither rounding nor the search explains: the weights differ."""
        return [difference for difference in self.differences if difference.cause == "weights"]


def compare(
    sources: Sequence[str],
    run: Sequence[Translation],
    export: Sequence[Translation],
    rescore: Rescore | None = None,
) -> ExportCheck:
    """Compare translations of ``sources``.

    Args:
        sources: the samples.
        run: their translations by the run.
        export: their translations by the export.
        rescore: returns the log-probability that the export gives to a translation of a source;
            None if run and export share one search.
    """
    differences = []
    for source, ours, theirs in zip(sources, run, export, strict=True):
        if ours.text == theirs.text:
            continue
        cause = "weights"
        if abs(ours.log_prob - theirs.log_prob) <= TIE:
            cause = "tie"
        elif rescore and abs(rescore(source, ours) - ours.log_prob) <= TIE:
            cause = "search"
        differences.append(
            Difference(source, ours.text, ours.log_prob, theirs.text, theirs.log_prob, cause)
        )
    return ExportCheck(len(sources), differences)


def read_sources(
    folder: Path, probes: Sequence[str], tokenizer: Tokenizer, max_tokens: int
) -> list[str]:
    """Return the sources of a run's newest samples, or its probes if it has no samples.

    Empty sources are omitted, and longer ones than in training, which formats treat differently.

    Args:
        folder: ``samples`` of the run; it may not exist.
        probes: ``training.probes``.
        tokenizer: the run's tokenizer.
        max_tokens: length of the longest sentence in training, EOS included.

    Raises:
        UserError: the samples are damaged.
    """
    sources = [sample.source for sample in read_newest_samples(folder)] or list(probes)
    encoded = tokenizer.encode([clean_text(source) for source in sources])
    return [
        source for source, ids in zip(sources, encoded, strict=True) if 0 < len(ids) < max_tokens
    ]
