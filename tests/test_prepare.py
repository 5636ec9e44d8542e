"""nmt.prepare as a user runs it, and runs that train from what it wrote."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import corpus_lines, tiny_overrides
from processes import command
from rich.console import Console
from sample_configs import LANGUAGES
from sample_prepared import contents, journal_of

from nmt import fit
from nmt.errors import UserError
from nmt.runs.checkpoint import read_arrays
from nmt.runs.resuming import compose_config
from nmt.training.job import Run


def write_corpus(folder: Path, lines: int) -> Path:
    path = folder / "corpus.tsv"
    path.write_text("\n".join(corpus_lines(lines)) + "\n", encoding="utf-8")
    return path


def overrides(folder: Path, corpus: Path) -> list[str]:
    return [
        f"output={folder}",
        f"data.train={corpus}",
        *LANGUAGES,
        "data.dev=16",
        "data.test=16",
        "tokenizer.vocabulary_size=500",
        "prepare.processes=1",
        "prepare.shard_lines=80",
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared corpus of 200 lines."""
    parent = tmp_path_factory.mktemp("prepared")
    done = command("nmt.prepare", *overrides(parent / "of", write_corpus(parent, 200)))
    assert done.returncode == 0, done.stderr.decode()
    assert "Corpus: 200 lines" in done.stdout.decode()
    return parent / "of"


def test_nothing_but_the_result_stays(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *("begun.json", "dev.tsv", "journal.jsonl", "prepared.json", "shards", "test.tsv"),
        *("tests", "tokenizer"),
    }
    manifest = json.loads((folder / "prepared.json").read_text())
    assert len(manifest["shards"]) == 3
    assert manifest["pairs"]["dev"] == manifest["pairs"]["test"] == 16


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("prepare.shard_line=5", "did you mean 'prepare.shard_lines'?"),
        (
            "prepare.near_duplicates=2",
            "prepare.near_duplicates must be between 0.5 and 1, or null, got 2.0",
        ),
        ("data=phrasebook", "data.sources.patterns is generated"),
        ("data.dev=6", "was begun with data.dev=16.0, and not with 6.0"),
        ("data.sources.pairs.split=train", "data.dev=16 needs a source to take these pairs from"),
    ],
)
@pytest.mark.long
def test_errors_are_one_line(folder: Path, wrong: str, complaint: str) -> None:
    arguments = [
        override
        for override in overrides(folder, folder.parent / "corpus.tsv")
        if "data.train" not in override
    ]
    if wrong != "data=phrasebook":
        arguments.append(f"data.train={folder.parent / 'corpus.tsv'}")
    done = command("nmt.prepare", *arguments, wrong)
    assert done.returncode == 2
    [line] = done.stderr.decode().splitlines()
    assert complaint in line


def test_a_pipe_and_a_file_in_place_of_a_folder_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pairs.tsv"
    os.mkfifo(pipe)

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):
            pipe.write_text("sol\tsun\n")

    threading.Thread(target=write, daemon=True).start()
    done = command("nmt.prepare", *overrides(tmp_path / "new", pipe))
    assert (done.returncode, f"{pipe} is a pipe" in done.stderr.decode()) == (2, True)
    (tmp_path / "file").touch()
    done = command("nmt.prepare", *overrides(tmp_path / "file", pipe))
    expected = f"error: {tmp_path / 'file'} cannot be created: File exists\n"
    assert (done.returncode, done.stderr.decode()) == (2, expected)


def test_a_run_takes_what_is_settled(folder: Path) -> None:
    config = compose_config(
        ["data=prepared", f"data.prepared={folder}", "data.sources.pairs.weight=2"]
    )
    assert config.data.prepared == str(folder)
    assert config.data.name == "files"
    assert config.data.dev == 16
    assert config.data.sources["pairs"].weight == 2
    assert config.tokenizer.vocabulary_size == 500
    assert config.training.row_lengths == [64]


def test_a_folder_of_an_earlier_version_is_read(folder: Path, tmp_path: Path) -> None:
    """It lacks keys that were added later; its pairs were filtered without them."""
    manifest = json.loads((folder / "prepared.json").read_text())
    stored = manifest["configuration"]
    del stored["data"]["typical_length_ratio"], stored["data"]["noise"]["quotes"]
    stored["data"]["noise"]["typos"] = 0.25
    del stored["tokenizer"]["slots"], stored["tokenizer"]["lowercase_source"]
    (tmp_path / "prepared.json").write_text(json.dumps(manifest))
    config = compose_config(["data=prepared", f"data.prepared={tmp_path}"])
    assert config.data.typical_length_ratio == 1
    assert (config.data.noise.quotes, config.data.noise.typos) == (0, 0.25)
    assert (config.tokenizer.slots, config.tokenizer.lowercase_source) == (0, False)


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("data.dev=3", "keeps its data.dev"),
        ("tokenizer=bpe", "keeps its tokenizer"),
        ("training.row_lengths=[32]", "keeps its training.row_lengths"),
        ("data.sources.paris.weight=2", "has no source 'paris'; did you mean 'pairs'"),
    ],
)
def test_a_run_cannot_change_what_is_settled(folder: Path, override: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        compose_config(["data=prepared", f"data.prepared={folder}", override])


def test_a_source_of_another_group_cannot_be_removed(folder: Path) -> None:
    """The stored sources would take its place."""
    with pytest.raises(UserError, match=r"keeps its ~data\.sources\.patterns"):
        compose_config([f"data.prepared={folder}", "~data.sources.patterns"])


def test_other_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a prepared corpus: make one with nmt\.prepare"):
        compose_config(["data=prepared", f"data.prepared={tmp_path}"])
    (tmp_path / "begun.json").write_text("{}")
    with pytest.raises(UserError, match="is not finished: run the same"):
        compose_config(["data=prepared", f"data.prepared={tmp_path}"])
    manifest = (folder / "prepared.json").read_text()
    (tmp_path / "prepared.json").write_text(manifest.replace('"es"', '"${oc.env:HOME}"', 1))
    with pytest.raises(UserError, match="has a reference"):
        compose_config(["data=prepared", f"data.prepared={tmp_path}"])
    with pytest.raises(UserError, match=r"data=prepared needs data\.prepared=FOLDER"):
        compose_config(["data=prepared"])


def fit_on(folder: Path, to: Path, *more: str) -> Run:
    corpus = tiny_overrides(to)
    others = [override for override in corpus if not override.startswith(("data", "tokenizer"))]
    quiet = Console(quiet=True)
    return fit(["data=prepared", f"data.prepared={folder}", *others, *SHORT, *more], console=quiet)


SHORT = ["training.evaluate_every=3", "training.evaluation_sentences=2", "training.samples=0"]


@pytest.mark.slow
def test_training_goes_on_exactly_and_scores(folder: Path, tmp_path: Path) -> None:
    uninterrupted = fit_on(folder, tmp_path, "training.max_steps=6")
    assert set(uninterrupted.scores) == {"BLEU", "chrF2++", "TER"}
    first = fit_on(folder, tmp_path, "training.max_steps=3", "name=cut")
    assert (first.path / "tokenizer.model").is_file()
    copied = shutil.copytree(folder, tmp_path / "copied")  # elsewhere, and used by many
    resumed = [f"training.resume={first.path}", "training.max_steps=6", f"data.prepared={copied}"]
    again = fit(resumed, console=Console(quiet=True))
    arrays = [read_arrays(run.folder.checkpoints.path(6))[0] for run in (uninterrupted, again)]
    assert arrays[0].keys() == arrays[1].keys()
    for name, array in arrays[0].items():
        np.testing.assert_array_equal(array, arrays[1][name], err_msg=name)

    table = (copied / "dev.tsv").read_text().splitlines(keepends=True)
    (copied / "dev.tsv").write_text("".join(table[1:]))
    resumed[1] = "training.max_steps=9"
    with pytest.raises(UserError, match="the corpus has changed since"):
        fit(resumed, console=Console(quiet=True))
    folders = [key for key in tiny_overrides(tmp_path) if key.startswith(("runs_dir", "cache"))]
    start = [f"training.start_from={train_elsewhere(tmp_path)}", "training.new_vocabulary=false"]
    arguments = [
        "data=prepared",
        f"data.prepared={folder}",
        "training.max_steps=2",
        *folders,
        *start,
    ]
    with pytest.raises(UserError, match="is encoded with another tokenizer"):
        fit(arguments, console=Console(quiet=True))


def train_elsewhere(folder: Path) -> Path:
    """Return a run of two updates with another tokenizer."""
    arguments = [*tiny_overrides(folder), "tokenizer.vocabulary_size=450", "training.max_steps=2"]
    return fit([*arguments, *SHORT, "data.test=0"], console=Console(quiet=True)).path


@pytest.mark.slow
def test_a_killed_preparation_goes_on_where_it_was(folder: Path, tmp_path: Path) -> None:
    corpus = folder.parent / "corpus.tsv"
    arguments = [
        override for override in overrides(tmp_path / "of", corpus) if "prepare." not in override
    ]
    arguments += ["prepare.processes=2", "prepare.shard_lines=80"]
    line = [sys.executable, "-m", "nmt.prepare", *arguments]
    for _ in range(2):
        written = len(list((tmp_path / "of").rglob("*")))
        process = subprocess.Popen(line)
        while process.poll() is None and len(list((tmp_path / "of").rglob("*"))) <= written + 3:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
        time.sleep(1)
    assert subprocess.run(line, check=False).returncode == 0
    files, expected = contents(tmp_path / "of"), contents(folder)
    assert files == expected
    journal = journal_of(tmp_path / "of")
    assert len(set(journal)) == len(journal)
