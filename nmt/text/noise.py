"""Training pairs as careless writers and other programs would write them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from unicodedata import normalize

from nmt.text.scripts import UNSPACED, UNSPACED_LETTERS, primary_subtag
from nmt.text.spans import ANY_SLOT

Pair = tuple[str, str]  # source and target

_FINAL = ".!?…。！？؟۔"
_OPENING = "¿¡"
_DOUBLED = re.compile(r"([!?！？؟]+|[.。])(?=\s*$)")
_QUOTES = ("«{}»", '"{}"', "“{}”")
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SLANT = 0.6  # keys by which a row is shifted against the one above it
_MIN_LETTERS = 4  # of a word with a typing error
_BESIDE_RATE = 0.35  # of pairs with a slot: one more beside the sentence
_TAGGED_RATE = 0.25  # of words: between two slots, as between tags, and not replaced by one
_LATER_RATE = 0.3  # of pairs: their slots are not the first ones
_QUOTED_RATE = 0.1  # of slots
# A slot beside a sentence: its body, and the marks at its end.
_BESIDE = (
    *("{slot} {text}", "{slot}: {text}", "{body} {slot}{end}", "{body} {slot}{end}"),
    *("{body}: {slot}{end}", "{text} {slot}"),
)
# Scripts without spaces are typed by the sound of words, and have other errors.
_TYPING = re.compile(rf"[^\W\d_{UNSPACED_LETTERS}]{{{_MIN_LETTERS},}}")
_WORD = re.compile(r"[^\W\d_]+")
_WRITTEN_WORD = re.compile(r"\w[\w'’]*")  # such as don't and 2nd
# The space, perhaps after a colon, between a slot and a letter or mark of an unspaced script.
_LOOSE = re.compile(f"(?<={UNSPACED}):? (?={ANY_SLOT})|(?<={ANY_SLOT}):? (?={UNSPACED})")
_NAME = re.compile(r"(?<![\w’'-])[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ]{2,}(?![\w’-])")
# Words that a number could replace on both sides, in the same order in every language.
_NUMBER_WORDS = {
    "es": "dos tres cuatro cinco seis siete ocho nueve diez once doce quince veinte treinta",
    "en": "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty",
    "pt": "dois três quatro cinco seis sete oito nove dez onze doze quinze vinte trinta",
    "fr": "deux trois quatre cinq six sept huit neuf dix onze douze quinze vingt trente",
    "it": "due tre quattro cinque sei sette otto nove dieci undici dodici quindici venti trenta",
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf fünfzehn zwanzig dreißig",
}


def remove_accents(text: str, rng: random.Random) -> str:
    """Return a text without accents; ``ñ`` becomes ``n``."""
    if text.isascii():
        return text
    # The marks that Latin, Greek and Cyrillic letters carry; others, such as vowel signs, stay. The
    # breve of й stays, too: nobody writes и in its place.
    return normalize("NFC", re.sub("(?<![иИ])[\u0300-\u036f]", "", normalize("NFD", text)))


def change_punctuation(text: str, rng: random.Random) -> str:
    """Return a text without its opening, final or all marks, or with doubled final ones.

    A text of marks alone stays.
    """
    original, way = text, rng.random()
    if way < 0.15:
        return _DOUBLED.sub(lambda match: match[1][0] * rng.randint(2, 4), text)
    if way < 0.9:
        text = text.translate(dict.fromkeys(map(ord, _OPENING)))
    if way > 0.35:
        text = text.rstrip(_FINAL)
    if way > 0.7:
        text = re.sub(r"[,;:](?=\s)", "", text)
    return text.strip() or original


def _list_neighbors() -> dict[str, str]:
    """Return the keys beside each key of a keyboard."""
    places = {
        key: (row, column + row * _SLANT)
        for row, keys in enumerate(_KEYS)
        for column, key in enumerate(keys)
    }
    return {
        key: "".join(
            other
            for other, (other_row, other_column) in places.items()
            if other != key and abs(row - other_row) <= 1 and abs(column - other_column) <= 1
        )
        for key, (row, column) in places.items()
    }


KEY_NEIGHBORS = _list_neighbors()


def make_typo(text: str, rng: random.Random) -> str:
    """Return a text with one typing error, in a word of four letters or more, if it has one."""
    words = list(_TYPING.finditer(text))
    if not words:
        return text
    word = rng.choice(words)
    at = rng.randrange(word.start(), word.end() - 1)
    pair, rest = text[at : at + 2], text[at + 2 :]
    kind = rng.randrange(4)
    if kind == 0:
        pair = pair[::-1]
    elif kind == 1:
        pair = pair[0]
    elif kind == 2:
        pair = pair[0] + pair
    else:
        pair = rng.choice(KEY_NEIGHBORS.get(pair[0].lower(), pair[0])) + pair[1]
    return text[:at] + pair + rest


def change_case(text: str, rng: random.Random) -> str:
    """Return a text in capitals, in title case or in lower case."""
    return rng.choice((str.upper, _capitalize_words, str.lower))(text)


def _capitalize_words(text: str) -> str:
    return _WRITTEN_WORD.sub(lambda match: match[0].capitalize(), text)


class TextNoise:
    """Changes the text of training pairs.

    Args:
        slots: that the tokenizer reserves; none: spans are left as they are.
        languages: of source and target, BCP 47 tags.
    """

    def __init__(self, slots: Sequence[str], languages: tuple[str, str]) -> None:
        self._slots = slots
        words = [_NUMBER_WORDS.get(primary_subtag(name), "") for name in languages]
        self._numbers = dict(zip(*(text.split() for text in words), strict=False))

    def change(self, source: str, target: str, kinds: Collection[str], rng: random.Random) -> Pair:
        """Return a pair with all these kinds of change, of `nmt.config.noise.NoiseConfig`."""
        if "quotes" in kinds:
            source, target = (rng.choice(_QUOTES).format(text) for text in (source, target))
        if "spans" in kinds and self._slots:
            source, target = self._insert_slots(source, target, rng)
        for kind, change in SOURCE_CHANGES.items():
            if kind in kinds:
                source = change(source, rng)
        return source, target

    def _insert_slots(self, source: str, target: str, rng: random.Random) -> Pair:
        """Put slots in place of names and numbers that both sides share, or beside the sentence."""
        free = [slot for slot in self._slots if slot not in source and slot not in target]
        shared = [(name, name) for name in _shared_names(source, target)]
        shared += [
            (word, self._numbers[word])
            for word in _WORD.findall(source.lower())
            if word in self._numbers and _occurs_once(word, self._numbers[word], source, target)
        ]
        rng.shuffle(shared)
        for word, translation in shared[: rng.choice((1, 2, 3))]:
            if len(free) > 1 and rng.random() < _TAGGED_RATE:
                first, last = free.pop(), free.pop()
                source = _replace(word, rf"{first}\g<0>{last}", source)
                target = _replace(translation, rf"{first}\g<0>{last}", target)
            elif free:
                slot = _decorate(free.pop(), rng)
                source, target = _replace(word, slot, source), _replace(translation, slot, target)
        for _ in range((not shared) + (rng.random() < _BESIDE_RATE)):
            if free:
                source, target = _place_beside(source, target, free.pop(), rng)
        return self._number_slots(source, target, rng)

    def _number_slots(self, source: str, target: str, rng: random.Random) -> Pair:
        """Number slots in the order of the source, as in use; sometimes from a later one on."""
        used = list(dict.fromkeys(sign for sign in source if sign in self._slots))
        spare = len(self._slots) - len(used)
        first = rng.randint(0, spare) if rng.random() < _LATER_RATE else 0
        numbers = {ord(slot): self._slots[number] for number, slot in enumerate(used, first)}
        return source.translate(numbers), target.translate(numbers)


# Kinds of change that keep the target as it is.
SOURCE_CHANGES: dict[str, Callable[[str, random.Random], str]] = {
    "case": change_case,
    "typos": make_typo,
    "accents": remove_accents,
    "punctuation": change_punctuation,
}


def _shared_names(source: str, target: str) -> list[str]:
    """Return the capitalized words of a target that occur exactly once on both sides.

    Case is ignored, as sources may be lower-cased.
    """
    return [
        name
        for name in dict.fromkeys(_NAME.findall(target))
        if _occurs_once(name, name, source, target)
    ]


def _occurs_once(word: str, translation: str, source: str, target: str) -> bool:
    sides = (word, source), (translation, target)
    return all(len(_whole_word(each).findall(text)) == 1 for each, text in sides)


def _replace(word: str, replacement: str, text: str) -> str:
    return _whole_word(word).sub(replacement, text)


@lru_cache(10_000)
def _whole_word(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){word}(?![\w-])", re.IGNORECASE)


def _decorate(slot: str, rng: random.Random) -> str:
    """Return a slot, sometimes with quotes or brackets around it."""
    if rng.random() > _QUOTED_RATE:
        return slot
    return rng.choice((*_QUOTES, "({})", "'{}'")).format(slot)


def _place_beside(source: str, target: str, slot: str, rng: random.Random) -> Pair:
    """Put a slot before or after a sentence, on both sides alike, each with its spacing."""
    template = rng.choice(_BESIDE)
    sides = []
    for text in (source, target):
        body = text.rstrip(_FINAL)
        beside = template.format(slot=slot, text=text, body=body, end=text[len(body) :])
        sides.append(_LOOSE.sub(lambda match: "：" if ":" in match[0] else "", beside))
    return sides[0], sides[1]
