"""Export of a run as a MarianMT folder, for ``MarianMTModel.from_pretrained``."""

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
    FIXED_CONFIG,
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
from nmt.inference.engines import Engines
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.translator import Translator
from nmt.model.contract import Model
from nmt.model.sizes import SINUSOIDAL, TransformerSizes
from nmt.runs.building import assign_weights, build_model


def write(model: Model, tokenizer: Tokenizer, config: Config, folder: Path) -> None:
    """Write the files that `nmt.formats.marian.reading.read_marian` reads, in safetensors.

    Raises:
        UserError: MarianMT does not support the model or the tokenizer.
    """
    from safetensors.numpy import save_file

    sizes = _check_supported(model.sizes)
    sentencepiece_models = _get_models(tokenizer)
    weights = {
        name: np.asarray(ops.convert_to_numpy(weight), np.float32)
        for name, weight in model.named_weights().items()
    }
    # MarianMT's order: EOS, unknown, all tokens, and padding, with which decoding begins.
    order = [EOS, UNK, *range(UNK + 1, sizes.vocabulary_size), BOS]
    tokens = tokenizer.pieces(order)
    if len(set(tokens)) < len(tokens):
        raise UserError(
            "MarianMT identifies tokens by their text, and two tokens of this tokenizer have the "
            "same text"
        )
    save_file(_translate(weights, sizes, order), folder / SAFETENSORS, {"format": "pt"})
    for name, content in zip(MODELS, sentencepiece_models, strict=True):
        (folder / name).write_bytes(content)
    vocabulary = ["</s>", "<unk>", *tokens[2:-1], "<pad>"]
    _write_json(folder / VOCABULARY, {token: i for i, token in enumerate(vocabulary)})
    _write_json(folder / CONFIG, _make_config(sizes, pad=len(order) - 1))
    _write_json(folder / GENERATION, _make_search(config, sizes, pad=len(order) - 1))
    source, target = config.data.languages
    _write_json(
        folder / TOKENIZER_CONFIG,
        {
            "source_lang": source,
            "target_lang": target,
            "model_max_length": sizes.max_length,
            "tokenizer_class": "MarianTokenizer",
        },
    )


def load(folder: Path, config: Config) -> Translator:
    """Return a translator for an exported folder, read as by `nmt.convert`.

    Args:
        folder: of the export.
        config: of the run, whose search and limits are used, as MarianMT has no such settings.

    Raises:
        UserError: see `nmt.formats.marian.reading.read_marian`.
    """
    marian = read_marian(folder)
    model = build_model(marian.config, marian.tokenizer.vocabulary_size, precision="float32")
    assign_weights(model.named_weights(), marian.weights, folder)
    return Translator.from_config(Engines(KerasEngine(model)), marian.tokenizer, config)


def _check_supported(sizes: Any) -> TransformerSizes:
    """Return the sizes if MarianMT supports such a model.

    Raises:
        UserError: it does not.
    """
    if not isinstance(sizes, TransformerSizes):
        raise UserError("MarianMT has no recurrent models: use --format savedmodel")
    for is_supported, setting, supported in (
        (sizes.norm == "post", f"model.norm={sizes.norm}", "post"),
        (sizes.norm_epsilon == EPSILON, f"model.norm_epsilon={sizes.norm_epsilon}", EPSILON),
        (sizes.positions in SINUSOIDAL, f"model.positions={sizes.positions}", "sinusoidal"),
        (
            sizes.activation in ACTIVATIONS_OUT,
            f"model.activation={sizes.activation}",
            ", ".join(ACTIVATIONS_OUT),
        ),
        (sizes.heads != "pooled", "model.heads=pooled", "split, own"),
        (not sizes.qk_norm, f"model.qk_norm={str(sizes.qk_norm).lower()}", "false"),
    ):
        if not is_supported:
            raise UserError(f"MarianMT has no {setting}, only {supported}: train with model=marian")
    return sizes


def _get_models(tokenizer: Tokenizer) -> tuple[bytes, bytes]:
    """Return the SentencePiece models of source and target.

    Raises:
        UserError: MarianMT does not support the tokenizer.
    """
    if tokenizer.slots:
        raise UserError(
            "MarianMT has no slots for numbers, URLs and names, with which this run was trained: "
            "train with tokenizer.slots=0"
        )
    if isinstance(tokenizer, SentencePieceTokenizer):
        return tokenizer.model, tokenizer.target.model
    if isinstance(tokenizer, PairedTokenizer):
        return tokenizer.models
    raise UserError("MarianMT needs SentencePiece models: tokenizer=bpe or unigram")


def _translate(weights: Mapping[str, np.ndarray], sizes: TransformerSizes, order: list[int]) -> Any:
    """Return the weights by MarianMT's names."""
    # MarianMT's positions are all sines, then all cosines. If this model has them in turn (Vaswani
    # et al. 2017), all features are reordered.
    features = np.arange(sizes.d_model)
    if sizes.positions == "sinusoidal":
        features = np.concatenate([features[0::2], features[1::2]])
    bias = weights.get(OUR_BIAS, np.zeros(sizes.vocabulary_size, np.float32))
    translated = {TABLE: weights[OUR_TABLE][order][:, features], BIAS: bias[order][None]}
    layers = sizes.encoder_layers, sizes.decoder_layers
    for ours, theirs in list_dense(*layers):
        kernel, bias = _take_dense(weights, ours, sizes)
        if ours.endswith(("/output", "/outer")):
            kernel, bias = kernel[:, features], bias[features]
        else:
            kernel = kernel[features]
        translated[f"{theirs}.weight"], translated[f"{theirs}.bias"] = kernel.T, bias
    for ours, theirs in list_norms(*layers):
        translated[f"{theirs}.weight"] = weights[f"{ours}/gamma"][features]
        translated[f"{theirs}.bias"] = weights[f"{ours}/beta"][features]
    return {name: np.ascontiguousarray(array) for name, array in translated.items()}


def _take_dense(
    weights: Mapping[str, np.ndarray], name: str, sizes: TransformerSizes
) -> tuple[np.ndarray, np.ndarray]:
    """Return kernel [in, out] and bias [out] of a dense layer, for heads of any kind."""
    if name.endswith("attention/output") and not sizes.attention_output:
        return np.eye(sizes.d_model, dtype=np.float32), np.zeros(sizes.d_model, np.float32)
    is_projection = name.endswith(("/query", "/key", "/value"))
    layers = [name]
    if is_projection and sizes.heads == "own":
        heads = sizes.num_heads if name.endswith("/query") else sizes.cross_attention.groups
        layers = [f"{name}/head_{i}" for i in range(heads)]
    kernel = np.concatenate([weights[f"{layer}/kernel"] for layer in layers], axis=1)
    no_bias = np.zeros(kernel.shape[1] // len(layers), np.float32)
    bias = np.concatenate([weights.get(f"{layer}/bias", no_bias) for layer in layers])
    if is_projection and kernel.shape[1] < sizes.d_model:  # heads share keys and values
        width, repeats = sizes.cross_attention.head_width, sizes.d_model // kernel.shape[1]
        heads_apart = kernel.reshape(len(kernel), -1, width).repeat(repeats, axis=1)
        kernel = heads_apart.reshape(len(kernel), sizes.d_model)
        bias = bias.reshape(-1, width).repeat(repeats, axis=0).reshape(-1)
    return kernel, bias


def _make_config(sizes: TransformerSizes, pad: int) -> dict[str, Any]:
    sides: dict[str, Any] = {}
    for side, layers in (("encoder", sizes.encoder_layers), ("decoder", sizes.decoder_layers)):
        sides |= {
            f"{side}_layers": layers,
            f"{side}_attention_heads": sizes.num_heads,
            f"{side}_ffn_dim": sizes.ffn_width,
            f"{side}_layerdrop": 0.0,
        }
    return sides | {
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
        **FIXED_CONFIG,
        **_name_special_ids(pad),
    }


def _name_special_ids(pad: int) -> dict[str, int]:
    """Return the special ids, which both config.json and generation_config.json hold."""
    return {
        "pad_token_id": pad,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "decoder_start_token_id": pad,
    }


def _make_search(config: Config, sizes: TransformerSizes, pad: int) -> dict[str, Any]:
    """Return the settings of the search, which never writes padding."""
    return {
        "num_beams": config.decoding.beam_size,
        # MarianMT divides by length ** penalty: the same for 0, similar for 1, its default.
        "length_penalty": config.decoding.length_penalty,
        "no_repeat_ngram_size": config.decoding.no_repeat_ngram,
        "max_length": sizes.max_length,
        "bad_words_ids": [[pad]],
        **_name_special_ids(pad),
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, ensure_ascii=False, indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")
