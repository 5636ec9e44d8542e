"""Finished translations of TMX, XLIFF and PO are pairs; hostile and unfinished ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_corpora import complaint

from nmt.data.bilingual import is_bilingual, read_translations
from nmt.data.opening import find_suffix

NAMESPACE_1 = "urn:oasis:names:tc:xliff:document:1.2"
NAMESPACE_2 = "urn:oasis:names:tc:xliff:document:2.0"

TMX = """<?xml version="1.0" encoding="UTF-16"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="es-ES"/><body>
<tu><prop type="x">no text</prop>
 <tuv xml:lang="en-US"><seg>The <bpt i="1">&lt;b></bpt>soup<ept i="1">&lt;/b></ept> is ready.</seg>
 </tuv><tuv xml:lang="fr"><seg>La soupe</seg></tuv>
 <tuv xml:lang="ES-mx"><seg>La <bpt i="1">&lt;b></bpt>sopa<ept i="1">&lt;/b></ept> está lista.</seg>
 </tuv></tu>
<tu><tuv lang="es"><seg>Uno. Dos.</seg></tuv><tuv lang="en"><seg>One. Two.</seg></tuv></tu>
<tu><tuv lang="es"><seg>Solo</seg></tuv><tuv lang="de"><seg>Allein</seg></tuv></tu>
<tu><tuv lang="es"><seg>Vacío</seg></tuv><tuv lang="en"><seg> </seg></tuv></tu>
</body></tmx>""".encode("utf-16")

XLIFF_1 = f"""<xliff version="1.2" xmlns="{NAMESPACE_1}">
<file source-language="es" target-language="en-GB"><body>
<trans-unit id="a"><source>Guardar <x id="1"/></source><target>Save <x id="1"/></target>
 <alt-trans><target state="final">Keep</target></alt-trans></trans-unit>
<trans-unit id="b"><source>Abrir</source><target state="needs-review-translation">Open</target>
</trans-unit>
<trans-unit id="c" approved="yes"><source>Cerrar</source><target state="new">Close</target>
</trans-unit>
<trans-unit id="d"><source>Lee <g id="1">esta <!-- no --> receta</g>.<x id="2" ctype="lb"/>Gracias.
</source><target state="signed-off">Read <g id="1">this recipe</g>.
Thanks.</target></trans-unit>
<trans-unit id="e"><source>Madrid</source><target>Madrid</target></trans-unit>
<trans-unit id="f"><source>Nada</source></trans-unit>
</body></file></xliff>""".encode()

XLIFF_2 = f"""<?xml version="1.0"?>
<xliff xmlns="{NAMESPACE_2}" version="2.0" srcLang="es" trgLang="en"><file id="f"><unit id="1">
<segment state="final"><source>El <pc id="1">primer</pc> vuelo</source><target>The <pc id="1">first
 </pc>flight</target></segment>
<segment state="initial"><source>El segundo</source><target>The second</target></segment>
<segment><source>Usa <mrk id="m" translate="no">ls</mrk></source><target>Use ls</target></segment>
</unit></file></xliff>""".encode()

PO = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=ISO-8859-1\\n"
"Language: en_GB\\n"

msgid "Guardar"
msgstr "Save"

#, fuzzy
msgid "Abrir"
msgstr "Open"

msgid "Línea\\n"
"larga"
msgstr ""
"Long\\tline"

msgid "%d archivo"
msgid_plural "%d archivos"
msgstr[0] "%d file"
msgstr[1] "%d files"

msgid "Falta"
msgstr ""

#~ msgid "Viejo"
#~ msgstr "Old"
""".encode("latin-1")

FILES = {
    "memory.tmx": (
        TMX,
        [("La sopa está lista.", "The soup is ready."), ("Uno.", "One."), ("Dos.", "Two.")],
    ),
    "edited.xlf": (
        XLIFF_1,
        [
            ("Guardar", "Save"),
            ("Cerrar", "Close"),
            ("Lee esta receta.", "Read this recipe."),
            ("Gracias.", "Thanks."),
        ],
    ),
    "edited.xliff": (XLIFF_2, [("El primer vuelo", "The first flight"), ("Usa ls", "Use ls")]),
    "MESSAGES.PO": (
        PO,
        [
            ("Guardar", "Save"),
            ("Línea larga", "Long line"),
            ("%d archivo", "%d file"),
            ("%d archivos", "%d files"),
        ],
    ),
}


def read(folder: Path, name: str, data: bytes) -> list[tuple[int, str, str]]:
    path = folder / name
    path.write_bytes(data)
    suffix = find_suffix(path)
    assert is_bilingual(suffix)
    with path.open("rb") as file:
        return list(read_translations(file, suffix, ("es", "en")))


def test_the_first_plural_form_may_be_missing(tmp_path: Path) -> None:
    entry = 'msgid ""\nmsgstr ""\n\nmsgid "%d gato"\nmsgid_plural "%d gatos"\n'
    forms = 'msgstr[1] "%d cat"\nmsgstr[2] "%d cats"\n'
    pairs = read(tmp_path, "a.po", f"{entry}{forms}".encode())
    assert [pair[1:] for pair in pairs] == [("%d gato", "%d cat"), ("%d gatos", "%d cats")]


@pytest.mark.parametrize("name", FILES)
def test_finished_translations_are_pairs(tmp_path: Path, name: str) -> None:
    data, expected = FILES[name]
    assert [pair for _, *pair in read(tmp_path, name, data)] == [list(pair) for pair in expected]


@pytest.mark.parametrize("name", ["edited.xlf", "MESSAGES.PO"])
def test_lines_are_those_of_the_file(tmp_path: Path, name: str) -> None:
    data = FILES[name][0]
    lines = data.decode("latin-1").splitlines()
    line, source, _ = read(tmp_path, name, data)[0]
    assert source in lines[line - 1]


@pytest.mark.parametrize(
    ("languages", "pair"),
    [
        (("es", "und"), ("uno", "one")),
        (("und", "en"), ("uno", "one")),
        (("en", "und"), ("one", "uno")),
        (("und", "und"), ("one", "uno")),
    ],
)
def test_unknown_languages_of_a_memory_are_its_others(
    tmp_path: Path, languages: tuple[str, str], pair: tuple[str, str]
) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(
        '<tmx><body><tu><tuv lang="en-GB"><seg>one</seg></tuv>'
        '<tuv lang="es"><seg>uno</seg></tuv></tu></body></tmx>'
    )
    with path.open("rb") as file:
        assert [tuple(each) for _, *each in read_translations(file, ".tmx", languages)] == [pair]


def test_other_names_are_tables() -> None:
    names = ("a.tsv", "a.tmx.old", "tmx", "a.txt")
    assert not any(is_bilingual(find_suffix(Path(name))) for name in names)
    assert is_bilingual(find_suffix(Path("a.TMX.gz")))


BOMB = """<?xml version="1.0"?><!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>
<tmx><body><tu><tuv lang="es"><seg>&b;</seg></tuv></tu></body></tmx>"""
OUTSIDE = """<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/hostname">]>
<tmx><body><tu><tuv lang="es"><seg>&a;</seg></tuv></tu></body></tmx>"""
DEEP = f"<tmx><body>{'<tu>' * 10_000}{'</tu>' * 10_000}</body></tmx>"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.tmx", BOMB.encode(), "DOCTYPE has definitions of its own"),
        ("a.tmx", OUTSIDE.encode(), "DOCTYPE has definitions of its own"),
        ("a.xlf", DEEP.replace("tmx", "xliff").encode(), "not well-formed XML"),
        ("a.tmx", b"<tmx>", "not well-formed XML"),
        ("a.tmx", b"<tmx>&nbsp;</tmx>", "XML"),
        ("a.tmx", b'<?xml version="1.0" encoding="utf-7"?><tmx/>', "encoding utf-7 is unsupported"),
        ("a.tmx", XLIFF_1, "its root is <xliff> and not <tmx>"),
        ("a.xlf", XLIFF_1.replace(b'"es"', b'"de"'), "its source language is de"),
        ("a.xliff", XLIFF_2.replace(b'"en"', b'"fr"'), "its target language is fr"),
        ("a.po", PO.replace(b"en_GB", b"it"), "its target language is it"),
        ("a.po", b'msgid "a"\nnonsense\n', "syntax error in line 2"),
        ("a.po", b'msgid "a"\n' + b'"a"\n' * 6000, "more than 5000 lines"),
        ("a.po", b"\xff\xff", "not UTF-8"),
    ],
)
def test_hostile_damaged_and_foreign_files_are_one_line(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    assert message in complaint(lambda: read(tmp_path, name, data))


def test_depth_does_not_exhaust_the_stack(tmp_path: Path) -> None:
    inner = "<hi>" * 240 + "texto" + "</hi>" * 240
    data = (
        f'<tmx><body><tu><tuv lang="es"><seg>{inner}</seg></tuv>'
        '<tuv lang="en"><seg>text</seg></tuv></tu></body></tmx>'
    )
    assert [pair for _, *pair in read(tmp_path, "a.tmx", data.encode())] == [["texto", "text"]]
