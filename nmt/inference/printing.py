"""Scores on the terminal: of an evaluation, a comparison, and given translations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nmt.inference.significance import format_p

if TYPE_CHECKING:
    from rich.console import Console

    from nmt.inference.evaluation import Comparison, Evaluation
    from nmt.inference.metrics import Score
    from nmt.inference.perplexity import ScoredPairs

_NAMED = 10  # most numbers of too long pairs in a message


def print_evaluation(title: str, evaluation: Evaluation, console: Console) -> None:
    """Print scores of all sentences, of each of several languages, by length and by group."""
    console.print(f"{title}, {len(evaluation.pairs):,} sentences:")
    console.print("\n".join(evaluation.lines()))
    for part in evaluation.by_language:
        scores = _format_scores(part.scores)
        console.print(f"into {part.language}, {part.sentences:,} sentences: {scores}")
    for lengths in evaluation.by_length:
        scores = _format_scores(lengths.scores)
        console.print(f"{lengths.words:>8} words, {lengths.sentences:6,} sentences: {scores}")
    for group in evaluation.by_group:
        scores = _format_scores(group.scores)
        name = "groups of few sentences" if group.group is None else f"group {group.group or '-'}"
        console.print(f"{name}, {group.sentences:,} sentences: {scores}")


def _format_scores(scores: Iterable[Score]) -> str:
    return "  ".join(f"{score.name} {score.value:6.2f}" for score in scores)


def print_worst(evaluation: Evaluation, count: int, console: Console) -> None:
    """Print the sentences with the lowest chrF2++."""
    for sentence in evaluation.worst(count):
        console.print(
            f"chrF2++ {sentence.score:.1f}\n  source     {sentence.source}\n"
            f"  reference  {sentence.reference}\n  output     {sentence.output}"
        )


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the other run's scores, and the differences with their p-values."""
    console.print(f"{comparison.other_run}:")
    console.print("\n".join(comparison.other_evaluation.lines()))
    console.print(
        f"{comparison.run} against {comparison.other_run}, paired approximate randomization:"
    )
    for name, difference in comparison.differences.items():
        console.print(f"{name:8}{difference.value:+6.2f}   {format_p(difference.p_value)}")


def print_scores(scored: ScoredPairs, console: Console) -> None:
    """Print the log-probability of each target, and the perplexity of all."""
    for pair, score in zip(scored.pairs, scored.scores, strict=True):
        numbers = ("-", "-")
        if score is not None:
            per_piece = score.log_prob / len(score.pieces)
            numbers = (f"{score.log_prob:.4f}", f"{per_piece:.4f}")
        # Not by the console, which expands tabs.
        print(*numbers, pair.source, pair.target, sep="\t", file=console.file)
    too_long = scored.too_long
    if too_long:
        more = ", …" if too_long[_NAMED:] else ""
        numbers_shown = ", ".join(map(str, too_long[:_NAMED])) + more
        console.print(
            f"{len(too_long):,} pairs are longer than the model has positions for, and not scored: "
            f"{numbers_shown}"
        )
    total = scored.perplexity
    console.print(
        f"{len(scored.pairs) - len(too_long):,} pairs, "
        f"{total.pieces:,} target pieces (EOS included): "
        f"{total.nats_per_piece:.4f} nats and perplexity {total.per_piece:.3f} per piece, "
        f"perplexity {total.per_word:.3f} per word"
    )
