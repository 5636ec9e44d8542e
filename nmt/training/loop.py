"""The training loop: update, report, evaluate, save, stop, resume."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from nmt.config import Config
from nmt.data.batches import Batch, Batches
from nmt.data.splitting import Pair, evenly
from nmt.errors import UserError
from nmt.inference.metrics import corpus_scores
from nmt.inference.results import Attention
from nmt.inference.translator import Translator
from nmt.model.contract import Model
from nmt.runs.checkpoint import write_arrays
from nmt.runs.folder import RunFolder
from nmt.training.journal import Journal, TrainingWindow, Validation
from nmt.training.schedule import Limits, dropout_share, learning_rate
from nmt.training.step import Step, Update

LINE_SECONDS = 30  # between two log lines where no progress bar can be shown


@dataclass
class Position:
    """Where a run stands: all that a checkpoint holds beside arrays."""

    step: int = 0  # updates made
    seconds: float = 0.0  # wall clock, all sessions together
    evaluations: int = 0
    best_score: float | None = None  # dev BLEU
    best_step: int = 0
    since_best: int = 0  # evaluations without a better score


@dataclass
class _Window:
    """Updates since the last report; device values are read when the report is made."""

    updates: list[Update] = field(default_factory=list)
    real: int = 0  # tokens, both sides
    positions: int = 0  # both sides
    seconds: float = 0.0

    def add(self, update: Update, batch: Batch) -> None:
        self.updates.append(update)
        for side in ("source_segments", "target_segments"):
            self.real += int(np.count_nonzero(batch[side]))
            self.positions += batch[side].size


class Trainer:
    """Trains a model into a run folder.

    Args:
        run: the folder; if it holds a checkpoint, training goes on from there.
        config: the run's configuration.
        model: the model, freshly built.
        step: its compiled update.
        batches: training batches.
        dev_batches: validation batches; None without a dev split.
        dev: the dev pairs that are translated at an evaluation.
        translator: translates with `model`.
        console: where progress is shown.
        summary: of data and model, for TensorBoard.
    """

    def __init__(
        self,
        *,
        run: RunFolder,
        config: Config,
        model: Model,
        step: Step,
        batches: Batches,
        dev_batches: Batches | None,
        dev: Sequence[Pair],
        translator: Translator,
        console: Console,
        summary: str,
    ) -> None:
        self._run = run
        self._config = config
        self._training = config.training
        self._model = model
        self._step = step
        self._batches = batches
        self._dev_batches = dev_batches
        self._dev = dev
        self._translator = translator
        self._console = console
        self._limits = Limits.of(config.training)
        self.position = Position()

        stored = run.checkpoints.latest()
        if stored is not None:
            arrays, metadata = stored
            step.restore(arrays)
            self.position = Position(**metadata)
            console.print(f"resumed {run.path} after update {self.position.step}")
        self._evaluated = self.position.step  # the last update that was evaluated
        self._ticked = time.monotonic()
        self._journal = Journal(run, resumed_at=None if stored is None else self.position.step)
        if stored is None:
            self._journal.log_configuration(config, summary)

    def train(self) -> bool:
        """Train to the end, or until a signal asks to stop.

        Either way the last state is saved, so that a later session goes on from it.

        Returns:
            Whether the run is complete.

        Raises:
            UserError: the loss is no longer finite.
        """
        position, training = self.position, self._training
        window = _Window()
        spoken = self._ticked = time.monotonic()
        with _await_stop_requests() as stop, self._make_bar() as bar:
            task = bar.add_task("", total=1.0, step=position.step, loss="–", speed="–", left="–")
            while not self._is_complete() and not stop.is_set():
                rate = learning_rate(training, position.step + 1, self._progress())
                batch = self._batches.batch(position.step)
                share = dropout_share(training, position.step / self._batches.steps_per_epoch)
                position.step += 1
                window.add(self._step.update(batch, rate, position.step, share), batch)
                if position.step % training.log_every == 0:
                    nll = self._read(window)  # waits for the device
                    window.seconds += self._tick()
                    measured = self._measure(window, nll, rate)
                    self._journal.log_window(position.step, position.seconds, measured)
                    window = _Window()
                    bar.update(task, completed=self._progress(), **self._format(measured))
                    if not self._console.is_terminal and self._ticked - spoken > LINE_SECONDS:
                        spoken = self._ticked
                        self._console.print(self._format_line(measured))
                else:
                    window.seconds += self._tick()
                if position.step % training.evaluate_every == 0:
                    self._evaluate()
                    self._tick()
                    self._save()
                elif position.step % training.attention_every == 0 and not self._is_complete():
                    with self._step.use_averages():
                        self._journal.log_attention(position.step, list(self._read_probes()))
                    self._tick()
            complete = self._is_complete()
            if complete and self._evaluated != position.step:
                self._evaluate()
                self._tick()
        if position.step not in self._run.checkpoints.steps():
            self._save()
        self._journal.close()
        return complete

    def _tick(self) -> float:
        """Count the wall-clock seconds since the last tick."""
        now = time.monotonic()
        elapsed, self._ticked = now - self._ticked, now
        self.position.seconds += elapsed
        return elapsed

    def _progress(self) -> float:
        steps, seconds = self.position.step, self.position.seconds
        return self._limits.progress(steps, self._batches.steps_per_epoch, seconds)

    def _is_complete(self) -> bool:
        patience = self._training.early_stopping
        tired = patience is not None and self.position.since_best >= patience
        return tired or self._progress() >= 1

    def _read(self, window: _Window) -> float:
        """Return nats per target token over a window."""
        nll = sum(float(update.nll) for update in window.updates)
        if not math.isfinite(nll):
            raise UserError(
                f"the loss is not finite before update {self.position.step}: lower "
                "training.learning_rate, or set training.precision=float32; the last checkpoint "
                f"in {self._run.path} is intact"
            )
        return nll / sum(float(update.tokens) for update in window.updates)

    def _measure(self, window: _Window, nll: float, rate: float) -> TrainingWindow:
        return TrainingWindow(
            nll=nll,
            learning_rate=rate,
            gradient_norm=float(window.updates[-1].gradient_norm),
            tokens_per_second=window.real / window.seconds,
            padding=1 - window.real / window.positions,
            epoch=self.position.step / self._batches.steps_per_epoch,
        )

    def _evaluate(self) -> None:
        """Validate with the averaged weights; keep them if they are the best so far."""
        position = self.position
        position.evaluations += 1
        self._evaluated = position.step
        with self._step.use_averages():
            found = self._validate()
            self._journal.log_validation(position.step, position.seconds, found)
            score = found.scores[0].value if found.scores else None
            better = score is not None and (
                position.best_score is None or score > position.best_score
            )
            if better:
                position.best_score, position.best_step = score, position.step
                weights = self._model.named_weights()
                write_arrays(
                    self._run.checkpoints.best,
                    {f"model/{name}": np.asarray(weight) for name, weight in weights.items()},
                    asdict(position),
                )
        position.since_best = 0 if better or score is None else position.since_best + 1
        scores = ", ".join(f"{score.name} {score.value:.2f}" for score in found.scores)
        self._console.print(
            f"update {position.step}, {position.seconds / 60:.1f} min: dev loss {found.nll:.3f}"
            + (f", {scores}" if scores else "")
            + (" (best)" if better else "")
        )

    def _validate(self) -> Validation:
        nll, tokens = 0.0, 0.0
        if self._dev_batches is not None:
            for batch in self._dev_batches.in_order():
                more_nll, more_tokens = self._step.evaluate(batch)
                nll, tokens = nll + more_nll, tokens + more_tokens
        sources = [pair.source for pair in self._dev]
        outputs = self._translator.translate(sources, beam_size=1)
        scores = []
        if self._dev:
            references = [pair.target for pair in self._dev]
            scores = corpus_scores(outputs, references, names=("BLEU", "chrF2++"))
        samples = evenly(list(zip(self._dev, outputs, strict=True)), self._training.samples)
        return Validation(
            nll=nll / tokens if tokens else math.nan,
            scores=scores,
            samples=samples,
            probes=list(self._read_probes()),
            draw=(self.position.evaluations - 1) % self._training.probe_every == 0,
        )

    def _read_probes(self) -> Iterator[tuple[str, Attention]]:
        sentences = self._training.probes
        found = self._translator.hypotheses(sentences, beam_size=1)
        for sentence, best in zip(sentences, found, strict=True):
            attention = self._translator.attention(sentence, best[0]) if best else None
            if attention is not None:
                yield sentence, attention

    def _save(self) -> None:
        checkpoints = self._run.checkpoints
        checkpoints.save(self.position.step, self._step.state(), asdict(self.position))

    def _make_bar(self) -> Progress:
        return Progress(
            TextColumn("update {task.fields[step]}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("loss {task.fields[loss]}  {task.fields[speed]} tokens/s"),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}"),
            console=self._console,
            disable=not self._console.is_terminal,
            refresh_per_second=2,
        )

    def _format(self, measured: TrainingWindow) -> dict[str, Any]:
        progress = self._progress()
        left = self.position.seconds * (1 - progress) / progress if progress else 0.0
        return {
            "step": self.position.step,
            "loss": f"{measured.nll:.3f}",
            "speed": f"{measured.tokens_per_second:,.0f}",
            "left": f"{int(left) // 3600}:{int(left) // 60 % 60:02d}:{int(left) % 60:02d}",
        }

    def _format_line(self, measured: TrainingWindow) -> str:
        shown = self._format(measured)
        return (
            f"update {shown['step']} ({self._progress():.0%}), epoch {measured.epoch:.1f}: loss "
            f"{shown['loss']}, {shown['speed']} tokens/s, left {shown['left']}"
        )


@contextlib.contextmanager
def _await_stop_requests() -> Iterator[threading.Event]:
    """Turn the first SIGINT or SIGTERM into an event; a second one stops at once, as usual."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, previous[signal.Signals(number)])

    for number in previous:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
