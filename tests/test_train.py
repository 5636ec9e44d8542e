"""`nmt.train` as a user runs it: exit status, output, one-line errors."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import tiny_overrides
from processes import Done, command, commands, one_line_error
from sample_configs import LANGUAGES

ONE_PROCESS = pytest.mark.xdist_group("train command")  # runs all lines of `trained`

WRONG = {
    "model.d_modle=256": "'model.d_modle'; did you mean 'model.d_model'?",
    "+model.depth=6": "unknown configuration key 'model.depth'",
    "model=smal": "unknown model 'smal'; did you mean 'small'?",
    "modle=small": "'modle'; did you mean 'model'?",
    "model.d_model=wide": "model.d_model must be a whole number, got wide",
    "model.num_heads=7": "model.d_model=128 is not divisible by num_heads=7",
    f"data.train=x data=files {' '.join(LANGUAGES)}": "data.train=x does not exist",
    "data.train=x data=files": "as in data.source_language=de data.target_language=en",
    "data=tatoeba data.archive=climbing.zip": "points outside",
    "training.resume=no/such/run": "run no/such/run does not exist",
    "training.learning_rate=nan": "training.learning_rate must be finite, got nan",
}
SHOWN = {
    "--cfg job model=base": "d_model: 512",
    "--help": "model: base, big, compact, marian, medium, rnn, small, tiny",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Done]:
    """Run command lines of `nmt.train` that train nothing, all in one process and one folder."""
    folder = tmp_path_factory.mktemp("nothing")
    with zipfile.ZipFile(folder / "climbing.zip", "w") as archive:
        archive.writestr("../spa.txt", "Go.\tVe.\n")
    lines = [*WRONG, *SHOWN]
    done = commands("nmt.train", [line.split() for line in lines], cwd=folder)
    assert [path.name for path in folder.iterdir()] == ["climbing.zip"]
    return dict(zip(lines, done, strict=True)).__getitem__


@ONE_PROCESS
@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_override_is_one_line(trained: Callable[[str], Done], line: str) -> None:
    assert WRONG[line] in one_line_error(trained(line))


@ONE_PROCESS
@pytest.mark.parametrize("line", SHOWN)
def test_show_configuration_and_help(trained: Callable[[str], Done], line: str) -> None:
    done = trained(line)
    assert done.returncode == 0
    assert SHOWN[line] in done.stdout.decode()
    assert done.stderr == b""


def test_a_process_of_its_own_ends_with_the_line_and_the_status(tmp_path: Path) -> None:
    done = command("nmt.train", "model=smal", cwd=tmp_path)
    assert WRONG["model=smal"] in one_line_error(done)
    assert done.stdout == b""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_multirun_trains_one_run_per_value(tmp_path: Path) -> None:
    overrides = tiny_overrides(tmp_path, lines=60)
    done = command(
        "nmt.train", "-m", *overrides, "training.max_steps=2", "seed=1,2", "data.test=0",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seeds = {
        line
        for path in (tmp_path / "runs").glob("2*/config.yaml")
        for line in path.read_text().splitlines()
        if line.startswith("seed:")
    }
    assert seeds == {"seed: 1", "seed: 2"}


@pytest.mark.long
@pytest.mark.xdist_group("tiny run")
def test_train_resume_from_the_command_line(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "runs" / "old")
    (tmp_path / "runs" / "latest").symlink_to("old")
    long = " ".join(["Hoy hace mucho frío,"] * 20)
    more = ("training.max_steps=14", f"training.probes=['{long}']", "decoding.beam_size=1")
    runs = f"runs_dir={tmp_path / 'runs'}"
    done = command("nmt.train", runs, "training.resume=latest", *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"after update 12" in done.stdout
    lines = (tmp_path / "runs" / "old" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines if "train/loss" in line]
    assert steps == list(range(1, 15))
    # The probe is cut. What warns is this program, and no line of its source.
    [warning] = done.stderr.decode().splitlines()
    assert warning.startswith("warning: a text of ")
    assert warning.endswith(": such texts are translated in segments")


@pytest.mark.slow
def test_letters_are_reversed(tmp_path: Path) -> None:
    """Learnability: sequences of letters, reversed, to at least 0.99 exact match."""
    import random

    generator = random.Random(0)
    sequences = set()
    while len(sequences) < 6200:
        sequences.add("".join(generator.choices("abcdefghij", k=generator.randint(3, 8))))
    rows = [(" ".join(letters), " ".join(reversed(letters))) for letters in sorted(sequences)]
    generator.shuffle(rows)
    corpus = tmp_path / "letters.tsv"
    corpus.write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    # Every sequence of the test split is new; few palindromes link pairs.
    done = command(
        "nmt.train", "data=files", f"data.train={corpus}", "data.dev=100", "data.test=500",
        "data.source_language=es", "data.target_language=en",
        "model=tiny", "model.encoder_layers=2", "model.decoder_layers=2",
        "training.max_minutes=null", "training.max_steps=3000", "training.batch_tokens=1024",
        "training.learning_rate=2e-3", "training.probes=[]", "training.early_stopping=null",
        "training.evaluate_every=1000", "decoding.beam_size=1",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sentences = json.loads((tmp_path / "runs/latest/evaluation_test.json").read_text())["outputs"]
    exact = [sentence["output"] == sentence["reference"] for sentence in sentences]
    assert len(exact) == 500
    assert sum(exact) / len(exact) >= 0.99
