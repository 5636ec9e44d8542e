"""Looping outputs are searched again, and only they."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from translator_inputs import SENTENCES

from nmt import Translator
from nmt.data.tokenizer import EOS
from nmt.inference.contract import BeamOptions, Hypothesis, SamplingOptions
from nmt.inference.engines import Engines
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.repeating import search_without_loops

pytest_plugins = ("random_translator",)
pytestmark = pytest.mark.xdist_group("translator")

NO_PREFIX = np.zeros(0, np.int32)
BEAM = BeamOptions(2, 0.6, avoids_loops=True)
LIMITS = np.array([11, 12, 13, 14], np.int32)
PLAIN, LOOPING, STUBBORN, ECHOING = [10, 11, 12], [20, 21], [30], [40] * 4
SOURCES = [np.array(ids, np.int32) for ids in (LOOPING, PLAIN, STUBBORN, ECHOING)]


class Looping:
    """An engine whose outputs loop for some sources, and for stubborn ones even with 3."""

    max_length = 64
    workers = 1
    keras_engine: KerasEngine | None = None
    can_align = True

    def __init__(self) -> None:
        self.calls: list[tuple[int, list[list[int]], list[int], Any]] = []

    def supports(self, options: BeamOptions | SamplingOptions) -> bool:
        return True

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions | SamplingOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        n = options.no_repeat_ngram if isinstance(options, BeamOptions) else 0
        ids = [source.tolist() for source in sources]
        self.calls.append((n, ids, limits.tolist(), prefix.tolist()))
        return [[self.answer(source, n, prefix)] for source in ids]

    def answer(self, source: list[int], n: int, prefix: np.ndarray) -> Hypothesis:
        tokens = [*prefix.ravel().tolist(), *source]
        if (source == LOOPING and not n) or (source == STUBBORN and n != 2):
            tokens += [5, 6] * 3
        return Hypothesis((*tokens, EOS), -float(n), -float(n))

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        raise NotImplementedError


def test_looping_outputs_are_searched_again_until_none_loops() -> None:
    engine = Looping()
    outputs = search_without_loops(engine, SOURCES, LIMITS, BEAM, NO_PREFIX)
    assert engine.calls == [
        (0, [LOOPING, PLAIN, STUBBORN, ECHOING], [11, 12, 13, 14], []),
        (3, [LOOPING, STUBBORN], [11, 13], []),
        (2, [STUBBORN], [13], []),
    ]
    assert [best.tokens for (best,) in outputs] == [(*source, EOS) for source in SOURCES]
    assert [best.score for (best,) in outputs] == [-3, 0, -2, 0]


@pytest.mark.parametrize(
    "options", [BeamOptions(2, 0.6), SamplingOptions(1)], ids=["off", "samples"]
)
def test_other_searches_are_left_alone(options: BeamOptions | SamplingOptions) -> None:
    engine = Looping()
    outputs = search_without_loops(engine, SOURCES, LIMITS, options, NO_PREFIX)
    assert len(engine.calls) == 1
    assert outputs[0][0].tokens[-7:-1] == (5, 6) * 3


def test_a_prefix_that_loops_is_no_loop() -> None:
    engine = Looping()
    prefix = np.array([7, 7, 7, 7], np.int32)
    search_without_loops(engine, SOURCES[:2], LIMITS[:2], BEAM, prefix)
    assert [call[:2] for call in engine.calls] == [(0, [LOOPING, PLAIN]), (3, [LOOPING])]
    assert engine.calls[1][3] == [7, 7, 7, 7]


def test_prefixes_of_each_sentence_stay_with_it() -> None:
    engine = Looping()
    prefix = np.array([[7, -1], [7, 8]], np.int32)
    search_without_loops(engine, [np.array(PLAIN), np.array(LOOPING)], LIMITS[:2], BEAM, prefix)
    assert engine.calls[0][3] == [[7, -1], [7, 8]]
    assert engine.calls[1][1:] == ([LOOPING], LIMITS[1:2].tolist(), [[7, 8]])


def test_a_search_without_results_is_no_loop() -> None:
    class Empty(Looping):
        def search(self, *arguments: object) -> list[list[Hypothesis]]:
            return [[]]

    assert search_without_loops(Empty(), SOURCES[:1], LIMITS[:1], BEAM, NO_PREFIX) == [[]]


def test_a_translator_searches_looping_segments_again(translator: Translator) -> None:
    class Always(Looping):
        def answer(self, source: list[int], n: int, prefix: np.ndarray) -> Hypothesis:
            return Hypothesis((*([5] * 9 if not n else [5]), EOS), 0.0, 0.0)

    engine = Always()
    protected = Translator(Engines(engine), translator.tokenizer, replace(translator.decoding))
    [translations] = protected.hypotheses(SENTENCES[:1])
    assert translations[0].tokens == (5, EOS)
    assert [call[0] for call in engine.calls] == [0, 3]
    for n in (0, 4):
        protected.hypotheses(SENTENCES[:1], no_repeat_ngram=n)
        protected.translate(SENTENCES[:1], no_repeat_ngram=n)
    protected.decoding.no_repeat_ngram = 5
    protected.translate(SENTENCES[:1])
    assert [call[0] for call in engine.calls[2:]] == [0, 0, 4, 4, 5]
