"""Process-wide settings that a command makes before it imports anything heavy."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from nmt.startup.compilation import (
    skip_slow_xla_passes,
    use_compilation_cache,
    use_deterministic_operations,
)
from nmt.startup.devices import one_thread_per_operation
from nmt.startup.memory import collect_rarely, keep_freed_memory, return_large_blocks


def set_up_training(cache_dir: Path, *, deterministic: bool = False) -> None:
    """Set up memory for training, and a cache of compiled programs.

    If a backend is imported already, as in a notebook, it has read its settings, other than that
    of deterministic operations.

    Args:
        cache_dir: the folder of caches.
        deterministic: whether XLA uses deterministic operations. `TensorFlowStep` sets the same for
            TensorFlow.
    """
    if deterministic:
        use_deterministic_operations()
    if sys.modules.keys() & {"tensorflow", "jax"}:
        return
    keep_freed_memory()
    collect_rarely()
    skip_slow_xla_passes()
    use_compilation_cache(cache_dir / "compiled")


def set_up_translation() -> None:
    """Set up memory and threads for translation, and print each warning as one line."""
    keep_freed_memory()
    _set_up_decoding()


def set_up_serving() -> None:
    """Like `set_up_translation`; the memory of large requests is returned to the system."""
    return_large_blocks()
    _set_up_decoding()


def _set_up_decoding() -> None:
    collect_rarely()
    skip_slow_xla_passes()
    one_thread_per_operation()
    warn_in_one_line()


def warn_in_one_line() -> None:
    """Print each warning as one line on standard error."""
    warnings.simplefilter("always", UserWarning)
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
