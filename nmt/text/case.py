"""Letter case of a sentence: recognised before translation, given to the translation after it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from unicodedata import category

from nmt.text.marked import splice
from nmt.text.names import ends_with_name, is_honorific, is_name, is_name_inside_sentence
from nmt.text.spans import ANY_SLOT

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
# Of a word, such as a number; a slot that a letter or another slot follows is that of a tag.
_BEGINS_WITH_SLOT = re.compile(rf"[\W\d_]*{ANY_SLOT}(?:(?!{ANY_SLOT})[\W\d_]|\Z)")
# That a translation begins with, after nothing but marks and slots, and that no hyphen continues.
_FIRST_WORD = re.compile(r"[\W_]*(?P<word>(?P<stem>[^\W\d_]+)(?:['’][^\W\d_]+)*)(?![\w'’-])")
_ALSO_SMALL = frozenset(("I", "May", "March", "August"))  # English words; in lower case, others
_MAX_BEFORE = 64  # characters that are read before a word of a name
_SHORT = 3  # letters of words that a title may leave in lower case
# A word whose case is not that of ordinary words: iPhone, NASA, McDonald.
_UNUSUAL = re.compile(r"\b[^\W\d_]+[A-ZÀ-ÖØ-Þ]\w*")
# The first letter of a quotation, and whether another word follows.
_QUOTED = re.compile(r"(?:«\s?|[“„]|(?<![\w.!?…])\")[¿¡]?[^\W\d_](?:(?=\w*,?\s)(?P<has_words>))?")
# A word among capitals, and a Roman numeral after it. Those that may be words, such as "vi" (I saw)
# and the letters of one, are numerals after a name and at the end of a phrase.
_NUMBERED = re.compile(
    r"(?P<word>[^\W\d_]+) (?P<numeral>(?=[IVX])X{0,3}(?:I[XV]|V?I{0,3}))(?![\w'’]|\.\w)"
    r"(?P<ends>(?=\s*(?:[.,:;)]|$)))?"
)
_MAYBE_WORDS = frozenset(("I", "V", "VI", "X"))


class LetterCase(Enum):
    """How the letters of a sentence are written."""

    ORDINARY = "ordinary"
    UPPER = "upper"  # ALL CAPITALS
    TITLE = "title"  # Every Long Word Begins With a Capital


def recognize_case(text: str) -> LetterCase:
    """Return the letter case of a sentence; a word or two may be capitals for other reasons."""
    if text == text.lower():
        return LetterCase.ORDINARY
    matches = list(_WORD.finditer(text))
    words = [match[0] for match in matches]
    letters = "".join(words)
    is_upper = text.replace("ß", "SS") == text.upper()
    if is_upper and len(letters) > _SHORT and not _has_caseless(letters):
        return LetterCase.UPPER
    # The first word of every sentence has a capital, and so have initials.
    others = [match for match in matches[1:] if len(match[0]) > 1]
    # Names have capitals in any sentence: "¿Conoce Tom a Mary?"
    is_title = (
        len(others) > 2
        and words[0][0].isupper()
        and _are_capitalized(others)
        and _are_capitalized([match for match in others if not _is_of_name(text, match)])
    )
    return LetterCase.TITLE if is_title else LetterCase.ORDINARY


def _are_capitalized(matches: Sequence[re.Match[str]]) -> bool:
    """Whether words have the capitals of a title: the long ones, and most of the others."""
    words = [match[0] for match in matches]
    capitalized = [word for word in words if word[0].isupper() and not word[1:].isupper()]
    long_words = {word for word in words if len(word) > _SHORT}
    return (
        bool(long_words)
        and long_words.issubset(capitalized)
        and 4 * len(capitalized) >= 3 * len(words)
    )


def _is_of_name(text: str, word: re.Match[str]) -> bool:
    """Whether a word is a name, an honorific, or follows one of these."""
    before = text[max(0, word.start() - _MAX_BEFORE) : word.start()]
    return is_name(word[0]) or is_honorific(word[0]) or ends_with_name(before)


def _has_caseless(letters: str) -> bool:
    """Whether letters are of a script without case, but for an acronym: 我喜欢看NBA比赛."""
    return any(category(letter) == "Lo" for letter in letters if letter not in "ªº")


def to_sentence_case(text: str, case: LetterCase) -> str:
    """Return a sentence of unusual case as it would usually be written, as far as can be told.

    In a title, words in capitals, such as NASA, stay as they are; Roman numerals do so always.
    """
    if case is LetterCase.ORDINARY:
        return text
    lower = _lower_capitals(text) if case is LetterCase.UPPER else _WORD.sub(_lower_title, text)
    first = _WORD.search(lower)
    if first is None:
        return lower
    begin = first.start()
    return lower[:begin] + lower[begin].title() + lower[begin + 1 :]


def apply_case(text: str, case: LetterCase) -> str:
    """Write a translation in the letter case of its source."""
    if case is LetterCase.UPPER:
        return text.upper()
    if case is LetterCase.TITLE:
        return _WORD.sub(_capitalize_long, text)
    return text


def copy_unusual_case(source: str, translation: str) -> str:
    """Write words that a translation shares with its source, such as iPhone, as the source does."""
    words: dict[str, str] = {}
    for word in _UNUSUAL.findall(source):
        words.setdefault(word.lower(), word)
    for word in words.values():
        if word not in translation and word.lower() in translation.lower():
            translation = re.sub(rf"\b{re.escape(word)}\b", word, translation, flags=re.IGNORECASE)
    return translation


def copy_first_capital(source: str, translation: str) -> str:
    """Return a translation with a capital at its beginning if its source has one.

    The word after a slot, such as that of a number, is not the first one, unless the source begins
    with a slot, too.
    """
    if _BEGINS_WITH_SLOT.match(translation) and not _BEGINS_WITH_SLOT.match(source):
        return translation
    first, word = _WORD.search(source), _WORD.search(translation)
    if first is None or word is None or not first[0][0].isupper() or word[0] != word[0].lower():
        return translation
    begin = word.start()
    capital = translation[begin].title()  # Georgian has no capitals at the beginning of words
    if len(capital) > 1:  # of ŉ, for example
        return translation
    return translation[:begin] + capital + translation[begin + 1 :]


def copy_quoted_capitals(source: str, translation: str) -> str:
    """Return a translation whose quotations begin with a capital where those of its source do.

    Those of one word stay, since some words have a capital in one language alone. If one of the
    texts has more quotations, the translation stays as it is.
    """
    quoted, translated = (list(_QUOTED.finditer(text)) for text in (source, translation))
    if len(quoted) != len(translated):
        return translation
    changes = (
        (new.end() - 1, new.end(), new[0][-1].title())
        for old, new in zip(quoted, translated, strict=True)
        if old["has_words"] is not None and old[0][-1].isupper() and new[0][-1].islower()
    )
    return splice(translation, changes)


def lower_first_capital(source: str, translation: str, is_common: Callable[[str], bool]) -> str:
    """Return a translation that begins with a small letter if its source does.

    Only common words lose it. Names, honorifics, words that have a capital in the source, and those
    that English writes with one (*I*, *May*) keep it.

    Args:
        source: a part of a sentence that does not begin it.
        translation: of the part.
        is_common: whether a word in lower case is a common one.
    """
    first, begin = _WORD.search(source), _FIRST_WORD.match(translation)
    if first is None or begin is None or first[0][0].isupper():
        return translation
    word, stem = begin["word"], begin["stem"]
    lower = stem[0].lower() + stem[1:]
    has_other_capitals = lower != stem.lower()
    may_be_name = is_name(word) or is_name_inside_sentence(word) or is_honorific(word)
    is_exception = stem in {*_ALSO_SMALL, *_WORD.findall(source)}
    if is_exception or has_other_capitals or may_be_name or not is_common(lower):
        return translation
    return translation[: begin.start("stem")] + lower + translation[begin.end("stem") :]


def _lower_capitals(text: str) -> str:
    """Return a text in lower case, but for Roman numerals."""
    lower = text.lower()
    if len(lower) != len(text):
        return lower
    return splice(
        lower,
        (
            (*match.span("numeral"), match["numeral"])
            for match in _NUMBERED.finditer(text)
            if match["numeral"] not in _MAYBE_WORDS
            or match["ends"] is not None
            or is_name(match["word"].capitalize())
        ),
    )


def _lower_title(match: re.Match[str]) -> str:
    return match[0] if len(match[0]) > 1 and match[0].isupper() else match[0].lower()


def _capitalize_long(match: re.Match[str]) -> str:
    word = match[0]
    is_lower = word == word.lower()  # iPhone stays
    is_capitalized = is_lower and (len(word) > _SHORT or match.start() == 0)
    return word[0].title() + word[1:] if is_capitalized else word
