"""Translating parts of texts: a long text is not searched in one go."""

from __future__ import annotations

from nmt.inference.results import Translation
from nmt.inference.translator import Translator

_TINY = "a"  # any text compiles the search; this one is short


class SegmentTranslator:
    """A translator in three steps, which give together what `Translator.hypotheses` gives.

    `cut` and `load_attention` may be called on any thread, `hypotheses` and `attention` each on one
    at a time, which may be two.

    Args:
        translator: a translator.
    """

    def __init__(self, translator: Translator) -> None:
        self.decoding = translator.decoding
        self.has_attention = translator.engines.has_keras
        self.attention = translator.attention
        self._keras_engine = translator.keras_engine
        self.hypotheses = translator.hypotheses_of_segments
        self.cut = translator.segmenter.segment
        self._join_best = translator.joiner.join_best

    def load_attention(self) -> None:
        """Load and compile what `attention` needs, so that it does not keep others waiting.

        Raises:
            UserError: the engine has no attention.
        """
        self._keras_engine("attention")
        self.attention(_TINY)

    def join(self, parts: list[list[Translation]], n_best: int) -> list[Translation]:
        """Return up to ``n_best`` translations of a text, given those of its parts."""
        return parts[0] if len(parts) == 1 else self._join_best(parts, n_best)
