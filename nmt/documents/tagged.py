"""Strings with tags, as interface texts have them: ``Read the <b>terms</b>``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nmt.documents.marked import MarkedText, MarkedTextBuilder, walk

_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w:.-]*|\d+)(?:\s[^<>]*?)?(?P<empty>/?)>")
_BREAK = "br"


@dataclass(frozen=True)
class TaggedText:
    """A string, read as a text with elements.

    Start and end tags that match are elements, and so are `<br>` and empty tags such as `<0/>`. Any
    other tag, such as the `<file>` of a command, stays a part of the text.
    """

    marked: MarkedText
    tags: tuple[tuple[str, str], ...]  # what is written where each mark begins and ends

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
        is_break = match["name"].lower() == _BREAK
        if number not in partners and not (match["empty"] or is_break):
            continue
        builder.add_text(text[end : match.start()])
        end = match.end()
        if number not in partners:
            builder.add_kept(breaks_line=is_break)
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
    for number, match in enumerate(matches):
        if match["empty"]:
            continue
        if not match["end"]:
            opened.append(number)
            continue
        names = [matches[index]["name"] for index in opened]
        if match["name"] in names:
            # Start tags in between have no end.
            at = len(names) - 1 - names[::-1].index(match["name"])
            partners[opened[at]], partners[number] = number, opened[at]
            del opened[at:]
    return partners
