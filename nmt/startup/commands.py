"""What commands set up before they import anything heavy."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from nmt.startup.compilation import use_compilation_cache
from nmt.startup.devices import one_thread_per_operation
from nmt.startup.memory import collect_rarely, keep_freed_memory, return_large_blocks

_DETERMINISTIC = "--xla_gpu_deterministic_ops=true"


def set_up_training(cache_dir: Path, *, deterministic: bool = False) -> None:
    """Set memory for training, and keep compiled programs in ``cache_dir``.

    ``deterministic`` is told to XLA here, and to TensorFlow where its update is made.

    Where a backend is imported already, as in a notebook, it is too late for both.
    """
    if sys.modules.keys() & {"tensorflow", "jax"}:
        return
    keep_freed_memory()
    collect_rarely()
    if deterministic:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DETERMINISTIC}".strip()
    use_compilation_cache(cache_dir / "compiled")


def set_up_translation() -> None:
    """Set memory and threads for decoding, and let each warning be one line."""
    keep_freed_memory(one_pool=False)
    _start_decoding()


def set_up_serving() -> None:
    """Do the same for requests of any size: what a large one needed goes back to the system."""
    return_large_blocks()
    _start_decoding()


def _start_decoding() -> None:
    collect_rarely()
    one_thread_per_operation()
    warn_in_one_line()


def warn_in_one_line() -> None:
    """Let each warning be one line of this program on standard error."""
    warnings.simplefilter("always", UserWarning)
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
