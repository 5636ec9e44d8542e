"""The commands as a user runs them: exit status, standard output, one-line errors."""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import tiny_overrides, users_environment
from processes import Done, command, commands, one_line_error
from rich.console import Console
from sample_configs import LANGUAGES

from nmt import Translator, evaluate, translate
from nmt.errors import UserError, exit_on_user_error

pytest_plugins = ("translators",)
pytestmark = [pytest.mark.xdist_group("tiny run"), pytest.mark.usefixtures("cached_translators")]

# --- nmt.train ----------------------------------------------------------------------------------

WRONG = {
    "model.d_modle=256": "'model.d_modle'; did you mean 'model.d_model'?",
    "+model.depth=6": "unknown configuration key 'model.depth'",
    "model=smal": "unknown model 'smal'; did you mean 'small'?",
    "modle=small": "'modle'; did you mean 'model'?",
    "model.d_model=wide": "'model.d_model'",
    "model.num_heads=7": "model.d_model=128 must be divisible by model.num_heads=7",
    f"data.path=x data=tsv {' '.join(LANGUAGES)}": "data.path=x does not exist",
    "data.path=x data=tsv": "set them as in data.source_language=de data.target_language=en",
    "data=tatoeba data.archive=climbing.zip": "points outside",
    "training.resume=no/such/run": "run no/such/run does not exist",
    "training.learning_rate=nan": "training.learning_rate=nan must be a finite number",
}
SHOWN = {
    "--cfg job model=base": "d_model: 512",
    "--help": "model: base, big, compact, marian, rnn, small, tiny",
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


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_override_is_one_line(trained: Callable[[str], Done], line: str) -> None:
    assert WRONG[line] in one_line_error(trained(line))


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


# --- nmt.translate ------------------------------------------------------------------------------


def translated(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Return what the command prints, without a process of its own."""
    translate.run(translate.make_parser().parse_args(list(map(str, arguments))))
    return capsys.readouterr().out


def test_translate_arguments_and_standard_input(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = ["Hoy hace frío.", "¿Qué hora es?"]
    done = command("nmt.translate", "--run", tiny_run, *sentences)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    expected = done.stdout.decode().splitlines()
    assert len(expected) == 2
    stdin = f"{sentences[0]}\r\n\n{sentences[1]}".encode() + b"\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    lines = translated(capsys, "--run", tiny_run).split("\n")
    assert lines == [expected[0], "", expected[1], ""]


@pytest.mark.usefixtures("default_signals")
def test_a_pipe_is_answered_line_by_line_and_may_be_interrupted(tiny_run: Path) -> None:
    """As another program would use it: it writes a line, and waits for the answer."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nmt.translate", "--run", str(tiny_run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=users_environment(),
        start_new_session=True,
    )
    try:
        assert process.stdin
        assert process.stdout
        for line in (b"S\xc3\xad.\n", b"\n", b"Hola.\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert (process.stdout.readline() == b"\n") == (line == b"\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.communicate(timeout=60) == (b"", b"")
    finally:
        process.kill()


def test_the_engine_is_chosen_by_what_is_asked_and_said_where_it_is_wanted(
    tiny_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Translator.load(tiny_run, engine="keras")

    def load(
        run: Path, *, engine: str, quantization: str | None, log: Callable[[str], object], **_: Any
    ) -> Translator:
        log(f"{engine} {quantization}")
        return kept

    monkeypatch.setattr(Translator, "load", load)
    for options, engine in (
        ([], "auto None"),
        (["--quantization", "int8"], "auto int8"),
        (["--engine", "ctranslate2"], "ctranslate2 None"),
        (["--sample"], "keras None"),
        (["--mbr", "4"], "keras None"),
        (["--coverage-penalty", "0.2"], "keras None"),
        (["--coverage-penalty", "0"], "auto None"),
    ):
        line = ["--run", str(tiny_run), "Sí.", *options]
        translate.run(translate.make_parser().parse_args(line))
        assert capsys.readouterr().err == ""
        translate.run(translate.make_parser().parse_args([*line, "--verbose"]))
        assert capsys.readouterr().err == f"{engine}\n"


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


SOURCE = "Hoy hace frío.\n\nSí.\n¿Qué hora es?\nNo.\nMe gusta.\nAna vive aquí.\n¿Y tú?\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    path = tmp_path / "in.txt"
    path.write_text(SOURCE, encoding="utf-8")
    return path, tmp_path / "out.txt"


def test_translate_goes_on_where_it_was_interrupted(
    tiny_run: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = files
    options = ("--run", tiny_run, "--beam", "1", "--file", path, "--output", out)
    assert translated(capsys, *options) == ""
    whole = out.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert len(lines) == 8
    assert lines[1] == b"\n"
    middle = len(lines[2].decode()) // 2
    for count, rest in (
        (0, b""),
        (2, b""),
        (2, lines[2].decode()[:middle].encode()),
        (5, lines[5][:-1]),  # all but the line feed
        (8, b""),
    ):
        out.write_bytes(b"".join(lines[:count]) + rest)
        translated(capsys, *options, "--resume")
        assert out.read_bytes() == whole
    # One line that another near tie decided stays as it is, and is not translated again.
    kept = [*lines[:5], b"Another.\n"]
    out.write_bytes(b"".join(kept))
    translated(capsys, *options, "--resume")
    assert out.read_bytes() == b"".join([*kept, *lines[6:]])


def test_translate_goes_on_with_nothing_but_its_own_translations(
    tiny_run: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = files
    options = ("--run", tiny_run, "--beam", "1", "--file", path, "--output", out)
    translated(capsys, *options)
    whole = out.read_bytes()
    lines = whole.splitlines(keepends=True)
    for content, message in (
        (whole + b"one too many\n", "has 9 lines, more than the 8 of"),
        (whole + b"half a line", "has 9 lines, more than the 8 of"),
        (b"my only copy, without a line feed", "line 1 of .* is not the translation"),
        (b"my\nown\nlines\n", "line 2 of .* is not the translation"),  # of an empty line
        (b"".join([*lines[:2], b"not its begin"]), "line 3 of .* is not the translation"),
        (b"".join([lines[0], b"\n", *lines[3:6]]), "line 3 of .* is not the translation"),
        (b"0.0000\t0.0000\t" + lines[0], "line 1 of .* is not the translation"),
        (b"\xff\xfe\x00\n", "line 1 of .* is not the translation"),
    ):
        out.write_bytes(content)
        with pytest.raises(UserError, match=message):
            translated(capsys, *options, "--resume")
        assert out.read_bytes() == content
    out.unlink()
    out.mkdir()
    with pytest.raises(UserError, match="is not a regular file, so it cannot be resumed"):
        translated(capsys, *options, "--resume")


OTHER_ENCODINGS = ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"]


@pytest.mark.parametrize("encoding", OTHER_ENCODINGS)
def test_translate_reads_other_encodings(
    tiny_run: Path,
    files: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
) -> None:
    """From a file, also after an interruption, and from standard input."""
    path, out = files
    options = ("--run", tiny_run, "--beam", "1")
    lines = translated(capsys, *options, "--file", path).splitlines(keepends=True)
    path.write_bytes(SOURCE.replace("\n", "\r\n").encode(encoding))
    out.write_text("".join(lines[:3]), encoding="utf-8")
    named = ("--encoding", encoding)
    translated(capsys, *options, *named, "--file", path, "--output", out, "--resume")
    assert out.read_text(encoding="utf-8") == "".join(lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert translated(capsys, *options, *named) == "".join(lines)


@pytest.mark.parametrize("encoding", OTHER_ENCODINGS[:-1])
def test_translate_refuses_other_encodings_and_leaves_the_output(
    tiny_run: Path,
    files: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
) -> None:
    path, out = files
    content = ("Hoy.\n" * 9000 + SOURCE + "«“Sí”»\n" * (encoding != "latin-1")).encode(encoding)
    path.write_bytes(content)
    out.write_text("my only copy\n", encoding="utf-8")
    options = ("--run", tiny_run, "--output", out)
    message = f" {encoding.upper()}, not UTF-8.*: give --encoding {encoding}, or convert it: iconv "
    for more in ((), ("--resume",)):
        with pytest.raises(UserError, match=f"^{path} .*{message}"):
            translated(capsys, *options, "--file", path, *more)
    with path.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(UserError, match=f"^standard input .*{message}"):
            translated(capsys, *options)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content[-999:])))
    if encoding in ("latin-1", "cp1252"):  # of the others, the mark is not there
        with pytest.raises(UserError, match=f"^standard input .*{message}"):
            translated(capsys, *options)
    assert out.read_text(encoding="utf-8") == "my only copy\n"


def test_what_a_pipe_holds_before_another_encoding_is_translated(
    tiny_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"No.\n" + b"\n" * 100_000 + "Sí.\n".encode("latin-1")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(UserError, match="byte 0xed at offset 100,005, line 100,002"):
        translated(capsys, "--run", tiny_run, "--beam", "1")
    assert capsys.readouterr().out.count("\n") == 100_001


def test_a_file_may_be_a_pipe(
    tiny_run: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As the shell makes it of ``<(zcat FILE)``."""
    path, out = files
    options = ("--run", tiny_run, "--beam", "1")
    expected = translated(capsys, *options, "--file", path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(
        UserError, match=f"^--resume cannot read the pipe {pipe} again: save it as a file"
    ):
        translated(capsys, *options, "--file", pipe, "--output", out, "--resume")
    writer = threading.Thread(target=pipe.write_bytes, args=(path.read_bytes(),))
    writer.start()
    assert translated(capsys, *options, "--file", pipe) == expected
    writer.join()
    with pytest.raises(UserError, match=f"^{tmp_path} is a folder"):
        translated(capsys, *options, "--file", tmp_path)


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


TRANSLATE_WRONG: list[tuple[list[str], str]] = [
    (["--run", "nowhere", "Hola."], "run nowhere does not exist"),
    (["--file", "missing.txt"], "there is no file missing.txt"),
    (["--file", "missing.txt", "Hola."], "not both"),
    (["--run", "RUN", "--nbest", "5", "--beam", "2", "Hola."], "--beam 5"),
    (["--run", "RUN", "--attention", "a.png", "Hola.", "Sí."], "name a folder"),
    (["--run", "RUN", "--attention", "a.gif", "Hola."], ".png"),
    (["--run", "RUN", "--attention", "a.png", ""], "empty"),
    (["--encoding", "latin-99", "Hola."], "--encoding: unknown encoding 'latin-99'"),
    (["--encoding", "hex", "Hola."], "--encoding: unknown encoding 'hex'"),
    (["Hola.", "S\udced."], "sentence 2 is not UTF-8"),
    (["Hola.", "--prefix", "S\udced."], "--prefix is not UTF-8"),
    (["--resume", "Hola."], "--resume needs --file and --output"),
    (["--run", "RUN", "--engine", "ctranslate2_int8", "Hola."], "invalid choice"),
    (["--engine", "ctranslate2", "--attention", "a.png", "Hola."], "needs --engine keras or auto"),
    (["--quantization", "int8", "--attention", "a.png", "Hola."], "--attention needs Keras"),
    (["--quantization", "int8", "--mbr", "3", "Hola."], "--mbr needs Keras"),
    (["--run", "RUN", "--quantization", "int8", "--engine", "keras", "Hola."], "leave it out"),
    (["--sample", "--mbr", "3", "Hola."], "not both"),
    (["--sample", "--beam", "3", "Hola."], "leave --beam and --coverage-penalty out"),
    (["--top-p", "0.9", "Hola."], "need --sample or --mbr"),
    (["--length-penalty", "-1", "Hola."], "--length-penalty: must be at least 0, got -1"),
    (["--length-penalty", "nan", "Hola."], "--length-penalty: must be at least 0, got nan"),
]


@pytest.mark.parametrize(("arguments", "message"), TRANSLATE_WRONG)
def test_translate_says_what_is_wrong(
    tiny_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(tiny_run) if argument == "RUN" else argument for argument in arguments]
    with pytest.raises(SystemExit) as ended:
        exit_on_user_error(lambda: translate.run(translate.make_parser().parse_args(given)))
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_translate_says_it_in_a_process_of_its_own(tmp_path: Path) -> None:
    done = command("nmt.translate", "--file", "missing.txt", cwd=tmp_path)
    assert "there is no file missing.txt" in one_line_error(done)
    assert done.stdout == b""


# --- What is written is none of what is read ----------------------------------------------------


def names_of(path: Path) -> list[Path]:
    """Return names of a file: its own, another way to it, a symbolic and a hard link."""
    symbolic, hard = path.with_name("symbolic"), path.with_name("hard")
    symbolic.symlink_to(path.name)
    os.link(path, hard)
    return [path, path.parent / "." / ".." / path.parent.name / path.name, symbolic, hard]


def test_no_command_writes_over_its_input(tmp_path: Path) -> None:
    path, other = tmp_path / "X", tmp_path / "Y"
    path.write_text(SOURCE, encoding="utf-8")
    other.write_text(SOURCE, encoding="utf-8")

    def is_refused(command: Any, *arguments: str | Path) -> None:
        """Check that nothing was read or written, not even the run."""
        parsed = command.make_parser().parse_args(["--run", "nowhere", *map(str, arguments)])
        output = parsed.output
        given = path if output != path or command is evaluate else parsed.file
        message = f"^{output} would be written over {given}: name another output$"
        with pytest.raises(UserError, match=message):
            translate.run(parsed) if command is translate else evaluate.run(parsed, Console())

    for name in names_of(path):
        for read, written in ((path, name), (name, path)):
            is_refused(translate, "--file", read, "--output", written)
            is_refused(translate, "--file", read, "--output", written, "--resume")
        for source, reference in ((path, other), (other, path)):
            files = ("--source", source, "--reference", reference, "--output", name)
            is_refused(evaluate, *files)
            is_refused(evaluate, *files, "--score")
    assert path.read_text(encoding="utf-8") == SOURCE


def test_standard_input_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "X"
    path.write_text(SOURCE, encoding="utf-8")
    for name in names_of(path):
        with path.open("rb") as stdin:
            done = command("nmt.translate", "--output", name, stdin=stdin, cwd=tmp_path)
        line = one_line_error(done)
        assert line == f"error: {name} would be written over standard input: name another output\n"
        assert done.stdout == b""
    assert path.read_text(encoding="utf-8") == SOURCE


# --- nmt.evaluate -------------------------------------------------------------------------------


def evaluated(*arguments: str | Path) -> str:
    """Return what the command prints, without a process of its own."""
    console = Console(file=io.StringIO(), highlight=False, markup=False, soft_wrap=True)
    evaluate.run(evaluate.make_parser().parse_args(list(map(str, arguments))), console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_evaluate_a_run_on_its_test_split_and_on_files(tiny_run: Path, tmp_path: Path) -> None:
    shown = evaluated("--run", tiny_run, "--beam", "1")
    written = tiny_run / "evaluation_split_test_greedy.json"
    assert f"written to {written}" in shown
    found = json.loads(written.read_text(encoding="utf-8"))
    assert found["scored"] == "test split"
    assert found["sentences"] == 16
    assert found["scores"].keys() == {"BLEU", "chrF2++", "TER"}
    assert f"{found['scores']['BLEU']['value']:.2f}" in shown
    assert "words," in shown
    outputs = [sentence["output"] for sentence in found["outputs"]]

    source, reference = tmp_path / "source.txt", tmp_path / "reference.txt"
    source.write_text("\n".join(s["source"] for s in found["outputs"]) + "\n", encoding="utf-8")
    reference.write_text("\n".join(outputs) + "\n", encoding="utf-8")
    out = tmp_path / "scores.json"
    files = ["--source", source, "--reference", reference, "--output", out]
    evaluated("--run", tiny_run, "--beam", "1", *files, "--compare", tiny_run)
    scores = json.loads(out.read_text(encoding="utf-8"))
    assert scores["scores"]["chrF2++"]["value"] == pytest.approx(100)
    assert scores["compared"]["BLEU"]["difference"] == 0

    for path in (source, reference):
        path.write_bytes(path.read_text(encoding="utf-8").encode("utf-16"))
    with pytest.raises(UserError, match=f"^--source={source} is UTF-16.*give --encoding utf-16"):
        evaluated("--run", tiny_run, *files)
    evaluated("--run", tiny_run, "--beam", "1", *files, "--encoding", "utf-16")
    assert json.loads(out.read_text(encoding="utf-8"))["scores"] == scores["scores"]
    with pytest.raises(UserError, match=r"^--encoding needs --source"):
        evaluated("--run", tiny_run, "--encoding", "utf-16")

    source.write_text("\n" * 16, encoding="utf-8")
    reference.write_text("only one line\n", encoding="utf-8")
    done = command("nmt.evaluate", "--run", tiny_run, *files)
    assert "16 lines" in one_line_error(done)


def test_scores_of_anything_else_leave_those_of_training_alone(
    tiny_run: Path, tmp_path: Path
) -> None:
    of_training = (tiny_run / "evaluation_test.json").read_bytes()
    assert json.loads(of_training)["sentences"] == 16
    news = tmp_path / "news"
    news.mkdir()
    (news / "test.es").write_text("Sí.\n", encoding="utf-8")
    (news / "test.en").write_text("Yes.\n", encoding="utf-8")
    files = ("--source", news / "test.es", "--reference", news / "test.en")
    penalty = Translator.load(tiny_run).decoding.length_penalty
    for arguments, name in (
        (files, f"evaluation_file_test_beam_4_penalty_{penalty:g}.json"),
        ((*files, "--beam", "1"), "evaluation_file_test_greedy.json"),
        ((*files, "--score"), "scores_file_test.json"),
        (("--split", "dev", "--join", "2", "--score"), "scores_split_dev_joined_2.json"),
        ((*files, "--beam", "1", "--whole"), "evaluation_file_test_greedy_whole.json"),
        (("--split", "dev", "--beam", "1"), "evaluation_split_dev_greedy.json"),
        (
            ("--beam", "4", "--length-penalty", "0.25"),
            "evaluation_split_test_beam_4_penalty_0.25.json",
        ),
        (("--score",), "scores_split_test.json"),
    ):
        path = tiny_run / name
        path.unlink(missing_ok=True)
        assert f"written to {path}" in evaluated("--run", tiny_run, *arguments)
        assert path.is_file()
        assert (tiny_run / "evaluation_test.json").read_bytes() == of_training


@pytest.mark.parametrize("penalty", ["-1", "nan", "inf", "much"])
@pytest.mark.parametrize("command_line", [evaluate.make_parser, translate.make_parser])
def test_a_length_penalty_is_a_number_of_at_least_0(
    capsys: pytest.CaptureFixture[str], command_line: Callable[[], object], penalty: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line().parse_args(["--length-penalty", penalty])  # type: ignore[attr-defined]
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: argument --length-penalty: ")


def test_evaluate_scores_given_translations(tiny_run: Path, tmp_path: Path) -> None:
    source, reference = tmp_path / "source.txt", tmp_path / "reference.txt"
    source.write_text("Hoy hace frío.\nSí.\n", encoding="utf-8")
    reference.write_text("It's cold today.\nYes.\n", encoding="utf-8")
    out = tmp_path / "scores.json"
    given = ("--source", source, "--reference", reference, "--output", out)
    shown = evaluated("--run", tiny_run, "--score", *given)
    found = json.loads(out.read_text(encoding="utf-8"))
    nats = -sum(pair["log_prob"] for pair in found["pairs"])
    pieces = sum(len(pair["pieces"]) for pair in found["pairs"])
    assert found["perplexity"]["per_piece"] == pytest.approx(math.exp(nats / pieces))
    assert found["perplexity"]["per_word"] == pytest.approx(math.exp(nats / 6))  # 4 words, 2 ends
    for pair in found["pairs"]:
        assert pair["log_prob"] == pytest.approx(sum(pair["log_probs"]))
    rows = [line.split("\t") for line in shown.splitlines() if "\t" in line]
    assert [row[2:] for row in rows] == [["Hoy hace frío.", "It's cold today."], ["Sí.", "Yes."]]
    assert rows[1][0] == f"{found['pairs'][1]['log_prob']:.4f}"


def test_pairs_too_long_to_score_are_named_and_do_not_cost_the_others(
    tiny_run: Path, tmp_path: Path
) -> None:
    """By their number in the files, however many are scored at a time."""
    source, reference, out = (tmp_path / name for name in ("source", "reference", "scores.json"))
    given = ("--source", source, "--reference", reference, "--output", out)
    source.write_text("Sí.\n" * 601, encoding="utf-8")
    lines = ["Yes."] * 601
    lines[599] = "word " * 3000
    reference.write_text("\n".join(lines) + "\n", encoding="utf-8")
    shown = evaluated("--run", tiny_run, "--score", *given).splitlines()
    rows = [line for line in shown if "\t" in line]
    assert rows[599].split("\t")[:2] == ["-", "-"]
    assert rows[598] == rows[600]
    assert "1 pairs are longer than the model has positions for, and not scored: 600" in shown
    assert any(line.startswith("600 pairs, ") for line in shown)
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["too_long"] == [600]
    assert len(found["pairs"]) == 601
    assert found["pairs"][599]["log_prob"] is None
    assert sum(pair["log_prob"] is not None for pair in found["pairs"]) == 600
    source.write_text("word " * 3000 + "\n", encoding="utf-8")
    reference.write_text("Yes.\n", encoding="utf-8")
    with pytest.raises(UserError, match="every pair has a side of more than"):
        evaluated("--run", tiny_run, "--score", *given)


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
        "data.source_language=es", "data.target_language=en",
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
