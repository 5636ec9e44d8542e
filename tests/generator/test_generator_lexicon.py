"""The words of the bilingual grammar: agreement, and the form of the files."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from generator import GRAMMAR_DIR, spanish
from generator.lexicon import (
    Adjective,
    Noun,
    Subject,
    Words,
    auxiliary,
    conjugated,
    inflected,
    load_words,
)

from nmt.errors import UserError

pytestmark = pytest.mark.long

FILES = ("nouns", "adjectives", "verbs", "words")


def noun(es: str, en: str, gender: str, **changes: Any) -> Noun:
    common: dict[str, Any] = {"plural": False, "mass": False, "stressed_a": False}
    common |= {"group": "thing", "fixed": False}
    return Noun(es, en, gender, **common | changes)


BOOK, BOOKS = noun("libro", "book", "m"), noun("libros", "books", "m", plural=True)
TABLE, TABLES = noun("mesa", "table", "f"), noun("mesas", "tables", "f", plural=True)
HARP = noun("arpa", "harp", "f", stressed_a=True)
HARPS = noun("arpas", "harps", "f", plural=True, stressed_a=True)
WATER = noun("agua", "water", "f", stressed_a=True, mass=True, fixed=True)
MILK = noun("leche", "milk", "f", mass=True, fixed=True)
SISTER = noun("hermana", "sister", "f", group="relative")
BROTHERS = noun("hermanos", "brothers", "m", plural=True, group="relative")

I = Subject("", "I", 0, "m", "i")  # noqa: E741
YOU = Subject("", "you", 1, "m", "you")
HE = Subject("él", "he", 2, "m", "he")
SHE = Subject("ella", "she", 2, "f", "she")
USTED = Subject("usted", "you", 2, "m", "usted")
WE = Subject("", "we", 3, "m", "we")
THEY = Subject("ellos", "they", 5, "m", "they")
WOMEN = Subject("ellas", "they", 5, "f", "they")
USTEDES = Subject("ustedes", "you", 5, "m", "ustedes")
ANA = Subject("Ana", "Ana", 2, "f", "name")
PEDRO = Subject("Pedro", "Pedro", 2, "m", "name")
COUPLE = Subject("Ana y Luis", "Ana and Luis", 5, "m", "couple")


def name_of(value: object) -> str | None:
    return value.en if isinstance(value, Subject) else None


def adjective(es: str, en: str, **changes: Any) -> Adjective:
    return replace(Adjective.plain(es), en=en, **changes)


NEW = adjective("nuevo", "new")
GREEN = adjective("verde", "green")
GOOD = adjective("bueno", "good", before=True)
YOUNG = adjective("joven", "young", es_plural="jóvenes")


# -- nouns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("el", "el libro|los libros|la mesa|las mesas|el arpa|las arpas|el agua"),
        ("un", "un libro|unos libros|una mesa|unas mesas|un arpa|unas arpas|agua"),
        ("este", "este libro|estos libros|esta mesa|estas mesas|esta arpa|estas arpas|esta agua"),
        ("ese", "ese libro|esos libros|esa mesa|esas mesas|esa arpa|esas arpas|esa agua"),
        ("lo", "lo|los|la|las|la|las|la"),
        ("mucho", "mucho libro|muchos libros|mucha mesa|muchas mesas|mucha arpa|muchas arpas|"
         "mucha agua"),
        ("otro", "otro libro|otros libros|otra mesa|otras mesas|otra arpa|otras arpas|otra agua"),
        ("tanto", "tanto libro|tantos libros|tanta mesa|tantas mesas|tanta arpa|tantas arpas|"
         "tanta agua"),
        ("cuanto", "cuánto libro|cuántos libros|cuánta mesa|cuántas mesas|cuánta arpa|"
         "cuántas arpas|cuánta agua"),
        ("todo", "todo el libro|todos los libros|toda la mesa|todas las mesas|toda el arpa|"
         "todas las arpas|toda el agua"),
        ("algun", "algún libro|algunos libros|alguna mesa|algunas mesas|algún arpa|algunas arpas|"
         "algún agua"),
        ("ningun", "ningún libro|ningunos libros|ninguna mesa|ningunas mesas|ningún arpa|"
         "ningunas arpas|ningún agua"),
    ],
)  # fmt: skip
def test_spanish_determiners(form: str, expected: str) -> None:
    nouns = (BOOK, BOOKS, TABLE, TABLES, HARP, HARPS, WATER)
    assert [noun.es_form(form) for noun in nouns] == expected.split("|")


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("the", "the book|the books|the water"),
        ("a", "a book|some books|some water"),
        ("any", "a book|any books|any water"),
        ("this", "this book|these books|this water"),
        ("that", "that book|those books|that water"),
        ("it", "it|them|it"),
        ("one", "one|some|some"),
        ("much", "much book|many books|much water"),
        ("another", "another book|some other books|some other water"),
    ],
)
def test_english_determiners(form: str, expected: str) -> None:
    assert [noun.en_form(form) for noun in (BOOK, BOOKS, WATER)] == expected.split("|")


def test_persons_are_he_and_she() -> None:
    assert SISTER.en_form("it") == "her"
    assert BROTHERS.en_form("it") == "them"
    assert replace(SISTER, gender="m").en_form("it") == "him"


@pytest.mark.parametrize(
    ("owner", "spanish_side", "english_side"),
    [
        (I, "mi libro|mis libros|mi mesa|mis mesas", "my"),
        (YOU, "tu libro|tus libros|tu mesa|tus mesas", "your"),
        (HE, "su libro|sus libros|su mesa|sus mesas", "his"),
        (ANA, "su libro|sus libros|su mesa|sus mesas", "her"),
        (PEDRO, "su libro|sus libros|su mesa|sus mesas", "his"),
        (USTED, "su libro|sus libros|su mesa|sus mesas", "your"),
        (WE, "nuestro libro|nuestros libros|nuestra mesa|nuestras mesas", "our"),
        (WOMEN, "su libro|sus libros|su mesa|sus mesas", "their"),
        (COUPLE, "su libro|sus libros|su mesa|sus mesas", "their"),
        (USTEDES, "su libro|sus libros|su mesa|sus mesas", "your"),
    ],
    ids=name_of,
)
def test_owners(owner: Subject, spanish_side: str, english_side: str) -> None:
    nouns = (BOOK, BOOKS, TABLE, TABLES)
    assert [noun.es_form("su", owner) for noun in nouns] == spanish_side.split("|")
    assert [noun.en_form("my", owner) for noun in nouns] == [
        f"{english_side} {noun.en}" for noun in nouns
    ]


def test_english_article_heeds_the_adjective() -> None:
    assert noun("manzana", "apple", "f").en_form("a", None, "red") == "a red apple"
    assert BOOK.en_form("a", None, "interesting") == "an interesting book"
    assert noun("paraguas", "umbrella", "m").en_form("a", None, "useful") == "a useful umbrella"


# -- adjectives ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (NEW, "el libro nuevo|los libros nuevos|la mesa nueva|las mesas nuevas"),
        (GREEN, "el libro verde|los libros verdes|la mesa verde|las mesas verdes"),
        (GOOD, "el buen libro|los buenos libros|la buena mesa|las buenas mesas"),
        (YOUNG, "el libro joven|los libros jóvenes|la mesa joven|las mesas jóvenes"),
    ],
    ids=["nuevo", "verde", "bueno", "joven"],
)
def test_adjectives_agree(word: Adjective, expected: str) -> None:
    nouns = (BOOK, BOOKS, TABLE, TABLES)
    assert [noun.es_form("el", None, word) for noun in nouns] == expected.split("|")


def test_adjectives_agree_with_subjects() -> None:
    subjects = (I, ANA, WE, WOMEN, COUPLE)
    forms = [NEW.es_form(subject) for subject in subjects]
    assert forms == ["nuevo", "nueva", "nuevos", "nuevas", "nuevos"]


def test_el_agua_but_la_buena_agua() -> None:
    """The article is el only where the stressed a follows at once."""
    cold = adjective("frío", "cold")
    assert WATER.es_form("el", None, cold) == "el agua fría"
    assert HARP.es_form("un", None, NEW) == "un arpa nueva"
    assert HARP.es_form("el", None, GOOD) == "la buena arpa"
    assert HARP.es_form("un", None, GOOD) == "una buena arpa"
    assert HARPS.es_form("el", None, GOOD) == "las buenas arpas"


def test_owners_and_adjectives_together() -> None:
    assert TABLE.es_form("su", WE, NEW) == "nuestra mesa nueva"
    assert BOOK.es_form("su", I, GOOD) == "mi buen libro"
    assert TABLE.en_form("my", WE, "new") == "our new table"


# -- subjects ------------------------------------------------------------------------------------

# am, am_not, was, have, had, will, would
CONTRACTIONS = [
    (I, "I'm|I'm not|I was|I've|I'd|I'll|I'd"),
    (YOU, "you're|you aren't|you were|you've|you'd|you'll|you'd"),
    (HE, "he's|he isn't|he was|he's|he'd|he'll|he'd"),
    (SHE, "she's|she isn't|she was|she's|she'd|she'll|she'd"),
    (USTED, "you're|you aren't|you were|you've|you'd|you'll|you'd"),
    (WE, "we're|we aren't|we were|we've|we'd|we'll|we'd"),
    (THEY, "they're|they aren't|they were|they've|they'd|they'll|they'd"),
    (ANA, "Ana is|Ana isn't|Ana was|Ana has|Ana had|Ana will|Ana would"),
    (
        COUPLE,
        "Ana and Luis are|Ana and Luis aren't|Ana and Luis were|Ana and Luis have|"
        "Ana and Luis had|Ana and Luis will|Ana and Luis would",
    ),
]


@pytest.mark.parametrize(("subject", "expected"), CONTRACTIONS, ids=name_of)
def test_english_contractions(subject: Subject, expected: str) -> None:
    forms = ("am", "am_not", "was", "have", "had", "will", "would")
    assert [subject.en_form(form) for form in forms] == expected.split("|")


# me, my, myself
@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (I, "me my myself"),
        (YOU, "you your yourself"),
        (HE, "him his himself"),
        (SHE, "her her herself"),
        (WE, "us our ourselves"),
        (THEY, "them their themselves"),
        (USTED, "you your yourself"),
        (USTEDES, "you your yourselves"),
        (ANA, "Ana her herself"),
        (PEDRO, "Pedro his himself"),
    ],
    ids=name_of,
)
def test_english_pronouns(subject: Subject, expected: str) -> None:
    assert [subject.en_form(form) for form in ("me", "my", "myself")] == expected.split()


# me, le, lo, a, con
@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (I, "me|me|me||conmigo"),
        (YOU, "te|te|te||contigo"),
        (HE, "se|le|lo|a él|con él"),
        (SHE, "se|le|la|a ella|con ella"),
        (USTED, "se|le|lo|a usted|con usted"),
        (WE, "nos|nos|nos||con nosotros"),
        (THEY, "se|les|los|a ellos|con ellos"),
        (WOMEN, "se|les|las|a ellas|con ellas"),
        (ANA, "se|le|la|a Ana|con Ana"),
        (COUPLE, "se|les|los|a Ana y Luis|con Ana y Luis"),
    ],
    ids=name_of,
)
def test_spanish_pronouns(subject: Subject, expected: str) -> None:
    forms = ("me", "le", "lo", "a", "con")
    assert [subject.es_form(form) for form in forms] == expected.split("|")


def test_unknown_forms_are_refused() -> None:
    for value in (BOOK, ANA, NEW):
        with pytest.raises(KeyError):
            value.en_form("nonsense")
    for speaker in (BOOK, ANA):
        with pytest.raises(KeyError):
            speaker.es_form("nonsense")


# -- verbs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "form", "subject", "pronouns", "expected"),
    [
        ("comer", "present", I, "", "como"),
        ("comer", "perfect", WE, "", "hemos comido"),
        ("escribir", "pluperfect", THEY, "", "habían escrito"),
        ("leer", "progressive", ANA, "", "está leyendo"),
        ("dormir", "was_progressive", COUPLE, "", "estaban durmiendo"),
        ("comprar", "near_future", YOU, "", "vas a comprar"),
        ("comprar", "near_future", YOU, "lo", "vas a comprarlo"),
        ("comprar", "preterite", HE, "lo", "lo compró"),
        ("comprar", "perfect", HE, "me lo", "me lo ha comprado"),
        ("comprar", "gerund", HE, "lo", "comprándolo"),
        ("comprar", "imperative", YOU, "lo", "cómpralo"),
        ("comprar", "imperative", USTED, "lo", "cómprelo"),
        ("comprar", "prohibition", YOU, "lo", "no lo compres"),
        ("traer", "imperative", USTED, "me lo", "tráigamelo"),
        ("levantarse", "present", I, "", "me levanto"),
        ("levantarse", "perfect", WE, "", "nos hemos levantado"),
        ("levantarse", "progressive", THEY, "", "se están levantando"),
        ("levantarse", "near_future", I, "", "voy a levantarme"),
        ("levantarse", "infinitive", WE, "", "levantarnos"),
        ("levantarse", "infinitive", None, "", "levantarse"),
        ("levantarse", "gerund", YOU, "", "levantándote"),
        ("levantarse", "imperative", YOU, "", "levántate"),
        ("levantarse", "imperative", USTEDES, "", "levántense"),
        ("levantarse", "prohibition", YOU, "", "no te levantes"),
        ("irse", "preterite", SHE, "", "se fue"),
        ("irse", "imperative", YOU, "", "vete"),
        ("llegar", "past_subjunctive", WE, "", "llegáramos"),
        ("estar", "imperfect", TABLES, "", "estaban"),
        ("abrir", "participle", None, "", "abierto"),
    ],
)
def test_spanish_verbs(
    verb: str, form: str, subject: Subject | Noun | None, pronouns: str, expected: str
) -> None:
    pronoun_list = tuple(pronouns.split())
    assert conjugated(spanish.Verb.named(verb), form, subject, pronoun_list) == expected


@pytest.mark.parametrize(
    ("verb", "form", "subject", "expected"),
    [
        ("eat", "base", None, "eat"),
        ("eat", "ing", None, "eating"),
        ("eat", "participle", None, "eaten"),
        ("eat", "present", I, "eat"),
        ("eat", "present", ANA, "eats"),
        ("eat", "present", USTED, "eat"),
        ("eat", "present", COUPLE, "eat"),
        ("cost", "present", BOOK, "costs"),
        ("cost", "present", BOOKS, "cost"),
        ("smell", "present", MILK, "smells"),
        ("eat", "past", THEY, "ate"),
        ("be", "present", I, "am"),
        ("be", "present", BOOKS, "are"),
        ("be", "past", USTED, "were"),
        ("be", "past", I, "was"),
        ("be", "isnt", BOOK, "isn't"),
        ("be", "wasnt", WE, "weren't"),
        ("be able", "present", SHE, "is able"),
        ("do", "not", HE, "doesn't"),
        ("do", "not", THEY, "don't"),
        ("do", "present", HE, "does"),
        ("do", "past", HE, "did"),
        ("have", "not", ANA, "hasn't"),
        ("have", "not", YOU, "haven't"),
        ("get up", "present", ANA, "gets up"),
        ("look for", "past", ANA, "looked for"),
    ],
)
def test_english_verbs(verb: str, form: str, subject: Subject | Noun | None, expected: str) -> None:
    assert inflected(verb, form, subject) == expected


def test_auxiliaries_agree_with_nouns() -> None:
    assert [auxiliary("be", "present", noun) for noun in (BOOK, BOOKS)] == ["is", "are"]
    assert [auxiliary("have", "not", noun) for noun in (BOOK, BOOKS)] == ["hasn't", "haven't"]


# -- the files -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words() -> Words:
    return load_words(GRAMMAR_DIR)


@cache
def entries(name: str) -> Any:
    return yaml.safe_load((GRAMMAR_DIR / f"{name}.yaml").read_text(encoding="utf-8"))


def noun_entries() -> Iterator[tuple[str, dict[str, Any]]]:
    for group, members in entries("nouns").items():
        for entry in members:
            yield group, entry


def phrase_entries() -> Iterator[tuple[str, dict[str, Any]]]:
    for group, members in entries("words")["phrases"].items():
        for entry in members:
            yield group, entry


def test_the_lexicon_is_large(words: Words) -> None:
    assert len({entry["es"] for _, entry in noun_entries()}) >= 400
    assert len({verb.es for verb in words.verbs}) >= 120
    assert len({adjective.es for adjective in words.adjectives}) >= 120
    assert len(words.subjects) >= 60
    assert sum(map(len, words.phrases.values())) >= 500


def test_there_are_enough_patterns() -> None:
    names = [
        entry["name"]
        for path in sorted((GRAMMAR_DIR / "patterns").glob("*.yaml"))
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))
    ]
    assert len(set(names)) == len(names)
    assert len(names) >= 120


def test_no_entry_has_a_key_that_nothing_reads() -> None:
    keys = {
        "nouns": {"es", "en", "gender", "mass", "plural_only", "el", "es_plural", "en_plural"},
        "adjectives": {
            *("es", "en", "with", "of", "es_f", "es_plural", "en_comparative", "en_person"),
            *("comparative", "before"),
        },
        "verbs": {"es", "en", "frame", "objects", "dynamic"},
        "words": {"es", "en"},
    }
    entries_by_file = {
        "nouns": [entry for _, entry in noun_entries()],
        "adjectives": entries("adjectives"),
        "verbs": entries("verbs"),
        "words": [entry for _, entry in phrase_entries()],
    }
    for name, members in entries_by_file.items():
        for entry in members:
            assert set(entry) <= keys[name], f"{name}: {entry}"


def test_texts_are_clean() -> None:
    members = [entry for _, entry in [*noun_entries(), *phrase_entries()]]
    for entry in [*members, *entries("adjectives"), *entries("verbs")]:
        for key in ("es", "en"):
            text = entry[key]
            assert isinstance(text, str), entry
            assert text == " ".join(text.split()) != "", entry
            assert text == unicodedata.normalize("NFC", text), entry
            assert not set(text) & set("{}|_\t"), entry


# Nouns whose ending belies their gender.
MASCULINE_IN_A = {
    *("día", "mapa", "planeta", "sofá", "papá", "mañana", "yoga", "paraguas", "microondas"),
    *("problema", "programa", "tema", "sistema", "idioma", "clima", "poema", "drama", "tranvía"),
    *("panorama", "diploma", "crucigrama", "pijama", "policía", "guardia", "guía"),
}
FEMININE_IN_O = {"mano", "foto", "moto", "radio"}


def test_genders_are_plausible() -> None:
    for group, entry in noun_entries():
        where = f"{group}: {entry}"
        assert entry["gender"] in ("m", "f"), where
        head = entry["es"].split()[0].removesuffix("s")
        if re.search("(ción|sión|dad|tad|tud|eza|ncia)$", head):
            assert entry["gender"] == "f", where
        elif head.endswith("a") or entry["es"] in MASCULINE_IN_A:
            exception = {entry["es"], head} & MASCULINE_IN_A or head.endswith("ista")
            assert entry["gender"] == "f" or exception, where
        elif head.endswith(("o", "aje", "or")):
            exception = head in FEMININE_IN_O or head in ("flor", "labor")
            assert (entry["gender"] == "f") == bool(exception), where


def test_feminine_nouns_in_stressed_a_say_so() -> None:
    """El agua, el aula: without the mark it would be "la agua"."""
    stressed = {"agua", "águila", "aula", "arpa", "alma", "arma", "área", "hambre", "hacha", "ala"}
    for group, entry in noun_entries():
        assert entry.get("el", False) == (entry["es"] in stressed), f"{group}: {entry}"


def test_classes_exist(words: Words) -> None:
    groups = {noun.group for noun in words.nouns}
    for word in words.adjectives:
        assert word.of, word
        assert word.of <= groups, f"{word.es}: {word.of - groups}"
        assert word.copula in ("ser", "estar", "both"), word
    for verb in words.verbs:
        assert set(verb.objects) <= groups, f"{verb.es.infinitive}: {set(verb.objects) - groups}"
        assert bool(verb.objects) == (verb.frame == "transitive"), verb


def test_verbs_are_infinitives(words: Words) -> None:
    for verb in words.verbs:
        assert re.fullmatch(r"\w+[aeií]r|ir", verb.es.infinitive), verb
        assert not verb.en.startswith("to "), verb


def test_no_entry_stands_twice(words: Words) -> None:
    def check(items: list[Any]) -> None:
        assert not [item for item, count in Counter(items).items() if count > 1]

    check([(group, entry["es"], entry["en"]) for group, entry in noun_entries()])
    check([(word.es, word.en, word.copula) for word in words.adjectives if not word.of & {"body"}])
    check([(verb.es, verb.en, verb.frame) for verb in words.verbs])
    check([(group, entry["es"], entry["en"]) for group, entry in phrase_entries()])


# Plurals that no rule of the code gives, in case the lexicon has the word.
PLURALS = {
    "joven": "jóvenes",
    "examen": "exámenes",
    "imagen": "imágenes",
    "origen": "orígenes",
    "orden": "órdenes",
    "crimen": "crímenes",
    "volumen": "volúmenes",
    "margen": "márgenes",
    "virgen": "vírgenes",
    "carácter": "caracteres",
    "régimen": "regímenes",
    "menú": "menús",
    "champú": "champús",
    "jersey": "jerséis",
    "país": "países",
    "paraguas": "paraguas",
    "lavaplatos": "lavaplatos",
    "microondas": "microondas",
    "autobús": "autobuses",
    "gris": "grises",
    "común": "comunes",
}
ENGLISH_PLURALS = {
    **{"man": "men", "woman": "women", "person": "people", "child": "children", "foot": "feet"},
    **{"tooth": "teeth", "mouse": "mice", "goose": "geese", "sheep": "sheep", "fish": "fish"},
    **{"knife": "knives", "wife": "wives", "wolf": "wolves", "leaf": "leaves", "shelf": "shelves"},
    **{"half": "halves", "loaf": "loaves", "scarf": "scarves", "stomach": "stomachs"},
    **{"piano": "pianos", "radio": "radios", "photo": "photos", "video": "videos"},
    **{"avocado": "avocados", "burrito": "burritos", "casino": "casinos", "studio": "studios"},
    **{"potato": "potatoes", "tomato": "tomatoes", "deer": "deer", "series": "series"},
}


def test_irregular_plurals(words: Words) -> None:
    singular: Noun | None = None
    for word in words.nouns:
        if word.plural and not word.fixed:
            assert singular is not None
            head, _, last = singular.en.rpartition(" ")
            if singular.es in PLURALS:
                assert word.es == PLURALS[singular.es]
            if last in ENGLISH_PLURALS:
                assert word.en == f"{head} {ENGLISH_PLURALS[last]}".strip()
        singular = word


def test_adjectives_have_their_plurals(words: Words) -> None:
    for word in words.adjectives:
        if word.es in PLURALS:
            assert word.es_form(BOOKS) == PLURALS[word.es]
        if word.feminine in PLURALS:
            assert word.es_form(TABLES) == PLURALS[word.feminine]


def test_comparison_is_plausible(words: Words) -> None:
    """-er for short words only; the superlative follows the comparative."""
    long = "(able|ible|ous|ful|less|ive|al|ing|ed|ant|ent|ic)$"
    wrong: list[tuple[str, ...]] = []
    for word in words.adjectives:
        if not word.gradable:
            continue
        comparative, superlative = word.en_form("er"), word.en_form("est")
        if re.search(long, word.en) and not comparative.startswith(("more ", "better-")):
            wrong.append((word.en, comparative))
        expected = {"better": "best", "worse": "worst"}.get(comparative, "")
        if comparative.startswith(("more ", "better-")):
            expected = comparative.replace("more ", "most ").replace("better-", "best-")
        expected = expected or re.sub("er$", "est", comparative)
        if superlative != expected:
            wrong.append((word.en, comparative, superlative))
    assert wrong == []


# Verbs that the code must know if the grammar uses them: base, past, participle.
IRREGULAR = """
    arise arose arisen, bend bent bent, bet bet bet, bite bit bitten, bleed bled bled
    blow blew blown, burn burned burned, deal dealt dealt, dig dug dug, dream dreamed dreamed
    fight fought fought, fit fit fit, forgive forgave forgiven, freeze froze frozen
    hang hung hung, hit hit hit, hold held held, lay laid laid, lead led led, let let let
    light lit lit, mean meant meant, quit quit quit, ring rang rung, rise rose risen
    set set set, shake shook shaken, shine shone shone, shoot shot shot, shut shut shut
    sink sank sunk, split split split, spread spread spread, stand stood stood, stick stuck stuck
    sweep swept swept, swear swore sworn, tear tore torn, upset upset upset
"""


def test_english_verbs_are_known(words: Words) -> None:
    irregular = {}
    for line in IRREGULAR.strip().replace("\n", ",").split(","):
        base, past, participle = line.split()
        irregular[base] = (past, participle)
    for verb in words.verbs:
        head, _, rest = verb.en.partition(" ")
        if head in irregular:
            forms = (inflected(verb.en, "past", I), inflected(verb.en, "participle", None))
            assert forms == tuple(f"{form} {rest}".strip() for form in irregular[head])


# -- pools ---------------------------------------------------------------------------------------


def test_pools_of_nouns(words: Words) -> None:
    singulars = words.pool("noun", ("vehicle",))
    both = words.pool("noun", ("vehicle", "plural"))
    plurals = words.pool("noun", ("vehicle", "only_plural"))
    assert singulars
    assert not any(noun.plural for noun in singulars)
    assert all(noun.plural for noun in plurals)
    assert {*singulars, *plurals} == set(both)
    assert {noun.group for noun in both} == {"vehicle"}
    trousers = [noun for noun in words.pool("noun", ("clothes",)) if noun.plural]
    assert all(noun.fixed for noun in trousers)


def test_pools_of_adjectives(words: Words) -> None:
    states = words.pool("adjective", ("shop", "estar"))
    assert "cerrado" in {word.es for word in states}
    assert {word.copula for word in states} <= {"estar", "both"}
    assert all("shop" in word.of for word in states)
    assert all(word.gradable for word in words.pool("adjective", ("shop", "gradable")))
    assert {word.copula for word in words.pool("adjective", ("fruit",))} == {"ser", "estar", "both"}


def test_pools_of_verbs(words: Words) -> None:
    assert {verb.frame for verb in words.pool("verb", ("activity", "routine"))} == {
        "activity",
        "routine",
    }
    assert all(verb.dynamic for verb in words.pool("verb", ("transitive", "dynamic")))


def test_pools_of_subjects(words: Words) -> None:
    assert {subject.en for subject in words.pool("subject", ("second",))} == {"you"}
    assert {s.person for s in words.pool("subject", ("singular3",))} == {2}
    assert {s.person for s in words.pool("subject", ())} == {0, 1, 2, 3, 5}
    assert words.pool("subject", ()) == words.pool("subject", ("all",))


def test_groups_of_subjects_weigh_the_same(words: Words) -> None:
    groups = [subject.group for subject in words.pool("subject", ("he", "name"))]
    assert groups.count("he") == groups.count("name")


def test_unknown_kinds_give_nothing(words: Words) -> None:
    for kind in ("noun", "adjective", "verb", "phrase", "subject"):
        assert list(words.pool(kind, ("nonsense",))) == []
    assert list(words.pool("adverb", ("all",))) == []


# -- invalid files -------------------------------------------------------------------------------


SUBJECT = "subjects: {i: [{es: '', en: I, person: 1s, gender: m}]}"
TINY = {
    "nouns": "thing: [{es: llave, en: key, gender: f}]",
    "adjectives": "- {es: rojo, en: red, with: ser, of: [thing]}",
    "verbs": "- {es: comer, en: eat, frame: activity}",
    "words": f"{SUBJECT}\nphrases: {{now: [{{es: ahora, en: now}}]}}",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a tiny lexicon that a test may spoil."""
    for name, text in TINY.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_tiny_lexicon_is_read(folder: Path) -> None:
    words = load_words(folder)
    assert [(noun.es, noun.plural) for noun in words.nouns] == [("llave", False), ("llaves", True)]
    assert [word.feminine for word in words.adjectives] == ["roja"]
    assert [verb.es.infinitive for verb in words.verbs] == ["comer"]
    assert [subject.en for subject in words.subjects] == ["I"]
    assert [phrase.en for phrase in words.phrases["now"]] == ["now"]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / f"{name}.yaml").unlink()
    with pytest.raises(UserError, match=rf"{name}\.yaml"):
        load_words(folder)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("text", ["a: [", "", "just words", "- 1\n- 2", "a: 1"])
def test_a_malformed_file_is_named(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=rf"{name}\.yaml"):
        load_words(folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nouns", "thing: [{es: llave, en: key}]"),
        ("nouns", "thing: [{es: llave, gender: f}]"),
        ("nouns", "thing: [{en: key, gender: f}]"),
        ("nouns", "thing: [llave]"),
        ("nouns", "thing: [{es: 5, en: key, gender: f}]"),
        ("nouns", "thing: [{es: llave, en: key, gender: n}]"),
        ("adjectives", "- {es: rojo, en: red, of: [thing]}"),
        ("adjectives", "- {es: rojo, en: red, with: ser}"),
        ("adjectives", "- {en: red, with: ser, of: [thing]}"),
        ("adjectives", "- rojo"),
        ("verbs", "- {es: comer, en: eat}"),
        ("verbs", "- {en: eat, frame: activity}"),
        ("verbs", "- comer"),
        ("words", "subjects: {i: [{es: '', en: I, gender: m}]}\nphrases: {}"),
        ("words", "subjects: {i: [{es: '', en: I, person: 9s, gender: m}]}\nphrases: {}"),
        ("words", f"{SUBJECT}\nphrases: {{now: [{{es: ahora}}]}}"),
        ("words", f"{SUBJECT}\nphrases: {{now: [ahora]}}"),
        ("words", SUBJECT),
        ("words", "phrases: {}"),
    ],
)
def test_a_malformed_entry_is_refused(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=rf"{name}\.yaml"):
        load_words(folder)
