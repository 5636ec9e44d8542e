"""Text in one language becomes pairs, filtered and recorded, line by line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_corpora import configure

from nmt.config import SourceConfig
from nmt.data.languages import make_identifier
from nmt.errors import UserError
from nmt.inference.contract import SamplingRequest, SearchRequest
from nmt.inference.results import Translation
from nmt.inference.synthesis import (
    Filters,
    Synthesizer,
    SyntheticPair,
    count_repeats,
    default_filters,
)
from nmt.inference.synthetic_corpus import SyntheticCorpus, describe_origin, write_corpus

ANY = Filters(None, max_repeats=3, max_length_ratio=2.0, length_ratio_margin=5)


class Stub:
    """A translator that looks up its translations."""

    def __init__(self, translations: dict[str, tuple[str, float]]) -> None:
        self.translations = translations
        self.requests: list[tuple[list[str], Any]] = []

    def run(self, texts: Sequence[str], request: Any) -> list[list[Translation]]:
        self.requests.append((list(texts), request))
        return [
            [Translation(*self.translations[text], 0.0, tuple(range(4)))] if text else []
            for text in texts
        ]


def synthesize(
    translations: dict[str, tuple[str, float]], filters: Filters = ANY, **options: Any
) -> list[SyntheticPair]:
    translator: Any = Stub(translations)
    return Synthesizer(translator, SearchRequest(), filters, **options).synthesize(
        list(translations), 0
    )


def test_each_reason_is_found() -> None:
    translations = {
        "Hola.": ("Hello.", -1.0),
        "": ("", 0.0),
        "Nada.": ("", -1.0),
        "Taxi.": ("taxi.", -1.0),
        "Seguro.": ("Sure.", -9.0),
        "Corto.": ("It is much too long for that.", -1.0),
        "Ja ja ja.": ("ha ha ha", -1.0),
        "No me digas que no.": ("no no no no", -1.0),
    }
    filters = Filters(-2.0, max_repeats=3, max_length_ratio=2.0, length_ratio_margin=5)
    assert [pair.reason for pair in synthesize(translations, filters)] == [
        *("", "empty", "empty", "copied", "score", "length ratio", "", "repetition"),
    ]


def test_lengths_are_compared_as_the_run_has_them() -> None:
    translations = {"a" * 40: ("一二三四五六七八九十", -1.0), "b" * 40: ("b" * 39, -1.0)}
    assert [pair.reason for pair in synthesize(translations)] == ["length ratio", ""]
    compact = replace(ANY, length_ratio=0.25)
    assert [pair.reason for pair in synthesize(translations, compact)] == ["", "length ratio"]


@pytest.mark.parametrize(
    ("reverse", "source_reverse", "expected"),
    [(False, False, 4.0), (True, False, 0.25), (False, True, 0.25), (True, True, 4.0)],
)
def test_the_length_ratio_is_that_of_the_direction_of_the_model(
    reverse: bool, source_reverse: bool, expected: float
) -> None:
    source = SourceConfig("files", path="a", reverse=source_reverse)
    data = configure({"new": source, "pairs": source}, reverse=reverse)
    assert default_filters(data, {"pairs": 4.0}).length_ratio == expected
    assert default_filters(data, {}).length_ratio == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 1),
        ("a b a b c", 2),
        ("x a b a b a b", 3),
        ("A a a a", 4),
        ("a b c a b c", 2),
        ("y z a b c a b c a b c", 3),
        ("a b b a", 2),
        ("不不不不好", 4),
    ],
)
def test_repeats_are_counted(text: str, expected: int) -> None:
    assert count_repeats(text) == expected


def test_repeats_of_the_text_itself_are_no_fault() -> None:
    assert synthesize({"no no no no": ("not not not not", -1.0)})[0].reason == ""


def test_round_trips_are_compared() -> None:
    translations = {"Una casa grande.": ("A big house.", -1.0), "Un perro.": ("A cat.", -1.0)}
    back: Any = Stub({"A big house.": ("Una casa grande.", 0.0), "A cat.": ("Un gato.", 0.0)})
    filters = Filters(None, 3, 2.0, 5, min_round_trip=60.0)
    assert [pair.reason for pair in synthesize(translations, filters, back_translator=back)] == [
        "",
        "round trip",
    ]
    [(texts, _)] = back.requests
    assert texts == ["A big house.", "A cat."]


def test_languages_are_identified() -> None:
    identify = make_identifier(("es-MX", "en"), "--language")
    assert identify("¿Dónde está la estación de trenes?") == "es"
    assert identify("Where is the railway station, please?") == "en"
    assert identify("1234") in ("es", "en", None)
    filters = Filters(None, 3, 2.0, 5, languages=("es", "en"))
    translations = {
        "¿Dónde está la estación de trenes?": ("Where is the railway station?", -1.0),
        "El tren sale a las ocho.": ("El tren sale hoy a las ocho.", -1.0),
    }
    assert [pair.reason for pair in synthesize(translations, filters)] == ["", "language"]
    variants = Filters(None, 3, 2.0, 9, languages=("pt-PT", "pt-BR"))
    translations = {"O autocarro chega às oito horas.": ("O ônibus chega às oito horas.", -1.0)}
    assert [pair.reason for pair in synthesize(translations, variants)] == [""]
    with pytest.raises(UserError, match="--language does not support xx"):
        make_identifier(("xx", "en"), "--language")


def test_noise_drops_and_moves_words_alike_wherever_a_line_stands() -> None:
    words = " ".join(f"w{i}" for i in range(200))
    filters = Filters(None, 3, 99.0, 0)
    translator: Any = Stub({"a": (words, -1.0)})
    synthesizer = Synthesizer(translator, SearchRequest(), filters, adds_noise=True, seed=1)
    first, second = (pair.translation.split() for pair in synthesizer.synthesize(["a", "a"], 0))
    assert first != second
    assert synthesizer.synthesize(["a"], 1)[0].translation.split() == second
    assert set(first) < set(words.split())
    assert 150 < len(first) < 195
    numbers = [int(word[1:]) for word in first]
    assert numbers != sorted(numbers)
    assert max(abs(number - rank) for rank, number in enumerate(numbers)) < 45
    order = sorted(numbers)
    assert max(abs(order.index(number) - rank) for rank, number in enumerate(numbers)) <= 3


def test_draws_depend_on_the_line_alone() -> None:
    translator: Any = Stub({"a": ("b", -1.0)})
    synthesizer = Synthesizer(translator, SamplingRequest(1, seed=7), ANY)
    synthesizer.synthesize(["a"], 0)
    synthesizer.synthesize(["a"], 100)
    assert [request.seed for _, request in translator.requests] == [7, 107]
    Synthesizer(translator, SamplingRequest(1, seed=2**32 - 1), ANY).synthesize(["a"], 100)
    assert translator.requests[-1][1].seed == 99


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.en"
    path.write_text("".join(f"line {i}\n" for i in range(10)), encoding="utf-8")
    return path


TRANSLATIONS = {f"line {i}": (f"línea {i}" if i % 3 else "a a a a", -1.0) for i in range(10)}


def make_synthesizer() -> Synthesizer:
    translator: Any = Stub(TRANSLATIONS)
    return Synthesizer(translator, SearchRequest(), ANY)


@pytest.mark.parametrize("kind", ["back", "forward"])
def test_a_corpus_has_the_translation_on_its_side(text: Path, kind: str) -> None:
    corpus = SyntheticCorpus(text.with_name("out.tsv"), kind, {"kind": kind})
    corpus.start()
    write_corpus(text, corpus, make_synthesizer(), shows_progress=False)
    rows = [row.split("\t") for row in lines_of(corpus.output)]
    expected = [[f"línea {i}", f"line {i}"] for i in range(10) if i % 3]
    assert rows == (expected if kind == "back" else [row[::-1] for row in expected])
    rejects = [row.split("\t") for row in lines_of(corpus.rejects)]
    assert [row[0] for row in rejects] == ["repetition"] * 4
    record = json.loads(corpus.record.read_text(encoding="utf-8"))
    assert (record["lines"], record["kept"], record["rejected"]) == (10, 6, {"repetition": 4})
    assert record["finished"] is True
    assert record["origin"] == {"kind": kind}


def test_an_interrupted_corpus_goes_on_where_it_was(text: Path, tmp_path: Path) -> None:
    complete = SyntheticCorpus(tmp_path / "complete.tsv", "back", {"a": 1})
    complete.start()
    write_corpus(text, complete, make_synthesizer(), shows_progress=False)

    interrupted = SyntheticCorpus(tmp_path / "interrupted.tsv", "back", {"a": 1})
    interrupted.start()
    interrupted.write(make_synthesizer().synthesize([f"line {i}" for i in range(4)], 0))
    with interrupted.output.open("a") as file:
        file.write("half of a li")  # was being written when the power went
    with interrupted.rejects.open("a") as file:
        file.write("half of another\n")
    resumed = SyntheticCorpus(interrupted.output, "back", {"a": 1})
    resumed.resume()
    assert (resumed.lines, resumed.accepted) == (4, 2)
    write_corpus(text, resumed, make_synthesizer(), shows_progress=False)
    assert resumed.output.read_bytes() == complete.output.read_bytes()
    assert resumed.rejects.read_bytes() == complete.rejects.read_bytes()
    assert json.loads(resumed.record.read_text()) == json.loads(complete.record.read_text())
    # And once more: there is nothing left to do.
    again = SyntheticCorpus(interrupted.output, "back", {"a": 1})
    again.resume()
    write_corpus(text, again, make_synthesizer(), shows_progress=False)
    assert again.output.read_bytes() == complete.output.read_bytes()


def test_the_record_of_samples_has_the_names_of_older_records(text: Path) -> None:
    """Otherwise, corpora that an older version has started could not be resumed."""
    translator: Any = Stub(TRANSLATIONS)
    sampled = Synthesizer(translator, SamplingRequest(5, top_k=10), ANY)
    assert describe_origin("back", [], text, sampled)["draw"] == {
        "count": 5,
        "temperature": 1.0,
        "top_k": 10,
        "top_p": 1.0,
        "seed": 1,
        "prefix": "",
        "agreeing": False,
    }


def make_origin(folder: str, digest: str | None = "a", **changes: Any) -> dict[str, Any]:
    return {
        "runs": [f"{folder}/run"],
        "weights": [digest],
        "file": f"{folder}/text.en",
        "file_sha256": "c",
        "round_trip": {"run": f"{folder}/back", "weights": ["b"]},
        **changes,
    }


def test_a_corpus_resumes_wherever_its_files_are(tmp_path: Path) -> None:
    output = tmp_path / "out.tsv"
    SyntheticCorpus(output, "back", make_origin("here")).start()
    moved = SyntheticCorpus(output, "back", make_origin("/there"))
    moved.resume()
    moved.finish()
    assert json.loads(moved.record.read_text())["origin"] == make_origin("/there")


@pytest.mark.parametrize(
    ("started", "resumed", "expected"),
    [
        ({}, {"file_sha256": "d"}, "file 'here/text.en', got '/there/text.en'"),
        ({}, {"weights": ["b"]}, r"runs \['here/run'\], got \['/there/run'\]"),
        ({"digest": None}, {"digest": None}, r"runs \['here/run'\], got"),
        ({}, {"round_trip": {"run": "/there/back", "weights": ["d"]}}, "round_trip {'run': 'here"),
        ({}, {"round_trip": None}, "round_trip {'run': 'here/back'"),
    ],
)
def test_a_corpus_of_other_files_is_not_resumed(
    tmp_path: Path, started: dict[str, Any], resumed: dict[str, Any], expected: str
) -> None:
    output = tmp_path / "out.tsv"
    SyntheticCorpus(output, "back", make_origin("here", **started)).start()
    with pytest.raises(UserError, match=f"was started with {expected}"):
        SyntheticCorpus(output, "back", make_origin("/there", **resumed)).resume()


def test_what_cannot_be_gone_on_with_is_said(text: Path, tmp_path: Path) -> None:
    corpus = SyntheticCorpus(tmp_path / "out.tsv", "back", {"beam": 4})
    corpus.resume()  # begins
    write_corpus(text, corpus, make_synthesizer(), shows_progress=False)
    with pytest.raises(UserError, match="already exists"):
        corpus.start()
    with pytest.raises(UserError, match="was started with beam 4, got 5"):
        SyntheticCorpus(corpus.output, "back", {"beam": 5}).resume()
    content = corpus.output.read_bytes()
    corpus.output.write_bytes(content[:10])
    with pytest.raises(UserError, match="is shorter than"):
        SyntheticCorpus(corpus.output, "back", {"beam": 4}).resume()
    corpus.output.unlink()
    with pytest.raises(UserError, match="is missing"):
        SyntheticCorpus(corpus.output, "back", {"beam": 4}).resume()
    corpus.record.write_text("{}")
    with pytest.raises(UserError, match="is damaged"):
        SyntheticCorpus(corpus.output, "back", {"beam": 4}).resume()
    corpus.record.unlink()
    corpus.output.write_bytes(content)
    with pytest.raises(UserError, match=r"cannot be resumed, as .* is missing"):
        SyntheticCorpus(corpus.output, "back", {"beam": 4}).resume()
    corpus.output.write_bytes(b"")  # killed before the record was written
    SyntheticCorpus(corpus.output, "back", {"beam": 4}).resume()
    assert corpus.record.is_file()
