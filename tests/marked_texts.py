"""Random marked texts and alignments, and what must hold of every marked text."""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis import strategies as st

from nmt.inference.markup_projection import project_marks
from nmt.inference.results import Word
from nmt.text.marked import MarkedText, MarkedTextBuilder, walk
from nmt.text.words import find_words

WORDS = (
    "Hola",
    "mundo",
    "casa",
    "azul",
    "un",
    "perro,",
    "¿Qué?",
    "3",
    "e-mail",
    " ",
    ".",
    "\u00a0",
)


def try_examples(count: int) -> settings:
    """Return the settings of a test of random documents; EXAMPLES is for long runs."""
    return settings(max_examples=int(os.environ.get("EXAMPLES", count)), deadline=None)


@st.composite
def marked_texts(draw: st.DrawFn) -> MarkedText:
    """Return a text with nested, empty and kept elements."""
    builder = MarkedTextBuilder()
    for action in draw(st.lists(st.sampled_from(["text", "open", "close", "empty", "kept", "br"]))):
        if action == "text":
            builder.add_text(draw(st.sampled_from(WORDS)) + draw(st.sampled_from([" ", ""])))
        elif action == "open":
            builder.open()
        elif action == "close" and builder.parent is not None:
            builder.close()
        elif action == "empty":
            builder.add_empty()
        elif action in ("kept", "br"):
            builder.add_kept(breaks_line=action == "br")
    return builder.build()


@st.composite
def translations(draw: st.DrawFn, source: MarkedText) -> tuple[str, list[Word]]:
    """Return a translation of a text, as little related as a bad alignment makes it."""
    signs = [source.text[mark.begin] for mark in source.marks if mark.is_kept]
    parts = draw(st.lists(st.sampled_from([*WORDS, *signs]), max_size=12))
    text = " ".join(parts)
    spans = find_words(source.text)
    sources = st.lists(st.sampled_from(spans), max_size=3) if spans else st.just([])
    return text, [Word(*span, None, tuple(draw(sources))) for span in find_words(text)]


@st.composite
def make_translation(
    draw: st.DrawFn, segment: MarkedText, texts: st.SearchStrategy[list[str]]
) -> MarkedText:
    """Return a translation of words from ``texts``, aligned to random characters."""
    text = " ".join(draw(texts))
    length = len(segment.text)
    spans = st.tuples(st.integers(0, length), st.integers(0, length)).map(lambda s: sorted(s))
    words = []
    at = 0
    for part in text.split(" "):
        if part.strip():
            sources = tuple((a, b) for a, b in draw(st.lists(spans, max_size=2)) if a < b)
            words.append(Word(at, at + len(part), None, sources))
        at += len(part) + 1
    return project_marks(segment, text, words)


def assert_is_sound(marked: MarkedText) -> None:
    """Check that marks are inside of the text and their parents, and that siblings are apart."""
    for index, mark in enumerate(marked.marks):
        assert 0 <= mark.begin <= mark.end <= len(marked.text)
        if mark.parent is not None:
            parent = marked.marks[mark.parent]
            assert mark.parent < index
            assert parent.begin <= mark.begin
            assert mark.end <= parent.end
        for other in marked.marks[:index]:
            if other.parent == mark.parent:
                assert other.end <= mark.begin or mark.end <= other.begin
    opened: list[int] = []
    seen: list[int] = []
    text = ""
    for event in walk(marked):
        if event.begins is not None:
            assert marked.marks[event.begins].parent == (opened[-1] if opened else None)
            opened.append(event.begins)
            seen.append(event.begins)
        elif event.ends is not None:
            assert opened.pop() == event.ends
        else:
            text += event.text
    assert opened == []
    assert sorted(seen) == list(range(len(marked.marks)))
    assert text == marked.text


def build(tagged: str) -> MarkedText:
    """Build a marked text: <b> begins an element, </b> ends it, <x/> is empty, <k/> is kept."""
    builder = MarkedTextBuilder()
    for part in tagged.replace(">", ">\0").replace("<", "\0<").split("\0"):
        if part == "<k/>":
            builder.add_kept()
        elif part == "<br/>":
            builder.add_kept(breaks_line=True)
        elif part.endswith("/>"):
            builder.add_empty()
        elif part.startswith("</"):
            builder.close()
        elif part.startswith("<"):
            builder.open()
        else:
            builder.add_text(part)
    return builder.build()


def write(marked: MarkedText) -> str:
    """Write marks as tags."""
    return "".join(
        f"<{event.begins}>" if event.begins is not None
        else f"</{event.ends}>" if event.ends is not None
        else event.text
        for event in walk(marked)
    )  # fmt: skip
