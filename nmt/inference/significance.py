"""Whether two systems differ: paired approximate randomization of the outputs of each sentence.

If the systems do not differ, exchanging their outputs of a sentence changes nothing but chance
(Riezler & Maxwell 2005, On Some Pitfalls in Automatic Evaluation and Significance Testing for MT).
A p-value is the share of random exchanges after which the statistic is at least as large as it is,
the observed one included. sacreBLEU's own test does not count exchanges that give the same
difference: where few sentences differ, its p-values are too small.

Scores of a set of sentences are functions of sums over these sentences, so all exchanges are one
product of matrices. Letters: N sentences, K statistics of a sentence, R exchanges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt.inference.metrics import References, make_metrics

EXCHANGES = 50_000  # R; the smallest p-value is 1 / (R + 1)
RATE = "rate"  # a "metric" that divides the first count by the second one, in percent
_CHUNK = 1000  # exchanges in memory at once
_ORDER = 4  # of BLEU
_BETA = 2.0  # of chrF
_SAME = 1e-9  # differences of scores that rounding makes


class Statistics(NamedTuple):
    """What a metric counts in each sentence of one system."""

    metric: str  # BLEU, chrF2++, TER or RATE
    counts: np.ndarray  # [N, K]

    def score(self, sentences: np.ndarray | None = None) -> float:
        """Return the score of all sentences, or of a selection: a boolean array [N]."""
        counts = self.counts if sentences is None else self.counts[sentences]
        return float(score_totals(self.metric, counts.sum(0)))

    def score_each(self) -> np.ndarray:
        """Return the score of each sentence [N]."""
        return score_totals(self.metric, self.counts)


class PairedTest(NamedTuple):
    """The difference between two systems."""

    difference: float
    p_value: float  # of "no difference"
    deviation: float  # standard deviation of the difference under exchange

    @property
    def evidence(self) -> float:
        """The absolute difference in standard deviations; 0 if no exchange changes anything."""
        return abs(self.difference) / self.deviation if self.deviation > _SAME else 0.0


def count_statistics(
    outputs: Sequence[str],
    references: Sequence[str],
    *,
    language: str,
    more_references: References = (),
    names: Sequence[str] = ("BLEU", "chrF2++", "TER"),
) -> dict[str, Statistics]:
    """Return what metrics count in each sentence, by sacreBLEU.

    Args:
        outputs: one per sentence.
        references: one per sentence.
        language: BCP 47 tag of both.
        more_references: further ones.
        names: metrics to compute; TER takes most of the time.
    """
    metrics = make_metrics(language)
    sets: list[Any] = [references, *more_references]
    return {
        name: Statistics(
            name, np.array(metrics[name]._extract_corpus_statistics(outputs, sets), np.float64)
        )
        for name in names
    }


def score_totals(metric: str, totals: np.ndarray) -> np.ndarray:
    """Return scores [...] of summed counts [..., K]; of metrics as sacreBLEU computes them."""
    scores = {"BLEU": _score_bleu, "chrF2++": _score_chrf, "TER": _score_rate, RATE: _score_rate}
    return scores[metric](totals)


def _divide(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Return the quotient; 0 where the denominator is 0."""
    safe = np.where(denominator > 0, denominator, 1)
    return np.where(denominator > 0, numerator / safe, 0.0)


def _score_bleu(totals: np.ndarray) -> np.ndarray:
    """BLEU with exponential smoothing (Chen & Cherry 2014, method 3)."""
    lengths, references = totals[..., 0], totals[..., 1]
    correct, total = totals[..., 2 : 2 + _ORDER], totals[..., 2 + _ORDER : 2 + 2 * _ORDER]
    missing = (correct == 0) & (total > 0)
    smoothed = 1 / (2.0 ** np.cumsum(missing, axis=-1))
    precisions = _divide(np.where(missing, smoothed, correct), total)
    with np.errstate(divide="ignore"):
        mean = np.exp(np.log(precisions).mean(-1))
        penalty = np.exp(np.minimum(0.0, 1 - references / np.maximum(lengths, _SAME)))
    is_scored = (total > 0).all(-1) & (correct.sum(-1) > 0)
    return np.where(is_scored, 100 * penalty * mean, 0.0)


def _score_chrf(totals: np.ndarray) -> np.ndarray:
    """chrF2++ (Popović 2017): F-score of mean precision and recall over the n-gram orders."""
    outputs, references, matches = (totals[..., at::3] for at in range(3))
    valid = (outputs > 0) & (references > 0)
    orders = valid.sum(-1)
    precision = _divide(np.where(valid, _divide(matches, outputs), 0.0).sum(-1), orders)
    recall = _divide(np.where(valid, _divide(matches, references), 0.0).sum(-1), orders)
    factor = _BETA**2
    return 100 * _divide((1 + factor) * precision * recall, factor * precision + recall)


def _score_rate(totals: np.ndarray) -> np.ndarray:
    """The first count per unit of the second one, in percent; of TER, edits per reference word."""
    events, units = totals[..., 0], totals[..., 1]
    return 100 * np.where(units > 0, _divide(events, units), (events > 0).astype(float))


class Exchanges:
    """Random exchanges of the outputs of two systems, the same for all tests.

    Args:
        sentences: N.
        count: R.
        copies: how many outputs each system has of each sentence, which are exchanged together:
            N clean sources and then N with noise are 2.
        seed: of the draws.
    """

    def __init__(
        self, sentences: int, count: int = EXCHANGES, *, copies: int = 1, seed: int = 1
    ) -> None:
        self.sentences = sentences
        self.count = count
        self._copies = copies
        self._seed = seed

    def chunks(self) -> Iterator[np.ndarray]:
        """Yield which outputs are exchanged: [some of R, copies N], 0 or 1, in float32."""
        generator = np.random.default_rng(self._seed)
        for start in range(0, self.count, _CHUNK):
            shape = (min(_CHUNK, self.count - start), self.sentences)
            drawn = generator.integers(2, size=shape, dtype=np.int8).astype(np.float32)
            yield np.tile(drawn, (1, self._copies))


def compare_outputs(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    *,
    language: str,
    more_references: References = (),
) -> dict[str, PairedTest]:
    """Test the differences between two systems, second minus first, by metric: all sentences."""
    exchanges = Exchanges(len(references))
    counted = [
        count_statistics(each, references, language=language, more_references=more_references)
        for each in (first, second)
    ]
    return {
        name: compare_scores(statistics, counted[1][name], exchanges)
        for name, statistics in counted[0].items()
    }


def compare_scores(first: Statistics, second: Statistics, exchanges: Exchanges) -> PairedTest:
    """Test the difference between the scores of all sentences, second minus first."""
    everything = np.ones((1, len(first.counts)), bool)
    [test] = compare_selections(first, second, everything, exchanges, contrasts=False)
    return test


def compare_selections(
    first: Statistics,
    second: Statistics,
    selections: np.ndarray,
    exchanges: Exchanges,
    *,
    contrasts: bool,
) -> list[PairedTest]:
    """Test the difference between two systems within each selection of sentences.

    Args:
        first: statistics of one system.
        second: of the other one, of the same metric and sentences.
        selections: boolean [selections, N].
        exchanges: of these N sentences.
        contrasts: subtract the difference outside of the selection: whether the systems differ
            more, or otherwise, inside than outside.
    """
    metric = first.metric
    change = (second.counts - first.counts).astype(np.float32)  # [N, K]
    masks = selections.astype(np.float32)
    bases = [masks @ each.counts for each in (first, second)]  # [selections, K]
    rests = [each.counts.sum(0) - base for each, base in zip((first, second), bases, strict=True)]

    def differences(moved: np.ndarray, moved_outside: np.ndarray) -> np.ndarray:
        """Return the statistic if these sums [..., selections, K] change sides."""
        inside = score_totals(metric, bases[1] - moved) - score_totals(metric, bases[0] + moved)
        if not contrasts:
            return inside
        outside = score_totals(metric, rests[1] - moved_outside) - score_totals(
            metric, rests[0] + moved_outside
        )
        return inside - outside

    nothing = np.zeros_like(bases[0])
    observed = differences(nothing, nothing)  # [selections]
    reached = np.zeros(len(selections))
    squares = np.zeros(len(selections))
    for exchanged in exchanges.chunks():
        moved = np.stack(
            [exchanged[:, chosen] @ change[chosen] for chosen in selections], axis=1
        ).astype(np.float64)  # [R, selections, K]
        moved_outside = (exchanged @ change)[:, None] - moved if contrasts else nothing
        values = differences(moved, moved_outside)
        reached += (np.abs(values) >= np.abs(observed) - _SAME).sum(0)
        squares += (values**2).sum(0)
    p_values = (reached + 1) / (exchanges.count + 1)
    deviations = np.sqrt(squares / exchanges.count)
    rows = zip(observed.tolist(), p_values.tolist(), deviations.tolist(), strict=True)
    return [PairedTest(*row) for row in rows]


def correct_p_values(p_values: Sequence[float]) -> list[float]:
    """Return the p-values of several tests after Holm's correction (Holm 1979), in their order."""
    order = np.argsort(p_values, kind="stable")
    corrected = np.zeros(len(p_values))
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected.tolist()


def sign_test(first: int, second: int) -> float:
    """Return the two-sided p-value of these counts if both sides are equally probable."""
    from scipy.special import bdtr  # slow to import

    return min(1.0, 2 * float(bdtr(min(first, second), first + second, 0.5)))


def format_p(p_value: float) -> str:
    """Return ``p < 0.001`` or ``p = 0.012``."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
