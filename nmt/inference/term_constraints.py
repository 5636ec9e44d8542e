"""Lexical constraints: translations with the terms of a glossary, and which terms they use."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.tokenizer import Tokenizer
from nmt.inference.alignment import expand_slots, map_chars_to_tokens
from nmt.inference.contract import BeamOptions, Engine, Hypothesis
from nmt.inference.prefixes import stack_prefixes
from nmt.inference.repeating import search_without_loops
from nmt.inference.results import TermUse, Translation
from nmt.inference.segments import Segment, align_outputs
from nmt.text.marked import splice
from nmt.text.scripts import is_spaced_alnum, is_unspaced_letter
from nmt.text.spans import SLOTS, find_spans
from nmt.text.terms import Glossary, Term, TermMatch
from nmt.text.words import find_words

_MAX_TERMS = 8  # of a segment: each that is enforced costs another search
_ALIGNED = 0.5  # words with this share of the largest weight belong to the same translation
_CERTAIN = 0.2  # weight of an alignment below which other places are tried
_PLACES = 3  # of a term, at most
# Nats by which the old rest of a translation is preferred: after words that a model does not know,
# its own continuations are poor.
_KEPT_REST = 4.0


class _Candidate(NamedTuple):
    number: int  # index of a segment
    term: Term
    begin: str  # what its output may begin with: up to the end of the term
    rest: str | None = None  # what then follows; None: what the model finds


class TermConstraints:
    """Constrained decoding: searches again where an output lacks the target of a term.

    The new output begins with the old one up to the word that is aligned to the term, and the
    target of the term (a hard constraint); what follows is what the model finds, or the old rest.
    Where the alignment is uncertain or the number of the target is, several beginnings are tried,
    and the most probable output is kept. Terms are enforced one by one, from left to right.

    Args:
        glossary: the terms.
        engine: searches and aligns.
        tokenizer: of its ids.
        options: of the search.
        limit_output: returns how many tokens an output may have, given those of its source and of
            what it begins with: see `nmt.inference.pipeline.Pipeline.output_limit`.
        margin: how much lower the score of an output with a term may be, in nats; terms that cost
            more are left out (a soft constraint).
    """

    def __init__(
        self,
        glossary: Glossary,
        engine: Engine,
        tokenizer: Tokenizer,
        options: BeamOptions,
        limit_output: Callable[[int, int], int],
        *,
        margin: float = math.inf,
    ) -> None:
        self.glossary = glossary
        self._engine = engine
        self._tokenizer = tokenizer
        self._options = options
        self._limit_output = limit_output
        self._margin = margin

    def enforce(
        self, segments: Sequence[Segment], outputs: Sequence[list[Hypothesis]], prefix: str
    ) -> list[list[Hypothesis]]:
        """Return outputs that have the terms of their segments, as far as they fit.

        Args:
            segments: the segments.
            outputs: the hypotheses of each.
            prefix: text that all outputs begin with.

        Raises:
            UserError: the model has no attention, and some output lacks a term.
        """
        outputs = list(outputs)
        matches = [_find_terms(self.glossary, segment) for segment in segments]
        lacking = [list(each) for each in matches]  # not yet enforced
        begins = [prefix] * len(segments)  # of outputs
        for _ in range(_MAX_TERMS):
            chosen = self._drop_used(lacking, matches, outputs)
            if not chosen:
                break
            alignments = align_outputs(self._engine, [(segments[i], outputs[i][0]) for i in chosen])
            candidates: list[_Candidate] = []
            for i, weights in zip(chosen, alignments, strict=True):
                match, beginnings = self._propose_beginnings(
                    segments[i], outputs[i][0], lacking[i], begins[i], weights
                )
                lacking[i].remove(match)
                candidates += [_Candidate(i, match.term, *each) for each in beginnings]
            for candidate, hypotheses in self._search(candidates, segments):
                number = candidate.number
                if hypotheses[0].score >= outputs[number][0].score - self._margin:
                    begins[number], outputs[number] = candidate.begin, hypotheses
        return outputs

    def report(self, segment: Segment, translations: Sequence[Translation]) -> list[Translation]:
        """Return the translations of a segment, with which terms they use."""
        matches = [match for match, *_ in locate_terms(self.glossary, segment)]
        terms = [match.term for match in matches]
        reports = []
        for translation in translations:
            used = self.glossary.mark_used(terms, segment.mask_remarks(translation.text))
            uses = (
                TermUse(*match.entry[:2], is_used)
                for match, is_used in zip(matches, used, strict=True)
            )
            reports.append(replace(translation, terms=tuple(uses)))
        return reports

    def _drop_used(
        self,
        lacking: list[list[TermMatch]],
        matches: Sequence[Sequence[TermMatch]],
        outputs: Sequence[list[Hypothesis]],
    ) -> list[int]:
        """Drop the terms that the best outputs have; return the indices of the other outputs.

        Args:
            lacking: terms of each segment that may be enforced; changed.
            matches: all terms of each segment.
            outputs: the hypotheses of each segment.
        """
        chosen = [i for i, terms in enumerate(lacking) if terms and outputs[i]]
        texts = self._tokenizer.target.decode([outputs[i][0].tokens for i in chosen])
        for i, text in zip(chosen, texts, strict=True):
            terms = [match.term for match in matches[i]]
            used = self.glossary.mark_used(terms, text)
            unused = {term.target for term, is_used in zip(terms, used, strict=True) if not is_used}
            lacking[i] = [match for match in lacking[i] if match.term.target in unused]
        return [i for i in chosen if lacking[i]]

    def _propose_beginnings(
        self,
        segment: Segment,
        hypothesis: Hypothesis,
        matches: Sequence[TermMatch],
        begin: str,
        weights: NDArray[np.float32],
    ) -> tuple[TermMatch, list[tuple[str, str | None]]]:
        """Return the term that comes first in a translation, texts up to its end, and rests.

        Args:
            segment: the source.
            hypothesis: its best output.
            matches: terms that the output lacks.
            begin: text that the output begins with and that stays.
            weights: [T, S], see `Engine.align`.
        """
        text, char_to_token = map_chars_to_tokens(self._tokenizer.target, hypothesis.tokens[:-1])
        words = [word for word in find_words(text) if word[0] >= len(begin)]
        places = []
        for i, match in enumerate(matches):
            to_term = weights[:, self._find_columns(segment, match)].sum(1)
            by_word = [
                float(to_term[char_to_token[first] : char_to_token[last - 1] + 1].mean())
                for first, last in words
            ]
            places.append((_choose_words(by_word), i))
        ranges, i = min(places)
        beginnings: list[tuple[str, str | None]] = []
        for target in self.glossary.list_targets(matches[i], segment.text):
            for first, last in ranges or [(len(words), len(words))]:
                start = words[first][0] if first < len(words) else len(text)
                capital = start == 0 and text[:1].isupper()
                beginning = _join(text[:start], target, is_capitalized=capital)
                beginnings.append((beginning, None))
                if len(ranges) == 1:  # the old translation with the term in place of the word
                    beginnings.append((beginning, text[words[last][1] :]))
        return matches[i], beginnings

    def _find_columns(self, segment: Segment, match: TermMatch) -> list[int]:
        """Return the indices of the source tokens of a term."""
        spans = segment.find_tokens(self._tokenizer)
        before = len(segment.ids) - len(spans)  # tokens of a tag and a context
        return [
            before + i
            for i, (begin, end) in enumerate(spans)
            if begin < match.end and match.begin < end and before + i >= 0
        ]

    def _search(
        self, candidates: Sequence[_Candidate], segments: Sequence[Segment]
    ) -> list[tuple[_Candidate, list[Hypothesis]]]:
        """Return the most probable candidate of each segment that fits, and its hypotheses.

        Args:
            candidates: some for each segment.
            segments: all segments.
        """
        texts = [each.begin + (each.rest or "") for each in candidates]
        encoded = self._tokenizer.target.encode(texts)
        limits: dict[int, int] = {}  # of the outputs of candidates that fit
        for n, (candidate, ids) in enumerate(zip(candidates, encoded, strict=True)):
            sentence = segments[candidate.number].sentence_ids
            limit = self._limit_output(len(sentence), len(ids))
            if len(ids) < limit:  # after an old rest, only EOS follows
                limits[n] = limit if candidate.rest is None else len(ids) + 1
        if not limits:
            return []
        results = search_without_loops(
            self._engine,
            [segments[candidates[n].number].ids for n in limits],
            np.array([*limits.values()], np.int32),
            self._options._replace(n_best=self._options.beam_size),
            stack_prefixes([encoded[n] for n in limits]),
        )
        best: dict[int, tuple[_Candidate, list[Hypothesis]]] = {}
        by_begin: dict[tuple[int, str], list[Hypothesis]] = defaultdict(list)
        for n, hypotheses in zip(limits, results, strict=True):
            number = candidates[n].number
            ranked = self._keep_with_term(hypotheses, candidates[n])
            by_begin[number, candidates[n].begin] += ranked
            if ranked and (
                number not in best
                or _biased_score(candidates[n], ranked) > _biased_score(*best[number])
            ):
                best[number] = candidates[n], ranked
        # A candidate with the old rest has one output: its alternatives have the same beginning.
        return [
            (candidate, _add_alternatives(ranked, by_begin[number, candidate.begin]))
            for number, (candidate, ranked) in best.items()
        ]

    def _keep_with_term(
        self, hypotheses: Sequence[Hypothesis], candidate: _Candidate
    ) -> list[Hypothesis]:
        """Return the hypotheses in which the term has not become another word; if none, all."""
        mark_used = self.glossary.mark_used
        count = sum(mark_used([candidate.term] * _MAX_TERMS, candidate.begin))
        terms = [candidate.term] * max(1, count)  # as often as the beginning has it
        texts = self._tokenizer.target.decode([each.tokens for each in hypotheses])
        pairs = zip(hypotheses, texts, strict=True)
        return [each for each, text in pairs if all(mark_used(terms, text))] or [*hypotheses]


def locate_terms(glossary: Glossary, segment: Segment) -> Iterator[tuple[TermMatch, int, int]]:
    """Yield the terms of `Segment.full_text`, and where [first, end) each is in the segment's text.

    A term inside of a kept span, such as an address, is left out.
    """
    full_text, origins = expand_slots(segment.text, segment.spans)
    for match in glossary.find(full_text):
        first, last = origins[match.begin], origins[match.end - 1]
        begins_inside = match.begin > 0 and origins[match.begin - 1] == first
        ends_inside = match.end < len(origins) and origins[match.end] == last
        if not (begins_inside or ends_inside):
            yield match, first, last + 1


def _find_terms(glossary: Glossary, segment: Segment) -> list[TermMatch]:
    """Return the terms of a segment, as places in its text; source and target have its slots."""
    matches = []
    for match, first, end in locate_terms(glossary, segment):
        place = segment.text[first:end]
        slots = [slot for slot in place if slot in SLOTS[: len(segment.spans)]]
        source = target = place
        if place not in slots:  # others are kept spans as a whole
            source, target = (_write_slots(side, slots, segment.spans) for side in match.term[:2])
        term = match.term._replace(source=source, target=target)
        matches.append(TermMatch(first, end, term, match.entry))
    return matches


def _write_slots(text: str, slots: Sequence[str], spans: Sequence[str]) -> str:
    """Return a text with slots in place of their kept spans."""
    remaining = list(slots)
    changes = []
    for begin, end in find_spans(text):
        values = [spans[SLOTS.index(slot)] for slot in remaining]
        if text[begin:end] in values:
            changes.append((begin, end, remaining.pop(values.index(text[begin:end]))))
    return splice(text, changes)


def _biased_score(candidate: _Candidate, hypotheses: Sequence[Hypothesis]) -> float:
    """Return by how much a candidate is preferred."""
    return hypotheses[0].score + _KEPT_REST * (candidate.rest is not None)


def _add_alternatives(
    ranked: Sequence[Hypothesis], others: Sequence[Hypothesis]
) -> list[Hypothesis]:
    """Return hypotheses, best first, with the others that are not better than the first."""
    distinct = {hypothesis.tokens: hypothesis for hypothesis in ranked}
    for hypothesis in others:
        if hypothesis.score <= ranked[0].score:
            distinct.setdefault(hypothesis.tokens, hypothesis)
    return sorted(distinct.values(), key=lambda hypothesis: -hypothesis.score)


def _choose_words(weights: Sequence[float]) -> list[tuple[int, int]]:
    """Return words whose place a term may take, first and last of each, the most likely one first.

    Args:
        weights: of the alignment of each word to the term.
    """
    order = sorted(range(len(weights)), key=lambda number: -weights[number])
    if not order:
        return []
    first = last = order[0]
    threshold = _ALIGNED * weights[first]
    while first and weights[first - 1] >= threshold:  # words of the same translation
        first -= 1
    while last + 1 < len(weights) and weights[last + 1] >= threshold:
        last += 1
    others = [] if weights[order[0]] >= _CERTAIN else order[1:_PLACES]
    return [(first, last), *((other, other) for other in others if other != first)]


def _join(begin: str, target: str, *, is_capitalized: bool) -> str:
    """Return the beginning of a translation and the target of a term."""
    if is_capitalized:
        target = target[:1].upper() + target[1:]
    space = " " if is_spaced_alnum(begin[-1:]) and not is_unspaced_letter(target[:1]) else ""
    return f"{begin}{space}{target}"
