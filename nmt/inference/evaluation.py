"""Translate a set of pairs and score the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nmt.data.corpus import Pair
from nmt.errors import UserError
from nmt.inference.metrics import Score, corpus_scores
from nmt.inference.translator import Translator

_CHUNK = 512  # sentences between two moves of the progress bar


@dataclass(frozen=True)
class Evaluation:
    """Translations of a set of pairs, and their scores."""

    pairs: Sequence[Pair]
    outputs: Sequence[str]
    scores: Sequence[Score]

    def as_json(self) -> dict[str, Any]:
        """Return scores and sentences, for a file."""
        return {
            "sentences": len(self.pairs),
            "scores": {score.name: asdict(score) for score in self.scores},
            "outputs": [
                {"source": pair.source, "reference": pair.target, "output": output}
                for pair, output in zip(self.pairs, self.outputs, strict=True)
            ],
        }

    def lines(self) -> list[str]:
        """Return one printable line per score."""
        return [
            f"{score.name:8}{score.value:6.2f}"
            + (f" ± {score.half_width:.2f}" if score.half_width is not None else "")
            + f"   {score.signature}"
            for score in self.scores
        ]


def translate_with_progress(
    translator: Translator, sources: Sequence[str], console: Console, **search: Any
) -> list[str]:
    """Translate many sentences, showing how far it is."""
    outputs: list[str] = []
    columns = (
        TextColumn("translating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("sentences, left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(sources))
        for start in range(0, len(sources), _CHUNK):
            outputs += translator.translate(sources[start : start + _CHUNK], **search)
            progress.update(task, completed=len(outputs))
    return outputs


def evaluate(
    translator: Translator, pairs: Sequence[Pair], console: Console, **search: Any
) -> Evaluation:
    """Translate ``pairs`` and score them by BLEU, chrF2++ and TER with confidence intervals.

    Raises:
        UserError: there are no pairs.
    """
    if not pairs:
        raise UserError("there is nothing to evaluate: the test split is empty")
    outputs = translate_with_progress(
        translator, [pair.source for pair in pairs], console, **search
    )
    scores = corpus_scores(outputs, [pair.target for pair in pairs], intervals=True)
    return Evaluation(pairs, outputs, scores)
