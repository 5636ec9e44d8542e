"""What `gpu_lowering.py` learns of what a backend compiled, whichever it is."""

from __future__ import annotations

from dataclasses import dataclass, field


class NotLoweredError(Exception):
    """A function that was called has no program for a GPU; its results are not known."""


@dataclass
class Lowered:
    """The functions that were compiled since the last `clear`.

    Attributes:
        functions: their names.
        problems: operations that a GPU cannot do in them, and why.
        kernels: of others that they call, such as those of cuDNN.
    """

    functions: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    kernels: set[str] = field(default_factory=set)

    def clear(self) -> None:
        """Forget them."""
        self.functions.clear()
        self.problems.clear()
        self.kernels.clear()
