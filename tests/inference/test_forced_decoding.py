"""Given translations are scored as in training: slots stand for the kept spans of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import small_tokenizer

from nmt.data.tokenizer import EOS
from nmt.inference.forced_decoding import attend_pairs, count_pair_tokens, score_pairs
from nmt.text.spans import SLOTS


class Recording:
    """An engine that keeps what it scores."""

    max_length = 64
    workers = 1
    model = SimpleNamespace(attention_kinds=())

    def __init__(self) -> None:
        self.pairs: list[tuple[list[int], list[int]]] = []

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        self.pairs += [(s.tolist(), t.tolist()) for s, t in zip(sources, targets, strict=True)]
        return [np.full(len(target) + 1, -0.5, np.float32) for target in targets]

    def attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[dict[str, np.ndarray]]:
        self.score(sources, targets)
        return [{} for _ in targets]


URL = "https://a.com/b"


@pytest.mark.parametrize(
    ("slots", "number", "url"), [(0, "37", URL), (1, SLOTS[0], URL), (3, SLOTS[0], SLOTS[1])]
)
def test_slots_stand_for_shared_spans_and_pieces_show_them(
    slots: int, number: str, url: str
) -> None:
    tokenizer = small_tokenizer(lowercases=True, slots=slots)
    engine: Any = Recording()
    pair = (f"Tengo 37 libros y {URL}.", f"I have 37 books and {URL}.")
    [score] = score_pairs(engine, tokenizer, [pair], batch_size=4)
    [(source, target)] = engine.pairs
    texts = [f"Tengo {number} libros y {url}.", f"I have {number} books and {url}."]
    assert source == tokenizer.encode(texts[:1])[0].tolist()
    assert target == tokenizer.target.encode(texts[1:])[0].tolist()
    assert len(score.pieces) == len(score.log_probs) == len(target) + 1
    assert ("37" in score.pieces) == (slots > 0)
    assert (URL in score.pieces) == (slots > 1)
    [attention] = attend_pairs(engine, tokenizer, [pair], batch_size=4)
    assert engine.pairs[1] == (source, target)
    assert [*attention.target_out] == [*score.pieces]
    assert len(attention.source) == len(source) + 1
    assert (URL in attention.source) == (slots > 1)
    plain = [*tokenizer.encode(pair[:1]), *tokenizer.target.encode(pair[1:])]
    assert count_pair_tokens(tokenizer, [pair]) == [max(map(len, [*plain, source, target])) + 1]
    assert target[-1] != EOS
