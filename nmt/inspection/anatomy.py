"""What a model is made of: parameters by part, and arithmetic per token."""

from __future__ import annotations

import math
from collections import Counter

from nmt.model.transformer import Transformer

_PARTS = (
    ("causal_self_attention", "decoder masked self-attention"),
    ("self_attention", "encoder self-attention"),
    ("cross_attention", "cross-attention"),
    ("feed_forward", "feed-forward"),
    ("embedding", "embeddings (tied)"),
    ("positions", "positions"),
)


def parameters_by_part(model: Transformer) -> dict[str, int]:
    """Count parameters by part of the model; the values sum to ``model.count_params()``."""
    counts: Counter[str] = Counter()
    for name, weight in model.named_weights().items():
        folders = name.split("/")
        # Norms are folders of their own: "encoder_0/feed_forward_norm/gamma".
        part = next((label for key, label in _PARTS if key in folders), "layer normalisation")
        counts[part] += math.prod(weight.shape)
    return dict(counts)


def training_flops_per_token(model: Transformer) -> float:
    """Return floating-point operations per real token in training, averaged over both sides.

    The usual count (Kaplan et al. 2020, section 2.1): 2 per weight of every matrix that a token
    meets, three times that with the backward pass. A source token meets the encoder and the keys
    and values of cross-attention; a target token the rest of the decoder and the output table. The
    products of queries with keys, which depend on the sentence lengths, are left out, as are
    embedding look-ups.
    """
    source = target = 0
    for name, weight in model.named_weights().items():
        folders = name.split("/")
        if folders[0] == "embedding":
            target += math.prod(weight.shape)  # the output layer
        elif folders[-1] != "kernel":
            continue
        elif folders[0].startswith("encoder_") or folders[1:3] in (
            ["cross_attention", "key"],
            ["cross_attention", "value"],
        ):
            source += math.prod(weight.shape)
        else:
            target += math.prod(weight.shape)
    return 6 * (source + target) / 2
