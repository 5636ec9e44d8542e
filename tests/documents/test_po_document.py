"""gettext catalogues: which messages are translated, and that all else stays byte for byte."""

from __future__ import annotations

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marked_texts import try_examples

from nmt.documents.formats import DocumentOptions, extract
from nmt.documents.po import PoDocument
from nmt.errors import UserError
from nmt.text.marked import MarkedText

HEADER = r"""# Mensajes de la biblioteca.
# Ana, 2024.
msgid ""
msgstr ""
"Project-Id-Version: biblioteca 1\n"
"Language: es\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n==2 ? 1 : 2);\n"

"""
CATALOGUE = (
    HEADER
    + r"""#. Para el bibliotecario.
#: src/libro.c:10 src/libro.c:20
#, c-format
msgid "Devuelva el libro \"%s\".\n"
msgstr ""

msgctxt "botón"
msgid "Abrir"
msgstr "Open"

#, fuzzy
#| msgctxt "menú"
#| msgid "Cerrar el libro"
msgctxt "menú"
msgid ""
"Cerrar "
"la ventana"
msgstr ""
"Close the "
"book"

#: src/lista.c:7
msgid "Hay un libro"
msgid_plural "Hay %d libros"
msgstr[0] ""
msgstr[1] ""

msgid "100 %"
msgstr ""

#~ msgid "Mensaje viejo"
#~ msgstr ""

msgid "Buenos días"
msgstr ""
#~ msgid "Otro viejo"
#~ msgstr "Another old one"
"""
)


def read(text: str, target: str = "und") -> PoDocument:
    document = extract(text.encode(), "po", DocumentOptions("es", target))
    assert isinstance(document, PoDocument)
    return document


def fill(text: str, translations: dict[str, str], target: str = "und") -> str:
    document = read(text, target)
    texts = [segment.text for segment in document.segments]
    return document.fill([MarkedText(translations.get(each, each)) for each in texts]).decode()


def test_messages_without_a_translation_are_segments() -> None:
    assert [segment.text for segment in read(CATALOGUE).segments] == [
        'Devuelva el libro "%s".\n',
        "Cerrar la ventana",
        "Hay un libro",
        "Hay %d libros",
        "Buenos días",
    ]


@pytest.mark.parametrize(
    ("source", "text", "filled"),
    [
        ("&Abrir libro", "Abrir libro", "&Open book"),
        ("Cerrar _todo", "Cerrar todo", "_Open book"),
        ("Tom & Ana", "Tom & Ana", "Open book"),
        ("a&nbsp;b", "a&nbsp;b", "Open book"),
        ("_uno_ y nombre_propio", "_uno_ y nombre_propio", "Open book"),
        ("Cuenta de 1&1", "Cuenta de 1&1", "Open book"),
        ("&Uno && dos", "&Uno && dos", "Open book"),
        ("Ver $_GET", "Ver $_GET", "Open book"),
        ("Usar &IPv6", "Usar IPv6", "&Open book"),
    ],
)
def test_the_letter_of_a_menu_is_marked_again(source: str, text: str, filled: str) -> None:
    catalogue = f'msgid "{source}"\nmsgstr ""\n'
    assert [segment.text for segment in read(catalogue).segments] == [text]
    assert f'msgstr "{filled}"' in fill(catalogue, {text: "Open book"})


@pytest.mark.parametrize("span", ["%d", "%(count)s", "{count}", "<b>"])
def test_no_letter_of_a_kept_span_is_marked(span: str) -> None:
    catalogue = f'msgid "{span} _archivos"\nmsgstr ""\n'
    filled = fill(catalogue, {f"{span} archivos": f"{span} files"})
    assert f'msgstr "{span} _files"' in filled


@pytest.mark.parametrize("sign", "\v\f\x1c\x85\u2028")
def test_signs_that_only_python_takes_for_line_ends(sign: str) -> None:
    catalogue = f'# Nota{sign}de Ana.\nmsgid "Hola{sign}Ana"\nmsgstr ""\n'
    assert [segment.text for segment in read(catalogue).segments] == ["Hola Ana"]
    filled = fill(catalogue, {"Hola Ana": "Hello Ana"})
    assert filled == catalogue.replace("msgid", "#, fuzzy\nmsgid").replace('""', '"Hello Ana"')


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("und", "nplurals=2; plural=(n != 1);"),
        ("en-GB", "nplurals=2; plural=(n != 1);"),
        ("pt-BR", "nplurals=2; plural=(n > 1);"),
        ("zh-Hant", "nplurals=1; plural=0;"),
        ("cs", "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);"),
    ],
)
def test_a_template_gets_the_plurals_of_the_target_language(target: str, rule: str) -> None:
    unknown = "nplurals=INTEGER; plural=EXPRESSION;"
    template = f"""msgid ""
msgstr "Plural-Forms: {unknown}\\n"

msgid "Un libro"
msgid_plural "%d libros"
msgstr[0] ""
msgstr[1] ""
"""
    assert fill(template, {}, target).count(unknown) == 1
    filled = fill(template, {"Un libro": "A book", "%d libros": "%d books"}, target)
    assert f"Plural-Forms: {rule}\\n" in filled
    forms = ["A book", "%d books", "%d books"] if "=1;" not in rule else ["%d books"]
    [entry] = polib.pofile(filled)
    assert list(entry.msgstr_plural.values()) == forms[: int(rule[9])]


def test_choices_of_the_message_format_are_no_texts() -> None:
    text = 'msgid "{n, plural, one {Un libro} other {# libros}}"\nmsgstr ""\n'
    assert read(text).segments == []


def test_only_the_lines_of_translated_messages_change() -> None:
    filled = fill(
        CATALOGUE,
        {
            'Devuelva el libro "%s".\n': 'Return "%s".',
            "Cerrar la ventana": "Close\nthe \\ window",
            "Hay un libro": "There is one book",
            "Hay %d libros": "There are %d books",
        },
    )
    expected = (
        CATALOGUE.replace("#, c-format", "#, fuzzy, c-format")
        .replace(
            'libro \\"%s\\".\\n"\nmsgstr ""', 'libro \\"%s\\".\\n"\nmsgstr "Return \\"%s\\".\\n"'
        )
        .replace('#| msgctxt "menú"\n#| msgid "Cerrar el libro"\n', "")
        .replace('msgstr ""\n"Close the "\n"book"', 'msgstr ""\n"Close\\n"\n"the \\\\ window"')
        .replace('msgid "Hay un', '#, fuzzy\nmsgid "Hay un')
        .replace(
            'msgstr[0] ""\nmsgstr[1] ""',
            'msgstr[0] "There is one book"\nmsgstr[1] "There are %d books"\n'
            'msgstr[2] "There are %d books"',
        )
    )
    assert filled == expected
    assert len(polib.pofile(filled)) == len(polib.pofile(CATALOGUE))


DONE = HEADER + 'msgid "Abrir"\nmsgstr "Open"\n\n# Comentario final sin mensaje\n#~| msgid "x"'


@pytest.mark.parametrize(
    "text",
    [
        CATALOGUE,
        DONE,
        CATALOGUE.replace("\n", "\r\n"),
        "\ufeff" + CATALOGUE,
        CATALOGUE.rstrip(),
        "",
        'msgid "Sin cabecera"\nmsgstr ""',
        '#sin espacio\n#,fuzzy\n#:a.c:1\n#.nota\nmsgid "Hola"\nmsgstr "Hi"\n#~msgid "a"',
    ],
)
def test_a_catalogue_filled_with_its_sources_is_the_same_bytes(text: str) -> None:
    document = read(text)
    assert document.fill(document.segments) == text.encode()


def test_line_ends_and_marks_stay() -> None:
    text = "\ufeff" + 'msgid ""\nmsgstr ""\n"X: y\\n"\n\nmsgid "Hola"\nmsgstr ""'.replace(
        "\n", "\r\n"
    )
    filled = fill(text, {"Hola": "Hi\nyou"}, "en")
    expected = text.replace('"X: y\\n"', '"X: y\\n"\r\n"Language: en\\n"')
    expected = expected.replace('msgid "Hola"\r\n', '#, fuzzy\r\nmsgid "Hola"\r\n')
    assert filled == expected + '\r\n"Hi\\n"\r\n"you"\r\n'


def test_comments_without_spaces() -> None:
    text = '#,fuzzy\n#:a.c:1\nmsgid "Hola"\nmsgstr "Bye"\n'
    assert fill(text, {"Hola": "Hi"}) == text.replace("Bye", "Hi")


def test_a_comment_behind_a_message_stays() -> None:
    text = 'msgid "Hola"\nmsgstr ""\n# "Adiós" es informal\nmsgid "Adiós"\nmsgstr ""\n'
    filled = fill(text, {"Hola": "Hello", "Adiós": "Bye"})
    assert '# "Adiós" es informal\n' in filled


def test_messages_are_found_whatever_follows() -> None:
    for end in ("", "#:", '#~| msgid "x"', '#~ msgid "x"\n#~ msgstr ""', "# fin"):
        assert fill(f'msgid "Hola"\nmsgstr ""\n{end}', {"Hola": "Hi"}) == (
            f'#, fuzzy\nmsgid "Hola"\nmsgstr "Hi"\n{end}'
        )
    mixed = 'msgid "Hola"\n#~ msgstr ""\n\nmsgid "Sí"\nmsgstr "Yes"\n'
    expected = mixed.replace("#~ msgstr", "msgstr", 1).replace('""', '"Hi"', 1)
    assert fill(mixed, {"Hola": "Hi"}) == "#, fuzzy\n" + expected


def test_line_separators_become_spaces() -> None:
    filled = fill('msgid "Hola"\nmsgstr ""\n', {"Hola": "a\u2028b\x85c\td"})
    assert filled.endswith('msgstr "a b c\\td"\n')


def test_utf_16_is_read_and_written() -> None:
    data = ("\ufeff" + CATALOGUE).encode("utf-16-le")
    document = extract(data, "po", DocumentOptions())
    assert len(document.segments) == 5
    assert document.fill(document.segments) == data


def test_a_half_translated_plural_keeps_its_forms() -> None:
    text = HEADER + 'msgid "Un día"\nmsgid_plural "Días"\nmsgstr[0] "One day"\nmsgstr[1] ""\n'
    filled = fill(text, {"Un día": "A day", "Días": "Days"})
    assert filled.endswith('msgstr[0] "One day"\nmsgstr[1] "Days"\nmsgstr[2] "Days"\n')


@pytest.mark.parametrize(
    ("forms", "count"), [("1", 1), ("2", 2), ("6", 6), ("INTEGER", 2), ("98765432109", 2)]
)
def test_as_many_forms_as_the_header_says(forms: str, count: int) -> None:
    header = HEADER.replace("nplurals=3", f"nplurals={forms}")
    filled = fill(
        header + 'msgid "Un día"\nmsgid_plural "Días"\nmsgstr[0] ""\n',
        {"Un día": "A day", "Días": "Days"},
    )
    entry = polib.pofile(filled)[0]
    expected = ["A day", *["Days"] * (count - 1)] if count > 1 else ["Days"]
    assert [entry.msgstr_plural[form] for form in range(count)] == expected
    assert len(entry.msgstr_plural) == count
    assert entry.fuzzy


def test_a_singular_alone_is_not_translated_where_there_is_one_form() -> None:
    header = HEADER.replace("nplurals=3", "nplurals=1")
    text = header + 'msgid "Un día"\nmsgid_plural "Días"\nmsgstr[0] ""\n'
    assert [segment.text for segment in read(text).segments] == ["Días"]


def test_the_language_is_named_in_the_header_alone() -> None:
    message = 'msgid ""\n"Language: elija"\nmsgstr ""\n'
    assert fill(HEADER + message, {}, "pt-BR") == HEADER.replace(": es", ": pt_BR") + message
    template = HEADER.replace('"Language: es\\n"\n', '"Language: \\n"\n')
    assert fill(template + message, {}, "en") == HEADER.replace(": es", ": en") + message
    without = HEADER.replace('"Language: es\\n"\n', "")
    filled = fill(without + message, {}, "en")
    assert polib.pofile(filled).metadata["Language"] == "en"
    assert filled.endswith(message)
    assert fill(message, {}, "en") == message
    in_one_line = 'msgid ""\nmsgstr "MIME-Version: 1.0\\nLanguage: es\\nX: y\\n"\n'
    assert fill(in_one_line, {}, "en") == in_one_line.replace(": es", ": en")


def test_other_encodings() -> None:
    text = HEADER.replace("UTF-8", "ISO-8859-1") + 'msgid "Sí"\nmsgstr ""\n'
    document = extract(text.encode("latin-1"), "po", DocumentOptions())
    assert [segment.text for segment in document.segments] == ["Sí"]
    assert document.fill(document.segments) == text.encode("latin-1")
    changed = text.replace("msgid", "#, fuzzy\nmsgid").replace("#, fuzzy\n", "", 1)
    expected = changed.replace('"Sí"\nmsgstr ""', '"Sí"\nmsgstr "É"')
    assert document.fill([MarkedText("É")]) == expected.encode("latin-1")
    expected = expected.replace("ISO-8859-1", "UTF-8").replace('"É"', '"Да"')
    assert document.fill([MarkedText("Да")]) == expected.encode()
    template = text.replace("ISO-8859-1", "CHARSET")
    assert read(template).segments[0].text == "Sí"


MESSAGES = st.builds(
    polib.POEntry,
    msgid=st.text('ab\\"\n\t %'),
    msgctxt=st.none() | st.text('b"\n', min_size=1),
    msgstr=st.sampled_from(["", "", "x\ny"]),
    flags=st.sampled_from([[], ["fuzzy"], ["c-format"]]).map(list),
    obsolete=st.sampled_from([0, 0, 1]),
    comment=st.sampled_from(["", "nota\nlarga"]),
    previous_msgid=st.sampled_from([None, "antes"]),
)
PLURALS = st.builds(
    polib.POEntry,
    msgid=st.text('ab"\n', min_size=1),
    msgid_plural=st.text("ab", min_size=1),
    msgstr_plural=st.dictionaries(st.sampled_from([0, 1]), st.sampled_from(["", "z"]), min_size=1),
)


@try_examples(300)
@given(st.lists(MESSAGES | PLURALS), st.data())
def test_catalogues_are_read_again_with_their_translations(
    entries: list[polib.POEntry], data: st.DataObject
) -> None:
    text = HEADER + "\n".join(str(entry) for entry in entries if entry.msgid)
    before = polib.pofile("\n" + text)
    document = read(text)
    assert document.fill(document.segments) == text.encode()
    filled = [
        MarkedText(data.draw(st.text() | st.text('\u2028\x85\x1c\\"\n a')))
        for _ in document.segments
    ]
    after = polib.pofile("\n" + document.fill(filled).decode())
    assert after.metadata == before.metadata
    pairs = iter(zip(document.segments, filled, strict=True))
    for entry, old in zip(after, before, strict=True):
        assert (entry.msgid, entry.msgid_plural, entry.msgctxt, entry.comment, entry.obsolete) == (
            (old.msgid, old.msgid_plural, old.msgctxt, old.comment, old.obsolete)
        )
        assert set(old.flags) <= set(entry.flags)
        forms = forms_of(entry)
        has_letters = any(map(str.isalpha, entry.msgid + entry.msgid_plural))
        kept = {} if old.fuzzy else {form: text for form, text in forms_of(old).items() if text}
        is_wanted = len(kept) < (3 if entry.msgid_plural else 1)
        if old.obsolete or not has_letters or not is_wanted:
            assert forms == forms_of(old)
            continue
        segments = [next(pairs) for _ in range(2 if entry.msgid_plural else 1)]
        if all(segment == translation for segment, translation in segments):
            assert forms == forms_of(old)
            continue
        assert entry.fuzzy
        for form, text in forms.items():
            translation = segments[min(form, len(segments) - 1)][1]
            assert squash(text) == squash(kept.get(form, translation.text))
    assert next(pairs, None) is None


def forms_of(entry: polib.POEntry) -> dict[int, str]:
    return dict(entry.msgstr_plural) if entry.msgid_plural else {0: entry.msgstr}


def squash(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        ("msgid Hola\nmsgid", "syntax error in line 2"),
        ('msgid "a"\nmsgstr "un "error""\n', "syntax error in line 2: unescaped"),
        ("<html>", "syntax error in line 1"),
        ('msgid "Mi casa\nmsgstr ""\n', "a quote in line 1 .* is not closed"),
        ('msgid "Mi"\n"casa \\\\\\"\nmsgstr ""\n', "a quote in line 2 .* is not closed"),
        (HEADER.replace("nplurals=3", "nplurals=0"), "nplurals=0: write 1 to 9"),
        (HEADER.replace("nplurals=3", "nplurals=99"), "nplurals=99: write 1 to 9"),
        ('msgid ""\n' + '"a"\n' * 20_000, "more than 5000 lines"),
        ("# a\n" * 20_000, "more than 5000 lines"),
        (HEADER.replace("UTF-8", "rot13"), "convert it to UTF-8"),
        (HEADER.replace("UTF-8", "utf-16"), "utf-16|UTF-16|syntax error"),
        (__file__, "syntax error"),
    ],
    ids=lambda text: ascii(text[:20]),  # some are long
)
def test_damaged_catalogues_are_refused(damaged: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(damaged)


def test_a_template_names_an_encoding_once_it_has_translations() -> None:
    template = (HEADER.replace("UTF-8", "CHARSET") + 'msgid "Sí"\nmsgstr ""\n').encode()
    document = extract(template, "po", DocumentOptions("es", "und"))
    assert document.fill(document.segments) == template
    filled = document.fill([MarkedText("Да")]).decode()
    assert "charset=UTF-8" in filled
    assert polib.pofile(filled)[0].msgstr == "Да"
