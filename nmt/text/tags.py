"""Tags in texts, as interface texts have them: ``Read the <b>terms</b>``."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise

from nmt.text.marked import MarkedText, MarkedTextBuilder, splice, walk
from nmt.text.sentences import BLOCKS
from nmt.text.spans import Span, find_spans, make_overlap_test

_TAG = re.compile(r"<(?P<end>/?)(?P<name>[\w:.-]+)(?:\s[^<>]*?)?(?P<empty>/?)>")
_END_TAG = re.compile(r"</[\w:.-]+\s*>")
_CUT_TAG = re.compile(r"<[^<>]*$")
# Marks alone, such as that of an item.
_MARKS = re.compile(r"(?=.*\S)[^\w<]*(?:(?:\d{1,3}|[IVX]{1,4}|[A-Za-z])[.)]-?)?[^\w<]*", re.DOTALL)
SPACED_MARKS = frozenset(",;:.!?…)]}»”")  # between them and a word, there is a space
_MAX_ELEMENTS = 1000  # of a text: the time to project them grows with their square
# Elements between which sentences end, and those that touch a word to which they do not belong.
_LEFT_IN_TEXT = re.compile(f"br|{BLOCKS}|su[bp]", re.IGNORECASE)


@dataclass(frozen=True)
class Insertions:
    """Strings that are put into a text."""

    places: tuple[int, ...] = ()  # sorted indices of the characters that they come before
    strings: tuple[str, ...] = ()

    @cached_property
    def _lengths(self) -> list[int]:
        """Characters of the first strings: of none, of one, and so on."""
        return [0, *accumulate(map(len, self.strings))]

    def insert(self, text: str) -> str:
        """Return the text with the strings."""
        pairs = zip(self.places, self.strings, strict=True)
        return splice(text, ((place, place, string) for place, string in pairs))

    def move(self, begin: int, end: int) -> Span:
        """Return where characters [begin, end) are in the text with the strings."""
        first = bisect_right(self.places, begin)
        last = max(bisect_left(self.places, end), first)
        return begin + self._lengths[first], end + self._lengths[last]


@dataclass(frozen=True)
class TaggedText:
    """A text whose tags are taken out: its elements are marks."""

    marked: MarkedText
    tags: tuple[tuple[str, str], ...] = ()  # what each mark begins and ends with

    @property
    def text(self) -> str:
        """The text without the tags of elements."""
        return self.marked.text

    @cached_property
    def insertions(self) -> Insertions:
        """The tags, put into the text: as it was read."""
        return self.place_tags(self.marked)

    def place_tags(self, marked: MarkedText) -> Insertions:
        """Return the tags, put into another text with the same elements."""
        places: list[int] = []
        strings: list[str] = []
        at = 0
        for event in walk(marked):
            at += len(event.text)
            if event.begins is not None:
                places.append(at)
                strings.append(self.tags[event.begins][0])
            elif event.ends is not None:
                places.append(at)
                strings.append(self.tags[event.ends][1])
        return Insertions(tuple(places), tuple(strings))


NO_TAGS = TaggedText(MarkedText(""))


def read_tags(text: str) -> TaggedText:
    """Return a text whose start and end tags that match are taken out.

    Tags of blocks, such as `<li>`, those of `<sub>` and `<sup>`, empty ones, such as `<0/>`, those
    without a partner, such as the `<file>` of a command, those inside of kept spans, such as code,
    those around marks, such as "1.", and those that alone separate words stay parts of the text.
    """
    if "</" not in text:
        return take_out(text, ())
    tags = (match for span in find_spans(text) if (match := _TAG.fullmatch(text, *span)))
    elements = {
        start.span(): end.span()
        for start, end in _match_tags(tags)
        if not _MARKS.fullmatch(text, start.end(), end.start())
    }
    if len(elements) > _MAX_ELEMENTS:
        return take_out(text, ())
    separating = _find_separating(text, elements)
    return take_out(text, [pair for pair in elements.items() if separating.isdisjoint(pair)])


def take_out(text: str, elements: Sequence[tuple[Span, Span]]) -> TaggedText:
    """Return a text without what its elements begin and end with.

    If other kept spans are found in it than in the text, nothing is taken out.

    Args:
        text: the text.
        elements: characters [begin, end) of the start and the end of each; they are well nested.
    """
    if not elements:
        return TaggedText(MarkedText(text))
    builder = MarkedTextBuilder()
    tags: list[tuple[str, str]] = []
    done = 0
    ends = dict(elements)
    pieces = sorted(chain(ends, ends.values()))
    for begin, end in pieces:
        builder.add_unchanged(text[done:begin])
        done = end
        last = ends.get((begin, end))
        if last is None:
            builder.close()
        else:
            builder.open()
            tags.append((text[begin:end], text[slice(*last)]))
    builder.add_unchanged(text[done:])
    tagged = TaggedText(builder.build(), tuple(tags))
    is_taken = make_overlap_test(pieces)
    stay = [text[slice(*span)] for span in find_spans(text) if not is_taken(*span)]
    kept_spans = [tagged.text[slice(*span)] for span in find_spans(tagged.text)]
    return tagged if kept_spans == stay else TaggedText(MarkedText(text))


def _find_separating(text: str, elements: Mapping[Span, Span]) -> set[Span]:
    """Return the tags without which words would touch: those of "one</a><a>two", "one,<a>two"."""
    separating: set[Span] = set()
    run: list[Span] = []  # tags that touch each other
    for tag in [*sorted(chain(elements, elements.values())), (len(text), len(text))]:
        if run and run[-1][1] != tag[0]:
            begin, end = run[0][0], run[-1][1]
            before, after = text[max(begin - 1, 0) : begin], text[end : end + 1]
            are_between = any(
                first not in elements and second in elements for first, second in pairwise(run)
            )
            if after.isalnum() and (before in SPACED_MARKS or (are_between and before.isalnum())):
                separating.update(run)
            run = []
        run.append(tag)
    return separating


def remove_tags(text: str, tags: Sequence[tuple[str, str]]) -> str:
    """Return the prefix of a text without the tags of elements; a tag may be cut at its end."""
    for tag in dict.fromkeys(chain.from_iterable(tags)):
        text = text.replace(tag, "")
    return _CUT_TAG.sub("", text) if tags else text


def cut_end_tags(text: str) -> str:
    """Return a text without the end tags and the white space at its end."""
    text = text.rstrip()
    while text.endswith(">") and _END_TAG.fullmatch(text, begin := text.rfind("<")):
        text = text[:begin].rstrip()
    return text


def _match_tags(tags: Iterable[re.Match[str]]) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """Yield the start and the end tag of each element."""
    opened: list[re.Match[str]] = []
    names = Counter[str]()  # of the opened tags
    for tag in tags:
        name = tag["name"]
        if tag["empty"] or _LEFT_IN_TEXT.fullmatch(name):
            continue
        if not tag["end"]:
            opened.append(tag)
            names[name] += 1
        elif names[name]:
            while (start := opened.pop())["name"] != name:
                names[start["name"]] -= 1  # it has no end
            names[name] -= 1
            yield start, tag
