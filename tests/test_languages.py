"""Corpora of other languages and scripts are learned by heart, each in both directions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from nmt.config import Config

CORPORA = Path(__file__).parent / "corpora"
CODES = ("zh", "de", "ar", "ja")
QUICK = "zh", False  # the pair of the ordinary suite: into a script without spaces
# sacreBLEU's tokenizer of each language; of Japanese, words only where MeCab is installed.
TOKENIZERS = {"zh": "zh", "de": "13a", "ar": "13a", "ja": "char|ja-mecab"}


def read_pairs(code: str) -> list[tuple[str, str]]:
    lines = (CORPORA / f"{code}-en.tsv").read_text(encoding="utf-8").splitlines()
    return [(foreign, english) for foreign, english in (line.split("\t") for line in lines)]


@pytest.mark.parametrize("code", CODES)
def test_a_corpus_has_two_hundred_pairs_and_no_sentence_twice(code: str) -> None:
    pairs = read_pairs(code)
    assert len(pairs) == 200
    assert all(len(set(side)) == 200 for side in zip(*pairs, strict=True))


@pytest.mark.filterwarnings("ignore:BLEU of Japanese")
@pytest.mark.parametrize(
    ("code", "to_english"),
    [
        pytest.param(
            code, to_english, marks=() if (code, to_english) == QUICK else pytest.mark.slow
        )
        for code in CODES
        for to_english in (True, False)
    ],
)
def test_two_hundred_pairs_are_learned_by_heart(
    code: str,
    to_english: bool,
    tmp_path: Path,
    compose: Callable[..., Config],
    quiet_console: Console,
) -> None:
    from nmt import Translator
    from nmt.inference.contract import SearchRequest
    from nmt.inference.metrics import corpus_scores
    from nmt.training.job import train

    overrides = [
        "data=files",
        f"data.train={CORPORA / f'{code}-en.tsv'}",
        f"data.source_language={code}",
        "data.target_language=en",
        f"data.reverse={str(not to_english).lower()}",
        "data.dev=0",
        "data.test=0",
        "model=tiny",
        "training.max_minutes=null",
        "training.max_steps=2000",
        f"runs_dir={tmp_path / 'runs'}",
        f"cache_dir={tmp_path / 'cache'}",
    ]
    run = train(compose(*overrides), quiet_console)
    pairs = [pair if to_english else pair[::-1] for pair in read_pairs(code)]
    outputs = Translator.load(run.path).run([source for source, _ in pairs], SearchRequest())
    [bleu] = corpus_scores(
        [best.text for best, *_ in outputs],
        [target for _, target in pairs],
        language="en" if to_english else code,
        names=["BLEU"],
    )
    assert bleu.value >= 90
    tokenizer = "13a" if to_english else TOKENIZERS[code]
    assert re.search(rf"\|tok:({tokenizer})", bleu.signature)
