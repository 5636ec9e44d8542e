"""What the subcommands of ``nmt.inspect`` print and write."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import command, inspected, one_line_error

from nmt import Translator
from nmt.errors import UserError
from nmt.inspect.verify import verify
from nmt.runs.checkpoint import read_arrays, write_arrays

pytest_plugins = ("translators",)
pytestmark = [pytest.mark.xdist_group("tiny run"), pytest.mark.usefixtures("cached_translators")]

SENTENCE = "¿Dónde está la estación?"


def test_a_trace_is_printed_and_written(tiny_run: Path, tmp_path: Path) -> None:
    as_json, as_html = tmp_path / "trace.json", tmp_path / "trace.html"
    search = ("trace", "--run", tiny_run, "--beam")
    printed = inspected(*search, "2", SENTENCE, "Sí.", "--output", as_json)
    assert "(beam 2)" in printed
    assert f"written to {as_json}" in printed
    written = json.loads(as_json.read_text(encoding="utf-8"))
    assert [trace["sentence"] for trace in written["traces"]] == [SENTENCE, "Sí."]
    translator = Translator.load(tiny_run, engine="keras")
    for trace in written["traces"]:
        [hypotheses] = translator.hypotheses(
            [trace["sentence"]], beam_size=2, n_best=2, no_repeat_ngram=0
        )
        assert trace["texts"] == [hypothesis.text for hypothesis in hypotheses]
        totals = [trace["nodes"][end]["total"] for end in trace["finished"]]
        assert totals == pytest.approx([hypothesis.log_prob for hypothesis in hypotheses], abs=1e-4)
        assert len(trace["nodes"][0]["candidates"]) == 5
    inspected(*search, "1", "Sí.", "--output", as_html)
    page = as_html.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "#1]" in page
    assert "After a token: its probability given the tokens before it." in page
    assert "src=" not in page  # nothing is loaded from elsewhere
    assert "http" not in page


def test_an_explanation_is_printed_and_written(tiny_run: Path, tmp_path: Path) -> None:
    as_json, as_html = tmp_path / "why.json", tmp_path / "why.html"
    command_line = ("explain", "--run", tiny_run, SENTENCE)
    printed = inspected(*command_line, "--output", as_json)
    written = json.loads(as_json.read_text(encoding="utf-8"))
    assert written["run"] == tiny_run.name
    translator = Translator.load(tiny_run, engine="keras")
    [[best]] = translator.hypotheses([SENTENCE], no_repeat_ngram=0)  # a loop is not searched again
    assert sum(len(word["pieces"]) for word in written["words"]) == len(best.tokens)
    assert written["translation"] == best.text
    assert "rather than" in printed
    assert f"written to {as_json}" in printed
    word = written["words"][-1]["word"]
    assert word == "</s>"
    detail = inspected(*command_line, "--why", word, "--not", "house", "--output", as_html)
    assert f"Why {word} and not house?" in detail
    page = as_html.read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "house" in page
    with pytest.raises(UserError, match="no word 'xyzzy' to explain; choose from"):
        inspected(*command_line, "--why", "xyzzy")


def test_embeddings_are_written_beside_the_events(tiny_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(tiny_run, tmp_path / "run")
    printed = inspected("project", "--run", run)
    assert "tensorboard --logdir" in printed
    table = np.loadtxt(run / "logs" / "embeddings" / "vectors.tsv", delimiter="\t")
    expected = np.asarray(Translator.load(run).keras_engine().model.token_table())
    np.testing.assert_allclose(table, expected, rtol=1e-4, atol=1e-12)
    labels = (run / "logs" / "embeddings" / "labels.tsv").read_text(encoding="utf-8")
    assert len(labels.splitlines()) == 1 + len(expected)
    columns = ["source count es", "target count en", "language"]
    assert labels.splitlines()[0].split("\t")[3:] == columns
    (run / "corpus.json").unlink()
    assert "warning: the corpus has changed" in inspected("project", "--run", run)
    inspected("project", "--run", run, "--no-counts")
    labels = (run / "logs" / "embeddings" / "labels.tsv").read_text(encoding="utf-8")
    assert labels.splitlines()[0] == "piece\tid\tkind"


def test_weights_are_drawn_into_a_folder(tiny_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "pictures"
    printed = inspected("weights", "--run", tiny_run, "--output", out, "--format", "svg")
    assert sorted(path.name for path in out.iterdir()) == ["positions.svg", "weight_norms.svg"]
    assert printed.split() == [str(out / name) for name in ("positions.svg", "weight_norms.svg")]


def test_the_summary_of_a_run_counts_it(tiny_run: Path) -> None:
    printed = inspected("summary", "--run", tiny_run)
    total = f"{Translator.load(tiny_run).keras_engine().model.count_params():,}"
    [line] = [line for line in printed.splitlines() if line.startswith("all") and total in line]
    assert line.split() == ["all", total, total]  # by closed form, and counted
    assert "training all weights, 3 x forward" in printed
    assert "4 x 64 float32" in printed  # of training: 256 positions


def test_the_summary_of_a_configuration_needs_no_run(tmp_path: Path) -> None:
    """128 x 4,000 weights and so on: it is `compact`, worked out by hand."""
    attention, feed_forward = 4 * 128**2 + 4 * 128, 2 * 128 * 512 + 512 + 128
    norms = (2 * 3 + 3 * 2 + 2) * 2 * 128
    head_norms = (3 + 2) * 2 * 32  # of self-attention
    total = 128 * 4000 + (3 + 2 + 2) * attention + 5 * feed_forward + norms + head_norms
    printed = inspected("summary", "tokenizer.vocabulary_size=4000", "--batch", "2x50")
    assert f"\nall{total:,}" in printed.replace(" ", "")
    assert "2 x 50 bfloat16" in printed
    assert "S = 50" in printed
    with pytest.raises(UserError, match=r"'model.d_modle'; did you mean 'model.d_model'"):
        inspected("summary", "model.d_modle=8")
    with pytest.raises(UserError, match="not both"):
        inspected("summary", "model=base", "--run", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trace", "x", "--output", "trace.txt"), "must end in .json or .html"),
        (("explain", "x", "--output", "picture.gif"), "must end in .json or .html"),
        (("explain", "x", "--not", "y"), "--not y needs --why WORD"),
        (("trace", "x", "--run", "no/such/run"), "run no/such/run does not exist"),
        (("trace", "x", "S\udced."), "sentence 2 is not UTF-8: set the terminal to UTF-8"),
        (("trace", "x", "--prefix", "S\udced."), "--prefix is not UTF-8: set the terminal"),
        (("explain", "S\udced."), "sentence 1 is not UTF-8: set the terminal"),
        (("explain", "x", "--why", "S\udced"), "--why is not UTF-8: set the terminal"),
        (("explain", "x", "--why", "y", "--not", "S\udced"), "--not is not UTF-8: set the"),
        (("align", "S\udced."), "sentence 1 is not UTF-8: set the terminal"),
        (("compare", "x", "--sentence", "S\udced."), "--sentence is not UTF-8: set the terminal"),
    ],
)
def test_mistakes_are_user_errors(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        inspected(*arguments)


def test_empty_sentences_are_refused(tiny_run: Path) -> None:
    for subcommand in ("trace", "explain"):
        with pytest.raises(UserError, match="is empty"):
            inspected(subcommand, "--run", tiny_run, " ")


def test_the_command_line(tiny_run: Path, tmp_path: Path) -> None:
    done = command("nmt.inspect", "trace", "--run", tiny_run, "--beam", "2", "Sí.", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == b""
    assert "▁" in done.stdout.decode()
    assert list(tmp_path.iterdir()) == []
    done = command("nmt.inspect", "summary", "--run", "no/such/run", cwd=tmp_path)
    assert "does not exist" in one_line_error(done)


def test_every_file_is_verified(tiny_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    lines = inspected("verify", run).splitlines()
    names = {line.split(maxsplit=1)[1] for line in lines[:-1] if line.startswith("sound")}
    assert {"config.yaml", "corpus.json", "tokenizer.model", "metrics.jsonl"} < names
    assert {"checkpoints/best.npz", "checkpoints/step_00000012.npz"} < names
    assert "checkpoints/best.ctranslate2" in names
    files = [path for path in run.rglob("*") if path.is_file()]
    assert lines[-1].startswith(f"{len(files)} files: {len(names)} sound, 0 damaged, ")


def test_what_is_damaged_is_named(tiny_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    best = run / "checkpoints" / "best.npz"
    arrays, metadata = read_arrays(best)
    name = "model/encoder_0/feed_forward/inner/kernel"
    write_arrays(best, arrays | {name: np.zeros((2, 2), np.float32)}, metadata)
    (run / "evaluation_x.json").write_text("{", encoding="utf-8")
    (run / "samples" / "step_00000099.tsv").write_text("a\tb\tc\nd\n", encoding="utf-8")
    (run / "gone").symlink_to("nowhere")
    (run / "mine.txt").touch()
    folder = run / "exports" / "made up"
    folder.mkdir(parents=True)
    (folder / "model.bin").touch()
    (folder / "manifest.json").write_text('{"files": {"model.bin": "1"}}', encoding="utf-8")
    (run / "exports" / ".new-1-keras").mkdir()
    (run / "exports" / ".new-1-keras" / "model.keras").touch()
    (run / "corpus.json").unlink()
    verdicts = {name: (verdict, reason) for name, verdict, reason in verify(run)}
    assert {
        name: reason for name, (verdict, reason) in verdicts.items() if verdict == "damaged"
    } == {
        "checkpoints/best.npz": f"{name} has shape (2, 2), expected (64, 128)",
        "corpus.json": "it is missing",
        "evaluation_x.json": verdicts["evaluation_x.json"][1],
        "exports/made up/model.bin": "its SHA-256 is not the one in manifest.json",
        "gone": "it is a broken link",
        "samples/step_00000099.tsv": "line 2 has 1 columns",
    }
    assert verdicts["mine.txt"] == verdicts["exports/.new-1-keras"] == ("unknown", "")
    best.write_bytes(best.read_bytes()[:-9])
    form = best.with_name("best.ctranslate2")
    form.write_bytes(form.read_bytes()[:-9])
    (run / "tokenizer.model").unlink()
    damaged = {name for name, verdict, _ in verify(run) if verdict == "damaged"}
    assert damaged >= {"checkpoints/best.npz", "checkpoints/best.ctranslate2"}
    assert damaged >= {"tokenizer.model or tokenizer.pair.json or tokenizer.vocab.json"}
    assert "checkpoints/step_00000012.npz" not in damaged
    with pytest.raises(UserError, match=r"is damaged: 8 of \d+ files, such as checkpoints/best"):
        inspected("verify", run)


def test_verifying_an_export_needs_no_keras(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"files": {"model": "1"}}', encoding="utf-8")
    (tmp_path / "model").touch()
    script = """
import sys
from nmt.inspect.__main__ import main
try:
    main()
finally:
    print("loaded:", *({"keras", "tensorflow"} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, "verify", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path} is damaged: 1 of 2 files, such as model\n"
    assert done.stdout.splitlines() == [
        "sound    manifest.json",
        "damaged  model (its SHA-256 is not the one in manifest.json)",
        "2 files: 1 sound, 1 damaged, 0 unknown",
        "loaded:",
    ]
