"""One writer per run, whichever way the last one ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.errors import UserError
from nmt.runs.locking import LOCK_FILE, lock_run

HOLD = """
import sys, time
from pathlib import Path
from nmt.runs.locking import lock_run
with lock_run(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_kill_releases_the_lock_and_the_next_owner_cleans_up(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with (
            pytest.raises(
                UserError, match=rf"is being written by process {holder.pid} on \S+ since"
            ),
            lock_run(tmp_path),
        ):
            pass
        holder.send_signal(signal.SIGKILL)
    half = tmp_path / "checkpoints" / ".partial-12345678-best.npz"
    half.parent.mkdir()
    half.touch()
    with lock_run(tmp_path):
        assert not half.exists()
    assert not (tmp_path / LOCK_FILE).exists()


def test_an_owner_that_said_nothing_keeps_others_out(tmp_path: Path) -> None:
    with lock_run(tmp_path):
        (tmp_path / LOCK_FILE).write_text("{")
        another = "is being written by another process"
        with pytest.raises(UserError, match=another), lock_run(tmp_path):
            pass
    with lock_run(tmp_path):  # as often as one likes
        pass


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "precious"
    elsewhere.write_text("kept")
    run = tmp_path / "run"
    run.mkdir()
    (run / LOCK_FILE).symlink_to(elsewhere)
    with pytest.raises(UserError, match=r"\.lock cannot be written"), lock_run(run):
        pass
    assert elsewhere.read_text() == "kept"
