"""The allocator keeps what a step frees; Python collects garbage rarely, but does."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.startup.memory import (
    available_memory,
    collect_rarely,
    freeze_heap,
    keep_freed_memory,
    return_large_blocks,
    share_gpu_memory,
)

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


def test_a_container_has_less_memory_than_its_machine(tmp_path: Path) -> None:
    """By the files of Linux: a cache of files can be had; a group without a limit has none."""

    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    everything = available_memory(tmp_path)
    assert everything > 1 << 20
    write("proc/meminfo", "MemTotal: 900 kB\nMemAvailable:   800 kB\nCached: 5 kB\n")
    assert available_memory(tmp_path) == 800 * 1024
    write("sys/fs/cgroup/memory.max", "max\n")
    assert available_memory(tmp_path) == 800 * 1024
    write("sys/fs/cgroup/memory.max", "500000\n")
    write("sys/fs/cgroup/memory.current", "300000\n")
    write("sys/fs/cgroup/memory.stat", "anon 100000\nfile 200000\n")
    assert available_memory(tmp_path) == 400_000
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "90000\n")
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", "95000\n")
    write("sys/fs/cgroup/memory/memory.stat", "cache 1\ntotal_cache 1000\n")
    assert available_memory(tmp_path) == 0


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


def test_threads_have_pools_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    arena_max = -8  # malloc.h
    settings: dict[int, int] = {}

    class Library:
        gnu_get_libc_version = None

        def __init__(self, name: object) -> None: ...

        def mallopt(self, option: int, value: int) -> int:
            settings[option] = value
            return 1

    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert keep_freed_memory()
    assert settings
    assert arena_max not in settings
    kept = set(settings)
    assert return_large_blocks()
    [size] = [value for option, value in settings.items() if option not in kept]
    assert size >= 1 << 20


def test_a_settled_process_finds_new_garbage_soon_and_leaves_the_old_alone(
    own_thresholds: None,
) -> None:
    collect_rarely()
    before = cycle()
    try:
        freeze_heap()
        assert before() is None
        assert gc.get_freeze_count() > 10_000
        new = cycle()
        kept = [[] for _ in range(3000)]  # type: ignore[var-annotated]
        assert new() is None
        assert len(kept) == 3000
    finally:
        gc.unfreeze()


GROWTH, PREALLOCATE = "TF_FORCE_GPU_ALLOW_GROWTH", "XLA_PYTHON_CLIENT_PREALLOCATE"
FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (GROWTH, PREALLOCATE, *FRACTIONS):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_gpu_memory_is_taken_as_it_is_needed(unset: pytest.MonkeyPatch) -> None:
    share_gpu_memory()
    assert (os.environ[GROWTH], os.environ[PREALLOCATE]) == ("true", "false")


def test_settings_of_gpu_memory_by_the_user_stay(unset: pytest.MonkeyPatch) -> None:
    unset.setenv(GROWTH, "false")
    unset.setenv(PREALLOCATE, "true")
    share_gpu_memory()
    assert (os.environ[GROWTH], os.environ[PREALLOCATE]) == ("false", "true")


@pytest.mark.parametrize("name", FRACTIONS)
def test_a_share_of_gpu_memory_for_jax_is_preallocated(
    unset: pytest.MonkeyPatch, name: str
) -> None:
    unset.setenv(name, ".5")
    share_gpu_memory()
    assert PREALLOCATE not in os.environ


def test_every_process_shares_gpu_memory(unset: pytest.MonkeyPatch) -> None:
    """Whatever is imported first: TensorFlow and JAX read the settings at their first GPU."""
    code = f"import os, nmt; print(os.environ['{GROWTH}'], os.environ['{PREALLOCATE}'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "true false\n"
