"""What turns source ids into target ids: a contract, and Keras's side of it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from keras import ops

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.inference.compiled import compiled
from nmt.inference.search import IMPOSSIBLE, Hypotheses, beam_search, greedy
from nmt.model.transformer import DecodingState, Transformer

_LENGTH_STEP = 8  # source lengths are padded to multiples of it: few shapes where shapes compile


class Beam(NamedTuple):
    """How to search."""

    size: int  # k; 1 is greedy
    length_penalty: float  # alpha of Wu et al. 2016, eq. 14: log_prob / ((5 + length) / 6) ** alpha
    coverage_penalty: float = 0.0  # beta of eq. 14
    n_best: int = 1  # hypotheses wanted per sentence, at most `size`


class Found(NamedTuple):
    """One hypothesis in ids."""

    tokens: tuple[int, ...]  # end mark included
    log_prob: float  # of all tokens, end mark included, in nats
    score: float  # what hypotheses are ranked by


class Engine(Protocol):
    """What turns source ids into target ids."""

    max_length: int  # positions, end mark included

    def search(
        self, sources: list[np.ndarray], limits: np.ndarray, beam: Beam, prefix: np.ndarray
    ) -> list[list[Found]]:
        """Search for the best targets of several sources.

        Args:
            sources: ids without end mark, of similar length; not empty.
            limits: int32 [B], most target tokens per sentence, end mark included.
            beam: how to search.
            prefix: int32 [P], ids that every target begins with; may be empty.

        Returns:
            Hypotheses per sentence, best first.
        """
        ...


class KerasEngine:
    """The model itself."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.max_length = model.max_length
        self._searches: dict[tuple[int, float], Any] = {}

    def search(
        self, sources: list[np.ndarray], limits: np.ndarray, beam: Beam, prefix: np.ndarray
    ) -> list[list[Found]]:
        """Search as `Engine` says."""
        longest = max(map(len, sources)) + 1
        width = min(-(-longest // _LENGTH_STEP) * _LENGTH_STEP, self.max_length)
        # Sentences of nothing but padding fill the batch up to a power of two.
        rows = 1 << (len(sources) - 1).bit_length()
        source = np.full((rows, width), PAD, np.int32)
        source[:, 0] = EOS
        filled = np.ones(rows, np.int32)
        filled[: len(sources)] = limits
        for row, ids in enumerate(sources):
            source[row, : len(ids)] = ids
            source[row, len(ids)] = EOS
        room = np.arange(-(-filled.max() // _LENGTH_STEP) * _LENGTH_STEP)
        tokens, lengths, log_probs, scores = self._compiled(beam)(source, filled, room)
        return [
            [
                Found(
                    tokens=tuple(int(i) for i in tokens[row, n, : lengths[row, n]]),
                    log_prob=float(log_probs[row, n]),
                    score=float(scores[row, n]),
                )
                for n in range(min(beam.n_best, tokens.shape[1]))
                if scores[row, n] > IMPOSSIBLE / 2
            ]
            for row in range(len(sources))
        ]

    def _compiled(self, beam: Beam) -> Any:
        key = (beam.size, beam.length_penalty if beam.size > 1 else 0.0)
        if key not in self._searches:

            def search(source: Any, limits: Any, room: Any) -> Any:
                # The length of `room` is static where shapes compile, and dynamic elsewhere.
                return tuple(graph_search(self.model, source, limits, beam, ops.shape(room)[0]))

            self._searches[key] = compiled(self.model, search, (2, 1, 1))
        return self._searches[key]


def graph_search(
    model: Transformer, source: Any, limits: Any, beam: Beam, max_length: Any
) -> Hypotheses:
    """Search inside a graph: source int32 [B, S], limits int32 [B]."""
    state = model.start(source, hypotheses=beam.size, max_length=max_length)
    if beam.size == 1:
        return greedy(model.step, state, limits, bos=BOS, eos=EOS, max_length=max_length)
    return beam_search(
        model.step,
        state,
        _reorder,
        limits,
        bos=BOS,
        eos=EOS,
        beam_size=beam.size,
        alpha=beam.length_penalty,
        max_length=max_length,
    )


def _reorder(state: DecodingState, parents: Any) -> DecodingState:
    """Select hypotheses in the cache; what belongs to the sentence stays."""
    cache = tuple(
        (ops.take(keys, parents, axis=0), ops.take(values, parents, axis=0))
        for keys, values in state.cache
    )
    return state._replace(cache=cache)
