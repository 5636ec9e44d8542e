"""Markdown: which texts are translated, and that all else stays byte for byte."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from conftest import cpu_seconds
from hypothesis import assume, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from marked_texts import try_examples

from nmt.documents.formats import DocumentOptions, extract
from nmt.documents.markdown import MarkdownDocument
from nmt.errors import UserError
from nmt.inference.markup_projection import project_marks
from nmt.inference.results import Word
from nmt.text.marked import Mark, MarkedText
from nmt.text.words import find_words

GUIDE = r"""---
title: Guía de la casa
---

# Cómo empezar con `casa` {#empezar}

Este es un **libro *muy* bueno**
que puedes leer en [nuestra página](https://example.org/a_b "La página").␣␣
Usa ~~siempre~~ `git commit`<br>y espera.

Notas
de la semana
------------

> Una cita larga
> que sigue\
> aquí
y termina sin marca.
>
> - [ ] Comprar pan
> - [x] Lavar
>   la ropa

1. Primer paso:

   ```sh
   echo "no se traduce"
   ```

2. Segundo paso

| Fruta | Precio \| kilo |
|:------|---------------:|
| Pera  | dos `a \| b`   |
|       | 3              |

La fórmula $E = mc^2$ cuesta $5 o $6.[^1] Lee [la guía][guia], [guia] y [guia][].

$$
a = 1
- b
$$

<div class="x">
No se traduce.
</div>

    código con sangría

![Un gato](gato.png)

Hay <b>otra</b> <kbd>Ctrl</kbd> y <i translate="no">Marca</i> <!-- nota --> en <https://a.org>.

> [!NOTE]
> Ten cuidado.

:::tip
Un consejo.
:::

[guia]: https://example.org/guia "Guía"
[^1]: Sin impuestos.
[^2]: Otra nota.

***
Fin &amp; adiós \*
""".replace("␣", " ")

README = """\ufeff# Proyecto #

[![CI](https://ci.org/x.svg)](https://ci.org) Instala el paquete.
* Uno
    * Dos con *énfasis*
\t* Tres

Término
: no es CommonMark

!!! note "Título"
    Un consejo.

Uno | Dos
--- | ---
a | `b`
Texto | más
"""


def read(source: str) -> MarkdownDocument:
    document = extract(source.encode(), "markdown", DocumentOptions())
    assert isinstance(document, MarkdownDocument)
    return document


def copy(document: MarkdownDocument) -> bytes:
    return document.fill([segment.without_kept() for segment in document.segments])


def fill(source: str, *texts: str) -> str:
    """Replace the texts of segments, without changing where their marks are."""
    document = read(source)
    filled = [
        replace(segment.without_kept(), text=text)
        for segment, text in zip(document.segments, texts, strict=True)
    ]
    return document.fill(filled).decode()


def test_the_number_of_a_note_follows_its_word() -> None:
    source = "Datos recientes<sup>1</sup> y el 1<sup>er</sup> día"
    [segment] = read(source).segments
    assert segment.text == "Datos recientes y el 1er día"
    assert (segment.marks[0].begin, segment.marks[0].end) == (15, 15)
    assert copy(read(source)).decode() == source


def move(source: str, text: str, *spans: tuple[int, int]) -> str:
    """Replace the text of the first segment, and where its marks are."""
    document = read(source)
    segment, *others = document.segments
    marks = [
        mark._replace(begin=begin, end=end)
        for mark, (begin, end) in zip(segment.marks, spans, strict=True)
    ]
    return document.fill([MarkedText(text, tuple(marks)), *others]).decode()


def test_the_texts_of_a_document() -> None:
    assert [segment.text for segment in read(GUIDE).segments] == [
        "Cómo empezar con \uf000 ",
        "Este es un libro muy bueno que puedes leer en nuestra página.\n"
        "Usa siempre \uf000\ny espera.",
        "Notas de la semana",
        "Una cita larga que sigue\naquí y termina sin marca.",
        "Comprar pan",
        "Lavar la ropa",
        "Primer paso:",
        "Segundo paso",
        "Fruta",
        "Precio | kilo",
        "Pera",
        "dos \uf000",
        "La fórmula \uf000 cuesta $5 o $6. Lee la guía, guia y guia.",
        "Un gato",
        "Hay otra \uf000 y \uf001 en \uf002.",
        "Ten cuidado.",
        "Un consejo.",
        "Sin impuestos.",
        "Otra nota.",
        "Fin & adiós *",
    ]


def test_marks_are_the_inline_elements() -> None:
    heading, segment = read(GUIDE).segments[:2]
    assert [heading.text[mark.begin : mark.end] for mark in heading.marks] == ["\uf000", ""]
    contents = [segment.text[mark.begin : mark.end] for mark in segment.marks]
    assert contents == [
        "libro muy bueno",
        "muy",
        "nuestra página",
        "\n",
        "siempre",
        "\uf000",
        "\n",
    ]
    assert [mark.parent for mark in segment.marks] == [None, 0, None, None, None, None, None]
    assert [mark.is_kept for mark in segment.marks] == [0, 0, 0, 1, 0, 1, 1]
    html = read(GUIDE).segments[14]
    assert [html.text[mark.begin : mark.end] for mark in html.marks] == [
        "otra",
        "\uf000",
        "\uf001",
        "",
        "\uf002",
    ]


@pytest.mark.parametrize(
    ("source", "contents"),
    [
        ("x <b>y <i>z</i></b>", ["y z", "z"]),
        ("x <b>y</i> z", ["", ""]),
        ("x *y <b>z* a</b>", ["y z", "", ""]),
        ("x <b><img>y</b>", ["y", ""]),
        ("x <span class='notranslate'>*y*</span><br/>z", ["\uf000", "\n"]),
        ("Un ==texto *muy* marcado== y ++nuevo++.", ["texto muy marcado", "muy", "nuevo"]),
        ("==usa `a==b` ya== [==c==](u)", ["usa \uf000 ya", "\uf000", "c", "c"]),
        ("H~2~O, el 1^er^ año, x^2^ y 10^-5^", ["2", "er", "", ""]),
        ("a==b==c, a == b == c, C++ y Java++, ===, ~x~, == a==, ==a ==, 2^10", []),
        ("++i o i++ siempre, si a ==b y c== d", []),
        ("Pulsa ++ctrl+alt+del++, ++f5++ y ++nuevo++.", ["\uf000", "\uf001", "nuevo"]),
        ("C+++a+b++, ++a+b+++, \\++a+b++, ++ctrl +c++", ["ctrl +c"]),
    ],
)
def test_tags_are_marks(source: str, contents: list[str]) -> None:
    [segment] = read(source).segments
    assert [segment.text[mark.begin : mark.end] for mark in segment.marks] == contents


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("---\na: b\n---\nx", ["x"]),
        ("+++\na: b\n+++\nx", ["x"]),
        ("---\na: b\n...\nx", ["x"]),
        ("---\n\na\n\n---\n", ["a"]),
        ("---\na", ["a"]),
        ("x\n\n---\na\n---\n", ["x", "a"]),
    ],
)
def test_front_matter_is_no_text(source: str, texts: list[str]) -> None:
    assert [segment.text for segment in read(source).segments] == texts


DOCUMENTS = [
    GUIDE,
    README,
    GUIDE.replace("\n", "\r\n"),
    GUIDE.replace("\n", "\r"),
    GUIDE.replace("\n\n", "\r\n\n"),
    "",
    "\n \n",
    "solo texto",
    "---\nsin fin: hola",
    "---\n\nuna raya\n\n---\n",
    "+++\ntitle = 'Hola'\n+++\nTexto",
    "a\0b \x0c\n\u2028c\x85d\ne",
    "\u00a0\nTexto\u00a0",
    "- \n\n  hola\n-\tmundo\n\n\tmás",
    "> > - 1. hola\nperezosa",
    "|a|b\n|-|-\n|c\\|",
    "#\n# #\n## hola # #\n",
    "[a]: <\n[b]: x\n[a]",
]


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("> [!NOTE] Uno\n> Dos\n> tres", ["Uno", "Dos tres"]),
        ("[^a]: Uno\n\n    Dos\n    tres\n\n    Cuatro", ["Uno", "Dos tres", "Cuatro"]),
        ("- [^a]: Uno\n\n      Dos\n\n          código", ["Uno", "Dos"]),
        ("[^a]: Uno\n\n    - a b\n\nDos\n\n    código", ["Uno", "Dos"]),
        ("[^a]: Uno\n\n    # a\n    b", ["Uno"]),
    ],
)
def test_paragraphs_of_callouts_and_notes(source: str, texts: list[str]) -> None:
    document = read(source)
    assert [segment.text for segment in document.segments] == texts
    assert copy(document) == source.encode()


ADMONITIONS = """Hola
!!! note "Título de "la" nota"
    El perro
    corre.

        código

    - uno

    ???+ tip inline end
        Con ``` y
        más.
Después.

> === " Cita "
>     En cita.

1. Paso

    ??? "Ver"

        Dentro
    Sigue

!!! danger ""
\tSin título.
"""


WIKI = r"""Ve a [[Casa#uno^b]] y [[Casa|la *casa*]] o ![[foto.png|300]].

|[[a\|el gato]] [[b]]|
|-|

No [[x]](u), [[ref]], [a [[b]]](u), [[[1]]](u), \[[c]], [[d], [e]] [[^1]] `[[f]]`.

[ref]: z
"""


def test_links_of_wikis() -> None:
    document = read(WIKI)
    assert [segment.text for segment in document.segments] == [
        "Ve a \uf000 y la casa o .",
        "el gato \uf000",
        "No [x], [ref], a [[b]], [[1]], [[c]], [[d], [e]] [] \uf000.",
    ]
    marks = (Mark(5, 6, is_kept=True), Mark(9, 16), Mark(12, 16, 1), Mark(19, 19))
    assert document.segments[0].marks == marks
    assert copy(document) == WIKI.encode()


def test_titles_and_texts_of_admonitions() -> None:
    document = read(ADMONITIONS)
    assert [segment.text for segment in document.segments] == [
        "Hola",
        'Título de "la" nota',
        "El perro corre.",
        "uno",
        "Con ``` y más.",
        "Después.",
        "Cita",
        "En cita.",
        "Paso",
        "Ver",
        "Dentro",
        "Sigue",
        "Sin título.",
    ]
    assert copy(document) == ADMONITIONS.encode()
    written = fill(ADMONITIONS, *(f"t{i} `" for i in range(len(document.segments))))
    assert (
        written
        == """t0 `
!!! note "t1 `"
    t2 `

        código

    - t3 `

    ???+ tip inline end
        t4 `
t5 `

> === " t6 ` "
>     t7 `

1. t8 `

    ??? "t9 `"

        t10 `
    t11 `

!!! danger ""
\tt12 `
"""
    )


CONTAINERS = """:::note Nota: muy importante
Uno
:::

- :::tip[Un *buen* consejo]
  Dos
  :::

/// details | Más | cosas
    type: warning

Tres
///
"""


def test_titles_of_containers() -> None:
    document = read(CONTAINERS)
    texts = [segment.text for segment in document.segments]
    assert texts == [
        *("Nota: muy importante", "Uno", "Un buen consejo", "Dos", "Más | cosas", "Tres"),
    ]
    assert copy(document) == CONTAINERS.encode()
    expected = CONTAINERS
    for text in ("Nota: muy importante", "Uno", "Un *buen* consejo", "Dos", "Más | cosas", "Tres"):
        expected = expected.replace(text, text.upper())
    assert fill(CONTAINERS, *map(str.upper, texts)) == expected


@pytest.mark.parametrize(
    "line",
    [
        *("::: warning", ":::aviso:::", "::: aviso :::::", ":::note{.rojo}", "::: {.nota .roja}"),
        *('::: {.nota title="Hola"}', ':::image type="content" alt-text="Un perro":::'),
        *("::: tabs key:uno", ":::tip[]", "/// note", "/// html | div.rojo", "/// caption | ^1"),
    ],
)
def test_a_line_of_a_container_without_a_title_stays(line: str) -> None:
    assert [segment.text for segment in read(f"{line}\nHola").segments] == ["Hola"]


MODULES = """---
id: a
---
import Tabs from '@theme/Tabs';
import React, {useState} from "react" // nota
import {
  uno,
  dos,
} from './uno';

# Hola

export const Rojo = ({children}) => (
  <span>hola</span>
);

export default Rojo;
import './estilo.css';
Después, usa
import Tabs from 'x';

import a, que no existe

> import a from 'b';
"""


def test_sentences_that_begin_with_export_are_text() -> None:
    for text in ("export default values are listed below", "export class names with care"):
        assert [segment.text for segment in read(text).segments] == [text]


def test_imports_and_exports_of_mdx_stay() -> None:
    document = read(MODULES)
    assert [segment.text for segment in document.segments] == [
        *("Hola", "import a, que no existe", "import a from 'b';"),
    ]
    moved = read(MODULES.replace("export default Rojo;\n", ""))
    assert moved.segments[1].text == "Después, usa import Tabs from 'x';"
    assert copy(document) == MODULES.encode()


def test_line_breaks_in_scripts_without_spaces_are_no_spaces() -> None:
    source = "> 今日は \n> いい天気 です。\n> ![とても\n> いい](a)\n> Sí\n> no\n"
    document = read(source)
    assert [segment.text for segment in document.segments] == [
        "今日はいい天気 です。 Sí no",
        "とてもいい",
    ]
    assert copy(document) == source.encode()


def test_the_space_beside_a_linked_picture_stays() -> None:
    document = read("Y [![*a*](b)](c) hoy, [![*d*](e)](f).")
    [segment] = document.segments
    assert segment.text == "Y hoy, ."
    marks = (Mark(4, 4), Mark(4, 4, 0), Mark(11, 11), Mark(11, 11, 2))
    filled = replace(segment, text="And today, .", marks=marks)
    assert document.fill([filled]) == b"And [![*a*](b)](c) today, [![*d*](e)](f)."


@pytest.mark.parametrize("source", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_a_document_filled_with_its_own_text_is_the_same_bytes(source: str) -> None:
    assert copy(read(source)) == source.encode()


@pytest.mark.parametrize("source", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_a_changed_document_has_the_same_blocks(source: str) -> None:
    document = read(source)
    changed = [
        replace(segment.without_kept(), text=segment.without_kept().text.replace("a", "e"))
        for segment in document.segments
    ]
    filled = document.fill(changed).decode()
    again = read(filled)
    expected = [segment.text.replace("a", "e") for segment in document.segments]
    assert [segment.text for segment in again.segments] == expected
    assert list_blocks(filled) == list_blocks(source)


def test_other_encodings_are_read_and_written() -> None:
    data = "\ufeff# Sí\n".encode("utf-16-le")
    document = extract(data, "markdown", DocumentOptions())
    assert [segment.text for segment in document.segments] == ["Sí"]
    assert document.fill([MarkedText("Yes")]) == "\ufeff# Yes\n".encode("utf-16-le")
    with pytest.raises(UserError, match="convert it to UTF-8"):
        extract(b"# S\xed", "markdown", DocumentOptions())


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("> Hola\n> mundo\n", "Hello\nworld", "> Hello world\n"),
        ("- Hola\n  mundo\n- ***\n", " Hello  world ", "- Hello world\n- ***\n"),
        ("Hola\r\nmundo\r\n====\r\n\r\n", "Hello world", "Hello world\r\n====\r\n\r\n"),
        ("## Hola ##\n", "Hello", "## Hello ##\n"),
        ("# Hola\n", "Hello #", "# Hello \\#\n"),
        ("- [x] Hola\n", "Hello", "- [x] Hello\n"),
        ("5\n: Hola\n  mundo\n: 5", "Hello", "5\n: Hello\n: 5"),
        ("[^a]: Hola\n[^b]: 5", "Hello", "[^a]: Hello\n[^b]: 5"),
        ("[^a]:\n    Hola\n    mundo", "Hello world", "[^a]:\n    Hello world"),
        ("> [!NOTE] Hola\n> 5", "Hello", "> [!NOTE] Hello\n> 5"),
        ("> [!TIP]-\n> Hola", "Hello", "> [!TIP]-\n> Hello"),
        ("- [!TIP]+ Hola", "Hello", "- [!TIP]+ Hello"),
        ("*[HTML]: Hola\n*[5]: 5\n", "Hello", "*[HTML]: Hello\n*[5]: 5\n"),
        ("Hola\n{ .annotate }\n", "Hello", "Hello\n{ .annotate }\n"),
        ("/// caption\nHola\n///\n", "Hello", "/// caption\nHello\n///\n"),
        ("|Hola|\n|-|\n", "A|B\\", "|A\\|B\\ |\n|-|\n"),
        ("Hola | 5\n--|--\n", "1. First", "1\\. First | 5\n--|--\n"),
        ("Hola", "2 * 3 a_b [x] a < b & c", "2 * 3 a_b [x] a < b & c"),
        ("Hola", "*a* [x] 2 * 3 a_b", "\\*a\\* \\[x\\] 2 * 3 a_b"),
        ("Hola", "==a== ++b++ H~2~O x^2^ a = b", "\\==a\\== \\++b\\++ H\\~2\\~O x\\^2\\^ a = b"),
        ("Hola", "1) a", "1\\) a"),
        ("Hola", "# a", "\\# a"),
        ("Hola", "- a", "\\- a"),
        ("Hola", "`a` <b> &lt; \\* $x$", "\\`a\\` \\<b> \\&lt; \\\\\\* \\$x\\$"),
        ("Hola", "\u00a0a\u00a0b\u00a0", "&nbsp;a\u00a0b&nbsp;"),
        ("Hola", "a\\\u00a0", "a\\\\&nbsp;"),
        ("Hola", "_a_ b_c", "\\_a\\_ b_c"),
        ("Hola", "", "&nbsp;"),
        ("[x]: y\n\nHola", "see [x]", "[x]: y\n\nsee \\[x\\]"),
        ("[x]: y\n\nHola", "[y]: z", "[x]: y\n\n\\[y\\]: z"),
        ("$$\n:::\nHola", "5 $$", "$$\n:::\n5 \\$\\$"),
        ("Hola", "++a+b++ o ++tab++", "\\++a+b\\++ o \\++tab\\++"),
        ("Hola", "import a from 'b';", "&#32;import a from 'b';"),
    ],
)
def test_a_changed_paragraph_is_one_line(source: str, text: str, expected: str) -> None:
    assert fill(source, text) == expected


@pytest.mark.parametrize(
    ("source", "text", "spans", "expected"),
    [
        # Markers stay at words, and outside of spaces.
        ("el **gato** negro", "the black cat", [(9, 13)], "the black **cat**"),
        ("el **gato** negro", "the black cat", [(3, 10)], "the **black** cat"),
        ("el _gato_ x", "thecat", [(0, 3)], "*the*cat"),
        ("el __gato__ x", "the cat", [(4, 7)], "the __cat__"),
        ("el **gato** x", "the (cat)x", [(4, 9)], "the <strong>(cat)</strong>x"),
        ("~~a~~ *b*", "cats", [(0, 2), (2, 4)], "~~ca~~*ts*"),
        ("**a** **b**", "cats", [(0, 2), (2, 4)], "<strong>ca</strong><strong>ts</strong>"),
        ("el **gato** x", "cat", [(3, 3)], "cat"),  # no word is emphasised
        ("el ==gato== x", "the cat", [(4, 7)], "the ==cat=="),
        ("==a== ++b++", "cats", [(0, 2), (2, 4)], "<mark>ca</mark><ins>ts</ins>"),
        ("agua H~2~O", "H2O water", [(1, 2)], "H~2~O water"),
        ("agua H~2~O", "2 waters", [(0, 1)], "<sub>2</sub> waters"),
        ("el x^2^ y", "x the y", [(1, 1)], "x^2^ the y"),
        # Links keep their destinations, and those by reference their definitions.
        ("[a](b 'c') d", "x y", [(2, 3)], "x [y](b 'c')"),
        ("[a](b) d", "x", [(0, 0)], "[](b)x"),
        ("[a] d\n\n[a]: b", "(x) y", [(0, 3)], "[(x)][a] y\n\n[a]: b"),
        ("[a][] d\n\n[a]: b", "d a", [(2, 3)], "d [a][]\n\n[a]: b"),
        ("[a] d\n\n[a]: b", "x]y", [(0, 3)], "[x\\]y][a]\n\n[a]: b"),
        ("[a](b) d", "x!y", [(2, 3)], "x\\![y](b)"),
        # Code of templates in destinations may have spaces and parentheses.
        ("[a]({{ site.url }}/b/ 'c') d", "x y", [(2, 3)], "x [y]({{ site.url }}/b/ 'c')"),
        ("[a]({% link _a/b.md %}#c) d", "x y", [(2, 3)], "x [y]({% link _a/b.md %}#c)"),
        ("[a](/b/{{ c(d }}) d", "x y", [(2, 3)], "x [y](/b/{{ c(d }})"),
        ("[a]({{u}}/b_(c)) d", "x y", [(2, 3)], "x [y]({{u}}/b_(c))"),
        ("[a]({{< ref 'b' >}}) d", "x y", [(2, 3)], "x [y]({{< ref 'b' >}})"),
        ("[a] d\n\n[a]: {{ b }}/c", "a d", [(0, 1)], "[a] d\n\n[a]: {{ b }}/c"),
        ("[a]({{ b) d", "[x]({{ b) y", [], "[x]({{ b) y"),  # no code
        ("[[a|b *c*]] d", "x y z", [(2, 5), (4, 5)], "x [[a|y *z*]]"),
        ("[[a|b]] d", "x]](y", [(0, 3)], "[[a|x\\]\\]]]\\(y"),
        ("[[a|b]] d", "x", [(0, 0)], "[[a|]]x"),
        ("|[[a\\|b]]|\n|-|", "x|y", [(0, 3)], "|[[a\\|x\\|y]]|\n|-|"),
        ("[[a]] b", "(x) y", [(0, 0)], "[[a]]\\(x) y"),
        ("Hola", "[[a]] ![[b]]", [], "\\[\\[a\\]\\] !\\[\\[b\\]\\]"),
        # Line breaks, also where Markdown has none.
        ("> a  \n> b", "xy", [(1, 1)], "> x  \n> y"),
        ("> a\\\n>b", "x 1. y", [(2, 2)], "> x\\\n>1\\. y"),
        ("-  a\\\n  b", "x 1.", [(2, 2)], "-  x\\\n  1\\."),
        ("a  \nb", "x", [(1, 1)], "x<br>"),
        ("a  \nb", "x", [(0, 0)], "<br>x"),
        ("> a  \r\n> b", "xy", [(1, 1)], "> x  \r\n> y"),
        # Images stay apart.
        ("a ![i](j) b", "xy", [(1, 1)], "x ![i](j) y"),
        ("a![i](j) b", "xy", [(2, 2)], "xy![i](j)"),
        # Code and math are read side by side.
        ("`a` x `b`", "y", [(1, 1), (1, 1)], "y`a` `b`"),
        ("![a]x[b](c)\n\n[a]: b", "", [(0, 0), (0, 0)], "![a] [](c)\n\n[a]: b"),
        ("[a] d\n\n[a]: b", "a(x)", [(0, 1)], "[a]\\(x)\n\n[a]: b"),
        ("> `a\n> b` x", "y", [(0, 0)], "> `a b`y"),
        ("|`a\\|b` x|\n|-|", "y", [(0, 0)], "|`a\\|b`y|\n|-|"),
        ("$a$ x", "5", [(0, 0)], "$a$ 5"),
        ("++a+b++ x", "y+", [(2, 2)], "y+ ++a+b++"),
        ("x <div>y</div>", "z", [(0, 1)], "&#32;<div>z</div>"),
        ("[a](b) c", "[^1]", [(1, 3)], "\\[[\\^1](b)\\]"),  # no footnote
    ],
)
def test_elements_move_with_their_words(
    source: str, text: str, spans: list[tuple[int, int]], expected: str
) -> None:
    assert move(source, text, *spans) == expected


@pytest.mark.parametrize(
    ("source", "texts", "expected"),
    [
        ("![Un gato](g.png 'T')\n\n5", ["A cat"], "![A cat](g.png 'T')\n\n5"),
        ("[![Uno\ndos](b)](c) y", [" and", " One "], "[![One](b)](c) and"),
        ("> a\n> ![b](c) d ![e](f)", ["a d ", "x", "y"], "> a ![x](c) d ![y](f)"),
        ("|![a](b)|\n|-|", ["x|y"], "|![x\\|y](b)|\n|-|"),
        ("![a](b)", ["[x] `y` *z* & <b> &lt; \\"], None),
        ("![a](b)", ["==x== ++y++ H~2~O z^2^"], None),
        ("![a](b) `c`", ["`x"], None),
        ("[![a](b)](c)", ["x]"], None),
        ("![a](b)", [""], "![](b)"),
        ("![a]({{ b }}/c.png)", ["x"], "![x]({{ b }}/c.png)"),
        ("![a \\* &amp; b](c)", ["x &amp; y"], None),
    ],
)
def test_texts_of_images(source: str, texts: list[str], expected: str | None) -> None:
    written = fill(source, *texts)
    if expected is not None:
        assert written == expected
    again = read(written).segments
    assert [each.text.strip() for each in again] == [text.strip() for text in texts if text]


def test_texts_of_images_that_stay() -> None:
    segments = read("![a][b] ![b] ![*c*](d) ![5](e) ![`f`](g) h\n\n[b]: c").segments
    assert [segment.text.strip() for segment in segments] == ["h"]


def test_math_inside_of_a_line_ends_no_block_of_math() -> None:
    assert [segment.text for segment in read("$$\n:::\nx$$y$$").segments] == ["x\uf000"]
    assert read("$$\na\nb $$").segments == []


def test_math_and_attributes_stay() -> None:
    source = "Es \\(E = mc^2\\), \\(no\\) [Uno](#){ .md-button } ![](x){ width=300 }"
    [segment] = read(source).segments
    assert re.sub("[\ue000-\uf8ff]", "@", segment.text).strip() == "Es @, (no) Uno"
    assert copy(read(source)).decode() == source


def test_links_to_headings_follow_them() -> None:
    source = (
        "- [Instalación](#instalación) [b](#qu%C3%A9-es) [c](#otra) [d](#x)\n\n"
        "# ¿Qué es?\n\n# Instalación\n\n# `x`\n"
    )
    document = read(source)
    assert copy(document).decode() == source
    index, what, install, *rest = (each.without_kept() for each in document.segments)
    assert not rest
    texts = [index, replace(what, text="What is it?"), replace(install, text="Set-up (short)")]
    assert document.fill(texts).decode() == (
        "- [Instalación](#set-up-short) [b](#what-is-it) [c](#otra) [d](#x)\n\n"
        "# What is it?\n\n# Set-up (short)\n\n# `x`\n"
    )


def test_links_follow_headings_of_any_kind() -> None:
    source = (
        "[a](#la-orden-pip) [b](#un-gran-paso-) [c](#notas) [d](#notas-1) [e](#otro-título)\n"
        "[f](#propio) [g](#con-título) [h](#x-1)\n\n[↑](#notas)\n\n"
        "## La orden `pip`\n\n## Un **gran** paso ![i](j)\n\n## Notas\n\n### Notas\n\n"
        "Otro\ntítulo\n------\n\n# Con título {#propio}\n\n# `x`\n\n# `x`\n"
    )
    document = read(source)
    assert copy(document).decode() == source
    texts = [
        *("a b c d e f g h", "Command: ", "An able step ", "i", "Notes", "Notes"),
        *("Another title", "With title "),
    ]
    written = fill(source, *texts)
    assert re.findall(r"\(#(.*?)\)", written) == [
        *("command-pip", "an-able-step-", "notes", "notes-1", "another-title"),
        *("propio", "con-título", "x-1", "notes"),
    ]
    # Two headings may get the same translation.
    twice = fill("[a](#uno) [b](#dos)\n\n# Uno\n\n# Dos\n", "a b", "Both", "Both")
    assert twice.startswith("[a](#both) [b](#both-1)\n")
    assert fill("[a](#uno)\n\n# Uno\n\n# Uno\n", "a", "One", "Uno").startswith("[a](#one)\n")


def test_a_translation_defines_no_link() -> None:
    assert fill("Hola\n\nmundo", "[x]: y", "[x]") == "\\[x\\]: y\n\n[x]"


def test_what_stays_is_in_no_segment() -> None:
    segments = [*read(GUIDE).segments, *read(README).segments]
    texts = "\n".join(segment.text for segment in segments)
    for kept in ("title", "git", "echo", "sangría", "mc^2", "traduce", "example", "png", "Ctrl"):
        assert kept not in texts
    for kept in ("Marca", "nota -->", "NOTE", "tip", "Guía", "[", "empezar}", "a.org", "ci.org"):
        assert kept not in texts


# --- Any document, whatever the translation -------------------------------------------------------

PLAIN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
INLINE = (
    *("hola", "mundo", " ", " ", "\n", "  \n", "\\\n", "*", "**", "_", "~~", "`x`", "``", "[", "]"),
    *("[a](b)", "[ref]", "[**dos**](c)", "![i](j)", "<br>", "<b>", "</b>", "<kbd>•</kbd>", "\\*"),
    *("&amp;", "<https://a.b>", "1.", "#", "a|b", ".", "!"),
)
REFERENCE = "https://c.d"
PREFIXES = ("", "", "> ", "- ", "1. ", "# ", "> - ", "- > ", "* [ ] ")
NOISE = (
    *("one", "two,", "three", "(four)", "«five»", "a_b", "_", "*", "**x**", "`", "``", "[", "]"),
    *("](x)", "[ref]", "[ref]: x", "#", "##", "1.", "2)", "-", "+", ">", "|", "\\", "&amp;", "<b>"),
    *("<", "<div>", "$5", "$x$", "~~", "!", "===", "---", "\u00a0", "\n", "{#x}", ":::", "[^1]"),
    *("https://a.b/c_d", "<!--", "    ", "\t", "```", "~~~", "重要", "\u3000"),
    *("==x==", "=", "++", "~2~", "^3^", "^"),
)


def list_blocks(source: str) -> list[tuple[str, str, int]]:
    """Return the blocks of a document, those that are not translated with their texts."""
    front = re.match(r"\ufeff?((---|\+\+\+)\n(?!\n)(.*\n)*?\2\n)?", source.replace("\r\n", "\n"))
    assert front
    # Lists of footnotes and definitions are not CommonMark.
    body = source.replace("\r\n", "\n")[front.end() :]
    body = re.sub(r"\n(?=\[\^\d\]: |: n)", "\n\n", body)
    return [
        (token.type, "" if token.type == "inline" else token.content, token.level)
        for token in PLAIN.parse(body)
    ]


def list_elements(source: str) -> Counter[str]:
    """Count the elements inside of texts that must not get lost."""
    elements: Counter[str] = Counter()
    for block in PLAIN.parse(source):
        for token in block.children or []:
            is_break = token.type == "hardbreak" or token.content == "<br>"
            is_style = token.tag in ("em", "strong", "s") or re.fullmatch(
                "</?(em|strong|del)>", token.content
            )
            if token.type not in ("text", "softbreak") and not is_style:
                # Also of code; texts of images are translated.
                content = "" if token.type == "image" else " ".join(token.content.split())
                elements["br" if is_break else f"{token.type} {token.attrs} {content}"] += 1
    return elements


def get_text(block: Token) -> str:
    """Return the characters of a block that are translated."""
    texts = []
    is_address = False
    for token in block.children or []:
        if token.type == "text" and not is_address:
            texts.append(token.content.replace("•", ""))
        is_address = token.type == "link_open" and token.info == "auto"
    return without_task("".join(texts))


def get_alts(block: Token) -> list[str]:
    """Return the characters of the texts of images that are translated, "" for others."""
    alts = []
    for token in block.children or []:
        if token.type == "image":
            children = token.children or []
            is_plain = {child.type for child in children} <= {"text"}
            is_translated = is_plain and token.attrs["src"] != REFERENCE
            text = "".join(child.content for child in children) if is_translated else ""
            alts.append("".join(text.split()))
    return alts


WIKI_LINK = re.compile(r"\[\[[^\[\]]+\]\]")
EXTENSIONS = (
    "[[uno]]",
    "[[uno|dos]]",
    '\n=== "uno"\n    ',
    "\n??? tip\n    ",
    "$x$",
    "[^1]",
    "{#a}",
    "$$y$$",
    "\n:::\n",
    "\n: ",
    "\n[^2]: ",
    "\n$$\n",
    "\n[!TIP]\n",
    "\n[!TIP] ",
    "==uno==",
    "++dos *tres*++",
    "H~2~O",
    "x^2^",
    "++ctrl+c++",
)


@st.composite
def documents(draw: st.DrawFn, pieces: Sequence[str] = INLINE) -> str:
    blocks = []
    for _ in range(draw(st.integers(1, 3))):
        prefix = draw(st.sampled_from(PREFIXES))
        text = "".join(draw(st.lists(st.sampled_from(pieces), min_size=1, max_size=12)))
        lines = [line for line in text.split("\n") if line.strip()]
        if draw(st.booleans()):
            blocks.append(f"| Uno | Dos |\n|---|---|\n| {text.replace(chr(10), ' ')} | x |")
        else:
            rest = re.sub(r"[^>]", " ", prefix)
            blocks.append(prefix + f"\n{rest}".join(lines))
    return "\n\n".join([*blocks, f"[ref]: {REFERENCE}", ""])


@st.composite
def translations(draw: st.DrawFn, source: MarkedText) -> MarkedText:
    signs = [source.text[mark.begin] for mark in source.marks if mark.is_kept]
    parts = draw(st.lists(st.sampled_from([*NOISE, *signs, *signs]), max_size=8))
    text = draw(st.sampled_from(["", " "])).join(parts)
    spans = find_words(source.text)
    sources = st.lists(st.sampled_from(spans), max_size=2) if spans else st.just([])
    words = [Word(*span, None, tuple(draw(sources))) for span in find_words(text)]
    return project_marks(source, text, words)


@given(documents())
def test_any_document_filled_with_its_own_text_is_the_same_bytes(source: str) -> None:
    assert copy(read(source)) == source.encode()


@try_examples(200)
@given(st.data())
def test_any_translation_is_read_as_it_was_written(data: st.DataObject) -> None:
    source = data.draw(documents())
    assume(not WIKI_LINK.search(source))  # which are no CommonMark
    document = read(source)
    filled = [data.draw(translations(segment)) for segment in document.segments]
    written = document.fill(filled).decode()
    assert list_blocks(written) == list_blocks(source)
    assert list_elements(written) == list_elements(source)
    before = [block for block in PLAIN.parse(source) if block.type == "inline"]
    after = [block for block in PLAIN.parse(written) if block.type == "inline"]
    expected = iter(["".join(text.text.split()) for text in filled])
    for old, new in zip(before, after, strict=True):
        if has_letter(old):
            assert get_text(new) == without_task(next(expected))
        alts = Counter(next(expected) if alt else "" for alt in get_alts(old))
        assert Counter(get_alts(new)) == alts
    assert not list(expected)


@pytest.mark.parametrize("line", ["!!!", "???", "??? ¿Qué?", "!!!Hola"])
def test_a_line_of_marks_belongs_to_the_text(line: str) -> None:
    """Admonitions name their kind: !!! note."""
    [segment] = read(f"hola\n{line}\n").segments
    assert segment.text == f"hola {line}"
    assert [text.text for text in read("hola\n\n??? note\n").segments] == ["hola"]


def test_a_line_that_would_mean_more_follows_a_tag() -> None:
    """A line of nothing but {#a} is a block's attribute list."""
    document = read("hola  \n{#a}hola")
    [segment] = document.segments
    marks = tuple(mark._replace(begin=3, end=3) for mark in segment.marks)
    assert document.fill([MarkedText("one", marks)]).decode() == "one<br>{#a}"


@try_examples(200)
@given(st.data())
def test_any_translation_beside_extensions_is_read_as_it_was_written(data: st.DataObject) -> None:
    source = data.draw(documents((*INLINE, *EXTENSIONS, *EXTENSIONS)))
    document = read(source)
    filled = [data.draw(translations(segment)) for segment in document.segments]
    segments = [segment.without_kept() for segment in document.segments]
    # Texts without a letter are no segments.
    filled = [replace(text, text="Ñ" + text.text[1:]) if text.text else text for text in filled]
    filled = [
        text if text.text else segment for text, segment in zip(filled, segments, strict=True)
    ]
    again = read(document.fill(filled).decode())
    # Images that change places in a sentence do so in the order of the texts that describe them.
    for describe in (get_letters, count_kept):
        assert sorted(map(describe, again.segments)) == sorted(map(describe, filled))


def get_letters(text: MarkedText) -> str:
    return "".join(text.without_kept().text.split())


def count_kept(text: MarkedText) -> int:
    return sum(mark.is_kept for mark in text.marks)


def without_task(text: str) -> str:
    """Return a text without spaces, and without the box of a task."""
    return re.sub(r"^(\[\])+", "", "".join(text.split()))


def has_letter(block: Token) -> bool:
    return any(map(str.isalpha, get_text(block)))


HOSTILE = (
    *("[", "![", "*a ", "**a _b", "> ", "- ", "`a ``", "<a ", "<!--", "$a ", "$$a\n", "[^", "{#"),
    *("[a](", "|", "|a\n|-\n", "<b>", "</b>", "\\", "&", "~~a", "[x]: y\n", "\n- a\n  - b"),
    *(
        "[[a",
        "[[a|",
        "!!! a\n    ",
        '=== "a"\n\n',
        "[a][b] ",
        "![a](b) ",
        "$$\n",
        "---\n",
        "a  \n",
        "<i>*</i>",
        "1. ",
        "_*",
        "[^a]: b\n",
        "==a",
        "++a`",
        "a~b",
        "^2",
        "++a+",
        "import {\n",
        ":::a  ",
        "[a]({{ b }}{{ ",
    ),
)


@pytest.mark.parametrize("begin", HOSTILE)
@pytest.mark.parametrize("end", ["", "</b>", "]"])
def test_hostile_documents_take_bounded_time(begin: str, end: str) -> None:
    source = begin * (4_000 // len(begin)) + "hola" + end * 1_000 + "\n\nhola"
    with cpu_seconds(10):  # a hundredth of it if it is linear
        document = read(source)
        assert copy(document) == source.encode()
        document.fill([replace(s.without_kept(), text="*x") for s in document.segments])
