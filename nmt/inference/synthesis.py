"""Synthetic pairs: text in one language, translated by a run and filtered.

- Back-translation (Sennrich et al. 2016): text in the target language, translated by a run of the
  other direction. A model trained on it learns to write human text.
- Forward translation, or sequence-level distillation (Kim & Rush 2016): text in the source
  language, translated by a better or larger run.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from nmt.config import DataConfig
from nmt.data.filtering import differ_in_length
from nmt.data.languages import find_code, make_identifier
from nmt.inference.contract import SEEDS, SamplingRequest, SearchRequest
from nmt.inference.metrics import sentence_scores
from nmt.inference.pipeline import Request
from nmt.inference.results import Translation
from nmt.inference.translator import Translator
from nmt.text.cleaning import clean_text
from nmt.text.words import split_words_and_letters

_DROPPED, _WINDOW = 0.1, 3  # noise: share of dropped words, and how far words may move


@dataclass(frozen=True)
class Filters:
    """Limits of accepted pairs.

    Attributes:
        min_score: mean log-probability of a translation's tokens, in nats; None: any.
        max_repeats: how often a word, or two or three words, may occur in a row.
        max_length_ratio: longer side / shorter side, in characters.
        length_ratio_margin: difference in characters that is always allowed.
        length_ratio: usual length of a translation / length of its text, in characters.
        languages: expected languages of (text, translation); None: any.
        min_round_trip: chrF2++ (0 to 100) of the text translated there and back against itself;
            None: any.
    """

    min_score: float | None
    max_repeats: int
    max_length_ratio: float
    length_ratio_margin: int
    length_ratio: float = 1.0
    languages: tuple[str, str] | None = None
    min_round_trip: float | None = None


class SyntheticPair(NamedTuple):
    """A line of text and its translation."""

    text: str
    translation: str
    reason: str  # why the pair is rejected; empty: it is accepted


class Synthesizer:
    """Translates lines and filters the pairs.

    Args:
        translator: translates the lines.
        request: how to translate.
        filters: limits of accepted pairs.
        adds_noise: whether to drop words of translations, and to move words by up to three
            positions (Edunov et al. 2018, section 3, without their filler word).
        seed: seed of the noise.
        back_translator: translates back, for ``filters.min_round_trip``; None: no round trips.

    Raises:
        UserError: ``filters.languages`` is given, but the language identifier is not installed or
            does not know them.
    """

    def __init__(
        self,
        translator: Translator,
        request: Request,
        filters: Filters,
        *,
        adds_noise: bool = False,
        seed: int = 1,
        back_translator: Translator | None = None,
    ) -> None:
        self.translator, self.request, self.filters = translator, request, filters
        self.back_translator = back_translator
        self.adds_noise, self.seed = adds_noise, seed
        self._identify = (
            make_identifier(filters.languages, "--language") if filters.languages else None
        )

    def synthesize(self, lines: Sequence[str], first: int) -> list[SyntheticPair]:
        """Return one pair per line; the lines before them change nothing.

        Args:
            lines: lines of text.
            first: number of the first of them, from 0.
        """
        texts = [clean_text(line) for line in lines]
        request = self.request
        if isinstance(request, SamplingRequest):  # equal lines of two chunks get different samples
            request = replace(request, seed=(request.seed + first) % SEEDS)
        outputs = [
            hypotheses[0] if hypotheses else None
            for hypotheses in self.translator.run(texts, request)
        ]
        translations = [
            "" if output is None else clean_text(self._add_noise(output.text, number))
            for number, output in enumerate(outputs, first)
        ]
        reasons = [
            self._find_reason(text, translation, output)
            for text, translation, output in zip(texts, translations, outputs, strict=True)
        ]
        self._reject_round_trips(texts, outputs, reasons)
        return [SyntheticPair(*pair) for pair in zip(texts, translations, reasons, strict=True)]

    def _add_noise(self, text: str, number: int) -> str:
        """Return the translation of a line with the noise of its number, if noise is added."""
        if not self.adds_noise:
            return text
        generator = random.Random(f"{self.seed} {number}")
        words = text.split()
        words = [word for word in words if generator.random() >= _DROPPED] or words[:1]
        positions = [i + generator.uniform(0, _WINDOW) for i in range(len(words))]
        return " ".join(words[i] for i in sorted(range(len(words)), key=positions.__getitem__))

    def _find_reason(self, text: str, translation: str, output: Translation | None) -> str:
        """Return the reason why a pair is rejected; empty if it is accepted."""
        filters = self.filters
        if output is None or not text or not translation:
            return "empty"
        if text.casefold() == translation.casefold():
            return "copied"
        mean = output.log_prob / max(len(output.tokens), 1)
        if filters.min_score is not None and mean < filters.min_score:
            return "score"
        limits = filters.max_length_ratio, filters.length_ratio_margin
        if differ_in_length(text, translation, filters.length_ratio, *limits):
            return "length ratio"
        if count_repeats(translation) > max(filters.max_repeats, count_repeats(text)):
            return "repetition"
        if self._identify is not None and filters.languages is not None:
            codes = map(find_code, filters.languages)
            sides = zip((text, translation), codes, strict=True)
            if any(self._identify(side) not in (code, None) for side, code in sides):
                return "language"
        return ""

    def _reject_round_trips(
        self, texts: Sequence[str], outputs: Sequence[Translation | None], reasons: list[str]
    ) -> None:
        """Add a reason to accepted pairs whose translation does not translate back."""
        if self.back_translator is None or self.filters.min_round_trip is None:
            return
        accepted = [i for i, reason in enumerate(reasons) if not reason]
        sent = [output.text for i in accepted if (output := outputs[i]) is not None]
        returned = self.back_translator.run(sent, SearchRequest(beam_size=1))
        scores = sentence_scores([best.text for best, *_ in returned], [texts[i] for i in accepted])
        for i, score in zip(accepted, scores, strict=True):
            if score < self.filters.min_round_trip:
                reasons[i] = "round trip"


def count_repeats(text: str) -> int:
    """Return how often a word, or two or three words, occur in a row at most.

    In scripts without spaces, letters count in place of words.
    """
    words = split_words_and_letters(text.casefold())
    longest_run = 1
    for size in (1, 2, 3):
        for begin in range(size):
            count = 1
            for i in range(begin + size, len(words) - size + 1, size):
                count = count + 1 if words[i : i + size] == words[i - size : i] else 1
                longest_run = max(longest_run, count)
    return longest_run if words else 0


def default_filters(data: DataConfig, length_ratios: Mapping[str, float]) -> Filters:
    """Return filters that suit the data of a run.

    Args:
        data: the run's configuration.
        length_ratios: by source, as in the run's corpus record; the first source counts.
    """
    name = next((name for name in data.sources if name in length_ratios), None)
    ratio = 1.0 if name is None else length_ratios[name]
    is_reversed = name is not None and data.sources[name].reverse != data.reverse
    return Filters(
        min_score=None,
        max_repeats=3,
        max_length_ratio=data.max_length_ratio,
        length_ratio_margin=data.length_ratio_margin,
        length_ratio=1 / ratio if is_reversed else ratio,
    )
