"""`nmt.evaluate` as a user runs it: printed scores, JSON files, one-line errors."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from processes import command, one_line_error, printed

from nmt import Translator, evaluate, translate
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.runs import corpus
from nmt.runs.folder import RunFolder

pytest_plugins = ("translators",)
pytestmark = [pytest.mark.xdist_group("tiny run"), pytest.mark.usefixtures("cached_translators")]


def test_evaluate_a_run_on_its_test_split_and_on_files(tiny_run: Path, tmp_path: Path) -> None:
    printout = printed(evaluate, "--run", tiny_run, "--beam", "1")
    written = tiny_run / "evaluation_split_test_greedy.json"
    assert f"written to {written}" in printout
    content = json.loads(written.read_text(encoding="utf-8"))
    assert content["scored"] == "test split"
    assert content["sentences"] == 16
    assert content["scores"].keys() == {"BLEU", "chrF2++", "TER"}
    assert f"{content['scores']['BLEU']['value']:.2f}" in printout
    assert "words," in printout
    outputs = [sentence["output"] for sentence in content["outputs"]]

    source, reference = tmp_path / "source.txt", tmp_path / "reference.txt"
    source.write_text("\n".join(s["source"] for s in content["outputs"]) + "\n", encoding="utf-8")
    reference.write_text("\n".join(outputs) + "\n", encoding="utf-8")
    out = tmp_path / "scores.json"
    files = ["--source", source, "--reference", reference, "--output", out]
    printed(evaluate, "--run", tiny_run, "--beam", "1", *files, "--compare", tiny_run)
    scores = json.loads(out.read_text(encoding="utf-8"))
    assert scores["scores"]["chrF2++"]["value"] == pytest.approx(100)
    assert scores["compared"]["BLEU"]["difference"] == 0

    for path in (source, reference):
        path.write_bytes(path.read_text(encoding="utf-8").encode("utf-16"))
    with pytest.raises(UserError, match=f"^--source={source} is UTF-16.*give --encoding utf-16"):
        printed(evaluate, "--run", tiny_run, *files)
    printed(evaluate, "--run", tiny_run, "--beam", "1", *files, "--encoding", "utf-16")
    assert json.loads(out.read_text(encoding="utf-8"))["scores"] == scores["scores"]
    with pytest.raises(UserError, match=r"^--encoding needs --source"):
        printed(evaluate, "--run", tiny_run, "--encoding", "utf-16")

    source.write_text("\n" * 16, encoding="utf-8")
    reference.write_text("only one line\n", encoding="utf-8")
    done = command("nmt.evaluate", "--run", tiny_run, *files)
    assert "16 lines" in one_line_error(done)


def test_scores_of_anything_else_leave_those_of_training_alone(
    tiny_run: Path, tmp_path: Path
) -> None:
    training_scores = (tiny_run / "evaluation_test.json").read_bytes()
    assert json.loads(training_scores)["sentences"] == 16
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
        (
            (*files, "--beam", "1", "--unit", "sentence"),
            "evaluation_file_test_greedy_by_sentence.json",
        ),
        (("--split", "dev", "--beam", "1"), "evaluation_split_dev_greedy.json"),
        (
            ("--beam", "4", "--length-penalty", "0.25"),
            "evaluation_split_test_beam_4_penalty_0.25.json",
        ),
        (("--score",), "scores_split_test.json"),
    ):
        path = tiny_run / name
        path.unlink(missing_ok=True)
        assert f"written to {path}" in printed(evaluate, "--run", tiny_run, *arguments)
        assert path.is_file()
        assert (tiny_run / "evaluation_test.json").read_bytes() == training_scores


def test_results_of_other_data_are_not_overwritten(tiny_run: Path, tmp_path: Path) -> None:
    expected = []
    for year in ("2019", "2020", "2019"):
        folder = tmp_path / year
        folder.mkdir(exist_ok=True)
        (folder / "test.es").write_text("Sí.\n", encoding="utf-8")
        (folder / "test.en").write_text("Yes.\n", encoding="utf-8")
        files = ("--source", folder / "test.es", "--reference", folder / "test.en")
        [line] = [
            line
            for line in printed(evaluate, "--run", tiny_run, *files, "--score").splitlines()
            if line.startswith("written to ")
        ]
        expected.append(line.rpartition("/")[2])
    assert len({*expected[:2]}) == 2
    assert expected[2] == expected[0]


def test_sources_with_the_tag_of_the_other_direction_are_scored_by_its_language(
    tiny_run: Path, tmp_path: Path
) -> None:
    """A set of both directions is scored as the first one, and each of them by its own rules."""
    run = RunFolder.open(Path(shutil.copytree(tiny_run, tmp_path / "run")))
    [(name, pairs)] = run.config.data.sources.items()
    back = replace(pairs, tag="<2zh>", reverse=True, split="train")
    data = replace(run.config.data, sources={name: replace(pairs, tag="<2en>"), "back": back})
    run.write_config(replace(run.config, data=replace(data, source_language="zh")))
    source, reference, out = (tmp_path / name for name in ("source", "reference", "scores.json"))
    files = ("--source", source, "--reference", reference, "--output", out, "--beam", "1")
    for sources, tokenizer in (("<2zh> Yes.\n", "zh"), ("<2en> Sí.\n<2zh> Yes.\n", "13a")):
        source.write_text(sources, encoding="utf-8")
        reference.write_text("Sí.\n" * sources.count("\n"), encoding="utf-8")
        printout = printed(evaluate, "--run", run.path, *files)
        content = json.loads(out.read_text(encoding="utf-8"))
        assert f"|tok:{tokenizer}|" in content["scores"]["BLEU"]["signature"]
        assert ("by_language" in content) == ("into zh, 1 sentences: BLEU" in printout)
    assert [part["language"] for part in content["by_language"]] == ["en", "zh"]


def test_the_unit_is_printed_and_stored(tiny_run: Path, tmp_path: Path) -> None:
    """What is scored as one segment and how `nmt.translate` differs."""
    source, reference, out = (tmp_path / name for name in ("source", "reference", "scores.json"))
    source.write_text("Hoy hace frío. Mañana va a llover.\n", encoding="utf-8")
    reference.write_text("It's cold. It will rain.\n", encoding="utf-8")
    files = ("--source", source, "--reference", reference, "--output", out, "--beam", "1")
    outputs = []
    for options, unit, line in (
        ((), "line", "unit: line (nmt.translate translates by sentence; --unit sentence scores"),
        (("--unit", "line"), "line", "unit: line (nmt.translate"),
        (("--unit", "sentence"), "sentence", "unit: sentence\n"),
    ):
        printout = printed(evaluate, "--run", tiny_run, *files, *options, "--compare", tiny_run)
        assert line in printout.replace("\n--", " --")
        content = json.loads(out.read_text(encoding="utf-8"))
        assert content["unit"] == unit
        assert content["compared"]["BLEU"]["difference"] == 0
        outputs.append(content["outputs"][0]["output"])
    translator = Translator.load(tiny_run)
    assert outputs[0] == outputs[1] != outputs[2]
    assert (
        outputs[2] == translator.translate(["Hoy hace frío. Mañana va a llover."], beam_size=1)[0]
    )
    with pytest.raises(UserError, match=r"--length-penalty and --unit out"):
        printed(evaluate, "--run", tiny_run, "--score", "--unit", "line")


def test_several_references(tiny_run: Path, tmp_path: Path) -> None:
    source, first, second, out = (tmp_path / name for name in ("es", "en", "en2", "scores.json"))
    [output] = Translator.load(tiny_run, unit="line").translate(["Hoy hace frío."], beam_size=1)
    source.write_text("Hoy hace frío.\n" * 2 + "Sí.\n", encoding="utf-8")
    first.write_text(f"Another text.\n{output}\nYes.\n", encoding="utf-8")
    second.write_text(f"{output}\n\nYeah.\n", encoding="utf-8")
    options = ("--run", tiny_run, "--beam", "1", "--output", out, "--source", source)

    def score(*arguments: object) -> dict[str, Any]:
        printed(evaluate, *options, *arguments)
        content: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return content

    content = score("--reference", first, second, "--compare", tiny_run)
    assert content["sentences"] == 3
    assert content["outputs"][0]["more_references"] == [output]
    assert "more_references" not in content["outputs"][1]
    assert content["scores"]["BLEU"]["signature"].startswith("nrefs:var|")
    assert content["compared"]["BLEU"]["difference"] == 0
    assert (
        content["scores"]["chrF2++"]["value"]
        > score("--reference", first)["scores"]["chrF2++"]["value"]
    )

    content = score("--reference", first, "--all-references")
    assert content["sentences"] == 2
    assert content["outputs"][0]["reference"] == "Another text."
    assert content["outputs"][0]["more_references"] == [output]

    for arguments, message in (
        (("--reference", first, second, "--all-references"), "--all-references needs a single"),
        (("--reference", first, second, "--score"), "take one reference per source"),
        (("--reference", first, "--all-references", "--join", "2"), "take one reference"),
    ):
        with pytest.raises(UserError, match=message):
            printed(evaluate, *options, *arguments)
    for arguments, name in (
        (("--source", source, "--reference", first, second), "file_es_2_references_greedy"),
        (("--split", "dev", "--all-references"), "split_dev_greedy_all_references"),
    ):
        written = tiny_run / f"evaluation_{name}.json"
        printout = printed(evaluate, "--run", tiny_run, "--beam", "1", *arguments)
        assert f"written to {written}" in printout


def test_groups_are_those_of_a_file_or_of_the_split(tiny_run: Path, tmp_path: Path) -> None:
    source, reference, groups = (tmp_path / name for name in ("source", "reference", "groups"))
    source.write_text("Hoy hace frío.\n" * 20 + "Sí.\nNo.\n", encoding="utf-8")
    reference.write_text("It's cold.\n" * 20 + "Yes.\nNo.\n", encoding="utf-8")
    groups.write_text("weather\n" * 20 + "a\nb\n", encoding="utf-8")
    files = ("--source", source, "--reference", reference, "--beam", "1")
    printout = printed(evaluate, "--run", tiny_run, *files, "--by-group", groups)
    assert "group weather, 20 sentences: BLEU" in printout
    assert "groups of few sentences, 2 sentences: BLEU" in printout
    written = tiny_run / "evaluation_file_source_greedy_by_group.json"
    content = json.loads(written.read_text(encoding="utf-8"))
    assert [part["group"] for part in content["by_group"]] == ["weather", None]
    groups.write_text("weather\n", encoding="utf-8")
    for arguments, message in (
        ((*files, "--by-group", groups), "22 lines and .* has 1: line n"),
        ((*files, "--by-group"), "needs FILE with --source"),
        (("--by-group", groups), "needs FILE with --source"),
        (("--by-group", "--score"), "leave --join and --score out"),
        (("--by-group",), "no pair of test has a group"),
    ):
        with pytest.raises(UserError, match=message):
            printed(evaluate, "--run", tiny_run, *arguments)

    run = shutil.copytree(tiny_run, tmp_path / "run")
    config = run / "config.yaml"
    text = config.read_text(encoding="utf-8").partition("\n")[2]
    assert text.count("group_column: null") == 1
    config.write_text(text.replace("group_column: null", "group_column: 0"), encoding="utf-8")
    printout = printed(evaluate, "--run", run, "--beam", "1", "--by-group")
    assert "groups of few sentences, 16 sentences: BLEU" in printout


def test_contexts_are_read_and_not_scored(
    tiny_run: Path, context_run: Path, tmp_path: Path
) -> None:
    """On the split and on files; a run without contexts reads the same sentences alone."""
    out = tmp_path / "scores.json"
    results = []
    for arguments in (
        ("--run", context_run, "--compare", tiny_run),
        ("--run", tiny_run),
        ("--run", context_run, "--score"),
        ("--run", tiny_run, "--score"),
    ):
        search = () if "--score" in arguments else ("--beam", "1")
        printed(evaluate, *arguments, *search, "--output", out)
        results.append(json.loads(out.read_text(encoding="utf-8")))
    context, plain, scored, plain_scored = results
    assert [each["source"] for each in context["outputs"]] == [
        each["source"] for each in plain["outputs"]
    ]
    assert context["by_length"][0].keys() == plain["by_length"][0].keys()
    bleu = (each["scores"]["BLEU"]["value"] for each in (context, plain))
    assert context["compared"]["BLEU"]["difference"] == pytest.approx(next(bleu) - next(bleu))
    log_probs = [[pair["log_prob"] for pair in each["pairs"]] for each in (scored, plain_scored)]
    assert log_probs[0] != log_probs[1]


def test_evaluate_scores_given_translations(tiny_run: Path, tmp_path: Path) -> None:
    source, reference = tmp_path / "source.txt", tmp_path / "reference.txt"
    source.write_text("Hoy hace frío.\nSí.\n", encoding="utf-8")
    reference.write_text("It's cold today.\nYes.\n", encoding="utf-8")
    out = tmp_path / "scores.json"
    files = ("--source", source, "--reference", reference, "--output", out)
    printout = printed(evaluate, "--run", tiny_run, "--score", *files)
    content = json.loads(out.read_text(encoding="utf-8"))
    nats = -sum(pair["log_prob"] for pair in content["pairs"])
    pieces = sum(len(pair["pieces"]) for pair in content["pairs"])
    assert content["perplexity"]["per_piece"] == pytest.approx(math.exp(nats / pieces))
    assert content["perplexity"]["per_word"] == pytest.approx(math.exp(nats / 6))  # 4 words, 2 ends
    for pair in content["pairs"]:
        assert pair["log_prob"] == pytest.approx(sum(pair["log_probs"]))
    rows = [line.split("\t") for line in printout.splitlines() if "\t" in line]
    assert [row[2:] for row in rows] == [["Hoy hace frío.", "It's cold today."], ["Sí.", "Yes."]]
    assert rows[1][0] == f"{content['pairs'][1]['log_prob']:.4f}"


def test_pairs_too_long_to_score_are_named_and_do_not_cost_the_others(
    tiny_run: Path, tmp_path: Path
) -> None:
    """By their number in the files, however many are scored at a time."""
    source, reference, out = (tmp_path / name for name in ("source", "reference", "scores.json"))
    files = ("--source", source, "--reference", reference, "--output", out)
    source.write_text("Sí.\n" * 601, encoding="utf-8")
    lines = ["Yes."] * 601
    lines[599] = "word " * 3000
    reference.write_text("\n".join(lines) + "\n", encoding="utf-8")
    printout = printed(evaluate, "--run", tiny_run, "--score", *files).splitlines()
    rows = [line for line in printout if "\t" in line]
    assert rows[599].split("\t")[:2] == ["-", "-"]
    assert rows[598] == rows[600]
    assert "1 pairs are longer than the model has positions for, and not scored: 600" in printout
    assert any(line.startswith("600 pairs, ") for line in printout)
    content = json.loads(out.read_text(encoding="utf-8"))
    assert content["too_long"] == [600]
    assert len(content["pairs"]) == 601
    assert content["pairs"][599]["log_prob"] is None
    assert sum(pair["log_prob"] is not None for pair in content["pairs"]) == 600
    source.write_text("word " * 3000 + "\n", encoding="utf-8")
    reference.write_text("Yes.\n", encoding="utf-8")
    with pytest.raises(UserError, match="every pair has a side of more than"):
        printed(evaluate, "--run", tiny_run, "--score", *files)


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--split dev --source a --reference b", "leave it or --source out"),
        ("--output none/scores.json", "folder none does not exist"),
        ("--run RUN --split tset", "^there is no split 'tset'; did you mean 'test'"),
    ],
)
def test_mistakes_are_found_before_any_work(
    arguments: str, message: str, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "read_corpus", None)
    with pytest.raises(UserError, match=message):
        printed(evaluate, *arguments.replace("RUN", str(tiny_run)).split())


def test_a_missing_corpus_is_named_as_that_of_the_run(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_corpus(*_: Any) -> None:
        raise UserError("data.train=moved.tsv does not exist: check the path")

    monkeypatch.setattr(corpus, "read_corpus", read_corpus)
    message = r"the corpus of .* cannot be read \(data\.train=moved\.tsv .*\); restore it, or score"
    with pytest.raises(UserError, match=message):
        printed(evaluate, "--run", str(tiny_run))


def test_runs_of_different_tags_are_not_compared(tiny_run: Path) -> None:
    arguments = evaluate.make_parser().parse_args(["--compare", str(tiny_run)])
    tagged: Any = SimpleNamespace(segmenter=SimpleNamespace(unit="line", tags=["<2en>"], context=0))
    pairs = [Pair("Hola.", "Hello."), Pair("<2en> Hola.", "Hello.")]
    folder = RunFolder.open(tiny_run)
    assert evaluate._load_other(arguments, folder, folder, tagged, pairs[:1])[1] == pairs[:1]
    with pytest.raises(UserError, match="does not know <2en>, with which sources begin"):
        evaluate._load_other(arguments, folder, folder, tagged, pairs)


def test_a_run_that_may_have_seen_the_test_split_is_named(
    tiny_run: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    run = RunFolder(tmp_path)
    config = RunFolder.open(tiny_run).config
    run.write_config(replace(config, data=replace(config.data, split_seed=7)))
    arguments = evaluate.make_parser().parse_args(["--compare", str(tiny_run)])
    plain: Any = SimpleNamespace(segmenter=SimpleNamespace(unit="line", tags=[], context=0))
    pairs = [Pair("Hola.", "Hello.")]
    other = RunFolder.open(tiny_run)
    evaluate._load_other(arguments, other, other, plain, pairs)
    assert not recwarn
    with pytest.warns(UserWarning, match="has other data: if it was trained on sentences of"):
        evaluate._load_other(arguments, run, other, plain, pairs)
