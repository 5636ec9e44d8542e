"""Score given translations, and measure how well a model predicts them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from rich.console import Console

from nmt.data.contexts import remove_contexts
from nmt.data.encoded import fit_contexts
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.inference.evaluation import run_with_progress
from nmt.inference.forced_decoding import count_pair_tokens
from nmt.inference.results import PairScore
from nmt.inference.translator import Translator


@dataclass(frozen=True)
class Perplexity:
    """Perplexity of given translations."""

    pieces: int  # tokens of all targets, EOS included
    nats_per_piece: float  # mean negative log-probability of a token
    per_piece: float  # exp of it
    per_word: float  # the same nats per white-space word or EOS: compares vocabularies


@dataclass(frozen=True)
class ScoredPairs:
    """Given translations and their log-probabilities."""

    pairs: Sequence[Pair]
    scores: Sequence[PairScore | None]  # None: a side has more tokens than the model positions

    @property
    def too_long(self) -> list[int]:
        """Numbers of the pairs without a score, from 1."""
        return [number for number, score in enumerate(self.scores, 1) if score is None]

    @property
    def perplexity(self) -> Perplexity:
        """Perplexity of all pairs that have a score."""
        scored = [
            (score, pair.target)
            for score, pair in zip(self.scores, self.pairs, strict=True)
            if score is not None
        ]
        return measure_perplexity([score for score, _ in scored], [target for _, target in scored])

    def as_json(self) -> dict[str, Any]:
        """Return the scores with every token for a file; null for a pair without a score."""
        return {
            "perplexity": asdict(self.perplexity),
            "too_long": self.too_long,
            "pairs": [
                {
                    "source": pair.source,
                    "target": pair.target,
                    "log_prob": None if score is None else score.log_prob,
                    "pieces": [] if score is None else score.pieces,
                    "log_probs": [] if score is None else score.log_probs,
                }
                for pair, score in zip(self.pairs, self.scores, strict=True)
            ],
        }


def measure_perplexity(scores: Sequence[PairScore], targets: Sequence[str]) -> Perplexity:
    """Return the perplexity of a scored corpus.

    Args:
        scores: of the targets.
        targets: texts.
    """
    nats = -sum(score.log_prob for score in scores)
    tokens = sum(len(score.pieces) for score in scores)
    # Words of the text: a slot is one piece for several words. EOS counts as a word.
    words = sum(len(target.split()) + 1 for target in targets)
    return Perplexity(tokens, nats / tokens, perplexity(nats / tokens), perplexity(nats / words))


def perplexity(nll: float) -> float:
    """Return exp of the mean negative log-likelihood; infinity on overflow."""
    return math.inf if nll >= 700 else math.exp(nll)


def score_with_progress(
    translator: Translator, pairs: Sequence[Pair], console: Console
) -> ScoredPairs:
    """Score given translations, with a progress bar; pairs too long for the model have no score.

    Raises:
        UserError: ``pairs`` is empty, or all pairs are too long.
    """
    if not pairs:
        raise UserError("there is nothing to score: the set of pairs is empty")
    longest = translator.engine.max_length
    segmenter = translator.segmenter
    if segmenter.context:
        pairs = fit_contexts(pairs, translator.tokenizer, segmenter.max_tokens, segmenter.tags)

    def score(chunk: Sequence[Pair]) -> list[PairScore | None]:
        fits = [length <= longest for length in count_pair_tokens(translator.tokenizer, chunk)]
        fitting = [pair for pair, fit in zip(chunk, fits, strict=True) if fit]
        scores = iter(translator.score(fitting))
        return [next(scores) if fit else None for fit in fits]

    scores = run_with_progress(partial(map, score), pairs, "scoring", console)
    scored = ScoredPairs(remove_contexts(pairs), scores)
    if len(scored.too_long) == len(pairs):
        raise UserError(
            f"there is nothing to score: every pair has a side of more than {longest - 1} tokens, "
            "the positions of the model"
        )
    return scored
