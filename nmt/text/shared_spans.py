"""Kept spans that both sides of a training pair share, replaced by slots as they are in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nmt.text.context import split_context
from nmt.text.marked import splice
from nmt.text.spans import find_spans


def keep_shared_spans(source: str, target: str, slots: Sequence[str]) -> tuple[str, str]:
    """Return a pair in which a slot replaces each kept span that both sides have once.

    Others, such as a number that the target writes in words, stay on both sides; so do those of a
    context.

    Args:
        source: of the pair.
        target: of the pair.
        slots: that the tokenizer reserves, in the order in which they are used.
    """
    slot_of = dict(zip(list_shared_spans(source, target), slots, strict=False))
    if not slot_of:
        return source, target
    context, sentence = split_context(source)
    return context + _substitute(sentence, slot_of), _substitute(target, slot_of)


def list_shared_spans(source: str, target: str) -> list[str]:
    """Return the kept spans that both sides have once, in the order of the source."""
    source = split_context(source)[1]
    spans = [source[begin:end] for begin, end in find_spans(source)]
    if not spans:
        return []
    target_spans = [target[begin:end] for begin, end in find_spans(target)]
    return [span for span in spans if spans.count(span) == target_spans.count(span) == 1]


def _substitute(text: str, slot_of: Mapping[str, str]) -> str:
    """Replace the kept spans of a text that have a slot."""
    spans = ((begin, end, text[begin:end]) for begin, end in find_spans(text))
    return splice(text, ((begin, end, slot_of.get(span, span)) for begin, end, span in spans))
