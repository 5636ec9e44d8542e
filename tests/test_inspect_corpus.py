"""``nmt.inspect corpus``: what it prints of a corpus, and the command that trains on it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from processes import command, inspected, one_line_error
from sample_corpora import complaint

from nmt.data.corpus import load_corpus
from nmt.data.embedded import phrasebook_dir
from nmt.inspect.corpus import make_overrides
from nmt.runs.resuming import compose_config

LINES = (phrasebook_dir() / "home.tsv").read_text(encoding="utf-8").splitlines()[:300]
SPANISH, ENGLISH = zip(*(line.split("\t") for line in LINES), strict=True)


def training_overrides(printed: str) -> list[str]:
    """Return the overrides of the printed command."""
    words = shlex.split(printed.splitlines()[-1])
    assert words[:3] == ["python", "-m", "nmt.train"]
    return words[3:]


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    rows = [f'{i},"{en}","{es}"' for i, (es, en) in enumerate(zip(SPANISH, ENGLISH, strict=True))]
    rows += ['a,"","Nada."', f'b,"{ENGLISH[4]}","{SPANISH[4]}"', f'c,"{"Too much. " * 9}","Sí."']
    path = tmp_path / "a sheet.csv"
    path.write_text("\n".join(["id,English,Español", *rows]), encoding="utf-8-sig")
    return path


def test_a_table_is_read_without_any_option(sheet: Path, tmp_path: Path) -> None:
    picture = tmp_path / "lengths.svg"
    printed = inspected("corpus", sheet, "--plot", picture)
    assert f"{len(LINES) + 3}  utf-8-sig" in printed
    assert "pairs   English (en)  Spanish (es)" in printed
    for reason, number, text in (
        ("empty side", 2, " → Nada."),
        ("duplicate", 3, f"{ENGLISH[4]} → {SPANISH[4]}"),
        ("length ratio", 4, "Too much."),
    ):
        [row] = [line for line in printed.splitlines() if line.startswith(reason)]
        assert f":{len(LINES) + number}  {text}" in row
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    overrides = training_overrides(printed)
    data = compose_config(overrides).data
    assert (data.source_language, data.target_language) == ("en", "es")
    corpus = load_corpus(data, cache_dir=tmp_path)
    pairs = {*corpus.train, *corpus.dev, *corpus.test}
    assert pairs == set(zip(ENGLISH, SPANISH, strict=True))


def test_examples_are_limited(sheet: Path) -> None:
    with sheet.open("a", encoding="utf-8") as file:
        file.write("\n".join(["", *(f'd,"","{n}"' for n in range(5))]))
    rows = inspected("corpus", sheet, "--examples", "2").splitlines()
    assert sum(row.startswith("empty side") for row in rows) == 2
    rows = inspected("corpus", sheet, "--examples", "0").splitlines()
    assert not any(row.startswith("empty side") for row in rows)


def test_aligned_files_whose_names_tell_nothing(tmp_path: Path) -> None:
    left, right = tmp_path / "left.txt", tmp_path / "right.txt"
    left.write_text("\n".join(SPANISH), encoding="utf-8")
    right.write_text("\n".join(ENGLISH), encoding="utf-8")
    overrides = training_overrides(inspected("corpus", left, right))
    assert overrides == [
        "data=files",
        f"data.train={left},{right}",
        "data.source_language=es",
        "data.target_language=en",
    ]


def test_languages_of_names_are_kept_and_checked(tmp_path: Path) -> None:
    spanish, english = tmp_path / "a.es", tmp_path / "a.en"
    spanish.write_text("\n".join(SPANISH), encoding="utf-8")
    english.write_text("\n".join(ENGLISH), encoding="utf-8")
    overrides = training_overrides(inspected("corpus", spanish, english))
    assert overrides == ["data=files", f"data.train={spanish},{english}"]
    swapped = ("data.source_language=en", "data.target_language=es")
    assert "the source side is Spanish" in complaint(
        lambda: inspected("corpus", spanish, english, *swapped)
    )


def test_json_and_memories_of_unknown_languages(tmp_path: Path) -> None:
    records = [
        {"id": i, "translation": {"en": en, "es": es}}
        for i, (es, en) in enumerate(zip(SPANISH, ENGLISH, strict=True))
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    assert training_overrides(inspected("corpus", path))[2:] == [
        "data.source_language=en",
        "data.target_language=es",
    ]
    units = "".join(
        f'<tu><tuv xml:lang="es-MX"><seg>{es}</seg></tuv>'
        f'<tuv xml:lang="en-US"><seg>{en}</seg></tuv></tu>'
        for es, en in zip(SPANISH, ENGLISH, strict=True)
    )
    path = tmp_path / "memory.tmx"
    path.write_text(f"<tmx><body>{units}</body></tmx>", encoding="utf-8")
    assert training_overrides(inspected("corpus", path))[2:] == [
        "data.source_language=es",
        "data.target_language=en",
    ]


def test_too_little_text_to_identify(tmp_path: Path) -> None:
    path = tmp_path / "three.tsv"
    path.write_text("\n".join(LINES[:3]), encoding="utf-8")
    assert one_line_error(command("nmt.inspect", "corpus", path)) == (
        "error: too little text to identify the languages by: give data.source_language=TAG "
        "data.target_language=TAG\n"
    )


def test_a_file_of_one_column_has_no_language(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("\n".join(SPANISH), encoding="utf-8")
    reason = f"none of the {len(SPANISH)} lines read is usable, most often because of 'missing col"
    assert reason in complaint(lambda: inspected("corpus", path))


def test_the_corpora_of_other_groups() -> None:
    printed = inspected("corpus", "data=phrasebook", "data.sources.patterns.pairs=0")
    assert "home.tsv" in printed
    assert training_overrides(printed) == ["data=phrasebook", "data.sources.patterns.pairs=0"]


def test_a_missing_file_is_named_as_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").touch()
    name = f"{tmp_path}/pair.csv"
    expected = f"{name} does not exist; did you mean 'pairs.csv'?"
    assert complaint(lambda: inspected("corpus", name)) == expected
    assert complaint(lambda: inspected("corpus", tmp_path / "pairs.csv", name)) == expected


def test_files_become_overrides(tmp_path: Path) -> None:
    equal = tmp_path / "a=b.tsv"
    equal.touch()
    assert make_overrides([str(equal), "data.dev=9"]) == [
        "data=files",
        f"data.train={equal}",  # nmt.train puts it in quotes
        "data.dev=9",
    ]
    assert make_overrides(["a,b.tsv"]) == ["data=files", "data.train='a,b.tsv'"]
    assert make_overrides(["it's.es", "b.en"]) == ["data=files", r"data.train=['it\'s.es',b.en]"]
    assert "3 files are given" in complaint(lambda: make_overrides(["a", "b", "c"]))
