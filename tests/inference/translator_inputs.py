"""Sentences and settings of the tests of translators."""

from __future__ import annotations

from nmt import Translator
from nmt.config import DecodingConfig

SENTENCES = [
    "¿Dónde está la estación?",
    "Me gusta el café con leche.",
    "Mañana voy a ir al médico con mi hermana porque no me encuentro bien.",
    "Sí.",
]


DECODING = DecodingConfig(
    beam_size=4,
    length_penalty=0.6,
    max_length_ratio=1.0,
    max_length_margin=8,
    batch_size=16,
    no_repeat_ngram=0,
)


def renew(translator: Translator, unit: str = "sentence") -> Translator:
    """Return a translator that has not warned yet, over the same engine."""
    return Translator(translator.engines, translator.tokenizer, translator.decoding, unit=unit)
