"""A comparison as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nmt.analysis.comparison.analysis import Analysis, PairResult, SystemResult
from nmt.analysis.comparison.findings import correct_tests, describe_pair, describe_single
from nmt.analysis.comparison.recipes import find_recipes, recipes_as_json
from nmt.analysis.comparison.sections import Example, Section
from nmt.analysis.comparison.stored import METRIC
from nmt.analysis.tables import Listing, escape_markdown
from nmt.inference.significance import PairedTest
from nmt.text.words import join_words


def describe(analysis: Analysis) -> dict[str, list[str]]:
    """Return the findings by title: of each system against the first one, or of a single one."""
    if not analysis.pairs:
        return {analysis.results[0].system.name: describe_single(analysis)}
    first = analysis.results[0].system.name
    return {
        f"{pair.second.system.name} against {first}": describe_pair(pair) for pair in analysis.pairs
    }


def make_title(analysis: Analysis) -> str:
    """Return ``b against a``."""
    first, *others = (result.system.name for result in analysis.results)
    return f"{', '.join(others)} against {first}" if others else first


def as_markdown(
    analysis: Analysis, sections: Sequence[Section], listings: Sequence[Listing]
) -> str:
    """Return the summary: findings, tables, and examples as text.

    Args:
        analysis: all measurements.
        sections: of the report.
        listings: more tables, at the end.
    """
    parts = [f"# {escape_markdown(make_title(analysis))}\n"]
    for title, findings in describe(analysis).items():
        shown = map(escape_markdown, findings)
        lines = "".join(f"{number}. {line}\n" for number, line in enumerate(shown, 1))
        parts.append(f"## Findings: {escape_markdown(title)}\n\n{lines}")
    for section in sections:
        for listing in section.listings:
            note = f"## {escape_markdown(listing.title)}\n\n{escape_markdown(listing.note)}\n"
            parts.append(listing.as_markdown() if listing.rows else note)
        if section.examples:
            parts.append(f"## {escape_markdown(section.title)}\n")
            parts += [_example_as_markdown(each, section.names) for each in section.examples]
    return "\n".join([*parts, *(listing.as_markdown() for listing in listings)])


def _example_as_markdown(example: Example, names: Sequence[str]) -> str:
    reference, _ = join_words([word for word in example.grid.reference if word])
    rows = [("source", escape_markdown(example.source)), ("reference", escape_markdown(reference))]
    for name, row, score in zip(names, example.grid.outputs, example.scores, strict=True):
        words = " ".join(
            escape_markdown(word.text) if word.is_right else f"*{escape_markdown(word.text)}*"
            for word in row
            if word.text
        )
        rows.append((f"{escape_markdown(name)} ({score:.1f})", words))
    lines = "".join(f"- {name}: {text}\n" for name, text in rows)
    return f"Sentence {example.number}\n\n{lines}"


def as_json(analysis: Analysis) -> dict[str, Any]:
    """Return all numbers."""
    coverage = analysis.reference_coverage
    return {
        "data": analysis.data.name,
        "pairs": [list(pair) for pair in analysis.data.pairs],
        "languages": list(analysis.data.languages),
        "findings": describe(analysis),
        "systems": [_system_as_json(result) for result in analysis.results],
        "recipes": recipes_as_json(find_recipes(analysis.results)),
        "compared": [_pair_as_json(pair) for pair in analysis.pairs],
        "slices": [
            {"name": each.name, "family": each.family, "sentences": each.size}
            for each in analysis.slices
        ],
        "word_f1_by_frequency": [each._asdict() for each in analysis.frequencies],
        "references": None
        if coverage is None
        else {"omissions": coverage.omission_rate, "additions": coverage.addition_rate},
    }


def _system_as_json(result: SystemResult) -> dict[str, Any]:
    system, coverage, reliability = result.system, result.coverage, result.reliability
    return {
        "name": system.name,
        "path": str(system.path),
        "outputs": {"stored_in": system.stored_in, "seconds": system.seconds},
        "scores": {name: each.score() for name, each in result.statistics.items()},
        f"{METRIC} under noise": {kind: each.score() for kind, each in result.noise.items()},
        "silent_heads": list(result.silent_heads),
        "omissions": coverage.omission_rate if coverage else None,
        "additions": coverage.addition_rate if coverage else None,
        "confidence": None
        if reliability is None
        else {
            "sentences": reliability.sentences,
            "words": reliability.words,
            "expected_calibration_error": reliability.calibration_error,
            "bins": [each._asdict() for each in reliability.bins],
        },
        "sentences": [
            {"output": output, METRIC: score}
            for output, score in zip(system.outputs, result.sentence_scores, strict=True)
        ],
    }


def _pair_as_json(pair: PairResult) -> dict[str, Any]:
    weights = pair.weights
    return {
        "first": pair.first.system.name,
        "second": pair.second.system.name,
        "differences": _tests_as_json(pair.tests, pair.p_values),
        "slices": [
            {
                "name": each.slice.name,
                "sentences": each.slice.size,
                "inside": list(each.inside),
                "outside": list(each.outside),
                "interaction": each.test._asdict() if each.test else None,
                "corrected_p_value": each.p_value,
            }
            for each in pair.slices
        ],
        "findings": [each.slice.name for each in pair.findings],
        "noise": _tests_as_json(pair.noise, correct_tests(pair.noise)),
        "coverage": _tests_as_json(pair.coverage, correct_tests(pair.coverage)),
        "ngrams": [each._asdict() for each in pair.leads],
        "weights": None
        if weights is None
        else {"arrays": weights.arrays, "changed": dict(weights.changed)},
    }


def _tests_as_json(
    tests: Mapping[str, PairedTest], corrected: Mapping[str, float]
) -> dict[str, Any]:
    return {
        name: test._asdict() | {"corrected_p_value": corrected[name]}
        for name, test in tests.items()
    }
