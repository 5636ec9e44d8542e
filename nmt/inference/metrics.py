"""Corpus scores, by sacreBLEU, with the signatures that make them comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

RESAMPLES = 1000  # for confidence intervals and the paired bootstrap; sacreBLEU's default


@dataclass(frozen=True)
class Score:
    """One metric on one corpus."""

    name: str
    value: float
    signature: str
    mean: float | None = None  # of the bootstrap resamples
    half_width: float | None = None  # of their 95% confidence interval


def _metrics(references: Sequence[str] | None = None) -> dict[str, Metric]:
    given = None if references is None else [list(references)]
    return {
        "BLEU": BLEU(references=given),
        "chrF2++": CHRF(word_order=2, references=given),
        "TER": TER(references=given),
    }


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    names: Sequence[str] = ("BLEU", "chrF2++", "TER"),
    intervals: bool = False,
) -> list[Score]:
    """Score translations against one reference each.

    Args:
        hypotheses: one per sentence.
        references: one per sentence.
        names: which of BLEU, chrF2++, TER (lower is better).
        intervals: whether to bootstrap 95% confidence intervals (seconds, not milliseconds).

    Raises:
        ValueError: the two differ in number, or there are none.
    """
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    scores = []
    for name in names:
        metric = _metrics()[name]
        sentences = list(hypotheses), [list(references)]
        estimated = intervals
        try:
            result = metric.corpus_score(*sentences, n_bootstrap=RESAMPLES if intervals else 1)
        except TypeError:
            # sacreBLEU 2.6 cannot average resamples where some are perfect by TER and some not.
            estimated = False
            result = metric.corpus_score(*sentences, n_bootstrap=1)
        scores.append(
            Score(
                name,
                float(result.score),
                str(metric.get_signature()),
                mean=float(getattr(result, "_mean", 0.0)) if estimated else None,
                half_width=float(getattr(result, "_ci", 0.0)) if estimated else None,
            )
        )
    return scores


def sentence_scores(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """Return the chrF2++ of each sentence by itself, 0 to 100."""
    metric = _metrics()["chrF2++"]
    return [
        float(metric.sentence_score(hypothesis, [reference]).score)
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]


def expected_chrf(candidates: Sequence[str], samples: Sequence[str]) -> list[float]:
    """Return the mean chrF (0 to 100) of each candidate against all samples as references."""
    metric = CHRF()
    counts = Counter(samples)
    return [
        sum(
            times * float(metric.sentence_score(candidate, [sample]).score)
            for sample, times in counts.items()
        )
        / len(samples)
        for candidate in candidates
    ]


def paired_bootstrap(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str]
) -> dict[str, tuple[Score, Score, float]]:
    """Compare two systems by sacreBLEU's paired bootstrap resampling (Koehn 2004).

    Returns:
        Per metric: baseline score, system score, p-value of "no difference".
    """
    metrics = _metrics(references)
    signatures, results = PairedTest(
        [("baseline", list(baseline)), ("system", list(system))],
        metrics,
        references=None,
        test_type="bs",
        n_samples=RESAMPLES,
    )()
    compared = {}
    for name in metrics:
        pair = [result for result in results[name] if isinstance(result, Result)]
        scores = [
            Score(name, float(result.score), str(signatures[name]), result.mean, result.ci)
            for result in pair
        ]
        # sacreBLEU counts ties as wins, so that a system would differ from itself.
        p_value = 1.0 if list(baseline) == list(system) else float(pair[1].p_value or 0.0)
        compared[name] = (scores[0], scores[1], p_value)
    return compared
