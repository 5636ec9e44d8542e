"""The ``tokenizer`` group."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.config.checks import MISSING, check_at_least, check_between, check_one_of


@dataclass
class TokenizerConfig:
    """The subword vocabulary, shared by both languages."""

    kind: str = MISSING  # unigram | bpe | wordpiece
    vocabulary_size: int = MISSING  # upper bound, special tokens included
    # A small corpus supports only a small vocabulary: pieces seen a few times learn nothing. The
    # size is lowered to (characters of the training split) / this many, and that is logged.
    min_characters_per_piece: int = MISSING
    character_coverage: float = MISSING  # share of characters that get a piece; the rest are bytes


def check_tokenizer(config: TokenizerConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first key that is wrong and what it may be.
    """
    check_one_of("tokenizer.kind", config.kind, ("unigram", "bpe", "wordpiece"))
    check_at_least("tokenizer.vocabulary_size", config.vocabulary_size, 16)
    check_at_least("tokenizer.min_characters_per_piece", config.min_characters_per_piece, 0)
    check_between("tokenizer.character_coverage", config.character_coverage, 0.9, 1)
