"""The ``data.noise`` group: changes of training pairs, so that a model copes with such text."""

from __future__ import annotations

from dataclasses import dataclass, fields

from nmt.config.checks import MISSING, check_between


@dataclass
class NoiseConfig:
    """Shares of training pairs that are changed in each way, drawn anew in every epoch.

    The target stays as it is, unless said otherwise.
    """

    case: float = MISSING  # capitals, title case or lower case; for tokenizers that keep case
    accents: float = MISSING  # accents are missing
    punctuation: float = MISSING  # marks are missing or doubled
    typos: float = MISSING  # one typing error
    joined: float = MISSING  # two to four pairs are joined, on both sides
    spans: float = MISSING  # on both sides, a slot for a kept span instead of a name, or beside
    quotes: float = MISSING  # on both sides, quotation marks around the sentence

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


def check_noise(config: NoiseConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first invalid key and its valid values.
    """
    for kind, rate in config.rates.items():
        check_between(f"data.noise.{kind}", rate, 0, 1)
