"""Pairs made of text in one language: translated by a run, filtered, and written as a corpus.

- Back-translation (Sennrich et al. 2016): text of the language to translate *into*, which a run of
  the other direction translates. What is learned to be written is then human text.
- Forward translation, or sequence-level distillation (Kim & Rush 2016): text of the language to
  translate *from*, which a better or larger run translates.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from nmt.config import DataConfig
from nmt.data.cleaning import clean_text
from nmt.data.filtering import comparable_lengths
from nmt.data.languages import make_identifier
from nmt.inference.contract import SamplingRequest, SearchRequest
from nmt.inference.metrics import sentence_scores
from nmt.inference.results import Translation
from nmt.inference.translator import Translator

_DROPPED, _WINDOW = 0.1, 3  # of noise: share of words, and how far words may move


@dataclass(frozen=True)
class Filters:
    """What pairs have to be like.

    Attributes:
        min_score: mean log-probability of a translation's tokens, in nats; None: any.
        max_repeats: how often a word, or two or three in a row, may follow itself.
        max_length_ratio: longer side / shorter side, in characters.
        length_ratio_margin: characters by which any pair may differ all the same.
        length_ratio: characters of a usual translation by those of its text.
        languages: what both sides should be, (given, translated); None: not looked at.
        min_round_trip: chrF2++ (0 to 100) of the text against itself translated there and back;
            None: not looked at.
    """

    min_score: float | None
    max_repeats: int
    max_length_ratio: float
    length_ratio_margin: int
    length_ratio: float = 1.0
    languages: tuple[str, str] | None = None
    min_round_trip: float | None = None


class Made(NamedTuple):
    """What became of one line."""

    text: str
    translation: str
    reason: str  # why it is rejected; empty: it is kept


class Synthesis:
    """Translates lines and filters the pairs.

    Args:
        translator: of the run, or of several.
        request: how to translate.
        filters: what is kept.
        noisy: whether words of translations are dropped, and moved by up to three places (Edunov
            et al. 2018, section 3, without their filler word).
        seed: of that noise.
        back: translates back, for ``filters.min_round_trip``; None: nothing does.

    Raises:
        UserError: languages are to be identified, and what does that is not installed, or does not
            know them.
    """

    def __init__(
        self,
        translator: Translator,
        request: SearchRequest | SamplingRequest,
        filters: Filters,
        *,
        noisy: bool = False,
        seed: int = 1,
        back: Translator | None = None,
    ) -> None:
        self.translator, self.request, self.filters, self.back = translator, request, filters, back
        self.noisy, self.seed = noisy, seed
        self._identify = (
            make_identifier(filters.languages, "--language") if filters.languages else None
        )

    def make(self, lines: Sequence[str], first: int) -> list[Made]:
        """Return what becomes of lines; the same whatever lines come before them.

        Args:
            lines: of text.
            first: number of the first of them, from 0.
        """
        texts = [clean_text(line) for line in lines]
        request = self.request
        if isinstance(request, SamplingRequest):  # equal lines get different samples
            request = replace(request, seed=request.seed + first)
        found = [one[0] if one else None for one in self.translator.run(texts, request)]
        spoiled = [
            self._spoil(one.text, first + i) if one and self.noisy else one.text if one else ""
            for i, one in enumerate(found)
        ]
        translations = [clean_text(text) for text in spoiled]
        reasons = [
            self._find_fault(text, translation, one)
            for text, translation, one in zip(texts, translations, found, strict=True)
        ]
        self._compare_round_trips(texts, found, reasons)
        return [Made(*one) for one in zip(texts, translations, reasons, strict=True)]

    def _spoil(self, text: str, number: int) -> str:
        generator = random.Random(f"{self.seed} {number}")
        words = text.split()
        kept = [word for word in words if generator.random() >= _DROPPED] or words[:1]
        places = [i + generator.uniform(0, _WINDOW) for i in range(len(kept))]
        return " ".join(kept[i] for i in sorted(range(len(kept)), key=places.__getitem__))

    def _find_fault(self, text: str, translation: str, found: Translation | None) -> str:
        """Return the reason why a pair is rejected; empty if there is none."""
        filters = self.filters
        if found is None or not text or not translation:
            return "empty"
        if text.casefold() == translation.casefold():
            return "copied"
        mean = found.log_prob / max(len(found.tokens), 1)
        if filters.min_score is not None and mean < filters.min_score:
            return "score"
        shorter, longer = comparable_lengths(text, translation, filters.length_ratio)
        if longer > filters.max_length_ratio * shorter + filters.length_ratio_margin:
            return "length ratio"
        if count_repeats(translation) > max(filters.max_repeats, count_repeats(text)):
            return "repetition"
        if self._identify is not None and filters.languages is not None:
            expected = zip((text, translation), filters.languages, strict=True)
            if any(self._identify(one) not in (language, None) for one, language in expected):
                return "language"
        return ""

    def _compare_round_trips(
        self, texts: Sequence[str], found: Sequence[Translation | None], reasons: list[str]
    ) -> None:
        """Reject what does not come back."""
        if self.back is None or self.filters.min_round_trip is None:
            return
        places = [i for i, reason in enumerate(reasons) if not reason]
        there = [one.text for i in places if (one := found[i]) is not None]
        came = [one[0].text for one in self.back.run(there, SearchRequest(beam_size=1))]
        scores = sentence_scores(came, [texts[i] for i in places]) if places else []
        for i, score in zip(places, scores, strict=True):
            if score < self.filters.min_round_trip:
                reasons[i] = "round trip"


def count_repeats(text: str) -> int:
    """Return how often a word, or two or three in a row, follow themselves at most."""
    words = text.casefold().split()
    most = 1
    for size in (1, 2, 3):
        for begin in range(size):
            row = 1
            for i in range(begin + size, len(words) - size + 1, size):
                row = row + 1 if words[i : i + size] == words[i - size : i] else 1
                most = max(most, row)
    return most if words else 0


def default_filters(data: DataConfig, length_ratios: Mapping[str, float]) -> Filters:
    """Return the filters that suit what a run was trained on.

    Args:
        data: of the run.
        length_ratios: of its sources, as its corpus record has them; those of the first count.
    """
    name = next((name for name in data.sources if name in length_ratios), None)
    ratio = 1.0 if name is None else length_ratios[name]
    turned = name is not None and data.sources[name].reverse != data.reverse
    return Filters(
        min_score=None,
        max_repeats=3,
        max_length_ratio=data.max_length_ratio,
        length_ratio_margin=data.length_ratio_margin,
        length_ratio=1 / ratio if turned else ratio,
    )
