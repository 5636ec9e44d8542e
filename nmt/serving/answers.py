"""Answers to translation requests, as JSON.

Attention is most of an answer, up to megabytes. It is written row by row: the JSON encoder of the
standard library holds the interpreter lock until it is done, and no request would be answered.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nmt.inference.results import Attention, Translation

MAX_ATTENTION_WEIGHTS = 500_000  # of an answer, each of 6 bytes at most; 8 x 6 heads of 100 x 100
_STEPS = 1000  # weights are rounded to three decimals
_NUMBERS = [f"{step / _STEPS:g}" for step in range(_STEPS + 1)]
_TOO_LARGE = (
    f"the answer would have more than {MAX_ATTENTION_WEIGHTS:,} weights: ask for fewer or shorter "
    "texts"
)


def encode_answer(
    texts: Sequence[Sequence[Translation]],
    attentions: Sequence[Attention | str | None],
    scores: bool,
) -> bytes:
    """Return the JSON of `nmt.serving.app.TranslationResponse`.

    Args:
        texts: hypotheses of each text, best first.
        attentions: of the best hypothesis of each text; or why there is none; None where it was not
            asked for.
        scores: whether score and log-probability of every hypothesis are given.
    """
    answers = []
    weights_left = MAX_ATTENTION_WEIGHTS
    for hypotheses, attention in zip(texts, attentions, strict=True):
        encoded = [_encode(_fields(hypothesis, scores)) for hypothesis in hypotheses]
        if attention is not None and not isinstance(attention, str):
            if attention.cross.size > weights_left:
                attention = _TOO_LARGE
            else:
                weights_left -= attention.cross.size
        if attention is not None:
            encoded[0] = f"{encoded[0][:-1]},{_attention_fields(attention)}}}"
        answers.append(f"[{','.join(encoded)}]")
    return f'{{"translations":[{",".join(answers)}]}}'.encode()


def _fields(hypothesis: Translation, scores: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"text": hypothesis.text}
    if scores:
        fields |= {"score": hypothesis.score, "log_prob": hypothesis.log_prob}
    return fields


def _attention_fields(attention: Attention | str) -> str:
    if isinstance(attention, str):
        return f'"attention":null,"attention_missing":{_encode(attention)}'
    weights = _encode_weights(np.rint(attention.cross * _STEPS).astype(np.int32))
    return (
        f'"attention":{{"source":{_encode(attention.source)},'
        f'"target":{_encode(attention.target_out)},"weights":{weights}}}'
    )


def _encode_weights(steps: np.ndarray) -> str:
    """Return nested lists of weights that are given in steps."""
    if steps.ndim == 1:
        return f"[{','.join([_NUMBERS[step] for step in steps.tolist()])}]"
    return f"[{','.join(map(_encode_weights, steps))}]"


def _encode(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
