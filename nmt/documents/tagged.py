"""Strings with tags, as interface texts have them: ``Read the <b>terms</b>``."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from nmt.documents.marked import MarkedText, MarkedTextBuilder, walk
from nmt.text.sentences import BLOCKS

_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w:.-]*|\d+)(?:\s[^<>]*?)?(?P<empty>/?)>")
# Elements between which sentences end.
_BLOCK = re.compile(f"br|{BLOCKS}", re.IGNORECASE)


@dataclass(frozen=True)
class TaggedText:
    """A string, read as a text with elements.

    Start and end tags that match are elements, and so are empty tags such as `<0/>`. Tags of
    blocks, such as `<br>` and `<li>`, end sentences. Any other tag, such as the `<file>` of a
    command, stays a part of the text.
    """

    marked: MarkedText
    tags: tuple[tuple[str, str], ...]  # the start and the end tag of each mark

    def write(self, translation: MarkedText) -> str:
        """Return the translation as a string with the same tags."""
        parts = []
        for event in walk(translation):
            if event.begins is not None:
                parts.append(self.tags[event.begins][0])
            elif event.ends is not None:
                parts.append(self.tags[event.ends][1])
            else:
                parts.append(event.text)
        return "".join(parts)


def read_tags(text: str) -> TaggedText:
    """Read a string."""
    matches = list(_TAG.finditer(text))
    partners = _match_tags(matches)
    builder = MarkedTextBuilder()
    tags: list[tuple[str, str]] = []
    end = 0
    for number, match in enumerate(matches):
        is_block = _is_block(match)
        if number not in partners and not (match["empty"] or is_block):
            continue
        builder.add_text(text[end : match.start()])
        end = match.end()
        if number not in partners:
            builder.add_kept(breaks_line=is_block)
            tags.append((match[0], ""))
        elif match["end"]:
            builder.close()
        else:
            builder.open()
            tags.append((match[0], matches[partners[number]][0]))
    builder.add_text(text[end:])
    return TaggedText(builder.build(), tuple(tags))


def _match_tags(matches: list[re.Match[str]]) -> dict[int, int]:
    """Return for each start or end tag of an element the index of the other one."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    names = Counter[str]()  # of the opened tags
    for number, match in enumerate(matches):
        if match["empty"] or _is_block(match):
            continue
        if not match["end"]:
            opened.append(number)
            names[match["name"]] += 1
        elif names[match["name"]]:
            while matches[start := opened.pop()]["name"] != match["name"]:
                names[matches[start]["name"]] -= 1  # it has no end
            names[match["name"]] -= 1
            partners[start], partners[number] = number, start
    return partners


def _is_block(tag: re.Match[str]) -> bool:
    return _BLOCK.fullmatch(tag["name"]) is not None
