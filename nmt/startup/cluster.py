"""Who else trains with this process: from TF_CONFIG, or from what SLURM tells its tasks."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from nmt.errors import UserError

VARIABLE = "TF_CONFIG"
_FIRST_PORT, _PORTS = 20_000, 10_000  # of which a job takes those from its number on
_HELP = (
    f"training.devices=multiworker finds no other workers: set {VARIABLE}, or start it under srun; "
    "see docs/scaling.md"
)


@dataclass(frozen=True)
class Cluster:
    """The processes that train together.

    Attributes:
        workers: host:port of each; the first one writes.
        index: of this process among them.
    """

    workers: tuple[str, ...]
    index: int

    def as_variable(self) -> str:
        """Return the value of TF_CONFIG that says this."""
        task = {"type": "worker", "index": self.index}
        return json.dumps({"cluster": {"worker": list(self.workers)}, "task": task})


def find_cluster(environment: Mapping[str, str]) -> Cluster:
    """Return the cluster that the environment describes.

    Raises:
        UserError: it describes none, or not all of it.
    """
    if environment.get(VARIABLE):
        return _read_variable(environment[VARIABLE])
    if environment.get("SLURM_PROCID") and int(environment.get("SLURM_NTASKS", "1")) > 1:
        return _ask_slurm(environment)
    raise UserError(_HELP)


def _read_variable(text: str) -> Cluster:
    """Read TF_CONFIG; a chief comes before the workers."""
    try:
        found = json.loads(text)
        jobs, task = found["cluster"], found["task"]
        chiefs, workers = jobs.get("chief", []), jobs.get("worker", [])
        every = tuple(str(one) for one in (*chiefs, *workers))
        index = int(task["index"]) + (0 if task["type"] == "chief" else len(chiefs))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{VARIABLE} is no description of a cluster: {error!r}") from error
    if not 0 <= index < len(every) or len(set(every)) < len(every):
        raise UserError(f"{VARIABLE} has no worker {index}, or the same address twice")
    if not all(re.fullmatch(r".+:\d+", one) for one in every):
        raise UserError(f"{VARIABLE} must give each worker as host:port")
    return Cluster(every, index)


def _ask_slurm(environment: Mapping[str, str]) -> Cluster:
    """Return the tasks of a job step, node by node.

    Tasks of one node are numbered one after the other, as SLURM does by default
    (``--distribution=block``). Hosts come in the order in which ``scontrol`` lists them, which is
    not that of the alphabet.
    """
    try:
        number = int(environment["SLURM_PROCID"])
        nodes = environment.get("SLURM_STEP_NODELIST") or environment["SLURM_JOB_NODELIST"]
        counts = environment.get("SLURM_STEP_TASKS_PER_NODE") or environment["SLURM_TASKS_PER_NODE"]
        job = int(environment["SLURM_JOB_ID"])
    except (KeyError, ValueError) as error:
        raise UserError(f"SLURM says too little of this job: {error!r}") from error
    try:
        listed = subprocess.run(
            ["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"scontrol show hostnames {nodes} failed: {error}") from error
    hosts, tasks = listed.stdout.split(), spread_counts(counts)
    if len(hosts) != len(tasks) or not 0 <= number < sum(tasks):
        raise UserError(f"SLURM names {len(hosts)} nodes and {counts} tasks on them")
    port = _FIRST_PORT + job % _PORTS
    workers = [
        f"{host}:{port + local}"
        for host, count in zip(hosts, tasks, strict=True)
        for local in range(count)
    ]
    return Cluster(tuple(workers), number)


def spread_counts(text: str) -> list[int]:
    """Return SLURM's counts of tasks, one per node: "2(x3),1" is [2, 2, 2, 1].

    Raises:
        UserError: it is something else.
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if not match:
            raise UserError(f"{text} are no counts of tasks per node")
        found += [int(match[1])] * int(match[2] or 1)
    return found
