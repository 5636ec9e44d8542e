"""Measure training speed on one or several GPUs."""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench_train import Worker
from gpu_processes import describe_error, describe_exit
from gpu_session import Session
from workloads import BATCH_TOKENS, PRECISIONS

UPDATES, TURNS = 50, 3
ROW_SECONDS = 150  # limit
EXPECTED_ROW_SECONDS = 45  # estimate before the first row
SAME_LOSS = 1e-3  # largest relative difference of several devices that share a batch, from one


@dataclass(frozen=True)
class Row:
    """A configuration whose speed is measured. The fields are also keys of its JSON line."""

    model: str
    precision: str
    attention: str = "explicit"
    xla: bool = True
    devices: int = 1
    fold: int = 1  # multiple of the usual tokens per update

    @property
    def what(self) -> str:
        """Name of the row, for output."""
        changes = [self.attention] * (self.attention != "explicit") + ["XLA off"] * (not self.xla)
        changes += [f"{self.devices} devices"] * (self.devices > 1)
        changes += [f"{self.fold} times the batch"] * (self.fold > 1)
        return ", ".join([f"{self.model} {self.precision}", *changes])

    @property
    def overrides(self) -> list[str]:
        """Changes to the default configuration."""
        return [
            f"model={self.model}",
            f"training.batch_tokens={self.fold * BATCH_TOKENS[self.model]}",
            f"training.devices={self.devices}",
            f"training.precision={self.precision}",
            f"model.attention_kernel={self.attention}",
            f"training.jit_compile={'on' if self.xla else 'off'}",
        ]


def list_speeds(models: Sequence[str]) -> list[Row]:
    """Return the configurations to measure, the most informative first.

    Args:
        models: model sizes; attention and XLA are varied for the first one.
    """
    first = models[0]
    rows = [Row(model, "mixed_bfloat16") for model in models]
    rows += [Row(first, "mixed_bfloat16", "fused"), Row(first, "mixed_bfloat16", xla=False)]
    others = [precision for precision in PRECISIONS if precision != "mixed_bfloat16"]
    rows += [Row(model, precision) for model in models for precision in others]
    return rows + [Row(model, "mixed_bfloat16", "fused") for model in models[1:]]


def list_scaling(model: str, devices: int) -> list[Row]:
    """Return rows for 1, 2, 4, … and all devices: with one batch for all, then one for each.

    Args:
        model: model size.
        devices: number of devices of the machine.
    """
    counts = [2**power for power in range(devices.bit_length()) if 2**power < devices] + [devices]
    rows = [Row(model, "mixed_bfloat16", devices=count) for count in counts]
    several = [count for count in counts if count > 1]
    return rows + [Row(model, "mixed_bfloat16", devices=count, fold=count) for count in several]


class SpeedMeter:
    """Measures rows, each in its own process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._row_seconds: list[float] = []

    def measure_rows(self, rows: Sequence[Row], *, reserve: float) -> list[Row]:
        """Measure rows until only ``reserve`` seconds are left; return the remaining rows.

        While a row is measured, the process of the next one reads its corpus.
        """
        rows = [row for row in rows if not self._skip_unsupported(row)]
        next_worker: tuple[Worker, Any] | None = None
        try:
            for number, row in enumerate(rows):
                expected = max(self._row_seconds[-3:], default=EXPECTED_ROW_SECONDS)
                if self._session.seconds_left() - reserve < expected:
                    return rows[number:]
                worker, errors = next_worker or self._start_worker(row)
                next_worker = None
                if number + 1 < len(rows):
                    next_worker = self._start_worker(rows[number + 1])
                start = time.monotonic()
                self._measure(row, worker, errors)
                self._row_seconds.append(time.monotonic() - start)
        finally:
            if next_worker:
                next_worker[0].process.kill()
                next_worker[0].process.wait()
        return []

    def measure_scaling(self, model: str) -> None:
        """Measure a model on ever more devices, and compare their losses with one device's."""
        session = self._session
        if session.devices == 1:
            note = {"note": "there is one GPU"}
            session.record("scaling", "several devices", "skipped", note)
            return
        for row in list_scaling(model, session.devices):
            if session.seconds_left() < EXPECTED_ROW_SECONDS:
                note = {
                    "note": f"not reached in {session.arguments.minutes:g} minutes: see --minutes"
                }
                session.record("scaling", row.what, "skipped", vars(row) | note)
            else:
                self._measure(row, *self._start_worker(row), part="scaling")
        compare_losses(session)

    def _skip_unsupported(self, row: Row) -> bool:
        """Record a row that this backend does not support; return whether it is one."""
        if row.xla or self._session.backend != "jax":
            return False
        note = "cannot be off on JAX: every update is compiled by XLA"
        self._session.record("speed", row.what, "skipped", vars(row) | {"note": note})
        return True

    def _start_worker(self, row: Row) -> tuple[Worker, Any]:
        errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  (the worker's)
        session = self._session
        overrides = [*session.data, *row.overrides, *session.arguments.override]
        return Worker(session.backend, overrides, errors), errors

    def _measure(self, row: Row, worker: Worker, errors: Any, part: str = "speed") -> None:
        session = self._session
        timed_out = threading.Event()

        def kill() -> None:
            timed_out.set()
            worker.process.kill()

        limit = max(1.0, min(ROW_SECONDS, session.seconds_left()))
        timer = threading.Timer(limit, kill)
        timer.start()
        question = {"updates": 2, "product": 256} if session.is_rehearsal else {"updates": UPDATES}
        try:
            worker.start()
            turns = [worker.ask(question) for _ in range(1 if session.is_rehearsal else TURNS)]
            summary = worker.summarize(turns)
            summary.pop("overrides")
            session.record(part, row.what, "ok", vars(row) | summary)
        except SystemExit:
            errors.seek(0)
            note = f"stopped after {limit:.0f} s" if timed_out.is_set() else ""
            note = note or describe_exit(worker.process.wait(), errors.read())
            session.record(part, row.what, "failed", vars(row) | {"note": note})
        except Exception as error:
            note = describe_error(error)
            session.record(part, row.what, "failed", vars(row) | {"note": note})
        finally:
            timer.cancel()
            worker.process.kill()
            worker.process.wait()
            errors.seek(0)
            with session.log.open("a", encoding="utf-8") as file:
                file.write(f"\n# {row.what}\n{errors.read()}")
            errors.close()


def compare_losses(session: Session) -> None:
    """Record whether devices that share a batch have the loss of one device."""
    losses = {
        result["devices"]: result["loss"]
        for result in session.results
        if result["part"] == "scaling" and result.get("fold") == 1 and "loss" in result
    }
    errors = [abs(loss / losses.get(1, math.nan) - 1) for loss in losses.values()]
    details = {"within": max(errors, default=math.nan), "tolerance": SAME_LOSS}
    is_same = all(error <= SAME_LOSS for error in errors) and len(losses) > 1
    if not is_same:
        details["note"] = "devices that share a batch differ from one alone"
    session.record("scaling", "losses", "ok" if is_same else "failed", details)
