"""The next batch, laid out while the device is busy with this one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from nmt.data.batches import Batch, RowSelection

Address = tuple[
    int, int, int, RowSelection | None
]  # of a batch: stage, step in it, order, local_rows


class Prefetcher:
    """Lays out batches one ahead, in a thread.

    A batch depends on its address alone, so what was laid out in vain, because training goes on
    elsewhere, is dropped.

    Args:
        lay_out: returns the batch of an address; called from the thread while this is a context.
    """

    def __init__(self, lay_out: Callable[[int, int, int, RowSelection | None], Batch]) -> None:
        self._lay_out = lay_out
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
        """Return a batch, and begin to lay out the one after it."""
        stage, step, order, local_rows = address
        ahead, self._next = self._next, None
        if ahead is not None and ahead[0] == address:
            batch = ahead[1].result()
        else:
            batch = self._lay_out(*address)
        if self._thread is not None:
            following = (stage, step + 1, order, local_rows)
            self._next = following, self._thread.submit(self._lay_out, *following)
        return batch
