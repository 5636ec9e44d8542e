"""Forced decoding: log-probabilities and attention of given translations, token by token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from nmt.data.tokenizer import BOS, EOS, Tokenizer
from nmt.errors import UserError
from nmt.inference.batching import plan_batches
from nmt.inference.contract import Engine
from nmt.inference.results import Attention, PairScore, Translation
from nmt.inference.segments import Segment
from nmt.text.cleaning import clean_input
from nmt.text.shared_spans import keep_shared_spans, list_shared_spans
from nmt.text.spans import SLOTS, show_spans

if TYPE_CHECKING:  # loads Keras
    from nmt.inference.keras_engine import KerasEngine

Result = TypeVar("Result")


class _Pairs(NamedTuple):
    sources: list[np.ndarray]  # ids without EOS
    targets: list[np.ndarray]
    spans: list[list[str]]  # of each pair, the kept spans that slots stand for on both sides


def _clean_pairs(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the cleaned texts of pairs.

    Raises:
        UserError: one is not a pair of strings.
    """
    cleaned = []
    for number, pair in enumerate(pairs, start=1):
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        if not is_pair or not all(isinstance(side, str) for side in pair):
            raise UserError(f"pair {number} must be a source and a target text, got {pair!r}")
        cleaned.append((clean_input(pair[0]), clean_input(pair[1])))
    return cleaned


def _encode_pairs(
    tokenizer: Tokenizer, cleaned: Sequence[tuple[str, str]], slots: Sequence[str] = ()
) -> _Pairs:
    """Encode cleaned pairs; slots stand for kept spans that both sides share, as in training."""
    spans = [list_shared_spans(*pair)[: len(slots)] if slots else [] for pair in cleaned]
    kept = [keep_shared_spans(*pair, slots) if slots else pair for pair in cleaned]
    return _Pairs(
        tokenizer.encode([source for source, _ in kept]),
        tokenizer.target.encode([target for _, target in kept]),
        spans,
    )


def count_pair_tokens(tokenizer: Tokenizer, pairs: Iterable[tuple[str, str]]) -> list[int]:
    """Return the tokens of the longer side of each pair, EOS included.

    The same pair may have more or fewer tokens with slots than without: the larger number counts.
    """
    cleaned = _clean_pairs(pairs)
    encodings = [
        _encode_pairs(tokenizer, cleaned, slots) for slots in ((), SLOTS[: tokenizer.slots])
    ]
    sides = zip(*(side for encoding in encodings for side in encoding[:2]), strict=True)
    return [max(map(len, all_ids)) + 1 for all_ids in sides]


def score_pairs(
    engine: Engine, tokenizer: Tokenizer, pairs: Iterable[tuple[str, str]], *, batch_size: int
) -> list[PairScore]:
    """Return the log-probability of each token of given translations.

    Both texts are read as in training: whole, in their own letter case, with slots for kept spans
    that both share. A search prepares its text, so that its log-probability may be another one.

    Raises:
        UserError: a text has more tokens than the model positions.
    """
    encoded = _encode_pairs(tokenizer, _clean_pairs(pairs), SLOTS[: tokenizer.slots])
    scores = _in_batches(engine.score, engine, encoded, batch_size)
    return [
        PairScore(
            [show_spans(piece, spans) for piece in tokenizer.pieces([*target, EOS])],
            [float(value) for value in values],
        )
        for target, spans, values in zip(encoded.targets, encoded.spans, scores, strict=True)
    ]


def attend_pairs(
    engine: KerasEngine,
    tokenizer: Tokenizer,
    pairs: Iterable[tuple[str, str]],
    *,
    batch_size: int,
    uses_slots: bool = True,
) -> list[Attention]:
    """Return the attention weights of given translations.

    Args:
        engine: of the model.
        tokenizer: of its ids.
        pairs: source and target texts.
        batch_size: pairs computed together.
        uses_slots: whether slots stand for kept spans that both sides share, as in training.

    Raises:
        UserError: a text has more tokens than the model positions.
    """
    slots = SLOTS[: tokenizer.slots] if uses_slots else ()
    encoded = _encode_pairs(tokenizer, _clean_pairs(pairs), slots)
    attention = _in_batches(engine.attention, engine, encoded, batch_size)
    return [
        label_attention(engine, tokenizer, source, target, EOS, weights, spans, spans)
        for source, target, spans, weights in zip(*encoded, attention, strict=True)
    ]


def align_pairs(
    engine: Engine, tokenizer: Tokenizer, pairs: Iterable[tuple[str, str]], *, batch_size: int
) -> list[np.ndarray]:
    """Return the alignment [T, S] of given translations: see `Engine.align`.

    Raises:
        UserError: a text has more tokens than the model positions, or the model has no attention.
    """
    encoded = _encode_pairs(tokenizer, _clean_pairs(pairs))
    return _in_batches(engine.align, engine, encoded, batch_size)


def attend_segment(
    engine: KerasEngine, tokenizer: Tokenizer, segment: Segment, translation: Translation
) -> Attention:
    """Return the attention weights of the translation of a segment.

    Raises:
        UserError: the translation is a string.
    """
    if isinstance(translation, str):
        raise UserError("translation is a string: call attentions([(text, translation)])")
    target, last = np.asarray(translation.tokens[:-1], np.int32), translation.tokens[-1]
    [weights] = engine.attention([segment.ids], [target])
    segment = segment.begin_with(translation.text)  # with the translations of its remarks
    spans = segment.spans, segment.target_spans
    return label_attention(engine, tokenizer, segment.ids, target, last, weights, *spans)


def label_attention(
    engine: KerasEngine,
    tokenizer: Tokenizer,
    source: np.ndarray,
    target: np.ndarray,
    last: int,
    weights: dict[str, np.ndarray],
    spans: Sequence[str] = (),
    target_spans: Sequence[str] = (),
) -> Attention:
    """Return the weights of a pair with its tokens.

    ``last`` is the id after ``target``. Tokens of slots show the kept spans of their side.
    """

    def label(ids: Sequence[int], spans: Sequence[str] = target_spans) -> list[str]:
        return [show_spans(piece, spans) for piece in tokenizer.pieces(ids)]

    return Attention(
        source=label([*source, EOS], spans),
        target_in=label([BOS, *target]),
        target_out=label([*target, last]),
        weights=weights,
        kinds=engine.model.attention_kinds,
    )


def _in_batches(
    work: Callable[..., list[Result]],
    engine: Engine,
    encoded: _Pairs,
    batch_size: int,
) -> list[Result]:
    """Return the results of ``work`` for all pairs, run in batches of similar length."""
    sides = (encoded.sources, encoded.targets)
    lengths = [(len(source), len(target)) for source, target in zip(*sides, strict=True)]
    max_tokens = engine.max_length - 1
    for number, pair_lengths in enumerate(lengths, start=1):
        if max(pair_lengths) > max_tokens:
            raise UserError(
                f"pair {number} must have at most {max_tokens} tokens a side, the positions of the "
                f"model, got {max(pair_lengths)}"
            )
    results: dict[int, Result] = {}
    for indices in plan_batches([sum(both) for both in lengths], batch_size, engine.workers):
        outputs = work(*([side[i] for i in indices] for side in sides))
        results |= zip(indices, outputs, strict=True)
    return [results[i] for i in range(len(lengths))]
