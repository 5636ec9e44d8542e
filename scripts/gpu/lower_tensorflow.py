"""Ask TensorFlow whether a GPU could do what a program compiles, on a machine without one.

What XLA compiles is translated for a GPU, up to the program that would be optimised there. It takes
variables by value; a function that changes some is translated for the CPU instead, once every
operation in it has been found among those that XLA translates for GPUs. What XLA does not compile
is a graph, whose operations are looked up among the kernels for GPUs: those without one would run
on the CPU, between copies. TensorFlow knows all of that without a GPU, too.
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

# Who translates: XLA for a GPU; or nobody, and the kernels for GPUs or for all devices serve.
COMPILED, GRAPH = ("XLA_GPU_JIT",), ("GPU", "DEFAULT")
PLATFORM = "GPU"  # "CUDA" is not known
CHANGING = ("Assign", "ResourceApply", "ResourceScatter")  # operations on variables begin so
ARGUMENT = "Placeholder"
MUST_COMPILE = "_XlaMustCompile"


@contextmanager
def lowering() -> Iterator[Lowered]:
    """Lower what is compiled within. What XLA compiles is not run: it returns zeros."""
    found = Lowered()
    real = tf.function

    def function(python_function: Any = None, **options: Any) -> Any:
        if python_function is None:
            return functools.partial(function, **options)
        return _Traced(real(python_function, **options), bool(options.get("jit_compile")), found)

    with mock.patch.object(tf, "function", function):
        yield found


class _Traced:
    """Stands where a `tf.function` would."""

    def __init__(self, traced: Any, compiled: bool, found: Lowered) -> None:
        self._traced = traced
        self._compiled = compiled
        self._found = found
        self._seen: set[str] = set()

    def __call__(self, *arguments: Any) -> Any:
        concrete = self.get_concrete_function(*arguments)
        if not tf.executing_eagerly():
            return self._traced(*arguments)

        def make(output: Any) -> Any:  # empty where its length is known to the function alone
            return tf.zeros([size or 0 for size in output.shape], output.dtype)

        return tf.nest.map_structure(make, concrete.structured_outputs)

    def get_concrete_function(self, *arguments: Any) -> Any:
        """Trace it, and lower what has not been lowered."""
        concrete = self._traced.get_concrete_function(*arguments)
        if concrete.name not in self._seen:
            self._seen.add(concrete.name)
            self._found.functions.append(self._traced.python_function.__name__)
            with tf.init_scope():  # out of whatever calls it, and is being traced
                missing = lower(concrete) if self._compiled else find_missing(concrete)
            self._found.problems += missing
        return concrete


def lower(concrete: Any) -> list[str]:
    """Return what XLA cannot translate of a function for a GPU."""
    missing = find_missing(concrete, COMPILED)
    if missing:
        return missing
    operations = {node.op for node, _ in _list_nodes(concrete, COMPILED)}
    try:
        if any(name.startswith(CHANGING) for name in operations):
            compiler_ir.from_concrete_function(concrete)(stage="hlo")
        else:
            constant = convert_to_constants.convert_variables_to_constants_v2(concrete)
            arguments = [tf.zeros(one.shape, one.dtype) for one in constant.inputs]
            compiled = _real(lambda *given: constant(*given), jit_compile=True)
            compiled.experimental_get_compiler_ir(*arguments)(stage="hlo", platform_name=PLATFORM)
    except (ValueError, tf.errors.OpError) as error:
        return [str(error).splitlines()[0]]
    return []


def find_missing(concrete: Any, devices: tuple[str, ...] = GRAPH) -> list[str]:
    """Return the operations of a function, and of those that it calls, that a GPU cannot do.

    Args:
        concrete: the function.
        devices: `COMPILED` or `GRAPH`. Functions that it calls and XLA compiles are the former.
    """
    missing = {
        _describe(node, of)
        for node, of in _list_nodes(concrete, devices)
        if not _has_kernel(node, of)
    }
    return sorted(missing)


def _list_nodes(concrete: Any, devices: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the operations of a function and of all that it calls, and which kernels serve them."""
    graph = concrete.graph.as_graph_def()
    library = {function.signature.name: function for function in graph.library.function}
    waiting, seen = [(graph.node, devices)], set()
    while waiting:
        nodes, of = waiting.pop()
        for node in nodes:
            for name in _list_called(node, library):
                must = (node.attr, library[name].attr)
                inner = COMPILED if any(attr[MUST_COMPILE].b for attr in must) else of
                if (name, inner) not in seen:
                    seen.add((name, inner))
                    waiting.append((library[name].node_def, inner))
            if node.op not in library and node.op != ARGUMENT:
                yield node, of


def _list_called(node: Any, library: Any) -> list[str]:
    """Return the names of the functions that an operation calls."""
    called = [node.op] if node.op in library else []
    for attribute in node.attr.values():
        called += [one.name for one in (attribute.func, *attribute.list.func) if one.name]
    return called


def _has_kernel(node: Any, devices: tuple[str, ...]) -> bool:
    """Whether a device has a kernel for an operation on these types."""

    def serves(kernel: Any) -> bool:
        return (
            kernel.device_type in devices
            and not kernel.label  # of a variant that must be asked for
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
        tf.dtypes.as_dtype(one).name
        for _, attribute in sorted(node.attr.items())
        for one in _list_types(attribute)
    ]
    where = "no translation by XLA" if devices == COMPILED else "no kernel"
    return f"{node.op}({', '.join(types)}): {where} for GPUs"


_real = tf.function
