"""The command that makes pairs of text."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import corpus_lines
from processes import printed

from nmt import synthesize
from nmt.errors import UserError
from nmt.runs.folder import RunFolder

pytest_plugins = ("translators",)
pytestmark = [pytest.mark.xdist_group("tiny run"), pytest.mark.usefixtures("cached_translators")]


def run_command(*arguments: str | Path) -> str:
    return printed(synthesize, *arguments)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.es"
    lines = [line.split("\t")[0] for line in corpus_lines(160)]
    short_lines = [line for line in lines if len(line) < 30][:6]
    path.write_text("\n".join([*short_lines, "", short_lines[0]]) + "\n", encoding="utf-8")
    return path


def test_text_becomes_pairs(text: Path, parrot_run: Path) -> None:
    output = text.with_name("pairs.tsv")
    printout = run_command(
        "--kind", "forward", "--run", parrot_run, "--file", text, "--output", output
    )
    rows = [line.split("\t") for line in output.read_text(encoding="utf-8").splitlines()]
    sources = text.read_text(encoding="utf-8").splitlines()
    expected = dict(line.split("\t")[:2] for line in corpus_lines(160))
    assert [row[0] for row in rows] == [source for source in sources if source]
    assert sum(expected[source] == target for source, target in rows) >= 6  # known by heart
    assert printout.splitlines()[0].startswith("7 of 8 lines became pairs")
    assert printout.splitlines()[1].strip() == "1 rejected: empty"
    record = json.loads(text.with_name("pairs.tsv.json").read_text(encoding="utf-8"))
    assert record["finished"]
    assert record["origin"]["kind"] == "forward"
    assert len(record["origin"]["weights"][0]) == 64
    with pytest.raises(UserError, match="already exists: add --resume"):
        run_command("--kind", "forward", "--run", parrot_run, "--file", text, "--output", output)
    before = output.read_bytes()
    run_command(
        *("--kind", "forward", "--run", parrot_run, "--file", text, "--output", output),
        "--resume",
    )
    assert output.read_bytes() == before


def test_the_encoding_of_a_text_is_named_and_recorded(text: Path, parrot_run: Path) -> None:
    outputs = [text.with_name(f"{name}.tsv") for name in "ab"]
    options = ("--kind", "forward", "--run", parrot_run, "--file", text)
    run_command(*options, "--output", outputs[0])
    text.write_bytes(text.read_text(encoding="utf-8").encode("latin-1"))
    with pytest.raises(UserError, match=r"seems to be CP1252, not UTF-8 .*--encoding cp1252"):
        run_command(*options, "--output", outputs[1])
    assert not outputs[1].exists()
    run_command(*options, "--output", outputs[1], "--encoding", "latin-1")
    assert outputs[1].read_bytes() == outputs[0].read_bytes()
    with pytest.raises(UserError, match="was started with encoding 'iso8859-1', got 'cp1252"):
        run_command(*options, "--output", outputs[1], "--encoding", "cp1252", "--resume")


@pytest.mark.parametrize(
    ("option", "before", "after"),
    [
        ("round_trip", "--round-trip RUN", "--round-trip OTHER"),
        ("quantization", "--quantization int8", ""),
        ("whole", "", "--whole"),
    ],
)
def test_a_corpus_resumes_only_with_the_options_that_it_was_started_with(
    text: Path, parrot_run: Path, option: str, before: str, after: str
) -> None:
    runs = {"RUN": str(parrot_run), "OTHER": str(text.with_name("other"))}
    shutil.copytree(parrot_run, runs["OTHER"])
    with RunFolder.open(Path(runs["OTHER"])).checkpoints.best.open("ab") as weights:
        weights.write(b"other")  # its end is not read
    command = ["--kind", "forward", "--run", parrot_run, "--file", text]
    command += ["--output", text.with_name("pairs.tsv")]
    first, second = ([runs.get(word, word) for word in each.split()] for each in (before, after))
    run_command(*command, *first)
    run_command(*command, *first, "--resume")
    with pytest.raises(UserError, match=f"was started with {option} "):
        run_command(*command, *second, "--resume")


def test_a_corpus_resumes_after_its_files_were_moved(
    text: Path, parrot_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(text.parent)
    command = ["--kind", "forward", "--output", text.with_name("pairs.tsv")]
    run_command(*command, "--file", text, "--run", parrot_run, "--round-trip", parrot_run)
    shutil.copytree(parrot_run, "copy")
    moved = ["--file", text.name, "--run", "copy", "--round-trip", "copy"]
    run_command(*command, *moved, "--resume")


def test_draws_are_the_same_twice(text: Path, parrot_run: Path) -> None:
    outputs = [text.with_name(f"{name}.tsv") for name in "ab"]
    for output in outputs:
        run_command(
            *("--kind", "back", "--run", parrot_run, "--file", text, "--output", output),
            *("--sample", "--temperature", "1.5", "--max-length-ratio", "9"),
        )
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    targets = [line.split("\t")[1] for line in outputs[0].read_text().splitlines()]
    assert set(targets) <= set(text.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--file nowhere --output out", "nowhere does not exist"),
        ("--file /dev/null --output out", "/dev/null is a pipe, but is read more than once"),
        ("--file TEXT --output TEXT", "would be written over"),
        ("--file TEXT --output out --sample --beam 2", "leave --beam and --length-penalty out"),
        ("--file TEXT --output out --top-k 2", "need --sample"),
        (
            "--file TEXT --output out --sample --engine ctranslate2",
            "--sample needs --engine keras or auto",
        ),
        ("--file TEXT --output out --sample --quantization int8", "leave it or --sample out"),
        ("--file TEXT --output out --run nowhere", "run nowhere does not exist"),
    ],
)
def test_what_is_wrong_is_said(text: Path, arguments: str, message: str) -> None:
    words = [str(text) if word == "TEXT" else word for word in arguments.split()]
    with pytest.raises(UserError, match=message):
        run_command("--kind", "back", *words)
