"""What the checks of the groups are made of: each names the key that is wrong, and what it may be.

Raises, throughout: `UserError`.
"""

from __future__ import annotations

from typing import Any

from nmt.errors import UserError, suggest

# A key without a default: its value stands in a YAML file, or is missing. OmegaConf's own mark,
# written out so that the types need no OmegaConf.
MISSING: Any = "???"


def check_one_of(key: str, value: str, choices: tuple[str, ...]) -> None:
    """Check that a value is one of a few words."""
    if value not in choices:
        raise UserError(f"{key}={value} is none of {', '.join(choices)}{suggest(value, choices)}")


def check_at_least(key: str, value: float, least: float) -> None:
    """Check the lower end of a number's range."""
    if not value >= least:
        raise UserError(f"{key}={value} must be at least {least}")


def check_between(key: str, value: float, low: float, high: float) -> None:
    """Check both ends of a number's range."""
    if not low <= value <= high:
        raise UserError(f"{key}={value} must lie between {low} and {high}")


def check_above_zero(key: str, value: float | None, otherwise: str = "") -> None:
    """Check that a number, if there is one, is above 0."""
    if value is not None and value <= 0:
        raise UserError(f"{key}={value} must be above 0{otherwise}")
