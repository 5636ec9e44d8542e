"""Terms of a glossary: forced into translations, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nmt.data.tokenizer import Tokenizer
from nmt.inference.alignment import find_owners
from nmt.inference.contract import BeamOptions, Engine, Hypothesis
from nmt.inference.repeating import search_without_loops
from nmt.inference.results import TermUse, Translation
from nmt.inference.segments import Segment
from nmt.text.terms import Glossary, TermMatch
from nmt.text.words import find_words

_MOST_TERMS = 8  # of a segment: each that is forced costs another search
_ALIGNED = 0.5  # words with this share of the largest weight belong to the same term


class TermForcer:
    """Searches again where an output lacks the target of a term.

    The new output begins with the old one up to the word that is aligned to the term, and the
    target of the term (a hard constraint). Terms are forced one by one, from left to right.

    Args:
        glossary: the terms.
        engine: searches and aligns.
        tokenizer: of its ids.
        options: of the search.
        limit_output: returns how many tokens an output may have, given those of its source and of
            what it begins with: see `nmt.inference.pipeline.Pipeline.output_limit`.
        is_hard: whether terms are forced; otherwise the model decides.
    """

    def __init__(
        self,
        glossary: Glossary,
        engine: Engine,
        tokenizer: Tokenizer,
        options: BeamOptions,
        limit_output: Callable[[int, int], int],
        *,
        is_hard: bool = True,
    ) -> None:
        self._glossary = glossary
        self._engine = engine
        self._tokenizer = tokenizer
        self._options = options
        self._limit_output = limit_output
        self._is_hard = is_hard

    def force(
        self, segments: Sequence[Segment], outputs: Sequence[list[Hypothesis]], prefix: str = ""
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
        if not self._is_hard:
            return outputs
        lacking = [self._glossary.find(segment.text) for segment in segments]
        begins = [prefix] * len(segments)  # of outputs
        for _ in range(_MOST_TERMS):
            chosen = self._drop_used(lacking, outputs)
            if not chosen:
                break
            alignments = self._engine.align(
                [segments[i].ids for i in chosen],
                [np.asarray(outputs[i][0].tokens[:-1], np.int32) for i in chosen],
            )
            for i, weights in zip(chosen, alignments, strict=True):
                match, begins[i] = self._insert_first(
                    segments[i], outputs[i][0], lacking[i], begins[i], weights
                )
                lacking[i].remove(match)
            self._search(chosen, segments, begins, outputs)
        return outputs

    def report(self, segment: Segment, translations: Sequence[Translation]) -> list[Translation]:
        """Return the translations of a segment, with which terms they use."""
        matches = self._glossary.find(segment.written)
        return [
            replace(
                translation,
                terms=tuple(
                    TermUse(*match.term[:2], self._glossary.is_used(match.term, translation.text))
                    for match in matches
                ),
            )
            for translation in translations
        ]

    def _drop_used(
        self, lacking: list[list[TermMatch]], outputs: Sequence[list[Hypothesis]]
    ) -> list[int]:
        """Drop the terms that the best outputs have; return the indices of the other outputs."""
        chosen = [i for i, terms in enumerate(lacking) if terms and outputs[i]]
        texts = self._tokenizer.target.decode([outputs[i][0].tokens for i in chosen])
        for i, text in zip(chosen, texts, strict=True):
            lacking[i] = [
                each for each in lacking[i] if not self._glossary.is_used(each.term, text)
            ]
        return [i for i in chosen if lacking[i]]

    def _insert_first(
        self,
        segment: Segment,
        hypothesis: Hypothesis,
        matches: Sequence[TermMatch],
        begin: str,
        weights: NDArray[np.float32],
    ) -> tuple[TermMatch, str]:
        """Return the term that comes first in a translation, and the text up to its end.

        Args:
            segment: the source.
            hypothesis: its best output.
            matches: terms that the output lacks.
            begin: text that the output begins with and that stays.
            weights: [T, S], see `Engine.align`.
        """
        text, owners = find_owners(self._tokenizer.target, hypothesis.tokens[:-1])
        words = [word for word in find_words(text) if word[0] >= len(begin)]
        places = [
            (_find_word(words, owners, weights[:, self._find_columns(segment, match)].sum(1)), i)
            for i, match in enumerate(matches)
        ]
        number, i = min(places)
        at = words[number][0] if words else len(text)
        target = matches[i].term.target
        if at == 0 and text[:1].isupper():
            target = target[:1].upper() + target[1:]
        space = " " if at == len(text) and text else ""
        return matches[i], f"{text[:at]}{space}{target}"

    def _find_columns(self, segment: Segment, match: TermMatch) -> list[int]:
        """Return the indices of the source tokens of a term."""
        spans = self._tokenizer.spans(segment.text)
        before = len(segment.ids) - len(spans)  # tokens of a tag
        return [
            before + i
            for i, (begin, end) in enumerate(spans)
            if begin < match.end and match.begin < end and before + i >= 0
        ]

    def _search(
        self,
        chosen: Sequence[int],
        segments: Sequence[Segment],
        begins: Sequence[str],
        outputs: list[list[Hypothesis]],
    ) -> None:
        """Search again for the outputs of the chosen segments, with what they begin with."""
        prefixes = self._tokenizer.target.encode([begins[i] for i in chosen])
        fitting = [
            (i, ids)
            for i, ids in zip(chosen, prefixes, strict=True)
            if len(ids) < self._limit_output(len(segments[i].sentence_ids), len(ids))
        ]
        if not fitting:
            return
        sources = [segments[i].ids for i, _ in fitting]
        limits = [self._limit_output(len(segments[i].sentence_ids), len(ids)) for i, ids in fitting]
        prefix = np.full((len(fitting), max(len(ids) for _, ids in fitting)), -1, np.int32)
        for row, (_, ids) in zip(prefix, fitting, strict=True):
            row[: len(ids)] = ids
        found = search_without_loops(
            self._engine, sources, np.array(limits, np.int32), self._options, prefix
        )
        for (i, _), hypotheses in zip(fitting, found, strict=True):
            outputs[i] = hypotheses or outputs[i]


def _find_word(
    words: Sequence[tuple[int, int]], owners: Sequence[int], weights: NDArray[np.float32]
) -> int:
    """Return the index of the first of the adjacent words that are aligned to a term; 0: no words.

    Args:
        words: characters [begin, end) of each.
        owners: token of each character.
        weights: of each target token to the term, [T].
    """
    if not words:
        return 0
    by_word = [float(weights[owners[begin] : owners[end - 1] + 1].mean()) for begin, end in words]
    number = int(np.argmax(by_word))
    least = _ALIGNED * by_word[number]
    while number and by_word[number - 1] >= least:
        number -= 1
    return number
