"""Attention as one HTML file: the viewer of the TensorBoard plugin with its data, all inlined.

The viewer's modules are joined to one script, which the page of `nmt.serving` contains too.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

from nmt.viewer.records import AttentionData, encode

BROWSER = Path(__file__).parent / "browser"
# In an order in which each follows the modules that it imports.
VIEWER_MODULES = (
    "record.js",
    "words.js",
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
    "pane.js",
    "changes.js",
    "outputs.js",
    "csv.js",
    "drawing.js",
    "saving.js",
    "tooltip.js",
    "viewer.js",
)

# The policy forbids every request to a server, whatever a token contains.
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
    """Return an HTML page that makes no request to any server.

    Args:
        title: title of the page, as plain text.
        style: CSS that ends with a line break.
        body: HTML that ends with a line break.
    """
    return _PAGE.format(title=html.escape(title), style=style, body=body)


def scrollable(content: str, label: str) -> str:
    """Return content that a keyboard can scroll, too; the style is the page's.

    Args:
        content: HTML.
        label: what it is, as plain text.
    """
    name = html.escape(label)
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{name}">{content}</div>\n'


def attention_page(attentions: Sequence[tuple[str, AttentionData]], title: str) -> str:
    """Return an HTML page with an interactive viewer of the sentences' attention.

    Args:
        attentions: sentences and their attention, among which the user can choose.
        title: title of the page.

    Raises:
        ValueError: weights do not fit their tokens.
    """
    data = [
        {
            "sentence": sentence,
            "record": base64.b64encode(encode(sentence, attention)).decode("ascii"),
        }
        for sentence, attention in attentions
    ]
    # JSON has "<" in strings only. Escaped, no token can end the element.
    return viewer_page(json.dumps(data).replace("<", "\\u003c"), title)


def viewer_page(data: str, title: str) -> str:
    """Return an HTML page with the viewer.

    Args:
        data: JSON that `browser/file.js` reads, without "<".
        title: title of the page.
    """
    body = _VIEWER.format(data=data, script=inline_script(BROWSER / "file.js"))
    return make_document(title, inline_style(BROWSER / "page.css"), body)


def inline_script(*scripts: Path) -> str:
    """Return scripts that mount the viewer, joined with all modules that they import.

    Args:
        scripts: in an order in which each follows those that it imports.
    """
    paths = [*(BROWSER / name for name in VIEWER_MODULES), *scripts]
    modules = "".join(path.read_text(encoding="utf-8") for path in paths)
    modules = re.sub(r'^import [^;]* from "[./][^"]*";\n', "", modules, flags=re.MULTILINE)
    return re.sub(r"^export ", "", modules, flags=re.MULTILINE)


def inline_style(style: Path) -> str:
    """Return the viewer's style followed by the style of a page."""
    paths = (BROWSER / "viewer.css", style)
    return "".join(path.read_text(encoding="utf-8") for path in paths)
