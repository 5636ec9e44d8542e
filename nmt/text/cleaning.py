"""Cleaning of every text before the model sees it, in training and in use."""

from __future__ import annotations

import re
from html import unescape
from unicodedata import category, normalize

from nmt.errors import UserError

LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # those of `str.splitlines`
JOINERS = "\u200c\u200d"  # zero width (non-)joiner: Persian spelling and emoji need them
TAGS = "".join(map(chr, range(0xE0020, 0xE0080)))  # of flags such as England's: letters of a code
SPACE_SIGN = "▁"  # tokenizers use it for a space, so a text cannot contain it
LIGATURES = {sign: normalize("NFKC", chr(sign)) for sign in range(0xFB00, 0xFB07)}  # ﬁ: fi
_ENTITY = re.compile("&(?:[A-Za-z](?:acute|grave|circ|tilde|uml|cedil)|iquest|iexcl|szlig);")
INVISIBLE = ("Cc", "Cf", "Cs")  # Unicode categories: control, format, lone surrogate


def clean_text(text: str) -> str:
    """Return NFC text without control characters, every run of white space one space.

    Zero-width joiners and the tags of flags stay. Cleaning twice changes nothing more.
    """
    if not text.isprintable():  # control characters are not printable
        text = "".join(character for character in text if not is_removed(character))
    if not text.isascii():
        text = normalize("NFC", text).replace(SPACE_SIGN, "_")
    return " ".join(text.split())


def clean_input(text: str) -> str:
    """Return the cleaned text of a sentence to translate, with letters in place of ligatures.

    PDFs have ligatures; pages, entities of letters, such as &eacute;. Lone surrogates, which stand
    for undecodable bytes, are replaced.
    """
    text = replace_surrogates(text).translate(LIGATURES)
    return clean_text(_ENTITY.sub(lambda match: unescape(match[0]), text) if "&" in text else text)


def replace_surrogates(text: str) -> str:
    """Return a text whose lone surrogates, which stand for undecodable bytes, are replaced.

    Raises:
        UserError: it is not a string.
    """
    if not isinstance(text, str):
        raise UserError(f"a text must be a string, got {text!r}")
    return text.encode("utf-8", "replace").decode("utf-8")


def is_removed(character: str) -> bool:
    """Whether `clean_text` removes a character."""
    is_invisible = category(character) in INVISIBLE and not character.isspace()
    return is_invisible and character not in JOINERS and character not in TAGS
