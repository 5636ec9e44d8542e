"""Pieces become words on the page, whichever tokenizer they are of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import needs_chromium
from fake_service import CROSS, FakeTranslator, Running, serving

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]


class Pieces(FakeTranslator):
    """Says that a text has certain pieces, which are not as many words as the text has.

    Only then does the page spell words by their pieces.
    """

    pieces: Sequence[str] = ()

    def attention(
        self, text: str, translation: SimpleNamespace, glossary: object = None
    ) -> SimpleNamespace:
        shape = (1, 1, len(self.pieces), len(self.pieces))
        cross = np.full(shape, 1 / len(self.pieces), CROSS.dtype)
        return SimpleNamespace(source=self.pieces, target_out=self.pieces, cross=cross)


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with serving(Pieces()) as running:
        yield running


def test_pieces_of_scripts_without_spaces_are_words_as_in_the_text(
    page: Any, service: Running
) -> None:
    service.translator.pieces = ["▁他", "买", "了", "14:30", "▁牛奶", "。", "</s>"]
    page.locator("#source").fill("他买了14:30 牛奶。")
    page.locator("summary").click()
    words = page.locator("#source-words .word")
    api.expect(words).to_have_text(["他", "买", "了", "14:30", "牛奶", "。", "end"])
    api.expect(page.locator("#source-words")).to_have_text("他买了14:30 牛奶。 end")


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁ho", "##la", "▁it", "'", "s", "[EOS]"], "hola it's "),
        (["▁C", "#", "[EOS]"], "C# "),
        (["▁ho", "la", "▁C", "##", "</s>"], "hola C## "),
    ],
    ids=["WordPiece", "a sign of WordPiece", "SentencePiece"],
)
def test_words_have_no_marks_of_their_pieces(
    page: Any, service: Running, pieces: list[str], words: str
) -> None:
    service.translator.pieces = pieces
    page.locator("#source").fill("Hola a todo el mundo")
    page.locator("summary").click()
    api.expect(page.locator("#target-words")).to_have_text(words)
    api.expect(page.locator("#source-words")).to_have_text(f"{words}end ")
