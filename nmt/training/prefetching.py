"""Batches built ahead, while the device is busy with the previous one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self

from nmt.data.batches import Batch, RowSelection

# Address of a batch: stage, step in the stage, number of the shuffle, selection of rows.
Address = tuple[int, int, int, RowSelection | None]


class Prefetcher:
    """Builds batches one ahead, in a thread.

    A batch depends on its address alone: if training asks for another one next, the batch built
    ahead is dropped.

    Args:
        build: returns the batch of an address; called from one thread at a time.
    """

    def __init__(self, build: Callable[[int, int, int, RowSelection | None], Batch]) -> None:
        self._build = build
        self._thread: ThreadPoolExecutor | None = None
        self._next: tuple[Address, Future[Batch]] | None = None

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the thread."""
        assert self._thread is not None
        self._thread.shutdown(cancel_futures=True)
        self._thread = self._next = None

    def get(self, address: Address) -> Batch:
        """Return a batch, and start to build the one after it."""
        stage, step, shuffle, selection = address
        ahead, self._next = self._next, None
        if ahead is not None and ahead[0] == address:
            batch = ahead[1].result()
        else:
            if ahead is not None:
                wait([ahead[1]])  # two batches must not be built at once
            batch = self._build(*address)
        if self._thread is not None:
            following = (stage, step + 1, shuffle, selection)
            self._next = following, self._thread.submit(self._build, *following)
        return batch
