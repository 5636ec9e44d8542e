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
from nmt.formats.loading import make_translator
from nmt.formats.manifest import check_files
from nmt.inference.alignment import Aligner
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.lexicon import Lexicon
from nmt.inference.translator import Translator
from nmt.model.contract import Model
from nmt.model.recurrent import Recurrent
from nmt.model.transformer import Transformer
from nmt.runs.folder import CONFIG_FILE

MODEL_FILE = "model.keras"
# (module, class) of everything that the file of a model of this package names.
_KNOWN_CLASSES = {
    *((model.__module__, model.__name__) for model in (Recurrent, Transformer)),
    ("keras", keras.DTypePolicy.__name__),
}


def write(model: Model, tokenizer: Tokenizer, config: Config, folder: Path) -> None:
    """Write a float32 model, its tokenizer and the configuration with which `load` searches."""
    model.save(folder / MODEL_FILE)
    tokenizer.save(folder)
    files.save(config, folder / CONFIG_FILE)


def load(folder: str | Path) -> Translator:
    """Return a translator for an exported folder.

    Raises:
        UserError: the folder is not such an export or is damaged, or its file names other classes
            than a model of this package needs: Keras could run code of the file.
    """
    folder = Path(folder)
    if not (folder / MODEL_FILE).is_file():
        raise UserError(f"{folder} is not an export with --format keras: it has no {MODEL_FILE}")
    check_files(folder)
    _check_architecture(folder / MODEL_FILE)
    model = keras.saving.load_model(folder / MODEL_FILE, compile=False, safe_mode=True)
    engine = KerasEngine(model, Aligner(Lexicon.load(folder)))
    config = files.load(folder / CONFIG_FILE)
    return make_translator(folder, engine, load_tokenizer(folder), config)


def _check_architecture(path: Path) -> None:
    """Check that a file names only a model of this package and its dtype policy."""
    try:
        with zipfile.ZipFile(path) as archive:
            classes = list(_list_classes(json.loads(archive.read("config.json"))))
    except (OSError, ValueError, KeyError, RecursionError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    for module, name in classes:
        if (module, name) not in _KNOWN_CLASSES:
            raise UserError(f"{path} is not a model of this package: it names {module}.{name}")


def _list_classes(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (module, class) of every object in a nested configuration."""
    if isinstance(node, dict):
        if "class_name" in node or "module" in node:
            yield node.get("module"), node.get("class_name")
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _list_classes(child)
