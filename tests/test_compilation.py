"""Compiled programs are kept, and found again by a second process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nmt.startup.compilation import keep_compiled

TENSORFLOW = """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def function(x):
        return tf.reduce_sum(tf.tanh(x @ x) * {factor})

    print(float(function(tf.eye(16) / 3)))
"""
JAX = """
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    print(float(jax.jit(lambda x: (jnp.tanh(x @ x) * {factor}).sum())(jnp.eye(16) / 3)))
"""


def run(program: str, folder: Path, factor: float) -> tuple[str, dict[str, int]]:
    """Return what the program prints, and the kept files with their times."""
    code = f"""
    from pathlib import Path
    from nmt.startup.compilation import keep_compiled
    keep_compiled(Path({str(folder)!r}))
    {program.format(factor=factor)}
    """
    environment = {k: v for k, v in os.environ.items() if k != "TF_XLA_FLAGS"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    files = {p.name: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}
    return done.stdout, {name: time for name, time in files.items() if "atime" not in name}


@pytest.mark.parametrize("program", [TENSORFLOW, JAX], ids=["tensorflow", "jax"])
def test_the_same_program_is_compiled_once(tmp_path: Path, program: str) -> None:
    first, kept = run(program, tmp_path, 1.5)
    assert kept
    second, still = run(program, tmp_path, 1.5)
    assert second == first
    assert still == kept
    other, more = run(program, tmp_path, 2.5)
    assert other != first
    assert kept.items() < more.items()


def test_flags_of_the_user_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_max_cluster_size=9")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    keep_compiled(tmp_path)
    once = os.environ["TF_XLA_FLAGS"]
    assert once.startswith("--tf_xla_max_cluster_size=9 ")
    assert str(tmp_path) in once
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine"
    keep_compiled(tmp_path / "elsewhere")
    assert os.environ["TF_XLA_FLAGS"] == once


def test_a_folder_with_a_space_is_not_passed_to_tensorflow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TF_XLA_FLAGS", raising=False)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    keep_compiled(tmp_path / "two words")
    assert "TF_XLA_FLAGS" not in os.environ
