"""One ``.keras`` file: architecture and weights, for Keras on any backend."""

from __future__ import annotations

from pathlib import Path

import keras

import nmt.model.transformer  # noqa: F401  (registers the layers that the file names)
from nmt.config import Config, files
from nmt.data.tokenizer import Tokenizer, load_tokenizer
from nmt.errors import UserError
from nmt.exporting.folder import CONFIG_FILE, check_files
from nmt.inference.engine import KerasEngine
from nmt.inference.translator import Translator
from nmt.model.contract import Model

MODEL_FILE = "model.keras"


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
        UserError: the folder is no such export, or a damaged one.
    """
    folder = Path(folder)
    if not (folder / MODEL_FILE).is_file():
        raise UserError(f"{folder} is not an export with --format keras: it has no {MODEL_FILE}")
    check_files(folder)
    model = keras.saving.load_model(folder / MODEL_FILE)
    config = files.load(folder / CONFIG_FILE)
    longest = max(config.training.row_lengths)
    return Translator(KerasEngine(model), load_tokenizer(folder), config.decoding, longest=longest)
