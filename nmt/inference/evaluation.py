"""Translate a set of pairs and score the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nmt.config import DecodingConfig
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.inference.contract import SearchRequest
from nmt.inference.forcing import count_tokens
from nmt.inference.metrics import Score, corpus_scores, paired_bootstrap, sentence_scores
from nmt.inference.results import PairScore
from nmt.inference.translator import Translator

T = TypeVar("T")
R = TypeVar("R")

_CHUNK = 512  # sentences between two moves of the progress bar
_LENGTHS = (0, 5, 10, 20, math.inf)  # words: above each, up to the next, is a class of sources


@dataclass(frozen=True)
class LengthClass:
    """Scores of the sentences of similar length."""

    words: str  # in the source, as "6-10" or "over 20"
    sentences: int
    scores: Sequence[Score]  # BLEU, chrF2++


@dataclass(frozen=True)
class Translated:
    """One sentence of an evaluation."""

    source: str
    reference: str
    output: str
    score: float  # chrF2++ of this sentence alone


@dataclass(frozen=True)
class Evaluation:
    """Translations of a set of pairs, and their scores."""

    pairs: Sequence[Pair]
    outputs: Sequence[str]
    scores: Sequence[Score]
    language: str  # BCP 47 tag of the outputs

    def as_json(self) -> dict[str, Any]:
        """Return scores and sentences, for a file."""
        return {
            "sentences": len(self.pairs),
            "scores": {score.name: asdict(score) for score in self.scores},
            "by_length": [
                {"words": found.words, "sentences": found.sentences}
                | {score.name: score.value for score in found.scores}
                for found in self.by_length
            ],
            "outputs": [
                {"source": pair.source, "reference": pair.target, "output": output}
                for pair, output in zip(self.pairs, self.outputs, strict=True)
            ],
        }

    @cached_property
    def by_length(self) -> list[LengthClass]:
        """Score short and long sentences apart: 1-5, 6-10, 11-20 and over 20 source words."""
        lengths = [len(pair.source.split()) for pair in self.pairs]
        classes = []
        for above, up_to in pairwise(_LENGTHS):
            chosen = [i for i, n in enumerate(lengths) if above < n <= up_to]
            if chosen:
                scores = corpus_scores(
                    [self.outputs[i] for i in chosen],
                    [self.pairs[i].target for i in chosen],
                    language=self.language,
                    names=("BLEU", "chrF2++"),
                )
                words = f"over {above}" if math.isinf(up_to) else f"{above + 1}-{up_to}"
                classes.append(LengthClass(words, len(chosen), scores))
        return classes

    def worst(self, count: int) -> list[Translated]:
        """Return the ``count`` sentences with the lowest chrF2++, the worst first."""
        if not count:
            return []
        scores = sentence_scores(self.outputs, [pair.target for pair in self.pairs])
        order = sorted(range(len(scores)), key=scores.__getitem__)[:count]
        return [Translated(*self.pairs[i], self.outputs[i], scores[i]) for i in order]

    def lines(self) -> list[str]:
        """Return one printable line per score."""
        return [
            f"{score.name:8}{score.value:6.2f}"
            + (f" ± {score.half_width:.2f}" if score.half_width is not None else "")
            + f"   {score.signature}"
            for score in self.scores
        ]


@dataclass(frozen=True)
class Difference:
    """By how much a system's score differs from a baseline's."""

    value: float
    p_value: float  # of "no difference", by the paired bootstrap


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same pairs."""

    run: str
    other: str
    theirs: Evaluation
    differences: dict[str, Difference]  # by metric

    def as_json(self) -> dict[str, Any]:
        """Return the differences, for a file."""
        return {
            "compared_with": self.other,
            "compared": {
                name: {"difference": one.value, "p_value": one.p_value}
                for name, one in self.differences.items()
            },
        }


@dataclass(frozen=True)
class Perplexity:
    """How surprised the model is by given translations."""

    pieces: int  # of all targets, end marks included
    nats_per_piece: float  # mean negative log-probability
    per_piece: float  # exp of it
    per_word: float  # the same nats spread over white-space words and ends: compares vocabularies


@dataclass(frozen=True)
class Forced:
    """Given translations, and how probable a model finds them."""

    pairs: Sequence[Pair]
    scores: Sequence[PairScore | None]  # None: a side has more tokens than the model positions

    @property
    def too_long(self) -> list[int]:
        """The numbers of the pairs without a score, from 1."""
        return [number for number, score in enumerate(self.scores, 1) if score is None]

    @property
    def perplexity(self) -> Perplexity:
        """Of all pairs together that have a score."""
        return perplexity([score for score in self.scores if score is not None])

    def as_json(self) -> dict[str, Any]:
        """Return the scores with every piece, for a file; null for a pair that has none."""
        return {
            "perplexity": asdict(self.perplexity),
            "too_long": self.too_long,
            "pairs": [
                {"source": pair.source, "target": pair.target}
                | {"log_prob": None if score is None else score.log_prob}
                | {"pieces": [] if score is None else score.pieces}
                | {"log_probs": [] if score is None else score.log_probs}
                for pair, score in zip(self.pairs, self.scores, strict=True)
            ],
        }


def perplexity(scores: Sequence[PairScore]) -> Perplexity:
    """Return the perplexity of a scored corpus."""
    nats = -sum(score.log_prob for score in scores)
    pieces = sum(len(score.pieces) for score in scores)
    # Every word begins with a piece that carries the space before it; the end mark counts as one.
    words = sum(1 + sum(piece.startswith("▁") for piece in score.pieces) for score in scores)
    return Perplexity(
        pieces, nats / pieces, math.exp(nats / pieces), math.exp(min(700.0, nats / words))
    )


def _with_progress(
    work: Callable[[Iterable[Sequence[T]]], Iterator[list[R]]],
    items: Sequence[T],
    what: str,
    console: Console,
) -> list[R]:
    """Do ``work`` chunk by chunk, showing how far it is."""
    done: list[R] = []
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("sentences, left"),
        TimeRemainingColumn(),
    )
    chunks = (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(items))
        for found in work(chunks):
            done += found
            progress.update(task, completed=len(done))
    return done


def translate_with_progress(
    translator: Translator, sources: Sequence[str], console: Console, **search: Any
) -> list[str]:
    """Translate many sentences, showing how far it is."""
    found = _with_progress(
        lambda chunks: translator.stream(chunks, SearchRequest(**search)),
        sources,
        "translating",
        console,
    )
    return [translations[0].text for translations in found]


def force(translator: Translator, pairs: Sequence[Pair], console: Console) -> Forced:
    """Score many given translations, showing how far it is.

    Pairs that are too long for the model have no score.

    Raises:
        UserError: there are no pairs, or all are too long.
    """
    if not pairs:
        raise UserError("there is nothing to score: there are no pairs")
    most = translator.engine.max_length

    def score(chunk: Sequence[Pair]) -> list[PairScore | None]:
        fits = [length <= most for length in count_tokens(translator.tokenizer, chunk)]
        scored = iter(
            translator.score([pair for pair, fit in zip(chunk, fits, strict=True) if fit])
        )
        return [next(scored) if fit else None for fit in fits]

    found = Forced(pairs, _with_progress(partial(map, score), pairs, "scoring", console))
    if len(found.too_long) == len(pairs):
        raise UserError(
            f"there is nothing to score: every pair has a side of more than {most - 1} tokens, "
            "which the model has no positions for"
        )
    return found


def evaluate(
    translator: Translator,
    pairs: Sequence[Pair],
    console: Console,
    *,
    language: str,
    **search: Any,
) -> Evaluation:
    """Translate ``pairs`` and score them by BLEU, chrF2++ and TER with confidence intervals.

    Args:
        translator: of a run.
        pairs: sources, and their references.
        console: shows the progress.
        language: BCP 47 tag of the references.
        search: see `SearchRequest`.

    Raises:
        UserError: there are no pairs.
    """
    if not pairs:
        raise UserError("there is nothing to evaluate: the test split is empty")
    sources = [pair.source for pair in pairs]
    outputs = translate_with_progress(translator, sources, console, **search)
    return judge(pairs, outputs, language)


def judge(pairs: Sequence[Pair], outputs: Sequence[str], language: str) -> Evaluation:
    """Score translations of ``pairs`` into a language as `evaluate` does."""
    references = [pair.target for pair in pairs]
    scores = corpus_scores(outputs, references, language=language, intervals=True)
    return Evaluation(pairs, outputs, scores, language)


def compare(run: str, found: Evaluation, other: str, theirs: Evaluation) -> Comparison:
    """Compare a run with another one on the same pairs, by the paired bootstrap."""
    references = [pair.target for pair in found.pairs]
    compared = paired_bootstrap(theirs.outputs, found.outputs, references, language=found.language)
    differences = {
        name: Difference(system.value - baseline.value, p_value)
        for name, (baseline, system, p_value) in compared.items()
    }
    return Comparison(run, other, theirs, differences)


def name_of(
    decoding: DecodingConfig, *, beam_size: int | None, length_penalty: float | None
) -> str:
    """Return how it was searched, for the name of a file: "beam_4_penalty_0.6" or "greedy"."""
    size = decoding.beam_size if beam_size is None else beam_size
    alpha = decoding.length_penalty if length_penalty is None else length_penalty
    return "greedy" if size == 1 else f"beam_{size}_penalty_{alpha:g}"
