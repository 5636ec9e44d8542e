"""The encoded corpus: token ids written once per (corpus, tokenizer) and mapped into memory."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nmt.data.splitting import Pair
from nmt.data.tokenizer import Tokenizer
from nmt.errors import attach_filename

_SIZES = ".sizes.json"  # of a folder's files, in bytes
_CHUNK = 20_000  # lines encoded in one call; tensorflow-text works on a call in parallel


class Sequences:
    """Id sequences of one side: flat ids, and where each sequence begins."""

    def __init__(self, ids: np.ndarray, offsets: np.ndarray) -> None:
        self.ids = ids  # int32 [all tokens]
        self.offsets = offsets  # int64 [sequences + 1]

    @classmethod
    def of(cls, sequences: Sequence[np.ndarray]) -> Sequences:
        """Join arrays of ids."""
        offsets = np.zeros(len(sequences) + 1, np.int64)
        np.cumsum([len(ids) for ids in sequences], out=offsets[1:])
        joined = np.concatenate(sequences) if sequences else np.zeros(0)
        return cls(joined.astype(np.int32), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens in each sequence: int64 [sequences]."""
        return np.diff(self.offsets)


class EncodedCorpus:
    """Aligned source and target sequences, without begin and end marks.

    Args:
        source: ids of the source side.
        target: ids of the target side.
        weights: float32 [pairs], of each pair in the loss; None: all are 1.
    """

    def __init__(
        self, source: Sequences, target: Sequences, weights: np.ndarray | None = None
    ) -> None:
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source sequences, {len(target)} target sequences")
        self.source = source
        self.target = target
        self.weights = weights

    def __len__(self) -> int:
        return len(self.source)


def encode_pairs(pairs: Sequence[Pair], tokenizer: Tokenizer) -> EncodedCorpus:
    """Encode pairs in memory."""
    return EncodedCorpus(
        Sequences.of(tokenizer.encode([pair.source for pair in pairs])),
        Sequences.of(tokenizer.target.encode([pair.target for pair in pairs])),
    )


def digest(texts: Sequence[str], *more: str) -> str:
    """Return a hash of texts and of whatever else a cached result depends on."""
    state = hashlib.blake2b(digest_size=16)
    for text in (*more, *texts):
        state.update(text.encode("utf-8"))
        state.update(b"\n")
    return state.hexdigest()


def cached_folder(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return ``folder``, written by ``write`` under another name and then moved, if it is missing.

    A killed or a second writer leaves no half-written folder behind. One of which a file is missing
    or cut short is written again.
    """
    if not is_whole(folder):
        partial = folder.parent / f".partial-{secrets.token_hex(4)}"
        try:
            with attach_filename(folder):
                partial.mkdir(parents=True)
                write(partial)
                _seal(partial)
            if not is_whole(folder):  # otherwise another process was quicker
                shutil.rmtree(folder, ignore_errors=True)
                partial.replace(folder)
        except OSError:
            if not is_whole(folder):  # by another process, at the same moment
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array. To what it knows as a file numpy writes by itself, and hides a full disk."""
    with path.open("wb") as file:
        np.save(SimpleNamespace(write=file.write), array)


def _seal(folder: Path) -> None:
    """Write down how long each file of a folder is, and flush all of them to the disk."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    (folder / _SIZES).write_text(json.dumps(sizes), encoding="utf-8")
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def is_whole(folder: Path) -> bool:
    """Whether a folder of `cached_folder` is there, with every file as long as it was."""
    try:
        sizes = json.loads((folder / _SIZES).read_text(encoding="utf-8"))
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def load_encoded(pairs: Sequence[Pair], tokenizer: Tokenizer, cache: Path) -> EncodedCorpus:
    """Return ``pairs`` encoded, from the cache if they are there."""
    texts = [text for pair in pairs for text in pair]
    folder = cache / "encoded" / digest(texts, tokenizer.fingerprint)

    def write(partial: Path) -> None:
        sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        columns = (
            TextColumn("encoding"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("pairs"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, transient=True) as progress:
            task = progress.add_task("", total=len(pairs))
            for start in range(0, len(pairs), _CHUNK):
                chunk = pairs[start : start + _CHUNK]
                sides[0].extend(tokenizer.encode([pair.source for pair in chunk]))
                sides[1].extend(tokenizer.target.encode([pair.target for pair in chunk]))
                progress.advance(task, len(chunk))
        for name, side in zip(("source", "target"), sides, strict=True):
            sequences = Sequences.of(side)
            save_array(partial / f"{name}.ids.npy", sequences.ids)
            save_array(partial / f"{name}.offsets.npy", sequences.offsets)

    cached_folder(folder, write)

    def mapped(name: str) -> Sequences:
        ids, offsets = folder / f"{name}.ids.npy", folder / f"{name}.offsets.npy"
        return Sequences(np.load(ids, mmap_mode="r"), np.load(offsets, mmap_mode="r"))

    return EncodedCorpus(mapped("source"), mapped("target"))
