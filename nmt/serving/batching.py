"""Dynamic batching: requests that wait at the same time are computed together.

One thread owns the computation, which blocks and is no faster when called from several. It knows
nothing of HTTP or of models: any callable over a list of items will do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic
from typing import Generic, TypeVar

Item = TypeVar("Item")
Options = TypeVar("Options", bound=Hashable)
Result = TypeVar("Result")


class QueueFullError(Exception):
    """Too many items are waiting already."""


class ClosedError(Exception):
    """The batcher is closing and takes nothing new."""


@dataclass(eq=False)
class _Request(Generic[Item, Options, Result]):
    items: Sequence[Item]
    options: Options
    arrived: float  # seconds of the monotonic clock
    future: Future[list[Result]] = field(default_factory=Future)
    taken: int = 0  # items that are in a batch or have been
    results: list[Result] = field(default_factory=list)

    @property
    def left(self) -> int:
        return len(self.items) - self.taken


class Batcher(Generic[Item, Options, Result]):
    """Compute the items of many requests in batches, on a thread of its own.

    The request that came first decides the options of the next batch, so none waits for ever; what
    room it leaves is filled with later requests of equal options, in the order they came. A request
    larger than a batch is spread over several. A request whose future is cancelled is dropped, or
    what is left of it.

    Args:
        compute: takes items and their options, returns one result per item in order. An exception
            goes to the requests of that batch alone.
        max_batch: most items in one call of ``compute``.
        max_wait_s: how long a request may wait for company, in seconds, while nothing is computed.
        max_queue: most items waiting.
        observe: is told the number of items of every batch.
    """

    def __init__(
        self,
        compute: Callable[[list[Item], Options], Sequence[Result]],
        *,
        max_batch: int,
        max_wait_s: float,
        max_queue: int,
        observe: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._compute = compute
        self._max_batch = max_batch
        self._max_wait_s = max_wait_s
        self._max_queue = max_queue
        self._observe = observe
        self._queue: dict[_Request[Item, Options, Result], None] = {}  # an ordered set
        self._waiting = 0
        self._closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Items accepted that are in no batch yet."""
        return self._waiting

    def submit(self, items: Sequence[Item], options: Options) -> Future[list[Result]]:
        """Accept a request; its future gives one result per item, in order.

        Raises:
            QueueFullError: the items would be more than may wait.
            ClosedError: `close` was called.
        """
        request: _Request[Item, Options, Result] = _Request(items, options, monotonic())
        with self._changed:
            if self._closed:
                raise ClosedError
            if self._waiting + len(items) > self._max_queue:
                raise QueueFullError
            if items:
                self._queue[request] = None
                self._waiting += len(items)
                self._changed.notify()
        if not items:
            request.future.set_result([])
        request.future.add_done_callback(lambda _: self._forget(request))
        return request.future

    def close(self) -> None:
        """Refuse new requests, and return when all that were accepted have been answered."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _forget(self, request: _Request[Item, Options, Result]) -> None:
        """Take out of the queue what is left of a request that has its answer or wants none."""
        with self._changed:
            if request in self._queue:
                del self._queue[request]
                self._waiting -= request.left

    def _work(self) -> None:
        while batch := self._next_batch():
            items = [item for _, part in batch for item in part]
            try:
                self._observe(len(items))
                results = self._compute(items, batch[0][0].options)
                if len(results) != len(items):
                    raise ValueError(f"{len(results)} results for {len(items)} items")
            except BaseException as error:  # whatever it is, nobody may wait for ever
                for request, _ in batch:
                    self._forget(request)
                    if request.future.set_running_or_notify_cancel():
                        request.future.set_exception(error)
                continue
            begin = 0
            for request, part in batch:
                end = begin + len(part)
                _deliver(request, results[begin:end])
                begin = end

    def _next_batch(self) -> list[tuple[_Request[Item, Options, Result], Sequence[Item]]]:
        """Wait for the next batch: requests, each with its items that are in it.

        Returns:
            An empty list when the batcher is closed and everything answered.
        """
        with self._changed:
            while not self._ready():
                patience = None
                if self._queue:
                    patience = next(iter(self._queue)).arrived + self._max_wait_s - monotonic()
                self._changed.wait(patience)
            batch = []
            room = self._max_batch
            for request in self._of_the_first():
                part = request.items[request.taken : request.taken + room]
                batch.append((request, part))
                request.taken += len(part)
                self._waiting -= len(part)
                if not request.left:
                    del self._queue[request]
                room -= len(part)
                if not room:
                    break
            return batch

    def _ready(self) -> bool:
        if self._closed:
            return True
        if not self._queue:
            return False
        if monotonic() >= next(iter(self._queue)).arrived + self._max_wait_s:
            return True
        return sum(request.left for request in self._of_the_first()) >= self._max_batch

    def _of_the_first(self) -> list[_Request[Item, Options, Result]]:
        """Return the waiting requests that have the options of the first, in order."""
        if not self._queue:
            return []
        options = next(iter(self._queue)).options
        return [request for request in self._queue if request.options == options]


def _deliver(request: _Request[Item, Options, Result], results: Sequence[Result]) -> None:
    request.results += results
    complete = len(request.results) == len(request.items)
    if complete and request.future.set_running_or_notify_cancel():
        request.future.set_result(request.results)
