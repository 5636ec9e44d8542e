"""Sentences as a model reads them: letter case, typing errors, kept spans and terms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from copy import copy
from typing import NamedTuple
from unicodedata import category

from nmt.data.tokenizer import Tokenizer
from nmt.inference.normalization import Normalizer
from nmt.text.brackets import PAIRS, find_remarks, read_brackets
from nmt.text.case import LetterCase, recognize_case, to_sentence_case
from nmt.text.dates import NO_DATES, DateWriter
from nmt.text.marked import splice
from nmt.text.measures import add_units, cut_words, join_formulas, join_ranges
from nmt.text.names import find_letters, find_rare_acronyms, find_rare_initials, is_word_of
from nmt.text.options import find_options
from nmt.text.scripts import (
    has_capital_nouns,
    is_unspaced,
    is_unspaced_letter,
    may_copy_name,
)
from nmt.text.source_words import SourceWords
from nmt.text.spans import (
    SLOTS,
    SlottedText,
    Span,
    cut_spans,
    find_overlapping,
    find_spans,
    has_letters_outside,
    keep_spans,
    make_overlap_test,
)
from nmt.text.tags import NO_TAGS, TaggedText
from nmt.text.terms import NO_TERMS, Glossary, TermMatch
from nmt.text.words import find_words

_MASK = SLOTS[0]  # stands for each kept span and acronym while letter case is read
# Punctuation that is the same in every language; other marks, such as ¿, are not copied.
_COPIED_MARKS = frozenset("/\\&%@#*_()[]{}§¶†‡‰")
_SPACES = str.maketrans("([", "  ")
_MAX_BEFORE = 6  # characters before a symbol that are searched for an abbreviation
_LAST_CAPITALS = re.compile(r"(?<!\w)[A-ZÀ-ÖØ-Þ]{1,4}$")
# Before a bracket: the mark of an item, as b) and iii).
_LAST_LETTER = re.compile(r"(?<!\w)(?:[^\W\d_]|[ivx]{2,4}|[IVX]{2,4})$")
_SUBSCRIPTS = frozenset("₀₁₂₃₄₅₆₇₈₉")
_NOTE = re.compile("[¹²³⁰⁴-⁹]+$")  # the number of a footnote
_INSIDE_SIGNS = ("", " ", "...", "…")  # between symbols that are one, such as [...]
_FIRST_CAPITALS = re.compile(r"[A-ZÀ-ÖØ-Þ]{1,4}(?!\w)")
_WORDS_PER_APOSTROPHE = 1000  # a language in which they are rarer is written without apostrophes


class ReadSentence(NamedTuple):
    """A sentence as a model reads it."""

    text: str  # cleaned, in the letter case that the model reads
    given: str  # the same in the letter case that kept spans have
    slotted: SlottedText  # with slots, as many as the tokenizer has
    case: LetterCase  # of the given sentence
    is_copied: bool  # nothing but kept spans and marks
    brackets: TaggedText = NO_TAGS  # those taken out of the given sentence, if any were
    lacks_slots: bool = False  # whether it has more kept spans than slots


class SentenceReader:
    """Prepares sentences for a model.

    Args:
        tokenizer: of the model.
        words: of the training sources: typing errors in unknown ones are corrected, and unknown
            names are kept spans. None: not known.
        normalizer: of the model: signs that it cannot encode are kept spans.
        language: BCP 47 tag of the sentences: how unknown words are corrected depends on it. In
            German, capitals do not make a title.
        target_language: the same, of translations.
        dates: finds dates, which are kept spans that translations write otherwise.
        takes_brackets: whether brackets that the model has not learned are taken out of sentences
            that are not copied.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        words: SourceWords | None,
        normalizer: Normalizer,
        *,
        language: str,
        target_language: str,
        dates: DateWriter = NO_DATES,
        takes_brackets: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        self._words = None if words is None else SourceWords(words.counts, words.signs, language)
        self._normalizer = normalizer
        self._glossary = NO_TERMS
        self._languages = language, target_language
        self._has_capital_nouns = has_capital_nouns(language)
        self._slots = SLOTS[: tokenizer.slots]
        self.dates = dates if self._slots else NO_DATES
        # Where sources keep their case, capitals may be those of common words, as in German.
        self._keeps_names = bool(self._slots) and tokenizer.lowercases
        self._reads_unspaced = is_unspaced(language)
        self._brackets = frozenset[str]()
        if takes_brackets:
            self._brackets = _list_unlearned_brackets(normalizer, words)

    def with_glossary(self, glossary: Glossary) -> SentenceReader:
        """Return a reader that neither corrects the terms of a glossary nor keeps them as names.

        Terms that are not translated are kept spans if they have unknown words.
        """
        reader = copy(self)
        reader._glossary = glossary
        reader.dates = self.dates.without(glossary.kept)
        return reader

    def read(self, text: str, *, takes_brackets: bool = True) -> ReadSentence:
        """Return a cleaned sentence in the letter case that the model reads.

        Args:
            text: the sentence.
            takes_brackets: see `SentenceReader`; False: none are taken out.
        """
        if takes_brackets and (brackets := self._read_brackets(text)).tags:
            read = self._read(brackets.text, brackets.insertions.places)
            if not read.is_copied:
                return read._replace(brackets=brackets)
        return self._read(text)

    def remove_brackets(self, text: str) -> str:
        """Return a sentence without the brackets that the model has not learned."""
        return self._read_brackets(text, takes_remarks=True).text

    def _read_brackets(self, text: str, *, takes_remarks: bool = False) -> TaggedText:
        has_brackets = not self._brackets.isdisjoint(text)
        terms = _locate_terms(self._glossary, text) if has_brackets else []
        remarks = [] if takes_remarks else self._find_remarks(text)
        is_inside = make_overlap_test(remarks)
        outside = (term for term in terms if not is_inside(*term))
        return read_brackets(text, self._brackets, [*remarks, *outside])

    def _find_remarks(self, text: str) -> list[Span]:
        """Return the characters [begin, end) of remarks; none begins with an unknown name.

        At the beginning of a text, such a name could not be told from a word: "(Garmendia)".
        Acronyms are remarks.
        """
        if self._brackets.isdisjoint(text):
            return []
        remarks = find_remarks(text, self._brackets, _locate_terms(self._glossary, text))
        if not remarks or self._words is None:
            return remarks
        bare = text.translate(_SPACES)  # after a bracket, a word would count as the first one
        names = {begin: text[begin:end] for begin, end in self._words.find_names(bare, ())}
        return [
            (begin, end)
            for begin, end in remarks
            if begin + 1 not in names or names[begin + 1].isupper()
        ]

    def _read(self, text: str, cuts: Collection[int] = ()) -> ReadSentence:
        """Return a cleaned sentence: see `read`; its kept spans end where brackets were cut out."""
        acronym = None
        if self._words is not None and self._keeps_names:
            acronym = find_rare_acronyms(text, self._words.counts)
        if acronym and not (self._glossary.find(text) or self._normalizer.find_short_forms(text)):
            slotted = self.insert_slots(text, [acronym])
            return ReadSentence(text, text, slotted, LetterCase.ORDINARY, is_copied=True)
        given, spans = text, self._find_kept(text)
        masked = keep_spans(text, spans, [_MASK] * len(spans))
        acronyms = self._normalizer.find_acronyms(masked.text)
        case = recognize_case(splice(masked.text, ((*span, _MASK) for span in acronyms)))
        if case is LetterCase.TITLE and (self._has_capital_nouns or self._has_names(masked.text)):
            case = LetterCase.ORDINARY
        is_ordinary = case is LetterCase.ORDINARY
        # Where all words are capitalized, capitals do not tell names.
        reads_case = self._words is not None or not self._tokenizer.lowercases
        if not is_ordinary and reads_case:
            values = iter(masked.values)
            text = re.sub(_MASK, lambda _: next(values), to_sentence_case(masked.text, case))
        if self._words is not None:
            if not is_ordinary:
                spans = self._find_kept(text)
            _, _, protected = self._find_terms(text, spans)
            text = self._words.correct(text, protected, accents_only=not is_ordinary)
        spans = self.find_spans(text, keeps_terms=not is_ordinary)
        if cuts and len(text) == len(given):
            is_date = make_overlap_test(self.dates.find(text))
            cuts = [cut for cut in cuts if not is_date(cut - 1, cut + 1)]
            spans = list(cut_spans(text, spans, cuts))
        if is_ordinary or len(text) != len(given):
            given = text
        slotted = self.insert_slots(text, spans, given)
        lacks_slots = len(spans) > len(self._slots) > 0
        # A date or a remark without a slot is not translated: then the sentence is cut.
        lacks_date = lacks_slots and bool(self.dates.find(slotted.text))
        lacks_remark = lacks_slots and len(slotted.remarks) < len(self._find_remarks(text))
        is_copied = not (has_letters_outside(text, spans) or lacks_date or lacks_remark)
        if is_copied and self._glossary.terms:  # 24/7 may be a term
            _, terms, _ = self._find_terms(text, self._find_kept(text))
            is_copied = all(match.term.is_kept for match in terms)
        if is_copied:  # also the spans without a slot
            slotted = self.insert_slots(given, spans)
        return ReadSentence(text, given, slotted, case, is_copied, lacks_slots=lacks_slots)

    def find_spans(self, text: str, *, keeps_terms: bool = False) -> list[Span]:
        """Return the characters [begin, end) of the kept spans, with unseen names and signs.

        Args:
            text: a sentence.
            keeps_terms: whether terms that are not translated are kept spans although the model
                knows their words: where their letter case is lost otherwise.
        """
        spans, terms, protected = self._find_terms(text, self._find_kept(text))
        unencodable = self._find_unencodable(text, protected)
        if self._words is not None and self._keeps_names:
            spans += (
                (begin, end)
                for begin, end in self._words.find_names(text, [*protected, *unencodable])
                if may_copy_name(text[begin:end], *self._languages)
                and not is_word_of(self._languages[0], text[begin:end])
            )
        for begin, end, term, _ in terms:
            if term.is_kept and (keeps_terms or not _are_known(term.source, self._words)):
                spans.append((begin, end))
        room = max(len(self._slots) - len(spans), 0)  # the others are more likely to be needed
        return sorted([*spans, *unencodable[:room]])

    def _find_kept(self, text: str) -> list[Span]:
        """Return the characters [begin, end) of kept spans, options, dates and remarks.

        Dates are around numbers. Where a term overlaps a date, the term counts.
        """
        spans, dates = list(find_spans(text)), list[Span]()
        is_term = make_overlap_test(_locate_terms(self._glossary, text))
        for begin, end in self.dates.find(text):
            overlapping = find_overlapping(spans, begin, end)
            is_around = all(begin <= span[0] and span[1] <= end for span in spans[overlapping])
            if is_around and not is_term(begin, end):
                dates.append((begin, end))
                del spans[overlapping]

        is_word = self._normalizer.make_word_test(text)

        def is_read(begin: int, end: int) -> bool:
            return is_term(begin, end) or is_word(begin, end)

        if self._words is not None:
            spans = list(cut_words(text, spans, is_read))
        spans = sorted([*spans, *find_options(text, spans, is_read)])
        numbers = join_ranges(text, add_units(text, spans, is_read))
        kept = [*join_formulas(text, numbers, is_read), *dates]
        letters = [each for each in find_letters(text) if not is_term(*each)]
        if self._words is not None:
            rare = find_rare_initials(text, self._words.counts)
            letters += (each for each in rare if not is_read(*each))
        is_kept = make_overlap_test(kept)
        kept += (each for each in letters if not is_kept(*each))
        remarks = self._find_remarks(text)
        is_inside = make_overlap_test(remarks)
        return sorted([*remarks, *(span for span in kept if not is_inside(*span))])

    def _find_unencodable(self, text: str, protected: Sequence[Span]) -> list[Span]:
        """Return symbols, and words most of whose letters are read as bytes, but for ``protected``.

        Those with nothing but a space between them are one. Abbreviations that a symbol touches
        belong to it, as in AT&T.
        """
        signs = self._normalizer.list_unencodable(text)
        if not signs or not self._slots:
            return []
        overlaps = make_overlap_test(protected)
        unencodable: list[Span] = []
        for begin, end in find_words(text):
            word = text[begin:end]
            if signs.isdisjoint(word) or overlaps(begin, end):
                continue
            if not self._may_copy(word, signs):
                if note := _NOTE.search(word):
                    unencodable.append((begin + note.start(), end))
                continue
            if not word[0].isalnum():
                extended = _add_capitals(text, begin, end)
                begin, end = (begin, end) if overlaps(*extended) else extended
            if unencodable and text[unencodable[-1][1] : begin] in _INSIDE_SIGNS:
                begin = unencodable.pop()[0]
            unencodable.append((begin, end))
        return unencodable

    def _may_copy(self, word: str, unencodable: Collection[str]) -> bool:
        """Whether a word or a mark that the model cannot encode means the same in any language."""
        if not word[0].isalnum():
            return category(word[0])[0] == "S" or word[0] in _COPIED_MARKS
        if is_unspaced_letter(word[0]) and self._reads_unspaced:
            return False  # a letter of a longer word
        is_known = self._words is not None and word.lower() in self._words.counts
        letters = [sign in unencodable for sign in word if sign.isalnum()]
        is_formula = not _SUBSCRIPTS.isdisjoint(word)  # H₂O
        return is_formula or (not is_known and 2 * sum(letters) >= len(letters))

    def _has_names(self, title: str) -> bool:
        """Whether a text with the capitals of a title may be a list of names."""
        words = self._words
        return words is not None and self._keeps_names and words.is_mostly_unknown(title)

    def insert_slots(self, text: str, spans: Sequence[Span], given: str = "") -> SlottedText:
        """Return a text with slots, as many as the tokenizer has.

        Args:
            text: the text.
            spans: characters [begin, end) of its kept spans, in order.
            given: the text in the letter case that these have; empty: that of the text.
        """
        if not self._slots or not spans:
            return SlottedText(text, ())
        values = keep_spans(given or text, spans, self._slots).values
        remarks = set(self._find_remarks(text))
        numbers = (number for number, span in enumerate(spans[: len(values)]) if span in remarks)
        return SlottedText(keep_spans(text, spans, self._slots).text, values, tuple(numbers))

    def _find_terms(
        self, text: str, spans: list[Span]
    ) -> tuple[list[Span], list[TermMatch], list[Span]]:
        """Return the spans of a text that are kept, its terms, and the characters that stay.

        The latter are the spans, the terms and the short forms that are written out.

        A term may have spans inside, such as the number of "Windows 10". They are kept if the
        target of the term has them, too: "artículo 5", "section 5".
        """
        terms: list[TermMatch] = []
        inside, dropped = set[Span](), set[Span]()
        for match in self._glossary.find(text):
            shared = spans[find_overlapping(spans, match.begin, match.end)]
            if all(match.begin <= begin and end <= match.end for begin, end in shared):
                terms.append(match)
                inside.update(shared)
                target = match.term.target
                values = Counter(text[begin:end] for begin, end in shared)
                in_target = Counter(target[begin:end] for begin, end in find_spans(target))
                if match.term.is_kept or not values <= in_target:
                    dropped.update(shared)
        protected = [*(span for span in spans if span not in inside), *(each[:2] for each in terms)]
        kept = [span for span in spans if span not in dropped]
        return kept, terms, self._add_short_forms(text, protected)

    def _add_short_forms(self, text: str, protected: Sequence[Span]) -> list[Span]:
        """Return characters of a text that stay, with the short forms outside of them."""
        overlaps = make_overlap_test(protected)
        short_forms = ((each.begin, each.end) for each in self._normalizer.find_short_forms(text))
        return [*protected, *(each for each in short_forms if not overlaps(*each))]


def _are_known(term: str, words: SourceWords | None) -> bool:
    """Whether training sources have the words of a term, so that the model can read it."""
    return words is not None and all(word in words.counts for word in term.lower().split())


def _locate_terms(glossary: Glossary, text: str) -> list[Span]:
    """Return the characters [begin, end) of the terms of a text."""
    return [(match.begin, match.end) for match in glossary.find(text)]


def _add_capitals(text: str, begin: int, end: int) -> Span:
    """Return characters [begin, end) of a symbol with the capitals beside it."""
    is_item = text[begin] == ")"
    letters = _LAST_LETTER if is_item else _LAST_CAPITALS
    before = letters.search(text[max(begin - _MAX_BEFORE, 0) : begin])
    after = _FIRST_CAPITALS.match(text, end)
    return begin - len(before[0]) if before else begin, after.end() if after else end


def _list_unlearned_brackets(normalizer: Normalizer, words: SourceWords | None) -> frozenset[str]:
    """Return the opening brackets and quotation marks that a model has not learned to translate.

    Where words have apostrophes, these are not told from single quotation marks.
    """
    counts = {} if words is None else words.counts
    apostrophes = sum(count for word, count in counts.items() if "'" in word or "’" in word)
    has_apostrophes = words is None or _WORDS_PER_APOSTROPHE * apostrophes > sum(counts.values())

    def has_learned(sign: str, closing: str) -> bool:
        has_pieces = normalizer.has_pieces(sign) and normalizer.has_pieces(closing)
        return has_pieces and (words is None or words.has_learned(sign))

    return frozenset(
        sign
        for sign, closing in PAIRS.items()
        if not (has_apostrophes and sign in "'‘") and not has_learned(sign, closing)
    )
