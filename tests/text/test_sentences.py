"""Texts are cut into sentences, and nothing of them is lost."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from conftest import cpu_seconds
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.text import sentences
from nmt.text.sentences import split_sentences
from nmt.text.spans import find_spans

# "|" marks where a text is cut.
SPANISH = [
    "¡Hola! |¿Qué tal? |Bien... gracias.",
    "Pero... ¿por qué? |Bueno... |¿Y tú?",
    "No... —dijo Ana—. |Sí.",
    "¡Hola!|¿Qué tal?",
    "Vale.|¿Y tú?",
    "bien.  |¡gracias! |«¿Y tú?» |¿¡Cómo!?",
    "Ana vive en Madrid.|Luis no.",
    "hoy hace frio. |mañana llueve. |no se",
    "Hablé con la Dra. Pérez y el Sr. García. |No vino.",
    "HABLÉ CON EL SR. GARCÍA. |NO VINO EL DR. PÉREZ.",
    "hablé con el sr. garcía. |no vino",
    "Fco. López y D. José. |Sta. Ana.",
    "Vive en la Av. Juárez n.º 12, 2.º piso. |Es la 1.ª vez.",
    "Vive en la Avda. Goya núm. 5. |Es alto.",
    "Mide aprox. 3 m. de alto. |Véase la pág. 5 y el art. 7.",
    "Son las 3 a. m. del lunes. |Son las 3 p.m. del martes. |Sí.",
    "Son las 3 p. m. |Vamos.",
    "a.1. Introducción. |Fin.",
    "1.a. Introducción. |Fin.",
    "Es el 3er. piso. |Es la 2da. vez. |Quedó 3ro. |Se fue.",
    "Fruta, p. ej. manzanas. |P. ej. estas.",
    "Los EE. UU. son grandes. |El EE.UU. de hoy.",
    "Frutas, verduras, etc. |Luego nada.",
    "Frutas, etc. y verduras.",
    "Vive en EE. UU. |Su hermano no.",
    "El presidente de EE. UU. Donald Trump habló.",
    "SOY DE EE. UU. Y DE MÉXICO. |NO VIENE. |Ella no.",
    "Llegó el 3 de ene. de 2024. |Se fue el 4 sept. 2024 a Roma. |Volvió.",
    "Voy a casa 😢 |Estoy mal",
    "Sí 😀🙏 |¿Y tú? |Bien 😀 y tú 😀",
    "Estoy bien 😊 |¿Y tú?",
    "Amo ❤ Madrid. |Uso Windows ® Microsoft. |Gracias 🙏 María por todo.",
    "Ana :) |Luis 5 Ana",
    '"Todo va bien." |Así es. |(Es domingo.) |Voy.',
    "Pérez y (la Lic.) Ana. |Compañía (S. A.) España.",
    "—¿Vienes? |—No puedo. |—¿Por qué?",
    "«¡Ven!» dijo ella. |—¡Ven! —dijo él.",
    '"¿Vienes?", preguntó. |"No." |Se fue.',
    '"¿Vienes?" preguntó ella. |Se fue.',
    'Ella lo miró. |"¿Vienes?" preguntó.',
    "Hola. |'¡Ven!' dijo.",
    "-¿Vienes? |-No puedo. |-¿Por qué?",
    "Hace frío. -5 grados.",
    "Llegó (¡por fin!). |Comimos.",
    "¿Cómo?, ¿por qué? |¡No!... |Sí.",
    "Espera… no sé. |¿Sí?! |¡¡No!! |Vale.",
    "Tengo 3 gatos. |5 perros son muchos.",
    "Capítulo 3. |El rey.",
    "Nació en el s. XIX. |Murió joven.",
    "Estoy bien. |Gracias. |ESTÁ BIEN. |GRACIAS. |estoy bien. |y tú",
    "Vive cerca del mar. |«Claro», dije.",
    "Av. Juárez, pl. España y Cía. Telefónica.",
    "«Estoy bien. Gracias», dijo.",
    "Dije que no. |Pesa 70 kg. |Hay 5 km. de aquí al art. no. IV de la ley no. de serie.",
    "J. R. R. Tolkien escribió mucho. |A. Machado también.",
    "Toma vitamina C. |Es importante. |Y vitamina D. |El cuerpo la usa.",
    "J. C. Penney, A. El Fassi, C. De la Cruz, D. Juan y la S. A. de C. V. Telmex. |Estimado Sr.",
    "A. La casa es de N. La Rosa.",
    "P. D. No vengas.",
    "Mira https://a.com/x?y=1. |Es útil.",
    "Escribe a ana.perez@example.com. |¿Sí? |Gracias.",
    "Lee informe.final.pdf. |Usa Node.js. |Luego responde.",
    "Mide 1.80 m. |Cuesta 3.14 o 1.000,50 €. |Es alto.",
    "Usa `a. B. c` siempre. |Hola {{nombre. Apellido}} y adiós.",
    "😀 ¡Feliz cumpleaños! |😀 Sí.",
    "1. |Abra la caja. |2. |Saque todo.",
    "¡Hola!\n\n  |Adiós.\r\n|sin punto\u2028|fin",
    "La sup. útil es de 90 m². |La vel. máx. es de 120 km/h. |Piso con asc. y calef. central.",
    "El pres. del Gobierno fue a Ntra. Sra. del Carmen. |Pesa 5 kgs. en total.",
    "  dos espacios.  |Otra.\t|Fin. \n",
]
ENGLISH = [
    "Mr. Smith met Dr. Jones. |He left.",
    "At 3 p.m. we left. |At 3 p.m. |We left.",
    "The U.S. is big. |It is.",
    "Fruit, e.g. apples, i.e. these. |Apples vs. pears.",
    'He said "Go!" and left. |"Stop." |She did.',
    '"Really?" asked Tom. |"Yes."',
    "I have 3.5 apples. |4 are left.",
    "See Vol. 2 and approx. 5 pages. |See p. 7.",
    "J. K. Rowling wrote it. |St. Paul too.",
    "Wait... what? |Wait… what?",
    "Is it? |yes it is. |no!",
    "It costs $5. |Go to www.example.com. |Then pay.",
    "Apples, pears, etc. |Then nothing.",
    "Is v1.2.3 out? |Yes.",
    "Come with me. |Tom is ill. |Mr. Smith too.",
    "i saw it on tv. |then i left. |at 5 pm. |we left",
    "Add 2 tbsp. of sugar and 3 lbs. of rice. |stir it. |wait",
    "He lives in the U.S. |She does not. |Take vitamin C. |It is in H. G. Wells.",
]
OTHERS = [
    ("it", "Non lo so. |Poi andiamo. |Tre anni fa. |Marco era qui."),
    ("de", "Er liebt mich. |Tom geht."),
    ("ru", "Это мой муж. |Том ушёл."),
    ("de", "Das ist z. B. gut. |Am 3. Mai kam er. |Der 2. Weltkrieg war lang."),
    ("de", "„Komm!“, sagte er. |Dr. Müller ging. |Er kam am 5. |Dann ging er."),
    ("fr", "M. Dupont est là. |Mme. Curie aussi. |C'est ça ! |Oui ? |Non."),
    ("fr", "La vitamine C. |Elle est bonne. |M. Le Pen."),
    ("fr", "« Viens ! » dit-il. |Il vécut en 50 av. J.-C. à Rome."),
    ("zh-Hans", "你好。|世界！|真的吗？|是的……好。"),
    ("zh_TW", "他有3.5元。|好。"),
    ("zh", "“远吗？”她问。|“好。”|我知道。|“走吧！”老师说：“快！”"),
    ("ar", "هل أنت جائع؟ |نعم، أنا جائع! |الخبز طازج."),
    ("ja", "こんにちは。|元気ですか？|「そうです。」と言った。|はい！"),
    ("ar", "مرحبا. |كيف حالك؟ |جيد."),
    ("hi", "नमस्ते। |आप कैसे हैं?"),
    ("sv", "stäng av. |vänta. |Stäng av. |Vänta. |Nu ska vi dra. |Kom, Dr. Berg."),
    ("nb-NO", "Slå av. |Vent."),
    ("nl", "Ik sta. |Jij zit."),
    ("it", "Come sta. |Sto. |Vado."),
    ("pl", "Zapłacił sto. |Potem wyszedł."),
    ("cs", "Zaplatil sto. |Pak odešel."),
    ("pt", "Av. Paulista, Sta. Maria e Sto. Amaro."),
    ("und", "Hola. |Hello! |你好。|世界。"),
    ("xx-unknown", "Hola. |Hello!"),
    ("", "Hola. |Hello!"),
]


@pytest.mark.parametrize(
    ("language", "marked"),
    [*(("es", text) for text in SPANISH), *(("en-GB", text) for text in ENGLISH), *OTHERS],
)
def test_a_text_is_cut_after_its_sentences(language: str, marked: str) -> None:
    assert split_sentences(marked.replace("|", ""), language) == marked.split("|")


@pytest.mark.parametrize("language", sentences._COMMON_WORDS)
def test_common_words_are_abbreviations_of_the_library_that_end_a_sentence(language: str) -> None:
    import sentencex

    for word in sentences._COMMON_WORDS[language].split():
        text = f"Abc {word}. Efgh."
        assert len(sentencex.segment(language, text)) == 1, word
        assert len(split_sentences(text, language)) == 2, word


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Mi casa | Mi perro. No. | Ana", ["Mi casa ", "| ", "Mi perro. ", "No. ", "| ", "Ana"]),
        ("Inicio > Libros > Niños", ["Inicio ", "> ", "Libros ", "> ", "Niños"]),
        ("Inicio » libros · a → b", ["Inicio ", "» ", "libros ", "· ", "a ", "→ ", "b"]),
        ("Hombres / Mujeres", ["Hombres ", "/ ", "Mujeres"]),
        ("Главная > Книги", ["Главная ", "> ", "Книги"]),
        ("Dom > Łazienka", ["Dom ", "> ", "Łazienka"]),
        ("Вход/Выход", ["Вход", "/", "Выход"]),
        ("Вход/выход", ["Вход/выход"]),
        ("Nhà / Ở", ["Nhà ", "/ ", "Ở"]),
        ("Dijo « sí » otra vez", ["Dijo « sí » otra vez"]),
        ("hombres / mujeres y a > b", ["hombres / mujeres y a > b"]),
        ("Hola {{ name | upper }} Ana", ["Hola {{ name | upper }} Ana"]),
        ("| Mi casa |", ["| ", "Mi casa ", "|"]),
        ("| Mi casa   |   Ana  |", ["| ", "Mi casa   ", "|   ", "Ana  ", "|"]),
        ("El perro\tEl gato", ["El perro\t", "El gato"]),
        ("Leer más »", ["Leer más ", "»"]),
        ("« Volver", ["« ", "Volver"]),
        ("Hola.<br>El perro<br/>negro", ["Hola.", "<br>", "El perro", "<br/>", "negro"]),
        (
            "Uno <br /> dos, <br class='a'>tres",
            ["Uno ", "<br /> ", "dos, ", "<br class='a'>", "tres"],
        ),
        ("Uno<BR>dos<P>tres", ["Uno", "<BR>", "dos", "<P>", "tres"]),
        ("Usa `<br>` ahora", ["Usa `<br>` ahora"]),
        ("<p>El perro</p><p>El gato</p>", ["<p>", "El perro", "</p>", "<p>", "El gato", "</p>"]),
        ("Lunes – viernes", ["Lunes ", "– ", "viernes"]),
        ("Precio - 20 euros", ["Precio ", "- ", "20 euros"]),
        ("Lunes - viernes: cerrado", ["Lunes ", "- ", "viernes: cerrado"]),
        ("Lunes    Martes    Jueves", ["Lunes    ", "Martes    ", "Jueves"]),
        ("Nombre      Edad", ["Nombre      ", "Edad"]),
        ("Nombre |      Edad", ["Nombre ", "|      ", "Edad"]),
        ("<li>      Uno</li>", ["<li>      ", "Uno", "</li>"]),
        ("Lunes –      Viernes", ["Lunes ", "–      ", "Viernes"]),
        ("Hola    Ana", ["Hola    Ana"]),
        ("El niño      come      Pan.", ["El niño      come      Pan."]),
        ("El niño      come", ["El niño      come"]),
        ("Me dio....3 euros", ["Me dio....3 euros"]),
        ("Te lo dije – Ana: no.", ["Te lo dije – Ana: no."]),
        ("$\\nabla E$ y \\textbf", ["$\\nabla E$ y \\textbf"]),
        ("Índice .....3", ["Índice", " .....", "3"]),
        ("{0} Nada|{1} Uno|[2,*] Más", ["{0} Nada", "|", "{1} Uno", "|", "[2,*] Más"]),
        ("Hola\\n\\nmundo", ["Hola", "\\n\\n", "mundo"]),
        ("Sala 5 - 7", ["Sala 5 - 7"]),
        ("5 - x = 2", ["5 - x = 2"]),
        ("Vine - creo - ayer", ["Vine - creo - ayer"]),
        ("Quiero esto - dijo Juan", ["Quiero esto - dijo Juan"]),
        ("Barça - Madrid, hoy", ["Barça - Madrid, hoy"]),
        ("Usa `a - B` Ana", ["Usa `a - B` Ana"]),
        ("Capítulo 1 — Introducción", ["Capítulo 1 ", "— ", "Introducción"]),
        ("Abierto 9 – 12", ["Abierto 9 – 12"]),
        ("Tom – mi hermano – vive.", ["Tom – mi hermano – vive."]),
        ("Hombre/Mujer/Niño", ["Hombre", "/", "Mujer", "/", "Niño"]),
        ("Estimado/Estimada señor", ["Estimado/Estimada señor"]),
        ("TCP/IP y Casa/perro", ["TCP/IP y Casa/perro"]),
        ("☐ Sí ☐ No", ["☐ ", "Sí ", "☐ ", "No"]),
        ("Sí [ ] No []", ["Sí ", "[ ] ", "No ", "[]"]),
        ("No. No quiero ir.", ["No. ", "No quiero ir."]),
        ("Sí. No. Vale.", ["Sí. ", "No. ", "Vale."]),
        ("Vivo en la calle Mayor, No. 5.", ["Vivo en la calle Mayor, No. 5."]),
        ("Acta. No. III", ["Acta. ", "No. III"]),
        ('"No. Basta" dijo.', ['"No. Basta" dijo.']),
        ("Nombre \t Edad", ["Nombre \t ", "Edad"]),
        ("1.- Entre.", ["1.- Entre."]),
        ("PRIMERA.- El precio es alto.", ["PRIMERA.", "- ", "El precio es alto."]),
        ("Art. 3.– Toda persona.", ["Art. 3.", "– ", "Toda persona."]),
        ("Es (EFE).- El niño.", ["Es (EFE).", "- ", "El niño."]),
        ("Es (EFE) - El niño.", ["Es (EFE) ", "- ", "El niño."]),
        ("Es (1949) - El niño.", ["Es (1949) - El niño."]),
        ("La UE (UE) – Ana – habla.", ["La UE (UE) – Ana – habla."]),
        ("ANA.— (Llora.) Ven.", ["ANA.", "— ", "(Llora.) Ven."]),
        ("En EE.UU.- El niño.", ["En EE.UU.- El niño."]),
        ("A las 5 p. m. (hora local) empezó.", ["A las 5 p. m. (hora local) empezó."]),
        ("Lo dijo Gil et al. (2020: 4).", ["Lo dijo Gil et al. (2020: 4)."]),
        ("II. Los perros", ["II. Los perros"]),
        ("2 cdas. de aceite", ["2 cdas. de aceite"]),
    ],
)
def test_a_text_is_cut_at_separators(text: str, pieces: list[str]) -> None:
    assert split_sentences(text, "es") == pieces


def test_white_space_alone_is_one_piece_and_an_empty_text_has_none() -> None:
    assert split_sentences("", "es") == []
    assert split_sentences(" \n\t\r\n ", "es") == [" \n\t\r\n "]
    assert split_sentences("\n\n Hola.\n\n", "es") == ["\n\n Hola.\n\n"]


PARTS = (
    list('aBñ1.!?…。¿¡ \n"»)]’-—ºª,:@`{}%/«“') + "n. Sr. etc. a.m. \u2028 \r\n \ufeff".split(" ")
) + ["https://a.com", "x@y.es", "a. m. ", "😀", "\ue000", "3.14", "der 2. ", " | ", " > A", "» "]
SEPARATORS = ["      ", "|", "<li>", "\\n", " – ", "\t", "B....3"]
LANGUAGES = ["es", "en", "de", "fr", "zh", "ja", "und", "xx", ""]


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(st.text(), st.lists(st.sampled_from(PARTS + SEPARATORS)).map("".join)),
    st.sampled_from(LANGUAGES),
)
def test_pieces_joined_are_the_text_and_none_is_empty(text: str, language: str) -> None:
    pieces = split_sentences(text, language)
    assert "".join(pieces) == text
    assert all(pieces)
    if text.strip():
        assert all(piece.strip() for piece in pieces)
        assert not any(piece[0].isspace() for piece in pieces[1:])
        assert all(len(piece.strip().splitlines()) == 1 for piece in pieces)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PARTS)).map("".join), st.sampled_from(LANGUAGES))
def test_no_span_is_cut(text: str, language: str) -> None:
    line = text.replace("\n", "").replace("\r", "").replace("\u2028", "")
    ends, end = set(), 0
    for piece in split_sentences(line, language):
        end += len(piece)
        ends.add(end)
    assert not [span for span in find_spans(line.strip()) if any(map(_within(line, span), ends))]


def _within(line: str, span: tuple[int, int]):  # type: ignore[no-untyped-def]
    begin = len(line) - len(line.lstrip())
    return lambda end: span[0] + begin < end < span[1] + begin


def test_a_long_line_takes_time_in_proportion_to_its_length() -> None:
    """A mebibyte is the longest line of a file; quadratic work would take minutes."""
    text = "Hoy hace frío. A las 12:30 voy al n.º 5. ¿Vienes? " * 20_000
    with cpu_seconds(20):
        pieces = split_sentences(text, "es")
    assert len(pieces) == 60_000


def test_importing_loads_no_library() -> None:
    code = "import sys, nmt.text.sentences; assert 'sentencex' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("language", ["und", "es", "de", "ja", "th", "hi"])
@given(text=st.text("aé漢กअ9_ ,¿¡«\"'.!?…。\u0964", max_size=12))
def test_lines_that_are_plainly_one_sentence_need_no_library(language: str, text: str) -> None:
    nothing = re.compile("(?!)")
    short = split_sentences(text, language)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentences, "_PLAIN", nothing)
        assert split_sentences(text, language) == short
