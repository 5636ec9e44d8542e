"""Parameters of a model, counted by part."""

from __future__ import annotations

import math
from collections import Counter

from nmt.model.contract import Model

_NORMS = ("gamma", "beta")  # names of the weights of layer normalisation


def count_by_part(model: Model) -> dict[str, int]:
    """Return parameters by part; the values sum to ``model.count_params()``.

    Weights of a part that the model's costs do not list are counted under the part's own name.
    """
    labels = model.sizes.costs.labels
    counts: Counter[str] = Counter()
    for name, weight in model.named_weights().items():
        folders = name.split("/")
        default = folders[-2] if len(folders) > 1 else name
        if folders[-1] in _NORMS:  # in folders of their own: "encoder_0/feed_forward_norm/gamma"
            default = "layer normalisation"
        part = next((label for key, label in labels if key in folders), default)
        counts[part] += math.prod(weight.shape)
    return dict(counts)
