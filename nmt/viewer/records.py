"""Attention records: the bytes that training logs, TensorBoard stores and the browser reads.

A record contains every weight of one sentence pair with its tokens. All numbers are little-endian:

    4 bytes   b"ATTN"
    uint32    version of this layout
    uint32    CRC-32 of everything after the next number
    uint32    bytes of the header
    header    JSON in ASCII: the sentence, its tokens, and per kind title, axes and shape; the
              reference translation if it is known
    weights   float16, kind after kind in the order of the header, each [layers, H, rows, columns]

`nmt/viewer/browser/record.js` reads this format too. Importing this module loads neither Keras nor
TensorFlow, because TensorBoard imports it.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from nmt.model.contract import AttentionKind


class AttentionData(Protocol):
    """The attention of one sentence pair, see `nmt.inference.results.Attention`."""

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """The kinds of attention, in the order of display."""
        ...

    @property
    def weights(self) -> Mapping[str, np.ndarray]:
        """Weights [layers, H, rows, columns] by name of the kind."""
        ...

    def tokens(self, axis: str) -> list[str]:
        """Return the tokens of an axis: "source", "target_in" or "target_out"."""
        ...


PLUGIN = "nmt_attention"  # name of the records in event files, for TensorBoard

_MAGIC = b"ATTN"
_VERSION = 1
_PREAMBLE = struct.Struct("<4sIII")
_TOKENS = ("source", "target_in", "target_out")
_TAG = "attention/probe_"


def tag(number: int, sentence: str) -> str:
    """Return the TensorBoard tag of a probe: its number, from 1, and its sentence.

    The tag contains the sentence because a resumed run may have other probes.
    """
    return f"{_TAG}{number}/{sentence}"


def parse_tag(tag: str) -> tuple[int, str]:
    """Return number and sentence of a tag.

    Raises:
        ValueError: it is not a tag as `tag` returns it.
    """
    number, slash, sentence = tag.removeprefix(_TAG).partition("/")
    if not (tag.startswith(_TAG) and slash and number.isdecimal()):
        raise ValueError(f"{tag!r} is not the tag of a probe")
    return int(number), sentence


def encode(sentence: str, attention: AttentionData, reference: str = "") -> bytes:
    """Return the record of a sentence: weights in float16, at the true lengths.

    Args:
        sentence: the source.
        attention: attention of its translation.
        reference: reference translation; "" if unknown.

    Raises:
        ValueError: shapes do not fit the tokens, or a weight is not within 0 and 1.
    """
    tokens = {name: list(attention.tokens(name)) for name in _TOKENS}
    kinds = []
    weights = []
    for kind in attention.kinds:
        array = np.asarray(attention.weights[kind.name]).astype("<f2")  # [layers, H, rows, columns]
        _check_shape(kind.name, array.shape, tokens[kind.rows], tokens[kind.columns])
        if not ((array >= 0) & (array <= 1)).all():
            raise ValueError(f"{kind.name}: attention weights are between 0 and 1")
        kinds.append(
            {
                "name": kind.name,
                "title": kind.title,
                "rows": kind.rows,
                "columns": kind.columns,
                "shape": array.shape,
            }
        )
        weights.append(array.tobytes())
    fields: dict[str, Any] = {"sentence": sentence, "tokens": tokens, "kinds": kinds}
    if reference:
        fields["reference"] = reference
    header = json.dumps(fields).encode("ascii")
    content = header + b"".join(weights)
    return _PREAMBLE.pack(_MAGIC, _VERSION, zlib.crc32(content), len(header)) + content


class Decoded(NamedTuple):
    """The content of a record."""

    sentence: str
    tokens: dict[str, list[str]]  # by axis
    weights: dict[str, np.ndarray]  # by name of the kind: float32 [layers, H, rows, columns]
    reference: str = ""  # "": unknown


def decode(record: bytes) -> Decoded:
    """Return the content of a record, weights in float32.

    Raises:
        ValueError: the bytes are not a record, are damaged, or have an unsupported version.
    """
    if len(record) < _PREAMBLE.size:
        raise ValueError("not an attention record: too short")
    magic, version, checksum, header_size = _PREAMBLE.unpack_from(record)
    if magic != _MAGIC:
        raise ValueError("not an attention record")
    if version != _VERSION:
        raise ValueError(f"attention record version {version} is unsupported: expected {_VERSION}")
    content = record[_PREAMBLE.size :]
    if zlib.crc32(content) != checksum or header_size > len(content):
        raise ValueError("the attention record is damaged")
    try:
        return _decode_content(content, header_size)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("the header of the attention record is damaged") from error


def _decode_content(content: bytes, header_size: int) -> Decoded:
    header = json.loads(content[:header_size])
    tokens = header["tokens"]
    weights: dict[str, Any] = {}
    offset = header_size
    for kind in header["kinds"]:
        shape = kind["shape"]
        _check_shape(kind["name"], shape, tokens[kind["rows"]], tokens[kind["columns"]])
        count = math.prod(shape)
        array = np.frombuffer(content, "<f2", count, offset).reshape(shape)
        weights[kind["name"]] = array.astype(np.float32)
        offset += array.nbytes
    return Decoded(header["sentence"], tokens, weights, header.get("reference", ""))


def _check_shape(kind: str, shape: Any, rows: list[str], columns: list[str]) -> None:
    if len(shape) != 4 or tuple(shape[2:]) != (len(rows), len(columns)):
        raise ValueError(
            f"{kind}: weights {tuple(shape)} do not fit {len(rows)} rows and {len(columns)} columns"
        )
