"""Attention of translated sentences as files: a picture, a folder of pictures, or an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.analysis.pictures.files import check_suffix, save_figure
from nmt.analysis.pictures.heatmaps import draw_heads
from nmt.errors import UserError
from nmt.files import make_folder, write_text
from nmt.text.cleaning import clean_text
from nmt.viewer.page import attention_page

if TYPE_CHECKING:
    from nmt.inference.results import Attention, Translation
    from nmt.inference.translator import Translator
    from nmt.text.terms import Glossary

PAGE = ".html"


def check_attention_output(out: Path, sentences: Sequence[str]) -> None:
    """Check before any work that `write_attention` can write these sentences to ``out``.

    Raises:
        UserError: sentences are missing, empty or too many for a single picture, or the suffix is
            unsupported.
    """
    if not sentences:
        raise UserError("--attention needs its sentences as arguments")
    if out.suffix and out.suffix.lower() != PAGE:
        check_suffix(out)
        if len(sentences) > 1:
            raise UserError(
                f"{out} holds one sentence; for {len(sentences)} name a folder or an .html file"
            )
    for number, sentence in enumerate(sentences, start=1):
        if not clean_text(sentence):
            raise UserError(f"sentence {number} is empty: there is nothing to draw")


def write_attention(
    translator: Translator,
    sentences: Sequence[str],
    translations: Sequence[Translation | None],
    out: Path,
    glossary: Glossary | None = None,
) -> Iterator[Path]:
    """Write the attention of translated sentences, and yield the path of each file.

    Args:
        translator: the translator that made the translations.
        sentences: source sentences.
        translations: the translation of each.
        out: a path that ends in ``.html``: the interactive viewer with all sentences. In the suffix
            of a picture: cross-attention of the last layer, of one sentence. Otherwise a folder:
            one picture per sentence, kind of attention and layer.
        glossary: of the translations; None: they have none.

    Raises:
        UserError: a sentence is copied or too long for the model, or a file cannot be written.
    """
    attentions = [
        (sentence, _read_attention(translator, sentence, translation, glossary, number))
        for number, (sentence, translation) in enumerate(
            zip(sentences, translations, strict=True), start=1
        )
    ]
    if out.suffix.lower() == PAGE:
        make_folder(out.parent)
        write_text(out, attention_page(attentions, "Attention"))
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
                save_figure(
                    draw_heads(attention, kind, layer, f"{kind.title}, layer {layer}"), path
                )
                yield path


def _read_attention(
    translator: Translator,
    sentence: str,
    translation: Translation | None,
    glossary: Glossary | None,
    number: int,
) -> Attention:
    attention = None
    if translation is not None:
        if not translation.tokens:
            raise UserError(
                f"sentence {number} cannot be drawn: it is copied, not translated; give a sentence "
                "with words to translate"
            )
        attention = translator.attention(sentence, translation, glossary)
    if attention is None:
        raise UserError(
            f"sentence {number} cannot be drawn: give one sentence that is translated in one go"
        )
    return attention
