"""Lower the programs of TensorFlow for a GPU, on a machine without one.

What XLA compiles is translated for a GPU, up to the unoptimised program. That translation takes
variables by value. A function that changes variables is translated for the CPU instead, after all
its operations were found among those that XLA translates for GPUs. The rest are graphs, whose
operations are looked up among the GPU kernels: an operation without one would run on the CPU,
between copies. TensorFlow has this information without a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import tensorflow as tf
from lowered import Lowered
from tensorflow.python.eager.polymorphic_function import compiler_ir
from tensorflow.python.framework import convert_to_constants, kernels

# Device types of kernels: of XLA for GPUs; of graphs, for GPUs or for all devices.
COMPILED, GRAPH = ("XLA_GPU_JIT",), ("GPU", "DEFAULT")
PLATFORM = "GPU"  # "CUDA" is rejected
CHANGING = ("Assign", "ResourceApply", "ResourceScatter")  # operations on variables begin so
ARGUMENT = "Placeholder"
MUST_COMPILE = "_XlaMustCompile"


@contextmanager
def lowering() -> Iterator[Lowered]:
    """Lower functions instead of compiling them; those that XLA would compile return zeros."""
    lowered = Lowered()
    real = tf.function

    def function(python_function: Any = None, **options: Any) -> Any:
        if python_function is None:
            return functools.partial(function, **options)
        return _Traced(real(python_function, **options), bool(options.get("jit_compile")), lowered)

    with mock.patch.object(tf, "function", function):
        yield lowered


class _Traced:
    """Stands in for a `tf.function`."""

    def __init__(self, traced: Any, compiled: bool, lowered: Lowered) -> None:
        self._traced = traced
        self._compiled = compiled
        self._lowered = lowered
        self._seen: set[str] = set()

    def __call__(self, *arguments: Any) -> Any:
        concrete = self.get_concrete_function(*arguments)
        if not tf.executing_eagerly():
            return self._traced(*arguments)

        def make(output: Any) -> Any:  # unknown lengths become 0
            return tf.zeros([size or 0 for size in output.shape], output.dtype)

        return tf.nest.map_structure(make, concrete.structured_outputs)

    def get_concrete_function(self, *arguments: Any) -> Any:
        """Trace the function, and lower it unless that was done before."""
        concrete = self._traced.get_concrete_function(*arguments)
        if concrete.name not in self._seen:
            self._seen.add(concrete.name)
            self._lowered.functions.append(self._traced.python_function.__name__)
            with tf.init_scope():  # outside the function that is being traced
                missing = lower(concrete) if self._compiled else find_missing(concrete)
            self._lowered.problems += missing
        return concrete


def lower(concrete: Any) -> list[str]:
    """Return the operations of a function that XLA cannot translate for a GPU."""
    missing = find_missing(concrete, COMPILED)
    if missing:
        return missing
    operations = {node.op for node, _ in _list_nodes(concrete, COMPILED)}
    try:
        if any(name.startswith(CHANGING) for name in operations):
            compiler_ir.from_concrete_function(concrete)(stage="hlo")
        else:
            constant = convert_to_constants.convert_variables_to_constants_v2(concrete)
            arguments = [tf.zeros(tensor.shape, tensor.dtype) for tensor in constant.inputs]
            compiled = _real(lambda *inputs: constant(*inputs), jit_compile=True)
            compiled.experimental_get_compiler_ir(*arguments)(stage="hlo", platform_name=PLATFORM)
    except (ValueError, tf.errors.OpError) as error:
        return [str(error).splitlines()[0]]
    return []


def find_missing(concrete: Any, devices: tuple[str, ...] = GRAPH) -> list[str]:
    """Return the operations of a function and its callees that a GPU does not support.

    Args:
        concrete: the function.
        devices: `COMPILED` or `GRAPH`; callees that XLA compiles are always `COMPILED`.
    """
    missing = {
        _describe(node, types)
        for node, types in _list_nodes(concrete, devices)
        if not _has_kernel(node, types)
    }
    return sorted(missing)


def _list_nodes(concrete: Any, devices: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the operations of a function and its callees, with their devices."""
    graph = concrete.graph.as_graph_def()
    library = {function.signature.name: function for function in graph.library.function}
    pending, seen = [(graph.node, devices)], set()
    while pending:
        nodes, types = pending.pop()
        for node in nodes:
            for name in _list_called(node, library):
                attributes = (node.attr, library[name].attr)
                is_compiled = any(each[MUST_COMPILE].b for each in attributes)
                inner = COMPILED if is_compiled else types
                if (name, inner) not in seen:
                    seen.add((name, inner))
                    pending.append((library[name].node_def, inner))
            if node.op not in library and node.op != ARGUMENT:
                yield node, types


def _list_called(node: Any, library: Any) -> list[str]:
    """Return the names of the functions that an operation calls."""
    called = [node.op] if node.op in library else []
    for attribute in node.attr.values():
        called += [func.name for func in (attribute.func, *attribute.list.func) if func.name]
    return called


def _has_kernel(node: Any, devices: tuple[str, ...]) -> bool:
    """Whether one of the device types has a kernel for an operation with its types."""

    def serves(kernel: Any) -> bool:
        return (
            kernel.device_type in devices
            and not kernel.label  # a label marks a variant that must be requested
            and all(
                set(_list_types(node.attr[limit.name])) <= set(limit.allowed_values.list.type)
                for limit in kernel.constraint
            )
        )

    return any(map(serves, _list_kernels(node.op)))


@functools.cache
def _list_kernels(operation: str) -> list[Any]:
    return list(kernels.get_registered_kernels_for_op(operation).kernel)


def _list_types(attribute: Any) -> list[int]:
    return list(attribute.list.type) or ([attribute.type] if attribute.type else [])


def _describe(node: Any, devices: tuple[str, ...]) -> str:
    """Name an operation without a kernel, with its types."""
    types = [
        tf.dtypes.as_dtype(number).name
        for _, attribute in sorted(node.attr.items())
        for number in _list_types(attribute)
    ]
    where = "no translation by XLA" if devices == COMPILED else "no kernel"
    return f"{node.op}({', '.join(types)}): {where} for GPUs"


_real = tf.function
