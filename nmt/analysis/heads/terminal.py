"""What an output owes to its source, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from nmt.analysis.tables import begin_table

if TYPE_CHECKING:  # loads Keras
    from nmt.analysis.heads.attribution import Attribution

_SHOWN = 3  # source pieces named per output piece


def tabulate_attribution(attribution: Attribution) -> Table:
    """Name the source pieces that matter most to each output piece, by both measures."""
    table = begin_table("written", "gradient x input", "cross-attention", "in common")
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
