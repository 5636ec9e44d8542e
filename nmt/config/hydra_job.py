"""The Hydra job that runs in this process."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode


@dataclass(frozen=True)
class HydraJob:
    """A job of ``python -m nmt.train``."""

    number: int  # of the job in its sweep, from 1
    overrides: list[str]  # of the configuration, as on the command line
    is_sweep: bool  # whether the job belongs to a sweep

    @classmethod
    def current(cls) -> HydraJob:
        """Return the job that Hydra is running."""
        job = HydraConfig.get()
        is_sweep = job.mode == RunMode.MULTIRUN
        number = job.job.num + 1 if is_sweep else 1
        return cls(number, list(job.overrides.task), is_sweep)


def make_command(overrides: Sequence[str]) -> list[str]:
    """Return the command that runs one job alone, with the configuration files of this one."""
    job = HydraConfig.get()
    options = ["--config-name", str(job.job.config_name)]
    names = {"main": "--config-path", "command-line": "--config-dir"}
    for source in job.runtime.config_sources:
        if source.provider in names:
            options += [names[source.provider], source.path]
    # The search path is passed on; other settings of Hydra belong to the sweep.
    pattern = r"\+{0,2}hydra\.searchpath="
    search_paths = [override for override in job.overrides.hydra if re.match(pattern, override)]
    command = [sys.executable, "-m", "nmt.train", *options]
    return [*command, *overrides, *search_paths, "hydra.mode=RUN"]
