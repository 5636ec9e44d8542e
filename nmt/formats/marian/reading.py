"""Conversion of a published MarianMT folder to a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import Config
from nmt.config.data import LANGUAGE
from nmt.data.paired import PairedTokenizer
from nmt.data.tokenizer import BOS, EOS, PAD, UNK
from nmt.errors import UserError
from nmt.files import read_json, replace_folder
from nmt.formats.marian.names import (
    ACTIVATIONS,
    BIAS,
    FIXED_CONFIG,
    OUR_BIAS,
    OUR_TABLE,
    TABLE,
    list_dense,
    list_norms,
)
from nmt.formats.marian.torch_file import read_torch_file
from nmt.model.sizes import TransformerSizes
from nmt.runs.building import check_weight
from nmt.runs.checkpoint import write_arrays
from nmt.runs.folder import RunFolder

CONFIG, GENERATION, TOKENIZER_CONFIG = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
)
VOCABULARY, MODELS = "vocab.json", ("source.spm", "target.spm")
SAFETENSORS, TORCH = "model.safetensors", "pytorch_model.bin"
_PADDING_LOGIT = -1e9  # MarianMT never writes padding
# A folder has no corpus: a file of this name, added later, is what the run is scored on.
_NO_CORPUS = "pairs.tsv"
_ASSUMED_PAIRS = 10**6  # size of the unknown training corpus, from which dropout is resolved
# Required values by key of MarianMT's configuration; a missing key has its default.
_REQUIRED: dict[str, Any] = {"model_type": "marian", **FIXED_CONFIG}
_OTHER_DEFAULTS = {"scale_embedding": False}  # MarianMT's, if they are not the required values
# Our keys by MarianMT's.
_SIZES = {
    "d_model": "d_model",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "max_position_embeddings": "max_length",
}
_SIZES_PER_SIDE = {"attention_heads": "num_heads", "ffn_dim": "ffn_width"}


@dataclass(frozen=True)
class Marian:
    """The model of a folder, converted."""

    config: Config
    tokenizer: PairedTokenizer
    weights: dict[str, np.ndarray]  # by name, as in `nmt.model.contract.Model.named_weights`


def convert(folder: Path, output: Path, languages: tuple[str, str] | None = None) -> RunFolder:
    """Convert a MarianMT folder to a run.

    Args:
        folder: a published folder: see `read_marian`.
        output: a folder that does not exist yet.
        languages: BCP 47 tags of source and target; None: the folder's.

    Raises:
        UserError: see `read_marian`; or the output exists.
    """
    if output.exists():
        raise UserError(f"{output} exists already: choose another folder with --output")
    marian = read_marian(folder, languages)
    with replace_folder(output) as partial:
        marian.tokenizer.save(partial)
        run = RunFolder(partial)
        run.write_config(marian.config)
        run.write_corpus_record({"converted_from": str(folder)})
        arrays = {f"model/{name}": array for name, array in marian.weights.items()}
        run.checkpoints.folder.mkdir()
        write_arrays(run.checkpoints.best, arrays, {"converted_from": str(folder)})
    return RunFolder(output.resolve())


def read_marian(folder: Path, languages: tuple[str, str] | None = None) -> Marian:
    """Read config.json, the weights, source.spm, target.spm and vocab.json.

    Ids get our order. MarianMT starts decoding with padding: its row becomes that of BOS.

    Args:
        folder: the MarianMT folder.
        languages: BCP 47 tags of source and target; None: the folder's.

    Raises:
        UserError: a file is missing or damaged, or the model is not supported.
    """
    if not folder.is_dir():
        raise UserError(f"folder {folder} does not exist")
    stored = _read_object(folder / CONFIG)
    config = _translate_config(folder, stored, languages)
    vocabulary = _read_vocabulary(folder / VOCABULARY)
    size = _read_size(folder, stored, "vocab_size")
    if stored.get("decoder_vocab_size", size) not in (size, None):
        raise UserError(f"{folder} has two vocabularies; only one for both sides is supported")
    pad, eos, unk = _read_special_ids(folder, stored, vocabulary, size)
    stored_weights = read_weights(folder)
    # Before anything of the size that the configuration names is allocated.
    check_weight(folder, TABLE, stored_weights.get(TABLE), (size, config.model.d_model))
    # MarianMT's id for each of our ids; -1 for padding, which has no row there.
    order = [-1] * (UNK + 1)
    order[BOS], order[EOS], order[UNK] = pad, eos, unk
    order += (i for i in range(size) if i not in (pad, eos, unk))
    by_id = {i: token for token, i in vocabulary.items()}
    tokens = _name_tokens([by_id.get(i) for i in order])
    tokenizer = PairedTokenizer(_read_models(folder), tokens)
    weights = _translate_weights(folder, stored_weights, config, order)
    return Marian(config, tokenizer, weights)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged: it is not a JSON object")
    return content


def _read_vocabulary(path: Path) -> dict[str, int]:
    ids = _read_object(path)
    if not all(type(i) is int for i in ids.values()) or len(set(ids.values())) < len(ids):
        raise UserError(f"{path} is damaged: its ids are not distinct integers")
    return ids


def _read_models(folder: Path) -> tuple[bytes, bytes]:
    try:
        source, target = ((folder / name).read_bytes() for name in MODELS)
    except OSError as error:
        raise UserError(f"{error.filename} cannot be read: {error.strerror}") from error
    return source, target


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """Return the weights of a folder by MarianMT's names, in float32.

    Raises:
        UserError: they are missing or damaged.
    """
    if (folder / SAFETENSORS).is_file():
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        path = folder / SAFETENSORS
        try:
            arrays = load_file(path)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is damaged or not supported: {error}") from error
        return {
            name: array.astype(np.float32) if array.dtype.kind == "f" else array
            for name, array in arrays.items()
        }
    if (folder / TORCH).is_file():
        return read_torch_file(folder / TORCH)
    raise UserError(f"{folder} has neither {SAFETENSORS} nor {TORCH}")


def _read_size(folder: Path, stored: Mapping[str, Any], key: str) -> int:
    value = stored.get(key)
    if type(value) is not int or value < 0:
        raise UserError(f"{folder / CONFIG} is damaged: {key} is {value!r}")
    return value


def _translate_config(
    folder: Path, stored: Mapping[str, Any], languages: tuple[str, str] | None
) -> Config:
    """Return the run configuration of a MarianMT configuration."""
    from nmt.runs.resuming import compose_config
    from nmt.training.defaults import SPANISH_PROBES, resolve_config

    for key, required in _REQUIRED.items():
        value = stored.get(key, _OTHER_DEFAULTS.get(key, required))
        if value != required:
            raise UserError(f"{folder} has {key}={value!r}; only {required!r} is supported")
    model: dict[str, Any] = {
        ours: _read_size(folder, stored, theirs) for theirs, ours in _SIZES.items()
    }
    for key, ours in _SIZES_PER_SIDE.items():
        encoder = _read_size(folder, stored, f"encoder_{key}")
        decoder = _read_size(folder, stored, f"decoder_{key}")
        if encoder != decoder:
            raise UserError(f"{folder} has another {key} in its decoder than in its encoder")
        model[ours] = encoder
    activation = ACTIVATIONS.get(str(stored.get("activation_function")))
    if activation is None:
        raise UserError(
            f"{folder} has activation_function={stored.get('activation_function')!r}; supported "
            f"are {', '.join(ACTIVATIONS)}"
        )
    model["activation"] = activation
    generation = folder / GENERATION
    search = {**stored, **(_read_object(generation) if generation.is_file() else {})}
    beam, ngram = search.get("num_beams"), search.get("no_repeat_ngram_size")
    source, target = languages or _find_languages(folder)
    config = compose_config(
        [
            *("data=files", f"data.train={_NO_CORPUS}", "model=marian"),
            *(f"data.source_language={source}", f"data.target_language={target}"),
            *(f"model.{key}={value}" for key, value in model.items()),
            *([f"decoding.beam_size={beam}"] if type(beam) is int and beam > 0 else []),
            *([f"decoding.no_repeat_ngram={ngram}"] if type(ngram) is int and ngram > 0 else []),
        ]
    )
    # Without a dev split, exports are compared with the run on these sentences, in any language.
    training = dataclasses.replace(config.training, probes=list(SPANISH_PROBES))
    config = dataclasses.replace(config, name=folder.resolve().name, training=training)
    return resolve_config(config, pairs=_ASSUMED_PAIRS)


def _find_languages(folder: Path) -> tuple[str, str]:
    """Return the language tags that a folder names, or "und" (undetermined).

    Folders for several languages name groups instead, such as ROMANCE or cat+oci+spa.
    """
    path = folder / TOKENIZER_CONFIG
    stored = _read_object(path) if path.is_file() else {}
    names = (str(stored.get(key, "")).replace("_", "-") for key in ("source_lang", "target_lang"))
    source, target = (name if LANGUAGE.accepts(name) else "und" for name in names)
    return source, target


def _read_special_ids(
    folder: Path, stored: Mapping[str, Any], vocabulary: Mapping[str, int], size: int
) -> tuple[int, int, int]:
    """Return MarianMT's ids of padding, EOS and the unknown token."""
    pad, eos = (_read_size(folder, stored, f"{name}_token_id") for name in ("pad", "eos"))
    if stored.get("decoder_start_token_id", pad) != pad:
        raise UserError(f"{folder} begins decoding with another id than padding's")
    unk = vocabulary.get("<unk>")
    if unk is None or vocabulary.get("</s>") != eos or vocabulary.get("<pad>") != pad:
        raise UserError(f"{folder / VOCABULARY} lacks <unk>, </s> or <pad>, or has other ids")
    if max(vocabulary.values()) >= size:
        raise UserError(f"{folder / VOCABULARY} has more ids than the model has rows: {size}")
    return pad, eos, unk


def _name_tokens(tokens: Sequence[str | None]) -> list[str]:
    """Return tokens with distinct names for those that have none."""
    named = list(tokens)
    named[PAD], named[BOS], named[EOS], named[UNK] = "<pad>", None, "</s>", "<unk>"
    used = set(named)
    for i, token in enumerate(named):
        if token is None:
            name = "<s>" if i == BOS else f"<no piece {i}>"
            while name in used:
                name += "_"
            named[i] = name
            used.add(name)
    return [str(token) for token in named]


def _translate_weights(
    folder: Path, stored: Mapping[str, np.ndarray], config: Config, order: Sequence[int]
) -> dict[str, np.ndarray]:
    """Return the weights by our names, with the rows of tokens in our order."""

    def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
        check_weight(folder, name, stored.get(name), shape)
        return stored[name]

    rows = np.array(order[PAD + 1 :])
    table = take(TABLE, (len(rows), config.model.d_model))
    bias = stored.get(BIAS, np.zeros((1, len(rows)), np.float32))
    check_weight(folder, BIAS, bias, (1, len(rows)))
    for tied in (
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
    ):
        if tied in stored and not np.array_equal(stored[tied], table):
            raise UserError(f"{folder} has another table in {tied}; only one shared is supported")
    weights = {
        OUR_TABLE: np.concatenate([np.zeros_like(table[:1]), table[rows]]),
        OUR_BIAS: np.concatenate([np.full(1, _PADDING_LOGIT, bias.dtype), bias[0, rows]]),
    }
    sizes = config.model.make_sizes(len(order))
    assert isinstance(sizes, TransformerSizes)
    layers = sizes.encoder_layers, sizes.decoder_layers
    for ours, theirs in list_dense(*layers):
        outputs = sizes.ffn_width if ours.endswith("/inner") else sizes.d_model
        inputs = sizes.ffn_width if ours.endswith("/outer") else sizes.d_model
        kernel = take(f"{theirs}.weight", (outputs, inputs)).T
        weights[f"{ours}/kernel"] = np.ascontiguousarray(kernel)
        weights[f"{ours}/bias"] = take(f"{theirs}.bias", (outputs,))
    for ours, theirs in list_norms(*layers):
        weights[f"{ours}/gamma"] = take(f"{theirs}.weight", (sizes.d_model,))
        weights[f"{ours}/beta"] = take(f"{theirs}.bias", (sizes.d_model,))
    return weights
