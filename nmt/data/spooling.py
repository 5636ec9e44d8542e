"""Pairs from Python written to a table, from which a run reads them like those of any file."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nmt.errors import UserError
from nmt.files import digest_file, partial_path, replace_atomically

_SEPARATORS = re.compile(r"[\t\r\n]")  # of columns and lines


def spool_pairs(pairs: Iterable[Any], languages: tuple[str, str], folder: Path) -> Path:
    """Write pairs to a table, source TAB target, that is named by its SHA-256; return its path.

    Tabs and line ends inside a text become spaces. Memory does not grow with the number of pairs.

    Args:
        pairs: an iterable of (source, target); or of mappings with the languages as keys, or with
            such a mapping as ``translation``, as a Hugging Face dataset has them; or a pandas
            frame, whose columns are those named by the languages, or else the first two.
        languages: BCP 47 tags of source and target.
        folder: where the table is written.

    Raises:
        UserError: an item is not a pair of strings, or there are no items.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial = partial_path(folder / "pairs.tsv")
    number = 0
    with replace_atomically(partial) as file:
        for number, item in enumerate(_list_items(pairs, languages), start=1):
            texts = [_SEPARATORS.sub(" ", text) for text in _find_texts(item, languages, number)]
            # A lone surrogate is not UTF-8: the reader rejects the pair and counts it.
            file.write(("\t".join(texts) + "\n").encode("utf-8", "surrogatepass"))
        if not number:
            raise UserError("the pairs are empty: give (source, target) strings")
    return partial.replace(folder / f"{digest_file(partial)}.tsv")


def _list_items(pairs: Any, languages: tuple[str, str]) -> Iterable[Any]:
    """Return the items of an iterable, or the rows of a frame's two columns."""
    if not hasattr(pairs, "itertuples"):
        return pairs
    columns = list(pairs.columns)
    is_named = all(language in columns for language in languages)
    chosen = list(languages) if is_named else columns[:2]
    return pairs[chosen].itertuples(index=False, name=None)


def _find_texts(item: Any, languages: tuple[str, str], number: int) -> tuple[str, str]:
    """Return source and target of an item.

    Raises:
        UserError: it is not a pair of strings.
    """
    texts = item
    if isinstance(item, Mapping):
        translation = item.get("translation", item)
        texts = [translation.get(language) for language in languages]
    match texts:
        case (str() as source, str() as target):
            return source, target
    raise UserError(
        f"item {number} of the pairs is {reprlib.repr(item)}: give (source, target) strings, or "
        f"mappings with the keys {languages[0]} and {languages[1]}"
    )
