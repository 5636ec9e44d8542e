"""Tables of reports, for the console, as Markdown and as HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import count
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

_NUMBER_STARTS = frozenset("+-–<0123456789")
# What Markdown reads as markup. Plain are the "_" of tatoeba_10m, "[8, 16]" and "<0.001".
_MARKUP = re.compile(r"[\\`*~|]|(?<![^\W_])_|_(?![^\W_])|\](?=\()|<(?=[A-Za-z/!?])|&(?=#?\w+;)")
_MIN_WIDTH = 150  # characters of a line; a narrower terminal wraps lines


class Listing(NamedTuple):
    """A table with a title and a note to its reader."""

    title: str
    note: str  # may be empty
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def as_table(self) -> Table:
        """Return the table for a terminal."""
        table = Table(
            title=self.title,
            title_justify="left",
            caption=self.note or None,
            caption_justify="left",
            box=None,
            pad_edge=False,
            header_style="bold",
        )
        for name, right in zip(self.header, self.are_numbers(), strict=True):
            table.add_column(name, justify="right" if right else "left", no_wrap=right)
        for row in self.rows:
            table.add_row(*row)
        return table

    def as_markdown(self) -> str:
        """Return the table as a section of a Markdown document."""

        def line(cells: Sequence[str]) -> str:
            return f"| {' | '.join(map(escape_markdown, cells))} |"

        rule = "|" + "".join("---:|" if right else "---|" for right in self.are_numbers())
        note = [escape_markdown(self.note), ""] if self.note else []
        lines = [line(self.header), rule, *map(line, self.rows)]
        return "\n".join([f"## {escape_markdown(self.title)}", "", *note, *lines, ""])

    def as_html(self) -> str:
        """Return the table as HTML, with its note but without its title."""
        numbers = [' class="number"' if is_number else "" for is_number in self.are_numbers()]

        def cell(text: str, column: int, scope: str = "") -> str:
            tag, attributes = ("th", f' scope="{scope}"') if scope else ("td", "")
            return f'<{tag}{attributes}{numbers[column]} dir="auto">{escape(text)}</{tag}>'

        header = "".join(cell(text, column, "col") for column, text in enumerate(self.header))
        rows = "\n".join(
            f"<tr>{cell(name, 0, 'row')}{''.join(map(cell, cells, count(1)))}</tr>"
            for name, *cells in self.rows
        )
        caption = f"<caption>{escape(self.note)}</caption>\n" if self.note else ""
        head = f"<thead><tr>{header}</tr></thead>"
        return f"<table>\n{caption}{head}\n<tbody>\n{rows}\n</tbody>\n</table>"

    def are_numbers(self) -> list[bool]:
        """Return whether each column holds numbers; the first column has names."""
        columns = zip(self.header, *self.rows, strict=True)
        numbers = [
            all(not cell or cell[0] in _NUMBER_STARTS for cell in cells) for _, *cells in columns
        ]
        return [False, *numbers[1:]]


def escape_markdown(text: str) -> str:
    """Return a text in one line that Markdown shows as it is, in TensorBoard, too."""
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", " ".join(text.split()))


def print_listings(listings: Sequence[Listing], console: Console) -> None:
    """Print tables at their full width; the terminal wraps lines that are too wide."""
    width = max(console.width, _MIN_WIDTH)
    wide = Console(file=console.file, width=width, markup=False, emoji=False)
    for listing in listings:
        wide.print(listing.as_table())
        wide.print()


def make_table(first: str, *others: str) -> Table:
    """Return an empty table: names on the left, numbers on the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for header in others:
        table.add_column(header, justify="right")
    return table
