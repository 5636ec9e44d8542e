"""A cache of compiled programs on disk, so that a second start does not compile again."""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from nmt.startup.nvidia import nvidia_driver

_FLAGS = "TF_XLA_FLAGS"
_DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
# On one H200, JAX 0.11 compiled the first update of 36 million parameters for more than 100 s
# with these on (their defaults), and for 42 s without: docs/performance.md.
_SLOW_TO_COMPILE = ("xla_gpu_experimental_enable_fusion_autotuner", "xla_gpu_enable_triton_gemm")


def use_compilation_cache(folder: Path) -> None:
    """Make XLA store its compiled programs below ``folder``, and reuse them.

    Must be called before TensorFlow or JAX is imported. The key of a program is a hash of its
    source. Each kind of processor, each kind of GPU with its driver, and each version of the
    libraries has a subfolder. Cache settings of the user take precedence. A folder that cannot be
    written to, such as another user's, is only read.
    """
    folder = (folder / _fingerprint()).absolute()
    cache, can_write = str(folder), _can_write(folder)
    if can_write:
        _remove_empty_programs(folder)
    flags = os.environ.get(_FLAGS, "")
    # TensorFlow splits the variable at white space, and has no quotes.
    has_space = any(character.isspace() for character in cache)
    if not has_space and "persistent_cache_directory" not in flags:
        cache_flags = (
            f"--tf_xla_persistent_cache_directory={cache} "
            "--tf_xla_persistent_cache_device_types=CPU,GPU"
        )
        if not can_write:  # TensorFlow would fail; JAX only warns
            cache_flags += " --tf_xla_persistent_cache_read_only=true"
        os.environ[_FLAGS] = f"{flags} {cache_flags}".strip()
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", cache)


def _can_write(folder: Path) -> bool:
    """Whether files can be written into a folder, which may not exist yet."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(existing, os.W_OK)


def _remove_empty_programs(folder: Path) -> None:
    """Remove programs that a power loss emptied: TensorFlow would fail to read them."""
    for path in folder.glob("*.pb"):
        with suppress(OSError):  # removed by another process
            if path.stat().st_size == 0:
                path.unlink()


def skip_slow_xla_passes() -> None:
    """Switch off the XLA passes that take most of the compilation time on GPUs with JAX.

    Must be called before JAX is imported. Flags of the user take precedence. JAX knows both flags
    from 0.9 on; others end the process.
    """
    # TensorFlow reads the same variable, and does not know all flags: it ends the process.
    if os.environ.get("KERAS_BACKEND") != "jax" or nvidia_driver() is None:
        return
    flags = os.environ.get("XLA_FLAGS", "")
    _add_flags(*(f"--{name}=false" for name in _SLOW_TO_COMPILE if name not in flags))


def use_deterministic_operations() -> None:
    """Make XLA use deterministic operations, unless it has compiled something already."""
    _add_flags(_DETERMINISTIC)


def _add_flags(*added: str) -> None:
    flags = os.environ.get("XLA_FLAGS", "").split()
    os.environ["XLA_FLAGS"] = " ".join(dict.fromkeys([*flags, *added]))


def _fingerprint() -> str:
    """Return a hash of the machine, libraries and flags that a compiled program depends on."""
    state = hashlib.blake2b(digest_size=8)
    state.update(" ".join(platform.uname()[4:]).encode())
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    keys = ("flags", "Features", "model name")
    for line in sorted({line for line in lines if line.startswith(keys)}):
        state.update(line.encode())
    # TensorFlow's own key names neither the flags nor the GPU: its code could run on another one.
    state.update(str(nvidia_driver()).encode())
    state.update(os.environ.get("XLA_FLAGS", "").encode())
    for package in ("tensorflow", "jax", "jaxlib"):
        try:
            state.update(f"{package} {metadata.version(package)}".encode())
        except metadata.PackageNotFoundError:
            continue
    return state.hexdigest()
