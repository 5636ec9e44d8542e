"""Attention as one HTML file: the viewer of the TensorBoard plugin with its data, all inlined."""

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
_MODULES = ("record.js", "colours.js", "forms.js", "grid.js", "plot.js", "viewer.js", "file.js")

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
<main></main>
<script type="application/json" id="attention">{data}</script>
<script type="module">
{script}</script>
</body>
</html>
"""


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
    return _PAGE.format(
        title=html.escape(title),
        style=(BROWSER / "viewer.css").read_text(encoding="utf-8"),
        # In JSON a "<" stands in strings only; escaped, no token can end the element.
        data=json.dumps(data).replace("<", "\\u003c"),
        script="".join(map(_inlined, _MODULES)),
    )


def attention_cell(attention: Viewed, height: int = 640) -> str:
    """Return attention as a notebook shows it: a page in a frame, of which a page may hold many.

    Args:
        attention: of one sentence pair.
        height: of the frame, in pixels.
    """
    sentence = " ".join(attention.tokens("source"))
    page = attention_page([(sentence, attention)], "Attention")
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="Attention" width="100%" height="{height}" '
        'style="border: 0; resize: vertical; overflow: auto"></iframe>'
    )


def _inlined(name: str) -> str:
    """Return a module of the viewer as a part of one that holds all of them."""
    source = (BROWSER / name).read_text(encoding="utf-8")
    source = re.sub(r'^import .* from "\./.*";\n', "", source, flags=re.MULTILINE)
    return re.sub(r"^export ", "", source, flags=re.MULTILINE)
