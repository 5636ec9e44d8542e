"""A table of a report: said once, shown on the console and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table


class Listing(NamedTuple):
    """Rows under a title, and what their reader has to know."""

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def for_console(self) -> Table:
        """Return the table for a terminal."""
        table = Table(
            title=self.title,
            title_justify="left",
            caption=self.note,
            caption_justify="left",
            box=None,
            pad_edge=False,
            header_style="bold",
        )
        for number, name in enumerate(self.header):
            table.add_column(name, justify="right" if number else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """Return the table as a section of a Markdown document."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

        rule = "|---|" + "---:|" * (len(self.header) - 1)
        lines = [line(self.header), rule, *map(line, self.rows)]
        return "\n".join([f"## {self.title}", "", self.note, "", *lines, ""])
