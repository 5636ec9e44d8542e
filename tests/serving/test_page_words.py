"""Pieces become words on the page, whichever tokenizer they are of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import CHROMIUM
from fake_service import CROSS, FakeTranslator, serving

api = pytest.importorskip("playwright.sync_api")

pytestmark = [
    pytest.mark.xdist_group("serving"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH"),
]


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
def translator() -> Pieces:
    return Pieces()


@pytest.fixture(scope="module")
def page(translator: Pieces) -> Iterator[Any]:
    with serving(translator) as running, api.sync_playwright() as playwright:
        # No sandbox: as root, in a container, there is none.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(running.url)
        page.locator("#source").fill("Hola")
        page.locator("summary").click()
        yield page
        browser.close()


def test_pieces_of_scripts_without_spaces_are_words_as_in_the_text(
    page: Any, translator: Pieces
) -> None:
    translator.pieces = ["▁他", "买", "了", "14:30", "▁牛奶", "。", "</s>"]
    page.locator("#source").fill("")
    page.locator("#source").fill("他买了14:30 牛奶。")
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
    page: Any, translator: Pieces, pieces: list[str], words: str
) -> None:
    translator.pieces = pieces
    page.locator("#source").fill("")
    page.locator("#source").fill("Hola a todo el mundo")
    api.expect(page.locator("#target-words")).to_have_text(words)
    api.expect(page.locator("#source-words")).to_have_text(f"{words}end ")
