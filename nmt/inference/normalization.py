"""Normalizes sentences for a model: signs and words it knows, slots apart from words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from nmt.data.tokenizer import UNK, Tokenizer
from nmt.text.abbreviations import MIN_COUNT, Abbreviations, Replacement, mark_slots
from nmt.text.case import LetterCase
from nmt.text.final_marks import (
    CLAUSE_MARKS,
    DASH,
    ELLIPSIS,
    find_commas,
    simplify_marks,
    split_final_marks,
)
from nmt.text.greetings import find_greetings
from nmt.text.names import MIN_KNOWN, is_name
from nmt.text.scripts import CAPITALS, UNKNOWN_LANGUAGE, is_unspaced_letter, primary_subtag
from nmt.text.slashes import Slashes
from nmt.text.source_words import SourceWords
from nmt.text.spans import ANY_SLOT, Span

# Substitutes of signs that are missing from a vocabulary: their bytes mean nothing to a model.
_SUBSTITUTES = {
    **dict.fromkeys("“”„‟«»‘’‚‛", '"'),
    **dict.fromkeys("—–―‐‑−", "-"),
    "…": "...",
    ";": ",",
}
_SIGNS = "".join(_SUBSTITUTES)
# Stress, vowels and other marks on Latin, Greek, Cyrillic, Hebrew and Arabic letters.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u0655\u0670"
_BYTE = re.compile("<0x[0-9A-F]{2}>")  # a piece of SentencePiece
_WORD_END = rf"(?:\w|{ANY_SLOT})"
# Dashes that separate a clause or the words of a speaker, with spaces on both sides or one.
_CLAUSE = (
    rf"(?<={ANY_SLOT}) - (?=[¿¡]?[^\W\d_])|(?<=[^\W\d_]{{2}}) - (?={ANY_SLOT})"
    # Of a speaker, with hyphens: -Me voy -dijo Ana-.
    rf"| -(?=[a-zà-öø-ÿ][^-]*{_WORD_END}-[.,;:!?…])"
    r"| [—–―] |(?<=[^\W\d_]{2}) - (?=[¿¡]?[^\W\d_])|(?<=[^\W\d_]) - (?=[¿¡]?[^\W\d_]{2})"
    rf"| [—–―](?=[¿¡«“\"]?(?:[^\W\d_]|{ANY_SLOT}))|(?<={_WORD_END})[—–―](?=\s)"
)
# Subtitles have two where a cue continues another one.
_ELLIPSES = re.compile(r"(?: ?(?:…|\.{3,4})){1,2}")
_DOTTED_COMMA = re.compile(r"(?:…|\.{3}),")
_CHANGED = re.compile(
    rf"(?P<clause>{_CLAUSE})|(?P<end>(?<={_WORD_END})[—–―-](?=[.,;:!?…]))"
    # Becomes a comma, with the dash of a narrator, or nothing before a mark.
    rf"|(?P<ellipsis>(?<={_WORD_END}){_ELLIPSES.pattern}(?: ?[—–―]| )?"
    rf"(?=[¿¡]?(?:[^\W\d_{CAPITALS}]|{ANY_SLOT})))"
    # Left out beside another mark.
    rf"|(?P<dots>(?<={_WORD_END})(?:…|\.{{3}})(?=[,;:?!])|(?<=[?!])(?:…|\.{{3}})(?=\s))"
    r"|(?P<first>[¿¡]{2,})"
    r"|(?P<gap>(?<=[¿¡]) +(?=\S)|(?<=[^\s¿¡]) +(?=[.,;:!?…]+(?:\s|$)))"
    r"|(?P<apostrophe>(?<=\w)[’‘](?=\w))"
    # A missing space, as in "No,gracias", or one on the wrong side: "No ,gracias".
    r"|(?P<glued>(?<=[^\W\d_]{2})[,;!?](?=[^\W\d_]{2})"
    rf"|(?<=[^\s¿¡]) +[,;!?](?=[^\W\d_]|{ANY_SLOT}))"
    rf"|(?P<sign>[{_SIGNS}])"
    rf"|(?P<letter>\w)(?P<marks>[{_MARKS}]+)"
    # After a slot, a word would have other pieces than after a space.
    rf"|(?P<joint>(?<={ANY_SLOT})(?=[^\W\d_])|(?<=[^\W\d_])(?={ANY_SLOT}))"
)


class NormalizedText(NamedTuple):
    """A text as a tokenizer reads it, with the characters of the original."""

    text: str
    origins: tuple[int, ...]  # of each character, its index in the original text

    def find_ellipses(self, source: str) -> dict[int, str]:
        """Return the ellipses that became commas, by the number of the comma.

        Args:
            source: the original text.
        """
        by_comma = {}
        for number, at in enumerate(find_commas(self.text)):
            origin = self.origins[at]
            ellipses = _ELLIPSES.match(source, origin)
            dotted = _DOTTED_COMMA.search(source, max(origin - 3, 0), origin + 1)
            if match := ellipses or dotted:
                by_comma[number] = match[0]
        return by_comma


class Normalizer:
    """Normalizes sentences.

    Args:
        tokenizer: a sign is replaced if no piece has it, and pieces have its substitute.
        language: BCP 47 tag of the sentences, for their abbreviations and greetings.
        words: of the training sources: abbreviations, slashes, ellipses and final marks that these
            hardly have are replaced, and greetings get their comma. None: not known.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        language: str = UNKNOWN_LANGUAGE,
        words: SourceWords | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._language = language
        self._words = words
        self._abbreviations = Abbreviations(language, words)
        self._slashes = Slashes(language, words)
        self._has_gaps = primary_subtag(language) == "fr"  # a space before marks
        self._has_pieces: dict[str, bool] = {}
        self._encodable = set[str]()  # characters: those looked up, and spaces
        self._substitutes = {
            sign: other
            for sign, other in _SUBSTITUTES.items()
            if not self.has_pieces(sign) and self.has_pieces(other)
        }

    def has_pieces(self, sign: str) -> bool:
        """Whether a vocabulary has pieces for a sign, other than those of its bytes."""
        if sign not in self._has_pieces:
            [ids] = self._tokenizer.encode([sign])
            pieces = self._tokenizer.pieces(ids)
            self._has_pieces[sign] = UNK not in ids and not any(map(_BYTE.fullmatch, pieces))
        return self._has_pieces[sign]

    def can_encode(self, character: str) -> bool:
        """Whether a vocabulary has pieces for a character, or for its substitute."""
        return self.has_pieces(self._substitutes.get(character, character))

    def list_unencodable(self, text: str) -> set[str]:
        """Return the characters of a text, but for spaces, that a vocabulary lacks."""
        new = {*text} - self._encodable
        unencodable = {sign for sign in new if not (sign.isspace() or self.can_encode(sign))}
        self._encodable |= new - unencodable
        return unencodable

    def find_short_forms(
        self, text: str, case: LetterCase = LetterCase.ORDINARY
    ) -> list[Replacement]:
        """Return the abbreviations and slashes of a sentence that are written out as words.

        Args:
            text: the sentence.
            case: see `Abbreviations.find`.
        """
        return [*self._abbreviations.find(text, case), *self._slashes.find(text)]

    def find_acronyms(self, text: str) -> Iterator[Span]:
        """Yield the abbreviations that have capitals in any text: see `Abbreviations`."""
        return self._abbreviations.find_acronyms(text)

    def is_common_word(self, word: str) -> bool:
        """Whether a word occurs several times in the training sources, and is not a listed name."""
        counts = {} if self._words is None else self._words.counts
        return counts.get(word.lower(), 0) >= MIN_KNOWN and not is_name(word)

    def make_word_test(self, text: str) -> Callable[[int, int], bool]:
        """Return a function that tells whether characters are a known word or a short form.

        It takes where they begin and end. A single letter is not a known word. If the words of the
        training sources are not known, every word is.
        """

        @cache
        def list_begins() -> set[int]:  # of short forms, which few texts need
            return {form.begin for form in self.find_short_forms(text)}

        def is_word(begin: int, end: int) -> bool:
            if self._words is None:
                return True
            word = text[begin:end].lower()
            if len(word) > 1 and self._words.counts.get(word, 0) >= MIN_COUNT:
                return True
            return begin in list_begins()

        return is_word

    def normalize(
        self, text: str, spans: Sequence[str] = (), case: LetterCase = LetterCase.ORDINARY
    ) -> NormalizedText:
        """Return a text with slots as it is to be encoded.

        Args:
            text: the text.
            spans: the kept spans, by number of their slot.
            case: see `Abbreviations.find`.
        """
        parts: list[str] = []
        origins: list[int] = []
        done = 0
        for begin, end, new in self._find_replacements(text, case, spans):
            if begin < done or begin == end == done > 0:  # inside of, or right after, another one
                continue
            parts += [text[done:begin], new]
            origins += range(done, begin)
            shares = (begin + at * (end - begin) // len(new) for at in range(len(new)))
            origins += (min(share, len(text) - 1) for share in shares)
            done = end
        return NormalizedText("".join([*parts, text[done:]]), (*origins, *range(done, len(text))))

    def _find_replacements(
        self, text: str, case: LetterCase, spans: Sequence[str]
    ) -> list[Replacement]:
        """Return replacements by where they begin, longer ones first; they may overlap."""
        replacements = self.find_short_forms(mark_slots(text, spans), case)
        if self._words is not None:
            replacements += find_greetings(text, self._language)
        body, marks = split_final_marks(text)
        simple = simplify_marks(marks)
        end = len(text)
        mark = marks if marks in CLAUSE_MARKS else ELLIPSIS
        if marks != simple and (simple in tuple("?!") or not self._has_learned(mark, marks)):
            end = len(body if simple and self._has_gaps else body.rstrip())
            replacements.append(Replacement(end, len(text), simple))
        replacements += (
            Replacement(*match.span(), self._substitute(match, text))
            for match in _CHANGED.finditer(text, 0, end)
        )
        return sorted(replacements, key=lambda each: (each.begin, -each.end))

    def _has_learned(self, kind: str, mark: str) -> bool:
        """Whether a model has learned a kind of mark; if unknown, whether it may."""
        return self.has_pieces(mark) if self._words is None else self._words.has_learned(kind)

    def _has_learned_dash(self, dash: str) -> bool:
        """Whether a model has learned dashes; if they were not counted, by its pieces."""
        if self._words is None or DASH not in self._words.signs:
            return dash != "-" and self.has_pieces(dash)
        return self._words.has_learned(DASH)

    def _substitute(self, match: re.Match[str], text: str) -> str:
        """Return what the model reads in place of a match of `_CHANGED`."""
        sign = match[0].strip()
        if match["joint"] is not None:
            neighbors = text[match.start() - 1 : match.start() + 1]
            return "" if any(map(is_unspaced_letter, neighbors)) else " "
        if match["glued"]:
            sides = text[match.start() - 1], text[match.end()]
            mark = self._substitutes.get(sign, sign)
            mark = f" {mark}" if self._has_gaps and match[0] != sign else mark
            return mark if any(map(is_unspaced_letter, sides)) else f"{mark} "
        if match["gap"]:
            return match[0] if self._has_gaps else ""
        if match["first"]:
            return next(mark for mark in "¿¡" if mark in sign)
        if match["marks"]:  # those that no piece has are left out of words that pieces have
            if not self.can_encode(match["letter"]):
                return match[0]
            return match["letter"] + "".join(filter(self.can_encode, match["marks"]))
        if match["dots"] or match["ellipsis"]:
            if not self._has_learned(ELLIPSIS, sign):
                return ", " if match["ellipsis"] else ""
            learned = match[0] if self._has_gaps else match[0].lstrip()
            return "".join(self._substitutes.get(each, each) for each in learned)
        if (match["clause"] or match["end"]) and not self._has_learned_dash(sign):
            if match["end"]:  # a hyphen may be that of a blood type: O-
                is_speaker = sign != "-" or " -" in text[: match.start()]
                return "" if is_speaker else sign
            comma = "" if text[match.start() - 1] in ".,;:!?…" else ","
            return comma + " " * match[0].startswith(" ")
        if sign not in self._substitutes:
            return match[0]
        return "'" if match["apostrophe"] else match[0].replace(sign, self._substitutes[sign])
