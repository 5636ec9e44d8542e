"""The ``data.noise`` group: changes of training pairs, so that a model copes with such text."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from nmt.config.checks import MISSING, between

Share = Annotated[float, between(0, 1)]


@dataclass
class NoiseConfig:
    """Shares of training pairs that are changed in each way, drawn anew in every epoch.

    The target stays as it is, unless said otherwise.
    """

    case: Share = MISSING  # capitals, title case or lower case; for tokenizers that keep case
    accents: Share = MISSING  # accents are missing
    punctuation: Share = MISSING  # marks are missing or doubled
    typos: Share = MISSING  # one typing error
    joined: Share = MISSING  # two to four pairs are joined, on both sides
    spans: Share = MISSING  # on both sides, a slot for a kept span instead of a name, or beside
    quotes: Share = MISSING  # on both sides, quotation marks around the sentence

    @classmethod
    def off(cls) -> NoiseConfig:
        """Return rates of 0."""
        return cls(**{key.name: 0.0 for key in fields(cls)})

    @property
    def rates(self) -> dict[str, float]:
        """Kind of change -> share of pairs."""
        return {key.name: getattr(self, key.name) for key in fields(self)}

    @property
    def is_on(self) -> bool:
        """Whether any pair is changed."""
        return any(self.rates.values())
