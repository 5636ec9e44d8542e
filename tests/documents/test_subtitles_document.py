"""Subtitles: what is translated, and that the rest of a file stays as it is."""

from __future__ import annotations

import re

import pytest
from conftest import cpu_seconds
from hypothesis import given
from hypothesis import strategies as st
from marked_texts import try_examples

from nmt.documents.formats import DocumentOptions
from nmt.documents.subtitles import SubtitleDocument, extract
from nmt.errors import UserError
from nmt.inference.markup_projection import project_marks
from nmt.text.marked import MarkedText

SUBRIP = """1
00:00:01,000 --> 00:00:02,500
{\\an8}Pensaba que hoy no ibas
a venir a la fiesta de Ana,

2
00:00:02,600 --> 00:00:04,000  X1:10 X2:20 Y1:30 Y2:40
pero <i>me alegro mucho</i> de verte.


3
00:00:05,000 --> 00:00:07,000
-¿Vienes?
<i>-No, no puedo.</i>

4
00:00:08,000 --> 00:00:09,000
♪ ♪ ♪

5
00:00:10,000 --> 00:00:12,000
<font color="#ffff00">Te espero</font> aquí.

Y ya no digo más.
"""
WEBVTT = """WEBVTT - Una prueba
Kind: captions

REGION
id:abajo

STYLE
::cue { color: red }

NOTE Esta nota no se traduce
ni tampoco esta línea

introducción
00:01.000 --> 00:02.500 align:start position:10%
<v Ana>Pensaba que tú &amp; yo

00:02.600 --> 00:04.000
<v Ana>no vendríamos <c.rojo>nunca</c>.

NOTE otra

00:05.000 --> 00:06.000
Hola, <00:05.500>amigo&nbsp;mío.
\t
00:07.000 --> 00:08.000
<b>Fin</b>"""
BREAK = "\n"  # stands for a kept line break


def read(text: str) -> SubtitleDocument:
    return extract(text.encode(), DocumentOptions(source_language="es"))


def cues(*texts: str) -> str:
    """Return a SubRip file of these texts."""
    blocks = (
        f"{number}\n00:00:{number:02},000 --> 00:00:{number:02},900\n{text}\n"
        for number, text in enumerate(texts, 1)
    )
    return "\n".join(blocks)


def texts_of(document: str) -> list[str]:
    """Return what follows each time line up to a blank line."""
    return re.findall(r"(?m)^[^\n]* --> [^\n]*\n((?:[^\n]+(?:\n|\Z))*)", document)


def segments(*texts: str) -> list[str]:
    return [segment.text for segment in read(cues(*texts)).segments]


def fill(text: str, *translations: MarkedText) -> list[str]:
    output = read(text).fill(translations).decode()
    return [each.removesuffix("\n") for each in texts_of(output)]


def translate(*texts: str, to: str) -> list[str]:
    """Return the texts of cues of one segment, with marks by position."""
    (segment,) = read(cues(*texts)).segments
    return fill(cues(*texts), project_marks(segment, to, []))


@pytest.mark.parametrize("text", [SUBRIP, WEBVTT, "", "WEBVTT", "\n", cues("Hola.")])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_subtitles_round_trip(text: str, line_end: str, encoding: str) -> None:
    data = text.replace("\n", line_end).encode(encoding)
    document = extract(data, DocumentOptions(source_language="es"))
    assert document.fill([each.without_kept() for each in document.segments]) == data
    assert len(document.segments) == len(read(text).segments)


def test_segments_of_subrip_are_sentences() -> None:
    assert [each.text for each in read(SUBRIP).segments] == [
        "Pensaba que hoy no ibas a venir a la fiesta de Ana, pero me alegro mucho de verte.",
        f"- ¿Vienes?{BREAK}- No, no puedo.",
        "Te espero aquí.",
        "Y ya no digo más.",
    ]


def test_segments_of_webvtt_are_sentences() -> None:
    assert [each.text for each in read(WEBVTT).segments] == [
        "Pensaba que tú & yo no vendríamos nunca.",
        "Hola, amigo\xa0mío.",
        "Fin",
    ]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("\ufeffWEBVTT\nKind: x\nLanguage: es-MX\n\n", "\ufeffWEBVTT\nKind: x\nLanguage: en\n\n"),
        ("WEBVTT\r\nLanguage:es\r\n\r\n", "WEBVTT\r\nLanguage:en\r\n\r\n"),
        ("WEBVTT\nLanguage: fr\n\n", "WEBVTT\nLanguage: fr\n\n"),
        ("WEBVTT\n\nNOTE\nLanguage: es\n\n", "WEBVTT\n\nNOTE\nLanguage: es\n\n"),
    ],
)
def test_webvtt_names_its_language(header: str, expected: str) -> None:
    cue = "00:01.000 --> 00:02.500\nHola"
    document = extract(f"{header}{cue}".encode(), DocumentOptions("es", "en"))
    assert document.fill(document.segments).decode() == expected + cue


def test_tags_are_marks() -> None:
    sentence, dialogue, *_ = read(SUBRIP).segments
    # The boundary of the cues, then the italics.
    assert [sentence.text[mark.begin : mark.end] for mark in sentence.marks] == [
        "",
        "me alegro mucho",
    ]
    assert sentence.text[: sentence.marks[0].begin].endswith("de Ana, ")
    assert [dialogue.text[mark.begin : mark.end] for mark in dialogue.marks] == [
        BREAK,
        "- No, no puedo.",
    ]
    assert [mark.is_kept for mark in dialogue.marks] == [True, False]
    voice, boundary, color = read(WEBVTT).segments[0].marks
    assert voice[:2] == (0, 40)  # one element over both cues
    assert boundary[:2] == (20, 20)
    assert color[:2] == (34, 39)
    (moment,) = read(WEBVTT).segments[1].marks
    assert moment[:2] == (6, 6)


@pytest.mark.parametrize(
    "texts",
    [
        ("Vivo en una casa", "que está en Goya."),
        ("Si vienes,", "¿vas a cantar?"),
        ("Si vienes,", "Juan cantará."),
        ("Vivo en", "Madrid."),
        ("Pensaba que...", "...volverías."),
        ("Pensaba que…", "volverías."),
        ("Habló el Sr.", "García."),
        ("Tengo", "3 gatos."),
        ("<i>Vivo en una</i>", "<i>casa.</i>"),
        ("Vivo", "en", "una", "casa."),
        ("我到家的时候，", "他已经走了。"),
        ("عندما وصلت إلى البيت،", "كان قد غادر."),
    ],
)
def test_sentence_over_several_cues_is_one_segment(texts: tuple[str, ...]) -> None:
    assert len(segments(*texts)) == 1


@pytest.mark.parametrize(
    "texts",
    [
        ("Vivo aquí.", "Tú no."),
        ("¿Vienes?", "¡Claro!"),
        ("Pensaba...", "Nada."),
        ("hoy hace frío.", "mañana llueve."),
        ("No.", "Creo que no."),
        ("Creo que no.", "Vamos."),
        ("MADRID", "Hola, Juan."),
        ("Madrid, invierno", "Hola, Juan."),
        ("Creo que", "- no vendrás."),
        ("[Suena el teléfono]", "de repente, nada."),
        ("♪ bajo la luna ♪", "te espero"),
        ("Creo que", "♪ bajo la luna"),
        ("(puerta)", "(pasos)"),
    ],
)
def test_cues_with_sentences_of_their_own_are_segments(texts: tuple[str, str]) -> None:
    assert len(segments(*texts)) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<b>CAPÍTULO 1</b>\n<i>El viaje</i>", f"CAPÍTULO 1{BREAK}El viaje"),
        ('<font color="a">No sé</font>\n<font color="b">¿Qué?</font>', f"No sé{BREAK}¿Qué?"),
        ("<b>Pensaba</b>\n<i>que no</i>", "Pensaba que no"),
        ("<i>Vivo con</i>\n<i>Ana</i>", "Vivo con Ana"),
        ("<i>Vivo con</i>\nAna", "Vivo con Ana"),
    ],
)
def test_lines_in_elements_of_their_own_stay_lines(text: str, expected: str) -> None:
    assert segments(text) == [expected]


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("#La luna#", "# La luna#", "#The moon#"),
        ("<i>#La luna\nes grande#</i>", "# La luna es grande#", "<i>#The moon\nis big#</i>"),
        ("Hola.\n#Canta#", f"Hola.{BREAK}# Canta#", "Hi.\n#Sing#"),
        ("# La luna #", "# La luna #", "# The moon #"),
        ("#luna #sol", "#luna #sol", "#moon #sun"),
    ],
)
def test_signs_around_a_song_are_no_hashtags(text: str, source: str, expected: str) -> None:
    assert segments(text) == [source]
    shown = re.sub(r"<[^<>]*>", "", expected).replace("\n", BREAK if BREAK in source else " ")
    spaced = re.sub("#(?=[A-Z])", "# ", shown)
    assert translate(text, to=spaced) == [expected]


def test_voices_are_not_joined() -> None:
    text = (
        "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ana>Creo que\n\n"
        "00:02.000 --> 00:03.000\n<v Luis>no.\n\n00:03.000 --> 00:04.000\n<v Luis>Sé que\n\n"
        "00:04.000 --> 00:05.000\n<v Luis>sí.\n"
    )
    assert [each.text for each in read(text).segments] == ["Creo que", "no.", "Sé que sí."]


def test_subtitles_without_punctuation_are_not_one_segment() -> None:
    assert [len(text.split()) for text in segments(*["y luego"] * 15)] == [12, 12, 6]


def test_cue_without_letters_is_no_segment_and_separates() -> None:
    assert segments("Vivo en", "♪ ♪", "1984", "una casa.", "{\\an8}", "<i></i>") == [
        "Vivo en",
        "una casa.",
    ]


def test_blank_lines() -> None:
    assert segments("Vivo aquí\n  \nde verdad. Ana", "no.") == ["Vivo aquí de verdad. Ana no."]
    assert len(read(cues("Vivo aquí.\n \nTú no.")).segments) == 2
    webvtt = "WEBVTT\n\n" + cues("Vivo aquí\n \nde verdad.\n\nNo es un subtítulo.", "&nbsp;")
    assert [each.text for each in read(webvtt).segments] == ["Vivo aquí de verdad."]
    assert fill(webvtt, MarkedText("I really live here."))[0] == "I really\nlive here."


def test_numbers_and_names_of_cues_are_not_text() -> None:
    compact = "1\n00:00:01,000 --> 00:00:02,000\nHola.\n2\n00:00:02,000 --> 00:00:03,000\nAdiós."
    assert [each.text for each in read(compact).segments] == ["Hola.", "Adiós."]
    output = read(compact).fill([MarkedText("Hello."), MarkedText("Bye.")]).decode()
    assert output == compact.replace("Hola.", "Hello.").replace("Adiós.", "Bye.")


def test_lines_of_a_sentence_are_joined_and_broken_again() -> None:
    text = "Ayer fui a comprar pan\ny me encontré con ella."
    assert segments(text) == ["Ayer fui a comprar pan y me encontré con ella."]
    assert translate(text, to="Yesterday I went to buy some bread and I met her.") == [
        "Yesterday I went to buy\nsome bread and I met her."
    ]
    # A break comes after punctuation if that is near.
    assert translate(text, to="I went out to buy some bread, and I met her there.") == [
        "I went out to buy some bread,\nand I met her there."
    ]


def test_lines_without_spaces_are_joined_without_one() -> None:
    assert segments("今日はとても\nいい天気です。") == ["今日はとてもいい天気です。"]
    assert segments("<i>我到家的</i>\n<i>时候，</i>", "<b>他</b>已经走了。") == [
        "我到家的时候，他已经走了。"
    ]
    assert segments("私は 駅で\nJohn Smith に\n会った。") == ["私は 駅でJohn Smith に会った。"]


def test_sentences_of_lines_stay_on_their_lines() -> None:
    text = "Ella se fue.\nEntonces llegó Ana."
    assert segments(text) == [f"Ella se fue.{BREAK}Entonces llegó Ana."]
    (segment,) = read(cues(text)).segments
    translation = project_marks(segment, f"She left and was gone.{BREAK}Ana came.", [])
    assert fill(cues(text), translation) == ["She left and was gone.\nAna came."]


@pytest.mark.parametrize("text", ["هل تأتي؟\nنعم يا صديقي", "क्या तुम आओगे।\nहाँ मेरे दोस्त"])
def test_sentences_end_with_the_marks_of_their_script(text: str) -> None:
    assert segments(text) == [text.replace("\n", BREAK)]


def test_space_after_a_line_break_is_no_word() -> None:
    text = cues("Ella se fue.\nVivo en\nesta casa.")
    (segment,) = read(text).segments
    line_break = segment.marks[0]._replace(begin=4, end=4)
    assert fill(text, MarkedText("Bye. Extraordinarily a", (line_break,))) == [
        "Bye.\nExtraordinarily\na"
    ]


def test_line_break_keeps_lines_short() -> None:
    to = "Whoever came here from so far away in winter, did not expect this to be there now"
    assert translate("Quien vino aquí de tan lejos\nno esperaba esto.", to=to) == [
        "Whoever came here from so far away in\nwinter, did not expect this to be there now"
    ]


def test_line_break_is_before_elements_and_after_dashes() -> None:
    text = "Esta es la primera\n<i>parte de todo</i>."
    assert translate(text, to="It is a beginning about everything nice.") == [
        "It is a beginning\n<i>about everything nice</i>."
    ]
    assert translate("-Hola,\namigo.", to="- Extraordinarily!") == ["-Extraordinarily!"]


def test_long_translation_of_one_line_gets_a_second() -> None:
    to = "This translation is much longer than the line of its source."
    assert translate("Es una frase.", to=to) == [
        "This translation is much longer\nthan the line of its source."
    ]
    long_line = "Esta es una línea muy larga, que el programa de vídeo divide por su cuenta."
    assert translate(long_line, to=to) == [to]


@pytest.mark.parametrize("dash", ["-", "- ", "–", "— "])
def test_dialogue_keeps_its_lines_and_dashes(dash: str) -> None:
    text = f"{dash}¿Vienes?\n<i>{dash}No.</i>"
    assert segments(text) == [f"{dash[0]} ¿Vienes?{BREAK}{dash[0]} No."]
    (segment,) = read(cues(text)).segments
    translation = project_marks(segment, f"{dash[0]} Are you?{BREAK}{dash[0]} Never.", [])
    assert fill(cues(text), translation) == [f"{dash}Are you?\n<i>{dash}Never.</i>"]


def test_long_line_of_dialogue_stays_one_line() -> None:
    (segment,) = read(cues("-¿Vienes?\n-No.")).segments
    long = "- Are you coming to the party, or do you have another plan?"
    translation = project_marks(segment, f"{long}{BREAK}- No.", [])
    assert fill(cues("- ¿Vienes?\n- No."), translation) == [f"{long}\n- No."]


def test_numbers_below_zero_are_no_dialogue() -> None:
    assert segments("Hace mucho frío, casi\n-5 grados.") == ["Hace mucho frío, casi -5 grados."]


def test_alignment_decides_where_cues_begin() -> None:
    text = cues("Ayer por la tarde", "vino mi hermano.")
    (segment,) = read(text).segments
    to = "My brother came here yesterday afternoon."
    for at, first in [(16, "My brother came"), (21, "My brother came here"), (18, None)]:
        boundary = segment.marks[0]._replace(begin=at, end=at)
        filled = fill(text, MarkedText(to, (boundary,)))
        assert " ".join(filled) == to
        assert first in (filled[0], None)
    # No cue gives away more than a third of its share.
    boundary = segment.marks[0]._replace(begin=0, end=0)
    assert fill(text, MarkedText(to, (boundary,))) == [
        "My brother came",
        "here yesterday afternoon.",
    ]


def test_cues_begin_after_punctuation_if_it_is_near() -> None:
    text = cues("Si vienes a casa,", "te espero allí.")
    (segment,) = read(text).segments
    boundary = segment.marks[0]._replace(begin=20, end=20)
    translation = MarkedText("If you come home, I will wait for you there.", (boundary,))
    assert fill(text, translation) == ["If you come home,", "I will wait for you there."]


def test_a_cue_that_continues_another_one_begins_with_its_ellipsis() -> None:
    text = cues("Si hubiera sabido que venías...", "...te habría esperado.")
    (segment,) = read(text).segments
    to = "If I had known that you were coming... ...I would have waited."
    boundary = segment.marks[0]._replace(begin=23, end=23)  # after "you"
    assert fill(text, MarkedText(to, (boundary,))) == [
        "If I had known that you were coming...",
        "...I would have waited.",
    ]


def test_line_break_stays_in_its_cue() -> None:
    text = cues("Se fue.\nEntonces él dijo que", "nunca jamás volvería aquí.")
    (segment,) = read(text).segments
    line_break, boundary = segment.marks
    first, second = "She went away from this place at that time.", "Then he said he never would."
    marks = (
        line_break._replace(begin=len(first), end=len(first)),
        boundary._replace(begin=20, end=20),
    )
    assert fill(text, MarkedText(f"{first} {second}", marks)) == [
        f"{first}\nThen",
        "he said he never would.",
    ]


def test_cues_are_not_empty_while_there_are_words() -> None:
    texts = ("Y", "entonces", "llegó el día que", "todos esperábamos.")
    assert translate(*texts, to="a b c d") == ["a", "b", "c", "d"]
    assert translate(*texts, to="extraordinarily b c d") == ["extraordinarily", "b", "c", "d"]
    assert translate(*texts, to="a b c extraordinarily") == ["a", "b", "c", "extraordinarily"]
    assert [each for each in translate(*texts, to="a b") if each] == ["a", "b"]
    assert translate(*texts, to=" a b c d") == ["a", "b", "c", "d"]
    assert translate("Vivo", "en", to=" a b") == ["a", "b"]
    texts = ("Una frase muy larga que", "no", "y", "ya.")
    assert translate(*texts, to="a b c d") == ["a", "b", "c", "d"]
    assert len(translate(*texts, to="那一天終於來了。")) == 4
    assert all(translate(*texts, to="那一天終於來了。"))


def test_element_over_a_boundary_is_in_both_cues() -> None:
    texts = ("<i>Pensaba que hoy</i>", "<i>no ibas a venir.</i>")
    assert segments(*texts) == ["Pensaba que hoy no ibas a venir."]
    assert translate(*texts, to="I thought that you were not coming today.") == [
        "<i>I thought that you</i>",
        "<i>were not coming today.</i>",
    ]


def test_alignment_tag_stays_in_its_cue() -> None:
    texts = ("{\\an8}Pensaba que", "{\\an8}no ibas{\\b1} a venir.")
    assert translate(*texts, to="I thought you were not coming.") == [
        "{\\an8}I thought",
        "{\\an8}you were{\\b1} not coming.",
    ]


def test_point_stays_in_its_cue_wherever_it_is_carried() -> None:
    text = cues("Pensaba que", "no ibas{\\b1} a venir.")
    (segment,) = read(text).segments
    boundary, bold = segment.marks
    to = "I thought you were not coming."
    translation = MarkedText(
        to, (boundary._replace(begin=10, end=10), bold._replace(begin=2, end=2))
    )
    assert fill(text, translation) == ["I thought", "{\\b1}you were not coming."]


def test_point_leaves_an_element_that_is_not_in_its_cue() -> None:
    text = cues("<b>Pensaba <i>que</i></b>", "<b><i>no{\\b1}</i> ibas a venir.</b>")
    (segment,) = read(text).segments
    bold, italic, boundary, point = segment.marks
    marks = (
        bold._replace(begin=0, end=30),
        italic._replace(begin=2, end=9),
        boundary._replace(begin=10, end=10),
        point._replace(begin=4, end=4),
    )
    assert fill(text, MarkedText("I thought you were not coming.", marks)) == [
        "<b>I <i>thought</i></b>",
        "<b>{\\b1}you were not coming.</b>",
    ]


def test_space_is_outside_of_elements() -> None:
    for text in ("<i>Hola </i>amigo", "<i>Hola</i> amigo", "<i> Hola </i> amigo"):
        (segment,) = read(cues(text)).segments
        assert segment.text == "Hola amigo"
        assert segment.marks[0][:2] == (0, 4)
    (segment,) = read(cues("Hola <i> amigo</i>")).segments
    assert segment.text == "Hola amigo"
    assert segment.marks[0][:2] == (5, 10)


def test_marks_move_and_nest() -> None:
    text = cues("La <b>casa <i>roja</i></b> es grande.")
    (segment,) = read(text).segments
    bold, italic = segment.marks
    translation = MarkedText(
        "The red house is big.",
        (bold._replace(begin=4, end=13), italic._replace(begin=4, end=7)),
    )
    assert fill(text, translation) == ["The <b><i>red</i> house</b> is big."]


def test_unpaired_and_crossed_tags_are_written() -> None:
    (segment,) = read(cues("Hola <b>a <i>ti</b> y todos")).segments
    assert [mark[:2] for mark in segment.marks] == [(5, 17), (7, 17), (9, 9)]
    assert translate("Hola</i> a <b>todos", to="Hello to all") == ["Hello</i> to <b>all"]
    assert translate("<b><i>Hola</b> amigo</i>", to="Hello friend") == [
        "<b><i>Hello</b> friend</i>"
    ]


def test_equal_tags_of_two_lines_are_one_element() -> None:
    text = "<i>Ayer fui a comprar</i>\n<i>pan y leche.</i>"
    assert translate(text, to="Yesterday I bought bread and milk.") == [
        "<i>Yesterday I bought\nbread and milk.</i>"
    ]


def test_webvtt_is_escaped() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\nA &lt;b&gt; &amp; <i>5 < 6</i>\n"
    (segment,) = read(text).segments
    assert segment.text == "A <b> & 5 < 6"
    translation = project_marks(segment, 'B <b> & "7" --> 8', [])
    (filled,) = fill(text, translation)
    assert re.sub("</?i>", "", filled) == 'B &lt;b&gt; &amp; "7" --&gt; 8'
    (again,) = read(text.replace(texts_of(text)[0], filled + "\n")).segments
    assert again == translation


def test_subrip_translation_has_no_markup_or_lines_of_its_own() -> None:
    to = "<i>x</i> {\\an8} <nombre> 3 < 4\r\n\r\n9\n\u2028\r00:00:09,000 --> 00:00:10,000 y"
    (filled,) = translate("Hola.", to=to)
    assert " ".join(filled.split()) == (
        "‹i>x‹/i> (\\an8} <nombre> 3 < 4 9 00:00:09,000 --› 00:00:10,000 y"
    )
    assert filled.count("\n") == 1
    assert not set("\r\u2028") & set(filled)


def test_line_ends_are_those_of_the_document() -> None:
    data = cues("Ayer fui a comprar\npan y leche.").replace("\n", "\r\n").encode()
    document = extract(data, DocumentOptions(source_language="es"))
    filled = document.fill([MarkedText("Yesterday I bought bread and milk.")])
    assert filled.endswith(b"\r\nYesterday I bought\r\nbread and milk.\r\n")
    assert filled.count(b"\n") == filled.count(b"\r\n") == data.count(b"\n")


PIECES = st.sampled_from(
    [
        "Hola",
        "vino",
        "<i>casa</i>",
        "<b>la <i>otra</i></b>",
        "{\\b1}",
        "<i>sin fin",
        "</b>",
        "y,",
        "fin.",
        "Sr.",
        "...",
        "♪",
        "\n",
        "\n- ",
        "<i>- no</i>",
        "</i>\n<i>",
        "5 < 6 & 7",
        "-->",
    ]
)
TEXTS = st.lists(st.lists(PIECES, min_size=1, max_size=7).map(" ".join), min_size=1, max_size=6)
WORDS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("<>&{}\\/ib-\n "), max_size=8
)


@try_examples(300)
@given(TEXTS, st.booleans(), st.data())
def test_any_translation_keeps_the_structure(
    texts: list[str], is_webvtt: bool, data: st.DataObject
) -> None:
    # A blank line would end a cue.
    clean = ["\n".join(filter(str.strip, text.split("\n"))).strip() or "♪" for text in texts]
    source = cues(*clean)
    if is_webvtt:
        source = "WEBVTT\n\n" + source
    document = read(source)
    unchanged = [each.without_kept() for each in document.segments]
    assert document.fill(unchanged).decode() == source
    translations = []
    for segment in document.segments:
        count = 3 * len(segment.text.split())
        words = data.draw(st.lists(st.just("word") | WORDS, min_size=count, max_size=count + 5))
        signs = BREAK * segment.text.count(BREAK)
        words += data.draw(st.permutations(["enough"] * 12 + list(signs)))
        translations.append(project_marks(segment, " ".join(words), []))
    output = document.fill(translations).decode()
    assert frame(output) == frame(source)
    before, after = texts_of(source), texts_of(output)
    assert len(before) == len(after)
    for text, filled in zip(before, after, strict=True):
        assert filled.strip()  # no cue becomes empty
        for point in ("{\\b1}",):
            assert filled.count(point) == text.count(point)
    for tag in ("<i>", "<b>", "</b>"):
        assert (tag in source) == (tag in output)
    again = read(output)
    assert again.fill([each.without_kept() for each in again.segments]).decode() == output
    if is_webvtt:
        assert not re.search("<(?![ib/])|&(?!amp;|lt;|gt;)", "".join(changed(before, after)))


def frame(document: str) -> str:
    """Return a file without the texts of its cues."""
    return re.sub(r"(?m)(^[^\n]* --> [^\n]*\n)(?:[^\n]+(?:\n|\Z))*", r"\1", document)


def changed(before: list[str], after: list[str]) -> list[str]:
    return [filled for text, filled in zip(before, after, strict=True) if filled != text]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfe\x00", "convert it to UTF-8"),
        ("1\nMañana".encode("latin-1"), "convert it: iconv -f CP1252 -t UTF-8"),
        (b"<html>Hola</html>", "has no cues"),
        (b"1\n00:00:01,000 -> 00:00:02,000\nHola.\n", "has no cues"),
        (
            b"1\n00:00:01,000 --> 00:00:02,000\nHola.\n\n2\n00:00:03,000 --> 00:0x\nHola.\n",
            "line 6 is not a time line",
        ),
        (b"1\n00:00:01,000 --> 00:00:02,000\n" + b"Hola.\n" * 10_000, "divide it into cues"),
    ],
)
def test_damaged_subtitles_raise(data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        extract(data, DocumentOptions())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "piece", ["<i>", "</i>", "<", "{\\", "- a\n", "(", "a -->", "0:", "a. ", "<i>a</i>\n", "&"]
)
@pytest.mark.parametrize("header", ["", "WEBVTT\n\n"])
def test_hostile_subtitles_take_bounded_time(piece: str, header: str) -> None:
    source = header + cues(*["a " + piece * (9_000 // len(piece))] * 4)
    with cpu_seconds(10):
        document = read(source)
        document.fill([project_marks(each, each.text + " b", []) for each in document.segments])
