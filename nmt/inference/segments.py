"""Segments of texts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nmt.data.tokenizer import Tokenizer
from nmt.inference.bracket_matching import SourceBrackets, match_brackets
from nmt.inference.contract import Engine, Hypothesis
from nmt.inference.normalization import NormalizedText
from nmt.inference.prefixes import NO_PREFIX, Prefix, make_prefix
from nmt.inference.results import Translation
from nmt.text.brackets import find_bracketed, remove_brackets
from nmt.text.case import LetterCase
from nmt.text.dates import NO_DATES, DateWriter
from nmt.text.final_marks import ALL_STOPS, ELLIPSIS, find_commas, localize_marks
from nmt.text.marked import MarkedText, splice
from nmt.text.scripts import CAPITALS, UNKNOWN_LANGUAGE, has_capital_nouns
from nmt.text.sentences import CLOSING
from nmt.text.spans import SLOTS, SlottedText, Span, show_spans
from nmt.text.tags import NO_TAGS, TaggedText, remove_tags
from nmt.text.terms import NO_TERMS, Glossary

if TYPE_CHECKING:
    from nmt.inference.segmenting import Segmenter

_ENDS = re.compile(rf"[{re.escape(ALL_STOPS)}][{CLOSING}]*$")  # of a sentence
_ACRONYM = re.compile(rf"[(\[][{CAPITALS}]+[)\]]")
_WORD = re.compile(r"[^\W\d_]{2}")


@dataclass(frozen=True, eq=False)
class Segment:
    """A sentence, or a part of one that is longer than the model translates in one go."""

    # int32 [S - 1], without EOS; a tag of the text comes first, and then a context.
    ids: np.ndarray
    text: str  # cleaned, without the tag; kept spans are replaced by slots
    spans: tuple[str, ...] = ()  # the kept spans, by number of their slot
    space: str = ""  # white space, and marks that are not translated, before it
    case: LetterCase = LetterCase.ORDINARY  # of the source
    is_copied: bool = False  # nothing but kept spans and marks: see `copy_segment`
    context_size: int = 0  # how many of the ids are of a context, or of a tag before it
    prefix: Prefix = NO_PREFIX  # what its translation begins with
    normalized: NormalizedText | None = None  # what the ids encode; None: the text itself
    # The sentence with its brackets taken out, before letter case and words are read.
    brackets: TaggedText = NO_TAGS
    # Of the whole text: `TaggedText.tags`. Its translation gets them when the segments are joined.
    tags: tuple[tuple[str, str], ...] = ()
    aligns_tags: bool = False  # whether the places of the tags depend on the alignment of words
    dates: DateWriter = NO_DATES  # writes kept spans that are dates
    glossary: Glossary = NO_TERMS  # whose terms its translation has
    continues: bool = False  # whether it is a part of a sentence that the next segment continues
    # Whether it is inside of a sentence: a common word at the beginning of its translation has no
    # capital.
    begins_lower: bool = False
    may_lower: bool = False  # see `may_lower`
    remarks: tuple[Remark, ...] = ()  # those of its kept spans that are translated

    @property
    def sentence_ids(self) -> np.ndarray:
        """The ids without those of a context, and of a tag before it."""
        return self.ids[self.context_size :]

    @property
    def searched_tokens(self) -> int:
        """How many source tokens are searched for its translation, with those of its remarks."""
        sentence_tokens = 0 if self.is_copied else len(self.ids)
        parts = (part for remark in self.remarks for part in remark.text.segments)
        return sentence_tokens + sum(part.searched_tokens for part in parts)

    @property
    def full_text(self) -> str:
        """The text with its kept spans, as users see it."""
        return show_spans(self.text, self.spans)

    @cached_property
    def target_spans(self) -> tuple[str, ...]:
        """What translations have in place of kept spans: these, dates and digits translated.

        Remarks are translated if their translations are known.
        """
        spans = list(self.dates.write_all(self.text, self.spans))
        for remark in self.remarks:
            if remark.translation is not None:
                spans[remark.slot] = remark.translation.text
        return tuple(spans)

    @property
    def needs_words(self) -> bool:
        """Whether words of its translations must be known, so that tags or brackets are placed."""
        return self.aligns_tags or bool(self.brackets.tags)

    @property
    def normalized_text(self) -> str:
        """The text as its ids have it."""
        return self.text if self.normalized is None else self.normalized.text

    @cached_property
    def ellipses(self) -> dict[int, str]:
        """See `NormalizedText.find_ellipses`."""
        return {} if self.normalized is None else self.normalized.find_ellipses(self.text)

    def has_commas_of(self, translation: str) -> bool:
        """Whether a translation has as many commas as the normalized text.

        False where a quotation was taken out: before it, a comma may stand for another mark.
        """
        if self.brackets.tags:
            return False
        return len(find_commas(self.normalized_text)) == len(find_commas(translation))

    @property
    def is_fragment(self) -> bool:
        """Whether its translation has a full stop only if it has one itself.

        It is a heading, a text in brackets, or a part that the next segment continues.
        """
        is_in_brackets = self.space.endswith(("(", "["))
        return self.case is not LetterCase.ORDINARY or is_in_brackets or self.continues

    def begin_with(self, prefix: str, *, ends_word: bool = False) -> Segment:
        """Return a segment whose translation begins with a prefix, but for tags and brackets.

        Args:
            prefix: cleaned text.
            ends_word: whether the last word of the prefix is complete.
        """
        prefix = prefix.removeprefix(self.space.strip())
        begun, prefix = self._begin_remarks(remove_tags(prefix, self.tags), ends_word=ends_word)
        bare = remove_brackets(prefix, self.brackets.tags)
        ends_word = ends_word or bare[-1:].isspace()
        full_text = " ".join(bare.split())
        prefix_in_slots = make_prefix(full_text, begun.target_spans, self.case, ends_word=ends_word)
        return replace(begun, prefix=prefix_in_slots)

    def _begin_remarks(self, prefix: str, *, ends_word: bool) -> tuple[Segment, str]:
        """Return a segment with what a prefix has of its remarks, and the prefix in slots."""
        if not self.spans:
            return self, prefix
        remarks = {remark.slot: remark for remark in self.remarks}
        bracketed = find_bracketed(prefix)
        texts = [prefix[begin:end] for begin, end in bracketed]
        changes: list[tuple[int, int, str]] = []
        for slot, (begin, end) in zip(
            match_brackets(_list_brackets(self), texts), bracketed, strict=False
        ):
            if slot is None or (changes and begin < changes[-1][1]):  # inside of the one before
                continue
            if slot in remarks and end > len(prefix):  # its end is not a part of the prefix
                begun = remarks[slot].begin_with(prefix[begin:], ends_word=ends_word)
                if begun is None:
                    prefix = prefix[:begin]
                    break
                remarks[slot] = begun
            elif slot in remarks:
                translation = Translation(prefix[begin:end], 0.0, 0.0, ())
                remarks[slot] = remarks[slot]._replace(translation=translation)
            changes.append((begin, min(end, len(prefix)), SLOTS[slot]))
        return replace(self, remarks=tuple(remarks.values())), splice(prefix, changes)

    @property
    def begun_remark(self) -> Remark | None:
        """The remark that the prefix begins and does not finish, if any."""
        return next(
            (
                remark
                for remark in self.remarks
                if remark.translation is None and self.prefix.full_text.endswith(SLOTS[remark.slot])
            ),
            None,
        )

    def mask_remarks(self, translation: str) -> str:
        """Return a translation with a slot in place of each character of its remarks."""
        for remark in self.remarks:
            text = remark.translation.text if remark.translation else ""
            translation = translation.replace(text, SLOTS[remark.slot] * len(text), 1)
        return translation

    def with_remarks(self, translations: Iterable[Translation]) -> Segment:
        """Return a segment whose untranslated remarks get these translations, in order."""
        if not self.remarks:
            return self
        new = iter(translations)
        remarks = (
            each if each.translation else each._replace(translation=next(new, None))
            for each in self.remarks
        )
        return replace(self, remarks=tuple(remarks))

    def find_tokens(self, tokenizer: Tokenizer) -> list[Span]:
        """Return the characters [begin, end) of the text of each id, but for a tag and a context.

        Args:
            tokenizer: of the ids.
        """
        if self.normalized is None:
            return tokenizer.spans(self.text)
        text, origins = self.normalized
        ends = (*origins, len(self.text))
        return [
            (ends[begin], ends[end - 1] + 1 if begin < end else ends[begin])
            for begin, end in tokenizer.spans(text)
        ]


class SegmentedText(NamedTuple):
    """A text in segments."""

    segments: tuple[Segment, ...]
    end: str  # white space after the last segment; without segments, all of the text's
    source: TaggedText = NO_TAGS  # the text, without its context

    @property
    def spaces(self) -> list[str]:
        """White space before each segment, and after the last."""
        return [*(segment.space for segment in self.segments), self.end]


class Remark(NamedTuple):
    """A text in brackets inside of a sentence, as in "Ana (mi hermana) y yo".

    The model reads the sentence with a slot in its place: such sentences are rare in training.
    """

    slot: int  # number of its slot
    text: SegmentedText  # with its brackets; it has no segments until `read_remarks`
    translation: Translation | None = None  # None: not translated yet

    def begin_with(self, prefix: str, *, ends_word: bool) -> Remark | None:
        """Return a remark whose translation begins so; None: it has several sentences."""
        if len(self.text.segments) != 1:
            return None
        [part] = self.text.segments
        inside = prefix[1:].lstrip().removeprefix(part.space[1:].strip())
        begun = part.begin_with(inside, ends_word=ends_word)
        return Remark(self.slot, self.text._replace(segments=(begun,)))


def list_remarks(slotted: SlottedText, case: LetterCase) -> tuple[Remark, ...]:
    """Return the remarks of a segment that are translated; (OMS) and (x, y) are copied.

    Args:
        slotted: text and kept spans of the segment.
        case: its letter case.
    """
    remarks = []
    for slot in slotted.remarks:
        text = slotted.values[slot]
        is_acronym = case is not LetterCase.UPPER and _ACRONYM.fullmatch(text)
        if _WORD.search(text) and not is_acronym:
            remarks.append(Remark(slot, SegmentedText((), text)))
    return tuple(remarks)


def read_remarks(
    sentences: Sequence[Sequence[Segment]], tags: Sequence[str], segmenter: Segmenter
) -> Iterator[list[Segment]]:
    """Yield the segments of each sentence with those of their remarks.

    Args:
        sentences: the segments of each.
        tags: that of the text of each, with the space after it, if any.
        segmenter: that made the segments.
    """
    texts = [
        tag + remark.text.end[1:-1]
        for tag, segments in zip(tags, sentences, strict=True)
        for segment in segments
        for remark in segment.remarks
    ]
    segmented = iter(segmenter.segment_all(texts) if texts else ())
    lowers = may_lower(segmenter.target_language)

    def read(remark: Remark) -> Remark:
        text = _write_brackets(remark.text.end, next(segmented), lowers=lowers)
        return remark._replace(text=text)

    for segments in sentences:
        yield [
            replace(segment, remarks=tuple(map(read, segment.remarks)))
            if segment.remarks
            else segment
            for segment in segments
        ]


def _write_brackets(span: str, text: SegmentedText, *, lowers: bool) -> SegmentedText:
    """Return the text of a remark with its brackets.

    Args:
        span: as the sentence has it.
        text: in segments, without the brackets.
        lowers: whether the first word has a small letter if its source has one.
    """
    first, *others = text.segments
    is_lower = next(filter(str.isalpha, first.text), "").islower()
    if others:  # it gets no full stop that the remark lacks
        others[-1] = replace(others[-1], continues=True)
    first = replace(first, space=span[0] + first.space, begins_lower=is_lower and lowers)
    return SegmentedText((first, *others), text.end + span[-1], TaggedText(MarkedText(span)))


def _list_brackets(segment: Segment) -> list[SourceBrackets]:
    """Return the texts in brackets of a source, in order."""
    source = segment.full_text
    if segment.brackets.tags:
        source = segment.brackets.insertions.insert(segment.brackets.text)
    texts = [source[begin:end] for begin, end in find_bracketed(source)]
    remarks = {remark.slot for remark in segment.remarks}
    slots = defaultdict[str, list[int]](list)
    for number, span in enumerate(segment.spans):
        slots[span].append(number)
    brackets = []
    for text in reversed(texts):  # of equal texts, the first may begin the sentence: no remark
        slot = slots[text].pop() if slots[text] else None
        brackets.append(SourceBrackets(text, slot, slot in remarks))
    return brackets[::-1]


def enter_remark(segment: Segment) -> tuple[str, Segment]:
    """Return the text before the unfinished remark of a prefix, and the segment of that remark.

    Of remarks inside of each other, the innermost counts. Without an unfinished remark, these are
    an empty text and the segment itself.
    """
    if segment.begun_remark is None:
        return "", segment
    [part] = segment.begun_remark.text.segments
    before, innermost = enter_remark(part)
    written = show_spans(segment.prefix.full_text[:-1], segment.target_spans)
    return written + part.space + before, innermost


def link_parts(parts: Sequence[Segment], space: str, language: str) -> list[Segment]:
    """Return the parts of a sentence, marked as such.

    Args:
        parts: in order.
        space: before the sentence.
        language: BCP 47 tag of their translations. If it is unknown or has nouns with capitals,
            capitals at their beginnings stay.
    """
    lowers = may_lower(language)
    return [
        replace(
            part,
            space=part.space if number > 1 else space,
            continues=number < len(parts),
            begins_lower=lowers and number > 1 and not _ENDS.search(parts[number - 2].text),
            may_lower=lowers,
        )
        for number, part in enumerate(parts, 1)
    ]


def may_lower(language: str) -> bool:
    """Whether a capital tells the beginning of a sentence, or a name, in a language."""
    return language != UNKNOWN_LANGUAGE and not has_capital_nouns(language)


def continues_other(space: str, language: str) -> bool:
    """Whether a sentence after white space and marks continues the one before: "...y luego"."""
    return may_lower(language) and space.rstrip().endswith(("...", ELLIPSIS))


def copy_segment(segment: Segment, language: str = UNKNOWN_LANGUAGE) -> Translation:
    """Return the translation of a segment that is copied: it costs no search and has no tokens.

    Args:
        segment: the segment.
        language: BCP 47 tag of the translation, whose marks it gets.
    """
    text = "".join(copy_signs(segment, language))
    return Translation(text, log_prob=0.0, score=0.0, tokens=())


def copy_signs(segment: Segment, language: str) -> list[str]:
    """Return what the copy of a segment has for each character of its text: see `copy_segment`."""
    values = dict(zip(SLOTS, segment.target_spans, strict=False))
    copied = [values.get(sign) or localize_marks(sign, language) for sign in segment.text]
    return copied if any(copied) else list(segment.text)


def align_outputs(
    engine: Engine, outputs: Sequence[tuple[Segment, Hypothesis | Translation]]
) -> list[np.ndarray]:
    """Return the alignment of each output to its segment, float32 [T, S]: see `Engine.align`."""
    sources = [segment.ids for segment, _ in outputs]
    targets = [np.asarray(output.tokens[:-1], np.int32) for _, output in outputs]
    return engine.align(sources, targets)
