"""Training pairs as careless writers and other programs would write them.

What happens to a pair is a function of (seed, epoch, index of the pair): resuming changes nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from unicodedata import normalize

import numpy as np

from nmt.text.spans import SLOTS, find_spans

Sides = tuple[str, str]  # source and target of a pair

_MAX_JOINED = 4  # sentences
_FINAL = ".!?…。！？"
_OPENING = "¿¡"
_DOUBLED = re.compile(r"([!?]+|\.)(?=\s*$)")
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SLANT = 0.6  # keys by which a row is shifted against the one above it
_MIN_LETTERS = 4  # of a word with a typing error
_TYPING = re.compile(rf"[^\W\d_]{{{_MIN_LETTERS},}}")
_NAME = re.compile(r"(?<![\w’'-])[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ]{2,}(?![\w’-])")
_NUMBER_WORDS = {
    "es": "dos tres cuatro cinco seis siete ocho nueve diez once doce quince veinte treinta cien",
    "en": "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty hundred",
    "pt": "dois três quatro cinco seis sete oito nove dez onze doze quinze vinte trinta cem",
    "fr": "deux trois quatre cinq six sept huit neuf dix onze douze quinze vingt trente cent",
    "it": "due tre quattro cinque sei sette otto nove dieci undici dodici quindici venti trenta cento",
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf fünfzehn zwanzig dreißig hundert",
}
_SYLLABLE_BEGINS = "b br c ch d f g gr h j k l m n p qu r s sh t tr tx v w x y z".split()
_SYLLABLE_MIDDLES = "a e i o u ai ee ea ie ou ue á é í ó ö".split()
_SYLLABLE_ENDS = ["", "", "", *"l n r s t rr ng nd z x k ll".split()]


def remove_accents(text: str, draw: random.Random) -> str:
    """Return a text without accents; ``ñ`` becomes ``n``."""
    if text.isascii():
        return text
    # The marks that Latin, Greek and Cyrillic letters carry; others, such as vowel signs, stay.
    return normalize("NFC", re.sub("[\u0300-\u036f]", "", normalize("NFD", text)))


def change_punctuation(text: str, draw: random.Random) -> str:
    """Return a text without its opening marks, its final mark or all marks, or with doubled ones."""
    way = draw.random()
    if way < 0.15:
        return _DOUBLED.sub(lambda match: match[1][0] * draw.randint(2, 4), text)
    if way < 0.9:
        text = text.translate(dict.fromkeys(map(ord, _OPENING)))
    if way > 0.35:
        text = text.rstrip(_FINAL)
    if way > 0.7:
        text = re.sub(r"[,;:](?=\s)", "", text)
    return text.strip()


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


_NEIGHBORS = _list_neighbors()


def make_typo(text: str, draw: random.Random) -> str:
    """Return a text with one typing error, in a word of four letters or more, if it has one."""
    words = list(_TYPING.finditer(text))
    if not words:
        return text
    word = draw.choice(words)
    at = draw.randrange(word.start(), word.end() - 1)
    pair, rest = text[at : at + 2], text[at + 2 :]
    kind = draw.randrange(4)
    if kind == 0:
        pair = pair[::-1]
    elif kind == 1:
        pair = pair[0]
    elif kind == 2:
        pair = pair[0] + pair
    else:
        pair = draw.choice(_NEIGHBORS.get(pair[0].lower(), pair[0])) + pair[1]
    return text[:at] + pair + rest


def change_case(text: str, draw: random.Random) -> str:
    """Return a text in capitals, in title case or in lower case."""
    return draw.choice((str.upper, str.title, str.lower))(text)


def invent_name(draw: random.Random) -> str:
    """Return a name of two to four syllables that hardly any text has."""
    syllables = (
        draw.choice(_SYLLABLE_BEGINS) + draw.choice(_SYLLABLE_MIDDLES) + draw.choice(_SYLLABLE_ENDS)
        for _ in range(draw.choice((2, 2, 3, 3, 4)))
    )
    return "".join(syllables).capitalize()


class Noise:
    """Changes training pairs at configured rates.

    Args:
        rates: name of a kind (see `nmt.config.noise`) -> share of pairs.
        seed: of all draws.
        slots: reserved pieces of the tokenizer; 0: spans are left as they are.
        languages: of source and target, BCP 47 tags.
        tag: matches what may begin a source and is not text, such as ``<2en>``; None: nothing does.
    """

    def __init__(
        self,
        rates: Mapping[str, float],
        seed: int,
        slots: int,
        languages: tuple[str, str],
        tag: re.Pattern[str] | None = None,
    ) -> None:
        rates = {**rates, "spans": rates["spans"] if slots else 0.0}
        self._kinds = [name for name, rate in rates.items() if rate]
        self._rates = np.array([rates[name] for name in self._kinds])
        self._seed, self._slots, self._tag = seed, SLOTS[:slots], tag
        numbers = [_NUMBER_WORDS.get(re.split("[-_]", name.lower())[0]) for name in languages]
        source, target = (words.split() if words else [] for words in numbers)
        self._numbers = dict(zip(source, target, strict=True)) if source and target else {}

    def change(self, pairs: Sequence[Sides], epoch: int) -> Iterator[tuple[int, Sides]]:
        """Yield the indices of the pairs that are changed in an epoch, and what they become."""
        if not self._kinds:
            return
        generator = np.random.default_rng([self._seed, epoch, _STREAM])
        is_drawn = generator.random((len(pairs), len(self._kinds))) < self._rates
        changed = np.flatnonzero(is_drawn.any(axis=1))
        seeds = generator.integers(1 << 63, size=len(changed))
        for index, seed in zip(changed.tolist(), seeds.tolist(), strict=True):
            kinds = [kind for kind, has in zip(self._kinds, is_drawn[index], strict=True) if has]
            yield index, self._change(pairs, index, kinds, random.Random(seed))

    def _change(
        self, pairs: Sequence[Sides], index: int, kinds: Sequence[str], draw: random.Random
    ) -> Sides:
        source, target = pairs[index]
        tag, source = self._split_tag(source)
        if "joined" in kinds:
            source, target = self._join(pairs, tag, source, target, draw)
        if "names" in kinds:
            source, target = self._rename(source, target, draw)
        if "spans" in kinds:
            source, target = self._insert_slots(source, target, draw)
        for kind, change in _SOURCE_CHANGES.items():
            if kind in kinds:
                source = change(source, draw)
        return tag + source, target

    def _split_tag(self, source: str) -> tuple[str, str]:
        match = self._tag.match(source) if self._tag else None
        if match is None:
            return "", source
        text = source[match.end() :].lstrip()
        return source[: len(source) - len(text)], text

    def _join(
        self, pairs: Sequence[Sides], tag: str, source: str, target: str, draw: random.Random
    ) -> Sides:
        """Append one to three other pairs that have the same tag."""
        for _ in range(draw.choice((1, 1, 2, _MAX_JOINED - 1))):
            other, translation = pairs[draw.randrange(len(pairs))]
            other_tag, other = self._split_tag(other)
            if other_tag == tag:
                source, target = f"{source} {other}", f"{target} {translation}"
        return source, target

    def _rename(self, source: str, target: str, draw: random.Random) -> Sides:
        """Replace a name that both sides share."""
        names = _shared_names(source, target)
        if not names:
            return source, target
        name, invented = draw.choice(names), invent_name(draw)
        return _replace(name, invented, source), _replace(name, invented, target)

    def _insert_slots(self, source: str, target: str, draw: random.Random) -> Sides:
        """Put slots in place of names and numbers that both sides share, or beside the sentence."""
        free = [slot for slot in self._slots if slot not in source and slot not in target]
        draw.shuffle(free)
        shared = [(name, name) for name in _shared_names(source, target)]
        shared += [
            (word, self._numbers[word])
            for word in _LOWER_WORD.findall(source)
            if word in self._numbers
            and len(_find(word, source)) == len(_find(self._numbers[word], target)) == 1
        ]
        draw.shuffle(shared)
        for word, translation in shared[: draw.choice((1, 1, 2, 3))]:
            if free:
                slot = _decorate(free.pop(), draw)
                source, target = _replace(word, slot, source), _replace(translation, slot, target)
        if free and (not shared or draw.random() < 0.2):
            source, target = _place_beside(source, target, free.pop(), draw)
        return source, target


_STREAM = 0x7E87  # keeps these draws apart from others with the same seed
_LOWER_WORD = re.compile(r"[^\W\d_]+")
_SOURCE_CHANGES: dict[str, Callable[[str, random.Random], str]] = {
    "case": change_case,
    "typos": make_typo,
    "accents": remove_accents,
    "punctuation": change_punctuation,
}


def keep_shared_spans(source: str, target: str, slots: Sequence[str], draw: random.Random) -> Sides:
    """Replace the kept spans that both sides share by slots, in a random order of slots.

    A span that the target writes differently, such as a number in words, stays on both sides.
    """
    spans = [(begin, end, source[begin:end]) for begin, end in find_spans(source)]
    if not spans or not slots:
        return source, target
    written = [target[begin:end] for begin, end in find_spans(target)]
    shared = [
        (begin, end, text)
        for begin, end, text in spans
        if written.count(text) == 1 == sum(text == other for _, _, other in spans)
    ]
    if not shared:
        return source, target
    chosen = draw.sample(list(slots), min(len(slots), len(shared)))
    by_text = {text: slot for (_, _, text), slot in zip(shared, chosen, strict=False)}
    return _substitute(source, by_text), _substitute(target, by_text)


def _substitute(text: str, slots: Mapping[str, str]) -> str:
    """Replace the kept spans of a text for which there is a slot."""
    ends = list(find_spans(text))
    bounds = [0, *chain.from_iterable(ends), len(text)]
    parts = [text[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False)]
    parts[1::2] = [slots.get(part, part) for part in parts[1::2]]
    return "".join(parts)


def _shared_names(source: str, target: str) -> list[str]:
    """Return the capitalized words that occur exactly once on both sides."""
    return [
        name
        for name in dict.fromkeys(_NAME.findall(source))
        if len(_find(name, source)) == len(_find(name, target)) == 1
    ]


def _find(word: str, text: str) -> list[str]:
    return re.findall(rf"\b{word}\b", text)


def _replace(word: str, replacement: str, text: str) -> str:
    return re.sub(rf"\b{word}\b", replacement, text)


def _decorate(slot: str, draw: random.Random) -> str:
    """Return a slot, sometimes with marks such as quotes around it."""
    way = draw.random()
    if way < 0.85:
        return slot
    return (
        draw.choice(("«{}»", '"{}"', "({})", "'{}'")).format(slot) if way > 0.9 else f"{slot}{slot}"
    )


def _place_beside(source: str, target: str, slot: str, draw: random.Random) -> Sides:
    """Put a slot before or after a sentence, on both sides alike."""
    way = draw.choice(("{} {}", "{}: {}", "{}, {}", "end", "end", "colon", "after"))
    if way == "after":
        return f"{source} {slot}", f"{target} {slot}"
    if way not in ("end", "colon"):
        return way.format(slot, source), way.format(slot, target)
    joint = ": " if way == "colon" else " "
    sides = []
    for text in (source, target):
        bare = text.rstrip(_FINAL)
        sides.append(f"{bare}{joint}{slot}{text[len(bare) :]}")
    return sides[0], sides[1]
