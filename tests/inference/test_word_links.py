"""Words of translations: those that a reference has, and the characters that they come from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from words_tokenizer import WordsTokenizer

from nmt.inference.normalization import NormalizedText
from nmt.inference.results import Translation, Word
from nmt.inference.segments import Remark, Segment, SegmentedText
from nmt.inference.word_links import (
    _locate_spans,
    add_remarks,
    align_by_position,
    choose_sources,
    link_words,
    locate_sources,
    make_word_test,
    match_segments,
)
from nmt.text.marked import MarkedText
from nmt.text.spans import SLOTS
from nmt.text.tags import TaggedText

NOTHING = np.zeros(0, np.int32)


PIECES = ("", "", "</s>", "", "hola", " yo", " hello", " ana", " a", " yes…", " hello,")
EOS = PIECES.index("</s>")


class Words(WordsTokenizer):
    """A tokenizer with a piece for each word."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        spans, end = [], 0
        for word in text.split():
            begin = text.index(word, end)
            end = begin + len(word)
            spans.append((begin, end))
        return spans


def link(segment: Segment, text: str, output: str) -> list[tuple[str, list[int], list[str]]]:
    """Return each word of a translation, its tokens, and its source words; token i is of id i."""
    tokens = [PIECES.index(f" {word}") for word in output.split()]
    tokenizer: Any = Words(PIECES)
    translation = Translation(text, 0.0, 0.0, (*tokens, EOS))
    weights = np.eye(len(tokens) + 1, len(segment.ids) + 1)
    return [
        (text[word.begin : word.end], word.rows, [segment.full_text[a:b] for a, b in word.sources])
        for word in link_words(segment, translation, tokenizer, weights)
    ]


def test_a_word_comes_from_the_tokens_that_wrote_it() -> None:
    segment = Segment(np.array([4, 5]), "hola yo")
    assert link(segment, "A ¡hello", "a hello") == [
        ("A", [0], ["hola"]),
        ("¡", [], []),
        ("hello", [1], ["yo"]),
    ]
    # Ellipses stand for commas only where those of the source were read as commas.
    assert link(segment, "Yes… hello", "yes… hello") == [
        ("Yes", [0], ["hola"]),
        ("…", [0], ["hola"]),
        ("hello", [1], ["yo"]),
    ]


def test_words_after_a_written_ellipsis_come_from_their_own_tokens() -> None:
    """The model read and wrote a comma."""
    text, origins = "hola, yo hola", (0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14)
    normalized = NormalizedText(text, origins)
    segment = Segment(np.array([4, 5, 4]), "hola... yo hola", normalized=normalized)
    assert link(segment, "hello... a ana", "hello, a ana") == [
        ("hello", [0], ["hola"]),
        ("...", [0], ["hola"]),
        ("a", [1], ["yo"]),
        ("ana", [2], ["hola"]),
    ]


def test_no_token_wrote_a_kept_span_that_the_output_lacks() -> None:
    segment = Segment(np.array([4, 5, 3]), f"hola yo {SLOTS[0]}", ("a.b@c.es",))
    for mark, other in (("(", ""), ("", ",")):  # marks are words of their own
        words = link(segment, f"hello {mark}a.b@c.es{other} ana", "hello ana")
        assert [word for word in words if word[0] != mark + other] == [
            ("hello", [0], ["hola"]),
            ("a.b@c.es", [], ["a.b@c.es"]),
            ("ana", [1], ["yo"]),
        ]
        assert (mark + other, [], []) in words


@pytest.mark.parametrize(
    ("text", "values", "slots", "located"),
    [
        ("x.y.z or x.y", ("x.y", "x.y.z"), (1, 0), {(0, 5): 1, (9, 12): 0}),
        ("12 or 12", ("12", "12"), (1, 0), {(0, 2): 1, (6, 8): 0}),  # equal: as in the output
        ("12 or 12", ("12", "12"), (1,), {(0, 2): 1, (6, 8): 0}),  # lost by the output: last
        ("12 or 12", ("12",), (0,), {(0, 2): 0}),  # once
        ("112, 123 or 12", ("12",), (0,), {(12, 14): 0}),  # no part of a number
        ("12", (), (), {}),
    ],
)
def test_kept_spans_of_a_translation_are_located(
    text: str, values: tuple[str, ...], slots: tuple[int, ...], located: dict[Any, int]
) -> None:
    output = " or ".join(SLOTS[number] for number in slots)
    assert _locate_spans(text, values, output) == located


@pytest.mark.parametrize(
    ("weights", "end", "chosen"),
    [
        ([0.1, 0.4, 0.2, 0.19], 0.0, [1, 2]),  # at least half of the largest
        ([0.3, 0.4, 0.2], 0.3, [0, 1]),  # nor less than EOS
        ([0.3, 0.4, 0.2], 0.5, []),
        ([0.0, 0.001], 0.0, [1]),
        ([0.0, 0.0], 0.0, []),
        ([], 0.0, []),
    ],
)
def test_a_word_comes_from_the_source_words_of_most_weight(
    weights: list[float], end: float, chosen: list[int]
) -> None:
    assert choose_sources(np.array(weights), end) == chosen


def test_a_reference_has_words_and_kept_spans_in_any_case() -> None:
    is_right = make_word_test("Write to Ana@example.org or Tena Ruiz, {name}: 20 % today at 20°C.")
    for word in ("20°C", "write", "ana@example.org", "Tena Ruiz", "{name}", "20 %", "today", "."):
        assert is_right(word), word
    for word in ("tod", "an", "20%"):
        assert not is_right(word), word


def test_words_refer_to_the_characters_of_the_text() -> None:
    text = " <2en>  Hola  Ana.\n¿Qué\ttal?"
    first, second = Segment(NOTHING, "hola Ana."), Segment(NOTHING, "¿Qué tal?")
    translations = [
        Translation("Hi.", 0.0, 0.0, (), words=(Word(0, 2, 0.5, ((0, 4), (5, 8))),)),
        Translation("How?", 0.0, 0.0, (), words=(Word(0, 3, 0.5, ((5, 8),)), Word(3, 4, 1.0, ()))),
    ]
    segmented = SegmentedText((first, second), "", TaggedText(MarkedText(text)))
    [[hi], [how]] = locate_sources(segmented, [[each] for each in translations])
    assert [text[begin:end] for begin, end in hi.words[0].sources] == ["Hola", "Ana"]
    assert [text[begin:end] for begin, end in how.words[0].sources] == ["tal"]
    assert how.words[1].sources == ()


def test_a_ligature_of_the_text_is_one_character() -> None:
    text = "El ﬁn. Ya."
    segments = Segment(NOTHING, "El fin."), Segment(NOTHING, "Ya.")
    translations = [
        [Translation("End", 0.0, 0.0, (), words=(Word(0, 3, None, ((3, 6),)),))],
        [Translation("Yet", 0.0, 0.0, (), words=(Word(0, 3, None, ((0, 2),)),))],
    ]
    segmented = SegmentedText(segments, "", TaggedText(MarkedText(text)))
    located = locate_sources(segmented, translations)
    [[end]], [[yet]] = ([each.words[0].sources for each in row] for row in located)
    assert (text[slice(*end)], text[slice(*yet)]) == ("ﬁn", "Ya")


def test_sources_are_whole_words_of_the_text_although_others_were_translated() -> None:
    text = "Perdi el trenn (otra vez)."
    segment = Segment(NOTHING, "Perdí el tren (otra vez).")
    sources = (0, 5), (9, 13), (15, 23)
    words = tuple(Word(0, 6, None, (source,)) for source in sources)
    segmented = SegmentedText((segment,), "", TaggedText(MarkedText(text)))
    [[missed]] = locate_sources(segmented, [[Translation("Missed", 0.0, 0.0, (), words=words)]])
    spans = [span for word in missed.words for span in word.sources]
    assert [text[begin:end] for begin, end in spans] == ["Perdi", "trenn", "otra vez"]


@pytest.mark.parametrize(
    ("text", "segments", "matches"),
    [
        ("No. No. No.", ("No.", "No.", "No."), ([0, 1, 2], [4, 5, 6], [8, 9, 10])),
        ("a a", ("a", "a"), ([0], [2])),
        # Nothing of the second segment is in the text.
        ("No. 12 No.", ("No.", "ab", "No."), ([0, 1, 2], [-1, -1], [7, 8, 9])),
        # Its end is not in the text.
        ("ab ab", ("abx", "ab"), ([0, 1, -1], [3, 4])),
        ("\n a  b \n a", ("a b", "a"), ([2, -1, 5], [9])),
    ],
)
def test_segments_match_the_text_after_those_before(
    text: str, segments: tuple[str, ...], matches: tuple[list[int], ...]
) -> None:
    parts = tuple(Segment(NOTHING, segment) for segment in segments)
    segmented = SegmentedText(parts, "", TaggedText(MarkedText(text)))
    assert match_segments(segmented) == list(matches)


def test_a_segment_without_its_brackets_does_not_match_the_next_one() -> None:
    brackets = TaggedText(MarkedText("a b c"), (("(", ")"),))
    parts = Segment(NOTHING, "a b c", brackets=brackets), Segment(NOTHING, "abc")
    segmented = SegmentedText(parts, "", TaggedText(MarkedText("(a) b c abc")))
    assert match_segments(segmented) == [[1, -1, 4, -1, 6], [8, 9, 10]]


def test_words_are_aligned_by_their_share_of_the_text() -> None:
    assert align_by_position("", "One two") == []
    assert align_by_position("uno", "") == []
    words = align_by_position("uno dos a@b.es tres cuatro", "a@b.es two")
    assert [word.sources for word in words] == [((0, 3),), ((8, 14),)]


def test_a_remark_counts_in_the_confidence_by_its_tokens() -> None:
    inner = Translation(
        "(my)", 0.0, 0.0, (7, 8), confidence=0.2, words=(Word(1, 3, 0.2, ((1, 3),)),)
    )
    outer = Translation(
        "Ana (my)",
        0.0,
        0.0,
        (1, 2, 3, 4, 5, 6),
        confidence=0.6,
        words=(Word(0, 3, 0.6, ((0, 3),)), Word(4, 8, 0.6, ((4, 8),))),
    )

    def add(inner: Translation | None) -> Translation:
        remarks = (Remark(0, SegmentedText((), ""), inner),)
        return add_remarks(Segment(NOTHING, f"Ana {SLOTS[0]}", ("(mi)",), remarks=remarks), outer)

    assert add(inner).confidence == pytest.approx(0.5)
    assert add(inner).words == (outer.words[0], Word(5, 7, 0.2, ((5, 7),)))
    given = add(Translation("(my)", 0.0, 0.0, ()))
    assert given.words == outer.words
    assert given.confidence == pytest.approx(0.6), "what a prefix gives has none"
    assert add(None) is outer
    outer = replace(outer, text="Ana (MY)")
    assert add(inner).words == outer.words, "what was changed is no longer the remark"
