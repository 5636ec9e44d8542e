"""JSON and YAML catalogues: which values are translated, and that all else stays byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from marked_texts import try_examples

from nmt.documents.catalog import CatalogDocument
from nmt.documents.formats import DocumentOptions, extract
from nmt.errors import UserError
from nmt.text.marked import MarkedText

JSON = r"""{
  "Título" : "Mi biblioteca",
  "menu": {"open":"Abrir el \"libro\"", "n": 3, "on": true, "off": null, "Sí": ["Uno dos",  1.5e3]},
  "url": "https://example.org/libros", "mail": "ana@example.org", "path": "/srv/libros/a.txt",
  "icon": "img/logo.png", "class": "bookList", "id": "book_list", "key": "menu.file.open",
  "color": "#aabbcc", "shade": "rgba(0, 10, 20, 0.5)", "locale": "es-MX", "tag": "zh-Hant-TW",
  "lang": "es", "type": "image/svg+xml", "date": "dd/MM/yyyy HH:mm", "version": "v2.0.1-rc1",
  "empty": "", "count": "100 %", "only": "{count}", "only2": "%s: {{ nombre }}", "to": "tel:+34-12",
  "icu": "{n, plural, one {Un libro} other {# libros}}", "half": "Mal \ud800", "hash": "3f2a9c",
  "long": "LONG",
  "lines": "Primera l\u00ednea.\nSegunda\/tercera.", "with": "Hola, {nombre}: 3 libros" }
""".replace("LONG", "abC+/dEf" * 100)

YAML = """# Textos de la biblioteca
es: &es
  title: Mi biblioteca   # el nombre
  "quoted key": "Abre el \\"libro\\" \\u00e1"
  single: 'L''autre libro'
  plain: texto en varias
    líneas sin comillas
  yes: no
  number: 12
  date: 2024-01-31
  nothing: ~
  symbol: !ruby/symbol Nada
  binary: !!binary SG9sYQ==
  forced: !!str 12 monos
  anchored: &uno !!str  # nota
    Con ancla
  literal: |-  # nota
     Uno dos.

       - tres

  # fin
  folded: >
    Una frase
    larga.

    Otra frase.
  list: [Buenos días, "Buenas tardes", {k: 'Adiós'}]
  ? [clave, compleja]
  : valor simple
  - no
""".replace("  - no\n", "")
ALIASES = YAML + "mx:\n  <<: *es\n  other: *es\n---\n- Segundo documento\n...\n"


def read(text: str) -> CatalogDocument:
    document = extract(text.encode(), "catalog", DocumentOptions())
    assert isinstance(document, CatalogDocument)
    return document


def fill(text: str, translations: dict[str, str]) -> str:
    document = read(text)
    texts = [segment.text for segment in document.segments]
    assert set(translations) <= set(texts)
    return document.fill([MarkedText(translations.get(each, each)) for each in texts]).decode()


def test_the_texts_of_a_json_document() -> None:
    assert [segment.text for segment in read(JSON).segments] == [
        "Mi biblioteca",
        'Abrir el "libro"',
        "Uno dos",
        "Primera línea.\nSegunda/tercera.",
        "Hola, {nombre}: 3 libros",
    ]


def test_the_texts_of_a_yaml_document() -> None:
    assert [segment.text for segment in read(ALIASES).segments] == [
        "Mi biblioteca",
        'Abre el "libro" á',
        "L'autre libro",
        "texto en varias líneas sin comillas",
        "12 monos",
        "Con ancla",
        "Uno dos.\n\n  - tres",
        "Una frase larga.\nOtra frase.\n",
        "Buenos días",
        "Buenas tardes",
        "Adiós",
        "valor simple",
        "Segundo documento",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Sí",
        "Hola",
        "e-mail",
        "Sí/No",
        "Ver https://example.org",
        "3 libros",
        "él",
        "¡Ya!",
        "Más",  # no format of a date: M, s
        "día",
        "H y M",
        "medio-ambiente hoy",
        "Rojo/Verde/Azul",
        "desayuno: pan; comida: sopa",
    ],
)
def test_short_texts_are_texts(text: str) -> None:
    assert [segment.text for segment in read(json.dumps([text])).segments] == [text]


@pytest.mark.parametrize(
    "text",
    [
        "assets/img/perro",
        "btn btn-primary btn-lg",
        "btn-primary btn-lg",
        "fa fa-home",
        "font-size: 12px; color: red",
        "d 'de' MMMM 'de' y",
        "EEEE, d 'de' MMMM",
        "D [de] MMMM [de] YYYY",
        "MMM d, y",
    ],
)
def test_code_is_no_text(text: str) -> None:
    assert read(json.dumps([text])).segments == []


@pytest.mark.parametrize(
    "text",
    [
        JSON,
        YAML,
        ALIASES,
        YAML.replace("\n", "\r\n"),
        "\ufeff" + JSON,
        "\ufeff" + YAML,
        "",
        "{}",
        '"solo texto"',
        "solo texto",
        "- |\n  sin fin",
        "%YAML 1.1\n---\na: b c\n",
        "[1" + "0" * 5000 + ', "Hola"]',
    ],
)
def test_a_catalogue_filled_with_itself_is_the_same_bytes(text: str) -> None:
    document = read(text)
    assert document.fill(document.segments) == text.encode()


ARB = """{
  "@@locale": "es", "@@author": "Ana Gil",
  "hola": "Hola, {nombre}",
  "@hola": {"description": "Un saludo", "placeholders": {"nombre": {"example": ["Ana Gil"]}}},
  "adios": "Adiós", "@mencionar a {nombre}": "@ana te mencionó"
}"""


@pytest.mark.parametrize(("target", "locale"), [("und", "es"), ("pt-BR", "pt_BR")])
def test_metadata_of_flutter_stays_and_its_locale_is_set(target: str, locale: str) -> None:
    document = extract(ARB.encode(), "catalog", DocumentOptions("es", target))
    texts = [segment.text for segment in document.segments]
    assert texts == ["Hola, {nombre}", "Adiós", "@ana te mencionó"]
    filled = document.fill(document.segments).decode()
    assert filled == ARB.replace('"@@locale": "es"', f'"@@locale": "{locale}"')


RAILS = "# es: Textos\n{}: &todos # nota\n  hola: Hola\n  es: es\n"


@pytest.mark.parametrize(
    ("key", "languages", "expected"),
    [
        ("es", ("es", "pt-BR"), "pt-BR"),
        ("'es'", ("es", "en"), "'en'"),
        ("no", ("no", "en"), "en"),
        ("en", ("en", "no"), '"no"'),  # which is false without quotes
        ("es-MX", ("es", "en"), "en"),
        ("es", ("es", "und"), "es"),
        ("es", ("fr", "en"), "es"),
    ],
)
def test_the_only_key_at_the_root_names_the_language(
    key: str, languages: tuple[str, str], expected: str
) -> None:
    document = extract(RAILS.format(key).encode(), "catalog", DocumentOptions(*languages))
    assert [segment.text for segment in document.segments] == ["Hola"]
    assert document.fill(document.segments).decode() == RAILS.format(expected)


@pytest.mark.parametrize("more", ["fr:\n  hola: Salut\n", "---\nes:\n  hola: Adiós\n"])
def test_one_of_several_keys_at_the_root_stays(more: str) -> None:
    text = RAILS.format("es") + more
    document = extract(text.encode(), "catalog", DocumentOptions("es", "en"))
    assert len(document.segments) == 2
    assert document.fill(document.segments).decode() == text


def test_utf_16_is_read_and_written() -> None:
    for text in (JSON, YAML):
        data = ("\ufeff" + text).encode("utf-16-le")
        document = extract(data, "catalog", DocumentOptions())
        assert document.segments[0].text == "Mi biblioteca"
        assert document.fill(document.segments) == data
    tabs = '\ufeff{\t"a":\t"Hola"}'  # not YAML
    document = extract(tabs.encode("utf-16-le"), "catalog", DocumentOptions())
    assert [segment.text for segment in document.segments] == ["Hola"]


def test_only_translated_strings_of_json_change() -> None:
    changed = fill(JSON, {"Mi biblioteca": 'A "b"\n\\ ', "Uno dos": "One\u2028\x7f é"})
    expected = JSON.replace('"Mi biblioteca"', r'"A \"b\"\n\\ "')
    assert changed == expected.replace('"Uno dos"', '"One\\u2028\\u007f é"')


def test_escapes_of_json_stay_where_all_letters_are_escaped() -> None:
    assert fill(r'["D\u00eda", "Hola"]', {"Hola": "Да 😀"}) == (
        r'["D\u00eda", "\u0414\u0430 \ud83d\ude00"]'
    )


def test_only_translated_strings_of_yaml_change() -> None:
    changed = fill(
        YAML,
        {
            "Mi biblioteca": "My library, here",
            'Abre el "libro" á': 'Open "it"',
            "L'autre libro": "It's",
            "texto en varias líneas sin comillas": "a: b # c",
            "12 monos": "12",
            "Con ancla": "Anchored",
            "Uno dos.\n\n  - tres": "One\n\n  - two\nthree",
            "Una frase larga.\nOtra frase.\n": "One.\nTwo.\n\nThree.\n",
            "Buenos días": "Good, day",
            "Buenas tardes": "Bye",
            "Adiós": "a\nb",
            "valor simple": "yes",
        },
    )
    pairs = {
        "Mi biblioteca ": "My library, here ",
        '"Abre el \\"libro\\" \\u00e1"': r'"Open \"it\""',
        "'L''autre libro'": "'It''s'",
        "texto en varias\n    líneas sin comillas": '"a: b # c"',
        "# nota\n    Con ancla\n": "# nota\n    Anchored\n",
        "!!str 12 monos": '!!str "12"',
        "Uno dos.\n\n       - tres\n": "One\n\n       - two\n     three\n",
        "Una frase\n    larga.\n\n    Otra frase.": "One.\n\n    Two.\n\n\n    Three.",
        "[Buenos días, ": '["Good, day", ',
        '"Buenas tardes"': '"Bye"',
        "'Adiós'": '"a\\nb"',
        ": valor simple": ': "yes"',
    }
    expected = YAML
    for old, new in pairs.items():
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    assert changed == expected


@pytest.mark.parametrize("text", [" begins", "\nbegins", "", "a\tb", "\u2028", "a\rb"])
@pytest.mark.parametrize("sign", ["|", ">-", "|+", ">2", "|2-"])
def test_blocks_become_quoted_where_they_cannot_hold_a_text(sign: str, text: str) -> None:
    catalogue = f"a: {sign} # nota\n  Uno dos\n\n\nb: Tres\n"
    [_, last] = read(catalogue).segments
    changed = read(catalogue).fill([MarkedText(text), last]).decode()
    assert changed == f"a: {json.dumps(text)} # nota\n\n\nb: Tres\n"
    assert yaml.safe_load(changed) == {"a": text, "b": "Tres"}


def test_line_ends_stay() -> None:
    text = "a: |\r\n  Uno\r\n  dos\r\n\r\nb: >-\r\n  Tres\r\nc: |\r\n  Cuatro\r\n"
    changed = fill(text, {"Uno\ndos\n": "One\ntwo\n", "Tres": "3\nx", "Cuatro\n": " 4"})
    assert changed == ('a: |\r\n  One\r\n  two\r\n\r\nb: >-\r\n  3\r\n\r\n  x\r\nc: " 4"\r\n')


@pytest.mark.parametrize("line_break", ["\r", "\x85", "\u2028"])
def test_blocks_keep_other_line_breaks(line_break: str) -> None:
    text = "a: |\n  Uno\n  dos\nb: Tres\n".replace("\n", line_break)
    document = read(text)
    changed = document.fill([MarkedText("One\ntwo\n"), MarkedText("Three")]).decode()
    assert changed == text.replace("Uno", "One").replace("dos", "two").replace("Tres", "Three")


TEXTS = st.one_of(
    st.text("aB é,.:#'\"-\n\\{}[]&*!|>%@`\t😀\x85\u2028\x7f\x00", min_size=1),
    st.sampled_from(
        ["no", "null", "~", "12", "1e3", "---", "<<", "=", "- a", "2024-01-31", "a\n\n"]
    ),
)
VALUES = st.recursive(
    st.sampled_from(["Hola mundo", "Buenos días, ¿qué tal?", "Uno\ndos\n", "  sí: no", 'D"e#f'])
    | st.sampled_from([None, True, 12, 1.5, "", "#fff", "en", "a_b", "https://example.org"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["Clave", "Otra", "k"]), inner),
)


def replace(value: Any, texts: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: replace(each, texts) for key, each in value.items()}
    if isinstance(value, list):
        return [replace(each, texts) for each in value]
    return texts.get(value, value) if isinstance(value, str) else value


def dump(value: Any, style: str) -> str:
    if style == "json":
        return json.dumps(value, ensure_ascii=False)
    if style == "indented":
        return json.dumps(value, indent=2)
    options: dict[str, Any] = {"default_style": style[0] if style[0] in "|>'\"" else None}
    options["default_flow_style"] = style == "flow"
    text = yaml.safe_dump(value, allow_unicode=True, **options)
    assert isinstance(text, str)
    return text


@try_examples(300)
@given(
    VALUES,
    st.sampled_from(["json", "indented", "flow", "block", "|", ">", "'", '"']),
    st.data(),
)
def test_values_are_replaced_and_nothing_else(value: Any, style: str, data: st.DataObject) -> None:
    text = dump(value, style)
    load = json.loads if style in ("json", "indented") else yaml.safe_load
    document = read(text)
    assert document.fill(document.segments) == text.encode()
    originals = {segment.text for segment in document.segments}
    texts = {original: data.draw(TEXTS) for original in sorted(originals)}
    filled = document.fill([MarkedText(texts[each.text]) for each in document.segments]).decode()

    def strip(value: Any) -> Any:  # a block keeps the line breaks at its end
        if isinstance(value, dict):
            return {key: strip(each) for key, each in value.items()}
        if isinstance(value, list):
            return [strip(each) for each in value]
        return value.rstrip("\n") if isinstance(value, str) else value

    assert strip(load(filled)) == strip(replace(load(text), texts))


BOMB = "a0: &a0 [Hola mundo]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested levels"),
        ("[" * 300 + "]" * 300, "nested levels"),
        ('{"a":' * 300 + "1" + "}" * 300, "nested levels"),
        ("a: " + "[\n" * 1000, "nested levels"),
        ("- " * 1000, "nested levels"),
        ("".join(f"{' ' * i}a:\n" for i in range(300)), "nested levels"),
        (BOMB, "once its aliases are resolved"),
        ("a: *b", r"alias \*b has no anchor"),
        ("a: &a [*a]", r"alias \*a has no anchor"),
        ('{"a": "b"', "neither JSON"),
        ("a: [b\nc: d", "neither JSON"),
        ('- "\\UFFFFFFFF"', "neither JSON"),
        ("a: b\x00c", "neither JSON"),
        ('"\\"' + '\\"' * 100_000, "neither JSON"),
    ],
    ids=lambda text: ascii(text[:20]),  # some are long
)
def test_damaged_and_hostile_catalogues_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ['{"a": "Hola",}', "a: Hola\n", "{'a': 'Hola'}", ""])
def test_a_file_that_is_called_json_is_json(text: str) -> None:
    """Contents without a name, or with that of YAML, may be YAML."""
    for extension in (".json", ".arb"):
        with pytest.raises(UserError, match=r"is not valid JSON \(.*line 1 column .*: correct it"):
            extract(text.encode(), "catalog", DocumentOptions(extension=extension))
    for extension in ("", ".yaml"):
        extract(text.encode(), "catalog", DocumentOptions(extension=extension))


def test_nothing_is_executed() -> None:
    [segment] = read("a: !!python/object/apply:os.getcwd []\nb: Hola\n").segments
    assert segment.text == "Hola"
