"""What the commands that translate set up."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import gc, os, sys, warnings
from nmt.startup.commands import start_translating
start_translating()
for _ in range(2):
    warnings.warn("a text is too long")
print(os.environ["TF_NUM_INTRAOP_THREADS"], gc.get_threshold()[0], "tensorflow" in sys.modules)
"""


def test_every_warning_is_one_line_and_nothing_heavy_is_imported() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TF_NUM_INTRAOP_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stderr == "warning: a text is too long\n" * 2
    assert done.stdout == "1 100000 False\n"
