"""What a comparison says of systems whose differences are known."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from rich.console import Console
from sample_configs import changed, configured

from nmt.analysis.comparison.analysis import (
    Analysis,
    SystemResult,
    compare,
    compare_with_first,
)
from nmt.analysis.comparison.analysis import analyze as measure
from nmt.analysis.comparison.coverage import Coverage
from nmt.analysis.comparison.findings import describe_pair, describe_single
from nmt.analysis.comparison.page import make_page, render_section
from nmt.analysis.comparison.report import as_json, as_markdown, describe, make_title
from nmt.analysis.comparison.sections import format_cell, list_sections
from nmt.analysis.comparison.slices import TrainingWords, make_slices
from nmt.analysis.comparison.systems import DataReader, EvaluationData, System
from nmt.analysis.comparison.weights import compare_arrays
from nmt.analysis.comparison.words import score_frequencies
from nmt.data.splitting import Pair
from nmt.inference.significance import correct_p_values, count_statistics
from nmt.runs.folder import TEST_SCORES_FILE, RunFolder

COUNT = 240
NOUNS = {"casa": "house", "río": "river", "pan": "bread", "gato": "cat", "libro": "book"}
NUMBERS = {"dos": "two", "tres": "three", "siete": "seven"}


def make_pair(number: int, rng: random.Random) -> Pair:
    """Return a question, a sentence with a number, or another sentence."""
    nouns = rng.sample(sorted(NOUNS), 3)
    source, target = ([f(noun) for noun in nouns] for f in (str, NOUNS.__getitem__))
    if number % 4 == 0:
        return Pair(f"¿{' '.join(source)}?", f"Is it {' '.join(target)}?")
    if number % 4 == 1:
        word = rng.choice(sorted(NUMBERS))
        return Pair(f"Veo {word} {' '.join(source)}.", f"I see {NUMBERS[word]} {' '.join(target)}.")
    return Pair(f"Veo {' '.join(source)}.", f"I see {' '.join(target)}.")


RNG = random.Random(3)
PAIRS = [make_pair(number, RNG) for number in range(COUNT)]
DATA = EvaluationData("test", PAIRS, ("es", "en"), (), None)
WORDS = TrainingWords.count(PAIRS)
SLICES = make_slices(DATA.sources, DATA.references, DATA.languages, WORDS)


def make_result(name: str, seed: int, change: Callable[[str], str] = str) -> SystemResult:
    """Return a system that replaces some words, and changes its outputs besides."""
    rng = random.Random(seed)
    outputs = [
        change(" ".join("thing" if rng.random() < 0.15 else w for w in reference.split()))
        for reference in DATA.references
    ]
    return SystemResult(
        System(name, Path(name), None, None, outputs),
        count_statistics(outputs, DATA.references, language="en"),
    )


def without_questions(text: str) -> str:
    return text.replace("?", ".").replace("Is it", "See")


def without_numbers(text: str) -> str:
    return " ".join("some" if word in NUMBERS.values() else word for word in text.split())


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (without_questions, "the source is a question", "“?”"),
        (without_numbers, "the source has numbers", "“two”"),
    ],
)
def test_a_damage_is_named_in_the_first_findings(
    change: Callable[[str], str], kind: str, words: str
) -> None:
    pair = compare(make_result("a", 1), make_result("b", 2, change), DATA, SLICES)
    findings = describe_pair(pair)
    assert findings[0].startswith("b is worse than a: chrF2++ ")
    assert findings[1].startswith(f"b is worse where {kind}: chrF2++ ")
    assert "in 60 sentences (all others: " in findings[1]
    assert findings[1].endswith("p < 0.001.")
    assert any(words in each for each in findings if each.startswith("a has more often right"))
    back = describe_pair(compare(pair.second, pair.first, DATA, SLICES))
    assert back[1].startswith(f"a is better where {kind}: chrF2++ ")


def test_without_a_difference_there_is_no_finding() -> None:
    pair = compare(make_result("a", 1), make_result("b", 2), DATA, SLICES)
    findings = describe_pair(pair)
    assert findings[0].startswith("Between b and a there is no significant difference: chrF2++ ")
    assert findings[1].startswith("No kind of sentences differs more than others: ")
    assert len(findings) == 2


def test_noise_omissions_and_heads_are_findings() -> None:
    first, second = make_result("a", 1), make_result("b", 2)
    first.noise["a typing error"] = make_result("a", 3).statistics["chrF2++"]
    noisy = make_result("b", 4, lambda text: text[: len(text) // 2])
    second.noise["a typing error"] = noisy.statistics["chrF2++"]
    ones, some = np.ones(COUNT, int), (np.arange(COUNT) % 4 == 0).astype(int)
    first.coverage = Coverage(0 * ones, 4 * ones, 0 * ones, 4 * ones, [])
    second.coverage = Coverage(some, 4 * ones, 0 * ones, 4 * ones, [(0, ("casa",), ())])
    second.silent_heads = ["cross-attention, layer 1, head 2"]
    pair = compare(first, second, DATA, SLICES)
    pair.weights = compare_arrays(
        {"x": np.ones(3), "y": np.ones(2)}, {"x": np.ones(3), "y": np.zeros(2)}
    )
    findings = describe_pair(pair)
    assert findings[1] == (
        "In b this head writes next to nothing: cross-attention, layer 1, head 2."
    )
    assert findings[2].startswith("b suffers more with a typing error: chrF2++ ")
    assert findings[3] == ("b leaves out more source content words: 6.2% against 0.0%, p < 0.001.")
    assert findings[-1] == "1 of 2 arrays of weights are the same in both; different: y."
    assert pair.coverage["additions"].p_value == 1.0


def test_a_tiny_share_of_added_words_is_no_finding() -> None:
    first, second = make_result("a", 1), make_result("b", 2)
    ones, some = np.ones(COUNT, int), (np.arange(COUNT) % 4 == 0).astype(int)
    first.coverage = Coverage(0 * ones, 4 * ones, 0 * ones, 100 * ones, [])
    second.coverage = Coverage(0 * ones, 4 * ones, some, 100 * ones, [])
    pair = compare(first, second, DATA, SLICES)
    assert pair.coverage["additions"].p_value < 0.001
    assert not any("adds more words" in each for each in describe_pair(pair))


def test_arrays_of_other_models_are_not_compared() -> None:
    assert compare_arrays({"x": np.ones(3)}, {"x": np.ones(2)}) is None
    assert compare_arrays({"x": np.ones(3)}, {"y": np.ones(3)}) is None
    difference = compare_arrays(
        {"x": np.ones(4), "y": np.ones(4)}, {"x": 3 * np.ones(4), "y": np.ones(4)}
    )
    assert difference is not None
    assert difference.changed == [("x", 2.0)]
    assert difference.identical == 1


def analyze(*results: SystemResult) -> Analysis:
    frequencies = score_frequencies(
        DATA.references, [result.system.outputs for result in results], WORDS.target
    )
    analysis = Analysis(DATA, SLICES, results, frequencies, None, "")
    analysis.pairs = compare_with_first(results, DATA, SLICES)
    return analysis


def test_page_markdown_and_json_have_all_sections() -> None:
    analysis = analyze(make_result("a", 1), make_result("b", 2, without_questions))
    assert make_title(analysis) == "b against a"
    sections = list_sections(analysis)
    assert [section.title for section in sections] == [
        "Scores",
        "Kinds of sentences",
        "Words by frequency in training",
        "N-grams",
        "Where b is worse than a",
        "Where b is better than a",
        "Omissions and additions",
    ]
    page = make_page(
        "b against a", "", describe(analysis), [(s.title, render_section(s)) for s in sections]
    )
    document = as_markdown(analysis, sections, [])
    content = json.loads(json.dumps(as_json(analysis)))
    [findings] = content["findings"].values()
    for finding in findings:
        assert finding in document
    assert page.count("<li>") == len(findings) + len(sections)
    worst = sections[4].examples[0]
    assert worst.scores[1] < worst.scores[0]
    differences = [
        y - x for x, y in zip(*(r.sentence_scores for r in analysis.results), strict=True)
    ]
    assert worst.scores[1] - worst.scores[0] == pytest.approx(min(differences))
    assert PAIRS[worst.number - 1].source == worst.source
    [pair] = content["compared"]
    assert len(pair["slices"]) == len(SLICES)
    assert len(content["systems"][0]["sentences"]) == COUNT


def test_markdown_shows_texts_of_examples_as_they_are() -> None:
    def mark(text: str) -> str:
        return text.replace("bread", "<b>*bread*</b>")

    analysis = analyze(make_result("_a_", 1), make_result("b", 2, mark))
    document = as_markdown(analysis, list_sections(analysis), [])
    assert "&#60;b>&#42;bread&#42;&#60;/b>" in document
    assert "<b>" not in document
    assert document.startswith("# b against &#95;a&#95;\n")
    assert "\n- &#95;a&#95; (" in document


def test_three_systems_are_compared_with_the_first() -> None:
    analysis = analyze(
        make_result("a", 1), make_result("b", 2), make_result("c", 3, without_numbers)
    )
    titles = [section.title for section in list_sections(analysis)]
    assert "Kinds of sentences: b against a" in titles
    assert "Kinds of sentences: c against a" in titles
    [scores] = list_sections(analysis)[0].listings
    assert [row[0] for row in scores.rows] == ["a", "b", "c"]
    assert scores.rows[0][2] == "–"
    assert float(scores.rows[2][2]) == pytest.approx(
        analysis.pairs[1].tests["BLEU"].difference, abs=0.01
    )
    assert "corrected for the number of systems (Holm)" in scores.note
    p_values = [pair.tests["BLEU"].p_value for pair in analysis.pairs]
    corrected = [pair.p_values["BLEU"] for pair in analysis.pairs]
    assert corrected == correct_p_values(p_values) != p_values
    assert [row[3] for row in scores.rows] == ["–", *map(format_cell, corrected)]
    stored = [pair["differences"]["BLEU"] for pair in as_json(analysis)["compared"]]
    assert [each["corrected_p_value"] for each in stored] == corrected
    analysis.pairs[1].p_values["chrF2++"] = 0.2
    assert describe_pair(analysis.pairs[1])[0].startswith("Between c and a there is no significant")


def test_recipes_are_below_the_scores(tmp_path: Path) -> None:
    results = []
    for seed in (1, 2):
        run = RunFolder(tmp_path / str(seed))
        run.path.mkdir()
        run.write_config(changed(configured("model=tiny"), {"seed": seed}))
        run.write_json(TEST_SCORES_FILE, {"scores": {"BLEU": {"value": 1.0}}})
        result = make_result(str(seed), seed)
        result.system.run = result.system.model = run
        results.append(result)
    first, second = results
    first.system.run = first.system.model = None
    analysis = analyze(first, second)
    assert [each.title for each in list_sections(analysis)[0].listings] == ["Scores"]
    first.system.run = first.system.model = RunFolder(tmp_path / "1")
    _, recipes = list_sections(analysis)[0].listings
    assert [row[1] for row in recipes.rows] == ["2"]
    assert "## Recipes" in as_markdown(analysis, list_sections(analysis), [])
    [content] = as_json(analysis)["recipes"]
    assert content["systems"] == ["1", "2"]


def test_one_system_has_its_weakest_kinds() -> None:
    analysis = analyze(make_result("b", 2, without_questions))
    findings = describe_single(analysis)
    assert findings[0].startswith("b: BLEU ")
    assert findings[1].startswith("It is weakest where the source is a question: chrF2++ ")
    assert describe(analysis) == {"b": findings}
    titles = [section.title for section in list_sections(analysis)]
    assert titles[:2] == ["Scores", "Kinds of sentences"]
    assert "Lowest scores" in titles


def test_only_groups_that_can_be_tested_are_kinds_of_sentences() -> None:
    groups = ["large"] * 10 + ["small"] * 9 + [""] * (COUNT - 19)
    data = replace(DATA, groups=groups)
    systems = [make_result(name, seed).system for seed, name in enumerate("ab")]
    reader, console = cast(DataReader, None), Console(quiet=True)
    analysis = measure(systems, data, reader, console, noise=False, search={})
    assert [each.name for each in analysis.slices if each.family == "group"] == [
        "the group is large"
    ]
    [large] = [each for each in analysis.pairs[0].slices if each.slice.family == "group"]
    assert large.slice.members.nonzero()[0].tolist() == list(range(10))
    assert large.test is not None
