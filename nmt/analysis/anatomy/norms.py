"""Norms of the matrices of each layer, and similarity of positions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nmt.model.contract import Model

_SHOWN = {"causal_self_attention": "self-attention", "self_attention": "self-attention"}
_LAST = "feed-forward"  # parts listed after the others, in the order of the data flow


@dataclass(frozen=True)
class Norms:
    """Norms of the kernels, by layer and part; NaN where a layer has no such part."""

    layers: list[str]
    parts: list[str]
    rms: np.ndarray  # float64 [layers, parts]: root mean square of the entries
    spectral: np.ndarray  # float64 [layers, parts]: largest singular value


def measure_norms(model: Model) -> Norms:
    """Measure every kernel of the model; kernels of several heads are joined side by side.

    The root mean square is the size of the entries, independent of the shape; the largest singular
    value is how much a matrix can stretch a vector.
    """
    kernels: dict[tuple[str, str], list[np.ndarray]] = {}
    for name, weight in model.named_weights().items():
        *folders, kind = name.split("/")
        if kind == "kernel":
            kernels.setdefault(_locate(folders), []).append(np.asarray(weight, np.float64))
    layers = list(dict.fromkeys(layer for layer, _ in kernels))
    names = dict.fromkeys(part for _, part in kernels)
    parts = sorted(names, key=lambda part: part.startswith(_LAST))
    norms = np.full((2, len(layers), len(parts)), np.nan)
    for (layer, part), arrays in kernels.items():
        kernel = np.concatenate(arrays, axis=1)
        rms, spectral = np.sqrt(np.mean(kernel**2)), np.linalg.norm(kernel, 2)
        norms[:, layers.index(layer), parts.index(part)] = rms, spectral
    return Norms(layers, parts, *norms)


def _locate(folders: list[str]) -> tuple[str, str]:
    """Return layer (from 1) and part of a kernel: ("encoder 1", "self-attention query")."""
    layer, _, number = folders[0].rpartition("_")
    inner = [folder for folder in folders[1:] if not folder.startswith("head_")]
    if not number.isdigit():
        return "others", " ".join(folders).replace("_", " ")
    if not inner:
        return "others", f"{layer} {int(number) + 1}"
    part = " ".join(_SHOWN.get(folder, folder.replace("_", "-")) for folder in inner)
    return f"{layer} {int(number) + 1}", part


def similarity(table: np.ndarray) -> np.ndarray:
    """Return the cosine of the vectors of any two positions: [L, D] -> [L, L].

    For sinusoids it depends only on the distance between the positions.
    """
    unit = table / np.linalg.norm(table, axis=-1, keepdims=True)
    return unit @ unit.T
