"""Results of `gpu_check.py` and `gpu_lowering.py` as lines and as tables."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workloads import PRECISIONS, SIZES

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 140  # columns, if standard output is not a terminal
PARITY_CELLS = ("error", "tolerance")


def format_score(result: dict[str, Any], name: str) -> str:
    """Return a score with its confidence interval."""
    score = result["scores"][name]
    width = "" if score["half_width"] is None else f" ± {score['half_width']:.2f}"
    return f"{score['value']:.2f}{width}"


def describe_result(result: dict[str, Any]) -> str:
    """Return a line that describes a result, without its part and name."""
    if result["status"] != "ok":
        return f"{result['status']}: {result['note']}"
    if result["part"] == "devices":
        return f"{result['backend']} {result['version']}"
    if result["part"] == "parity":
        errors = (result["loss_error"], result["gradient_norm_error"])
        return "loss off by {:.1e}, gradient norm by {:.1e}".format(*errors)
    if result["part"] == "speed":
        return f"{result['tokens_per_second']:,} tokens/s, {result['utilisation']:.1%}"
    if result["part"] == "scaling":
        if "within" in result:
            return f"within {result['within']:.1e}"
        return f"{result['tokens_per_second']:,} tokens/s, loss {result['loss']:.5f}"
    if result["part"] == "precision":
        return f"dev loss {result['dev_loss']:.4f}, off by {result['apart']:.2%}"
    return f"BLEU {format_score(result, 'BLEU')}"


def make_table(
    title: str, labels: Sequence[str], numbers: Sequence[str], caption: str | None = None
) -> Table:
    """Return a table without rows: columns of labels, then of numbers, and the status."""
    from rich.table import Table

    table = Table(*labels, title=title, caption=caption)
    for name in numbers:
        table.add_column(name, justify="right")
    table.add_column("status")
    return table


def tabulate_parity(all_results: Sequence[dict[str, Any]]) -> Table | None:
    """Lay out the parity of one update."""
    results = [result for result in all_results if result["part"] == "parity"]
    if not results:
        return None
    title = "One update against float32 on the CPU: relative differences"
    numbers = ("loss", "tolerance", "gradient norm", "tolerance")
    table = make_table(title, ("precision",), numbers)
    for result in results:
        cells = [""] * 4
        if "loss" in result:
            keys = [f"{name}_{cell}" for name in ("loss", "gradient_norm") for cell in PARITY_CELLS]
            cells = [f"{result[key]:.1e}" for key in keys]
        table.add_row(result["what"], *cells, format_status(result))
    return table


def tabulate_speeds(all_results: Sequence[dict[str, Any]]) -> Table | None:
    """Lay out speed, utilisation and memory, grouped by model."""
    results = [result for result in all_results if result["part"] == "speed"]
    if not results:
        return None
    rates = [result["product_gflops"] for result in results if "product_gflops" in result]
    caption = "utilisation: FLOP/s of the model over those of a large product (bfloat16 on a GPU)"
    if rates:
        caption += f", here {statistics.median(rates) / 1e3:,.3g} TFLOP/s"
    numbers = ("tokens/s", "ms/update", "utilisation", "GPU memory", "compiled in")
    table = make_table("Training", ("model", "precision", "attention", "XLA"), numbers, caption)

    def sort_key(result: dict[str, Any]) -> tuple[int, int, bool, bool]:
        return (
            SIZES.index(result["model"]),
            PRECISIONS.index(result["precision"]),
            result["attention"] == "fused",
            not result["xla"],
        )

    for _, group in itertools.groupby(
        sorted(results, key=sort_key), lambda result: result["model"]
    ):
        for result in group:
            cells = [""] * 5
            if result["status"] == "ok":
                memory = result["peak_device_mb"]
                cells = [
                    f"{result['tokens_per_second']:,}",
                    f"{result['step_ms']:,.1f}",
                    f"{result['utilisation']:.1%}",
                    "–" if memory is None else f"{memory / 1024:.1f} GiB",
                    f"{result['compile_s']:.0f} s",
                ]
            xla = "on" if result["xla"] else "off"
            labels = (result["model"], result["precision"], result["attention"], xla)
            table.add_row(*labels, *cells, format_status(result))
        table.add_section()
    return table


def tabulate_run(all_results: Sequence[dict[str, Any]]) -> Table | None:
    """Lay out the training run."""
    results = [result for result in all_results if result["part"] == "train"]
    if not results:
        return None
    numbers = ("minutes", "updates", "tokens/s", "BLEU", "chrF2++")
    table = make_table("Training run and test split", ("run",), numbers)
    for result in results:
        cells = [""] * 5
        if result["status"] == "ok":
            cells = [
                f"{result['training_seconds'] / 60:.1f}",
                f"{result['updates']:,}",
                f"{result['tokens_per_second'] or 0:,}",
                format_score(result, "BLEU"),
                format_score(result, "chrF2++"),
            ]
        table.add_row(result["what"], *cells, format_status(result))
    return table


def tabulate_scaling(all_results: Sequence[dict[str, Any]]) -> Table | None:
    """Lay out the speed of several devices against that of one."""
    results = [
        result for result in all_results if result["part"] == "scaling" and "devices" in result
    ]
    if not results:
        return None
    numbers = ("devices", "positions per side", "tokens/s", "scaling efficiency", "loss")
    table = make_table("Several devices share every update", ("model", "precision"), numbers)
    single = [result.get("tokens_per_second") for result in results if result["devices"] == 1]
    for result in results:
        cells = [""] * 4
        if result["status"] == "ok":
            rate = result["tokens_per_second"]
            share = f"{rate / (result['devices'] * single[0]):.0%}" if single and single[0] else ""
            rows, length = result["batches"][0]
            cells = [f"{rows * length:,}", f"{rate:,}", share, f"{result['loss']:.5f}"]
        labels = (result["model"], result["precision"], str(result["devices"]))
        table.add_row(*labels, *cells, format_status(result))
    return table


def tabulate_precisions(all_results: Sequence[dict[str, Any]]) -> Table | None:
    """Lay out the losses of the precisions."""
    results = [result for result in all_results if result["part"] == "precision"]
    if not results:
        return None
    numbers = ("updates", "seconds", "dev loss", "off by", "tolerance")
    table = make_table("`compact`, trained in each precision", ("precision",), numbers)
    for result in results:
        cells = [""] * 5
        if "dev_loss" in result:
            cells = [f"{result['updates']:,}", str(result["seconds"]), f"{result['dev_loss']:.4f}"]
            cells += [f"{result['apart']:.2%}", f"{result['tolerance']:.0%}"]
        table.add_row(result["what"], *cells, format_status(result))
    return table


def tabulate_lowering(
    backend: str, cells: Sequence[str], all_results: Sequence[dict[str, Any]]
) -> Table:
    """Lay out the programs that were lowered for a GPU."""
    from rich.table import Table

    table = Table(
        title=f"Lowered for CUDA by {backend}",
        caption="cuDNN: calls its attention. Problems are listed below.",
    )
    for name in ("model", "attention", "precision", *cells):
        table.add_column(name)
    for _, group in itertools.groupby(
        all_results, lambda result: (result["model"], result["attention"])
    ):
        for result in group:
            states = []
            for name in cells:
                cell = result.get(name, {"problems": [], "kernels": []})
                calls_cudnn = any("cudnn" in kernel for kernel in cell["kernels"])
                state = "not ok" if cell["problems"] else "ok" + ", cuDNN" * calls_cudnn
                states.append(state if name in result else "–")
            table.add_row(result["model"], result["attention"], result["precision"], *states)
        table.add_section()
    return table


def format_status(result: dict[str, Any]) -> str:
    """Return the last cell of a row."""
    note = result.get("note")
    return f"{result['status']}: {note}" if note else str(result["status"])


TABLES = (tabulate_parity, tabulate_speeds, tabulate_run, tabulate_scaling, tabulate_precisions)
