"""An explanation says what the model says, and shows itself."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from conftest import RECURRENT
from rich.console import Console

from nmt import Translator
from nmt.analysis.explaining.explanation import MIN_SUPPORT, Explanation, Share, explain
from nmt.analysis.explaining.page import describe, make_page
from nmt.analysis.explaining.terminal import name_reasons, render
from nmt.errors import UserError
from nmt.inference.engines import Engines
from nmt.inference.keras_engine import KerasEngine
from nmt.model import Recurrent
from nmt.model.sizes import RecurrentSizes

pytestmark = pytest.mark.xdist_group("parrot run")


@pytest.fixture(scope="module")
def translator(parrot_run: Path) -> Translator:
    return Translator.load(parrot_run, engine="keras")


@pytest.fixture(scope="module")
def sentence(parrot_run: Path) -> str:
    """Return a sentence that the run has memorised."""
    lines = (parrot_run / "samples" / "step_00000100.tsv").read_text(encoding="utf-8").splitlines()
    return max((line.split("\t")[0] for line in lines[1:]), key=len)


@pytest.fixture(scope="module")
def whole(translator: Translator, sentence: str) -> Explanation:
    return explain(translator, sentence)


def printed(explanation: Explanation, *, in_detail: bool) -> list[str]:
    console = Console(file=io.StringIO(), width=80)
    for renderable in render(explanation, in_detail=in_detail):
        console.print(renderable)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_every_word_of_the_best_translation_is_explained(
    translator: Translator, sentence: str, whole: Explanation
) -> None:
    [[best]] = translator.hypotheses([sentence])
    assert whole.translation == best.text
    pieces = [piece for word in whole.words for piece in word.pieces]
    assert pieces == translator.tokenizer.pieces(best.tokens)
    assert sum(word.log_prob for word in whole.words) == pytest.approx(best.log_prob, abs=1e-3)
    for number, word in enumerate(whole.words):
        assert word.other != word.word
        assert word.departure.pieces == len(word.other_pieces)
        shares = [share.contribution for share in (*word.source, *word.prefix)]
        assert sum(shares) == pytest.approx(1, abs=1e-4)
        assert len(word.layers) == len(translator.engine.model.decoder_blocks)
        first = math.log(word.layers[-1].probability)
        assert first >= word.log_prob - 1e-4
        inside = len(word.pieces) > 1
        assert len(word.prefix) == 1 + number + inside
        assert word.lacks_support == (word.all_source.support < MIN_SUPPORT)
        assert word.source_share == pytest.approx(sum(s.contribution for s in word.source))
        assert math.isnan(word.prefix[-1].contrast) == inside  # its own pieces stay visible
        assert not any(math.isnan(share.contrast) for share in word.source)


def test_support_is_what_the_source_adds_to_the_log_probability(
    translator: Translator, whole: Explanation
) -> None:
    """Of the whole translation, against that of an empty sentence."""
    tokens = whole.trace.tokens(whole.trace.finished[0])
    segment = translator.segmenter.segment_whole(whole.sentence)
    sources, targets = [segment.ids, segment.ids[:0]], [np.array(tokens[:-1])] * 2
    visible, without = translator.engine.score(sources, targets)
    supports = sum(word.support for word in whole.words)
    assert supports == pytest.approx(float((visible - without).sum()), abs=1e-3)
    assert supports > 1, "a memorised sentence needs its source"


def test_a_word_is_held_against_any_other(
    translator: Translator, sentence: str, whole: Explanation
) -> None:
    word = whole.words[0]
    single = explain(translator, sentence, why=word.word.upper(), not_="house")
    [explained] = single.words
    assert (explained.word, explained.other) == (word.word, "house")
    assert explained.log_prob == pytest.approx(word.log_prob, abs=1e-4)
    beginning, rest = sentence, explained.other_pieces
    [score] = translator.score([(beginning, "house")])
    assert score.pieces[: len(rest)] == list(rest)
    expected = sum(score.log_probs[: len(rest)])
    assert explained.other_log_prob == pytest.approx(expected, abs=1e-3)
    # The rival is at least as probable as this word, unless that is the best first piece.
    assert word.other_log_prob >= explained.other_log_prob - 1e-4 or len(rest) > 1


def test_the_terminal_needs_eighty_columns(
    translator: Translator, sentence: str, whole: Explanation
) -> None:
    lines = printed(whole, in_detail=False)
    assert lines[0] == whole.translation[:80].rstrip()
    [header] = [line for line in lines if line.startswith("word")]
    assert header.split() == "word rather than nats for it source support layers".split()
    detail = printed(explain(translator, sentence, why=whole.words[0].word), in_detail=True)
    assert any(line.startswith("Why ") for line in detail)
    assert any(line.startswith(("The source raises", "The source does not")) for line in detail)
    assert sum(line.split()[:1] == ["all"] for line in detail) == 2
    assert any("(beam 4)" in line for line in detail)
    assert max(map(len, lines + detail)) <= 80


class Page(HTMLParser):
    """The elements of a page and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        assert not {name for name, _ in attrs} & {"src", "onclick"}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_and_a_notebook_show_all_words(whole: Explanation) -> None:
    piece = whole._repr_html_()
    assert piece == describe(whole)
    shown = Page(piece)
    assert shown.elements.count("details") == len(whole.words)
    assert not {"script", "link"} & set(shown.elements)
    assert not re.search(r"(?<![-\w])color\s*:", piece)  # that of the notebook
    assert all(word.other in shown.text for word in whole.words)
    single = describe(replace(whole, words=whole.words[:1]))
    assert "<pre>" in single
    for content in (piece, single):  # a keyboard can scroll what is wide
        assert content.count('role="region" tabindex="0"') == len(
            re.findall("<(?:table|pre)[ >]", content)
        )
    page = make_page(whole)
    assert piece in page
    assert "default-src 'none'" in page


def test_no_text_is_taken_for_markup(whole: Explanation) -> None:
    hostile = "<script>alert('x')</script>"
    word = replace(whole.words[0], word=hostile, other=hostile, pieces=(hostile,))
    page = make_page(replace(whole, words=(word,), sentence=hostile, translation=hostile))
    assert "script" not in Page(page).elements
    assert Page(page).text.count(hostile) >= 4


def test_every_number_is_in_the_json(whole: Explanation) -> None:
    written = json.loads(json.dumps(whole.as_json(), allow_nan=False))
    assert [word["word"] for word in written["words"]] == [word.word for word in whole.words]
    assert written["words"][0]["source"][0].keys() == {
        "text",
        "contrast",
        "contribution",
        "support",
    }
    for side in ("all_source", "all_prefix"):
        assert written["words"][0][side].keys() == written["words"][0]["source"][0].keys()
    assert written["trace"]["nodes"]


def test_a_recurrent_model_has_effects_and_a_reason(translator: Translator, sentence: str) -> None:
    sizes = RECURRENT | {"vocabulary_size": translator.tokenizer.vocabulary_size, "max_length": 64}
    model = Recurrent(RecurrentSizes(**sizes))
    for number, weight in enumerate(model.weights):
        weight.assign(0.5 * np.random.default_rng(number).standard_normal(weight.shape))
    recurrent = Translator(Engines(KerasEngine(model)), translator.tokenizer, translator.decoding)
    explanation = explain(recurrent, sentence)
    assert "this is a Recurrent model" in explanation.reason
    assert all(word.layers == () for word in explanation.words)
    assert all(word.support for word in explanation.words)
    assert any(share.contrast for word in explanation.words for share in word.source)
    lines = printed(explanation, in_detail=False)
    assert "this is a Recurrent model" in " ".join(lines)
    json.dumps(explanation.as_json(), allow_nan=False)
    assert "Recurrent model" in describe(explanation)


def test_mistakes_are_user_errors(translator: Translator, sentence: str) -> None:
    with pytest.raises(UserError, match="give why, the word of the translation that 'house'"):
        explain(translator, sentence, not_="house")
    with pytest.raises(UserError, match="to explain; choose from"):
        explain(translator, sentence, why="xyzzy")
    with pytest.raises(UserError, match="is empty"):
        explain(translator, " ")
    message = r"translator='runs/latest' is no Translator: pass nmt\.Translator\.load"
    with pytest.raises(UserError, match=message):
        explain("runs/latest", sentence)  # type: ignore[arg-type]


def test_neither_tags_nor_special_tokens_are_reasons(whole: Explanation) -> None:
    word = whole.words[0]
    texts = ("<2en>", 3.0), ("casa", 1.0), ("no", -1.0), ("</s>", 2.0)
    source = tuple(Share(text, contrast, 0.1, 0.1) for text, contrast in texts)
    prefix = (Share("<s>", 4.0, 0.1, 0.1),)
    assert word.tag_words == 0
    changed = replace(word, source=source, prefix=prefix, tag_words=1)
    assert name_reasons(changed) == ["casa"]


def test_words_that_were_never_hidden_leave_the_others_in_order(whole: Explanation) -> None:
    shares = [Share(str(nats), nats, 0.0, 0.0) for nats in (-0.6, 2.0, math.nan, 2.5)]
    word, end = whole.words[0], Share("</s>", 0.5, 0.0, 0.0)
    for order in permutations(shares):
        changed = replace(word, source=(*order, end), prefix=word.prefix[:1])
        assert name_reasons(changed) == ["2.5", "2.0"]
