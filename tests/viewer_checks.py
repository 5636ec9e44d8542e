"""What tests of the viewer compare: displayed and logged weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from conftest import PATIENCE
from fake_attention import STEPS, attention

BEFORE, OLD, NEW = (
    f"{name}/logs" for name in ("2025-12-31_before", "2026-01-01_old", "2026-01-02_new")
)


def until(page: Any, condition: str) -> None:
    """Wait as `wait_for_function` does, which a content security policy forbids."""
    for _ in range(PATIENCE // 50):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def token(page: Any, side: str, index: int) -> Any:
    return page.locator(f'.token[data-side="{side}"][data-index="{index}"]')


def expect_lit(page: Any, side: str, weights: list[str]) -> None:
    """Wait until the lit tokens of a side carry these weights."""
    from playwright.sync_api import expect

    tokens = page.locator(f'.token.lit[data-side="{side}"]')
    expect(tokens).to_have_count(len(weights))
    for number, weight in enumerate(weights):
        expect(tokens.nth(number)).to_have_attribute("data-weight", weight)


def written(weights: Any) -> list[str]:
    return [f"{weight:.3f}" for weight in np.asarray(weights, np.float64)]


def stored(weights: Any) -> Any:
    """Return weights as a record has them."""
    return weights.astype(np.float16).astype(np.float64)


def mean(step: int, layer: int, heads: list[int], kind: str = "cross") -> Any:
    """Return what the record of an update has for some heads of a layer, counted from 1."""
    weights = stored(getattr(attention(sharpness=STEPS[step]), kind))
    return weights[layer - 1, [head - 1 for head in heads]].mean(axis=0)
