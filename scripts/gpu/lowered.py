"""Results of lowering, on any backend."""

from __future__ import annotations

from dataclasses import dataclass, field


class NotLoweredError(Exception):
    """A called function has no program for a GPU, so it has no result."""


@dataclass
class Lowered:
    """Functions lowered since the last `clear`.

    Attributes:
        functions: their names.
        problems: their operations without GPU support, with the reason.
        kernels: external kernels that they call, such as cuDNN's.
    """

    functions: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    kernels: set[str] = field(default_factory=set)

    def clear(self) -> None:
        """Forget all results."""
        self.functions.clear()
        self.problems.clear()
        self.kernels.clear()
