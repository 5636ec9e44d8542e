"""`nmt.inspect report` and `align` as a user runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from processes import inspected

from nmt import Translator
from nmt.analysis.heads import ablation, report
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.inference.contract import SearchRequest
from nmt.inspect.__main__ import make_parser
from nmt.runs.corpus import read_corpus
from nmt.runs.folder import RunFolder

pytest_plugins = ("translators",)
pytestmark = [pytest.mark.xdist_group("tiny run"), pytest.mark.usefixtures("cached_translators")]

SOURCES = ["¿Dónde está la estación?", "", "Me gusta el café, Ana.", "Sí."]
TARGETS = ["Where is the station?", "", "I like coffee, Ana.", "Yes."]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("texts")
    for name, lines in (("source", SOURCES), ("target", TARGETS)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "source", folder / "target"


def test_a_report_with_heads_taken_away(tiny_run: Path, tmp_path: Path) -> None:
    shown = inspected("report", "--run", tiny_run, "--sentences", "2", "--output", tmp_path / "x")
    content = json.loads((tmp_path / "x" / "report.json").read_text(encoding="utf-8"))
    assert content["run"] == tiny_run.name
    assert content["sentences"] == content["importance"]["sentences"] == 2
    assert content["pruning"]["sentences"] == 2
    assert len(content["importance"]["without"]) == 6  # 2 heads in each of 3 layers
    losses = [result["loss"] for result in content["importance"]["without"]]
    order = content["pruning"]["order"]
    least = content["importance"]["without"][losses.index(min(losses))]
    assert order[0] == {name: least[name] for name in ("kind", "layer", "number")}
    assert [result["heads"] for result in content["pruning"]["without"]] == [1, 2, 4]
    document = (tmp_path / "x" / "report.md").read_text(encoding="utf-8")
    for title in ("Entropy by layer", "Cross-attention", "Without the least important heads"):
        assert title in shown
        assert f"## {title}" in document
    with Image.open(tmp_path / "x" / "heads.png") as picture:
        assert picture.width > 500


def test_a_report_without_them_goes_into_the_run(tiny_run: Path) -> None:
    shown = inspected("report", "--run", tiny_run, "--no-heads", "--sentences", "3")
    content = json.loads((tiny_run / "inspection" / "report.json").read_text(encoding="utf-8"))
    assert content.keys() == {"run", "sentences", "statistics"}
    assert f"written to {tiny_run / 'inspection'}" in shown


def test_an_interrupted_report_has_what_was_measured(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def interrupted(*arguments: object) -> ablation.HeadScores:
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return ablation.HeadScores(float(len(calls)), 0.0, "")

    for module in (ablation, report):
        monkeypatch.setattr(module, "measure_quality", interrupted)
    shown = inspected("report", "--run", tiny_run, "--sentences", "2", "--output", tmp_path)
    assert "interrupted" in shown
    content = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [result["loss"] for result in content["importance"]["without"]] == [2, 3]
    assert "pruning" not in content


def test_one_line_of_links_per_pair(
    tiny_run: Path, texts: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("align", "--run", tiny_run, "--source", texts[0], "--reference", texts[1])
    inspected(*options)
    captured = capsys.readouterr()
    lines = captured.out.split("\n")
    assert len(lines) == len(SOURCES) + 1
    assert lines[1] == ""
    assert captured.err == ""
    inspected(*options, "--mean")
    assert capsys.readouterr().err == "links by mean of layers, mean of heads, plain\n"
    words = [(6, 5), (0, 0), (7, 6), (2, 2)]
    for line, (source, target) in zip(lines, words, strict=False):
        links = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert all(s < source and t < target for s, t in links)
    inspected(*options, "--words", "--output", tmp_path / "out")
    rows = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert rows[0] == f"¿ Dónde está la estación ? ||| Where is the station ? ||| {lines[0]}"
    assert rows[1] == " |||  ||| "


def test_the_run_aligns_what_it_translates(
    tiny_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--layer", "1", "--head", "2", "--shifted", "--words")
    inspected("align", "--run", tiny_run, "Sí.", *options)
    captured = capsys.readouterr()
    assert captured.out.startswith("Sí . ||| ")
    assert captured.err == "links by layer 1, head 2, shifted\n"
    inspected("align", "--run", tiny_run, "Sí.", "--best-head")
    assert re.fullmatch(r"links by layer 1, head [12], plain\n", capsys.readouterr().err)


def test_error_rates_of_every_method(tiny_run: Path, tmp_path: Path) -> None:
    gold, out = tmp_path / "gold.tsv", tmp_path / "rates.json"
    gold.write_text(
        "¿ Dónde está la estación ?\tWhere is the station ?\t0?4 1-0 2-1 3-2 4-3 5-4\n"
        "Sí .\tYes .\t0-0 1-1\n",
        encoding="utf-8",
    )
    shown = inspected("align", "--run", tiny_run, "--gold", gold, "--output", out)
    assert "plain diagonal" in shown
    content = json.loads(out.read_text(encoding="utf-8"))
    # One layer of two heads and their mean, and the mean of layers; plain and shifted.
    assert len(content["methods"]) == 2 * (3 + 1)
    assert 0 <= content["compared"]["plain diagonal"]["error_rate"] <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["align"], "give sentences, or --source"),
        (["align", "Sí.", "--gold", "x"], "give sentences, or --source"),
        (["align", "--source", "x"], "need each other"),
        (["align", "Sí.", "--head", "1"], "--head 1 needs --layer"),
        (["align", "Sí.", "--layer", "1", "--head", "1", "--best-head"], "not both"),
        (["align", "--gold", "x", "--shifted"], "--gold compares all methods"),
        (["align", "Sí.", "--run", "no/run"], "run no/run does not exist"),
    ],
)
def test_a_wrong_command_line_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        inspected(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "--sentences", "0"], "--sentences: must be an integer of at least 1, got 0"),
        (
            ["trace", "Sí.", "--length-penalty", "-1"],
            "must be at least 0, got -1",
        ),
        (
            ["trace", "Sí.", "--length-penalty", "nan"],
            "must be at least 0, got nan",
        ),
        (["trace", "Sí.", "--beam", "0"], "--beam: must be an integer of at least 1, got 0"),
        (["align", "--layer", "x"], "--layer: invalid int value: 'x'"),
        (["nothing"], "invalid choice: 'nothing'"),
        ([], "required: command"),
    ],
)
def test_a_wrong_argument_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(arguments)
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line


@pytest.mark.parametrize("link", ["name", "symbolic", "hard"])
def test_an_alignment_is_not_written_over_what_is_aligned(
    texts: tuple[Path, Path], tmp_path: Path, link: str
) -> None:
    source, reference, gold = (tmp_path / name for name in ("source", "reference", "gold"))
    shutil.copy(texts[0], source)
    shutil.copy(texts[1], reference)
    gold.write_text("Sí .\tYes .\t0-0 1-1\n" * 2, encoding="utf-8")
    for path in (source, reference, gold):
        before = path.read_bytes()
        output = path if link == "name" else tmp_path / f"{link}_{path.name}"
        if link == "symbolic":
            output.symlink_to(path)
        elif link == "hard":
            os.link(path, output)
        inputs = (
            ["--gold", gold] if path == gold else ["--source", source, "--reference", reference]
        )
        # Before any run is looked for.
        with pytest.raises(UserError, match=f"{output} would be written over {path}"):
            inspected("align", "--run", "no/run", *inputs, "--output", output)
        assert path.read_bytes() == before


def test_what_the_run_has_not_is_refused(tiny_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--layer 2: the run's cross-attention has 1 to 1"):
        inspected("align", "--run", tiny_run, "Sí.", "--layer", "2")
    with pytest.raises(UserError, match="cannot be written"):
        inspected("align", "--run", tiny_run, "Sí.", "--output", tmp_path)
    gold = tmp_path / "gold.tsv"
    gold.write_text("Sí .\tYes .\t0-0 1-1\n", encoding="utf-8")
    with pytest.raises(UserError, match="has one pair"):
        inspected("align", "--run", tiny_run, "--gold", gold)
    gold.write_text(f"Sí\tYes\t0-0\n{'a ' * 400}\tYes\t0-0\n", encoding="utf-8")
    with pytest.raises(UserError, match="pair 2 is too long"):
        inspected("align", "--run", tiny_run, "--gold", gold)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be created"):
        inspected("report", "--run", tiny_run, "--output", tmp_path / "file")


def test_a_run_gets_its_confidence_and_a_table(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(tiny_run, tmp_path / "run")
    with pytest.raises(UserError, match="got no confidence"):
        inspected("quality", "--run", run)
    monkeypatch.setattr("nmt.inference.quality_fitting.MIN_PAIRS", 10)
    shown = inspected("quality", "--run", run)
    assert (run / "quality.json").is_file()
    for value in ("confidence", "mean log-probability", "total log-probability"):
        assert sum(line.startswith("test ") and value in line for line in shown.splitlines()) >= 1
    [[best]] = Translator.load(run).run(["Sí."], SearchRequest(quality=True))
    assert best.confidence is not None
    assert best.words
    inspected("compare", run, "--output", tmp_path / "compared")
    document = (tmp_path / "compared" / "comparison.md").read_text(encoding="utf-8")
    assert "## Confidence of " in document
    assert "Words of 16 sentences by their confidence" in document
    corpus = read_corpus(RunFolder.open(run), lambda line: None)
    unmeasurable = replace(corpus, test=[Pair("12345", "12345"), Pair("casa " * 99, "house")])
    monkeypatch.setattr("nmt.runs.corpus.read_corpus", lambda *arguments: unmeasurable)
    shown = inspected("quality", "--run", run)
    assert "the confidence was not measured: every test source" in shown
    assert "Confidence of sentences" not in shown
