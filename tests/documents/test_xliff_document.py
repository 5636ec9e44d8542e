"""XLIFF and TMX: which texts are extracted, and where translations are written."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from conftest import cpu_seconds
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from marked_texts import make_translation, try_examples

from nmt.documents.formats import Document, DocumentOptions
from nmt.documents.xliff import extract
from nmt.errors import UserError
from nmt.inference.markup_projection import project_marks
from nmt.text.marked import Mark, MarkedText

TO_ENGLISH = DocumentOptions("es", "en")
NAMESPACE_1 = "urn:oasis:names:tc:xliff:document:1.2"
NAMESPACE_2 = "urn:oasis:names:tc:xliff:document:2.0"

XLIFF_1 = f"""<?xml version='1.0' encoding="UTF-8" standalone="no" ?>
<!-- Aplicación de recetas -->
<xliff version="1.2"   xmlns="{NAMESPACE_1}">
  <file source-language='es' datatype="plaintext" original="recetas.html">
    <body>
      <trans-unit id="hola" >
        <source>Buenos d&#237;as, <x id="INTERPOLATION" equiv-text="{{{{nombre}}}}"/>.</source>
      </trans-unit>
      <trans-unit id="ver">
        <source>Lee la <x id="START_LINK" ctype="x-a"/>receta
          completa<x id="CLOSE_LINK" ctype="x-a"/> aquí.</source>
        <target/>
        <note>No traducir esta nota</note>
      </trans-unit>
      <trans-unit id="hecho"><source>Guardar</source><target>Save</target></trans-unit>
      <trans-unit id="aprobado" approved="yes"><source>Cerrar</source></trans-unit>
      <trans-unit id="marca" translate="no"><source>Recetario</source></trans-unit>
      <group translate="no"><trans-unit id="clave"><source>clave secreta</source></trans-unit>
        <trans-unit id="si" translate="yes"><source>clave pública</source></trans-unit></group>
      <trans-unit id="numero"><source>12 %</source></trans-unit>
      <trans-unit id="literal" xml:space="preserve"><source>Uno
  dos</source><alt-trans><source>Uno</source><target>One</target></alt-trans></trans-unit>
    </body>
  </file>
</xliff>
"""

XLIFF_2 = f"""<?xml version="1.0"?>
<xliff xmlns="{NAMESPACE_2}" version="2.0" srcLang="es">
 <file id="f1">
  <unit id="1">
   <originalData><data id="d1">no soy texto</data></originalData>
   <segment>
    <source>El <pc id="1" type="fmt">primer</pc> vuelo sale <ph id="2" equiv="hora"/>.</source>
   </segment>
   <ignorable><source> </source></ignorable>
   <segment state="initial">
    <source>El <sc id="3"/>segundo<ec startRef="3"/> no.</source>
    <target></target>
   </segment>
   <segment state="final"><source>Fin</source></segment>
   <segment><source>Hecho</source><target>Done</target></segment>
  </unit>
  <unit id="2" translate="no"><segment><source>Código</source></segment></unit>
  <unit id="3"><segment><source>Usa <mrk id="m1" translate="no">el mandato</mrk> con
    <mrk id="m2" type="term">cuidado</mrk>.</source></segment></unit>
 </file>
</xliff>"""

TMX = """<?xml version="1.0" encoding="UTF-16"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header creationtool="x" srclang="es-ES" segtype="sentence"/>
  <body>
    <tu>
      <prop type="dominio">cocina</prop>
      <tuv xml:lang="es-ES">
        <seg>La <bpt i="1">&lt;b></bpt>sopa<ept i="1">&lt;/b></ept> está <ph>{0}</ph> lista</seg>
      </tuv>
      <tuv xml:lang="fr"><seg>La soupe</seg></tuv>
    </tu>
    <tu><tuv xml:lang="ES"><seg>Gracias</seg></tuv>
        <tuv xml:lang="en-US"><seg>Thanks</seg></tuv></tu>
    <tu><tuv xml:lang="de"><seg>Danke</seg></tuv></tu>
  </body>
</tmx>
""".replace("\n", "\r\n").encode("utf-16")


def keep(document: Document) -> list[MarkedText]:
    return [segment.without_kept() for segment in document.segments]


def get_texts(document: Document) -> list[str]:
    return [segment.text for segment in document.segments]


def fill(data: str | bytes, texts: list[str], options: DocumentOptions = TO_ENGLISH) -> str:
    data = data.encode() if isinstance(data, str) else data
    document = extract(data, options)
    filled = [
        project_marks(segment, text, [])
        for segment, text in zip(document.segments, texts, strict=True)
    ]
    return document.fill(filled).decode("utf-16" if data[:2] == b"\xff\xfe" else "utf-8")


def make_unit(source: str, rest: str = "", attributes: str = "") -> str:
    return (
        f'<xliff version="1.2" xmlns="{NAMESPACE_1}"><file source-language="es" '
        f'original="a"><body><trans-unit id="1"{attributes}><source>{source}</source>{rest}'
        "</trans-unit></body></file></xliff>"
    )


@pytest.mark.parametrize(
    "data",
    [
        XLIFF_1.encode(),
        XLIFF_1.replace("\n", "\r\n").encode("utf-8-sig"),
        XLIFF_1.replace("UTF-8", "ISO-8859-1").encode("latin-1"),
        XLIFF_2.encode(),
        TMX,
        make_unit("Hola <![CDATA[a < b]]> &quot;tú&quot; <?p q?><!-- c -->mundo").encode(),
    ],
    ids=["1.2", "line ends and BOM", "Latin-1", "2.0", "TMX in UTF-16", "CDATA"],
)
def test_unchanged_texts_give_the_same_bytes(data: bytes) -> None:
    document = extract(data, TO_ENGLISH)
    assert document.segments
    assert document.fill(keep(document)) == data


def test_the_namespace_tells_a_version_that_is_missing() -> None:
    for data in (make_unit("Hola"), XLIFF_2):
        without = re.sub(r'(<xliff\b[^>]*?) version="\d.\d"', r"\1", data)
        assert without != data
        assert get_texts(extract(without.encode(), TO_ENGLISH)) == get_texts(
            extract(data.encode(), TO_ENGLISH)
        )


def test_texts_of_xliff_1_are_those_without_a_translation() -> None:
    document = extract(XLIFF_1.encode(), TO_ENGLISH)
    assert get_texts(document) == [
        "Buenos días, \uf000.",
        "Lee la receta completa aquí.",
        "clave pública",
        "Uno\n  dos",
    ]
    assert document.segments[0].marks == (Mark(13, 14, is_kept=True),)
    assert document.segments[1].marks == (Mark(7, 22),)


def test_choices_of_the_message_format_are_no_texts() -> None:
    unit = make_unit("{VAR_PLURAL, plural, =1 {un libro} other {<x id='I'/> libros}}")
    assert get_texts(extract(unit.encode(), TO_ENGLISH)) == []


def test_xliff_1_gets_targets_and_its_language() -> None:
    texts = [
        "Good morning, \uf000 <3 & \x00.",
        "Here, the whole recipe.",
        "public key",
        "One\n two",
    ]
    expected = XLIFF_1
    for old, new in (
        ('original="recetas.html"', 'original="recetas.html" target-language="en"'),
        (
            '{{nombre}}"/>.</source>',
            '{{nombre}}"/>.</source>\n        <target state="needs-review-translation">'
            'Good morning, <x id="INTERPOLATION" equiv-text="{{nombre}}"/> &lt;3 &amp; \ufffd.'
            "</target>",
        ),
        (
            "<target/>",
            '<target state="needs-review-translation">Here, <x id="START_LINK" ctype="x-a"/>'
            'the whole<x id="CLOSE_LINK" ctype="x-a"/> recipe.</target>',
        ),
        (
            "<source>clave pública</source>",
            "<source>clave pública</source>"
            '<target state="needs-review-translation">public key</target>',
        ),
        (
            "dos</source>",
            'dos</source><target state="needs-review-translation">One\n two</target>',
        ),
    ):
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    document = extract(XLIFF_1.encode(), TO_ENGLISH)
    filled = [
        MarkedText(texts[0].replace("\uf000", ""), (Mark(14, 14, is_kept=True),)),
        MarkedText(texts[1], (Mark(6, 15),)),
        MarkedText(texts[2]),
        MarkedText(texts[3]),
    ]
    assert document.fill(filled).decode() == expected


@pytest.mark.parametrize("state", ["new", "needs-translation", "needs-l10n"])
def test_a_copy_of_the_source_that_waits_for_a_translation_is_replaced(state: str) -> None:
    """Many programs write each source into its target."""
    data = make_unit("Muy <g id='1'>bien</g>", f'<target state="{state}">Muy\nbien</target>')
    assert fill(data, ["Very good"]) == data.replace(
        'original="a"', 'original="a" target-language="en"'
    ).replace(f'"{state}">Muy\nbien', "\"needs-review-translation\">Very <g id='1'>good</g>")
    for other in ("signed-off", "needs-review-translation"):
        assert not extract(data.replace(state, other).encode(), TO_ENGLISH).segments
    assert not extract(data.replace("Muy\n", "Very ").encode(), TO_ENGLISH).segments
    second = XLIFF_2.replace(
        "<segment><source>Hecho</source><target>Done",
        '<segment state="initial"><source>Hecho</source><target>Hecho',
    )
    assert get_texts(extract(second.encode(), TO_ENGLISH))[-2] == "Hecho"


def test_xliff_2_gets_targets_states_and_its_language() -> None:
    document = extract(XLIFF_2.encode(), TO_ENGLISH)
    assert get_texts(document) == [
        "El primer vuelo sale \uf000.",
        "El segundo no.",
        "Usa \uf000 con cuidado.",
    ]
    assert document.segments[1].marks == (Mark(3, 10),)
    assert document.segments[2].marks == (Mark(4, 5, is_kept=True), Mark(10, 17))
    filled = [
        MarkedText("At the first flight leaves.", (Mark(7, 12), Mark(3, 3, is_kept=True))),
        keep(document)[1],
        MarkedText("Careful with .", (Mark(13, 13, is_kept=True), Mark(0, 7))),
    ]
    expected = XLIFF_2
    for old, new in (
        ('srcLang="es"', 'srcLang="es" trgLang="en"'),
        ("<segment>\n    <source>El <pc", '<segment state="translated">\n    <source>El <pc'),
        (
            'equiv="hora"/>.</source>',
            'equiv="hora"/>.</source>\n    <target>At <ph id="2" equiv="hora"/>the '
            '<pc id="1" type="fmt">first</pc> flight leaves.</target>',
        ),
        ('<unit id="3"><segment>', '<unit id="3"><segment state="translated">'),
        (
            "cuidado</mrk>.</source>",
            'cuidado</mrk>.</source><target><mrk id="m2" type="term">Careful</mrk> with '
            '<mrk id="m1" translate="no">el mandato</mrk>.</target>',
        ),
    ):
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    assert document.fill(filled).decode() == expected


def test_tmx_gets_a_variant_in_the_target_language() -> None:
    document = extract(TMX, TO_ENGLISH)
    assert get_texts(document) == ["La sopa está \uf000 lista"]
    filled = MarkedText("The soup is  ready", (Mark(4, 8), Mark(12, 12, is_kept=True)))
    assert document.fill([filled]).decode("utf-16") == TMX.decode("utf-16").replace(
        "\r\n      </tuv>\r\n      <tuv",
        '\r\n      </tuv>\r\n      <tuv xml:lang="en">\r\n        <seg>The <bpt i="1">&lt;b></bpt>'
        'soup<ept i="1">&lt;/b></ept> is <ph>{0}</ph> ready</seg>\r\n      </tuv>\r\n      <tuv',
    )


def test_an_empty_variant_of_tmx_is_filled() -> None:
    unit = '<tu><tuv xml:lang="es"><seg>Sopa</seg></tuv><tuv xml:lang="en-US">{}</tuv></tu>'
    tmx = f'<tmx version="1.4"><header srclang="es"/><body>{unit}</body></tmx>'
    for seg in ("<seg/>", "<seg> </seg>", '<seg x="1"></seg>'):
        begin = seg.removesuffix("</seg>").strip().removesuffix("/>").removesuffix(">")
        assert fill(tmx.format(seg), ["Soup"]) == tmx.format(f"{begin}>Soup</seg>")
    assert get_texts(extract(tmx.format("<seg>Soup</seg>").encode(), TO_ENGLISH)) == []


def test_tmx_takes_its_source_language_from_the_options_or_itself() -> None:
    assert get_texts(extract(TMX, DocumentOptions("und", "en"))) == ["La sopa está \uf000 lista"]
    assert get_texts(extract(TMX, DocumentOptions("de", "en"))) == ["Danke"]
    assert get_texts(extract(TMX, DocumentOptions("es", "en-GB"))) == [
        "La sopa está \uf000 lista",
        "Gracias",
    ]
    assert get_texts(extract(TMX, DocumentOptions("es", "fr"))) == ["Gracias"]


@pytest.mark.parametrize(
    ("source", "text", "marks"),
    [
        ("a <g id='1'>b <g id='2'>c</g></g>", "a b c", (Mark(2, 5), Mark(4, 5, 0))),
        ("a <g id='1'/>b", "a b", (Mark(2, 2),)),
        ("a<x id='1' ctype='lb'/>b", "a\nb", (Mark(1, 2, is_kept=True),)),
        ("a<ph id='1'>&lt;br/></ph>b", "a\nb", (Mark(1, 2, is_kept=True),)),
        ("a<x id='1' ctype='image'/>b", "ab", (Mark(1, 1),)),
        ("a <ph id='1'>%s</ph>b", "a \uf000b", (Mark(2, 3, is_kept=True),)),
        ("<bpt id='1'>[</bpt>a<ept id='1'>]</ept> b", "a b", (Mark(0, 1),)),
        ("<bx id='1' rid='r'/>a<ex id='2' rid='r'/> b", "a b", (Mark(0, 1),)),
        (
            "<bx id='1'/><g id='2'>a</g> b<ex id='1'/> c",
            "a b c",
            (Mark(0, 3), Mark(0, 1, 0)),
        ),
        ("a <it id='1' pos='open'>[</it>b", "a b", (Mark(2, 2),)),
        ("a <mrk mtype='term'>b</mrk>", "a b", (Mark(2, 3),)),
        ("a <mrk mtype='protected'>b</mrk>", "a \uf000", (Mark(2, 3, is_kept=True),)),
        # Crossing pairs: what is not nested is points.
        (
            "<bx id='1'/>a<bx id='2'/>b<ex id='1'/>c<ex id='2'/>",
            "abc",
            (Mark(0, 2), Mark(1, 1, 0), Mark(3, 3)),
        ),
        # White space is collapsed across elements.
        ("a\n <g id='1'>\n b</g>", "a b", (Mark(2, 3),)),
    ],
)
def test_elements_become_marks(source: str, text: str, marks: tuple[Mark, ...]) -> None:
    document = extract(make_unit(source).encode(), TO_ENGLISH)
    assert document.segments == [MarkedText(text, marks)]


def test_marked_ranges_of_xliff_2_are_kept() -> None:
    data = XLIFF_2.replace(
        "Hecho</source><target>Done</target>",
        "Di <sm id='s' translate='no'/>esto <pc id='9'>no</pc><em startRef='s'/> ya</source>",
    )
    document = extract(data.encode(), DocumentOptions())
    assert document.segments[2] == MarkedText("Di \uf000 ya", (Mark(3, 4, is_kept=True),))
    filled = keep(document)
    filled[2] = MarkedText("Say  now", (Mark(4, 4, is_kept=True),))
    assert (
        "<target>Say <sm id='s' translate='no'/>esto <pc id='9'>no</pc><em startRef='s'/> now<"
        in document.fill(filled).decode()
    )


def test_an_end_never_precedes_its_beginning() -> None:
    document = extract(
        make_unit("<bx id='1'/>a<bx id='2'/>b<ex id='1'/> c<ex id='2'/>").encode(), TO_ENGLISH
    )
    # The end of 2 comes first.
    filled = MarkedText("c ab", (Mark(2, 4), Mark(3, 3, 0), Mark(1, 1)))
    assert (
        "\">c <bx id='1'/>a<bx id='2'/><ex id='2'/>b<ex id='1'/></target>"
        in document.fill([filled]).decode()
    )


def test_sentences_that_are_cut_already_keep_their_frames() -> None:
    cut = (
        "<seg-source><mrk mtype='seg' mid='1'>Hola. </mrk>"
        "<g id='1'><mrk mtype='seg' mid='2'>Qué <g id='2'>tal</g></mrk></g></seg-source>"
        "<target><mrk mtype='seg' mid='1'/></target>"
    )
    nested = cut.replace("Hola. ", "<mrk mtype='seg' mid='1'>Hola. </mrk>", 1)
    assert get_texts(extract(make_unit("Hola.", nested).encode(), TO_ENGLISH)) == [
        "Hola. ",
        "Qué tal",
    ]
    data = make_unit("Hola. <g id='1'>Qué <g id='2'>tal</g></g>", cut)
    assert get_texts(extract(data.encode(), TO_ENGLISH)) == ["Hola. ", "Qué tal"]
    assert fill(data, ["Hi. ", "How goes"]).endswith(
        "</seg-source><target state=\"needs-review-translation\"><mrk mtype='seg' mid='1'>Hi. "
        "</mrk><g id='1'><mrk mtype='seg' mid='2'>How <g id='2'>goes</g></mrk></g></target>"
        "</trans-unit></body></file></xliff>"
    )


def test_sentences_of_a_partly_translated_unit_are_filled_where_they_are_empty() -> None:
    """As Trados leaves a paragraph after a memory has translated some of its sentences."""
    cut = (
        "<seg-source><mrk mtype='seg' mid='1'>Uno.</mrk> <g id='9'><mrk mtype='seg' mid='2'>Dos "
        "<g id='1'>más</g>.</mrk></g> <mrk mtype='seg' mid='3'>3</mrk> "
        "<mrk mtype='seg' mid='4'>Cuatro.</mrk> <mrk mtype='seg' mid='5'>Cinco.</mrk></seg-source>"
    )
    target = (
        "<target><mrk mtype='seg' mid='1'>One.</mrk> <g id='9'><mrk mtype='seg' mid='2' /></g> "
        "<mrk mtype='seg' mid='3'/> <mrk mtype='seg' mid='4'> </mrk></target>"
    )
    data = make_unit("Uno. Dos más. 3 Cuatro. Cinco.", cut + target)
    assert get_texts(extract(data.encode(), TO_ENGLISH)) == ["Dos más.", "Cuatro."]
    expected = (
        data.replace('original="a"', 'original="a" target-language="en"')
        .replace("<target>", '<target state="needs-review-translation">')
        .replace("mid='2' />", "mid='2'>Two <g id='1'>more</g>.</mrk>")
        .replace("<mrk mtype='seg' mid='4'> <", "<mrk mtype='seg' mid='4'>Four.<")
    )
    assert fill(data, ["Two more.", "Four."]) == expected
    document = extract(data.encode(), TO_ENGLISH)
    assert document.fill(keep(document)) == data.encode()
    for attribute in (' approved="yes"', ' translate="no"'):
        closed = data.replace(' id="1">', f' id="1"{attribute}>', 1)
        assert closed != data
        assert not extract(closed.encode(), TO_ENGLISH).segments
    assert not extract(data.replace("seg-source", "note").encode(), TO_ENGLISH).segments


def test_languages_are_written_where_texts_are() -> None:
    data = make_unit("Hola").replace("source-language", "target-language='fr' source-language")
    assert ' target-language="en" source-language' in fill(data, ["Hello"])
    assert " target-language='fr' source" in fill(data, ["Hello"], DocumentOptions("es", "und"))
    regional = data.replace("'fr'", "'en-GB'")
    assert " target-language='en-GB' source" in fill(regional, ["Hello"])
    assert fill(data, ["Hola"]) == data
    nested = data.replace(" target-language='fr'", " note=' target-language=\"fr\"'")
    assert ' note=\' target-language="fr"\' source-language="es"' in fill(nested, ["Hello"])
    assert ' original="a" target-language="en">' in fill(nested, ["Hello"])


@pytest.mark.parametrize("markup", ["<!--{}-->", "<?p {}?>", "<![CDATA[{}]]>"])
def test_markup_in_comments_and_character_data_is_no_element(markup: str) -> None:
    data = make_unit(
        markup.format("it's <g>") + " <g a='>'>ya</g>",
        f"<y:target xmlns:y='{NAMESPACE_1}'/>",
    )
    (text,) = get_texts(extract(data.encode(), TO_ENGLISH))
    assert text == ("it's <g> ya" if "CDATA" in markup else " ya")
    escaped = text.replace("<g>", "&lt;g&gt;").replace("ya", "<g a='>'>now</g>")
    assert fill(data, [text.replace("ya", "now")]) == data.replace(
        "document:1.2'/>",
        f'document:1.2\' state="needs-review-translation">{escaped}</y:target>',
    ).replace('original="a"', 'original="a" target-language="en"')


def test_prefixes_and_encodings_stay() -> None:
    data = (
        "<?xml version='1.0' encoding='windows-1252'?>"
        f"<x:xliff version='1.2' xmlns:x='{NAMESPACE_1}'><x:file><x:body><x:trans-unit>"
        "<x:source>Añ<x:g id='1'>os</x:g></x:source><x:target state='new' /></x:trans-unit>"
        "</x:body></x:file></x:xliff>"
    ).encode("windows-1252")
    document = extract(data, DocumentOptions())
    filled = [MarkedText("Años €Ω", (Mark(5, 7),))]
    assert document.fill(filled) == data.replace(
        b"<x:target state='new' />",
        b"<x:target state=\"needs-review-translation\">A\xf1os <x:g id='1'>\x80&#937;</x:g>"
        b"</x:target>",
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not well-formed"),
        (b"<xliff version='1.2'>", "not well-formed"),
        (b"Hola", "not well-formed"),
        (b"<html/>", "the document is html: convert it"),
        (b"<xliff version='3.1'/>", "the document is xliff 3.1"),
        (b"<!DOCTYPE x [<!ENTITY a 'b'>]><xliff version='1.2'/>", "DOCTYPE has definitions"),
        (b"<!-- a --><!DOCTYPE x SYSTEM 'a[' []><xliff version='1.2'/>", "DOCTYPE has"),
        (b"<!DOCTYPE x SYSTEM 'file:///etc/passwd'><x>&a;</x>", "does not define &a;"),
        (b"<xliff version='1.2'>&a;</xliff>", "not well-formed"),
        (b"<?xml version='1.0' encoding='utf-7'?><xliff version='1.2'/>", "encoding utf-7 is"),
        (b"<?xml version='1.0' encoding='punycode'?><xliff version='1.2'/>", "unsupported"),
        (b"<xliff version='1.2'>\xff</xliff>", "not UTF-8"),
        (b"<xliff version='1.2'>" + b"<g>" * 100_000, "not well-formed"),
        (b"<xliff version='1.2'>" + b"<g>" * 5_000 + b"</g>" * 5_000 + b"</xliff>", "depth"),
        (b"<xliff version='1.2'>" + b"<g/>" * 2_000_000 + b"</xliff>", "more than 2,000,000 tags"),
        (b"<tmx><header srclang='*all*'/><body><tu/></body></tmx>", "no source language"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hostile_documents_are_refused(data: bytes, message: str) -> None:
    with cpu_seconds(10), pytest.raises(UserError, match=message) as raised:
        extract(data, DocumentOptions("und", "en"))
    assert "\n" not in str(raised.value)


def test_tmx_needs_a_target_language() -> None:
    with pytest.raises(UserError, match="needs the target language"):
        extract(TMX, DocumentOptions("es"))


def test_nothing_is_fetched_and_no_entity_expands(tmp_path: object) -> None:
    data = f"<!DOCTYPE xliff SYSTEM 'file://{tmp_path}/a.dtd'>{make_unit('Hola')}"
    assert get_texts(extract(data.encode(), TO_ENGLISH)) == ["Hola"]


def test_many_units_take_linear_time() -> None:
    unit = "<trans-unit><source>Hola <bx id='1'/>a<ex id='2'/></source></trans-unit>"
    deep = "<group>" * 250 + unit * 5_000 + "</group>" * 250
    data = make_unit("Hola").replace("<trans-unit", f"{deep}<trans-unit", 1)
    with cpu_seconds(20):
        document = extract(data.encode(), TO_ENGLISH)
        filled = [MarkedText(f"{text.text}!", text.marks) for text in document.segments]
        assert document.fill(filled).count(b"!</target>") == 5_001


WORDS = st.text(st.characters(exclude_categories=["Cs", "Co"], max_codepoint=0x10FFFD), max_size=5)
TEXTS = st.lists(st.one_of(WORDS, st.sampled_from(["hola", "día", "\uf000", "\n"])), max_size=6)
PIECES = st.recursive(
    st.sampled_from(
        [
            "hola ",
            " día",
            "&lt;&amp;",
            "<x id='1'/>",
            "<x id='2' ctype='lb'/>",
            "<ph id='3'>no</ph>",
            "<bx id='4'/>",
            "<ex id='4'/>",
            "<bpt id='5'>no</bpt>",
            "<ept id='5'>no</ept>",
            "<it id='6'>no</it>",
            "<mrk mtype='protected'>no</mrk>",
            "<!-- no -->",
            "\n ",
        ]
    ),
    lambda inner: st.builds(
        lambda name, parts: f"<{name} id='7'>{''.join(parts)}</{name}>",
        st.sampled_from(["g", "mrk"]),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)


def count_elements(parent: Any) -> Counter[tuple[Any, ...]]:
    return Counter(
        (e.tag, *e.items(), e.text if e.tag.endswith(("ph", "it", "bpt", "ept")) else "")
        for e in parent.iterdescendants("*")
    )


@try_examples(300)
@given(st.lists(PIECES, max_size=8).map("".join), st.data())
def test_any_translation_has_all_elements_of_its_source(content: str, data: st.DataObject) -> None:
    original = make_unit(content)
    document = extract(original.encode(), TO_ENGLISH)
    assert document.fill(keep(document)) == original.encode()
    assert not any("no" in text for text in get_texts(document))
    filled = [data.draw(make_translation(segment, TEXTS)) for segment in document.segments]
    root = etree.fromstring(document.fill(filled))
    source, target = (root.find(f".//{{*}}{name}") for name in ("source", "target"))
    if filled == keep(document):
        assert target is None
        return
    assert count_elements(target) == count_elements(source)
    native = " and ".join(
        f"not(ancestor::*[local-name()='{e}'])" for e in ("ph", "bpt", "ept", "it")
    )
    protected = "not(ancestor::*[@mtype='protected'])"
    texts = target.xpath(f".//text()[{native} and {protected}]")
    assert "".join(texts) == "".join(
        sign if sign in "\t\n\r" or (sign >= " " and sign not in "\ufffe\uffff") else "\ufffd"
        for sign in filled[0].text
    )
    if filled[0].text.strip():
        assert extract(document.fill(filled), TO_ENGLISH).segments == []
    for start, end in (("bx", "ex"), ("bpt", "ept")):
        names = [etree.QName(e).localname for e in target.iterdescendants("*")]
        originals = [etree.QName(e).localname for e in source.iterdescendants("*")]
        if originals.count(start) == originals.count(end) == 1 and originals.index(
            start
        ) < originals.index(end):
            assert names.index(start) < names.index(end)


def nest(pieces: list[str], names: list[str]) -> st.SearchStrategy[str]:
    """Return the content of a segment: pieces, and paired elements with pieces inside."""
    return st.lists(
        st.recursive(
            st.sampled_from(["hola ", " día", "&lt;&amp;", "<!-- no -->", *pieces]),
            lambda inner: st.builds(
                lambda name, parts: f"<{name} id='7'>{''.join(parts)}</{name}>",
                st.sampled_from(names),
                st.lists(inner, max_size=4),
            ),
            max_leaves=12,
        ),
        max_size=8,
    ).map("".join)


CODES_2 = ["<ph id='1'/>", "<sc id='2'/>", "<ec startRef='2'/>", "<mrk translate='no'>no</mrk>"]
CODES_TMX = ["<ph>no</ph>", "<bpt i='1'>no</bpt>", "<ept i='1'>no</ept>", "<it pos='begin'>no</it>"]
UNIT_2 = (
    f'<xliff version="2.0" xmlns="{NAMESPACE_2}" srcLang="es"><file id="f"><unit id="1"><segment>'
    "<source>{}</source></segment></unit></file></xliff>"
)
UNIT_TMX = (
    '<tmx version="1.4"><header srclang="es"/><body><tu><tuv xml:lang="es"><seg>{}</seg></tuv></tu>'
    "</body></tmx>"
)


@try_examples(300)
@given(
    st.one_of(
        st.tuples(st.just(UNIT_2), nest(CODES_2, ["pc", "mrk"])),
        st.tuples(st.just(UNIT_TMX), nest(CODES_TMX, ["hi"])),
    ),
    st.data(),
)
def test_any_translation_in_xliff_2_and_tmx_has_all_elements(
    unit: tuple[str, str], data: st.DataObject
) -> None:
    original = unit[0].format(unit[1]).encode()
    document = extract(original, TO_ENGLISH)
    assert document.fill(keep(document)) == original
    assert not any("no" in text for text in get_texts(document))
    filled = [data.draw(make_translation(segment, TEXTS)) for segment in document.segments]
    root = etree.fromstring(document.fill(filled))
    sides = root.findall(".//{*}source") + root.findall(".//{*}target") + root.findall(".//seg")
    for side in sides[1:]:
        assert count_elements(side) == count_elements(sides[0])
