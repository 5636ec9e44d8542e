"""DOCX and ODT: which paragraphs are extracted, and how changed ones are built anew."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Sequence

import pytest
from conftest import cpu_seconds
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from marked_texts import make_translation, try_examples

from nmt.documents.formats import Document, DocumentOptions
from nmt.documents.office import extract as extract_office
from nmt.errors import UserError
from nmt.text.marked import Mark, MarkedText

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
M = "http://schemas.openxmlformats.org/officeDocument/2006/math"
OPEN_XML = "application/vnd.openxmlformats-officedocument.wordprocessingml"
BOLD = "<w:rPr><w:b/></w:rPr>"
NOTE = '<w:rPr><w:rStyle w:val="FootnoteReference"/></w:rPr>'
FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'


def extract(data: bytes) -> Document:
    return extract_office(data, DocumentOptions("es", "en"))


def keep(document: Document) -> list[MarkedText]:
    return [segment.without_kept() for segment in document.segments]


def make_zip(
    entries: Sequence[tuple[str, str | bytes]], stored: Sequence[str] = (), comment: bytes = b""
) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        archive.comment = comment
        for name, content in entries:
            info = zipfile.ZipInfo(name, (2021, 3, 4, 5, 6, 8))
            info.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            info.external_attr = 0
            info.create_system = 0
            info.comment = b"nota"
            archive.writestr(info, content, compresslevel=1)
            info.external_attr = 0
    return output.getvalue()


def wrap(body: str, root: str = "document") -> str:
    return (
        "<?xml version='1.0' encoding='UTF-8' standalone='yes'?>\r\n"
        f'<w:{root} xmlns:w="{W}"  xmlns:m="{M}" xmlns:r="urn:r">{body}</w:{root}>'
    )


def make_docx(body: str, *, main: str = "word/document.xml", **others: str) -> bytes:
    """Make a document of its body, and of headers, footers and notes by the names of parts."""
    types = {"header1": "header", "footer2": "footer"}
    overrides = [(main, f"{OPEN_XML}.document.main+xml")]
    overrides += [
        (f"word/{name}.xml", f"{OPEN_XML}.{types.get(name, name)}+xml") for name in others
    ]
    declared = "".join(
        f'<Override PartName="/{name}" ContentType="{kind}"/>' for name, kind in overrides
    )
    roots = {"header1": "hdr", "footer2": "ftr"}
    return make_zip(
        [
            (
                "[Content_Types].xml",
                '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
                f"{declared}</Types>",
            ),
            *(
                (f"word/{name}.xml", wrap(part, roots.get(name, name)))
                for name, part in others.items()
            ),
            (main, wrap(f"<w:body>{body}<w:sectPr/></w:body>")),
            ("word/media/foto.png", b"\x89PNG" + bytes(range(256)) * 40),
        ],
        comment=b"comentario",
    )


def make_paragraph(*runs: str) -> str:
    return f'<w:p w:rsidR="00A1"><w:pPr><w:jc w:val="left"/></w:pPr>{"".join(runs)}</w:p>'


def run(text: str, properties: str = "") -> str:
    return f'<w:r w:rsidR="00B2">{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def built(text: str, properties: str = "") -> str:
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def read_entry(data: bytes, name: str = "word/document.xml") -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return archive.read(name).decode()


def translate(*runs: str, text: str, marks: tuple[Mark, ...] = ()) -> str:
    """Return the content of a paragraph in which one text is filled in."""
    document = extract(make_docx(make_paragraph(*runs)))
    filled = read_entry(document.fill([MarkedText(text, marks)]))
    before, after = wrap(f"<w:body>{make_paragraph('|')}<w:sectPr/></w:body>").split("|")
    assert filled.startswith(before)
    assert filled.endswith(after)
    return filled[len(before) : -len(after)]


def get_segment(*runs: str) -> MarkedText:
    (segment,) = extract(make_docx(make_paragraph(*runs))).segments
    return segment


def test_a_character_of_a_font_of_symbols_stays() -> None:
    symbol = run("\uf0fc", '<w:rPr><w:rFonts w:ascii="Wingdings"/></w:rPr>')
    assert get_segment(run("a "), symbol, run(" b")) == MarkedText("a  b", (Mark(2, 2),))
    assert "\uf0fc" in translate(run("a "), symbol, run(" b"), text="c", marks=(Mark(1, 1),))


def test_a_superscript_number_is_no_part_of_its_word() -> None:
    raised = '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'
    runs = run("Datos recientes"), run("1", raised), run(" hoy")
    assert get_segment(*runs) == MarkedText("Datos recientes hoy", (Mark(15, 15),))
    written = translate(*runs, text="New data today", marks=(Mark(8, 8),))
    assert written.index("New data") < written.index(">1<") < written.index(" today")
    assert get_segment(run("1"), run("er", raised), run(" día")).text == "1er día"
    assert get_segment(run("Hola"), run(" ", raised), run("mundo")).text == "Hola mundo"


def test_the_look_of_most_text_does_not_depend_on_its_runs() -> None:
    one, cut = (run("ab c"),), (run("ab"), run(" "), run("c"))
    for runs in (one, cut):
        assert get_segment(*runs, run("def", BOLD)).marks == (Mark(4, 7),)
        assert get_segment(run("d f", BOLD), *runs).marks == (Mark(0, 3),)


REPORT = (
    make_paragraph(
        '<w:bookmarkStart w:id="0" w:name="_Toc1"/>', run("Informe"), '<w:bookmarkEnd w:id="0"/>'
    )
    + make_paragraph(
        "<w:r><w:t>El </w:t></w:r>",
        '<w:proofErr w:type="spellStart"/>',
        run("proyec"),
        run("to ", '<w:rPr><w:lang w:val="es-ES"/></w:rPr>'),
        '<w:proofErr w:type="spellEnd"/>',
        run("avanza", BOLD),
        run(" bien."),
    )
    + make_paragraph(run("12 %"))
    + "<w:tbl><w:tr><w:tc>"
    + make_paragraph(run("Celda"))
    + "</w:tc></w:tr></w:tbl><w:p/>"
)


def test_unchanged_documents_keep_their_bytes() -> None:
    data = make_docx(REPORT, header1=make_paragraph(run("Cabecera")))
    document = extract(data)
    assert document.fill(keep(document)) == data


def test_paragraphs_are_those_of_text_headers_and_notes() -> None:
    parts = {
        name: make_paragraph(run(f"Parte {name}"))
        for name in ("header1", "footer2", "footnotes", "endnotes", "comments", "settings")
    }
    document = extract(make_docx(REPORT, **parts))
    assert [segment.text for segment in document.segments] == [
        "Informe",
        "Elproyecto avanza bien.",  # white space at the ends counts only if it is preserved
        "Celda",
        "Parte header1",
        "Parte footer2",
        "Parte footnotes",
        "Parte endnotes",
    ]
    assert document.segments[1].marks == (Mark(11, 17),)


def test_the_main_part_may_have_any_name() -> None:
    document = extract(make_docx(REPORT, main="word/document2.xml"))
    assert document.segments[0].text == "Informe"


def describe(info: zipfile.ZipInfo) -> tuple[object, ...]:
    """Return what a directory says of an entry, except for its content."""
    return (
        info.filename,
        info.date_time,
        info.compress_type,
        info.external_attr,
        info.create_system,
        info.comment,
    )


def test_only_changed_paragraphs_and_parts_differ() -> None:
    data = make_docx(REPORT, header1=make_paragraph(run("Cabecera")))
    document = extract_office(data, DocumentOptions())
    filled = keep(document)
    filled[2] = MarkedText("Cell <&>")
    output = document.fill(filled)
    assert read_entry(output) == wrap(f"<w:body>{REPORT}<w:sectPr/></w:body>").replace(
        run("Celda"), built("Cell &lt;&amp;&gt;")
    )
    with (
        zipfile.ZipFile(io.BytesIO(data)) as before,
        zipfile.ZipFile(io.BytesIO(output)) as after,
    ):
        assert after.comment == before.comment == b"comentario"
        for old, new in zip(before.infolist(), after.infolist(), strict=True):
            assert describe(new) == describe(old)
            if old.filename != "word/document.xml":
                sizes = slice(old.header_offset, old.header_offset + old.compress_size + 30)
                moved = slice(new.header_offset, new.header_offset + new.compress_size + 30)
                assert output[moved] == data[sizes]  # as they were packed


LANGUAGES = (
    '<w:rPr><w:lang w:val="{}" w:eastAsia="ja-JP"/></w:rPr><w:rPr><w:lang w:val="fr"/></w:rPr>'
)


def test_translated_text_is_checked_in_its_language() -> None:
    """The language of a spell checker, in the styles and beside the text."""
    data = make_docx(
        make_paragraph(run("Hola"), run("Bonjour", '<w:rPr><w:lang w:val="fr"/></w:rPr>')),
        styles=LANGUAGES.format("es-ES"),
    )
    document = extract(data)
    assert document.fill(keep(document)) == data
    filled = document.fill([MarkedText("Hello Bonjour")])
    assert LANGUAGES.format("en") in read_entry(filled, "word/styles.xml")
    same = extract_office(data, DocumentOptions("es", "und")).fill([MarkedText("Hello")])
    assert read_entry(same, "word/styles.xml") == read_entry(data, "word/styles.xml")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("en", 'fo:language="en" fo:country="none"'),
        ("en-GB", 'fo:language="en" fo:country="GB"'),
        ("zh-Hans", 'fo:language="zh" fo:country="none"'),
        ("zh-Hant-TW", 'fo:language="zh" fo:country="TW"'),
    ],
)
def test_odt_text_is_checked_in_its_language(target: str, expected: str) -> None:
    language = '<style:text-properties fo:language="{}" fo:country="{}" style:x="1"/>'
    data = make_odt(
        "<text:p>Hola</text:p>" + language.format("es", "ES") + language.format("fr", "FR")
    )
    document = extract_office(data, DocumentOptions("es", target))
    assert document.fill(keep(document)) == data
    content = read_entry(document.fill([MarkedText("Hello")]), "content.xml")
    assert f"<style:text-properties {expected} style:x" in content
    assert language.format("fr", "FR") in content


def test_runs_of_equal_properties_are_one_mark() -> None:
    runs = (
        run("Muy ", BOLD),
        '<w:proofErr w:type="gramStart"/>',
        run("impor", '<w:rPr><w:b/><w:noProof/><w:lang w:val="es-ES"/></w:rPr>'),
        run("tante", BOLD),
        run(": lee esto otra vez."),
    )
    assert get_segment(*runs) == MarkedText("Muy importante: lee esto otra vez.", (Mark(0, 14),))
    assert translate(*runs, text="Read this, very important.", marks=(Mark(11, 25),)) == (
        built("Read this, ") + built("very important", BOLD) + built(".")
    )


def test_a_paragraph_of_one_look_has_no_mark() -> None:
    runs = (run("Todo ", BOLD), run("negrita", BOLD))
    assert get_segment(*runs) == MarkedText("Todo negrita")
    assert translate(*runs, text="All bold") == built("All bold", BOLD)


def test_white_space_takes_the_look_of_its_surroundings() -> None:
    assert get_segment(run("uno"), run(" ", BOLD), run("dos")) == MarkedText("uno dos")
    assert get_segment(run("más largo "), run("uno", BOLD), run(" "), run("dos", BOLD)).marks == (
        Mark(10, 17),
    )


def test_links_have_runs_of_their_own() -> None:
    style = '<w:rPr><w:rStyle w:val="Hyperlink"/></w:rPr>'
    runs = (
        run("Mira "),
        '<w:hyperlink r:id="rId5">',
        run("la guía ", style),
        run("larga", BOLD),
        "</w:hyperlink>",
        run(" hoy"),
    )
    assert get_segment(*runs) == MarkedText(
        "Mira la guía larga hoy", (Mark(5, 18), Mark(13, 18, 0))
    )
    assert translate(
        *runs, text="Today see the long guide", marks=(Mark(10, 24), Mark(14, 18, 0))
    ) == (
        built("Today see ")
        + '<w:hyperlink r:id="rId5">'
        + built("the ", style)
        + built("long", BOLD)
        + built(" guide", style)
        + "</w:hyperlink>"
    )


def test_parts_of_runs_are_kept_or_empty_marks() -> None:
    runs = (
        "<w:r><w:t>Uno</w:t><w:br/><w:t>dos</w:t><w:tab/><w:t>tres</w:t></w:r>",
        f'<w:r>{NOTE}<w:footnoteReference w:id="2"/></w:r>',
        run(" y "),
        '<w:r><w:drawing>no<w:x w:y="z"/></w:drawing></w:r>',
        '<w:r><w:sym w:char="F0E0"/></w:r>',
        "<m:oMath><m:r><m:t>no</m:t></m:r></m:oMath>",
        "<w:r><w:t>ca</w:t><w:softHyphen/><w:t>sa</w:t><w:lastRenderedPageBreak/>"
        "<w:noBreakHyphen/><w:t>b</w:t></w:r>",
    )
    segment = get_segment(*runs)
    assert segment.text == "Uno\ndos\ntres y \uf000\uf001casa\u2011b"
    assert segment.marks == (
        Mark(3, 4, is_kept=True),
        Mark(7, 8, is_kept=True),
        Mark(12, 12),
        Mark(15, 15),
        Mark(15, 16, is_kept=True),
        Mark(16, 17, is_kept=True),
    )
    marks = (
        Mark(3, 3, is_kept=True),
        Mark(6, 6, is_kept=True),
        Mark(2, 2),
        Mark(6, 6),
        Mark(0, 0, is_kept=True),
        Mark(6, 6, is_kept=True),
    )
    assert translate(*runs, text="OneTwo", marks=marks) == (
        '<w:r><w:sym w:char="F0E0"/></w:r>'
        + built("On")
        + f'<w:r>{NOTE}<w:footnoteReference w:id="2"/></w:r>'
        + built("e")
        + "<w:r><w:br/></w:r>"
        + built("Two")
        + '<w:r><w:tab/></w:r><w:r><w:drawing>no<w:x w:y="z"/></w:drawing></w:r>'
        + "<m:oMath><m:r><m:t>no</m:t></m:r></m:oMath>"
    )


def test_what_is_around_the_text_stays_around_it() -> None:
    picture = "<w:r><w:drawing/></w:r>"
    reference = f'<w:r>{NOTE}<w:footnoteReference w:id="2"/></w:r>'
    runs = (
        '<w:bookmarkStart w:id="1" w:name="a"/>',
        picture,
        "<w:r><w:tab/></w:r>",
        run("Hola"),
        reference,
        '<w:bookmarkEnd w:id="1"/>',
    )
    assert get_segment(*runs) == MarkedText("Hola")
    assert translate(*runs, text="Hello") == "".join(
        (*runs[:3], built("Hello"), reference, '<w:bookmarkEnd w:id="1"/>')
    )


def test_bookmarks_are_around_the_same_words() -> None:
    start, end = '<w:bookmarkStart w:id="7" w:name="a"/>', '<w:bookmarkEnd w:id="7"/>'
    runs = (start, run("Casa"), end, run(" roja"))
    assert get_segment(*runs) == MarkedText("Casa roja", (Mark(0, 4),))
    assert translate(*runs, text="Red house", marks=(Mark(4, 9),)) == (
        built("Red ") + start + built("house") + end
    )


def test_an_end_outside_of_a_link_does_not_precede_its_beginning() -> None:
    start, end = '<w:bookmarkStart w:id="7" w:name="a"/>', '<w:bookmarkEnd w:id="7"/>'
    link = '<w:hyperlink r:id="rId1">', "</w:hyperlink>"
    runs = (run("Ve "), link[0], run("a "), start, run("casa"), link[1], run(" ya"), end, run("."))
    segment = get_segment(*runs)
    assert segment == MarkedText("Ve a casa ya.", (Mark(3, 9), Mark(5, 5, 0), Mark(12, 12)))
    assert translate(*runs, text="Now go home", marks=(Mark(7, 11), Mark(7, 7, 0), Mark(3, 3))) == (
        built("Now") + built(" go ") + link[0] + start + end + built("home") + link[1]
    )


def test_deleted_text_stays_and_inserted_text_is_translated() -> None:
    deleted = '<w:del w:id="1"><w:r><w:delText>viejo no</w:delText></w:r></w:del>'
    runs = (run("El "), deleted, '<w:ins w:id="2">', run("nuevo"), "</w:ins>", run(" plan"))
    assert get_segment(*runs) == MarkedText("El nuevo plan", (Mark(3, 3), Mark(3, 8)))
    assert translate(*runs, text="The new plan", marks=(Mark(4, 4), Mark(4, 7))) == (
        built("The ") + deleted + '<w:ins w:id="2">' + built("new") + "</w:ins>" + built(" plan")
    )
    nested = f'<w:del w:id="1"><w:r><w:pict>{make_paragraph(run("no"))}</w:pict></w:r></w:del>'
    assert len(extract(make_docx(make_paragraph(run("Sí"), nested))).segments) == 1


def test_fields_are_kept_and_links_are_translated() -> None:
    code = "<w:r><w:instrText> {} </w:instrText></w:r>"
    begin, separate, end = map(FIELD.format, ("begin", "separate", "end"))
    page = begin + code.format("PAGE no") + separate + run("no 3") + end
    runs: tuple[str, ...] = (run("Página "), page, run(" de todas"))
    assert get_segment(*runs) == MarkedText("Página \uf000 de todas", (Mark(7, 8, is_kept=True),))
    bare = page.replace(' w:rsidR="00B2"', "")
    assert translate(*runs, text="Of all", marks=(Mark(0, 0, is_kept=True),)) == (
        bare + built("Of all")
    )
    link = begin + code.format('HYPERLINK "http://no"') + separate
    runs = (run("Ve a "), link, run("mi "), page, run("sitio"), end, run(" hoy"))
    assert get_segment(*runs) == MarkedText(
        "Ve a mi \uf000sitio hoy", (Mark(5, 14), Mark(8, 9, 0, is_kept=True))
    )
    assert translate(
        *runs, text="My site today", marks=(Mark(0, 7), Mark(0, 0, 0, is_kept=True))
    ) == (link + bare + built("My site") + end + built(" today"))
    simple = '<w:fldSimple w:instr="DATE"><w:r><w:t>no</w:t></w:r></w:fldSimple>'
    assert get_segment(run("Hoy es "), simple).text == "Hoy es \uf000"


def test_a_field_of_several_paragraphs_stays_around_its_text() -> None:
    begin, separate, end = map(FIELD.format, ("begin", "separate", "end"))
    code = "<w:r><w:instrText>TOC</w:instrText></w:r>"
    body = (
        make_paragraph(begin, code, separate, run("Uno"))
        + make_paragraph(run("Dos"))
        + make_paragraph(run("Tres"), end)
        + make_paragraph(run("Cuatro "), end, run("no"))
    )
    document = extract(make_docx(body))
    assert document.segments == [MarkedText("Uno"), MarkedText("Dos"), MarkedText("Tres")]
    filled = read_entry(document.fill([MarkedText(text) for text in ("One", "Two", "Three")]))
    assert begin + code + separate + built("One") + "</w:p>" in filled
    assert built("Three") + end + "</w:p>" in filled


def test_controls_and_smart_tags_keep_what_they_begin_with() -> None:
    control = "<w:sdt><w:sdtPr><w:text/></w:sdtPr><w:sdtContent>", "</w:sdtContent></w:sdt>"
    smart = "<w:smartTag><w:smartTagPr><w:attr/></w:smartTagPr>", "</w:smartTag>"
    choice = "<w:sdt><w:sdtPr><w:dropDownList/></w:sdtPr><w:sdtContent><w:r><w:t>no</w:t></w:r>"
    choice += "</w:sdtContent></w:sdt>"
    runs = (
        run("Sr. "),
        run("Gil").join(control),
        run(" de "),
        run("Vigo").join(smart),
        run(" es "),
        choice,
    )
    assert get_segment(*runs) == MarkedText(
        "Sr. Gil de Vigo es \uf000", (Mark(4, 7), Mark(11, 15), Mark(19, 20, is_kept=True))
    )
    marks = (Mark(4, 7), Mark(13, 17), Mark(17, 17, is_kept=True))
    assert translate(*runs, text="Mr. Gil from Vigo", marks=marks) == (
        built("Mr. ")
        + built("Gil").join(control)
        + built(" from ")
        + built("Vigo").join(smart)
        + choice
    )


def test_text_boxes_have_paragraphs_of_their_own() -> None:
    box = "<w:r><w:pict><w:txbxContent>{}</w:txbxContent></w:pict></w:r>"
    inner = make_paragraph(run("Dentro"), box.format(make_paragraph(run("Más dentro"))))
    document = extract(
        make_docx(
            make_paragraph(run("Fuera "), box.format(inner), run("otra vez"), box.format(inner))
        )
    )
    assert [segment.text for segment in document.segments] == [
        "Fuera otra vez",
        *["Dentro", "Más dentro"] * 2,
    ]
    filled = keep(document)
    filled[0] = MarkedText("Outside again", (Mark(8, 8),))
    filled[2] = MarkedText("Farther inside")
    filled[3] = MarkedText("Inside")
    first = make_paragraph(run("Dentro"), box.format(make_paragraph(built("Farther inside"))))
    second = make_paragraph(built("Inside"), box.format(make_paragraph(run("Más dentro"))))
    assert read_entry(document.fill(filled)) == wrap(
        "<w:body>"
        + make_paragraph(built("Outside "), box.format(first), built("again"), box.format(second))
        + "<w:sectPr/></w:body>"
    )


# ODT

ODT_NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{uri}:1.0"'
    for name, uri in (
        ("office", "office"),
        ("text", "text"),
        ("draw", "drawing"),
        ("style", "style"),
        ("fo", "xsl-fo-compatible"),
    )
)


def make_odt(
    body: str, header: str = "", mimetype: str = "application/vnd.oasis.opendocument.text"
) -> bytes:
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<office:document-content {ODT_NAMES}>'
        f"<office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )
    styles = (
        f"<office:document-styles {ODT_NAMES}><office:master-styles><style:header>{header}"
        "</style:header></office:master-styles></office:document-styles>"
    )
    return make_zip(
        [
            ("mimetype", mimetype),
            ("Thumbnails/thumbnail.png", b"\x89PNG" * 100),
            ("content.xml", content),
            ("styles.xml", styles),
            ("META-INF/manifest.xml", "<manifest/>"),
        ],
        stored=["mimetype", "Thumbnails/thumbnail.png"],
    )


def get_odt_segment(content: str) -> MarkedText:
    (segment,) = extract(make_odt(f"<text:p>{content}</text:p>")).segments
    return segment


LETTER = """
  <text:tracked-changes><text:changed-region><text:deletion><text:p>no</text:p></text:deletion>
  </text:changed-region></text:tracked-changes>
  <text:h text:outline-level="1">Una <text:span text:style-name="T1">carta</text:span></text:h>
  <text:p text:style-name='P1'>Querida Ana,<text:line-break/>te   escribo
    hoy.<text:note text:id="n1"><text:note-citation>1</text:note-citation><text:note-body>
    <text:p>Nota al pie</text:p></text:note-body></text:note></text:p>
  <text:p>12</text:p><text:p/>
  <text:list><text:list-item><text:p>Punto<office:annotation><text:p>no</text:p></office:annotation>
  </text:p></text:list-item></text:list>
"""


def test_odt_paragraphs_headings_notes_and_headers() -> None:
    data = make_odt(LETTER, "<text:p>Cabecera</text:p>")
    document = extract(data)
    assert document.segments == [
        MarkedText("Una carta", (Mark(4, 9),)),
        MarkedText("Querida Ana,\nte escribo hoy.", (Mark(12, 13, is_kept=True), Mark(28, 28))),
        MarkedText("Nota al pie"),
        MarkedText("Punto ", (Mark(5, 5),)),
        MarkedText("Cabecera"),
    ]
    assert document.fill(keep(document)) == data


def test_odt_paragraphs_are_filled_in_place() -> None:
    data = make_odt(LETTER, "<text:p>Cabecera</text:p>")
    document = extract(data)
    filled = keep(document)
    filled[1] = MarkedText("Dear Ana,today & now.", (Mark(9, 9, is_kept=True), Mark(20, 20)))
    filled[2] = MarkedText("Footnote")
    output = document.fill(filled)
    expected = read_entry(data, "content.xml")
    for old, new in (
        ("Querida Ana,", "Dear Ana,"),
        ("te   escribo\n    hoy.", "today &amp; now"),
        ("Nota al pie", "Footnote"),
        ("</text:note></text:p>", "</text:note>.</text:p>"),
    ):
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    assert read_entry(output, "content.xml") == expected
    assert read_entry(output, "styles.xml") == read_entry(data, "styles.xml")
    # The type comes first and is stored, so that programs recognise the file.
    assert output[30 : 30 + 47] == b"mimetypeapplication/vnd.oasis.opendocument.text"
    with zipfile.ZipFile(io.BytesIO(output)) as archive:
        assert archive.namelist()[0] == "mimetype"
        assert archive.infolist()[0].compress_type == zipfile.ZIP_STORED


@pytest.mark.parametrize(
    ("content", "text", "marks"),
    [
        ("a <text:a>b <text:span>c</text:span></text:a>", "a b c", (Mark(2, 5), Mark(4, 5, 0))),
        ("a <text:s text:c='3'/>b", "a b", (Mark(2, 2),)),
        ("<text:s text:c='3'/>a", "a", (Mark(0, 0),)),
        ("a<text:s/>b", "a b", ()),
        ("<text:span>\uf0fd</text:span> a", " a", (Mark(0, 0),)),
        ("a<text:tab/>b", "a\nb", (Mark(1, 2, is_kept=True),)),
        ("a<text:soft-page-break/>b<!-- no -->c", "abc", ()),
        ("a <text:page-number>no</text:page-number>", "a \uf000", (Mark(2, 3, is_kept=True),)),
        ("a <draw:frame><text:p>1</text:p></draw:frame>b", "a b", (Mark(2, 2),)),
        (
            "<text:bookmark-start text:name='x'/>a<text:bookmark-end text:name='x'/> b",
            "a b",
            (Mark(0, 1),),
        ),
        (
            "a<office:annotation office:name='x'><text:p>no</text:p></office:annotation>b"
            "<office:annotation-end office:name='x'/>",
            "ab",
            (Mark(1, 2),),
        ),
    ],
)
def test_odt_elements_become_marks(content: str, text: str, marks: tuple[Mark, ...]) -> None:
    assert get_odt_segment(content) == MarkedText(text, marks)


# Hostile archives


BOMB = bytes(3 << 20)


def patch(data: bytes, offset: int, value: bytes, name: bytes = b"word/document.xml") -> bytes:
    """Change the directory's header of an entry."""
    at = data.index(name, data.index(b"PK\x01\x02")) - 46 + offset
    return data[:at] + value + data[at + len(value) :]


DOCX = make_docx(REPORT)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a damaged DOCX or ODT archive"),
        (b"Hola", "a damaged DOCX or ODT archive"),
        (DOCX[:-300], "a damaged DOCX or ODT archive"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "encrypted or of an old format"),
        (make_zip([("hola.txt", "hola")]), "neither DOCX nor ODT"),
        (make_zip([("[Content_Types].xml", BOMB)]), "unpacks to more than 200 times"),
        (patch(DOCX, 24, b"\xff\xff\xff\x0f"), "unpacks to more than"),
        (patch(DOCX, 24, b"\xff\xff\x00\x00"), "damaged"),  # larger than it is
        (patch(DOCX, 24, b"\x09\x00\x00\x00"), "damaged"),  # smaller than it is
        (patch(DOCX, 8, b"\x01"), "the document is encrypted: save it without a password"),
        (patch(DOCX, 10, b"\x0c"), "packed in a rare way"),
        (make_zip([("[Content_Types].xml", "<Types/>"), ("../a", "")]), "outside of it"),
        (make_zip([("word/../../a", "")]), "outside of it"),
        (make_zip([("/etc/passwd", "")]), "outside of it"),
        (make_zip([("C:\\a", "")]), "outside of it"),
        (make_zip([("a\\..\\b", "")]), "outside of it"),
        (make_zip([("word/vbaProject.bin", "")]), "macros"),
        (make_zip([("Basic/Standard/Module1.xml", "")]), "macros"),
        (make_zip([(f"{i}.xml", "") for i in range(10_001)]), "more than 10000 entries"),
        (
            make_zip(
                [
                    (
                        "[Content_Types].xml",
                        "<Types><Override PartName='/word/document.xml' ContentType="
                        "'application/vnd.ms-word.document.macroEnabled.main+xml'/></Types>",
                    )
                ]
            ),
            "macros",
        ),
        (make_zip([("[Content_Types].xml", "<Types/>")]), "has no text"),
        (make_zip([("[Content_Types].xml", "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>")]), "DOCTYPE"),
        (make_docx("<w:p>" * 5000 + "</w:p>" * 5000), "not well-formed"),
        (make_docx("<w:p>"), "not well-formed"),
        (make_docx("<w:p>&no;</w:p>"), "not well-formed"),
        (make_odt("", mimetype="application/vnd.oasis.opendocument.spreadsheet"), "only ODT"),
        (
            make_zip(
                [
                    ("mimetype", "application/vnd.oasis.opendocument.text"),
                    ("content.xml", b"\x01\x02"),
                    ("META-INF/manifest.xml", "<manifest:encryption-data/>"),
                ]
            ),
            "encrypted",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hostile_documents_are_refused(data: bytes, message: str) -> None:
    with cpu_seconds(5), pytest.raises(UserError, match=message) as raised:
        extract(data)
    assert "\n" not in str(raised.value)


def test_large_totals_are_refused() -> None:
    noise = b"".join(bytes([i % 251, i % 241, i % 7]) for i in range(1 << 18)) * 40  # 30 MB
    data = make_zip([(f"{i}.bin", noise) for i in range(8)], [f"{i}.bin" for i in range(8)])
    with pytest.raises(UserError, match="more than 200 MB"):
        extract(data)


def test_two_entries_of_one_name_are_refused() -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        data = make_zip([("a.xml", "1"), ("a.xml", "2")])
    with pytest.raises(UserError, match="two entries of one name"):
        extract(data)


def test_the_type_of_a_part_may_be_that_of_its_extension() -> None:
    types = read_entry(DOCX, "[Content_Types].xml")
    override = (
        f'<Override PartName="/word/document.xml" ContentType="{OPEN_XML}.document.main+xml"/>'
    )
    assert override in types
    default = override.replace('Override PartName="/word/document.xml"', 'Default Extension="xml"')
    with zipfile.ZipFile(io.BytesIO(DOCX)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries["[Content_Types].xml"] = types.replace(override, default).encode()
    assert built("Informe!") in read_entry(exclaim(make_zip(list(entries.items()))))


def test_what_is_only_copied_may_be_packed_well() -> None:
    with zipfile.ZipFile(io.BytesIO(DOCX)) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    data = make_zip([*entries, ("word/media/blank.emf", BOMB)])
    assert built("Informe!") in read_entry(exclaim(data))


def test_messages_do_not_quote_an_archive() -> None:
    at = DOCX.index(b"[Content_Types].xml") - 4  # the length of the first name
    with pytest.raises(UserError, match="damaged") as raised:
        extract(DOCX[:at] + (400).to_bytes(2, "little") + DOCX[at + 2 :])
    assert len(str(raised.value)) < 200


def test_overlapping_entries_are_refused() -> None:
    offset = DOCX.index(b"PK\x03\x04", 10)
    overlapping = patch(DOCX, 42, offset.to_bytes(4, "little"), b"word/media/foto.png")
    with pytest.raises(UserError, match="overlap"):
        extract(overlapping)


def exclaim(data: bytes) -> bytes:
    """Change every paragraph."""
    document = extract(data)
    return document.fill([MarkedText(f"{text.text}!", text.marks) for text in keep(document)])


class Pipe(io.BytesIO):
    """A stream that sizes cannot be written into afterwards."""

    def seekable(self) -> bool:
        return False

    def seek(self, *args: int) -> int:
        raise OSError

    def tell(self) -> int:
        raise OSError


def test_entries_with_sizes_after_them_are_copied() -> None:
    output = Pipe()
    with zipfile.ZipFile(output, "w") as archive, zipfile.ZipFile(io.BytesIO(DOCX)) as source:
        for name in source.namelist():
            archive.writestr(name, source.read(name), zipfile.ZIP_DEFLATED)
    data = output.getvalue()
    assert b"PK\x07\x08" in data
    changed = exclaim(data)
    assert built("Informe!") in read_entry(changed)
    assert read_entry(changed, "[Content_Types].xml") == read_entry(data, "[Content_Types].xml")


def test_bytes_before_an_archive_are_allowed() -> None:
    data = b"#!/bin/sh\n" + DOCX
    document = extract(data)
    assert document.fill(keep(document)) == data
    assert read_entry(exclaim(data)) == read_entry(exclaim(DOCX))


def test_entries_of_old_names_stay_readable() -> None:
    data = exclaim(DOCX.replace(b"foto.png", b"fot\xa4.png"))
    assert built("Informe!") in read_entry(data)
    assert data.count("fotñ.png".encode()) == 2  # in the entry and in the directory
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.read("word/media/fotñ.png").startswith(b"\x89PNG")


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(DOCX) - 1), st.integers(0, 255)), max_size=4))
def test_damaged_archives_raise_nothing_but_user_errors(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(DOCX)
    for at, value in changes:
        damaged[at] = value
    message = ""
    try:
        exclaim(bytes(damaged))
    except UserError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize(
    "content",
    [
        run("hola") * 20_000,
        run("a")
        + '<w:bookmarkStart w:id="1"/>' * 20_000
        + run("b")
        + '<w:bookmarkEnd w:id="2"/>' * 20_000,
        FIELD.format("begin") * 20_000 + run("a") + FIELD.format("end") * 20_000,
        (run("a") + run("b", BOLD)) * 10_000,
        run("a") + f"<w:r><w:pict>{make_paragraph(run('b'))}</w:pict></w:r>" * 10_000 + run("c"),
    ],
    ids=["one run", "bookmarks", "fields", "marks", "text boxes"],
)
def test_long_paragraphs_take_linear_time(content: str) -> None:
    with cpu_seconds(20):
        exclaim(make_docx(make_paragraph(content)))


# Properties

WORDS = st.text(st.characters(exclude_categories=["Cs", "Co"]), max_size=5)
TEXTS = st.lists(st.one_of(WORDS, st.sampled_from(["hola", "día", "\uf000", "\n"])), max_size=6)


def in_link(parts: list[str]) -> str:
    return f'<w:hyperlink r:id="1">{"".join(parts)}</w:hyperlink>'


DOCX_PIECES = st.recursive(
    st.sampled_from(
        [
            run("hola "),
            run(" día", BOLD),
            run("&lt;&amp; mal", "<w:rPr><w:i/></w:rPr>"),
            "<w:r><w:br/></w:r>",
            f"<w:r>{BOLD}<w:tab/><w:t>a</w:t></w:r>",
            f'<w:r>{NOTE}<w:footnoteReference w:id="2"/></w:r>',
            '<w:bookmarkStart w:id="4" w:name="a"/>',
            '<w:bookmarkEnd w:id="4"/>',
            "<w:del><w:r><w:delText>no</w:delText></w:r></w:del>",
            FIELD.format("begin")
            + "<w:r><w:instrText>no</w:instrText></w:r>"
            + FIELD.format("end"),
            '<w:proofErr w:type="spellStart"/>',
        ]
    ),
    lambda inner: st.builds(in_link, st.lists(inner, max_size=4)),
    max_leaves=12,
)
ODT_PIECES = st.recursive(
    st.sampled_from(
        [
            "hola ",
            " día",
            "&lt;&amp;",
            "<text:tab/>",
            "<text:line-break/>",
            "<text:page-number>no</text:page-number>",
            "<text:bookmark-start text:name='x'/>",
            "<text:bookmark-end text:name='x'/>",
            "<draw:frame/>",
            "<!-- no -->",
        ]
    ),
    lambda inner: st.builds(
        lambda parts: f"<text:span>{''.join(parts)}</text:span>", st.lists(inner, max_size=4)
    ),
    max_leaves=12,
)


def count_elements(data: bytes, name: str, dropped: Sequence[str]) -> Counter[tuple[str, ...]]:
    root = etree.fromstring(read_entry(data, name).encode())
    return Counter(
        (element.tag, *element.values())
        for element in root.iter("*")
        if etree.QName(element).localname not in dropped
    )


def clean(text: str) -> str:
    """Return a text as XML holds it."""
    return "".join(
        sign if sign in "\t\n\r" or (sign >= " " and sign not in "\ufffe\uffff") else "\ufffd"
        for sign in text
    )


def check_translation(
    original: bytes, data: st.DataObject, name: str, dropped: Sequence[str], texts: str
) -> None:
    document = extract(original)
    assert document.fill(keep(document)) == original
    assert not any("no" in segment.text for segment in document.segments)
    filled = [data.draw(make_translation(segment, TEXTS)) for segment in document.segments]
    output = document.fill(filled)
    assert count_elements(output, name, dropped) == count_elements(original, name, dropped)
    if filled != keep(document):
        root = etree.fromstring(read_entry(output, name).encode())
        assert "".join(root.xpath(texts, namespaces=root.nsmap)) == clean(filled[0].text)


@try_examples(300)
@given(st.lists(DOCX_PIECES, max_size=8), st.data())
def test_any_translation_of_docx_has_all_elements(pieces: list[str], data: st.DataObject) -> None:
    original = make_docx(make_paragraph(*pieces))
    runs = ("r", "t", "rPr", "b", "i", "rStyle", "proofErr")
    check_translation(original, data, "word/document.xml", runs, "//w:t/text()")


@try_examples(300)
@given(st.lists(ODT_PIECES, max_size=8).map("".join), st.data())
def test_any_translation_of_odt_has_all_elements(content: str, data: st.DataObject) -> None:
    original = make_odt(f"<text:p>{content}</text:p>")
    texts = "//text:p//text()[not(ancestor::text:page-number)]"
    check_translation(original, data, "content.xml", (), texts)
