"""Documents translated: their texts as sentences, their markup by alignment."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from nmt.documents.formats import Document
from nmt.inference.contract import SearchRequest
from nmt.inference.lines import group_lines
from nmt.inference.markup_projection import needs_alignment, project_marks
from nmt.inference.results import TermUse, Translation, Word, to_one_line
from nmt.text.context import PreviousSentences, add_contexts
from nmt.text.final_marks import FINAL_MARKS
from nmt.text.marked import MarkedText, has_letters, has_only_symbols
from nmt.text.tags import cut_end_tags, read_tags

# "...", "p.m.", and abbreviations that end names and lists.
_DOTTED = re.compile(
    r"(?:\.|…|(?<!\w)(?:(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}|Jr|Sr|Ltd|Inc|Corp|Co|etc))\.$"
)
_ELEMENT = "element"  # in place of the character that stands for one
CHUNK = 256  # texts that are searched together


class TextTranslator(Protocol):
    """Translates texts, as `nmt.inference.translator.Translator` does."""

    def stream(
        self, chunks: Iterable[Sequence[str]], request: SearchRequest
    ) -> Iterator[list[list[Translation]]]:
        """Yield the translations of each text of a chunk, best first, chunk by chunk."""
        ...

    def begin_document(self) -> PreviousSentences:
        """Return what puts the sentences before it before each text of a document."""
        ...


class _Text(NamedTuple):
    """A text of a document."""

    in_context: str  # with the previous sentences in front, if the run reads them
    segment: MarkedText


@dataclass
class DocumentReport:
    """The number of texts, and the losses that a user should know of.

    Attributes:
        segments: texts, repeated ones included.
        lost_spans: URLs, numbers and other kept spans that the model left out, "element" for each
            element; they were inserted where they most likely belong.
        unaligned: texts whose markup was placed by position: an ensemble, or a model without
            attention, does not align words.
        untranslated: texts that stay as they were, as their translations are empty.
        skipped: texts that stay as they were, as they choose between texts in ICU's message format.
        terms: of the glossary, if one was given; those of a repeated text count once.
    """

    segments: int = 0
    lost_spans: list[str] = field(default_factory=list)
    unaligned: int = 0
    untranslated: int = 0
    skipped: int = 0
    terms: list[TermUse] = field(default_factory=list)


def translate_document(
    document: Document,
    translator: TextTranslator,
    request: SearchRequest | None = None,
    advance: Callable[[int, int], object] = lambda done, total: None,
    *,
    chunk_size: int = CHUNK,
) -> tuple[bytes, DocumentReport]:
    """Return a document in the other language.

    A text that occurs several times, in the same context, is translated once. Only texts with
    markup, tags or brackets inside of a sentence are aligned.

    Args:
        document: see `nmt.documents.formats.extract`.
        translator: translates the texts.
        request: how to search; None: the defaults of the run.
        advance: called with the number of texts that are translated, which is 0 at first, and with
            the number of all, in which repeated ones count once.
        chunk_size: most texts that are searched together.
    """
    request = request or SearchRequest()
    previous = translator.begin_document()
    texts = [_Text(previous.add_to(each.text), each) for each in document.segments]
    report = DocumentReport(len(document.segments), skipped=document.skipped)
    translated: dict[_Text, MarkedText] = {}
    distinct = list(dict.fromkeys(texts))
    advance(0, len(distinct))
    for words in (False, True):
        chosen = [text for text in distinct if needs_alignment(text.segment) is words]
        chunks = [chosen[n : n + chunk_size] for n in range(0, len(chosen), chunk_size)]
        streamed = translator.stream(
            ([text.in_context for text in chunk] for chunk in chunks), replace(request, words=words)
        )
        for chunk, translations in zip(chunks, streamed, strict=True):
            for source, [best, *_] in zip(chunk, translations, strict=True):
                segment = source.segment
                text, aligned = match_endings(segment.text, best.text, best.words)
                text, aligned = space_last_element(segment, text, aligned)
                translated[source] = project_marks(segment, text, aligned)
                if has_letters(segment.text) and not any(map(str.isalnum, read_tags(text).text)):
                    translated[source] = segment.without_kept()
                    report.untranslated += 1
                _add(report, best, is_unaligned=words and not best.words)
            advance(len(translated), len(distinct))
    return document.fill([translated[text] for text in texts]), report


def translate_lines(
    lines: Sequence[str],
    translator: TextTranslator,
    request: SearchRequest | None = None,
    advance: Callable[[int, int], object] = lambda done, total: None,
    *,
    chunk_size: int = CHUNK,
) -> tuple[bytes, DocumentReport]:
    """Return one translated line per line, in UTF-8, as ``nmt.translate --file`` writes them.

    The arguments are those of `translate_document`, with lines in place of a document.
    """
    report = DocumentReport(len(lines))
    translated: list[str] = []
    advance(0, len(lines))
    texts = add_contexts(lines, translator.begin_document())
    chunks = group_lines(texts, chunk_size)
    for translations in translator.stream(chunks, request or SearchRequest()):
        for best, *_ in translations:
            translated.append(f"{to_one_line(best.text, keeps_tabs=True)}\n")
            _add(report, best, is_unaligned=False)
        advance(len(translated), len(lines))
    return "".join(translated).encode(), report


def match_endings(source: str, text: str, words: Sequence[Word] = ()) -> tuple[str, Sequence[Word]]:
    """Return a translation without final points that its source, such as a title, lacks.

    Args:
        source: each of its lines is a text, if the translation has as many.
        text: the translation.
        words: of the translation.

    Returns:
        The translation and its words, at their places in it.
    """
    sources, lines = source.split("\n"), text.split("\n")
    if len(sources) != len(lines):
        sources, lines = [source], [text]
    cuts: list[int] = []
    begin = 0
    for each, line in zip(sources, lines, strict=True):
        bare = cut_end_tags(line)
        if _has_surplus_point(cut_end_tags(each), bare):
            end = len(bare) - 1
            cuts += range(begin + len(bare[:end].rstrip()), begin + end + 1)
        begin += len(line) + 1
    if not cuts:
        return text, words
    moved = (
        replace(
            word,
            begin=word.begin - bisect_left(cuts, word.begin),
            end=word.end - bisect_left(cuts, word.end),
        )
        for word in words
    )
    removed = set(cuts)
    shorter = "".join(sign for at, sign in enumerate(text) if at not in removed)
    return shorter, [word for word in moved if word.begin < word.end]


def space_last_element(
    source: MarkedText, text: str, words: Sequence[Word]
) -> tuple[str, Sequence[Word]]:
    """Return a translation with the white space before an empty element at the final mark.

    Where a sentence ends with a word, white space, an empty element and a full stop, the model sees
    white space before the full stop, and writes none.

    Args:
        source: the source.
        text: its translation.
        words: of the translation.

    Returns:
        The translation and its words, at their places in it.
    """
    written = source.text.rstrip()
    first = len(written)
    while first and not (written[first - 1].isalnum() or written[first - 1].isspace()):
        first -= 1
    tail, space, body = written[first:], written[first - 1 : first], text.rstrip()
    at = len(body) - len(tail)
    has_element = any(mark.begin == mark.end == first for mark in source.marks)
    is_spaced = space.isspace() and space != "\n"
    if not (tail and has_element and is_spaced and body.endswith(tail)):
        return text, words
    if not at or body[at - 1].isspace():
        return text, words
    moved = (
        replace(word, begin=word.begin + 1, end=word.end + 1) if word.begin >= at else word
        for word in words
    )
    return text[:at] + space + text[at:], list(moved)


def _has_surplus_point(source: str, line: str) -> bool:
    end = len(source)
    while end and not source[end - 1].isalnum():
        end -= 1
    if not end or any(mark in FINAL_MARKS for mark in source[end:]):
        return False
    return line.endswith((".", "。")) and not _DOTTED.search(line)


def _add(report: DocumentReport, translation: Translation, *, is_unaligned: bool) -> None:
    report.lost_spans += (
        _ELEMENT if has_only_symbols(span) else span for span in translation.lost_spans
    )
    report.unaligned += is_unaligned
    report.terms += translation.terms
