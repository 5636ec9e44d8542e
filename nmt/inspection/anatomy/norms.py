"""How large each layer's matrices are, and how alike positions are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nmt.model.contract import Model

_ATTENTION_PARTS = ("query", "key", "value", "output")
_PARTS = (
    *(("self-attention", "self_attention", part) for part in _ATTENTION_PARTS),
    *(("self-attention", "causal_self_attention", part) for part in _ATTENTION_PARTS),
    *(("cross-attention", "cross_attention", part) for part in _ATTENTION_PARTS),
    *(("feed-forward", "feed_forward", part) for part in ("gate", "inner", "outer")),
)


@dataclass(frozen=True)
class Norms:
    """Norms of the kernels, by layer and part; NaN where a layer has no such part."""

    layers: list[str]
    parts: list[str]
    rms: np.ndarray  # float64 [layers, parts]: root mean square of the entries
    spectral: np.ndarray  # float64 [layers, parts]: largest singular value


def measure_norms(model: Model) -> Norms:
    """Measure every kernel of the encoder and decoder blocks.

    The root mean square says how large the entries are, whatever the shape; the largest singular
    value how much a matrix can stretch a vector.
    """
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for name, weight in model.named_weights().items():
        folders = name.split("/")
        if folders[-1] != "kernel":
            continue
        [label] = [
            f"{shown} {part}"
            for shown, kind, part in _PARTS
            if (kind, part) == (folders[1], folders[2])
        ]
        kernel = np.asarray(weight, np.float64)
        rms = float(np.sqrt(np.mean(kernel**2)))
        found[folders[0], label] = (rms, float(np.linalg.norm(kernel, 2)))
    layers = list(dict.fromkeys(layer for layer, _ in found))
    shown = [f"{label} {part}" for label, _, part in _PARTS]
    parts = [part for part in dict.fromkeys(shown) if any(part == label for _, label in found)]
    missing = (float("nan"), float("nan"))
    both = np.array([[found.get((layer, part), missing) for part in parts] for layer in layers])
    return Norms([_number(layer) for layer in layers], parts, both[..., 0], both[..., 1])


def _number(layer: str) -> str:
    """Return "encoder 1" for "encoder_0": people count layers from 1, as all pictures here do."""
    stack, _, number = layer.partition("_")
    return f"{stack} {int(number) + 1}"


def similarity(table: np.ndarray) -> np.ndarray:
    """Return the cosine of every two positions' vectors: [L, D] -> [L, L].

    For sinusoids it depends on the distance of the positions alone.
    """
    unit = table / np.linalg.norm(table, axis=-1, keepdims=True)
    return unit @ unit.T
