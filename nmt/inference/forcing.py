"""Forced decoding: log-probabilities and attention of given translations, token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from nmt.data.tokenizer import BOS, EOS, Tokenizer
from nmt.errors import UserError
from nmt.inference.batching import plan_batches
from nmt.inference.contract import Engine
from nmt.inference.results import Attention, PairScore
from nmt.inference.segmenting import clean_input
from nmt.inference.segments import show_spans

if TYPE_CHECKING:  # loads Keras
    from nmt.inference.keras_engine import KerasEngine

Result = TypeVar("Result")


def _encode_pairs(
    tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the ids of the sources, and of the targets."""
    sources, targets = ([clean_input(pair[side]) for pair in pairs] for side in (0, 1))
    return tokenizer.encode(sources), tokenizer.target.encode(targets)


def count_pair_tokens(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> list[int]:
    """Return the tokens of the longer side of each pair, end mark included."""
    sides = zip(*_encode_pairs(tokenizer, pairs), strict=True)
    return [max(len(source), len(target)) + 1 for source, target in sides]


def score_pairs(
    engine: Engine, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], *, batch_size: int
) -> list[PairScore]:
    """Return the log-probability of each token of given translations.

    Raises:
        UserError: a text has more tokens than the model positions.
    """
    sides = _encode_pairs(tokenizer, pairs)
    return [
        PairScore(tokenizer.pieces([*target, EOS]), [float(value) for value in values])
        for target, values in zip(
            sides[1], _in_batches(engine.score, engine, sides, batch_size), strict=True
        )
    ]


def attend_pairs(
    engine: KerasEngine, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], *, batch_size: int
) -> list[Attention]:
    """Return the attention weights of given translations.

    Raises:
        UserError: a text has more tokens than the model positions.
    """
    sides = _encode_pairs(tokenizer, pairs)
    attention = _in_batches(engine.attention, engine, sides, batch_size)
    return [
        label_attention(engine, tokenizer, source, target, EOS, weights)
        for source, target, weights in zip(*sides, attention, strict=True)
    ]


def align_pairs(
    engine: Engine, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], *, batch_size: int
) -> list[np.ndarray]:
    """Return the alignment [T, S] of given translations: see `Engine.align`.

    Raises:
        UserError: a text has more tokens than the model positions, or the model has no attention.
    """
    return _in_batches(engine.align, engine, _encode_pairs(tokenizer, pairs), batch_size)


def label_attention(
    engine: KerasEngine,
    tokenizer: Tokenizer,
    source: np.ndarray,
    target: np.ndarray,
    last: int,
    weights: dict[str, np.ndarray],
    spans: Sequence[str] = (),
) -> Attention:
    """Return the weights of a pair with its tokens.

    ``last`` is the id after ``target``. Tokens of slots show the kept spans.
    """

    def label(ids: Sequence[int]) -> list[str]:
        return [show_spans(piece, spans) for piece in tokenizer.pieces(ids)]

    return Attention(
        source=label([*source, EOS]),
        target_in=label([BOS, *target]),
        target_out=label([*target, last]),
        weights=weights,
        kinds=engine.model.attention_kinds,
    )


def _in_batches(
    work: Callable[..., list[Result]],
    engine: Engine,
    sides: tuple[list[np.ndarray], list[np.ndarray]],
    batch_size: int,
) -> list[Result]:
    """Return the results of ``work`` for all pairs, run in batches of similar length."""
    lengths = [(len(source), len(target)) for source, target in zip(*sides, strict=True)]
    most = engine.max_length - 1
    for number, pair_lengths in enumerate(lengths, start=1):
        if max(pair_lengths) > most:
            raise UserError(
                f"pair {number} must have at most {most} tokens a side, the positions of the "
                f"model, got {max(pair_lengths)}"
            )
    results: dict[int, Result] = {}
    for indices in plan_batches([sum(both) for both in lengths], batch_size, engine.parallel):
        outputs = work(*([side[i] for i in indices] for side in sides))
        results |= zip(indices, outputs, strict=True)
    return [results[i] for i in range(len(lengths))]
