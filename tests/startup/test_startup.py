"""What the commands set up, and what they do without."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.xdist_group("startup")

NAMES = ("nmt", "nmt.config", "nmt.config.schema", "nmt.runs.folder", "nmt.files")
NAMES += ("nmt.data.corpus",)
CODE = f"""
import gc, json, os, sys, warnings
from nmt.startup.commands import set_up_translation, warn_in_one_line
set_up_translation()
warn_in_one_line()
for _ in range(2):
    warnings.warn("a text is too long")
print(os.environ["TF_NUM_INTRAOP_THREADS"], gc.get_threshold()[0], "tensorflow" in sys.modules)

heavy = {{"hydra", "omegaconf", "numpy", "keras", "tensorflow", "jax"}}
loaded = {{}}
for name in {NAMES!r}:
    __import__(name)
    loaded[name] = sorted(heavy & sys.modules.keys())
print(json.dumps(loaded))

from pathlib import Path
from nmt.startup.commands import set_up_training
os.environ["XLA_FLAGS"] = "--mine"
set_up_training(Path("cache"))
print(os.environ["XLA_FLAGS"])
set_up_training(Path("cache"), deterministic=True)
print(os.environ["XLA_FLAGS"])
"""


@pytest.fixture(scope="module")
def done() -> subprocess.CompletedProcess[str]:
    """What a fresh process says; each of its imports finds what those before it loaded."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_NUM_INTRAOP_THREADS"}
    return subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment
    )


def test_every_warning_is_one_line_and_nothing_heavy_is_imported(
    done: subprocess.CompletedProcess[str],
) -> None:
    assert done.stderr == "warning: a text is too long\n" * 2
    assert done.stdout.splitlines()[0] == "1 100000 False"


@pytest.mark.parametrize("name", NAMES)
def test_types_run_folders_and_corpora_need_nothing_heavy(
    done: subprocess.CompletedProcess[str], name: str
) -> None:
    """Neither Hydra nor OmegaConf, NumPy or Keras: a wrong path is said before they are there."""
    assert json.loads(done.stdout.splitlines()[1])[name] == []


def test_xla_is_told_to_be_deterministic_where_that_is_asked_for(
    done: subprocess.CompletedProcess[str],
) -> None:
    flags = done.stdout.splitlines()[2:]
    assert flags == ["--mine", "--mine --xla_gpu_deterministic_ops=true"]
