"""The records of a run: TensorBoard, ``metrics.jsonl`` and the sample translations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nmt.analysis.heads.statistics import summarize_probes
from nmt.analysis.pictures.files import render_png
from nmt.analysis.pictures.heatmaps import draw_heads, draw_mean
from nmt.config import Config, files
from nmt.config.schema import flatten
from nmt.data.splitting import Pair
from nmt.errors import attach_filename
from nmt.inference.metrics import Score
from nmt.inference.results import Attention
from nmt.runs.folder import RunFolder
from nmt.training.events import EventWriter
from nmt.viewer import records

# Only the first probes are drawn for the Images dashboard: a picture takes hundreds of times the
# time of its numbers, and fifty times the bytes. The Attention dashboard has those of all probes.
DRAWN_PROBES = 2


@dataclass(frozen=True)
class TrainingWindow:
    """Measurements since the last report."""

    nll: float  # nats per target token; NaN where every update was skipped
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float  # real source and target tokens
    padding: float  # share of positions without a token
    epoch: float
    skipped: int  # skipped updates of the run so far


@dataclass(frozen=True)
class Validation:
    """The results of one evaluation."""

    nll: float  # nats per target token
    scores: Sequence[Score]  # on greedy translations; empty without dev sentences
    samples: Sequence[tuple[Pair, str]]
    probes: Sequence[tuple[str, Attention]]
    draw: bool  # whether the attention of the first probes is also drawn

    def values(self) -> dict[str, float]:
        """Return the numbers by their TensorBoard tags."""
        values = {"dev/loss": self.nll, "dev/perplexity": perplexity(self.nll)}
        values |= {f"dev/{score.name}": score.value for score in self.scores}
        return values | summarize_probes([attention for _, attention in self.probes])


def perplexity(nll: float) -> float:
    """Return exp of the mean negative log-likelihood; infinity on overflow."""
    return math.exp(nll) if nll < 700 else math.inf


class NoJournal:
    """The interface of `Journal`, which writes nothing: for all processes but the main one."""

    def log_configuration(self, config: Config, summary: str) -> None:
        """Show the configuration (as text and as hparams) and a summary of data and model."""

    def log_window(self, step: int, seconds: float, window: TrainingWindow) -> None:
        """Record the measurements since the last report."""

    def log_scores(self, step: int, seconds: float, validation: Validation) -> None:
        """Append the numbers of an evaluation to ``metrics.jsonl``."""

    def log_validation(self, step: int, validation: Validation) -> None:
        """Show an evaluation in TensorBoard: scores, sample translations, attention of probes."""

    def log_attention(self, step: int, probes: Sequence[tuple[str, Attention]]) -> None:
        """Log the attention of the probes for the Attention dashboard."""

    def rewind(self, step: int) -> None:
        """Drop the reports after update ``step``."""

    def close(self) -> None:
        """Flush and close the files."""


class Journal(NoJournal):
    """Writes the measurements of the training loop into a run folder.

    Args:
        run: the run folder.
        resumed_at: the update that a run is resumed from; records of later ones are dropped.
    """

    def __init__(self, run: RunFolder, *, resumed_at: int | None = None) -> None:
        self._run = run
        self._open(resumed_at)

    def _open(self, resumed_at: int | None) -> None:
        if resumed_at is not None:
            self._run.metrics.drop_after(resumed_at)
        purge = None if resumed_at is None else resumed_at + 1
        self._events = EventWriter(self._run.logs, purge_step=purge)

    def rewind(self, step: int) -> None:
        """Drop the reports after update ``step``."""
        self.close()
        self._open(step)

    def log_configuration(self, config: Config, summary: str) -> None:
        """See `NoJournal.log_configuration`."""
        for tag, text in (("configuration", files.to_yaml(config)), ("summary", summary)):
            indented = "\n".join(f"    {line}" for line in text.splitlines())
            self._events.text(tag, indented, 0)
        self._events.hparams(dict(flatten(config)))
        self._events.flush()

    def log_window(self, step: int, seconds: float, window: TrainingWindow) -> None:
        """See `NoJournal.log_window`."""
        values = {
            "train/loss": window.nll,
            "train/perplexity": perplexity(window.nll),
            "train/learning_rate": window.learning_rate,
            "train/gradient_norm": window.gradient_norm,
            "train/epoch": window.epoch,
            "train/skipped_updates": window.skipped,
            "speed/tokens_per_second": window.tokens_per_second,
            "speed/padding_share": window.padding,
        }
        self._append_metrics(step, seconds, values)
        self._log_scalars(step, values)

    def log_scores(self, step: int, seconds: float, validation: Validation) -> None:
        """See `NoJournal.log_scores`."""
        self._append_metrics(step, seconds, validation.values())

    def log_validation(self, step: int, validation: Validation) -> None:
        """See `NoJournal.log_validation`."""
        self._log_scalars(step, validation.values())
        for score in validation.scores:
            self._events.text(f"signature/{score.name}", f"`{score.signature}`", step)
        if validation.samples:
            self._log_samples(step, validation.samples)
        if validation.draw:
            probes = validation.probes[:DRAWN_PROBES]
            for number, (sentence, attention) in enumerate(probes, start=1):
                self._draw_heatmaps(step, number, sentence, attention)
        self.log_attention(step, validation.probes)

    def log_attention(self, step: int, probes: Sequence[tuple[str, Attention]]) -> None:
        """See `NoJournal.log_attention`."""
        for number, (sentence, attention) in enumerate(probes, start=1):
            record = records.encode(sentence, attention)
            self._events.blob(records.tag(number, sentence), record, step, plugin=records.PLUGIN)
        self._events.flush()

    def _append_metrics(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        self._run.metrics.append({"step": step, "seconds": round(seconds, 3), **values})

    def _log_scalars(self, step: int, values: Mapping[str, float]) -> None:
        for tag, value in values.items():
            if math.isfinite(value):
                self._events.scalar(tag, value, step)

    def _log_samples(self, step: int, samples: Sequence[tuple[Pair, str]]) -> None:
        rows = [
            (pair.source, pair.target, output.replace("\t", " "))  # a sampled byte can be a tab
            for pair, output in samples
        ]
        table = ["| source | reference | output |", "|---|---|---|"]
        table += [
            "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows
        ]
        self._events.text("samples", "\n".join(table), step)
        self._run.samples.mkdir(exist_ok=True)
        path = self._run.samples / f"step_{step:08d}.tsv"
        text = "".join("\t".join(row) + "\n" for row in [("source", "reference", "output"), *rows])
        with attach_filename(path):
            path.write_text(text, encoding="utf-8")

    def _draw_heatmaps(self, step: int, number: int, sentence: str, attention: Attention) -> None:
        for kind in attention.kinds:
            for layer in range(1, len(attention.weights[kind.name]) + 1):
                title = f"{kind.title}, layer {layer}, update {step}\n{sentence}"
                tag = f"{kind.slug}/probe_{number}_layer_{layer}"
                pictures = {tag: draw_heads(attention, kind, layer, title)}
                if attention.weights[kind.name].shape[1] > 1:
                    pictures[f"{tag}/mean"] = draw_mean(attention, kind, layer, title)
                for name, figure in pictures.items():
                    self._events.image(name, render_png(figure), step)

    def close(self) -> None:
        """See `NoJournal.close`."""
        self._events.close()
