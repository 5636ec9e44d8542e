"""What there is to compute on, and how it is shared."""

from __future__ import annotations

import os

import pytest

from nmt.startup.devices import cores, one_thread_per_operation

SETTING = "TF_NUM_INTRAOP_THREADS"


def test_cores_are_those_this_process_may_use() -> None:
    if not hasattr(os, "sched_setaffinity"):
        assert cores() == os.cpu_count()
        return
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert cores() == len(allowed)


def test_a_thread_setting_of_the_users_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTING, raising=False)
    one_thread_per_operation()
    assert os.environ[SETTING] == "1"
    monkeypatch.setenv(SETTING, "7")
    one_thread_per_operation()
    assert os.environ[SETTING] == "7"
