"""The page of a comparison: findings, tables, sentences word by word, plot and attention."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence

from nmt.analysis.comparison.runs import RunSummary, SentenceResult
from nmt.analysis.comparison.sections import Example, Section
from nmt.analysis.comparison.table import describe_differences
from nmt.analysis.tables import Listing
from nmt.text.scripts import find_direction
from nmt.viewer.cells import attention_frame
from nmt.viewer.page import make_document, scrollable

# Text has a contrast of 7 or more in both schemes; what colours say, lines below words say too.
_STYLE = """:root { color-scheme: light dark; }
body {
  margin: 0 auto; max-width: 76rem; padding: 1rem 1.25rem;
  font: 0.9375rem/1.5 system-ui, sans-serif;
  overflow-wrap: break-word;
  background: light-dark(#fbfaf7, #17181b); color: light-dark(#1c1c1f, #ececef);
}
h1 { font-size: 1.5rem; }
h2 { font-size: 1.25rem; margin: 2rem 0 0.5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 0.25rem; }
a { color: light-dark(#0b4aa2, #9cc4ff); }
:focus-visible { outline: 3px solid light-dark(#0b4aa2, #9cc4ff); outline-offset: 2px; }
ol.findings { font-size: 1.0625rem; padding-left: 1.5rem; }
ol.findings li { margin: 0.375rem 0; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; padding: 0; list-style: none; }
.scroll { overflow-x: auto; margin: 0.5rem 0; }
table { border-collapse: collapse; font-size: 0.875rem; }
caption { text-align: left; color: light-dark(#4a4a52, #b8b8c0); padding: 0.25rem 0; }
th, td { padding: 0.25rem 0.625rem; text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid light-dark(#8a877f, #75767e); }
tbody tr { border-bottom: 1px solid light-dark(#d9d6ce, #3a3b41); }
tbody th { font-weight: 500; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.words td, .words th { white-space: nowrap; padding: 0.125rem 0.375rem; }
.words thead th { font-weight: 500; }
.wrong { color: light-dark(#9c0020, #ffb0b8); text-decoration: underline wavy; }
.missing { color: light-dark(#4a4a52, #b8b8c0); }
.other { font-weight: 700; }
.example { margin: 1rem 0 1.5rem; }
.example p { margin: 0.125rem 0; }
figure { margin: 1rem 0; }
img { max-width: 100%; height: auto; background: #fff; }
details { margin: 0.5rem 0; }
summary { cursor: pointer; padding: 0.25rem 0; }
"""
_BODY = """<header>
<h1>{title}</h1>
<p>{note}</p>
</header>
<main>
<section aria-labelledby="findings">
<h2 id="findings">Findings</h2>
{findings}
</section>
<nav aria-label="Sections">
<ul>
{links}
</ul>
</nav>
{sections}
</main>
"""
_LEGEND = (
    "Wavy red words differ from the reference, bold ones from the other system; · stands for a "
    "missing word."
)


def make_page(
    title: str,
    note: str,
    findings: Mapping[str, Sequence[str]],
    sections: Sequence[tuple[str, str]],
) -> str:
    """Return a page: findings, links to the sections, and the sections.

    Args:
        title: plain text.
        note: plain text below the title.
        findings: plain sentences, by title.
        sections: title in plain text, and content as HTML.
    """
    links, parts = [], []
    for number, (name, content) in enumerate(sections, 1):
        links.append(f'<li><a href="#s{number}">{html.escape(name)}</a></li>')
        parts.append(
            f'<section aria-labelledby="s{number}">\n<h2 id="s{number}">{html.escape(name)}</h2>\n'
            f"{content}</section>"
        )
    body = _BODY.format(
        title=html.escape(title),
        note=html.escape(note),
        findings="\n".join(_render_findings(*each, len(findings)) for each in findings.items()),
        links="\n".join(links),
        sections="\n".join(parts),
    )
    return make_document(title, _STYLE, body)


def _render_findings(title: str, findings: Sequence[str], lists: int) -> str:
    """Return a list, with its title if there are several."""
    heading = f"<h3>{html.escape(title)}</h3>\n" if lists > 1 else ""
    items = "\n".join(f"<li>{html.escape(finding)}</li>" for finding in findings)
    return f'{heading}<ol class="findings">\n{items}\n</ol>'


def render_section(section: Section) -> str:
    """Return the content of a section as HTML."""
    parts = [render_listing(listing, section.title) for listing in section.listings]
    if section.examples:
        parts.append(f"<p>{html.escape(_LEGEND)}</p>\n")
        parts += [_render_example(example, section.names) for example in section.examples]
    return "".join(parts)


def render_listing(listing: Listing, section_title: str = "") -> str:
    """Return a table as HTML; its title is left out if it is that of the section."""
    title = html.escape(listing.title)
    heading = "" if listing.title == section_title else f"<h3>{title}</h3>\n"
    if not listing.rows:
        return f"{heading}<p>{html.escape(listing.note)}</p>\n"
    return f"{heading}{scrollable(listing.as_html(), listing.title)}"


def _render_example(example: Example, names: Sequence[str]) -> str:
    """Return a sentence as a table: a column for each word, a row for each text."""
    reference = "".join(
        f'<td dir="auto">{html.escape(word) or "&nbsp;"}</td>' for word in example.grid.reference
    )
    rows = [f'<tr><th scope="row">reference</th>{reference}</tr>']
    for name, row, score in zip(names, example.grid.outputs, example.scores, strict=True):
        cells = []
        for word, expected in zip(row, example.grid.reference, strict=True):
            classes = []
            if word.text and not word.is_right:
                classes.append("wrong")
            if not word.text and expected:
                classes.append("missing")
            if not word.is_shared:
                classes.append("other")
            text = html.escape(word.text) or ("·" if expected else "&nbsp;")
            content = f'<span class="{" ".join(classes)}">{text}</span>' if classes else text
            cells.append(f'<td dir="auto">{content}</td>')
        label = f"{html.escape(name)}, {score:.1f}"
        rows.append(f'<tr><th scope="row">{label}</th>{"".join(cells)}</tr>')
    body = "\n".join(rows)
    direction = find_direction("".join(example.grid.reference))
    table = f'<table class="words" dir="{direction}">\n<tbody>\n{body}\n</tbody>\n</table>'
    return (
        f'<div class="example">\n<p dir="auto">{example.number}. {html.escape(example.source)}</p>'
        f"\n{scrollable(table, f'Sentence {example.number}, word by word')}</div>\n"
    )


def render_figure(png: bytes, text: str) -> str:
    """Return a picture with its description."""
    data = base64.b64encode(png).decode("ascii")
    return f'<figure><img src="data:image/png;base64,{data}" alt="{html.escape(text)}"></figure>\n'


def render_attention(
    sentence: str, runs: Sequence[RunSummary], results: Sequence[SentenceResult]
) -> str:
    """Return one sentence's attention in every run."""
    parts = [f'<p dir="auto">Each run translates “{html.escape(sentence)}”.</p>\n']
    carries_viewer = True  # the first frame, which gives it to the others
    for number, (run, result) in enumerate(zip(runs, results, strict=True)):
        facts = filter(None, (run.name, describe_differences(run.differences), result.kinds))
        content = f"<p>{html.escape(result.reason)}</p>"
        if result.attention is not None:
            content = f'<p dir="auto">{html.escape(result.translation)}</p>\n'
            content += attention_frame(result.attention, carries_viewer=carries_viewer)
            carries_viewer = False
        is_open = " open" if not number else ""
        parts.append(
            f"<details{is_open}>\n<summary>{html.escape('; '.join(facts))}</summary>\n{content}\n"
            "</details>\n"
        )
    return "".join(parts)
