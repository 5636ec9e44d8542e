"""What an evaluation tells beside the corpus scores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.data.splitting import Pair
from nmt.inference.evaluation import Evaluation


def sentence(words: int, stem: str) -> str:
    return " ".join(f"{stem}{i}" for i in range(words))


def evaluation(lengths: list[int]) -> Evaluation:
    """Sources of these lengths; every second output is its reference."""
    pairs = [Pair(sentence(n, "s"), sentence(n + 1, "t")) for n in lengths]
    outputs = [
        pair.target if i % 2 else pair.target.replace("t0", "wrong") for i, pair in enumerate(pairs)
    ]
    return Evaluation(pairs, outputs, [], "en")


def test_every_sentence_is_in_the_class_of_its_source_length() -> None:
    classes = evaluation([1, 5, 6, 10, 11, 20, 21, 90, 4]).by_length
    counts = {lengths.words: lengths.sentences for lengths in classes}
    assert counts == {"1-5": 3, "6-10": 2, "11-20": 2, "over 20": 2}


def test_the_length_of_a_source_without_spaces_is_counted_in_letters() -> None:
    pairs = [Pair("他买了面包、牛奶和鸡蛋。", "t"), Pair("你好。", "t")]
    classes = Evaluation(pairs, ["t", "t"], [], "en").by_length
    assert [lengths.words for lengths in classes] == ["1-5", "11-20"]


def test_classes_without_sentences_are_left_out() -> None:
    assert [lengths.words for lengths in evaluation([7, 30]).by_length] == ["6-10", "over 20"]


def test_a_class_is_scored_on_its_own_sentences() -> None:
    evaluated = evaluation([12, 7, 13, 8])
    classes = {lengths.words: lengths for lengths in evaluated.by_length}
    for words, chosen in (("6-10", (1, 3)), ("11-20", (0, 2))):
        outputs = [evaluated.outputs[i] for i in chosen]
        references = [[evaluated.pairs[i].target for i in chosen]]
        bleu, chrf = classes[words].scores
        assert bleu.value == pytest.approx(BLEU().corpus_score(outputs, references).score)
        assert chrf.value == pytest.approx(
            CHRF(word_order=2).corpus_score(outputs, references).score
        )
    assert classes["6-10"].scores[0].value == pytest.approx(100)
    assert classes["11-20"].scores[0].value < 100


def test_the_worst_sentences_come_worst_first() -> None:
    pairs = [Pair("a", "the cat sat on the mat"), Pair("b", "good morning"), Pair("c", "thank you")]
    outputs = ["the cat sat on a mat", "good morning", "zzz"]
    evaluated = Evaluation(pairs, outputs, [], "en")
    worst = evaluated.worst(2)
    assert [(scored.source, scored.reference, scored.output) for scored in worst] == [
        ("c", "thank you", "zzz"),
        ("a", "the cat sat on the mat", "the cat sat on a mat"),
    ]
    expected = CHRF(word_order=2).sentence_score(outputs[0], [pairs[0].target]).score
    assert worst[0].score == 0
    assert worst[1].score == pytest.approx(expected)
    assert len(evaluated.worst(10)) == 3
    assert evaluated.worst(0) == []


def test_further_references_count_everywhere() -> None:
    pairs = [Pair("a", "the cat sat on the mat"), Pair("b", "good morning"), Pair("c d", "thanks")]
    outputs = ["the cat sat on the mat", "good day to you", "thank you"]
    more = [[None, "good day to you", None], [None, "hello", "thank you"]]
    evaluated = Evaluation(pairs, outputs, [], "en", ["x"] * 3, more)
    assert [sentence.score for sentence in evaluated.worst(3)] == pytest.approx([100] * 3)
    assert evaluated.by_length[0].scores[1].value == pytest.approx(100)
    assert evaluated.by_group[0].scores[1].value == pytest.approx(100)
    written = evaluated.as_json()["outputs"]
    assert "more_references" not in written[0]
    assert written[1]["more_references"] == ["good day to you", "hello"]
    assert written[2]["more_references"] == ["thank you"]


def test_each_of_two_languages_is_scored_by_its_own_rules() -> None:
    pairs = [Pair("<2en> 你走了吗？", "Did you go?"), Pair("<2zh> Hello, Ana.", "你好，安娜。")]
    outputs = ["Did you go?", "你好，安娜！"]
    evaluated = Evaluation(pairs, outputs, [], "en", indices_by_language={"en": [0], "zh": [1]})
    english, chinese = evaluated.by_language
    assert (english.language, chinese.language, chinese.sentences) == ("en", "zh", 1)
    assert "|tok:13a|" in english.scores[0].signature
    assert "|tok:zh|" in chinese.scores[0].signature
    expected = BLEU(tokenize="zh").corpus_score(outputs[1:], [[pairs[1].target]]).score
    assert chinese.scores[0].value == pytest.approx(expected)
    content = evaluated.as_json()["by_language"]
    assert [part["language"] for part in content] == ["en", "zh"]
    assert content[1]["BLEU"] == chinese.scores[0].value
    one = replace(evaluated, indices_by_language={"zh": [0, 1]})
    assert one.by_language == []
    assert "by_language" not in one.as_json()


def test_the_file_holds_the_classes() -> None:
    content = evaluation([3, 8, 9]).as_json()
    assert [part["words"] for part in content["by_length"]] == ["1-5", "6-10"]
    assert content["by_length"][1]["BLEU"] > content["by_length"][0]["BLEU"]


def test_groups_are_scored_apart_if_they_are_large_and_together_otherwise() -> None:
    """Sentences of odd index are translated perfectly: those of "film" and "b"."""
    groups = ["talk" if i % 2 == 0 else "film" for i in range(40)] + ["a", "b", "a", "b"]
    evaluated = replace(evaluation([6] * len(groups)), groups=groups)
    assert [(each.group, each.sentences) for each in evaluated.by_group] == [
        ("talk", 20),
        ("film", 20),
        (None, 4),
    ]
    talk, film, others = (each.scores[-1].value for each in evaluated.by_group)
    assert talk < others < film == pytest.approx(100)
    content = evaluated.as_json()["by_group"]
    assert [part["group"] for part in content] == ["talk", "film", None]
    assert content[0]["chrF2++"] == talk
    assert "by_group" not in evaluation([6]).as_json()
