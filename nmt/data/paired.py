"""A SentencePiece model for each side over one vocabulary, as MarianMT uses them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.spans import count_bytes, locate_pieces
from nmt.errors import UserError

UNK = 3  # as in every tokenizer
LANGUAGE_CODE = "^>>[^<>]+<<"
_LANGUAGE_CODE = re.compile(LANGUAGE_CODE)
PAIR_FILE = "tokenizer.pair.json"


class PairedTokenizer:
    """A `nmt.data.tokenizer.Tokenizer` with one SentencePiece model for each side.

    It encodes sources; `target` encodes targets. Both decode targets. A source may begin with the
    code of the language to translate into, such as ``>>fra<<``, which is one piece.

    Args:
        models: of source and target, in SentencePiece's own format.
        pieces: in the order of ids, the four special ones first. Other pieces of the models are
            unknown.
        side: which side is encoded: 0, the source, or 1.
    """

    slots = 0
    lowercases = False

    def __init__(self, models: tuple[bytes, bytes], pieces: Sequence[str], side: int = 0) -> None:
        import sentencepiece

        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise UserError("its list of pieces is missing or invalid")
        if len(pieces) <= UNK + 1 or not all(models):
            raise UserError("a model or its list of pieces is empty")
        try:
            "".join(pieces).encode()
            self._processors = [
                sentencepiece.SentencePieceProcessor(model_proto=model) for model in models
            ]
        except (RuntimeError, UnicodeEncodeError) as error:
            raise UserError(f"its SentencePiece models are invalid ({error})") from error
        self.models, self._pieces, self._side = models, list(pieces), side
        self._ids = {piece: i for i, piece in enumerate(self._pieces) if i > UNK}
        self.vocabulary_size = len(self._pieces)
        self._in_graph: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle models and pieces alone."""
        return PairedTokenizer, (self.models, self._pieces, self._side)

    @classmethod
    def parse(cls, text: str) -> PairedTokenizer:
        """Read the text of a file of `save`.

        Raises:
            UserError: it is damaged.
        """
        try:
            stored = json.loads(text)
            source, target = (
                base64.b64decode(stored[side], validate=True) for side in ("source", "target")
            )
            return cls((source, target), stored["pieces"])
        except (KeyError, TypeError, binascii.Error) as error:
            raise UserError(f"it is not a pair of SentencePiece models ({error})") from error

    @cached_property
    def target(self) -> PairedTokenizer:
        """The tokenizer of target texts."""
        return PairedTokenizer(self.models, self._pieces, side=1)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """See `Tokenizer.encode`."""
        return [
            np.array([self._ids.get(piece, UNK) for piece in pieces], np.int32)
            for pieces in self._split_pieces(texts)
        ]

    def _split_code(self, text: str) -> tuple[list[str], str]:
        """Return the language code at the beginning of a source, if any, and the rest."""
        code = _LANGUAGE_CODE.match(text) if self._side == 0 else None
        return ([code[0]], text[code.end() :]) if code else ([], text)

    def _split_pieces(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the pieces of each text; a language code is one piece."""
        if not texts:
            return []
        codes, rests = zip(*map(self._split_code, texts), strict=True)
        encoded = self._processors[self._side].encode(list(rests), out_type=str)
        return [code + pieces for code, pieces in zip(codes, encoded, strict=True)]

    def decode(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """See `Tokenizer.decode`. Pieces that only the source's model has are kept as they are."""
        texts = (
            self._processors[1].decode_pieces([self._pieces[int(i)] for i in ids if i > UNK])
            for ids in sequences
        )
        return [text.replace("▁", " ").strip() for text in texts]

    def pieces(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """See `Tokenizer.pieces`."""
        return [self._pieces[int(i)] for i in ids]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """See `Tokenizer.spans`."""
        code, rest = self._split_code(text)
        begin = len(text) - len(rest.lstrip())
        [pieces] = self._split_pieces([text])
        spans = self._locate(pieces[len(code) :], text[begin:])
        code_spans = [(0, len(piece)) for piece in code]
        return code_spans + [(begin + first, begin + end) for first, end in spans]

    def _locate(self, pieces: Sequence[str], text: str) -> list[tuple[int, int]]:
        """Return the characters of a text that each of its pieces covers.

        A model may normalize texts: pieces spell "2" and "No" for "²" and "№".
        """
        normalized, origins = self._processors[self._side].Normalize(text, with_offsets=True)
        if "".join(pieces) != normalized:  # some are bytes
            return locate_pieces([count_bytes(piece) for piece in pieces], text)
        spans = []
        at = 0
        for piece in pieces:
            begin, end = origins[at], origins[at + len(piece)]
            is_only_space = at == 0 and piece == "▁"  # the one before every text
            spans.append((0, 0) if is_only_space else (begin, max(end, begin + 1)))
            at += len(piece)
        return spans

    def in_graph(self) -> Any:
        """See `Tokenizer.in_graph`."""
        if self._in_graph is None:
            from nmt.data.paired_in_graph import make_in_graph

            self._in_graph = make_in_graph(self.models, self._pieces)
        return self._in_graph

    def save(self, folder: Path) -> None:
        """See `Tokenizer.save`."""
        source, target = (base64.b64encode(model).decode() for model in self.models)
        stored = {"source": source, "target": target, "pieces": self._pieces}
        text = json.dumps(stored, ensure_ascii=False, indent=0)
        (folder / PAIR_FILE).write_text(text, encoding="utf-8")

    @property
    def fingerprint(self) -> str:
        """See `Tokenizer.fingerprint`."""
        state = hashlib.blake2b(digest_size=16)
        for part in (*self.models, "\n".join(self._pieces).encode()):
            state.update(len(part).to_bytes(8, "little") + part)
        return state.hexdigest()
