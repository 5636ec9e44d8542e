"""Every file of a run, read and judged: sound, damaged, or of a kind that nothing here reads.

What has a checksum is compared with it: the configuration, the tokenizer, every array. Of the rest
it is certain only that it can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt.data.tokenizer import TOKENIZER_FILES
from nmt.errors import UserError
from nmt.formats.weights.converted import CONVERTED_FILE, check_converted_file
from nmt.runs.building import is_adapter
from nmt.runs.checkpoint import read_arrays
from nmt.runs.folder import CONFIG_FILE, CORPUS_FILE, METRICS_FILE, RunFolder

_NEEDED = (CONFIG_FILE, CORPUS_FILE)
_TOKENIZER_FILES = set(TOKENIZER_FILES)
_MISSING = "it is missing"

Shapes = dict[str, tuple[int, ...]]


class Verdict(NamedTuple):
    """What was found of one file."""

    name: str  # inside the folder
    verdict: str  # "sound", "damaged" or "unknown"
    reason: str = ""  # why it is damaged


def list_files(folder: Path) -> list[str]:
    """Return the names of all files in a folder, links included, ascending."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    )


def verify_run(folder: Path, passed_over: str = "exports/") -> Iterator[Verdict]:
    """Judge every file of a run, and what it lacks.

    Args:
        folder: of the run.
        passed_over: how the names of files begin that somebody else verifies.
    """
    reader = _Reader(RunFolder(folder))
    names = [name for name in list_files(folder) if not name.startswith(passed_over)]
    for name in names:
        try:
            known = reader.read(name)
        except (UserError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            reason = " ".join(str(error).split()).removeprefix(f"{folder / name} is damaged: ")
            yield Verdict(name, "damaged", reason)
        else:
            yield Verdict(name, "sound" if known else "unknown")
    yield from (Verdict(name, "damaged", _MISSING) for name in _NEEDED if name not in names)
    yield from reader.missing(names)


class _Reader:
    """Reads files of a run as those read them who need them."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run

    def read(self, name: str) -> bool:
        """Read a file if its kind is known; return whether it is.

        Raises:
            UserError: it is damaged; or an `OSError`, `ValueError` or another of its reader.
        """
        path = self._run.path / name
        if name == CONFIG_FILE:
            _ = self._run.config
        elif name == CORPUS_FILE:
            self._run.read_corpus_record()
        elif name in _TOKENIZER_FILES:
            self._run.load_tokenizer()
        elif name == METRICS_FILE:
            self._run.metrics.read()
        elif path.match("checkpoints/*.npz"):
            self._read_checkpoint(path)
        elif path.match(f"checkpoints/{CONVERTED_FILE}"):
            check_converted_file(path)
        elif path.match("samples/*.tsv"):
            _read_samples(path)
        elif path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.is_symlink() and not path.exists():
            raise UserError("it is a link to nothing")
        else:
            return False
        return True

    def missing(self, names: list[str]) -> Iterator[Verdict]:
        """Yield what a run lacks: its tokenizer, or the best weights where there were any."""
        if not _TOKENIZER_FILES & set(names):
            yield Verdict(" or ".join(sorted(_TOKENIZER_FILES)), "damaged", _MISSING)
        best = self._run.checkpoints.best
        if not best.is_file():
            try:
                self._run.load_weights()
            except UserError as error:
                if str(best) in str(error):
                    yield Verdict(f"checkpoints/{best.name}", "damaged", _MISSING)

    @cached_property
    def _shapes(self) -> Shapes | None:
        """Shapes of the weights by name; None where what tells them is damaged itself."""
        from nmt.runs.building import build_model

        try:
            size = self._run.load_tokenizer().vocabulary_size
            model = build_model(self._run.config, size, precision="float32")
        except UserError:
            return None
        return {name: tuple(weight.shape) for name, weight in model.named_weights().items()}

    def _read_checkpoint(self, path: Path) -> None:
        """Read a checkpoint, and compare its names and shapes with the model's."""
        arrays, metadata = read_arrays(path)
        if not isinstance(metadata, dict):
            raise UserError("its metadata is no object")
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise UserError(f"{name} holds numbers that are not finite")
        if self._shapes is None:
            return
        start = self._run.checkpoints.read_start()
        for prefix in ("model/", "average/"):
            found = _list_shapes(arrays, prefix)
            if not found and prefix == "average/":
                continue
            found |= _list_shapes(start, "model/")
            if path == self._run.checkpoints.start:  # which lacks what is trained
                found |= {name: shape for name, shape in self._shapes.items() if name not in found}
            wrong = sorted(dict(self._shapes.items() ^ found.items()))
            if wrong:
                name, shape = wrong[0], self._shapes.get(wrong[0])
                raise UserError(f"{prefix}{name} has shape {found.get(name)}, expected {shape}")


def _list_shapes(arrays: dict[str, np.ndarray], prefix: str) -> Shapes:
    """Return the shapes of the weights whose names begin so, adapters left out."""
    return {
        name.removeprefix(prefix): array.shape
        for name, array in arrays.items()
        if name.startswith(prefix) and not is_adapter(name)
    }


def _read_samples(path: Path) -> None:
    """Read dev translations: a line of titles, then as many columns on each."""
    lines = path.read_text(encoding="utf-8").splitlines()
    titles = lines[0].count("\t") if lines else 0
    for number, line in enumerate(lines, 1):
        if line.count("\t") != titles or not titles:
            raise UserError(f"line {number} has {line.count(chr(9)) + 1} columns")
