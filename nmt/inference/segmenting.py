"""Texts to segments: sentences, or parts of those that are too long for the model."""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, islice, pairwise, takewhile
from typing import NamedTuple, Self

import numpy as np

from nmt.data.paired import LANGUAGE_CODE, PairedTokenizer
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.inference.markup_projection import needs_alignment
from nmt.inference.normalization import NormalizedText, Normalizer
from nmt.inference.segments import (
    Segment,
    SegmentedText,
    continues_other,
    link_parts,
    list_remarks,
    may_lower,
    read_remarks,
)
from nmt.inference.sentence_reading import ReadSentence, SentenceReader
from nmt.text.brackets import split_marks
from nmt.text.case import LetterCase
from nmt.text.cleaning import LINE_ENDS, clean_input, clean_text, replace_surrogates
from nmt.text.context import CONTEXT_MARK, add_context, split_context, to_context
from nmt.text.dates import DateWriter
from nmt.text.final_marks import OTHER_STOPS
from nmt.text.labels import cut_labels
from nmt.text.marked import MarkedText
from nmt.text.scripts import UNKNOWN_LANGUAGE, character_ends
from nmt.text.sentences import CLOSING
from nmt.text.source_words import SourceWords
from nmt.text.spans import (
    SLOTS,
    SlottedText,
    Span,
    drop_inner,
    has_letters_outside,
    keep_spans,
    skip_span,
)
from nmt.text.tags import TaggedText, read_tags
from nmt.text.terms import Glossary

# Marks after which a text is cut: ends of sentences first, then ends of clauses. Those of the first
# column count only before white space (3.14 and 12:30 are not cut), those of the second everywhere.
_MARKS = (
    (".!?…", OTHER_STOPS),
    (",;:)]»—–", "、，；：､،؛፣፤፥၊"),
)
_CUTS = (
    *(
        re.compile(rf"(?:[{re.escape(spaced)}][{CLOSING}]*(?=\s)|[{anywhere}]+[{CLOSING}]*)\s*")
        for spaced, anywhere in _MARKS
    ),
    re.compile(r"\s+"),
)
# Of a list or a column; E, I, O, U and Y are words.
_LETTER = re.compile(r"[A-DF-HJ-NP-TV-XZ]\.?", re.IGNORECASE)
_SPEAKER = re.compile(rf"{_LETTER.pattern}\s?:")
_FindSpans = Callable[[str], list[Span]]
_WINDOW = 8  # characters per token in which a cut is searched; tokens are seldom longer


class _Sentence(NamedTuple):
    """A sentence to translate."""

    read: ReadSentence
    normalized: NormalizedText  # of the sentence with slots
    tag: str  # of the text, with the space after it, if any
    space: str  # white space before it
    context: str  # the sentences before it, with the space after them


class Segmenter:
    """Cuts texts into segments, and encodes them.

    Args:
        tokenizer: encodes the texts.
        max_tokens: most tokens of a segment, without EOS.
        tags: words that may begin a text, such as ``<2en>``: repeated before every segment. The
            language codes of a `PairedTokenizer` are repeated as well.
        unit: one of `nmt.config.decoding.UNITS`: "sentence" cuts texts into sentences; "line" cuts
            only texts longer than ``max_tokens``.
        language: BCP 47 tag of the texts, whose rules decide where sentences end.
        target_language: the same, of their translations: dates are written in it.
        context: previous sentences that stand before each sentence, as in training. A text may
            begin with those before it: see `nmt.text.context`.
        words: of the training sources: typing errors in unknown ones are corrected, and unknown
            names are kept spans. None: not known.
        carries_tags: whether tags and brackets are taken out of texts, for a caller that carries
            them to the translation by alignment.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_tokens: int,
        tags: Sequence[str] = (),
        *,
        unit: str = "sentence",
        language: str = UNKNOWN_LANGUAGE,
        target_language: str = UNKNOWN_LANGUAGE,
        context: int = 0,
        words: SourceWords | None = None,
        carries_tags: bool = False,
    ) -> None:
        self.max_tokens = max_tokens
        self.tags = tuple(tags)
        self.unit = unit
        self.language = language
        # A tag may ask for another language.
        self.target_language = UNKNOWN_LANGUAGE if tags else target_language
        self.context = context
        self._tokenizer = tokenizer
        self.words = words
        self._slots = SLOTS[: tokenizer.slots]
        self._carries_tags = carries_tags and bool(self._slots)
        patterns = [rf"{re.escape(tag)}(?=\s)" for tag in tags]
        if isinstance(tokenizer, PairedTokenizer):
            patterns.append(LANGUAGE_CODE)
        self._tag = re.compile("|".join(patterns)) if patterns else None
        self._normalizer = Normalizer(tokenizer, language, words)
        self._reader = SentenceReader(
            tokenizer,
            words,
            self._normalizer,
            language=language,
            target_language=target_language,
            dates=DateWriter(language, target_language),
            takes_brackets=self._carries_tags,
        )
        self._has_warned = False

    def with_glossary(self, glossary: Glossary | None) -> Self:
        """Return a segmenter that neither corrects nor keeps the words of a glossary's terms.

        Terms that are not translated become kept spans if the model does not know their words.
        None: this segmenter.
        """
        if glossary is None:
            return self
        segmenter = copy(self)
        segmenter._reader = self._reader.with_glossary(glossary)
        return segmenter

    def segment(self, text: str) -> SegmentedText:
        """Return the segments of a text: none if it is empty or only white space."""
        return self.segment_all([text])[0]

    def segment_all(self, texts: Sequence[str]) -> list[SegmentedText]:
        """Return the segments of each text."""
        sources = [self._read_tags(text) for text in texts]
        split_texts = [self._split(context + source.text) for context, source in sources]
        sentences = [sentence for sentences, _ in split_texts for sentence in sentences]
        encoded = self._tokenizer.encode(
            [sentence.tag + sentence.context + sentence.normalized.text for sentence in sentences]
        )
        cut = list(map(self._cut, sentences, encoded))
        by_sentence = read_remarks(cut, [each.tag for each in sentences], self)
        return [
            SegmentedText(
                tuple(
                    _add_tags(segment, source) if source.tags else segment
                    for segment in chain.from_iterable(islice(by_sentence, len(sentences)))
                ),
                end,
                source,
            )
            for (sentences, end), (_, source) in zip(split_texts, sources, strict=True)
        ]

    def _read_tags(self, text: str) -> tuple[str, TaggedText]:
        """Return the context of a text, and the rest."""
        text = replace_surrogates(text)
        context, rest = split_context(text) if self.context else ("", text)
        if not self._carries_tags:
            return context, TaggedText(MarkedText(rest))
        return read_tags(context).text, read_tags(rest)

    def segment_whole(self, text: str) -> Segment:
        """Return the segment of a text that has one.

        Raises:
            UserError: the text is empty, copied or has several segments.
        """
        segments = self.segment(text).segments
        if not segments:
            raise UserError("the sentence is empty: give one with at least one word")
        if segments[0].is_copied:
            raise UserError(
                f"{text.strip()!r} has no words that the model reads: it is copied, not translated"
            )
        if len(segments) > 1:
            raise UserError(
                f"the text is not translated in one go: give one sentence of at most "
                f"{self.max_tokens} tokens"
            )
        return segments[0]

    def _split(self, text: str) -> tuple[list[_Sentence], str]:
        """Return the sentences of a text, and the white space after them.

        The mark of an item of a list, and quotation marks around a sentence, count as white space.
        """
        tag, space, text = self.split_tag(text)
        context = ""
        if self.context:
            context, text = split_context(text)
            if self._tag is not None and context:
                # Each line of a document may begin with the tag.
                lines = context.split(CONTEXT_MARK)
                context = CONTEXT_MARK.join(self.split_tag(line)[2] for line in lines)
                inner, _, text = self.split_tag(text)
                tag = inner or tag
        given = map(clean_input, context.split(CONTEXT_MARK))
        previous = deque(filter(None, map(self._reader.remove_brackets, given)), self.context)
        sentences: list[_Sentence] = []
        pieces = [(text, text)] if self.unit == "line" else cut_labels(text, self.language)
        for piece, whole in pieces:
            content = piece.strip()
            cleaned = clean_input(content)
            if not cleaned:  # characters that are not text
                space += piece.replace(content, "") if content else piece
                continue
            before, _, after = piece.partition(content)
            if self.unit == "sentence":
                begins_line = not sentences or any(end in space for end in LINE_ENDS)
                opening, inside, closing = split_marks(
                    content, begins_line=begins_line, is_word=self._normalizer.is_common_word
                )
                before, after = before + opening, closing + after
                cleaned = cleaned if inside == content else clean_input(inside)
            read = self._reader.read(cleaned)
            if _LETTER.fullmatch(cleaned) or (not whole and _SPEAKER.fullmatch(content)):
                read = read._replace(is_copied=True)
            normalized = self._normalizer.normalize(*read.slotted[:2], read.case)
            preceding = add_context("", previous)
            sentences.append(_Sentence(read, normalized, tag, space + before, preceding))
            if self.context and whole:
                previous.append(to_context(self._reader.remove_brackets(clean_input(whole))))
            space = after
        return sentences, space

    def split_tag(self, text: str) -> tuple[str, str, str]:
        """Return the tag that begins a text, the white space before it, and the rest."""
        if self._tag is None:
            return "", "", text
        begin = 0
        while begin < len(text) and not clean_text(text[begin]):
            begin += 1
        match = self._tag.match(text[begin:])
        if not match or len(self._tokenizer.encode([match[0]])[0]) >= self.max_tokens:
            return "", "", text
        space = "".join(filter(str.isspace, text[:begin]))
        rest = text[begin + match.end() :]
        content = rest.lstrip()
        return match[0] + " " * (len(content) < len(rest)), space, content

    def _cut(self, sentence: _Sentence, ids: np.ndarray) -> list[Segment]:
        read = sentence.read
        if len(ids) > self.max_tokens and sentence.context:
            # No room for the context: without it, the sentence may stay in one piece.
            sentence = sentence._replace(context="")
            [ids] = self._tokenizer.encode([sentence.tag + sentence.normalized.text])
        is_too_long = len(ids) > self.max_tokens
        if read.is_copied or not (is_too_long or read.lacks_slots):
            return [
                Segment(
                    ids,
                    *read.slotted[:2],
                    sentence.space,
                    read.case,
                    read.is_copied,
                    self._count_before(sentence),
                    normalized=sentence.normalized,
                    brackets=read.brackets,
                    dates=self._reader.dates,
                    begins_lower=continues_other(sentence.space, self.target_language),
                    may_lower=may_lower(self.target_language),
                    remarks=list_remarks(read.slotted, read.case),
                )
            ]
        text, given = read.text, read.given
        if read.brackets.tags:  # its parts keep them
            with_brackets = read.brackets.insertions.insert(read.brackets.text)
            text, given, *_ = self._reader.read(with_brackets, takes_brackets=False)
        if is_too_long and not self._has_warned:
            warnings.warn(
                f"a text of {len(ids)} tokens is longer than the {self.max_tokens} that are "
                "translated in one go: such texts are translated in segments",
                stacklevel=1,
            )
            self._has_warned = True
        [tag] = self._tokenizer.encode([sentence.tag.strip()])
        is_ordinary = read.case is LetterCase.ORDINARY
        find = partial(self._reader.find_spans, keeps_terms=not is_ordinary)
        parts = self._parts(text, given, self.max_tokens - len(tag), find)
        segments = [
            Segment(
                np.concatenate([tag, ids]),
                *slotted[:2],
                space,
                read.case,
                is_copied,
                normalized=self._normalizer.normalize(*slotted[:2], read.case),
                dates=self._reader.dates,
                remarks=list_remarks(slotted, read.case),
            )
            for space, slotted, ids, is_copied in parts
        ]
        return link_parts(segments, sentence.space, self.target_language)

    def _count_before(self, sentence: _Sentence) -> int:
        """Return the number of tokens of a context and a tag before it; 0 without a context."""
        if not sentence.context:
            return 0
        [ids] = self._tokenizer.encode([(sentence.tag + sentence.context).rstrip()])
        return len(ids)

    def _parts(
        self, text: str, given: str, room: int, find: _FindSpans
    ) -> Iterator[tuple[str, SlottedText, np.ndarray, bool]]:
        """Yield of each part of a text the space before it, text, ids, and whether it is copied.

        Parts have at most ``room`` ids. Kept spans are written as in the ``given`` text.
        """
        spans = find(text) if self._slots else []
        width = _WINDOW * room
        begin = 0
        while begin < len(text):
            limit = skip_span(begin + width, spans)
            window = text[begin:limit]
            end = len(window)
            if limit < len(text) or not self._fits(window, room, find):
                end = self._longest_fit(window, room, find)
            part = window[:end].strip()
            space = " " if text[begin - 1 : begin] == " " else ""
            part_spans = find(part)
            at = text.index(part, begin)
            slotted = self._reader.insert_slots(part, part_spans, given[at : at + len(part)])
            ids = self._encode(part, part_spans)
            begin += end
            is_copied = not has_letters_outside(part, part_spans)
            if len(ids) <= room or is_copied:
                yield space, slotted, ids, is_copied
                continue
            # Only a single character, or a span without a slot, can have more tokens than fit.
            for first in range(0, len(ids), room):
                text_of_part = "" if first else part
                yield space, SlottedText(text_of_part, ()), ids[first : first + room], False
                space = ""

    def _longest_fit(self, text: str, room: int, find: _FindSpans) -> int:
        """Return where to cut a text, in characters: the last fitting cut of the best kind."""
        spans = find(text) if self._slots else []
        for cut in _CUTS:
            ends = drop_inner([match.end() for match in cut.finditer(text)], spans)
            clauses = (text[begin:end].strip() for begin, end in pairwise([0, *ends]))
            sizes = accumulate(len(self._encode(clause, find(clause))) for clause in clauses)
            # Encoded together they hardly ever have more tokens than encoded one by one.
            fitting = list(takewhile(lambda size: size <= room, sizes))
            for end in reversed(ends[: len(fitting)]):
                if self._fits(text[:end], room, find):
                    return end
        ends = drop_inner(character_ends(text), spans)
        too_long = bisect_left(ends, True, key=lambda end: not self._fits(text[:end], room, find))
        return ends[max(too_long - 1, 0)]

    def _fits(self, text: str, room: int, find: _FindSpans) -> bool:
        """Whether a part of a text has few enough tokens and kept spans."""
        text = text.strip()
        spans = find(text)
        lacks_slots = len(spans) > len(self._slots) > 0
        return not lacks_slots and len(self._encode(text, spans)) <= room

    def _encode(self, text: str, spans: Sequence[Span]) -> np.ndarray:
        """Return the ids of a text with slots in place of its kept spans."""
        slotted = keep_spans(text, spans, self._slots)
        return self._tokenizer.encode([self._normalizer.normalize(*slotted[:2]).text])[0]


def _add_tags(segment: Segment, source: TaggedText) -> Segment:
    return replace(segment, tags=source.tags, aligns_tags=needs_alignment(source.marked))
