"""The life of a run, as a notebook has it: trained, interrupted, gone on with, shown."""

from __future__ import annotations

import copy
import io
import json
import os
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from rich.console import Console
from sample_configs import LANGUAGES, changed, configured
from tensorboard.backend.event_processing import plugin_event_accumulator

import nmt
from nmt import Translator
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.inference.evaluation import Evaluation
from nmt.inference.metrics import Score
from nmt.runs.folder import RunFolder
from nmt.runs.resuming import compose_config
from nmt.training import job
from nmt.training.callbacks import Callback
from nmt.training.components import AS_CONFIGURED
from nmt.training.evaluator import Evaluator
from nmt.training.guard import DUMP_NAME
from nmt.training.job import Run, train
from nmt.training.saver import Saver
from nmt.training.session import Session

if TYPE_CHECKING:
    from workshop import Workshop

pytest_plugins = ("workshop",)
pytestmark = pytest.mark.xdist_group("workshop")

FEW = ("training.max_steps=4", "training.evaluate_every=2", "decoding.beam_size=1")


def steps(run: Run) -> list[int]:
    return [line["step"] for line in run.metrics if "train/loss" in line]


def test_a_run_in_hand(kept: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    of_training: list[Translator] = []

    def make_evaluator(session: Session, *arguments: Any) -> Evaluator:
        of_training.append(arguments[2])
        return Evaluator(session, *arguments)

    monkeypatch.setattr("nmt.training.assembly.Evaluator", make_evaluator)
    run = kept.train(*FEW, "name=in hand", console=Console(file=shown, width=200))
    assert nmt.fit is job.fit
    assert run.complete
    assert run.path == run.folder.path
    assert run.path.parent == kept.runs
    assert (kept.runs / "latest").resolve() == run.path.resolve()
    assert f"run folder: {run.path}" in shown.getvalue()
    assert re.search(r"^device: CPU \(\d+ cores?\)$", shown.getvalue(), re.MULTILINE)
    assert steps(run) == [1, 2, 3, 4]
    assert run.best_score == max(line["dev/BLEU"] for line in run.metrics if "dev/BLEU" in line)
    assert run.evaluation is not None
    written = json.loads((run.path / "evaluation_test.json").read_text(encoding="utf-8"))
    assert run.scores == {name: score["value"] for name, score in written["scores"].items()}
    assert run.scores == {score.name: score.value for score in run.evaluation.scores}
    sources = [pair.source for pair in run.evaluation.pairs]
    assert len(sources) == 16
    assert run.translator().translate(sources) == run.evaluation.outputs
    # Dev BLEU is by the translator of all later scores: it cuts texts where they do.
    [translator] = of_training
    assert translator.segmenter.max_tokens == run.translator().segmenter.max_tokens == 63
    assert translator.engine.max_length > 64

    page = run._repr_html_()
    assert run.path.name in page
    assert f"best dev BLEU {run.best_score:.2f}" in page
    assert f"BLEU    {run.scores['BLEU']:6.2f}" in page
    newest = (run.folder.samples / "step_00000004.tsv").read_text(encoding="utf-8").splitlines()
    assert page.count("<tr>") == len(newest) == 1 + 16


@pytest.mark.long
def test_training_does_not_reseed_the_caller(kept: Workshop) -> None:
    states = []
    for _ in range(2):
        kept.train("training.max_steps=1", "name=drawn")
        states.append((random.random(), float(np.random.random())))  # noqa: NPY002
    assert states[0] != states[1]


def test_a_sweep_is_not_one_run() -> None:
    with pytest.raises(UserError, match="this experiment is a sweep of several runs"):
        nmt.fit(["experiment=compare_norms"])


def test_scores_do_not_stay_when_the_best_weights_change(kept: Workshop) -> None:
    class SavesBest(Callback):
        def on_start(self, session: Session) -> None:
            Saver(session).save_best()
            raise UserError("stopped")

    run = kept.train(*FEW)
    assert run.scores
    with pytest.raises(UserError, match="stopped"):
        kept.train(f"training.resume={run.path}", callbacks=[SavesBest()])
    assert not run.scores
    assert kept.train(f"training.resume={run.path}").scores


def test_a_run_that_is_refused_leaves_nothing(kept: Workshop) -> None:
    run = kept.train(*FEW)
    before = sorted(kept.runs.iterdir())
    with pytest.raises(
        UserError, match=r"too small for the characters of this corpus: raise it to \d+ or more"
    ):
        kept.train(*FEW, "tokenizer.vocabulary_size=20")
    assert sorted(kept.runs.iterdir()) == before
    assert (kept.runs / "latest").resolve() == run.path.resolve()


def test_a_run_that_is_refused_late_is_not_the_latest(kept: Workshop) -> None:
    class Refuses(Callback):
        def on_start(self, session: Session) -> None:
            assert (session.folder.path.parent / "latest").resolve() == session.folder.path
            if self.leaves:
                (session.folder.path / f"{DUMP_NAME}_00000001.json").write_text("{}")
            raise UserError("no")

        leaves = False

    run = kept.train(*FEW)
    before, refuses = sorted(kept.runs.iterdir()), Refuses()
    with pytest.raises(UserError, match="no"):
        kept.train(*FEW, callbacks=[refuses])
    assert sorted(kept.runs.iterdir()) == before
    assert (kept.runs / "latest").resolve() == run.path.resolve()
    refuses.leaves = True  # what a message refers to
    with pytest.raises(UserError, match="no"):
        kept.train(*FEW, callbacks=[refuses])
    assert len({*kept.runs.iterdir()} - {*before}) == 1


def test_a_run_goes_on_and_ends_later(kept: Workshop) -> None:
    first = kept.train(*FEW, "data.test=0")
    again = kept.train(f"training.resume={first.path}", "training.max_steps=6")
    assert again.complete
    assert again.path == first.path
    assert steps(again) == [1, 2, 3, 4, 5, 6]
    assert again.folder.config.training.max_steps == 6
    events = plugin_event_accumulator.EventAccumulator(str(again.folder.logs)).Reload()
    assert [event.step for event in events.Tensors("configuration")] == [0, 4]
    assert again.folder.config.training.resume is None
    shown = io.StringIO()
    console = Console(file=shown, width=200)
    kept.train(f"training.resume={first.path}", "training.max_steps=5", console=console)
    assert (
        "the run is complete at update 6: nothing is trained; what ended it: training.max_steps=5"
        in shown.getvalue()
    )
    with pytest.raises(UserError, match="a resumed run keeps its seed"):
        kept.train(f"training.resume={first.path}", "seed=5")


@pytest.mark.usefixtures("default_signals")
def test_an_interrupted_run_is_in_hand_too(
    kept: Workshop, at_update: Callable[[int, Callable[[], None]], None]
) -> None:
    at_update(3, lambda: os.kill(os.getpid(), signal.SIGINT))
    run = kept.train(*FEW)
    assert not run.complete
    assert run.evaluation is None
    assert run.scores == {}
    assert steps(run) == [1, 2, 3]
    assert run.path.name in run._repr_html_()
    assert len(run.translator().translate(["Sí."])) == 1


def test_a_configuration_stays_as_it_was_given(kept: Workshop, quiet_console: Console) -> None:
    open_keys = ["training.learning_rate=null", "model.dropout=null"]
    config = compose_config([*kept.overrides, *FEW, *open_keys, "data.test=0", "data.dev=0"])
    before = copy.deepcopy(config)
    run = train(config, quiet_console)
    assert config == before
    written = run.folder.config
    assert config.training.learning_rate is None
    assert written.training.learning_rate == pytest.approx(0.256 / 64)
    assert config.model.dropout is None
    assert written.model.dropout == 0.3
    assert written.training.precision == "float32"


def test_what_a_notebook_shows_is_text_and_no_code(tmp_path: Path) -> None:
    hostile = "<script>alert('x')</script>"
    folder = RunFolder(tmp_path / "<i>run")
    folder.samples.mkdir(parents=True)
    for name, cell in (("step_00000009.tsv", "old"), ("step_00000010.tsv", hostile)):
        table = f"source\treference\toutput\n{cell}\t<b>\u2028</b>\t&amp;\n"
        (folder.samples / name).write_text(table, encoding="utf-8")
    score = Score("BLEU", 12.5, hostile)
    evaluation = Evaluation([Pair("a", "b")], ["c"], [score], "en")
    page = Run(folder, True, 12.25, evaluation)._repr_html_()
    assert "<script" not in page
    assert "<i>" not in page
    assert "<b>" not in page.replace("<p><b>&lt;i&gt;run</b></p>", "")
    assert page.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;") == 2
    assert "&amp;amp;" in page
    assert "old" not in page
    assert page.count("<tr>") == 2
    assert "best dev BLEU 12.25" in page


def test_a_run_without_anything_to_show_shows_its_name(tmp_path: Path) -> None:
    run = Run(RunFolder(tmp_path / "plain"), False, None, None)
    assert run._repr_html_() == "<p><b>plain</b></p>"
    assert run.metrics == []
    assert run.scores == {}


def test_only_a_new_run_that_reads_files_needs_them(tmp_path: Path) -> None:
    config = configured("data=files", f"data.train={tmp_path}/no.tsv", *LANGUAGES)
    with pytest.raises(UserError, match="does not exist"):
        job._check_inputs(config, AS_CONFIGURED)
    for key, value in (
        ("training.resume", "runs/a"),
        ("data.prepared", "folder"),
        ("training.devices", "multiworker"),
    ):
        job._check_inputs(changed(config, {key: value}), AS_CONFIGURED)
