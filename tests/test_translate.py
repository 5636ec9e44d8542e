"""`nmt.translate` as a user runs it: exit status, standard output, one-line errors."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import users_environment
from processes import command, one_line_error
from rich.console import Console

from nmt import Translator, evaluate, translate
from nmt.errors import UserError, exit_on_user_error
from nmt.inference.contract import SearchRequest
from nmt.inference.results import Translation
from nmt.inference.term_report import TermReport
from nmt.text.context import add_context
from nmt.text.spans import SLOTS

pytest_plugins = ("translators",)
pytestmark = [pytest.mark.xdist_group("tiny run"), pytest.mark.usefixtures("cached_translators")]


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
    loaded = Translator.load(tiny_run, engine="keras")

    def load(
        run: Path, *, engine: str, quantization: str | None, log: Callable[[str], object], **_: Any
    ) -> Translator:
        log(f"{engine} {quantization}")
        return loaded

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


def test_lines_are_read_behind_the_lines_before_them(
    tiny_run: Path, context_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("Hoy hace frío.\nSí.\n\nSí.\n", encoding="utf-8")
    options = ("--file", path, "--scores")
    lines = translated(capsys, "--run", context_run, *options).splitlines()
    plain = translated(capsys, "--run", tiny_run, *options).splitlines()
    assert lines[0] == plain[0]
    assert lines[2:] == plain[2:]
    assert lines[1] != plain[1] == plain[3]
    translator = Translator.load(context_run)
    [[best]] = translator.hypotheses([add_context("Sí.", ["Hoy hace frío."])])
    assert lines[1] == f"{best.score:.4f}\t{best.log_prob:.4f}\t{best.text}"
    # The same within one text, and on standard input.
    [text] = translated(capsys, "--run", context_run, "Hoy hace frío. Sí.").splitlines()
    assert text.endswith(best.text)


def test_translate_a_file_with_scores_and_alternatives(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("Hoy hace frío.\n\nSí.\n", encoding="utf-8")
    options = ("--run", tiny_run, "--nbest", "3", "--scores")
    rows = [line.split("\t") for line in translated(capsys, "--file", path, *options).splitlines()]
    assert len(rows) == 3 * 3, "an empty line has only one: it is repeated"
    assert all(len(row) == 3 for row in rows)
    assert rows[3:6] == [["0.0000", "0.0000", ""]] * 3
    scores = [float(row[0]) for row in rows[:3]]
    assert scores == sorted(scores, reverse=True)
    greedy = translated(capsys, "--run", tiny_run, "--beam", "1", "Sí.", "--scores")
    score, log_prob, _ = greedy.split("\t")
    assert score == log_prob


def test_each_line_of_a_file_gives_as_many_translations(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("12\nHoy hace frío.\n😀\n\n", encoding="utf-8")
    for options in (["--nbest", "2"], ["--nbest", "2", "--sample"], ["--nbest", "2", "--mbr", "2"]):
        lines = translated(capsys, "--run", tiny_run, *options, "--file", path).split("\n")
        assert len(lines) == 2 * 4 + 1
        assert [*lines[:2], *lines[4:]] == ["12", "12", "😀", "😀", "", "", ""]
    assert translated(capsys, "--run", tiny_run, "--nbest", "2", "12") == "12\n"


@pytest.mark.parametrize(
    ("options", "n_best"), [("", 1), ("--beam 8", 1), ("--nbest 3", 3), ("--nbest 3 --beam 8", 8)]
)
def test_translations_are_listed_from_the_whole_beam(options: str, n_best: int) -> None:
    arguments = translate.make_parser().parse_args([*options.split(), "12"])
    request = translate.make_request(arguments)
    assert isinstance(request, SearchRequest)
    assert request.n_best == n_best
    translations = [Translation(text, 0.0, 0.0, ()) for text in ("a", "a", "b", "b", "c", "d")]
    [text] = translate.format_texts(arguments, [translations])
    assert text.split() == [*"abcd"[: arguments.nbest]]


def test_line_breaks_of_an_argument_come_back_and_a_line_of_a_file_stays_one(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = " 12\n\nhttps://example.com\u2028😀 "
    assert translated(capsys, "--run", tiny_run, text) == f"{text}\n"
    path = tmp_path / "in.txt"
    path.write_text("12\u202813\n  \n😀 --- 😀\n", encoding="utf-8")
    assert translated(capsys, "--run", tiny_run, "--file", path) == "12 13\n  \n😀 --- 😀\n"


def test_sentences_or_lines_are_translated_in_one_go(
    tiny_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def output(text: str, *options: str) -> str:
        return translated(capsys, "--run", tiny_run, "--beam", "1", *options, text)[:-1]

    first, second, both = (
        "Hoy hace frío.",
        "Mañana va a llover.",
        "Hoy hace frío. Mañana va a llover.",
    )
    parts = f"{output(first)} {output(second)}"
    assert output(both) == output(both, "--unit", "sentence") == parts
    assert output(both, "--unit", "line") == output(both, "--whole") != parts


def test_spans_that_a_model_leaves_out_are_counted_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Losing:
        segmenter = SimpleNamespace(words=None, language="es")

        def run(self, texts: list[str], request: object) -> list[list[Translation]]:
            return [[Translation(text, 0.0, 0.0, (), tuple(text.split()))] for text in texts]

        def stream(self, chunks: Iterable[list[str]], request: object) -> Iterator[Any]:
            return (self.run(chunk, request) for chunk in chunks)

    for texts, warning in (
        (
            ["12 13", "14"],
            "left out 3 of the names, numbers and other parts that it copies, such as '12'",
        ),
        ([" "], ""),
    ):
        arguments = translate.make_parser().parse_args(texts)
        translate.translate(
            arguments, Losing(), translate.make_request(arguments), TermReport(None)
        )  # type: ignore[arg-type]
        captured = capsys.readouterr()
        assert captured.out == "".join(f"{text}\n" for text in texts)
        assert captured.err.count("\n") == bool(warning)
        assert warning in captured.err


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
    complete = out.read_bytes()
    lines = complete.splitlines(keepends=True)
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
        assert out.read_bytes() == complete
    # One line that another near tie decided stays as it is, and is not translated again.
    changed = [*lines[:5], b"Another.\n"]
    out.write_bytes(b"".join(changed))
    translated(capsys, *options, "--resume")
    assert out.read_bytes() == b"".join([*changed, *lines[6:]])


def test_translate_goes_on_with_nothing_but_its_own_translations(
    tiny_run: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = files
    options = ("--run", tiny_run, "--beam", "1", "--file", path, "--output", out)
    translated(capsys, *options)
    complete = out.read_bytes()
    lines = complete.splitlines(keepends=True)
    for content, message in (
        (complete + b"one too many\n", "has 9 lines, more than the 8 of"),
        (complete + b"half a line", "has 9 lines, more than the 8 of"),
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
    with pytest.raises(UserError, match="is a folder and no regular file: name a file"):
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


@pytest.mark.parametrize("option", ["--length-penalty=11", "--prefix=" + "casa " * 300])
def test_translate_refuses_options_and_leaves_the_output(
    tiny_run: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], option: str
) -> None:
    path, out = files
    out.write_text("my only copy\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"length_penalty must be|the prefix must have"):
        translated(capsys, "--run", tiny_run, "--output", out, "--file", path, option)
    assert out.read_text(encoding="utf-8") == "my only copy\n"


def test_an_output_that_is_a_folder_is_refused_at_once(
    tiny_run: Path, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        UserError, match=rf"^--output {tmp_path} is a folder and no regular file: name a file$"
    ):
        translated(capsys, "--run", tiny_run, "--output", tmp_path, "--file", files[0])


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
    guess = "cp1252" if encoding == "latin-1" else encoding  # their letters are the same
    message = f" {guess.upper()}, not UTF-8.*: give --encoding {guess}, or convert it: iconv "
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
    (["--file", "missing.txt"], "missing.txt does not exist"),
    (["--file", "missing.txt", "Hola."], "not both"),
    (["--run", "RUN", "--nbest", "5", "--beam", "2", "Hola."], "--beam 5"),
    (["--run", "RUN", "--attention", "a.png", "Hola.", "Sí."], "name a folder"),
    (["--run", "RUN", "--attention", "a.gif", "Hola."], ".png"),
    (["--run", "RUN", "--attention", "a.png", ""], "empty"),
    (["--encoding", "latin-99", "Hola."], "--encoding: unknown encoding 'latin-99'"),
    (["--encoding", "hex", "Hola."], "--encoding: unknown encoding 'hex'"),
    (["-Hola"], "unrecognized arguments: -Hola: if that is text, write -- -Hola; see"),
    (["--bem", "-Hola"], "unrecognized arguments: --bem -Hola; see"),
    (["Hola.", "S\udced."], "sentence 2 is not UTF-8"),
    (["Hola.", "--prefix", "S\udced."], "--prefix is not UTF-8"),
    (["--resume", "Hola."], "--resume needs --file and --output"),
    (["--run", "RUN", "--engine", "ctranslate2_int8", "Hola."], "invalid choice"),
    (["--engine", "ctranslate2", "--attention", "a.png", "Hola."], "needs --engine keras or auto"),
    (["--quantization", "int8", "--attention", "a.png", "Hola."], "--attention needs Keras"),
    (["--quantization", "int8", "--mbr", "3", "Hola."], "--mbr needs Keras"),
    (["--run", "RUN", "--quantization", "int8", "--engine", "keras", "Hola."], "leave it out"),
    (["--format", "html", "Hola."], "--format is for a document: give it as --file"),
    (["--file", "RUN/corpus.json", "--format", "lines", "--columns", "1"], "--columns is for a"),
    (["--file", "RUN/corpus.json", "--columns", "1"], "--columns is for tables"),
    (["--file", "RUN/corpus.json", "--nbest", "2"], "--nbest is for lines, and"),
    (["--file", "RUN/corpus.json", "--format", "office", "--encoding", "cp1252"], "names its enc"),
    (["--file", "RUN/corpus.json", "--resume"], "give --format lines"),
    (["--whole", "--unit", "sentence", "Hola."], "leave --unit sentence out"),
    (["--unit", "word", "Hola."], "invalid choice"),
    (["--run", "RUN", "--term-report", "r.tsv", "Hola."], "--term-report needs --terms FILE"),
    (["--term-mode", "soft", "Hola."], "--term-mode needs --terms FILE"),
    (["--terms", "RUN/corpus.json", "--output", "RUN/corpus.json", "Hola."], "be written over"),
    (["--terms", "RUN/corpus.json", "--term-report", "RUN/corpus.json", "a"], "be written over"),
    (["--terms", "t", "--term-report", "r", "--output", "r", "Hola."], "need different files"),
    (["--terms", "t", "--term-report", "none/r.tsv", "Hola."], "folder none does not exist"),
    (
        ["--terms", "t", "--term-report", "r", "--quality", "r", "Hola."],
        "--term-report and --quality need different files",
    ),
    (["--file", "RUN/corpus.json", "--output", "none/a", "--format", "lines"], "folder none does"),
    (
        "--resume --file RUN/corpus.json --format lines --output o --term-report r".split(),
        "--term-report counts a whole file",
    ),
    (["--run", "RUN", "--terms", "none.tsv", "Hola."], "none.tsv cannot be read"),
    (["--terms", "t.tsv", "--sample", "Hola."], "--terms needs a search"),
    (["--run", "RUN", "--run", "RUN", "--terms", "t.tsv", "Hola."], "give --run once"),
    (["--sample", "--mbr", "3", "Hola."], "not both"),
    (
        ["--sample", "--beam", "3", "Hola."],
        "--length-penalty, --coverage-penalty and",
    ),
    (["--mbr", "3", "--no-repeat-ngram", "3", "Hola."], "and --no-repeat-ngram out"),
    (
        ["--beam", "1", "--coverage-penalty", "0.2", "Hola."],
        "--coverage-penalty 0.2 needs --beam 2 or more",
    ),
    (["--no-repeat-ngram", "-1", "Hola."], "must be an integer of at least 0, got -1"),
    (["--top-p", "0.9", "Hola."], "need --sample or --mbr"),
    (["--seed", "7", "Hola."], "--seed 7 needs --sample or --mbr: nothing is drawn"),
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
    words = [argument.replace("RUN", str(tiny_run)) for argument in arguments]
    with pytest.raises(SystemExit) as ended:
        exit_on_user_error(lambda: translate.run(translate.make_parser().parse_args(words)))
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith("error: ")
    assert message in line


@pytest.mark.parametrize(
    "name",
    ["strings.XML", "Localizable.xcstrings", "App.vue", "a.json5", "clase.ipynb", "a.eml", "a.py"],
)
def test_documents_in_no_format_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text("<a>Hola</a>")
    words = ["--file", str(path)]
    with pytest.raises(SystemExit):
        exit_on_user_error(lambda: translate.run(translate.make_parser().parse_args(words)))
    assert f"{name} would be damaged as lines of text" in capsys.readouterr().err


def test_a_binary_document_is_not_written_to_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "letter.docx"
    path.touch()
    words = ["--file", str(path)]
    translate.check(translate.make_parser().parse_args(words))  # to a pipe
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(UserError, match=r"letter\.docx becomes a binary file: give --output FILE"):
        translate.check(translate.make_parser().parse_args(words))
    translate.check(translate.make_parser().parse_args([*words, "--output", f"{path}.en"]))


def test_translate_says_it_in_a_process_of_its_own(tmp_path: Path) -> None:
    done = command("nmt.translate", "--file", "missing.txt", cwd=tmp_path)
    assert "missing.txt does not exist" in one_line_error(done)
    assert done.stdout == b""


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
        source = path if output != path or command is evaluate else parsed.file
        message = f"^{output} would be written over {source}: name another output$"
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


def test_terms_are_used_and_reported(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms, report, page = (tmp_path / name for name in ("terms.tsv", "report.tsv", "page.html"))
    terms.write_text("frío\tglacial\ngato\tcat\n", encoding="utf-8")
    options = ("--run", tiny_run, "--terms", terms, "--term-report", report)
    translate.run(translate.make_parser().parse_args(list(map(str, [*options, "Hoy hace frío."]))))
    out, err = capsys.readouterr()
    assert "glacial" in out.lower()
    found, unused = report.read_text(encoding="utf-8").splitlines()[1:]
    used = int(re.search(r"\bglacial\b", out.lower()) is not None)  # hardly trained, it may go on
    assert err.startswith(f"terms: {used} of 1 used")
    assert (found, unused) == (f"frío\tglacial\t1\t{used}\t", "gato\tcat\t0\t0\t")
    page.write_text("<p>Hoy hace <b>frío</b>.</p>", encoding="utf-8")
    assert "glacial" in translated(capsys, *options, "--file", page).lower()


def test_attention_shows_terms_that_stay(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms, page = tmp_path / "terms.tsv", tmp_path / "page.html"
    terms.write_text("kubernetes\n", encoding="utf-8")
    options = ("--run", tiny_run, "--terms", terms, "--attention", page)
    translated(capsys, *options, "Hoy usamos kubernetes.")
    content = page.read_text(encoding="utf-8")
    assert "kubernetes" in content
    assert not any(slot in content or json.dumps(slot)[1:-1] in content for slot in SLOTS)
    with pytest.raises(UserError, match="sentence 1 cannot be drawn: it is copied"):
        translated(capsys, *options, "kubernetes")


def test_a_document_comes_back_in_its_format(
    tiny_run: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path, out = tmp_path / "page.html", tmp_path / "out.html"
    path.write_text('<html lang="es"><p>Hoy <b id=a>hace</b> frío.<br>Sí.</p><pre>No.</pre></html>')
    words = ["--run", tiny_run, "--file", path]
    translate.run(translate.make_parser().parse_args([*map(str, words), "--output", str(out)]))
    page = out.read_text(encoding="utf-8")
    assert page.startswith('<html lang="en"><p>')
    assert page.endswith("</p><pre>No.</pre></html>")
    assert [page.count(tag) for tag in ("<b id=a>", "</b>", "<br>")] == [1, 1, 1]
    assert "hace" not in page
    translate.run(translate.make_parser().parse_args(list(map(str, words))))
    assert capfdbinary.readouterr().out.decode() == page
    # The same lines, if it is no document.
    as_lines = translate.make_parser().parse_args([*map(str, words), "--format", "lines"])
    translate.run(as_lines)
    assert len(capfdbinary.readouterr().out.splitlines()) == 1


def test_confidence_is_written_beside_the_translations(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a fit it is null, and one warning says how to get it."""
    path, out = tmp_path / "in.txt", tmp_path / "quality.jsonl"
    lines = ["Hoy hace frío.", "", "12", "Sí."]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="confidence is unknown"):
        plain = translated(capsys, "--run", tiny_run, "--file", path, "--quality", out)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["source"] for row in rows] == lines
    assert "".join(f"{row['translation']}\n" for row in rows) == plain
    assert rows[0] == {
        "source": lines[0],
        "translation": rows[0]["translation"],
        "confidence": None,
        "words": [],
        "lost_spans": [],
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sample"], "leave --resume, --sample and --mbr"),
        (["--mbr", "4"], "leave --resume, --sample and --mbr"),
        (["--run", "a", "--run", "b"], "--quality needs a single run"),
        (["--output", "quality.jsonl"], "need different files"),
    ],
)
def test_what_confidence_does_not_go_with(options: list[str], message: str) -> None:
    arguments = ["Sí.", "--quality", "quality.jsonl", *options]
    with pytest.raises(UserError, match=message):
        translate.check(translate.make_parser().parse_args(arguments))
