"""Train, inspect and ship neural translation models on Keras 3, with TensorFlow or JAX.

>>> from nmt import Translator, explain, fit
>>> run = fit(["data=tatoeba", "model=small"])
>>> run.translator().translate(["¿Dónde está la estación?"])
>>> translator = Translator.load("runs/latest")
>>> translator.translate(["¿Dónde está la estación?"])
>>> explain(translator, "¿Dónde está la estación?")
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nmt.errors import read_backend
from nmt.startup.interrupts import end_on_interrupts, is_command
from nmt.startup.memory import share_gpu_memory

if is_command():
    end_on_interrupts()
    # Commands read this variable alone, whatever backend Keras's own file, keras.json, names.
    os.environ["KERAS_BACKEND"] = read_backend()
# TensorFlow's start-up notes are not about this program; set the variable to see them.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
share_gpu_memory()  # here, for every command and for the library

if TYPE_CHECKING:
    from nmt.analysis.explaining.explanation import explain
    from nmt.inference.translator import Translator
    from nmt.training.callbacks import Callback
    from nmt.training.job import fit

    __version__: str

__all__ = ["Callback", "Translator", "explain", "fit"]


def __getattr__(name: str) -> Any:
    """Import heavy modules on first use."""
    if name == "Callback":
        from nmt.training.callbacks import Callback

        return Callback
    if name == "Translator":
        from nmt.inference.translator import Translator

        return Translator
    if name == "explain":
        from nmt.analysis.explaining.explanation import explain

        return explain
    if name == "fit":
        from nmt.training.job import fit

        return fit
    if name == "__version__":
        from importlib.metadata import version

        return version("nmt")
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")
