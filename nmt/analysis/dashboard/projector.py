"""The embeddings of a run for TensorBoard's own projector, with a label for every piece."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt.data.encoded import EncodedCorpus
from nmt.data.tokenizer import BOS, EOS, PAD, UNK
from nmt.errors import UserError, attach_filename

CONFIG_FILE = "projector_config.pbtxt"  # the name the projector looks for in a folder with events
FOLDER = "embeddings"  # its paths must lie below the configuration's folder
TENSOR_NAME = "embeddings"

_SPECIAL = {PAD: "padding", BOS: "begin mark", EOS: "end mark", UNK: "unknown"}
_MOSTLY = 0.9  # of a piece's occurrences: it belongs to that language


@dataclass(frozen=True)
class Counts:
    """How often each of V pieces stands in the training pairs, and what the sides are called."""

    source: np.ndarray  # int [V]
    target: np.ndarray  # int [V]
    source_language: str
    target_language: str

    @classmethod
    def of(cls, encoded: EncodedCorpus, size: int, languages: tuple[str, str]) -> Counts:
        """Count the pieces of an encoded corpus for a vocabulary of ``size``."""
        source, target = (
            np.bincount(side.ids, minlength=size) for side in (encoded.source, encoded.target)
        )
        return cls(source, target, *languages)

    def languages(self) -> list[str]:
        """Name the language that nine tenths of a piece's occurrences are in; else "both".

        Occurrences count as shares of their side, for one side may be the longer. A piece that
        does not occur is of no language: "none".
        """
        source, target = (
            side / max(side.sum(), 1) for side in (self.source, self.target)
        )  # [V] each
        both = source + target
        share = np.divide(source, both, out=np.zeros_like(both), where=both > 0)
        named = np.where(share >= _MOSTLY, self.source_language, "both")
        named = np.where(share <= 1 - _MOSTLY, self.target_language, named)
        return list(np.where(both > 0, named, "none"))


def write_projector(
    folder: Path, table: np.ndarray, pieces: Sequence[str], counts: Counts | None
) -> list[Path]:
    """Write what the projector reads: vectors, labels, and the configuration that names both.

    A TensorBoard that is running already looks for it only when a run is added.

    Args:
        folder: one with the events of a run; the projector finds runs by them.
        table: float [V, D].
        pieces: what each of the V rows stands for.
        counts: adds columns of counts and language; None: it does not.

    Returns:
        The files: configuration, vectors, labels.

    Raises:
        UserError: a file cannot be written.
    """
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    paths = [folder / CONFIG_FILE, folder / FOLDER / "vectors.tsv", folder / FOLDER / "labels.tsv"]
    config = ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name = TENSOR_NAME
    embedding.tensor_shape.extend(table.shape)
    embedding.tensor_path, embedding.metadata_path = (
        path.relative_to(folder).as_posix() for path in paths[1:]
    )
    try:
        with attach_filename(folder):
            paths[1].parent.mkdir(parents=True, exist_ok=True)
            # As text: of bytes, the projector finds out by failing to decode, which may succeed.
            np.savetxt(paths[1], table, fmt="%.5g", delimiter="\t")
            paths[2].write_text(_describe_pieces(pieces, counts), encoding="utf-8")
            # A message shows itself in the text format that is read.
            paths[0].write_text(str(config), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{error.filename} cannot be written: {error.strerror}") from error
    return paths


def _describe_pieces(pieces: Sequence[str], counts: Counts | None) -> str:
    """Return the labels as tab-separated columns with a header."""
    columns: dict[str, Sequence[object]] = {
        "piece": [make_visible(piece) for piece in pieces],
        "id": range(len(pieces)),
        "kind": [_name_kind(number, piece) for number, piece in enumerate(pieces)],
    }
    if counts is not None:
        columns[f"count {counts.source_language}"] = counts.source.tolist()
        columns[f"count {counts.target_language}"] = counts.target.tolist()
        columns["language"] = counts.languages()
    rows = [columns, *zip(*columns.values(), strict=True)]
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def make_visible(piece: str) -> str:
    """Write characters that show nothing, or would break a line or a column, as <U+0009>."""
    return "".join(
        f"<U+{ord(char):04X}>" if unicodedata.category(char)[0] in "CZ" else char for char in piece
    )


def _name_kind(number: int, piece: str) -> str:
    """Say what a piece is: special, begin or inside of a word, punctuation, or a byte."""
    if number in _SPECIAL:
        return _SPECIAL[number]
    if piece.startswith("<0x") and piece.endswith(">"):
        return "byte"
    bare = piece.removeprefix("##").removeprefix("▁")
    if not any(char.isalnum() for char in bare):
        return "punctuation"
    return "begin of a word" if piece.startswith("▁") else "inside of a word"
