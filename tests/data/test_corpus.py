"""Reading, cleaning and splitting: each expectation is written out by hand."""

import gzip
import io
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import nmt
from nmt.config import Config, DataConfig
from nmt.data import corpus as corpus_module
from nmt.data import reading
from nmt.data.corpus import (
    Corpus,
    Pair,
    clean_text,
    load_corpus,
    normalized,
    phrasebook_dir,
    rejection_table,
)
from nmt.errors import UserError


def configure(**changes: Any) -> DataConfig:
    """Return a configuration that rejects little and keeps everything for training."""
    values: dict[str, Any] = {
        "kind": "tsv",
        "source_language": "es",
        "target_language": "en",
        "min_words": 1,
        "max_words": 100,
        "max_characters": 800,
        "max_length_ratio": 3.0,
        "length_ratio_margin": 20,
        "dev": 0,
        "test": 0,
        "split_seed": 1,
    }
    return DataConfig(**(values | changes))


def load_bytes(tmp_path: Path, content: bytes, **changes: Any) -> Corpus:
    path = tmp_path / "corpus.tsv"
    path.write_bytes(content)
    return load_corpus(configure(path=str(path), **changes), cache_dir=tmp_path / "cache")


def load_text(tmp_path: Path, text: str, **changes: Any) -> Corpus:
    return load_bytes(tmp_path, text.encode(), **changes)


def load_pairs(tmp_path: Path, pairs: list[tuple[str, str]], **changes: Any) -> Corpus:
    return load_text(tmp_path, "".join(f"{a}\t{b}\n" for a, b in pairs), **changes)


def complaint(load: Callable[[], Corpus]) -> str:
    """Return the message of the `UserError`, which must be one line."""
    with pytest.raises(UserError) as caught:
        load()
    message = str(caught.value)
    assert "\n" not in message
    return message


def singles(count: int) -> list[tuple[str, str]]:
    """Return pairs of which no two share a sentence."""
    return [(f"frase {number}", f"sentence {number}") for number in range(count)]


# --- Cleaning ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("", ""),
        ("plain", "plain"),
        ("  two \t words\r", "two words"),
        ("no\u00a0break\u3000ideographic\u2028line\u0085next", "no break ideographic line next"),
        ("cafe\u0301", "café"),  # NFD in, NFC out
        ("cafe\u00ad\u0301", "café"),  # a soft hyphen between letter and accent
        ("nul\0 bell\a esc\x1b", "nul bell esc"),
        ("a \0 b", "a b"),  # what is left of a control character is one space, not two
        ("\ufeffbom", "bom"),
        ("zero\u200bwidth", "zerowidth"),
        ("\u202eright to left\u202c", "right to left"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # Persian needs its non-joiner
        ("👩\u200d🚀 ok", "👩\u200d🚀 ok"),  # and an astronaut her joiner
        ("lone \ud800 surrogate", "lone surrogate"),
        ("¿Qué?  ", "¿Qué?"),
    ],
)
def test_clean_text(raw: str, clean: str) -> None:
    assert clean_text(raw) == clean


@given(st.text())
def test_cleaning_twice_changes_nothing_and_the_result_is_encodable(text: str) -> None:
    once = clean_text(text)
    assert clean_text(once) == once
    once.encode()
    assert not any(sign.isspace() and sign != " " for sign in once)
    assert "\0" not in once


@pytest.mark.parametrize(
    ("line", "changes", "reason"),
    [
        (b"sol\xff\tsun", {}, "malformed UTF-8"),
        (b"sol\tsun\tattribution \xe9", {}, "malformed UTF-8"),
        (b"\xc3\tsun", {}, "malformed UTF-8"),  # a character cut in half
        (b"sol sun", {}, "missing column"),
        (b"", {}, "missing column"),
        (b"sol\tsun", {"columns": [0, 2]}, "missing column"),
        (b"\tsun", {}, "empty side"),
        (b"sol\t \xc2\xa0 ", {}, "empty side"),
        (b"sol\t\x00", {}, "empty side"),
        (b"sol\t\xe2\x80\x8d", {}, "empty side"),  # a joiner that joins nothing
        (b"el sol\tsun", {"min_words": 2}, "too short"),
        (b"sol\tthe sun", {"min_words": 2}, "too short"),
        (b"sol\tthe sun shines", {"max_words": 2}, "too long"),
        (b"sol sol sol\tsun", {"max_words": 2}, "too long"),
        (b"soles\tsun", {"max_characters": 4}, "too long"),
        (b"sol\tsunny", {"max_characters": 4}, "too long"),
        (b"sol\t0123456789", {"length_ratio_margin": 0}, "length ratio"),  # 10 > 3 x 3
        (b"0123456789\tsol", {"length_ratio_margin": 6}, "length ratio"),  # by 7 characters
        (b"gato\tcat", {}, "duplicate"),
        (b" gato \tcat\r", {}, "duplicate"),
    ],
)
def test_a_line_is_rejected_under_one_reason(
    tmp_path: Path, line: bytes, changes: dict[str, Any], reason: str
) -> None:
    good = b"gato\tcat\tcat\n" if changes != {"min_words": 2} else b"un gato\ta cat\n"
    corpus = load_bytes(tmp_path, good + line + b"\n", **changes)
    assert corpus.rejected == {reason: 1}
    assert len(corpus.train) == 1
    assert corpus.lines == 2


@pytest.mark.parametrize(
    ("line", "changes", "pair"),
    [
        (b"sol\tsun", {"min_words": 1, "max_words": 1, "max_characters": 3}, ("sol", "sun")),
        (b"sol\t012345678", {"length_ratio_margin": 0}, ("sol", "012345678")),  # 9 = 3 x 3
        (b"sol\t0123456789", {"length_ratio_margin": 7}, ("sol", "0123456789")),  # by 7
        (b"sol\tsun\tCC-BY 2.0 #123", {}, ("sol", "sun")),
        (b"sol\tsun", {"columns": [1, 0]}, ("sun", "sol")),
        (b"\xef\xbf\xbd\tsun", {}, ("\ufffd", "sun")),  # a genuine replacement character
        ("año\u2028nuevo\tnew\x0byear\x0cday".encode(), {}, ("año nuevo", "new year day")),
        (b"\xf0\x9f\x98\x80\t:)", {}, ("😀", ":)")),
    ],
)
def test_a_line_is_kept(
    tmp_path: Path, line: bytes, changes: dict[str, Any], pair: tuple[str, str]
) -> None:
    corpus = load_bytes(tmp_path, line + b"\n", **changes)
    assert corpus.train == [Pair(*pair)]
    assert corpus.rejected == {}


def test_every_line_is_counted_exactly_once(tmp_path: Path) -> None:
    lines = [
        b"\xef\xbb\xbfsol\tsun",  # kept, behind a byte order mark
        b"luna\tmoon\tsomebody",  # kept
        b"luna\tmoon",  # duplicate
        b"luna \tmoon\0",  # duplicate
        b"\xff",  # malformed rather than missing a column
        b"luna",  # missing column
        b"\t" + b"x" * 900,  # empty rather than too long
        b"Luna\tmoon",  # kept: another case is another pair
    ]
    rejected = tmp_path / "made" / "on the way" / "rejected.tsv"
    corpus = load_bytes(tmp_path, b"\r\n".join(lines), rejected_file=str(rejected))
    assert corpus.train == [Pair("sol", "sun"), Pair("luna", "moon"), Pair("Luna", "moon")]
    assert corpus.rejected == {
        "duplicate": 2,
        "malformed UTF-8": 1,
        "missing column": 1,
        "empty side": 1,
    }
    assert corpus.lines == 8
    file = tmp_path / "corpus.tsv"
    assert rejected.read_bytes().decode().split("\n") == [
        f"duplicate\t{file}:3\tluna\tmoon",
        f"duplicate\t{file}:4\tluna \tmoon\0",
        f"malformed UTF-8\t{file}:5\t\ufffd",
        f"missing column\t{file}:6\tluna",
        f"empty side\t{file}:7\t\t" + "x" * 900,
        "",
    ]


@given(st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"\t")), min_size=1))
def test_no_bytes_get_lost_or_raise(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus = load_bytes(Path(folder), b"ancla\tanchor\n" + b"\n".join(lines) + b"\n")
    assert corpus.lines == len(lines) + 1
    assert len(corpus.train) + sum(corpus.rejected.values()) == corpus.lines


def test_rejected_file_is_written_even_when_no_line_is_usable(tmp_path: Path) -> None:
    rejected = tmp_path / "rejected.tsv"
    complaint(lambda: load_text(tmp_path, "sol\n", rejected_file=str(rejected)))
    assert rejected.read_text() == f"missing column\t{tmp_path / 'corpus.tsv'}:1\tsol\n"


def test_rejected_file_never_overwrites_the_corpus(tmp_path: Path) -> None:
    own = str(tmp_path / "." / "corpus.tsv")
    message = complaint(lambda: load_text(tmp_path, "sol\tsun\n", rejected_file=own))
    assert "data.rejected_file" in message
    assert "would overwrite the corpus" in message
    assert (tmp_path / "corpus.tsv").read_text() == "sol\tsun\n"


def test_rejected_file_that_cannot_be_written(tmp_path: Path) -> None:
    message = complaint(lambda: load_text(tmp_path, "sol\tsun\n", rejected_file=str(tmp_path)))
    assert message.startswith(f"data.rejected_file={tmp_path} cannot be written")


def test_rejection_table() -> None:
    corpus = Corpus(
        train=[Pair("a", "b")] * 1000,
        dev=[Pair("c", "d")] * 20,
        test=[Pair("e", "f")] * 10,
        rejected={"duplicate": 900, "too long": 70},
        lines=2000,
    )
    console = Console(file=io.StringIO(), width=100)
    console.print(rejection_table(corpus))
    assert isinstance(console.file, io.StringIO)
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in console.file.getvalue().splitlines()
        if line.startswith("│")
    ]
    assert rows == [
        ["rejected: duplicate", "900", "45.0%"],
        ["rejected: too long", "70", "3.5%"],
        ["kept", "1,030", "51.5%"],
        ["train", "1,000", "50.0%"],
        ["dev", "20", "1.0%"],
        ["test", "10", "0.5%"],
    ]


# --- Files ------------------------------------------------------------------------------------


def test_gz_is_read_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "corpus.tsv.gz"
    path.write_bytes(gzip.compress("él\the\n".encode(), mtime=0))
    corpus = load_corpus(configure(path=str(path)), cache_dir=tmp_path)
    assert corpus.train == [Pair("él", "he")]


def test_a_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "corpus.tsv").write_text("sol\tsun\n")
    corpus = load_corpus(configure(path="~/corpus.tsv"), cache_dir=tmp_path)
    assert corpus.train == [Pair("sol", "sun")]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tsv.gz", b"sol\tsun\n", "is not a gzip file: compress it, or drop .gz"),
        ("a.tsv.gz", b"", "is not a gzip file"),
        ("a.tsv.gz", gzip.compress(b"sol\tsun\n" * 99, mtime=0)[:-9], "is truncated, damaged"),
        (
            "a.tsv.gz",
            gzip.compress(b"sol\tsun\n", mtime=0)[:10] + b"\xff" * 30,
            "is truncated, damaged",
        ),
        ("a.tsv", gzip.compress(b"sol\tsun\n", mtime=0), "is gzip-compressed: give it a name"),
        ("a.tsv", b"PK\x03\x04....", "is a zip archive: unpack it"),
        ("a.tsv", "sol\tsun\n".encode("utf-16"), "is UTF-16 text: save it as UTF-8"),
        ("a.tsv.gz", gzip.compress("sol\tsun\n".encode("utf-16"), mtime=0), "is UTF-16 text"),
    ],
)
def test_a_file_that_is_not_what_it_should_be(
    tmp_path: Path, name: str, content: bytes, expected: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    message = complaint(lambda: load_corpus(configure(path=str(path)), cache_dir=tmp_path))
    assert message.startswith(f"data.path={path} {expected}")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("corpsu.tsv", "does not exist; did you mean 'corpus.tsv'?"),
        ("zzz", "does not exist: check the path"),
        ("nowhere/corpus.tsv", "does not exist, nor does the folder {folder}/nowhere"),
        ("folder", "is a folder: give a file in it"),
        ("corpus.tsv/deeper", "cannot be read (Not a directory)"),
        ("x" * 300, "cannot be read (File name too long)"),
    ],
)
def test_a_file_that_is_not_there(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "corpus.tsv").write_text("sol\tsun\n")
    (tmp_path / "folder").mkdir()
    path = tmp_path / name
    message = complaint(lambda: load_corpus(configure(path=str(path)), cache_dir=tmp_path))
    assert message.startswith(f"data.path={path} {expected.format(folder=tmp_path)}")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"kind": "tsv"}, "data.path"),
        ({"kind": "parallel"}, "data.source_path"),
        ({"kind": "parallel", "source_path": "x"}, "data.target_path"),
        ({"kind": "tatoeba"}, "data.archive"),
    ],
)
def test_no_file_configured(tmp_path: Path, changes: dict[str, Any], key: str) -> None:
    message = complaint(lambda: load_corpus(configure(**changes), cache_dir=tmp_path))
    assert message == f"no file to read: give {key}=FILE"


def test_an_empty_corpus(tmp_path: Path) -> None:
    assert "empty, 0 lines were read" in complaint(lambda: load_bytes(tmp_path, b""))


def test_no_usable_line_names_the_most_frequent_reason(tmp_path: Path) -> None:
    message = complaint(lambda: load_text(tmp_path, "sol\nsol\nsol\t\n"))
    assert "none of the 3 lines read is usable" in message
    assert "'missing column' (2)" in message


# --- Parallel files ---------------------------------------------------------------------------


def load_parallel(tmp_path: Path, source: bytes, target: bytes, **changes: Any) -> Corpus:
    (tmp_path / "corpus.es").write_bytes(source)
    (tmp_path / "corpus.en.gz").write_bytes(gzip.compress(target, mtime=0))
    config = configure(
        kind="parallel",
        source_path=str(tmp_path / "corpus.es"),
        target_path=str(tmp_path / "corpus.en.gz"),
        **changes,
    )
    return load_corpus(config, cache_dir=tmp_path / "cache")


def test_parallel_files(tmp_path: Path) -> None:
    rejected = tmp_path / "rejected.tsv"
    corpus = load_parallel(
        tmp_path,
        b"\xef\xbb\xbfel\tsol\nluna\n\nmar\nr\xedo",
        b"the sun\r\nmoon\r\nrain\r\ns\xe9a\r\nriver\r\n",
        rejected_file=str(rejected),
    )
    assert corpus.train == [Pair("el sol", "the sun"), Pair("luna", "moon")]
    assert corpus.rejected == {"malformed UTF-8": 2, "empty side": 1}
    assert corpus.lines == 5
    assert rejected.read_text("utf-8").splitlines() == [
        f"empty side\t{tmp_path / 'corpus.es'}:3\t\train",
        f"malformed UTF-8\t{tmp_path / 'corpus.es'}:4\tmar\ts\ufffda",
        f"malformed UTF-8\t{tmp_path / 'corpus.es'}:5\tr\ufffdo\triver",
    ]


@pytest.mark.parametrize(("source", "target"), [(3, 5), (5, 3), (0, 1), (2, 1)])
def test_parallel_files_of_different_length(tmp_path: Path, source: int, target: int) -> None:
    message = complaint(lambda: load_parallel(tmp_path, b"sol\n" * source, b"sun\n" * target))
    assert f"corpus.es has {source} lines and" in message
    assert f"corpus.en.gz has {target}:" in message


def test_parallel_names_the_key_of_the_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "corpus.es"
    path.write_text("sol\n")
    config = configure(kind="parallel", source_path=str(path), target_path=str(path) + "x")
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert message == f"data.target_path={path}x does not exist; did you mean 'corpus.es'?"


# --- Phrasebook -------------------------------------------------------------------------------


def test_phrasebook_reads_every_tsv_in_order_of_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "_phrasebook"
    folder.mkdir()
    (folder / "b.tsv").write_text("dos\ttwo\n")
    (folder / "a.tsv").write_text("uno\tone\nun\n")
    (folder / "README.md").write_text("tres\tthree\n")
    monkeypatch.setattr(nmt, "__file__", str(tmp_path / "__init__.py"))
    rejected = tmp_path / "rejected.tsv"
    config = configure(kind="phrasebook", rejected_file=str(rejected))
    corpus = load_corpus(config, cache_dir=tmp_path)
    assert corpus.train == [Pair("uno", "one"), Pair("dos", "two")]
    assert rejected.read_text() == "missing column\ta.tsv:2\tun\n"


def phrasebook_topics() -> dict[Pair, str]:
    return {
        Pair(*map(clean_text, line.split("\t"))): path.stem
        for path in phrasebook_dir().glob("*.tsv")
        for line in path.read_text(encoding="utf-8").splitlines()
    }


def test_phrasebook_of_a_checkout_mixes_lines_and_patterns_without_leaks(
    compose: Callable[..., Config],
) -> None:
    assert phrasebook_dir() == Path(nmt.__file__).parents[1] / "data" / "phrasebook"
    topics = phrasebook_topics()
    corpus = load_corpus(compose("data.patterns=4000").data, cache_dir=Path())
    for split in (corpus.dev, corpus.test):  # hand-written lines only, from every topic
        assert len(split) >= 300
        assert {topics[pair] for pair in split} == set(topics.values())
    assert 3500 < corpus.patterns <= 4000
    assert len(set(corpus.train[-corpus.patterns :])) == corpus.patterns
    for side in range(2):
        trained = {normalized(pair[side]) for pair in corpus.train}
        dev, test = (
            {normalized(pair[side]) for pair in part} for part in (corpus.dev, corpus.test)
        )
        assert not trained & dev
        assert not trained & test
        assert not dev & test


@pytest.mark.parametrize(("share", "repeats"), [(0.05, 2), (0.2, 1), (0.95, 1)])
def test_hand_written_lines_are_repeated_to_keep_the_share_of_patterns(
    compose: Callable[..., Config], share: float, repeats: int
) -> None:
    config = compose("data.patterns=1000", f"data.pattern_share={share}").data
    corpus = load_corpus(config, cache_dir=Path())
    assert corpus.repeats == repeats
    written = len(corpus.train) - corpus.patterns
    assert Counter(corpus.train[:written]).most_common()[-1][1] == repeats
    assert corpus.lines == written // repeats + len(corpus.dev) + len(corpus.test)


def test_without_patterns_every_line_stands_once(compose: Callable[..., Config]) -> None:
    corpus = load_corpus(compose("data.patterns=0").data, cache_dir=Path())
    assert corpus.patterns == 0
    assert len(set(corpus.train)) == len(corpus.train)


def test_a_missing_phrasebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt, "__file__", str(tmp_path / "nmt" / "__init__.py"))
    config = configure(kind="phrasebook")
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert message.startswith(f"no embedded corpus in {tmp_path / 'data' / 'phrasebook'}: reinst")


# --- Zip archives -----------------------------------------------------------------------------


def zipped(members: dict[str, str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Make an archive whose bytes, which name tests, do not depend on the time."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return memory.getvalue()


SPA_ENG = {"spa-eng/_about.txt": "terms of use", "spa-eng/spa.txt": "Go.\tVe.\nGo.\tVaya.\n"}
GO = [Pair("Ve.", "Go."), Pair("Vaya.", "Go.")]


def load_zip(tmp_path: Path, content: bytes, **changes: Any) -> Corpus:
    path = tmp_path / "spa-eng.zip"
    path.write_bytes(content)
    values: dict[str, Any] = {"kind": "tatoeba", "archive": str(path), "columns": [1, 0]}
    return load_corpus(configure(**(values | changes)), cache_dir=tmp_path / "cache")


@pytest.mark.parametrize(
    "members",
    [
        SPA_ENG,
        {**SPA_ENG, "spa-eng/other.txt": "Stop.\tAlto.\n"},  # spa.txt goes first
        {"deu.txt": SPA_ENG["spa-eng/spa.txt"], "_about.txt": "", "readme.md": ""},
        {"a/deu.txt": SPA_ENG["spa-eng/spa.txt"], "__MACOSX/a/._deu.txt": "", "a/.x.txt": ""},
    ],
)
def test_zip(tmp_path: Path, members: dict[str, str]) -> None:
    assert load_zip(tmp_path, zipped(members)).train == GO


def test_zip_lines_are_numbered_in_the_rejected_file(tmp_path: Path) -> None:
    rejected = tmp_path / "rejected.tsv"
    content = zipped({"spa.txt": "Go.\tVe.\nGo.\n"})
    load_zip(tmp_path, content, rejected_file=str(rejected))
    assert rejected.read_text() == f"missing column\t{tmp_path / 'spa-eng.zip'}:2\tGo.\n"


def damaged(content: bytes, marker: bytes) -> bytes:
    """Return the archive with a byte changed behind the first ``marker``."""
    position = content.index(marker) + len(marker) + 2
    return content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]


def encrypted(content: bytes) -> bytes:
    """Return the archive with the encryption flag set in its only directory entry."""
    position = content.index(b"PK\x01\x02") + 8
    return content[:position] + b"\x01" + content[position + 1 :]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (zipped(SPA_ENG)[:-30], "is truncated, damaged or not an archive"),
        (b"not a zip at all", "is truncated, damaged or not an archive"),
        (b"", "is truncated, damaged or not an archive"),
        (
            damaged(zipped({"spa.txt": "Go.\tVe.\n"}, zipfile.ZIP_STORED), b"Go."),
            "is truncated, damaged or not an archive (Bad CRC-32",
        ),
        (
            damaged(zipped({"spa.txt": "Go.\tVe.\n" * 99}), b"spa.txt"),
            "is truncated, damaged or not an archive",
        ),
        (encrypted(zipped({"spa.txt": "Go.\tVe.\n"})), "is encrypted"),
        (zipped({"_about.txt": "", "spa.csv": ""}), "holds no text file where one"),
        (zipped({"a.txt": "", "b.txt": ""}), "holds 2 text files (a.txt, b.txt) where one"),
        (zipped({**SPA_ENG, "../evil.txt": ""}), "is refused, its member '../evil.txt' points"),
        (zipped({**SPA_ENG, "a/../../evil": ""}), "is refused"),
        (zipped({**SPA_ENG, "/etc/evil": ""}), "is refused, its member '/etc/evil' points"),
        (zipped({**SPA_ENG, "..\\evil": ""}), "is refused"),
        (zipped({**SPA_ENG, "C:\\evil": ""}), "is refused"),
    ],
)
def test_a_zip_that_is_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    message = complaint(lambda: load_zip(tmp_path, content))
    assert message.startswith(f"data.archive={tmp_path / 'spa-eng.zip'} {expected}")


def test_a_missing_archive(tmp_path: Path) -> None:
    (tmp_path / "spa-eng.zip").write_bytes(zipped(SPA_ENG))
    config = configure(kind="tatoeba", archive=str(tmp_path / "spa_eng.zip"), url="http://unused")
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert message.endswith("spa_eng.zip does not exist; did you mean 'spa-eng.zip'?")


# --- Download ---------------------------------------------------------------------------------


class Site:
    """A web server on this machine: what it serves, and how often it was asked."""

    def __init__(self) -> None:
        self.content = zipped(SPA_ENG)
        self.status = 200
        self.announced: int | None = None  # Content-Length, where it differs from the truth
        self.requests = 0
        self.url = ""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    state = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests += 1
            self.send_response(state.status)
            length = len(state.content) if state.announced is None else state.announced
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(state.content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_port}/data/spa-eng.zip"
        yield state
        server.shutdown()
        thread.join()


def load_url(url: str, cache_dir: Path) -> Corpus:
    config = configure(kind="tatoeba", url=url, columns=[1, 0])
    return load_corpus(config, cache_dir=cache_dir)


def test_download_once(tmp_path: Path, site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    cache_dir = tmp_path / "made" / "cache"
    assert load_url(site.url, cache_dir).train == GO
    assert [path.name for path in cache_dir.iterdir()] == ["spa-eng.zip"]
    assert (cache_dir / "spa-eng.zip").read_bytes() == site.content
    assert load_url(site.url, cache_dir).train == GO
    assert site.requests == 1
    assert capfd.readouterr() == ("", "")  # no progress bar without a terminal


def test_another_archive_is_not_mistaken_for_the_one_downloaded(tmp_path: Path, site: Site) -> None:
    load_url(site.url, tmp_path)
    site.content = zipped({"deu.txt": "Go!\tGeh!\n"})
    other = load_url(site.url.replace("spa-eng", "deu-eng"), tmp_path)
    assert other.train == [Pair("Geh!", "Go!")]


@pytest.mark.parametrize("stale", [b"", b"<html>", zipped(SPA_ENG)[:-9]])
def test_a_damaged_download_is_fetched_again(tmp_path: Path, site: Site, stale: bytes) -> None:
    (tmp_path / "spa-eng.zip").write_bytes(stale)
    assert load_url(site.url, tmp_path).train == GO
    assert site.requests == 1


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"status": 404}, "HTTP Error 404: Not Found"),
        ({"content": b"<html>log in</html>"}, "its 19 bytes are not a whole zip archive"),
        ({"content": b"half", "announced": 8}, "the connection ended after 4 of 8 bytes"),
    ],
)
def test_a_failed_download_says_why(
    tmp_path: Path, site: Site, changes: dict[str, Any], why: str
) -> None:
    for name, value in changes.items():
        setattr(site, name, value)
    message = complaint(lambda: load_url(site.url, tmp_path))
    assert message == (
        f"the download of {site.url} to {tmp_path / 'spa-eng.zip'} failed: {why}; "
        "pass data.archive=/path/to/spa-eng.zip"
    )
    assert list(tmp_path.iterdir()) == []  # nothing half-written stays


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/spa-eng.zip", "no url at all"])
def test_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as taken:  # bound but not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        address = url.format(port=taken.getsockname()[1])
        message = complaint(lambda: load_url(address, tmp_path))
    assert message.startswith(f"the download of {address} to ")
    assert ("failed: [Errno 111] Connection" if "{port}" in url else "unknown url type") in message
    assert message.endswith("; pass data.archive=/path/to/spa-eng.zip")


def test_a_server_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(reading, "DOWNLOAD_TIMEOUT", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/spa-eng.zip"
        start = time.monotonic()
        assert "failed: timed out; pass" in complaint(lambda: load_url(url, tmp_path))
        assert time.monotonic() - start < 4


def test_progress_on_a_terminal(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(reading, "Console", lambda stderr: terminal)
    load_url(site.url, tmp_path)
    assert isinstance(terminal.file, io.StringIO)
    assert f"{len(site.content)}/{len(site.content)} bytes" in terminal.file.getvalue()


def test_a_cache_folder_that_cannot_be_made(tmp_path: Path, site: Site) -> None:
    (tmp_path / "cache").write_text("a file is in the way")
    message = complaint(lambda: load_url(site.url, tmp_path / "cache"))
    assert "failed: [Errno 17] File exists" in message


# --- Splitting --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("¿Dónde está?", "donde esta"),
        ("DONDE   ESTA", "donde esta"),
        ("I'm well-known.", "i m well known"),
        ("I’m well known", "i m well known"),
        ("snake_case $5 = 5€", "snake case 5 5"),
        ("Straße", "strasse"),
        ("I ❤️ you", "i you"),
        ("می\u200cخواهم", "میخواهم"),
        ("...", "..."),
        ("😀", "😀"),
        ("½ café", "½ cafe"),
    ],
)
def test_normalized(text: str, expected: str) -> None:
    assert normalized(text) == expected


def test_pairs_linked_by_a_chain_of_sentences_stay_together(tmp_path: Path) -> None:
    # Hola = HOLA (source), Hi! = hi (target), Buenas = buenas (source): one group of four.
    chain = [("Hola.", "Hello."), ("¡HOLA!", "Hi!"), ("Buenas", "hi"), ("buenas…", "Good day")]
    lonely = [("...", "Well."), ("!!!", "Hey.")]  # no letters: not taken for the same sentence
    pairs = [chain[0], lonely[0], chain[1], chain[2], lonely[1], chain[3]]
    for seed in range(5):
        corpus = load_pairs(tmp_path, pairs, dev=1, test=1, split_seed=seed)
        assert corpus.train == [Pair(*pair) for pair in chain]  # larger than a split: to train
        assert {*corpus.dev, *corpus.test} == {Pair(*pair) for pair in lonely}


def test_source_and_target_of_different_pairs_do_not_link(tmp_path: Path) -> None:
    corpus = load_pairs(tmp_path, [("Tom", "Thomas"), ("Tomás", "Tom")], test=1)
    assert len(corpus.test) == 1


@pytest.mark.parametrize(
    ("count", "dev", "test", "sizes"),
    [
        (100, 0, 0, (100, 0, 0)),
        (1, 0, 0, (1, 0, 0)),
        (2, 0, 1, (1, 0, 1)),
        (2, 1, 0, (1, 1, 0)),
        (4, 0.02, 0.02, (2, 1, 1)),  # a share above 0 is at least one pair
        (100, 7, 5, (88, 7, 5)),
        (100, 0.1, 5.0, (85, 10, 5)),
        (200, 0.02, 0.03, (190, 4, 6)),
        (100, 25, 25, (50, 25, 25)),
    ],
)
def test_split_sizes(
    tmp_path: Path, count: int, dev: float, test: float, sizes: tuple[int, int, int]
) -> None:
    corpus = load_pairs(tmp_path, singles(count), dev=dev, test=test)
    assert (len(corpus.train), len(corpus.dev), len(corpus.test)) == sizes


@pytest.mark.parametrize(
    ("count", "dev", "test", "taken"),
    [
        (1, 0.02, 0.02, "1 + 1 of 1"),
        (1, 1, 0, "1 + 0 of 1"),
        (3, 1, 1, "1 + 1 of 3"),
        (100, 26, 25, "26 + 25 of 100"),
        (100, 0, 0.6, "0 + 60 of 100"),
        (100, 2000, 2000, "2,000 + 2,000 of 100"),
    ],
)
def test_splits_larger_than_the_corpus_allows(
    tmp_path: Path, count: int, dev: float, test: float, taken: str
) -> None:
    message = complaint(lambda: load_pairs(tmp_path, singles(count), dev=dev, test=test))
    assert f"data.dev={dev:g} and data.test={test:g} take {taken} usable pairs" in message
    assert "set data.dev=0 data.test=0 (or smaller sizes than now), or add data" in message


def grouped(*sizes: int) -> list[tuple[str, str]]:
    """Return groups of pairs that share their source."""
    return [
        (f"frase {group}", f"sentence {group} {number}")
        for group, size in enumerate(sizes)
        for number in range(size)
    ]


def test_the_smallest_group_is_taken_when_none_fits(tmp_path: Path) -> None:
    corpus = load_pairs(tmp_path, grouped(5, 2, 5), test=1)
    assert corpus.test == [Pair("frase 1", "sentence 1 0"), Pair("frase 1", "sentence 1 1")]
    assert len(corpus.train) == 10


@pytest.mark.parametrize("sizes", [(4,), (2, 2), (3, 1)])
def test_groups_too_large_for_any_split(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    message = complaint(lambda: load_pairs(tmp_path, grouped(*sizes), dev=1, test=1))
    assert message.startswith("the 4 usable pairs share so many sentences")
    assert "set data.dev=0 data.test=0" in message


def test_a_split_that_stays_short_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "corpus.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in grouped(3, 1, 3)))
    messages: list[str] = []
    config = configure(path=str(path), test=2)
    corpus = load_corpus(config, cache_dir=tmp_path, report=messages.append)
    assert corpus.test == [Pair("frase 1", "sentence 1 0")]
    assert messages == [
        "test: 1 of 2 pairs; every other group is too large",
        "corpus: 7 lines, 7 pairs kept: 6 train, 0 dev, 1 test",
    ]


def test_the_split_depends_on_its_seed_and_little_on_other_lines(tmp_path: Path) -> None:
    pairs = singles(200)
    first = load_pairs(tmp_path, pairs, dev=20, test=20)
    other_seed = load_pairs(tmp_path, pairs, dev=20, test=20, split_seed=2)
    longer = load_pairs(tmp_path, [("nueva", "new"), *pairs], dev=20, test=20)
    assert set(first.test) != set(other_seed.test)
    assert len(set(first.test) - set(longer.test)) <= 1  # one may have to make room
    assert len(set(first.dev) - set(longer.dev)) <= 1


def test_each_split_keeps_the_order_of_the_lines(tmp_path: Path) -> None:
    pairs = [Pair(*pair) for pair in singles(60)]
    corpus = load_pairs(tmp_path, list(pairs), dev=15, test=15)
    for split in (corpus.train, corpus.dev, corpus.test):
        assert split == sorted(split, key=pairs.index)


# Few words in many spellings, so that sentences are shared, repeated and linked in chains.
word = st.sampled_from(["sol", "Sol", "SOL!", "sól", "mar", "¿mar?", "río", "...", "😀", "ß", "ss"])
sentence = st.lists(word, min_size=1, max_size=3).map(" ".join)


@settings(deadline=None)
@given(
    pairs=st.lists(st.tuples(sentence, sentence), max_size=40),
    dev=st.sampled_from([0, 1, 3, 0.1]),
    test=st.sampled_from([0, 1, 4, 0.2]),
    seed=st.integers(0, 3),
    order=st.randoms(use_true_random=False),
)
def test_no_sentence_is_in_two_splits_whatever_the_order(
    pairs: list[tuple[str, str]], dev: float, test: float, seed: int, order: random.Random
) -> None:
    # 20 pairs apart from the others and from each other make sure that the sizes are possible.
    pairs = pairs + singles(20)
    shuffled = pairs.copy()
    order.shuffle(shuffled)
    with tempfile.TemporaryDirectory() as folder:
        corpus, again = (
            load_pairs(Path(folder), lines, dev=dev, test=test, split_seed=seed)
            for lines in (pairs, shuffled)
        )
    splits = [corpus.train, corpus.dev, corpus.test]
    for side in (0, 1):
        held = [{normalized(pair[side]) for pair in split} for split in splits]
        assert len(set[str]().union(*held)) == sum(map(len, held))
    kept = [pair for split in splits for pair in split]
    assert sorted(kept) == sorted({Pair(*map(clean_text, pair)) for pair in pairs})
    assert len(kept) + sum(corpus.rejected.values()) == corpus.lines == len(pairs)
    assert corpus.rejected == again.rejected
    for one, other in zip(splits, (again.train, again.dev, again.test), strict=True):
        assert sorted(one) == sorted(other)


# --- The module itself ------------------------------------------------------------------------


def test_reading_a_corpus_loads_neither_hydra_nor_tensorflow() -> None:
    program = f"import sys, {corpus_module.__name__}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"hydra", "omegaconf", "tensorflow", "keras"} & set(loaded)
