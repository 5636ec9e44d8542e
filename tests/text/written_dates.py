"""Texts whose dates and ordinals are written in another language, for tests."""

from __future__ import annotations

from nmt.text.dates import DateWriter


def translate(text: str, source: str, target: str) -> str:
    """Return a text whose dates and ordinals are in the other language."""
    writer = DateWriter(source, target)
    for begin, end in sorted(writer.find(text), reverse=True):
        text = text[:begin] + writer.write(text[begin:end]) + text[end:]
    return text
