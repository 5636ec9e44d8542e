"""Pairs from Python written to a table, from which a run reads them like those of any file."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from nmt.data.columns import find_sides, flatten_record, is_missing, list_names
from nmt.errors import UserError
from nmt.files import digest_file, partial_path, replace_atomically

SPOOLED = ".pairs"  # suffix of these tables: cells may all be in quotes, though it is not CSV
_SEPARATORS = re.compile(r"[\t\r\n]")  # of columns and lines


def spool_pairs(
    pairs: Iterable[Any], languages: tuple[str, str], folder: Path, name: str = "pairs"
) -> Path:
    """Write pairs to a table, source TAB target, that is named by its SHA-256; return its path.

    Tabs and line ends inside a text become spaces; a missing text (None, NaN) becomes an empty one.
    Memory does not grow with the number of pairs.

    Args:
        pairs: an iterable of (source, target); or of mappings, such as the rows of a Hugging Face
            dataset; or a pandas frame. Keys and columns are recognised by `find_sides`, as those of
            files are. A frame of two columns may have any names.
        languages: BCP 47 tags of source and target.
        folder: where the table is written.
        name: of the argument that was passed, for messages.

    Raises:
        UserError: ``pairs`` is not iterable or empty, or an item is not a pair of strings.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial = partial_path(folder / "pairs")
    with replace_atomically(partial) as file:
        for pair in _read_pairs(pairs, languages, name):
            line = "\t".join(_SEPARATORS.sub(" ", text) for text in pair) + "\n"
            # A lone surrogate is not UTF-8: the reader rejects the pair and counts it.
            file.write(line.encode("utf-8", "surrogatepass"))
        if not file.tell():
            raise UserError(f"{name} is empty: pass (source, target) strings")
    return partial.replace(folder / f"{digest_file(partial)}{SPOOLED}")


def _read_pairs(pairs: Any, languages: tuple[str, str], name: str) -> Iterator[tuple[str, str]]:
    """Yield source and target of every item.

    Raises:
        UserError: see `spool_pairs`.
    """
    keys: list[str] = []  # of mappings, from the first one
    for number, item in enumerate(_list_items(pairs, languages, name), start=1):
        texts = item
        if isinstance(item, Mapping):
            record = flatten_record(item)
            if not keys:
                names = list(record)
                keys = [names[index] for index in _choose_sides(names, languages, name)]
            texts = [record[key] for key in keys if key in record]
        match texts:
            case (source, target):
                texts = tuple("" if is_missing(text) else text for text in (source, target))
        match texts:
            case (str(), str()):
                yield texts
            case _:
                shown = " ".join(reprlib.repr(item).split())
                raise UserError(
                    f"item {number:,} of {name} is {shown}: pass (source, target) strings"
                )


def _list_items(pairs: Any, languages: tuple[str, str], name: str) -> Iterable[Any]:
    """Return the items of an iterable, or the rows of a frame's two columns."""
    if hasattr(pairs, "itertuples"):
        names = [str(column) for column in pairs.columns]
        sides = (0, 1) if len(names) == 2 else None
        columns = _choose_sides(names, languages, name, default=sides)
        return map(itemgetter(*columns), pairs.itertuples(index=False, name=None))
    if isinstance(pairs, Iterable) and not isinstance(pairs, (str, bytes, Mapping)):
        return pairs
    raise UserError(
        f"{name} is of type {type(pairs).__name__}: pass an iterable of (source, target) strings; "
        "a file is data.train=FILE"
    )


def _choose_sides(
    names: Sequence[str],
    languages: tuple[str, str],
    name: str,
    default: tuple[int, int] | None = None,
) -> tuple[int, int]:
    sides = find_sides(names, languages) or default
    if sides is None:
        raise UserError(
            f"{name} has the columns {list_names(names)}: call those of source and target "
            f"{languages[0]} and {languages[1]}"
        )
    return sides
