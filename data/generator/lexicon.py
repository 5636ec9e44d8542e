"""The words of the bilingual grammar, and how each is inflected in its sentence.

Every class here is a value that fills a slot of a pattern. Its forms are looked up by the name a
template uses; `Words` reads them from ``grammar/*.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from generator import english, spanish
from generator.spanish import PERSONS
from nmt.errors import UserError

PEOPLE = frozenset({"relative", "person", "profession"})  # classes of nouns

_ANY = {"m": "o", "f": "a"}


@dataclass(frozen=True)
class Noun:
    """A noun in one number."""

    es: str
    en: str
    gender: str  # m | f
    plural: bool
    mass: bool  # no article, no plural
    stressed_a: bool  # feminine, but "el agua"
    group: str  # its semantic class
    fixed: bool  # has this number only

    @property
    def is_person(self) -> bool:
        """Whether he or she, not it."""
        return self.group in PEOPLE

    def verb_person(self) -> int:
        """Return the person of the verb whose subject it is."""
        return 5 if self.plural else 2

    def agreeing(self, stem: str) -> str:
        """Inflect a determiner in -o: mucho, mucha, muchos, muchas."""
        return stem + _ANY[self.gender] + ("s" if self.plural else "")

    def with_adjective(self, adjective: Adjective) -> str:
        """Return noun and adjective in their order: coche rojo, buen coche."""
        if not adjective.before:
            return f"{self.es} {adjective.es_form(self)}"
        form = adjective.es_form(self)
        if self.gender == "m" and not self.plural:
            form = spanish.before_noun(form)
        return f"{form} {self.es}"

    def es_form(self, form: str, owner: Any = None, adjective: Any = None) -> str:
        """Return the noun with its Spanish determiner, or a pronoun that stands for it."""
        if adjective is not None:
            modified = replace(
                self,
                es=self.with_adjective(adjective),
                stressed_a=self.stressed_a and not adjective.before,  # la buena arpa
            )
            return modified.es_form(form, owner)
        masculine = self.gender == "m" or (self.stressed_a and not self.plural)
        if form == "el":
            if self.plural:
                return ("los " if self.gender == "m" else "las ") + self.es
            return ("el " if masculine else "la ") + self.es
        if form == "un":
            if self.mass:
                return self.es
            if self.plural:
                return ("unos " if self.gender == "m" else "unas ") + self.es
            return ("un " if masculine else "una ") + self.es
        if form in ("este", "ese"):
            base = form[:-1]
            if not self.plural and self.gender == "m":
                return f"{form} {self.es}"
            return f"{self.agreeing(base)} {self.es}"
        if form == "su":
            return f"{owner.es_owner(self)} {self.es}"
        if form == "lo":
            if self.gender == "m":
                return "los" if self.plural else "lo"
            return "las" if self.plural else "la"
        if form in ("algun", "ningun"):
            short = masculine and not self.plural
            return f"{form[:-2] + 'ún' if short else self.agreeing(form)} {self.es}"
        if form in ("cuanto", "mucho", "otro", "tanto"):
            base = {"cuanto": "cuánt"}.get(form, form[:-1])
            return f"{self.agreeing(base)} {self.es}"
        if form == "todo":
            return f"{self.agreeing('tod')} {self.es_form('el')}"
        raise KeyError(form)

    def en_form(self, form: str, owner: Any = None, adjective: str = "") -> str:
        """Return the noun, after an adjective if any, with its English determiner."""
        phrase = f"{adjective} {self.en}".strip()
        uncounted = self.mass or self.plural
        if form == "the":
            return f"the {phrase}"
        if form == "a":
            return f"some {phrase}" if uncounted else f"{english.article(phrase)} {phrase}"
        if form == "any":
            return f"any {phrase}" if uncounted else f"{english.article(phrase)} {phrase}"
        if form in ("this", "that"):
            plural = {"this": "these", "that": "those"}[form]
            return f"{plural if self.plural else form} {phrase}"
        if form == "my":
            return f"{owner.en_owner} {phrase}"
        if form == "it":
            if self.plural:
                return "them"
            return {"m": "him", "f": "her"}[self.gender] if self.is_person else "it"
        if form == "one":
            return "some" if uncounted else "one"
        if form == "much":
            return f"{'many' if self.plural else 'much'} {phrase}"
        if form == "another":
            return f"{'some other' if uncounted else 'another'} {phrase}"
        raise KeyError(form)


@dataclass(frozen=True)
class Subject:
    """Who does it: a pronoun, a name, a relative, a profession, two people."""

    es: str  # empty where Spanish leaves the pronoun out
    en: str
    person: int  # index into PERSONS, of the Spanish verb
    gender: str
    group: str

    @property
    def plural(self) -> bool:
        """Whether adjectives take the plural."""
        return self.person >= 3

    @property
    def is_pronoun(self) -> bool:
        """Whether English contracts it with an auxiliary."""
        return self.en in _OBJECT

    def verb_person(self) -> int:
        """Return the person of its Spanish verb."""
        return self.person

    @property
    def third_singular(self) -> bool:
        """Whether its English verb takes -s."""
        return self.person == 2 and self.en != "you"

    def es_owner(self, owned: Noun) -> str:
        """Return mi, tu, su, nuestra … in agreement with the noun owned."""
        many = "s" if owned.plural else ""
        if self.person in (3, 4):
            return ("nuestr" if self.person == 3 else "vuestr") + _ANY[owned.gender] + many
        return {0: "mi", 1: "tu"}.get(self.person, "su") + many

    @property
    def en_owner(self) -> str:
        """My, your, his …"""
        return _OWNER[self._pronoun]

    @property
    def _pronoun(self) -> str:
        if self.is_pronoun:
            return self.en
        if self.person == 5:
            return "they"
        return "he" if self.gender == "m" else "she"

    def es_form(self, form: str) -> str:
        """Return a Spanish pronoun that stands for it, or the subject after a preposition."""
        if form == "me":
            return spanish.REFLEXIVE[self.person]
        if form == "le":
            return ("me", "te", "le", "nos", "os", "les")[self.person]
        if form == "lo":
            third = _ANY[self.gender].replace("o", "lo").replace("a", "la")
            return ("me", "te", third, "nos", "os", third + "s")[self.person]
        if form == "a":
            return f"a {self.es}" if self.es else ""
        if form == "con":
            if self.person == 3:
                return "con nosotros"
            return {0: "conmigo", 1: "contigo"}.get(self.person, f"con {self.es}")
        raise KeyError(form)

    def en_form(self, form: str) -> str:
        """Return an English pronoun that stands for it, or the subject and its auxiliary."""
        if form == "me":
            return _OBJECT[self._pronoun] if self.is_pronoun else self.en
        if form == "my":
            return self.en_owner
        if form == "myself":
            return "yourselves" if self.group == "ustedes" else _SELF[self._pronoun]
        be = auxiliary("be", "present", self)
        if form == "am":
            return (
                self.en + {"am": "'m", "is": "'s", "are": "'re"}[be]
                if self.is_pronoun
                else (f"{self.en} {be}")
            )
        if form == "am_not":
            return f"{self.en}'m not" if be == "am" else f"{self.en} {be}n't"
        if form == "was":
            return f"{self.en} {auxiliary('be', 'past', self)}"
        auxiliaries = {
            "have": auxiliary("have", "present", self),
            "had": "had",
            "will": "will",
            "would": "would",
        }
        word = auxiliaries[form]
        if not self.is_pronoun:
            return f"{self.en} {word}"
        short = {"have": "'ve", "has": "'s", "had": "'d", "will": "'ll", "would": "'d"}
        return self.en + short[word]


_OBJECT = {"I": "me", "you": "you", "he": "him", "she": "her", "we": "us", "they": "them"}
_OWNER = {"I": "my", "you": "your", "he": "his", "she": "her", "we": "our", "they": "their"}
_SELF = {
    "I": "myself",
    "you": "yourself",
    "he": "himself",
    "she": "herself",
    "we": "ourselves",
    "they": "themselves",
}


def _is_third_singular(subject: Subject | Noun) -> bool:
    return subject.third_singular if isinstance(subject, Subject) else not subject.plural


def auxiliary(verb: str, form: str, subject: Subject | Noun) -> str:
    """Return be, do or have in agreement: am, was, doesn't, hasn't."""
    third = _is_third_singular(subject)
    first = isinstance(subject, Subject) and subject.en == "I"
    table = {
        ("be", "present"): "am" if first else "is" if third else "are",
        ("be", "past"): "was" if first or third else "were",
        ("be", "isnt"): "isn't" if third else "aren't",
        ("be", "wasnt"): "wasn't" if first or third else "weren't",
        ("do", "present"): "does" if third else "do",
        ("have", "present"): "has" if third else "have",
        ("do", "not"): "doesn't" if third else "don't",
        ("have", "not"): "hasn't" if third else "haven't",
    }
    return table[verb, form]


@dataclass(frozen=True)
class Verb:
    """A verb of the lexicon, in both languages."""

    es: spanish.Verb
    en: str
    frame: str
    objects: tuple[str, ...]  # classes of nouns it takes
    dynamic: bool  # whether it takes the progressive


@cache
def conjugated(
    verb: spanish.Verb, form: str, subject: Subject | Noun | None, pronouns: tuple[str, ...]
) -> str:
    """Return a Spanish verb form; ``pronouns`` and the reflexive one are attached."""
    person = 2 if subject is None else subject.verb_person()
    reflexive = [spanish.REFLEXIVE[person]] if verb.reflexive else []
    if form == "participle":
        return verb.participle
    if form == "infinitive":
        return spanish.attach(verb.infinitive, *reflexive, *pronouns)
    if form == "gerund":
        return spanish.attach(verb.gerund, *reflexive, *pronouns)
    if form == "imperative":
        return spanish.attach(verb.imperative(person), *reflexive, *pronouns)
    before = " ".join([*reflexive, *pronouns, ""])
    if form == "prohibition":
        return f"no {before}{verb.conjugate('subjunctive', person)}"
    for name, helper, tense in (
        ("perfect", "haber", "present"),
        ("pluperfect", "haber", "imperfect"),
        ("progressive", "estar", "present"),
        ("was_progressive", "estar", "imperfect"),
    ):
        if form == name:
            rest = verb.participle if helper == "haber" else verb.gerund
            return f"{before}{spanish.Verb(helper).conjugate(tense, person)} {rest}"
    if form == "near_future":
        infinitive = spanish.attach(verb.infinitive, *reflexive, *pronouns)
        return f"{spanish.Verb('ir').conjugate('present', person)} a {infinitive}"
    return before + verb.conjugate(form, person)


def inflected(verb: str, form: str, subject: Subject | Noun | None) -> str:
    """Return an English verb form; present and past agree with the subject."""
    if form == "base":
        return verb
    if form == "ing":
        return english.ing(verb)
    if form == "participle":
        return english.participle(verb)
    assert subject is not None, f"{verb}.{form} needs a subject"
    head, space, rest = verb.partition(" ")
    if head == "be" or (head, form) in (("do", "not"), ("have", "not")):
        return auxiliary(head, form, subject) + space + rest
    if form == "present":
        return english.third_person(verb) if _is_third_singular(subject) else verb
    if form == "past":
        return english.past(verb)
    raise KeyError(form)


@dataclass(frozen=True)
class Adjective:
    """An adjective and the classes of nouns that it fits."""

    es: str
    en: str
    feminine: str
    es_plural: str | None
    en_comparative: str | None
    copula: str  # ser | estar | both
    of: frozenset[str]
    gradable: bool
    before: bool  # whether it stands before its noun

    @classmethod
    def plain(cls, es: str) -> Adjective:
        """Return an adjective of regular inflection, for Spanish alone."""
        return cls(es, "", spanish.feminine(es), None, None, "both", frozenset(), False, False)

    def es_form(self, subject: Subject | Noun) -> str:
        """Return it in agreement."""
        if (
            subject.plural
            and self.es_plural
            and (subject.gender == "m" or self.feminine == self.es)
        ):
            return self.es_plural
        form = self.feminine if subject.gender == "f" else self.es
        return spanish.plural(form) if subject.plural else form

    def en_form(self, form: str) -> str:
        """Return it, compared or not."""
        if form == "er":
            return self.en_comparative or english.comparative(self.en)
        if form == "est":
            return english.superlative(self.en_form("er"))
        raise KeyError(form)


@dataclass(frozen=True)
class Phrase:
    """A fixed expression in both languages."""

    es: str
    en: str


class Words:
    """The lexicon; `pool` returns the words that fit a slot."""

    def __init__(
        self,
        *,
        nouns: list[Noun],
        adjectives: list[Adjective],
        verbs: list[Verb],
        subjects: list[Subject],
        phrases: dict[str, list[Phrase]],
    ) -> None:
        self.nouns = nouns
        self.adjectives = adjectives
        self.verbs = verbs
        self.subjects = subjects
        self.phrases = phrases
        self._pools: dict[tuple[str, tuple[str, ...]], Sequence[Any]] = {}

    def pool(self, kind: str, arguments: tuple[str, ...]) -> Sequence[Any]:
        """Return the words that fit a slot: see ``data/README.md`` for kinds and arguments."""
        key = (kind, arguments)
        if key not in self._pools:
            self._pools[key] = self._find(kind, set(arguments))
        return self._pools[key]

    def _find(self, kind: str, properties: set[str]) -> Sequence[Any]:
        if kind == "noun":
            numbers = {False, True} if "plural" in properties else {"only_plural" in properties}
            return [
                noun
                for noun in self.nouns
                if noun.group in properties and (noun.plural in numbers or noun.fixed)
            ]
        if kind == "adjective":
            copula = properties & {"ser", "estar"}
            classes = properties - {"ser", "estar", "gradable"}
            return [
                adjective
                for adjective in self.adjectives
                if classes & adjective.of
                and (not copula or adjective.copula in copula | {"both"})
                and (adjective.gradable or "gradable" not in properties)
            ]
        if kind == "verb":
            return [
                verb
                for verb in self.verbs
                if verb.frame in properties and (verb.dynamic or "dynamic" not in properties)
            ]
        if kind == "subject":
            groups = set().union(*(_SUBJECT_GROUPS.get(name, {name}) for name in properties))
            groups = groups or _SUBJECT_GROUPS["all"]
            # Every group has the same weight, whatever its size.
            by_group = [[s for s in self.subjects if s.group == group] for group in sorted(groups)]
            most = max((len(group) for group in by_group), default=0)
            return [
                group[i * len(group) // most] for group in by_group if group for i in range(most)
            ]
        if kind == "phrase":
            return [
                phrase for group in sorted(properties) for phrase in self.phrases.get(group, ())
            ]
        return []


_PRONOUN_GROUPS = {"i", "you", "he", "she", "usted", "we", "they", "ustedes"}
_SUBJECT_GROUPS = {
    "all": _PRONOUN_GROUPS | {"name", "relative", "couple"},
    "third": {"he", "she", "they", "name", "relative", "couple"},
    "singular3": {"he", "she", "name", "relative"},
    "second": {"you", "usted", "ustedes"},
}


def read_yaml(path: Path) -> Any:
    """Read a YAML file.

    Raises:
        UserError: it is missing or malformed.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is ten times faster
    try:
        return yaml.load(path.read_text(encoding="utf-8"), loader)
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read: {' '.join(str(error).split())}") from error


@cache
def load_words(folder: Path) -> Words:
    """Read nouns.yaml, adjectives.yaml, verbs.yaml and words.yaml.

    Raises:
        UserError: a file is missing, or an entry is malformed.
    """
    nouns: list[Noun] = []
    with _entries(folder / "nouns.yaml") as groups:
        for group, entries in groups.items():
            for entry in entries:
                nouns += _nouns(group, entry)
    with _entries(folder / "adjectives.yaml") as entries:
        adjectives = [adjective for entry in entries for adjective in _adjectives(entry)]
    with _entries(folder / "verbs.yaml") as entries:
        verbs = [_verb(entry) for entry in entries]
    with _entries(folder / "words.yaml") as words:
        subjects = [
            Subject(e["es"], e["en"], PERSONS.index(e["person"]), _gender(e), group)
            for group, entries in words["subjects"].items()
            for e in entries
        ]
        phrases = {
            group: [Phrase(e["es"], e["en"]) for e in entries]
            for group, entries in words["phrases"].items()
        }
    for noun in nouns:
        if noun.plural:
            continue
        if noun.group == "relative":
            subjects.append(Subject(f"mi {noun.es}", f"my {noun.en}", 2, noun.gender, "relative"))
        elif noun.group == "profession":
            article = noun.es_form("el")
            subjects.append(Subject(article, f"the {noun.en}", 2, noun.gender, "profession"))
    return Words(
        nouns=nouns, adjectives=adjectives, verbs=verbs, subjects=subjects, phrases=phrases
    )


@contextmanager
def _entries(path: Path) -> Iterator[Any]:
    """Read a file of the lexicon; errors in its entries become a `UserError` that names it."""
    content = read_yaml(path)
    try:
        yield content
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path} is malformed: {error!r}") from error


def _gender(entry: dict[str, Any]) -> str:
    gender = entry["gender"]
    if gender not in _ANY:
        raise ValueError(f"the gender of {entry['es']} must be m or f, got {gender}")
    return str(gender)


def _nouns(group: str, entry: dict[str, Any]) -> list[Noun]:
    """Return the singular and the plural of an entry; mass and plural-only nouns are one."""
    mass, plural_only = entry.get("mass", False), entry.get("plural_only", False)
    common: dict[str, Any] = {"gender": _gender(entry), "mass": mass, "group": group}
    common |= {"stressed_a": entry.get("el", False), "fixed": mass or plural_only}
    first = Noun(entry["es"], entry["en"], plural=plural_only, **common)
    if first.fixed:
        return [first]
    es = entry.get("es_plural") or spanish.plural(first.es)
    en = entry.get("en_plural") or english.plural(first.en)
    return [first, Noun(es, en, plural=True, **common)]


def _adjectives(entry: dict[str, Any]) -> list[Adjective]:
    """Return the adjective of an entry, or two if English uses another word for people."""
    of = frozenset(entry["of"])
    adjective = Adjective(
        es=entry["es"],
        en=entry["en"],
        feminine=entry.get("es_f") or spanish.feminine(entry["es"]),
        es_plural=entry.get("es_plural"),
        en_comparative=entry.get("en_comparative"),
        copula=entry["with"],
        of=of,
        gradable=entry.get("comparative", True),
        before=entry.get("before", False),
    )
    if "en_person" not in entry:
        return [adjective]
    return [
        replace(adjective, of=of - PEOPLE),
        replace(adjective, of=of & PEOPLE, en=entry["en_person"]),
    ]


def _verb(entry: dict[str, Any]) -> Verb:
    return Verb(
        es=spanish.Verb.named(entry["es"]),
        en=entry["en"],
        frame=entry["frame"],
        objects=tuple(entry.get("objects", ())),
        dynamic=entry.get("dynamic", True),
    )
