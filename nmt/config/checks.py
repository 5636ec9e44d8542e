"""Valid values of keys, written into their types; checks raise a `UserError` that names both.

>>> @dataclass
... class Search:
...     beam_size: PositiveInt
>>> check_values(Search(0), "decoding.")
UserError: decoding.beam_size must be at least 1, got 0
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from nmt.errors import UserError

# A key without a default: its value is set in a YAML file, or missing. OmegaConf's own mark,
# written out so that the types do not import OmegaConf.
MISSING: Any = "???"


class Valid(NamedTuple):
    """What a value must be."""

    description: str
    accepts: Callable[[Any], object]  # whether a value is valid: its truth counts


def at_least(least: float) -> Valid:
    """Return the numbers from ``least`` on."""
    return Valid(f"at least {least}", lambda value: value >= least)


def above(limit: float) -> Valid:
    """Return the numbers that are larger than ``limit``."""
    return Valid(f"above {limit}", lambda value: value > limit)


def between(low: float, high: float) -> Valid:
    """Return the numbers from ``low`` to ``high``, both included."""
    return Valid(f"between {low} and {high}", lambda value: low <= value <= high)


def inside(low: float, high: float) -> Valid:
    """Return the numbers between ``low`` and ``high``, both excluded."""
    return Valid(f"above {low} and below {high}", lambda value: low < value < high)


def one_of(*choices: str) -> Valid:
    """Return the choices."""
    return Valid(f"one of {', '.join(choices)}", lambda value: value in choices)


# Static row lengths in tokens; they are stored in 16 bits.
RowLengths = Annotated[
    list[int],
    Valid("lengths from 2 on", lambda rows: rows and 2 <= min(rows) <= max(rows) <= 2**15),
]
PositiveInt = Annotated[int, at_least(1)]
NonNegativeInt = Annotated[int, at_least(0)]
PositiveFloat = Annotated[float, above(0)]
NonNegativeFloat = Annotated[float, at_least(0)]


@cache
def read_valid(schema: type) -> dict[str, Valid]:
    """Return what the values of a dataclass must be, by field, as far as its types say it."""
    valid: dict[str, Valid] = {}
    for name, hint in get_type_hints(schema, include_extras=True).items():
        alternatives = (hint, *get_args(hint))  # such as PositiveInt | None
        or_null = ", or null" if NoneType in alternatives else ""
        for alternative in alternatives:
            for found in getattr(alternative, "__metadata__", ()):
                valid[name] = found._replace(description=found.description + or_null)
    return valid


def check_value(key: str, value: Any, valid: Valid) -> None:
    """Check a single value."""
    if not valid.accepts(value):
        raise UserError(f"{key} must be {valid.description}, got {value}")


def check_values(config: Any, prefix: str = "") -> None:
    """Check all values of a dataclass against their types; every number must be finite.

    Args:
        config: may hold other dataclasses, also in lists and dictionaries.
        prefix: what its keys begin with.
    """
    valid = read_valid(config.__class__)
    for name, value in vars(config).items():
        key = prefix + name
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{key} must be finite, got {value}")
        if value is not None and name in valid:
            check_value(key, value, valid[name])
        children = {key: value}
        if isinstance(value, dict):
            children = {f"{key}.{entry}": child for entry, child in value.items()}
        elif isinstance(value, list):
            children = {f"{key}[{index}]": child for index, child in enumerate(value)}
        for child_key, child in children.items():
            if is_dataclass(child):
                check_values(child, f"{child_key}.")
