"""Which source tokens, words and characters a translation comes from. No Keras."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from typing import NamedTuple

import numpy as np

from nmt.data.tokenizer import EOS, Tokenizer
from nmt.inference.lexicon import Lexicon
from nmt.text.spans import SLOTS, Span

_DISCOUNT = 0.75  # of source tokens, by the attention that they receive from all positions
_MIN_ATTENTION = 0.03  # added to attention, so that the lexicon can overrule it ...
_MIN_PROBABILITY = 1e-3  # ... and to probabilities, so that rare tokens follow attention

_MAX_PAIRS = 40_000  # of characters that are compared: the time grows with their square
_SAMPLE = 3  # characters that are equal where texts match again
_SKIPS = sorted(  # characters skipped in both texts after a difference, the fewest first
    {skips for far in range(41) for near in range(2) for skips in ((near, far), (far, near))},
    key=sum,
)


class Aligner(NamedTuple):
    """Turns cross-attention, as the mean of the heads of one layer, into an alignment.

    Attributes:
        lexicon: the run's; None: attention decides alone.
    """

    lexicon: Lexicon | None = None

    def choose_layer(self, layers: int) -> int:
        """Return the index of the layer to read, of a decoder with this many.

        Without a measurement it is the last one, or of more than three the one before the last
        (Garg et al. 2019, Jointly Learning to Align and Translate).
        """
        if self.lexicon is not None and self.lexicon.layer is not None:
            return self.lexicon.layer
        return layers - (2 if layers > 3 else 1)

    def align(self, attention: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return how much each target token is aligned to each source token.

        Args:
            attention: [T, S], row t of the position that writes target token t.
            source: ids without EOS [S - 1].
            target: ids without EOS [T - 1].

        Returns:
            float32 [T, S]; rows sum to 1.
        """
        # Source tokens that every position attends to, such as EOS, count less.
        weights = attention / np.maximum(attention.sum(0), 1e-9) ** _DISCOUNT
        weights /= np.maximum(weights.sum(1, keepdims=True), 1e-9)
        if self.lexicon is not None:
            probabilities = self.lexicon.probabilities(
                np.append(source, EOS), np.append(target, EOS)
            )
            weights = (weights + _MIN_ATTENTION) * (probabilities + _MIN_PROBABILITY)
        return (weights / np.maximum(weights.sum(1, keepdims=True), 1e-9)).astype(np.float32)


def measure_layers(
    attentions: Sequence[np.ndarray],
    sources: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    lexicon: Lexicon,
) -> int:
    """Return the index of the decoder layer whose attention agrees best with a lexicon.

    Args:
        attentions: per pair the weights [layers, H, T, S].
        sources: ids of each without EOS.
        targets: ids of each without EOS.
        lexicon: learned from other pairs.
    """
    agreement = np.zeros(len(attentions[0]))
    for attention, source, target in zip(attentions, sources, targets, strict=True):
        probabilities = lexicon.probabilities(np.append(source, EOS), np.append(target, EOS))
        agreement += [
            (Aligner().align(weights.mean(0), source, target) * probabilities).sum()
            for weights in attention
        ]
    return int(agreement.argmax())


def weigh_words(weights: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Turn weights between tokens into weights between words.

    The weight of a target and a source word is the sum over the tokens of the source word, and the
    mean over the tokens of the target word.

    Args:
        weights: [..., T, S], EOS included.
        source: [S - 1, source words], see `assign_to_words`.
        target: [T - 1, target words].

    Returns:
        [..., target words, source words + 1]: the last column is EOS; every row sums to 1,
        or to 0 for a word without tokens.
    """
    tokens, words = source.shape
    columns = np.zeros((tokens + 1, words + 1))
    columns[:tokens, :words] = source
    columns[tokens, words] = 1
    shares = target / np.maximum(target.sum(0), 1e-9)
    return shares.T @ weights[..., :-1, :] @ columns


def map_chars_to_tokens(tokenizer: Tokenizer, tokens: Sequence[int]) -> tuple[str, list[int]]:
    """Return the text of target tokens, and the index of the token that wrote each character.

    Args:
        tokenizer: of the target.
        tokens: ids without EOS.
    """
    if not len(tokens):
        return "", []
    texts = tokenizer.decode([tokens[:count] for count in range(1, len(tokens) + 1)])
    text = texts[-1]
    char_to_token: list[int] = []
    for index, part in enumerate(texts):
        # A piece that ends inside of a character, as bytes do, may count as one more.
        char_to_token += [index] * (min(len(part), len(text)) - len(char_to_token))
    return text, char_to_token


def match_characters(text: str, other: str) -> list[int]:
    """Return for every character of a text the index of its counterpart in another one, or -1.

    White space is not matched. Texts may differ in case, white space and a few insertions.
    """
    sides = text, other
    first, second = ([i for i, sign in enumerate(side) if not sign.isspace()] for side in sides)
    ours, theirs = (
        "".join(side[i].casefold()[:1] for i in indices)
        for side, indices in zip(sides, (first, second), strict=True)
    )
    matched = [-1] * len(text)
    blocks = [Match(0, 0, len(first))]
    if len(ours) * len(theirs) > _MAX_PAIRS:
        blocks = list(_match_long(ours, theirs))
    elif ours != theirs:
        blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    for at, other_at, length in blocks:
        for offset in range(length):
            matched[first[at + offset]] = second[other_at + offset]
    return matched


def move_spans(
    spans: Sequence[Span], matched: Sequence[int], words: Sequence[Span] = ()
) -> tuple[Span, ...]:
    """Return the spans of matched characters; a span without any is left out.

    Args:
        spans: of a text.
        matched: its characters, see `match_characters`.
        words: of the other text; a span has all characters of the words that it is a part of.
    """
    moved = []
    for begin, end in spans:
        ends = [at for at in matched[begin:end] if at >= 0]
        if ends:
            moved.append(_widen(min(ends), max(ends) + 1, words))
    return tuple(moved)


def _widen(begin: int, end: int, words: Sequence[Span]) -> Span:
    """Return a span with all characters of the words that overlap it."""
    first = bisect_right(words, begin, key=lambda word: word[1])
    overlapping = words[first : bisect_left(words, end, key=lambda word: word[0])]
    if not overlapping:
        return begin, end
    return min(begin, overlapping[0][0]), max(end, overlapping[-1][1])


def _match_long(ours: str, theirs: str) -> Iterator[Match]:
    """Yield matching blocks in linear time; after a difference, the nearest equal characters."""
    at = other_at = 0
    while at < len(ours) and other_at < len(theirs):
        max_length, length = min(len(ours) - at, len(theirs) - other_at), 0
        while length < max_length and ours[at + length] == theirs[other_at + length]:
            length += 1
        yield Match(at, other_at, length)
        at, other_at = at + length, other_at + length
        for skipped, other_skipped in _SKIPS:
            sample = ours[at + skipped : at + skipped + _SAMPLE]
            if sample and theirs.startswith(sample, other_at + other_skipped):
                at, other_at = at + skipped, other_at + other_skipped
                break
        else:
            at += 1


def expand_slots(text: str, spans: Sequence[str]) -> tuple[str, list[int]]:
    """Return a text with kept spans in place of their slots, and where each character came from.

    Args:
        text: with slots.
        spans: the kept spans, by number of their slot.
    """
    values = dict(zip(SLOTS, spans, strict=False))
    parts = [values.get(sign, sign) for sign in text]
    return "".join(parts), [i for i, part in enumerate(parts) for _ in part]
