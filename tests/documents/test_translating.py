"""Documents are translated text by text; texts with markup inside are aligned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from marked_texts import build
from marked_texts import write as write_marks

from nmt.documents import files
from nmt.documents.files import read_document, read_lines, write_translated
from nmt.documents.formats import (
    FORMATS,
    UNKNOWN_EXTENSIONS,
    Document,
    DocumentOptions,
    extract,
    find_format,
)
from nmt.documents.translating import (
    match_endings,
    space_last_element,
    translate_document,
    translate_lines,
)
from nmt.errors import UserError
from nmt.inference.contract import SearchRequest
from nmt.inference.markup_projection import project_marks
from nmt.inference.results import Translation, Word
from nmt.inference.term_report import TermReport
from nmt.inference.translator import Translator
from nmt.text.context import CONTEXT_MARK, PreviousSentences, split_context
from nmt.text.source_words import SourceWords
from nmt.text.words import find_words


class Backwards:
    """Translates by writing the words in reverse order, in capitals."""

    segmenter = SimpleNamespace(words=None, language="es")

    def __init__(self, *, aligns: bool = True, context: int = 0) -> None:
        self.calls: list[tuple[str, bool]] = []
        self.aligns = aligns
        self.context = context

    def begin_document(self) -> PreviousSentences:
        return PreviousSentences(self.context, "es")

    def stream(
        self, chunks: Iterable[Sequence[str]], request: SearchRequest
    ) -> Iterator[list[list[Translation]]]:
        for texts in chunks:
            self.calls += [(text, request.words) for text in texts]
            aligns = request.words and self.aligns
            sources = [split_context(text)[1] for text in texts]
            yield [[self.translate(source, aligns=aligns)] for source in sources]

    def translate(self, source: str, *, aligns: bool) -> Translation:
        words: list[Word] = []
        text = ""
        for begin, end in reversed(find_words(source)):
            text += " " * bool(text)
            words.append(Word(len(text), len(text) + end - begin, None, ((begin, end),)))
            text += source[begin:end].upper()
        lost = ("7",) if "7" in source else ()
        return Translation(
            text, 0.0, 0.0, (2,), lost_spans=lost, words=tuple(words if aligns else [])
        )

    @property
    def translator(self) -> Translator:
        return cast(Translator, self)


def test_markup_goes_with_its_words_and_texts_are_translated_once() -> None:
    page = "<p>uno <b>dos</b> tres</p><p>uno</p><p>uno</p><p>cuatro 7</p>"
    backwards = Backwards()
    advanced: list[tuple[int, int]] = []
    data, report = translate_document(
        extract(page.encode(), "html", DocumentOptions()),
        backwards.translator,
        advance=lambda *counts: advanced.append(counts),
    )
    assert data.decode() == "<p>TRES <b>DOS</b> UNO</p><p>UNO</p><p>UNO</p><p>7 CUATRO</p>"
    assert backwards.calls == [("uno", False), ("cuatro 7", False), ("uno dos tres", True)]
    assert advanced == [(0, 3), (2, 3), (3, 3)]
    assert (report.segments, report.lost_spans, report.unaligned) == (4, ["7"], 0)


def test_texts_are_searched_in_chunks_of_a_given_size() -> None:
    page = "".join(f"<p>uno{n} dos</p>" for n in range(5))
    document = extract(page.encode(), "html", DocumentOptions())
    advanced: list[tuple[int, int]] = []
    whole, _ = translate_document(document, Backwards())
    parts, _ = translate_document(
        document, Backwards(), advance=lambda *counts: advanced.append(counts), chunk_size=2
    )
    assert parts == whole
    assert advanced == [(0, 5), (2, 5), (4, 5), (5, 5)]


def test_lines_are_translated_one_by_one() -> None:
    backwards = Backwards()
    advanced: list[tuple[int, int]] = []
    data, report = translate_lines(
        ["uno dos", "", "uno dos", "7 tres"],
        backwards,
        advance=lambda *counts: advanced.append(counts),
        chunk_size=3,
    )
    assert data == b"DOS UNO\n\nDOS UNO\nTRES 7\n"
    assert [text for text, _ in backwards.calls] == ["uno dos", "", "uno dos", "7 tres"]
    assert advanced == [(0, 4), (3, 4), (4, 4)]
    assert (report.segments, report.lost_spans) == (4, ["7"])


def test_lines_keep_their_tabs_and_stay_lines() -> None:
    class Verbatim(Backwards):
        def translate(self, source: str, *, aligns: bool) -> Translation:
            return Translation(source, 0.0, 0.0, (2,))

    data, _ = translate_lines(["uno\tdos", "tres\u2028cuatro"], Verbatim().translator)
    assert data == b"uno\tdos\ntres cuatro\n"


def test_texts_are_read_behind_those_before_them_whether_or_not_they_are_aligned() -> None:
    page = "<p>Uno <b>dos</b> tres</p><p>Seis</p><p>Uno</p><p>Seis</p><p>Uno</p>"
    backwards = Backwards(context=1)
    data, _ = translate_document(
        extract(page.encode(), "html", DocumentOptions()), backwards.translator
    )
    assert data.decode() == "<p>TRES <b>DOS</b> UNO</p><p>SEIS</p><p>UNO</p><p>SEIS</p><p>UNO</p>"
    # In another context, the same text is another one.
    assert backwards.calls == [
        (f"Uno dos tres {CONTEXT_MARK} Seis", False),
        (f"Seis {CONTEXT_MARK} Uno", False),
        (f"Uno {CONTEXT_MARK} Seis", False),
        ("Uno dos tres", True),
    ]


def test_an_empty_line_begins_another_document() -> None:
    backwards = Backwards(context=1)
    data, _ = translate_lines(["Uno", "Dos", "", "Tres"], backwards.translator)
    assert data.decode() == "UNO\nDOS\n\nTRES\n"
    texts = [text for text, _ in backwards.calls]
    assert texts == ["Uno", f"Uno {CONTEXT_MARK} Dos", "", "Tres"]


def test_a_text_whose_translation_is_empty_stays() -> None:
    class Silent(Backwards):
        def translate(self, source: str, *, aligns: bool) -> Translation:
            return Translation(" .", 0.0, 0.0, (2,))

    page = "<p>uno <code>dos</code></p>"
    document = extract(page.encode(), "html", DocumentOptions())
    data, report = translate_document(document, Silent().translator)
    assert (data.decode(), report.untranslated) == (page, 1)


def test_a_model_that_cannot_align_is_reported() -> None:
    page = "<p>uno <b>dos</b></p>"
    document = extract(page.encode(), "html", DocumentOptions())
    data, report = translate_document(document, Backwards(aligns=False).translator)
    assert report.unaligned == 1
    assert data.decode() == "<p>DOS <b>UNO</b></p>"


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("Mi casa", "My house.", "My house"),
        ("Mi casa ", "My house. ", "My house "),
        ("我的家", "My house。", "My house"),
        ("मेरा घर।", "My house.", "My house."),
        ("Mi casa.", "My house.", "My house."),
        ("¿Mi casa?", "My house.", "My house."),
        ("Los EE. UU", "The U.S.", "The U.S."),
        ("Mi casa", "My house...", "My house..."),
        ("Mi casa", "My house!", "My house!"),
        ("20 libros 📚", "20 books 📚.", "20 books 📚"),
        ("♪ Mi vida ♪", "♪ My life ♪.", "♪ My life ♪"),
        ("Hola, {name}", "Hello, {name} .", "Hello, {name}"),
        ("Mi casa: <https://a.b/c>", "My house: <https://a.b/c>.", "My house: <https://a.b/c>"),
        ("(Mi casa.)", "(My house).", "(My house)."),
        ("Mi casa\nMi perro.", "My house.\nMy dog.", "My house\nMy dog."),
        ("Mi casa\nMi perro", "My house. My dog.", "My house. My dog"),
        ("", ".", "."),
        ("a", "", ""),
    ],
)
def test_a_title_gets_no_final_point(source: str, text: str, expected: str) -> None:
    assert match_endings(source, text)[0] == expected


def test_words_keep_their_places_behind_a_removed_point() -> None:
    text = "My house.\nMy dog."
    words = [Word(*match.span(), None, ()) for match in re.finditer(r"\w+|\.", text)]
    shorter, moved = match_endings("Mi casa\nMi perro", text, words)
    assert [shorter[word.begin : word.end] for word in moved] == ["My", "house", "My", "dog"]


@pytest.mark.parametrize(
    ("tagged", "text", "expected"),
    [
        ("Un perro <x/>.", "A dog.", "A dog <0></0>."),
        ("Un perro <x/><x/>.", "A dog.", "A dog <0></0><1></1>."),
        ("Un <b>perro</b> <x/>.", "A dog.", "A <0>dog</0> <1></1>."),
        ("Un perro<x/>.", "A dog.", "A dog<0></0>."),
        ("Un perro <x/>.", "A dog .", "A dog <0></0>."),
        ("Un perro <x/>.", "A dog", "A dog<0></0>"),
        ("Un perro <x/>.", ".", "<0></0>."),
        ("Un perro .", "A dog.", "A dog."),
    ],
)
def test_an_element_before_the_full_stop_keeps_its_space(
    tagged: str, text: str, expected: str
) -> None:
    source = build(tagged)
    numbers = {"A": 0, "dog": 1, ".": 2}
    spans = find_words(source.text)
    words = [Word(*span, None, (spans[numbers[text[slice(*span)]]],)) for span in find_words(text)]
    spaced = space_last_element(source, text, words)
    assert write_marks(project_marks(source, *spaced)) == expected


def test_formats_are_told_by_name() -> None:
    assert find_format(Path("a.B/Page.HTML")) == "html"
    assert find_format(Path("a.sdlxliff")) == find_format(Path("a.mxliff")) == "xliff"
    assert find_format(Path("app_es.arb")) == "catalog"
    assert find_format(Path("a.txt")) == find_format(Path("a")) == "lines"
    extensions = [extension for each in FORMATS.values() for extension in each]
    assert len(extensions) == len(set(extensions))
    assert not UNKNOWN_EXTENSIONS.intersection(extensions)


def write(document: Document, target: Path, translating: Backwards | None = None) -> None:
    translator = (translating or Backwards()).translator
    write_translated(document, target, translator, SearchRequest(), TermReport(None))


def test_a_file_is_written_at_the_end_or_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "a.html", tmp_path / "b.html"
    source.write_text("<p>uno 7</p>")
    document = read_document(source, "html", DocumentOptions())
    write(document, target)
    assert target.read_text() == "<p>7 UNO</p>"
    assert "left out 1 of the names, numbers, elements" in capsys.readouterr().err

    class Fails(Backwards):
        def translate(self, source: str, *, aligns: bool) -> Translation:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(document, target, Fails())
    assert target.read_text() == "<p>7 UNO</p>"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]
    with pytest.raises(UserError, match="cannot be written"):
        write(document, tmp_path / "no" / "b")


def test_a_document_in_another_language_is_written_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "a.html", tmp_path / "b.html"
    source.write_text("<p>alpha <b>beta</b> gamma</p><p>delta</p>")
    words = SourceWords({f"w{number}": 5 for number in range(1000)} | {"alpha": 5})
    backwards = Backwards()
    backwards.segmenter = SimpleNamespace(words=words, language="es")
    write(read_document(source, "html", DocumentOptions()), target, backwards)
    assert capsys.readouterr().err == ""  # three words may be names
    source.write_text("<p>alpha <b>beta</b> gamma</p><p>delta epsilon</p>")
    write(read_document(source, "html", DocumentOptions()), target, backwards)
    assert "4 of 5 words hardly occur" in capsys.readouterr().err


def test_a_document_without_untranslated_text_is_written_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "a.po", tmp_path / "b.po"
    source.write_text('msgid "Hola"\nmsgstr "Hi"\n')
    document = read_document(source, "po", DocumentOptions())
    write(document, target)
    assert target.read_bytes() == source.read_bytes()
    assert "warning: the document has no text to translate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "skipped"),
    [
        ("a.json", '{"n": "CHOICE", "a": "Sí", "b": "12"}', 1),
        ("a.yaml", "n: 'CHOICE'\na: Sí\n", 1),
        ("a.po", 'msgid "CHOICE"\nmsgstr ""\n\nmsgid "Sí"\nmsgstr ""\n', 1),
        ("a.po", 'msgid "CHOICE"\nmsgstr "{n, plural, other {# books}}"\n', 0),
        ("a.csv", 'a\n"CHOICE"\n"CHOICE"\nSí\n=A1&"x"\n', 2),
        (
            "a.xlf",
            '<xliff version="1.2"><file><body>'
            '<trans-unit id="1"><source>CHOICE</source></trans-unit>'
            '<trans-unit id="2"><source>Sí</source></trans-unit></body></file></xliff>',
            1,
        ),
        ("a.html", "<p>Sí</p>", 0),
    ],
)
def test_choices_of_the_message_format_are_counted(
    name: str, text: str, skipped: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text.replace("CHOICE", "{n, plural, one {Un libro} other {# libros}}"))
    options = DocumentOptions("es", "en", ("a",) if name == "a.csv" else ())
    document = read_document(path, find_format(path), options)
    _, report = translate_document(document, Backwards().translator)
    assert report.skipped == skipped
    write(document, tmp_path / "b")
    error = capsys.readouterr().err
    assert (f"translate them by hand ({skipped} of them)" in error) == (skipped > 0)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"a\.html: the document is not UTF-8"):
        read_document(path, "html", DocumentOptions())


def test_a_file_or_line_that_is_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MAX_BYTES", 10)
    path = tmp_path / "a.txt"
    path.write_bytes(b"a" * 10)
    assert len(read_document(path, "text", DocumentOptions()).segments) == 1
    path.write_bytes(b"a" * 11)
    with pytest.raises(UserError, match=r"a\.txt has 0 MiB: split it into documents"):
        read_document(path, "text", DocumentOptions())
    longest = "a" * (1 << 20)
    assert read_lines(f"a\n{longest}\n".encode(), "x", None) == ["a", longest]
    with pytest.raises(UserError, match="x: line 2 is longer than 1 MiB: break it up"):
        read_lines(f"a\n{longest}a".encode(), "x", None)


def test_a_file_in_another_encoding_becomes_utf_8(tmp_path: Path) -> None:
    source, target = tmp_path / "a.srt", tmp_path / "b.srt"
    source.write_bytes("1\n00:00:01,000 --> 00:00:02,000\nSí señor\n".encode("cp1252"))
    document = read_document(source, "subtitles", DocumentOptions(encoding="cp1252"))
    write(document, target)
    assert "SEÑOR SÍ" in target.read_text(encoding="utf-8")
    with pytest.raises(UserError, match=r"a\.srt"):
        read_document(source, "subtitles", DocumentOptions(encoding="ascii"))


def test_a_missing_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "polib", None)
    monkeypatch.delitem(sys.modules, "nmt.documents.po", raising=False)
    with pytest.raises(UserError, match=r"pip install 'nmt\[documents\]'"):
        extract(b"", "po", DocumentOptions())
