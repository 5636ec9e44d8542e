"""Verification of every file of a run: sound, damaged, or unknown.

The configuration, the tokenizer and all arrays are compared with their checksums. Other files have
none: they are read. Unknown files are those that nothing in this package reads, and temporary ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt.data.tokenizer import TOKENIZER_FILES
from nmt.errors import UserError
from nmt.files import PARTIAL, read_json
from nmt.formats.weights.converted import CONVERTED_FILE, check_converted_file
from nmt.inference.lexicon import LEXICON_FILE, Lexicon
from nmt.inference.quality import QUALITY_FILE
from nmt.inference.quality_model import QualityModel
from nmt.runs.building import is_adapter
from nmt.runs.checkpoint import read_arrays
from nmt.runs.custom_model import check_model_class
from nmt.runs.folder import CONFIG_FILE, CORPUS_FILE, DEV_OUTPUTS_FILE, METRICS_FILE, RunFolder
from nmt.runs.samples import read_samples
from nmt.text.source_words import WORDS_FILE

_REQUIRED = (CONFIG_FILE, CORPUS_FILE)
_EXPORTS = "exports/"  # verified by their manifests
_MISSING = "it is missing"

Shapes = dict[str, tuple[int, ...]]


class Verdict(NamedTuple):
    """Result for one file."""

    name: str  # inside the folder
    verdict: str  # "sound", "damaged" or "unknown"
    reason: str = ""  # of damage


def list_files(folder: Path) -> list[str]:
    """Return the names of all files in a folder, links included, ascending."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    )


def verify_run(folder: Path) -> Iterator[Verdict]:
    """Verify every file of a run but its exports, and report missing files as damaged.

    Args:
        folder: the run folder.
    """
    reader = _Reader(RunFolder(folder))
    names = [name for name in list_files(folder) if not name.startswith(_EXPORTS)]
    for name in names:
        if Path(name).name.startswith(PARTIAL):  # a save is in progress, or was killed
            yield Verdict(name, "unknown")
            continue
        try:
            is_known = reader.read(name)
        except (UserError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            if not os.path.lexists(folder / name):  # training has removed it meanwhile
                continue
            reason = " ".join(str(error).split()).removeprefix(f"{folder / name} is damaged: ")
            yield Verdict(name, "damaged", reason)
        else:
            yield Verdict(name, "sound" if is_known else "unknown")
    yield from (Verdict(name, "damaged", _MISSING) for name in _REQUIRED if name not in names)
    yield from reader.find_missing(names)


class _Reader:
    """Reads files of a run with the functions that use them."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run

    def read(self, name: str) -> bool:
        """Read a file, and return whether its kind is known.

        Raises:
            UserError: it is damaged; readers may raise `OSError`, `ValueError` and others, too.
        """
        path = self._run.path / name
        if name == CONFIG_FILE:
            _ = self._run.config
        elif name == CORPUS_FILE:
            self._run.read_corpus_record()
        elif name in TOKENIZER_FILES:
            self._run.load_tokenizer()
        elif name == LEXICON_FILE:
            Lexicon.load(path.parent)
        elif name == QUALITY_FILE:
            QualityModel.load(path.parent)
        elif name == WORDS_FILE:
            self._run.load_source_words()
        elif name == METRICS_FILE:
            self._run.metrics.read()
        elif name == DEV_OUTPUTS_FILE:
            self._run.dev_outputs.read()
        elif path.match("checkpoints/*.npz"):
            self._read_checkpoint(path)
        elif path.match(f"checkpoints/{CONVERTED_FILE}"):
            check_converted_file(path)
        elif path.match("samples/*.tsv"):
            read_samples(path)
        elif path.suffix == ".json":
            read_json(path)
        elif path.is_symlink() and not path.exists():
            raise UserError("it is a broken link")
        else:
            return False
        return True

    def find_missing(self, names: list[str]) -> Iterator[Verdict]:
        """Report a missing tokenizer, and missing best weights if the run had any."""
        if not set(TOKENIZER_FILES) & set(names):
            yield Verdict(" or ".join(sorted(TOKENIZER_FILES)), "damaged", _MISSING)
        best = self._run.checkpoints.best
        if not best.is_file():
            try:
                self._run.load_weights()
            except UserError as error:
                if str(best) in str(error):
                    yield Verdict(f"checkpoints/{best.name}", "damaged", _MISSING)

    @cached_property
    def _shapes(self) -> Shapes | None:
        """Expected shapes of the weights.

        None: tokenizer or configuration are damaged, or the model's class is one from Python.
        """
        from nmt.runs.building import build_model

        try:
            check_model_class(self._run)
            size = self._run.load_tokenizer().vocabulary_size
            model = build_model(self._run.config, size, precision="float32")
        except UserError:
            return None
        return {name: tuple(weight.shape) for name, weight in model.named_weights().items()}

    def _read_checkpoint(self, path: Path) -> None:
        """Read a checkpoint, and compare names and shapes of its arrays with the model's."""
        arrays, _ = read_arrays(path)
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise UserError(f"{name} holds NaN or infinity")
        if self._shapes is None:
            return
        start = self._run.checkpoints.read_start()
        for prefix in ("model/", "average/"):
            shapes = _list_shapes(arrays, prefix)
            if not shapes and prefix == "average/":
                continue
            shapes |= _list_shapes(start, "model/")
            if path == self._run.checkpoints.start:  # holds only weights that are not trained
                shapes = self._shapes | shapes
            wrong = sorted(dict(self._shapes.items() ^ shapes.items()))
            if wrong:
                name, expected = wrong[0], self._shapes.get(wrong[0])
                raise UserError(f"{prefix}{name} has shape {shapes.get(name)}, expected {expected}")


def _list_shapes(arrays: dict[str, np.ndarray], prefix: str) -> Shapes:
    """Return the shapes of the weights below a prefix, without adapters."""
    return {
        name.removeprefix(prefix): array.shape
        for name, array in arrays.items()
        if name.startswith(prefix) and not is_adapter(name)
    }
