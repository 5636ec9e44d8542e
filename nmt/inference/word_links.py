"""The source words that the words of a translation come from."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from nmt.data.tokenizer import Tokenizer
from nmt.inference.alignment import (
    expand_slots,
    map_chars_to_tokens,
    match_characters,
    move_spans,
)
from nmt.inference.contract import Engine
from nmt.inference.joining import join_confidence
from nmt.inference.results import Translation, Word
from nmt.inference.segments import Segment, SegmentedText, align_outputs
from nmt.inference.term_constraints import locate_terms
from nmt.text.scripts import is_spaced_alnum
from nmt.text.spans import SLOTS, Span, find_spans, make_overlap_test
from nmt.text.words import assign_to_words, find_words, merge_words

_ELLIPSIS = re.compile(r"…|\.{3}")
_TAG = 40  # characters that a text may have before a segment
_LINKED = 0.5  # a source word is linked if it has this share of the largest weight


class LinkedWord(NamedTuple):
    """A word of a translation of a segment."""

    begin: int
    end: int
    rows: list[int]  # indices of its tokens; none if no token wrote it
    sources: tuple[Span, ...]  # characters of `Segment.full_text`


def add_words(
    engine: Engine,
    tokenizer: Tokenizer,
    segments: Sequence[Segment],
    translations: Sequence[Sequence[Translation]],
) -> list[list[Translation]]:
    """Return translations of a batch of segments with their words, without confidence.

    They have none if the engine cannot align.

    Args:
        engine: the engine that searched.
        tokenizer: of the run.
        segments: of similar length.
        translations: of each.
    """
    pairs = [
        (segment, translation)
        for segment, alternatives in zip(segments, translations, strict=True)
        for translation in alternatives
    ]
    if not (pairs and engine.can_align):
        return [list(alternatives) for alternatives in translations]
    linked = iter(
        replace(
            translation,
            words=tuple(
                Word(word.begin, word.end, None, word.sources)
                for word in link_words(segment, translation, tokenizer, weights)
            ),
        )
        for (segment, translation), weights in zip(pairs, align_outputs(engine, pairs), strict=True)
    )
    return [[next(linked) for _ in alternatives] for alternatives in translations]


def link_words(
    segment: Segment, translation: Translation, tokenizer: Tokenizer, weights: np.ndarray
) -> list[LinkedWord]:
    """Return the words of a translation; a kept span is one word.

    Kept spans come from their slots and targets of terms from these, whatever the alignment.

    Args:
        segment: the source.
        translation: of the segment.
        tokenizer: of the run.
        weights: [T, S], see `Engine.align`.
    """
    tokens = translation.tokens[:-1]
    output, char_to_token = map_chars_to_tokens(tokenizer.target, tokens)
    text, origins = expand_slots(output, segment.target_spans)
    written = translation.text
    if segment.ellipses:  # the model wrote commas there; the further dots keep indices
        written = _ELLIPSIS.sub(lambda dots: f",{dots[0][1:]}", written)
    matched = match_characters(written, text)
    output_indices = [origins[at] if at >= 0 else -1 for at in matched]
    source_spans, columns = find_source_words(segment, tokenizer)
    located = _locate_spans(translation.text, segment.target_spans, output)
    for (begin, end), number in located.items():
        output_indices[begin:end] = [output.find(SLOTS[number])] * (end - begin)
    term_links = _link_terms(segment, segment.mask_remarks(translation.text))
    # No other word comes from the words of a term.
    is_of_term = make_overlap_test([source for _, source in term_links])
    is_free = np.array([not is_of_term(*span) for span in source_spans])
    links = [(span, _locate_slot(segment, number)) for span, number in located.items()]
    links += term_links
    words = []
    for begin, end in merge_words(find_words(translation.text), list(located)):
        rows = sorted({char_to_token[at] for at in output_indices[begin:end] if at >= 0})
        linked = [source for target, source in links if _overlap(target, (begin, end))]
        sources = [span for span in source_spans if any(_overlap(span, to) for to in linked)]
        if rows and not sources:
            row = weights[rows].mean(0)
            by_word = (row[: len(columns)] @ columns) * is_free
            sources = [source_spans[i] for i in choose_sources(by_word, float(row[-1]))]
        words.append(LinkedWord(begin, end, rows, tuple(sources)))
    return words


def add_remarks(segment: Segment, translation: Translation) -> Translation:
    """Return a translation with the words, terms, lost spans and confidence of its remarks."""
    known = {remark.slot: remark.translation for remark in segment.remarks if remark.translation}
    if not known:
        return translation
    places = {_locate_slot(segment, slot): remark for slot, remark in known.items()}
    words: list[Word] = []
    for word in translation.words:
        remark = places.get(word.sources[0]) if len(word.sources) == 1 else None
        text = translation.text[word.begin : word.end]
        if remark is None or text != remark.text or not remark.words:
            words.append(word)
            continue
        first = word.sources[0][0]
        words += (
            replace(
                inner,
                begin=word.begin + inner.begin,
                end=word.begin + inner.end,
                sources=tuple((first + begin, first + end) for begin, end in inner.sources),
            )
            for inner in remark.words
        )
    return replace(
        translation,
        words=tuple(words),
        confidence=join_confidence([translation, *filter(attrgetter("tokens"), known.values())]),
        terms=(*translation.terms, *chain.from_iterable(each.terms for each in known.values())),
        lost_spans=(
            *translation.lost_spans,
            *chain.from_iterable(each.lost_spans for each in known.values()),
        ),
    )


def make_word_test(reference: str) -> Callable[[str], bool]:
    """Return a function that tells whether a reference has a word; letter case does not count.

    A kept span is one word of a translation, and may be several of the reference.
    """
    folded = reference.casefold()
    spans = [*find_words(reference), *find_spans(reference)]
    words = {reference[begin:end].casefold() for begin, end in spans}

    def has(word: str) -> bool:
        word = word.casefold()
        return word in words or (" " in word and word in folded)

    return has


def choose_sources(weights: np.ndarray, end: float) -> list[int]:
    """Return the source words that a target word comes from.

    Args:
        weights: of the target word to each source word, [source words].
        end: its weight to the EOS of the source.
    """
    threshold = max(_LINKED * weights.max(initial=0), end, 1e-6)
    return np.flatnonzero(weights >= threshold).tolist()


def _locate_spans(text: str, values: Sequence[str], output: str) -> dict[Span, int]:
    """Return where a translation has kept spans, and the numbers of their slots.

    Args:
        text: the translation.
        values: what it has in place of each slot.
        output: with slots. Equal spans are in its order; those that it lacks come last.
    """
    if not values:
        return {}
    written = output + "".join(SLOTS)
    remaining = defaultdict(list)
    for number in sorted(range(len(values)), key=lambda number: written.index(SLOTS[number])):
        remaining[values[number]].append(number)
    longest_first = sorted(map(re.escape, remaining), key=len, reverse=True)
    located = {}
    for match in re.finditer("|".join(longest_first), text):
        begin, end = match.span()
        if remaining[match[0]] and not (_cuts_word(text, begin) or _cuts_word(text, end)):
            located[begin, end] = remaining[match[0]].pop(0)
    return located


def _cuts_word(text: str, at: int) -> bool:
    """Whether both characters beside an index are of one word, as inside of a number."""
    return is_spaced_alnum(text[at - 1 : at]) and is_spaced_alnum(text[at : at + 1])


def _locate_slot(segment: Segment, number: int) -> Span:
    """Return the characters [begin, end) of `Segment.full_text` that a slot stands for."""
    _, origins = expand_slots(segment.text, segment.spans)
    at = segment.text.index(SLOTS[number])
    return bisect_left(origins, at), bisect_left(origins, at + 1)


def _link_terms(segment: Segment, text: str) -> list[tuple[Span, Span]]:
    """Return where a translation has targets of terms, and where `Segment.full_text` has these."""
    matches = [match for match, *_ in locate_terms(segment.glossary, segment)]
    targets = segment.glossary.find_targets([match.term for match in matches], text)
    pairs = zip(targets, matches, strict=True)
    return [(target, (match.begin, match.end)) for target, match in pairs if target]


def _overlap(span: Span, other: Span) -> bool:
    return span[0] < other[1] and other[0] < span[1]


def find_source_words(segment: Segment, tokenizer: Tokenizer) -> tuple[list[Span], np.ndarray]:
    """Return the words of `Segment.full_text`, and the share of each token that belongs to each.

    The shares are [S - 1, words]; the tokens of a tag belong to no word.
    """
    words = find_words(segment.text)
    spans = segment.find_tokens(tokenizer)
    tag = len(segment.ids) - len(spans)
    if not words or tag < 0:  # a part of a text that was cut between tokens
        return [], np.zeros((len(segment.ids), 0))
    shares = np.concatenate([np.zeros((tag, len(words))), assign_to_words(spans, words)])
    _, origins = expand_slots(segment.text, segment.spans)
    full_spans = [(bisect_left(origins, begin), bisect_left(origins, end)) for begin, end in words]
    return full_spans, shares


def locate_sources(
    text: SegmentedText, translations: Sequence[Sequence[Translation]]
) -> list[list[Translation]]:
    """Return translations whose words refer to the characters of a text without its tags.

    If some have no words, since the engine cannot align, none has.

    Args:
        text: a source text.
        translations: of each segment; their words refer to the characters of `Segment.full_text`.
    """
    if any(each.text.strip() and not each.words for row in translations for each in row):
        return [[replace(each, words=()) for each in row] for row in translations]
    source_words = find_words(text.source.text)
    return [
        [
            replace(
                translation,
                words=tuple(
                    replace(word, sources=move_spans(word.sources, matched, source_words))
                    for word in translation.words
                ),
            )
            for translation in hypotheses
        ]
        for hypotheses, matched in zip(translations, match_segments(text), strict=True)
    ]


def match_segments(text: SegmentedText) -> list[list[int]]:
    """Return for every character of `Segment.full_text` of each segment its index, or -1.

    Indices are those of the text without its context and its tags.
    """
    source = text.source.text
    matches = []
    begin = 0
    for segment in text.segments:
        matches.append(_match_segment(segment, source, begin))
        begin = max([begin, *(at + 1 for at in matches[-1])])
    return matches


def _match_segment(segment: Segment, text: str, begin: int) -> list[int]:
    """Return for every character of a segment its index in the text, or -1: `match_characters`."""
    full_text = segment.full_text
    written = chain(full_text, *chain.from_iterable(segment.brackets.tags))
    count = sum(not sign.isspace() for sign in written)
    end = begin
    while end < len(text) and count:
        count -= not text[end].isspace()
        end += 1
    matched = match_characters(full_text, text[begin:end])
    if any(at < 0 < len(sign.strip()) for at, sign in zip(matched, full_text, strict=True)):
        # A tag that begins the text is not a part of the segment, or cleaning removed characters.
        matched = match_characters(full_text, text[begin : end + _TAG])
    return [at + begin if at >= 0 else -1 for at in matched]


def align_by_position(source: str, text: str) -> list[Word]:
    """Return the words of a translation, aligned to the words at the same share of the source."""
    spans, source_spans = (
        merge_words(find_words(side), list(find_spans(side))) for side in (text, source)
    )
    return [
        Word(begin, end, None, (source_spans[len(source_spans) * i // len(spans)],))
        for i, (begin, end) in enumerate(spans)
        if source_spans
    ]
