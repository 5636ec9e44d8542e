"""The ``decoding`` group."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.config.checks import MISSING, check_at_least, check_choice

ENGINES = ("auto", "keras", "ctranslate2")
QUANTIZATIONS = ("float32", "int8")
UNITS = ("sentence", "line")


@dataclass
class DecodingConfig:
    """The search for translations after training."""

    # sentence: texts are cut into sentences; line: a text is one segment unless it is too long, for
    # models that were trained on longer texts.
    unit: str = MISSING
    beam_size: int = MISSING  # 1 is greedy
    length_penalty: float = MISSING  # alpha of Wu et al. 2016, equation 14
    max_length_ratio: float = MISSING  # output tokens per source token
    max_length_margin: int = MISSING  # output tokens allowed beyond that
    no_repeat_ngram: int = MISSING  # n: no n tokens occur twice in an output; 0: off
    batch_size: int = MISSING  # sentences
    quantization: str = MISSING  # float32 | int8: number format of CTranslate2's weights


def check_decoding(config: DecodingConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first invalid key and its valid values.
    """
    check_choice("decoding.unit", config.unit, UNITS)
    check_at_least("decoding.beam_size", config.beam_size, 1)
    check_at_least("decoding.batch_size", config.batch_size, 1)
    check_at_least("decoding.length_penalty", config.length_penalty, 0)
    check_at_least("decoding.max_length_ratio", config.max_length_ratio, 0)
    check_at_least("decoding.max_length_margin", config.max_length_margin, 1)
    check_at_least("decoding.no_repeat_ngram", config.no_repeat_ngram, 0)
    check_choice("decoding.quantization", config.quantization, QUANTIZATIONS)
