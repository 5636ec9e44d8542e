"""Targets: files of run folders."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fuzz_inputs import (
    Prepared,
    compose_table_config,
    edit,
    mutate_json,
    pack_zip,
    pick,
    rest,
    seed,
)


@contextmanager
def replaced(path: Path, content: bytes) -> Iterator[None]:
    """Replace the content of a file within a `with` block."""
    original = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(original)


def make_run(folder: Path) -> Any:
    """Return a tiny run whose model is a stand-in."""
    import numpy as np

    from nmt.data.tokenizer import WordPieceTokenizer
    from nmt.runs import building
    from nmt.runs.checkpoint import write_arrays
    from nmt.runs.folder import RunFolder

    run = RunFolder.create(compose_table_config(folder))
    weights: dict[str, np.ndarray] = {
        "a/kernel": np.ones((2, 3), np.float32),
        "a/bias": np.zeros(3, np.float16),
    }
    model = SimpleNamespace(named_weights=lambda: weights)
    building.build_model = lambda *_, **__: model
    WordPieceTokenizer(["[PAD]", "[BOS]", "[EOS]", "[UNK]", "a", "##b"]).save(run.path)
    run.write_corpus_record({"lines": 3, "rejected": {"empty side": 1}, "digests": {"train": "0"}})
    score = {"scores": {"BLEU": {"value": 50.1, "half_width": None}}}
    run.write_json("evaluation_test.json", score)
    for step in (1, 2):
        run.metrics.append({"step": step, "seconds": 0.5, "train/loss": 1.0})
    arrays = {f"model/{name}": array for name, array in weights.items()}
    position = {"step": 2, "best_step": 1, "best_score": 10.5}
    write_arrays(run.checkpoints.best, arrays, {"step": 1})
    optimizer: dict[str, np.ndarray] = {"optimizer/a": np.ones((), np.int64)}
    run.checkpoints.save(2, arrays | optimizer, position, keep=2)
    run.samples.mkdir()
    (run.samples / "step_00000001.tsv").write_text("source\treference\toutput\na\tb\tc\n")
    return run


def draw_content(data: Any, path: Path) -> bytes:
    """Draw other content for a file."""
    content = path.read_bytes()
    choice = data.ConsumeIntInRange(0, 3)
    if choice == 0:
        return rest(data)
    if choice == 1:
        return edit(data, content)
    if path.suffix in (".json", ".jsonl"):
        lines = content.splitlines() if path.suffix == ".jsonl" else [content]
        return b"".join(
            json.dumps(mutate_json(data, json.loads(line))).encode() + b"\n" for line in lines
        )
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = pick(data, list(members))
        members[name] = edit(data, members[name])
        return pack_zip(data, members)
    return edit(data, content)


def run_seeds(files: int) -> list[bytes]:
    rng = random.Random(1)
    seeds = [
        seed(rng.randbytes(24), number, choice) for number in range(files) for choice in range(4)
    ]
    return seeds + [seed("[" * 3000, number, 0) for number in range(files)]


def prepare_runs(folder: Path) -> Prepared:
    """Replace a file of a run, and call its readers."""
    from nmt.data.tokenizer import load_tokenizer
    from nmt.runs.building import set_weights
    from nmt.runs.checkpoint import read_arrays
    from nmt.runs.corpus import has_corpus_changed
    from nmt.runs.folder import RunFolder

    run = make_run(folder)
    path = run.path
    empty: Any = SimpleNamespace(lines=0, rejected={}, archives={}, train=[], dev=[], test=[])
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
        assert all(isinstance(record["step"], int) for record in run.metrics.read())
        run.metrics.drop_after(1)

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
        opened.__dict__["config"] = config  # reading it takes longer than all the rest
        with replaced(path / name, draw_content(data, path / name)):
            readers[name](opened)

    return check, run_seeds(len(readers))


def prepare_verifying(folder: Path) -> Prepared:
    """Replace a file of a run; `verify` must report it, whatever it holds."""
    from nmt.formats import verifying

    path = make_run(folder).path
    names = [name for name in verifying.list_files(path) if not name.startswith("logs")]

    def check(data: Any) -> None:
        name = pick(data, names)
        with replaced(path / name, draw_content(data, path / name)):
            verdicts = list(verifying.verify_run(path))
        assert [verdict.name for verdict in verdicts] == names
        for verdict in verdicts:
            assert verdict.name == name or verdict.verdict == "sound" or verdict.reason, verdict
            assert len(verdict.reason.splitlines()) <= 1, "a reason is one line"

    return check, run_seeds(len(names))
