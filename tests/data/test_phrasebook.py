"""The form of the embedded corpus."""

from __future__ import annotations

import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from sample_corpora import complaint

from nmt.data import embedded
from nmt.data.embedded import phrasebook_dir, read_patterns
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
    """Two good translations are useful; a third would repeat the lesson."""
    for side in (0, 1):
        counts = Counter(line.split("\t")[side] for _, line in LINES)
        assert counts.most_common(1)[0][1] <= 2, counts.most_common(1)


def test_sentences_are_of_1_to_25_words() -> None:
    for location, line in LINES:
        assert all(1 <= len(side.split()) <= 25 for side in line.split("\t")), location


def test_every_line_is_one_clean_pair() -> None:
    for location, line in LINES:
        sides = line.split("\t")
        assert len(sides) == 2, location
        for side in sides:
            assert side == " ".join(side.split()) != "", location
            assert side == unicodedata.normalize("NFC", side), location
            assert side.isprintable(), location


def test_no_pair_stands_twice() -> None:
    locations: dict[str, str] = {}
    for location, line in LINES:
        assert line not in locations, f"{location} repeats {locations[line]}"
        locations[line] = location


def test_punctuation_matches() -> None:
    for location, line in LINES:
        spanish, english = line.split("\t")
        assert final_mark(spanish) == final_mark(english), location
        assert spanish.count("¿") == spanish.count("?"), location
        assert spanish.count("¡") == spanish.count("!"), location
        assert "¿" not in english, location
        assert "¡" not in english, location


def final_mark(text: str) -> str:
    """Return what ends a sentence; nothing for a label, a heading, a word or a phrase."""
    assert text[-1].isalnum() or text[-1] in ".?!%)", text
    return text[-1] if text[-1] in ".?!" else ""


def test_spanish_stands_first() -> None:
    """Frequent words of one language are rare on the other's side."""
    spanish_words = set(
        "el la los las un una que de en y no es está por con mi me se lo su".split()
    )
    english_words = set("the a an of to in and is are i you it my that for on with do your".split())
    for location, line in LINES:
        left, right = (set(normalized(side).split()) for side in line.split("\t"))
        wrong = len(left & english_words - spanish_words - {"a", "no", "me"})
        wrong += len(right & spanish_words - english_words - {"a", "no", "me", "son"})
        right_way = len(left & spanish_words) + len(right & english_words)
        assert wrong <= right_way, location


def test_the_first_generated_pairs_are_read() -> None:
    pairs = read_patterns(60_000, "pairs")
    assert len(set(pairs)) == 60_000
    assert all(pair.source and pair.target for pair in pairs)
    assert read_patterns(3, "pairs") == pairs[:3]
    assert read_patterns(0, "pairs") == []


def test_more_pairs_than_were_generated() -> None:
    message = complaint(lambda: read_patterns(60_001, "data.sources.patterns.pairs"))
    assert message == (
        "data.sources.patterns.pairs must be at most 60000, the number of generated pairs, "
        "got 60001"
    )


def test_a_missing_table_of_generated_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "__file__", str(tmp_path / "nmt" / "data" / "embedded.py"))
    message = complaint(lambda: read_patterns(1, "pairs"))
    assert message == f"{tmp_path / 'data' / 'patterns.tsv.xz'} is missing: reinstall nmt"
