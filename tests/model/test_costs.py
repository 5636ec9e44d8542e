"""The estimate of activation memory, against what a backward pass reads from its forward pass."""

from __future__ import annotations

import math
from typing import Any

import pytest

from nmt.model import Transformer, TransformerSizes
from nmt.model.costs import BatchShape
from nmt.model.dropout import FULL_SHARE, DropoutKey
from nmt.training.objective import cross_entropy

ROWS, LENGTH, VOCABULARY = 4, 24, 101
SIZES: dict[str, Any] = {
    "d_model": 32,
    "num_heads": 4,
    "ffn_width": 96,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "norm": "pre",
    "positions": "sinusoidal",
    "activation": "relu",
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "ffn_dropout": 0.0,
    "max_length": 32,
    "attention_kernel": "explicit",
    "remat": False,
}
INPUTS = "source target source_segments target_segments source_positions target_positions labels"
SAME = ("Reshape", "Identity", "ExpandDims", "Squeeze", "StopGradient")  # share their input's bytes
NO_ACTIVATIONS = ("Const", "Placeholder", "ReadVariableOp")


def stored_bytes(sizes: dict[str, Any], policy: str) -> int:
    """Count the bytes that the backward pass of a training step reads, weights apart."""
    import tensorflow as tf

    model = Transformer(
        TransformerSizes(vocabulary_size=VOCABULARY, **sizes), dtype=policy, name="counted"
    )
    read: dict[str, Any] = {}

    def step(batch: dict[str, Any], bits: Any) -> Any:
        graph = tf.compat.v1.get_default_graph()
        with tf.GradientTape() as tape:
            key = DropoutKey(bits, tf.constant(FULL_SHARE, tf.uint32)).at_row(0)
            logits = model(batch, dropout_key=key)
            counted = batch["target_segments"] > 0
            loss = cross_entropy(logits, batch["labels"], counted, label_smoothing=0.1).objective
        forward = set(graph.get_operations())
        tape.gradient(loss, model.trainable_variables)
        for operation in set(graph.get_operations()) - forward:
            for tensor in operation.inputs:
                if tensor.op not in forward:
                    continue
                while tensor.op.type in SAME:
                    tensor = tensor.op.inputs[0]
                weight = tensor.op.type == "Cast" and tensor.op.inputs[0].op.type in NO_ACTIVATIONS
                if tensor.op.type not in NO_ACTIVATIONS and not weight:
                    read[tensor.name] = tensor
        return loss

    ids = tf.TensorSpec([ROWS, LENGTH], tf.int32)
    batch = dict.fromkeys(INPUTS.split(), ids)
    traced = tf.function(step, autograph=False)
    traced.get_concrete_function(batch, tf.TensorSpec([], tf.uint32))
    return sum(math.prod(tensor.shape) * tensor.dtype.size for tensor in read.values())


def estimated(sizes: dict[str, Any], precision: str = "float32") -> int:
    costs = TransformerSizes(vocabulary_size=VOCABULARY, **sizes).costs
    return sum(costs.estimate_activations(BatchShape(ROWS, LENGTH, precision)).values())


@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "changes"),
    [
        ("float32", {}),
        ("float32", {"norm": "post", "activation": "gelu", "positions": "learned"}),
        ("mixed_bfloat16", {"activation": "swiglu", "attention_dropout": 0.1}),
        ("float32", {"activation": "relu2", "dropout": 0.0, "ffn_dropout": 0.1}),
        ("mixed_bfloat16", {"ffn_dropout": 0.1}),
        ("float32", {"activation": "silu", "output_bias": True}),
        ("float32", {"key_value_heads": 1}),
        ("float32", {"heads": "pooled"}),
        ("float32", {"attention_kernel": "chunked"}),
    ],
)
def test_the_estimate_is_near_what_the_backward_pass_reads(
    policy: str, changes: dict[str, Any]
) -> None:
    sizes = SIZES | changes
    assert estimated(sizes, policy.removeprefix("mixed_")) == pytest.approx(
        stored_bytes(sizes, policy), rel=0.05
    )


def test_rematerialised_layers_keep_their_inputs() -> None:
    """The largest layer, which the backward pass works out again, is not read from the forward."""
    sizes = SIZES | {"remat": True}
    layer = estimated(SIZES | {"decoder_layers": 2}) - estimated(SIZES)
    assert estimated(sizes) - layer == pytest.approx(stored_bytes(sizes, "float32"), rel=0.15)


def test_memory_grows_with_rows_and_faster_with_length() -> None:
    costs = TransformerSizes(vocabulary_size=100, **SIZES).costs

    def total(rows: int, length: int) -> int:
        return sum(costs.estimate_activations(BatchShape(rows, length, "float32")).values())

    assert total(8, 32) == 2 * total(4, 32)
    assert total(4, 64) > 2 * total(4, 32)
    few = costs.estimate_activations(BatchShape(1, 10, "bfloat16"))
    # 3 attentions, 10 x 10 weights, 4 heads, 4 + 2 bytes
    assert few["attention weights"] == 3 * 10 * 4 * 10 * 6


def test_memory_of_chunked_attention_grows_with_length_alone() -> None:
    costs = TransformerSizes(vocabulary_size=100, **SIZES | {"attention_kernel": "chunked"}).costs
    short, long = (costs.estimate_activations(BatchShape(1, n, "float32")) for n in (64, 512))
    assert {name: 8 * count for name, count in short.items()} == long
