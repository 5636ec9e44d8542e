"""Names and media types of translated documents, which are safe to save and to open."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import quote

_UNKNOWN = "application/octet-stream"
_OPEN_XML = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_MEDIA_TYPES = {
    ".txt": "text/plain",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".srt": "application/x-subrip",
    ".vtt": "text/vtt",
    ".po": "text/x-gettext-translation",
    ".pot": "text/x-gettext-translation",
    ".xlf": "application/xliff+xml",
    ".xliff": "application/xliff+xml",
    ".sdlxliff": "application/xliff+xml",
    ".mqxliff": "application/xliff+xml",
    ".mxliff": "application/xliff+xml",
    ".txlf": "application/xliff+xml",
    ".tmx": "application/xml",
    ".docx": _OPEN_XML,
    ".docm": "application/vnd.ms-word.document.macroenabled.12",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".json": "application/json",
    ".arb": "application/json",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
}
# Of documents whose name does not tell it.
_EXTENSIONS = {"text": ".txt", "lines": ".txt", "html": ".html", "markdown": ".md", "po": ".po"}
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]*")
_LONGEST = 100  # characters of a name without its ending
_UNSAFE = re.compile(r'[<>:"|?*\\/%]')


def name_download(name: str, format_name: str, language: str) -> tuple[str, str]:
    """Return file name and media type of a translated document.

    Args:
        name: of the given document, such as ``page.html``; folders are left out.
        format_name: its format.
        language: BCP 47 tag of the translation, which is inserted before the ending.
    """
    path = PurePosixPath(_make_safe(name.replace("\\", "/").rpartition("/")[2]))
    extension = _EXTENSIONS.get(format_name, "")
    is_kept = not extension and _ENDING.fullmatch(path.suffix)
    suffix = path.suffix if is_kept or path.suffix.lower() in _MEDIA_TYPES else ""
    stem = path.name.removesuffix(suffix)
    suffix = suffix or extension
    media_type = _MEDIA_TYPES.get(suffix.lower(), _UNKNOWN)
    return f"{stem[:_LONGEST] or 'document'}.{_make_safe(language)}{suffix}", media_type


def describe_download(name: str) -> str:
    """Return a ``Content-Disposition`` that saves a file under this safe name (RFC 6266)."""
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _make_safe(name: str) -> str:
    """Return a name without characters that act in a path, a header or a display."""
    printable = "".join(sign if sign.isprintable() else "_" for sign in name)
    return _UNSAFE.sub("_", printable).strip(" .")
