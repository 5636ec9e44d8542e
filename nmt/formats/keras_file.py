"""One ``.keras`` file: architecture and weights, for Keras on any backend."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from nmt.config import Config, files
from nmt.data.tokenizer import Tokenizer, load_tokenizer
from nmt.errors import UserError
from nmt.formats.folder import CONFIG_FILE, check_files
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.translator import Translator
from nmt.model.contract import Model
from nmt.model.recurrent import Recurrent
from nmt.model.transformer import Transformer

MODEL_FILE = "model.keras"
# What a model of this program names in its file, as (module, class).
_KNOWN_CLASSES = {
    *((model.__module__, model.__name__) for model in (Recurrent, Transformer)),
    ("keras", keras.DTypePolicy.__name__),
}


def write(model: Model, tokenizer: Tokenizer, config: Config, folder: Path) -> None:
    """Write the model, and beside it what a translator needs too.

    Args:
        model: in float32.
        tokenizer: its tokenizer.
        config: its ``decoding`` is what `load` searches with.
        folder: exists.
    """
    model.save(folder / MODEL_FILE)
    tokenizer.save(folder)
    files.save(config, folder / CONFIG_FILE)


def load(folder: str | Path) -> Translator:
    """Return a translator over an exported folder.

    Raises:
        UserError: the folder is no such export, or a damaged one, or its model is not one of this
            program: what else Keras would make of a file may be code.
    """
    folder = Path(folder)
    if not (folder / MODEL_FILE).is_file():
        raise UserError(f"{folder} is not an export with --format keras: it has no {MODEL_FILE}")
    check_files(folder)
    _check_architecture(folder / MODEL_FILE)
    model = keras.saving.load_model(folder / MODEL_FILE, compile=False, safe_mode=True)
    config = files.load(folder / CONFIG_FILE)
    return Translator.from_config(KerasEngine(model), load_tokenizer(folder), config)


def _check_architecture(path: Path) -> None:
    """Check that a file names nothing but a model of this program and its dtype policy."""
    try:
        with zipfile.ZipFile(path) as archive:
            named = list(_list_classes(json.loads(archive.read("config.json"))))
    except (OSError, ValueError, KeyError, RecursionError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    for module, name in named:
        if (module, name) not in _KNOWN_CLASSES:
            raise UserError(f"{path} is not a model of this program: it names {module}.{name}")


def _list_classes(node: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(node, dict):
        if "class_name" in node or "module" in node:
            yield node.get("module"), node.get("class_name")
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from _list_classes(inner)
