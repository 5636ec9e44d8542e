"""The batch after this one is laid out in a thread."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from nmt.data.batches import Batch, RowSelection
from nmt.training.prefetching import Prefetcher

WAIT = 30  # seconds, after which a test gives up


class Layout:
    """Lays out batches that name their address, and records who asked for which."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, bool]] = []
        self.laid_out = threading.Semaphore(0)

    def __call__(
        self, stage: int, step: int, shuffle: int, selection: RowSelection | None
    ) -> Batch:
        here = threading.current_thread() is threading.main_thread()
        if step == 13:
            raise OSError("a damaged shard")
        self.calls.append((step, here))
        self.laid_out.release()
        return {"address": np.array([stage, step, shuffle])}


def test_the_next_batch_is_there_before_it_is_asked_for() -> None:
    layout = Layout()
    with Prefetcher(layout) as prefetcher:
        for step in range(5):
            batch = prefetcher.get((0, step, 0, None))
            np.testing.assert_array_equal(batch["address"], [0, step, 0])
            for _ in range(2 if step == 0 else 1):
                assert layout.laid_out.acquire(timeout=WAIT)
    assert layout.calls == [(0, True), *((step, False) for step in range(1, 6))]


@pytest.mark.parametrize("address", [(1, 1, 0, None), (0, 1, 1, None), (0, 0, 0, None)])
def test_another_batch_than_was_expected_is_laid_out_anew(
    address: tuple[int, int, int, None],
) -> None:
    with Prefetcher(Layout()) as prefetcher:
        prefetcher.get((0, 0, 0, None))
        batch = prefetcher.get(address)
    np.testing.assert_array_equal(batch["address"], address[:3])


def test_another_selection_of_rows_is_laid_out_anew() -> None:
    layout = Layout()
    with Prefetcher(layout) as prefetcher:
        prefetcher.get((0, 0, 0, np.arange))
        assert prefetcher.get((0, 1, 0, np.arange)) is not None
        prefetcher.get((0, 2, 0, np.flip))
    assert (2, True) in layout.calls


def test_an_error_reaches_whoever_asks_for_the_batch() -> None:
    with Prefetcher(Layout()) as prefetcher:
        prefetcher.get((0, 12, 0, None))
        with pytest.raises(OSError, match="a damaged shard"):
            prefetcher.get((0, 13, 0, None))


def test_outside_of_its_context_nothing_is_laid_out_ahead() -> None:
    layout = Layout()
    prefetcher = Prefetcher(layout)
    prefetcher.get((0, 3, 0, None))
    with prefetcher:
        prefetcher.get((0, 4, 0, None))
    threads = [thread.name for thread in threading.enumerate()]
    assert not [name for name in threads if name.startswith("batches")]
    assert layout.calls[:2] == [(3, True), (4, True)]


def test_no_two_batches_are_laid_out_at_once() -> None:
    busy = threading.Lock()

    def build(stage: int, step: int, shuffle: int, selection: RowSelection | None) -> Batch:
        assert busy.acquire(blocking=False)
        time.sleep(0.01)  # seconds, in which the other thread could begin
        busy.release()
        return {}

    with Prefetcher(build) as prefetcher:
        for step in (0, 5, 0, 5):  # never the one that is laid out ahead
            prefetcher.get((0, step, 0, None))
