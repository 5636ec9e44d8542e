"""The tables of a comparison, section by section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nmt.analysis.comparison.analysis import Analysis, PairResult, SystemResult
from nmt.analysis.comparison.findings import correct_tests, get_rate
from nmt.analysis.comparison.interactions import MIN_SENTENCES
from nmt.analysis.comparison.recipes import find_recipes, tabulate_recipes
from nmt.analysis.comparison.stored import METRIC
from nmt.analysis.comparison.words import NgramLead, WordGrid, align_words, rank_changes
from nmt.analysis.tables import Listing
from nmt.inference.significance import format_p

_CHANGES = 10  # sentences with the largest wins, and as many losses
_NGRAMS = 15
_GAPS = 8  # sentences with omissions or additions
_MAX_SHOWN = 300  # characters of a cell


class Example(NamedTuple):
    """One sentence with its outputs, word by word."""

    number: int  # of the sentence, from 1
    source: str
    grid: WordGrid
    scores: tuple[float, ...]  # METRIC of each output


class Section(NamedTuple):
    """A part of a report."""

    title: str
    listings: Sequence[Listing]
    examples: Sequence[Example] = ()
    names: Sequence[str] = ()  # of the outputs of examples


def list_sections(analysis: Analysis) -> list[Section]:
    """Return all sections with content, in the order of the report."""
    pairs = analysis.pairs
    recipes = find_recipes(analysis.results)
    scores = [_tabulate_scores(analysis), *([tabulate_recipes(recipes)] if recipes else [])]
    sections = [Section("Scores", scores)]
    sections += [
        Section(_title("Kinds of sentences", p, pairs), [_tabulate_slices(p)]) for p in pairs
    ]
    if not pairs:
        sections.append(Section("Kinds of sentences", [_tabulate_own_slices(analysis)]))
    if any(result.noise for result in analysis.results):
        sections.append(Section("Noise", [_tabulate_noise(analysis)]))
    if analysis.frequencies:
        sections.append(
            Section("Words by frequency in training", [_tabulate_frequencies(analysis)])
        )
    for pair in pairs:
        if pair.leads:
            sections.append(
                Section(_title("N-grams", pair, pairs), _tabulate_leads(analysis, pair))
            )
        sections += _tabulate_changes(analysis, pair)
    if not pairs:
        sections.append(_tabulate_worst(analysis))
    sections.append(Section("Omissions and additions", _tabulate_coverage(analysis)))
    reliable = [result for result in analysis.results if result.reliability is not None]
    if reliable:
        sections.append(
            Section("Confidence", [_tabulate_reliability(result) for result in reliable])
        )
    return sections


def _title(title: str, pair: PairResult, pairs: Sequence[PairResult]) -> str:
    """Name the systems of a section if there are several pairs."""
    names = f"{pair.second.system.name} against {pair.first.system.name}"
    return title if len(pairs) == 1 else f"{title}: {names}"


def _tabulate_scores(analysis: Analysis) -> Listing:
    metrics = list(analysis.results[0].statistics)
    header = ["system"]
    for name in metrics:
        header += [name, *(["difference", "p"] if analysis.pairs else [])]
    rows = []
    for number, result in enumerate(analysis.results):
        row = [result.system.name]
        for name in metrics:
            row.append(f"{result.statistics[name].score():.2f}")
            if analysis.pairs:
                pair = analysis.pairs[number - 1] if number else None
                row += (
                    [f"{pair.tests[name].difference:+.2f}", format_cell(pair.p_values[name])]
                    if pair
                    else ["–", "–"]
                )
        rows.append(row)
    note = f"{len(analysis.data.pairs):,} sentences: {analysis.data.name}. TER: lower is better."
    if analysis.pairs:
        note += " Differences from the first system, by paired approximate randomization"
        note += ", corrected for the number of systems (Holm)." if analysis.pairs[1:] else "."
    return Listing("Scores", note, header, rows)


def _tabulate_slices(pair: PairResult) -> Listing:
    first, second = pair.first.system.name, pair.second.system.name
    ordered = sorted(pair.slices, key=lambda each: -(each.test.evidence if each.test else -1.0))
    rows = [
        [
            each.slice.name,
            f"{each.slice.size:,}",
            *(f"{score:.1f}" for score in each.inside),
            f"{each.difference:+.1f}",
            f"{each.outside[1] - each.outside[0]:+.1f}",
            "–" if each.p_value is None else format_cell(each.p_value),
        ]
        for each in ordered
    ]
    note = (
        f"{METRIC} of the sentences of each kind, ordered by evidence. p: of the same difference "
        "in all other sentences, corrected for the number of kinds (Holm); – where fewer than "
        f"{MIN_SENTENCES} sentences are of the kind, or are not."
    )
    header = ["where …", "sentences", first, second, "difference", "others", "p"]
    return Listing("Kinds of sentences", note, header, rows)


def _tabulate_own_slices(analysis: Analysis) -> Listing:
    statistics = analysis.results[0].statistics[METRIC]
    rows = [
        [each.name, f"{each.size:,}", f"{statistics.score(each.members):.1f}"]
        for each in sorted(analysis.slices, key=lambda each: statistics.score(each.members))
    ]
    header = ["where …", "sentences", METRIC]
    return Listing("Kinds of sentences", "The lowest score first.", header, rows)


def _tabulate_noise(analysis: Analysis) -> Listing:
    results = analysis.results
    tested = len(analysis.pairs) == 1
    kinds = next(result.noise for result in results if result.noise)
    header = ["sources with", *(result.system.name for result in results)]
    rows = [["no change", *(f"{each.statistics[METRIC].score():.1f}" for each in results)]]
    rows += [
        [kind, *(f"{each.noise[kind].score():.1f}" if each.noise else "–" for each in results)]
        for kind in kinds
    ]
    note = f"{METRIC}."
    if tested:
        header.append("p")
        p_values = correct_tests(analysis.pairs[0].noise)
        rows[0].append("–")
        for row, kind in zip(rows[1:], kinds, strict=True):
            row.append(format_cell(p_values[kind]) if kind in p_values else "–")
        note += " p: of the same difference without changes, corrected (Holm)."
    return Listing("Noise", note, header, rows)


def _tabulate_frequencies(analysis: Analysis) -> Listing:
    rows = [
        [each.name, f"{each.occurrences:,}", *(f"{value:.1f}" for value in each.f1)]
        for each in analysis.frequencies
    ]
    note = (
        "F1 of the words of references, by how often each occurs in the training targets of the "
        "first run."
    )
    names = [result.system.name for result in analysis.results]
    return Listing("Words", note, ["times in training", "occurrences", *names], rows)


def _tabulate_leads(analysis: Analysis, pair: PairResult) -> list[Listing]:
    names = pair.first.system.name, pair.second.system.name
    listings = []
    for leader in (0, 1):
        leads = [lead for lead in pair.leads if lead.leader == leader][:_NGRAMS]
        rows = [_describe_lead(analysis, pair, lead) for lead in leads]
        if rows:
            header = ["n-gram", "in references", *names, "p", "example"]
            title = f"More often right in {names[leader]}"
            listings.append(Listing(title, "", header, rows))
    if listings:
        note = (
            "Up to three words. p: sign test over sentences, corrected for the number of n-grams. "
            f"Example: reference → {names[0]} / {names[1]}."
        )
        listings[0] = listings[0]._replace(note=note)
    return listings


def _describe_lead(analysis: Analysis, pair: PairResult, lead: NgramLead) -> list[str]:
    index = lead.examples[0]
    outputs = " / ".join(_shorten(each.system.outputs[index]) for each in (pair.first, pair.second))
    return [
        lead.words,
        f"{lead.occurrences:,}",
        *(f"{count:,}" for count in lead.right),
        format_cell(lead.p_value),
        f"{_shorten(analysis.data.references[index])} → {outputs}",
    ]


def format_cell(p_value: float) -> str:
    """Return a p-value for a table."""
    return f"{p_value:.3f}" if p_value >= 0.001 else "<0.001"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _tabulate_changes(analysis: Analysis, pair: PairResult) -> list[Section]:
    """Return the sentences of the largest losses and wins of the second system."""
    scores = list(zip(pair.first.sentence_scores, pair.second.sentence_scores, strict=True))
    order = rank_changes(scores)
    losses = [i for i in order[:_CHANGES] if scores[i][1] < scores[i][0]]
    wins = [i for i in order[::-1][:_CHANGES] if scores[i][1] > scores[i][0]]
    results = (pair.first, pair.second)
    names = [result.system.name for result in results]
    return [
        Section(
            f"Where {names[1]} is {word} than {names[0]}",
            [],
            [make_example(analysis, results, index) for index in indices],
            names,
        )
        for word, indices in (("worse", losses), ("better", wins))
        if indices
    ]


def _tabulate_worst(analysis: Analysis) -> Section:
    [result] = analysis.results
    order = sorted(range(len(analysis.data.pairs)), key=result.sentence_scores.__getitem__)
    examples = [make_example(analysis, [result], index) for index in order[:_CHANGES]]
    return Section("Lowest scores", [], examples, [result.system.name])


def make_example(analysis: Analysis, results: Sequence[SystemResult], index: int) -> Example:
    """Return a sentence with the outputs of some systems."""
    pair = analysis.data.pairs[index]
    grid = align_words(pair.target, [result.system.outputs[index] for result in results])
    scores = tuple(result.sentence_scores[index] for result in results)
    return Example(index + 1, pair.source, grid, scores)


def _tabulate_coverage(analysis: Analysis) -> list[Listing]:
    if analysis.reference_coverage is None:
        note = "They need a run that can align words: none of these systems is one."
        return [Listing("Omissions and additions", note, ["system"], [])]
    reference = analysis.reference_coverage
    rows = [["references", f"{reference.omission_rate:.2%}", f"{reference.addition_rate:.2%}"]]
    rows += [
        [result.system.name, *(f"{get_rate(result, name):.2%}" for name in _RATES)]
        for result in analysis.results
    ]
    note = (
        f"All are aligned by {analysis.aligner}. Omissions: share of source content words that no "
        "word of the translation comes from. Additions: share of words of the translation that "
        "come from no source word. References show what alignment finds where nothing is wrong."
    )
    for pair in analysis.pairs:
        tests = ", ".join(
            f"{name} {format_p(p_value)}" for name, p_value in correct_tests(pair.coverage).items()
        )
        systems = f"{pair.second.system.name} against {pair.first.system.name}"
        note += f" {systems}, corrected (Holm): {tests}."
    header = ["system", *_RATES]
    listings = [Listing("Omissions and additions", note, header, rows)]
    return [*listings, *(_tabulate_gaps(analysis, result) for result in analysis.results)]


_RATES = ("omissions", "additions")


def _tabulate_gaps(analysis: Analysis, result: SystemResult) -> Listing:
    """Return the sentences in which a system leaves out or adds the most words."""
    assert result.coverage is not None, "it is measured for all systems or for none"
    ranked = sorted(
        result.coverage.examples, key=lambda example: (-len(example[1]) - len(example[2]), example)
    )
    rows = [
        [
            str(index + 1),
            _shorten(analysis.data.sources[index]),
            _shorten(result.system.outputs[index]),
            ", ".join(omitted),
            ", ".join(added),
        ]
        for index, omitted, added in ranked[:_GAPS]
    ]
    header = ["sentence", "source", "translation", "omitted", "added"]
    return Listing(f"Most omissions and additions: {result.system.name}", "", header, rows)


def _tabulate_reliability(result: SystemResult) -> Listing:
    reliability = result.reliability
    assert reliability is not None, "only of systems with confidence"
    rows = [
        [
            f"{each.lowest:.1f} to {each.highest:.1f}",
            f"{each.words:,}",
            f"{each.confidence:.1%}",
            f"{each.right:.1%}",
        ]
        for each in reliability.bins
    ]
    note = (
        f"Words of {reliability.sentences:,} sentences by their confidence, and the share that the "
        f"reference has. Expected calibration error: {reliability.calibration_error:.1%}."
    )
    header = ["confidence", "words", "mean confidence", "in the reference"]
    return Listing(f"Confidence of {result.system.name}", note, header, rows)
