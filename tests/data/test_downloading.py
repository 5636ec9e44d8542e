"""Archives from a web server on this machine: whole in the cache, or not there."""

from __future__ import annotations

import errno
import io
import re
import socket
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from rich.console import Console
from sample_configs import configured
from sample_corpora import BOMB, GO, SPA_ENG, Site, complaint, configure, serve, tarred, zipped

from nmt.data import downloading
from nmt.data.corpus import Corpus, load_corpus
from nmt.data.downloading import archive_name
from nmt.data.splitting import Pair
from nmt.errors import UserError


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    with serve(zipped(SPA_ENG)) as site:
        yield site


def load_url(url: str, cache_dir: Path, **changes: Any) -> Corpus:
    config = configure(kind="zip", url=url, columns=[1, 0], **changes)
    return load_corpus(config, cache_dir=cache_dir)


def test_download_once(tmp_path: Path, site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    cache_dir = tmp_path / "made" / "cache"
    assert load_url(site.url, cache_dir).train == GO
    (path,) = cache_dir.iterdir()
    assert path.name == archive_name(site.url)
    assert path.read_bytes() == site.content
    assert load_url(site.url, cache_dir).train == GO
    assert site.requests == 1
    assert capfd.readouterr() == ("", "")  # no progress bar without a terminal


def test_another_archive_is_not_mistaken_for_the_one_downloaded(tmp_path: Path, site: Site) -> None:
    load_url(site.url, tmp_path)
    site.content = zipped({"deu.txt": "Go!\tGeh!\n"})
    # The last two have the same file name.
    names = ("deu-eng.zip", "archive?of=deu", "archive?of=fra", "deu/spa-eng.zip", "spa-eng.zip?2")
    for name in names:
        other = load_url(site.url.replace("spa-eng.zip", name), tmp_path)
        assert other.train == [Pair("Geh!", "Go!")]
    assert site.requests == 6


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("http://a/b/spa-eng.zip", r"spa-eng-[0-9a-f]{16}\.zip"),
        ("http://a/b/spa-eng.zip?key=/c.zip", r"spa-eng-[0-9a-f]{16}\.zip"),
        ("http://a/b/archive?of=spa", r"[0-9a-f]{16}\.zip"),
        ("http://a/.zip", r"[0-9a-f]{16}\.zip"),
        ("http://a/b/es-en.tgz", r"es-en-[0-9a-f]{16}\.tgz"),
        ("http://a/b/es-en.tar.gz?key=1", r"es-en-[0-9a-f]{16}\.tar\.gz"),
    ],
)
def test_an_archive_is_kept_under_its_name_and_its_whole_address(url: str, pattern: str) -> None:
    assert re.fullmatch(pattern, archive_name(url))
    assert archive_name(url) == archive_name(url) != archive_name(url.replace("http", "https"))


# --- What it must be --------------------------------------------------------------------------


def test_a_download_of_another_hash_is_not_kept(tmp_path: Path, site: Site) -> None:
    digest, expected = sha256(site.content).hexdigest(), "0" * 64
    message = complaint(lambda: load_url(site.url, tmp_path, sha256=expected))
    assert (
        f"/{archive_name(site.url)} failed: its SHA-256 is {digest}, and {expected} is" in message
    )
    assert list(tmp_path.iterdir()) == []


def test_what_was_downloaded_before_with_another_hash_is_fetched_again(
    tmp_path: Path, site: Site
) -> None:
    load_url(site.url, tmp_path)
    site.content = zipped({"deu.txt": "Go!\tGeh!\n"})
    assert load_url(site.url, tmp_path).train == GO
    expected = sha256(site.content).hexdigest()
    for written in (expected, expected.upper()):
        corpus = load_url(site.url, tmp_path, sha256=written)
        assert corpus.train == [Pair("Geh!", "Go!")]
        assert corpus.archives == {"pairs": expected}
    assert site.requests == 2


def test_a_download_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.content = zipped({"spa.txt": BOMB})
    # Trying whether it is whole would take as long as unpacking it all.
    monkeypatch.setattr(zipfile.ZipFile, "testzip", lambda archive: pytest.fail("unpacked"))
    assert "unpack to more than" in complaint(lambda: load_url(site.url, tmp_path))


LZMA = zipped(SPA_ENG, zipfile.ZIP_LZMA)


@pytest.mark.parametrize(
    "stale",
    [b"", b"<html>", zipped(SPA_ENG)[:-9], LZMA.replace(b"]\0\0\x80\0\0", b"]\0\0\x80\0\xff")],
)
def test_a_damaged_download_is_fetched_again(tmp_path: Path, site: Site, stale: bytes) -> None:
    (tmp_path / archive_name(site.url)).write_bytes(stale)
    assert load_url(site.url, tmp_path).train == GO
    assert site.requests == 1


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"status": 404}, "HTTP Error 404: Not Found"),
        ({"content": b"<html>log in</html>"}, "its 19 bytes are not a complete zip or .tgz"),
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
        f"the download of {site.url} to {tmp_path / archive_name(site.url)} failed: {why}; "
        "pass data.archive=FILE"
    )
    assert list(tmp_path.iterdir()) == []  # nothing half-written stays


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/spa-eng.zip", "no url/spa-eng.zip"])
def test_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as closed:  # bound but not listening: connections are refused
        closed.bind(("127.0.0.1", 0))
        address = url.format(port=closed.getsockname()[1])
        message = complaint(lambda: load_url(address, tmp_path))
    assert message.startswith(f"the download of {address} to ")
    refused = f"failed: [Errno {errno.ECONNREFUSED}] Connection"
    assert (refused if "{port}" in url else "unknown url type") in message
    assert message.endswith("; pass data.archive=FILE")


def test_a_server_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(downloading, "DOWNLOAD_TIMEOUT", 0.1)
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
    monkeypatch.setattr(downloading, "Console", lambda stderr: terminal)
    load_url(site.url, tmp_path)
    assert isinstance(terminal.file, io.StringIO)
    assert f"{len(site.content)}/{len(site.content)} bytes" in terminal.file.getvalue()


def test_a_cache_folder_that_cannot_be_made(tmp_path: Path, site: Site) -> None:
    (tmp_path / "cache").write_text("a file is in the way")
    message = complaint(lambda: load_url(site.url, tmp_path / "cache"))
    assert "failed: [Errno 17] File exists" in message


# As OPUS lays out what it offers for Moses.
OPUS = {
    "README": "Corpus Name: Made",
    "LICENSE": "free",
    "Made.en-es.en": "Good morning.\nHow are you?\n",
    "Made.en-es.es": "Buenos días.\n¿Cómo estás?\n",
    "Made.en-es.xml": "<cesAlign/>",
}


def load_aligned(url: str, cache_dir: Path, *members: str) -> Corpus:
    return load_corpus(configure(kind="zip", url=url, members=list(members)), cache_dir=cache_dir)


def test_an_archive_of_two_aligned_files(tmp_path: Path, site: Site) -> None:
    site.content = zipped(OPUS)
    corpus = load_aligned(site.url, tmp_path, ".es", ".en")
    assert corpus.train == [
        Pair("Buenos días.", "Good morning."),
        Pair("¿Cómo estás?", "How are you?"),
    ]
    assert load_aligned(site.url, tmp_path, ".en", ".es").train[0] == Pair(*corpus.train[0][::-1])
    assert site.requests == 1


def test_an_archive_of_other_aligned_files_is_refused(tmp_path: Path, site: Site) -> None:
    site.content = zipped(OPUS | {"Made.en-es.en": "Good morning.\n"})
    with pytest.raises(UserError, match=r"\(\*\.es\) has 2 lines and .*\(\*\.en\) has 1"):
        load_aligned(site.url, tmp_path, ".es", ".en")
    with pytest.raises(UserError, match=r"holds 0 files whose names end in \.fr"):
        load_aligned(site.url, tmp_path, ".es", ".fr")


# As the shared task of 2013 lays out its archives.
WMT = {
    "/wmt13/training-parallel-europarl-v7.tgz": {
        "training/europarl-v7.de-en.de": "Ich erkläre.\n",
        "training/europarl-v7.de-en.en": "I declare.\n",
        "training/europarl-v7.es-en.es": "Declaro reanudado el período.\n",
        "training/europarl-v7.es-en.en": "I declare it resumed.\n",
    },
    "/wmt13/training-parallel-commoncrawl.tgz": {
        "commoncrawl.es-en.annotation": "1\thttp://a.org\n",
        "commoncrawl.es-en.en": "Rooms by the sea\n",
        "commoncrawl.es-en.es": "Habitaciones junto al mar\n",
        "._commoncrawl.es-en.es": "Mac OS X",
    },
    "/wmt13/training-parallel-nc-v8.tgz": {
        "training/news-commentary-v8.es-en.en": "The price of gold\n",
        "training/news-commentary-v8.es-en.es": "El precio del oro\n",
    },
    "/wmt13/dev.tgz": {
        "dev/newstest2012.en": "A market\nA street\n",
        "dev/newstest2012.es": "Un mercado\nUna calle\n",
        "dev/newstest2012-src.es.sgm": "<srcset>",
    },
    "/wmt17/translation-task/dev.tgz": {
        "dev/newstest2012.en": "A market\nA street\n",
        "dev/newstest2012.es": "Un mercado\nUna calle\n",
        "dev/newstest2013.en": "A bridge\n",
        "dev/newstest2013.es": "Un puente\n",
    },
}


@pytest.mark.parametrize("turned", [False, True])
def test_the_corpora_of_wmt(tmp_path: Path, site: Site, turned: bool) -> None:
    site.others = {path: tarred(members) for path, members in WMT.items()}
    languages = ["data.source_language=en", "data.target_language=es"] if turned else []
    data = configured("data=wmt13", *languages).data
    here = f"http://127.0.0.1:{urlsplit(site.url).port}"
    sources = {
        name: replace(source, url=re.sub(r"http://(www|data)\.statmt\.org", here, source.url or ""))
        for name, source in data.sources.items()
    }
    corpus = load_corpus(replace(data, sources=sources), cache_dir=tmp_path)
    expected = {
        "train": [
            Pair("Declaro reanudado el período.", "I declare it resumed."),
            Pair("Habitaciones junto al mar", "Rooms by the sea"),
            Pair("El precio del oro", "The price of gold"),
        ],
        "dev": [Pair("Un mercado", "A market"), Pair("Una calle", "A street")],
        "test": [Pair("Un puente", "A bridge")],
    }
    for name, pairs in expected.items():
        split = getattr(corpus, name)
        assert sorted(split) == sorted(Pair(*pair[::-1]) if turned else pair for pair in pairs)
    assert site.requests == len(WMT)
    assert all(re.fullmatch(r".+-[0-9a-f]{16}\.tgz", path.name) for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("members", "columns", "unpacked"), [(None, [1, 0], 2), ([".es", ".en"], [0, 1], 3)]
)
def test_a_tar_of_the_cache_is_unpacked_once_to_look_into_it(
    tmp_path: Path,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    members: list[str] | None,
    columns: list[int],
    unpacked: int,
) -> None:
    """And then once for each file in it that is read; never to hash it."""
    site.content = tarred(OPUS | {"spa.txt": "Go.\tVe.\n"})
    url = site.url.replace(".zip", ".tgz")
    config = configure(kind="zip", url=url, members=members, columns=columns)
    first = load_corpus(config, cache_dir=tmp_path)
    read = []

    def open_path(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == archive_name(url):
            read.append(path)
        return opened(path, *arguments, **options)

    opened = Path.open
    monkeypatch.setattr(Path, "open", open_path)
    again = load_corpus(config, cache_dir=tmp_path)
    assert (again.train, again.archives) == (first.train, first.archives)
    assert first.archives == {"pairs": sha256(site.content).hexdigest()}
    assert len(read) == unpacked
    assert site.requests == 1


def test_a_tar_that_unpacks_to_too_much_is_kept_and_refused(tmp_path: Path, site: Site) -> None:
    site.content = tarred({"spa.txt": BOMB})
    url = site.url.replace(".zip", ".tgz")
    messages = [complaint(lambda: load_url(url, tmp_path)) for _ in range(2)]
    cached = tmp_path / archive_name(url)
    assert messages[0] == messages[1]
    assert messages[0].startswith(f"data.archive={cached} is rejected, its ")
    assert list(tmp_path.iterdir()) == [cached]
    assert site.requests == 1


@pytest.mark.parametrize("left", [0.5, 0.99])
def test_a_tar_that_was_cut_is_fetched_again(tmp_path: Path, site: Site, left: float) -> None:
    site.content = tarred(OPUS)
    url = site.url.replace(".zip", ".tgz")
    cut = site.content[: int(left * len(site.content))]
    (tmp_path / archive_name(url)).write_bytes(cut)
    assert load_aligned(url, tmp_path, ".es", ".en").train[0].target == "Good morning."
    assert load_aligned(url, tmp_path, ".es", ".en").train[0].target == "Good morning."
    assert site.requests == 1
