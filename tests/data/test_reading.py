"""Lines of files and archives, and messages about unreadable ones."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from backports import zstd
from sample_corpora import BOMB, GO, SPA_ENG, complaint, configure, tarred, zipped

from nmt.config import SourceConfig
from nmt.config.sources import FILES
from nmt.data import embedded, lines
from nmt.data.corpus import Corpus, load_corpus
from nmt.data.evaluation_sets import read_parallel
from nmt.data.lines import LONGEST_LINE
from nmt.data.opening import matching_files
from nmt.data.reading import check_files_exist
from nmt.data.splitting import Pair

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd.compress,
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_packed_file_is_read_by_its_suffix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"corpus.tsv.{suffix}"
    path.write_bytes(PACKERS[suffix]("él\the\n".encode()))
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
        ("a.tsv.gz", b"sol\tsun\n", "is not gzip-compressed: compress it, or drop .gz"),
        ("a.tsv.gz", b"", "is not gzip-compressed"),
        ("a.tsv.gz", gzip.compress(b"sol\tsun\n" * 99, mtime=0)[:-9], "is truncated, damaged"),
        (
            "a.tsv.gz",
            gzip.compress(b"sol\tsun\n", mtime=0)[:10] + b"\xff" * 30,
            "is truncated, damaged",
        ),
        ("a.tsv", gzip.compress(b"sol\tsun\n", mtime=0), "is gzip-compressed: give it a name"),
        ("a.tsv.bz2", b"sol\tsun\n", "is not bzip2-compressed: compress it, or drop .bz2"),
        ("a.tsv.xz", b"sol\tsun\n", "is not xz-compressed: compress it, or drop .xz"),
        ("a.tsv.bz2", bz2.compress(b"sol\tsun\n" * 99)[:-9], "is truncated, damaged"),
        ("a.tsv.bz2", bz2.compress(b"sol\tsun\n")[:10] + b"\xff" * 30, "is truncated or damaged"),
        ("a.tsv.xz", lzma.compress(b"sol\tsun\n" * 99)[:-9], "is truncated, damaged"),
        ("a.tsv", bz2.compress(b"sol\tsun\n"), "is bzip2-compressed: give it a name"),
        ("a.tsv", lzma.compress(b"sol\tsun\n"), "is xz-compressed: give it a name that ends"),
        ("a.tsv.gz", bz2.compress(b"sol\tsun\n"), "is not gzip-compressed"),
        ("a.tsv.zst", b"sol\tsun\n", "is not Zstandard-compressed: compress it, or drop .zst"),
        ("a.tsv.zst", zstd.compress(b"sol\tsun\n" * 99)[:-3], "is truncated, damaged"),
        ("a.tsv.zst", zstd.compress(b"sol\tsun\n") + b"?" * 9, "is truncated, damaged"),
        ("a.tsv", zstd.compress(b"sol\tsun\n"), "is Zstandard-compressed: give it a name"),
        ("a.tsv", b"PK\x03\x04....", "is a zip archive or a spreadsheet: unpack it"),
        ("a.tsv", b"PAR1....", "is a Parquet file: give it a name that ends in .parquet"),
        ("a.parquet.gz", gzip.compress(b"PAR1....", mtime=0), "is compressed, as Parquet is"),
        ("a.parquet", b"PAR1....", "is truncated, damaged or not an archive"),
        ("a.tsv", "sol\tsun\n".encode("utf-16-le"), "seems to be UTF-16-LE, not UTF-8: give data."),
    ],
)
def test_a_file_that_is_not_what_it_should_be(
    tmp_path: Path, name: str, content: bytes, expected: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    message = complaint(lambda: load_corpus(configure(path=str(path)), cache_dir=tmp_path))
    assert message.startswith(f"data.train={path} {expected}")


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
    assert message.startswith(f"data.train={path} {expected.format(folder=tmp_path)}")


@pytest.mark.parametrize("name", ["corpsu.tsv", "nowhere/corpus.tsv", "corpus.tsv/deeper", "*.en"])
def test_a_missing_file_is_noticed_before_any_is_read(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "corpus.tsv")  # reading it would wait for ever
    found, missing = (SourceConfig(kind=FILES, path=str(tmp_path / each)) for each in ("*", name))
    check_files_exist({"pairs": found})
    message = complaint(lambda: check_files_exist({"pairs": found, "dev": missing}))
    assert message.startswith(f"data.dev={tmp_path / name}")


# --- Parallel files ---------------------------------------------------------------------------


def load_parallel(tmp_path: Path, source: bytes, target: bytes, **changes: Any) -> Corpus:
    (tmp_path / "corpus.es").write_bytes(source)
    (tmp_path / "corpus.en.gz").write_bytes(gzip.compress(target, mtime=0))
    rejected_file = changes.pop("rejected_file", None)
    config = configure(
        path=[str(tmp_path / "corpus.es"), str(tmp_path / "corpus.en.gz")],
        **changes,
    )
    return load_corpus(config, cache_dir=tmp_path / "cache", rejected_file=rejected_file)


def test_parallel_files(tmp_path: Path) -> None:
    rejected = tmp_path / "rejected.tsv"
    corpus = load_parallel(
        tmp_path,
        b"\xef\xbb\xbfel\tsol\nluna\n\nmar\nr\xedo",
        b"the sun\r\nmoon\r\nrain\r\ns\xe9a\r\nriver\r\n",
        rejected_file=rejected,
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
    config = configure(path=[str(path), str(path) + "x"])
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert message == f"data.train={path}x does not exist; did you mean 'corpus.es'?"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("{}.tsv", "sol\tsun\nmar\tsea\n"),
        ("{}.jsonl", '{"es": "sol", "en": "sun"}\n'),
        ("{}.csv.gz", "sol,sun\n"),
        ("{}.tmx", "<tmx></tmx>\n"),
    ],
)
def test_two_tables_are_not_aligned_files(tmp_path: Path, name: str, content: str) -> None:
    paths = [tmp_path / name.format(number) for number in (1, 2)]
    for path in paths:
        data = content.encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    config = configure(path=[str(path) for path in paths])
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert f"{paths[0]} has pairs: name several such files by a pattern" in message


# --- Quotes and blank lines of tables ---------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        '"sol"\t"sun"\n' * 4 + '\n"mar"\t"sea"',
        'mar\tsea\n"Dijo ""sol""."\t"He said ""sun""."\n',
        '"es"\t"en"\n' + '"a"\t"b"\n' * 4,
    ],
)
def test_a_table_that_is_quoted_like_csv_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(content)
    message = complaint(lambda: load_corpus(configure(path=str(path)), cache_dir=tmp_path))
    assert message == (
        f"data.train={path} has its cells in quotes, as CSV has: give it a name in .csv"
    )


def test_quotation_marks_of_sentences_stay(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text('"Sol", dijo.\t"Sun," he said.\n"mar"\t"sea"\n5"\t5 inches\n')
    corpus = load_corpus(configure(path=str(path)), cache_dir=tmp_path)
    assert corpus.train[:2] == [Pair('"Sol", dijo.', '"Sun," he said.'), Pair('"mar"', '"sea"')]


@pytest.mark.parametrize(("name", "mark"), [("a.tsv", "\t"), ("a.csv", ",")])
def test_a_header_may_stand_behind_blank_lines(tmp_path: Path, name: str, mark: str) -> None:
    path = tmp_path / name
    path.write_text(f"\n\nes{mark}en\nsol{mark}sun\n")
    config = configure(path=str(path), columns=["en", "es"])
    assert load_corpus(config, cache_dir=tmp_path).train == [Pair("sun", "sol")]


# --- Line ends --------------------------------------------------------------------------------

OLD_MAC = b"uno\tone\rdos\ttwo\r\rtres\tthree\rcuatro"
COUNTED = [Pair("uno", "one"), Pair("dos", "two"), Pair("tres", "three")]


@pytest.mark.parametrize("kind", ["plain", "gz", "zip", "tgz"])
def test_a_file_without_line_feeds_ends_its_lines_with_carriage_returns(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / {"plain": "a.tsv", "gz": "a.tsv.gz", "zip": "a.zip", "tgz": "a.tgz"}[kind]
    pack = {"gz": gzip.compress, "zip": lambda content: zipped({"spa.txt": content.decode()})}
    pack["tgz"] = lambda content: tarred({"spa.txt": content.decode()})
    path.write_bytes(pack.get(kind, bytes)(OLD_MAC))
    key, source_kind = ("path", "files") if kind in ("plain", "gz") else ("archive", "zip")
    config = configure(kind=source_kind, **{key: str(path)})
    rejected = tmp_path / "rejected.tsv"
    corpus = load_corpus(config, cache_dir=tmp_path, rejected_file=rejected)
    assert corpus.train == COUNTED
    assert corpus.rejected == {"missing column": 2}
    assert corpus.lines == 5
    assert rejected.read_text("utf-8").splitlines() == [
        f"missing column\t{path}:3\t",
        f"missing column\t{path}:5\tcuatro",
    ]


@pytest.mark.parametrize("padding", range(8))
def test_where_one_file_is_joined_to_another_every_line_end_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, padding: int
) -> None:
    """The ends of lines fall anywhere among the blocks that are read."""
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)  # with no line feed in so many bytes
    content = b"x" * padding + b"uno\tone\r" * 200 + b"dos\ttwo\r\ntres\tthree\n"
    (tmp_path / "corpus.tsv").write_bytes(content + b"uno\tone\r" * 2000)
    corpus = load_corpus(configure(path=str(tmp_path / "corpus.tsv")), cache_dir=tmp_path)
    first = [Pair("x" * padding + "uno", "one")] if padding else []
    assert corpus.train == first + COUNTED
    assert corpus.lines == 2202


def test_a_line_without_end_is_cut_among_carriage_returns(
    tmp_path: Path, peak: Callable[[], int]
) -> None:
    with (tmp_path / "corpus.tsv").open("wb") as file:
        file.write(b"uno\tone\rdos\t")
        file.writelines(b"n" * LONGEST_LINE for _ in range(12))
        file.write(b"\rtres\tthree\r")
        file.writelines(b"n" * LONGEST_LINE for _ in range(12))
    corpus = load_corpus(configure(path=str(tmp_path / "corpus.tsv")), cache_dir=tmp_path)
    assert corpus.train == [COUNTED[0], COUNTED[2]]
    assert corpus.rejected == {"line over 1 MiB": 2}
    assert peak() < 10 * MIB


def test_a_carriage_return_inside_a_line_of_a_table_is_rejected(tmp_path: Path) -> None:
    path, rejected = tmp_path / "corpus.tsv", tmp_path / "rejected.tsv"
    path.write_bytes(b"uno\tone\r\ndos\ttwo\rx\ttres\tthree\r\r\ntres\tthree\n")
    corpus = load_corpus(configure(path=str(path)), cache_dir=tmp_path, rejected_file=rejected)
    assert corpus.train == [COUNTED[0], COUNTED[2]]
    assert corpus.rejected == {"carriage return inside the line": 1}
    assert corpus.lines == 3


def test_aligned_files_need_not_end_their_lines_alike(tmp_path: Path) -> None:
    corpus = load_parallel(tmp_path, b"uno\rdos\rtres\r", b"one\ntwo\nthree\n")
    assert corpus.train == COUNTED


def test_a_carriage_return_inside_an_aligned_line_is_white_space(tmp_path: Path) -> None:
    """Line n still translates line n: to split there would misalign all that follows."""
    corpus = load_parallel(tmp_path, b"uno\ndos\r y dos\ntres\n", b"one\r\ntwo and two\nthree")
    assert corpus.train == [COUNTED[0], Pair("dos y dos", "two and two"), COUNTED[2]]
    assert not corpus.rejected


# --- Phrasebook -------------------------------------------------------------------------------


def test_phrasebook_reads_every_tsv_in_order_of_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "_phrasebook"
    folder.mkdir()
    (folder / "b.tsv").write_text("dos\ttwo\n")
    (folder / "a.tsv").write_text("uno\tone\nun\n")
    (folder / "README.md").write_text("tres\tthree\n")
    monkeypatch.setattr(embedded, "__file__", str(tmp_path / "data" / "embedded.py"))
    rejected = tmp_path / "rejected.tsv"
    config = configure(kind="phrasebook")
    corpus = load_corpus(config, cache_dir=tmp_path, rejected_file=rejected)
    assert corpus.train == [Pair("uno", "one"), Pair("dos", "two")]
    assert rejected.read_text() == "missing column\ta.tsv:2\tun\n"


def test_a_missing_phrasebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "__file__", str(tmp_path / "nmt" / "data" / "embedded.py"))
    config = configure(kind="phrasebook")
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert message.startswith(f"no embedded corpus in {tmp_path / 'data' / 'phrasebook'}: reinst")


# --- Zip archives -----------------------------------------------------------------------------


def load_zip(tmp_path: Path, content: bytes, **changes: Any) -> Corpus:
    path = tmp_path / "spa-eng.zip"
    path.write_bytes(content)
    rejected_file = changes.pop("rejected_file", None)
    values: dict[str, Any] = {"kind": "zip", "archive": str(path), "columns": [1, 0]}
    config = configure(**(values | changes))
    return load_corpus(config, cache_dir=tmp_path / "cache", rejected_file=rejected_file)


@pytest.mark.parametrize(
    "members",
    [
        SPA_ENG,
        {**SPA_ENG, "spa-eng/other.txt": "Stop.\tAlto.\n"},  # spa.txt goes first
        {"deu.txt": SPA_ENG["spa-eng/spa.txt"], "_about.txt": "", "readme.md": ""},
        {"a/deu.txt": SPA_ENG["spa-eng/spa.txt"], "__MACOSX/a/._deu.txt": "", "a/.x.txt": ""},
    ],
)
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_zip(
    tmp_path: Path, members: dict[str, str], pack: Callable[[dict[str, str]], bytes]
) -> None:
    assert load_zip(tmp_path, pack(members)).train == GO


def test_zip_lines_are_numbered_in_the_rejected_file(tmp_path: Path) -> None:
    rejected = tmp_path / "rejected.tsv"
    content = zipped({"spa.txt": "Go.\tVe.\nGo.\n"})
    load_zip(tmp_path, content, rejected_file=rejected)
    assert rejected.read_text() == f"missing column\t{tmp_path / 'spa-eng.zip'}:2\tGo.\n"


def damaged(content: bytes, marker: bytes) -> bytes:
    """Return the archive with a byte changed after the first ``marker``."""
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
        (
            damaged(zipped({"spa.txt": "Go.\tVe.\n" * 99}, zipfile.ZIP_LZMA), b"]\x00\x00\x80\x00"),
            "is truncated, damaged or not an archive (Corrupt input data",
        ),
        (encrypted(zipped({"spa.txt": "Go.\tVe.\n"})), "is encrypted"),
        (zipped({"_about.txt": "", "spa.csv": ""}), "holds no text files, where one"),
        (zipped({"a.txt": "", "b.txt": ""}), "holds 2 text files (a.txt, b.txt), where one"),
        (zipped({**SPA_ENG, "../evil.txt": ""}), "is rejected, its member '../evil.txt' points"),
        (zipped({**SPA_ENG, "a/../../evil": ""}), "is rejected"),
        (zipped({**SPA_ENG, "/etc/evil": ""}), "is rejected, its member '/etc/evil' points"),
        (zipped({**SPA_ENG, "..\\evil": ""}), "is rejected"),
        (zipped({**SPA_ENG, "C:\\evil": ""}), "is rejected"),
        (tarred(SPA_ENG)[:-30], "is truncated, damaged or not an archive"),
        (tarred(SPA_ENG)[:40], "is truncated, damaged or not an archive"),
        (gzip.compress(b"Go.\tVe.\n", mtime=0), "is truncated, damaged or not an archive"),
        (tarred({"a.txt": "", "b.txt": ""}), "holds 2 text files (a.txt, b.txt), where one"),
        (tarred({**SPA_ENG, "../evil.txt": ""}), "is rejected, its member '../evil.txt' points"),
    ],
)
def test_a_zip_that_is_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    message = complaint(lambda: load_zip(tmp_path, content))
    assert message.startswith(f"data.archive={tmp_path / 'spa-eng.zip'} {expected}")


def test_a_missing_archive(tmp_path: Path) -> None:
    (tmp_path / "spa-eng.zip").write_bytes(zipped(SPA_ENG))
    config = configure(kind="zip", archive=str(tmp_path / "spa_eng.zip"), url="http://unused")
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path))
    assert message.endswith("spa_eng.zip does not exist; did you mean 'spa-eng.zip'?")


def test_an_archive_of_another_hash_is_refused(tmp_path: Path) -> None:
    content = zipped(SPA_ENG)
    digest, expected = sha256(content).hexdigest(), "0" * 64
    corpus = load_zip(tmp_path, content, sha256=digest)
    assert corpus.train == GO
    assert corpus.archives == {"pairs": digest}
    message = complaint(lambda: load_zip(tmp_path, content, sha256=expected))
    assert message.startswith(
        f"data.archive={tmp_path / 'spa-eng.zip'} has the SHA-256 {digest}, not {expected}: "
    )


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    packed, zstandard = tmp_path / "corpus.tsv.gz", tmp_path / "corpus.tsv.zst"
    packed.write_bytes(gzip.compress(BOMB.encode(), mtime=0))
    zstandard.write_bytes(zstd.compress(BOMB.encode()))
    messages = [
        complaint(lambda: load_zip(tmp_path, zipped({"spa.txt": BOMB}))),
        complaint(lambda: load_zip(tmp_path, tarred({"spa.txt": BOMB}))),
        complaint(lambda: load_corpus(configure(path=str(packed)), cache_dir=tmp_path)),
        complaint(lambda: load_corpus(configure(path=str(zstandard)), cache_dir=tmp_path)),
    ]
    archive = f"data.archive={tmp_path / 'spa-eng.zip'}"
    names = archive, archive, f"data.train={packed}", f"data.train={zstandard}"
    for message, name in zip(messages, names, strict=True):
        assert message.startswith(f"{name} is rejected, its ")
        assert "bytes unpack to more than" in message


# --- Lines that are too long ------------------------------------------------------------------

HUGE = 100_000_000  # bytes of a line
MIB = 1 << 20


def write_lines(file: BinaryIO) -> None:
    """Write a table whose second line is a hundred megabytes; a file that can has a hole there."""
    file.write(b"sol\tsun\n")
    if isinstance(file, io.BufferedWriter):
        file.seek(HUGE, io.SEEK_CUR)
    else:
        for _ in range(HUGE // 1_000_000):
            file.write(bytes(1_000_000))
    file.write(b"\tx\nluna\nmar\tsea\n")


def write_plain(path: Path) -> None:
    with path.open("wb") as file:
        write_lines(file)


def write_gzip(path: Path) -> None:
    with gzip.open(
        path, "wb", compresslevel=0
    ) as file:  # uncompressed, so that its size is allowed
        write_lines(file)  # type: ignore[arg-type]


def write_tar(path: Path) -> None:
    write_plain(table := path.with_name("spa.txt"))
    with (
        gzip.open(path, "wb", compresslevel=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        archive.add(table, table.name)


def write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive, archive.open("spa.txt", "w") as file:
        write_lines(file)  # type: ignore[arg-type]


@pytest.fixture
def peak() -> Iterator[Callable[[], int]]:
    """Measure the most bytes that Python objects took at once, from here on."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("write", "key", "name"),
    [
        (write_plain, "path", "a.tsv"),
        (write_gzip, "path", "a.tsv.gz"),
        (write_zip, "archive", "a.zip"),
        (write_tar, "archive", "a.tgz"),
    ],
)
def test_a_huge_line_is_one_rejection_in_constant_memory(
    tmp_path: Path, peak: Callable[[], int], write: Callable[[Path], None], key: str, name: str
) -> None:
    path, rejected = tmp_path / name, tmp_path / "rejected.tsv"
    write(path)
    config = configure(kind="zip" if key == "archive" else "files", **{key: str(path)})
    corpus = load_corpus(config, cache_dir=tmp_path, rejected_file=rejected)
    assert corpus.train == [Pair("sol", "sun"), Pair("mar", "sea")]
    assert corpus.rejected == {"line over 1 MiB": 1, "missing column": 1}
    assert corpus.lines == 4
    shown, missing = rejected.read_text("utf-8").splitlines()
    assert shown == f"line over 1 MiB\t{path}:2\t" + "\0" * 200
    assert missing == f"missing column\t{path}:3\tluna"
    assert peak() < 8 * MIB


def test_huge_lines_of_parallel_files(tmp_path: Path, peak: Callable[[], int]) -> None:
    paths = [tmp_path / "corpus.es", tmp_path / "corpus.en"]
    write_plain(paths[0])
    paths[1].write_text("the sun\nlong\nmoon\nthe sea\n")
    config = configure(path=[str(path) for path in paths])
    corpus = load_corpus(config, cache_dir=tmp_path)
    assert corpus.train[1:] == [Pair("luna", "moon"), Pair("mar sea", "the sea")]
    assert corpus.rejected == {"line over 1 MiB": 1}
    message = complaint(lambda: read_parallel(*paths))  # to evaluate on: nothing is left out
    assert message == f"line 2 of {paths[0]} or of {paths[1]} is over 1 MiB: break it up"
    assert peak() < 8 * MIB


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("end", ["", "\n", "\nmar\tsea\n"])
@pytest.mark.parametrize("over", [0, 1, LONGEST_LINE, 2 * LONGEST_LINE + 2])
def test_the_longest_line(tmp_path: Path, over: int, end: str, split: str) -> None:
    """One more byte is too long, wherever its end falls among the blocks that are read."""
    path = tmp_path / "corpus.tsv"
    line = "luna\tmoon" + "n" * (LONGEST_LINE - len("luna\tmoon") + over)
    path.write_text(f"{line}{end}")
    other = tmp_path / "other.tsv"
    other.write_text("sol\tsun\n")
    sources = {
        "one": SourceConfig(kind="files", path=str(path), split=split),
        "two": SourceConfig(kind="files", path=str(other)),
    }
    accepted = int(end.count("\n") == 2)
    config = configure(sources, max_characters=2 * LONGEST_LINE, max_length_ratio=LONGEST_LINE)
    if over and not accepted:
        assert "'line over 1 MiB' (1)" in complaint(lambda: load_corpus(config, cache_dir=tmp_path))
        return
    corpus = load_corpus(config, cache_dir=tmp_path)
    assert corpus.lines == 2 + accepted
    assert corpus.rejected == ({"line over 1 MiB": 1} if over else {})


def test_hidden_files_match_no_pattern_but_a_hidden_one(tmp_path: Path) -> None:
    for name in ("a.tsv", "._a.tsv", ".partial-1-a.tsv"):
        (tmp_path / name).touch()
    names = [[path.name for path in matching_files(f"{tmp_path}/{p}")] for p in ("*.tsv", "._*")]
    assert names == [["a.tsv"], ["._a.tsv"]]
