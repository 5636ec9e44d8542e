"""Attention goes into the files that the name asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_attention import attention

from nmt.analysis.pictures.attention_files import check_attention_output, write_attention
from nmt.errors import UserError
from nmt.inference.results import Attention, Translation

TRANSLATION = Translation("The red house.", -1.0, -1.0, (5, 2))


class FakeTranslator:
    """Shows attention of every sentence but long ones."""

    def attention(
        self, sentence: str, translation: Translation, glossary: object = None
    ) -> Attention | None:
        assert translation is TRANSLATION
        return attention() if len(sentence) < 50 else None


def draw(sentences: list[str], out: Path) -> list[Path]:
    translator: Any = FakeTranslator()
    return list(write_attention(translator, sentences, [TRANSLATION] * len(sentences), out))


def test_one_page_holds_all_sentences(tmp_path: Path) -> None:
    out = tmp_path / "new" / "page.HTML"
    check_attention_output(out, ["La casa.", "La roja."])
    assert draw(["La casa.", "La roja."], out) == [out]
    page = out.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert '"sentence": "La casa."' in page
    assert '"sentence": "La roja."' in page


def test_a_picture_is_cross_attention_of_the_last_layer(tmp_path: Path) -> None:
    out = tmp_path / "picture.svg"
    assert draw(["La casa."], out) == [out]
    assert "cross-attention, layer 2" in out.read_text(encoding="utf-8")


def test_a_folder_gets_every_kind_and_layer(tmp_path: Path) -> None:
    paths = draw(["La casa."], tmp_path / "all")
    assert len(paths) == len(set(paths)) == 3 * 2
    assert all(path.is_file() for path in paths)


@pytest.mark.parametrize(
    ("name", "sentences", "message"),
    [
        ("a.html", [], "needs its sentences"),
        ("a.html", ["La casa.", " "], "sentence 2 is empty"),
        ("a.png", ["La casa.", "Sí."], r"for 2 name a folder or an \.html file"),
        ("a.gif", ["La casa."], r"\.png"),
    ],
)
def test_what_cannot_be_drawn_is_said_before_any_work(
    name: str, sentences: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_attention_output(Path(name), sentences)


def test_what_goes_wrong_later_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="sentence 2 cannot be drawn"):
        draw(["La casa.", "muy " * 50], tmp_path / "page.html")
    copied = Translation("12", 0.0, 0.0, ())
    translator: Any = FakeTranslator()
    with pytest.raises(UserError, match="sentence 2 cannot be drawn: it is copied"):
        list(write_attention(translator, ["La.", "12"], [TRANSLATION, copied], tmp_path / "a.html"))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file cannot be created"):
        draw(["La casa."], tmp_path / "file" / "page.html")
