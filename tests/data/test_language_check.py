"""Sources whose sides are swapped or in another language are refused, and no others."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import pytest
from conftest import corpus_lines
from sample_corpora import complaint, configure, load_pairs, singles
from sample_prepared import plan, prepared

from nmt.config import SourceConfig
from nmt.data.corpus import EvaluationSet, load_corpus
from nmt.data.language_check import check_test_sets, find_languages
from nmt.data.languages import (
    are_similar,
    describe_language,
    find_code,
    load_identifier,
    make_identifier,
)
from nmt.data.splitting import Pair

GERMAN = """\
Der Zug nach Hamburg fährt heute leider mit zwanzig Minuten Verspätung ab.
Könnten Sie mir bitte sagen, wo ich hier eine Apotheke finde?
Wir haben gestern Abend lange auf dem Balkon gesessen und uns unterhalten.
Meine Schwester arbeitet seit drei Jahren in einem Krankenhaus in München.
Es wäre schön, wenn du morgen früher nach Hause kommen könntest.
Das Wetter soll am Wochenende endlich wieder besser werden.
Ich habe vergessen, die Milch und das Brot einzukaufen.
Der Lehrer erklärte die Aufgabe noch einmal, weil niemand sie verstanden hatte.
Am Freitag treffen wir uns um sieben Uhr vor dem Kino.
Die Kinder spielen im Garten, obwohl es seit einer Stunde regnet.
Hast du schon gehört, dass unsere Nachbarn im Sommer umziehen wollen?
Ohne deine Hilfe hätte ich den Schrank niemals aufbauen können.
Sie wollte eigentlich Ärztin werden, studierte dann aber Geschichte.
Bitte schicken Sie die Rechnung an die Anschrift, die unten angegeben ist.
Im Herbst gehen wir gern in den Wald, um Pilze zu sammeln.
Der Hund schläft am liebsten unter dem Tisch in der Küche.
Wenn ich genug Zeit hätte, würde ich jeden Tag ein Buch lesen.
Nach dem Essen machten wir einen langen Spaziergang am Fluss entlang.
Auf dem Markt gibt es heute frische Erdbeeren und junge Kartoffeln.
Er konnte sich nicht daran erinnern, wo er sein Fahrrad abgestellt hatte.""".split("\n")


@cache
def phrasebook() -> list[tuple[str, str]]:
    lines = [line.split("\t") for line in corpus_lines(1000)]
    return [(line[0], line[1]) for line in lines]


def spanish_and_english(count: int, seed: int = 1) -> list[tuple[str, str]]:
    return random.Random(seed).sample(phrasebook(), count)


def swapped(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(target, source) for source, target in pairs]


def german_and_english() -> list[tuple[str, str]]:
    english = [target for _, target in spanish_and_english(3 * len(GERMAN))]
    return [(german, " ".join(english[3 * i : 3 * i + 3])) for i, german in enumerate(GERMAN)]


def refusal(tmp_path: Path, pairs: list[tuple[str, str]], **changes: Any) -> str:
    return complaint(lambda: load_pairs(tmp_path, pairs, check_languages=True, **changes))


def test_swapped_columns_are_refused_with_the_remedy(tmp_path: Path) -> None:
    pairs = swapped(spanish_and_english(100))
    message = refusal(tmp_path, pairs)
    assert message == (
        "data=files: the source side is English (en) and the target side Spanish (es): set "
        "'data.columns=[1,0]', or data.source_language=en data.target_language=es "
        "(data.check_languages=false skips this check)"
    )
    load_pairs(tmp_path, pairs, check_languages=True, columns=[1, 0])
    load_pairs(tmp_path, pairs, check_languages=True, source_language="en", target_language="es-MX")
    load_pairs(tmp_path, pairs, check_languages=False)
    rows = [("1", source, target) for source, target in pairs]
    (tmp_path / "three.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    source = SourceConfig(kind="files", path=str(tmp_path / "three.tsv"), columns=[1, 2, 0])
    config = configure({"talks": source}, check_languages=True)
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert "set 'data.sources.talks.columns=[2,1,0]', or" in message


@pytest.mark.parametrize("reverse", [False, True])
def test_a_swapped_test_set_is_refused_with_the_remedy(reverse: bool) -> None:
    held_out = spanish_and_english(100)

    def check(pairs: list[tuple[str, str]], **changes: Any) -> None:
        views = [Pair(*pair) for pair in (swapped(pairs) if reverse else pairs)]
        settings = {"tests": {"news": "news.tsv"}, "check_languages": True, "reverse": reverse}
        config = configure(path="train.tsv", **(settings | changes))
        check_test_sets(config, {"news": EvaluationSet(views, views)})

    check(held_out)
    check(swapped(held_out), check_languages=False)
    sides = ("Spanish (es)", "English (en)") if reverse else ("English (en)", "Spanish (es)")
    assert complaint(lambda: check(swapped(held_out))) == (
        f"data.tests.news=news.tsv: the source side is {sides[0]} and the target side {sides[1]}: "
        "exchange its columns, or name them in a first line, as in en TAB es "
        "(data.check_languages=false skips this check)"
    )


def test_swapped_files_are_refused_with_the_remedy(tmp_path: Path) -> None:
    pairs = spanish_and_english(100)
    paths = [str(tmp_path / "a.en"), str(tmp_path / "a.es")]
    for path, side in zip(paths, (1, 0), strict=True):
        Path(path).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    config = configure(path=paths, check_languages=True)
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert f"set 'data.train=[{paths[1]},{paths[0]}]'" in message
    load_corpus(configure(path=paths[::-1], check_languages=True), cache_dir=tmp_path)
    load_corpus(config, cache_dir=tmp_path, read_only=True)  # of a run that exists


def test_a_packed_memory_has_no_columns_to_exchange(tmp_path: Path) -> None:
    units = "".join(
        f'<tu><tuv xml:lang="es"><seg>{escape(target)}</seg></tuv>'
        f'<tuv xml:lang="en"><seg>{escape(source)}</seg></tuv></tu>'
        for source, target in spanish_and_english(100)
    )
    path = tmp_path / "a.tmx.gz"
    path.write_bytes(gzip.compress(f"<tmx><body>{units}</body></tmx>".encode()))
    config = configure(path=str(path), check_languages=True)
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert "set data.source_language=en data.target_language=es (data.check" in message


def test_another_language_is_refused_with_the_remedy(tmp_path: Path) -> None:
    pairs = german_and_english()
    message = refusal(tmp_path, pairs)
    assert message.startswith(
        "data=files: data.source_language=es, but that side is German (de): set "
        "data.source_language=de (data.check"
    )
    message = refusal(tmp_path, pairs, source_language="fr", target_language="it")
    assert "set data.source_language=de data.target_language=en (" in message
    load_pairs(tmp_path, pairs, check_languages=True, source_language="de")


def test_a_side_in_the_language_of_the_other_is_refused(tmp_path: Path) -> None:
    """Where a column holds the other language again, its language is not the remedy."""
    english = [target for _, target in spanish_and_english(200)]
    message = refusal(tmp_path, list(zip(english[:100], english[100:], strict=True)))
    assert "data.source_language=es, but that side is English (en)" in message
    assert "set the files or columns of the two languages" in message


def test_the_embedded_corpus_beside_a_corpus_of_other_languages_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "corpus.tsv"
    path.write_text("".join("\t".join(pair) + "\n" for pair in german_and_english()))
    written = SourceConfig(kind="phrasebook", split="train")
    pairs = SourceConfig(kind="files", path=str(path))
    changes = {"source_language": "de", "check_languages": True}

    def refuse(sources: dict[str, SourceConfig]) -> str:
        config = configure(sources, **changes)
        return complaint(lambda: load_corpus(config, cache_dir=tmp_path))

    fault = "data.source_language=de, but that side is Spanish (es): "
    assert refuse({"pairs": pairs, "written": written}) == (
        f"source 'written': {fault}leave it out with '~data.sources.written' "
        "(data.check_languages=false skips this check)"
    )
    load_corpus(configure({"pairs": pairs}, **changes), cache_dir=tmp_path)
    assert f"{fault}set data.source_language=es (" in refuse({"written": written})
    changes = {"source_language": "en", "target_language": "es", "check_languages": True}
    advice = refuse({"written": written, "pairs": pairs})  # swapped
    assert "leave it out with '~data.sources.written' (" in advice
    assert "set data.reverse=true" in refuse({"written": written})


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        str.lower,
        str.upper,
        lambda text: " ".join(text.replace(".", " .").replace(",", " ,").split()).lower(),
        lambda text: f"<2en> {text}",
        lambda text: f"{text} https://example.com/a/page?of=mine",
        lambda text: " ".join(word[:3] + "@@ " + word[3:] for word in text.split()),
    ],
)
@pytest.mark.parametrize("count", [3, 10, 40, 200])
def test_good_text_is_not_refused(tmp_path: Path, count: int, change: Callable[[str], str]) -> None:
    pairs = [(change(a), change(b)) for a, b in spanish_and_english(count, seed=count)]
    load_pairs(tmp_path, pairs, check_languages=True, min_words=0)


def test_sources_that_may_differ_are_not_refused(tmp_path: Path) -> None:
    pairs = swapped(spanish_and_english(60))
    load_pairs(tmp_path, singles(200), check_languages=True, source_language="de")
    load_pairs(tmp_path, pairs, check_languages=True, tag="<2es>")
    load_pairs(tmp_path, pairs, check_languages=True, source_language="xx", target_language="xy")
    names = [(f"{pair[1]} {i}",) * 2 for i, pair in enumerate(pairs)]
    load_pairs(tmp_path, names, check_languages=True)
    mixed = [pair if i % 2 else pair[::-1] for i, pair in enumerate(pairs)]
    load_pairs(tmp_path, mixed, check_languages=True)


def test_prepared_corpora_are_checked(tmp_path: Path) -> None:
    config = plan(tmp_path, swapped(spanish_and_english(100)), check_languages=True)
    assert "'data.columns=[1,0]'" in complaint(lambda: prepared(config))


@pytest.mark.parametrize(
    ("tag", "other", "expected"),
    [
        ("nb", "nn", True),
        ("hr", "sr-Latn", True),
        ("id", "ms", True),
        ("pt-BR", "gl", True),
        ("zh-Hant", "yue", True),
        ("no", "de", False),
        ("es", "pt", False),
    ],
)
def test_similar_languages(tag: str, other: str, expected: bool) -> None:
    assert are_similar(find_code(tag), find_code(other)) is expected
    assert are_similar(find_code(other), find_code(tag)) is expected


def test_the_model_is_loaded_once_and_only_for_enough_text() -> None:
    load_identifier.cache_clear()
    assert find_languages(german_and_english()[:3]) == (None, None)
    assert find_languages([]) == (None, None)
    assert load_identifier.cache_info().misses == 0
    for _ in range(2):
        assert find_languages(german_and_english()) == ("de", "en")
    assert load_identifier.cache_info().misses == 1


def test_only_the_beginning_of_a_long_line_is_read() -> None:
    """The time for marks of a line without spaces grows with the square of its length."""
    german, english = (" ".join(side) for side in zip(*german_and_english(), strict=True))
    begin, rest = german * 2, english * 20
    assert len(begin) > 1000
    assert find_languages([(f"{begin} {rest} {n}", f"{rest} {n}") for n in range(5)]) == (
        "de",
        "en",
    )


def test_two_languages_leave_the_shared_identifier_with_all_of_its_own() -> None:
    before = load_identifier().labels
    identify = make_identifier(("es", "en"), "--language")
    assert identify("Das Wetter soll am Wochenende endlich wieder besser werden.") in (
        "es",
        "en",
        None,
    )
    assert load_identifier().labels == before
    assert find_languages(german_and_english()) == ("de", "en")


def test_languages_are_found_and_named() -> None:
    assert find_languages(german_and_english()) == ("de", "en")
    assert describe_language("de") == "German (de)"
    assert describe_language("ace") == "ace"
