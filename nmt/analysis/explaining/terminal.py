"""An explanation in a terminal of 80 columns or more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nmt.analysis.explaining.explanation import Explanation, Share, WordExplanation
from nmt.analysis.tables import make_table
from nmt.analysis.traces.tree import draw_tree

_NAMED = 2  # words that are named as reasons for a word
_BAR = 12  # characters of the longest bar
_WORD_WIDTH = 20  # characters of a word in a line
LEGEND = (
    "nats: log p(word) - log p(other). for it: words without which this falls most (…: of the "
    "translation). source: its contribution by ALTI+. support: nats by which the source raises "
    "log p(word) (!: it does not speak for it, the sign of a hallucination). layers: rank of the "
    "word's first piece after each decoder layer."
)

DETAIL_LEGEND = (
    "In detail: nats is how far the lead falls when a word is hidden, support how far log p of the "
    "explained word itself falls; contribution is by ALTI+. all: all words hidden at once; the "
    "numbers of single words need not sum to it."
)


def render(explanation: Explanation, *, in_detail: bool) -> Iterator[RenderableType]:
    """Yield everything to print.

    Args:
        explanation: what to print.
        in_detail: whether to print all of each word, and the beam.
    """
    yield Text(explanation.translation, "bold")
    yield Text()
    if not in_detail:
        yield tabulate(explanation)
        yield Text()
        yield Text(LEGEND, "dim")
    for word in explanation.words if in_detail else ():
        yield from describe_word(word)
        yield Text(f"The beam: {word.departure.describe(word.other)}.")
        yield draw_tree(explanation.trace, {word.departure.node: f"← {word.other}"})
    if explanation.reason:
        yield Text(explanation.reason, "dim")


def tabulate(explanation: Explanation) -> Table:
    """Return a line per word."""
    table = make_table("word", "rather than", "nats", "for it", "source", "support", "layers")
    for column in (table.columns[1], table.columns[3], table.columns[6]):
        column.justify, column.overflow = "left", "fold"
    for column in table.columns[:2]:  # an output may be one long word
        column.no_wrap, column.overflow, column.max_width = False, "fold", _WORD_WIDTH
    for word in explanation.words:
        table.add_row(
            Text(word.word, "bold"),
            Text(word.other),
            f"{word.margin:+.1f}",
            Text(", ".join(name_reasons(word))),
            format_share(word.source_share),
            format_support(word),
            " ".join(str(layer.rank) for layer in word.layers),
        )
    return table


def name_reasons(word: WordExplanation) -> list[str]:
    """Return the words that speak most for a word against the other one, but no special tokens."""
    named = [(share.contrast, share.text) for share in word.source[word.tag_words : -1]]
    named += [(share.contrast, f"…{share.text}") for share in word.prefix[1:]]
    reasons = [each for each in named if each[0] > 0]  # without NaN, which has no order
    return [text for _, text in sorted(reasons, reverse=True)[:_NAMED]]


def describe_word(word: WordExplanation) -> Iterator[RenderableType]:
    """Yield what there is to say about one word, without the beam."""
    yield Text(f"Why {word.word} and not {word.other}?", "bold")
    for name, pieces, log_prob in (
        (word.word, word.pieces, word.log_prob),
        (word.other, word.other_pieces, word.other_log_prob),
    ):
        yield Text(f"  log p({name}) = {log_prob:.2f} nats, of {' '.join(pieces)}")
    yield Text(f"  {word.word} leads by {word.margin:+.2f} nats")
    yield Text()
    yield Group(
        _tabulate_shares("source", (*word.source, word.all_source)),
        Text(),
        _tabulate_shares("prefix", (*word.prefix, word.all_prefix)),
    )
    yield Text()
    yield Text(DETAIL_LEGEND, "dim")
    yield Text()
    yield Text(describe_support(word))
    yield Text()
    if not word.layers:
        return
    table = make_table("after layer", "most probable", "p", f"p of {word.pieces[0]}", "rank")
    table.columns[1].justify = "left"
    for number, layer in enumerate(word.layers, start=1):
        own = f"{layer.probability:.3f}"
        best = f"{layer.best_probability:.3f}"
        table.add_row(str(number), Text(layer.best), best, own, str(layer.rank))
    yield table
    yield Text()


def _tabulate_shares(title: str, shares: Sequence[Share]) -> Table:
    table = make_table(title, "nats", "", "contribution", "support")
    table.columns[2].justify = "left"
    for share, contrast in zip(shares, scale_contrasts(shares), strict=True):
        bar = "█" * round(_BAR * abs(contrast))
        table.add_row(
            Text(share.text),
            format_nats(share.contrast),
            Text(bar, "green" if contrast > 0 else "red"),
            format_share(share.contribution),
            format_nats(share.support),
        )
    return table


def scale_contrasts(shares: Sequence[Share]) -> list[float]:
    """Return the contrasts relative to the largest one, -1 to 1; 0 for NaN."""
    contrasts = [0.0 if math.isnan(share.contrast) else share.contrast for share in shares]
    largest = max(map(abs, contrasts)) or 1
    return [contrast / largest for contrast in contrasts]


def describe_support(word: WordExplanation) -> str:
    """Return a sentence on how far the source speaks for a word."""
    if word.lacks_support:
        return (
            f"The source does not speak for {word.word}: log p({word.word}) is lower by "
            f"{-word.support:.2f} nats than without it, the sign of a hallucination."
        )
    change = "raises" if word.support >= 0 else "hardly speaks for or against it: it lowers"
    return f"The source {change} log p({word.word}) by {abs(word.support):.2f} nats."


def format_nats(nats: float) -> str:
    """Return a number with its sign; nothing for NaN."""
    return "" if math.isnan(nats) else f"{nats:+.2f}"


def format_share(share: float) -> str:
    """Return a contribution in percent; nothing for NaN."""
    return "" if math.isnan(share) else f"{share:.0%}"


def format_support(word: WordExplanation) -> str:
    """Return the support of a word, marked if it lacks support."""
    return f"{word.support:+.1f}{'!' if word.lacks_support else ' '}"
