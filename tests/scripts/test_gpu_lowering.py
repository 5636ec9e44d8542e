"""Training and search can be lowered for GPUs; operations without GPU support are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest

from nmt.config import Config
from nmt.inference.keras_engine import KerasEngine
from nmt.startup.devices import Gpu
from nmt.training.defaults import resolve_config

if TYPE_CHECKING:
    from nmt import Translator

import gpu_lowering
from gpu_lowering import CELLS, CUDNN, KERNELS, Row, list_rows, pretend_gpu
from lowered import Lowered, NotLoweredError
from workloads import PRECISIONS

ROOT = Path(__file__).parents[2]

H100, T4 = Gpu("H100", (9, 0)), Gpu("T4", (7, 5))


# --- TensorFlow ---------------------------------------------------------------------------------


def lowered_by_tensorflow(function: Callable[..., Any], *arguments: Any, compiled: bool) -> Lowered:
    """Call a `tf.function` under the lowering."""
    import tensorflow as tf
    from lower_tensorflow import lowering

    with lowering() as found:
        inner = tf.function(function, jit_compile=compiled, autograph=False)
        outer = tf.function(lambda *given: inner(*given), autograph=False)
        outer(*map(tf.constant, arguments))
    return found


def test_what_a_graph_asks_of_gpus_is_looked_up_in_its_branches_too() -> None:
    import tensorflow as tf

    def decide(matrix: Any) -> Any:
        def spell() -> Any:
            return tf.strings.as_string(tf.gather(tf.cast(matrix[0], tf.uint32), [0]))

        return tf.cond(matrix[0, 0] > 0, spell, lambda: tf.constant([""]))

    found = lowered_by_tensorflow(decide, np.eye(2), compiled=False)
    assert "AsString(uint32): no kernel for GPUs" in found.problems
    assert "GatherV2(int32, int32, uint32): no kernel for GPUs" in found.problems

    def compute(matrix: Any) -> Any:
        return tf.cond(matrix[0, 0] > 0, lambda: tf.nn.softmax(matrix @ matrix), lambda: matrix)

    assert lowered_by_tensorflow(compute, np.eye(2), compiled=False).problems == []


def test_what_xla_cannot_translate_for_gpus_is_named() -> None:
    import tensorflow as tf

    def decompose(matrix: Any) -> Any:
        return tf.linalg.eigvals(matrix)

    found = lowered_by_tensorflow(decompose, np.eye(2), compiled=True)
    assert found.functions == ["decompose", "<lambda>"]
    assert set(found.problems) == {"Eig(float64, complex128): no translation by XLA for GPUs"}


def test_what_reads_variables_and_what_changes_them_is_translated() -> None:
    import tensorflow as tf

    weight = tf.Variable([[1.0, 2.0]])

    def read(x: Any) -> Any:
        return x @ weight

    def change(x: Any) -> Any:
        return weight.assign_add(x)

    def change_by_eigenvalues(x: Any) -> Any:
        return weight.assign_add(tf.math.real(tf.linalg.eigvals(tf.transpose(x) @ x))[None])

    x = np.ones((1, 1), np.float32)
    assert lowered_by_tensorflow(read, x, compiled=True).problems == []
    x = np.ones((1, 2), np.float32)
    assert lowered_by_tensorflow(change, x, compiled=True).problems == []
    assert lowered_by_tensorflow(change_by_eigenvalues, x, compiled=True).problems
    assert weight.numpy().tolist() == [[1.0, 2.0]]  # nothing was run


# --- JAX ----------------------------------------------------------------------------------------


def test_what_jax_cannot_lower_for_cuda_is_named() -> None:
    import jax
    import jax.numpy as jnp
    from lower_jax import lowering

    matrix = np.eye(2, dtype=np.float32)
    with lowering() as found:
        softmax = jax.jit(lambda x: {"out": jax.nn.softmax(x @ x)})(matrix)
        assert found.problems == []
        assert softmax["out"].tolist() == [[0, 0], [0, 0]]  # nothing was run
        with pytest.raises(NotLoweredError):
            jax.jit(lambda x: jnp.sum(jax.lax.linalg.schur(x)[0]))(matrix)
    assert len(found.functions) == 2
    assert found.problems == [
        "MLIR translation rule for primitive 'schur' not found for platform cuda"
    ]


# --- Ours ---------------------------------------------------------------------------------------


def test_every_model_kernel_and_precision_has_a_row() -> None:
    named = {row.what for row in list_rows()}
    assert len(named) == len(list_rows())
    for precision in PRECISIONS:
        assert {f"compact {kernel} {precision}" for kernel in KERNELS} <= named
        assert f"rnn additive {precision}" in named


@pytest.mark.parametrize(("gpu", "precision"), [(H100, "mixed_bfloat16"), (T4, "mixed_float16")])
def test_the_program_believes_in_the_gpu(
    gpu: Gpu, precision: str, compose: Callable[..., Config], letters: Translator
) -> None:
    model = letters.engine.model
    assert resolve_config(compose(), 100).training.precision == "float32"
    with pretend_gpu(gpu):
        training = resolve_config(compose(), 100).training
        assert (training.precision, training.parallel_parts) == (precision, 1)
        assert KerasEngine(model).workers == 1


ROWS = [
    pytest.param(Row("tiny", "fused", "mixed_bfloat16"), marks=pytest.mark.long),
    pytest.param(Row("rnn", "additive", "mixed_float16"), marks=pytest.mark.slow),
]


@pytest.mark.backend
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_update_evaluation_and_search_are_lowered(row: Row) -> None:
    on_jax = keras.config.backend() == "jax"
    one_layer = ["model.encoder_layers=1", "model.decoder_layers=1"]
    result = gpu_lowering.lower_row(row, one_layer)
    cells = [name for name in CELLS if name in result]
    assert set(CELLS) - set(cells) == ({"without XLA"} if on_jax else set())
    assert {name: result[name]["problems"] for name in cells} == {name: [] for name in cells}
    assert (result["precision"], result["parallel_parts"]) == (row.precision, 1)
    for name in cells:
        found = any(CUDNN in kernel for kernel in result[name]["kernels"])
        assert found == (on_jax and row.attention == "fused")
