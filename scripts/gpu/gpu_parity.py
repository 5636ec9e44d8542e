"""Compare loss and gradient norm of one update on a GPU with float32 on the CPU."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bench_train
from gpu_lowering import NO_GPU
from gpu_processes import run_limited
from gpu_session import Session

if TYPE_CHECKING:
    from nmt.training.train_step import TrainStep

# Largest relative difference from the CPU in (loss, gradient norm). By default, matrix products of
# float32 read 10 bits of each number's mantissa on GPUs that have TF32, as many as float16 has;
# bfloat16 has 7.
TOLERANCES = {
    "float32, full products": (1e-4, 1e-3),
    "float32": (1e-3, 1e-2),
    "mixed_bfloat16": (1e-2, 5e-2),
    "mixed_float16": (1e-3, 1e-2),
}
FULL = ", full products"
SCALE_HALVINGS = 12  # of float16's loss scale, before its first finite gradient
LIMIT = 240  # seconds


def check_parity(session: Session) -> None:
    """Record how far loss and gradient norm of one update are from float32 on the CPU."""
    model = "tiny" if session.is_rehearsal else "compact"
    overrides = [f"model={model}", "training.batch_tokens=2048", "model.dropout=0.1"]
    if session.is_rehearsal:
        overrides.append("training.jit_compile=off")  # compiling takes minutes on a CPU
    overrides = [*session.data, *overrides, *session.arguments.override]
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.npz"
        (reference,) = _run_updates(session, overrides, weights, ["float32"], NO_GPU)
        measured = _run_updates(session, overrides, weights, list(TOLERANCES), {})
    for result in measured:
        tolerances = TOLERANCES[result["what"]]
        pairs = [(result[key], reference[key]) for key in ("loss", "gradient_norm")]
        errors = [abs(value - expected) / expected for value, expected in pairs]
        is_close = all(error <= most for error, most in zip(errors, tolerances, strict=True))
        details = {
            "model": model,
            "loss": result["loss"],
            "gradient_norm": result["gradient_norm"],
            "cpu_loss": reference["loss"],
            "cpu_gradient_norm": reference["gradient_norm"],
            "loss_error": errors[0],
            "gradient_norm_error": errors[1],
            "loss_tolerance": tolerances[0],
            "gradient_norm_tolerance": tolerances[1],
        }
        if not is_close:
            details["note"] = "differs from the CPU by more than the tolerance"
        session.record("parity", result["what"], "ok" if is_close else "failed", details)


def _run_updates(
    session: Session,
    overrides: list[str],
    weights: Path,
    precisions: list[str],
    environment: dict[str, str],
) -> list[dict[str, Any]]:
    command = [sys.executable, __file__, str(weights), "--precisions", ";".join(precisions)]
    command += [f"--override={override}" for override in overrides]
    environment = {"KERAS_BACKEND": session.backend} | environment
    limit = min(LIMIT, session.seconds_left())
    output = run_limited(command, limit, session.log, environment)
    return [json.loads(line) for line in output.splitlines()]


# --- In a separate process ----------------------------------------------------------------------


def main() -> None:
    """Run the first update once per precision; print its loss and gradient norm as JSON lines."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("weights", type=Path, help="initial weights; written if missing")
    parser.add_argument("--precisions", help="keys of TOLERANCES, separated by semicolons")
    parser.add_argument("--override", action="append", default=[])
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    with contextlib.redirect_stdout(sys.stderr):
        prepared = bench_train.prepare(arguments.override)
        batch = prepared.batches.batch(0)
        for name in arguments.precisions.split(";"):
            with use_full_products(name.endswith(FULL)):
                _, _, step = prepared.build(precision=name.removesuffix(FULL))
                load_initial_weights(step, arguments.weights)
                for _ in range(SCALE_HALVINGS):
                    # An update whose gradients overflow float16 changes only the loss scale.
                    update = step.update(batch, 1e-4, 1)
                    norm = float(update.gradient_norm)
                    if math.isfinite(norm):
                        break
            loss = float(update.nll) / float(update.tokens)
            answer = {"what": name, "loss": loss, "gradient_norm": norm}
            print(json.dumps(answer), file=answers, flush=True)


def load_initial_weights(step: TrainStep, path: Path) -> None:
    """Load the model's weights from a file; if it is missing, write the current ones to it."""
    import numpy as np

    state = step.state()
    if path.exists():
        step.restore(state | dict(np.load(path)))
    else:
        weights = {name: array for name, array in state.items() if name.startswith("model/")}
        np.savez(path, **weights)  # type: ignore[arg-type]  # numpy's stub: allow_pickle


@contextlib.contextmanager
def use_full_products(is_enabled: bool) -> Iterator[None]:
    """Let float32 matrix products read all bits of their operands."""
    import keras

    if not is_enabled:
        yield
    elif keras.config.backend() == "jax":
        import jax

        with jax.default_matmul_precision("highest"):
            yield
    else:
        import tensorflow as tf

        tf.config.experimental.enable_tensor_float_32_execution(False)
        try:
            yield
        finally:
            tf.config.experimental.enable_tensor_float_32_execution(True)


if __name__ == "__main__":
    main()
