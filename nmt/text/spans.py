"""Spans that a translation must contain unchanged: URLs, numbers, placeholders, emoji.

Each is replaced by a *slot*, a piece that the tokenizer reserves and training inserts on both sides
of pairs, and put back after the search.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

# Private characters, which no other text needs; where a text has one, it is a kept span itself.
SLOTS = tuple(map(chr, range(0xE000, 0xE008)))
_SLOT = re.compile(f"[{SLOTS[0]}-{SLOTS[-1]}]")

_TOP_LEVEL = (
    "com|org|net|edu|gov|info|io|dev|app|es|mx|ar|co|cl|pe|uk|us|eu|de|fr|it|pt|br|cat|ai|tv"
)
_EXTENSIONS = (
    "txt|pdf|docx?|xlsx?|pptx?|odt|csv|tsv|json|xml|ya?ml|html?|css|js|ts|py|ipynb|java|c|cpp|h|rs|go|"
    "sh|md|zip|gz|tar|7z|rar|exe|png|jpe?g|gif|svg|webp|mp3|mp4|wav|avi|mkv|log|ini|cfg|toml|sql|db"
)
_EMOJI = (
    "[\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u2190-\u21ff\u2300-\u23ff\u3030\u303d\u00a9"
    "\u00ae\u2122]"
)
_MODIFIERS = "[\ufe0f\u20e3\U0001f3fb-\U0001f3ff]*"
_EMOJI_SEQUENCE = f"{_EMOJI}{_MODIFIERS}(?:\u200d{_EMOJI}{_MODIFIERS})*"

# Kind -> expression. Where several match at one place, the first does. Only syntax that RE2 shares
# with Python: a SavedModel finds the same spans. Marks that end a sentence end no span.
PATTERNS = {
    "code": "`[^`]+`",
    "url": r"(?:https?|ftp)://[^\s<>\"«»]*[\w/=#&~-]"
    r"|www\.[^\s<>\"«»]*[\w/=#&~-]"
    rf"|\b[A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*\.(?:{_TOP_LEVEL})"
    r"(?:/[^\s<>\"«»]*[\w/=#&~-]|/|\b)",
    "e-mail": r"[\w.+-]*\w@[\w-]+(?:\.[\w-]+)+",
    "placeholder": r"\{\{[^{}]{1,60}\}\}|\$?\{[^{}\s]{0,60}\}|\[\[[^\[\]\s]{1,60}\]\]"
    r"|%(?:\d+\$)?[-+#0]?(?:\d+)?(?:\.\d+)?(?:ld|lu|lld|llu|[sdiufgxX@])\b|%\([A-Za-z_]\w*\)[sdif]"
    r"|</?[A-Za-z0-9][\w:-]*(?:\s[^<>]{0,300})?/?>"
    r"|&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});"
    r"|\$[A-Za-z_]\w*|\B:[a-z_][a-z0-9_]*\b",
    "file": rf"(?:\b[A-Za-z]:\\|~?/|\.\.?/)?(?:[\w.-]+[/\\])*[\w-]+(?:\.[\w-]+)*\.(?:{_EXTENSIONS})\b"
    r"|(?:~|\.\.?)?(?:/[\w.-]+){2,}/?",
    "identifier": r"\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b|\b[A-Za-z]\w*\(\)",
    "tag": r"[#@][A-Za-z_\u00c0-\u024f]\w*",
    "emoji": f"(?:{_EMOJI_SEQUENCE} ?)*{_EMOJI_SEQUENCE}|[0-9#*]\ufe0f?\u20e3",
    "number": r"\+\d{1,3}(?:[ -]?\d{2,4}){2,5}"
    r"|(?:\b[A-Za-z]+-|[$€£¥]?[+-]?)\w*\d\w*(?:[.,:/'’-]\d\w*|\.[ºª])*(?: ?[%€£¥‰]| ?°[CF]?)?",
    "private": "[\ue000-\uf8ff]",
}
EXPRESSION = "|".join(f"(?:{pattern})" for pattern in PATTERNS.values())
_SPAN = re.compile(EXPRESSION)
# Every span has one of these; most sentences do not, and need no search for spans.
_HINT = re.compile(
    r"[\d@#%$&`{\[</\\_:\u00a9\u00ae\u2100-\u2bff\u3030\u303d\ue000-\uf8ff\U0001f000-\U0001faff]|\w\.\w|\(\)"
)


class Kept(NamedTuple):
    """A text whose kept spans are replaced by slots."""

    text: str
    values: tuple[str, ...]  # the spans, by number of their slot


def find_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the characters [begin, end) of the kept spans of a text, in order."""
    if _HINT.search(text):
        for match in _SPAN.finditer(text):
            yield match.span()


def keep_spans(text: str, spans: Sequence[tuple[int, int]], slots: Sequence[str] = SLOTS) -> Kept:
    """Replace spans by slots; those for which no slot is left stay as they are.

    Args:
        text: the text.
        spans: characters [begin, end) of each span, in order.
        slots: the slots that may be used, in order.
    """
    parts: list[str] = []
    values: list[str] = []
    end = 0
    for (first, last), slot in zip(spans, slots, strict=False):
        parts += [text[end:first], slot]
        values.append(text[first:last])
        end = last
    return Kept("".join([*parts, text[end:]]), tuple(values))


def count_slots(text: str, count: int) -> list[int]:
    """Return how often each of the first ``count`` slots occurs in a text."""
    return [text.count(slot) for slot in SLOTS[:count]]


def is_intact(text: str, count: int) -> bool:
    """Whether a translation has each of the first ``count`` slots once, and no other slot."""
    slots = _SLOT.findall(text)
    return len(slots) == count and sorted(slots) == list(SLOTS[:count])


def restore_spans(
    text: str, values: Sequence[str], place: Callable[[str, int], int] | None = None
) -> tuple[str, tuple[str, ...]]:
    """Put spans back in place of their slots.

    Args:
        text: a translation with slots.
        values: the spans, by number of their slot.
        place: returns where in a translation to insert a slot that it lacks, given its number;
            None: at the end.

    Returns:
        The translation, in which each span replaces the first of its slots, and the spans that were
        lost and had to be inserted. Repeated and unknown slots are removed.
    """
    seen: set[str] = set()

    def drop_repeated(match: re.Match[str]) -> str:
        slot = match[0]
        is_kept = slot in SLOTS[: len(values)] and slot not in seen
        seen.add(slot)
        return slot if is_kept else ""

    text = _SLOT.sub(drop_repeated, text)
    lost = [number for number in range(len(values)) if SLOTS[number] not in seen]
    for number in lost:
        at = len(text) if place is None else place(text, number)
        before, after = text[:at].rstrip(), text[at:].lstrip()
        text = " ".join(filter(None, (before, SLOTS[number], after)))
    restored = _SLOT.sub(lambda match: values[SLOTS.index(match[0])], text)
    return restored, tuple(values[number] for number in lost)
