"""What every text passes before a model meets it, in training and in use."""

from __future__ import annotations

from unicodedata import category, normalize

JOINERS = "\u200c\u200d"  # zero width (non-)joiner: Persian spelling and emoji need them
SPACE_SIGN = "▁"  # stands for a space inside tokenizers, which could not tell it from one
INVISIBLE = ("Cc", "Cf", "Cs")  # Unicode categories: control, format, lone surrogate


def clean_text(text: str) -> str:
    """Return NFC text without control characters, every run of white space one space.

    Zero-width joiners stay. Applying it twice changes nothing. The translator cleans its input
    with it too, so that a model meets the text it was trained on.
    """
    if not text.isprintable():  # printable text has no control character, ASCII or other
        text = "".join(
            sign
            for sign in text
            if sign.isspace() or sign in JOINERS or category(sign) not in INVISIBLE
        )
    if not text.isascii():
        text = normalize("NFC", text).replace(SPACE_SIGN, "_")
    return " ".join(text.split())
