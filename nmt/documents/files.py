"""Files of documents: read, translated with a progress bar, and written."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from nmt.data.encodings import UTF_8, open_text
from nmt.data.lines import split_lines
from nmt.documents.formats import Document, DocumentOptions, extract
from nmt.documents.translating import DocumentReport, translate_document
from nmt.errors import UserError
from nmt.files import write_bytes
from nmt.inference.contract import SearchRequest
from nmt.inference.lines import decode_whole_lines
from nmt.inference.rare_words import RareWords
from nmt.inference.streaming import make_progress
from nmt.inference.term_report import TermReport

if TYPE_CHECKING:
    from nmt.inference.translator import Translator

_MAX_BYTES = 256 << 20


def read_document(path: Path, name: str, options: DocumentOptions) -> Document:
    """Read a document; one in a given encoding becomes UTF-8, but a page keeps its encoding.

    Raises:
        UserError: the file is unreadable, too large, damaged or hostile.
    """
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise UserError(
                f"{path} has {size >> 20:,} MiB: split it into documents of at most "
                f"{_MAX_BYTES >> 20} MiB"
            )
        with path.open("rb") as opened:
            data = recode(opened, str(path), name, options)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return extract(data, name, replace(options, extension=path.suffix.lower()))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def recode(file: BinaryIO, label: str, name: str, options: DocumentOptions) -> bytes:
    """Return the bytes of a document: in UTF-8 if an encoding is given, unless it is a page.

    Args:
        file: the document.
        label: its name in messages.
        name: its format.
        options: with the encoding.

    Raises:
        UserError: it is in another encoding.
    """
    if options.encoding and name != "html":
        file = open_text(file, label, options.encoding)
    return file.read()


def read_lines(data: bytes, label: str, encoding: str | None) -> list[str]:
    """Return the lines of a text, without their ends.

    Raises:
        UserError: it is in another encoding (None is UTF-8), or has a line above 1 MiB.
    """
    lines = split_lines(open_text(BytesIO(data), label, encoding or UTF_8))
    return list(decode_whole_lines(lines, label))


def write_translated(
    document: Document,
    output: Path | None,
    translator: Translator,
    request: SearchRequest,
    terms: TermReport,
) -> None:
    """Translate a document and write it; an interrupted translation writes nothing.

    Args:
        document: from `read_document`.
        output: None: standard output.
        translator: translates its texts.
        request: how to search.
        terms: counts the terms of its glossary.

    Raises:
        UserError: the output cannot be written.
    """
    begin = time.monotonic()
    is_visible = output is not None or not sys.stdout.isatty()
    with make_progress("texts", is_visible=is_visible) as progress:
        task = progress.add_task("", count=0, rate="–")

        def advance(done: int, total: int) -> None:
            rate = f"{done / (time.monotonic() - begin):,.0f}"
            progress.update(task, total=total, completed=done, count=done, rate=rate)

        data, report = translate_document(document, translator, request, advance)
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_bytes(output, data)
    _warn(report)
    rare_words = RareWords(translator.segmenter)
    rare_words.add(segment.text for segment in document.segments)
    rare_words.warn()
    terms.add(report.terms)


def _warn(report: DocumentReport) -> None:
    """Warn, on standard error, about missing text and about elements that may have moved."""
    warn = partial(print, "warning:", file=sys.stderr)
    if report.skipped:
        warn(
            "choices such as {n, plural, …} stay as they were: translate them by hand "
            f"({report.skipped:,} of them)"
        )
    elif not report.segments:
        warn(
            "the document has no text to translate, or all of it is translated: it is written as "
            "it is"
        )
    if report.lost_spans:
        warn(
            f"the model left out {len(report.lost_spans):,} of the names, numbers, elements and "
            "other parts that it copies; they were inserted where they most likely belong"
        )
    if report.unaligned:
        warn(
            f"the markup of {report.unaligned:,} texts was placed by position: an ensemble or a "
            "model without attention does not align words"
        )
    if report.untranslated:
        warn(f"texts with empty translations stay as they were ({report.untranslated:,} of them)")
