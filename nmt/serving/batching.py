"""Dynamic batching: requests that wait at the same time are computed together.

The computation blocks, and several threads would not make it faster: one thread runs it. This
module is independent of HTTP and of models; it batches calls of any function over a list of items.
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
    """The batcher is closing and accepts no more requests."""


@dataclass(eq=False)
class _Request(Generic[Item, Options, Result]):
    items: Sequence[Item]
    work: Sequence[int]  # of each item
    options: Options
    arrival: float  # seconds of the monotonic clock
    deliver: Callable[[int, Result], None] | None
    future: Future[list[Result]] = field(default_factory=Future)
    batched: int = 0  # items that are, or were, in a batch
    results: list[Result] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        return len(self.items) - self.batched

    @property
    def waiting_work(self) -> int:
        return sum(self.work[self.batched :])


class Batcher(Generic[Item, Options, Result]):
    """Compute the items of many requests in batches, on a thread of its own.

    Requests take turns. The first in the queue decides the options of the next batch, so none waits
    for ever. It and all others with equal options contribute one item each, round after round,
    until the batch is full. A request with items left moves to the end of the queue, so that a
    large one delays a small one by little. The rest of a request whose future is cancelled is
    dropped.

    Args:
        compute: takes items and their options, returns one result per item in order. An exception
            fails the requests of that batch only.
        work: cost of an item with these options, in any unit.
        max_batch: most items in one call of ``compute``.
        max_batch_work: most work in one call, unless a single item is more.
        max_wait_s: how long a request may wait to be batched with others, in seconds, while
            nothing is computed.
        max_queue: most work waiting.
        waiting_elsewhere: returns work that waits elsewhere and counts towards ``max_queue``.
        observe: called with the number of items of every batch.
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
        # An ordered set: the request whose turn is next comes first.
        self._queue: OrderedDict[_Request[Item, Options, Result], None] = OrderedDict()
        self._waiting = 0
        self._closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._run, name="batcher", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Accepted work that is not in a batch yet."""
        return self._waiting

    @property
    def is_alive(self) -> bool:
        """Whether the thread still computes batches."""
        return self._thread.is_alive()

    def submit(
        self,
        items: Sequence[Item],
        options: Options,
        *,
        urgent: bool = False,
        deliver: Callable[[int, Result], None] | None = None,
    ) -> Future[list[Result]]:
        """Accept a request; its future gives one result per item, in order.

        Args:
            items: inputs of the computation.
            options: of all these items.
            urgent: whether the request is next, even if the queue is full.
            deliver: called with the index of each item and its result, as soon as its batch is
                computed, on the thread that computes. An exception fails the request.

        Raises:
            QueueFullError: more than ``max_queue`` would wait.
            ClosedError: `close` was called.
        """
        work = [self._work_of(item, options) for item in items]
        request: _Request[Item, Options, Result] = _Request(
            items, work, options, monotonic(), deliver
        )
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
        request.future.add_done_callback(lambda _: self._remove(request))
        return request.future

    def close(self) -> None:
        """Refuse new requests, and return when all accepted ones are answered."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _remove(self, request: _Request[Item, Options, Result]) -> None:
        """Remove a request that is answered or cancelled from the queue."""
        with self._changed:
            if request in self._queue:
                del self._queue[request]
                self._waiting -= request.waiting_work

    def _run(self) -> None:
        while batch := self._next_batch():
            items = [item for _, share in batch for item in share]
            try:
                self._observe(len(items))
                results = self._compute(items, batch[0][0].options)
                if len(results) != len(items):
                    raise ValueError(f"{len(results)} results for {len(items)} items")
            except BaseException as error:  # of any kind, since callers must not wait for ever
                for request, _ in batch:
                    self._fail(request, error)
                continue
            start = 0
            for request, share in batch:
                end = start + len(share)
                try:
                    _deliver(request, results[start:end])
                except Exception as error:
                    self._fail(request, error)
                start = end

    def _fail(self, request: _Request[Item, Options, Result], error: BaseException) -> None:
        self._remove(request)
        if request.future.set_running_or_notify_cancel():
            request.future.set_exception(error)

    def _next_batch(self) -> list[tuple[_Request[Item, Options, Result], Sequence[Item]]]:
        """Wait until a batch is ready, and take its items from the queue.

        Returns:
            Requests, each with its items in the batch; empty when the batcher is closed and
            everything is answered.
        """
        with self._changed:
            while not self._is_ready():
                timeout = self._deadline() - monotonic() if self._queue else None
                self._changed.wait(timeout)
            batch = []
            for request, count in self._count_items().items():
                first, last = request.batched, request.batched + count
                self._waiting -= sum(request.work[first:last])
                request.batched = last
                batch.append((request, request.items[first:last]))
                if request.waiting:
                    self._queue.move_to_end(request)
                else:
                    del self._queue[request]
            return batch

    def _count_items(self) -> Counter[_Request[Item, Options, Result]]:
        """Return how many items each request contributes to the next batch: one a round."""
        counts: Counter[_Request[Item, Options, Result]] = Counter()
        items_left, work_left = self._max_batch, self._max_batch_work
        contributors = self._next_requests()
        while contributors and items_left:
            next_round = []
            for request in contributors:
                work = request.work[request.batched + counts[request]]
                if counts and (work > work_left or not items_left):
                    continue
                counts[request] += 1
                items_left, work_left = items_left - 1, work_left - work
                if counts[request] < request.waiting:
                    next_round.append(request)
            contributors = next_round
        return counts

    def _is_ready(self) -> bool:
        if self._closed:
            return True
        if not self._queue:
            return False
        requests = self._next_requests()
        return (
            monotonic() >= self._deadline()
            or sum(request.waiting for request in requests) >= self._max_batch
            or sum(request.waiting_work for request in requests) >= self._max_batch_work
        )

    def _deadline(self) -> float:
        """Return when the oldest request has waited long enough."""
        return min(request.arrival for request in self._queue) + self._max_wait_s

    def _next_requests(self) -> list[_Request[Item, Options, Result]]:
        """Return the first request and all others with its options, in order."""
        if not self._queue:
            return []
        options = next(iter(self._queue)).options
        return [request for request in self._queue if request.options == options]


def _deliver(request: _Request[Item, Options, Result], results: Sequence[Result]) -> None:
    if request.deliver is not None and not request.future.cancelled():
        for index, result in enumerate(results, len(request.results)):
            request.deliver(index, result)
    request.results += results
    is_complete = len(request.results) == len(request.items)
    if is_complete and request.future.set_running_or_notify_cancel():
        request.future.set_result(request.results)
