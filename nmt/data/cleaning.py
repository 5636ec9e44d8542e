"""Cleaning of every text before the model sees it, in training and in use."""

from __future__ import annotations

from unicodedata import category, normalize

JOINERS = "\u200c\u200d"  # zero width (non-)joiner: Persian spelling and emoji need them
SPACE_SIGN = "▁"  # tokenizers use it for a space, so a text cannot contain it
INVISIBLE = ("Cc", "Cf", "Cs")  # Unicode categories: control, format, lone surrogate


def clean_text(text: str) -> str:
    """Return NFC text without control characters, every run of white space one space.

    Zero-width joiners stay. Cleaning twice changes nothing more.
    """
    if not text.isprintable():  # control characters are not printable
        text = "".join(
            character
            for character in text
            if character.isspace() or character in JOINERS or category(character) not in INVISIBLE
        )
    if not text.isascii():
        text = normalize("NFC", text).replace(SPACE_SIGN, "_")
    return " ".join(text.split())
