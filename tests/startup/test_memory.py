"""The allocator keeps what a step frees; Python collects garbage rarely, but does."""

from __future__ import annotations

import ctypes
import gc
import platform
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from nmt.startup.memory import collect_rarely, give_back_large_blocks, keep_freed_memory, settle

CHURN = """
import resource, numpy as np
{setting}
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def step():
    arrays = [np.full(1 << 21, 1.0) for _ in range(4)]
step()
before = faults()
for _ in range(5):
    step()
print(faults() - before)
"""


def faults(setting: str) -> int:
    code = CHURN.format(setting=setting)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the GNU C library")
def test_blocks_freed_by_one_step_are_not_faulted_in_by_the_next() -> None:
    kept = faults("from nmt.startup.memory import keep_freed_memory; assert keep_freed_memory()")
    assert kept < 0.1 * faults("")


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not keep_freed_memory()


@pytest.fixture
def own_thresholds() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


class Node:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def cycle() -> weakref.ref[Node]:
    return weakref.ref(Node())


def test_cycles_are_collected_rarely_but_for_certain(own_thresholds: None) -> None:
    collect_rarely()
    gc.collect()
    lost = cycle()
    kept = [[i] for i in range(10_000)]
    assert lost() is not None
    kept += [[i] for i in range(200_000)]
    assert lost() is None
    assert len(kept) == 210_000


def test_several_pools_may_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        asked: list[tuple[int, int]]
        gnu_get_libc_version = None

        def __init__(self, name: object) -> None:
            Library.asked = []

        def mallopt(self, option: int, value: int) -> int:
            self.asked.append((option, value))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert keep_freed_memory()
    whole = dict(Library.asked)
    assert keep_freed_memory(one_pool=False)
    assert dict(Library.asked) == {option: value for option, value in whole.items() if value != 1}
    assert len(whole) == 3
    assert give_back_large_blocks()
    [(option, size)] = Library.asked
    assert option not in whole
    assert size >= 1 << 20


def test_a_settled_process_finds_new_garbage_soon_and_leaves_the_old_alone(
    own_thresholds: None,
) -> None:
    collect_rarely()
    before = cycle()
    try:
        settle()
        assert before() is None
        assert gc.get_freeze_count() > 10_000
        new = cycle()
        kept = [[] for _ in range(3000)]  # type: ignore[var-annotated]
        assert new() is None
        assert len(kept) == 3000
    finally:
        gc.unfreeze()
