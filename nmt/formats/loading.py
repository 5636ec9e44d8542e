"""A translator for an exported folder: what every format that this package loads has in common."""

from __future__ import annotations

from pathlib import Path

from nmt.config import Config
from nmt.data.tokenizer import Tokenizer
from nmt.inference.contract import Engine
from nmt.inference.engines import Engines
from nmt.inference.quality import QUALITY_FILE, StoredQuality
from nmt.inference.translator import Translator
from nmt.text.source_words import SourceWords


def make_translator(
    folder: Path, engine: Engine, tokenizer: Tokenizer, config: Config
) -> Translator:
    """Return a translator with the source words and the confidence that the folder has."""
    quality = StoredQuality(folder if (folder / QUALITY_FILE).is_file() else None)
    words = SourceWords.load(folder)
    return Translator.from_config(Engines(engine), tokenizer, config, words=words, quality=quality)
