"""Compiled programs are kept, and found again by a second process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.startup import compilation
from nmt.startup.compilation import skip_slow_xla_passes, use_compilation_cache
from nmt.startup.nvidia import NvidiaDriver

pytestmark = pytest.mark.xdist_group("compilation")

# Takes a folder, and programs with a factor each; prints what each gives, and the kept files with
# their times.
CODE = """
import json, sys
from pathlib import Path
from nmt.startup.compilation import use_compilation_cache

folder = Path(sys.argv[1])
use_compilation_cache(folder)

def run_tensorflow(factor):
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def function(x):
        return tf.reduce_sum(tf.tanh(x @ x) * factor)

    return float(function(tf.eye(16) / 3))

def run_jax(factor):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return float(jax.jit(lambda x: (jnp.tanh(x @ x) * factor).sum())(jnp.eye(16) / 3))

for program, factor in json.loads(sys.argv[2]):
    result = {"tensorflow": run_tensorflow, "jax": run_jax}[program](factor)
    files = {path.name: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    kept = {name: time for name, time in files.items() if "atime" not in name}
    print(json.dumps([result, kept]))
"""
FUSION, TRITON = compilation._SLOW_TO_COMPILE
PROGRAMS = ("tensorflow", "jax")
Result = tuple[float, dict[str, int]]  # of a program, and the kept files with their times


def run(folder: Path, *programs: tuple[str, float]) -> list[Result]:
    """Run programs in one process, each with its factor."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_XLA_FLAGS"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder), json.dumps(programs)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    """Each program's results: in a first process, in a second, and there with another factor."""
    folder = tmp_path_factory.mktemp("compiled")
    first = run(folder, *((program, 1.5) for program in PROGRAMS))
    second = run(folder, *((program, factor) for factor in (1.5, 2.5) for program in PROGRAMS))
    return {program: [*first[i : i + 1], *second[i::2]] for i, program in enumerate(PROGRAMS)}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_program_is_compiled_once(results: dict[str, list[Result]], program: str) -> None:
    (first, kept), (second, still), (other, more) = results[program]
    assert kept
    assert second == first
    everything = results[PROGRAMS[-1]][0][1]  # that the first process kept
    assert kept.items() <= everything.items()
    assert still == everything
    assert other != first
    assert everything.items() < more.items()


def test_each_program_is_kept(results: dict[str, list[Result]]) -> None:
    for number in (0, 2):
        tensorflow, jax = (results[program][number][1] for program in PROGRAMS)
        assert tensorflow.items() < jax.items()


def test_flags_of_the_user_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_max_cluster_size=9")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    use_compilation_cache(tmp_path)
    once = os.environ["TF_XLA_FLAGS"]
    assert once.startswith("--tf_xla_max_cluster_size=9 ")
    assert str(tmp_path) in once
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine"
    use_compilation_cache(tmp_path / "elsewhere")
    assert os.environ["TF_XLA_FLAGS"] == once


@pytest.mark.parametrize(
    ("backend", "driver", "flags", "expected"),
    [
        ("jax", NvidiaDriver("580", ("H200",)), "", [FUSION, TRITON]),
        ("jax", NvidiaDriver("580", ("H200",)), f"--mine --{TRITON}=true", [FUSION]),
        ("jax", None, "--mine", []),
        ("tensorflow", NvidiaDriver("580", ("H200",)), "--mine", []),
    ],
)
def test_on_gpus_jax_compiles_without_long_searches(
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    driver: NvidiaDriver | None,
    flags: str,
    expected: list[str],
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", backend)
    monkeypatch.setenv("XLA_FLAGS", flags)
    monkeypatch.setattr(compilation, "nvidia_driver", lambda: driver)
    skip_slow_xla_passes()
    added = [f"--{name}=false" for name in expected]
    assert os.environ["XLA_FLAGS"].split() == [*flags.split(), *added]


def test_a_folder_with_a_space_is_not_passed_to_tensorflow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TF_XLA_FLAGS", raising=False)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    use_compilation_cache(tmp_path / "two words")
    assert "TF_XLA_FLAGS" not in os.environ


@pytest.fixture
def _cache_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_XLA_FLAGS", "")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")  # what is set below is undone


@pytest.mark.usefixtures("_cache_settings")
def test_programs_that_a_power_loss_emptied_are_removed(tmp_path: Path) -> None:
    use_compilation_cache(tmp_path)
    folder = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    folder.mkdir(parents=True)
    (folder / "empty.pb").touch()
    (folder / "full.pb").write_bytes(b"program")
    use_compilation_cache(tmp_path)
    assert [path.name for path in folder.iterdir()] == ["full.pb"]


@pytest.mark.usefixtures("_cache_settings")
@pytest.mark.parametrize("can_write", [True, False])
def test_a_folder_of_another_user_is_only_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, can_write: bool
) -> None:
    asked: list[Path] = []

    def access(path: Path, mode: int) -> bool:
        asked.append(path)
        return can_write

    monkeypatch.setattr("nmt.startup.compilation.os.access", access)
    use_compilation_cache(tmp_path / "missing")
    assert asked == [tmp_path]
    flag = "--tf_xla_persistent_cache_read_only=true"
    assert (flag in os.environ["TF_XLA_FLAGS"].split()) == (not can_write)


def test_each_kind_of_gpu_has_a_folder_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = "JAX_COMPILATION_CACHE_DIR", "TF_XLA_FLAGS"
    for name in names:
        monkeypatch.setenv(name, "")  # so that what is set below is undone

    def folder(driver: NvidiaDriver | None) -> str:
        monkeypatch.setattr(compilation, "nvidia_driver", lambda: driver)
        for name in names:
            monkeypatch.delenv(name)
        use_compilation_cache(tmp_path)
        name = os.environ["JAX_COMPILATION_CACHE_DIR"]
        assert f"--tf_xla_persistent_cache_directory={name} " in os.environ["TF_XLA_FLAGS"]
        return name

    machines = [
        None,
        NvidiaDriver("535.104.05", ("Tesla T4",)),
        NvidiaDriver("535.104.05", ("NVIDIA L4",)),
        NvidiaDriver("570.86.15", ("Tesla T4",)),
    ]
    folders = [folder(machine) for machine in machines]
    assert len(set(folders)) == len(machines)
    assert folders == [folder(machine) for machine in machines]
