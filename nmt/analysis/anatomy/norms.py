"""How large each layer's matrices are, and how alike positions are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nmt.model.contract import Model

_SHOWN = {"causal_self_attention": "self-attention", "self_attention": "self-attention"}
_LAST = "feed-forward"  # parts that stand behind the others, as data passes through them


@dataclass(frozen=True)
class Norms:
    """Norms of the kernels, by layer and part; NaN where a layer has no such part."""

    layers: list[str]
    parts: list[str]
    rms: np.ndarray  # float64 [layers, parts]: root mean square of the entries
    spectral: np.ndarray  # float64 [layers, parts]: largest singular value


def measure_norms(model: Model) -> Norms:
    """Measure every kernel of the model, those of several heads side by side.

    The root mean square says how large the entries are, whatever the shape; the largest singular
    value how much a matrix can stretch a vector.
    """
    kernels: dict[tuple[str, str], list[np.ndarray]] = {}
    for name, weight in model.named_weights().items():
        *folders, kind = name.split("/")
        if kind == "kernel":
            kernels.setdefault(_place(folders), []).append(np.asarray(weight, np.float64))
    found = {place: np.concatenate(parts, axis=1) for place, parts in kernels.items()}
    layers = list(dict.fromkeys(layer for layer, _ in found))
    named = dict.fromkeys(part for _, part in found)
    parts = sorted(named, key=lambda part: part.startswith(_LAST))
    both = np.full((2, len(layers), len(parts)), np.nan)
    for (layer, part), kernel in found.items():
        norms = np.sqrt(np.mean(kernel**2)), np.linalg.norm(kernel, 2)
        both[:, layers.index(layer), parts.index(part)] = norms
    return Norms(layers, parts, both[0], both[1])


def _place(folders: list[str]) -> tuple[str, str]:
    """Return layer and part of a kernel: ("encoder 1", "self-attention query").

    People count layers from 1, as all pictures here do.
    """
    layer, _, number = folders[0].rpartition("_")
    inner = [folder for folder in folders[1:] if not folder.startswith("head_")]
    if not number.isdigit():
        return "others", " ".join(folders).replace("_", " ")
    if not inner:
        return "others", f"{layer} {int(number) + 1}"
    part = " ".join(_SHOWN.get(folder, folder.replace("_", "-")) for folder in inner)
    return f"{layer} {int(number) + 1}", part


def similarity(table: np.ndarray) -> np.ndarray:
    """Return the cosine of every two positions' vectors: [L, D] -> [L, L].

    For sinusoids it depends on the distance of the positions alone.
    """
    unit = table / np.linalg.norm(table, axis=-1, keepdims=True)
    return unit @ unit.T
