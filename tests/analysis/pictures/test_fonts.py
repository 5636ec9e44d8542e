"""Texts in pictures: a font that is missing is named."""

from __future__ import annotations

import pytest

from nmt.analysis.pictures import fonts


def test_a_missing_font_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_list_glyphs", lambda: frozenset(map(ord, "abc")))
    fonts._warn_of_missing_font.cache_clear()
    with pytest.warns(UserWarning, match=r"pictures show □ .* Noto Sans CJK") as warned:
        assert fonts.make_drawable("a你b好\u200d") == "a□b□"
    assert len(warned) == 1
    fonts._warn_of_missing_font.cache_clear()


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")
def test_only_letters_need_a_font(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_list_glyphs", lambda: frozenset(map(ord, "abc")))
    assert fonts.make_drawable("a😀\x00b") == "a□□b"


@pytest.mark.parametrize("dpi", [72, 100, 200])
def test_no_part_of_a_text_is_cut(dpi: int) -> None:
    for text in ("Er hat Brot, Milch und Eier gekauft." * 3, "iiiii WWWWW", "هل أنت جائع؟"):
        ink = fonts._draw_pixels(text, 7.5, 0.0, "left", "top", dpi)[..., 3].sum(axis=0)
        assert ink.any()
        assert not ink[-2:].any()


def test_arabic_letters_are_joined() -> None:
    letters = sum(fonts.measure_text(letter, 10) for letter in "يعمل")
    assert fonts.measure_text("يعمل", 10) < 0.95 * letters
