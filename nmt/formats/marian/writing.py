"""A run as a MarianMT folder, which `transformers` loads (``MarianMTModel.from_pretrained``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from nmt.config import Config
from nmt.data.paired import PairedTokenizer
from nmt.data.tokenizer import BOS, EOS, UNK, SentencePieceTokenizer, Tokenizer
from nmt.errors import UserError
from nmt.formats.marian.names import (
    ACTIVATIONS_OUT,
    BIAS,
    EPSILON,
    FORM,
    OUR_BIAS,
    OUR_TABLE,
    TABLE,
    list_dense,
    list_norms,
)
from nmt.formats.marian.reading import (
    CONFIG,
    GENERATION,
    MODELS,
    SAFETENSORS,
    TOKENIZER_CONFIG,
    VOCABULARY,
    read_marian,
)
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.translator import Translator
from nmt.model.contract import Model
from nmt.model.sizes import SINUSOIDAL, Sizes
from nmt.runs.building import assign_weights, build_model


def write(model: Model, tokenizer: Tokenizer, config: Config, folder: Path) -> None:
    """Write config.json, model.safetensors, source.spm, target.spm and vocab.json.

    Args:
        model: in float32.
        tokenizer: its tokenizer.
        config: of the run.
        folder: exists.

    Raises:
        UserError: MarianMT has no such model, or no such tokenizer.
    """
    from safetensors.numpy import save_file

    sizes = _check(model.sizes)
    models = _models_of(tokenizer)
    weights = {
        name: np.asarray(ops.convert_to_numpy(weight), np.float32)
        for name, weight in model.named_weights().items()
    }
    # Theirs: end mark, unknown, all pieces, and padding, which decoding begins with.
    order = [EOS, UNK, *range(UNK + 1, sizes.vocabulary_size), BOS]
    pieces = tokenizer.pieces(order)
    if len(set(pieces)) < len(pieces):
        raise UserError("MarianMT knows pieces by their text, and this tokenizer has two of a kind")
    save_file(_translate(weights, sizes, order), folder / SAFETENSORS, {"format": "pt"})
    for name, content in zip(MODELS, models, strict=True):
        (folder / name).write_bytes(content)
    named = ["</s>", "<unk>", *pieces[2:-1], "<pad>"]
    _write_json(folder / VOCABULARY, {piece: i for i, piece in enumerate(named)})
    _write_json(folder / CONFIG, _make_config(sizes, pad=len(order) - 1))
    _write_json(folder / GENERATION, _make_search(config, sizes, pad=len(order) - 1))
    source, target = config.data.languages
    described = {"source_lang": source, "target_lang": target, "model_max_length": sizes.max_length}
    _write_json(folder / TOKENIZER_CONFIG, described | {"tokenizer_class": "MarianTokenizer"})


def load(folder: Path) -> Translator:
    """Return a translator over an exported folder, which is read as `nmt.convert` does.

    Raises:
        UserError: see `nmt.formats.marian.reading.read_marian`.
    """
    found = read_marian(folder)
    vocabulary_size = found.tokenizer.vocabulary_size
    model = build_model(found.config, vocabulary_size, precision="float32")
    assign_weights(model.named_weights(), found.weights, folder)
    return Translator.from_config(KerasEngine(model), found.tokenizer, found.config)


def _check(sizes: Any) -> Sizes:
    """Return the sizes of a model that MarianMT has.

    Raises:
        UserError: it has no such model.
    """
    if not isinstance(sizes, Sizes):
        raise UserError("MarianMT has no recurrent models: use --format savedmodel")
    for has, key, needed in (
        (sizes.norm == "post", f"model.norm={sizes.norm}", "post"),
        (sizes.norm_epsilon == EPSILON, f"model.norm_epsilon={sizes.norm_epsilon}", EPSILON),
        (sizes.positions in SINUSOIDAL, f"model.positions={sizes.positions}", "sinusoidal"),
        (
            sizes.activation in ACTIVATIONS_OUT,
            f"model.activation={sizes.activation}",
            ", ".join(ACTIVATIONS_OUT),
        ),
        (sizes.heads != "pooled", "model.heads=pooled", "split, own"),
        (not sizes.qk_norm, "model.qk_norm=true", "false"),
    ):
        if not has:
            raise UserError(f"MarianMT has no {key}, only {needed}: train with model=marian")
    return sizes


def _models_of(tokenizer: Tokenizer) -> tuple[bytes, bytes]:
    """Return the SentencePiece models of source and target."""
    if isinstance(tokenizer, SentencePieceTokenizer):
        return tokenizer.model, tokenizer.model
    if isinstance(tokenizer, PairedTokenizer):
        return tokenizer.models
    raise UserError("MarianMT cuts text by SentencePiece models alone: tokenizer=unigram or bpe")


def _translate(weights: Mapping[str, np.ndarray], sizes: Sizes, order: list[int]) -> Any:
    """Return the weights by their names."""
    # Sines and cosines in turn, as in Vaswani et al. 2017, are another order of the same numbers.
    depth = np.arange(sizes.d_model)
    if sizes.positions == "sinusoidal":
        depth = np.concatenate([depth[0::2], depth[1::2]])
    bias = weights.get(OUR_BIAS, np.zeros(sizes.vocabulary_size, np.float32))
    found = {TABLE: weights[OUR_TABLE][order][:, depth], BIAS: bias[order][None]}
    layers = sizes.encoder_layers, sizes.decoder_layers
    for here, there in list_dense(*layers):
        kernel, offset = _take_dense(weights, here, sizes)
        if here.endswith(("/output", "/outer")):
            kernel, offset = kernel[:, depth], offset[depth]
        else:
            kernel = kernel[depth]
        found[f"{there}.weight"], found[f"{there}.bias"] = kernel.T, offset
    for here, there in list_norms(*layers):
        found[f"{there}.weight"] = weights[f"{here}/gamma"][depth]
        found[f"{there}.bias"] = weights[f"{here}/beta"][depth]
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


def _take_dense(
    weights: Mapping[str, np.ndarray], name: str, sizes: Sizes
) -> tuple[np.ndarray, np.ndarray]:
    """Return kernel [in, out] and bias [out], of whatever heads are made of."""
    if name.endswith("attention/output") and not sizes.attention_output:
        return np.eye(sizes.d_model, dtype=np.float32), np.zeros(sizes.d_model, np.float32)
    projected = name.endswith(("/query", "/key", "/value"))
    parts = [name]
    if projected and sizes.heads == "own":
        heads = sizes.num_heads if name.endswith("/query") else sizes.cross_attention.groups
        parts = [f"{name}/head_{i}" for i in range(heads)]
    kernel = np.concatenate([weights[f"{part}/kernel"] for part in parts], axis=1)
    none = np.zeros(kernel.shape[1] // len(parts), np.float32)
    bias = np.concatenate([weights.get(f"{part}/bias", none) for part in parts])
    if projected and kernel.shape[1] < sizes.d_model:  # queries share keys and values
        width, times = sizes.cross_attention.head_width, sizes.d_model // kernel.shape[1]
        apart = kernel.reshape(len(kernel), -1, width).repeat(times, axis=1)
        kernel = apart.reshape(len(kernel), sizes.d_model)
        bias = bias.reshape(-1, width).repeat(times, axis=0).reshape(-1)
    return kernel, bias


def _make_config(sizes: Sizes, pad: int) -> dict[str, Any]:
    both: dict[str, Any] = {}
    for side, layers in (("encoder", sizes.encoder_layers), ("decoder", sizes.decoder_layers)):
        both |= {
            f"{side}_layers": layers,
            f"{side}_attention_heads": sizes.num_heads,
            f"{side}_ffn_dim": sizes.ffn_width,
            f"{side}_layerdrop": 0.0,
        }
    return both | {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "d_model": sizes.d_model,
        "vocab_size": pad + 1,
        "decoder_vocab_size": pad + 1,
        "max_position_embeddings": sizes.max_length,
        "activation_function": ACTIVATIONS_OUT[sizes.activation],
        "dropout": sizes.dropout,
        "attention_dropout": sizes.attention_dropout,
        "activation_dropout": sizes.ffn_dropout,
        **FORM,
        **_name_special_ids(pad),
    }


def _name_special_ids(pad: int) -> dict[str, int]:
    """Return what both files say of the ids of marks."""
    return {
        "pad_token_id": pad,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "decoder_start_token_id": pad,
    }


def _make_search(config: Config, sizes: Sizes, pad: int) -> dict[str, Any]:
    """Return how it searches; padding is never written."""
    return {
        "num_beams": config.decoding.beam_size,
        "max_length": sizes.max_length,
        "bad_words_ids": [[pad]],
        **_name_special_ids(pad),
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, ensure_ascii=False, indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")
