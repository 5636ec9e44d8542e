"""Formats of documents: their list, and the contract between a format and translation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import Protocol

from nmt.errors import UserError
from nmt.text.marked import MarkedText
from nmt.text.scripts import UNKNOWN_LANGUAGE


@dataclass(frozen=True)
class DocumentOptions:
    """What a format may need to know beyond the bytes of a document."""

    source_language: str = UNKNOWN_LANGUAGE  # BCP 47 tag
    target_language: str = UNKNOWN_LANGUAGE  # written where a document names its language
    columns: tuple[str, ...] = ()  # of a table: names in its header, or numbers from 1
    # One of Python's text encodings; None: what the document names, or UTF-8.
    encoding: str | None = None
    extension: str = ""  # of its file name, such as ".json"; empty: unknown


class Document(Protocol):
    """A document that is split into texts and the skeleton around them.

    Attributes:
        segments: texts to translate, such as paragraphs, in the order of the document.
        skipped: number of texts that stay, as they choose between texts in ICU's message format.
    """

    segments: Sequence[MarkedText]
    skipped: int = 0

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the document with translations in place of its segments.

        A segment whose translation equals `MarkedText.without_kept` keeps its bytes.

        Args:
            translations: of each segment, with the same marks.
        """
        ...


# Endings of file names by format, each a module with ``extract(data, options) -> Document``.
FORMATS: dict[str, tuple[str, ...]] = {
    "text": (),
    "html": (".html", ".htm", ".xhtml"),
    "markdown": (".md", ".markdown"),
    "subtitles": (".srt", ".vtt"),
    "po": (".po", ".pot"),
    "xliff": (".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff", ".txlf", ".tmx"),
    "office": (".docx", ".docm", ".odt"),
    "catalog": (".json", ".arb", ".yaml", ".yml"),
    "table": (".csv", ".tsv"),
}
# Formats that name their encoding, so that it cannot be given.
NAMING_ENCODING = frozenset(("office", "po", "xliff"))
LINES = "lines"  # a file of sentences, not a document
NAMES = (LINES, *FORMATS)


# Of documents in none of these formats: as lines of text, they would be damaged.
UNKNOWN_EXTENSIONS = frozenset(
    """.adoc .ass .c .cpp .css .dita .doc .dtd .eml .epub .erb .fodt .ftl .hbs .ics .ini .ipynb
    .java .js .json5 .jsonc .jsonl .jsx .lrc .mbox .mdx .mhtml .ndjson .org .pdf .php .plist .pptx
    .properties .py .qmd .resw .resx .rmd .rst .rtf .sbv .sh .smi .sql .ssa .strings .stringsdict
    .svelte .svg .tbx .tex .toml .ts .tsx .ttml .twig .vue .xcstrings .xlsx .xml .xtb""".split()
)


def find_format(path: PurePath) -> str:
    """Return the name of the format that a file name tells."""
    suffix = path.suffix.lower()
    return next((name for name, endings in FORMATS.items() if suffix in endings), LINES)


def extract(data: bytes, name: str, options: DocumentOptions) -> Document:
    """Split a document into texts and its skeleton.

    Raises:
        UserError: the document is damaged or hostile, or a library of the extra is missing.
    """
    try:
        adapter = import_module(f"nmt.documents.{name}")
    except ModuleNotFoundError as error:
        raise UserError(
            f"format {name} needs {error.name}: pip install 'nmt[documents]'"
        ) from error
    document: Document = adapter.extract(data, options)
    return document
