"""An explanation as HTML: a piece for notebooks, and a page that needs no network.

The piece has no script and takes its text colour from around it, so that it fits light and dark
notebooks, and can be read where scripts and styles are removed. Colours only repeat numbers.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from html import escape

from rich.console import Console

from nmt.analysis.explaining.explanation import Explanation, LayerReading, Share, WordExplanation
from nmt.analysis.explaining.terminal import (
    DETAIL_LEGEND,
    LEGEND,
    describe_support,
    format_nats,
    format_share,
    format_support,
    name_reasons,
    scale_contrasts,
)
from nmt.analysis.tables import Listing
from nmt.analysis.traces.tree import draw_tree
from nmt.text.scripts import find_direction
from nmt.viewer.page import make_document, scrollable

_FOR, _AGAINST = "56 132 255", "255 140 0"  # blue and orange, which the colour-blind can tell apart
_STRONGEST = 0.55  # opacity of the largest number; black and white text stay readable on it
_TREE_WIDTH = 120  # characters
_PIECE_STYLE = """<style>
.nmt-explanation .scroll { overflow-x: auto; }
.nmt-explanation table { margin: 0.4em 0; border-collapse: collapse; }
.nmt-explanation caption { text-align: left; opacity: 0.75; }
.nmt-explanation :is(th, td) { padding: 0.15em 0.6em; text-align: start; vertical-align: top; }
.nmt-explanation .number { text-align: end; }
.nmt-explanation .strip :is(th, td):not(:first-child) { text-align: center; }
.nmt-explanation summary { cursor: pointer; }
.nmt-explanation pre { line-height: 1.25; }
.nmt-explanation .note { opacity: 0.75; }
</style>"""
_STYLE = """:root { color-scheme: light dark; }
body {
  margin: 0 auto; padding: 1rem 1.25rem; max-width: 70rem;
  font: 0.9375rem/1.45 system-ui, sans-serif;
  overflow-wrap: break-word;
  background: light-dark(#fbfaf7, #17181b); color: light-dark(#1c1c1f, #ececef);
}
h1 { font-size: 1.25rem; }
"""


def make_page(explanation: Explanation) -> str:
    """Return a page with an explanation."""
    title = f"Why these words: {explanation.sentence}"
    body = f'<h1 dir="auto">{escape(explanation.sentence)}</h1>\n{describe(explanation)}\n'
    return make_document(title, _STYLE, f"<main>\n{body}</main>\n")


def describe(explanation: Explanation) -> str:
    """Return an explanation as a piece of HTML."""
    words = explanation.words
    is_open = len(words) == 1
    parts = [
        f'<p dir="auto"><strong>{escape(explanation.translation)}</strong></p>',
        _tabulate(words),
        *(_detail(explanation, word, is_open=is_open) for word in words),
        *(
            f'<p class="note">{escape(text)}</p>'
            for text in (LEGEND, DETAIL_LEGEND, explanation.reason)
            if text
        ),
    ]
    content = "\n".join([_PIECE_STYLE, *parts])
    return f'<section class="nmt-explanation">\n{content}\n</section>'


def _tabulate(words: Sequence[WordExplanation]) -> str:
    header = ("word", "rather than", "nats", "for it", "source", "support", "layers")
    rows = [
        (
            word.word,
            word.other,
            f"{word.margin:+.1f}",
            ", ".join(name_reasons(word)),
            format_share(word.source_share),
            format_support(word),
            " ".join(str(layer.rank) for layer in word.layers),
        )
        for word in words
    ]
    return _render_table("Each word, and its rival", header, rows)


def _detail(explanation: Explanation, word: WordExplanation, *, is_open: bool) -> str:
    departure = word.departure
    parts = [
        f"<summary>Why <strong>{escape(word.word)}</strong> and not "
        f"<strong>{escape(word.other)}</strong>?</summary>",
        f"<p>{escape(word.word)}: log p {word.log_prob:.2f} nats, of "
        f"{escape(' '.join(word.pieces))}; {escape(word.other)}: {word.other_log_prob:.2f}, of "
        f"{escape(' '.join(word.other_pieces))}. "
        f"{escape(departure.describe(word.other))}.</p>",
        _strip("source", (*word.source, word.all_source), word.word),
        _strip("prefix", (*word.prefix, word.all_prefix), word.word),
        f"<p>{escape(describe_support(word))}</p>",
        _layers(word.pieces[0], word.layers),
    ]
    if is_open:
        parts.append(_draw_beam(explanation, word))
    return f"<details{' open' * is_open}>\n" + "\n".join(filter(None, parts)) + "\n</details>"


def _strip(title: str, shares: Sequence[Share], explained: str) -> str:
    """Return a table with a column per word, coloured by its contrast for the explained word."""
    cells = []
    for share, contrast in zip(shares, scale_contrasts(shares), strict=True):
        colour = _FOR if contrast > 0 else _AGAINST
        strength = _STRONGEST * abs(contrast)
        cells.append(
            f'<th scope="col" dir="auto" style="background: rgb({colour} / {strength:.2f})">'
            f"{escape(share.text)}</th>"
        )
    rows = [
        ("nats", [format_nats(share.contrast) for share in shares]),
        ("contribution", [format_share(share.contribution) for share in shares]),
        ("support", [format_nats(share.support) for share in shares]),
    ]
    lines = [_row(name, values) for name, values in rows if any(values)]
    head = f'<tr><th scope="col">{title}</th>{"".join(cells)}</tr>'
    direction = find_direction("".join(share.text for share in shares))
    table = f'<table class="strip" dir="{direction}">\n{head}\n{"".join(lines)}</table>'
    return scrollable(table, f"{explained}: {title}")


def _row(name: str, values: Iterable[str]) -> str:
    cells = "".join(f"<td>{escape(value)}</td>" for value in values)
    return f'<tr><th scope="row">{name}</th>{cells}</tr>\n'


def _layers(piece: str, layers: Sequence[LayerReading]) -> str:
    header = ("after layer", "most probable", "p", f"p of {piece}", "rank")
    rows = [
        (
            str(number),
            layer.best,
            f"{layer.best_probability:.3f}",
            f"{layer.probability:.3f}",
            str(layer.rank),
        )
        for number, layer in enumerate(layers, start=1)
    ]
    caption = f"What each decoder layer would write for {piece}"
    return _render_table(caption, header, rows)


def _render_table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    return scrollable(Listing(caption, caption, header, rows).as_html(), caption)


def _draw_beam(explanation: Explanation, word: WordExplanation) -> str:
    console = Console(file=io.StringIO(), width=_TREE_WIDTH, color_system=None)
    console.print(draw_tree(explanation.trace, {word.departure.node: f"← {word.other}"}))
    tree = console.file.getvalue()  # type: ignore[attr-defined]
    return "<p>The beam:</p>\n" + scrollable(f"<pre>{escape(tree)}</pre>", "The beam")
