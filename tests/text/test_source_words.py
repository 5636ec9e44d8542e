"""Typing errors become the words that were meant, and names that no source has stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.embedded import phrasebook_dir
from nmt.errors import UserError
from nmt.text import known_words, source_words
from nmt.text.source_words import WORDS_FILE, SourceWords
from nmt.text.spans import find_spans

TEXTS = [
    "¿Dónde está el teléfono de mi hermana?",
    "No tengo dinero para comprar la casa.",
    "Ana vive en México con su hermano.",
    "Mañana quiero comer pan con queso.",
    "Estamos cansados después del trabajo.",
]
COUNTS = dict.fromkeys(SourceWords.count(TEXTS).counts, 50) | {"ana": 500}


@pytest.fixture(scope="module")
def words() -> SourceWords:
    return SourceWords(COUNTS | {"tango": 12, "hermanas": 3})


def correct(words: SourceWords, text: str) -> str:
    return words.correct(text, list(find_spans(text)))


def names(words: SourceWords, text: str) -> list[str]:
    return [text[begin:end] for begin, end in words.find_names(text, list(find_spans(text)))]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("no tngo dinero", "no tengo dinero"),  # a missing letter
        ("no tenggo dinero", "no tengo dinero"),  # one too many
        ("no tengo dimero", "no tengo dinero"),  # a wrong one
        ("no tengo dinreo", "no tengo dinero"),  # two swapped
        ("donde esta el telefono", "dónde está el teléfono"),  # missing accents
        ("manana quieor pan", "mañana quiero pan"),
        ("Donde está?", "Dónde está?"),
        ("vive en Mexico", "vive en México"),
        ("el telefóno", "el teléfono"),  # an accent in another place
        ("no tengo dimero...", "no tengo dinero..."),
        ('Dijo: "no tengo dimero."', 'Dijo: "no tengo dinero."'),
        ("No tengo dimero. Vamos.", "No tengo dinero. Vamos."),
    ],
)
def test_what_was_meant(words: SourceWords, typed: str, meant: str) -> None:
    assert correct(words, typed) == meant


@pytest.mark.parametrize(
    "text",
    [
        *TEXTS,
        "Quiero un paraguas.",  # no known word is near
        "Vi a Cana en casa.",  # may be a name
        "escribe a tngo@dinreo.com y `dinreo`",  # kept spans
        "un pn y la",  # short words
        "¿Vivé Ana?",  # with its accent another word than "vive"
        "un dinerO y dInreo",  # of unusual case
        "tango",  # known
        "Véase la tngo. 3.",  # abbreviations, perhaps, and units
        "Máx. 10 teng.",
        "我没有钱。",
        "",
    ],
)
def test_what_stays(words: SourceWords, text: str) -> None:
    assert correct(words, text) == text


def test_where_any_word_may_be_a_name_words_get_accents_alone(words: SourceWords) -> None:
    assert words.correct("El telefono de tngo", [], accents_only=True) == "El teléfono de tngo"


def test_forms_of_known_words_are_not_corrected() -> None:
    words = SourceWords(
        {"esos": 99, "beso": 3, "quería": 99, "querido": 30, "hola": 11, "años": 99}
    )
    for text in ("besos", "Querida Ana", "queridas"):  # forms of known words
        assert correct(words, text) == text
    assert correct(words, "Holaaaa, querias") == "Hola, quería"


def test_a_noun_is_no_verb_without_its_accent() -> None:
    words = SourceWords({"saludó": 18, "saludos": 13, "habló": 30})
    assert correct(words, "saludo") == "saludo"
    assert correct(words, "hablo") == "habló"


@pytest.mark.parametrize(
    ("language", "counts", "text"),
    [
        ("de", {"mäntel": 9, "vögel": 9000}, "mantel vogel"),
        ("vi", {"người": 9000, "bàn": 500, "ngôi": 2000}, "ngươi bán"),
        ("el", {"νόμος": 9000}, "νομός"),
        ("ru", {"герой": 9000, "музей": 9000}, "герои музеи"),
        ("tr", {"kitabın": 900, "evin": 900, "evi": 900}, "kitabım evim"),
    ],
)
def test_other_words_of_a_language_are_no_errors(
    language: str, counts: dict[str, int], text: str
) -> None:
    assert correct(SourceWords(counts, {}, language), text) == text
    if language != "ru":
        assert correct(SourceWords(counts), text) != text


def test_errors_in_other_languages_are_corrected() -> None:
    for language, counts, typed, meant in (
        ("el", {"νόμος": 90}, "νομος", "νόμος"),
        ("ru", {"ещё": 90, "герой": 90}, "еще герйо", "ещё герой"),
        ("de", {"vögel": 90}, "vögeel", "vögel"),
        ("tr", {"kitabım": 90}, "kiatbım", "kitabım"),
        ("es", {"vögel": 90}, "vogél", "vögel"),
    ):
        assert correct(SourceWords(counts, {}, language), typed) == meant


def test_turkish_names_end_before_an_apostrophe() -> None:
    counts = {"evler": 90, "gördüm": 90, "londra": 500, "kur'an": 90}
    turkish = SourceWords(counts, {}, "tr")
    text = "Ankara'daki evler, O'Brien'ın evler Londra'da gördüm Kur'an gördüm"
    assert correct(turkish, text) == text
    assert names(turkish, f"Gördüm {text}") == ["Ankara", "O'Brien"]
    assert names(SourceWords(counts), "Gördüm Ankara'daki evler") == ["Ankara'daki"]


def test_initials_may_be_of_any_alphabet() -> None:
    russian = SourceWords({"это": 90, "пушкин": 90}, {}, "ru")
    assert names(russian, "это С. Л. и Ж. К. Роулинг") == ["С. Л.", "Ж. К. Роулинг"]


def test_apostrophes_are_those_of_the_sources() -> None:
    counts = {"we're": 50, "were": 90, "it's": 60, "its": 70, "tired": 20, "that’s": 3}
    english = SourceWords(counts)
    assert correct(english, "We’re tired, it’s ‘late’.") == "We're tired, it's ‘late’."
    assert correct(english, "`it’s`") == "`it’s`"  # a kept span
    curly = SourceWords({word.replace("'", "’"): count for word, count in counts.items()})
    assert correct(curly, "We're tired") == "We’re tired"


def test_an_apostrophe_in_the_wrong_place_is_corrected() -> None:
    english = SourceWords({"didn't": 50, "did": 90, "l'eau": 20})
    assert correct(english, "I did'nt") == "I didn't"
    text = "L’Hospitalet"  # a name keeps its own
    assert correct(english, text) == text


def test_words_of_known_parts_are_known() -> None:
    english = SourceWords({"spain": 50, "spains": 40, "english": 50, "spanish": 50, "king": 50})
    text = "I met Spain's king, an English-Spanish one."
    assert correct(english, text) == text
    assert names(english, text) == []
    assert names(english, "I met Qwzycz's king.") == ["Qwzycz"]
    assert names(english, "the Spain-King train, Spain-King") == ["Spain-King", "Spain-King"]


def test_words_with_an_inner_capital_are_names(words: SourceWords) -> None:
    assert names(words, "iQueso no come.") == ["iQueso"]
    assert names(words, "Quiero un iQueso.") == ["iQueso"]
    assert names(words, "McQueso come pan.") == ["McQueso"]


def test_nothing_is_looked_for_in_place_of_a_word_longer_than_all_known_ones(
    words: SourceWords, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its edits would take memory that grows with the square of its length."""
    monkeypatch.setattr(known_words, "_list_errors", lambda word, alphabet: 1 / 0)
    assert correct(words, "x" * 1000) == "x" * 1000
    with pytest.raises(ZeroDivisionError):
        correct(words, "tamgo")


def test_frequency_and_the_probability_of_the_error_decide(words: SourceWords) -> None:
    assert correct(words, "tengoo") == "tengo"
    assert correct(words, "tamgo") == "tango"
    assert correct(words, "hermanaz") == "hermana"  # "hermanas" is as near, and rare
    assert correct(words, "hhermanas") == "hermanas"
    assert correct(words, "herkanas") == "herkanas"  # k is beside m, but the word is too rare
    assert correct(words, "dipero") == "dipero"  # p is far from n
    spanish = SourceWords(
        {"se": 900, "es": 800, "tren": 90, "habló": 60, "hablo": 50, "mató": 20, "gato": 90}
        | {"orden": 50, "ese": 300, "pero": 900, "perro": 200, "ataque": 40}
    )
    for typed, meant in (
        ("oren", "orden"),  # a letter is left out more often than replaced by a distant one
        ("jató", "mató"),  # with its accent, and m beside j
        ("ablo", "hablo"),  # without an accent
        ("perrro", "perro"),
        ("Attaque", "Ataque"),  # a first word, if the error is inside
    ):
        assert correct(spanish, typed) == meant


def test_an_unknown_form_with_a_usual_ending_stays() -> None:
    words = SourceWords({"importa": 200} | {f"{stem}tan": 5 for stem in "bcdfghjklmnpqrstvwxyz"})
    assert correct(words, "importan") == "importan"
    assert correct(words, "importaw") == "importa"


def test_only_a_few_characters_before_a_word_are_read(words: SourceWords) -> None:
    """In a long line of unknown words, all characters before each would be too many."""

    class Text(str):
        def __getitem__(self, key: Any) -> str:
            if isinstance(key, slice):
                assert key.stop - key.start <= 64
            return super().__getitem__(key)

    found = list(words._find_unknown(Text("Kwxyz wxyz. " * 100), []))
    assert [begins_sentence for *_, begins_sentence in found] == [True, False] * 100


def test_letters_without_case_belong_to_no_name() -> None:
    words = SourceWords.count(["我在用手机", "저는 책을 읽어요", "我喜欢看电影"] * 2)
    assert names(words, "我在用iPhone手机。我认识Tom。") == ["iPhone", "Tom"]
    assert names(words, "저는 Python을 배워요, הNBA") == ["Python", "NBA"]


def test_unseen_names(words: SourceWords) -> None:
    assert names(words, "Vi a Etxeberria y a Ana en Quetzaltenango.") == [
        "Etxeberria",
        "Quetzaltenango",
    ]
    assert names(words, "¿Está Wojciech Kowalczyk en casa?") == ["Wojciech Kowalczyk"]
    assert names(words, "Escribe a Kwxyz@wxyz.com a las 8.") == []
    assert names(words, "etxeberria") == []


def count_words_without(*unseen: str) -> SourceWords:
    """Count the Spanish words of the embedded corpus, but for some."""
    lines = [
        line.split("\t")[0]
        for path in sorted(phrasebook_dir().glob("*.tsv"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    counts = SourceWords.count(lines).counts
    return SourceWords({word: count for word, count in counts.items() if word not in unseen})


def test_names_that_begin_sentences_are_neither_corrected_nor_lost() -> None:
    known = count_words_without("nicanor", "mateo", "noelia", "embarco", "saludad")
    for name in ("Nicanor", "Mateo", "Noelia"):
        text = f"{name} no está en casa."
        assert correct(known, text) == text
        assert names(known, text) == [name]
    assert names(known, "Nicanor.") == []  # without another word, it may be a command
    assert correct(known, "Tenog frío.") == "Tengo frío."
    for word in ("Embarco", "Saludad"):  # forms of known words
        assert names(known, f"{word} mañana.") == []


def test_at_the_beginning_of_a_sentence_letters_tell_a_name() -> None:
    known = count_words_without("embarcaremos", "tranquilamente", "desinfectaron")
    for name in ("Wojciech", "Etxeberria", "Okonkwo", "Kowalczyk"):
        assert names(known, f"{name} no está. ¡{name}!") == [name, name]
    for word in ("Embarcaremos", "Tranquilamente", "Desinfectaron"):
        assert names(known, f"{word} aquí.") == []
    few = SourceWords(dict(list(known.counts.items())[:900]))
    assert names(few, "Etxeberria no está.") == []  # too few words to know what is usual


def test_frequent_words_are_names_where_they_have_a_capital_inside_of_a_sentence() -> None:
    frequent = "rosa clara léo leo salvador sra gracias el la una mi buena a vi vive y".split()
    known = SourceWords(dict.fromkeys(frequent, 99) | {"leo": 50})
    assert names(known, "Vi a Rosa y a Clara.") == ["Rosa", "Clara"]
    assert names(known, "Vi a Rosa's") == ["Rosa"]
    assert names(known, "Vi a Rosa, Clara y Leo.") == ["Rosa", "Clara", "Leo"]
    assert names(known, "Gracias, Rosa.") == names(known, "La Sra. Rosa vive") == ["Rosa"]
    for text in ("Rosa vive", "vi la Rosa", "una rosa", "Buena Rosa", "mi Rosa", "VI A ROSA"):
        assert names(known, text) == [], text
    assert known.correct("Vi a Rosa y a Leo.", []) == "Vi a Rosa y a Leo."


def test_rare_words_after_names_and_titles_are_family_names() -> None:
    words = SourceWords(COUNTS | {"pérez": 3, "cruz": 3, "tom": 999, "sr": 99, "la": 999, "vi": 99})
    for text in ("Vi a Tom Pérez Cruz.", "¿Ana Pérez Cruz?", "vi al señor Pérez Cruz"):
        assert "".join(names(words, text)).endswith("Pérez Cruz"), text
    assert names(words, "Vi al Sr. Pérez y a Tom Cruz.") == ["Pérez", "Cruz"]
    assert names(words, "Vi a Tom, Cruz.") == names(words, "Tom La Cruz") == []
    assert names(words, "Vi la Cruz.") == names(words, "vi a tom cruz") == []
    assert words.correct("Vi al Sr. Péres", []) == "Vi al Sr. Péres"
    assert names(words, "Llama al doctor. Cruz la calle.") == []
    english = SourceWords(COUNTS | dict.fromkeys(["sundays", "belgian", "dictionary"], 3))
    for text in ("I miss Sundays", "Is Tom Belgian?", "the Oxford Dictionary", "Will Sundays go?"):
        assert names(english, text) in ([], ["Oxford"], ["Tom"]), text


def test_a_name_is_learned_later_than_another_word() -> None:
    words = SourceWords(COUNTS | {"pedro": 99, "linda": 99, "tena": 99, "alcalde": 99})
    assert names(words, "Pedro Tena vive aquí.") == ["Pedro Tena"]
    assert names(words, "vi a pedro, Tena vive") == ["pedro"]
    assert names(words, "vi a Linda, señor Alcalde") == ["Linda"]
    assert names(words, "Linda casa, la linda casa") == []  # also a word
    learned = SourceWords(words.counts | {"pedro": 100})
    assert names(learned, "Pedro vive aquí.") == []


def test_common_names_and_laughter_are_kept_wherever_they_stand() -> None:
    known = SourceWords({"rosa": 50, "pedro": 3, "pilar": 3, "vive": 9, "aquí": 9, "hola": 9})
    for name in ("Ana", "SOFÍA", "Sofia", "Bogotá", "Pérez", "jajaja", "Hahah"):
        assert names(known, f"{name} vive aquí.") == [name]
        assert correct(known, f"{name} vive aquí.") == f"{name} vive aquí."
    assert names(known, "hola ana") == ["ana"]
    assert names(known, "Rosa vive aquí.") == []  # known
    assert names(known, "Pedro vive aquí.") == ["Pedro"]  # too rare to be translated well
    assert names(known, "Pilar vive aquí.") == names(known, "el pilar") == []  # also a word
    assert correct(known, "la marta y el niño de Nina") == "la marta y el niño de Nina"
    assert names(known, "la marta") == names(known, "el niño") == names(known, "o carvalho") == []
    assert names(known, "Ana's") == ["Ana"]


def test_a_rare_name_that_is_also_a_word_is_kept_where_it_has_a_capital() -> None:
    words = SourceWords(COUNTS | {"pilar": 3, "maria": 3, "maría": 500})
    assert names(words, "Ana y Pilar, el pilar. Pilar vive") == ["Pilar"]
    text = words.correct("Ana y Maria", [])
    assert text == "Ana y María"  # which the model has learned
    assert names(words, text) == []


def test_roman_numerals_are_kept_behind_words() -> None:
    words = SourceWords(COUNTS | dict.fromkeys(["vi", "v", "siglo", "carlos", "felipe"], 500))
    text = "Felipe VI y Carlos V, siglo XX, VI casa. ANA VI y V. Hugo"
    assert names(words, text) == ["VI", "V", "XX", "V. Hugo"]
    assert names(words, "siglo I, felipe I") == ["I", "I"]
    assert names(SourceWords(words.counts | {"i": 99}), "felipe I") == []  # in English, a word


def test_unknown_initials_are_kept() -> None:
    known = SourceWords({"u": 10, "s": 10, "vive": 9})
    assert names(known, "vive en S.L. y J. R. R. Tolkien") == ["S.L.", "J. R. R. Tolkien"]
    assert names(known, "vive en U.S.") == []
    assert names(known, "¿vive S. S. Tolkien?") == ["S. S. Tolkien"]
    assert known.find_names("vive D. Tolkien", [(5, 7)]) == [(8, 15)]
    assert names(SourceWords({"iphone": 9, "ipad": 10}), "el iPhone, el iPad") == ["iPhone"]


def test_rare_acronyms_are_kept() -> None:
    known = SourceWords({"pdf": 9, "cd": 10, "hola": 99, "jajaja": 9})
    assert names(known, "hola PDF, USB-C, L-V, UE y pH") == ["PDF", "USB-C", "L-V", "UE", "pH"]
    assert names(known, "PDF, CD. CD, pdf, hola, VENGAN") == ["PDF", "VENGAN"]
    assert names(known, "L'ID hola") == []  # with an article
    assert names(known, "hola jajaja") == ["jajaja"]  # the model has seldom seen it


def test_words_that_are_drawn_out_become_known_ones() -> None:
    known = SourceWords({"no": 20, "leer": 20, "sí": 20, "si": 15, "i": 30, "a": 30})
    assert correct(known, "nooooo leeeer siiii xyzw") == "no leer sí xyzw"
    assert correct(known, "Enrique VIII, iii, pilas AAA") == "Enrique VIII, iii, pilas AAA"


@given(st.text(alphabet="aeino tdmñó.¿A¡"))
def test_a_corrected_text_has_nothing_more_to_correct(text: str) -> None:
    words = SourceWords(COUNTS)
    once = correct(words, text)
    assert correct(words, once) == once
    assert len(once.split()) == len(text.split())


@given(st.text())
def test_names_are_in_order_and_apart(text: str) -> None:
    spans = SourceWords(COUNTS).find_names(text, list(find_spans(text)))
    ends = [0, *(edge for span in spans for edge in span)]
    assert ends == sorted(ends)


def test_words_are_counted_once_for_each_distinct_text_and_stored(tmp_path: Path) -> None:
    words = SourceWords.count(["El pan. el Pan?", "El pan. el Pan?", "pan 中文 12"])
    assert words.counts == {"pan": 3, "el": 2}
    assert correct(SourceWords.count(["İyi"]), "İyi") == "İyi"
    assert names(SourceWords.count(["Bu İzmir"]), "Bu İzmir") == []
    words.save(tmp_path)
    again = SourceWords.load(tmp_path)
    assert again is not None
    assert list(again.counts.items()) == list(words.counts.items())


def test_merged_words_are_those_of_both() -> None:
    merged = SourceWords.merge(
        [SourceWords({"pan": 3, "el": 2}), SourceWords({"pan": 1, "sol": 4})]
    )
    assert merged.counts == {"pan": 4, "sol": 4, "el": 2}


def test_a_folder_without_words_and_a_damaged_file(tmp_path: Path) -> None:
    assert SourceWords.load(tmp_path) is None
    (tmp_path / WORDS_FILE).write_text("pan\tthree\n", encoding="utf-8")
    with pytest.raises(UserError, match="is damaged"):
        SourceWords.load(tmp_path)


def test_the_most_frequent_words_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_words, "MAX_WORDS", 2)
    words = SourceWords.count(["sol pan pan", "pan el", "el"])
    assert words.counts == {"pan": 3, "el": 2}
    assert SourceWords.merge([words, SourceWords({"sol": 4})]).counts == {"sol": 4, "pan": 3}


def test_texts_with_brackets_and_unusual_marks_are_counted(tmp_path: Path) -> None:
    words = SourceWords.count(["(aa) (bb) «c»", "(aa) (bb) «c»", "[dd] (ee)...", "f) don't:"])
    assert words.signs == {"(": 2, "[": 1, "«": 1, ":": 1, "…": 1}
    assert set(words.counts) == {"aa", "bb", "c", "dd", "ee", "f", "don't"}
    SourceWords.merge([words, words]).save(tmp_path)
    loaded = SourceWords.load(tmp_path)
    assert loaded is not None
    assert loaded.signs == {"(": 4, "[": 2, "«": 2, ":": 2, "…": 2}
    assert set(loaded.counts) == {"aa", "bb", "c", "dd", "ee", "f", "don't"}


def test_a_sign_of_many_sources_is_learned() -> None:
    assert SourceWords({}, {"(": 2000}).has_learned("(")
    assert not SourceWords({}, {"(": 1999}).has_learned("(")
    assert not SourceWords({}).has_learned("(")


def test_single_capitals_and_initials_are_names() -> None:
    counts = dict.fromkeys("la vitamina y talla el libro de siglos en tom".split(), 500)
    words = SourceWords({**counts, "tena": 20, "pérez": 20, "método": 20, "garcía": 500})
    for text, names in (
        ("la vitamina A y la talla M", ["A", "M"]),
        ("el libro de J. Pérez", ["J. Pérez"]),
        ("en J. García", []),  # the model knows the name
        ("siglos XV-XVI", ["XV-XVI"]),
        ("la vitamina A, B y C", ["A", "B", "C"]),
        ("la Y Tom", []),
        ("B. Método", []),  # a heading
        ("la talla M. Tena", []),  # a sentence ends
        ("A. B. Pérez", ["A. B. Pérez"]),
        ("el K-pop y la O-. de C++", ["K-pop", "O-"]),  # an unknown word, a blood type
        ("el libro A. de", []),
    ):
        assert [text[begin:end] for begin, end in words.find_names(text, ())] == names


def test_superscripts_are_no_letters_of_words() -> None:
    assert SourceWords.count(["El IVA¹ y m²"]).counts.keys() == {"el", "iva", "y", "m"}
