"""Outputs of a search, written as translations of segments."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from nmt.data.tokenizer import Tokenizer
from nmt.inference.contract import Engine, Hypothesis
from nmt.inference.placing import Placer
from nmt.inference.results import Translation, clean_output
from nmt.inference.segments import Segment, align_outputs
from nmt.text.case import (
    LetterCase,
    apply_case,
    copy_first_capital,
    copy_unusual_case,
    lower_first_capital,
)
from nmt.text.final_marks import copy_final_marks, find_commas, replace_commas
from nmt.text.spans import (
    SLOTS,
    find_spans,
    is_intact,
    order_placeholders,
    restore_spans,
    show_spans,
    space_slots,
)

_ONE_WORD = re.compile(r"\w+\W?")


def write_first_letter(segment: Segment, text: str, tokenizer: Tokenizer) -> str:
    """Return a translation whose first letter is a capital or a small one, as its place needs.

    At the beginning of a sentence, a capital of the source is copied. Inside of a sentence, and
    after a number or a name that begins both texts, common words begin with a small letter.

    Args:
        segment: the source.
        text: the translation, or its first word.
        tokenizer: of the run. Words that are a single piece in lower case are common.
    """
    if not segment.begins_lower:
        text = copy_first_capital(segment.text, text)
        begins_with_slot = all(each.startswith(SLOTS[0]) for each in (segment.text, text))
        if not (begins_with_slot and segment.may_lower and segment.spans[0][0].isalnum()):
            return text
    terms = segment.glossary.terms
    if any(re.match(rf"{re.escape(term.target)}(?!\w)", text) for term in terms):
        return text

    def is_common(word: str) -> bool:
        [ids] = tokenizer.target.encode([word])
        return tokenizer.target.pieces(ids) == [f"▁{word}"]

    return lower_first_capital(segment.text, text, is_common)


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
        translations = (
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
            text = show_spans(prefix.full_text, spans) + text.removeprefix(begin_text)
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
