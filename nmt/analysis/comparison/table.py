"""The table of a comparison: one row for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nmt.analysis.comparison.runs import TEST_SCORE, RunSummary, SentenceResult
from nmt.analysis.comparison.systems import System
from nmt.analysis.tables import Listing

MISSING = "–"  # a number that a run lacks

_LEGEND = (
    "Dev BLEU: the best of all evaluations, greedy. Test BLEU and chrF2++: with 95% intervals. "
    "Tokens/s: median while training, both sides. Minutes: of training, with its evaluations. "
    "Bytes: what decoding keeps, in float32, for each hypothesis, for each token of one, and for "
    "each source token. Attention: layers × heads of each kind."
)


def tabulate_speed(systems: Sequence[System]) -> Listing:
    """Return how long each system took to translate these sentences."""
    rows = [
        (
            system.name,
            MISSING if system.seconds is None else f"{system.seconds:.1f}",
            MISSING
            if system.seconds is None
            else f"{len(system.outputs) / max(system.seconds, 1e-9):,.0f}",
            system.stored_in or "translated now",
        )
        for system in systems
    ]
    note = "Stored translations have no time: --translate translates again."
    return Listing("Speed", note, ("system", "seconds", "sentences/s", "translations"), rows)


def tabulate(runs: Sequence[RunSummary], results: Sequence[SentenceResult]) -> Listing:
    """Return the table of all numbers."""
    scores = ("test BLEU", "chrF2++", "dev BLEU")
    costs = ("parameters", "tokens/s", "minutes")
    state = ("bytes/hypothesis", "bytes/token", "bytes/source token")
    rows = [
        (
            run.name,
            describe_differences(run.differences),
            format_score(run.scores.get(TEST_SCORE)),
            format_score(run.scores.get("chrF2++")),
            MISSING if run.best is None else f"{run.best:.2f}",
            f"{run.parameters:,}",
            MISSING if run.speed is None else f"{run.speed:,.0f}",
            MISSING if run.minutes is None else f"{run.minutes:.1f}",
            *(f"{count:,}" for count in run.state),
            result.kinds or MISSING,
        )
        for run, result in zip(runs, results, strict=True)
    ]
    header = ("run", "differs in", *scores, *costs, *state, "attention")
    return Listing("Runs", f"{name_best(runs)}{_LEGEND}", header, rows)


def name_best(runs: Sequence[RunSummary]) -> str:
    """Return a sentence that names the run with the best dev BLEU, the criterion of choice."""
    scored = [(run.best, run.name) for run in runs if run.best is not None]
    if not scored:
        return ""
    score, name = max(scored, key=lambda pair: pair[0])
    return f"The best on dev is {name}, BLEU {score:.2f}. "


def describe_differences(differences: Mapping[str, Any]) -> str:
    """Return ``positions=rotary, training.max_steps=500``."""
    return ", ".join(
        f"{key.removeprefix('model.')}={format_value(value)}" for key, value in differences.items()
    )


def format_value(value: Any) -> str:
    """Return a value as the command line writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def format_score(score: Mapping[str, float | None] | None) -> str:
    """Return a score with its interval."""
    if score is None or score["value"] is None:
        return MISSING
    width = score["half_width"]
    return f"{score['value']:.2f}" + ("" if width is None else f" ± {width:.2f}")
