"""Columns of a table: chosen by number or name, or recognised by the names of languages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nmt.config.sources import SourceConfig
from nmt.data.languages import NAMES, are_variants
from nmt.data.splitting import normalized
from nmt.errors import UserError
from nmt.text.scripts import UNKNOWN_LANGUAGE, primary_subtag

_SIDES = ({"source", "src"}, {"target", "tgt", "trg"})
_NUMBERS = ("id", "no")  # columns that may number rows, and languages
_MAX_SHOWN, _LONGEST_SHOWN = 20, 40  # names in a message, and their characters


class Columns(NamedTuple):
    """The columns that a source reads, counted from 0; None: it has no such column."""

    source: int = 0
    target: int = 1
    weight: int | None = None
    document: int | None = None
    group: int | None = None

    def select(self, cells: Sequence[str]) -> list[str] | None:
        """Return the cells of these columns, empty without a column; None if one is missing."""
        try:
            return ["" if column is None else cells[column] for column in self]
        except IndexError:
            return None


class ColumnChoice(NamedTuple):
    """What the configuration says about the columns of a source."""

    source: SourceConfig
    languages: tuple[str, str]  # BCP 47 tags of the two sides
    key: str  # of the configuration, for messages: data.columns; empty if no key names columns
    encoding_option: str = ""  # sets the encoding of its files: data.encoding=; empty: none does

    def find(self, names: Sequence[str], table: str, *, are_names: bool) -> tuple[Columns, bool]:
        """Return the columns of a table, and whether its first row is a header.

        Args:
            names: cells of the first row, or names of all columns.
            table: key and file, for messages.
            are_names: whether ``names`` are certainly names of columns.

        Raises:
            UserError: a column is missing, or none is recognised among names.
        """
        source = self.source
        names = [name.strip() for name in names]
        sides: Sequence[int | str] | None = source.columns
        guess = find_sides(names, self.languages)
        if sides is None and guess is None and are_names:
            example = f"{self.key}={','.join((*names, 'TARGET')[:2])}"
            remedy = f"name those of source and target, as in {example}"
            if not self.key:
                remedy = "rename two of them to source and target"
            raise UserError(f"{table} has the columns {list_names(names)}: {remedy}")
        chosen: list[Any] = [*(sides or guess or (0, 1))]
        chosen += [None] * (3 - len(chosen))
        chosen += [source.document_column, source.group_column]
        is_header = are_names or any(isinstance(column, str) for column in chosen)
        if not is_header:
            cells = [names[column] for column in chosen[:2] if column < len(names)]
            is_header = find_sides(cells, self.languages) is not None
        if is_header:
            keys = [self.key] * 3 + ["document_column", "group_column"]
            chosen = [
                self._locate(column, names, table, key)
                for column, key in zip(chosen, keys, strict=True)
            ]
        return Columns(*chosen), is_header

    def _locate(
        self, column: int | str | None, names: Sequence[str], table: str, key: str
    ) -> int | None:
        if column is None or (isinstance(column, int) and column < len(names)):
            return column
        text = str(column)
        if text in names:
            return names.index(text)
        folded = [name.casefold() for name in names]
        if text.casefold() in folded:
            return folded.index(text.casefold())
        raise UserError(
            f"{table} has no column {column}, as {key} names it: choose from {list_names(names)}"
        )


def find_sides(names: Sequence[str], languages: tuple[str, str]) -> tuple[int, int] | None:
    """Return the two columns that are named by the languages, or source and target; else None.

    Of several columns of a language, the one named by the language's tag is taken, otherwise the
    first. ``id`` and ``no``, which may hold numbers, are taken last. In a
    dotted name, such as ``translation.es``, the part after the last dot counts. If languages are
    unknown, the first two columns named by any two languages are taken.

    No pair of sentences is taken for names: the word for a language never translates the word for
    the other one.
    """
    last_parts = [name.rpartition(".")[2] for name in names]
    by_language = [_find_columns(last_parts, language) for language in languages]
    # A column "id" may hold identifiers rather than Indonesian, and "no" numbers, not Norwegian.
    for columns in by_language:
        columns.sort(key=lambda index: names[index].lower() in _NUMBERS)
    if languages == (UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE):
        candidates = ["" if name.lower() in _NUMBERS else name for name in last_parts]
        columns_of_languages = (_find_columns(candidates, language) for language in NAMES)
        by_language = sorted(columns for columns in columns_of_languages if columns)[:2]
    words = list(map(normalized, last_parts))
    by_side = [[index for index, word in enumerate(words) if word in side] for side in _SIDES]
    for sides in (by_language, by_side):
        if len(sides) == 2 and all(sides) and sides[0][0] != sides[1][0]:
            return sides[0][0], sides[1][0]
    return None


def _find_columns(names: Sequence[str], language: str) -> list[int]:
    """Return the columns that are named by a language, those that are called as its tag first."""
    language_names = NAMES.get(primary_subtag(language), "").split("|")
    words = {normalized(name) for name in language_names} - {""}
    columns = [
        index
        for index, name in enumerate(names)
        if normalized(name) in words or are_variants(name, language)
    ]
    return sorted(columns, key=lambda index: names[index] != language)


def flatten_record(record: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of a record by dotted keys; lists are left out."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= flatten_record(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            flat[f"{prefix}{key}"] = value
    return flat


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA, which cannot be compared."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ == "NAType"


def list_names(names: Sequence[str]) -> str:
    """Return names of columns for a message: twenty at most, long ones cut."""
    shown = [" ".join(name.split())[:_LONGEST_SHOWN] for name in names[:_MAX_SHOWN]]
    return ", ".join(shown + ["…"] * (len(names) > _MAX_SHOWN))
