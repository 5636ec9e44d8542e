"""Ask JAX whether a GPU could do what a program compiles, on a machine without one.

Functions are lowered for CUDA, down to the program that XLA would get there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import jax
import numpy as np
from jax import export
from jax._src.cudnn import fused_attention_stablehlo as cudnn
from lowered import Lowered, NotLoweredError

CUDA = "cuda"
CUDNN = 91000  # a version that has every kernel asked for here
_CALL = re.compile(r"custom_call @([\w$.]+)")
# A program that calls cuDNN runs where this version of JAX does, which is all that is asked of it.
_ALLOWED = [
    export.DisabledSafetyCheck.custom_call(name) for name in cudnn._custom_name_maps.values()
]


@contextmanager
def lowering() -> Iterator[Lowered]:
    """Lower what is compiled within. It is not run: it returns zeros."""
    found = Lowered()
    real = jax.jit

    def jit(function: Any, **options: Any) -> Any:
        jitted = real(function, **options)

        def call(*arguments: Any) -> Any:
            found.functions.append(function.__name__)
            try:
                exported = export.export(jitted, platforms=[CUDA], disabled_checks=_ALLOWED)(
                    *arguments
                )
            except (NotImplementedError, ValueError) as error:
                found.problems.append(str(error).splitlines()[0])
                raise NotLoweredError from error
            found.kernels.update(_CALL.findall(exported.mlir_module()))
            outputs = [np.zeros(one.shape, one.dtype) for one in exported.out_avals]
            return jax.tree.unflatten(exported.out_tree, outputs)

        return call

    with mock.patch.object(jax, "jit", jit):
        yield found


@contextmanager
def have_cudnn(capability: tuple[int, int]) -> Iterator[None]:
    """Answer what JAX asks of a GPU before it takes a kernel of cuDNN.

    Args:
        capability: compute capability of CUDA.
    """

    def is_at_least(wanted: str) -> bool:
        return capability >= tuple(map(int, wanted.split(".")))

    with ExitStack() as patched:
        for name, answer in (
            ("check_cudnn_version", lambda: CUDNN),
            ("check_compute_capability", is_at_least),
        ):
            patched.enter_context(mock.patch.object(cudnn, name, answer))
        yield
