"""Corpora written by hand, and a server of archives on this machine."""

from __future__ import annotations

import gzip
import io
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nmt.config import DataConfig, SourceConfig
from nmt.config.noise import NoiseConfig
from nmt.data.corpus import Corpus, load_corpus
from nmt.data.splitting import Pair
from nmt.errors import UserError

SOURCE_KEYS = SourceConfig.__dataclass_fields__.keys() - {"reverse"}


def configure(sources: dict[str, SourceConfig] | None = None, **changes: Any) -> DataConfig:
    """Return a configuration that rejects little and uses everything for training.

    Args:
        sources: sources by name; None: one source of kind files.
        changes: keys of the group, and of that one source.
    """
    source_changes = {key: changes.pop(key) for key in SOURCE_KEYS & changes.keys()}
    values: dict[str, Any] = {
        "name": source_changes.get("kind", "files"),
        "source_language": "es",
        "target_language": "en",
        "sources": sources or {"pairs": SourceConfig(**({"kind": "files"} | source_changes))},
        "min_words": 1,
        "max_words": 100,
        "max_characters": 800,
        "max_length_ratio": 3.0,
        "length_ratio_margin": 20,
        "typical_length_ratio": None,
        "dev": 0,
        "test": 0,
        "split_seed": 1,
        "reverse": False,
        "temperature": None,
        "stages": [],
        "known_tags": [],
        "context": 0,
        "phrases": 0,
        "noise": NoiseConfig.off(),
        "check_languages": False,
    }
    return DataConfig(**(values | changes))


def load_bytes(
    tmp_path: Path, content: bytes, *, rejected_file: Path | None = None, **changes: Any
) -> Corpus:
    """Load a corpus of one table."""
    path = tmp_path / "corpus.tsv"
    path.write_bytes(content)
    return load_corpus(
        configure(path=str(path), **changes),
        cache_dir=tmp_path / "cache",
        rejected_file=rejected_file,
    )


def load_text(tmp_path: Path, text: str, **changes: Any) -> Corpus:
    return load_bytes(tmp_path, text.encode(), **changes)


def table(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def load_pairs(tmp_path: Path, pairs: list[tuple[str, str]], **changes: Any) -> Corpus:
    return load_text(tmp_path, table(pairs), **changes)


def singles(count: int) -> list[tuple[str, str]]:
    """Return pairs that share no sentence."""
    return [(f"frase {number}", f"sentence {number}") for number in range(count)]


def compact_pairs(count: int) -> list[tuple[str, str]]:
    """Return pairs whose target is usually four times as long, as English is beside Chinese."""
    return [
        (
            f"{number:05}" + "字" * (number % 9 + 6),
            f"word {number:05} " + "x" * 4 * (number % 9 + 8),
        )
        for number in range(count)
    ]


def complaint(attempt: Callable[[], Any]) -> str:
    """Return the message of the `UserError`, which must be one line."""
    with pytest.raises(UserError) as caught:
        attempt()
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


def zipped(members: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip whose bytes do not depend on the time: they name tests."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return memory.getvalue()


def tarred(members: dict[str, str]) -> bytes:
    """Return a .tgz whose bytes do not depend on the time: they name tests."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))
    return gzip.compress(memory.getvalue(), mtime=0)


SPA_ENG = {"spa-eng/_about.txt": "terms of use", "spa-eng/spa.txt": "Go.\tVe.\nGo.\tVaya.\n"}
GO = [Pair("Ve.", "Go."), Pair("Vaya.", "Go.")]
BOMB = f"Go.\tVe.{' ' * 9_990}\n" * 9_600  # 96 MB; Deflate shrinks it to a thousandth


class Site:
    """A local web server: its content, and the number of requests."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.others: dict[str, bytes] = {}  # other content, by path
        self.status = 200
        self.announced: int | None = None  # Content-Length, if it is wrong
        self.requests = 0
        self.url = ""


@contextmanager
def serve(content: bytes) -> Iterator[Site]:
    """Serve an archive at every path without other content."""
    state = Site(content)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests += 1
            content = state.others.get(self.path, state.content)
            self.send_response(state.status)
            length = len(content) if state.announced is None else state.announced
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_port}/data/spa-eng.zip"
        try:
            yield state
        finally:
            server.shutdown()
            thread.join(10)
