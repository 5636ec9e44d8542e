"""Checks of single values. Each raises a `UserError` that names the key and its valid values."""

from __future__ import annotations

from typing import Any

from nmt.errors import UserError, suggest_closest

# A key without a default: its value is set in a YAML file, or missing. OmegaConf's own mark,
# written out so that the types do not import OmegaConf.
MISSING: Any = "???"


def check_choice(key: str, value: str, choices: tuple[str, ...]) -> None:
    """Check that a value is one of the choices."""
    if value not in choices:
        raise UserError(
            f"{key} must be one of {', '.join(choices)}, got {value}"
            f"{suggest_closest(value, choices)}"
        )


def check_at_least(key: str, value: float, least: float) -> None:
    """Check the lower end of a number's range."""
    if not value >= least:
        raise UserError(f"{key} must be at least {least}, got {value}")


def check_between(key: str, value: float, low: float, high: float) -> None:
    """Check both ends of a number's range."""
    if not low <= value <= high:
        raise UserError(f"{key} must be between {low} and {high}, got {value}")


def check_above_zero(key: str, value: float | None, alternative: str = "") -> None:
    """Check that a number is above 0, or None."""
    if value is not None and value <= 0:
        raise UserError(f"{key} must be above 0{alternative}, got {value}")
