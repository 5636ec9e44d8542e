"""Models and translators that tests of exports share: all run on one worker, see their group."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from conftest import SMALL, corpus_lines, transformer

from nmt import Translator
from nmt.config import DecodingConfig, TokenizerConfig
from nmt.data.tokenizer import Tokenizer
from nmt.data.tokenizer_training import train_tokenizer
from nmt.inference.engines import Engines
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.results import Translation
from nmt.model.contract import Model
from nmt.text.cleaning import clean_text

TEXTS = ["¿Dónde está la estación?", "Hoy hace frío."]


@cache
def load_run(run: Path) -> Translator:
    """Return the translator of a run, which compiles each of its searches once."""
    return Translator.load(run, engine="keras")


@cache
def make_tokenizer(kind: str) -> Tokenizer:
    texts = [clean_text(side) for line in corpus_lines(200) for side in line.split("\t")[:2]]
    return train_tokenizer(TokenizerConfig(kind, 500, 0, 0.9998, False, 0), texts, str)


class Untrained(NamedTuple):
    """A model with a WordPiece tokenizer and random weights, whose outputs are not empty."""

    model: Model
    tokenizer: Tokenizer
    decoding: DecodingConfig  # greedy
    expected: list[Translation]  # of `TEXTS`


@cache
def make_wordpiece() -> Untrained:
    tokenizer = make_tokenizer("wordpiece")
    model = transformer(
        vocabulary_size=tokenizer.vocabulary_size,
        **SMALL,
        max_length=64,
    )
    for number, weight in enumerate(model.weights):
        values = np.random.default_rng(number).standard_normal(weight.shape)
        weight.assign(1 + 0.2 * values if weight.name == "gamma" else 0.4 * values)
    decoding = DecodingConfig(
        beam_size=1,
        length_penalty=0.6,
        max_length_ratio=1.5,
        max_length_margin=4,
        batch_size=8,
        no_repeat_ngram=0,
    )
    hypotheses = Translator(Engines(KerasEngine(model)), tokenizer, decoding).hypotheses(
        TEXTS, no_repeat_ngram=0
    )
    return Untrained(model, tokenizer, decoding, [best for (best,) in hypotheses])
