"""How languages are written: the first subtag of their tags, direction, and spaces."""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import bidirectional, category, combining, normalize

from nmt.text.cleaning import JOINERS

UNKNOWN_LANGUAGE = "und"
# Members of a character class: vowel signs and accents, which \w lacks, and joiners.
_EXTENDING = JOINERS + "".join(
    chr(point) for point in range(0x300, 0x2000) if category(chr(point))[0] == "M"
)
_LETTERS = rf"[^\W\d_]+(?:[{_EXTENDING}][^\W\d_]*)*"
PLAIN_WORD = rf"{_LETTERS}(?:['’-]{_LETTERS})*"  # expression of a word without digits
POSSESSIVE = re.compile("['’]s$")
# Languages without spaces between words: Chinese and Japanese, which have none between sentences
# either, and Thai, Lao, Khmer, Burmese.
UNSPACED_SENTENCES = frozenset("zh zho cmn yue wuu nan lzh ja jpn".split())
_UNSPACED_LANGUAGES = UNSPACED_SENTENCES | {*"th tha lo lao km khm my mya".split()}
# Languages and scripts that are written from right to left.
_RIGHT_TO_LEFT_LANGUAGES = frozenset(
    """ar ara arb arc ary arz apc azb bal ckb div dv fa fas glk he heb iw khw ks lrc mzn nqo per pes
    pnb prs ps pus sd skr syr ug uig ur urd yi yid""".split()
)
# Languages in which few words differ by their accents alone: people leave them out, or err.
_LOOSE_ACCENTS = frozenset(
    "und en eng es spa pt por fr fra fre it ita ca cat gl glg oc oci".split()
)
# Others in which accents are often left out; elsewhere, a letter with a mark is another letter.
_OMITTED_ACCENTS = frozenset("el ell gre ru rus nl nld dut af afr".split())
# Letters of Cyrillic whose marks nobody leaves out: those of й and ї are not accents.
_WITHOUT_OWN_LETTERS = re.compile("[^йўїѓќЙЎЇЃЌ]+")
# Languages that say with endings what others say with words, so that most forms are rare.
_AGGLUTINATIVE_LANGUAGES = frozenset(
    """tr tur az aze azj crh tk tuk kk kaz ky kir uz uzb tt tat ba bak fi fin et est ekk hu hun eu
    eus baq qu que""".split()
)
_APOSTROPHE_LANGUAGES = frozenset("tr tur az aze azj crh".split())
_STRONG = ("L", "R", "AL")  # Unicode's classes of characters with a direction
# Languages that are written in Cyrillic letters.
_CYRILLIC_LANGUAGES = frozenset("ru uk be bg sr mk kk ky mn tg tt ba cv os ab ce av udm".split())
_LATIN_LETTER = re.compile("[A-Za-zªº\u00c0-\u024f\u1e00-\u1eff]")
_RIGHT_TO_LEFT_SCRIPTS = frozenset("adlm arab aran hebr mand nkoo rohg samr syrc thaa".split())
# Letters of scripts without spaces, as members of a character class.
UNSPACED_LETTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# A character class of these letters and of the marks that Chinese and Japanese write with them.
UNSPACED = f"[{UNSPACED_LETTERS}\u3000-\u303f\uff00-\uffef]"
# Capitals of Latin, Greek, Cyrillic and Armenian, as members of a character class.
CAPITALS = "".join(filter(str.isupper, map(chr, (*range(0x41, 0x590), *range(0x1E00, 0x2000)))))
# Letters of scripts without letter case, as members of a character class: also those of Hebrew to
# Sinhala, Tibetan and Hangul.
CASELESS_LETTERS = (
    f"{UNSPACED_LETTERS}\u0590-\u0dff\u0f00-\u0fff\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"
)
# Letters and marks of Chinese and Japanese, as members of a character class: a line may end after
# any of them, and its end does not stand for a space.
WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff"
_WIDE_SIGN = re.compile(f"[{WIDE}]")
_UNSPACED_LETTER = re.compile(f"[{UNSPACED_LETTERS}]")
_UNSPACED_CHARACTER = re.compile(UNSPACED)


def primary_subtag(language: str) -> str:
    """Return the first subtag of a BCP 47 tag in lower case: ``zh`` of ``zh-Hant`` or ``zh_TW``."""
    return language.replace("_", "-").partition("-")[0].lower()


def strip_accents(text: str) -> str:
    """Return a text whose letters have no accents: ñ becomes n, but й does not become и."""
    if text.isascii():
        return text
    return "".join(sign for sign in split_accents(text) if not combining(sign))


def split_accents(text: str) -> str:
    """Return a text whose accents are characters, each after its letter; й stays as it is."""
    return _WITHOUT_OWN_LETTERS.sub(
        lambda match: normalize("NFD", match[0]), normalize("NFC", text)
    )


def may_change_accents(word: str, language: str) -> bool:
    """Whether an unknown word may be a known one with other accents.

    Args:
        word: the word.
        language: BCP 47 tag. In Romance languages and English, accents may be missing or wrong; in
            some others, such as Greek, a word without accents may lack them. Elsewhere they make
            other words, as in German *Mantel* and *Mäntel*.
    """
    code = primary_subtag(language)
    lacks_accents = strip_accents(word) == word
    return code in _LOOSE_ACCENTS or (code in _OMITTED_ACCENTS and lacks_accents)


def is_agglutinative(language: str) -> bool:
    """Whether the words of a language, a BCP 47 tag, have too many forms for a list of words."""
    return primary_subtag(language) in _AGGLUTINATIVE_LANGUAGES


def has_apostrophe_before_endings(language: str) -> bool:
    """Whether a language, a BCP 47 tag, writes ``'`` between a name and its ending: Ankara'da."""
    return primary_subtag(language) in _APOSTROPHE_LANGUAGES


def is_right_to_left(language: str) -> bool:
    """Whether a language, a BCP 47 tag, is written from right to left: ``ar``, ``az-Arab``."""
    code, *subtags = language.replace("_", "-").lower().split("-")
    script = next((subtag for subtag in subtags if len(subtag) == 4 and subtag.isalpha()), None)
    if script is None:
        return code in _RIGHT_TO_LEFT_LANGUAGES
    return script in _RIGHT_TO_LEFT_SCRIPTS


def find_direction(text: str) -> str:
    """Return the direction of the first letter that has one, as HTML's ``dir=auto``: ltr or rtl."""
    kinds = (bidirectional(character) for character in text)
    return next(
        ("rtl" if kind in ("R", "AL") else "ltr" for kind in kinds if kind in _STRONG), "ltr"
    )


def may_copy_name(name: str, source: str, target: str) -> bool:
    """Whether a translation may contain a name in the letters of the source.

    Any language quotes names in Latin letters; others only stay between languages in Cyrillic.

    Args:
        name: in the source.
        source: BCP 47 tag.
        target: the same, of the translation.
    """
    is_shared = {primary_subtag(source), primary_subtag(target)} <= _CYRILLIC_LANGUAGES
    return is_shared or _LATIN_LETTER.search(name) is not None


def has_capital_nouns(language: str) -> bool:
    """Whether a language, a BCP 47 tag, writes its nouns with a capital."""
    return primary_subtag(language) in ("de", "deu", "ger", "nds", "lb")


def extends_character(sign: str) -> bool:
    """Whether a character belongs to the one before it: an accent, a vowel sign or a joiner."""
    return category(sign)[0] == "M" or sign in JOINERS


def character_ends(text: str) -> list[int]:
    """Return the ends of all characters; marks and joined characters belong to the one before."""
    return [
        end
        for end in range(1, len(text) + 1)
        if end == len(text) or not (extends_character(text[end]) or text[end - 1] in JOINERS)
    ]


def is_unspaced(language: str) -> bool:
    """Whether a language, a BCP 47 tag, is written without spaces between words."""
    return primary_subtag(language) in _UNSPACED_LANGUAGES


def is_unspaced_letter(character: str) -> bool:
    """Whether a character is a letter of a script without spaces between words."""
    return _UNSPACED_LETTER.match(character) is not None


def is_spaced_alnum(character: str) -> bool:
    """Whether a character is a letter or digit that a space separates from the next word."""
    return character.isalnum() and not is_unspaced_letter(character)


def breaks_without_space(left: str, right: str) -> bool:
    """Whether two lines are joined without a space: Chinese or Japanese is beside the joint."""
    return bool(left and right) and _WIDE_SIGN.search(left[-1] + right[0]) is not None


def join_lines(lines: Iterable[str]) -> str:
    """Join the lines of a paragraph, with spaces where their ends stand for these."""
    parts: list[str] = []
    for line in filter(None, lines):
        if parts and not breaks_without_space(parts[-1], line):
            parts.append(" ")
        parts.append(line)
    return "".join(parts)


def needs_space(left: str, right: str, language: str) -> bool:
    """Whether a space belongs between two sentences or clauses of a language.

    Args:
        left: not empty.
        right: not empty.
        language: BCP 47 tag. If it is unknown, the characters around the joint decide.
    """
    before, after = left[-1], right[0]
    code = primary_subtag(language)
    if code == UNKNOWN_LANGUAGE:
        return not _UNSPACED_CHARACTER.match(before) and not _UNSPACED_CHARACTER.match(after)
    # Foreign words are separated by spaces in every language.
    return code not in UNSPACED_SENTENCES or (before.isascii() and after.isascii())


def join_sentences(sentences: Iterable[str], language: str = UNKNOWN_LANGUAGE) -> str:
    """Return sentences in one line, with spaces between them if the language has spaces.

    Args:
        sentences: without white space around them; empty ones are left out.
        language: BCP 47 tag, see `needs_space`.
    """
    joined = ""
    for sentence in filter(None, sentences):
        space = " " if joined and needs_space(joined, sentence, language) else ""
        joined += space + sentence
    return joined
