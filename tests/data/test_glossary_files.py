"""Glossaries are read from tables with and without a header."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.data.glossary_files import read_glossary
from nmt.errors import UserError
from nmt.text.terms import Term


def test_a_file_has_comments_notes_and_terms_that_stay(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(
        "\ufeff# comment\n\nperro guía\tguide dog\tan animal\nSAP\nRenfe\tRenfe\n", encoding="utf-8"
    )
    assert read_glossary(path, ("es", "en")).terms == (
        Term("perro guía", "guide dog", "an animal"),
        Term("SAP", "SAP"),
        Term("Renfe", "Renfe"),
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no terms: write lines of source TAB target"),
        (b"# nothing\n", "has no terms"),
        (b"gato\tcat\n...\tdots\n", "line 2: the term '...' has no word"),
        (b"gato\tcat\ngato\ttomcat\n", "the term 'gato' has two translations, 'cat' and 'tomcat'"),
        (
            b"gato,cat\nperro,dog\n",
            "no tab: write a tab between source and target, or save it as .csv",
        ),
        (b"# a\nes;en\n\n gato ; cat, tomcat\r\n", "has commas or semicolons and no tab"),
        ("canción\tsong\n".encode("latin-1"), "is not UTF-8: save the glossary as UTF-8"),
    ],
)
def test_invalid_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"terms\.tsv.*" + message):
        read_glossary(path, ("es", "en"))


@pytest.mark.parametrize(
    "content", ["Lima, Perú\n", "Lima, Perú\nMadrid\n", "Lima, Perú\tLima, Peru\nQuito, Ecuador\n"]
)
def test_terms_may_have_commas(tmp_path: Path, content: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(content, encoding="utf-8")
    assert read_glossary(path, ("es", "en")).terms[0].source == "Lima, Perú"


def test_a_file_is_cleaned_as_texts_are(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("gui\u0301a\u00ad\u200b\u2028roja\tcafe\u0301\r\n", encoding="utf-8")
    assert read_glossary(path, ("es", "en")).terms == (Term("guía roja", "café"),)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"terms\.tsv cannot be read: No such file"):
        read_glossary(tmp_path / "terms.tsv", ("es", "en"))


@pytest.mark.parametrize(
    ("content", "terms"),
    [
        ("español\tinglés\ngato\tcat\n", [Term("gato", "cat")]),
        ("English\tSpanish\tnote\ncat\tgato\tan animal\n", [Term("gato", "cat", "an animal")]),
        ("note\tsource\ttarget\nan animal\tgato\tcat\n", [Term("gato", "cat", "an animal")]),
        ("# animals\nes\ten\ngato\n", [Term("gato", "gato")]),
        # Entries, not headers: both cells name one language.
        (
            "español\tSpanish\ninglés\tEnglish\n",
            [Term("español", "Spanish"), Term("inglés", "English")],
        ),
    ],
)
def test_a_header_tells_the_columns(tmp_path: Path, content: str, terms: list[Term]) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(content, encoding="utf-8")
    assert list(read_glossary(path, ("es", "en")).terms) == terms


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_spreadsheets_are_read(tmp_path: Path, delimiter: str) -> None:
    rows = (["es", "en", "note"], ['"gato; montés"', "wildcat", ""], ["perro", "dog", '"a, b"'])
    path = tmp_path / "terms.csv"
    path.write_text("\r\n".join(map(delimiter.join, rows)), encoding="utf-8", newline="")
    assert read_glossary(path, ("es", "en")).terms == (
        Term("gato; montés", "wildcat"),
        Term("perro", "dog", "a, b"),
    )


def test_a_table_names_its_delimiter_and_has_spaces_before_quotes(tmp_path: Path) -> None:
    path = tmp_path / "terms.csv"
    path.write_text('sep=;\nsource;target\ncasa; "house; home"\n', encoding="utf-8")
    assert read_glossary(path, ("es", "en")).terms == (Term("casa", "house; home"),)


def test_the_line_of_a_wrong_term_is_counted_with_that_of_the_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "terms.csv"
    path.write_text("sep=;\ncasa;house\n--;x\n", encoding="utf-8")
    with pytest.raises(UserError, match="line 3: the term '--' has no word"):
        read_glossary(path, ("es", "en"))


def test_an_open_quote_is_named(tmp_path: Path) -> None:
    path = tmp_path / "terms.csv"
    path.write_text('gato,cat\n"perro,dog\nsol,sun\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"terms\.csv, line \d: .*: check its quotes"):
        read_glossary(path, ("es", "en"))
