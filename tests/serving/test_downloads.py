"""Translated documents have names that are safe to save."""

from __future__ import annotations

import pytest

from nmt.documents.formats import FORMATS
from nmt.serving.downloads import describe_download, name_download


@pytest.mark.parametrize(
    ("name", "format_name", "expected", "media_type"),
    [
        ("page.html", "html", "page.en.html", "text/html"),
        ("a.b.HTM", "html", "a.b.en.HTM", "text/html"),
        ("notes", "lines", "notes.en.txt", "text/plain"),
        ("v1.2 notes", "text", "v1.2 notes.en.txt", "text/plain"),
        ("", "po", "document.en.po", "text/x-gettext-translation"),
        ("", "office", "document.en", "application/octet-stream"),
        ("../../etc/passwd.md", "markdown", "passwd.en.md", "text/markdown"),
        (
            "C:\\letters\\a\u00f1o.odt",
            "office",
            "a\u00f1o.en.odt",
            "application/vnd.oasis.opendocument.text",
        ),
        ("a\r\nX: 1\u202etxt.csv", "table", "a__X_ 1_txt.en.csv", "text/csv"),
        ("strings.lang", "catalog", "strings.en.lang", "application/octet-stream"),
        ("v1.2 notes", "table", "v1.2 notes.en", "application/octet-stream"),
        ("a.exe", "text", "a.exe.en.txt", "text/plain"),
        (".json", "catalog", "json.en", "application/octet-stream"),
        ("..", "text", "document.en.txt", "text/plain"),
    ],
)
def test_the_language_comes_before_the_ending(
    name: str, format_name: str, expected: str, media_type: str
) -> None:
    assert name_download(name, format_name, "en") == (expected, media_type)


def test_a_language_cannot_leave_the_folder_and_a_name_is_of_limited_length() -> None:
    assert name_download("a.md", "markdown", "../x")[0] == "a._x.md"
    assert len(name_download("a" * 5000 + ".md", "markdown", "en")[0]) == 100 + 6


def test_every_ending_of_a_format_has_a_media_type() -> None:
    endings = [ending for each in FORMATS.values() for ending in each]
    for ending in endings:
        assert name_download(f"a{ending}", "text", "en")[1] != "application/octet-stream", ending


def test_names_beyond_ascii_come_in_both_notations() -> None:
    assert describe_download("a \u00f1.md") == (
        "attachment; filename=\"a _.md\"; filename*=UTF-8''a%20%C3%B1.md"
    )
