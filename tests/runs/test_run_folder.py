"""A run on disk: found by its name, read back, moved elsewhere, and its damage named."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nmt import Translator
from nmt.config import Config
from nmt.errors import UserError
from nmt.formats.manifest import MANIFEST_FILE
from nmt.formats.verifying import verify_run
from nmt.runs.checkpoint import read_arrays, write_arrays
from nmt.runs.folder import CONFIG_FILE, RunFolder, link_latest

pytestmark = pytest.mark.xdist_group("tiny run")


def test_runs_of_one_second_do_not_share_a_folder(
    tmp_path: Path, compose: Callable[..., Config]
) -> None:
    config = compose(f"runs_dir={tmp_path}", "name=a b/c")
    first, second = RunFolder.create(config), RunFolder.create(config)
    assert first.path != second.path
    assert first.path.name.endswith("_a-b-c")
    assert not (tmp_path / "latest").exists()
    link_latest(first.path)
    link_latest(second.path)
    assert (tmp_path / "latest").resolve() == second.path.resolve()
    assert RunFolder.open(tmp_path / "latest").config == config


def test_a_run_moved_elsewhere_translates(tiny_run: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(tiny_run, moved)
    sentence = ["Hoy hace frío."]
    assert Translator.load(moved).translate(sentence) == Translator.load(tiny_run).translate(
        sentence
    )


def test_a_misspelt_run_names_the_nearest(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()  # no run
    with pytest.raises(UserError, match="does not exist; train one first"):
        RunFolder.open(tmp_path / "dat")
    with pytest.raises(UserError, match=f"did you mean '{tiny_run}'"):
        RunFolder.open(tiny_run.with_name(tiny_run.name[:-1]))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    (tmp_path / "runs" / "demo" / CONFIG_FILE).touch()
    with pytest.raises(UserError, match=r"(did you mean|choose from:) '?runs/demo"):
        RunFolder.open(Path("demo"))
    newest = tmp_path / "runs" / "2026-11-29" / CONFIG_FILE
    newest.parent.mkdir()
    newest.touch()
    os.utime(tmp_path / "runs" / "demo" / CONFIG_FILE, (0, 0))
    with pytest.raises(UserError, match=r"run runs/latest does not exist; .*runs/2026-11-29"):
        RunFolder.open(Path("runs/latest"))


def test_weights_of_another_size_are_refused(tiny_run: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(tiny_run, moved)
    best = moved / "checkpoints" / "best.npz"
    arrays, metadata = read_arrays(best)
    name = "model/encoder_0/feed_forward/inner/kernel"
    write_arrays(best, arrays | {name: np.zeros((2, 2), np.float32)}, metadata)
    with pytest.raises(UserError, match=r"inner/kernel is of shape \(2, 2\), expected \(64, 128\)"):
        Translator.load(moved)


def test_an_export_is_told_from_a_run(tmp_path: Path, compose: Callable[..., Config]) -> None:
    run = RunFolder.create(compose(f"runs_dir={tmp_path}"))
    (run.path / MANIFEST_FILE).touch()
    with pytest.raises(UserError, match="is an export, not a run folder: name the run it was"):
        RunFolder.open(run.path)
    run.write_corpus_record({})  # a run may have a file of this name
    RunFolder.open(run.path)


def test_a_run_without_weights_says_so(tmp_path: Path, compose: Callable[..., Config]) -> None:
    run = RunFolder.create(compose(f"runs_dir={tmp_path}"))
    with pytest.raises(UserError, match=r"has no weights yet: its training saved no checkpoint$"):
        run.load_model()
    with pytest.raises(UserError, match=r"has no weights yet: its training saved no checkpoint$"):
        run.load_tokenizer()  # which a run writes first
    for name in ("first", "second"):
        best = tmp_path / name / "checkpoints" / "best.npz"
        best.parent.mkdir(parents=True)
        best.touch()
        os.utime(best, (0, len(name)))
    link_latest(tmp_path / "second")
    for load in (run.load_model, run.load_tokenizer):
        with pytest.raises(UserError, match=f"; the newest run with weights is {tmp_path}/second$"):
            load()
    run.checkpoints.folder.mkdir()
    with pytest.raises(UserError, match="holds no tokenizer"):
        run.load_tokenizer()


def test_json_that_is_nested_without_end_is_damage(
    tmp_path: Path, compose: Callable[..., Config]
) -> None:
    run = RunFolder.create(compose(f"runs_dir={tmp_path}"))
    readers = {
        "corpus.json": run.read_corpus_record,
        "evaluation_test.json": run.test_scores,
        "metrics.jsonl": lambda: run.metrics.read(),
    }
    for name, read in readers.items():
        (run.path / name).write_text("[" * 10_000 + "\n")
        with pytest.raises(UserError, match=f"{name}.* is damaged"):
            read()
    (run.path / "other.json").write_text("[" * 10_000)
    verdicts = {verdict.name: verdict.verdict for verdict in verify_run(run.path)}
    assert {verdicts[name] for name in (*readers, "other.json")} == {"damaged"}


def test_what_training_saves_and_removes_meanwhile_is_not_damaged(
    tmp_path: Path, compose: Callable[..., Config]
) -> None:
    run = RunFolder.create(compose(f"runs_dir={tmp_path}"))
    stems = (".partial-0123-step_00000003", "best", "step_00000001")
    names = [f"checkpoints/{stem}.npz" for stem in stems]
    (run.path / "checkpoints").mkdir()
    for name in names:
        (run.path / name).write_bytes(b"cut")
    verdicts = verify_run(run.path)
    found = [next(verdicts)]
    (run.path / names[2]).unlink()
    found.extend(verdicts)
    of_names = {verdict.name: verdict.verdict for verdict in found if verdict.name in names}
    assert of_names == {names[0]: "unknown", names[1]: "damaged"}


def test_what_is_written_is_read_anew(tmp_path: Path, compose: Callable[..., Config]) -> None:
    config = compose(f"runs_dir={tmp_path}")
    run = RunFolder.create(config)
    assert run.config.seed == config.seed
    run.write_config(replace(config, seed=7))
    assert run.config.seed == 7


def test_a_folder_that_cannot_be_made_names_its_parent(
    tmp_path: Path, compose: Callable[..., Config]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"runs_dir=.*file cannot be written to"):
        RunFolder.create(compose(f"runs_dir={tmp_path / 'file'}"))


def test_runs_on_a_disk_that_is_not_mounted_are_named(
    tmp_path: Path, compose: Callable[..., Config]
) -> None:
    (tmp_path / "runs").symlink_to(tmp_path / "disk", target_is_directory=True)
    for name in ("runs", "runs/mine"):
        with pytest.raises(UserError, match=rf"runs_dir=.*{name} is a link.*mount its disk"):
            RunFolder.create(compose(f"runs_dir={tmp_path / name}"))


def test_metrics_beyond_a_step_are_dropped(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.metrics.drop_after(3)  # nothing there yet
    for step in range(1, 6):
        run.metrics.append({"step": step})
    run.metrics.drop_after(3)
    lines = (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines == ['{"step": 1}', '{"step": 2}', '{"step": 3}']


def test_a_line_of_metrics_that_was_cut_is_dropped(tmp_path: Path) -> None:
    """Its session was killed while it wrote."""
    run = RunFolder(tmp_path)
    assert run.metrics.read() == []
    for step in range(1, 4):
        run.metrics.append({"step": step})
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-4], encoding="utf-8")
    assert run.metrics.read() == [{"step": 1}, {"step": 2}]
    run.metrics.drop_after(9)
    run.metrics.append({"step": 3})
    assert run.metrics.read() == [{"step": 1}, {"step": 2}, {"step": 3}]
    path.write_text('{"step": 1}\nnonsense\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"metrics\.jsonl, line 2, is damaged"):
        _ = run.metrics.read()


@pytest.mark.parametrize("content", ["", "{", "3", '"a"'])
def test_a_damaged_record_of_the_corpus_is_named(tmp_path: Path, content: str) -> None:
    run = RunFolder(tmp_path)
    assert run.read_corpus_record() == {}
    (tmp_path / "corpus.json").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"corpus\.json is damaged"):
        run.read_corpus_record()


def test_scores_are_those_of_the_test_split(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.test_scores() == {}
    path = tmp_path / "evaluation_test.json"
    path.write_text(json.dumps({"scores": {"BLEU": {"name": "BLEU", "value": 50.1}}}))
    assert run.test_scores() == {"BLEU": {"value": 50.1, "half_width": None}}
    path.write_text("{}")
    with pytest.raises(UserError, match=r"evaluation_test\.json is damaged"):
        run.test_scores()


def flip(path: Path, offset: int) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_a_damaged_tokenizer_is_refused(parrot_run: Path, tmp_path: Path) -> None:
    run = RunFolder(shutil.copytree(parrot_run, tmp_path / "run"))
    path = run.path / "tokenizer.model"
    size = path.stat().st_size
    offsets = range(7, size, size // 12)

    def refused() -> int:
        count = 0
        for offset in offsets:
            flip(path, offset)
            try:
                run.load_tokenizer()
            except UserError:
                count += 1
            flip(path, offset)
        return count

    assert not (run.path / "corpus.json").exists()
    assert refused() < len(offsets)  # a run of before: SentencePiece itself believes most of it
    run.write_corpus_record({"lines": 1})
    assert run.read_corpus_record()["lines"] == 1
    assert refused() == len(offsets)
    assert run.load_tokenizer().fingerprint == RunFolder(parrot_run).load_tokenizer().fingerprint


def test_a_damaged_configuration_is_refused(tmp_path: Path, compose: Callable[..., Config]) -> None:
    run = RunFolder.create(compose(f"runs_dir={tmp_path}", "decoding.beam_size=4"))
    path = run.path / "config.yaml"
    content = path.read_text(encoding="utf-8")
    assert RunFolder(run.path).config.decoding.beam_size == 4
    changed = content.replace("beam_size: 4", "beam_size: 5")
    path.write_text(changed, encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.yaml is damaged: .*delete that line"):
        _ = RunFolder(run.path).config
    path.write_text(changed.split("\n", 1)[1], encoding="utf-8")  # as the message says
    assert RunFolder(run.path).config.decoding.beam_size == 5
    path.unlink()
    with pytest.raises(UserError, match=r"config\.yaml cannot be read"):
        _ = RunFolder(run.path).config


def test_the_last_weights_are_not_taken_for_the_best(
    tmp_path: Path, compose: Callable[..., Config]
) -> None:
    run = RunFolder.create(compose(f"runs_dir={tmp_path}"))
    arrays = {"model/a": np.zeros(2)}
    for step, best in ((5, 5), (6, 5)):
        position = {"step": step, "best_score": 1.0, "best_step": best}
        run.checkpoints.save(step, arrays, position, keep=2)
        if step == best:  # killed before best.npz was written: the same weights are here
            assert run.load_weights()[0].keys() == arrays.keys()
    with pytest.raises(UserError, match=r"best\.npz is missing.* 5 was .* step_00000006\.npz"):
        run.load_weights()


def test_older_weights_are_not_taken_in_silence(
    tmp_path: Path, compose: Callable[..., Config]
) -> None:
    run = RunFolder.create(compose(f"runs_dir={tmp_path}"))
    for step in (5, 6):
        position = {"step": step, "best_step": step}
        run.checkpoints.save(step, {"model/a": np.full(2, step)}, position, keep=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run.load_weights()[0]["model/a"][0] == 6
    run.checkpoints.path(6).write_bytes(b"PK")
    with pytest.warns(UserWarning, match=r"step_00000006\.npz is damaged.*skipped"):
        assert run.load_weights()[0]["model/a"][0] == 5


def test_a_run_without_an_evaluation_is_named(
    tmp_path: Path, compose: Callable[..., Config]
) -> None:
    run = RunFolder.create(compose(f"runs_dir={tmp_path}"))
    run.checkpoints.save(5, {"model/a": np.zeros(2)}, {"step": 5, "best_step": 0}, keep=2)
    with pytest.warns(UserWarning, match="has no evaluation yet: these are the weights of"):
        run.load_weights()


@pytest.mark.parametrize("line", [b'{"step": 1\xff}', b'{"stop": 1}', b'{"step": "1"}', b"[1]"])
def test_a_damaged_line_of_metrics_is_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1}\n' + line + b"\n")
    with pytest.raises(UserError, match=r"metrics\.jsonl, line 2, is damaged"):
        RunFolder(tmp_path).metrics.drop_after(3)
