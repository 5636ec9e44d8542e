"""Lower the programs of JAX for CUDA, down to the input of XLA, on a machine without a GPU."""

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
CUDNN = 91000  # a version with every kernel that is requested here
_CALL = re.compile(r"custom_call @([\w$.]+)")
# Exported programs with cuDNN calls run only on this version of JAX, which is enough here.
_ALLOWED = [
    export.DisabledSafetyCheck.custom_call(name) for name in cudnn._custom_name_maps.values()
]


@contextmanager
def lowering() -> Iterator[Lowered]:
    """Lower functions instead of compiling them; they return zeros."""
    lowered = Lowered()
    real = jax.jit

    def jit(function: Any, **options: Any) -> Any:
        jitted = real(function, **options)

        def call(*arguments: Any) -> Any:
            lowered.functions.append(function.__name__)
            try:
                exported = export.export(jitted, platforms=[CUDA], disabled_checks=_ALLOWED)(
                    *arguments
                )
            except (NotImplementedError, ValueError) as error:
                lowered.problems.append(str(error).splitlines()[0])
                raise NotLoweredError from error
            lowered.kernels.update(_CALL.findall(exported.mlir_module()))
            outputs = [np.zeros(aval.shape, aval.dtype) for aval in exported.out_avals]
            return jax.tree.unflatten(exported.out_tree, outputs)

        return call

    with mock.patch.object(jax, "jit", jit):
        yield lowered


@contextmanager
def have_cudnn(capability: tuple[int, int]) -> Iterator[None]:
    """Answer JAX's checks for cuDNN kernels as a GPU of this CUDA compute capability would."""

    def is_at_least(required: str) -> bool:
        return capability >= tuple(map(int, required.split(".")))

    with ExitStack() as patched:
        for name, answer in (
            ("check_cudnn_version", lambda: CUDNN),
            ("check_compute_capability", is_at_least),
        ):
            patched.enter_context(mock.patch.object(cudnn, name, answer))
        yield
