"""Dynamic batching: requests that wait at the same time are computed together.

One thread owns the computation, which blocks and is no faster when called from several. It knows
nothing of HTTP or of models: any callable over a list of items will do.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
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
    """Too much work is waiting already."""


class ClosedError(Exception):
    """The batcher is closing and takes nothing new."""


@dataclass(eq=False)
class _Request(Generic[Item, Options, Result]):
    items: Sequence[Item]
    work: Sequence[int]  # of each item
    options: Options
    arrived: float  # seconds of the monotonic clock
    future: Future[list[Result]] = field(default_factory=Future)
    taken: int = 0  # items that are in a batch or have been
    results: list[Result] = field(default_factory=list)

    @property
    def left(self) -> int:
        return len(self.items) - self.taken

    @property
    def work_left(self) -> int:
        return sum(self.work[self.taken :])


class Batcher(Generic[Item, Options, Result]):
    """Compute the items of many requests in batches, on a thread of its own.

    Requests take turns. The one whose turn it is decides the options of the next batch, so none
    waits for ever; it and the others of equal options give one item each, round after round, until
    the batch is full. A request with items left goes to the end of the queue, so that a large one
    delays a small one by little. A request whose future is cancelled is dropped, or what is left of
    it.

    Args:
        compute: takes items and their options, returns one result per item in order. An exception
            goes to the requests of that batch alone.
        work: what an item costs with these options, in any unit.
        max_batch: most items in one call of ``compute``.
        max_batch_work: most work in one call, unless a single item is more.
        max_wait_s: how long a request may wait for company, in seconds, while nothing is computed.
        max_queue: most work waiting.
        waiting_elsewhere: tells work that waits elsewhere, and takes room in this queue.
        observe: is told the number of items of every batch.
    """

    def __init__(
        self,
        compute: Callable[[list[Item], Options], Sequence[Result]],
        *,
        work: Callable[[Item, Options], int],
        max_batch: int,
        max_batch_work: int,
        max_wait_s: float,
        max_queue: int,
        waiting_elsewhere: Callable[[], int] = lambda: 0,
        observe: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._compute = compute
        self._work_of = work
        self._max_batch = max_batch
        self._max_batch_work = max_batch_work
        self._max_wait_s = max_wait_s
        self._max_queue = max_queue
        self._waiting_elsewhere = waiting_elsewhere
        self._observe = observe
        # An ordered set: whose turn it is comes first.
        self._queue: OrderedDict[_Request[Item, Options, Result], None] = OrderedDict()
        self._waiting = 0
        self._closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Work accepted that is in no batch yet."""
        return self._waiting

    @property
    def alive(self) -> bool:
        """Whether anything will be computed."""
        return self._thread.is_alive()

    def submit(
        self, items: Sequence[Item], options: Options, *, urgent: bool = False
    ) -> Future[list[Result]]:
        """Accept a request; its future gives one result per item, in order.

        Args:
            items: what to compute.
            options: of all of them.
            urgent: whether it has the next turn, even if the queue is full.

        Raises:
            QueueFullError: there would be more work than may wait.
            ClosedError: `close` was called.
        """
        work = [self._work_of(item, options) for item in items]
        request: _Request[Item, Options, Result] = _Request(items, work, options, monotonic())
        with self._changed:
            if self._closed:
                raise ClosedError
            waiting = self._waiting + self._waiting_elsewhere()
            if not urgent and waiting + sum(work) > self._max_queue:
                raise QueueFullError
            if items:
                self._queue[request] = None
                if urgent:
                    self._queue.move_to_end(request, last=False)
                self._waiting += sum(work)
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
                self._waiting -= request.work_left

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
                    patience = self._oldest() + self._max_wait_s - monotonic()
                self._changed.wait(patience)
            batch = []
            for request, count in self._take().items():
                part = request.items[request.taken : request.taken + count]
                self._waiting -= sum(request.work[request.taken : request.taken + count])
                request.taken += count
                batch.append((request, part))
                if request.left:
                    self._queue.move_to_end(request)
                else:
                    del self._queue[request]
            return batch

    def _take(self) -> Counter[_Request[Item, Options, Result]]:
        """Return how many items each request gives to the next batch: one a round."""
        counts: Counter[_Request[Item, Options, Result]] = Counter()
        room, work = self._max_batch, self._max_batch_work
        round_ = self._of_the_first()
        while round_ and room:
            going_on = []
            for request in round_:
                cost = request.work[request.taken + counts[request]]
                if counts and (cost > work or not room):  # its turn comes with another batch
                    continue
                counts[request] += 1
                room, work = room - 1, work - cost
                if counts[request] < request.left:
                    going_on.append(request)
            round_ = going_on
        return counts

    def _ready(self) -> bool:
        if self._closed:
            return True
        if not self._queue:
            return False
        if monotonic() >= self._oldest() + self._max_wait_s:
            return True
        first = self._of_the_first()
        return (
            sum(request.left for request in first) >= self._max_batch
            or sum(request.work_left for request in first) >= self._max_batch_work
        )

    def _oldest(self) -> float:
        return min(request.arrived for request in self._queue)

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
