"""Forced decoding: what a model makes of given translations, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from nmt.data.tokenizer import BOS, EOS, Tokenizer
from nmt.errors import UserError
from nmt.inference.contract import Engine
from nmt.inference.cutting import clean_input
from nmt.inference.results import Attention, PairScore

if TYPE_CHECKING:  # loads Keras
    from nmt.inference.engine import KerasEngine

Result = TypeVar("Result")


def plan_batches(lengths: Sequence[int], size: int, parallel: int) -> Iterator[list[int]]:
    """Yield the indices of sentences of similar length, the longest first.

    Args:
        lengths: of all sentences, in tokens.
        size: most sentences of a batch.
        parallel: batches that are worked on at the same time, and want their share.
    """
    size = min(size, -(-len(lengths) // parallel) or 1)
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for start in range(0, len(order), size):
        yield order[start : start + size]


def encode_both(
    tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the ids of the sources, and of the targets."""
    sources, targets = ([clean_input(pair[side]) for pair in pairs] for side in (0, 1))
    return tokenizer.encode(sources), tokenizer.target.encode(targets)


def score_pairs(
    engine: Engine, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], *, batch_size: int
) -> list[PairScore]:
    """Return the log-probability of each piece of given translations.

    Raises:
        UserError: a text has more tokens than the model positions.
    """
    sides = encode_both(tokenizer, pairs)
    return [
        PairScore(tokenizer.pieces([*target, EOS]), [float(value) for value in values])
        for target, values in zip(
            sides[1], _in_batches(engine.score, engine, sides, batch_size), strict=True
        )
    ]


def attend_pairs(
    engine: KerasEngine, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], *, batch_size: int
) -> list[Attention]:
    """Return the weights with which given translations are written.

    Raises:
        UserError: a text has more tokens than the model positions.
    """
    sides = encode_both(tokenizer, pairs)
    found = _in_batches(engine.attention, engine, sides, batch_size)
    return [
        label_attention(engine, tokenizer, source, target, EOS, weights)
        for source, target, weights in zip(*sides, found, strict=True)
    ]


def label_attention(
    engine: KerasEngine,
    tokenizer: Tokenizer,
    source: np.ndarray,
    target: np.ndarray,
    last: int,
    weights: dict[str, np.ndarray],
) -> Attention:
    """Name what the weights of a pair are of; ``last`` is written after ``target``."""
    return Attention(
        source=tokenizer.pieces([*source, EOS]),
        target_in=tokenizer.pieces([BOS, *target]),
        target_out=tokenizer.pieces([*target, last]),
        weights=weights,
        kinds=engine.model.attention_kinds,
    )


def _in_batches(
    work: Callable[..., list[Result]],
    engine: Engine,
    sides: tuple[list[np.ndarray], list[np.ndarray]],
    batch_size: int,
) -> list[Result]:
    """Do ``work`` on the ids of pairs, in batches of similar length."""
    lengths = [(len(source), len(target)) for source, target in zip(*sides, strict=True)]
    most = engine.max_length - 1
    for number, both in enumerate(lengths, start=1):
        if max(both) > most:
            raise UserError(
                f"pair {number} is longer than the {most} tokens that the model has positions for"
            )
    found: dict[int, Result] = {}
    sums = [sum(both) for both in lengths]
    for members in plan_batches(sums, batch_size, engine.parallel):
        results = work(*([side[i] for i in members] for side in sides))
        found |= zip(members, results, strict=True)
    return [found[i] for i in range(len(lengths))]
