"""Fixtures: a translator with random weights, which the tests of several modules share."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import SMALL, small_tokenizer, transformer
from translator_inputs import DECODING

from nmt import Translator
from nmt.data.tokenizer import EOS, Tokenizer
from nmt.inference.engines import Engines
from nmt.inference.keras_engine import KerasEngine


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return small_tokenizer(lowercases=False, slots=0)


@pytest.fixture(scope="session")
def translator(tokenizer: Tokenizer) -> Translator:
    """Random weights that end outputs early and late, which those of a few updates do not."""
    model = transformer(
        vocabulary_size=tokenizer.vocabulary_size,
        **SMALL,
        max_length=64,
    )
    for number, weight in enumerate(model.weights):
        values = np.random.default_rng(number).standard_normal(weight.shape)
        weight.assign(1 + 0.2 * values if weight.name == "gamma" else 0.5 * values)
    end_mark = np.array(model.token_table()[EOS])
    beta = model.decoder_norm.beta
    beta.assign(np.array(beta) + end_mark / np.linalg.norm(end_mark))
    return Translator(Engines(KerasEngine(model)), tokenizer, DECODING)
