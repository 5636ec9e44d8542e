"""Attention as one HTML file: the viewer of the TensorBoard plugin with its data, all inlined.

The viewer's modules become one: what `nmt.serving` adds to its own page is made here as well.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

from nmt.viewer.records import Viewed, encode

BROWSER = Path(__file__).parent / "browser"
# Each stands behind those that it imports from.
VIEWER_MODULES = (
    "record.js",
    "colours.js",
    "forms.js",
    "tokens.js",
    "choices.js",
    "reader.js",
    "player.js",
    "controls.js",
    "grid.js",
    "matrix.js",
    "lines.js",
    "plot.js",
    "tooltip.js",
    "viewer.js",
)

# Nothing may be asked of any server, whatever a token says.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';
    img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
{body}</body>
</html>
"""
_VIEWER = """<main></main>
<script type="application/json" id="attention">{data}</script>
<script type="module">
{script}</script>
"""


def make_document(title: str, style: str, body: str) -> str:
    """Return an HTML page that asks nothing of any server.

    Args:
        title: as text.
        style: CSS, ending with a line break.
        body: HTML, ending with a line break.
    """
    return _PAGE.format(title=html.escape(title), style=style, body=body)


def attention_page(attentions: Sequence[tuple[str, Viewed]], title: str) -> str:
    """Return an HTML page with an interactive viewer of the sentences' attention.

    Args:
        attentions: Sentences and their attention; the viewer lets one choose among them.
        title: Title of the page.

    Raises:
        ValueError: Weights do not fit their tokens.
    """
    data = [
        {
            "sentence": sentence,
            "record": base64.b64encode(encode(sentence, attention)).decode("ascii"),
        }
        for sentence, attention in attentions
    ]
    body = _VIEWER.format(
        # In JSON a "<" stands in strings only; escaped, no token can end the element.
        data=json.dumps(data).replace("<", "\\u003c"),
        script=inline_script(BROWSER / "file.js"),
    )
    return make_document(title, inline_style(BROWSER / "page.css"), body)


def attention_cell(attention: Viewed, height: int = 640) -> str:
    """Return attention as a notebook shows it: a page in a frame, of which a page may hold many.

    Args:
        attention: of one sentence pair.
        height: of the frame, in pixels.
    """
    page = attention_page([("", attention)], "Attention")
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="Attention" width="100%" height="{height}" '
        'style="border: 0; resize: vertical; overflow: auto"></iframe>'
    )


def inline_script(script: Path) -> str:
    """Return a script that mounts the viewer as a module that holds all that it imports."""
    paths = [*(BROWSER / name for name in VIEWER_MODULES), script]
    modules = "".join(path.read_text(encoding="utf-8") for path in paths)
    modules = re.sub(r'^import [^;]* from "[./][^"]*";\n', "", modules, flags=re.MULTILINE)
    return re.sub(r"^export ", "", modules, flags=re.MULTILINE)


def inline_style(style: Path) -> str:
    """Return the style of a page together with the viewer's."""
    paths = (BROWSER / "viewer.css", style)
    return "".join(path.read_text(encoding="utf-8") for path in paths)
