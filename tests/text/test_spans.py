"""Kept spans: which there are, in Python and in RE2; slots and back."""

from __future__ import annotations

import re
from itertools import accumulate

import pytest
from conftest import cpu_seconds
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nmt.text.spans import (
    MONTH,
    PATTERNS,
    SLOTS,
    SPAN,
    WORD,
    SlottedText,
    cut_spans,
    find_spans,
    is_intact,
    keep_spans,
    make_overlap_test,
    order_placeholders,
    restore_spans,
    space_slots,
)

A, B, C = SLOTS[:3]

# Texts with their spans in double brackets.
MARKED = [
    "Baja ⟦foto(1).jpg⟧ o ⟦v_2(es).pdf⟧ ⟦:/⟧ ⟦S/n⟧, [⟦S/n⟧] y/o ⟦(sic)⟧ http:/ C/Real ⟦2H₂O⟧",
    "C/Góngora, D/Dª, L/M/V",
    "Visita ⟦https://example.com⟧.",
    "Abre ⟦localhost⟧.",
    "⟦[x]⟧ Sí [ ] No ⟦[X]⟧",
    "Pulsa ⟦*️⃣⟧",
    "(⟦http://a.b/c⟧) y ⟦https://es.wikipedia.org/wiki/Madrid_(España)⟧, ¿no?",
    "Mira ⟦http://localhost:8080/x?y=1&z=%20#fin⟧!",
    "[texto](⟦https://example.com/a_b⟧) **⟦http://x.org⟧** «⟦www.example.es⟧»",
    "¿Has visto ⟦youtube.com/watch?v=abc⟧?",
    "Web:⟦http://foo.com⟧; correo:⟦juan@x.com⟧",
    "⟦example.co.uk⟧, ⟦sub.example.com:8080/a⟧ y ⟦x.com⟧.",
    "Escribe a ⟦juan.perez+x@mail.example.com⟧. Gracias.",
    "⟦juan.es@mail.com⟧ ⟦peña@correo.es⟧ ⟦<a@b.org>⟧",
    "Ana ⟦<a@b.org>⟧, ⟦&lt;a@b.org&gt;⟧: ⟦<https://a.org/b>⟧ ⟦&lt;http://a.org&gt;⟧",
    "⟦<b>⟧⟦a@b.org⟧⟦</b>⟧ ⟦&lt;b&gt;⟧⟦a@b.org⟧⟦&lt;/b&gt;⟧ <⟦a@b.org⟧ y ⟦a@b.org⟧>",
    "S.A. de C.V. y EE. UU., etc. a.m. p.m. y/o él/ella km/h n/a",
    "rojo/verde/azul esta/está/están amig@s tod@s AT&T",
    "Cuesta ⟦1.234,56⟧ o ⟦3,14⟧; ⟦3 €/kg⟧, ⟦80 m2⟧, DNI ⟦12345678-Z⟧.",
    "⟦%'d⟧ ⟦%*d⟧ ⟦%zu⟧ ⟦%(total)05.2f⟧ ⟦%<count>d⟧ ⟦%#@perros@⟧ ⟦@.lower:a.b⟧ ⟦__MI_NOMBRE__⟧",
    "{nom, date de naissance} {a, dates} ⟦&lt;⟧tu nombre⟦&gt;⟧",
    "⟦{fecha, date, long}⟧ ⟦{0,choice,0#ningún perro|1#uno|1<{0} perros}⟧",
    "Pulsa ⟦-h, --help⟧ o ⟦--salida=ARCHIVO⟧. --No --dijo her--well-known --franco-alemán--",
    "⟦{0}⟧ Ninguno|⟦{1}⟧ Un perro|⟦[2,*]⟧ ⟦:count⟧ perros",
    "⟦[b]⟧Un⟦[/b]⟧ ⟦[url=http://x.y]⟧esto⟦[/url]⟧ ⟦&lt;b c=&quot;x&quot;&gt;⟧sí⟦&lt;/b&gt;⟧",
    'uno\\ndos ⟦\\n⟧  ⟦\\"⟧x⟦\\"⟧ ⟦\\u00f1⟧ \\textbf y Hola⟦\\t⟧ ⟦C:\\new\\test⟧',
    "Hace ⟦-5 °C⟧ y ⟦20 %⟧ de humedad; el ⟦50 %⟧ de ellos, ⟦50%⟧ de descuento.",
    "El ⟦1º⟧ y el ⟦2.º⟧ y la ⟦3.ª⟧, n.º ⟦12⟧.",
    "El ⟦3/4/2026⟧ a las ⟦12:30⟧, en los ⟦1990s⟧, ⟦1990-2000⟧.",
    "⟦€5⟧ ⟦$1,000⟧ ⟦US$5⟧, ⟦100 €⟧ ⟦100$⟧ ⟦1 000 000⟧ de pesos",
    "Llama al ⟦+34 600 123 456⟧. (⟦+1 (555) 123-4567⟧)",
    "Carlos IV y Alfonso XIII.",
    "请访问⟦https://a.com/b⟧。联系⟦abc@x.com⟧吧",
    "编辑⟦config.json⟧文件，使用⟦iPhone12⟧手机，使用⟦GPT-4⟧很好，标题:内容:texto, ﾃｽﾄ:name",
    '"Título":contenido, (ver abajo):texto y «nota»:más, pero ⟦:name⟧ y ⟦:smile:⟧',
    "서울에 ⟦5⟧명이, 값:열",
    "⟦2026⟧年3月⟦4⟧日，12 月，3、4月，１２月，⟦3⟧个月，⟦13⟧月；",
    "⟦2026⟧년 3월 ⟦4⟧일, 10~12월, ⟦3⟧개월",
    "Ngày ⟦4⟧ tháng 3 năm ⟦2026⟧, ⟦3⟧ tháng, Tháng 12, tháng ⟦13⟧",
    'Mundial-⟦2018⟧ Т-⟦34⟧ كوفيد-⟦19⟧ 降到⟦-10⟧度 Formel-⟦1⟧-Rennen «a»-⟦2⟧ (⟦-5⟧) "⟦-5 °C⟧"',
    "⟦COVID-19⟧ ⟦H2O⟧ ⟦B-52⟧ ⟦v1.2.3⟧ ⟦5'11⟧ ⟦24/7⟧",
    "Hola ⟦{name}⟧, tienes ⟦{0}⟧ y ⟦{}⟧ y ⟦{{x}}⟧ ⟦{% if a %}⟧ ⟦{{ user.name }}⟧",
    "⟦${HOME}⟧ ⟦$HOME⟧ ⟦%{n}⟧",
    "Copiado ⟦%1⟧ de ⟦%2⟧, ⟦%nombre%⟧: ⟦%count%⟧ ⟦%%FirstName%%⟧ ⟦*|FNAME|*⟧ ⟦*|LIST:NAME|*⟧",
    "⟦%USERDOMAIN%⟧⟦%USERNAME%⟧",
    "⟦50%⟧ de descuento y ⟦20%⟧ más, el ⟦100%⟧seguro, % de hombres y % de mujeres, a|b *c*|d",
    "El ⟦50%⟧más, top ⟦10⟧ ⟦%s⟧, ⟦5⟧ ⟦%d⟧, ⟦2⟧ ⟦%1$s⟧, ⟦50 %⟧: ⟦7%⟧.",
    "⟦5 %(n)s⟧ archivos, ⟦5 %{n}⟧, ⟦5 %<n>d⟧, ⟦%(n)s⟧ y ⟦5 %⟧ ⟦(n)⟧",
    "⟦5 %⟧⟦<b>⟧más⟦</b>⟧ caro",
    "⟦%s⟧ de ⟦%d⟧: ⟦%1$s⟧, ⟦%(count)d⟧ ⟦%.2f⟧ ⟦%@⟧ ⟦%5.2f⟧ ⟦%lu⟧.",
    "Es ⟦<b>⟧importante⟦</b>⟧⟦<br/>⟧⟦<br />⟧⟦<0/>⟧⟦<1>⟧x⟦</1>⟧",
    '⟦<a href="x y">⟧z⟦</a>⟧&⟦&nbsp;⟧⟦&#39;⟧',
    "a < b y c > d; a <b y c> d",
    "⟦[[link]]⟧ ⟦:emoji_code:⟧ ⟦:+1:⟧ ⟦:count⟧ cosas",
    "⟦:material-check:⟧ Hecho, ⟦:octicons-mark-github-16:⟧. ⟦:uno⟧-dos, ⟦:min⟧-⟦:max⟧ y ⟦:a⟧-",
    "Usa ⟦`git push --force`⟧ o ⟦```x = 1```⟧.",
    "Abre ⟦informe.pdf⟧, ⟦src/nmt/main.py⟧, ⟦/usr/local/bin⟧, ⟦~/docs⟧.",
    "⟦src\\data\\es⟧, ⟦App\\Models\\User⟧. ⟦docs\\2026\\informe.final⟧, uno\\dos",
    "Hola\\tAna\\tLuis, a\\nb\\nc, españ⟦\\u00f1⟧ol⟦\\u00e9⟧, texto\\textbf, \\begin\\bar, si\\no",
    "⟦./a.txt⟧ y ⟦C:\\Users\\juan\\x.docx⟧.",
    "Borra ⟦/usr/bin⟧. ⟦C:\\Windows⟧. ⟦canción.mp3⟧. ⟦.config/x.toml⟧ ⟦../a/b⟧.",
    "Vi a ⟦@maria⟧ en ⟦#Año2020⟧. ⟦#hola⟧, ⟦@juan_p⟧!",
    "Hola ⟦😀⟧, ⟦👩\u200d🚀 🚀🇪🇸 👍🏽⟧. ⟦1\ufe0f\u20e3⟧ ⟦❤\ufe0f⟧!",
    "Usa ⟦snake_case⟧, ⟦camelCase()⟧, ⟦foo.bar()⟧ y ⟦std::vector⟧.",
    "_hola_ __hola__ *hola* iPhone YouTube O'Brien rock'n'roll ex-marido",
    "Fecha (⟦dd/mm/aaaa⟧), ⟦d-m-yy⟧, ⟦mm/dd/yyyy⟧, ⟦yyyy-MM-dd⟧ ⟦HH:mm:ss⟧, ⟦hh:mm⟧. ⟦tt.mm.jjjj⟧.",
    "⟦mm/aa⟧, ⟦dd-mm-aa⟧; d/mama, dad/mm/aa, mm/aaa, mm/aab, D/M/a m-a",
    "Te quiero ⟦<3⟧ ⟦:)⟧ ⟦;-)⟧ ⟦:D⟧",
    "¿Qué? ¡Hola! —dijo él—. --dijo él-- «así» \"así\" 'así' …",
    "Tengo ⟦3⟧. Tengo ⟦3⟧! ⟦5%⟧. ¿⟦3⟧? ⟦2⟧, ⟦3⟧ y ⟦4⟧: ⟦5⟧; ⟦(6)⟧ «⟦7⟧»",
    "Así:uno, esté:uno, hola;uno, (nota: ver)",
    "私は⟦3⟧つ Мама ⟦5⟧ раз ⟦٣⟧ ",
    "⟦٣٫٥⟧ ⟦۱٬۵۰۰⟧ ⟦１，５００⟧円と⟦３．５⟧。⟦3⟧，⟦4⟧．",
    "请看第⟦３⟧，⟦４⟧页",
    "El ⟦100%⟧Rojo",
    "Node ⟦Node.js⟧ ⟦Booking.com⟧",
    "⟦\ue005⟧ ⟦\uf000⟧",
    "⟦5⟧ c.c. de agua, a.C. d.c. p.ej. q.e.p.d. Ph.D. i.e. e.g. J.R.R. Tolkien",
    "Fin.Luego vino. Fin...luego ⟦🎉⟧",
    "El Sr./Sra. Pérez, Tel./Fax: ⟦91 123 45 67⟧, ⟦./fax⟧",
    "Firma: ⟦____⟧ ⟦__/__/____⟧ ⟦=====⟧ ⟦---⟧ a y __b__ -- ...",
    "⟦$t(app.title)⟧ ⟦@:app.title⟧ ⟦<%= x %>⟧ Ácido ⟦é.txt⟧",
    "⟦192.168.0.1:80⟧ ⟦10:00-12:00⟧ ⟦±5⟧ ⟦−3⟧",
    "Tel.: ⟦91 123 45 67⟧, IBAN ⟦ES91 2100 0418 4502 0005 1332⟧, ⟦12 345 678,90 €⟧, ⟦12345-AB⟧",
    "⟦2,5 kg⟧ de arroz a ⟦25 ºC⟧, ⟦70 m²⟧, ⟦120 km/h⟧, ⟦16 GB⟧, ⟦US$ 20⟧, ⟦½⟧ taza y ⟦1½ kg⟧",
    "⟦15 mg/kg⟧/día, ⟦5,1 mmol/l⟧, ⟦80 kg/m³⟧, ⟦10 m/s⟧, ⟦9 MB/s⟧, ⟦90 mmHg⟧, ⟦0,5 µg⟧ y ⟦5⟧ m/año",
    "⟦500 mg⟧/gélule, ⟦5 mg⟧/séance, ⟦10⟧ g/Löffel",
    "Gasta ⟦5,5 l/100 km⟧, ⟦6l/100km⟧.",
    "Abre de ⟦9:00 a. m.⟧ a ⟦5 p.m.⟧, a las ⟦6:45 PM⟧ o ⟦9 P.M.⟧; um ⟦3⟧ am Montag, ⟦5⟧ p. más",
    "⟦5⟧ más, ⟦3⟧ clínicas, ⟦1º⟧ Física, ⟦2⟧ mmmm, ⟦3⟧-Gänge-Menü, ⟦5⟧-Türer",
    "Hola ⟦{name}⟧, ⟦{n, plural, one {# día} other {# días {x}}}⟧.",
]
# Pieces of spans and of what looks like one.
PARTS = st.sampled_from(
    (
        "a B ñ º 私 é. 1 23 ٣ ٫ ５ ， "
        ". , : ; / \\ - _ @ # % $ & { } [[ ]] < > ( ) ` ' \" = ? ! ~ + \u00b0C € "
        "\u00a0 \u2028 \u0301 😀 \u200d \ufe0f \u20e3 \ue000 http:// www. .com .es .txt x_y f() %s "
        "&lt; <b> ___ --- <% $t"
    ).split(" ")
)
TEXTS = st.lists(st.one_of(PARTS, st.just(" "), st.text(max_size=2)), max_size=16).map("".join)


def mark(text: str) -> str:
    marked, end = [], 0
    for begin, after in find_spans(text):
        marked += [text[end:begin], "⟦", text[begin:after], "⟧"]
        end = after
    return "".join([*marked, text[end:]])


@pytest.mark.parametrize("marked", MARKED)
def test_spans_of_a_text(marked: str) -> None:
    assert mark(re.sub("[⟦⟧]", "", marked)) == marked


def test_a_span_of_every_kind_is_found_alone() -> None:
    samples = {
        "code": "`x`",
        "e-mail": "a@b.org",
        "url": "http://a.b",
        "placeholder": "{x}",
        "file": "a.txt",
        "escape": "\\n",
        "option": "--a=b",
        "date format": "dd/mm/aaaa",
        "identifier": "a_b",
        "tag": "@a",
        "emoji": "😀",
        "number": "5",
        "bracket": "[12]",
        "line": "____",
        "private": "\uf8ff",
    }
    assert samples.keys() == PATTERNS.keys()
    for kind, sample in samples.items():
        assert re.fullmatch(PATTERNS[kind], sample, re.ASCII)
        assert list(find_spans(sample)) == [(0, len(sample))]


@given(TEXTS)
def test_spans_are_in_order_not_empty_and_end_in_no_final_mark(text: str) -> None:
    end = 0
    for begin, after in find_spans(text):
        assert end <= begin < after
        assert text[after - 1] not in ".?!…,"
        end = after


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 20), st.integers(0, 4))
def test_overlaps_are_found(gaps: list[int], begin: int, length: int) -> None:
    edges = list(accumulate(gaps))
    spans = [span for span in zip(edges[::2], edges[1::2], strict=False) if span[0] < span[1]]
    end = begin + length
    expected = any(first < end and begin < last for first, last in spans)
    assert make_overlap_test(spans[::-1])(begin, end) == expected


@given(TEXTS)
@example("www.ñ")
def test_no_span_is_missed_by_the_hint(text: str) -> None:
    pattern = re.compile(f"{MONTH}|({SPAN})|{WORD}", re.ASCII)
    expected = [match.span() for match in pattern.finditer(text) if match[1]]
    assert list(find_spans(text)) == expected


def test_re2_finds_the_same_spans() -> None:
    import tensorflow as tf
    import tensorflow_text

    def split(text: tf.Tensor) -> tf.RaggedTensor:
        pieces = tensorflow_text.regex_split(text, f"{MONTH}|{SPAN}|{WORD}", "(?s).*")
        return pieces, tf.ragged.map_flat_values(tf.strings.regex_full_match, pieces, SPAN)

    run = tf.function(split, input_signature=[tf.TensorSpec([None], tf.string)])

    def mark_in_graph(texts: list[str]) -> list[str]:
        pieces, is_span = run(tf.constant(texts, tf.string))
        return [
            "".join(
                f"⟦{piece.decode()}⟧" if spans else piece.decode()
                for piece, spans in zip(row, flags, strict=True)
            )
            for row, flags in zip(pieces.to_list(), is_span.to_list(), strict=True)
        ]

    def check(texts: list[str]) -> None:
        texts = [text.replace("\0", " ") for text in texts]  # cleaning removes it
        assert mark_in_graph(texts) == [mark(text) for text in texts]

    check([re.sub("[⟦⟧]", "", marked) for marked in MARKED])
    settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))(
        given(st.lists(TEXTS, max_size=20))(check)
    )()


@pytest.mark.parametrize(
    "part",
    [
        *("a", "a.", "a-", "a_", "a/", "a@", "a:", "1 ", "1.", "a-1-", "a.1.", "a1.a", "`a", "`"),
        *("<a ", "<a =", "{a", "{{a", "[[a", "%1", "%(a", "&a", "$A", "#", "😀 ", "http://("),
        *(
            "http://a(a",
            "www.",
            "a(",
            "a::",
            ":a-",
            "a\\",
            "ab\\cd",
            "../",
            "/.a",
            "+1(",
            "+1 11",
            "--a",
            "111 ",
            "a+",
            "<a",
            "<a.",
            "<http://a",
            "&lt;a.",
        ),
    ],
)
def test_the_time_is_linear(part: str) -> None:
    """Twice the text takes twice the time; were it four times, this would take minutes."""
    with cpu_seconds(5):
        for _ in find_spans(part * (60_000 // len(part)) + "!"):
            pass


def test_signs_touch_the_words_that_they_touch_in_the_source() -> None:
    first, second = SLOTS[:2]
    assert space_slots(f"{first}Precio", f"{first} price", ["*"]) == f"{first}price"
    assert space_slots(f"precios{first} y", f"prices {first} and", ["¹"]) == f"prices{first} and"
    values = ["5 €", "/"]
    translated = f"{first} {second} month"
    assert space_slots(f"{first}{second}mes", translated, values) == f"{first}{second}month"
    assert space_slots(f"{first} {second} mes", translated, values) == translated


def test_spans_are_cut_at_the_places_of_brackets() -> None:
    text = "Lugo Galicia y Ana"
    assert list(cut_spans(text, [(0, 12), (15, 18)], [5, 15])) == [(0, 4), (5, 12), (15, 18)]
    assert list(cut_spans("Lugo Galicia España", [(0, 19)], [13, 5, 5])) == [
        (0, 4),
        (5, 12),
        (13, 19),
    ]
    assert list(cut_spans("ab  cd", [(0, 6)], [2, 3])) == [(0, 2), (4, 6)]


@given(TEXTS)
@example("".join(SLOTS) * 2)
def test_kept_spans_are_given_back(text: str) -> None:
    kept = keep_spans(text, list(find_spans(text)))
    count = len(kept.values)
    assert count == min(len(list(find_spans(text))), len(SLOTS))
    if is_intact(kept.text, count):  # a text may have slots beyond those that were replaced
        assert restore_spans(kept.text, kept.values) == (text, ())


TAGS = ("<b>", "</b>")


def test_slots_run_out() -> None:
    kept = keep_spans("1, 2, 3", [(0, 1), (3, 4), (6, 7)], SLOTS[:2])
    assert kept == SlottedText(f"{SLOTS[0]}, {SLOTS[1]}, 3", ("1", "2"))


def test_lost_repeated_and_unknown_slots() -> None:
    first, second, third = SLOTS[:3]
    assert restore_spans(f"{second} and {second}.", ["1", "2"]) == ("2 and. 1", ("1",))
    assert restore_spans(f"a {third}{first}", ["{x}"]) == ("a {x}", ())
    # A repeated slot takes the marks before and after it along.
    assert restore_spans(f"Hi, {first}: {first}{first}:", ["{name}"]) == ("Hi, {name}:", ())
    output = f"{first} in the {second}'s {second}'s {second}."
    assert restore_spans(output, ["1", "15"]) == ("1 in the 15's.", ())
    assert restore_spans("", ["1", "2"]) == ("1 2", ("1", "2"))
    assert restore_spans("a b", ["1"], lambda text, number: 2) == ("a 1 b", ("1",))
    assert restore_spans("a b c", ["1"], lambda text, number: 2, 4) == ("a b 1 c", ("1",))
    assert restore_spans("页", ["3"], lambda text, number: 0) == ("3页", ("3",))
    # A span may itself be a slot.
    assert restore_spans(f"{first} {second}", [second, first]) == (f"{second} {first}", ())
    assert not is_intact(f"{first}{first}", 1)
    assert not is_intact(f"{first}{second}", 1)
    assert is_intact(f"{second}{first}", 2)


def test_lost_slots_at_the_same_place_keep_their_order() -> None:
    values = ["1", "2", "3"]
    assert restore_spans("a b", values, lambda text, number: 1) == ("a 1 2 3 b", (*values,))
    # Also beside one that is not lost.
    assert restore_spans(f"a {SLOTS[1]} b", values, lambda text, number: 1)[0] == "a 1 2 3 b"


@pytest.mark.parametrize(
    ("values", "text", "expected"),
    [
        ("%d %s", f"{B} y {A}", f"{A} y {B}"),
        ("%s %s", f"{B} y {A}", f"{B} y {A}"),  # equal
        ("%-5d %5.2f %*.3f", f"{C} {A} {B}", f"{A} {B} {C}"),
        ("%ld %@", f"{B} {A}", f"{A} {B}"),
        ("{} {:.2f} {!r}", f"{C} {A} {B}", f"{A} {B} {C}"),
        ("%1$s %2$d", f"{B} {A}", f"{B} {A}"),
        ("%(n)s %(m)d", f"{B} {A}", f"{B} {A}"),
        ("{a} {0}", f"{B} {A}", f"{B} {A}"),
        ("%1 %2", f"{B} {A}", f"{B} {A}"),
        ("%d 5 %s", f"{C} {A} {B}", f"{A} {C} {B}"),  # others stay
        ("%d %s %f", f"{C} {A}", f"{A} {C}"),
        ("%d-%d %s", f"{B} {A}", f"{A} {B}"),
        ("0-%d {}x{}–5", f"{B} {A}", f"{A} {B}"),
        ("%d-x %s", f"{B} {A}", f"{B} {A}"),
    ],
)
def test_placeholders_that_are_filled_by_position_keep_their_order(
    values: str, text: str, expected: str
) -> None:
    assert order_placeholders(text, values.split()) == expected
    assert order_placeholders(f"{B} x {text}", values.split(), 4) == f"{B} x {expected}"


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        (f"{A} – uno", f"{A}one", f"{A} one"),
        (f"uno {A}", f"one{A}.", f"one {A}."),
        (f"{A}uno{B} dos", f"{A}one{B}two", f"{A}one{B} two"),
        (f"{A} uno", f"({A}) one", f"({A}) one"),
        ("uno", f"{A}one", f"{A}one"),
        (f"starts at {A}.", f"会议{A}开始。", f"会议{A}开始。"),
        (f"会议{A}开始。", f"starts at{A}.", f"starts at {A}."),
        (f"{A}uno{B}", f"{A} one {B}", f"{A}one{B}"),
        (f"uno {A}dos{B}.", f"one {A} two {B} .", f"one {A}two{B}."),
        (f"uno{A}, dos", f"one {A} , two", f"one{A}, two"),
        (f"uno. {A}", f"one. {A}", f"one. {A}"),
        (f"uno {A} dos", f"one {A} two", f"one {A} two"),
        (f"«{A}» uno", f"«{A}» one", f"«{A}» one"),
        (f"{A}uno", f"one {A}", f"one {A}"),
    ],
)
def test_slots_touch_words_as_in_the_source(source: str, text: str, expected: str) -> None:
    """Tags do."""
    assert space_slots(source, text, ["<b>", "</b>"]) == expected
    assert space_slots(source, text, ["\uf000", "\uf001"]) == expected  # those of a document


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        (f"我有{A}本书。", f"I have {A} books.", None),
        (f"他出生于{A}年。", f"He was born in {A}.", None),
        (f"价格：{A}元", f"Price: {A} yuan", None),
        (f"나는 {A}권을 샀다.", f"I bought {A} books.", None),
        (f"L’{A} settembre", f"On {A} September", None),
        (f"profil d’{A}", f"profile of {A}", None),
        (f"Pedido nº{A} enviado", f"Order number {A} sent", None),
        (f"a {A}km", f"{A} km away", f"{A}km away"),
        (f"la v{A} nueva", f"the new v {A}", f"the new v{A}"),
        (f"precio:{A}", f"price: {A}", f"price:{A}"),
        (f"10 {A}mes", f"10 {A} month", None),
        (f"({A})", f"( {A} )", f"( {A})"),
    ],
)
def test_spans_touch_the_words_that_they_touch_in_the_source(
    source: str, text: str, expected: str | None
) -> None:
    assert space_slots(source, text, ["5"]) == (expected or text)


def test_entities_touch_words_as_tags_do() -> None:
    assert (
        space_slots(f"uno{A}dos{B}", f"one {A} two {B}", ["&nbsp;", "&hellip;"]) == f"one{A}two{B}"
    )


def test_a_slash_touches_the_word_that_it_touches() -> None:
    assert space_slots(f"10 {A}mes", f"10 {A} month", ["€/"]) == f"10 {A}month"
    assert space_slots(f"hoy{A}", f"today {A}", ["/5"]) == f"today{A}"


def test_a_slot_of_the_text_itself_has_no_span() -> None:
    assert space_slots(f"a {A} {B}", f"a{A} b{B}", ["5"]) == f"a {A} b{B}"
    assert space_slots(f"a {A}", f"a{A}", []) == f"a{A}"
