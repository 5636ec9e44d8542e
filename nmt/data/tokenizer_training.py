"""Training of a tokenizer: SentencePiece's own trainer, and tensorflow-text's for WordPiece."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from nmt.config import TokenizerConfig
from nmt.data.lowercasing import add_lowercasing, lowercase
from nmt.data.tokenizer import (
    BOS,
    EOS,
    PAD,
    SPECIAL_PIECES,
    SUFFIX,
    UNK,
    SentencePieceTokenizer,
    Tokenizer,
    WordPieceTokenizer,
    split_words,
)
from nmt.errors import UserError
from nmt.text.context import split_context
from nmt.text.spans import SLOTS

LOG_FILE = "log.txt"  # messages of the training, beside the files of the tokenizer
_BYTES = 256  # pieces that byte fallback needs
_SLACK = 0.05  # share by which a WordPiece vocabulary may stay below its size
_THREADS = 4  # fixed, so that the model does not depend on the machine

Log = Callable[[str], None]


def train_and_save(
    folder: Path, config: TokenizerConfig, texts: Sequence[str], tags: Sequence[str]
) -> None:
    """Train a tokenizer (see `train_tokenizer`); write it and its log into a folder."""
    messages: list[str] = []
    train_tokenizer(config, texts, messages.append, tags).save(folder)
    (folder / LOG_FILE).write_text("\n".join(messages), encoding="utf-8")


def read_training_log(folder: Path) -> list[str]:
    """Return the messages that `train_and_save` wrote."""
    return (folder / LOG_FILE).read_text(encoding="utf-8").splitlines()


def list_texts(config: TokenizerConfig, pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return what a tokenizer is trained on: both sides of pairs, as it will read them."""
    read = lowercase if config.lowercase_source else str
    return [text for source, target in pairs for text in (read(split_context(source)[1]), target)]


def train_tokenizer(
    config: TokenizerConfig, texts: Sequence[str], log: Log, tags: Sequence[str] = ()
) -> Tokenizer:
    """Learn a vocabulary from clean ``texts`` (both languages).

    The vocabulary is smaller than configured where the texts do not support that size.

    Args:
        config: kind and size.
        texts: sentences, with tags where sources have them.
        log: called with messages, such as a smaller size.
        tags: words that become one piece each; WordPiece splits them like any other.

    Raises:
        UserError: the texts need a larger vocabulary than configured.
    """
    characters = sum(map(len, texts))
    alphabet = len(set().union(*set(texts)))
    size = config.vocabulary_size
    if config.min_characters_per_piece:
        supported = characters // config.min_characters_per_piece
        # WordPiece has every character twice, and its learner always keeps the top words.
        pieces = 3 * alphabet if config.kind == "wordpiece" else _BYTES + 2 * alphabet
        floor = len(SPECIAL_PIECES) + len(tags) + config.slots + pieces
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
        tokenizer = _train_sentencepiece(config, size, texts, tags)
    if tokenizer.vocabulary_size < size:
        log(f"the corpus gives {tokenizer.vocabulary_size} pieces, fewer than the {size} allowed")
    return tokenizer


def _train_sentencepiece(
    config: TokenizerConfig, size: int, texts: Iterable[str], tags: Sequence[str]
) -> SentencePieceTokenizer:
    import sentencepiece

    # Tags with the space before a word, as the model reads them.
    read_tags = map(lowercase, tags) if config.lowercase_source else tags
    reserved = [*dict.fromkeys(f"▁{tag}" for tag in read_tags), *SLOTS[: config.slots]]
    finish = add_lowercasing if config.lowercase_source else bytes
    counts = Counter(texts)

    def train(size: int) -> bytes:
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            # Repeats, as those of a mixture, are counted instead of read again.
            sentence_iterator=(f"{text}\t{count}" for text, count in counts.items()),
            input_format="tsv",
            model_writer=model,
            model_type=config.kind,
            vocab_size=size,
            character_coverage=config.character_coverage,
            byte_fallback=True,
            user_defined_symbols=reserved,
            normalization_rule_name="identity",  # texts are clean, and must not change again
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
        return finish(model.getvalue())

    try:
        return SentencePieceTokenizer(train(size))
    except RuntimeError as error:
        message = str(error)
        # BPE has no soft limit; its error names the largest size that the text supports.
        largest = re.search(r"Please set it to a value <= (\d+)", message)
        if largest:
            return SentencePieceTokenizer(train(int(largest.group(1))))
        if "smaller than required_chars" in message or "too small" in message:
            smallest = re.search(r"required_chars\. \d+ vs (\d+)", message)
            remedy = f"raise it to {smallest.group(1)} or more" if smallest else "raise it"
            raise UserError(
                f"tokenizer.vocabulary_size={size} is too small for the characters of this corpus: "
                f"{remedy}, or lower tokenizer.character_coverage"
            ) from error
        raise


def _search_vocabulary(
    target: int, learn: Callable[[int], list[str]], lower: int, upper: int
) -> list[str]:
    """Return a vocabulary of about ``target`` pieces, by the bisection of the learner's package.

    Args:
        target: number of pieces.
        learn: returns the pieces that occur at least a number of times.
        lower: the lowest number of times to try.
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
    # The learner is called with words that carry their space: its front end for tf.data would
    # separate punctuation from words irreversibly.
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    counts = Counter(word for text in texts for word in split_words(text))
    alphabet = len(set().union(*counts))
    words = sorted(counts.items())

    @cache  # it is slow, and searches for similar sizes try the same thresholds
    def learn(threshold: int) -> list[str]:
        return learner.learn(
            words,
            vocab_size=size,
            reserved_tokens=SPECIAL_PIECES,
            joiner=SUFFIX,
            upper_thresh=threshold,
            lower_thresh=threshold,
            max_unique_chars=alphabet,
        )

    target = size
    while target > 2 * alphabet:  # each character has two pieces, as first letter and after others
        vocabulary = _search_vocabulary(
            target, learn, max(2, min(counts.values())), max(counts.values())
        )
        if len(vocabulary) <= size:
            return WordPieceTokenizer(vocabulary)
        target -= len(vocabulary) - size  # the search may overshoot its target
    raise UserError(
        f"tokenizer.vocabulary_size={size} is too small for the {alphabet} characters of this "
        "corpus: raise it"
    )
