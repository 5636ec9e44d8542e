"""A small bilingual grammar: conjugation, agreement, and patterns that expand into pairs."""

from pathlib import Path

GRAMMAR_DIR = Path(__file__).parent / "grammar"  # lexicon and patterns
