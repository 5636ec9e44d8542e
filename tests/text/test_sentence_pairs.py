"""Texts and their translations are cut into sentences only where both have equally many."""

from __future__ import annotations

import pytest

from nmt.text.sentence_pairs import align_sentences

LANGUAGES = ("es", "en")


@pytest.mark.parametrize(
    ("source", "target", "pairs"),
    [
        ("Hola.", "Hello.", [("Hola.", "Hello.")]),
        ("Hola. Adiós.", "Hello. Bye.", [("Hola.", "Hello."), ("Adiós.", "Bye.")]),
        ("Hola. Adiós.", "Hello and bye.", [("Hola. Adiós.", "Hello and bye.")]),
        (
            "Uno. Dos.\n\n  Tres.\n",
            "One. Two.\r\nThree.",
            [("Uno.", "One."), ("Dos.", "Two."), ("Tres.", "Three.")],
        ),
        # Another number of sentences in one line leaves the other line alone.
        (
            "Uno. Dos.\nTres. Cuatro.",
            "One, two.\nThree. Four.",
            [("Uno. Dos.", "One, two."), ("Tres.", "Three."), ("Cuatro.", "Four.")],
        ),
        # Another number of lines, but the same sentences.
        ("Uno.\nDos.", "One.\tTwo.", [("Uno.", "One."), ("Dos.", "Two.")]),
        ("una\tfrase\nlarga", "a long\u2009sentence", [("una frase larga", "a long sentence")]),
        ("Ho\0la.\x1b", "\ufeffHello.\n\0", [("Hola.", "Hello.")]),
        ("", "", []),
        ("Hola.", " ", [("Hola.", "")]),
    ],
)
def test_sentences_are_aligned(source: str, target: str, pairs: list[tuple[str, str]]) -> None:
    assert align_sentences(source, target, LANGUAGES) == pairs
    assert not any({"\t", "\n", "\r"} & set("".join(pair)) for pair in pairs)


def test_lines_that_stay_together_are_joined_as_their_language_is_written() -> None:
    assert align_sentences("你饿吗？饿。", "Hungry? Yes. Very.", ("zh", "en")) == [
        ("你饿吗？饿。", "Hungry? Yes. Very.")
    ]
