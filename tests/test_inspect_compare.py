"""`nmt.inspect compare` and `history` as a user runs them."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE, needs_chromium
from processes import inspected

from nmt import Translator
from nmt.analysis.comparison import analysis
from nmt.analysis.comparison.page import make_page
from nmt.errors import UserError
from nmt.inference.metrics import corpus_scores
from nmt.runs.checkpoint import read_arrays, write_arrays
from nmt.runs.folder import RunFolder
from nmt.text.context import PreviousSentences, add_contexts, split_context

pytest_plugins = ("browsers", "translators")
pytestmark = pytest.mark.xdist_group("tiny run")

SENTENCE = ("--sentence", "¿Dónde está la estación?")


def compared(*arguments: str | Path, output: Path) -> tuple[str, dict[str, Any]]:
    """Return what `compare` prints, and its JSON."""
    shown = inspected("compare", *arguments, *SENTENCE, "--output", output)
    return shown, json.loads((output / "comparison.json").read_text(encoding="utf-8"))


@pytest.fixture
def parallel(tiny_run: Path, tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return files of sources, references, and translations with the first words left out."""
    stored = json.loads((tiny_run / "evaluation_test.json").read_text(encoding="utf-8"))
    paths = tuple(tmp_path / name for name in ("source.es", "reference.en", "other.en"))
    columns = [[row[key] for row in stored["outputs"]] for key in ("source", "reference")]
    columns.append([" ".join(text.split()[1:]) for text in columns[1]])
    for path, column in zip(paths, columns, strict=True):
        path.write_text("".join(f"{text}\n" for text in column), encoding="utf-8")
    return paths[0], paths[1], paths[2]


def test_a_run_and_a_file_of_translations(
    tiny_run: Path, tmp_path: Path, parallel: tuple[Path, Path, Path]
) -> None:
    _, reference, other = parallel
    output = tmp_path / "new" / "out"
    shown, content = compared(tiny_run, other, output=output)
    assert sorted(path.name for path in output.iterdir()) == [
        f"comparison.{suffix}" for suffix in ("html", "json", "md")
    ]
    assert "translations of evaluation_test.json" in shown  # they are not made again
    assert "1. other.en is better than" in shown
    [findings] = content["findings"].values()
    assert findings[0] in shown
    first, second = content["systems"]
    assert [first["outputs"]["stored_in"], second["outputs"]["stored_in"]] == [
        "evaluation_test.json",
        str(other),
    ]
    texts = other.read_text(encoding="utf-8").splitlines()
    references = reference.read_text(encoding="utf-8").splitlines()
    for score in corpus_scores(texts, references, language="en"):
        assert second["scores"][score.name] == pytest.approx(score.value)
    [pair] = content["compared"]
    assert pair["differences"]["chrF2++"]["p_value"] < 0.01
    assert pair["weights"] is None
    assert second["additions"] is not None  # aligned by the run, as the references are
    assert content["references"].keys() == {"omissions", "additions"}
    document = (output / "comparison.md").read_text(encoding="utf-8")
    page = (output / "comparison.html").read_text(encoding="utf-8")
    for title in ("Findings", "Scores", "Kinds of sentences", "Omissions and additions", "Speed"):
        assert title in document
        assert title in page
    assert "where other.en is better" in page.lower()


def test_all_with_files_and_no_run(tmp_path: Path, parallel: tuple[Path, Path, Path]) -> None:
    source, reference, other = parallel
    files = ("--source", source, "--reference", reference)
    _, content = compared(reference, other, *files, output=tmp_path / "out")
    assert content["systems"][0]["scores"]["BLEU"] == pytest.approx(100)
    assert content["references"] is None  # nobody can align
    document = (tmp_path / "out" / "comparison.md").read_text(encoding="utf-8")
    assert "none of these systems is one" in document
    with pytest.raises(UserError, match="give --source and --reference"):
        inspected("compare", reference, other)


def test_a_checkpoint_is_a_system_and_one_system_has_its_own_analysis(
    tiny_run: Path, tmp_path: Path
) -> None:
    best = tiny_run / "checkpoints" / "best.npz"
    shown, content = compared(tiny_run, best, "--translate", output=tmp_path / "two")
    assert "there is no significant difference" in shown
    assert "The weights of" in shown
    assert "are the same" in shown
    outputs = [[row["output"] for row in each["sentences"]] for each in content["systems"]]
    assert outputs[0] == outputs[1]
    assert all(each["outputs"]["seconds"] > 0 for each in content["systems"])
    assert content["compared"][0]["findings"] == []

    [step] = RunFolder.open(tiny_run).checkpoints.steps()[-1:]
    path = tiny_run / "checkpoints" / f"step_{step:08d}.npz"
    _, content = compared(path, "--beam", "1", "--noise", output=tmp_path / "one")
    assert content["compared"] == []
    assert content["systems"][0]["name"] == f"{tiny_run.name}, {path.stem}"
    assert len(content["systems"][0]["chrF2++ under noise"]) == 4
    [(title, findings)] = content["findings"].items()
    assert title == f"{tiny_run.name}, {path.stem}"
    assert findings[0].startswith(f"{title}: BLEU")


def test_noise_changes_sentences_and_not_their_contexts(
    context_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, reference = tmp_path / "source.es", tmp_path / "reference.en"
    sentences = ["¿Dónde está la estación?", "Está allí, a la derecha.", "¡Muchas gracias, señor!"]
    source.write_text("\n".join(sentences), encoding="utf-8")
    reference.write_text("Where is the station?\nOver there.\nThank you!", encoding="utf-8")
    translated: list[Sequence[str]] = []

    def record(translator: Translator, texts: Sequence[str], *_: object, **__: object) -> list[str]:
        translated.append(texts)
        return list(texts)

    monkeypatch.setattr(analysis, "translate_with_progress", record)
    options = ("--source", source, "--reference", reference, "--beam", "1", "--noise")
    compared(context_run, *options, output=tmp_path / "out")
    contexts = [
        split_context(text)[0] for text in add_contexts(sentences, PreviousSentences(1, "es"))
    ]
    assert len(translated) == 4
    for texts in translated:
        changed = [split_context(text) for text in texts]
        assert [context for context, _ in changed] == contexts
        assert all(text != plain for (_, text), plain in zip(changed, sentences, strict=True))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (str.upper, "WHERE IS THE STATION?"),
        (str.title, "Where is the Station?"),
        (str.lower, "Where is the station?"),
    ],
)
def test_references_have_the_letter_case_of_changed_sources(
    tiny_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[str], str],
    expected: str,
) -> None:
    source, reference = tmp_path / "source.es", tmp_path / "reference.en"
    source.write_text("¿Dónde está la estación?\n" * 3, encoding="utf-8")
    reference.write_text("Where is the station?\n" * 3, encoding="utf-8")
    monkeypatch.setattr(analysis, "SOURCE_CHANGES", {"case": lambda text, _: change(text)})
    monkeypatch.setattr(analysis, "translate_with_progress", lambda *_, **__: [expected] * 3)
    files = ("--source", source, "--reference", reference, "--beam", "1", "--noise")
    _, content = compared(tiny_run, *files, output=tmp_path / "out")
    noise = content["systems"][0]["chrF2++ under noise"]
    assert noise == {"other letter case": pytest.approx(100)}


def test_a_head_that_writes_nothing_is_named(tiny_run: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(tiny_run, damaged, ignore=shutil.ignore_patterns("*.ct2*", "evaluation_*"))
    path = damaged / "checkpoints" / "best.npz"
    arrays, metadata = read_arrays(path)
    layer = RunFolder.open(damaged).load_model().attention_layers("cross")[0]
    [(kernel, rows)] = layer.head_weights(1)
    [name] = [
        name
        for name, array in arrays.items()
        if array.shape == kernel.shape and np.array_equal(array, kernel.numpy())
    ]
    arrays[name][rows] = 0
    write_arrays(path, arrays, metadata)
    shown, content = compared(tiny_run, damaged, output=tmp_path / "out")
    assert content["systems"][1]["silent_heads"] == ["cross-attention, layer 1, head 2"]
    lines = shown.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("1. "))
    assert "head writes next to nothing" in lines[start + 1]
    assert "cross-attention, layer 1, head 2" in lines[start + 1]
    [changed] = content["compared"][0]["weights"]["changed"]
    assert name.endswith(changed)


def test_what_cannot_be_compared_is_said_in_one_line(
    tiny_run: Path, tmp_path: Path, parallel: tuple[Path, Path, Path]
) -> None:
    source, _, other = parallel
    short = tmp_path / "short.en"
    short.write_text("One.\n", encoding="utf-8")
    long = tmp_path / "long.en"
    long.write_text("é" * (1 << 20) + "\n" * 16, encoding="utf-8")
    loose = tmp_path / "loose.npz"
    shutil.copyfile(tiny_run / "checkpoints" / "best.npz", loose)
    empty = tmp_path / "empty"
    shutil.copytree(tiny_run, empty, ignore=shutil.ignore_patterns("checkpoints", "evaluation_*"))
    others = tmp_path / "others"
    shutil.copytree(tiny_run, others)
    folder = RunFolder(others)
    config = folder.config
    folder.write_config(
        dataclasses.replace(config, data=dataclasses.replace(config.data, split_seed=99))
    )
    for arguments, message in (
        ((tiny_run, short), "short.en has 1 lines for 16 sentences"),
        ((tiny_run, long), "long.en: line 1 is longer than 1 MiB: break it up"),
        ((tiny_run, loose), "loose.npz is not a run folder"),
        ((tiny_run, empty), "has no weights yet"),
        ((tiny_run, others), "has other sentences in its test split.*--source and --reference"),
        ((tiny_run, other, "--split", "tset"), "there is no split 'tset'"),
        ((tiny_run, "--source", source), "need each other"),
        ((tiny_run, "--encoding", "latin-1"), "--encoding needs --source"),
        ((tmp_path / "nothing",), "does not exist"),
    ):
        with pytest.raises(UserError, match=message) as error:
            inspected("compare", *arguments, "--output", tmp_path / "out")
        assert "\n" not in str(error.value)


def test_an_evaluation_of_older_weights_is_not_reused(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    (run / "checkpoints" / "best.npz").touch()
    shown, _ = compared(run, output=tmp_path / "out")
    assert "translating 16 sentences" in shown
    stored = json.loads((tiny_run / "evaluation_test.json").read_text(encoding="utf-8"))
    stored["outputs"][0]["output"] = "Stored."
    (run / "evaluation_test.json").write_text(json.dumps(stored), encoding="utf-8")
    _, content = compared(run, output=tmp_path / "out")
    assert content["systems"][0]["sentences"][0]["output"] == "Stored."
    _, content = compared(run, "--beam", "1", output=tmp_path / "out")  # another search
    assert content["systems"][0]["sentences"][0]["output"] != "Stored."


class Outline(HTMLParser):
    """Collects headings, ids, links, and what headers of tables and pictures lack."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.levels: list[int] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.faults: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("h1", "h2", "h3"):
            self.levels.append(int(tag[1]))
        if values.get("id"):
            self.ids.add(str(values["id"]))
        if tag == "a":
            self.links.append(str(values["href"]))
        if (tag == "th" and "scope" not in values) or (tag == "img" and not values.get("alt")):
            self.faults.append(str(self.get_starttag_text()))


@needs_chromium
def test_a_page_works_by_keyboard_and_asks_nobody(
    tiny_run: Path, tmp_path: Path, parallel: tuple[Path, Path, Path], browser: Any
) -> None:
    output = tmp_path / "out"
    compared(tiny_run, parallel[2], output=output)
    outline = Outline((output / "comparison.html").read_text(encoding="utf-8"))
    assert outline.faults == []
    assert outline.levels[0] == 1
    assert outline.levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(outline.levels))
    assert {link.removeprefix("#") for link in outline.links} <= outline.ids
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme, viewport={"width": 390, "height": 800})
        requests: list[Any] = []
        errors: list[Any] = []
        page.on("request", lambda each, to=requests: to.append(each))
        page.on("pageerror", lambda each, to=errors: to.append(each))
        page.goto((output / "comparison.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390  # tables scroll alone
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_function(f"location.hash === '{outline.links[0]}'", timeout=PATIENCE)
        page.locator(".scroll").first.focus()
        assert page.evaluate("document.activeElement.className") == "scroll"
        local = ("file:", "data:", "about:")
        assert [each.url for each in requests if not each.url.startswith(local)] == []
        assert errors == []
        page.close()


@needs_chromium
def test_a_page_breaks_a_word_that_is_longer_than_a_line(browser: Any, tmp_path: Path) -> None:
    word = "ara" * 60  # as models write that have hardly been trained
    page_file = tmp_path / "page.html"
    page_file.write_text(
        make_page("Title", word, {"Findings": [word]}, [("Section", f"<p>{word}</p>")]),
        encoding="utf-8",
    )
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


# --- History ------------------------------------------------------------------------------------


def test_the_history_of_a_run(tiny_run: Path, tmp_path: Path) -> None:
    shown = inspected("history", tiny_run, "--right", "1", "--output", tmp_path)
    content = json.loads((tmp_path / "history.json").read_text(encoding="utf-8"))
    assert content["origin"] == "dev_outputs.jsonl"
    assert [each["step"] for each in content["evaluations"]] == [5, 10, 12]
    assert len(content["sentences"]) == 16
    for number, evaluation in enumerate(content["evaluations"]):
        right = [each["chrF2++"][number] >= 1 for each in content["sentences"]]
        assert evaluation["right"] == sum(right)
    assert all(line in shown for line in content["findings"])
    assert "History of" in (tmp_path / "history.html").read_text(encoding="utf-8")


def test_a_history_of_checkpoints_has_the_outputs_of_training(
    tiny_run: Path, tmp_path: Path
) -> None:
    inspected("history", tiny_run, "--checkpoints", "--output", tmp_path / "checkpoints")
    inspected("history", tiny_run, "--output", tmp_path / "records")
    by_origin = {
        name: json.loads((tmp_path / name / "history.json").read_text(encoding="utf-8"))
        for name in ("checkpoints", "records")
    }
    outputs = {
        name: {row["source"]: row["outputs"][-1] for row in content["sentences"]}
        for name, content in by_origin.items()
    }
    assert outputs["checkpoints"] == outputs["records"]
    assert by_origin["checkpoints"]["evaluations"][-1]["step"] == 12


def test_an_older_run_has_the_history_of_its_samples(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run, ignore=shutil.ignore_patterns("dev_outputs.jsonl"))
    inspected("history", run)
    content = json.loads((run / "history" / "history.json").read_text(encoding="utf-8"))
    assert content["origin"] == "samples"
    assert [each["step"] for each in content["evaluations"]] == [5, 10, 12]
    for path in sorted((run / "samples").iterdir())[1:]:
        path.unlink()
    with pytest.raises(UserError, match=r"1 evaluations, and a history needs two.*--checkpoints"):
        inspected("history", run)
    (run / "samples" / "step_00000006.tsv").write_text("a\tb\tc\nd\te\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"step_00000006\.tsv is damaged"):
        inspected("history", run)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(UserError, match="0 complete checkpoints"):
        inspected("history", run, "--checkpoints")


def test_outputs_of_evaluation_are_those_of_the_model(tiny_run: Path) -> None:
    """The last record has the greedy translations of the weights after the last update."""
    records = RunFolder.open(tiny_run).dev_outputs.read()
    assert [record["step"] for record in records] == [5, 10, 12]
    assert ["pairs" in record for record in records] == [True, False, False]
    run = RunFolder.open(tiny_run)
    best = int(read_arrays(run.checkpoints.best)[1].get("step", 12))
    [record] = [record for record in records if record["step"] == best]
    sources = [source for source, _ in records[0]["pairs"]]
    assert (
        Translator.load(tiny_run, unit="line").translate(sources, beam_size=1) == record["outputs"]
    )
