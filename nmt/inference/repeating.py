"""Searches whose outputs do not loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.inference.contract import (
    BeamOptions,
    Engine,
    Hypothesis,
    SamplingOptions,
    split_prefix,
)
from nmt.text.repetition import is_looping

# For sentences whose best output loops, tried in this order: 2 leaves no loop, but also forbids
# what long sentences repeat rightly ("of the").
_NO_REPEAT_NGRAMS = (3, 2)


def search_without_loops(
    engine: Engine,
    sources: Sequence[np.ndarray],
    limits: np.ndarray,
    options: BeamOptions | SamplingOptions,
    prefix: np.ndarray,
) -> list[list[Hypothesis]]:
    """Return what ``engine.search`` returns, without repetition loops.

    If `BeamOptions.avoids_loops`, sentences whose best output loops are searched again with
    `BeamOptions.no_repeat_ngram`. Samples are returned as they are.
    """
    outputs = engine.search(sources, limits, options, prefix)
    if isinstance(options, SamplingOptions) or not options.avoids_loops:
        return outputs
    looping = list(range(len(sources)))
    prefixes = split_prefix(prefix, len(sources))
    for n in _NO_REPEAT_NGRAMS:
        looping = [i for i in looping if _has_loop(outputs[i], sources[i], prefixes[i])]
        if not looping:
            break
        repeated = engine.search(
            [sources[i] for i in looping],
            limits[looping],
            options._replace(no_repeat_ngram=n),
            prefix if prefix.ndim == 1 else prefix[looping],
        )
        for i, hypotheses in zip(looping, repeated, strict=True):
            outputs[i] = hypotheses
    return outputs


def _has_loop(hypotheses: list[Hypothesis], source: np.ndarray, prefix: np.ndarray) -> bool:
    """Return whether the best hypothesis loops after the prefix."""
    return bool(hypotheses) and is_looping(hypotheses[0].tokens[len(prefix) :], source.tolist())
