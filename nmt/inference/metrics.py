"""Corpus scores by sacreBLEU, with the signatures that make them comparable."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from nmt.text.scripts import primary_subtag

RESAMPLES = 1000  # for confidence intervals; sacreBLEU's default

# Further references: each set has one for every sentence, or None.
References = Sequence[Sequence[str | None]]

# Primary subtags of BCP 47 tags of languages for which sacreBLEU has a tokenizer.
_CHINESE = frozenset("zh zho chi cmn gan hak hsn lzh wuu yue".split())
_JAPANESE = frozenset(("ja", "jpn"))
_KOREAN = frozenset(("ko", "kor"))
# Languages without spaces between words for which sacreBLEU has no tokenizer: Burmese, Dzongkha,
# Khmer, Lao, Thai, Tibetan. Its default tokenizer would compare whole sentences.
_WITHOUT_SPACES = frozenset("bo bod dz dzo km khm lo lao my mya th tha tib bur".split())


@dataclass(frozen=True)
class Score:
    """One metric on one corpus."""

    name: str
    value: float
    signature: str
    mean: float | None = None  # of the bootstrap resamples
    half_width: float | None = None  # of their 95% confidence interval


def make_metrics(language: str) -> dict[str, Metric]:
    """Return the metrics for text in a language, a BCP 47 tag."""
    # TER compares words, or with `asian_support` Chinese and Japanese characters.
    is_asian = primary_subtag(language) in _CHINESE | _JAPANESE
    return {
        # Forced: outputs of a model in training need no advice on tokenized points.
        "BLEU": BLEU(tokenize=choose_tokenizer(primary_subtag(language)), force=True),
        "chrF2++": CHRF(word_order=2),
        "TER": TER(normalized=is_asian, asian_support=is_asian),
    }


@cache  # warns once
def choose_tokenizer(language: str) -> str:
    """Return the BLEU tokenizer of a language: sacreBLEU's choice for ``trg_lang``, if possible.

    Characters are compared if that tokenizer's packages are missing, and in languages without
    spaces between words for which sacreBLEU has no tokenizer. The signature of a score names it.
    """
    if language in _CHINESE:
        return "zh"
    if language in _WITHOUT_SPACES:
        return "char"
    for languages, code, name in ((_JAPANESE, "ja", "Japanese"), (_KOREAN, "ko", "Korean")):
        if language in languages:
            try:
                BLEU(tokenize=f"{code}-mecab")
            except RuntimeError:
                warnings.warn(
                    f"BLEU of {name} compares characters, because MeCab is not installed: for "
                    f"sacreBLEU's usual words, pip install 'sacrebleu[{code}]'",
                    stacklevel=2,
                )
                return "char"
            return f"{code}-mecab"
    return BLEU.TOKENIZER_DEFAULT


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str,
    more_references: References = (),
    names: Sequence[str] = ("BLEU", "chrF2++", "TER"),
    intervals: bool = False,
) -> list[Score]:
    """Score translations against one or several references each.

    Args:
        hypotheses: one per sentence.
        references: one per sentence.
        more_references: further ones.
        language: BCP 47 tag of both, decides whether BLEU and TER compare words or characters.
        names: metrics to compute: BLEU, chrF2++, TER (lower is better).
        intervals: whether to bootstrap 95% confidence intervals, which takes seconds; not for a
            single text.

    Raises:
        ValueError: the numbers of hypotheses and references differ or are 0.
    """
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    metrics = make_metrics(language)
    sets: list[Any] = [list(references), *map(list, more_references)]
    sentences = list(hypotheses), sets
    scores = []
    for name in names:
        metric = metrics[name]
        has_interval = intervals and len(references) > 1  # all resamples of one text are that text
        try:
            result = metric.corpus_score(*sentences, n_bootstrap=RESAMPLES if has_interval else 1)
        except TypeError:
            # sacreBLEU 2.6 cannot average resamples if some have no reference but empty ones.
            has_interval = False
            metric = make_metrics(language)[name]  # whose signature names no resamples
            result = metric.corpus_score(*sentences, n_bootstrap=1)
        scores.append(
            Score(
                name,
                float(result.score),
                str(metric.get_signature()),
                mean=float(getattr(result, "_mean", 0.0)) if has_interval else None,
                half_width=float(getattr(result, "_ci", 0.0)) if has_interval else None,
            )
        )
    return scores


def sentence_scores(
    hypotheses: Sequence[str], references: Sequence[str], more_references: References = ()
) -> list[float]:
    """Return the chrF2++ of each sentence, 0 to 100: see `corpus_scores`."""
    metric = CHRF(word_order=2)
    return [
        float(metric.sentence_score(output, [text for text in texts if text is not None]).score)
        for output, *texts in zip(hypotheses, references, *more_references, strict=True)
    ]


def expected_chrf(candidates: Sequence[str], samples: Sequence[str]) -> list[float]:
    """Return the mean chrF (0 to 100) of each candidate against all samples as references."""
    metric = CHRF()
    counts = Counter(samples)
    return [
        sum(
            count * float(metric.sentence_score(candidate, [sample]).score)
            for sample, count in counts.items()
        )
        / len(samples)
        for candidate in candidates
    ]
