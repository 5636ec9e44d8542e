"""The training loop: update, report, evaluate, save, stop, resume."""

from __future__ import annotations

import contextlib
import gc
import math
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from nmt.config import Config
from nmt.data.batches import Batch, BatchPlan, RowSelection
from nmt.data.splitting import Pair, evenly
from nmt.errors import UserError
from nmt.files import replace_atomically
from nmt.inference.metrics import corpus_scores
from nmt.inference.results import Attention
from nmt.inference.translator import Translator
from nmt.model.contract import Model
from nmt.runs.checkpoint import STABILITY_ADVICE, read_arrays, write_arrays
from nmt.runs.folder import RunFolder
from nmt.sweeps.median_stopping import is_behind
from nmt.training.cadence import ATTENTION_PART, EVALUATION_PART, Cadence
from nmt.training.fitting import is_out_of_memory, split_further
from nmt.training.journal import Journal, NoJournal, TrainingWindow, Validation
from nmt.training.prefetching import Prefetcher
from nmt.training.process_group import ProcessGroup
from nmt.training.schedule import Limits, dropout_share, learning_rate
from nmt.training.step import Step, Update, list_micro_batches

STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
UNSOUND = "unsound_update"  # names the files that say what was wrong with one
MEDIAN_OF = 11  # reports, whose gradient norms say what is usual
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
    skipped: int = 0  # updates that were unsound, and not made
    skipped_in_row: int = 0  # of them, those since the last one that was made
    norms: list[float] = field(default_factory=list)  # of gradients, in the last reports
    order: int = 0  # of the batches: how often training went back
    stage: int = 0  # of ``data.stages``, from 0
    stage_step: int = 0  # updates made before it
    stage_seconds: float = 0.0  # spent before it
    stage_epochs: float = 0.0  # made before it
    stage_progress: float = 0.0  # share of the run before it
    behind: bool = False  # whether it has fallen behind the runs beside it, and ends
    evaluation: Cadence = field(default_factory=Cadence)
    attention: Cadence = field(default_factory=Cadence)

    def __post_init__(self) -> None:
        """Take cadences as a checkpoint has them."""
        for name in ("evaluation", "attention"):
            value = getattr(self, name)
            if isinstance(value, dict):
                setattr(self, name, Cadence(**value))


@dataclass
class _Window:
    """Updates since the last report; device values are read when the report is made."""

    updates: list[Update] = field(default_factory=list)
    spiked: bool = False  # whether one that was looked at was skipped although it was finite
    counted: int = 0  # of them, those whose soundness was looked at
    made: list[Update] = field(default_factory=list)  # of these, those that were sound
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
        stages: training batches of each stage; there is at least one.
        dev_batches: validation batches; None without a dev split.
        dev: the dev pairs that are translated at an evaluation.
        translator: translates with `model`.
        process_group: who trains together; the process that writes does so alone.
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
        stages: Sequence[BatchPlan],
        dev_batches: BatchPlan | None,
        dev: Sequence[Pair],
        translator: Translator,
        process_group: ProcessGroup,
        console: Console,
        summary: str,
    ) -> None:
        self._run = run
        self._config = config
        self._training = config.training
        self._model = model
        self._step = step
        self._stages = stages
        self._dev_batches = dev_batches
        self._dev = dev
        self._translator = translator
        self._process_group = process_group
        self._console = console
        self._limits = Limits.from_config(config.training)
        self.position = Position()

        stored = run.checkpoints.load_latest(console.print)
        if stored is not None:
            arrays, metadata = stored
            step.restore(arrays)
            self.position = Position(**metadata)
            console.print(f"resumed {run.path} after update {self.position.step}")
            self._mend_best()
        self._evaluated = self.position.step  # the last update that was evaluated
        self._saved = None if stored is None else self.position.step  # the last that was saved
        self._returns = 0  # to the last checkpoint
        self._ticked = time.monotonic()
        self._clock = self.position.seconds  # of this process: `position.seconds` is of all
        # What interruptions cost is known after the first one of a session, which compiles.
        self._writing_seconds: float | None = None  # of an evaluation, after its checkpoint
        self._attention_compiled = False
        self._continued = self.position.step, self.position.seconds  # after the last interruption
        self._prefetcher = Prefetcher(self._lay_out)
        self._window = _Window()
        self._made: set[tuple[int, ...]] = set()  # shapes of batches that there was room for
        self.stopped_by: int | None = None  # the signal, if one ended the training
        self._journal = self._open_journal(None if stored is None else self.position.step)
        if stored is None:
            self._journal.log_configuration(config, summary)

    def train(self) -> bool:
        """Train to the end, or until a signal asks to stop.

        Either way the last state is saved, so that a later session goes on from it.

        Returns:
            Whether the run is complete.

        Raises:
            UserError: there is no sound update any more, or no sound evaluation.
        """
        spoken = self._ticked = time.monotonic()
        with (
            _await_stop_requests() as stop,
            _collect_quickly(),
            self._prefetcher,
            self._make_bar() as bar,
        ):
            task = bar.add_task(
                "", total=1.0, step=self.position.step, loss="–", speed="–", left="–"
            )

            def show(measured: TrainingWindow) -> None:
                nonlocal spoken
                bar.update(task, completed=self._progress(), **self._format(measured))
                if not self._console.is_terminal and self._ticked - spoken > LINE_SECONDS:
                    spoken = self._ticked
                    self._console.print(self._format_line(measured))

            self._agree(stop)
            while not self._is_over():
                with self._making_room():
                    self._go_on(stop, show)
        complete = self._is_complete()
        self.stopped_by = None if complete else self.stopped_by
        if self._saved != self.position.step:
            self._save()
        self._journal.close()
        return complete

    def _is_over(self) -> bool:
        if self._is_complete():
            return self._evaluated == self.position.step
        return self.stopped_by is not None and not self._is_evaluation_due()

    def _is_evaluation_due(self) -> bool:
        step, every = self.position.step, self._training.evaluate_every
        return self.position.evaluation.is_due(step, every) and step != self._evaluated

    def _go_on(self, stop: _StopRequest, show: Callable[[TrainingWindow], None]) -> None:
        """Make an update, and what is due after it."""
        if self._is_complete() or self._is_evaluation_due():
            self._evaluate()  # which had no room, or is the last
            return
        self._enter_stage()
        training, position = self._training, self.position
        rate = learning_rate(training, position.step + 1, self._progress())
        self._update(rate)
        reports = position.step % training.log_every == 0
        evaluates = self._is_evaluation_due()
        if (reports or evaluates) and self._went_back():
            self._agree(stop)
            return
        if reports:
            measured = self._close_window(rate)
            self._journal.log_window(position.step, position.seconds, measured)
            show(measured)
        else:
            self._window.seconds += self._tick()
        if evaluates:
            self._evaluate()
        elif self._is_attention_due() and not self._is_complete():
            self._log_attention()
        if self._process_group.processes == 1 or reports or evaluates:
            self._agree(stop)

    def _open_journal(self, resumed_at: int | None) -> NoJournal:
        return (
            Journal(self._run, resumed_at=resumed_at)
            if self._process_group.is_main_process
            else NoJournal()
        )

    def _tick(self) -> float:
        """Count the wall-clock seconds since the last tick."""
        now = time.monotonic()
        elapsed, self._ticked = now - self._ticked, now
        self._clock += elapsed
        if self._process_group.processes == 1:
            self.position.seconds = self._clock
        return elapsed

    def _agree_on_clock(self) -> None:
        """Count the time until now; the clock of process 0 wins."""
        self._tick()
        self._clock = self.position.seconds = self._process_group.all_gather(self._clock)[0]

    def _measure_update(self) -> float:
        """Return the seconds of an update since the last interruption; 0 without an update."""
        step, seconds = self._continued
        updates = self.position.step - step
        return (self.position.seconds - seconds) / updates if updates else 0.0

    def _agree(self, stop: _StopRequest) -> None:
        """Synchronise clocks and stop requests among processes; the clock of process 0 wins."""
        said = self._process_group.all_gather((self._clock, stop.number))
        self._clock = self.position.seconds = said[0][0]
        numbers = [number for _, number in said if number is not None]
        self.stopped_by = numbers[0] if numbers else None

    def _norm_limit(self) -> float:
        """Return the norm of a gradient from which it counts as a spike."""
        factor, norms = self._training.spike_factor, self.position.norms
        if factor is None or len(norms) < MEDIAN_OF:
            return math.inf
        return factor * statistics.median(norms)

    def _progress(self) -> float:
        position = self.position
        return self._limits.progress(position.step, self._epochs(position.step), position.seconds)

    def _epochs(self, step: int) -> float:
        """Return how often the corpus, that of each stage, was gone through in so many updates."""
        position = self.position
        made = step - position.stage_step
        return position.stage_epochs + made / self._stages[position.stage].steps_per_epoch

    def _update(self, rate: float) -> None:
        """Make the next update."""
        position = self.position
        batch, share = self._plan(position.step, self._step.local_rows)
        number, shape = position.step + 1, batch["labels"].shape
        # The first one of a shape shows whether there is room for it; it may leave nothing behind.
        before = None if shape in self._made else self._step.state()
        try:
            update = self._step.update(batch, rate, number, share, self._norm_limit())
            if before is not None:
                float(update.nll)  # waits for it: what there is no room for may be told only now
        except Exception as error:
            if before is not None and is_out_of_memory(error):
                self._step.restore(before)
            raise
        self._made.add(shape)
        position.step = number
        self._window.add(update, batch)

    @contextlib.contextmanager
    def _making_room(self) -> Iterator[None]:
        """Go on with smaller micro-batches where memory runs out."""
        try:
            yield
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            self._split_further(error)

    def _split_further(self, error: Exception) -> None:
        """Halve the micro-batches, now and when the run is gone on with.

        Raises:
            UserError: that cannot be done here.
        """
        training = split_further(self._training)
        step = self.position.step
        whole = self._step.is_intact()
        stored = None if whole else self._run.checkpoints.load_latest(self._console.print)
        if self._process_group.processes > 1 or not (whole or stored):
            raise UserError(
                f"out of memory after update {step}; start a new run with "
                f"training.accumulate={training.accumulate} "
                f"training.batch_tokens={training.batch_tokens}"
            ) from error
        self._step.reconfigure(training)
        self._made.clear()
        self._training = training
        self._config = replace(self._config, training=training)
        self._run.write_config(self._config)
        if stored is not None:
            self._go_back(stored, self.position.order)
        self._console.print(
            f"out of memory after update {step}; going on from update {self.position.step} with "
            f"micro-batches of {training.batch_tokens} positions a side, {training.accumulate} an "
            "update"
        )

    def _plan(self, step: int, local_rows: RowSelection | None = None) -> tuple[Batch, float]:
        """Return the batch of the update after ``step``, of this stage, and its dropout share."""
        position = self.position
        address = position.stage, step - position.stage_step, position.order, local_rows
        return self._prefetcher.get(address), dropout_share(self._training, self._epochs(step))

    def _lay_out(self, stage: int, step: int, order: int, local_rows: RowSelection | None) -> Batch:
        return self._stages[stage].batch(step, order, local_rows)

    def _is_complete(self) -> bool:
        in_last = self.position.stage == len(self._stages) - 1
        tired = in_last and self._is_tired()
        return tired or self.position.behind or self._progress() >= 1

    def _is_tired(self) -> bool:
        patience = self._training.early_stopping
        return patience is not None and self.position.since_best >= patience

    def _enter_stage(self) -> None:
        """Go on to the next stage where one has come to its end.

        That depends on what a checkpoint holds alone, so that a resumed run does the same.
        """
        position = self.position
        while position.stage < len(self._stages) - 1:
            stage = self._config.data.stages[position.stage]
            ended = self._is_tired()
            if stage.steps is not None:
                ended |= position.step - position.stage_step >= stage.steps
            if stage.share is not None:
                ended |= self._progress() - position.stage_progress >= stage.share
            if stage.minutes is not None:
                ended |= position.seconds - position.stage_seconds >= 60 * stage.minutes
            if stage.plateau is not None:
                ended |= position.since_best >= stage.plateau
            if not ended:
                return
            self._count_skipped()  # what is looked at later is of one stage
            position.stage_progress = self._progress()
            position.stage_epochs = self._epochs(position.step)
            position.stage += 1
            position.stage_step, position.stage_seconds = position.step, position.seconds
            position.since_best = 0
            self._console.print(
                f"update {position.step}: stage {position.stage + 1} of {len(self._stages)}"
            )

    def _count_skipped(self) -> None:
        """Count the updates that were not made since this was last asked; waits for the device.

        Raises:
            UserError: too many in a row.
        """
        window, position = self._window, self.position
        first = position.step - len(window.updates) + 1
        before = position.skipped
        for number in range(window.counted, len(window.updates)):
            if not bool(window.updates[number].skipped):
                position.skipped_in_row = 0
                window.made.append(window.updates[number])
                continue
            window.spiked |= bool(np.isfinite(window.updates[number].gradient_norm))
            position.skipped += 1
            position.skipped_in_row += 1
            if position.skipped_in_row == self._training.max_skipped:
                self._give_up(first + number)
        if position.skipped > before:
            self._console.print(
                f"update {position.step}: {position.skipped - before} of the last "
                f"{len(window.updates) - window.counted} updates skipped, {self._why_skipped()}"
            )
        window.counted = len(window.updates)

    def _went_back(self) -> bool:
        """Go back to the last checkpoint after a spike, if that is wished; return whether.

        What is killed before the next checkpoint comes here again, and goes back as often.

        Raises:
            UserError: every order there ends in a spike, or no checkpoint is sound.
        """
        if self._training.on_spike != "go_back":
            return False
        self._count_skipped()
        if not self._window.spiked:
            return False
        stored = self._run.checkpoints.load_latest(self._console.print)
        if stored is None:
            return False  # it is skipped
        spiked = self.position.step
        self._go_back(stored, order=self.position.order + 1)
        self._returns += 1
        if self._returns > self._training.max_skipped:
            raise UserError(
                f"training went back to update {self.position.step} {self._training.max_skipped} "
                f"times, and there was a spike every time: {STABILITY_ADVICE}, or a larger "
                "training.spike_factor; what was saved before is intact"
            )
        self._console.print(
            f"update {spiked}: a spike of the gradient; going back to update {self.position.step}, "
            "and on with another order"
        )
        return True

    def _go_back(self, stored: tuple[dict[str, np.ndarray], dict[str, Any]], order: int) -> None:
        """Go back to a checkpoint, and on from there with an order of the batches."""
        arrays, metadata = stored
        self._step.restore(arrays)
        changed = {"order": order, "seconds": self.position.seconds}
        self.position = Position(**metadata | changed)
        self._window = _Window()
        self._evaluated = self.position.step
        self._continued = self.position.step, self.position.seconds
        self._journal.close()
        self._journal = self._open_journal(self.position.step)
        self._tick()

    def _give_up(self, step: int) -> NoReturn:
        """Write down what is known of an update that cannot be made, and stop."""
        batch, share = self._plan(step - 1)
        path = self._run.path / f"{UNSOUND}_{step:08d}.npz"
        norms = self._step.gradient_norms(batch, step, share)
        if self._process_group.is_main_process:
            with replace_atomically(path) as file:
                np.savez(file, **batch)  # type: ignore[arg-type]
            self._run.write_json(f"{path.stem}.json", {"step": step, "gradient_norms": norms})
        raise UserError(
            f"{self._training.max_skipped} updates in a row skipped, the last of them update "
            f"{step}, {self._why_skipped()}: {STABILITY_ADVICE}; {path} has its batch, and the "
            "file beside it the gradient norm of each weight; what was saved before is intact"
        )

    def _why_skipped(self) -> str:
        spike = "" if self._training.spike_factor is None else ", or beyond training.spike_factor"
        return f"with a loss or gradient that was not finite{spike}"

    def _close_window(self, rate: float) -> TrainingWindow:
        """Return what happened since the last report, and begin anew."""
        self._count_skipped()
        window, self._window = self._window, _Window()
        window.seconds += self._tick()
        made = window.made
        norms = [*self.position.norms, *(float(update.gradient_norm) for update in made[-1:])]
        self.position.norms = norms[-MEDIAN_OF:]
        # Each process has counted its own rows.
        every = self._process_group.all_gather((window.real, window.positions))
        real, positions = (sum(counts) for counts in zip(*every, strict=True))
        tokens = sum(float(update.tokens) for update in made)
        nll = sum(float(update.nll) for update in made) / tokens if made else math.nan
        return TrainingWindow(
            nll=nll,
            learning_rate=rate,
            gradient_norm=float(window.updates[-1].gradient_norm),
            tokens_per_second=real / window.seconds,
            padding=1 - real / positions,
            epoch=self._epochs(self.position.step),
            skipped=self.position.skipped,
        )

    def _evaluate(self) -> None:
        """Validate with the averaged weights, save, and show; keep them if they are the best.

        Scores are written before the checkpoint, and pictures, which take long, after it.
        """
        self._count_skipped()
        self._agree_on_clock()
        position, began = self.position, self.position.seconds
        update_seconds = self._measure_update()
        with self._step.use_averages():
            validation = self._validate()
        position.evaluations += 1
        self._evaluated = position.step
        self._journal.log_scores(position.step, position.seconds, validation)
        score = validation.scores[0].value if validation.scores else None
        better = score is not None and (position.best_score is None or score > position.best_score)
        if better:
            position.best_score, position.best_step = score, position.step
        position.since_best = 0 if better or score is None else position.since_best + 1
        position.behind = self._is_behind()
        scores = ", ".join(f"{score.name} {score.value:.2f}" for score in validation.scores)
        self._console.print(
            f"update {position.step}, {position.seconds / 60:.1f} min: dev loss "
            f"{validation.nll:.3f}"
            + (f", {scores}" if scores else "")
            + (" (best)" if better else "")
        )
        self._agree_on_clock()
        validated, share = position.seconds, self._training.evaluation_share
        if share is not None and self._writing_seconds is not None:
            cost, every = validated - began + self._writing_seconds, self._training.evaluate_every
            position.evaluation.adapt(every, EVALUATION_PART * share, cost, update_seconds)
        position.evaluation.schedule(position.step)
        self._save()
        if better:
            self._keep_best()
        self._journal.log_validation(position.step, validation)
        gc.collect()  # figures are cycles, and hold their pictures until they are found
        self._agree_on_clock()
        self._writing_seconds = position.seconds - validated
        self._continued = position.step, position.seconds

    def _is_attention_due(self) -> bool:
        return self.position.attention.is_due(self.position.step, self._training.attention_every)

    def _log_attention(self) -> None:
        """Log the attention of the probes between two evaluations."""
        if self._window.updates:
            float(self._window.updates[-1].tokens)  # waits: the time of updates is not attention's
        self._agree_on_clock()
        position, began = self.position, self.position.seconds
        update_seconds = self._measure_update()
        with self._step.use_averages():
            self._journal.log_attention(position.step, self._read_probes())
        self._agree_on_clock()
        share = self._training.evaluation_share
        if share is not None and self._attention_compiled:
            cost, every = position.seconds - began, self._training.attention_every
            position.attention.adapt(every, ATTENTION_PART * share, cost, update_seconds)
        self._attention_compiled = True
        position.attention.schedule(position.step)
        self._continued = position.step, position.seconds

    def _is_behind(self) -> bool:
        """Return whether the runs beside this one leave it no chance; say so."""
        share = self._training.stop_behind
        if share is None:
            return False
        behind = self._process_group.all_gather(
            self._process_group.is_main_process and is_behind(self._run, share)
        )[0]
        if behind:
            self._console.print(f"update {self.position.step}: behind the runs beside it")
        return behind

    def _validate(self) -> Validation:
        nll, tokens = 0.0, 0.0
        if self._dev_batches is not None:
            for batch in self._dev_batches.in_order():
                for part in list_micro_batches(batch, self._training.accumulate):
                    more_nll, more_tokens = self._step.evaluate(part)
                    nll, tokens = nll + more_nll, tokens + more_tokens
        if not math.isfinite(nll):
            raise UserError(
                f"the loss is not finite on the dev split after update {self.position.step}: "
                f"{STABILITY_ADVICE}; what was saved before is intact"
            )
        sources = [pair.source for pair in self._dev]
        found = self._translator.translate(self._process_group.shard(sources), beam_size=1)
        outputs = self._process_group.gather_shards(found, len(sources))
        scores = []
        if self._dev:
            references = [pair.target for pair in self._dev]
            language = self._config.data.languages[1]
            scores = corpus_scores(
                outputs, references, language=language, names=("BLEU", "chrF2++")
            )
        samples = evenly(list(zip(self._dev, outputs, strict=True)), self._training.samples)
        return Validation(
            nll=nll / tokens if tokens else math.nan,
            scores=scores,
            samples=samples,
            probes=self._read_probes(),
            draw=self.position.evaluations % self._training.probe_every == 0,
        )

    def _read_probes(self) -> list[tuple[str, Attention]]:
        """Return the sentences to look into, and their attention, where that is written down."""
        sentences = (self._training.probes or []) if self._process_group.is_main_process else []
        found = self._translator.hypotheses(sentences, beam_size=1)
        probes = []
        for sentence, best in zip(sentences, found, strict=True):
            attention = self._translator.attention(sentence, best[0]) if best else None
            if attention is not None:
                probes.append((sentence, attention))
        return probes

    def _save(self) -> None:
        self._count_skipped()
        state = self._step.state()
        self._process_group.check_same_state(state)
        if self._process_group.is_main_process:
            keep, position = self._training.keep_checkpoints, self.position
            self._run.checkpoints.save(position.step, state, asdict(position), keep=keep)
        self._process_group.barrier()
        self._saved = self.position.step
        self._returns = 0

    def _keep_best(self) -> None:
        """Write the averaged weights as the best; the checkpoint that says so is there already."""
        if not self._process_group.is_main_process:
            return
        with self._step.use_averages():
            weights = self._model.trained_weights()
            write_arrays(
                self._run.checkpoints.best,
                {f"model/{name}": np.asarray(weight) for name, weight in weights.items()},
                asdict(self.position),
            )

    def _mend_best(self) -> None:
        """Write the best weights where a session was killed before it could, after saving."""
        position = self.position
        if position.best_step != position.step or position.best_score is None:
            return
        try:
            kept = read_arrays(self._run.checkpoints.best)[1].get("best_step")
        except UserError:
            kept = None
        if kept != position.best_step:
            self._keep_best()

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
            "loss": "–" if math.isnan(measured.nll) else f"{measured.nll:.3f}",
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
def _collect_quickly() -> Iterator[None]:
    """Let the garbage collector look only at what is made from now on: not at all of TensorFlow."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@dataclass
class _StopRequest:
    """A request to stop; it comes from outside, while an update runs."""

    number: int | None = None  # of the signal


@contextlib.contextmanager
def _await_stop_requests() -> Iterator[_StopRequest]:
    """Turn the first signal into a request; a second one of its kind stops at once, as usual.

    Ctrl-C, the end of a session, and what schedulers send before they take a machine away. A signal
    that is ignored, as under ``nohup``, stays so.
    """
    stop = _StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]
    previous = {number: signal.getsignal(number) for number in numbers}
    previous = {number: old for number, old in previous.items() if old != signal.SIG_IGN}

    def request(number: int, frame: FrameType | None) -> None:
        stop.number = number
        signal.signal(number, previous[signal.Signals(number)])

    for number in previous:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
