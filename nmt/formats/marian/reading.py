"""A MarianMT folder as published, into a run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import Config
from nmt.data.paired import PairedTokenizer
from nmt.data.tokenizer import BOS, EOS, PAD, UNK
from nmt.errors import UserError, attach_filename
from nmt.formats.marian.names import (
    ACTIVATIONS,
    BIAS,
    FORM,
    OUR_BIAS,
    OUR_TABLE,
    TABLE,
    list_dense,
    list_norms,
)
from nmt.formats.marian.torch_file import read_torch_file
from nmt.model.sizes import Sizes
from nmt.runs.building import check_weight, make_sizes
from nmt.runs.checkpoint import write_arrays
from nmt.runs.folder import RunFolder

CONFIG, GENERATION, TOKENIZER_CONFIG = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
)
VOCABULARY, MODELS = "vocab.json", ("source.spm", "target.spm")
SAFETENSORS, TORCH = "model.safetensors", "pytorch_model.bin"
# Nothing there is padding that is scored: it has no logit.
_NEVER = -1e9
_NO_CORPUS = "pairs.tsv"
_MANY = 10**6  # pairs, of whatever it was trained on: it settles how much dropout there is
# What must be so, by key of its configuration, if the key is there.
_EXPECTED: dict[str, Any] = {"model_type": "marian", **FORM}
_DEFAULTS = {"scale_embedding": False}  # theirs, where they are not what must be


@dataclass(frozen=True)
class Marian:
    """What a folder holds, in this program's terms."""

    config: Config
    tokenizer: PairedTokenizer
    weights: dict[str, np.ndarray]  # by name, as in `nmt.model.contract.Model.named_weights`


def convert(folder: Path, output: Path, languages: tuple[str, str] | None = None) -> RunFolder:
    """Write the run that a MarianMT folder is.

    Args:
        folder: as published, see `read_marian`.
        output: a folder that is not there yet.
        languages: BCP 47 tags of source and target; None: as the folder says.

    Raises:
        UserError: see `read_marian`; or the output is there.
    """
    if output.exists():
        raise UserError(f"{output} exists already: choose another folder with --output")
    found = read_marian(folder, languages)
    with attach_filename(output):
        output.mkdir(parents=True)
        found.tokenizer.save(output)
    run = RunFolder(output.resolve())
    run.write_config(found.config)
    run.write_corpus_record({"converted_from": str(folder)})
    arrays = {f"model/{name}": array for name, array in found.weights.items()}
    run.checkpoints.folder.mkdir()
    write_arrays(run.checkpoints.best, arrays, {"converted_from": str(folder)})
    return run


def read_marian(folder: Path, languages: tuple[str, str] | None = None) -> Marian:
    """Read config.json, the weights, source.spm, target.spm and vocab.json.

    Ids are put in this program's order: what decoding begins with there, the row of padding, is the
    begin-of-sentence mark here.

    Args:
        folder: of MarianMT.
        languages: BCP 47 tags of source and target; None: as the folder says.

    Raises:
        UserError: a file is missing or damaged, or the model is one that this program cannot hold.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}")
    stored = _read_json(folder / CONFIG)
    config = _translate_config(folder, stored, languages)
    vocabulary = _read_vocabulary(folder / VOCABULARY)
    size = _number(folder, stored, "vocab_size")
    if stored.get("decoder_vocab_size", size) not in (size, None):
        raise UserError(f"{folder} has two tables of pieces; this program has one for both sides")
    order = _order_ids(folder, stored, vocabulary, size)
    by_id = {i: piece for piece, i in vocabulary.items()}
    pieces = _name_pieces([by_id.get(i) for i in order])
    tokenizer = PairedTokenizer(_read_models(folder), pieces)
    weights = _translate_weights(folder, read_weights(folder), config, order)
    return Marian(config, tokenizer, weights)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} is damaged: it holds no table")
    return found


def _read_vocabulary(path: Path) -> dict[str, int]:
    found = _read_json(path)
    if not all(type(i) is int for i in found.values()) or len(set(found.values())) < len(found):
        raise UserError(f"{path} is damaged: its ids are no whole numbers, or not all different")
    return found


def _read_models(folder: Path) -> tuple[bytes, bytes]:
    try:
        source, target = ((folder / name).read_bytes() for name in MODELS)
    except OSError as error:
        raise UserError(f"{error.filename} cannot be read: {error.strerror}") from error
    return source, target


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """Return the weights of a folder by their names there, in float32.

    Raises:
        UserError: there are none, or they are damaged.
    """
    if (folder / SAFETENSORS).is_file():
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        path = folder / SAFETENSORS
        try:
            arrays = load_file(path)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is damaged, or of a kind unknown here: {error}") from error
        return {
            name: array.astype(np.float32) if array.dtype.kind == "f" else array
            for name, array in arrays.items()
        }
    if (folder / TORCH).is_file():
        return read_torch_file(folder / TORCH)
    raise UserError(f"{folder} has neither {SAFETENSORS} nor {TORCH}")


def _number(folder: Path, stored: Mapping[str, Any], key: str) -> int:
    value = stored.get(key)
    if type(value) is not int or value < 0:
        raise UserError(f"{folder / CONFIG} is damaged: {key} is {value!r}")
    return value


def _translate_config(
    folder: Path, stored: Mapping[str, Any], languages: tuple[str, str] | None
) -> Config:
    """Return the configuration of such a model."""
    from nmt.runs.resuming import compose_config
    from nmt.training.defaults import SPANISH_PROBES, resolve_config

    for key, wanted in _EXPECTED.items():
        value = stored.get(key, _DEFAULTS.get(key, wanted))
        if value != wanted:
            raise UserError(f"{folder} has {key}={value!r}; this program holds {wanted!r} alone")
    sizes = {
        key: _number(folder, stored, key)
        for key in ("d_model", "encoder_layers", "decoder_layers", "max_position_embeddings")
    }
    for key in ("attention_heads", "ffn_dim"):
        ours, theirs = (_number(folder, stored, f"{side}_{key}") for side in ("encoder", "decoder"))
        if ours != theirs:
            raise UserError(f"{folder} has another {key} in its decoder than in its encoder")
        sizes[key] = ours
    activation = ACTIVATIONS.get(str(stored.get("activation_function")))
    if activation is None:
        raise UserError(
            f"{folder} has activation_function={stored.get('activation_function')!r}; known are "
            f"{', '.join(ACTIVATIONS)}"
        )
    generation = folder / GENERATION
    search = {**stored, **(_read_json(generation) if generation.is_file() else {})}
    beam = search.get("num_beams")
    source, target = languages or _find_languages(folder)
    config = compose_config(
        [
            # No corpus comes with it: a file of this name, given later, is what it is scored on.
            *("data=tsv", f"data.path={_NO_CORPUS}"),
            *(f"data.source_language={source}", f"data.target_language={target}"),
            *("model=marian", f"model.d_model={sizes['d_model']}"),
            f"model.num_heads={sizes['attention_heads']}",
            f"model.ffn_width={sizes['ffn_dim']}",
            f"model.encoder_layers={sizes['encoder_layers']}",
            f"model.decoder_layers={sizes['decoder_layers']}",
            f"model.max_length={sizes['max_position_embeddings']}",
            f"model.activation={activation}",
            *([f"decoding.beam_size={beam}"] if type(beam) is int and beam > 0 else []),
        ]
    )
    # There is no dev split: exports are compared with the run on these sentences, in any language.
    training = dataclasses.replace(config.training, probes=list(SPANISH_PROBES))
    config = dataclasses.replace(config, name=folder.resolve().name, training=training)
    return resolve_config(config, pairs=_MANY)


def _find_languages(folder: Path) -> tuple[str, str]:
    """Return the tags that the folder names; "und", undetermined, where it names none."""
    path = folder / TOKENIZER_CONFIG
    stored = _read_json(path) if path.is_file() else {}
    source, target = (
        str(stored.get(key) or "und").replace("_", "-") for key in ("source_lang", "target_lang")
    )
    return source, target


def _order_ids(
    folder: Path, stored: Mapping[str, Any], vocabulary: Mapping[str, int], size: int
) -> list[int]:
    """Return their id for each of ours; -1 for padding, which has no row there."""
    pad, eos = (_number(folder, stored, f"{name}_token_id") for name in ("pad", "eos"))
    if stored.get("decoder_start_token_id", pad) != pad:
        raise UserError(f"{folder} begins decoding with another id than that of padding")
    unk = vocabulary.get("<unk>")
    if unk is None or vocabulary.get("</s>") != eos or vocabulary.get("<pad>") != pad:
        raise UserError(f"{folder / VOCABULARY} lacks <unk>, </s> or <pad>, or has other ids")
    if max(vocabulary.values()) >= size:
        raise UserError(f"{folder / VOCABULARY} has more ids than the model has rows: {size}")
    order = [-1] * (UNK + 1)
    order[BOS], order[EOS], order[UNK] = pad, eos, unk
    return order + [i for i in range(size) if i not in (pad, eos, unk)]


def _name_pieces(pieces: Sequence[str | None]) -> list[str]:
    """Name what has no name, so that no two are the same string."""
    named = list(pieces)
    named[PAD], named[BOS], named[EOS], named[UNK] = "<pad>", None, "</s>", "<unk>"
    known = set(named)
    for i, piece in enumerate(named):
        if piece is None:
            name = "<s>" if i == BOS else f"<no piece {i}>"
            while name in known:
                name += "_"
            named[i] = name
            known.add(name)
    return [str(piece) for piece in named]


def _translate_weights(
    folder: Path, found: Mapping[str, np.ndarray], config: Config, order: Sequence[int]
) -> dict[str, np.ndarray]:
    """Return the weights by our names, rows of pieces in our order."""

    def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
        check_weight(folder, name, found.get(name), shape)
        return found[name]

    rows = np.array(order[PAD + 1 :])
    table = take(TABLE, (len(rows), config.model.d_model))
    bias = found.get(BIAS, np.zeros((1, len(rows)), np.float32))
    check_weight(folder, BIAS, bias, (1, len(rows)))
    for tied in (
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
    ):
        if tied in found and not np.array_equal(found[tied], table):
            raise UserError(f"{folder} has vectors of its own in {tied}; here all are one table")
    weights = {
        OUR_TABLE: np.concatenate([np.zeros_like(table[:1]), table[rows]]),
        OUR_BIAS: np.concatenate([np.full(1, _NEVER, bias.dtype), bias[0, rows]]),
    }
    sizes = make_sizes(config.model, len(order))
    assert isinstance(sizes, Sizes)
    layers = sizes.encoder_layers, sizes.decoder_layers
    for here, there in list_dense(*layers):
        out = sizes.ffn_width if here.endswith("/inner") else sizes.d_model
        into = sizes.ffn_width if here.endswith("/outer") else sizes.d_model
        weights[f"{here}/kernel"] = np.ascontiguousarray(take(f"{there}.weight", (out, into)).T)
        weights[f"{here}/bias"] = take(f"{there}.bias", (out,))
    for here, there in list_norms(*layers):
        weights[f"{here}/gamma"] = take(f"{there}.weight", (sizes.d_model,))
        weights[f"{here}/beta"] = take(f"{there}.bias", (sizes.d_model,))
    return weights
