"""A history as findings, tables, a plot, examples and JSON."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nmt.analysis.comparison.history import MIN_RIGHT, History, Progress, SliceProgress
from nmt.analysis.comparison.page import make_page, render_figure, render_listing
from nmt.analysis.comparison.plot import render_plot
from nmt.analysis.comparison.stored import METRIC
from nmt.analysis.tables import Listing

_EXAMPLES = 12  # of each kind
_DRAWN = 6  # kinds of sentences in the plot


def describe(
    history: History, progress: Sequence[Progress], slices: Sequence[SliceProgress]
) -> list[str]:
    """Return the findings as sentences."""
    count = len(history.pairs)
    last = progress[-1]
    forgotten, ever = int(history.forgotten.sum()), int((history.learned_at >= 0).sum())
    sentences = [
        f"{last.right:,} of {count:,} sentences are right after update {last.step:,} ({METRIC} of "
        f"{history.threshold:g} or more).",
        f"{ever:,} were right after some evaluation; {forgotten:,} of these are forgotten at the "
        f"end, and {count - ever:,} were never right.",
    ]
    starts = dict(zip(history.steps, [0, *history.steps], strict=False))
    for word, counts in (
        ("learned", {each.step: each.learned for each in progress}),
        ("forgotten", {each.step: each.forgotten for each in progress}),
    ):
        step = max(counts, key=counts.__getitem__)
        if counts[step]:
            sentences.append(
                f"Between updates {starts[step]:,} and {step:,}, {counts[step]:,} were {word}: the "
                "most between two evaluations."
            )
    learned = [each for each in slices if each.half_at is not None]
    if learned:
        first, final = learned[0], learned[-1]
        sentences.append(
            f"Learned first: where {first.slice.name} (half of the final share by update "
            f"{first.half_at:,})."
        )
        if final.half_at != first.half_at:
            sentences.append(
                f"Learned last: where {final.slice.name} (by update {final.half_at:,})."
            )
    never = [each.slice.name for each in slices if not each.right[-1]]
    if never:
        sentences.append(f"Not one is right at the end where {'; where '.join(never)}.")
    return sentences


def list_tables(
    history: History, progress: Sequence[Progress], slices: Sequence[SliceProgress]
) -> list[Listing]:
    """Return the tables: evaluations, and kinds of sentences."""
    evaluations = [
        (f"{each.step:,}", f"{each.score:.1f}", *(f"{count:,}" for count in each[2:]))
        for each in progress
    ]
    note = (
        f"Learned: right for the first time, {METRIC} of {history.threshold:g} or more. Forgotten: "
        "right at the evaluation before, and not at this one."
    )
    header = ["update", f"mean {METRIC}", "right", "learned", "regained", "forgotten"]
    kinds = [
        (
            each.slice.name,
            f"{each.slice.size:,}",
            "–" if each.half_at is None else f"{each.half_at:,}",
            f"{each.right[-1]:.0%}",
            f"{history.forgotten[each.slice.members].mean():.0%}",
        )
        for each in slices
    ]
    kinds_note = (
        "In the order in which they were learned: the update by which half of the final share was "
        f"right (–: fewer than {MIN_RIGHT} sentences are)."
    )
    kinds_header = ["where …", "sentences", "half by update", "right at the end", "forgotten"]
    return [
        Listing("Evaluations", note, header, evaluations),
        Listing("Kinds of sentences", kinds_note, kinds_header, kinds),
    ]


def choose_examples(history: History) -> dict[str, list[int]]:
    """Return the indices of sentences to show, by title."""
    scores = history.scores
    forgotten = np.flatnonzero(history.forgotten)
    unstable = np.flatnonzero((history.forgetting_events > 1) & ~history.forgotten)
    late = np.flatnonzero(history.right[-1] & (history.learned_at > 0))
    never = np.flatnonzero(history.learned_at < 0)
    ranked = {
        "Forgotten": sorted(forgotten, key=lambda i: scores[-1, i] - scores[:, i].max()),
        "Learned and forgotten again and again": sorted(
            unstable, key=lambda i: -history.forgetting_events[i]
        ),
        "Learned last": sorted(late, key=lambda i: -history.learned_at[i]),
        "Never right": sorted(never, key=lambda i: scores[:, i].max()),
    }
    return {
        title: [int(i) for i in indices[:_EXAMPLES]] for title, indices in ranked.items() if indices
    }


def tabulate_example(history: History, index: int) -> Listing:
    """Return the outputs of a sentence over time; equal ones in succession are one row."""
    rows: list[tuple[str, str, str]] = []
    for number, (step, outputs) in enumerate(zip(history.steps, history.outputs, strict=True)):
        if not number or outputs[index] != history.outputs[number - 1][index]:
            rows.append((f"{step:,}", f"{history.scores[number, index]:.1f}", outputs[index]))
    source, reference = history.pairs[index]
    note = f"{source} → {reference}"
    return Listing(f"Sentence {index + 1}", note, ["from update", METRIC, "output"], rows)


def draw_history(
    history: History, progress: Sequence[Progress], slices: Sequence[SliceProgress]
) -> Figure:
    """Draw right, learned and forgotten sentences, and the share of each kind that is right."""
    figure = Figure(figsize=(13, 4.5), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    for name, style in (("right", "-"), ("learned", "--"), ("forgotten", ":")):
        values = [getattr(each, name) for each in progress]
        left.plot(history.steps, values, style, marker=".", label=name)
    largest = sorted(slices, key=lambda each: -each.slice.size)[:_DRAWN]
    for number, each in enumerate(largest):
        style = ("-", "--", ":", "-.")[number % 4]
        right.plot(history.steps, each.right, style, marker=".", label=each.slice.name)
    left.set(xlabel="update", ylabel="dev sentences", title="Learned and forgotten")
    right.set(xlabel="update", ylabel="share that is right", title="The largest kinds")
    for axes in (left, right):
        if axes.lines:
            beside = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if axes is right else {}
            axes.legend(fontsize=8, **beside)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def render_history(
    name: str,
    history: History,
    progress: Sequence[Progress],
    slices: Sequence[SliceProgress],
) -> str:
    """Return the page."""
    figure = render_figure(
        render_plot(draw_history(history, progress, slices)),
        "Right, learned and forgotten sentences by update, and the share of each kind that is "
        "right: the numbers are in the tables.",
    )
    tables = list_tables(history, progress, slices)
    sections = [(tables[0].title, render_listing(tables[0], tables[0].title) + figure)]
    sections.append((tables[1].title, render_listing(tables[1], tables[1].title)))
    for title, indices in choose_examples(history).items():
        content = "".join(
            f'<p dir="auto">{html.escape(history.pairs[i].source)}</p>\n'
            f"{render_listing(tabulate_example(history, i))}"
            for i in indices
        )
        sections.append((title, content))
    note = f"{len(history.pairs):,} dev sentences, {len(history.steps)} evaluations"
    findings = describe(history, progress, slices)
    title = f"History of {name}"
    return make_page(title, f"{note} ({history.origin})", {title: findings}, sections)


def as_json(
    history: History, progress: Sequence[Progress], slices: Sequence[SliceProgress]
) -> dict[str, Any]:
    """Return all numbers."""
    return {
        "origin": history.origin,
        "threshold": history.threshold,
        "findings": describe(history, progress, slices),
        "evaluations": [each._asdict() for each in progress],
        "slices": [
            {
                "name": each.slice.name,
                "sentences": each.slice.size,
                "right": each.right,
                "half_at": each.half_at,
            }
            for each in slices
        ],
        "sentences": [
            {
                "source": pair.source,
                "reference": pair.target,
                METRIC: history.scores[:, index].tolist(),
                "outputs": [outputs[index] for outputs in history.outputs],
                "learned_at": None
                if history.learned_at[index] < 0
                else history.steps[history.learned_at[index]],
                "forgotten": bool(history.forgotten[index]),
                "forgetting_events": int(history.forgetting_events[index]),
            }
            for index, pair in enumerate(history.pairs)
        ],
    }
