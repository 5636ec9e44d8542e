"""The ``tokenizer`` group."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nmt.config.checks import MISSING, check_at_least, check_between, check_choice
from nmt.errors import UserError
from nmt.text.scripts import has_capital_nouns

MAX_SLOTS = 8


@dataclass
class TokenizerConfig:
    """The subword vocabulary, shared by both languages."""

    kind: str = MISSING  # unigram | bpe | wordpiece
    vocabulary_size: int = MISSING  # upper bound, special tokens included
    # A small corpus supports only a small vocabulary: tokens seen a few times learn nothing. The
    # size is lowered to (characters of the training split) / this number, and that is logged.
    min_characters_per_piece: int = MISSING
    character_coverage: float = MISSING  # share of characters with a token; the rest are bytes
    # Whether the model reads sources in lower case, so that capitals cost nothing; null: unless the
    # source language is German, whose capitals tell words apart.
    lowercase_source: bool | None = MISSING
    slots: int = MISSING  # pieces that stand for URLs, numbers and other kept spans; 0: none


def check_tokenizer(config: TokenizerConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first invalid key and its valid values.
    """
    check_choice("tokenizer.kind", config.kind, ("unigram", "bpe", "wordpiece"))
    check_at_least("tokenizer.vocabulary_size", config.vocabulary_size, 16)
    check_at_least("tokenizer.min_characters_per_piece", config.min_characters_per_piece, 0)
    check_between("tokenizer.character_coverage", config.character_coverage, 0.9, 1)
    check_between("tokenizer.slots", config.slots, 0, MAX_SLOTS)
    if config.kind == "wordpiece" and (config.lowercase_source or config.slots):
        raise UserError(
            "tokenizer.kind=wordpiece neither lower-cases nor reserves slots: set "
            "tokenizer.lowercase_source=false tokenizer.slots=0"
        )


def resolve_tokenizer(config: TokenizerConfig, source_language: str) -> TokenizerConfig:
    """Return the configuration with a value for ``lowercase_source``."""
    if config.lowercase_source is not None:
        return config
    lowercases = config.kind != "wordpiece" and not has_capital_nouns(source_language)
    return replace(config, lowercase_source=lowercases)
