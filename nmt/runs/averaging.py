"""The mean of the weights of several models."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.tokenizer import find_tokenizer_file
from nmt.errors import UserError
from nmt.files import replace_folder
from nmt.runs.building import check_weight, choose_weights
from nmt.runs.checkpoint import read_arrays, write_arrays
from nmt.runs.custom_model import read_model_name
from nmt.runs.folder import COMPONENTS_FILE, CONFIG_FILE, CORPUS_FILE, RunFolder
from nmt.text.source_words import WORDS_FILE

_LEXICON_FILE = "lexicon.npz"  # `nmt.inference.lexicon.LEXICON_FILE`
# Files of a run that tell of its training, or of other weights than those of a checkpoint.
_RECORDS = re.compile(r"(evaluation|scores)_.*\.json|.*\.jsonl|\..*")


def average(origins: Sequence[Path], output: Path) -> RunFolder:
    """Write a run whose weights are the mean of those of several runs or checkpoints.

    It has the configuration and the tokenizer of the first one, and cannot be resumed.

    Args:
        origins: run folders, for their best weights, or files in their ``checkpoints``.
        output: a folder that does not exist yet.

    Raises:
        UserError: fewer than two origins, one without weights, different models or tokenizers, or
            the output exists.
    """
    if len(origins) < 2:
        raise UserError("averaging needs two or more runs or checkpoints")
    if output.exists():
        raise UserError(f"{output} exists already: choose another folder")
    runs = [open_run(origin) for origin in origins]
    first = runs[0]
    tokenizer = first.load_tokenizer()
    sizes = _inference_sizes(first, tokenizer.vocabulary_size)
    total: dict[str, np.ndarray] = {}
    for origin, run in zip(origins, runs, strict=True):
        if run.load_tokenizer().fingerprint != tokenizer.fingerprint:
            raise UserError(f"{run.path} has another tokenizer than {first.path}")
        if read_model_name(run) != read_model_name(first):
            raise UserError(f"{run.path} was trained with another model class than {first.path}")
        if _inference_sizes(run, tokenizer.vocabulary_size) != sizes:
            raise UserError(f"{run.path} has a model of other sizes than {first.path}")
        weights = _read_weights(origin, run)
        total = total or {name: np.zeros(array.shape) for name, array in weights.items()}
        for name, array in total.items():
            check_weight(origin, name, weights.get(name), array.shape)
            array += weights[name]
    means = {f"model/{name}": (s / len(origins)).astype(np.float32) for name, s in total.items()}
    tokenizer_file = find_tokenizer_file(first.path)
    assert tokenizer_file is not None, "the tokenizer was loaded"
    names = [CONFIG_FILE, tokenizer_file.name]
    optional = (CORPUS_FILE, COMPONENTS_FILE, WORDS_FILE, _LEXICON_FILE)
    names += [name for name in optional if (first.path / name).is_file()]
    return _write_run(first, names, output, means, {"mean_of": list(map(str, origins))})


def extract_checkpoint(checkpoint: Path, output: Path) -> RunFolder:
    """Write a run whose best weights are those of a checkpoint, to translate with.

    It has all files of the checkpoint's run but folders, scores and records.

    Args:
        checkpoint: a file in ``checkpoints`` of a run.
        output: a folder that does not exist yet.

    Raises:
        UserError: the file is not in a run, or is damaged.
    """
    run = open_run(checkpoint)
    weights = {f"model/{name}": each for name, each in _read_weights(checkpoint, run).items()}
    files = (path.name for path in run.path.iterdir() if path.is_file())
    names = [name for name in files if not _RECORDS.fullmatch(name)]
    return _write_run(run, names, output, weights, {"extracted_from": str(checkpoint)})


def _write_run(
    run: RunFolder,
    names: Iterable[str],
    output: Path,
    weights: dict[str, np.ndarray],
    metadata: dict[str, Any],
) -> RunFolder:
    """Write a run with these files of another one, and with these best weights."""
    with replace_folder(output) as folder:
        for name in names:
            shutil.copyfile(run.path / name, folder / name)
        write_arrays(RunFolder.open(folder).checkpoints.best, weights, metadata)
    return RunFolder.open(output)


def open_run(origin: Path) -> RunFolder:
    """Open a run, or the run that a checkpoint file belongs to.

    Raises:
        UserError: the path is neither, or the checkpoint does not exist.
    """
    if origin.parent.name == "checkpoints" and not origin.exists():
        raise UserError(
            f"checkpoint {origin} does not exist: choose another one of {origin.parent}; training "
            "keeps the last few (training.keep_checkpoints)"
        )
    is_checkpoint = origin.is_file() and origin.parent.name == "checkpoints"
    return RunFolder.open(origin.parent.parent if is_checkpoint else origin)


def _inference_sizes(run: RunFolder, vocabulary_size: int) -> dict[str, Any]:
    """Return the model's sizes without dropout rates and choices that do not change its outputs."""
    sizes = asdict(run.config.model.make_sizes(vocabulary_size))
    others = ("remat", "attention_kernel")
    return {
        name: size for name, size in sizes.items() if "dropout" not in name and name not in others
    }


def _read_weights(origin: Path, run: RunFolder) -> dict[str, np.ndarray]:
    if origin.is_file():
        return choose_weights(run.checkpoints.read_start() | read_arrays(origin)[0])
    return choose_weights(run.load_weights()[0])
