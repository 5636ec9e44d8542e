"""The allocator keeps what a step frees."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from nmt.memory import keep_freed_memory

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
    kept = faults("from nmt.memory import keep_freed_memory; assert keep_freed_memory()")
    assert kept < 0.1 * faults("")


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not keep_freed_memory()
