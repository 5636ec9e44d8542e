"""Lower-casing inside a SentencePiece model, so that everything that runs the model does it.

Only characters whose lower case has as many bytes in UTF-8 are mapped (all but about thirty rare
ones), so that pieces cover the same bytes of a text with and without lower-casing.
"""

from __future__ import annotations

import io
import sys
import tempfile
from functools import cache
from pathlib import Path


@cache
def _list_letters() -> dict[int, int]:
    """Return code point -> code point of its lower case."""
    letters = {}
    for point in range(sys.maxunicode + 1):
        lower = chr(point).lower()
        is_letter = len(lower) == 1 and lower != chr(point)  # surrogates have no lower case
        if is_letter and len(lower.encode()) == len(chr(point).encode()):
            letters[point] = ord(lower)
    return letters


def lowercase(text: str) -> str:
    """Return a text as a model of `add_lowercasing` reads it."""
    return text.translate(_list_letters())


def add_lowercasing(model: bytes) -> bytes:
    """Return a SentencePiece model that lower-cases texts before it encodes them."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.precompiled_charsmap = _compile_rules()
    return bytes(proto.SerializeToString())


def remove_normalization(model: bytes) -> bytes:
    """Return a SentencePiece model with the same ids that encodes texts as they are."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.precompiled_charsmap = b""
    return bytes(proto.SerializeToString())


@cache
def _compile_rules() -> bytes:
    """Return the rules as SentencePiece stores them: only its trainer compiles them."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        rules.write_text(
            "".join(f"{upper:X}\t{lower:X}\n" for upper, lower in _list_letters().items())
        )
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b"]),
            model_writer=model,
            vocab_size=8,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(rules),
            minloglevel=3,
        )
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return bytes(proto.normalizer_spec.precompiled_charsmap)
