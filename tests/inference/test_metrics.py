"""Scores are sacreBLEU's own, with their signatures, and comparisons are fair."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU

from nmt.inference.metrics import (
    RESAMPLES,
    choose_tokenizer,
    corpus_scores,
    sentence_scores,
)

REFERENCES = [
    "Where is the train station?",
    "I would like a cup of coffee, please.",
    "She has lived in this city for ten years.",
    "They didn't want to go home yesterday.",
    "It is raining again.",
    "My brother works in a small bakery near the river.",
]
GOOD = [
    "Where is the train station?",
    "I would like a cup of tea, please.",
    "She has lived in this town for ten years.",
    "They did not want to go home yesterday.",
    "It rains again.",
    "My brother works in a small bakery near the river.",
]
BAD = [
    "Where is station train?",
    "I want coffee.",
    "She lives here since ten years in the city.",
    "They want home.",
    "Rain.",
    "Brother is bakery of a river near.",
]
NAMES = ["BLEU", "chrF2++", "TER"]


def test_scores_are_those_of_sacrebleu() -> None:
    scores = corpus_scores(GOOD, REFERENCES, language="en")
    assert [score.name for score in scores] == NAMES
    expected = [
        sacrebleu.corpus_bleu(GOOD, [REFERENCES]).score,
        sacrebleu.corpus_chrf(GOOD, [REFERENCES], word_order=2).score,
        sacrebleu.corpus_ter(GOOD, [REFERENCES]).score,
    ]
    assert [score.value for score in scores] == expected
    assert 40 < expected[0] < 90  # neither nothing nor perfect, so that a mix-up shows
    assert len(set(expected)) == 3
    # References and hypotheses are not exchanged: that would change the brevity penalty.
    bad = corpus_scores(BAD, REFERENCES, language="en")[0].value
    assert corpus_scores(REFERENCES, BAD, language="en")[0].value != bad
    assert bad == sacrebleu.corpus_bleu(BAD, [REFERENCES]).score


def test_several_references_are_scored_as_by_sacrebleu() -> None:
    more = [["Where is the station?", None, None, None, "It rains again.", None]]
    sets = [REFERENCES, more[0]]
    scores = corpus_scores(GOOD, REFERENCES, language="en", more_references=more)
    assert [score.value for score in scores] == [
        sacrebleu.corpus_bleu(GOOD, sets).score,
        sacrebleu.corpus_chrf(GOOD, sets, word_order=2).score,
        sacrebleu.corpus_ter(GOOD, sets).score,
    ]
    single = corpus_scores(GOOD, REFERENCES, language="en")
    assert scores[0].value > single[0].value
    assert scores[0].signature.startswith("nrefs:var|")

    plain = sentence_scores(GOOD, REFERENCES)
    each = sentence_scores(GOOD, REFERENCES, more)
    assert each[4] == 100 > plain[4]
    assert each[:4] + each[5:] == plain[:4] + plain[5:]


def test_signatures_name_what_was_done() -> None:
    bleu, chrf, ter = (score.signature for score in corpus_scores(GOOD, REFERENCES, language="en"))
    version = sacrebleu.__version__
    assert bleu == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert chrf == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:{version}"
    assert ter == f"nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:{version}"


def test_only_the_names_asked_for_in_their_order() -> None:
    scores = corpus_scores(GOOD, REFERENCES, language="en", names=("TER", "BLEU"))
    assert [score.name for score in scores] == ["TER", "BLEU"]
    full = {score.name: score for score in corpus_scores(GOOD, REFERENCES, language="en")}
    assert scores == [full["TER"], full["BLEU"]]


def test_a_perfect_translation() -> None:
    values = [score.value for score in corpus_scores(REFERENCES, REFERENCES, language="en")]
    assert values == pytest.approx([100, 100, 0])


def test_confidence_intervals() -> None:
    for score in corpus_scores(GOOD, REFERENCES, language="en"):
        assert score.mean is None
        assert score.half_width is None
    plain = {score.name: score.value for score in corpus_scores(GOOD, REFERENCES, language="en")}
    for score in corpus_scores(GOOD, REFERENCES, language="en", intervals=True):
        assert score.value == plain[score.name]
        assert f"|bs:{RESAMPLES}|" in score.signature
        assert score.mean is not None
        assert score.half_width is not None
        assert score.half_width > 0.5  # six sentences are few
        assert abs(score.mean - score.value) < score.half_width
    # All resamples of a perfect translation are perfect.
    bleu = corpus_scores(REFERENCES, REFERENCES, language="en", names=("BLEU",), intervals=True)[0]
    assert bleu.mean == pytest.approx(100)
    assert bleu.half_width == pytest.approx(0, abs=1e-9)


def test_a_single_text_has_no_interval() -> None:
    scores = corpus_scores(GOOD[:1], REFERENCES[:1], language="en", intervals=True)
    assert scores == corpus_scores(GOOD[:1], REFERENCES[:1], language="en")


def test_resamples_of_empty_references_alone_leave_no_interval() -> None:
    hypotheses, references = [GOOD[1], ""], [REFERENCES[1], ""]  # a quarter of all resamples
    bleu, *others = corpus_scores(hypotheses, references, language="en", intervals=True)
    assert bleu.half_width is not None
    assert bleu.half_width > 0
    assert others == corpus_scores(hypotheses, references, language="en")[1:]
    assert [(score.mean, score.half_width) for score in others] == [(None, None)] * 2


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (GOOD[:5], REFERENCES, "5 hypotheses for 6 references"),
        (GOOD, REFERENCES[:5], "6 hypotheses for 5 references"),
        ([], [], "0 hypotheses for 0 references"),
    ],
)
def test_unequal_numbers_are_refused(
    hypotheses: list[str], references: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        corpus_scores(hypotheses, references, language="en")


@pytest.fixture
def no_choices() -> Iterator[None]:
    """No tokenizer is remembered from before, and none of this test afterwards."""
    choose_tokenizer.cache_clear()
    yield
    choose_tokenizer.cache_clear()


CHINESE = ["我今天早上去了图书馆。", "她在这个城市住了十年。", "请给我一杯咖啡，谢谢。"]
CHINESE_OUTPUTS = ["我今天早上去图书馆。", "她在这座城市住了十年。", "请给我一杯咖啡，谢谢！"]


@pytest.mark.parametrize("language", ["zh", "zh-Hans", "zh_TW", "ZH", "zho", "cmn-Hant", "yue"])
def test_chinese_is_scored_by_sacrebleus_own_rule(language: str) -> None:
    bleu, _, ter = corpus_scores(CHINESE_OUTPUTS, CHINESE, language=language)
    assert bleu.value == BLEU(trg_lang="zh").corpus_score(CHINESE_OUTPUTS, [CHINESE]).score > 50
    assert "|tok:zh|" in bleu.signature
    assert 0 < ter.value < 50  # of characters: of whole sentences it would be 100
    assert "|norm:yes|punct:yes|asian:yes|" in ter.signature


@pytest.mark.parametrize(
    ("language", "extra"), [("ja", "ja"), ("jpn", "ja"), ("ja-JP", "ja"), ("ko", "ko")]
)
def test_japanese_and_korean_are_scored_by_characters_without_mecab(
    language: str, extra: str, monkeypatch: pytest.MonkeyPatch, no_choices: None
) -> None:
    module = f"sacrebleu.tokenizers.tokenizer_{extra}_mecab"
    monkeypatch.setattr(importlib.import_module(module), "MeCab", None)
    references = ["私は今朝図書館に行きました。", "나는 오늘 아침 도서관에 갔다."]
    outputs = ["私は今朝図書館へ行きました。", "나는 오늘 아침에 도서관에 갔다."]
    with pytest.warns(UserWarning, match=rf"pip install 'sacrebleu\[{extra}\]'"):
        bleu = corpus_scores(outputs, references, language=language, names=("BLEU",))[0]
    assert "|tok:char|" in bleu.signature
    assert 50 < bleu.value < 100


def test_japanese_is_scored_with_mecab_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, no_choices: None
) -> None:
    class Spaced:
        def __call__(self, line: str) -> str:
            return " ".join(line)

        def signature(self) -> str:
            return "ja-mecab-of-a-test"

    module = importlib.import_module("sacrebleu.tokenizers.tokenizer_ja_mecab")
    monkeypatch.setattr(module, "TokenizerJaMecab", Spaced)
    bleu = corpus_scores(["今日は"], ["今日は"], language="ja", names=("BLEU",))[0]
    assert "|tok:ja-mecab-of-a-test|" in bleu.signature


@pytest.mark.parametrize("language", ["th", "lo", "km", "my", "tha"])
def test_scripts_without_spaces_are_scored_by_characters(language: str) -> None:
    references = ["ฉันไปห้องสมุดเมื่อเช้านี้", "เขาอยู่ที่นี่มาสิบปี"]
    outputs = ["ฉันไปห้องสมุดเช้านี้", "เขาอยู่ที่นี่มาสิบปี"]
    bleu = corpus_scores(outputs, references, language=language, names=("BLEU",))[0]
    assert "|tok:char|" in bleu.signature
    assert 50 < bleu.value < 100


@pytest.mark.parametrize("language", ["en", "es", "de-AT", "zu", "jav", "", "xx"])
def test_other_languages_are_scored_as_ever(language: str) -> None:
    scores = corpus_scores(GOOD, REFERENCES, language=language)
    assert scores == corpus_scores(GOOD, REFERENCES, language="en")
    assert "|tok:13a|" in scores[0].signature
    assert "|norm:no|punct:yes|asian:no|" in scores[2].signature
