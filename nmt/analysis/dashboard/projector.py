"""The embeddings of a run for TensorBoard's projector, with a label for every token."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt.data.encoded import EncodedCorpus
from nmt.data.paired import LANGUAGE_CODE
from nmt.data.tokenizer import BOS, EOS, PAD, UNK
from nmt.errors import UserError, attach_filename
from nmt.text.context import CONTEXT_MARK
from nmt.text.spans import SLOTS

CONFIG_FILE = "projector_config.pbtxt"  # the name that the projector expects beside event files
FOLDER = "embeddings"  # its paths must lie below the configuration's folder
TENSOR_NAME = "embeddings"

_SPECIAL = {PAD: "padding", BOS: "BOS", EOS: "EOS", UNK: "unknown"}
_DOMINANT = 0.9  # share of occurrences from which a token belongs to one language


@dataclass(frozen=True)
class Counts:
    """How often each of V tokens occurs on each side of the training pairs."""

    source: np.ndarray  # int [V]
    target: np.ndarray  # int [V]
    source_language: str
    target_language: str

    @classmethod
    def of(cls, encoded: EncodedCorpus, size: int, languages: tuple[str, str]) -> Counts:
        """Count the tokens of an encoded corpus, for a vocabulary of ``size`` tokens."""
        source, target = (
            np.bincount(side.ids, minlength=size) for side in (encoded.source, encoded.target)
        )
        return cls(source, target, *languages)

    def languages(self) -> list[str]:
        """Return each token's language: that of at least 90% of its occurrences, else "both".

        Occurrences count as shares of their side, because one side may be longer. The language of
        a token that does not occur is "none".
        """
        source, target = (
            side / max(side.sum(), 1) for side in (self.source, self.target)
        )  # [V] each
        total = source + target
        share = np.divide(source, total, out=np.zeros_like(total), where=total > 0)
        languages = np.where(share >= _DOMINANT, self.source_language, "both")
        languages = np.where(share <= 1 - _DOMINANT, self.target_language, languages)
        return list(np.where(total > 0, languages, "none"))


def write_projector(
    folder: Path,
    table: np.ndarray,
    pieces: Sequence[str],
    counts: Counts | None,
    tags: Collection[int] = (),
) -> list[Path]:
    """Write the projector's files, and return them: configuration, vectors, labels.

    A running TensorBoard looks for them only when a run is added.

    Args:
        folder: the run's folder of event files, by which the projector finds runs.
        table: embeddings, float [V, D].
        pieces: the token of each row, as text.
        counts: adds columns of counts and language; None omits them.
        tags: ids of the tags that sources may begin with.

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
            # Text: the projector recognises bytes only by a decoding error, which may not occur.
            np.savetxt(paths[1], table, fmt="%.5g", delimiter="\t")
            paths[2].write_text(_describe_pieces(pieces, counts, tags), encoding="utf-8")
            # `str` of a message is the text format that the projector reads.
            paths[0].write_text(str(config), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{error.filename} cannot be written: {error.strerror}") from error
    return paths


def _describe_pieces(pieces: Sequence[str], counts: Counts | None, tags: Collection[int]) -> str:
    """Return the labels as tab-separated columns with a header line."""
    columns: dict[str, Sequence[object]] = {
        "piece": [make_visible(piece) for piece in pieces],
        "id": range(len(pieces)),
        "kind": [_name_kind(token, piece, tags) for token, piece in enumerate(pieces)],
    }
    if counts is not None:
        columns[f"source count {counts.source_language}"] = counts.source.tolist()
        columns[f"target count {counts.target_language}"] = counts.target.tolist()
        columns["language"] = counts.languages()
    rows = [columns, *zip(*columns.values(), strict=True)]
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def make_visible(piece: str) -> str:
    """Replace invisible characters, and those that break lines or columns, by <U+0009>."""
    return "".join(
        f"<U+{ord(char):04X}>" if unicodedata.category(char)[0] in "CZ" else char for char in piece
    )


def _name_kind(token: int, piece: str, tags: Collection[int]) -> str:
    """Return the kind of a token, such as tag, slot, byte, or begin or inside of a word."""
    if token in _SPECIAL:
        return _SPECIAL[token]
    if token in tags or re.match(LANGUAGE_CODE, piece):
        return "tag"
    if piece.removeprefix("▁") == CONTEXT_MARK:
        return "context mark"
    if piece in SLOTS:
        return "slot"
    if piece.startswith("<0x") and piece.endswith(">"):
        return "byte"
    bare = piece.removeprefix("##").removeprefix("▁")
    if not any(char.isalnum() for char in bare):
        return "punctuation"
    return "begin of a word" if piece.startswith("▁") else "inside of a word"
