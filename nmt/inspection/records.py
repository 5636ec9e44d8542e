"""Attention as bytes: what training logs, TensorBoard keeps and the viewer in the browser reads.

A record holds every weight of one sentence pair with its tokens. All numbers are little-endian:

    4 bytes   b"ATTN"
    uint32    version of this layout
    uint32    CRC-32 of everything behind the next number
    uint32    bytes of the header
    header    JSON in ASCII: the sentence, its tokens, and per kind title, axes and shape
    weights   float16, kind after kind in the order of the header, each [layers, H, rows, columns]

`nmt/inspection/viewer/record.js` reads the same. Importing this module loads neither Keras nor
TensorFlow, because TensorBoard imports it.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.inspection.views import VIEWS

if TYPE_CHECKING:
    from nmt.inference.translator import Attention

PLUGIN = "nmt_attention"  # name of the TensorBoard plugin, and owner of what is logged for it

_MAGIC = b"ATTN"
_VERSION = 1
_PREAMBLE = struct.Struct("<4sIII")
_TOKENS = ("source", "target_in", "target_out")
_TAG = "attention/probe_"


def tag(number: int, sentence: str) -> str:
    """Return the TensorBoard tag of a probe: its number, from 1, and its sentence.

    The sentence is in it because a resumed run may have other probes.
    """
    return f"{_TAG}{number}/{sentence}"


def parse_tag(tag: str) -> tuple[int, str]:
    """Return number and sentence of a tag.

    Raises:
        ValueError: `tag` did not make it.
    """
    number, slash, sentence = tag.removeprefix(_TAG).partition("/")
    if not (tag.startswith(_TAG) and slash and number.isdecimal()):
        raise ValueError(f"{tag!r} is not the tag of a probe")
    return int(number), sentence


def encode(sentence: str, attention: Attention) -> bytes:
    """Return the record of a sentence: weights in float16, at the true lengths.

    Raises:
        ValueError: shapes do not fit the tokens, or a weight is not within 0 and 1.
    """
    tokens = {name: list(getattr(attention, name)) for name in _TOKENS}
    kinds = []
    weights = []
    for view in VIEWS:
        array = np.asarray(getattr(attention, view.kind)).astype(
            "<f2"
        )  # [layers, H, rows, columns]
        _check_shape(view.kind, array.shape, tokens[view.rows], tokens[view.columns])
        if not ((array >= 0) & (array <= 1)).all():
            raise ValueError(f"{view.kind}: attention weights are between 0 and 1")
        kinds.append(
            {
                "name": view.kind,
                "title": view.title,
                "rows": view.rows,
                "columns": view.columns,
                "shape": array.shape,
            }
        )
        weights.append(array.tobytes())
    header = json.dumps({"sentence": sentence, "tokens": tokens, "kinds": kinds}).encode("ascii")
    content = header + b"".join(weights)
    return _PREAMBLE.pack(_MAGIC, _VERSION, zlib.crc32(content), len(header)) + content


def decode(record: bytes) -> tuple[str, Attention]:
    """Return the sentence of a record and its attention, in float32.

    Raises:
        ValueError: these bytes are no record, are damaged, or of a layout unknown here.
    """
    from nmt.inference.translator import Attention

    if len(record) < _PREAMBLE.size:
        raise ValueError("this is no attention record: it is too short")
    magic, version, checksum, header_size = _PREAMBLE.unpack_from(record)
    if magic != _MAGIC:
        raise ValueError("this is no attention record")
    if version != _VERSION:
        raise ValueError(f"an attention record of version {version}; this program reads {_VERSION}")
    content = record[_PREAMBLE.size :]
    if zlib.crc32(content) != checksum or header_size > len(content):
        raise ValueError("the attention record is damaged")
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
    return header["sentence"], Attention(**tokens, **weights)


def _check_shape(kind: str, shape: Any, rows: list[str], columns: list[str]) -> None:
    if len(shape) != 4 or tuple(shape[2:]) != (len(rows), len(columns)):
        raise ValueError(
            f"{kind}: weights {tuple(shape)} do not fit {len(rows)} rows and {len(columns)} columns"
        )
