"""Subword tokenizers with one vocabulary for both languages.

Three kinds: SentencePiece ``unigram`` and ``bpe``, whose byte fallback leaves nothing unknown, and
``wordpiece``. Text is encoded without TensorFlow; inside a graph tensorflow-text encodes it, with
the same ids. `nmt.data.tokenizer_training` learns their vocabularies.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nmt.data.lowercasing import remove_normalization
from nmt.data.paired import PAIR_FILE, PairedTokenizer
from nmt.data.spans import count_bytes, locate_pieces
from nmt.errors import UserError
from nmt.startup.quiet import quiet_start
from nmt.text.spans import SLOTS

# Texts up to which SentencePiece works on one after the other: starting its threads takes longer.
_FEW = 64
PAD, BOS, EOS, UNK = range(4)  # the same in every tokenizer

MODEL_FILE = "tokenizer.model"  # SentencePiece's own format
VOCABULARY_FILE = "tokenizer.vocab.json"  # WordPiece: the pieces in id order
TOKENIZER_FILES = (MODEL_FILE, VOCABULARY_FILE, PAIR_FILE)


class Tokenizer(Protocol):
    """Encodes text as ids, and decodes it. BOS and EOS are added by the batches."""

    vocabulary_size: int
    slots: int  # reserved pieces for kept spans: the first ones of `nmt.text.spans.SLOTS`
    lowercases: bool  # whether sources are lower-cased before they are encoded

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of target texts, over the same ids; itself unless the sides differ."""
        ...

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids int32 [length] of each text."""
        ...

    def decode(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """Return the text of each id sequence; special ids are left out."""
        ...

    def pieces(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """Return the text of each id, for display; ``▁`` marks a space."""
        ...

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the characters [begin, end) of a clean text that each of its pieces covers.

        A space belongs to the piece after it. Pieces that are bytes of one character all cover
        that character.
        """
        ...

    def in_graph(self) -> Any:
        """Return the tensorflow-text tokenizer that gives the same int32 ids inside graphs."""
        ...

    def save(self, folder: Path) -> None:
        """Write what `load_tokenizer` reads."""
        ...

    @property
    def fingerprint(self) -> str:
        """A digest of the model; tokenizers with equal fingerprints give equal ids."""
        ...


class SentencePieceTokenizer:
    """A SentencePiece model (unigram or BPE), in SentencePiece's own format."""

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self.model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise UserError(f"it is not a SentencePiece model ({error})") from error
        self.vocabulary_size: int = self._processor.get_piece_size()
        if self.vocabulary_size <= UNK:
            raise UserError(f"its SentencePiece model has only {self.vocabulary_size} pieces")
        self.slots = sum(self._processor.piece_to_id(slot) > UNK for slot in SLOTS)
        self.lowercases = self._processor.encode("A") == self._processor.encode("a")
        self._in_graph: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the model alone."""
        return SentencePieceTokenizer, (self.model,)

    @cached_property
    def target(self) -> SentencePieceTokenizer:
        """See `Tokenizer.target`: the same pieces without lower-casing."""
        if not self.lowercases:
            return self
        return SentencePieceTokenizer(remove_normalization(self.model))

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """See `Tokenizer.encode`."""
        encode = self._processor.encode
        encoded = encode(list(texts)) if len(texts) > _FEW else map(encode, texts)
        return [np.asarray(ids, np.int32) for ids in encoded]

    def decode(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """See `Tokenizer.decode`."""
        plain = [[int(i) for i in ids if i > UNK] for ids in sequences]
        decode = self._processor.decode
        return list(decode(plain) if len(plain) > _FEW else map(decode, plain))

    def pieces(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """See `Tokenizer.pieces`."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """See `Tokenizer.spans`."""
        # Not by the package's own spans, whose meaning differs between its releases.
        ids = self._processor.encode(text)
        return locate_pieces(
            [
                1 if self._processor.is_byte(i) else count_bytes(self._processor.id_to_piece(i))
                for i in ids
            ],
            text,
        )

    def in_graph(self) -> Any:
        """See `Tokenizer.in_graph`."""
        if self._in_graph is None:
            import tensorflow as tf
            import tensorflow_text

            with quiet_start():
                self._in_graph = tensorflow_text.SentencepieceTokenizer(
                    model=self.model, out_type=tf.int32
                )
        return self._in_graph

    def save(self, folder: Path) -> None:
        """See `Tokenizer.save`."""
        (folder / MODEL_FILE).write_bytes(self.model)

    @property
    def fingerprint(self) -> str:
        """See `Tokenizer.fingerprint`."""
        return hashlib.blake2b(self.model, digest_size=16).hexdigest()


# A word or one other character, with the space before it: concatenating the matches gives the text
# back, for text whose white space is single spaces.
_WORDS = re.compile(r" ?(?:\w+|[^\w\s])|\s")
SUFFIX = "##"
_MAX_WORD_BYTES = 1 << 16  # a longer word becomes one [UNK]
_CACHED_WORDS = 1 << 16
SPECIAL_PIECES = ["[PAD]", "[BOS]", "[EOS]", "[UNK]"]


class WordPieceTokenizer:
    """A WordPiece vocabulary over words that carry the space before them (``▁``).

    Characters that the training text lacks become ``[UNK]``; everything else is reversible.
    """

    slots = 0
    lowercases = False

    def __init__(self, vocabulary: Sequence[str]) -> None:
        if not isinstance(vocabulary, list) or vocabulary[:4] != SPECIAL_PIECES:
            raise UserError(f"its list of pieces must begin with {SPECIAL_PIECES}")
        try:
            "".join(vocabulary).encode()
        except (TypeError, UnicodeEncodeError) as error:
            raise UserError(f"not all of its pieces are text ({error})") from error
        self._vocabulary = list(vocabulary)
        self.vocabulary_size = len(self._vocabulary)
        self._ids = {piece: i for i, piece in enumerate(vocabulary)}
        self._longest = max(map(len, vocabulary))
        self._cached_encode_word = lru_cache(_CACHED_WORDS)(self._encode_word)
        self._in_graph: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the vocabulary alone."""
        return WordPieceTokenizer, (self._vocabulary,)

    @property
    def target(self) -> WordPieceTokenizer:
        """See `Tokenizer.target`."""
        return self

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """See `Tokenizer.encode`."""
        return [
            np.array(
                [i for word in split_words(text) for i in self._cached_encode_word(word)], np.int32
            )
            for text in texts
        ]

    def _encode_word(self, word: str) -> tuple[int, ...]:
        """Return the ids of the longest matching pieces, from left to right; `UNK` if one fails."""
        if len(word.encode()) > _MAX_WORD_BYTES:
            return (UNK,)
        ids: list[int] = []
        begin, prefix = 0, ""
        while begin < len(word):
            for end in range(min(len(word), begin + self._longest), begin, -1):
                piece_id = self._ids.get(prefix + word[begin:end])
                if piece_id is not None:
                    break
            else:
                return (UNK,)
            ids.append(piece_id)
            begin, prefix = end, SUFFIX
        return tuple(ids)

    def decode(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """See `Tokenizer.decode`."""
        return [
            "".join(
                piece.removeprefix(SUFFIX) for piece in self.pieces([i for i in ids if i > UNK])
            )
            .replace("▁", " ")
            .strip()
            for ids in sequences
        ]

    def pieces(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """See `Tokenizer.pieces`."""
        return [self._vocabulary[int(i)] for i in ids]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """See `Tokenizer.spans`."""
        return locate_pieces(
            [
                count_bytes(word if piece == SPECIAL_PIECES[UNK] else piece.removeprefix(SUFFIX))
                for word in split_words(text)
                for piece in self.pieces(self._cached_encode_word(word))
            ],
            text,
        )

    def in_graph(self) -> Any:
        """Return the tensorflow-text tokenizer, which takes single words: see `split_words`."""
        if self._in_graph is None:
            import tensorflow as tf
            import tensorflow_text

            self._in_graph = tensorflow_text.FastWordpieceTokenizer(
                vocab=self._vocabulary,
                suffix_indicator=SUFFIX,
                unknown_token=SPECIAL_PIECES[UNK],
                token_out_type=tf.int32,
                max_bytes_per_word=_MAX_WORD_BYTES,
                no_pretokenization=True,
                support_detokenization=True,
            )
        return self._in_graph

    def save(self, folder: Path) -> None:
        """See `Tokenizer.save`."""
        text = json.dumps(self._vocabulary, ensure_ascii=False, indent=0)
        (folder / VOCABULARY_FILE).write_text(text, encoding="utf-8")

    @property
    def fingerprint(self) -> str:
        """See `Tokenizer.fingerprint`."""
        joined = "\n".join(self._vocabulary).encode()
        return hashlib.blake2b(joined, digest_size=16).hexdigest()


def split_words(text: str) -> list[str]:
    """Return the words of a clean text, each with the space before it as ``▁``."""
    return [word.replace(" ", "▁") for word in _WORDS.findall(" " + text)] if text else []


def find_tokenizer_file(folder: Path) -> Path | None:
    """Return the file that `load_tokenizer` reads, or None if the folder holds none."""
    paths = (folder / name for name in TOKENIZER_FILES)
    return next((path for path in paths if path.is_file()), None)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read a tokenizer back.

    Raises:
        UserError: the folder holds none, or a damaged one.
    """
    path = find_tokenizer_file(folder)
    if path is None:
        raise UserError(f"{folder} holds no tokenizer ({' or '.join(TOKENIZER_FILES)})")
    try:
        if path.name == MODEL_FILE:
            return SentencePieceTokenizer(path.read_bytes())
        if path.name == PAIR_FILE:
            return PairedTokenizer.parse(path.read_text(encoding="utf-8"))
        if path.name == VOCABULARY_FILE:
            return WordPieceTokenizer(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError, UserError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    raise ValueError(f"no kind of tokenizer reads {path.name}")
