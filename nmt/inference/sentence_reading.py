"""Sentences as a model reads them: letter case, typing errors, kept spans and terms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from nmt.data.tokenizer import Tokenizer
from nmt.text.case import LetterCase, recognize_case, to_sentence_case
from nmt.text.scripts import has_capital_nouns
from nmt.text.source_words import SourceWords
from nmt.text.spans import (
    SLOTS,
    Kept,
    find_spans,
    has_letters_outside,
    keep_spans,
    make_overlap_test,
)
from nmt.text.terms import Glossary, TermMatch

_MASK = SLOTS[0]  # stands for each kept span while letter case is read


class ReadSentence(NamedTuple):
    """A sentence as a model reads it."""

    text: str  # cleaned, in the letter case that the model reads
    kept: Kept  # the text with slots, as many as the tokenizer has
    case: LetterCase  # of the given sentence
    is_copied: bool  # nothing but kept spans and marks


class SentenceReader:
    """Prepares sentences for a model.

    Args:
        tokenizer: of the model.
        words: of the training sources: typing errors in unknown ones are corrected, and unknown
            names are kept spans. None: not known.
        glossary: whose terms are neither corrected nor kept as names; those that are not translated
            are kept spans if they have unknown words. None: no terms.
        language: BCP 47 tag of the sentences. In German, capitals do not make a title.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        words: SourceWords | None,
        glossary: Glossary | None = None,
        *,
        language: str,
    ) -> None:
        self._tokenizer = tokenizer
        self._words = words
        self._glossary = glossary
        self._has_capital_nouns = has_capital_nouns(language)
        self._slots = SLOTS[: tokenizer.slots]

    def read(self, text: str) -> ReadSentence:
        """Return a cleaned sentence in the letter case that the model reads."""
        spans = list(find_spans(text))
        masked = keep_spans(text, spans, [_MASK] * len(spans))
        case = recognize_case(masked.text)
        if case is LetterCase.TITLE and self._has_capital_nouns:
            case = LetterCase.ORDINARY
        # Where all words are capitalized, capitals do not tell names.
        reads_case = self._words is not None or not self._tokenizer.lowercases
        if case is not LetterCase.ORDINARY and reads_case:
            values = iter(masked.values)
            text = re.sub(_MASK, lambda _: next(values), to_sentence_case(masked.text, case))
        if self._words is not None:
            if case is not LetterCase.ORDINARY:
                spans = list(find_spans(text))
            terms = [match[:2] for match in self._find_terms(text, spans)]
            is_ordinary = case is LetterCase.ORDINARY
            text = self._words.correct(text, [*spans, *terms], accents_only=not is_ordinary)
        spans = self.find_spans(text)
        is_copied = not has_letters_outside(text, spans)
        return ReadSentence(text, self.keep(text, spans), case, is_copied)

    def find_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the characters [begin, end) of the kept spans, unseen names among them."""
        spans = list(find_spans(text))
        terms = self._find_terms(text, spans)
        # Where sources keep their case, capitals may be those of common words, as in German.
        if self._words is not None and self._slots and self._tokenizer.lowercases:
            spans += self._words.find_names(text, [*spans, *(match[:2] for match in terms)])
        kept = (match for match in terms if match.term.is_kept)
        spans += (each[:2] for each in kept if not self._is_known(each.term.source))
        return sorted(spans)

    def _is_known(self, term: str) -> bool:
        """Whether training sources have the words of a term, so that the model can read it."""
        words = self._words
        return words is not None and all(word in words.counts for word in term.lower().split())

    def keep(self, text: str, spans: Sequence[tuple[int, int]]) -> Kept:
        """Return a text with slots, as many as the tokenizer has."""
        if not self._slots or not spans:
            return Kept(text, ())
        return keep_spans(text, spans, self._slots)

    def _find_terms(self, text: str, spans: Sequence[tuple[int, int]]) -> list[TermMatch]:
        """Return the terms of a text that are not inside of kept spans."""
        if self._glossary is None:
            return []
        is_kept = make_overlap_test(spans)
        return [match for match in self._glossary.find(text) if not is_kept(match.begin, match.end)]
