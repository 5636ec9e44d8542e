"""The page of a comparison: one sentence's attention in every model, side by side."""

from __future__ import annotations

import html
from collections.abc import Sequence

from nmt.analysis.comparison.runs import TEST_SCORE, RunSummary, SentenceResult
from nmt.analysis.comparison.table import MISSING, describe_differences, format_score
from nmt.viewer.page import attention_cell, make_document

_STYLE = """:root { color-scheme: light dark; }
body {
  margin: 0; padding: 1rem 1.25rem; font: 0.9375rem/1.45 system-ui, sans-serif;
  background: light-dark(#fbfaf7, #17181b); color: light-dark(#1c1c1f, #ececef);
}
h1 { font-size: 1.25rem; }
h2 { margin: 0; font-size: 1rem; }
main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); }
section {
  min-width: 0; padding: 0.75rem; border: 1px solid light-dark(#cbc8c0, #45464d);
  border-radius: 0.5rem;
}
p { margin: 0.25rem 0; }
.facts { color: light-dark(#5c5c64, #a9a9b2); font-size: 0.8125rem; }
"""
_BODY = """<h1 dir="auto">{sentence}</h1>
<p>Each model reads this sentence and writes its own translation.</p>
<main>
{sections}
</main>
"""


def make_page(sentence: str, runs: Sequence[RunSummary], results: Sequence[SentenceResult]) -> str:
    """Return the page as HTML."""
    sections = []
    for run, result in zip(runs, results, strict=True):
        facts = [
            describe_differences(run.differences),
            f"{run.parameters:,} parameters",
            f"test BLEU {format_score(run.scores.get(TEST_SCORE))}",
            f"attention {result.kinds or MISSING}",
        ]
        content = f"<p>{html.escape(result.reason)}</p>"
        if result.attention is not None:
            content = f'<p dir="auto">{html.escape(result.translation)}</p>\n'
            content += attention_cell(result.attention)
        sections.append(
            f"<section>\n<h2>{html.escape(run.name)}</h2>\n"
            f'<p class="facts">{html.escape("; ".join(filter(None, facts)))}</p>\n'
            f"{content}\n</section>"
        )
    body = _BODY.format(sentence=html.escape(sentence), sections="\n".join(sections))
    return make_document(f"Attention in {len(runs)} models", _STYLE, body)
