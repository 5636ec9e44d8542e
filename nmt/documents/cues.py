"""Cues of subtitles as one text with marks, and a translation divided among them again."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from itertools import pairwise
from typing import Literal, NamedTuple

from nmt.documents.html_tokens import unescape
from nmt.text.final_marks import FINAL_MARKS
from nmt.text.marked import Mark, MarkedText, MarkedTextBuilder, walk
from nmt.text.scripts import breaks_without_space

_LINE_LENGTH = 42  # characters that a viewer reads in one line
_COMFORT = 6  # characters by which a break may move to come after punctuation
_CONTINUATION = 4  # times that before an ellipsis
_NO_BREAK = "\xa0\u202f"
_SPACE = rf"[^\S{_NO_BREAK}]"
_SPACES = re.compile(f"{_SPACE}+")
_WIDE = "[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff01-\uff60]"
# Where a line may break: before a word, but not after the dash of a speaker; and between characters
# of scripts without spaces.
_PLACE = re.compile(
    rf"(?<={_SPACE})(?<![-–—]{_SPACE})(?<!\.{{3}}{_SPACE}\.{{3}}{_SPACE})(?<!…{_SPACE}…{_SPACE})"
    r"(?=[^\s?!:;»])"
    rf"|(?<={_WIDE})(?<![「『（【])(?=[{_WIDE[1:-1]}])(?![、。，．！？」』）】ー・])"
)
_PUNCTUATION = tuple(FINAL_MARKS)
_DASH = "[-–—]"
# The dash of a turn that touches the text; also the # of a song, where one ends the cue: #La la#.
_TIGHT_DASH = re.compile(rf"\s*{_DASH}(?![-\d\s])")
_TIGHT_SIGN = re.compile(rf"{_TIGHT_DASH.pattern}|\s*#(?=[^\W\d_])")
# What a translation must not contain where signs cannot be escaped: the beginning of a tag, and
# an arrow; and, in any format, the beginning of an override.
_TAG_BEGIN = re.compile(r"<(?=/?(?:[bius]|font)\b)", re.IGNORECASE)
_OVERRIDE_BEGIN = re.compile(r"\{(?=\\)")


@dataclass
class Cue:
    """The text of a cue.

    Args:
        begin: its characters [begin, end) in the document.
        end: see above.
        lines: without white space around them, at least one.
        ends: whether a sentence or a speaker's turn ends with each line but the last.
    """

    begin: int
    end: int
    lines: Sequence[str]
    ends: Sequence[bool]

    @property
    def blocks(self) -> list[int]:
        """The number of lines of each run of lines that belong together."""
        cuts = [0, *(i + 1 for i, is_end in enumerate(self.ends) if is_end), len(self.lines)]
        return [last - first for first, last in pairwise(cuts)]


@dataclass
class _Token:
    kind: Literal["text", "open", "close", "point", "line", "break", "cue", "merged"]
    raw: str = ""  # characters of a tag or text; white space before a line or cue
    pair: int = -1  # index of the tag that closes or opens the element


class _Content(NamedTuple):
    """What a mark stands for."""

    cue: int  # in which it begins
    kind: str
    before: str = ""  # written where it begins
    after: str = ""  # and where it ends


@dataclass
class CueGroup:
    """One sentence or more, in one cue or more.

    Args:
        cues: the cues.
        tag: what a tag is.
        is_escaped: whether `<` and `&` are written as references.

    Attributes:
        marked: the text; marks are elements, breaks of lines that stay, and boundaries of cues.
    """

    cues: Sequence[Cue]
    tag: re.Pattern[str]
    is_escaped: bool
    marked: MarkedText = field(init=False)

    def __post_init__(self) -> None:
        self._contents: list[_Content] = []
        show = self.tag.sub
        lines = [[show("", line) for line in cue.lines] for cue in self.cues]
        self._limits = [max(_LINE_LENGTH, *map(len, each)) for each in lines]
        self._tight = [
            _TIGHT_SIGN if each[-1].rstrip().endswith("#") else _TIGHT_DASH for each in lines
        ]
        self._is_tight = [
            any(map(tight.match, each)) for tight, each in zip(self._tight, lines, strict=True)
        ]
        self.marked = self._build(self._tokenize())

    def fill(self, translation: MarkedText) -> list[str]:
        """Return the text of each cue with a translation."""
        marked = MarkedText(self._clean(translation.text), translation.marks)
        edges = self._find_edges(marked)
        return [self._write(cue, marked, *each) for cue, each in enumerate(pairwise(edges))]

    def _tokenize(self) -> list[_Token]:
        """Return the tokens of all cues; equal elements at both sides of a break are one."""
        tokens: list[_Token] = []
        before = ""  # the last line with text
        for number, cue in enumerate(self.cues):
            first = len(tokens)
            for line, is_break in zip(cue.lines, [None, *cue.ends], strict=True):
                text = self.tag.sub("", line).strip()
                space = "" if breaks_without_space(before, text) else " "
                if is_break is not None:
                    tokens.append(_Token("break" if is_break else "line", space))
                elif number:
                    tokens.append(_Token("cue", space))
                tokens += self._tokenize_line(line, self._tight[number])
                before = text or before
            _pair_tags(tokens, first)
        for index, token in enumerate(tokens):
            if token.kind in ("line", "break", "cue"):
                _merge_elements(tokens, index)
        return tokens

    def _tokenize_line(self, line: str, tight: re.Pattern[str]) -> Iterator[_Token]:
        is_tight = bool(tight.match(self.tag.sub("", line)))
        done = 0
        for match in [*self.tag.finditer(line), None]:
            text = line[done : match.start() if match else len(line)]
            if is_tight and text.strip():  # to translation, the mark of a list or a song
                text = text.replace(text.strip()[0], f"{text.strip()[0]} ", 1)
                is_tight = False
            if text:
                yield _Token("text", unescape(text) if self.is_escaped else text)
            if match:
                done = match.end()
                yield _Token(_classify(match[0]), match[0])

    def _build(self, tokens: list[_Token]) -> MarkedText:
        """Return the marked text, and note what its marks stand for."""
        builder = MarkedTextBuilder()
        cue = 0
        has_space = has_text = False  # white space to write, text before it
        for token in tokens:
            text = _SPACES.sub(" ", token.raw) if token.kind in ("text", "line", "cue") else ""
            has_space |= text.startswith(" ")
            is_space_due = has_space and has_text and token.kind not in ("close", "line", "break")
            if is_space_due and (text.strip(" ") or token.kind != "text"):
                builder.add_text(" ")
                has_space = has_text = False
            if token.kind == "text" and text.strip(" "):
                builder.add_text(text.strip(" "))
                has_space, has_text = text.endswith(" "), True
            elif token.kind == "open":
                builder.open()
                self._contents.append(_Content(cue, "tag", token.raw, tokens[token.pair].raw))
            elif token.kind == "close":
                builder.close()
            elif token.kind == "point":
                builder.add_empty()
                self._contents.append(_Content(cue, "tag", token.raw))
            elif token.kind == "break":
                builder.add_kept(breaks_line=True)
                self._contents.append(_Content(cue, "break", "\n"))
                has_space = has_text = False
            elif token.kind == "cue":
                cue += 1
                builder.add_empty()
                self._contents.append(_Content(cue, "cue"))
        return builder.build()

    def _clean(self, text: str) -> str:
        """Replace what would read as markup or as a line break; the length stays."""
        text = "".join(" " if sign.isspace() and sign not in _NO_BREAK else sign for sign in text)
        text = _OVERRIDE_BEGIN.sub("(", text)
        return text if self.is_escaped else _TAG_BEGIN.sub("‹", text).replace("-->", "--›")

    def _find_edges(self, translation: MarkedText) -> list[int]:
        """Return where each cue begins in a translation, and the end.

        The alignment decides, but a cue gives at most a third of its share to another.
        """
        source, marks, text = self.marked, translation.marks, translation.text
        boundaries = [i for i, content in enumerate(self._contents) if content.kind == "cue"]
        scale = len(text) / max(len(source.text), 1)
        shares = [0.0, *(source.marks[i].begin * scale for i in boundaries), float(len(text))]
        breaks = [
            (content.cue, mark.begin)
            for content, mark in zip(self._contents, marks, strict=True)
            if content.kind == "break"
        ]
        ideals, limits = [], []
        for cue, boundary in enumerate(boundaries, 1):
            before, share, after = shares[cue - 1 : cue + 2]
            earliest, latest = share - (share - before) / 3, share + (after - share) / 3
            ideals.append(min(max(marks[boundary].begin, earliest), latest))
            low = max((at for number, at in breaks if number < cue), default=0)
            high = min((at for number, at in breaks if number >= cue), default=len(text))
            space = len(text[low:]) - len(text[low:].lstrip())  # a line has a word
            limits.append((low + space, high))
        chosen = _choose_breaks(text, ideals, _COMFORT, limits)
        return [0, *chosen, *[len(text)] * (len(ideals) - len(chosen)), len(text)]

    def _write(self, cue: int, translation: MarkedText, begin: int, end: int) -> str:
        """Return the text of a cue.

        Args:
            cue: its number.
            translation: of the whole sentence.
            begin: its characters [begin, end).
            end: see above.
        """
        text = translation.text[begin:end]
        begin += len(text) - len(text.lstrip(" "))
        text = text.strip(" ")
        marks, contents = self._cut(cue, translation.marks, begin, begin + len(text))
        fixed = sorted(
            mark.begin
            for mark, content in zip(marks, contents, strict=True)
            if content.kind == "break"
        )
        blocks = self.cues[cue].blocks
        breaks: list[int] = []
        for (first, last), count in zip(pairwise([0, *fixed, len(text)]), blocks, strict=True):
            block = text[first:last]
            limit = self._limits[cue]
            if blocks == [1] and len(block) > limit:
                count = 2
            size = len(block) / count
            comfort = _COMFORT if size + _COMFORT <= limit else 0
            ideals = [size * number for number in range(1, count)]
            breaks += [first + at for at in _choose_breaks(block, ideals, comfort)]
        write_text = partial(escape, quote=False) if self.is_escaped else str
        content = _render(MarkedText(text, marks), contents, breaks, write_text)
        content = re.sub(r" *\n[ \n]*", "\n", content).strip(" \n")
        if self._is_tight[cue]:
            begin_of_line = rf"^((?:{self.tag.pattern})*(?:{_DASH}|#)) (?=\S)"
            content = re.sub(begin_of_line, r"\1", content, flags=self.tag.flags | re.MULTILINE)
        return content

    def _cut(
        self, cue: int, marks: Sequence[Mark], begin: int, end: int
    ) -> tuple[tuple[Mark, ...], list[_Content]]:
        """Return the marks of a cue and what they stand for.

        Elements with text are in each cue that has some of it, others in the cue of the source.
        """
        cut: list[Mark] = []
        contents: list[_Content] = []
        numbers: dict[int | None, int | None] = {None: None}  # of marks of the cue
        for index, (mark, content) in enumerate(zip(marks, self._contents, strict=True)):
            first, last = (min(max(at, begin), end) for at in mark[:2])
            is_point = mark.begin == mark.end
            if content.kind == "cue" or (content.cue != cue if is_point else first == last):
                numbers[index] = numbers[mark.parent]
                continue
            numbers[index] = len(cut)
            cut.append(Mark(first - begin, last - begin, numbers[mark.parent]))
            contents.append(content)
        return tuple(cut), contents


def _classify(tag: str) -> Literal["open", "close", "point"]:
    """Return what a tag does: overrides and times have no end."""
    if not tag.startswith("<") or tag[1].isdecimal():
        return "point"
    return "close" if tag.startswith("</") else "open"


def _pair_tags(tokens: list[_Token], first: int) -> None:
    """Pair the tags of the last cue, whose tokens begin at an index.

    An end tag without a beginning becomes a point; elements left open get an empty end tag.
    """
    opened: list[int] = []
    for index in range(first, len(tokens)):
        token = tokens[index]
        if token.kind == "open":
            opened.append(index)
        elif token.kind == "close":
            if opened and _name(tokens[opened[-1]].raw) == _name(token.raw):
                token.pair = opened.pop()
                tokens[token.pair].pair = index
            else:
                token.kind = "point"
    for index in reversed(opened):
        tokens[index].pair = len(tokens)
        tokens.append(_Token("close", "", index))


def _name(tag: str) -> str:
    return re.split(r"[\s.>]", tag.lstrip("</"), maxsplit=1)[0].lower()


def _merge_elements(tokens: list[_Token], index: int) -> None:
    """Join elements with equal tags that end before a token and begin again after it."""
    left, right = index - 1, index + 1
    while left >= 0 and right < len(tokens):
        end, begin = tokens[left], tokens[right]
        if end.kind != "close" or begin.kind != "open" or tokens[end.pair].raw != begin.raw:
            break
        tokens[end.pair].pair, tokens[begin.pair].pair = begin.pair, end.pair
        end.kind = begin.kind = "merged"
        left, right = left - 1, right + 1


def _choose_breaks(
    text: str, ideals: Sequence[float], comfort: float, limits: Sequence[tuple[int, int]] = ()
) -> list[int]:
    """Return breaks near ideal ones, each before a word, as far as there are words.

    Args:
        text: the text.
        ideals: characters, in order.
        comfort: characters by which a break may move to come after punctuation.
        limits: characters between which each break should be.
    """
    begin = len(text) - len(text.lstrip())
    places = [match.start() for match in _PLACE.finditer(text) if match.start() > begin]
    chosen: list[int] = []
    first = 0  # index of the first place that is free

    for number, ideal in enumerate(ideals):
        last = min(max(len(places) - (len(ideals) - 1 - number), first + 1), len(places))
        low, high = first, last
        if limits:
            lower, upper = limits[number]
            low = max(low, bisect_right(places, lower))
            high = min(high, bisect_left(places, upper))
        if low >= high:
            low, high = first, last
        if low >= high:
            break

        def cost(index: int, ideal: float = ideal) -> float:
            before = text[max(places[index] - 2, 0) : places[index]].rstrip()
            bonus = comfort * before.endswith(_PUNCTUATION)
            continues = text.startswith(("...", "…"), places[index])  # another cue
            return abs(places[index] - ideal) - bonus * (_CONTINUATION if continues else 1)

        near = min(max(bisect_left(places, ideal), low), high - 1)
        best = min(range(max(near - 4, low), min(near + 5, high)), key=cost)
        chosen.append(places[best])
        first = best + 1
    return chosen


def _render(
    marked: MarkedText,
    contents: Sequence[_Content],
    breaks: Sequence[int],
    write_text: Callable[[str], str],
) -> str:
    """Return a marked text with what its marks stand for, and line breaks before words."""
    parts: list[str] = []
    at = 0
    rest = [*breaks, len(marked.text) + 1]
    index = 0
    for event in walk(marked):
        if event.ends is not None:
            parts.append(contents[event.ends].after)
            continue
        end = at + len(event.text)
        # A break comes before the element that begins there, and after the one that ends.
        while rest[index] < end or rest[index] == at:
            parts += [write_text(marked.text[at : rest[index]]), "\n"]
            at = rest[index]
            index += 1
        parts.append(write_text(marked.text[at:end]))
        at = end
        if event.begins is not None:
            parts.append(contents[event.begins].before)
    return "".join(parts)
