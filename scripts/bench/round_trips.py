"""Fill real documents with their own texts and with others. Prints a Markdown table.

    python scripts/bench/round_trips.py FOLDER... --list

Each document in the folders is filled with its own texts: are its bytes the same? Then it is filled
with its texts in ROT13, which exchanges Latin letters and keeps their case: is it read again with
these texts, and with the same elements around the same words? The result is filled with the first
texts again: are its bytes the same (of an archive, those of its entries), or only its texts and
elements? XLIFF and TMX have both texts, so they have no way back; XLIFF loses its translations
first. Tables and PO are left out. Documents of the same bytes count once.
"""

from __future__ import annotations

import argparse
import codecs
import io
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

if TYPE_CHECKING:
    from nmt.text.marked import MarkedText

FORMATS = ("html", "markdown", "subtitles", "xliff", "office", "catalog")
TARGET, THIRD = "tlh", "qya"  # languages that no TMX document has
ALL, REFUSED, WITH_TEXTS = "documents", "refused", "with texts"
OWN = "own texts: same bytes"
OTHERS = "other texts: read again"
BACK = "and back: same bytes"
BACK_TEXTS = "and back: same texts"
COLUMNS = (ALL, REFUSED, WITH_TEXTS, OWN, OTHERS, BACK, BACK_TEXTS)
_TARGETS = re.compile(rb"\s*<target\b(?:[^>]*/>|.*?</target\s*>)", re.DOTALL)
_SOURCES = re.compile(rb"<((?:seg-)?source)\b.*?</\1\s*>", re.DOTALL)
_TARGET_NAME = re.compile(rb"(</?)target\b")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--list", action="store_true", help="name documents that differ")
    arguments = parser.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path, data in read_files(arguments.folders):
        results, messages = check(path, data)
        counts[path.suffix.lower()[1:]].update(results)
        for message in messages if arguments.list else ():
            print(f"{path}: {message}", file=sys.stderr)
    print(f"| format | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * len(COLUMNS)}")
    for kind, row in sorted(counts.items()):
        print(f"| {kind} | {' | '.join(f'{row[column]:,}' for column in COLUMNS)} |")


def read_files(folders: Iterable[Path]) -> Iterator[tuple[Path, bytes]]:
    """Yield the documents in folders; those of the same bytes once."""
    from nmt.documents.formats import find_format

    seen = set()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if find_format(path) in FORMATS and path.is_file():
                data = path.read_bytes()
                if data not in seen:
                    seen.add(data)
                    yield path, data


def check(path: Path, data: bytes) -> tuple[Counter[str], list[str]]:
    """Return the columns that count a document, and messages about those that do not."""
    from nmt.documents.formats import DocumentOptions, extract, find_format
    from nmt.errors import UserError

    name = find_format(path)
    is_tmx = path.suffix.lower() == ".tmx"
    forth = DocumentOptions("und", TARGET) if is_tmx else DocumentOptions()
    back = DocumentOptions(TARGET, THIRD) if is_tmx else forth
    if name == "xliff":
        data = _TARGETS.sub(b"", data)
    try:
        document = extract(data, name, forth)
    except UserError as error:
        return Counter([ALL, REFUSED]), [str(error)]
    if not document.segments:
        return Counter([ALL]), []
    own = [segment.without_kept() for segment in document.segments]
    others = [replace(text, text=codecs.encode(text.text, "rot13")) for text in own]
    filled = document.fill(others)
    again = extract(exchange_texts(filled) if name == "xliff" else filled, name, back)
    results = {
        OWN: document.fill(own) == data,
        OTHERS: are_alike(again.segments, others),
    }
    if name != "xliff" and results[OTHERS]:
        returned = again.fill(own)
        results[BACK] = unpack(returned, name) == unpack(data, name)
        results[BACK_TEXTS] = are_alike(extract(returned, name, forth).segments, own)
    counts = Counter([ALL, WITH_TEXTS, *(column for column in results if results[column])])
    return counts, [f"not {column}" for column in results if not results[column]]


def unpack(data: bytes, name: str) -> object:
    """Return what tells the bytes of a document; of an archive, the checksums of its entries."""
    if name != "office":
        return data
    with ZipFile(io.BytesIO(data)) as archive:
        return [(each.filename, each.CRC, each.file_size) for each in archive.infolist()]


def exchange_texts(xliff: bytes) -> bytes:
    """Return a document with its translations in place of its sources."""
    return _TARGET_NAME.sub(rb"\1source", _SOURCES.sub(b"", xliff))


def are_alike(texts: Sequence[MarkedText], others: Sequence[MarkedText]) -> bool:
    """Whether texts are the same and have the same elements, white space left out."""
    return list(map(without_spaces, texts)) == list(map(without_spaces, others))


def without_spaces(text: MarkedText) -> MarkedText:
    """Return a text without kept elements and without white space."""
    from nmt.text.marked import delete_characters

    text = text.without_kept()
    return delete_characters(text, [i for i, sign in enumerate(text.text) if sign.isspace()])


if __name__ == "__main__":
    main()
