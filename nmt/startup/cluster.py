"""Discovery of the processes that train together: from TF_CONFIG, or from SLURM's variables."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from nmt.errors import UserError

VARIABLE = "TF_CONFIG"
_FIRST_PORT, _PORTS = 20_000, 10_000  # range of the ports; the number of a job selects its first
_HELP = (
    f"training.devices=multiworker finds no other workers: set {VARIABLE}, or start it under srun; "
    "see docs/scaling.md"
)


@dataclass(frozen=True)
class Cluster:
    """The processes that train together.

    Attributes:
        workers: host:port of each process; the first one writes.
        index: index of this process among them.
    """

    workers: tuple[str, ...]
    index: int

    def to_tf_config(self) -> str:
        """Return the value of TF_CONFIG that describes this cluster."""
        task = {"type": "worker", "index": self.index}
        return json.dumps({"cluster": {"worker": list(self.workers)}, "task": task})


def find_cluster(environment: Mapping[str, str]) -> Cluster:
    """Return the cluster that the environment variables describe.

    Raises:
        UserError: the description is missing, incomplete or invalid.
    """
    if environment.get(VARIABLE):
        return _parse_tf_config(environment[VARIABLE])
    if environment.get("SLURM_PROCID") and int(environment.get("SLURM_NTASKS", "1")) > 1:
        return _query_slurm(environment)
    raise UserError(_HELP)


def _parse_tf_config(text: str) -> Cluster:
    """Return the cluster that TF_CONFIG describes; a chief comes before the workers."""
    try:
        config = json.loads(text)
        jobs, task = config["cluster"], config["task"]
        chiefs, workers = jobs.get("chief", []), jobs.get("worker", [])
        addresses = tuple(str(address) for address in (*chiefs, *workers))
        index = int(task["index"]) + (0 if task["type"] == "chief" else len(chiefs))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{VARIABLE} does not describe a cluster: {error!r}") from error
    if not 0 <= index < len(addresses) or len(set(addresses)) < len(addresses):
        raise UserError(f"{VARIABLE} has no worker {index}, or the same address twice")
    if not all(re.fullmatch(r".+:\d+", address) for address in addresses):
        raise UserError(f"{VARIABLE} must give each worker as host:port")
    return Cluster(addresses, index)


def _query_slurm(environment: Mapping[str, str]) -> Cluster:
    """Return the tasks of a job step, node by node.

    Tasks of one node have consecutive numbers, SLURM's default (``--distribution=block``). Hosts
    have the order of ``scontrol``, which is not alphabetical.
    """
    try:
        number = int(environment["SLURM_PROCID"])
        nodes = environment.get("SLURM_STEP_NODELIST") or environment["SLURM_JOB_NODELIST"]
        counts = environment.get("SLURM_STEP_TASKS_PER_NODE") or environment["SLURM_TASKS_PER_NODE"]
        job = int(environment["SLURM_JOB_ID"])
    except (KeyError, ValueError) as error:
        raise UserError(f"a SLURM variable is missing or invalid: {error!r}") from error
    try:
        listing = subprocess.run(
            ["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"scontrol show hostnames {nodes} failed: {error}") from error
    hosts, tasks = listing.stdout.split(), expand_counts(counts)
    if len(hosts) != len(tasks) or not 0 <= number < sum(tasks):
        raise UserError(f"SLURM names {len(hosts)} nodes and {counts} tasks on them")
    port = _FIRST_PORT + job % _PORTS
    workers = [
        f"{host}:{port + local}"
        for host, count in zip(hosts, tasks, strict=True)
        for local in range(count)
    ]
    return Cluster(tuple(workers), number)


def expand_counts(text: str) -> list[int]:
    """Return SLURM's task counts, one per node: "2(x3),1" is [2, 2, 2, 1].

    Raises:
        UserError: the text has another form.
    """
    counts: list[int] = []
    for group in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", group)
        if not match:
            raise UserError(f"SLURM's tasks per node are invalid: {text}")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts
