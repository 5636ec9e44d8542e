"""How long the sentences of a corpus are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.analysis.tables import Listing
from nmt.data.splitting import Pair

_PERCENTILES = (50, 95, 99, 100)
_BAR = 40  # characters of the longest bar
_MAX_BARS = 20


class Lengths:
    """Lengths of both sides of pairs.

    Args:
        pairs: source and target, at least one.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        # [pairs, source or target]
        self.characters = np.array([[len(side) for side in pair] for pair in pairs])
        self.words = np.array([[len(side.split()) for side in pair] for pair in pairs])

    def as_listing(self) -> Listing:
        """Return a table of percentiles."""
        ratios = self.characters[:, 1] / self.characters[:, 0]
        rows = [
            (f"{side}, {unit}", *(f"{value:.0f}" for value in np.percentile(column, _PERCENTILES)))
            for unit, lengths in (("words", self.words), ("characters", self.characters))
            for side, column in zip(("source", "target"), lengths.T, strict=True)
        ]
        rows.append(
            (
                "target / source, characters",
                *(f"{value:.2f}" for value in np.percentile(ratios, _PERCENTILES)),
            )
        )
        return Listing("Lengths", "", ("", "median", "95%", "99%", "most"), rows)

    def as_bars(self) -> list[str]:
        """Return a histogram of characters of the source side, one line a bar.

        The last bar holds the longest 1% at most.
        """
        lengths = self.characters[:, 0]
        width = int(np.percentile(lengths, 99, method="higher")) // _MAX_BARS + 1
        bins = np.minimum(lengths // width, _MAX_BARS)
        counts = np.bincount(bins)
        lines = []
        for i in range(int(bins.min()), len(counts)):
            last = f"{i * width + width - 1}" if i < _MAX_BARS else "…"
            bar = "█" * round(_BAR * counts[i] / counts.max())
            lines.append(f"{i * width:>6}–{last:<6} {counts[i]:>9,} {bar}")
        return lines
