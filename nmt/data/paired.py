"""Two SentencePiece models over one table of ids, as MarianMT has them: one for each side."""

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

from nmt.data.spans import size_of, spans_of
from nmt.errors import UserError

UNK = 3  # as in every tokenizer
CODE = "^>>[^<>]+<<"
_CODE = re.compile(CODE)
PAIR_FILE = "tokenizer.pair.json"


class PairedTokenizer:
    """A `nmt.data.tokenizer.Tokenizer` that cuts source and target texts by models of their own.

    This one is for sources; `target` is for targets. Both decode as targets. A source may begin
    with the code of a language to translate into, such as ``>>fra<<``, which is one piece.

    Args:
        models: SentencePiece's own format, of source and target.
        pieces: in the order of ids, the four special ones first. What a model gives that is not
            among them is unknown.
        side: whose texts are encoded: 0, the source's, or 1.
    """

    def __init__(self, models: tuple[bytes, bytes], pieces: Sequence[str], side: int = 0) -> None:
        import sentencepiece

        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise UserError("it has no list of pieces")
        if len(pieces) <= UNK + 1 or not all(models):
            raise UserError("a model or its list of pieces is empty")
        try:
            "".join(pieces).encode()
            self._processors = [
                sentencepiece.SentencePieceProcessor(model_proto=model) for model in models
            ]
        except (RuntimeError, UnicodeEncodeError) as error:
            raise UserError(f"it holds no two SentencePiece models ({error})") from error
        self.models, self._pieces, self._side = models, list(pieces), side
        self._ids = {piece: i for i, piece in enumerate(self._pieces) if i > UNK}
        self.vocabulary_size = len(self._pieces)
        self._in_graph: Any = None

    @classmethod
    def parse(cls, text: str) -> PairedTokenizer:
        """Read what `save` wrote.

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
            raise UserError(f"it is no pair of SentencePiece models ({error})") from error

    @cached_property
    def target(self) -> PairedTokenizer:
        """The same for target texts."""
        return PairedTokenizer(self.models, self._pieces, side=1)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids int32 [length] of each text."""
        return [
            np.array([self._ids.get(piece, UNK) for piece in pieces], np.int32)
            for pieces in self._cut(texts)
        ]

    def _split_code(self, text: str) -> tuple[list[str], str]:
        """Return the code of a language that a source begins with, if it does, and the rest."""
        found = _CODE.match(text) if self._side == 0 else None
        return ([found[0]], text[found.end() :]) if found else ([], text)

    def _cut(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the pieces of each text; the code of a language is one of them."""
        if not texts:
            return []
        codes, rests = zip(*map(self._split_code, texts), strict=True)
        cut = self._processors[self._side].encode(list(rests), out_type=str)
        return [code + pieces for code, pieces in zip(codes, cut, strict=True)]

    def decode(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """Return the text of each id sequence of a target; special ids are left out.

        Pieces that the target's model does not know are spelled as they are.
        """
        spelled = (
            self._processors[1].decode_pieces([self._pieces[int(i)] for i in ids if i > UNK])
            for ids in sequences
        )
        return [text.replace("▁", " ").strip() for text in spelled]

    def pieces(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """Return what each id stands for."""
        return [self._pieces[int(i)] for i in ids]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the characters [begin, end) that each piece stands for: see `Tokenizer`."""
        code, rest = self._split_code(text)
        begin = len(text) - len(rest.lstrip())
        [pieces] = self._cut([text])
        spans = spans_of([size_of(piece) for piece in pieces[len(code) :]], text[begin:])
        return [(0, len(one)) for one in code] + [(begin + a, begin + b) for a, b in spans]

    def in_graph(self) -> Any:
        """Return the same in tensorflow-text's operations, for use in graphs."""
        if self._in_graph is None:
            from nmt.data.paired_in_graph import make_in_graph

            self._in_graph = make_in_graph(self.models, self._pieces)
        return self._in_graph

    def save(self, folder: Path) -> None:
        """Write both models and the pieces."""
        models = zip(("source", "target"), self.models, strict=True)
        stored: dict[str, Any] = {side: base64.b64encode(one).decode() for side, one in models}
        text = json.dumps(stored | {"pieces": self._pieces}, ensure_ascii=False, indent=0)
        (folder / PAIR_FILE).write_text(text, encoding="utf-8")

    @property
    def fingerprint(self) -> str:
        """A digest of both models and the pieces."""
        state = hashlib.blake2b(digest_size=16)
        for part in (*self.models, "\n".join(self._pieces).encode()):
            state.update(len(part).to_bytes(8, "little") + part)
        return state.hexdigest()
