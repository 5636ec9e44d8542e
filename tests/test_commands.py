"""The commands as a user runs them: exit status, standard output, one-line errors."""

from __future__ import annotations

import io
import json
import math
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import tiny_overrides, users_environment
from rich.console import Console

from nmt import evaluate, translate
from nmt.errors import UserError

pytestmark = pytest.mark.xdist_group("tiny run")


def command(
    *arguments: str | Path, stdin: bytes = b"", cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        check=False,
        env=users_environment() | {"COLUMNS": "200"},
    )


def one_line_error(done: subprocess.CompletedProcess[bytes]) -> str:
    """Check the contract of user errors; return the line."""
    error = done.stderr.decode()
    assert done.returncode == 2, error
    assert len(error.splitlines()) == 1, error
    assert error.startswith("error: ")
    return error


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.d_modle=256", "'model.d_modle'; did you mean 'model.d_model'?"),
        ("+model.depth=6", "unknown configuration key 'model.depth'"),
        ("model=smal", "there is no model 'smal'; did you mean 'small'?"),
        ("modle=small", "'modle'; did you mean 'model'?"),
        ("model.d_model=wide", "'model.d_model'"),
        ("model.num_heads=7", "model.d_model=128 is not divisible by model.num_heads=7"),
        ("data.path=x data=tsv", "data.path=x does not exist"),
        ("training.resume=no/such/run", "there is no run no/such/run"),
    ],
)
def test_a_wrong_override_is_one_line(tmp_path: Path, override: str, message: str) -> None:
    done = command("nmt.train", *override.split(), cwd=tmp_path)
    assert message in one_line_error(done)
    assert not (tmp_path / "runs").exists()


def test_a_bad_archive_is_refused_in_one_line(tmp_path: Path) -> None:
    climbing = tmp_path / "climbing.zip"
    with zipfile.ZipFile(climbing, "w") as archive:
        archive.writestr("../spa.txt", "Go.\tVe.\n")
    done = command("nmt.train", "data=tatoeba", f"data.archive={climbing}", cwd=tmp_path)
    assert "points outside" in one_line_error(done)
    assert list(tmp_path.iterdir()) == [climbing]


def test_show_configuration_and_help(tmp_path: Path) -> None:
    done = command("nmt.train", "--cfg", "job", "model=base", cwd=tmp_path)
    assert done.returncode == 0
    assert b"d_model: 512" in done.stdout
    done = command("nmt.train", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert b"model: base, big, compact, small, tiny" in done.stdout
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


def test_train_resume_from_the_command_line(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "runs" / "old")
    (tmp_path / "runs" / "latest").symlink_to("old")
    runs = f"runs_dir={tmp_path / 'runs'}"
    done = command(
        "nmt.train", runs, "training.resume=latest", "training.max_steps=14", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert b"after update 12" in done.stdout
    lines = (tmp_path / "runs" / "old" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines if "train/loss" in line]
    assert steps == list(range(1, 15))


def test_translate_arguments_and_standard_input(tiny_run: Path) -> None:
    sentences = ["Hoy hace frío.", "¿Qué hora es?"]
    done = command("nmt.translate", "--run", tiny_run, *sentences)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    expected = done.stdout.decode().splitlines()
    assert len(expected) == 2
    stdin = f"{sentences[0]}\r\n\n{sentences[1]}".encode() + b"\n\xff\xfe bad bytes\n"
    done = command("nmt.translate", "--run", tiny_run, stdin=stdin)
    lines = done.stdout.decode().split("\n")
    assert len(lines) == 5
    assert [lines[0], lines[1], lines[2]] == [expected[0], "", expected[1]]


def translated(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Return what the command prints, without a process of its own."""
    translate.run(translate.parser().parse_args(list(map(str, arguments))))
    return capsys.readouterr().out


def test_translate_a_file_with_scores_and_alternatives(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("Hoy hace frío.\n\nSí.\n", encoding="utf-8")
    options = ("--run", tiny_run, "--nbest", "3", "--scores")
    rows = [line.split("\t") for line in translated(capsys, "--file", path, *options).splitlines()]
    assert len(rows) == 3 + 1 + 3
    assert all(len(row) == 3 for row in rows)
    assert rows[3] == ["0.0000", "0.0000", ""]
    scores = [float(row[0]) for row in rows[:3]]
    assert scores == sorted(scores, reverse=True)
    greedy = translated(capsys, "--run", tiny_run, "--beam", "1", "Sí.", "--scores")
    score, log_prob, _ = greedy.split("\t")
    assert score == log_prob


def test_translate_goes_on_where_it_was_interrupted(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "in.txt", tmp_path / "out.txt"
    path.write_text("Hoy hace frío.\n\nSí.\n¿Qué hora es?\n", encoding="utf-8")
    options = ("--run", tiny_run, "--beam", "1", "--file", path, "--output", out)
    assert translated(capsys, *options) == ""
    whole = out.read_bytes()
    assert whole.count(b"\n") == 4
    for lines, rest in ((0, b""), (2, b""), (1, b"half a li"), (4, b"")):
        kept = b"".join(whole.splitlines(keepends=True)[:lines])
        out.write_bytes(kept.replace(b"e", b"E") + rest)  # what stands there is not done again
        translated(capsys, *options, "--resume")
        assert out.read_bytes() == kept.replace(b"e", b"E") + whole[len(kept) :]
    out.write_bytes(whole + b"one too many\n")
    with pytest.raises(UserError, match="has 4 lines, of which 5"):
        translated(capsys, *options, "--resume")


def test_translate_draws_samples(tiny_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--run", tiny_run, "Sí.", "--nbest", "4", "--scores")
    rows = translated(capsys, *options, "--sample").splitlines()
    assert len(rows) == 4
    assert translated(capsys, *options, "--sample", "--seed", "2").splitlines() != rows
    risks = translated(capsys, "--run", tiny_run, "Sí.", "--mbr", "8", "--scores").splitlines()
    assert len(risks) == 1
    assert 0 <= float(risks[0].split("\t")[0]) <= 100


def test_translate_draws_attention(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, folder = tmp_path / "out.png", tmp_path / "all"
    translated(capsys, "--run", tiny_run, "--attention", picture, "Hoy hace frío.")
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    translated(capsys, "--run", tiny_run, "--attention", folder, "Hoy.", "Sí.")
    page = tmp_path / "out.html"
    lines = translated(capsys, "--run", tiny_run, "--attention", page, "Hoy.", "Sí.")
    assert len(lines.splitlines()) == 2
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    kinds = ("encoder_self_attention", "decoder_masked_self_attention", "cross_attention")
    assert {path.name for path in folder.iterdir()} == {
        f"sentence_{n}_{kind}_layer_1.png" for n in (1, 2) for kind in kinds
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run", "nowhere", "Hola."], "there is no run nowhere"),
        (["--file", "missing.txt"], "there is no file missing.txt"),
        (["--file", "missing.txt", "Hola."], "not both"),
        (["--run", "RUN", "--nbest", "5", "--beam", "2", "Hola."], "--beam 5"),
        (["--run", "RUN", "--attention", "a.png", "Hola.", "Sí."], "name a folder"),
        (["--run", "RUN", "--attention", "a.gif", "Hola."], ".png"),
        (["--run", "RUN", "--attention", "a.png", ""], "empty"),
        (["--resume", "Hola."], "--resume needs --file and --output"),
        (["--run", "RUN", "--engine", "ctranslate2_int8", "Hola."], "--quantization int8 --run"),
        (["--engine", "ctranslate2", "--attention", "a.png", "Hola."], "leave it out"),
        (["--sample", "--mbr", "3", "Hola."], "not both"),
        (["--sample", "--beam", "3", "Hola."], "leave --beam out"),
        (["--top-p", "0.9", "Hola."], "need --sample or --mbr"),
    ],
)
def test_translate_says_what_is_wrong(
    tiny_run: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    given = [str(tiny_run) if argument == "RUN" else argument for argument in arguments]
    done = command("nmt.translate", *given, cwd=tmp_path)
    assert message in one_line_error(done)


def test_evaluate_a_run_on_its_test_split_and_on_files(tiny_run: Path, tmp_path: Path) -> None:
    done = command("nmt.evaluate", "--run", tiny_run, "--beam", "1")
    assert done.returncode == 0, done.stderr
    found = json.loads((tiny_run / "evaluation_test.json").read_text(encoding="utf-8"))
    assert found["sentences"] == 16
    assert found["scores"].keys() == {"BLEU", "chrF2++", "TER"}
    assert f"{found['scores']['BLEU']['value']:.2f}" in done.stdout.decode()
    assert "words," in done.stdout.decode()
    outputs = [sentence["output"] for sentence in found["outputs"]]

    source, reference = tmp_path / "source.txt", tmp_path / "reference.txt"
    source.write_text("\n".join(s["source"] for s in found["outputs"]) + "\n", encoding="utf-8")
    reference.write_text("\n".join(outputs) + "\n", encoding="utf-8")
    out = tmp_path / "scores.json"
    files = ["--source", source, "--reference", reference, "--output", out]
    console = Console(file=io.StringIO())
    compared = ["--run", tiny_run, "--beam", "1", *files, "--compare", tiny_run]
    evaluate.run(evaluate.parser().parse_args(list(map(str, compared))), console)
    scores = json.loads(out.read_text(encoding="utf-8"))
    assert scores["scores"]["chrF2++"]["value"] == pytest.approx(100)
    assert scores["compared"]["BLEU"]["difference"] == 0

    reference.write_text("only one line\n", encoding="utf-8")
    done = command("nmt.evaluate", "--run", tiny_run, *files)
    assert "16 lines" in one_line_error(done)


def test_evaluate_scores_given_translations(tiny_run: Path, tmp_path: Path) -> None:
    source, reference = tmp_path / "source.txt", tmp_path / "reference.txt"
    source.write_text("Hoy hace frío.\nSí.\n", encoding="utf-8")
    reference.write_text("It's cold today.\nYes.\n", encoding="utf-8")
    out = tmp_path / "scores.json"
    shown = io.StringIO()
    arguments = ["--run", tiny_run, "--score", "--output", out]
    arguments += ["--source", source, "--reference", reference]
    evaluate.run(evaluate.parser().parse_args(list(map(str, arguments))), Console(file=shown))
    found = json.loads(out.read_text(encoding="utf-8"))
    nats = -sum(pair["log_prob"] for pair in found["pairs"])
    pieces = sum(len(pair["pieces"]) for pair in found["pairs"])
    assert found["perplexity"]["per_piece"] == pytest.approx(math.exp(nats / pieces))
    assert found["perplexity"]["per_word"] == pytest.approx(math.exp(nats / 6))  # 4 words, 2 ends
    for pair in found["pairs"]:
        assert pair["log_prob"] == pytest.approx(sum(pair["log_probs"]))
    rows = [line.split("\t") for line in shown.getvalue().splitlines() if "\t" in line]
    assert [row[2:] for row in rows] == [["Hoy hace frío.", "It's cold today."], ["Sí.", "Yes."]]
    assert rows[1][0] == f"{found['pairs'][1]['log_prob']:.4f}"


@pytest.mark.slow
def test_digits_are_reversed(tmp_path: Path) -> None:
    """Learnability: sequences of digits, reversed, to at least 0.99 exact match."""
    import random

    generator = random.Random(0)
    seen = set()
    while len(seen) < 6200:
        seen.add("".join(generator.choices("0123456789", k=generator.randint(3, 8))))
    rows = [(" ".join(digits), " ".join(reversed(digits))) for digits in sorted(seen)]
    generator.shuffle(rows)
    corpus = tmp_path / "digits.tsv"
    corpus.write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    # Every number of the test split is new; few palindromes link pairs.
    done = command(
        "nmt.train", "data=tsv", f"data.path={corpus}", "data.dev=100", "data.test=500",
        "model=tiny", "model.encoder_layers=2", "model.decoder_layers=2",
        "training.max_minutes=null", "training.max_steps=3000", "training.batch_tokens=1024",
        "training.learning_rate=2e-3", "training.probes=[]", "training.early_stopping=null",
        "training.evaluate_every=1000", "decoding.beam_size=1",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "runs/latest/evaluation_test.json").read_text())["outputs"]
    exact = [sentence["output"] == sentence["reference"] for sentence in found]
    assert len(exact) == 500
    assert sum(exact) / len(exact) >= 0.99
