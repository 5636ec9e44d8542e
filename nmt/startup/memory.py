"""Available memory, and the settings of the C allocator, GPU memory and garbage collector."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# malloc.h of the GNU C library
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
_NEVER = -1
_LARGE = 4 << 20  # bytes

# Files of a Linux control group, version 2 and 1: limit, usage, and statistics with the key of the
# file cache, which is part of the usage but can be freed.
_CONTROL_GROUPS = (
    ("memory.max", "memory.current", "memory.stat", "file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_cache",
    ),
)

_RARE = 100_000  # new objects until the next collection
_DEFAULT = 700  # Python's own


def available_memory(system: Path = Path("/")) -> int:
    """Return the bytes that can still be allocated on this system and in its container.

    On systems other than Linux, all physical memory counts as free.

    Args:
        system: root of the file system.
    """
    meminfo, group = system / "proc/meminfo", system / "sys/fs/cgroup"
    free = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    if meminfo.is_file():
        lines = (line.split() for line in meminfo.read_text(encoding="ascii").splitlines())
        free += [1024 * int(line[1]) for line in lines if line[0] == "MemAvailable:"]  # "kB"
    for *files, cache_key in _CONTROL_GROUPS:
        limit_file, usage_file, statistics_file = (group / name for name in files)
        if limit_file.is_file() and (limit := limit_file.read_text("ascii").strip()).isdigit():
            rows = statistics_file.read_text("ascii").splitlines()
            statistics = dict(row.split() for row in rows)
            used = int(usage_file.read_text("ascii")) - int(statistics.get(cache_key, 0))
            free.append(max(0, int(limit) - used))
    return min(free)


def collect_rarely() -> None:
    """Make Python collect unreachable cycles after 100,000 new objects instead of 700.

    Importing TensorFlow, reading a corpus and tracing a model create millions of objects that stay
    alive. Each of thousands of collections would visit them all, in vain.
    """
    gc.set_threshold(_RARE, *gc.get_threshold()[1:])


def freeze_heap() -> None:
    """Exclude all present objects from garbage collection, and collect as often as by default.

    For a service after its start-up: the objects of the start-up stay alive, and the garbage of
    requests is collected soon.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_DEFAULT, *gc.get_threshold()[1:])


def keep_freed_memory() -> bool:
    """Keep freed memory in the process, so that the next training step reuses it.

    Every training step allocates and frees the same hundreds of megabytes of activations. By
    default the GNU allocator returns large blocks to the kernel, which zeroes and maps them again,
    page by page, at every step. The settings (no mapping per block, no trimming) do not change the
    peak memory. Each thread keeps its own pool: products of matrices allocate so often that the
    parallel parts of an update wait for each other if they share one.

    Must be called before the process starts threads. Does nothing with other C libraries.

    Returns:
        Whether the allocator accepted all settings.
    """
    return _set_options({_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: _NEVER})


def share_gpu_memory() -> None:
    """Make TensorFlow and JAX allocate GPU memory on demand, unless the user has set this.

    By default TensorFlow allocates nearly all of it at the start, and JAX 75%. A second process,
    which translates or inspects while a run trains, would find no memory. There is little
    fragmentation, because batches have few shapes. ``XLA_PYTHON_CLIENT_PREALLOCATE=true`` or
    ``XLA_CLIENT_MEM_FRACTION`` restore JAX's default.

    Must be called before a GPU is first used.
    """
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    if not os.environ.keys() & {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"}:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def return_large_blocks() -> bool:
    """Return freed blocks of 4 MiB and more to the system at once.

    By default the GNU allocator stops doing so once it has freed a block of that size; larger ones
    then leave holes in its pools. For a long-lived process with requests of all sizes.

    Returns:
        Whether the allocator accepted the setting.
    """
    return _set_options({_M_MMAP_THRESHOLD: _LARGE})


def _set_options(settings: dict[int, int]) -> bool:
    """Set options of the GNU allocator; return whether it accepted them all."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  (other C libraries have no such symbol)
        mallopt = library.mallopt
    except (AttributeError, OSError, TypeError):
        return False
    accepted = [mallopt(option, value) for option, value in settings.items()]
    return all(accepted)


@contextmanager
def excluding_present_objects() -> Iterator[None]:
    """Exclude all existing objects, such as TensorFlow's, from garbage collection."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
