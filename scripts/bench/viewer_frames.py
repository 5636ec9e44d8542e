"""Measure how many frames a second the attention viewer draws, in Chromium. A JSON line per row.

    python scripts/bench/viewer_frames.py --tokens 200

A script in the page moves the pointer to the next token, or chooses the next layer, in each frame;
what the picture still has to draw is drawn in the same frames. Frames are not limited to the 60 a
second of a usual screen. Chromium draws without a graphics card: with one, it is faster.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from nmt.model.contract import AttentionKind
from nmt.viewer.page import attention_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
UNLIMITED = ["--no-sandbox", "--disable-frame-rate-limit", "--disable-gpu-vsync"]
LAYERS = 6
CROSS = AttentionKind("cross", "cross-attention", "target_out", "source")

# Returns the milliseconds of each frame. `next` is called once a frame.
MEASURE = """async ([seconds, act]) => {
  const tokens = [...document.querySelectorAll(".token[data-side=row]")];
  const hovered = (i) => {
    const token = tokens[i % tokens.length].querySelector("rect");
    const box = token.getBoundingClientRect();
    token.dispatchEvent(new PointerEvent("pointermove", {
      bubbles: true, clientX: box.x + 2, clientY: box.y + 2,
    }));
  };
  const field = document.querySelector("select[name=layer]");
  const layer = (i) => {
    field.value = String(i % field.options.length);
    field.dispatchEvent(new Event("change"));
  };
  const next = { hover: hovered, layer, still: () => {} }[act], times = [];
  await new Promise((done) => {
    let last = performance.now(), end = last + 1000 * seconds, i = 0;
    const frame = () => {
      const now = performance.now();
      times.push(now - last);
      last = now;
      if (now > end) return done();
      next(i++);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  return times.slice(2);
}"""


class Example:
    """Attention of a sentence pair that has as many tokens on both sides.

    Args:
        tokens: of each side.
        heads: of each layer.
    """

    kinds = (CROSS,)

    def __init__(self, tokens: int, heads: int) -> None:
        generator = np.random.default_rng(1)
        scores = generator.normal(size=(LAYERS, heads, tokens, tokens)) * 2
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        self.weights = {"cross": weights / weights.sum(-1, keepdims=True)}
        self._tokens = [f"▁word{i}" for i in range(tokens)]

    def tokens(self, axis: str) -> list[str]:
        """Return the tokens of any axis."""
        return self._tokens


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the frames of the attention viewer.")
    parser.add_argument("--tokens", type=int, default=200, help="of each side (%(default)s)")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5, help="for each row (%(default)s)")
    parser.add_argument("--browser", default=next(filter(None, map(shutil.which, BROWSERS)), None))
    arguments = parser.parse_args()
    if arguments.browser is None:
        sys.exit(f"none of {', '.join(BROWSERS)} was found: name one with --browser")
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        example = Example(arguments.tokens, arguments.heads)
        path.write_text(attention_page([("example", example)], "Frames"), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=arguments.browser, args=UNLIMITED)
        for view, heads, act in (
            ("matrix", "mean of all", "still"),
            ("matrix", "mean of all", "hover"),
            ("matrix", "mean of all", "layer"),
            ("lines", "mean of all", "hover"),
            ("lines", "mean of all", "layer"),
            ("lines", "each of them", "hover"),
            ("lines", "each of them", "layer"),
            ("all heads", None, "still"),
        ):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            times = measure(page, path.as_uri(), view, heads, act, arguments.seconds)
            row = {"view": view, "heads": heads, "each frame": act, **summarize(times)}
            print(json.dumps(row), flush=True)
            page.close()
        browser.close()


def measure(
    page: Any, address: str, view: str, heads: str | None, act: str, seconds: float
) -> list[float]:
    """Return the milliseconds of each frame while something changes in each of them."""
    page.goto(address)
    page.get_by_role("radio", name=view, exact=True).check()
    if heads is not None:
        page.get_by_role("checkbox", name=heads).check()
    page.wait_for_timeout(1000)
    times: list[float] = page.evaluate(MEASURE, [seconds, act])
    return times


def summarize(times: list[float]) -> dict[str, float]:
    """Return frames a second, and the milliseconds of the median and the slowest 1% of frames."""
    return {
        "frames a second": round(1000 * len(times) / sum(times), 1),
        "median ms": round(statistics.median(times), 1),
        "slowest 1% ms": round(statistics.quantiles(times, n=100)[98], 1),
    }


if __name__ == "__main__":
    main()
