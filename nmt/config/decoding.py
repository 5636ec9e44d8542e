"""The ``decoding`` group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nmt.config.checks import (
    MISSING,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    between,
    one_of,
)

ENGINES = ("auto", "keras", "ctranslate2")
QUANTIZATIONS = ("float32", "int8")
UNITS = ("sentence", "line")
MAX_LENGTH_PENALTY = 10  # with larger ones, scores of long outputs would become 0 in float32


@dataclass
class DecodingConfig:
    """The search for translations after training."""

    # sentence: texts are cut into sentences; line: a text is one segment unless it is too long, for
    # models that were trained on longer texts.
    unit: Annotated[str, one_of(*UNITS)] = MISSING
    beam_size: PositiveInt = MISSING  # 1 is greedy
    # alpha of Wu et al. 2016, equation 14
    length_penalty: Annotated[float, between(0, MAX_LENGTH_PENALTY)] = MISSING
    max_length_ratio: NonNegativeFloat = MISSING  # output tokens per source token
    max_length_margin: PositiveInt = MISSING  # output tokens allowed beyond that
    no_repeat_ngram: NonNegativeInt = MISSING  # n: no n tokens occur twice in an output; 0: off
    batch_size: PositiveInt = MISSING  # sentences
    quantization: Annotated[str, one_of(*QUANTIZATIONS)] = MISSING  # of CTranslate2's weights
