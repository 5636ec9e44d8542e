"""Throw made-up bytes at whatever reads what others wrote, guided by the code they reach.

    python scripts/fuzz.py all --executions 1000000
    python scripts/fuzz.py config --minutes 5 --corpus fuzzed
    python scripts/fuzz.py config --input FILE

An execution may end in the reader's own error, in one line, and in nothing else; every other
exception, and what a reader gives that it must not, is a finding. Each is counted once by the line
it comes from, and its input is kept: `--input` runs it again and shows the traceback. Prints one
table; the exit status is 1 if there is a finding.

Needs `atheris`: the dependency group `fuzz`.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import io
import itertools
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlencode

try:
    import atheris
except ImportError:
    atheris = None

ROOT = Path(__file__).parents[1]
FINDINGS = "findings"  # inside the folder of corpora
TSV = ("data=tsv", "data.source_language=es", "data.target_language=en")
LONGEST_INPUT = 4096  # bytes
MEMORY = 3000  # MiB, beyond which an execution is a finding
HANGS = 30  # seconds after which it is one
SHORT_LINE = 64  # bytes of the longest line, so that inputs hold longer ones
TEXTS = (
    "La casa\tThe house\n",
    "¿Qué hora es?\tWhat time is it?\n",
    "Ayer \u200dllovió.\tIt rained.\n",
)
NUMBERS = (0, 1, -1, 2, 7, 64, 0.5, -0.0, 1e-9, 1e30, 1e400, float("nan"), 2**31, 2**63, 10**30)
WORDS = ("", "a", "???", "null", "~", "${name}", "${a", "a\nb", "\ud800", "Á\u0301", "1e9", "\0")

Check = Callable[[Any], None]  # of a `FuzzedDataProvider`
Prepared = tuple[Check, list[bytes]]  # and the seeds


class Target(NamedTuple):
    """A part to be fuzzed."""

    prepare: Callable[[Path], Prepared]  # in an empty folder
    share: int  # of the executions of `all`: the faster, the more


class Result(NamedTuple):
    """What became of a target."""

    executions: int
    per_second: int  # without the preparation
    edges: int  # of the code that executions reached
    findings: list[tuple[Path, str]]  # the input, and what it led to


def seed(content: bytes | str, *choices: int) -> bytes:
    """Return an input from which a provider takes these choices, one byte each, then the rest."""
    content = content.encode() if isinstance(content, str) else content
    return content + bytes(reversed(choices))


def pick(data: Any, choices: Sequence[Any]) -> Any:
    return choices[data.ConsumeIntInRange(0, len(choices) - 1)]


def rest(data: Any) -> bytes:
    return data.ConsumeBytes(data.remaining_bytes())


def text_of(data: Any) -> str:
    """Return text with anything in it, lone surrogates too."""
    is_utf8 = data.ConsumeBool()
    content = rest(data)
    if is_utf8:
        return content.decode("utf-8", "surrogateescape")
    return content[: len(content) & ~1].decode("utf-16-le", "surrogatepass")


def json_value(data: Any, depth: int = 3) -> Any:
    """Return a value that JSON has, or nearly."""
    kind = data.ConsumeIntInRange(0, 7 if depth else 5)
    if kind < 2:
        return (None, True, False)[data.ConsumeIntInRange(0, 2)]
    if kind == 2:
        return pick(data, NUMBERS)
    if kind == 3:
        return data.ConsumeInt(2)
    if kind == 4:
        return pick(data, WORDS)
    if kind == 5:
        return data.ConsumeBytes(data.ConsumeIntInRange(0, 12)).decode("utf-8", "replace")
    values = [json_value(data, depth - 1) for _ in range(data.ConsumeIntInRange(0, 4))]
    return (
        values
        if kind == 6
        else {f"{key}": value for key, value in zip("abcd", values, strict=False)}
    )


def mutated(data: Any, value: Any) -> Any:
    """Return JSON with one value in it replaced, taken out, or under another name."""
    if isinstance(value, dict | list) and value and data.ConsumeIntInRange(0, 7):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = keys[data.ConsumeIntInRange(0, len(keys) - 1)]
        changed = value.copy()
        what = data.ConsumeIntInRange(0, 7)
        if what == 0:
            del changed[key]
        elif what == 1 and isinstance(changed, dict):
            changed[pick(data, WORDS)] = changed.pop(key)
        else:
            changed[key] = mutated(data, value[key])
        return changed
    return json_value(data)


def edited(data: Any, content: bytes) -> bytes:
    """Return bytes with up to three places of them overwritten, or taken out, or cut."""
    for _ in range(data.ConsumeIntInRange(0, 3)):
        place = data.ConsumeIntInRange(0, len(content))
        new = data.ConsumeBytes(data.ConsumeIntInRange(0, 8))
        gone = pick(data, (len(new), 0, 1, 16, len(content)))
        content = content[:place] + new + content[place + gone :]
    return content


def packed(data: Any, members: dict[str, bytes]) -> bytes:
    """Return a zip of these members whose checksums are right."""
    kinds = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", pick(data, kinds)) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


# --- the targets ----------------------------------------------------------------------------


def prepare_reading(folder: Path) -> Prepared:
    """Lines of tables and of aligned files."""
    from nmt.config.data import SourceConfig
    from nmt.data import encodings, lines, reading
    from nmt.errors import UserError
    from nmt.inference import lines as output

    lines.LONGEST_LINE = output.LONGEST_LINE = SHORT_LINE
    table, other = folder / "table.tsv", folder / "other.txt"

    def read(source: SourceConfig) -> list[Any]:
        rows = reading.read_rows({"pairs": source}, "pairs", folder, str, hashes={})
        return [reading.parse_row(row, source.columns) for row in rows]

    def check(data: Any) -> None:
        aligned = data.ConsumeBool()
        columns = [data.ConsumeIntInRange(0, 3), 1]
        content = rest(data)
        if aligned:
            middle = len(content) // 2
            table.write_bytes(content[:middle])
            other.write_bytes(content[middle:])
            source = SourceConfig("parallel", source_path=str(table), target_path=str(other))
            content = content[:middle]
        else:
            table.write_bytes(content)
            source = SourceConfig("tsv", path=str(table), columns=columns)
        count = content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
        latin = encodings.open_text(io.BytesIO(content), "text", "latin-1")
        assert len(list(output.decode_lines(lines.split_lines(latin)))) == count
        with suppress(UserError):  # it is not UTF-8
            text = encodings.open_text(io.BytesIO(content), "text")
            decoded = list(output.decode_lines(lines.split_lines(text)))
            assert all("\n" not in line for line in decoded)
        found = read(source)
        assert [line.number for line in found] == list(range(1, count + 1))
        for line in found:
            assert "\n" not in line.raw
            assert all("\n" not in side for side in line.sides or ())

    table_text = "".join(TEXTS)
    long = "a" * SHORT_LINE
    contents = [table_text, "\ufeff" + table_text, f"{long}\t{long}\n{long}b\n", "a\tb\r\n\n\t\n\r"]
    contents += ["a\nb\nc\nd\n"]
    return check, [seed(one, choice, 0) for one in contents for choice in (0, 1)] + [b"\xff\xfea\0"]


def prepare_cleaning(folder: Path) -> Prepared:
    """Cleaned texts, what two of them are compared by, and where they are cut."""
    from nmt.data.cleaning import clean_text
    from nmt.data.splitting import normalized
    from nmt.inference.cutting import clean_input

    def check(data: Any) -> None:
        text = text_of(data)
        clean = clean_text(text)
        assert clean_text(clean) == clean, "cleaning twice is another text"
        assert len(clean.splitlines()) <= 1, "a line break is left"
        assert clean == " ".join(clean.split())
        clean.encode()  # no lone surrogates
        clean_input(text).encode()
        # Comparing is stable, and says nothing of nothing only.
        assert bool(normalized(clean)) == bool(clean)

    wide = [text.encode("utf-16-le") for text in (*TEXTS, "e\u0301\u2028\u200d\u200c\ufeff\x85▁")]
    return check, [seed(text, 1) for text in TEXTS] + [seed(one, 0) for one in wide]


def prepare_corpus(folder: Path) -> Prepared:
    """The filters: every line is kept once, or counted under one reason."""
    from nmt.config.data import DataConfig, SourceConfig
    from nmt.data.corpus import load_corpus
    from nmt.data.evaluation_sets import read_parallel
    from nmt.data.rejections import rejection_table
    from nmt.errors import UserError

    path, rejected = folder / "pairs.tsv", folder / "rejected.tsv"

    def check(data: Any) -> None:
        tag = "<2en>" if data.ConsumeBool() else None
        config = DataConfig(
            name="tsv",
            source_language="es",
            target_language="en",
            sources={"pairs": SourceConfig("tsv", path=str(path), tag=tag)},
            min_words=data.ConsumeIntInRange(1, 2),
            max_words=8,
            max_characters=40,
            max_length_ratio=2.0,
            length_ratio_margin=4,
            typical_length_ratio=None,
            dev=pick(data, (0, 1, 0.2)),
            test=pick(data, (0, 1, 0.2)),
            split_seed=1,
            reverse=data.ConsumeBool(),
            temperature=None,
            stages=[],
        )
        path.write_bytes(rest(data))
        with suppress(UserError):  # it is not UTF-8
            read_parallel(path, path)
        corpus = load_corpus(config, cache_dir=folder, rejected_file=rejected)
        kept = len(corpus.train) + len(corpus.dev) + len(corpus.test)
        assert corpus.lines == kept + sum(corpus.rejected.values()), "a line is lost"
        assert len(rejected.read_bytes().splitlines()) >= corpus.lines - kept
        for pair in (*corpus.train, *corpus.dev, *corpus.test):
            assert all(side.strip() and len(side.splitlines()) == 1 for side in pair)
        rejection_table(corpus)

    table = "".join(TEXTS)
    more = "".join(f"uno dos {n}\tone two {n}\n" for n in range(30))
    return check, [seed(one, 0, 0, n, n) for one in (table, more, table + more) for n in (0, 1, 2)]


def prepare_archives(folder: Path) -> Prepared:
    """Zip and gzip: damaged, hostile, and never unpacked beyond their bound."""
    from nmt.config.data import SourceConfig
    from nmt.data import downloading, reading

    least = 4096
    downloading.most_unpacked = reading.most_unpacked = lambda size: 20 * size + least
    zipped, gzipped = folder / "pairs.zip", folder / "pairs.tsv.gz"
    names = ("spa.txt", "_about.txt", "a/spa.txt", "../spa.txt", "/spa.txt", "b.txt", "C:\\b.txt")

    def check(data: Any) -> None:
        kind = data.ConsumeIntInRange(0, 3)
        if kind == 0:
            content = rest(data)
        elif kind == 1:
            chosen = [pick(data, names) for _ in range(data.ConsumeIntInRange(1, 2))]
            text = b"a\tb\n" * data.ConsumeIntInRange(0, 3000)
            content = edited(data, packed(data, dict.fromkeys(chosen, text + b"x\ty\n")))
        else:
            text = b"a\tb\n" * data.ConsumeIntInRange(0, 3000)
            content = edited(data, gzip.compress(text))
        path = gzipped if kind > 1 or content[:2] == b"\x1f\x8b" else zipped
        path.write_bytes(content)
        archive = path is zipped
        source = SourceConfig(
            "zip" if archive else "tsv",
            archive=str(path) if archive else None,
            path=None if archive else str(path),
        )
        downloading._inspect_kept(path, "archive")
        read = reading.read_rows({"pairs": source}, "pairs", folder, str, hashes={})
        unpacked = sum(len(line) for row in read for line in row.lines)
        assert unpacked <= 20 * len(content) + least + (1 << 16), "more was unpacked than allowed"

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("spa.txt", "".join(TEXTS))
    seeds = [seed(file.getvalue(), 0), seed(gzip.compress(b"a\tb\n"), 0)]
    return check, seeds + [bytes(range(n, 64)) + bytes([n % 4]) for n in range(16)]


def prepare_tokenizer(folder: Path) -> Prepared:
    """Text to pieces and back, in the package that runs where Keras has another backend."""
    from nmt.config import TokenizerConfig
    from nmt.data import tokenizer as tokenizers
    from nmt.data.cleaning import clean_text
    from nmt.data.reading import phrasebook_dir
    from nmt.data.tokenizer_training import train_tokenizer
    from nmt.inference.cutting import Cutter

    tables = sorted(phrasebook_dir().glob("*.tsv"))
    texts = [
        clean_text(side)
        for path in tables
        for line in path.read_text(encoding="utf-8").splitlines()
        for side in line.split("\t")
    ]
    made = [
        train_tokenizer(TokenizerConfig(kind, 600, 0, 0.9995), texts, log=lambda _: None)
        for kind in ("unigram", "bpe")
    ]
    pieces = ["[PAD]", "[BOS]", "[EOS]", "[UNK]", "▁casa", "▁", *"abc", "##a", "##b", "##casa"]
    wordpiece = tokenizers.WordPieceTokenizer(pieces)

    def check(data: Any) -> None:
        tokenizer = pick(data, made)
        room = data.ConsumeIntInRange(1, 12)
        given = text_of(data)[:300]  # long enough for many parts
        text = clean_text(given)
        ids = tokenizer.encode([text])[0]
        assert tokenizer.decode([ids]) == [text], "the text comes back as another"
        assert all(tokenizers.UNK < one < tokenizer.vocabulary_size for one in ids)
        spans = tokenizer.spans(text)
        assert len(spans) == len(ids)
        covered = {place for begin, end in spans for place in range(begin, end)}
        assert covered == set(range(len(text))), "a character belongs to no piece"
        parts = Cutter(tokenizer, room).cut(given)
        assert all(0 < len(part) <= room for part in parts)
        joined = "".join(tokenizer.decode(parts))
        assert joined.replace(" ", "").replace("\ufffd", "") or "\ufffd" in joined or not text
        words = tokenizers.split_words(text)
        assert "".join(words) == (" " + text if text else "").replace(" ", "▁")
        wordpiece.decode([[number % len(pieces) for number in given.encode("utf-8", "replace")]])

    return check, [seed(text, choice, choice, 1) for text in TEXTS for choice in range(4)]


def composed_config(folder: Path) -> Any:
    """Return a checked configuration of a table."""
    from nmt.runs.resuming import compose_config

    return compose_config([f"runs_dir={folder}", *TSV, "data.path=a.tsv", "model=small"])


def prepare_config(folder: Path) -> Prepared:
    """Stored configurations: any bytes, and a valid one with values changed."""
    import yaml
    from omegaconf import OmegaConf

    from nmt.config import files

    path = folder / "config.yaml"
    text = files.to_yaml(composed_config(folder))
    valid = yaml.safe_load(text)
    old = {key: value for key, value in valid["data"].items() if key != "sources"}
    old_corpus = {"kind": "phrasebook", "patterns": 8, "pattern_share": 0.5}
    kept = files.OmegaConf.load

    def check(data: Any) -> None:
        kind = data.ConsumeIntInRange(0, 7)
        if kind == 0:
            path.write_bytes(rest(data))
        elif kind == 1:
            path.write_bytes(edited(data, text.encode()))
        else:
            values = valid if kind < 6 else valid | {"data": old | old_corpus}
            for _ in range(data.ConsumeIntInRange(1, 3)):
                values = mutated(data, values)
                group = pick(data, list(valid))
                if isinstance(values, dict) and group in values:
                    values = values | {group: mutated(data, values[group])}
            check_values(values)
            return
        check_round_trip(files.load(path))

    def check_values(values: Any) -> None:
        """Check what would be read of a file, which takes most of the time."""
        try:
            stored = OmegaConf.create(values if isinstance(values, dict | list) else {"a": values})
        except Exception:
            return  # no YAML holds that
        path.write_text("a: 1")
        files.OmegaConf.load = lambda _: stored
        try:
            config = files.load(path)
        finally:
            files.OmegaConf.load = kept
        check_round_trip(config)

    def check_round_trip(config: Any) -> None:
        if next(counter) % 16 == 0:  # it takes long
            files.save(config, path)
            assert files.load(path) == config, "what is saved is loaded as another"

    counter = itertools.count()

    seeds = [seed(text[:LONGEST_INPUT], 0), seed("name: ???\nseed: 1\n", 0), seed("- 1\n", 0)]
    seeds += [seed("a: &a [*a]\n", 0), seed("[" * 500, 0), seed("data: {kind: tatoeba}\n", 0)]
    rng = random.Random(1)
    return check, seeds + [seed(rng.randbytes(40), kind) for kind in range(1, 8) for _ in range(4)]


def prepare_overrides(folder: Path) -> Prepared:
    """What stands on a command line behind the name of the command."""
    from nmt.runs.resuming import compose_config

    def check(data: Any) -> None:
        if not data.ConsumeBool():
            content = rest(data).replace(b"\0", b"").decode("utf-8", "surrogateescape")
            compose_config(content.split("\n")[:4])
            return
        # Hydra composes slowly: one override in most of the executions.
        key = pick(data, keys)
        sign = pick(data, ("", "", "", "+", "++", "~"))
        value = pick(data, WORDS) if data.ConsumeBool() else str(json_value(data))
        compose_config([f"{sign}{key}={value}".replace("\0", "")])

    from nmt.config.schema import known_keys

    keys = [*known_keys(), "data.sources.written.weight", "data.sources.new.kind", "hydra.run.dir"]
    said = ["\n".join([*TSV, "data.path=a.tsv"]), "model=small\n~data.dev"]
    said += ["seed=1,2", "+a.b=1", "seed=[1"]
    said += ["training.resume=latest", "data@x=tsv", "'a'=b", "=", "a=${b}"]
    rng = random.Random(1)
    return check, [seed(one, 0) for one in said] + [seed(rng.randbytes(20), 1) for _ in range(16)]


@contextmanager
def replaced(path: Path, content: bytes) -> Iterator[None]:
    """Let a file be another one for a while."""
    kept = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(kept)


def make_run(folder: Path) -> Any:
    """Return a run of few bytes, which a model that is none stands for."""
    import numpy as np

    from nmt.data.tokenizer import WordPieceTokenizer
    from nmt.runs import building
    from nmt.runs.checkpoint import write_arrays
    from nmt.runs.folder import RunFolder

    run = RunFolder.create(composed_config(folder))
    weights = {"a/kernel": np.ones((2, 3), np.float32), "a/bias": np.zeros(3, np.float16)}
    model = SimpleNamespace(named_weights=lambda: weights)
    building.build_model = lambda *_, **__: model
    WordPieceTokenizer(["[PAD]", "[BOS]", "[EOS]", "[UNK]", "a", "##b"]).save(run.path)
    run.write_corpus_record({"lines": 3, "rejected": {"empty side": 1}, "digests": {"train": "0"}})
    score = {"scores": {"BLEU": {"value": 50.1, "half_width": None}}}
    run.write_json("evaluation_test.json", score)
    for step in (1, 2):
        run.append_metrics({"step": step, "seconds": 0.5, "train/loss": 1.0})
    arrays = {f"model/{name}": array for name, array in weights.items()}
    position = {"step": 2, "best_step": 1, "best_score": 10.5}
    write_arrays(run.checkpoints.best, arrays, {"step": 1})
    optimizer = {"optimizer/a": np.ones((), np.int64)}
    run.checkpoints.save(2, arrays | optimizer, position, keep=2)
    run.samples.mkdir()
    (run.samples / "step_00000001.tsv").write_text("source\treference\toutput\na\tb\tc\n")
    return run


def other_content(data: Any, path: Path) -> bytes:
    """Return what a file may hold instead."""
    content = path.read_bytes()
    kind = data.ConsumeIntInRange(0, 3)
    if kind == 0:
        return rest(data)
    if kind == 1:
        return edited(data, content)
    if path.suffix in (".json", ".jsonl"):
        lines = content.splitlines() if path.suffix == ".jsonl" else [content]
        return b"".join(
            json.dumps(mutated(data, json.loads(line))).encode() + b"\n" for line in lines
        )
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = pick(data, list(members))
        members[name] = edited(data, members[name])
        return packed(data, members)
    return edited(data, content)


def run_seeds(files: int) -> list[bytes]:
    rng = random.Random(1)
    seeds = [seed(rng.randbytes(24), number, kind) for number in range(files) for kind in range(4)]
    return seeds + [seed("[" * 3000, number, 0) for number in range(files)]


def prepare_runs(folder: Path) -> Prepared:
    """One file of a run is another: what reads it, reads it."""
    from nmt.data.tokenizer import load_tokenizer
    from nmt.runs.building import set_weights
    from nmt.runs.checkpoint import read_arrays
    from nmt.runs.corpus import has_corpus_changed
    from nmt.runs.folder import RunFolder

    run = make_run(folder)
    path = run.path
    empty = SimpleNamespace(lines=0, rejected={}, archives={}, train=[], dev=[], test=[])
    model = SimpleNamespace(named_weights=dict)

    def read_best(run: RunFolder) -> None:
        arrays, _ = read_arrays(run.checkpoints.best)
        set_weights(model, arrays, run.checkpoints.best)

    def read_last(run: RunFolder) -> None:
        run.checkpoints.load_latest()
        with replaced(run.checkpoints.best, b""):
            run.checkpoints.best.unlink()
            run.load_weights()

    def read_corpus(run: RunFolder) -> None:
        has_corpus_changed(run, empty)
        run.load_tokenizer()

    def read_metrics(run: RunFolder) -> None:
        assert all(isinstance(record["step"], int) for record in run.metrics)
        run.drop_metrics_after(1)

    def read_tokenizer(run: RunFolder) -> None:
        tokenizer = load_tokenizer(run.path)
        tokenizer.decode([range(tokenizer.vocabulary_size)])
        assert tokenizer.fingerprint

    readers: dict[str, Callable[[Any], object]] = {
        "checkpoints/best.npz": read_best,
        "checkpoints/step_00000002.npz": read_last,
        "corpus.json": read_corpus,
        "evaluation_test.json": lambda run: run.test_scores(),
        "metrics.jsonl": read_metrics,
        "tokenizer.vocab.json": read_tokenizer,
    }
    config = run.config

    def check(data: Any) -> None:
        name = pick(data, list(readers))
        opened = RunFolder.open(path)
        opened.__dict__["config"] = config  # which takes longer than all the rest
        with replaced(path / name, other_content(data, path / name)):
            readers[name](opened)

    return check, run_seeds(len(readers))


def prepare_verifying(folder: Path) -> Prepared:
    """One file of a run is another: the verdict says so, whatever it holds."""
    from nmt.formats import verifying

    path = make_run(folder).path
    names = [name for name in verifying.list_files(path) if not name.startswith("logs")]

    def check(data: Any) -> None:
        name = pick(data, names)
        with replaced(path / name, other_content(data, path / name)):
            verdicts = list(verifying.verify_run(path))
        assert [one.name for one in verdicts] == names
        for one in verdicts:
            assert one.name == name or one.verdict == "sound" or one.reason, one
            assert len(one.reason.splitlines()) <= 1, "a reason is one line"

    return check, run_seeds(len(names))


def prepare_records(folder: Path) -> Prepared:
    """Attention as training logs it."""
    import numpy as np

    from nmt.viewer import records

    axes = {"source": ["▁a", "</s>"], "target_in": ["<s>", "▁b"], "target_out": ["▁b", "</s>"]}
    kind = SimpleNamespace(name="cross", title="t", rows="target_out", columns="source")
    viewed = SimpleNamespace(
        kinds=(kind,), weights={"cross": np.full((1, 2, 2, 2), 0.5)}, tokens=axes.__getitem__
    )
    valid = records.encode("a", viewed)
    preamble = struct.Struct("<4sIII")
    size = preamble.unpack_from(valid)[3]
    header, weights = valid[preamble.size :][:size], valid[preamble.size + size :]

    def sealed(header: bytes, weights: bytes) -> bytes:
        content = header + weights
        return preamble.pack(b"ATTN", 1, zlib.crc32(content), len(header)) + content

    def check(data: Any) -> None:
        how = data.ConsumeIntInRange(0, 4)
        if how == 0:
            record = rest(data)
        elif how == 1:
            record = edited(data, valid)
        elif how == 2:
            record = sealed(rest(data), b"")
        elif how == 3:
            record = sealed(json.dumps(mutated(data, json.loads(header))).encode(), weights)
        else:
            check_tags(data)
            return
        try:
            found = records.decode(record)
        except ValueError:
            return
        for array in found.weights.values():
            assert (array.ndim, array.dtype) == (4, np.float32)

    def check_tags(data: Any) -> None:
        number = data.ConsumeIntInRange(1, 1 << 20)
        text = text_of(data)
        assert records.parse_tag(records.tag(number, text)) == (number, text)
        try:
            _, sentence = records.parse_tag(text)
        except ValueError:
            return
        assert text.endswith(sentence)

    seeds = [seed(valid, 0), seed(header, 2), seed("attention/probe_1/a b", 4, 0, 0, 1, 1)]
    rng = random.Random(1)
    return check, seeds + [seed(rng.randbytes(30), how) for how in (1, 3) for _ in range(8)]


def prepare_events(folder: Path) -> Prepared:
    """What names of files and sentences lead to in the event files."""
    from nmt.training.events import EventWriter
    from nmt.viewer.records import tag

    def check(data: Any) -> None:
        step = data.ConsumeIntInRange(0, 1 << 40)
        text = text_of(data)
        with EventWriter(folder / "logs", purge_step=step) as events:
            events.blob(tag(1, text), text.encode("utf-8", "replace"), step, plugin="plugin")
            events.text("samples", text, step)
            events.hparams({"data.path": text, "data.columns": [0, 1], "seed": step}, [])
        for path in (folder / "logs").iterdir():
            path.unlink()

    return check, [seed(text, 0, 0, 0, 0, 0, 0, 1) for text in (*TEXTS, b"\xff", "\0")]


def prepare_dashboard(folder: Path) -> Prepared:
    """Questions to the plugin of TensorBoard, about whatever event files hold."""
    from tensorboard import errors

    from nmt.analysis.dashboard import links
    from nmt.analysis.dashboard.plugin import AttentionPlugin

    methods = links._BY_RUN
    points = [SimpleNamespace(step=1, wall_time=1.0, values=[SimpleNamespace(blob_key="key")])]

    def provide(listed: dict[str, dict[str, Any]]) -> Any:
        """Return the methods of TensorBoard's data provider that are asked."""
        runs = [SimpleNamespace(run_name=name) for name in listed]
        read = {run: dict.fromkeys(tags, points) for run, tags in listed.items()}
        nothing = dict.fromkeys(methods, lambda *_, **__: {})
        return SimpleNamespace(
            **nothing
            | {
                "list_runs": lambda *_, **__: runs,
                "list_blob_sequences": lambda *_, **__: listed,
                "read_blob_sequences": lambda *_, **__: read,
                "read_blob": lambda *_, **__: b"ATTN",
            }
        )

    def check(data: Any) -> None:
        names = [pick(data, ("run", ".", "../x", "a b")) for _ in range(2)]
        path = pick(data, ("/runs", "/steps", "/record"))
        raw = data.ConsumeBool()
        said = rest(data).decode("utf-8", "replace")
        tags = said.split("\n")[:3]
        data_provider = provide(
            {name: {tag: SimpleNamespace(max_wall_time=1.0) for tag in tags} for name in names}
        )
        links.hide_links(data_provider, str(folder))
        plugin = AttentionPlugin(SimpleNamespace(data_provider=data_provider))
        asked = {"run": names[0], "sentence": tags[0], "step": "1"}
        environ = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": path,
            "QUERY_STRING": said.encode().decode("latin-1") if raw else urlencode(asked),
            "SERVER_NAME": "here",
            "SERVER_PORT": "80",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(),
        }
        began: list[str] = []
        try:
            answer = plugin.get_plugin_apps()[path](environ, lambda status, _: began.append(status))
            b"".join(answer)
        except errors.PublicError:
            return  # TensorBoard answers 4xx
        assert began[0].startswith("200")

    tags = ["attention/probe_1/a", "attention/probe_2/a\nattention/probe_1/b/c", "other", ""]
    asked = ["run=run&sentence=a&step=1", "run=run&sentence=%ff&step=x", "step=1"]
    seeds = [seed(tag, 0, 0, n, 0) for tag in tags for n in range(3)]
    return check, seeds + [seed(one, 0, 0, n, 1) for one in asked for n in range(3)]


class WordTranslator:
    """Stands behind the service in the place of a model: every character is a token."""

    decoding = SimpleNamespace(beam_size=4, length_penalty=0.6)
    has_attention = True

    def cut(self, text: str) -> list[str]:
        return [part for part in text.split("|") if part]

    def join(self, parts: list[Any], n_best: int) -> list[Any]:
        return [SimpleNamespace(text="", log_prob=0.0, score=0.0)]

    def hypotheses(self, parts: list[str], *, n_best: int, **_: Any) -> list[list[Any]]:
        one = [SimpleNamespace(text="a", log_prob=-1.0, score=-0.5) for _ in range(n_best)]
        return [one for _ in parts]

    def load_attention(self) -> None:
        pass

    def attention(self, text: str, translation: Any) -> None:
        return None


def made_service() -> Any:
    from nmt.serving.app import About, Limits, make_app

    limits = Limits(
        max_body=2000,
        max_sentences=8,
        max_characters=100,
        max_work=1000,
        timeout_s=5,
        health_s=5,
        max_batch=64,
        max_batch_work=100_000,
        max_wait_s=0.0,
        max_queue=100_000,
    )
    return make_app(WordTranslator(), About("a-run", "es", "en", {}), limits)


def check_answer(status: int, body: bytes) -> None:
    """Check the answer to a translation request: one of the promised ones, errors in one line."""
    assert status in (200, 400, 408, 413, 422, 503), f"status {status}: {body[:200]!r}"
    answer = json.loads(body)
    if status == 200:
        assert all(one["text"] is not None for text in answer["translations"] for one in text)
    else:
        assert list(answer) == ["error"]
        assert len(answer["error"].splitlines()) == 1, f"not one line: {answer['error']!r}"


BODIES = (
    '{"text": "a"}',
    '{"text": ["a", "b|c", ""], "beam": 2, "nbest": 2, "scores": true, "attention": true}',
    '{"text": "a", "length_penalty": 0.5, "beam": 17}',
    '{"text": "\\ud800", "x\\ny": 1}',
    '{"text": 1e999}',
    "[" * 1500,
    '"a"',
)


def prepare_requests(folder: Path) -> Prepared:
    """Bodies of requests for a translation."""
    app = made_service()
    loop = asyncio.new_event_loop()
    fields = ("text", "beam", "nbest", "length_penalty", "scores", "attention", "x\ny", "Text")

    def check(data: Any) -> None:
        how = data.ConsumeIntInRange(0, 2)
        kind = pick(data, (b"application/json", b"text/plain", b"a/b+json", b"\xff"))
        declared = pick(data, (b"", b"5", b"99999", b"-1", b"\xb2", b"x"))
        if how == 0:
            body = rest(data)
        else:
            asked = {"text": "a b"} if how == 1 else {}
            for _ in range(data.ConsumeIntInRange(1, 3)):
                asked[pick(data, fields)] = json_value(data)
            body = json.dumps(asked).encode()
        loop.run_until_complete(ask(body, [(b"content-type", kind), (b"content-length", declared)]))

    async def ask(body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        middle = len(body) // 2
        parts = [(body[:middle], True), (body[middle:], False)]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if not parts:
                await asyncio.Event().wait()
            part, more = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": more}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/translate",
            "raw_path": b"/translate",
            "root_path": "",
            "query_string": b"",
            "headers": headers,
        }
        await app(scope, receive, send)
        check_answer(sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:]))

    rng = random.Random(1)
    made = [seed(rng.randbytes(20), how, 0, 0) for how in (1, 2) for _ in range(8)]
    return check, [seed(body, 0, 0, 0) for body in BODIES] + made


class Wire(asyncio.Transport):
    """A connection of which one end is here."""

    def __init__(self) -> None:
        super().__init__({"peername": ("here", 1), "sockname": ("here", 2)})
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def spoken() -> list[str]:
    """Return what clients say on a connection."""
    head = "POST /translate HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
    said = [f"{head}Content-Length: {len(body)}\r\n\r\n{body}" for body in BODIES[:5]]
    return [
        *said,
        f"{head}Transfer-Encoding: chunked\r\n\r\n5\r\n[1,2]\r\n0\r\n\r\n",
        head,
        "GET / HTTP/1.0\r\n\r\n",
        "GET /info HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        "\0\r\n\r\n",
    ]


def prepare_connections(folder: Path) -> Prepared:
    """Whole connections, in pieces, through uvicorn's protocol with the limits of the service."""
    import logging

    import uvicorn
    from uvicorn.server import ServerState

    from nmt.serving.connections import limited_protocol

    logging.disable(logging.WARNING)
    loop = asyncio.new_event_loop()
    broken: list[Any] = []
    loop.set_exception_handler(lambda _, context: broken.append(context))
    config = uvicorn.Config(made_service(), http="h11", ws="none", lifespan="off", log_config=None)
    protocol_class = limited_protocol(30.0, 2)

    def check(data: Any) -> None:
        pieces = data.ConsumeIntInRange(1, 4)
        held = data.ConsumeIntInRange(0, 7) == 0  # as many connections as there is room for
        slow = data.ConsumeIntInRange(0, 7) == 0
        loop.run_until_complete(connect(rest(data), pieces, 2 if held else 0, slow))
        assert not broken, broken.pop()

    async def connect(content: bytes, pieces: int, others: int, slow: bool) -> None:
        state = ServerState()
        state.connections |= {object() for _ in range(others)}
        protocol = protocol_class(config=config, server_state=state, app_state={}, _loop=loop)
        wire = Wire()
        protocol.connection_made(wire)
        step = max(1, len(content) // pieces)
        for begin in range(0, len(content), step):
            if not wire.closed:
                protocol.data_received(content[begin : begin + step])
            await asyncio.sleep(0)
            if slow:
                protocol.pause_writing()
                protocol.resume_writing()
        for _ in range(200):
            if wire.closed or not state.tasks or not protocol.cycle or not content:
                break
            await asyncio.sleep(0.0001 if len(wire.written) else 0)
            if protocol.cycle.response_complete or protocol.cycle.more_body:
                break
        protocol.connection_lost(None)
        for task in list(state.tasks):
            await task
        assert protocol not in state.connections
        written = wire.written
        assert not written or written.startswith(b"HTTP/1.1 "), written[:80]
        assert b" 500 " not in written[:20], written[:300]

    return check, [seed(one, 1, 1, n) for one in spoken() for n in (0, 2)]


TARGETS = {
    "reading": Target(prepare_reading, 240),
    "cleaning": Target(prepare_cleaning, 660),
    "corpus": Target(prepare_corpus, 50),
    "archives": Target(prepare_archives, 80),
    "tokenizer": Target(prepare_tokenizer, 50),
    "config": Target(prepare_config, 30),
    "overrides": Target(prepare_overrides, 3),
    "runs": Target(prepare_runs, 120),
    "verifying": Target(prepare_verifying, 8),
    "records": Target(prepare_records, 660),
    "events": Target(prepare_events, 20),
    "dashboard": Target(prepare_dashboard, 80),
    "requests": Target(prepare_requests, 100),
    "connections": Target(prepare_connections, 80),
}


# --- one target, in a process of its own ----------------------------------------------------


def place_of(error: BaseException) -> str:
    """Return where an exception comes from: its last line in this repository, and its kind."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(ROOT) and ".venv" not in frame.filename
    ]
    last = frames[-1]
    name = Path(last.filename).relative_to(ROOT).as_posix()
    return f"{type(error).__name__} at {name}:{last.lineno}"


def run_again(name: str, path: Path) -> None:
    """Run one input of a target, and let through what it leads to."""
    with tempfile.TemporaryDirectory() as work:
        check, _ = TARGETS[name].prepare(Path(work))
        check(atheris.FuzzedDataProvider(path.read_bytes()))


def fuzz_here(name: str, folder: Path, options: list[str]) -> None:
    """Fuzz one target until libFuzzer ends the process.

    Args:
        name: of the target.
        folder: of corpora and findings.
        options: of libFuzzer.
    """
    warnings.simplefilter("ignore")
    corpus, findings = folder / name, folder / FINDINGS
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    memory = Path("/dev/shm")
    work = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None, prefix="nmt-fuzz-"))
    (folder / f"{name}.work").write_text(str(work))
    with atheris.instrument_imports(include=["nmt"]):
        from nmt.errors import UserError, fail

        check, seeds = TARGETS[name].prepare(work)
    for number, content in enumerate(seeds):
        (corpus / f"seed_{number:02d}").write_bytes(content)
    known: set[str] = set()

    def execute(content: bytes) -> None:
        try:
            check(atheris.FuzzedDataProvider(content))
        except UserError as error:
            with redirect_stderr(io.StringIO()) as said, suppress(SystemExit):
                fail(error)
            if len(said.getvalue().splitlines()) == 1:
                return
            found: Exception = error
        except Exception as error:
            found = error
        else:
            return
        place = place_of(found)
        if place in known:
            return
        known.add(place)
        path = findings / f"{name}_{re.sub(r'[^A-Za-z0-9]+', '_', place)}"
        path.write_bytes(content)
        reason = f"{place}: {found!r}"
        path.with_suffix(".txt").write_text(reason, errors="backslashreplace")

    atheris.Setup([sys.argv[0], *options], execute)
    atheris.Fuzz()


# --- all targets -----------------------------------------------------------------------------


def written(folder: Path) -> set[tuple[Path, int]]:
    """Return what is in a folder, and since when."""
    return {(path, path.stat().st_mtime_ns) for path in folder.iterdir()}


def fuzz_target(name: str, folder: Path, executions: int, seconds: float) -> Result:
    """Fuzz a target in a process of its own, and read what libFuzzer says of it.

    Args:
        name: of the target.
        folder: of corpora and findings.
        executions: how many; 0: as many as there is time for.
        seconds: how long; 0: as long as that takes.
    """
    (folder / FINDINGS).mkdir(parents=True, exist_ok=True)
    before = written(folder / FINDINGS)
    options = [
        f"-runs={executions or -1}",
        f"-max_total_time={math.ceil(seconds)}",
        f"-max_len={LONGEST_INPUT}",
        f"-rss_limit_mb={MEMORY}",
        f"-timeout={HANGS}",
        f"-artifact_prefix={folder / FINDINGS / name}_",
        "-print_final_stats=1",
        str(folder / name),
    ]
    done = subprocess.run(
        [sys.executable, __file__, name, "--corpus", folder, "--inside", *options],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    work = folder / f"{name}.work"
    if work.exists():
        shutil.rmtree(work.read_text(), ignore_errors=True)
        work.unlink()
    new = [path for path, _ in sorted(written(folder / FINDINGS) - before)]
    findings = [
        (path, path.with_suffix(".txt").read_text() if path.with_suffix(".txt") in new else "")
        for path in new
        if path.suffix != ".txt"
    ]
    if done.returncode:
        log = folder / FINDINGS / f"{name}.log"
        log.write_text(done.stdout)
        findings.append((log, f"the process ended with status {done.returncode}"))

    def last(said: str) -> int:
        found = re.findall(rf"{said}: *(\d+)", done.stdout)
        return int(found[-1]) if found else 0

    executions, rate = last("stat::number_of_executed_units"), last("stat::average_exec_per_sec")
    return Result(executions, rate or executions, last(" cov"), findings)


def print_table(results: dict[str, Result]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("target", "executions", "per second", "edges", "findings")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, one in results.items():
        numbers = (one.executions, one.per_second, one.edges, len(one.findings))
        table.add_row(name, *(f"{number:,}" for number in numbers))
    total = sum(one.executions for one in results.values())
    findings = sum(len(one.findings) for one in results.values())
    table.add_section()
    table.add_row("all", f"{total:,}", "", "", f"{findings:,}")
    Console().print(table)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", choices=["all", *TARGETS])
    until = parser.add_mutually_exclusive_group(required=True)
    until.add_argument("--executions", type=int, help="how many, of all targets together")
    until.add_argument("--minutes", type=float, help="how long, for all targets together")
    until.add_argument("--input", type=Path, help="run this input once more")
    until.add_argument("--inside", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument(
        "--corpus", type=Path, help="keeps findings, and inputs that reach new code"
    )
    return parser.parse_args(arguments)


def main() -> int:
    """Fuzz what is asked for; return the exit status."""
    given = parse(sys.argv[1:])
    if atheris is None:
        print("error: atheris is missing: python -m pip install 'atheris>=3,<4'", file=sys.stderr)
        return 2
    os.environ["KERAS_BACKEND"] = "numpy"  # the quickest to import; no model is run
    if given.input:
        run_again(given.target, given.input)
        return 0
    folder = given.corpus or Path(tempfile.mkdtemp(prefix="nmt-fuzz-"))
    if given.inside:
        fuzz_here(given.target, folder, given.inside)
    names = list(TARGETS) if given.target == "all" else [given.target]
    shares = sum(TARGETS[name].share for name in names)
    results = {}
    for name in names:
        executions = -(-(given.executions or 0) * TARGETS[name].share // shares)
        seconds = 60 * (given.minutes or 0) / len(names)
        results[name] = fuzz_target(name, folder, executions, seconds)
    print_table(results)
    findings = [finding for one in results.values() for finding in one.findings]
    for path, reason in findings:
        print(f"{path}: {reason}")
    if not findings and given.corpus is None:
        shutil.rmtree(folder)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
