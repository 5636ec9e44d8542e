"""Subtitles: SubRip and WebVTT. A sentence that runs over several cues is one segment.

Texts are spliced into the original characters, so numbers, times, settings, notes, styles and blank
lines stay as they are. Libraries of subtitles keep none of them, hence the small parser.

In cues whose text changes, equal tags that end and begin again at a line break are written once,
references such as `&nbsp;` become characters, and SubRip, which cannot escape, gets `‹` and `›` for
what would be a tag or an arrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from nmt.data.encodings import decode
from nmt.data.languages import are_variants
from nmt.documents.cues import Cue, CueGroup
from nmt.documents.formats import Document, DocumentOptions
from nmt.documents.html_tokens import unescape
from nmt.errors import UserError
from nmt.text.final_marks import ALL_STOPS
from nmt.text.marked import MarkedText, has_letters, splice
from nmt.text.scripts import UNKNOWN_LANGUAGE
from nmt.text.sentences import split_sentences

_WEBVTT = re.compile(r"\ufeff?WEBVTT(?=[ \t\r\n]|\Z)")
# In the lines below it.
_LANGUAGE = re.compile(
    r"\ufeff?WEBVTT[^\r\n]*(?:\r\n?|\n)(?:[^\r\n]+(?:\r\n?|\n))*?Language:[ \t]*([\w-]+)"
)
_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_TIME = r"\s*(?:\d{1,9}:)?\d{1,2}:\d{1,2}(?:[.,:]\d{1,9})?\s*"
_TIME_LINE = re.compile(rf"\ufeff?{_TIME}-->{_TIME}(?:\s|\Z)")
_DAMAGED_TIME_LINE = re.compile(r"\ufeff?\s*\d{1,9}\s*:[^\r\n]*-->")
_NUMBER = re.compile(r"\ufeff?\s*\d+\s*\Z")
_LONGEST = 10_000  # characters of a cue; the time of projecting marks grows faster than the text
_MAX_CUES = 6  # of a segment; subtitles without punctuation are one endless sentence

_OVERRIDE = r"\{\\[^{}\r\n]*\}"
_SUBRIP_TAG = re.compile(rf"</?(?:[bius]|font)\b[^<>\r\n]*>|{_OVERRIDE}", re.IGNORECASE)
_WEBVTT_TAG = re.compile(rf"</?[\w.][^<>\r\n]*>|{_OVERRIDE}")
_LEADING = re.compile(rf"(?:\s|{_OVERRIDE})*")  # alignment and style of the whole cue
_ELEMENT = re.compile(r"(<(\w+)\b[^<>]*>).*</\2>")  # around a whole line
_VOICE = re.compile(r"<v[.\s][^<>\r\n]*>")

_CLOSING = "\"'”’»)]」』"
_END_MARKS = tuple(ALL_STOPS)
_CONTINUED = (*_END_MARKS, *",;，、；،؛")  # the stop of an abbreviation, commas and semicolons
_NEW_TURN = re.compile(r"[-–—](?![-\d])|[(\[♪♫#]")
_LYRIC_END = tuple("♪♫#")
_REMARK = re.compile(r"[(\[].*[)\]]\s*\Z", re.DOTALL)  # (door slams)
_BEFORE_LETTER = "\"'«“‘¿¡.… "
_CONTEXT = 64  # characters around a line break that decide whether it ends a sentence


class SubtitleDocument(Document):
    """The sentences of subtitles, and the file around them.

    Args:
        data: a file.
        options: its language, and the one to write into the file.

    Raises:
        UserError: it is not UTF-8 or UTF-16, has no cues, a damaged time line or an endless cue.
    """

    def __init__(self, data: bytes, options: DocumentOptions) -> None:
        self._text, self._encoding = decode(data)
        self._options = options
        self._is_webvtt = bool(_WEBVTT.match(self._text))
        tag = _WEBVTT_TAG if self._is_webvtt else _SUBRIP_TAG
        self._boundaries = _Boundaries(tag, options.source_language)
        self._sentences = [
            CueGroup(cues, self._boundaries.tag, is_escaped=self._is_webvtt)
            for cues in self._group()
        ]
        self.segments: Sequence[MarkedText] = [each.marked for each in self._sentences]

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the subtitles with other sentences: see `Document.fill`."""
        newline = re.search(r"\r\n|\r|\n", self._text)
        line_end = newline[0] if newline else "\n"
        changes = (
            (cue.begin, cue.end, text.replace("\n", line_end))
            for sentence, translation in zip(self._sentences, translations, strict=True)
            if translation != sentence.marked.without_kept()
            for cue, text in zip(sentence.cues, sentence.fill(translation), strict=True)
        )
        return splice(self._text, [*self._name_language(), *changes]).encode(self._encoding)

    def _name_language(self) -> Iterator[tuple[int, int, str]]:
        """Yield the target language in place of the source language in the header."""
        match = _LANGUAGE.match(self._text)
        source, target = self._options.source_language, self._options.target_language
        if match is not None and are_variants(match[1], source) and target != UNKNOWN_LANGUAGE:
            yield *match.span(1), target

    def _group(self) -> Iterator[list[Cue]]:
        """Yield the cues of each segment; cues without letters are left out."""
        group: list[Cue] = []
        for begin, end in _find_payloads(self._text, self._is_webvtt):
            cue = self._read(begin, end)
            is_text = has_letters(self._boundaries.show("\n".join(cue.lines)))
            is_continued = (
                is_text
                and group
                and len(group) < _MAX_CUES
                and self._boundaries.continues(group[-1].lines[-1], cue.lines[0])
            )
            if group and not is_continued:
                yield group
                group = []
            if is_text:
                group.append(cue)
        if group:
            yield group

    def _read(self, begin: int, end: int) -> Cue:
        begin = _LEADING.match(self._text, begin, end).end()  # type: ignore[union-attr]
        lines = re.split("[\r\n]+", self._text[begin:end])
        lines = [line for line in map(str.strip, lines) if line]
        ends = [self._boundaries.ends_sentence(*pair) for pair in pairwise(lines)]
        return Cue(begin, end, lines or [""], ends)


class _Boundaries(NamedTuple):
    """Decides whether two lines, or the last and first line of two cues, are one sentence.

    Attributes:
        tag: what a tag is.
        language: BCP 47 tag.
    """

    tag: re.Pattern[str]
    language: str

    def show(self, line: str) -> str:
        """Return the text of a line as a viewer sees it."""
        text = self.tag.sub("", line)
        return (unescape(text) if self.tag is _WEBVTT_TAG else text).strip()

    def ends_sentence(self, line: str, following: str) -> bool:
        """Whether a sentence surely ends between two lines."""
        before, after = self.show(line), self.show(following)
        voice, voices = _VOICE.match(following), _VOICE.findall(line)
        return bool(
            _NEW_TURN.match(after)
            or before.endswith(_LYRIC_END)
            or _REMARK.match(before)
            or (voice and voices and voice[0] != voices[-1])
            or (_are_in_other_elements(line, following) and not _begins_lower(after))
            or (before.rstrip(_CLOSING).endswith(_END_MARKS) and self._is_cut(before, after))
        )

    def continues(self, line: str, following: str) -> bool:
        """Whether a sentence surely continues from one line to another.

        Without a mark that ends it, it does before lower case and after a comma or a short word in
        lower case, such as an article: "Vivo en", "Madrid".
        """
        if self.ends_sentence(line, following):
            return False
        before, after = self.show(line), self.show(following).lstrip(_BEFORE_LETTER)
        last_word = before.split()[-1] if before else ""
        return bool(after) and (
            _begins_lower(after)
            or after[0].isdecimal()
            or before.rstrip(_CLOSING).endswith(_CONTINUED)
            or (last_word.isalpha() and last_word.islower() and len(last_word) <= 4)
        )

    def _is_cut(self, before: str, after: str) -> bool:
        """Whether a sentence ends between two texts.

        Before a capital letter, only words with one may be abbreviations: "No." is an answer.
        """
        words = before.split()
        is_abbreviation = len(words) > 1 and words[-1].lstrip(_BEFORE_LETTER)[:1].isupper()
        if after.lstrip(_BEFORE_LETTER)[:1].isupper() and not is_abbreviation:
            return True
        before = before[-_CONTEXT:]
        end = 0
        for sentence in split_sentences(f"{before} {after[:_CONTEXT]}", self.language):
            end += len(sentence)
            if end >= len(before):
                return end <= len(before) + 1
        return True


def _are_in_other_elements(line: str, following: str) -> bool:
    """Whether two lines are each in an element, which differ: `<b>Uno</b>`, `<i>Dos</i>`."""
    first, second = _ELEMENT.fullmatch(line), _ELEMENT.fullmatch(following)
    return bool(first and second and first[1] != second[1])


def _begins_lower(text: str) -> bool:
    return text.lstrip(_BEFORE_LETTER)[:1].islower()


def _find_payloads(text: str, is_webvtt: bool) -> Iterator[tuple[int, int]]:
    """Yield the characters [begin, end) of the texts of cues, without the last line break.

    In SubRip, text after a blank line still belongs to a cue: many files have such lines.

    Raises:
        UserError: the file has no cue, a damaged time line, or a cue that is too long.
    """
    lines = [match.span(1) for match in _LINE.finditer(text)]
    is_time = [bool(_TIME_LINE.match(text, *span)) for span in lines]
    if not is_webvtt and not any(is_time) and text.strip("\ufeff \t\r\n"):
        raise UserError(
            "the document has no cues: subtitles begin with WEBVTT, or have lines such as "
            "00:00:01,000 --> 00:00:02,500"
        )
    is_inside = False
    begin: int | None = None
    end = 0
    for number, (first, last) in enumerate(lines):
        if not is_time[number] and _DAMAGED_TIME_LINE.match(text, first, last):
            raise UserError(
                f"line {number + 1} is not a time line ({text[first:last][:40]!r}): "
                "write 00:00:01,000 --> 00:00:02,500"
            )
        is_number = is_time[min(number + 1, len(lines) - 1)] and _NUMBER.match(text, first, last)
        is_blank = first == last if is_webvtt else not text[first:last].strip()
        if is_time[number] or is_number or is_blank:
            if begin is not None:
                yield begin, end
            begin = None
            is_inside = is_time[number] or (is_inside and not is_webvtt)
        elif is_inside:
            begin, end = first if begin is None else begin, last
            if end - begin > _LONGEST:
                raise UserError(
                    f"the cue at line {number + 1} has more than {_LONGEST} characters: "
                    "divide it into cues"
                )
    if begin is not None:
        yield begin, end


extract = SubtitleDocument
