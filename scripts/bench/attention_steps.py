"""Compiled attention steps and their memory, for bench_attention.py."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

KERAS = "keras"

Row = dict[str, Any]
Step = Callable[[], tuple[Any, list[Any]]]  # returns loss and gradients, when they are computed


def make_step(plan: Row) -> Step:
    """Return the compiled step of a layer. All layers get the same weights and input."""
    import keras
    import numpy as np

    from nmt.model import CausalSelfAttention, SelfAttention

    width, heads, causal = plan["width"], plan["heads"], plan["causal"]
    rng = np.random.default_rng(0)
    shape = (plan["batch"], plan["length"], width)
    x, probe = (rng.standard_normal(shape, np.float32) for _ in range(2))
    call: Callable[..., Any]
    if plan["kind"] == KERAS:
        layer = keras.layers.MultiHeadAttention(heads, width // heads, dtype=plan["precision"])
        layer.build(shape, shape)
        arguments = {"use_causal_mask": True} if causal else {}

        def call(x: Any, function: Any) -> Any:
            return function(x, x, **arguments)

    else:
        role = CausalSelfAttention if causal else SelfAttention
        layer = role(d_model=width, num_heads=heads, kernel=plan["kind"], dtype=plan["precision"])
        layer.build(shape)

        def call(x: Any, function: Any) -> Any:
            return function(x)

    for weight in layer.weights:  # same order in both; some weights of Keras have more axes
        weight.assign(rng.standard_normal(weight.shape, np.float32) * width**-0.5)
    compiled = compile_jax if keras.config.backend() == "jax" else compile_tensorflow
    return compiled(layer, call, x, probe)


def compile_tensorflow(layer: Any, call: Callable[..., Any], *inputs: Any) -> Step:
    """Return a step that compiles at its first call."""
    import tensorflow as tf

    @tf.function(jit_compile=True, autograph=False)
    def step(x: Any, probe: Any) -> tuple[Any, list[Any]]:
        weights = [weight.value for weight in layer.trainable_weights]
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.cast(call(x, layer), tf.float32) * probe)
        return loss, tape.gradient(loss, [x, *weights])

    tensors = [tf.convert_to_tensor(x) for x in inputs]

    def wait() -> tuple[Any, list[Any]]:
        loss, gradients = step(*tensors)
        loss.numpy()  # waits for the program that also computes the gradients
        return loss, gradients

    return wait


def compile_jax(layer: Any, call: Callable[..., Any], *inputs: Any) -> Step:
    """Return a compiled step."""
    import jax
    from jax import numpy as jnp

    def compute_loss(x: Any, weights: Any, probe: Any) -> Any:
        def function(*arguments: Any, **others: Any) -> Any:
            return layer.stateless_call(weights, [], *arguments, **others)[0]

        return jnp.sum(call(x, function).astype("float32") * probe)

    x, probe = (jnp.asarray(x) for x in inputs)
    weights = [weight.value for weight in layer.trainable_weights]
    step = jax.jit(jax.value_and_grad(compute_loss, argnums=(0, 1)))
    compiled = step.lower(x, weights, probe).compile()

    def wait() -> tuple[Any, list[Any]]:
        loss, (x_gradient, weight_gradients) = jax.block_until_ready(compiled(x, weights, probe))
        return loss, [x_gradient, *weight_gradients]

    return wait


def measure_bytes(step: Step) -> int:
    """Return the peak memory of a step, minus the memory in use before it."""
    import keras

    from nmt.startup.devices import gpus

    if not gpus():
        return measure_host_bytes(step)
    if keras.config.backend() == "jax":
        import jax

        device = jax.local_devices()[0]
        before = device.memory_stats()["bytes_in_use"]
        step()
        return device.memory_stats()["peak_bytes_in_use"] - before
    import tensorflow as tf

    step()  # which compiles
    gc.collect()
    tf.config.experimental.reset_memory_stats("GPU:0")
    before = tf.config.experimental.get_memory_info("GPU:0")["current"]
    step()
    return tf.config.experimental.get_memory_info("GPU:0")["peak"] - before


def measure_host_bytes(step: Step) -> int:
    """Return the peak memory of this process during a step, minus the memory before it.

    Linux can reset the peak, so the compiling step does not count; elsewhere it does.
    """
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    try:
        step()
        gc.collect()
        with contextlib.suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
        reset.write_text("5")
        before = read_kib(status, "VmRSS")
        step()
        return (read_kib(status, "VmHWM") - before) * 1024
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def read_kib(status: Path, name: str) -> int:
    """Return a value of /proc/PID/status, in KiB."""
    return int(re.search(rf"{name}:\s+(\d+)", status.read_text())[1])  # type: ignore[index]
