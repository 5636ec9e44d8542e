"""Attention in frames: cells of a notebook, and pages with several viewers.

The first frame carries the viewer, compressed, and gives it to the page around it. Later frames
carry their data and take the viewer from there. Until it is there they show a table.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import html
import sys
from typing import Any

import numpy as np

from nmt.viewer.page import viewer_page
from nmt.viewer.records import AttentionData, encode

_FIRST_HEIGHT = 640  # pixels of a frame until its viewer has set its height
_DATA = "ATTENTION-DATA"  # replaced by the data, in the page that a frame unpacks
_WAIT = 300  # milliseconds between two looks for the viewer
# The frame replaces itself with the viewer's page. The viewer of another version has another name.
_FRAME = """<!doctype html>
<html lang=en>
<meta charset=utf-8>
<title>Attention</title>
<style>:root {{ color-scheme: light dark; background: Canvas; font-family: system-ui }}
h1 {{ font-size: 1rem }}
th, td, caption {{ text-align: start; white-space: nowrap; padding: 0 1em 0 0 }}</style>
<body hidden><main>{table}</main>
<script>
(async () => {{
  const name = `{name}`, viewer = `{viewer}`, data = `{data}`;
  const unpack = (text) => {{
    const packed = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream(`gzip`));
    return new Response(stream);
  }};
  let home = window;
  try {{ if (parent.document) home = parent; }} catch {{ /* another origin */ }}
  if (viewer) home[name] = viewer;
  for (let wait = {wait}; !home[name]; document.body.hidden = false) {{
    await new Promise((done) => setTimeout(done, wait));
  }}
  const bytes = new Uint8Array(await (await unpack(data)).arrayBuffer());
  const record = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(``));
  const page = (await (await unpack(home[name])).text())
    .replace(`{marker}`, JSON.stringify([{{ sentence: ``, record }}]));
  document.open();
  document.write(page);
  document.close();
}})();
</script>
"""
# Untrusted notebooks remove frames and styles, and so show the table.
_UNTRUSTED = (
    "<style>.nmt-no-viewer {{ display: none }}</style><div class=nmt-no-viewer>{table}</div>"
)
_TRUST = (
    "The interactive viewer is shown in trusted notebooks only: run this cell, or trust the "
    "notebook."
)
_ELSEWHERE = (
    "The interactive viewer is stored with the first attention of this notebook: run that cell, or "
    "restart the kernel and run this one."
)

_carrier: str | None = None  # the cell of the running notebook that carries the viewer


def notebook_cell(attention: AttentionData) -> str:
    """Return a frame for the output of the cell that is running.

    The first cell carries the viewer, also when it is run again. Every cell carries it where the
    notebook does not tell which one is running.

    Args:
        attention: attention of one sentence pair.
    """
    global _carrier
    cell = _running_cell()
    if _carrier is None:
        _carrier = cell
    frame = attention_frame(attention, carries_viewer=cell is None or cell == _carrier)
    return f"{_UNTRUSTED.format(table=_strongest(attention, _TRUST))}{frame}"


def _running_cell() -> str | None:
    """Return the id of the cell that is running; None: unknown."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    message: dict[str, Any] = getattr(shell, "get_parent", dict)()
    cell = message.get("metadata", {}).get("cellId")  # sent by JupyterLab and VS Code
    return cell if isinstance(cell, str) else None


def attention_frame(attention: AttentionData, *, carries_viewer: bool = True) -> str:
    """Return a frame that contains the viewer: a page may have many of them.

    The frame takes its height from the viewer, and its colours from the page around it.

    Args:
        attention: attention of one sentence pair.
        carries_viewer: whether the frame contains the viewer, or takes that of another one.
    """
    viewer = _packed_viewer()
    source = _FRAME.format(
        table="" if carries_viewer else f"<h1>Attention</h1>{_strongest(attention, _ELSEWHERE)}",
        name=f"nmt-viewer-{hashlib.sha256(viewer.encode()).hexdigest()[:12]}",
        viewer=viewer if carries_viewer else "",
        data=_pack(encode("", attention)),
        wait=_WAIT,
        marker=_DATA,
    )
    return (
        f'<iframe srcdoc="{html.escape(source)}" title="Attention" '
        f'width="100%" height="{_FIRST_HEIGHT}" style="border: 0"></iframe>'
    )


@functools.cache
def _packed_viewer() -> str:
    return _pack(viewer_page(_DATA, "Attention").encode("utf-8"))


def _pack(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")


def _strongest(attention: AttentionData, note: str) -> str:
    """Return a table: for each token the one with the largest weight, mean of the last layer.

    Args:
        attention: attention of one sentence pair.
        note: the reason for showing a table.
    """
    kind = attention.kinds[-1]
    weights = np.asarray(attention.weights[kind.name][-1], np.float32).mean(0)  # [rows, columns]
    columns = attention.tokens(kind.columns)
    body = "".join(
        f"<tr><td>{html.escape(token)}<td>{html.escape(columns[row.argmax()])}<td>{row.max():.2f}"
        for token, row in zip(attention.tokens(kind.rows), weights, strict=True)
    )
    return (
        f"<p>{note}</p><table><caption>{html.escape(kind.title)}, last layer, mean of its heads"
        "</caption><tr><th scope=col>token<th scope=col>attends most to<th scope=col>weight"
        f"{body}</table>"
    )
