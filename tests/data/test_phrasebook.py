"""The form of the embedded corpus."""

from __future__ import annotations

import unicodedata
from collections import Counter

from nmt.data.embedded import phrasebook_dir
from nmt.data.splitting import normalized

FILES = sorted(phrasebook_dir().glob("*.tsv"))
LINES = [
    (f"{path.name}:{number}", line)
    for path in FILES
    for number, line in enumerate(path.read_bytes().decode("utf-8").split("\n")[:-1], start=1)
]


def test_there_are_thousands_of_pairs_over_many_topics() -> None:
    assert len(FILES) >= 25
    assert len(LINES) >= 5000


def test_no_sentence_stands_more_than_twice() -> None:
    """Two good translations may both stand; more would only teach the same thing again."""
    for side in (0, 1):
        counts = Counter(line.split("\t")[side] for _, line in LINES)
        assert counts.most_common(1)[0][1] <= 2, counts.most_common(1)


def test_sentences_are_of_1_to_25_words() -> None:
    for place, line in LINES:
        assert all(1 <= len(side.split()) <= 25 for side in line.split("\t")), place


def test_every_line_is_one_clean_pair() -> None:
    for place, line in LINES:
        sides = line.split("\t")
        assert len(sides) == 2, place
        for side in sides:
            assert side == " ".join(side.split()) != "", place
            assert side == unicodedata.normalize("NFC", side), place
            assert side.isprintable(), place


def test_no_pair_stands_twice() -> None:
    places: dict[str, str] = {}
    for place, line in LINES:
        assert line not in places, f"{place} repeats {places[line]}"
        places[line] = place


def test_punctuation_matches() -> None:
    for place, line in LINES:
        spanish, english = line.split("\t")
        assert spanish[-1] in ".?!", place
        assert spanish[-1] == english[-1], place
        assert spanish.count("¿") == spanish.count("?"), place
        assert spanish.count("¡") == spanish.count("!"), place
        assert "¿" not in english, place
        assert "¡" not in english, place


def test_spanish_stands_first() -> None:
    """Frequent words of one language are rare on the other's side."""
    spanish_words = set(
        "el la los las un una que de en y no es está por con mi me se lo su".split()
    )
    english_words = set("the a an of to in and is are i you it my that for on with do your".split())
    for place, line in LINES:
        left, right = (set(normalized(side).split()) for side in line.split("\t"))
        wrong = len(left & english_words - spanish_words - {"a", "no", "me"})
        wrong += len(right & spanish_words - english_words - {"a", "no", "me", "son"})
        right_way = len(left & spanish_words) + len(right & english_words)
        assert wrong <= right_way, place
