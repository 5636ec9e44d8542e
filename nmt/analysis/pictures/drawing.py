"""Attention of translated sentences into files: a picture, a folder of them, or an HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.analysis.pictures import heatmaps
from nmt.data.cleaning import clean_text
from nmt.errors import UserError
from nmt.viewer.page import attention_page

if TYPE_CHECKING:
    from nmt.inference.results import Attention, Translation
    from nmt.inference.translator import Translator

PAGE = ".html"


def check(out: Path, sentences: Sequence[str]) -> None:
    """Check before any work that every sentence can be drawn there.

    Raises:
        UserError: there are no sentences, or an empty one, or several are to go into one picture,
            or the format is unknown.
    """
    if not sentences:
        raise UserError("--attention needs its sentences as arguments")
    if out.suffix and out.suffix.lower() != PAGE:
        heatmaps.check_suffix(out)
        if len(sentences) > 1:
            raise UserError(
                f"{out} holds one sentence; for {len(sentences)} name a folder or an .html file"
            )
    for number, sentence in enumerate(sentences, start=1):
        if not clean_text(sentence):
            raise UserError(f"sentence {number} is empty: there is nothing to draw")


def draw(
    translator: Translator,
    sentences: Sequence[str],
    translations: Sequence[Translation | None],
    out: Path,
) -> Iterator[Path]:
    """Draw attention, and yield each file as it is written.

    Args:
        translator: what translated.
        sentences: its inputs.
        translations: the translation to show of each.
        out: ends in ``.html``: everything, to be looked at in a browser. In the suffix of a
            picture: cross-attention of the last layer, of one sentence. Otherwise a folder: one
            picture per sentence, kind and layer.

    Raises:
        UserError: a sentence is too long to be drawn, or a file cannot be written.
    """
    attentions = [
        (sentence, _read_attention(translator, sentence, translation, number))
        for number, (sentence, translation) in enumerate(
            zip(sentences, translations, strict=True), start=1
        )
    ]
    if out.suffix.lower() == PAGE:
        _write(out, attention_page(attentions, "Attention"))
        yield out
        return
    for number, (_, attention) in enumerate(attentions, start=1):
        for kind in attention.kinds:
            layers = len(attention.weights[kind.name])
            for layer in range(1, layers + 1):
                path = out / f"sentence_{number}_{kind.slug}_layer_{layer}.png"
                if out.suffix:
                    if not kind.is_cross or layer < layers:
                        continue
                    path = out
                figure = heatmaps.draw_kind(attention, kind, layer, f"{kind.title}, layer {layer}")
                heatmaps.save_figure(figure, path)
                yield path


def _read_attention(
    translator: Translator, sentence: str, translation: Translation | None, number: int
) -> Attention:
    attention = None if translation is None else translator.attention(sentence, translation)
    if attention is None:
        raise UserError(f"sentence {number} is too long to be drawn")
    return attention


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
