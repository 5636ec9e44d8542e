"""Long texts are cut after sentences, clauses or words, and no character is lost."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.inference.joining import join_texts
from nmt.inference.segmenting import Segmenter

pytest_plugins = ("random_translator",)


def test_a_long_text_is_cut_into_few_parts_with_one_warning(tokenizer: Tokenizer) -> None:
    segmenter = Segmenter(tokenizer, 63)
    line = " ".join(["Hoy hace buen tiempo. ¿Vamos a la playa?"] * 625)  # 5,000 words
    gc.collect()  # what earlier tests left open warns when it is found
    with pytest.warns(UserWarning, match="translated in segments") as caught:
        segments, again = map(segmenter.segment, [line, line])
    assert len(caught) == 1
    assert [list(segment) for segment in again] == [list(segment) for segment in segments]
    assert all(0 < len(segment) <= segmenter.max_tokens for segment in segments)
    assert len(segments) < 1.5 * sum(map(len, segments)) / segmenter.max_tokens
    assert " ".join(tokenizer.decode(segments)) == line


def test_long_texts_are_cut_after_sentences_then_clauses_then_words(tokenizer: Tokenizer) -> None:
    segmenter = Segmenter(tokenizer, len(tokenizer.encode(["No sé si hoy va a llover,"])[0]))
    with pytest.warns(UserWarning, match="in segments"):
        segments = segmenter.segment(
            "Hoy hace frío. ¿Vamos? No sé si hoy va a llover, pero ayer hizo sol; "
            "mañana mañana mañana mañana mañana mañana mañana mañana mañana mañana"
        )
    texts = tokenizer.decode(segments)
    assert all(0 < len(segment) <= segmenter.max_tokens for segment in segments)
    assert (
        " ".join(texts).split()
        == (
            "Hoy hace frío. ¿Vamos? No sé si hoy va a llover, pero ayer hizo sol; " + "mañana " * 10
        ).split()
    )
    assert texts[0].startswith("Hoy hace frío.")
    assert any(text.endswith(",") for text in texts)
    assert any(text.endswith(";") for text in texts)


@pytest.mark.filterwarnings("ignore:a text of")
def test_a_word_longer_than_the_room_is_cut_too(tokenizer: Tokenizer) -> None:
    segmenter = Segmenter(tokenizer, 7)
    segments = segmenter.segment("z" * 50)
    assert max(map(len, segments)) == segmenter.max_tokens
    assert "".join(tokenizer.decode(segments)) == "z" * 50


@pytest.mark.filterwarnings("ignore:a text of")
def test_what_is_empty_has_no_parts_and_what_fits_has_one(tokenizer: Tokenizer) -> None:
    segmenter = Segmenter(tokenizer, 63)
    assert segmenter.segment(" \u200b\n") == []
    [ids] = segmenter.segment("  Hoy\u00a0hace frío. ")
    assert ids.tolist() == tokenizer.encode(["Hoy hace frío."])[0].tolist()
    assert segmenter.encode_whole("Hoy hace frío.").tolist() == ids.tolist()
    with pytest.raises(UserError, match="the sentence is empty"):
        segmenter.encode_whole(" ")
    with pytest.raises(UserError, match="longer than the 63 tokens"):
        segmenter.encode_whole("Hoy hace frío. " * 50)


CHARACTER_TOKENS = 3  # of a Chinese character, which the tokenizer spells in bytes


@pytest.mark.filterwarnings("ignore:a text of")
@pytest.mark.parametrize("mark", [*"。！？｡．؟۔।॥།።፧။។៕։", "。」", "！？", ". ", '." ', "؟ "])
def test_marks_of_many_scripts_end_a_sentence(tokenizer: Tokenizer, mark: str) -> None:
    sentence = f"今天很冷{mark}"
    text = (sentence * 12).strip()
    segments = tokenizer.decode(Segmenter(tokenizer, 40).segment(text))
    assert len(segments) > 1
    assert all(len(segment) % len(sentence) in (0, len(sentence.strip())) for segment in segments)
    assert all(segment.endswith(mark.strip()) for segment in segments)
    assert "".join(segments).replace(" ", "") == text.replace(" ", "")


@pytest.mark.filterwarnings("ignore:a text of")
@pytest.mark.parametrize("mark", "、，；：､،؛፣፤፥၊")
def test_marks_of_many_scripts_end_a_clause(tokenizer: Tokenizer, mark: str) -> None:
    text = f"今天很冷{mark}" * 12
    segments = tokenizer.decode(Segmenter(tokenizer, 40).segment(text))
    assert len(segments) > 1
    assert all(segment.endswith(mark) for segment in segments)
    assert "".join(segments) == text


@pytest.mark.filterwarnings("ignore:a text of")
def test_numbers_and_names_are_not_cut(tokenizer: Tokenizer) -> None:
    text = "Son las 12:30 y cuesta 3.14, según ejemplo.com y otros. " * 6
    words = {
        word
        for segment in Segmenter(tokenizer, 16).segment(text)
        for word in word_list(tokenizer, segment)
    }
    assert words == set(text.split())


def word_list(tokenizer: Tokenizer, ids: np.ndarray) -> list[str]:
    return tokenizer.decode([ids])[0].split()


@pytest.mark.filterwarnings("ignore:a text of")
@pytest.mark.parametrize("room", [4, 5, 6, 7, 16, 17, 18])
def test_no_character_is_cut(tokenizer: Tokenizer, room: int) -> None:
    """Chinese has no spaces, and this tokenizer spells its characters in three bytes each."""
    text = "今天天气很好我们去公园散步" * 4
    segments = Segmenter(tokenizer, room).segment(text)
    assert all(0 < len(segment) <= room for segment in segments)
    decoded = tokenizer.decode(segments)
    assert "".join(decoded) == text
    fitting = (room - 1) // CHARACTER_TOKENS  # and the space before the first one
    assert {len(segment) for segment in decoded[:-1]} == {fitting}


@pytest.mark.filterwarnings("ignore:a text of")
def test_what_belongs_to_a_character_stays_with_it(tokenizer: Tokenizer) -> None:
    family, letter = "👩\u200d👩\u200d👧", "कि"  # joined emoji; a letter with its vowel sign
    segmenter = Segmenter(tokenizer, 40)
    for character in (family, letter):
        for segment in tokenizer.decode(segmenter.segment(character * 20)):
            assert segment == character * (len(segment) // len(character))


@pytest.mark.filterwarnings("ignore:a text of")
def test_a_character_of_more_tokens_than_fit_is_cut_all_the_same(tokenizer: Tokenizer) -> None:
    segments = Segmenter(tokenizer, 2).segment("今天")
    assert [len(segment) for segment in segments] == [2, 2, 2, 2]
    assert tokenizer.decode([np.concatenate(segments[:2])]) == ["今"]


@pytest.mark.parametrize(
    ("segments", "language", "joined"),
    [
        (["Hello.", "World."], "en", "Hello. World."),
        (["你好。", "世界。"], "zh-Hans", "你好。世界。"),
        (["你好", "世界"], "zh_CN", "你好世界"),
        (["これは", "本です。"], "ja", "これは本です。"),
        (["สวัสดี", "ครับ"], "th", "สวัสดีครับ"),
        (["나는", "학생이다."], "ko", "나는 학생이다."),
        (["Zhang: 张", "Wei"], "en", "Zhang: 张 Wei"),
        (["Python", "3.12"], "zh", "Python 3.12"),
        (["你好。", "世界。"], "und", "你好。世界。"),
        (["ສະບາຍດີ", "ຄຣັບ"], "und", "ສະບາຍດີຄຣັບ"),
        (["Hello.", "World."], "und", "Hello. World."),
        (["", "Hello.", "", "World.", ""], "en", "Hello. World."),
        ([], "en", ""),
    ],
)
def test_translations_are_joined_as_the_target_is_written(
    segments: list[str], language: str, joined: str
) -> None:
    assert join_texts(segments, language) == joined


@pytest.mark.filterwarnings("ignore:a text of")
def test_a_tag_is_repeated_in_every_part(tokenizer: Tokenizer) -> None:
    tags = ["<2en>", "<2fr>"]
    segmenter = Segmenter(tokenizer, 24, tags)
    text = "Hoy hace frío. ¿Vamos a la playa? " * 6
    segments = segmenter.segment(f"<2fr> {text}")
    tag = tokenizer.encode(["<2fr>"])[0].tolist()
    assert len(segments) > 1
    assert all(segment[: len(tag)].tolist() == tag for segment in segments)
    assert all(len(segment) <= segmenter.max_tokens for segment in segments)
    untagged = Segmenter(tokenizer, 24 - len(tag)).segment(text)
    assert [segment[len(tag) :].tolist() for segment in segments] == [
        segment.tolist() for segment in untagged
    ]
    # A short text stays unchanged, and other words are not tags.
    assert (
        segmenter.encode_whole("<2fr> Sí.").tolist() == tokenizer.encode(["<2fr> Sí."])[0].tolist()
    )
    others = tokenizer.decode(segmenter.segment(f"<2es> {text}"))
    assert sum("<2es>" in segment for segment in others) == 1
    assert (
        sum("<2fr>" in segment for segment in tokenizer.decode(segmenter.segment(f"<2fr>{text}")))
        == 1
    )


@pytest.mark.filterwarnings("ignore:a text of")
def test_a_tag_that_leaves_no_room_is_text(tokenizer: Tokenizer) -> None:
    tag = "<2en>"
    room = len(tokenizer.encode([tag])[0])
    segments = Segmenter(tokenizer, room, [tag]).segment(f"{tag} Hoy hace frío.")
    assert all(0 < len(segment) <= room for segment in segments)
    assert "".join(tokenizer.decode(segments)).replace(" ", "") == "<2en>Hoyhacefrío."
