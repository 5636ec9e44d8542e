"""Changes of clean sentences, as careless writers and other programs make them.

They share no code with `nmt.text.noise`, which changes training pairs, so that a score on changed
sentences shows more than how well a model knows its own training noise.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

Change = Callable[[str, random.Random], str]

FINAL_MARKS = ".!?…"
QUOTES = "«»\"“”„'‘’"
# A Spanish keyboard: its rows, and how far each is shifted to the right, in keys.
KEYBOARD = (("qwertyuiop", 0.0), ("asdfghjklñ", 0.25), ("zxcvbnm,.-", 0.75))
_REACH = 1.3  # keys between the centres of two neighbours
_WORD = re.compile(r"[^\W\d_]+")
_TYPED = re.compile(r"[^\W\d_]{3,}")  # words that get typing errors
_INSIDE_WORD = re.compile(r"(?<=\w)[-'’·](?=\w)")
_WORDS = re.compile(r"\w+")
SIGNS = tuple("/&+=*%@#€$")
LABELS = ("Nota", "Importante", "Paso 3", "Segunda parte", "P. D.", "Ana")
FOREIGN = ("москва", "東京", "서울", "दिल्ली", "القاهرة")
_ADDED = re.compile(f"</?b>|[()“”{''.join(SIGNS)}]|{'|'.join(FOREIGN)}")
_GAP = re.compile(r"(?<=\w) (?=\w)")
_MARK = re.compile(r"(?<=\w)([.,;:!?…]+)(?=\s|$)")
_OPENING = re.compile(r"([¿¡])(?=\w)")
_FINAL = re.compile(r"[.!?…:;,]*$")
_LONGEST_LOOP = 4  # words in a group that repeats
_REPEATED_LETTERS = re.compile(r"([^\W\d_]{2,8}?)\1\1|([^\W\d_])\2\2\2", re.IGNORECASE)


def to_title_case(text: str, rng: random.Random) -> str:
    """Return a text whose words all begin with a capital."""
    return _WORD.sub(lambda word: word[0][0].upper() + word[0][1:].lower(), text)


def without_accents(text: str, rng: random.Random) -> str:
    """Return a text of letters without marks; ñ becomes n."""
    letters = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def without_outer_marks(text: str, rng: random.Random) -> str:
    """Return a text without ¿ and ¡, and without the marks at its end."""
    return text.replace("¿", "").replace("¡", "").rstrip(FINAL_MARKS).strip()


def without_punctuation(text: str) -> str:
    """Return a text without punctuation; hyphens and apostrophes in words stay."""
    inside = {match.start() for match in _INSIDE_WORD.finditer(text)}
    letters = (
        " " if unicodedata.category(letter).startswith("P") and i not in inside else letter
        for i, letter in enumerate(text)
    )
    return " ".join("".join(letters).split())


def to_bare_words(text: str, rng: random.Random) -> str:
    """Return a text in lower case, without accents and punctuation."""
    return without_punctuation(without_accents(text, rng).lower())


def list_neighbors(key: str) -> str:
    """Return the keys around a key of the Spanish keyboard; an accented letter is on its base."""
    if key != "ñ":
        key = unicodedata.normalize("NFD", key)[0]
    positions = {
        name: (column + shift, row)
        for row, (keys, shift) in enumerate(KEYBOARD)
        for column, name in enumerate(keys)
    }
    if key not in positions:
        return ""
    x, y = positions[key]
    return "".join(
        name
        for name, (column, row) in positions.items()
        if name != key and (column - x) ** 2 + (row - y) ** 2 <= _REACH**2
    )


def mistype(text: str, rng: random.Random) -> str:
    """Return a text with one typing error, in a word of three letters or more, if it has one."""
    words = list(_TYPED.finditer(text))
    if not words:
        return text
    word = rng.choice(words)
    variants = [
        variant for variant in _list_mistypings(word[0], rng) if variant not in ("", word[0])
    ]
    return text[: word.start()] + rng.choice(variants) + text[word.end() :]


def _list_mistypings(word: str, rng: random.Random) -> Iterator[str]:
    """Yield a word with a swapped, missing, doubled, wrong and additional letter."""
    at = rng.randrange(len(word) - 1)
    yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    at = rng.randrange(len(word))
    yield word[:at] + word[at + 1 :]
    at = rng.randrange(len(word))
    yield word[:at] + word[at] + word[at:]
    at = rng.randrange(len(word))
    neighbors = list_neighbors(word[at].lower())
    if neighbors:
        pressed = rng.choice(neighbors)
        yield word[:at] + (pressed.upper() if word[at].isupper() else pressed) + word[at + 1 :]
        yield word[: at + 1] + rng.choice(neighbors) + word[at + 1 :]


def enclose_word(text: str, rng: random.Random, form: str) -> str:
    """Return a text with one word, of three letters or more, in a form such as "({})"."""
    words = list(_TYPED.finditer(text))
    if not words:
        return text
    begin, end = rng.choice(words).span()
    return text[:begin] + form.format(text[begin:end]) + text[end:]


def insert_one(text: str, rng: random.Random, words: Sequence[str]) -> str:
    """Return a text with one of ``words`` between two of its own, if it has as many."""
    gap = _choose_gap(text, rng)
    return f"{text[:gap]} {rng.choice(words)}{text[gap:]}" if gap < len(text) else text


def end_with(text: str, rng: random.Random, marks: Mapping[str, str]) -> str:
    """Return a text with another final mark, if ``marks`` has one for its own."""
    return text[:-1] + marks.get(text[-1:], text[-1:])


def put_label(text: str, rng: random.Random) -> str:
    """Return a text after a label."""
    return f"{rng.choice(LABELS)}: {text}"


def insert_dots(text: str, rng: random.Random) -> str:
    """Return a text with "..." after one of its words, if another word follows."""
    gap = _choose_gap(text, rng)
    return f"{text[:gap]}...{text[gap:]}" if gap < len(text) else text


def space_marks(text: str, rng: random.Random) -> str:
    """Return a text with a space before its marks, and after ¿ and ¡."""
    return _OPENING.sub(r"\1 ", _MARK.sub(r" \1", text))


def _choose_gap(text: str, rng: random.Random) -> int:
    """Return the index of a space between two words; without one, the length of the text."""
    return rng.choice([match.start() for match in _GAP.finditer(text)] or [len(text)])


def end_as(text: str, reference: str) -> str:
    """Return a text with the final mark of another one, and without "..." between words."""
    final = _FINAL.search(reference)
    return _FINAL.sub("", text.rstrip()).replace("...", "") + (final[0] if final else "")


def without_label(text: str) -> str:
    """Return a text without what stands before its first colon."""
    label, colon, rest = text.partition(": ")
    return rest if colon else label


def strip_marks(text: str) -> str:
    """Return a text without what `CHANGES` and `MARKED` add to it."""
    return " ".join(_ADDED.sub("", text).strip(f"{QUOTES}—●[] ").split())


# Name in the table -> what training hardly has, and what one is taken from.
INSERTED = {"& or another sign between words": SIGNS, "a word of another script": FOREIGN}
AFTER_LABEL = "after a label, such as Nota:"
DOTTED = "... between words"
# Name in the table -> usual final mark -> what takes its place.
FINAL = {
    "... at the end": {".": "..."},
    ": at the end": {".": ":"},
    "; at the end": {".": ";"},
    "?! or !!! at the end": {"?": "?!", "!": "!!!"},
}
# Name in the table -> marks around a word.
ENCLOSED = {
    "one word in <b> </b>": "<b>{}</b>",
    "one word in ( )": "({})",
    "one word in “ ”": "“{}”",
    "one word in ** **": "**{}**",
}
# Name in the table -> change.
CHANGES: dict[str, Change] = {
    "ALL CAPS": lambda text, rng: text.upper(),
    "Title Case": to_title_case,
    "lower case": lambda text, rng: text.lower(),
    "no accents": without_accents,
    "no ¿, ¡ and final mark": without_outer_marks,
    "lower case, no accents, no punctuation": to_bare_words,
    "one typing error": mistype,
    **{name: partial(insert_one, words=words) for name, words in INSERTED.items()},
    **{name: partial(enclose_word, form=form) for name, form in ENCLOSED.items()},
    AFTER_LABEL: put_label,
    DOTTED: insert_dots,
    "a space before marks": space_marks,
    **{name: partial(end_with, marks=marks) for name, marks in FINAL.items()},
}
# Name in the table -> marks around a sentence.
MARKED = {"in « »": "«{}»", "after —": "—{}", "after ●": "● {}", "in [ ]": "[{}]"}


def change_all(texts: Sequence[str], name: str, seed: int) -> list[str]:
    """Return texts under a change of `CHANGES`; each is a function of seed, name and index."""
    change = CHANGES[name]
    return [
        change(text, random.Random(f"{seed} {name} {index}")) for index, text in enumerate(texts)
    ]


def loops(text: str) -> bool:
    """Return whether groups of up to four words, or letters in a word, occur three times in a row.

    A single letter must occur four times.
    """
    if _REPEATED_LETTERS.search(text):
        return True
    words = _WORDS.findall(text.lower())
    return any(
        words[begin : begin + size] * 3 == words[begin : begin + size * 3]
        for size in range(1, _LONGEST_LOOP + 1)
        for begin in range(len(words) - 3 * size + 1)
    )
