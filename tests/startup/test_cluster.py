"""Which processes train together, as the environment says."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from nmt.errors import UserError
from nmt.startup.cluster import Cluster, expand_counts, find_cluster


def variable(workers: list[str], index: int, **jobs: list[str]) -> dict[str, str]:
    cluster = {"worker": workers, **jobs}
    return {
        "TF_CONFIG": json.dumps(
            {"cluster": cluster, "task": {"type": "worker", "index": index}},
        )
    }


def test_a_cluster_is_read_and_written() -> None:
    cluster = find_cluster(variable(["a:1", "b:2"], 1))
    assert cluster == Cluster(("a:1", "b:2"), 1)
    assert find_cluster({"TF_CONFIG": cluster.to_tf_config()}) == cluster


def test_a_chief_comes_first() -> None:
    assert find_cluster(variable(["a:1", "b:2"], 1, chief=["c:3"])) == Cluster(
        ("c:3", "a:1", "b:2"), 2
    )


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "training.devices=multiworker finds no other workers"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, "finds no other workers"),
        ({"TF_CONFIG": "no JSON"}, "TF_CONFIG does not describe a cluster"),
        ({"TF_CONFIG": "[]"}, "TF_CONFIG does not describe a cluster"),
        (variable(["a:1"], 1), "TF_CONFIG has no worker 1"),
        (variable(["a:1", "a:1"], 1), "or the same address twice"),
        (variable(["a", "b"], 1), "each worker as host:port"),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, "a SLURM variable is missing or invalid"),
    ],
)
def test_what_is_no_cluster_is_said(environment: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_cluster(environment)


def test_tasks_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts in the order of ``scontrol``, not of the alphabet; tasks host by host."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        '#!/bin/sh\n[ "$*" = "show hostnames gpu[9-11]" ] || exit 1\n'
        "for number in 9 10 11; do echo gpu$number; done\n"
    )
    scontrol.chmod(scontrol.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    environment = {
        **{"SLURM_PROCID": "3", "SLURM_NTASKS": "5", "SLURM_JOB_ID": "1230042"},
        **{"SLURM_STEP_NODELIST": "gpu[9-11]", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1"},
    }
    cluster = find_cluster(environment)
    assert cluster.index == 3
    assert cluster.workers == (
        "gpu9:20042",
        "gpu9:20043",
        "gpu10:20042",
        "gpu10:20043",
        "gpu11:20042",
    )
    with pytest.raises(UserError, match="SLURM names 3 nodes and 2 tasks"):
        find_cluster(environment | {"SLURM_STEP_TASKS_PER_NODE": "2"})
    with pytest.raises(UserError, match=r"scontrol show hostnames other failed"):
        find_cluster(environment | {"SLURM_STEP_NODELIST": "other"})


def test_counts_of_tasks() -> None:
    assert expand_counts("2(x3),1") == [2, 2, 2, 1]
    assert expand_counts("4") == [4]
    with pytest.raises(UserError, match="tasks per node are invalid: two"):
        expand_counts("two")
