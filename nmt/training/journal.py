"""The records of a run: TensorBoard, ``metrics.jsonl`` and the sample translations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nmt.analysis.heads.statistics import summarize_probes
from nmt.analysis.pictures.files import render_png
from nmt.analysis.pictures.heatmaps import draw_heads, draw_mean
from nmt.analysis.tables import escape_markdown
from nmt.config import Config, files
from nmt.config.schema import flatten
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.inference.metrics import Score
from nmt.inference.perplexity import perplexity
from nmt.inference.results import Attention
from nmt.runs.folder import RunFolder
from nmt.runs.samples import Sample, write_samples
from nmt.training.events import EventWriter
from nmt.training.report import Report
from nmt.viewer import records

# Only the first probes are drawn for the Images dashboard: a picture takes hundreds of times the
# time of its numbers, and fifty times the bytes. The Attention dashboard has those of all probes.
DRAWN_PROBES = 2


@dataclass(frozen=True)
class DevEvaluation:
    """The results of one evaluation."""

    nll: float | None  # nats per target token; None without a dev pair that fits into a row
    scores: Sequence[Score]  # on greedy translations; empty without dev sentences
    outputs: Sequence[tuple[Pair, str]]  # of all dev sentences that are translated
    samples: Sequence[tuple[Pair, str]]  # some of them
    probes: Sequence[tuple[str, Attention]]
    draw: bool  # whether the attention of the first probes is also drawn
    references: Mapping[str, str] = field(default_factory=dict)  # by probe, as far as known

    def values(self) -> dict[str, float]:
        """Return the numbers by their TensorBoard tags."""
        values = {}
        if self.nll is not None:
            values = {"dev/loss": self.nll, "dev/perplexity": perplexity(self.nll)}
        values |= {f"dev/{score.name}": score.value for score in self.scores}
        return values | summarize_probes([attention for _, attention in self.probes])


class Journal:
    """Takes the results of training and writes nothing: for all processes but the main one."""

    def log_configuration(self, config: Config, summary: str, step: int) -> None:
        """Show the configuration (as text and as hparams) and a summary of data and model.

        TensorBoard keeps the first hparams of a run, so a resumed run writes none.

        Args:
            config: of the run.
            summary: of data and model.
            step: the update that the run is resumed from; 0: it is new.
        """

    def log_report(self, step: int, seconds: float, report: Report) -> None:
        """Record the measurements since the last report."""

    def append_metrics(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Append values by their TensorBoard tags to ``metrics.jsonl``."""

    def append_outputs(self, step: int, outputs: Sequence[tuple[Pair, str]]) -> None:
        """Append the dev translations of an evaluation to ``dev_outputs.jsonl``."""

    def show_in_tensorboard(self, step: int, evaluation: DevEvaluation) -> None:
        """Show an evaluation in TensorBoard: scores, sample translations, attention of probes."""

    def log_attention(
        self,
        step: int,
        probes: Sequence[tuple[str, Attention]],
        references: Mapping[str, str],
    ) -> None:
        """Log the attention of the probes, and their references, for the Attention dashboard.

        Raises:
            UserError: weights are not within 0 and 1, or do not fit the tokens.
        """

    def rewind(self, step: int) -> None:
        """Drop the reports after update ``step``."""

    def close(self) -> None:
        """Flush and close the files."""


class RunJournal(Journal):
    """Writes the measurements of the training loop into a run folder.

    Args:
        run: the run folder.
        resumed_at: the update that a run is resumed from; records of later ones are dropped.
    """

    def __init__(self, run: RunFolder, resumed_at: int | None = None) -> None:
        self._run = run
        self._open(resumed_at)

    def _open(self, resumed_at: int | None) -> None:
        if resumed_at is not None:
            self._run.metrics.drop_after(resumed_at)
            self._run.dev_outputs.drop_after(resumed_at)
        self._recorded_pairs: list[Pair] | None = None  # those of the last record of outputs
        purge = None if resumed_at is None else resumed_at + 1
        self._events = EventWriter(self._run.logs, purge_step=purge)

    def rewind(self, step: int) -> None:
        """Drop the reports after update ``step``."""
        self.close()
        self._open(step)

    def log_configuration(self, config: Config, summary: str, step: int) -> None:
        """See `Journal.log_configuration`."""
        for tag, text in (("configuration", files.to_yaml(config)), ("summary", summary)):
            indented = "\n".join(f"    {line}" for line in text.splitlines())
            self._events.text(tag, indented, step)
        if not step:
            self._events.hparams(dict(flatten(config)))
        self._events.flush()

    def log_report(self, step: int, seconds: float, report: Report) -> None:
        """See `Journal.log_report`."""
        values = {
            "train/loss": report.nll,
            "train/perplexity": perplexity(report.nll),
            "train/learning_rate": report.learning_rate,
            "train/gradient_norm": report.gradient_norm,
            "train/epoch": report.epoch,
            "train/skipped_updates": report.skipped,
            "speed/tokens_per_second": report.tokens_per_second,
            "speed/padding_share": report.padding,
        }
        self.append_metrics(step, seconds, values)
        self._log_scalars(step, values)
        self._events.flush()

    def append_metrics(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """See `Journal.append_metrics`."""
        self._run.metrics.append({"step": step, "seconds": round(seconds, 3), **values})

    def append_outputs(self, step: int, outputs: Sequence[tuple[Pair, str]]) -> None:
        """See `Journal.append_outputs`; the pairs are repeated only if they may have changed."""
        if not outputs:
            return
        pairs = [pair for pair, _ in outputs]
        repeated = {} if pairs == self._recorded_pairs else {"pairs": pairs}
        record = {"step": step, **repeated, "outputs": [output for _, output in outputs]}
        self._run.dev_outputs.append(record)
        self._recorded_pairs = pairs

    def show_in_tensorboard(self, step: int, evaluation: DevEvaluation) -> None:
        """See `Journal.show_in_tensorboard`."""
        self._log_scalars(step, evaluation.values())
        for score in evaluation.scores:
            self._events.text(f"signature/{score.name}", f"`{score.signature}`", step)
        if evaluation.samples:
            self._log_samples(step, evaluation.samples)
        if evaluation.draw:
            probes = evaluation.probes[:DRAWN_PROBES]
            for number, (sentence, attention) in enumerate(probes, start=1):
                self._draw_heatmaps(step, number, sentence, attention)
        self.log_attention(step, evaluation.probes, evaluation.references)

    def log_attention(
        self,
        step: int,
        probes: Sequence[tuple[str, Attention]],
        references: Mapping[str, str],
    ) -> None:
        """See `Journal.log_attention`."""
        for number, (sentence, attention) in enumerate(probes, start=1):
            try:
                record = records.encode(sentence, attention, references.get(sentence, ""))
            except ValueError as error:  # of an attention layer from Python
                raise UserError(
                    f"the attention of training.probes cannot be logged: {error}; "
                    "'training.probes=[]' logs none"
                ) from error
            self._events.blob(records.tag(number, sentence), record, step, plugin=records.PLUGIN)
        self._events.flush()

    def _log_scalars(self, step: int, values: Mapping[str, float]) -> None:
        for tag, value in values.items():
            if math.isfinite(value):
                self._events.scalar(tag, value, step)

    def _log_samples(self, step: int, samples: Sequence[tuple[Pair, str]]) -> None:
        rows = [
            # Bytes that the model predicts can be tabs and line breaks.
            Sample(pair.source, pair.target, " ".join(output.split()))
            for pair, output in samples
        ]
        table = ["| source | reference | output |", "|---|---|---|"]
        table += [f"| {' | '.join(map(escape_markdown, row))} |" for row in rows]
        self._events.text("samples", "\n".join(table), step)
        write_samples(self._run.samples, step, rows)

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
        """See `Journal.close`."""
        self._events.close()
