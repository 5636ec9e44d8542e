"""Memory: what there is, what the C library keeps, and how often Python looks for garbage."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

# malloc.h of the GNU C library
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -3, -4, -8
_NEVER = -1
_LARGE = 4 << 20  # bytes

# Of a control group of Linux, version 2 and 1: limit, what is used, and what of that is a cache of
# files, which gives way.
_OF_GROUPS = (
    ("memory.max", "memory.current", "memory.stat", "file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_cache",
    ),
)

_OBJECTS = 100_000  # made since the last collection
_USUAL = 700  # of Python's own


def available_memory(system: Path = Path("/")) -> int:
    """Return the bytes that can still be had, by the system's account or its container's.

    Args:
        system: root of the files in which Linux tells; elsewhere, all memory counts as free.
    """
    meminfo, group = system / "proc/meminfo", system / "sys/fs/cgroup"
    free = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    if meminfo.is_file():
        lines = (line.split() for line in meminfo.read_text(encoding="ascii").splitlines())
        free += [1024 * int(line[1]) for line in lines if line[0] == "MemAvailable:"]  # "kB"
    for names in _OF_GROUPS:
        limit, used, cache = (group / name for name in names[:3])
        if limit.is_file() and (most := limit.read_text(encoding="ascii").strip()).isdigit():
            kept = dict(line.split() for line in cache.read_text(encoding="ascii").splitlines())
            taken = int(used.read_text(encoding="ascii")) - int(kept.get(names[3], 0))
            free.append(max(0, int(most) - taken))
    return min(free)


def collect_rarely() -> None:
    """Let Python look for unreachable cycles after 100,000 new objects, not after 700.

    Importing TensorFlow, reading a corpus and tracing a model make millions of objects that stay:
    each of the usual thousands of collections looks through them all again, for nothing.
    """
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])


def freeze_heap() -> None:
    """Look for unreachable cycles as often as Python usually does, but among new objects alone.

    For a process that has started and goes on for long: what is there now stays, and is not looked
    through again; what requests leave behind is found soon, and does not pile up.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_USUAL, *gc.get_threshold()[1:])


def keep_freed_memory(*, one_pool: bool = True) -> bool:
    """Keep freed memory in the process, where a later step takes it again.

    Every training step allocates and frees the same hundreds of megabytes of activations. By
    default the GNU allocator hands large blocks back to the kernel, which zeroes and maps them
    anew, page by page, at every step. Its other uses (one growing pool, no mapping per block, no
    trimming) cost nothing here: peak memory does not change.

    Must be called before the process starts threads. Does nothing with other C libraries.

    Args:
        one_pool: for all threads. Several threads that each allocate much and often, as those of
            CTranslate2 do, would wait for each other.

    Returns:
        Whether the allocator took all settings.
    """
    settings = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: _NEVER}
    return _set(settings | {_M_ARENA_MAX: 1} if one_pool else settings)


def share_gpu_memory() -> None:
    """Let TensorFlow and JAX take GPU memory as they need it; settings of the user's stay.

    By default TensorFlow takes nearly all of it at the start, and JAX 75%: a second process, which
    translates or inspects while a run trains, would find none. A process that grows keeps what it
    has taken; TensorFlow gives unused parts back where a larger block is needed, and shapes of
    batches are few, so that little is lost to fragmentation. ``XLA_PYTHON_CLIENT_PREALLOCATE=true``
    or a ``XLA_CLIENT_MEM_FRACTION`` of one's own bring JAX's default back.

    Must be called before a GPU is first used.
    """
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    if not os.environ.keys() & {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"}:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def return_large_blocks() -> bool:
    """Give freed blocks of 4 MiB and more back to the system at once.

    The GNU allocator does so by default until it has freed the first of a size; larger ones then
    leave holes in its pools. For a process that meets all sizes, and lives long.

    Returns:
        Whether the allocator took the setting.
    """
    return _set({_M_MMAP_THRESHOLD: _LARGE})


def _set(settings: dict[int, int]) -> bool:
    """Set options of the GNU allocator; return whether it took them all."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  (other C libraries have no such symbol)
        mallopt = library.mallopt
    except (AttributeError, OSError, TypeError):
        return False
    taken = [mallopt(option, value) for option, value in settings.items()]
    return all(taken)
