"""A small bilingual grammar: conjugation, agreement, and patterns that expand into pairs."""
