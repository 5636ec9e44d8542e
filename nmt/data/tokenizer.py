"""Subword tokenizers with one vocabulary for both languages.

Three kinds: SentencePiece ``unigram`` and ``bpe``, whose byte fallback leaves nothing unknown, and
``wordpiece``, whose vocabulary tensorflow-text's own builder learns. Text becomes ids without
TensorFlow; inside a graph tensorflow-text does it, with the same ids.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nmt.config import TokenizerConfig
from nmt.data.paired import PAIR_FILE, PairedTokenizer
from nmt.data.spans import size_of, spans_of
from nmt.errors import UserError
from nmt.startup.quiet import quiet_start

PAD, BOS, EOS, UNK = range(4)  # the same in every tokenizer

MODEL_FILE = "tokenizer.model"  # SentencePiece's own format
VOCABULARY_FILE = "tokenizer.vocab.json"  # WordPiece: the pieces in id order
LOG_FILE = "log.txt"  # what was said when a tokenizer was trained, where that is kept
TOKENIZER_FILES = (MODEL_FILE, VOCABULARY_FILE, PAIR_FILE)
_BYTES = 256  # byte fallback gives every byte a piece
_SLACK = 0.05  # share by which a WordPiece vocabulary may stay below its size
_THREADS = 4  # fixed, so that a trained model does not depend on the machine

Log = Callable[[str], None]


class Tokenizer(Protocol):
    """Text to ids and back. Ids carry neither begin nor end mark; those belong to the batches."""

    vocabulary_size: int

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of target texts, over the same ids: itself, but where sides differ."""
        ...

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids int32 [length] of each text."""
        ...

    def decode(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """Return the text of each id sequence; special ids are left out."""
        ...

    def pieces(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """Return what each id stands for, for display; ``▁`` marks a space."""
        ...

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the characters [begin, end) of a clean text that each of its pieces stands for.

        A space belongs to the piece behind it. Pieces that are bytes of one character all stand for
        that character.
        """
        ...

    def in_graph(self) -> Any:
        """Return the tensorflow-text tokenizer (int32 ids) that does the same in graphs."""
        ...

    def save(self, folder: Path) -> None:
        """Write what `load_tokenizer` reads."""
        ...

    @property
    def fingerprint(self) -> str:
        """A digest of the model: equal fingerprints give equal ids."""
        ...


class SentencePieceTokenizer:
    """A SentencePiece model (unigram or BPE).

    Args:
        model: in SentencePiece's own format.
    """

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self.model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise UserError(f"it is no SentencePiece model ({error})") from error
        self.vocabulary_size: int = self._processor.get_piece_size()
        if self.vocabulary_size <= UNK:
            raise UserError(f"it is a SentencePiece model of {self.vocabulary_size} pieces")
        self._in_graph: Any = None

    @property
    def target(self) -> SentencePieceTokenizer:
        """Itself: both sides are cut alike."""
        return self

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids int32 [length] of each text."""
        if not texts:
            return []
        return [np.asarray(ids, np.int32) for ids in self._processor.encode(list(texts))]

    def decode(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """Return the text of each id sequence; special ids are left out."""
        plain = [[int(i) for i in ids if i > UNK] for ids in sequences]
        return list(self._processor.decode(plain)) if plain else []

    def pieces(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """Return what each id stands for."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the characters [begin, end) that each piece stands for: see `Tokenizer`."""
        # The package can tell them itself, but each of its releases in another way.
        ids = self._processor.encode(text)
        return spans_of(
            [
                1 if self._processor.is_byte(i) else size_of(self._processor.id_to_piece(i))
                for i in ids
            ],
            text,
        )

    def in_graph(self) -> Any:
        """Return the tensorflow-text tokenizer (int32 ids), for use in graphs."""
        if self._in_graph is None:
            import tensorflow as tf
            import tensorflow_text

            with quiet_start():
                self._in_graph = tensorflow_text.SentencepieceTokenizer(
                    model=self.model, out_type=tf.int32
                )
        return self._in_graph

    def save(self, folder: Path) -> None:
        """Write the model."""
        (folder / MODEL_FILE).write_bytes(self.model)

    @property
    def fingerprint(self) -> str:
        """A digest of the model."""
        return hashlib.blake2b(self.model, digest_size=16).hexdigest()


# A word or one other character, with the space before it: concatenating the matches gives the text
# back, for text whose white space is single spaces.
_WORDS = re.compile(r" ?(?:\w+|[^\w\s])|\s")
SUFFIX = "##"
_LONGEST_WORD = 1 << 16  # bytes; a longer one is one [UNK]
_WORDS_KEPT = 1 << 16  # whose pieces are remembered
_SPECIAL_PIECES = ["[PAD]", "[BOS]", "[EOS]", "[UNK]"]


class WordPieceTokenizer:
    """A WordPiece vocabulary over words that carry the space before them (``▁``).

    Characters that the training text lacks become ``[UNK]``; everything else is reversible.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        if not isinstance(vocabulary, list) or vocabulary[:4] != _SPECIAL_PIECES:
            raise UserError(f"it is no list of pieces that begins with {_SPECIAL_PIECES}")
        try:
            "".join(vocabulary).encode()
        except (TypeError, UnicodeEncodeError) as error:
            raise UserError(f"not all of its pieces are text ({error})") from error
        self._vocabulary = list(vocabulary)
        self.vocabulary_size = len(self._vocabulary)
        self._ids = {piece: i for i, piece in enumerate(vocabulary)}
        self._longest = max(map(len, vocabulary))
        self._split = lru_cache(_WORDS_KEPT)(self._split_anew)
        self._in_graph: Any = None

    @property
    def target(self) -> WordPieceTokenizer:
        """Itself: both sides are cut alike."""
        return self

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids int32 [length] of each text."""
        return [
            np.array([i for word in _pretokenized(text) for i in self._split(word)], np.int32)
            for text in texts
        ]

    def _split_anew(self, word: str) -> tuple[int, ...]:
        """Return the ids of the longest pieces, from left to right; of what has none, `UNK`."""
        if len(word.encode()) > _LONGEST_WORD:
            return (UNK,)
        found: list[int] = []
        begin, mark = 0, ""
        while begin < len(word):
            ends = range(min(len(word), begin + self._longest), begin, -1)
            ids = ((self._ids.get(mark + word[begin:end]), end) for end in ends)
            piece, begin = next((one for one in ids if one[0] is not None), (None, begin))
            if piece is None:
                return (UNK,)
            found.append(piece)
            mark = SUFFIX
        return tuple(found)

    def decode(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """Return the text of each id sequence; special ids are left out."""
        return [
            "".join(
                piece.removeprefix(SUFFIX) for piece in self.pieces([i for i in ids if i > UNK])
            )
            .replace("▁", " ")
            .strip()
            for ids in sequences
        ]

    def pieces(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """Return what each id stands for."""
        return [self._vocabulary[int(i)] for i in ids]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the characters [begin, end) that each piece stands for: see `Tokenizer`."""
        return spans_of(
            [
                size_of(word if piece == _SPECIAL_PIECES[UNK] else piece.removeprefix(SUFFIX))
                for word in _pretokenized(text)
                for piece in self.pieces(self._split(word))
            ],
            text,
        )

    def in_graph(self) -> Any:
        """Return the tensorflow-text tokenizer of single words."""
        if self._in_graph is None:
            import tensorflow as tf
            import tensorflow_text

            self._in_graph = tensorflow_text.FastWordpieceTokenizer(
                vocab=self._vocabulary,
                suffix_indicator=SUFFIX,
                unknown_token=_SPECIAL_PIECES[UNK],
                token_out_type=tf.int32,
                max_bytes_per_word=_LONGEST_WORD,
                no_pretokenization=True,
                support_detokenization=True,
            )
        return self._in_graph

    def save(self, folder: Path) -> None:
        """Write the vocabulary."""
        text = json.dumps(self._vocabulary, ensure_ascii=False, indent=0)
        (folder / VOCABULARY_FILE).write_text(text, encoding="utf-8")

    @property
    def fingerprint(self) -> str:
        """A digest of the vocabulary."""
        joined = "\n".join(self._vocabulary).encode()
        return hashlib.blake2b(joined, digest_size=16).hexdigest()


def _pretokenized(text: str) -> list[str]:
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
        return WordPieceTokenizer(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError, UserError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def train_into(
    folder: Path, config: TokenizerConfig, texts: Sequence[str], tags: Sequence[str] = ()
) -> None:
    """Train a tokenizer, see `train_tokenizer`; write it, and what was said, into a folder."""
    said: list[str] = []
    train_tokenizer(config, texts, said.append, tags).save(folder)
    (folder / LOG_FILE).write_text("\n".join(said), encoding="utf-8")


def read_training_log(folder: Path) -> list[str]:
    """Return what was said when the tokenizer of a folder was trained: see `train_into`."""
    return (folder / LOG_FILE).read_text(encoding="utf-8").splitlines()


def train_tokenizer(
    config: TokenizerConfig, texts: Sequence[str], log: Log, tags: Sequence[str] = ()
) -> Tokenizer:
    """Learn a vocabulary from clean ``texts`` (both languages).

    The vocabulary is smaller than asked for where the texts do not support it; `log` is told.

    Args:
        config: kind and size.
        texts: sentences; of those with a tag, too.
        log: takes messages.
        tags: words that are one piece each, but for WordPiece, which splits them as any other.

    Raises:
        UserError: the texts need a larger vocabulary than asked for.
    """
    characters = sum(map(len, texts))
    alphabet = len(set(chain.from_iterable(texts)))
    size = config.vocabulary_size
    if config.min_characters_per_piece:
        supported = characters // config.min_characters_per_piece
        # WordPiece has every character twice, and its learner never leaves out the top words.
        pieces = 3 * alphabet if config.kind == "wordpiece" else _BYTES + 2 * alphabet
        floor = len(_SPECIAL_PIECES) + len(tags) + pieces
        size = min(size, max(supported, floor))
        if size < config.vocabulary_size:
            log(
                f"tokenizer.vocabulary_size {config.vocabulary_size} is lowered to {size}: "
                f"{characters:,} characters of text at tokenizer.min_characters_per_piece="
                f"{config.min_characters_per_piece}"
            )
    if config.kind == "wordpiece":
        tokenizer: Tokenizer = _train_wordpiece(size, texts)
    else:
        coverage = config.character_coverage
        tokenizer = _train_sentencepiece(config.kind, size, coverage, texts, tags)
    if tokenizer.vocabulary_size < size:
        log(f"the corpus gives {tokenizer.vocabulary_size} pieces, fewer than the {size} allowed")
    return tokenizer


def _train_sentencepiece(
    kind: str, size: int, coverage: float, texts: Iterable[str], tags: Sequence[str]
) -> SentencePieceTokenizer:
    import sentencepiece

    def train(size: int) -> bytes:
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            character_coverage=coverage,
            byte_fallback=True,
            user_defined_symbols=[f"▁{tag}" for tag in tags],  # with the space before a word
            normalization_rule_name="identity",  # cleaning is done, and must be the only change
            remove_extra_whitespaces=False,
            hard_vocab_limit=False,
            pad_id=PAD,
            bos_id=BOS,
            eos_id=EOS,
            unk_id=UNK,
            max_sentence_length=1 << 16,  # bytes
            num_threads=_THREADS,
            minloglevel=3,
        )
        return model.getvalue()

    try:
        return SentencePieceTokenizer(train(size))
    except RuntimeError as error:
        message = str(error)
        # BPE knows no soft limit: it names the largest size that the text supports.
        largest = re.search(r"Please set it to a value <= (\d+)", message)
        if largest:
            return SentencePieceTokenizer(train(int(largest.group(1))))
        if "smaller than required_chars" in message or "too small" in message:
            raise UserError(
                f"tokenizer.vocabulary_size={size} is too small for the characters of this corpus: "
                "raise it, or lower tokenizer.character_coverage"
            ) from error
        raise


def _search_vocabulary(
    target: int, learn: Callable[[int], list[str]], lower: int, upper: int
) -> list[str]:
    """Return a vocabulary of about ``target`` pieces: the learner's own search.

    Args:
        target: pieces.
        learn: gives the pieces that occur at least so often.
        lower: the lowest number of times that is tried.
        upper: the highest.
    """
    while True:
        threshold = (lower + upper) // 2
        vocabulary = learn(threshold)
        missing = target - len(vocabulary)
        if 0 <= missing <= _SLACK * target or lower >= upper or threshold <= 1:
            return vocabulary
        if missing < 0:
            lower = threshold + 1
        else:
            upper = threshold - 1


def _train_wordpiece(size: int, texts: Iterable[str]) -> WordPieceTokenizer:
    # The package's own learner, given words that carry their space; its front end for tf.data
    # would split punctuation from words for good.
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    counts = Counter(word for text in texts for word in _pretokenized(text))
    alphabet = len(set().union(*counts))
    words = sorted(counts.items())

    @cache  # what takes the time; searches for sizes close to each other ask for the same
    def learn(threshold: int) -> list[str]:
        return learner.learn(
            words,
            vocab_size=size,
            reserved_tokens=_SPECIAL_PIECES,
            joiner=SUFFIX,
            upper_thresh=threshold,
            lower_thresh=threshold,
            max_unique_chars=alphabet,
        )

    target = size
    while target > 2 * alphabet:  # a character may begin a word, or go on with one
        vocabulary = _search_vocabulary(
            target, learn, max(2, min(counts.values())), max(counts.values())
        )
        if len(vocabulary) <= size:
            return WordPieceTokenizer(vocabulary)
        target -= len(vocabulary) - size  # the search may end above its target
    raise UserError(
        f"tokenizer.vocabulary_size={size} is too small for the {alphabet} characters of this "
        "corpus: raise it"
    )
