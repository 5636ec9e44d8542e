"""Compiled programs, kept on disk: the second start of the same run does not compile again."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib import metadata
from pathlib import Path

from nmt.startup.nvidia import nvidia_driver

_FLAGS = "TF_XLA_FLAGS"


def use_compilation_cache(folder: Path) -> None:
    """Keep the programs that XLA compiles in ``folder``, and take them from there if they fit.

    Must be called before TensorFlow or JAX is imported. A program is found again by a hash of what
    was compiled; each kind of processor, each kind of GPU with its driver, and each version of the
    libraries has a folder of its own.
    Settings of the user's own for either cache are left alone.
    """
    own = folder / _fingerprint()
    flags = os.environ.get(_FLAGS, "")
    # TensorFlow splits the variable at white space and knows no quotes.
    speakable = not any(character.isspace() for character in str(own.absolute()))
    if speakable and "persistent_cache_directory" not in flags:
        more = (
            f"--tf_xla_persistent_cache_directory={own.absolute()} "
            "--tf_xla_persistent_cache_device_types=CPU,GPU"
        )
        os.environ[_FLAGS] = f"{flags} {more}".strip()
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(own.absolute()))


def _fingerprint() -> str:
    """Name what a compiled program depends on beside its source."""
    state = hashlib.blake2b(digest_size=8)
    state.update(" ".join(platform.uname()[4:]).encode())
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    told = ("flags", "Features", "model name")
    for line in sorted({line for line in lines if line.startswith(told)}):
        state.update(line.encode())
    # TensorFlow's own key names no GPU: code of one model might be run on another.
    state.update(str(nvidia_driver()).encode())
    for package in ("tensorflow", "jax", "jaxlib"):
        try:
            state.update(f"{package} {metadata.version(package)}".encode())
        except metadata.PackageNotFoundError:
            continue
    return state.hexdigest()
