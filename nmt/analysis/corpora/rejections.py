"""Examples of the lines that cleaning rejects."""

from __future__ import annotations

from pathlib import Path

from nmt.analysis.tables import Listing

_LONGEST = 45  # characters of a side that are shown


def tabulate_examples(rejected_file: Path, max_examples: int) -> Listing:
    """Tabulate the first rejected lines of each reason.

    Args:
        rejected_file: as `nmt.data.rejections` writes it.
        max_examples: for each reason.
    """
    examples: dict[str, list[tuple[str, str, str]]] = {}
    with rejected_file.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for record in file:
            reason, place, text = record.rstrip("\n").split("\t", 2)
            shown = examples.setdefault(reason, [])
            if len(shown) < max_examples:
                shown.append((reason, place, _shorten(text)))
    rows = [example for reason in sorted(examples) for example in examples[reason]]
    return Listing("Rejected lines", "", ("reason", "line", "text"), rows)


def _shorten(text: str) -> str:
    sides = (
        side if len(side) <= _LONGEST else f"{side[: _LONGEST - 1]}…" for side in text.split("\t")
    )
    return " → ".join(sides)
