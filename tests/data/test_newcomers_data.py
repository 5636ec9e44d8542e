"""Files as programs save them are trained on, or refused in one line that says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from sample_corpora import complaint, configure, zipped

from nmt.config import SourceConfig
from nmt.config.checks import check_values
from nmt.config.sources import check_source
from nmt.data.corpus import load_corpus
from nmt.data.evaluation_sets import read_test_pairs
from nmt.data.splitting import Pair

PAIRS = [
    Pair("¿Qué tal, Ana?", "How are you, Ana?"),
    Pair("Dijo «sí»; después, no.", 'He said "yes"; then, no.'),
    Pair("El niño comió", "The boy ate"),
    Pair("Mañana lloverá", "It will rain tomorrow"),
]


def table(delimiter: str, header: str = "", end: str = "\n") -> str:
    def quote(text: str) -> str:
        escaped = text.replace('"', '""')
        return f'"{escaped}"' if {'"', delimiter} & set(text) else text

    rows = [delimiter.join(map(quote, pair)) for pair in PAIRS]
    return "".join(row + end for row in ([header] if header else []) + rows)


def tabs(header: str = "", end: str = "\n") -> str:
    rows = ([header] if header else []) + ["\t".join(pair) for pair in PAIRS]
    return "".join(row + end for row in rows)


def objects(**others: Any) -> list[dict[str, Any]]:
    return [
        others | {"translation": dict(zip(("en", "es"), pair[::-1], strict=True))} for pair in PAIRS
    ]


def json_lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def write_parquet(path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist(objects(id=1)), path)


def memory(language: str = "en-US") -> bytes:
    """Return a translation memory as a CAT tool exports it."""
    units = "".join(
        f'<tu tuid="{number}"><tuv xml:lang="es-ES"><seg>{pair.source}</seg></tuv>'
        f'<tuv xml:lang="{language}"><seg>{pair.target}</seg></tuv></tu>'
        for number, pair in enumerate(PAIRS)
    )
    text = '<?xml version="1.0" encoding="utf-16"?><tmx version="1.4"><header srclang="es-ES"/>'
    return f"{text}<body>{units}</body></tmx>".encode("utf-16")


BOM = b"\xef\xbb\xbf"
TRAINED: dict[str, tuple[str, bytes | Callable[[Path], None], dict[str, Any]]] = {
    "spreadsheet": ("a.csv", BOM + table(";", "Español;Inglés", "\r\n").encode(), {}),
    "spreadsheet with quotes": ("a.csv", BOM + table(",", '"es","en"').encode(), {}),
    "comma": ("a.csv", table(",", "Spanish,English").encode(), {}),
    "bar without header": ("a.csv", table("|").encode(), {}),
    "columns by name": (
        "a.csv",
        ("n,frase,sentence\n" + "".join(f"1,{row}\n" for row in table(",").splitlines())).encode(),
        {"columns": ["frase", "SENTENCE"]},
    ),
    "UTF-16 from a spreadsheet": ("a.csv", table("\t", "es\ten").encode("utf-16"), {}),
    "translation memory": ("a.tmx", memory(), {}),
    "Hugging Face JSON": ("a.jsonl", json_lines(objects(id="7")), {}),
    "Hugging Face Parquet": ("train-00000.parquet", write_parquet, {}),
    "source and target": (
        "a.json",
        json_lines([{"target": target, "source": source} for source, target in PAIRS]),
        {},
    ),
    "Latin-1": ("a.tsv", tabs().encode("latin-1"), {"encoding": "latin-1"}),
    "Windows": ("a.csv", table(";", "spa;eng", "\r\n").encode("cp1252"), {"encoding": "cp1252"}),
    "UTF-16": ("a.tsv", tabs("es\ten").encode("utf-16"), {}),
    "CRLF": ("a.txt", tabs(end="\r\n").encode(), {}),
    "old Mac": ("a.csv", table(";", "es;en", "\r").encode(), {}),
    "header": ("a.tsv", tabs("source\ttarget").encode(), {}),
    "header of numbered columns": ("a.tsv", tabs("Español\tEnglish").encode(), {"columns": [0, 1]}),
    "empty columns": (
        "a.tsv",
        "".join(f"\t{row}\t\n" for row in tabs("es\ten").splitlines()).encode(),
        {},
    ),
}


@pytest.mark.parametrize("case", TRAINED)
def test_it_is_trained_on(tmp_path: Path, case: str) -> None:
    name, content, changes = TRAINED[case]
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)
    corpus = load_corpus(configure(path=str(path), **changes), cache_dir=tmp_path)
    assert corpus.train == PAIRS
    assert not corpus.rejected


REFUSED: dict[str, tuple[str, bytes, dict[str, Any], str]] = {
    "Latin-1": (
        "a.tsv",
        tabs().encode("latin-1"),
        {},
        "seems to be CP1252, not UTF-8 (byte 0xbf at offset 0, line 1): give data.encoding=cp1252",
    ),
    "wrong encoding": ("a.tsv", b"a\tb\n", {"encoding": "latn1"}, "data.encoding=latn1 is no"),
    "not in the encoding": (
        "a.tsv",
        tabs().encode(),
        {"encoding": "ascii"},
        "is not ascii (byte 0xc2 at offset 0, line 1): give its encoding by data.encoding=NAME",
    ),
    "wrong name": (
        "a.csv",
        table(",", "es,en").encode(),
        {"columns": ["es", "english"]},
        "has no column english, as data.columns names it: choose from es, en",
    ),
    "name without header": (
        "a.tsv",
        tabs().encode(),
        {"columns": ["es", "en"]},
        f"has no column es, as data.columns names it: choose from {', '.join(PAIRS[0])}",
    ),
    "unknown keys": (
        "a.jsonl",
        json_lines([{"id": 1, "text": {"a": "x", "b": "y"}}]),
        {},
        "has the columns id, text.a, text.b: name those of source and target, as in "
        "data.columns=id,text.a",
    ),
    "one JSON document": ("a.json", b"[\n{}\n]", {}, "line 1 is not a JSON object: write one obj"),
    "open quote": ("a.csv", b'es,en\n"' + b"x\n" * 600_000, {}, "the cell that begins in line 2"),
    "spreadsheet": (
        "a.xlsx",
        b"PK\x03\x04",
        {},
        "is a zip archive or a spreadsheet: unpack it, or",
    ),
    "groups without columns": ("a.tmx", memory(), {"group_column": 2}, "has no columns: leave out"),
    "encoding of XML": ("a.tmx", memory(), {"encoding": "latin-1"}, "says its encoding itself"),
    "no such group": (
        "a.csv",
        table(",", "es,en").encode(),
        {"group_column": "talk"},
        "has no column talk, as group_column names it: choose from es, en",
    ),
    "tar archive": (
        "a.tsv",
        b"a" + b"\0" * 256 + b"ustar\x0000",
        {},
        "is a tar archive: unpack it",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    name, content, changes, expected = REFUSED[case]
    path = tmp_path / name
    path.write_bytes(content)
    config = configure(path=str(path), **changes)
    assert expected in complaint(lambda: load_corpus(config, cache_dir=tmp_path))


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("en", "es", "leave the languages out, and set data.reverse=true"),
        ("es", "fr", "data.target_language=fr, but that side is English"),
    ],
)
def test_the_embedded_corpus_is_in_its_own_languages(
    tmp_path: Path, source: str, target: str, expected: str
) -> None:
    config = configure(
        {"written": SourceConfig(kind="phrasebook")},
        source_language=source,
        target_language=target,
        check_languages=True,
    )
    assert expected in complaint(lambda: load_corpus(config, cache_dir=tmp_path))


CONVERT = "convert it: iconv -f CP1252 -t UTF-8"


@pytest.mark.parametrize(
    ("name", "kind", "remedy"),
    [
        ("pairs", "files", f"give data.encoding=cp1252, or {CONVERT}"),
        ("corrections", "translations", f"give data.encoding=cp1252, or {CONVERT}"),
        ("web", "files", f"give data.sources.web.encoding=cp1252, or {CONVERT}"),
        ("pairs", "zip", f"give data.sources.pairs.encoding=cp1252, or {CONVERT}"),
        ("dev", "files", CONVERT),
        ("test", "files", CONVERT),
    ],
)
def test_the_remedy_for_another_encoding_is_of_that_source_alone(
    tmp_path: Path, name: str, kind: str, remedy: str
) -> None:
    content = tabs().encode("latin-1")
    path = tmp_path / "old.tsv"
    path.write_bytes(zipped({"spa.txt": content}) if kind == "zip" else content)
    source = (
        SourceConfig(kind=kind, archive=str(path))
        if kind == "zip"
        else SourceConfig(kind=kind, path=str(path))
    )
    config = configure({name: source})
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert message.endswith(f"not UTF-8 (byte 0xbf at offset 0, line 1): {remedy}")


def test_a_test_set_in_another_encoding_is_to_be_converted(tmp_path: Path) -> None:
    (tmp_path / "old.tsv").write_bytes(tabs().encode("latin-1"))
    message = complaint(
        lambda: read_test_pairs(tmp_path / "old.tsv", "data.tests.old", ("es", "en"))
    )
    assert message.endswith(f"line 1): {CONVERT}")


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("name", ["pairs", "dev"])
def test_utf_8_is_not_read_as_the_encoding_of_other_files(
    tmp_path: Path, name: str, mark: str
) -> None:
    path = tmp_path / "new.tsv"
    text = mark + ("sí\tyes\n" if mark else tabs() * 99)  # whose first bytes end anywhere
    path.write_text(text, encoding="utf-8")
    config = configure({name: SourceConfig("files", path=str(path), encoding="latin-1")})
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert message.endswith(
        f"{path} is UTF-8, not latin-1: leave out data.encoding=latin-1, and convert the files "
        "that are not UTF-8"
    )


def test_a_short_text_may_be_utf_8_by_accident(tmp_path: Path) -> None:
    path = tmp_path / "old.tsv"
    path.write_bytes("EL CAFÉ»\tTHE CAFÉ»\n".encode("latin-1"))
    config = configure(path=str(path), encoding="latin-1")
    assert load_corpus(config, cache_dir=tmp_path).train == [Pair("EL CAFÉ»", "THE CAFÉ»")]


def test_several_archives_are_refused(tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        (tmp_path / name).touch()
    config = configure({"pairs": SourceConfig(kind="zip", archive=str(tmp_path / "*.zip"))})
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert "names 2 archives, such as" in message


def test_two_tables_of_parquet_are_not_aligned_texts(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    for path in paths:
        write_parquet(Path(path))
    message = complaint(lambda: load_corpus(configure(path=paths), cache_dir=tmp_path))
    assert "names two files, which must be aligned texts" in message


def test_a_file_of_other_languages_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_bytes(memory("de-DE"))
    config = configure(path=str(tmp_path / "a.tmx"))
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert "no unit has both es and en, others are de-DE: set data.source_language" in message


def test_a_few_malformed_lines_are_rejected_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(tabs().encode() * 10 + tabs().encode("latin-1"))
    corpus = load_corpus(configure(path=str(tmp_path / "a.tsv")), cache_dir=tmp_path)
    assert corpus.rejected["malformed UTF-8"] == len(PAIRS)
    (tmp_path / "a.csv").write_bytes(table(";").encode() * 10 + table(";").encode("latin-1"))
    corpus = load_corpus(configure(path=str(tmp_path / "a.csv")), cache_dir=tmp_path)
    assert corpus.rejected["malformed UTF-8"] == len(PAIRS)


def test_parquet_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    config = configure(path=str(tmp_path / "a.parquet"))
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert message.endswith("a.parquet needs pyarrow: pip install 'nmt[parquet]'")


@pytest.mark.parametrize("column", [-1, 1.5, True])
def test_a_column_is_a_name_or_a_number(column: Any) -> None:
    config = configure(path="a.tsv", group_column=column)
    message = complaint(lambda: check_values(config))
    assert message.endswith(
        f"group_column must be the name of a column, or its number from 0, got {column}"
    )


def test_two_files_have_no_column_of_groups() -> None:
    config = configure(path=["a", "b"], group_column=2)
    assert "only tables have columns" in complaint(lambda: check_source(config, "pairs"))
