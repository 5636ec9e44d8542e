"""Launch files for several machines, rehearsed with stand-ins for cluster commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import tiny_overrides

from nmt.startup.cluster import Cluster, find_cluster

LAUNCH = Path(__file__).parents[2] / "scripts" / "launch"

# Starts the tasks on this machine. One task of the first job is signalled at the first checkpoint.
SRUN = """#!/usr/bin/env bash
shift # --kill-on-bad-exit
export SLURM_NTASKS=2 SLURM_STEP_NODELIST=node SLURM_STEP_TASKS_PER_NODE=2
tasks=()
for number in 0 1; do
  SLURM_PROCID=$number "$@" >"task_$number.log" 2>&1 &
  tasks+=($!)
done
if [[ ! -e told ]]; then
  until compgen -G "runs/*/latest/checkpoints/step_*.npz" >/dev/null; do sleep 0.1; done
  kill -USR1 "${tasks[1]}"
  touch told
fi
worst=0
for task in "${tasks[@]}"; do
  status=0
  wait "$task" || status=$?
  (( status > worst )) && worst=$status
done
exit $worst
"""
SCONTROL = """#!/usr/bin/env bash
if [[ $1 == requeue ]]; then echo "$2" >>requeued; else echo 127.0.0.1; fi
"""


@pytest.mark.slow
@pytest.mark.usefixtures("default_signals")
def test_a_job_of_slurm_is_told_to_stop_and_goes_on(tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    port = os.getpid() % 2700
    environment = os.environ | {
        "PATH": f"{commands}:{os.environ['PATH']}",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_ID": str(port),
    }
    overrides = [each for each in tiny_overrides(tmp_path) if not each.startswith("runs_dir=")]
    overrides += ["training.max_steps=40", "training.evaluate_every=4", "training.log_every=2"]
    command = ["bash", str(LAUNCH / "slurm.sh"), *overrides]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    first = run()
    assert first.returncode == 75, (tmp_path / "task_0.log").read_text()[-3000:]
    assert (tmp_path / "requeued").read_text().split() == [str(port)]
    run_folder = tmp_path / "runs" / f"slurm_{port}" / "latest"
    steps = {path.stem for path in (run_folder / "checkpoints").glob("step_*.npz")}
    assert "step_00000040" not in steps
    second = run()
    assert second.returncode == 0, (tmp_path / "task_0.log").read_text()[-3000:]
    assert "resumed" in (tmp_path / "task_0.log").read_text()
    assert (run_folder / "evaluation_test.json").is_file()
    assert len(list((tmp_path / "runs" / f"slurm_{port}").glob("2*"))) == 1


@pytest.mark.parametrize(
    ("nodes", "devices", "arguments", "runs"),
    [
        ("4", "multiworker", [], "runs/slurm_7"),
        ("1", "auto", ["runs_dir=scratch/mine"], "scratch/mine/slurm_7"),
    ],
)
def test_a_job_of_slurm_is_resumed_where_its_runs_are(
    tmp_path: Path, nodes: str, devices: str, arguments: list[str], runs: str
) -> None:
    (tmp_path / "srun").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_CPUS_PER_TASK": "16",
    }

    def submit() -> list[str]:
        command = ["bash", str(LAUNCH / "slurm.sh"), "size=xl", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        options, _, overrides = done.stdout.partition("nmt.train\n")
        assert "--cpus-per-task=16" in options.splitlines()
        return overrides.splitlines()

    always = [f"training.devices={devices}", f"runs_dir={runs}"]
    assert submit() == ["size=xl", *arguments, *always]
    checkpoint = tmp_path / runs / "latest" / "checkpoints" / "step_00000001.npz"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    assert submit() == ["training.resume=latest", *always]


def test_what_a_job_set_tells_its_pods(tmp_path: Path) -> None:
    """The shell command sets a valid TF_CONFIG, and the counts of workers agree."""
    [manifest] = yaml.safe_load_all((LAUNCH / "jobset.yaml").read_text())
    [jobs] = manifest["spec"]["replicatedJobs"]
    job: dict[str, Any] = jobs["template"]["spec"]
    [container] = job["template"]["spec"]["containers"]
    variables = {entry["name"]: entry["value"] for entry in container["env"]}
    assert job["completions"] == job["parallelism"] == int(variables["WORKERS"])
    assert job["completionMode"] == "Indexed"
    names = {volume["name"] for volume in job["template"]["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == names
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$TF_CONFIG" "$@"\n')
    python.chmod(0o755)
    environment = variables | {
        "JOB_COMPLETION_INDEX": "1",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        [*container["command"], *container["args"]],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    variable, *arguments = done.stdout.splitlines()
    assert json.loads(variable)["task"] == {"type": "worker", "index": 1}
    set_name, job_name = manifest["metadata"]["name"], jobs["name"]
    hosts = [f"{set_name}-{job_name}-0-{index}.{set_name}:29000" for index in range(2)]
    assert find_cluster({"TF_CONFIG": variable}) == Cluster(tuple(hosts), 1)
    assert arguments[:3] == ["-m", "nmt.train", "training.devices=multiworker"]
