"""Sentences, kept spans and letter case of texts, as operations of a graph.

`nmt.inference` does more: here sentences end at marks, with one short list of abbreviations for all
languages; long sentences are not cut; a lost span is added at the end; title case is ignored.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from nmt.inference.results import SEPARATORS
from nmt.text.cleaning import LIGATURES, LINE_ENDS, SPACE_SIGN, is_removed
from nmt.text.final_marks import OTHER_STOPS, STOPS
from nmt.text.scripts import UNSPACED
from nmt.text.spans import ANY_SLOT, MONTH, SLOTS, SPAN, WORD

# Control characters that mark the ends of sentences, and dots that end none: cleaning removes them.
_END, _NO_END = "\x01", "\x02"
_ABBREVIATIONS = (
    "sr|sra|sres|srta|dr|dra|prof|profa|ing|lic|gral|avda|d|dña|sta|sto|pág|págs|p|pp|núm|nro|nr|"
    "fig|art|cap|vol|tel|aprox|ej|ee|uu|vs|mr|mrs|ms|st|mme|mlle|bzw|vgl|z|ca|inc|ltd"
)
_CLOSING = "\"'”’»)\\]"
_WIDE_CLOSING = "」』）】》〉"
_OTHER_STOPS = OTHER_STOPS.replace("．", "")  # which is also a decimal point
# Needs no space after it.
_OTHER_END = f"[{_OTHER_STOPS}][{_OTHER_STOPS}{STOPS}]*[{_CLOSING}{_WIDE_CLOSING}]*"
_ALL = "(?s).*"


class Sentences(NamedTuple):
    """The sentences of texts, N in all."""

    text: Any  # string [N]: cleaned; empty where there is only white space
    before: Any  # string [N]: white space before each
    after: Any  # string [N]: white space after each
    rows: Any  # int64 [N]: the text of each
    splits: Any  # int64 [B + 1]: the sentences of each text


class Masked(NamedTuple):
    """Texts with slots in place of kept spans."""

    text: Any  # string [N]
    spans: Any  # string [N, slots]: those of each text by number of their slot; empty: none
    counts: Any  # int64 [N]: spans of each text


@cache
def list_ranges(belongs: Callable[[str], bool]) -> str:
    """Return characters as ranges of code points, for a regular expression's character class."""
    ranges: list[tuple[int, int]] = []
    for point in range(sys.maxunicode + 1):
        if not 0xD800 <= point <= 0xDFFF and belongs(chr(point)):  # UTF-8 has no surrogates
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1] = (ranges[-1][0], point)
            else:
                ranges.append((point, point))
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges)


def make_cleaner() -> Callable[[Any], Any]:
    """Return `nmt.text.cleaning.clean_text` in graph operations: string [B] -> string [B]."""
    import tensorflow as tf
    import tensorflow_text

    spaces, invisible = list_ranges(str.isspace), list_ranges(is_removed)

    def clean(text: Any) -> Any:
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
        text = tf.strings.regex_replace(text, f"[{spaces}]", " ")
        text = tf.strings.regex_replace(text, f"[{invisible}]", "")
        text = tensorflow_text.normalize_utf8(text, "NFC")
        text = tf.strings.regex_replace(text, SPACE_SIGN, "_")
        return tf.strings.strip(tf.strings.regex_replace(text, " +", " "))

    return clean


def make_splitter(unit: str) -> Callable[[Any], Sentences]:
    """Return a function string [B] -> the sentences of each text; none is left out.

    Args:
        unit: "sentence", or "line": a text is one sentence.
    """
    import tensorflow as tf

    replace, clean = tf.strings.regex_replace, make_cleaner()
    space = list_ranges(str.isspace)
    removed = list_ranges(is_removed)
    ends = _escape(LINE_ENDS)
    word = rf"(?i)(^|[^\p{{L}}])((?:{_ABBREVIATIONS}|\p{{L}})\.)"

    def mark_ends(text: Any) -> Any:
        for _ in range(2):  # a match takes the dot before the next letter of a.m.
            text = replace(text, word, rf"\1\2{_NO_END}")
        # Lower case after an ellipsis, a quotation or a dash (—dijo él) continues the sentence.
        text = replace(
            text, rf"((?:\.\.|…|[.!?][{_CLOSING}]+)[{space}]+)(\p{{Ll}})", rf"\1{_NO_END}\2"
        )
        text = replace(text, rf"([{space}][—–-][{space}]*\p{{Ll}})", rf"{_NO_END}\1")
        text = replace(
            text, rf"([.!?…][{_CLOSING}]*[{space}]+)([^{_NO_END}{space}])", rf"\1{_END}\2"
        )
        text = replace(text, rf"({_OTHER_END}[{space}]*)", rf"\1{_END}")
        text = replace(text, rf"([{space}]*[{ends}][{space}]*)", rf"\1{_END}")
        text = replace(text, _NO_END, "")
        return replace(replace(text, f"{_END}+", _END), f"{_END}$", "")

    def split(text: Any) -> Sentences:
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
        text = replace(text, f"[{removed}]", "")
        for ligature, letters in LIGATURES.items():
            text = replace(text, chr(ligature), letters)
        if unit == "sentence":
            text = mark_ends(text)
        pieces = tf.strings.split(text, _END)
        flat = pieces.flat_values
        before = replace(flat, rf"(?s)^([{space}]*).*$", r"\1")
        after = replace(flat, rf"(?s)^(?:.*[^{space}])?([{space}]*)$", r"\1")
        cleaned = clean(flat)
        after = tf.where(tf.equal(cleaned, ""), "", after)  # it is white space before
        return Sentences(cleaned, before, after, pieces.value_rowids(), pieces.row_splits)

    return split


def make_joiner() -> Callable[[Sentences, Any], Any]:
    """Return a function (sentences, their translations string [N]) -> string [B].

    Sentences without white space between them get a space, unless a language without spaces is on
    either side.
    """
    import tensorflow as tf

    def join(sentences: Sentences, translations: Any) -> Any:
        replace = tf.strings.regex_replace
        texts = tf.strings.join([sentences.before, translations, sentences.after])
        ragged = tf.RaggedTensor.from_row_splits(texts, sentences.splits)
        text = tf.strings.reduce_join(ragged, axis=1, separator=_END)
        text = replace(text, rf"({UNSPACED}) *{_END}", r"\1")
        text = replace(text, rf" *{_END}({UNSPACED})", r"\1")
        spaces = list_ranges(str.isspace)
        text = replace(text, rf"([^{spaces}]){_END}([^{spaces}])", r"\1 \2")
        return replace(text, _END, "")

    return join


def clean_output(text: Any) -> Any:
    """Return `nmt.inference.results.clean_output` of texts: string [N] -> string [N]."""
    import tensorflow as tf

    text = tf.strings.regex_replace(text, "\ufffd", "")
    return tf.strings.regex_replace(text, f"[{_escape(SEPARATORS)}]", " ")


def mask_spans(text: Any, slots: int) -> Masked:
    """Replace the kept spans of clean texts string [N]; those without a slot stay as they are."""
    import tensorflow as tf

    pieces, is_span = _split_spans(text)
    ordinal = tf.cumsum(tf.cast(is_span, tf.int64), exclusive=True)  # among those of all texts
    counts = tf.reduce_sum(pieces.with_flat_values(tf.cast(is_span, tf.int64)), axis=1)
    number = ordinal - tf.gather(tf.cumsum(counts, exclusive=True), pieces.value_rowids())
    is_masked = tf.logical_and(is_span, number < slots)
    names = tf.constant(SLOTS[:slots])
    slot = tf.gather(names, tf.minimum(number, slots - 1))
    masked = pieces.with_flat_values(tf.where(is_masked, slot, pieces.flat_values))
    spans = tf.ragged.boolean_mask(pieces, pieces.with_flat_values(is_masked))
    return Masked(
        tf.strings.reduce_join(masked, axis=1),
        spans.to_tensor("", shape=[None, slots]),
        tf.minimum(counts, slots),
    )


def restore_spans(text: Any, masked: Masked) -> Any:
    """Put spans back in place of their slots: string [N] -> string [N].

    Each replaces the first of its slots; those that were lost come last. Repeated and unknown slots
    are removed.
    """
    import tensorflow as tf
    import tensorflow_text

    slots = masked.spans.shape[1]
    pieces = tensorflow_text.regex_split(text, ANY_SLOT, keep_delim_regex_pattern=ANY_SLOT)
    flat, rows = pieces.flat_values, pieces.value_rowids()
    is_slot = tf.strings.regex_full_match(flat, ANY_SLOT)
    matches = tf.equal(flat[:, None], tf.constant(SLOTS[:slots])[None])  # [pieces, slots]
    number = tf.argmax(tf.cast(matches, tf.int32), axis=1)
    owners = tf.where(tf.reduce_any(matches, axis=1), rows * slots + number, -1)
    at = tf.range(tf.size(flat, tf.int64))
    total = pieces.nrows() * slots
    first = tf.math.unsorted_segment_min(at, owners, total)  # negative owners are left out
    is_known = tf.logical_and(owners >= 0, number < tf.gather(masked.counts, rows))
    is_first = tf.equal(
        tf.gather(tf.concat([first, [-1]], 0), tf.where(is_known, owners, total)), at
    )
    is_kept = is_known & is_first
    is_dropped = is_slot & tf.logical_not(is_kept)
    spans = tf.gather_nd(masked.spans, tf.stack([rows, number], axis=1))
    flat = tf.where(is_kept, spans, tf.where(is_slot, "", flat))
    restored = tf.strings.reduce_join(pieces.with_flat_values(flat), axis=1)
    is_lost = tf.equal(tf.reshape(first, [-1, slots]), tf.int64.max)
    is_lost = is_lost & (tf.range(slots, dtype=tf.int64)[None] < masked.counts[:, None])
    lost = tf.where(is_lost, tf.strings.join([" ", masked.spans]), "")
    restored = tf.strings.join([restored, tf.strings.reduce_join(lost, axis=1)])
    has_gaps = tf.reduce_any(is_lost, axis=1) | tf.reduce_any(
        pieces.with_flat_values(is_dropped), axis=1
    )
    squeezed = tf.strings.strip(tf.strings.regex_replace(restored, " +", " "))
    return tf.where(has_gaps, squeezed, restored)


def count_sentences(texts: Sequence[str], unit: str) -> list[int]:
    """Return how many sentences `make_splitter` finds in each text."""
    import tensorflow as tf

    splits = make_splitter(unit)(tf.constant(texts, tf.string)).splits.numpy()
    return [int(count) for count in splits[1:] - splits[:-1]]


def has_letters(text: Any) -> Any:
    """Return whether texts have letters: string [N] -> bool [N]."""
    import tensorflow as tf

    return tf.strings.regex_full_match(text, r"(?s).*\p{L}.*")


def is_upper(text: Any) -> Any:
    """Return whether texts without kept spans are written in capitals: string [N] -> bool [N]."""
    import tensorflow as tf

    words = tf.strings.regex_full_match(text, r"(?s)(?:.*\p{L}){4}.*")
    without = tf.strings.regex_replace(text, "[ªº]", "")
    words &= tf.logical_not(tf.strings.regex_full_match(without, r"(?s).*\p{Lo}.*"))
    lower, upper = (
        change(text, encoding="utf-8") for change in (tf.strings.lower, tf.strings.upper)
    )
    return words & tf.equal(text, upper) & tf.not_equal(text, lower)


def lower_capitals(text: Any) -> Any:
    """Lower-case texts in capitals but for their first letter: string [N] -> string [N]."""
    import tensorflow as tf

    begin = tf.strings.regex_replace(text, r"(?s)^([^\p{L}]*\p{L}).*$", r"\1")
    rest = tf.strings.regex_replace(text, r"(?s)^[^\p{L}]*\p{L}", "")
    return tf.strings.join([begin, tf.strings.lower(rest, encoding="utf-8")])


def copy_first_capital(source: Any, translation: Any) -> Any:
    """Begin translations with a capital where their sources do: string [N] each -> string [N].

    As `nmt.text.case.copy_first_capital`.
    """
    import tensorflow as tf

    letter = r"[\p{Ll}\p{Lo}\p{Lm}]"
    slots = f"{SLOTS[0]}-{SLOTS[-1]}"
    slot_first = rf"(?s)[^\p{{L}}]*[{slots}](?:[^\p{{L}}{slots}].*)?"
    is_changed = tf.strings.regex_full_match(source, r"(?s)[^\p{L}]*\p{Lu}.*")
    is_changed &= tf.strings.regex_full_match(
        translation, rf"(?s)[^\p{{L}}]*{letter}+(?:['’]{letter}+)*(?:[^\p{{L}}].*)?"
    )
    is_changed &= tf.strings.regex_full_match(source, slot_first) | ~tf.strings.regex_full_match(
        translation, slot_first
    )
    # Georgian sentences begin without a capital.
    is_changed &= ~tf.strings.regex_full_match(translation, r"(?s)[^\p{L}]*\p{Georgian}.*")
    begin = tf.strings.regex_replace(translation, r"(?s)^([^\p{L}]*\p{L}).*$", r"\1")
    rest = tf.strings.regex_replace(translation, r"(?s)^[^\p{L}]*\p{L}", "")
    capital = tf.strings.join([tf.strings.upper(begin, encoding="utf-8"), rest])
    return tf.where(is_changed, capital, translation)


def upper_outside_spans(text: Any) -> Any:
    """Write texts in capitals, but for kept spans and slots: string [N] -> string [N]."""
    import tensorflow as tf

    pieces, is_span = _split_spans(text)
    upper = tf.strings.upper(pieces.flat_values, encoding="utf-8")
    flat = tf.where(is_span, pieces.flat_values, upper)
    return tf.strings.reduce_join(pieces.with_flat_values(flat), axis=1)


def _split_spans(text: Any) -> tuple[Any, Any]:
    """Split texts at their kept spans, and at some words.

    Returns:
        (pieces: ragged string [N, P], joined they are the text; is_span: bool [pieces]).
    """
    import tensorflow as tf
    import tensorflow_text

    pattern = f"{MONTH}|{SPAN}|{WORD}"
    pieces = tensorflow_text.regex_split(text, pattern, keep_delim_regex_pattern=_ALL)
    return pieces, tf.strings.regex_full_match(pieces.flat_values, SPAN)


def _escape(characters: Sequence[str]) -> str:
    """Return characters for a regular expression's character class."""
    return "".join(rf"\x{{{ord(character):x}}}" for character in characters)
