"""Whether a model decodes token by token what it computes in training."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from nmt.model.contract import Model

# Two pairs of ids that every vocabulary has. One is long, since a layer may act at a distance only.
_SOURCES = ([*[3, 4, 5] * 5, 2], [5, 3, 2])
_TARGETS = ([1, 4, 3], [1, *[5, 5, 4, 3] * 5])  # shifted: they begin with BOS
_PADDING = 3


def measure_decoding_gap(model: Model) -> float:
    """Return how far the logits of `step` are from those of a call, in their standard deviations.

    Two pairs are scored in one packed row, as in training, and then each alone, as in a search. The
    largest difference of two logits is nothing but rounding, unless a layer mixes the tokens of
    pairs or of padding, or `step` computes something else.
    """
    room = model.max_length - _PADDING - 3  # of the longer text in a row, beside the short one
    sources, targets = ([ids[:room] for ids in side] for side in (_SOURCES, _TARGETS))
    logits = ops.convert_to_numpy(
        model(_pack_row("source", sources) | _pack_row("target", targets))
    )
    expected = logits[0, : sum(map(len, targets))]
    pairs = zip(sources, targets, strict=True)
    decoded = np.concatenate([_decode(model, source, target) for source, target in pairs])
    return float(np.abs(decoded - expected).max() / max(float(expected.std()), 1e-6))


def _pack_row(side: str, texts: list[list[int]]) -> dict[str, Any]:
    """Return the inputs of one row [1, L]: see `Model.__call__`."""
    rows = {
        side: [id_ for text in texts for id_ in text],
        f"{side}_segments": [n for n, text in enumerate(texts, 1) for _ in text],
        f"{side}_positions": [position for text in texts for position in range(len(text))],
    }
    return {name: _as_tensor([row + [0] * _PADDING]) for name, row in rows.items()}


def _decode(model: Model, source: list[int], target: list[int]) -> np.ndarray:
    """Return the logits float32 [T, V] of a target, decoded with a padded source."""
    state = model.start(_as_tensor([source + [0] * _PADDING]), beam_size=1, max_length=len(target))
    rows = []
    for index, token in enumerate(target):
        logits, state = model.step(_as_tensor([[token]]), _as_tensor(index), state)
        rows.append(ops.convert_to_numpy(logits)[0, 0])
    # What a search needs besides, so that a class without it fails before it is trained.
    model.growing_axes(model.grow(model.reorder(state, _as_tensor([[0]])), _as_tensor(1)))
    return np.stack(rows)


def _as_tensor(ids: Any) -> Any:
    return ops.convert_to_tensor(ids, "int32")
