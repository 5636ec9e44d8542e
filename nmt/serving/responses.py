"""Answers to translation requests, as JSON.

Most of an answer is attention, up to megabytes. It is encoded row by row: the standard library's
JSON encoder holds the interpreter lock until it is done, and meanwhile no request is answered.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.inference.quality_lines import describe_quality

if TYPE_CHECKING:
    from nmt.inference.results import Attention, Translation
    from nmt.serving.segments import SentenceSpan

MAX_ATTENTION_WEIGHTS = 500_000  # of an answer, up to 6 bytes each: 48 heads of 100 x 100 tokens
_STEPS = 1000  # weights are rounded to three decimals
_DECIMALS = [f"{step / _STEPS:g}" for step in range(_STEPS + 1)]
_TOO_LARGE = (
    f"the answer would have more than {MAX_ATTENTION_WEIGHTS:,} weights: ask for fewer or shorter "
    "texts"
)


def encode_response(
    hypotheses: Sequence[Sequence[Translation]],
    attentions: Sequence[Attention | str | None],
    scores: bool,
    quality_missing: str | None = None,
    sentences: Sequence[Sequence[SentenceSpan]] | None = None,
) -> bytes:
    """Return the JSON of `nmt.serving.schema.TranslationResponse`.

    Args:
        hypotheses: of each text, best first.
        attentions: for each text the attention of its best hypothesis, or the reason why it is not
            available, or None if it was not requested.
        scores: whether to include score and log-probability of every hypothesis.
        quality_missing: why confidence is missing; empty if it is available; None if it was not
            requested.
        sentences: of the best hypothesis of each text; None if they were not requested.
    """
    answers = []
    weights_left = MAX_ATTENTION_WEIGHTS
    for number, (hypotheses_of_text, attention) in enumerate(
        zip(hypotheses, attentions, strict=True)
    ):
        fields = [_fields(hypothesis, scores) for hypothesis in hypotheses_of_text]
        if sentences is not None:
            fields[0]["sentences"] = [sentence._asdict() for sentence in sentences[number]]
        if quality_missing is not None:
            fields[0] |= _quality_fields(hypotheses_of_text[0], quality_missing)
        encoded = list(map(_encode, fields))
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
    if hypothesis.lost_spans:
        fields["lost_spans"] = hypothesis.lost_spans
    if hypothesis.terms:
        fields["terms"] = [use._asdict() for use in hypothesis.terms]
    if scores:
        fields |= {"score": hypothesis.score, "log_prob": hypothesis.log_prob}
    return fields


def _quality_fields(best: Translation, missing: str) -> dict[str, object]:
    """Return the confidence of a translation and its words; without confidence, its words only."""
    if best.confidence is not None:
        return describe_quality(best)
    fields: dict[str, object] = {"quality_missing": missing or "the text is empty"}
    if best.words:
        fields["words"] = [
            {"begin": word.begin, "end": word.end, "sources": [list(span) for span in word.sources]}
            for word in best.words
        ]
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
    """Return nested JSON lists of weights, given as multiples of 1 / `_STEPS`."""
    if steps.ndim == 1:
        return f"[{','.join([_DECIMALS[step] for step in steps.tolist()])}]"
    return f"[{','.join(map(_encode_weights, steps))}]"


def _encode(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
