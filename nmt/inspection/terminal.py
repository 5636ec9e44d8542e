"""Numbers about a model as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from nmt.config import ModelConfig
from nmt.inspection.anatomy.activations import PRECISIONS, estimate_activations
from nmt.inspection.anatomy.counts import TRAINING, Flops, Part

if TYPE_CHECKING:  # closed forms need no Keras
    from nmt.inspection.heads.attribution import Attribution

_SHOWN = 3  # source pieces named per output piece


def format_sizes(config: ModelConfig, vocabulary_size: int) -> str:
    """Return the sizes that the closed forms are made of."""
    return (
        f"{config.name}: D = {config.d_model}, H = {config.num_heads}, F = {config.ffn_width}, "
        f"E = {config.encoder_layers}, C = {config.decoder_layers}, V = {vocabulary_size:,}, "
        f"P = {config.max_length}; {config.norm}-norm, {config.activation}"
    )


def tabulate_parameters(parts: Sequence[Part], counted: Mapping[str, int] | None) -> Table:
    """List parameters by part, by closed form and, where a model was counted, as it has them."""
    numbers = ["closed form", "share"] if counted is None else ["closed form", "counted", "share"]
    table = _begin_table("parameters", "", *numbers)
    table.columns[1].justify = "left"
    total = sum(part.parameters for part in parts)
    for part in parts:
        cells = [part.name, part.formula, f"{part.parameters:,}"]
        if counted is not None:
            cells.append(f"{counted.get(part.name, 0):,}")
        table.add_row(*cells, f"{part.parameters / total:.1%}")
    known = {part.name for part in parts}
    for name, count in (counted or {}).items():
        if name not in known:
            table.add_row(name, "not known", "", f"{count:,}", "")
    table.add_section()
    sums = [] if counted is None else [f"{sum(counted.values()):,}"]
    table.add_row("all", "", f"{total:,}", *sums, "")
    return table


def tabulate_flops(flops: Flops, source_length: int, target_length: int) -> Table:
    """List the operations of one token, of either side, forward and in training."""
    table = _begin_table("MFLOP per token", "source", "target")
    rows = {
        "matrices, 2 per weight": (flops.source_matrices, flops.target_matrices),
        f"products of attention, S = {source_length}, T = {target_length}": (
            flops.source_products,
            flops.target_products,
        ),
        "forward": (flops.source, flops.target),
        f"training, {TRAINING} x forward": (TRAINING * flops.source, TRAINING * flops.target),
    }
    for name, both in rows.items():
        table.add_row(name, *(f"{one / 1e6:,.3f}" for one in both))
    return table


def tabulate_activations(
    config: ModelConfig, vocabulary_size: int, batches: Sequence[tuple[int, int]]
) -> Table:
    """List what the backward pass keeps, by part, for batches of (rows, length)."""
    columns = [(batch, precision) for batch in batches for precision in PRECISIONS]
    names = [f"{rows} x {length} {precision}" for (rows, length), precision in columns]
    table = _begin_table("activations kept, MB, about", *names)
    found = [
        estimate_activations(config, vocabulary_size, rows=rows, length=length, precision=precision)
        for (rows, length), precision in columns
    ]
    for part in vars(found[0]):
        cells = [f"{getattr(one, part) / 1e6:,.1f}" for one in found]
        table.add_row(part.replace("_", " ").replace("feed forward", "feed-forward"), *cells)
    table.add_section()
    table.add_row("all", *(f"{one.total / 1e6:,.1f}" for one in found))
    return table


def tabulate_attribution(attribution: Attribution) -> Table:
    """Name the source pieces that matter most to each output piece, by both measures."""
    table = _begin_table("written", "gradient x input", "cross-attention", "in common")
    for column in table.columns[1:3]:
        column.justify, column.overflow = "left", "fold"
    rows = zip(
        attribution.target,
        attribution.shares,
        attribution.attention,
        attribution.overlap,
        strict=True,
    )
    for piece, shares, weights, overlap in rows:
        table.add_row(
            Text(piece, "bold"),
            _name_largest(attribution.source, shares),
            _name_largest(attribution.source, weights),
            f"{overlap:.2f}",
        )
    return table


def _name_largest(pieces: Sequence[str], shares: np.ndarray) -> Text:
    best = np.argsort(-shares, kind="stable")[:_SHOWN]
    return Text("  ".join(f"{pieces[number]} {shares[number]:.2f}" for number in best))


def _begin_table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right")
    return table
