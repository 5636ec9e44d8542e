"""Segments of texts, and how their translations are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nmt.data.tokenizer import Tokenizer
from nmt.inference.contract import Engine, Hypothesis
from nmt.inference.normalization import NormalizedText
from nmt.inference.placing import Placer
from nmt.inference.prefixes import NO_PREFIX, Prefix, make_prefix
from nmt.inference.results import Translation, clean_output
from nmt.text.brackets import remove_brackets
from nmt.text.case import (
    LetterCase,
    apply_case,
    copy_first_capital,
    copy_unusual_case,
    lower_first_capital,
)
from nmt.text.dates import NO_DATES, DateWriter
from nmt.text.final_marks import (
    ALL_STOPS,
    copy_final_marks,
    find_commas,
    localize_marks,
    replace_commas,
)
from nmt.text.scripts import UNKNOWN_LANGUAGE, has_capital_nouns
from nmt.text.sentences import CLOSING
from nmt.text.spans import (
    SLOTS,
    Span,
    find_spans,
    is_intact,
    order_placeholders,
    restore_spans,
    space_slots,
)
from nmt.text.tags import NO_TAGS, TaggedText, remove_tags
from nmt.text.terms import Glossary

_ONE_WORD = re.compile(r"\w+\W?")
_ENDS = re.compile(rf"[{re.escape(ALL_STOPS)}][{CLOSING}]*$")  # of a sentence


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
    glossary: Glossary | None = None  # whose terms its translation has
    continues: bool = False  # whether it is a part of a sentence that the next segment continues
    # Whether it is inside of a sentence: a common word at the beginning of its translation has no
    # capital.
    begins_lower: bool = False

    @property
    def sentence_ids(self) -> np.ndarray:
        """The ids without those of a context, and of a tag before it."""
        return self.ids[self.context_size :]

    @property
    def full_text(self) -> str:
        """The text with its kept spans, as users see it."""
        return show_spans(self.text, self.spans)

    @cached_property
    def target_spans(self) -> tuple[str, ...]:
        """What translations have in place of kept spans: these, dates and digits translated."""
        return self.dates.write_all(self.text, self.spans)

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
        bare = remove_brackets(remove_tags(prefix, self.tags), self.brackets.tags)
        ends_word = ends_word or bare[-1:].isspace()
        prefix = " ".join(bare.split())
        prefix_in_slots = make_prefix(prefix, self.target_spans, self.case, ends_word=ends_word)
        return replace(self, prefix=prefix_in_slots)

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


def link_parts(parts: Sequence[Segment], space: str, language: str) -> list[Segment]:
    """Return the parts of a sentence, marked as such.

    Args:
        parts: in order.
        space: before the sentence.
        language: BCP 47 tag of their translations. If it is unknown or has nouns with capitals,
            capitals at their beginnings stay.
    """
    may_lower = language != UNKNOWN_LANGUAGE and not has_capital_nouns(language)
    return [
        replace(
            part,
            space=part.space if number > 1 else space,
            continues=number < len(parts),
            begins_lower=may_lower and number > 1 and not _ENDS.search(parts[number - 2].text),
        )
        for number, part in enumerate(parts, 1)
    ]


def write_first_letter(segment: Segment, text: str, tokenizer: Tokenizer) -> str:
    """Return a translation whose first letter is a capital or a small one, as its place needs.

    At the beginning of a sentence, a capital of the source is copied. Inside of a sentence, common
    words begin with a small letter.

    Args:
        segment: the source.
        text: the translation, or its first word.
        tokenizer: of the run. Words that are a single piece in lower case are common.
    """
    if not segment.begins_lower:
        return copy_first_capital(segment.text, text)
    terms = segment.glossary.terms if segment.glossary else ()
    if any(re.match(rf"{re.escape(term.target)}(?!\w)", text) for term in terms):
        return text

    def is_common(word: str) -> bool:
        [ids] = tokenizer.target.encode([word])
        return tokenizer.target.pieces(ids) == [f"▁{word}"]

    return lower_first_capital(segment.text, text, is_common)


def show_spans(text: str, spans: Sequence[str]) -> str:
    """Return a text or a piece with kept spans in place of their slots, for display."""
    return text.translate({ord(slot): span for slot, span in zip(SLOTS, spans, strict=False)})


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


class SegmentWriter:
    """Writes the outputs of a search as translations.

    Args:
        tokenizer: the tokenizer of their ids.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def write(
        self,
        engine: Engine | None,
        segments: Sequence[Segment],
        outputs: Sequence[Sequence[Hypothesis]],
    ) -> list[list[Translation]]:
        """Return the translations of segments: one line each, with kept spans and letter case.

        A kept span that an output lacks is inserted beside the target word that is aligned to the
        source word beside it.

        Args:
            engine: the engine that searched; None: it cannot align.
            segments: the segments.
            outputs: the hypotheses of each.
        """
        pairs = [
            (segment, hypothesis)
            for segment, hypotheses in zip(segments, outputs, strict=True)
            for hypothesis in hypotheses
        ]
        decoded = self._tokenizer.decode([hypothesis.tokens for _, hypothesis in pairs])
        texts = list(map(clean_output, decoded))
        lacking = [
            number
            for number, ((segment, _), text) in enumerate(zip(pairs, texts, strict=True))
            if any(slot not in text for slot in SLOTS[: len(segment.spans)])
            or (segment.ellipses and not segment.has_commas_of(text))
        ]
        aligned: dict[int, np.ndarray] = {}
        if lacking and engine is not None and engine.can_align:
            alignments = align_outputs(engine, [pairs[i] for i in lacking])
            aligned = dict(zip(lacking, alignments, strict=True))
        translations = iter(
            self._write(*pair, text, aligned.get(number))
            for number, (pair, text) in enumerate(zip(pairs, texts, strict=True))
        )
        return [[next(translations) for _ in hypotheses] for hypotheses in outputs]

    def _write(
        self,
        segment: Segment,
        hypothesis: Hypothesis,
        text: str,
        weights: np.ndarray | None,
    ) -> Translation:
        """Return a translation.

        Args:
            segment: the segment.
            hypothesis: an output of its search.
            text: the decoded output, in one line.
            weights: float32 [T, S], of `Engine.align`; None: missing slots are added at its end.
        """
        lost: tuple[str, ...] = ()
        if not text and _ONE_WORD.fullmatch(segment.text):  # the model knows no translation
            text = segment.text
        spans, count, prefix = segment.target_spans, len(segment.spans), segment.prefix
        placer = None
        if weights is not None:
            placer = Placer(self._tokenizer, segment, hypothesis, weights)
        if self._tokenizer.slots and not is_intact(text, count):
            place = None if placer is None else placer.place_slot
            text, lost = restore_spans(text, SLOTS[:count], place, prefix.find_end(text))
            text = re.sub(" {2,}", " ", text).strip()  # repeated slots left spaces
        if count:
            text = order_placeholders(text, segment.spans, prefix.find_end(text))
        if segment.ellipses:
            text = _write_ellipses(segment, text, placer)
        if not prefix.text:  # letter case depends on what slots touch
            text = space_slots(segment.text, text, segment.spans)
        begin = prefix.find_end(text)
        text = text[:begin] + self._write_case(segment, text[begin:])
        if len(text) > begin:
            text = copy_final_marks(segment.text, text, is_fragment=segment.is_fragment)
            text = _cut_dot_after_sign(segment, text)
        if count:
            written = segment.dates.remove_articles(segment.text, text[begin:], segment.spans)
            text = text[:begin] + written
            # The dot of an abbreviated unit is also a full stop.
            spans = tuple(
                span.removesuffix(".") if f"{slot}." in text else span
                for slot, span in zip(SLOTS, spans, strict=False)
            )
            text = restore_spans(space_slots(segment.text, text, segment.spans), spans)[0]
        begin_text = show_spans(prefix.text, spans)
        if text.startswith(begin_text):
            text = prefix.full_text + text.removeprefix(begin_text)
        return Translation(
            text,
            hypothesis.log_prob,
            hypothesis.score,
            hypothesis.tokens,
            lost_spans=tuple(spans[SLOTS.index(slot)] for slot in lost),
        )

    def _write_case(self, segment: Segment, text: str) -> str:
        """Return a translation in the letter case of its source; kept spans are not changed."""
        if segment.case is not LetterCase.UPPER:
            text = copy_unusual_case(segment.text, text)
        if segment.case is LetterCase.ORDINARY:
            if segment.prefix.text:
                return text
            return write_first_letter(segment, text, self._tokenizer)
        parts: list[str] = []
        end = 0
        for first, last in [*find_spans(text), (len(text), len(text))]:
            parts += [apply_case(text[end:first], segment.case), text[first:last]]
            end = last
        return "".join(parts)


def _cut_dot_after_sign(segment: Segment, text: str) -> str:
    """Return a translation without a full stop that its source lacks after an emoji, as ":)"."""
    last = segment.text[-1:]
    if last in SLOTS[: len(segment.spans)] and text.endswith(f"{last}."):
        is_sign = not any(map(str.isalnum, segment.spans[SLOTS.index(last)]))
        return text.removesuffix(".") if is_sign else text
    return text


def _write_ellipses(segment: Segment, text: str, placer: Placer | None) -> str:
    """Return a translation with the ellipses that the model reads as commas.

    If it has as many commas as the source, they match in order; else the alignment tells where an
    ellipsis belongs. It is left out if that is unknown.
    """
    if segment.has_commas_of(text):
        commas = find_commas(text)
        places = {commas[number]: mark for number, mark in segment.ellipses.items()}
    elif placer is not None:
        places = {placer.place_comma(text, n): mark for n, mark in segment.ellipses.items()}
    else:
        return text
    begin = segment.prefix.find_end(text)
    return replace_commas(text, {at: mark for at, mark in places.items() if at >= begin})


def align_outputs(
    engine: Engine, outputs: Sequence[tuple[Segment, Hypothesis | Translation]]
) -> list[np.ndarray]:
    """Return the alignment of each output to its segment, float32 [T, S]: see `Engine.align`."""
    sources = [segment.ids for segment, _ in outputs]
    targets = [np.asarray(output.tokens[:-1], np.int32) for _, output in outputs]
    return engine.align(sources, targets)
