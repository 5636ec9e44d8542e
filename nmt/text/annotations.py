"""Terms of a source, replaced by their translations (Dinu et al. 2019, "replace").

A translation stands between two marks, which the tokenizer reserves as pieces. A model that was
trained with such sources copies it, inflected as its sentence needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Private characters, which no other text has: see `nmt.text.spans`.
TERM_MARKS = ("\ue009", "\ue00a")  # begin and end
_ANNOTATION = re.compile("{}[^{}]*{}".format(TERM_MARKS[0], "".join(TERM_MARKS), TERM_MARKS[1]))


def annotate(text: str, terms: Iterable[tuple[int, int, str]]) -> tuple[str, tuple[str, ...]]:
    """Return a text with annotations, and what each of them replaces.

    Args:
        text: a source.
        terms: characters [begin, end) of each term, and its translation; in order.
    """
    parts, replaced = [], []
    done = 0
    for begin, end, translation in terms:
        parts += [text[done:begin], f"{TERM_MARKS[0]} {translation} {TERM_MARKS[1]}"]
        replaced.append(text[begin:end])
        done = end
    return "".join([*parts, text[done:]]), tuple(replaced)


def find_annotations(text: str) -> list[tuple[int, int]]:
    """Return the characters [begin, end) of each annotation."""
    if TERM_MARKS[0] not in text:
        return []
    return [match.span() for match in _ANNOTATION.finditer(text)]


def remove_annotations(text: str, replaced: Sequence[str]) -> str:
    """Return a text with what its annotations replace."""
    parts = []
    done = 0
    for (begin, end), term in zip(find_annotations(text), replaced, strict=False):
        parts += [text[done:begin], term]
        done = end
    return "".join([*parts, text[done:]])
