"""Projects marks of a text, such as tags, onto its translation by the alignment of words."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.inference.alignment import match_characters, move_spans
from nmt.inference.results import Translation, Word
from nmt.inference.segments import Segment
from nmt.inference.source_shares import SourceShares
from nmt.inference.word_links import align_by_position
from nmt.text.brackets import PAIRS
from nmt.text.case import copy_quoted_capitals
from nmt.text.marked import Mark, MarkedText, delete_characters
from nmt.text.spans import Span, find_spans, make_overlap_test
from nmt.text.tags import Insertions, TaggedText
from nmt.text.words import find_words

_TAG = re.compile(r"<(?![^<>\s]+(?:@|://))")  # not the address of <ana@example.com>
_TWO_ELLIPSES = re.compile(r"(?:\.{3}|…)\s+(?:\.{3}|…)$")


def project_marks(source: MarkedText, text: str, words: Sequence[Word]) -> MarkedText:
    """Return a translation with the marks of its source, each exactly once.

    An element gets the words that are aligned to its own: the contiguous ones that agree best.
    Words inherit as a whole. An element around all of its parent's text stays around all of it.
    Elements without content come after the word that they followed, or before the one that they
    preceded. Whatever the alignment says, elements stay inside of their parents.

    Args:
        source: the source.
        text: its translation, with the characters of kept elements.
        words: the words of the translation, with the characters of the source that each comes from;
            empty: unknown, so words are aligned by their position.
    """
    if not source.marks:
        return MarkedText(text)
    words = words or align_by_position(source.text, text)
    before = text[: words[0].begin] if words else ""
    if before.strip() and before[-1].isspace() and source.text.startswith(before):
        # The mark of an item, which is in no segment.
        marks = [Word(*span, None, (span,)) for span in find_words(before)]
        words = [*marks, *words]
    kept = {source.text[mark.begin] for mark in source.marks if mark.is_kept}
    spans = find_spans(text) if "<" in text else ()
    is_tag = make_overlap_test([span for span in spans if _TAG.match(text, span[0])])
    words = [
        word
        for word in words
        if text[word.begin : word.end] not in kept and not is_tag(word.begin, word.end)
    ]
    return _MarkProjector(source, text, words).project()


def needs_alignment(source: MarkedText) -> bool:
    """Whether the places of marks in a translation depend on which words are aligned."""
    text = source.text
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    for mark in source.marks:
        is_around = mark.begin <= first and last <= mark.end
        is_beside = mark.end <= first or last <= mark.begin
        if not (mark.is_kept or is_around or is_beside):
            return True
    return False


def project_tags(source: TaggedText, translation: Translation) -> tuple[Translation, Insertions]:
    """Return a translation with the tags of its source, and the places that these got.

    If it is not known which words are aligned, tags inside of the text count as lost spans.

    Args:
        source: the source.
        translation: of its text without tags, to which its words refer; those of the result refer
            to the text with tags.
    """
    if not source.tags:
        return translation, Insertions()
    marked = project_marks(source.marked, translation.text, translation.words)
    places = source.place_tags(marked)
    words = (
        replace(
            word,
            begin=begin,
            end=end,
            sources=tuple(source.insertions.move(*span) for span in word.sources),
        )
        for word in translation.words
        for begin, end in [places.move(word.begin, word.end)]
    )
    lost = translation.lost_spans
    if translation.text and not translation.words and needs_alignment(source.marked):
        lost += tuple(chain.from_iterable(source.tags))
    text = places.insert(translation.text)
    return replace(translation, text=text, words=tuple(words), lost_spans=lost), places


def project_brackets(segment: Segment, translation: Translation) -> Translation:
    """Return a translation of a segment with the brackets of its sentence."""
    brackets = segment.brackets
    if not brackets.tags:
        return translation
    matched = match_characters(segment.full_text, brackets.text)
    words = (replace(word, sources=move_spans(word.sources, matched)) for word in translation.words)
    projected, _ = project_tags(brackets, replace(translation, words=tuple(words)))
    # The sources stay characters of the text without brackets.
    pairs = zip(projected.words, translation.words, strict=True)
    source = brackets.insertions.insert(brackets.text)
    projected = replace(projected, text=copy_quoted_capitals(source, projected.text))
    return replace(projected, words=tuple(replace(new, sources=old.sources) for new, old in pairs))


class _Area(NamedTuple):
    """What a mark covers in the translation."""

    characters: Span
    words: Span


class _MarkProjector:
    """Projects the marks of one text.

    Args:
        source: the source.
        text: its translation.
        words: aligned words of the translation, in order.
    """

    def __init__(self, source: MarkedText, text: str, words: Sequence[Word]) -> None:
        self._source = source
        self._text = text
        self._words = words
        self._shares = SourceShares(words)
        self._is_punctuation = np.array(
            [not any(map(str.isalnum, text[word.begin : word.end])) for word in words], bool
        )
        kept = {mark.begin for mark in source.marks if mark.is_kept}
        # With spaces in place of kept elements.
        self._translated = "".join(" " if i in kept else c for i, c in enumerate(source.text))
        places = reversed(range(len(source.text)))
        self._last_word = next((i for i in places if source.text[i].isalnum()), -1)
        self._kept = self._find_kept()
        self._points = self._find_points()
        begin = len(text) - len(text.lstrip())
        whole = _Area((begin, max(begin, len(text.rstrip()))), (0, len(words)))
        self._areas: dict[int | None, _Area] = {None: whole}
        self._is_taken: dict[int | None, NDArray[np.bool_]] = {}  # words, by parent
        # Characters of the elements with words, by parent.
        self._siblings: dict[int | None, list[tuple[int, int, int]]] = defaultdict(list)

    def project(self) -> MarkedText:
        """Return the translation with its marks."""
        marks = self._source.marks
        for index, mark in enumerate(marks):  # parents come first
            if self._has_words(mark):
                area = self._place_words(mark)
                self._areas[index] = area
                self._siblings[mark.parent].append((*area.characters, index))
        for siblings in self._siblings.values():
            siblings.sort()
        for index in range(len(marks)):
            if index not in self._areas:
                at = self._place_point(index)
                self._areas[index] = _Area((at, at), (0, 0))
        placed = []
        for index, mark in enumerate(marks):
            begin, end = self._areas[index].characters
            placed.append(mark._replace(begin=begin, end=end))
        signs = set(map(self._sign, self._kept)) - {"\n"}
        cuts = {at for at, sign in enumerate(self._text) if sign in signs} | {*self._kept.values()}
        return delete_characters(MarkedText(self._text, tuple(placed)), sorted(cuts))

    def _sign(self, index: int) -> str:
        """Return the character that stands for a kept element."""
        return self._source.text[self._source.marks[index].begin]

    def _find_kept(self) -> dict[int, int]:
        """Return where the translation has the character of each kept element that it has."""
        searched: dict[str, int] = defaultdict(int)
        places: dict[int, int] = {}
        # Line breaks count even if they are not elements.
        breaks = [
            [at for at, sign in enumerate(text) if sign == "\n"]
            for text in (self._source.text, self._text)
        ]
        matched = dict(zip(*breaks, strict=True)) if len(breaks[0]) == len(breaks[1]) else {}
        for index, mark in enumerate(self._source.marks):
            if mark.is_kept and mark.begin < mark.end:
                sign = self._sign(index)
                at = matched.get(mark.begin, -1)
                if at < 0:
                    at = self._text.find(sign, searched[sign])
                if at >= 0:
                    places[index] = at
                    searched[sign] = at + 1
        return places

    def _find_points(self) -> dict[int, int]:
        """Return where kept elements come, and those with nothing but kept ones inside."""
        points = dict(self._kept)
        for index, at in self._kept.items():
            parent = self._source.marks[index].parent
            while parent is not None and not self._has_words(self._source.marks[parent]):
                points.setdefault(parent, at)
                parent = self._source.marks[parent].parent
        return points

    def _has_words(self, mark: Mark) -> bool:
        return bool(self._translated[mark.begin : mark.end].strip())

    def _place_words(self, mark: Mark) -> _Area:
        """Return the words of an element: the best run of its parent's that no sibling has."""
        parent = self._areas[mark.parent]
        first, last = parent.words
        if mark.parent not in self._is_taken:
            self._is_taken[mark.parent] = np.zeros(last - first, bool)
            if self._covers_parent(mark):
                self._is_taken[mark.parent][:] = True
                return parent
        is_taken = self._is_taken[mark.parent]
        for index in self._shares.find(mark.begin):
            part = self._find_part(mark, self._words[index])
            if part and first <= index < last and self._is_free(part, mark.parent):
                is_taken[index - first] = True
                return _Area(part, (index, index + 1))
        if is_taken.all():
            return _Area((parent.characters[1],) * 2, (last, last))
        words = self._find_words(mark, first, last, is_taken)
        is_taken[words[0] - first : words[1] - first] = True
        begin, end = self._words[words[0]].begin, self._words[words[1] - 1].end
        kept = [
            at
            for i, at in self._kept.items()
            if mark.begin <= self._source.marks[i].begin < mark.end and self._sign(i) != "\n"
        ]
        begin, end = _add_kept(self._text, (begin, end), kept, parent.characters)
        return _Area(self._add_brackets(mark, begin, end, parent.characters), words)

    def _is_free(self, part: Span, parent: int | None) -> bool:
        """Whether no sibling has a part of a word."""
        begin, end = part
        return all(last <= begin or end <= first for first, last, _ in self._siblings[parent])

    def _add_brackets(self, mark: Mark, begin: int, end: int, parent: Span) -> Span:
        """Return characters [begin, end) of an element, and brackets beside them that belong to it.

        It has both or neither of two brackets, and both if its source has them at its ends.
        """
        before = self._text[max(begin - 1, parent[0]) : begin]
        after = self._text[end : min(end + 1, parent[1])]
        inside, source = self._text[begin:end], self._source.text[mark.begin : mark.end].strip()
        for opening, closing in PAIRS.items():
            if (before, after) == (source[:1], source[-1:]) == (opening, closing):
                return begin - 1, end + 1
            balance = inside.count(opening) - inside.count(closing)
            is_odd = opening == closing and inside.count(opening) % 2 == 1
            if before == opening and (balance < 0 or is_odd):
                return begin - 1, end
            if after == closing and (balance > 0 or is_odd):
                return begin, end + 1
        return begin, end

    def _find_words(self, mark: Mark, first: int, last: int, is_taken: NDArray[np.bool_]) -> Span:
        """Return the free words of [first, last) that an element gets; not all are taken."""
        scores = self._shares.score(mark)[first:last]
        begin, end = _find_best_run(scores, is_taken)
        if any(map(str.isalnum, self._translated[mark.begin : mark.end])):
            is_other = is_taken | self._is_punctuation[first:last]
            if is_other[begin:end].all() and not is_other.all():
                begin, end = _find_best_run(scores, is_other)
        return self._trim_punctuation(mark, begin + first, end + first)

    def _find_part(self, mark: Mark, word: Word) -> Span | None:
        """Return the part of a word that an element has in the source, as the 2 of CO2.

        None if the element has no such part, or the word is written otherwise in the source.
        """
        if len(word.sources) != 1:
            return None
        [(begin, end)] = word.sources
        is_part = begin <= mark.begin and mark.end <= end and mark.end - mark.begin < end - begin
        if not is_part or self._source.text[begin:end] != self._text[word.begin : word.end]:
            return None
        return word.begin + mark.begin - begin, word.begin + mark.end - begin

    def _trim_punctuation(self, mark: Mark, begin: int, end: int) -> Span:
        """Return words [begin, end) without outer punctuation that the source lacks.

        One word stays.
        """
        content = self._source.text[mark.begin : mark.end].strip()
        # Of the two ellipses of "nobody... ...and", the second belongs to the next cue.
        last_two = self._text[self._words[max(end - 2, begin)].begin : self._words[end - 1].end]
        if _TWO_ELLIPSES.fullmatch(last_two) and not _TWO_ELLIPSES.search(content):
            end -= 1
        while end - begin > 1 and content[-1:].isalnum() and self._is_punctuation[end - 1]:
            end -= 1
        while end - begin > 1 and content[:1].isalnum() and self._is_punctuation[begin]:
            begin += 1
        return begin, end

    def _covers_parent(self, mark: Mark) -> bool:
        """Whether an element has all the text of its parent, white space left out."""
        text = self._source.text
        begin, end = 0, len(text)
        if mark.parent is not None:
            begin, end, *_ = self._source.marks[mark.parent]
        return not text[begin : mark.begin].strip() and not text[mark.end : end].strip()

    def _place_point(self, index: int) -> int:
        """Return where an element without words comes: never inside of a sibling."""
        mark = self._source.marks[index]
        at = self._points.get(index)
        if at is None:
            at = self._find_neighbor(mark)
        begin, end = self._areas[mark.parent].characters
        if mark.parent is None:  # white space around the text is outside of elements with words
            begin, end = 0, len(self._text)
        at = min(max(at, begin), end)
        siblings = self._siblings[mark.parent]
        before = bisect_left(siblings, (at, -1, -1)) - 1
        if before >= 0 and at < siblings[before][1]:
            first, last, sibling = siblings[before]
            at = first if sibling > index else last
        return at

    def _find_neighbor(self, mark: Mark) -> int:
        """Return the place after the word that an element follows, or before the next word."""
        text = self._source.text
        begin, end = mark.begin, mark.end
        while begin and text[begin - 1].isspace():
            begin -= 1
        while end < len(text) and text[end].isspace():
            end += 1
        if not begin:
            return 0
        if end == len(text):
            return len(self._text)
        if end > self._last_word:  # nothing but marks follow, such as a full stop
            tail, written = text[end:].strip(), self._text.rstrip()
            if written.endswith(tail):
                return len(written) - len(tail)
        if begin < mark.begin:
            following = self._shares.find(end)
            if following:
                at = min(self._words[i].begin for i in following)
                # White space that follows the element stays behind it, if there is more before.
                while end > mark.end and self._text[max(at - 2, 0) : at].isspace() and at > 1:
                    at, end = at - 1, end - 1
                return at
        preceding = self._shares.find(begin - 1)
        if preceding:
            return max(self._words[i].end for i in preceding)
        # No neighbor was translated: the nearest end of a word at the same share of the text.
        ends = [word.end for word in self._words] or [0]
        at = bisect_left(ends, len(self._text) * mark.begin // len(text))
        return ends[min(at, len(ends) - 1)]


def _add_kept(text: str, element: Span, kept: Sequence[int], parent: Span) -> Span:
    """Return characters [begin, end) of an element, with kept ones of its own beside them.

    Args:
        text: the translation.
        element: the words of the element.
        kept: where the characters of its kept elements are.
        parent: characters that the element must stay inside of.
    """
    begin, end = element
    for at in sorted(kept):
        if end <= at < parent[1] and not text[end:at].strip(" "):
            end = at + 1
    for at in sorted(kept, reverse=True):
        if parent[0] <= at < begin and not text[at + 1 : begin].strip(" "):
            begin = at
    return begin, end


def _find_best_run(scores: NDArray[np.float64], is_taken: NDArray[np.bool_]) -> Span:
    """Return the contiguous words whose scores have the largest sum, at least one word.

    Args:
        scores: [N].
        is_taken: [N], words that must not be among them; not all are.
    """
    sums = np.concatenate([[0.0], np.cumsum(np.where(is_taken, -1e6, scores))])
    end = int((sums[1:] - np.minimum.accumulate(sums[:-1])).argmax()) + 1
    begin = end - 1 - int(sums[:end][::-1].argmin())  # the last minimum: the shortest run
    return begin, end
