"""All that is measured of systems on the same sentences, and of each one against the first."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from rich.console import Console

from nmt.analysis.comparison.confidence import Reliability, measure_reliability
from nmt.analysis.comparison.coverage import Coverage, measure_coverage
from nmt.analysis.comparison.interactions import (
    MIN_SENTENCES,
    SliceResult,
    choose_findings,
    score_slices,
)
from nmt.analysis.comparison.slices import (
    Slice,
    TrainingWords,
    drop_repeated,
    make_slices,
    read_training_words,
)
from nmt.analysis.comparison.stored import METRIC
from nmt.analysis.comparison.systems import DataReader, EvaluationData, System
from nmt.analysis.comparison.weights import (
    WeightDifference,
    compare_weights,
    list_silent,
    measure_heads,
)
from nmt.analysis.comparison.words import FrequencyScores, NgramLead, find_leads, score_frequencies
from nmt.errors import UserError
from nmt.inference.contract import SearchRequest
from nmt.inference.evaluation import translate_with_progress
from nmt.inference.quality import QUALITY_FILE
from nmt.inference.segments import SegmentedText
from nmt.inference.significance import (
    RATE,
    Exchanges,
    PairedTest,
    Statistics,
    compare_scores,
    compare_selections,
    correct_p_values,
    count_statistics,
)
from nmt.startup.quiet import quiet_start
from nmt.text.case import LetterCase, apply_case
from nmt.text.noise import SOURCE_CHANGES

_SEED = 1  # of noise
_NOISE_NAMES = {
    "case": "other letter case",
    "typos": "a typing error",
    "accents": "missing accents",
    "punctuation": "missing or doubled marks",
}


@dataclass
class SystemResult:
    """The measurements of one system."""

    system: System
    statistics: Mapping[str, Statistics]  # by metric
    noise: dict[str, Statistics] = field(default_factory=dict)  # of METRIC, by kind
    coverage: Coverage | None = None
    reliability: Reliability | None = None
    silent_heads: Sequence[str] = ()  # that write next to nothing

    @cached_property
    def sentence_scores(self) -> list[float]:
        """METRIC of each sentence."""
        scores: list[float] = self.statistics[METRIC].score_each().tolist()
        return scores


@dataclass
class PairResult:
    """The measurements of a system against the first one."""

    first: SystemResult
    second: SystemResult
    tests: Mapping[str, PairedTest]  # by metric
    p_values: dict[str, float]  # by metric, corrected for the number of compared systems
    slices: Sequence[SliceResult]
    findings: Sequence[SliceResult]
    leads: Sequence[NgramLead]
    noise: Mapping[str, PairedTest]  # by kind: of the same difference as on clean sources
    coverage: Mapping[str, PairedTest]  # "omissions", "additions"
    weights: WeightDifference | None = None


@dataclass
class Analysis:
    """The whole comparison; with one system, its own analysis."""

    data: EvaluationData
    slices: Sequence[Slice]
    results: Sequence[SystemResult]
    frequencies: Sequence[FrequencyScores]  # empty: the training words are unknown
    reference_coverage: Coverage | None  # of the references: what the measure finds without errors
    aligner: str  # name of the system that aligned; "" if there was none
    pairs: list[PairResult] = field(default_factory=list)


def analyze(
    systems: Sequence[System],
    data: EvaluationData,
    reader: DataReader,
    console: Console,
    *,
    noise: bool,
    search: Mapping[str, Any],
) -> Analysis:
    """Measure systems that have their outputs.

    Args:
        systems: at least one.
        data: sentences.
        reader: of the sentences.
        console: shows progress.
        noise: whether runs also translate changed sources.
        search: ``beam_size`` and ``length_penalty`` of the outputs.
    """
    run = next((system.run for system in systems if system.run is not None), None)
    words = TrainingWords({}, {})
    if run is not None:
        words = read_training_words(run, partial(reader.corpus, run), data.sources, console.print)
    groups = _drop_small_groups(data.groups)
    every_slice = make_slices(data.sources, data.references, data.languages, words, groups)
    slices = drop_repeated(every_slice)
    results = [
        SystemResult(
            system, count_statistics(system.outputs, data.references, language=data.languages[1])
        )
        for system in systems
    ]
    outputs = [system.outputs for system in systems]
    frequencies = score_frequencies(data.references, outputs, words.target) if words.target else []
    aligner = next((system for system in systems if system.model is not None), None)
    reference_coverage = None
    for result in results:
        if result.system.model is not None:
            _measure_run(result, data, reader, console, noise=noise, search=search)
    if aligner is not None:
        reference_coverage = _measure_coverage(aligner, results, data, words, console)
    analysis = Analysis(
        data,
        slices,
        results,
        frequencies,
        reference_coverage,
        aligner.name if aligner and reference_coverage else "",
    )
    analysis.pairs = compare_with_first(results, data, slices)
    return analysis


def _drop_small_groups(groups: Sequence[str]) -> list[str]:
    """Return the group of each sentence; "" for groups too small to be tested."""
    sizes = Counter(groups)
    return [group if sizes[group] >= MIN_SENTENCES else "" for group in groups]


def _measure_run(
    result: SystemResult,
    data: EvaluationData,
    reader: DataReader,
    console: Console,
    *,
    noise: bool,
    search: Mapping[str, Any],
) -> None:
    """Measure what needs the model: heads, confidence, and translations of changed sources."""
    system = result.system
    assert system.model is not None, "only of runs"
    translator = system.load()
    inputs = reader.read_inputs(system, data)
    if (system.model.path / QUALITY_FILE).is_file():
        request = SearchRequest(quality=True, **search)
        result.reliability = measure_reliability(
            translator, inputs, data.references, request, console
        )
    if noise:
        sentences = [translator.segmenter.split_tag(text)[2] for text in data.sources]
        for kind, change in SOURCE_CHANGES.items():
            rng = random.Random(f"{_SEED} {kind}")
            sources = [
                text.removesuffix(sentence) + change(sentence, rng)  # tags and contexts stay
                for text, sentence in zip(inputs, sentences, strict=True)
            ]
            outputs = translate_with_progress(translator, sources, console, **search)
            references = data.references
            if kind == "case":
                references = _apply_cases(references, translator.segmenter.segment_all(sources))
            result.noise[_NOISE_NAMES[kind]] = count_statistics(
                outputs, references, language=data.languages[1], names=(METRIC,)
            )[METRIC]
    with quiet_start():
        result.silent_heads = list_silent(measure_heads(system.model.load_model()))


def _apply_cases(references: Sequence[str], sources: Sequence[SegmentedText]) -> list[str]:
    """Return references in the letter case of their sources, as translations are written."""
    return [
        apply_case(reference, _find_case(source))
        for reference, source in zip(references, sources, strict=True)
    ]


def _find_case(source: SegmentedText) -> LetterCase:
    """Return the letter case of the longest segment of a text."""
    longest = max(source.segments, key=lambda segment: len(segment.text), default=None)
    return LetterCase.ORDINARY if longest is None else longest.case


def _measure_coverage(
    aligner: System,
    results: Sequence[SystemResult],
    data: EvaluationData,
    words: TrainingWords,
    console: Console,
) -> Coverage | None:
    """Set the coverage of all systems, and return that of the references; None: no alignment."""
    translator = aligner.load()
    if not words.source:
        words = TrainingWords.count(data.pairs)
    sources, function_words = data.sources, words.function_words
    try:
        for result in results:
            result.coverage = measure_coverage(
                translator, sources, result.system.outputs, function_words, console
            )
        return measure_coverage(translator, sources, data.references, function_words, console)
    except UserError as error:  # a model without attention
        console.print(f"no omissions and additions: {error}")
        return None


def compare_with_first(
    results: Sequence[SystemResult], data: EvaluationData, slices: Sequence[Slice]
) -> list[PairResult]:
    """Compare each of the other systems with the first one."""
    pairs = [compare(results[0], other, data, slices) for other in results[1:]]
    for name in results[0].statistics:
        corrected = correct_p_values([pair.tests[name].p_value for pair in pairs])
        for pair, p_value in zip(pairs, corrected, strict=True):
            pair.p_values[name] = p_value
    return pairs


def compare(
    first: SystemResult, second: SystemResult, data: EvaluationData, slices: Sequence[Slice]
) -> PairResult:
    """Compare a system with the first one, as the only one."""
    exchanges = Exchanges(len(data.pairs))
    statistics = first.statistics[METRIC], second.statistics[METRIC]
    slice_results = score_slices(*statistics, slices)
    models = first.system.model, second.system.model
    tests = {
        name: compare_scores(each, second.statistics[name], exchanges)
        for name, each in first.statistics.items()
    }
    return PairResult(
        first,
        second,
        tests,
        p_values={name: test.p_value for name, test in tests.items()},
        slices=slice_results,
        findings=choose_findings(*statistics, slice_results),
        leads=find_leads(data.references, (first.system.outputs, second.system.outputs)),
        noise=_compare_noise(first, second),
        coverage=_compare_coverage(first, second, exchanges),
        weights=compare_weights(models[0], models[1]) if models[0] and models[1] else None,
    )


def _compare_noise(first: SystemResult, second: SystemResult) -> dict[str, PairedTest]:
    """Test whether noise changes the difference between two systems."""
    tests = {}
    count = len(first.statistics[METRIC].counts)
    exchanges = Exchanges(count, copies=2)
    noisy = np.arange(2 * count) >= count
    for kind in (kind for kind in first.noise if kind in second.noise):
        counts = [
            np.concatenate([each.statistics[METRIC].counts, each.noise[kind].counts])
            for each in (first, second)
        ]
        before, after = (Statistics(METRIC, each) for each in counts)
        [tests[kind]] = compare_selections(before, after, noisy[None], exchanges, contrasts=True)
    return tests


def _compare_coverage(
    first: SystemResult, second: SystemResult, exchanges: Exchanges
) -> dict[str, PairedTest]:
    """Test the differences of the rates of omissions and additions, in percent."""
    if first.coverage is None or second.coverage is None:
        return {}
    tests = {}
    for name, columns in (
        ("omissions", ("omitted", "content")),
        ("additions", ("added", "written")),
    ):
        both = [
            Statistics(
                RATE, np.stack([getattr(each, column) for column in columns], 1).astype(float)
            )
            for each in (first.coverage, second.coverage)
        ]
        tests[name] = compare_scores(both[0], both[1], exchanges)
    return tests
