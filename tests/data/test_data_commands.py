"""The commands at the beginning of docs/data.md read the files that they name."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from backports import zstd
from pyarrow import parquet

from nmt.data.corpus import load_corpus
from nmt.data.splitting import Pair
from nmt.runs.resuming import compose_config

DOCUMENT = Path(__file__).parents[2] / "docs" / "data.md"
PAIRS = [Pair(f"frase número {i}", f"sentence number {i}") for i in range(200)]
DEV, TEST = [Pair("mañana", "morning")], [Pair("noche", "night")]


def list_commands() -> list[list[str]]:
    """Return the overrides of each command in the first block of code."""
    match = re.search(r"^```bash\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.M | re.S)
    assert match is not None
    lines = match[1].replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    assert all(words[:3] == ["python", "-m", "nmt.train"] for words in commands if words)
    return [words[3:] for words in commands if words]


COMMANDS = list_commands()


def write_csv(names: tuple[str, str], delimiter: str, encoding: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([names, *PAIRS])
    return text.getvalue().encode(encoding)


def write_tabs(pairs: list[Pair]) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def write_memory() -> bytes:
    units = "".join(
        f'<tu><tuv xml:lang="es"><seg>{source}</seg></tuv>'
        f'<tuv xml:lang="en-US"><seg>{target}</seg></tuv></tu>'
        for source, target in PAIRS
    )
    return f"<tmx><body>{units}</body></tmx>".encode()


def write_json() -> bytes:
    records = ({"translation": {"es": source, "en": target}} for source, target in PAIRS)
    return "".join(json.dumps(record) + "\n" for record in records).encode()


FILES = {
    "pairs.tsv": write_tabs(PAIRS),
    "swapped.tsv": write_tabs([Pair(*pair[::-1]) for pair in PAIRS]),
    "test.tsv": write_tabs(TEST),
    "pairs.csv": write_csv(("Español", "Inglés"), ";", "utf-8-sig"),
    "phrases.csv": write_csv(("frase", "sentence"), ",", "utf-8"),
    "pairs.csv.zst": zstd.compress(write_csv(("es", "en"), ",", "utf-8")),
    "old.csv": write_csv(("es", "en"), ";", "cp1252"),
    "pairs.jsonl": write_json(),
    "memory.tmx": write_memory(),
}
FILES |= {
    f"{name}.{language}": "".join(f"{pair[side]}\n" for pair in pairs).encode()
    for name, pairs in (("corpus", PAIRS), ("dev", DEV))
    for side, language in enumerate(("es", "en"))
}


@pytest.mark.parametrize("overrides", COMMANDS, ids=" ".join)
def test_a_command_reads_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    Path("folder").mkdir()
    for number, part in enumerate((PAIRS[:100], PAIRS[100:])):
        records = [{"translation": {"es": source, "en": target}} for source, target in part]
        parquet.write_table(pa.Table.from_pylist(records), f"folder/train-{number}-of-2.parquet")
    shares = [f"data.{split}=0" for split in ("dev", "test")]
    others = [share for share in shares if not any(o.startswith(share[:-1]) for o in overrides)]
    config = compose_config([*overrides, *others])
    assert config.data.languages == ("es", "en")
    corpus = load_corpus(config.data, cache_dir=tmp_path)
    assert corpus.train == PAIRS
    assert not corpus.rejected
    if len(others) < 2:
        assert (corpus.dev, corpus.test) == (DEV, TEST)


def test_every_format_has_a_command() -> None:
    commands = " ".join(word for overrides in COMMANDS for word in overrides)
    assert all(f".{suffix}" in commands for suffix in ("tsv", "csv", "jsonl", "parquet", "tmx"))
