"""An attribution as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from nmt.analysis.tables import make_table

if TYPE_CHECKING:  # loads Keras
    from nmt.analysis.heads.attribution import Attribution

_SHOWN = 3  # source tokens named per output token


def tabulate_attribution(attribution: Attribution) -> Table:
    """Return the source tokens that matter most to each output token, by both measures."""
    table = make_table("written", "gradient x input", "cross-attention", "in common")
    for column in table.columns[1:3]:
        column.justify, column.overflow = "left", "fold"
    rows = zip(
        attribution.target,
        attribution.shares,
        attribution.attention,
        attribution.overlap,
        strict=True,
    )
    for token, shares, weights, overlap in rows:
        table.add_row(
            Text(token, "bold"),
            _name_largest(attribution.source, shares),
            _name_largest(attribution.source, weights),
            f"{overlap:.2f}",
        )
    return table


def _name_largest(tokens: Sequence[str], shares: np.ndarray) -> Text:
    best = np.argsort(-shares, kind="stable")[:_SHOWN]
    return Text("  ".join(f"{tokens[number]} {shares[number]:.2f}" for number in best))
