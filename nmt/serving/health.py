"""The health check: a short text is translated by the thread that translates for everybody."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Generic

from nmt.serving.batching import Batcher, Item, Options, Result
from nmt.serving.problems import unavailable

_HEALTHY_S = 1.0  # how long a passed check is not repeated, however often it is requested


class HealthCheck(Generic[Item, Options, Result]):
    """Checks that share one translation if they are requested at the same time.

    Args:
        batcher: translates.
        items: the short text, for the batcher.
        options: the default search, for the batcher.
        timeout_s: most seconds for the translation.
    """

    def __init__(
        self,
        batcher: Batcher[Item, Options, Result],
        items: Sequence[Item],
        options: Options,
        timeout_s: float,
    ) -> None:
        self._batcher = batcher
        self._items = items
        self._options = options
        self._timeout_s = timeout_s
        self._translation: Future[list[Result]] | None = None
        self._healthy_until = 0.0  # seconds of the monotonic clock

    async def check(self) -> None:
        """Translate the short text, ahead of all waiting work.

        Raises:
            HTTPException: 503 if that fails or takes too long.
        """
        if not self._batcher.is_alive:
            raise unavailable("the thread that translates has died")
        if monotonic() < self._healthy_until:
            return
        if self._translation is None or self._translation.done():
            self._translation = self._batcher.submit(self._items, self._options, urgent=True)
        answer = asyncio.wrap_future(self._translation)
        await asyncio.wait([answer], timeout=self._timeout_s)
        if not answer.done():
            raise unavailable(f"the test translation took longer than {self._timeout_s:g} seconds")
        if answer.exception():
            raise unavailable("the test translation failed")
        self._healthy_until = monotonic() + _HEALTHY_S
