"""Requests are grouped, none is lost, and what nobody wants is not computed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from nmt.serving.batching import Batcher, ClosedError, QueueFullError

SOON = 10  # seconds within which anything here happens, however busy the machine


class Recorder:
    """A computation that waits for a gate and keeps what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], str]] = []
        self.started = Event()
        self.gate = Event()
        self.gate.set()

    def __call__(self, items: list[str], options: str) -> list[str]:
        self.calls.append((items, options))
        self.started.set()
        assert self.gate.wait(SOON)
        return [f"{item}/{options}" for item in items]


@contextmanager
def batching(compute: Callable[..., Any], **settings: Any) -> Iterator[Batcher[str, str, str]]:
    options = {
        "work": lambda item, options: 1,
        "max_batch": 4,
        "max_batch_work": 1000,
        "max_wait_s": 0.0,
        "max_queue": 100,
    } | settings
    batcher: Batcher[str, str, str] = Batcher(compute, **options)
    try:
        yield batcher
    finally:
        if isinstance(compute, Recorder):
            compute.gate.set()
        batcher.close()


@contextmanager
def busy(compute: Recorder, batcher: Batcher[str, str, str]) -> Iterator[None]:
    """Keep the worker at one batch, so that what is submitted meanwhile waits; then let it go."""
    compute.gate.clear()
    compute.started.clear()
    batcher.submit(["first"], "busy")
    assert compute.started.wait(SOON)
    yield
    compute.calls.clear()
    compute.gate.set()


def results(*futures: Future[list[str]]) -> list[list[str]]:
    return [future.result(SOON) for future in futures]


def test_every_request_gets_its_own_results_in_order() -> None:
    with batching(Recorder()) as batcher:
        futures = [batcher.submit([f"{n}a", f"{n}b"], "x") for n in range(20)]
        assert results(*futures) == [[f"{n}a/x", f"{n}b/x"] for n in range(20)]
        assert batcher.waiting == 0


def test_each_result_is_delivered_once_its_batch_is_done_and_before_the_request_is() -> None:
    delivered: list[tuple[int, str, bool]] = []
    compute = Recorder()
    with batching(compute) as batcher:
        with busy(compute, batcher):
            large = batcher.submit(
                list("abcdef"),
                "x",
                deliver=lambda index, result: delivered.append((index, result, large.done())),
            )
            other = batcher.submit(["z"], "x")
        results(large, other)
    assert delivered == [(index, f"{item}/x", False) for index, item in enumerate("abcdef")]
    assert [len(items) for items, _ in compute.calls] == [4, 3]


def test_a_delivery_that_fails_fails_its_request_and_no_other() -> None:
    def fail(index: int, result: str) -> None:
        raise ZeroDivisionError

    compute = Recorder()
    with batching(compute) as batcher:
        with busy(compute, batcher):
            fragile = batcher.submit(list("abcdef"), "x", deliver=fail)
            other = batcher.submit(["z"], "x")
        assert results(other) == [["z/x"]]
        assert results(batcher.submit(["again"], "x")) == [["again/x"]]
        with pytest.raises(ZeroDivisionError):
            fragile.result(SOON)
        assert batcher.waiting == 0
    assert [items for items, _ in compute.calls] == [list("abcz"), ["again"]]


def test_nothing_is_delivered_to_a_request_that_is_cancelled() -> None:
    compute = Recorder()
    delivered: list[int] = []
    with batching(compute) as batcher:
        compute.gate.clear()
        future = batcher.submit(["a"], "x", deliver=lambda index, _: delivered.append(index))
        assert compute.started.wait(SOON)
        assert future.cancel()
        compute.gate.set()
        results(batcher.submit(["b"], "x"))
    assert delivered == []


def test_waiting_requests_of_equal_options_share_a_batch() -> None:
    compute = Recorder()
    sizes: list[int] = []
    with batching(compute, observe=sizes.append) as batcher:
        with busy(compute, batcher):
            futures = [batcher.submit([item], "x") for item in "abcdef"]
            assert batcher.waiting == 6
        results(*futures)
    assert compute.calls == [(["a", "b", "c", "d"], "x"), (["e", "f"], "x")]
    assert sizes == [1, 4, 2]


def test_the_oldest_request_decides_and_no_group_starves() -> None:
    compute = Recorder()
    with batching(compute) as batcher:
        with busy(compute, batcher):
            submitted = [("a", "x"), ("b", "y"), ("c", "x"), ("d", "y"), ("e", "x")]
            futures = [batcher.submit([item], options) for item, options in submitted]
        assert results(*futures) == [[f"{item}/{options}"] for item, options in submitted]
    assert compute.calls == [(["a", "c", "e"], "x"), (["b", "d"], "y")]


def test_a_rare_group_is_served_while_another_floods() -> None:
    compute = Recorder()
    with batching(compute) as batcher:
        with busy(compute, batcher):
            flood = [batcher.submit([f"{n}"] * 4, "x") for n in range(5)]
            rare = batcher.submit(["rare"], "y")
            flood += [batcher.submit([f"{n}"] * 4, "x") for n in range(5)]
        results(rare, *flood)
    assert compute.calls.index((["rare"], "y")) == 2


def test_a_large_request_is_spread_and_leaves_room_to_others() -> None:
    compute = Recorder()
    with batching(compute) as batcher:
        with busy(compute, batcher):
            large = batcher.submit(list("abcdefghi"), "x")
            small = batcher.submit(["z"], "x")
        assert results(large, small) == [[f"{item}/x" for item in "abcdefghi"], ["z/x"]]
    assert [items for items, _ in compute.calls] == [list("abcz"), list("defg"), list("hi")]


def test_a_batch_is_bounded_in_work_and_requests_take_turns() -> None:
    compute = Recorder()
    with batching(compute, work=lambda item, options: len(item), max_batch_work=4) as batcher:
        with busy(compute, batcher):
            large = batcher.submit(["aaa", "bbb", "ccccc"], "x")
            other = batcher.submit(["ddd"], "y")
            small = [batcher.submit([item], "x") for item in ("ee", "f", "g")]
            assert batcher.waiting == 18
        results(large, other, *small)
        assert batcher.waiting == 0
    assert compute.calls == [
        (["aaa", "f"], "x"),
        (["ddd"], "y"),
        (["ee", "g"], "x"),
        (["bbb"], "x"),
        (["ccccc"], "x"),  # more than a batch by itself
    ]


def test_the_queue_is_bounded_in_work_but_what_is_urgent_comes_first() -> None:
    compute = Recorder()
    with batching(compute, work=lambda item, options: len(item), max_queue=6) as batcher:
        with busy(compute, batcher):
            waiting = batcher.submit(["aaaa"], "x")
            with pytest.raises(QueueFullError):
                batcher.submit(["bbb"], "x")
            urgent = batcher.submit(["cccc"], "y", urgent=True)
        results(waiting, urgent)
    assert compute.calls == [(["cccc"], "y"), (["aaaa"], "x")]


def test_a_batch_of_one_switches_batching_off() -> None:
    compute = Recorder()
    with batching(compute, max_batch=1) as batcher:
        with busy(compute, batcher):
            futures = [batcher.submit(["a", "b"], "x"), batcher.submit(["c"], "x")]
        results(*futures)
    assert [items for items, _ in compute.calls] == [["a"], ["c"], ["b"]]


def test_an_idle_worker_waits_for_company_but_not_when_the_batch_is_full() -> None:
    compute = Recorder()
    with batching(compute, max_wait_s=SOON, max_batch=2) as batcher:
        began = time.monotonic()
        results(batcher.submit(["a"], "x"), batcher.submit(["b"], "x"))
        assert time.monotonic() - began < SOON / 2
    assert compute.calls == [(["a", "b"], "x")]
    with batching(compute, max_wait_s=0.1) as batcher:
        began = time.monotonic()
        results(batcher.submit(["alone"], "x"))
        assert time.monotonic() - began >= 0.1


def test_a_cancelled_request_is_not_computed_and_frees_its_place() -> None:
    compute = Recorder()
    with batching(compute, max_queue=3) as batcher:
        with busy(compute, batcher):
            unwanted = batcher.submit(["a", "b"], "x")
            waiting = batcher.submit(["c"], "x")
            with pytest.raises(QueueFullError):
                batcher.submit(["d"], "x")
            assert unwanted.cancel()
            assert batcher.waiting == 1
            late = batcher.submit(["e", "f"], "x")
        assert results(waiting, late) == [["c/x"], ["e/x", "f/x"]]
        with pytest.raises(CancelledError):
            unwanted.result(SOON)
    assert compute.calls == [(["c", "e", "f"], "x")]


def test_the_rest_of_a_large_request_is_dropped_when_it_is_cancelled() -> None:
    compute = Recorder()
    with batching(compute, max_batch=2) as batcher:
        compute.gate.clear()
        large = batcher.submit(list("abcdef"), "x")
        assert compute.started.wait(SOON)
        assert large.cancel()
        compute.gate.set()
        assert results(batcher.submit(["z"], "x")) == [["z/x"]]
    assert [items for items, _ in compute.calls] == [["a", "b"], ["z"]]


def test_an_exception_reaches_all_requests_of_its_batch_and_no_other() -> None:
    compute = Recorder()

    def fragile(items: list[str], options: str) -> list[str]:
        computed = compute(items, options)
        if "bad" in items:
            raise RuntimeError("cannot")
        return computed

    with batching(fragile) as batcher:
        with busy(compute, batcher):
            company = [batcher.submit([item], "x") for item in ("a", "bad")]
            spread = batcher.submit(["b", "c", "d"], "x")  # its last item belongs to a later batch
            other = batcher.submit(["e"], "y")
        for future in (*company, spread):
            with pytest.raises(RuntimeError, match="cannot"):
                future.result(SOON)
        assert results(other, batcher.submit(["again"], "x")) == [["e/y"], ["again/x"]]
        assert batcher.waiting == 0
    assert (["d"], "x") not in compute.calls


def test_a_wrong_number_of_results_is_an_error_of_the_batch() -> None:
    with batching(lambda items, options: items[1:]) as batcher:
        future = batcher.submit(["a", "b"], "x")
        with pytest.raises(ValueError, match="1 results for 2 items"):
            future.result(SOON)


def test_even_an_exit_inside_the_computation_is_answered() -> None:
    def leaves(items: list[str], options: str) -> list[str]:
        raise SystemExit

    with batching(leaves) as batcher:
        for _ in range(2):
            with pytest.raises(SystemExit):
                batcher.submit(["a"], "x").result(SOON)


def test_closing_answers_what_was_accepted_and_refuses_the_rest() -> None:
    compute = Recorder()
    with batching(compute) as batcher:
        with busy(compute, batcher):
            futures = [batcher.submit([item], item) for item in "abc"]
            closing = Thread(target=batcher.close)
            closing.start()
            while not batcher._closed:
                time.sleep(0.001)
            with pytest.raises(ClosedError):
                batcher.submit(["d"], "x")
            assert closing.is_alive()
        closing.join(SOON)
        assert not closing.is_alive()
        assert results(*futures) == [["a/a"], ["b/b"], ["c/c"]]


def test_no_items_have_no_results_and_take_no_place() -> None:
    compute = Recorder()
    with batching(compute) as batcher:
        assert results(batcher.submit([], "x")) == [[]]
    assert compute.calls == []


def test_many_threads_with_cancellations_lose_nothing() -> None:
    compute = Recorder()
    futures: list[tuple[str, Future[list[str]]]] = []

    def client(number: int) -> None:
        for n in range(50):
            item = f"{number}.{n}"
            future = batcher.submit([item] * (n % 6), "xy"[n % 2])
            futures.append((f"{item}/{'xy'[n % 2]}", future))
            if n % 7 == 0:
                future.cancel()

    with batching(compute, max_wait_s=0.001, max_queue=10_000) as batcher:
        threads = [Thread(target=client, args=(number,), daemon=True) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON)
        assert not wait([future for _, future in futures if not future.cancelled()], SOON).not_done
        assert batcher.waiting == 0
    assert len(futures) == 400
    for expected, future in futures:
        if not future.cancelled():
            assert set(future.result()) <= {expected}
    assert max(len(items) for items, _ in compute.calls) <= 4
