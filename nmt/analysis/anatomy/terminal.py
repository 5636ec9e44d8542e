"""Parameters, operations and memory of a model as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from nmt.analysis.tables import make_table
from nmt.model.costs import PRECISIONS, TRAINING, BatchShape, Costs, Flops, Part


def tabulate_parameters(parts: Sequence[Part], counted: Mapping[str, int] | None) -> Table:
    """Return parameters by part: by closed form and, if given, as counted in a model."""
    numbers = ["closed form", "share"] if counted is None else ["closed form", "counted", "share"]
    table = make_table("parameters", "", *numbers)
    table.columns[1].justify = "left"
    total = sum(part.parameters for part in parts)
    for part in parts:
        cells = [part.name, part.formula, f"{part.parameters:,}"]
        if counted is not None:
            cells.append(f"{counted.get(part.name, 0):,}")
        table.add_row(*cells, f"{part.parameters / total:.1%}")
    listed = {part.name for part in parts}
    for name, count in (counted or {}).items():
        if name not in listed:
            table.add_row(name, "not known", "", f"{count:,}", "")
    table.add_section()
    sums = [] if counted is None else [f"{sum(counted.values()):,}"]
    table.add_row("all", "", f"{total:,}", *sums, "")
    return table


def tabulate_flops(flops: Flops, source_length: int, target_length: int) -> Table:
    """Return the operations per token of either side, forward and in training."""
    table = make_table("MFLOP per token", "source", "target")
    rows = {
        "matrices, 2 per weight": (flops.source_matrices, flops.target_matrices),
        f"products of attention, S = {source_length}, T = {target_length}": (
            flops.source_products,
            flops.target_products,
        ),
        "forward": (flops.source, flops.target),
        f"training all weights, {TRAINING} x forward": (
            TRAINING * flops.source,
            TRAINING * flops.target,
        ),
    }
    for name, counts in rows.items():
        table.add_row(name, *(f"{count / 1e6:,.3f}" for count in counts))
    return table


def tabulate_activations(costs: Costs, shapes: Sequence[tuple[int, int]]) -> Table:
    """Return activations kept for the backward pass, by part, for batches of (rows, length)."""
    batches = [BatchShape(*shape, precision) for shape in shapes for precision in PRECISIONS]
    names = [f"{batch.rows} x {batch.length} {batch.precision}" for batch in batches]
    table = make_table("activations kept, MB, about", *names)
    estimates = [costs.estimate_activations(batch) for batch in batches]
    for part in estimates[0]:
        table.add_row(part, *(f"{estimate[part] / 1e6:,.1f}" for estimate in estimates))
    table.add_section()
    table.add_row("all", *(f"{sum(estimate.values()) / 1e6:,.1f}" for estimate in estimates))
    return table


def tabulate_state(costs: Costs) -> Table:
    """Return the memory that decoding keeps per hypothesis and per token."""
    table = make_table("kept in decoding, bytes", *PRECISIONS)
    states = [costs.count_state(precision) for precision in PRECISIONS]
    for part, label in (
        ("hypothesis", "of a hypothesis"),
        ("target", "of each token of a hypothesis"),
        ("source", "of each source token"),
    ):
        table.add_row(label, *(f"{getattr(state, part):,}" for state in states))
    return table
