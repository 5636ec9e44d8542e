"""What the commands that translate set up before they import anything heavy."""

from __future__ import annotations

import sys
import warnings

from nmt.devices import one_thread_per_operation
from nmt.memory import collect_rarely, keep_freed_memory


def start_translating() -> None:
    """Set memory and threads for decoding, and let each warning be one line on standard error."""
    keep_freed_memory()
    collect_rarely()
    one_thread_per_operation()
    warnings.simplefilter("always", UserWarning)
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
