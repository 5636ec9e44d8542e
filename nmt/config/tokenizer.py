"""The ``tokenizer`` group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nmt.config.checks import MISSING, NonNegativeInt, at_least, between, one_of
from nmt.errors import UserError
from nmt.text.scripts import has_capital_nouns

MAX_SLOTS = 8


@dataclass
class TokenizerConfig:
    """The subword vocabulary, shared by both languages."""

    # unigram and bpe: of SentencePiece | wordpiece: of tensorflow-text
    kind: Annotated[str, one_of("unigram", "bpe", "wordpiece")] = MISSING
    # Upper bound, special tokens included.
    vocabulary_size: Annotated[int, at_least(16)] = MISSING
    # A small corpus supports only a small vocabulary: tokens seen a few times learn nothing. The
    # size is lowered to (characters of the training split) / this number, and that is logged.
    min_characters_per_piece: NonNegativeInt = MISSING
    # Share of characters with a token; the rest are bytes.
    character_coverage: Annotated[float, between(0.9, 1)] = MISSING
    # Whether the model reads sources in lower case, so that capitals cost nothing; null: unless the
    # source language is German, whose capitals tell words apart.
    lowercase_source: bool | None = MISSING
    # Pieces that stand for URLs, numbers and other kept spans; 0: none.
    slots: Annotated[int, between(0, MAX_SLOTS)] = MISSING


def check_tokenizer(config: TokenizerConfig) -> None:
    """Raise a `UserError` if the keys contradict each other."""
    if config.kind == "wordpiece" and (config.lowercase_source or config.slots):
        raise UserError(
            "tokenizer.kind=wordpiece neither lower-cases nor reserves slots: set "
            "tokenizer.lowercase_source=false tokenizer.slots=0"
        )


def resolve_tokenizer(config: TokenizerConfig, source_language: str) -> None:
    """Set ``lowercase_source`` if it is null."""
    if config.lowercase_source is None:
        has_capitals = has_capital_nouns(source_language)
        config.lowercase_source = config.kind != "wordpiece" and not has_capitals
