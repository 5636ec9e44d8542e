"""Labels at the beginning of a text: the names of speakers, remarks in brackets, times in chats."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nmt.text.scripts import CAPITALS, has_capital_nouns
from nmt.text.sentences import split_sentences

# Up to three words and a colon.
_WORDS_AND_COLON = r"(?:\w[\w.'’-]*\s){0,2}\w[\w.'’-]*\s?:"
# The time of a message in a chat, as a pattern: [14/3/24, 10:46:01] or 14/3/24, 10:46 -
_CLOCK = r"(?:\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4},? )?\d{1,2}(?::\d{2}){1,2}"
TIME_STAMP = rf"(?:\[{_CLOCK}\]|\({_CLOCK}\)|{_CLOCK} [—–-]) (?!\d)"
# Words and a colon, except for times, ratios and what introduces a quotation; a remark in brackets
# before a sentence, such as a sound in subtitles; a time.
_LABEL = re.compile(
    rf"[\s*•●–—-]*(?:{_WORDS_AND_COLON}(?:\s+|(?=__))(?![\"'“”„«»‘—–-]|(?<=\d:\s)\d)(?=\S)"
    rf"|(?P<remark>\((?:(?:[{CAPITALS}]|[^\W\d_]{{2}})[^\W\d_]{{2}}|[{CAPITALS}][^\W\d_]?\s[^\W\d_])"
    rf"[^()]{{,60}}\)|\[(?:[^\W\d_]{{3}}|[{CAPITALS}][^\W\d_]?\s[^\W\d_])[^\[\]]{{,60}}\])\s+"
    rf"(?=[¿¡«“\"(\[]*[{CAPITALS}])|{TIME_STAMP})"
)
_CLAUSE_END = re.compile(r"[.;!?]\s+\S")
_LINE_LABEL = re.compile(rf"{_WORDS_AND_COLON}(?:\s|$)")


def begins_with_label(line: str) -> bool:
    """Whether a line is up to three words, a colon and one clause, as in the head of an e-mail."""
    match = _LINE_LABEL.match(line)
    return match is not None and not _CLAUSE_END.search(line, match.end())


def cut_labels(text: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield (label, "") for each label of a text, then what follows with the whole sentence."""
    for sentence in split_sentences(text, language):
        *labels, rest = split_label(sentence, language)
        yield from ((label, "") for label in labels)
        yield rest, sentence


def split_label(sentence: str, language: str) -> list[str]:
    """Return the labels of a sentence, such as "(Risas) " and "Ana: ", and the rest.

    A label with a colon is the last one.

    Args:
        sentence: the sentence.
        language: BCP 47 tag. In German, brackets make no label: a noun may follow them.
    """
    pieces, begin = [], 0
    while match := _LABEL.match(sentence, begin):
        if match["remark"] and has_capital_nouns(language):
            break
        pieces.append(match[0])
        begin = match.end()
        if match[0].rstrip().endswith(":"):
            break
    return [*pieces, sentence[begin:]]
