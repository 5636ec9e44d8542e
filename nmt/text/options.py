"""Options of commands in a sentence, such as --help and -v, which are kept spans.

Before a word that a model reads, dashes are punctuation: --No sé --dijo ella.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from nmt.text.spans import Span, make_overlap_test

# A vowel or y after a dash may be a word.
_OPTION = re.compile(
    r"(?<![^\s(\[«“\"'/|,])"
    r"(?:--(?P<name>[a-z][a-z0-9]+(?:-[a-z0-9]+)*)|-(?P<letter>(?i:(?![aeiouy])[a-z])))"
    r"(?=[,;:!?]*(?:[\s)\]»”\"'/|]|\.?$))",
    re.ASCII,
)
_PART = re.compile("[a-z0-9]+")


def find_options(
    text: str, spans: Sequence[Span], is_read: Callable[[int, int], bool]
) -> Iterator[Span]:
    """Yield the characters [begin, end) of options that a model does not read as words, in order.

    Args:
        text: a sentence.
        spans: characters [begin, end) of its kept spans, which have no options.
        is_read: whether a model reads characters [begin, end) of the sentence as words.
    """
    is_kept = make_overlap_test(spans)
    for match in _OPTION.finditer(text):
        if match["letter"]:
            words = [match.span("letter")]
        else:
            words = [part.span() for part in _PART.finditer(text, *match.span("name"))]
        if not is_kept(*match.span()) and not all(is_read(*word) for word in words):
            yield match.span()
