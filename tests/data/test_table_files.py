"""Rows of CSV, JSON lines and Parquet: their cells, line numbers, groups and rejected lines."""

from __future__ import annotations

import io
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from backports import zstd
from pyarrow import parquet
from sample_corpora import configure

from nmt.config import SourceConfig
from nmt.data.columns import ColumnChoice, Columns
from nmt.data.corpus import load_corpus
from nmt.data.lines import LONGEST_LINE
from nmt.data.reading import TOO_LONG, Line, parse_row, read_rows
from nmt.data.splitting import Pair
from nmt.data.table_files import read_parquet
from nmt.errors import UserError


def read(path: Path, **changes: Any) -> list[Line]:
    sources = configure(path=str(path), **changes).sources
    rows = read_rows(sources, "pairs", path.parent, print, hashes={}, languages=("es", "en"))
    return [parse_row(row) for row in rows]


CSV = 'es;en;who\n"Hola,\nAna";Hello;1\r\nsolo\n\n"a ""b""";c;2\n'


def test_cells_of_csv_keep_the_line_numbers_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV.encode())
    lines = read(tmp_path / "a.csv", group_column="who")
    assert [(line.number, line.sides, line.group) for line in lines] == [
        (2, ("Hola, Ana", "Hello"), "1"),
        (4, None, ""),
        (5, None, ""),
        (6, ('a "b"', "c"), "2"),
    ]
    rejected = tmp_path / "rejected.tsv"
    config = configure(path=str(tmp_path / "a.csv"))
    corpus = load_corpus(config, cache_dir=tmp_path, rejected_file=rejected)
    assert corpus.rejected == {"missing column": 2}
    assert f"missing column\t{tmp_path / 'a.csv'}:4\tsolo\n" in rejected.read_text("utf-8")


def test_a_first_line_of_excel_names_the_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    text = "sep=;\nes;en\nhola, Ana;hello, Ana\nuno, dos;one, two\n"
    path.write_text(text, encoding="utf-8-sig")
    assert [(line.number, line.sides) for line in read(path)] == [
        (3, ("hola, Ana", "hello, Ana")),
        (4, ("uno, dos", "one, two")),
    ]
    path.write_text("sep=|\nuno;one|dos\n", encoding="utf-8")
    assert [(line.number, line.sides) for line in read(path)] == [(2, ("uno;one", "dos"))]


def test_quotes_may_stand_behind_a_space(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"Hola", "Hello, you"\nuno, one\n', encoding="utf-8")
    assert [line.sides for line in read(tmp_path / "a.csv")] == [
        ("Hola", "Hello, you"),
        ("uno", "one"),
    ]


@pytest.mark.parametrize("row", ['"Hola,Hello', 'Hola,"Hello'])
def test_a_quote_that_is_never_closed_is_named(row: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"uno,one\n{row}\ndos,two\ntres,three\n", encoding="utf-8")
    with pytest.raises(UserError, match="a quote of the row that begins in line 2 is never closed"):
        read(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(f'uno,one\n{row}"', encoding="utf-8")
    assert [line.number for line in read(tmp_path / "a.csv")] == [1, 2]


@pytest.mark.parametrize(
    "joined",
    [
        ['"Hola, dijo,hello', 'que "tal",x'],
        ['"Hola,hello', "dos,two", '"tres",three'],
        ['Hola,"hello', '"dos", two'],
    ],
)
@pytest.mark.parametrize("begin", [["es,en"], ["sep=,", "es,en"], []])
def test_rows_that_a_stray_quote_joins_are_rejected(
    begin: list[str], joined: list[str], tmp_path: Path
) -> None:
    rows = [*begin, *joined, "uno,one", '"Ana ""A."",', 'vino" ,"Ana', 'came"']
    (tmp_path / "a.csv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    first = len(begin) + 1
    last = first + len(joined)
    assert [(line.number, line.raw, line.sides) for line in read(tmp_path / "a.csv")] == [
        *((first + i, row, None) for i, row in enumerate(joined)),
        (last, "uno\tone", ("uno", "one")),
        (last + 1, 'Ana "A.", vino\tAna came', ('Ana "A.", vino', "Ana came")),
    ]


@pytest.mark.parametrize(("quote", "at"), [("", 1), ('"', 1), ('"', 3)])
def test_a_long_line_of_csv_is_rejected_like_that_of_a_table(
    tmp_path: Path, quote: str, at: int
) -> None:
    """Whether its quotes are cut off, before or behind the header."""
    long = f"{quote}{'x' * (LONGEST_LINE + 1)}{quote},long"
    rows = ["es,en", "uno,one", '"dos",two']
    rows.insert(at, long)
    rows.append(f"{quote}{'y' * (LONGEST_LINE - 7)}{quote},y")  # which the csv module would refuse
    (tmp_path / "a.csv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    lines = read(tmp_path / "a.csv")
    assert [(line.number, line.fault) for line in lines if line.fault] == [(at + 1, TOO_LONG)]
    corpus = load_corpus(configure(path=str(tmp_path / "a.csv")), cache_dir=tmp_path)
    assert corpus.train == [Pair("uno", "one"), Pair("dos", "two")]
    assert corpus.rejected == {TOO_LONG: 1, "too long": 1}


def test_lines_that_a_quote_joins_to_a_long_one_are_rejected(tmp_path: Path) -> None:
    rows = ['"uno', f'{"x" * LONGEST_LINE}",long', 'dos"', "tres,three"]
    (tmp_path / "a.csv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    lines = read(tmp_path / "a.csv")
    assert [(line.number, line.fault, line.sides) for line in lines] == [
        (1, None, None),
        (2, TOO_LONG, None),
        (3, None, None),
        (4, None, ("tres", "three")),
    ]


def test_a_quote_that_swallows_too_many_lines_is_named(tmp_path: Path) -> None:
    lines = ["uno,one", 'dos,"two', *["palabra,word"] * (LONGEST_LINE // 10)]
    (tmp_path / "a.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with pytest.raises(UserError, match=r"begins in line 2 is too long .*: close its quotes, or"):
        read(tmp_path / "a.csv")


RECORDS: list[Any] = [
    {"t": {"es": "uno", "en": "one"}, "weight": 0.5, "doc": 7},
    {"t": {"es": "dos"}, "weight": 1, "doc": 7},
    {"t": {"es": "tres", "en": "th\nree\t3"}, "weight": None, "doc": "x", "more": [1]},
    [1],
    {"t": {"es": "\ud83d", "en": "half"}, "weight": 1, "doc": 8},
    {"t": {"es": float("nan"), "en": "number"}, "weight": 1, "doc": 9},
]


def test_values_of_json_are_found_by_dotted_names(tmp_path: Path) -> None:
    text = "".join(json.dumps(record) + "\n" for record in RECORDS) + '{"t": \n'
    (tmp_path / "a.jsonl.zst").write_bytes(zstd.compress(text.encode()))
    lines = read(
        tmp_path / "a.jsonl.zst",
        columns=["t.es", "t.en", "weight"],
        document_column="doc",
        ordered=True,
    )
    assert [(line.number, line.sides, line.weight, line.document) for line in lines] == [
        (1, ("uno", "one"), "0.5", "7"),
        (2, None, "", ""),
        (3, ("tres", "th ree 3"), "", "x"),
        (4, None, "", ""),
        (5, ("", "half"), "1", "8"),
        (6, ("", "number"), "1", "9"),
        (7, None, "", ""),
    ]
    assert lines[6].raw == '{"t": '
    by_number = read(tmp_path / "a.jsonl.zst", columns=[1, 0])
    assert by_number[0].sides == ("one", "uno")


def test_keys_of_any_depth_are_dotted(tmp_path: Path) -> None:
    record = {"a": {"b": {"es": "uno", "en": "one"}, "es": "no"}}
    (tmp_path / "a.jsonl").write_text(json.dumps(record), encoding="utf-8")
    [line] = read(tmp_path / "a.jsonl", columns=["a.b.es", "a.b.en"])
    assert line.sides == ("uno", "one")


class CountingFile(io.BytesIO):
    """A file that counts the bytes that are read from it."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


def test_parquet_is_read_one_group_of_rows_at_a_time() -> None:
    texts = (f"{number} {random.Random(number).randbytes(50).hex()}" for number in range(20_000))
    records = [{"es": text, "en": text} for text in texts]
    packed = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(records), packed, row_group_size=1000)
    file = CountingFile(packed.getvalue())
    choice = ColumnChoice(configure(path="a").sources["pairs"], ("es", "en"), "data.columns")
    rows = read_parquet(file, "a", choice)  # type: ignore[arg-type]
    next(rows)
    assert 0 < file.count < len(packed.getvalue()) / 4
    assert [number for number, _ in rows] == list(range(2, 20_001))


def test_rows_of_parquet_with_nulls_and_lists(tmp_path: Path) -> None:
    records = [
        {"tokens": ["x"], "translation": {"es": "uno", "en": "one"}, "speaker": 3},
        {"tokens": [], "translation": None, "speaker": None},
        {"tokens": None, "translation": {"es": "dos", "en": None}, "speaker": 4},
    ]
    for number in (1, 2):
        parquet.write_table(pa.Table.from_pylist(records), tmp_path / f"train-{number}.parquet")
    lines = read(tmp_path / "train-*.parquet", group_column="speaker")
    assert [(line.number, line.sides, line.group) for line in lines] == 2 * [
        (1, ("uno", "one"), "3"),
        (2, ("", ""), ""),
        (3, ("dos", ""), "4"),
    ]


def test_text_that_parquet_has_as_bytes(tmp_path: Path) -> None:
    records = [{"es": "¿Qué?".encode(), "en": b"What?"}]
    parquet.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    [line] = read(tmp_path / "a.parquet")
    assert line.sides == ("¿Qué?", "What?")


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_documents_are_columns_by_name(tmp_path: Path, name: str) -> None:
    text = "es\ten\tchapter\nAna vino.\tAna came.\t1\nElla ríe.\tShe laughs.\t1\nYa.\tOK.\t2\n"
    (tmp_path / name).write_text(text, encoding="utf-8")
    config = configure(
        path=str(tmp_path / name), ordered=True, document_column="chapter", context=1
    )
    sources = [pair.source for pair in load_corpus(config, cache_dir=tmp_path).train]
    assert [
        source.startswith(start)
        for source, start in zip(sources, ("Ana", "Ana", "Ya"), strict=True)
    ] == [
        True,
        True,
        True,
    ]
    assert sources[1].endswith("Ella ríe.")


@pytest.mark.parametrize(
    ("languages", "row"),
    [
        (("es", "fr"), "Español\tFrancés"),
        (("es", "fr"), "ESPAÑOL\tfrançais"),
        (("es", "de"), "espanol\taleman"),
        (("es", "ru"), "Español\tRuso"),
        (("el", "ja"), "ΕΛΛΗΝΙΚΆ\t日本語"),
    ],
)
def test_a_header_names_languages_in_any_case_and_without_accents(
    languages: tuple[str, str], row: str
) -> None:
    choice = ColumnChoice(SourceConfig(kind="files", path="a"), languages, "data.columns")
    swapped = choice._replace(languages=languages[::-1])
    names = row.split("\t")
    assert choice.find(names, "a", are_names=False) == (Columns(0, 1), True)
    assert swapped.find(names, "a", are_names=False) == (Columns(1, 0), True)


@pytest.mark.parametrize("row", ["español\tSpanish", "inglés\tEnglish", "source\ttext", "es\tis"])
def test_a_first_pair_is_no_header(tmp_path: Path, row: str) -> None:
    (tmp_path / "a.tsv").write_text(f"{row}\nuno\tone\n", encoding="utf-8")
    assert [line.number for line in read(tmp_path / "a.tsv")] == [1, 2]


def test_a_translation_memory_takes_constant_memory(tmp_path: Path) -> None:
    unit = (
        '<tu><tuv xml:lang="es"><seg>frase {0} {1}</seg></tuv>'
        '<tuv xml:lang="en"><seg>sentence {0} {1}</seg></tuv></tu>\n'
    )
    padding = "x" * 500
    with (tmp_path / "a.tmx").open("w", encoding="utf-8") as file:
        file.write("<tmx><body>\n")
        file.writelines(unit.format(number, padding) for number in range(10_000))
        file.write("</body></tmx>\n")
    tracemalloc.start()
    sources = configure(path=str(tmp_path / "a.tmx")).sources
    rows = read_rows(sources, "pairs", tmp_path, print, hashes={}, languages=("es", "en"))
    count, number = 0, 0
    for row in rows:
        count, number = count + 1, row.number
    assert tracemalloc.get_traced_memory()[1] < 4 << 20  # of a file of 11 MB
    tracemalloc.stop()
    assert (count, number) == (10_000, 10_001)
    assert Pair(*(text.decode() for text in row.lines)).source == f"frase 9999 {padding}"
