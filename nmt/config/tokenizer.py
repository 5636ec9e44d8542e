"""The ``tokenizer`` group."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.config.checks import MISSING, check_at_least, check_between, check_choice


@dataclass
class TokenizerConfig:
    """The subword vocabulary, shared by both languages."""

    kind: str = MISSING  # unigram | bpe | wordpiece
    vocabulary_size: int = MISSING  # upper bound, special tokens included
    # A small corpus supports only a small vocabulary: tokens seen a few times learn nothing. The
    # size is lowered to (characters of the training split) / this number, and that is logged.
    min_characters_per_piece: int = MISSING
    character_coverage: float = MISSING  # share of characters with a token; the rest are bytes


def check_tokenizer(config: TokenizerConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first invalid key and its valid values.
    """
    check_choice("tokenizer.kind", config.kind, ("unigram", "bpe", "wordpiece"))
    check_at_least("tokenizer.vocabulary_size", config.vocabulary_size, 16)
    check_at_least("tokenizer.min_characters_per_piece", config.min_characters_per_piece, 0)
    check_between("tokenizer.character_coverage", config.character_coverage, 0.9, 1)
