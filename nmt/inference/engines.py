"""Which engine of a translator serves a request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from nmt.errors import UserError
from nmt.inference.contract import BeamOptions, Engine, SamplingOptions

if TYPE_CHECKING:  # loads Keras
    from nmt.inference.keras_engine import KerasEngine


class Engines:
    """A preferred engine, and the Keras engine for requests that it does not support.

    May be used by several threads at a time.

    Args:
        preferred: serves every request that it supports.
        load_keras_engine: loads the Keras engine with the same weights; called at most once. None:
            the preferred engine is the only one.
    """

    def __init__(
        self, preferred: Engine, load_keras_engine: Callable[[], KerasEngine] | None = None
    ) -> None:
        self.preferred = preferred
        self._load_keras_engine = load_keras_engine
        self._keras_engine = preferred.keras_engine
        self._lock = threading.Lock()

    @property
    def has_keras(self) -> bool:
        """Whether the Keras engine is loaded or can be."""
        return self._keras_engine is not None or self._load_keras_engine is not None

    def keras(self, feature: str) -> KerasEngine:
        """Return the Keras engine; load it if it is not loaded yet.

        Args:
            feature: what needs it, for the message.

        Raises:
            UserError: the Keras engine is missing or cannot be loaded.
        """
        with self._lock:
            if self._keras_engine is None:
                if self._load_keras_engine is None:
                    raise UserError(
                        f"{feature} needs the Keras engine, which this translator does not have: "
                        "load a run with engine 'auto' or 'keras'"
                    )
                self._keras_engine = self._load_keras_engine()
            return self._keras_engine

    def supporting(self, options: BeamOptions | SamplingOptions) -> Engine:
        """Return the first engine that supports the options; the Keras engine supports all.

        Raises:
            UserError: no engine supports them.
        """
        if self.preferred.supports(options):
            return self.preferred
        return self.keras(
            "sampling" if isinstance(options, SamplingOptions) else "a coverage penalty"
        )
