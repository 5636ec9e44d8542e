"""Everything a run shows: TensorBoard, ``metrics.jsonl`` and the sample translations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nmt.analysis.heads.statistics import summarize_probes
from nmt.analysis.pictures.heatmaps import draw_kind, render_png
from nmt.config import Config, files
from nmt.config.schema import flatten
from nmt.data.splitting import Pair
from nmt.errors import attach_filename
from nmt.inference.metrics import Score
from nmt.inference.results import Attention
from nmt.runs.folder import RunFolder
from nmt.training.events import EventWriter
from nmt.viewer import records

# A picture takes hundreds of times as long as its numbers, and fifty times the bytes: the Images
# dashboard has those of the first probes only, the Attention dashboard the numbers of all.
DRAWN_PROBES = 2


@dataclass(frozen=True)
class TrainingWindow:
    """What happened since the last report."""

    nll: float  # nats per target token; NaN where every update was skipped
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float  # real source and target tokens
    padding: float  # share of positions that held no token
    epoch: float
    skipped: int  # updates of the whole run that were unsound, and not made


@dataclass(frozen=True)
class Validation:
    """What one evaluation found."""

    nll: float  # nats per target token
    scores: Sequence[Score]  # on greedy translations; empty without dev sentences
    samples: Sequence[tuple[Pair, str]]
    probes: Sequence[tuple[str, Attention]]
    draw: bool  # whether the attention of the first probes is drawn, too

    def values(self) -> dict[str, float]:
        """Return the numbers, by TensorBoard's tags."""
        values = {"dev/loss": self.nll, "dev/perplexity": perplexity(self.nll)}
        values |= {f"dev/{score.name}": score.value for score in self.scores}
        return values | summarize_probes([attention for _, attention in self.probes])


def perplexity(nll: float) -> float:
    """exp of the mean negative log-likelihood; infinite where that overflows."""
    return math.exp(nll) if nll < 700 else math.inf


class NoJournal:
    """Takes what the loop measures, and leaves it to the process that writes."""

    def log_configuration(self, config: Config, summary: str) -> None:
        """Show the configuration (as text and as hparams) and a summary of data and model."""

    def log_window(self, step: int, seconds: float, window: TrainingWindow) -> None:
        """Report a stretch of training."""

    def log_scores(self, step: int, seconds: float, validation: Validation) -> None:
        """Write the numbers of an evaluation into ``metrics.jsonl``."""

    def log_validation(self, step: int, validation: Validation) -> None:
        """Show an evaluation in TensorBoard: scores, sample translations, attention of probes."""

    def log_attention(self, step: int, probes: Sequence[tuple[str, Attention]]) -> None:
        """Log the attention of the probes for the Attention dashboard."""

    def rewind(self, step: int) -> None:
        """Drop what was reported after update ``step``."""

    def close(self) -> None:
        """Finish writing."""


class Journal(NoJournal):
    """Writes what the loop measures into a run folder.

    Args:
        run: the folder.
        resumed_at: the update a resumed run goes on from: what was reported beyond it is dropped.
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
        """Drop what was reported after update ``step``."""
        self.close()
        self._open(step)

    def log_configuration(self, config: Config, summary: str) -> None:
        """Show the configuration (as text and as hparams) and a summary of data and model."""
        for tag, text in (("configuration", files.to_yaml(config)), ("summary", summary)):
            indented = "\n".join(f"    {line}" for line in text.splitlines())
            self._events.text(tag, indented, 0)
        self._events.hparams(dict(flatten(config)), [])
        self._events.flush()

    def log_window(self, step: int, seconds: float, window: TrainingWindow) -> None:
        """Report a stretch of training."""
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
        """Write the numbers of an evaluation into ``metrics.jsonl``."""
        self._append_metrics(step, seconds, validation.values())

    def log_validation(self, step: int, validation: Validation) -> None:
        """Show an evaluation in TensorBoard: scores, sample translations, attention of probes."""
        self._log_scalars(step, validation.values())
        for score in validation.scores:
            self._events.text(f"signature/{score.name}", f"`{score.signature}`", step)
        if validation.samples:
            self._log_samples(step, validation.samples)
        if validation.draw:
            drawn = validation.probes[:DRAWN_PROBES]
            for number, (sentence, attention) in enumerate(drawn, start=1):
                self._draw_heatmaps(step, number, sentence, attention)
        self.log_attention(step, validation.probes)

    def log_attention(self, step: int, probes: Sequence[tuple[str, Attention]]) -> None:
        """Log the attention of the probes for the Attention dashboard."""
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
                title = f"{kind.title}, layer {layer}, update {step}: {sentence}"
                figure = draw_kind(attention, kind, layer, title)
                tag = f"{kind.slug}/probe_{number}_layer_{layer}"
                self._events.image(tag, render_png(figure), step)

    def close(self) -> None:
        """Finish writing."""
        self._events.close()
