"""Names of MarianMT's weights and settings, and of ours."""

from __future__ import annotations

from collections.abc import Iterator

TABLE, BIAS = "model.shared.weight", "final_logits_bias"
OUR_TABLE, OUR_BIAS = "embedding/table", "embedding/bias"
# Settings of MarianMT, by key of its configuration, that our models fix.
FIXED_CONFIG = {
    "scale_embedding": True,
    "static_position_embeddings": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
EPSILON = 1e-5  # of MarianMT's layer normalisations: PyTorch's default

# MarianMT's activations by ours. Its "gelu" is exact, while Keras's default is the approximation.
ACTIVATIONS = {
    "swish": "silu",
    "silu": "silu",
    "relu": "relu",
    "relu2": "relu2",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
}
ACTIVATIONS_OUT = {"silu": "swish", "relu": "relu", "relu2": "relu2", "gelu": "gelu_new"}

_ATTENTIONS = {
    "encoder": {"self_attention": "self_attn"},
    "decoder": {"causal_self_attention": "self_attn", "cross_attention": "encoder_attn"},
}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def list_dense(encoder_layers: int, decoder_layers: int) -> Iterator[tuple[str, str]]:
    """Yield each dense layer's name in our and in MarianMT's weights, which transpose kernels."""
    for stack, here, there in _list_layers(encoder_layers, decoder_layers):
        for ours, theirs in _ATTENTIONS[stack].items():
            for projection, name in _PROJECTIONS.items():
                yield f"{here}/{ours}/{projection}", f"{there}.{theirs}.{name}"
        yield f"{here}/feed_forward/inner", f"{there}.fc1"
        yield f"{here}/feed_forward/outer", f"{there}.fc2"


def list_norms(encoder_layers: int, decoder_layers: int) -> Iterator[tuple[str, str]]:
    """Yield each layer normalisation's name in our and in MarianMT's weights."""
    for stack, here, there in _list_layers(encoder_layers, decoder_layers):
        for ours, theirs in _ATTENTIONS[stack].items():
            yield f"{here}/{ours}_norm", f"{there}.{theirs}_layer_norm"
        yield f"{here}/feed_forward_norm", f"{there}.final_layer_norm"


def _list_layers(encoder_layers: int, decoder_layers: int) -> Iterator[tuple[str, str, str]]:
    for stack, layers in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        for number in range(layers):
            yield stack, f"{stack}_{number}", f"model.{stack}.layers.{number}"
