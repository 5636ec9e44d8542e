"""Expand the patterns of the bilingual grammar into distinct sentence pairs, deterministically.

A pattern has slots, restricted by semantic class, and one template per language. Slots are filled
at random from a seed that belongs to the pattern, so that adding a pattern changes no other.
``data/README.md`` describes slots and expressions.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from generator import spanish
from generator.lexicon import (
    Adjective,
    Noun,
    Phrase,
    Subject,
    Verb,
    Words,
    conjugated,
    inflected,
    load_words,
    read_yaml,
)
from nmt.data.splitting import Pair
from nmt.errors import UserError

Value = Noun | Subject | Verb | Adjective | Phrase
Filling = dict[str, Value]


class PatternError(Exception):
    """An invalid pattern; the message describes the fault."""


# Exceptions that an invalid pattern can raise.
PATTERN_ERRORS = (PatternError, LookupError, AttributeError, TypeError, ValueError, AssertionError)
MAX_MISSES = 100  # consecutive repeated pairs after which a pattern counts as exhausted

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_PRONOUNS = ("me", "te", "se", "nos", "os", "le", "les")


@dataclass(frozen=True)
class Pattern:
    """One sentence with slots."""

    name: str
    slots: dict[str, list[str]]  # name -> kind and its arguments
    es: str
    en: str


def expand(folder: Path, count: int, *, seed: int = 0) -> list[Pair]:
    """Return ``count`` distinct pairs, one from each pattern in turn.

    Args:
        folder: holds nouns.yaml, adjectives.yaml, verbs.yaml, words.yaml and patterns/*.yaml.
        count: number of pairs; fewer are returned if all patterns are exhausted.
        seed: seed of the fillings.

    Raises:
        UserError: a file is missing or malformed, or a pattern is invalid.
    """
    words = load_words(folder)
    streams = [
        (pattern, _stream(pattern, words, f"{seed}/{pattern.name}"))
        for pattern in load_patterns(folder)
    ]
    pairs: dict[Pair, None] = {}
    while streams and len(pairs) < count:
        active = []
        for pattern, stream in streams:
            try:
                pair = next(stream, None)
            except PATTERN_ERRORS as error:
                raise UserError(
                    f"pattern {pattern.name} in {folder / 'patterns'}: {error}"
                ) from error
            if pair is None:
                continue
            active.append((pattern, stream))
            if len(pairs) < count:
                pairs[pair] = None
        streams = active
    return list(pairs)


@cache
def load_patterns(folder: Path) -> tuple[Pattern, ...]:
    """Read all patterns, in the order of their files.

    Raises:
        UserError: a file is malformed, or two patterns share a name.
    """
    patterns: dict[str, Pattern] = {}
    for path in sorted((folder / "patterns").glob("*.yaml")):
        entries = read_yaml(path)
        if not isinstance(entries, list):
            raise UserError(f"{path} is malformed: it must hold a list of patterns")
        for number, entry in enumerate(entries, start=1):
            try:
                slots = {name: kind.split() for name, kind in entry.get("slots", {}).items()}
                pattern = Pattern(entry["name"], slots, entry["es"], entry["en"])
            except (KeyError, AttributeError, TypeError) as error:
                raise UserError(
                    f"{path}: pattern {number} is malformed: it needs name, slots, es and en"
                ) from error
            if pattern.name in patterns:
                raise UserError(f"{path}: a second pattern is called {pattern.name}")
            patterns[pattern.name] = pattern
    return tuple(patterns.values())


def _stream(pattern: Pattern, words: Words, seed: str) -> Iterator[Pair]:
    """Yield the distinct pairs of a pattern."""
    generator = random.Random(seed)
    spanish_side = _compiled(pattern.es, _spanish)
    english_side = _compiled(pattern.en, _english)
    pairs = set()
    misses = 0
    while misses < MAX_MISSES:
        filling = _filled(pattern, words, generator)
        pair = Pair(tidy_spanish(spanish_side(filling)), tidy(english_side(filling)))
        if pair in pairs:
            misses += 1
            continue
        misses = 0
        pairs.add(pair)
        yield pair


# -- slots ---------------------------------------------------------------------------------------


def _filled(pattern: Pattern, words: Words, generator: random.Random) -> Filling:
    filling: Filling = {}
    for slot, (kind, *arguments) in pattern.slots.items():
        pool = _pool(words, kind, tuple(arguments), filling)
        # Two slots of one kind must differ: "Ana waits for Ana" is excluded.
        used_words = {value.en for value in filling.values()}
        for _ in range(20):
            filling[slot] = generator.choice(pool)
            if filling[slot].en not in used_words:
                break
    return filling


def _pool(words: Words, kind: str, arguments: tuple[str, ...], filling: Filling) -> Sequence[Value]:
    """Return the values that may fill a slot."""
    if arguments[:1] == ("of",):
        other = filling[arguments[1]]
        if kind == "noun":
            if not isinstance(other, Verb):
                raise PatternError(f"noun of {arguments[1]}: not a verb")
            arguments = (*other.objects, *arguments[2:])
        else:
            group = "person" if isinstance(other, Subject) else getattr(other, "group", "")
            arguments = (group, *arguments[2:])
    pool = words.pool(kind, arguments)
    if not pool:
        raise PatternError(f"no {kind} of {' '.join(arguments)}")
    return pool


# -- templates -----------------------------------------------------------------------------------

Render = Callable[[Filling], str]


def _compiled(template: str, evaluate: Callable[[str, str, list[str], Filling], str]) -> Render:
    """Turn a template into a function of a filling."""
    parts = _EXPRESSION.split(template)  # literal, expression, literal, …
    expressions = []
    for part in parts[1::2]:
        head, *arguments = part.split()
        name, _, form = head.partition(".")
        expressions.append((name, form, arguments))

    def render(filling: Filling) -> str:
        values = [evaluate(*expression, filling) for expression in expressions]
        return "".join(
            part for pair in zip(parts[::2], [*values, ""], strict=True) for part in pair
        )

    return render


def _spanish(name: str, form: str, arguments: list[str], filling: Filling) -> str:
    if name.startswith("="):  # an adjective given in the template: {=roto o}
        return Adjective.plain(name[1:]).es_form(_agreeing(filling[arguments[0]]))
    value = filling.get(name)
    if isinstance(value, Adjective):
        return value.es_form(_agreeing(filling[arguments[0]]))
    if isinstance(value, Verb) or value is None:
        if not form:
            raise PatternError(f"{{{name}}} is not a slot")
        verb = value.es if value is not None else spanish.Verb.named(name)
        subject, pronouns = _arguments(arguments, filling)
        return conjugated(verb, form, subject, pronouns)
    if isinstance(value, Noun):
        owner, adjective = _modifiers(arguments, filling)
        if form:
            return value.es_form(form, owner, adjective)
        return value.with_adjective(adjective) if adjective else value.es
    if not form:
        return value.es
    if isinstance(value, Subject):
        return value.es_form(form)
    raise PatternError(f"{{{name}.{form}}}: a phrase has no forms")


def _modifiers(arguments: list[str], filling: Filling) -> tuple[Subject | None, Adjective | None]:
    """Return the owner and the adjective that a noun expression names."""
    owner, adjective = None, None
    for argument in arguments:
        value = filling[argument]
        if isinstance(value, Subject):
            owner = value
        elif isinstance(value, Adjective):
            adjective = value
        else:
            raise PatternError(f"{argument} is neither an owner nor an adjective")
    return owner, adjective


def _arguments(names: list[str], filling: Filling) -> tuple[Subject | Noun | None, tuple[str, ...]]:
    """Return the subject and the pronouns that a verb expression names."""
    if not names:
        return None, ()
    subject = None if names[0] == "_" else _agreeing(filling[names[0]])
    pronouns = []
    for name in names[1:]:
        if name in filling:
            pronouns.append(_agreeing(filling[name]).es_form("lo"))
        elif name in _PRONOUNS:
            pronouns.append(name)
        else:
            raise PatternError(f"{name} is neither a slot nor a pronoun")
    if len(pronouns) > 1 and pronouns[0] in ("le", "les"):
        pronouns[0] = "se"
    return subject, tuple(pronouns)


def _agreeing(value: Value) -> Noun | Subject:
    if not isinstance(value, Noun | Subject):
        raise PatternError(f"nothing agrees with {value.en}")
    return value


def _english(name: str, form: str, arguments: list[str], filling: Filling) -> str:
    value = filling.get(name)
    if isinstance(value, Verb) or value is None:
        if not form:
            raise PatternError(f"{{{name}}} is not a slot")
        subject = _agreeing(filling[arguments[0]]) if arguments else None
        return inflected(value.en if value else name.replace("_", " "), form, subject)
    if isinstance(value, Noun):
        owner, adjective = _modifiers(arguments, filling)
        modifier = adjective.en if adjective else ""
        if form:
            return value.en_form(form, owner, modifier)
        return f"{modifier} {value.en}".strip()
    if not form:
        return value.en
    if isinstance(value, Subject | Adjective):
        return value.en_form(form)
    raise PatternError(f"{{{name}.{form}}}: a phrase has no forms")


# -- sentences -----------------------------------------------------------------------------------


def tidy(text: str) -> str:
    """Remove spaces that empty slots left, and begin with a capital."""
    text = _SPACE_BEFORE.sub(r"\1", " ".join(text.split()))
    text = _SPACE_AFTER.sub(r"\1", text)
    start = 1 if text[:1] in "¿¡" else 0
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]


def tidy_spanish(text: str) -> str:
    """Tidy a Spanish sentence: see `tidy`; contract a el and de el."""
    return _CONTRACTION.sub(lambda match: _CONTRACTED[match[1]], tidy(text))


_SPACE_BEFORE = re.compile(r" ([.,;:?!])")
_SPACE_AFTER = re.compile(r"([¿¡]) ")
_CONTRACTION = re.compile(r"\b([Dd]e|[Aa]) el\b")
_CONTRACTED = {"a": "al", "A": "Al", "de": "del", "De": "Del"}
