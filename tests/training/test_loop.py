"""The loop: it resumes bit for bit, stops on request, keeps the best, and ends when told."""

from __future__ import annotations

import gc
import io
import itertools
import json
import math
import os
import shutil
import signal
from collections.abc import Callable, Container
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conftest import tiny_overrides
from rich.console import Console

from nmt import Translator
from nmt.errors import UserError
from nmt.inference.metrics import Score, corpus_scores
from nmt.runs.checkpoint import read_arrays, read_metadata, write_arrays
from nmt.runs.folder import RunFolder
from nmt.training.evaluation_runner import EvaluationRunner
from nmt.training.evaluator import Evaluator
from nmt.training.guard import Guard
from nmt.training.job import fit
from nmt.training.journal import RunJournal
from nmt.training.out_of_memory import OutOfMemoryRecovery
from nmt.training.saver import Saver

if TYPE_CHECKING:
    from workshop import Workshop

pytest_plugins = ("workshop",)
pytestmark = pytest.mark.xdist_group("workshop")

KILLED_AT = 7  # neither an evaluation nor the end

AtUpdate = Callable[[int, Callable[[], None]], None]


@pytest.fixture(scope="module")
def whole(shop: Workshop) -> Callable[[str], RunFolder]:
    """Train a run to its end, once for each way to compile it."""

    @cache
    def trained(jit: str) -> RunFolder:
        with shop.keeping():
            return shop.train("name=whole", "data.test=0", f"training.jit_compile={jit}").folder

    return trained


def reported(run: RunFolder) -> list[dict[str, Any]]:
    """Everything reported but times, which no resumed run can repeat."""
    timed = ("seconds", "speed/tokens_per_second")
    lines = run.metrics.read()
    return [{key: value for key, value in line.items() if key not in timed} for line in lines]


def latest(run: RunFolder) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    found = run.checkpoints.load_latest()
    assert found is not None
    return found


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize(
    ("jit", "number"),
    [
        pytest.param("off", signal.SIGTERM, marks=pytest.mark.backend),
        # For TensorFlow: JAX always compiles.
        pytest.param("on", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_ends_as_if_it_had_not_been_killed(
    shop: Workshop,
    whole: Callable[[str], RunFolder],
    at_update: AtUpdate,
    jit: str,
    number: int,
) -> None:
    expected = whole(jit)
    at_update(KILLED_AT, lambda: os.kill(os.getpid(), number))
    with shop.keeping():
        stopped = shop.train("name=killed", "data.test=0", f"training.jit_compile={jit}")
    assert not stopped.complete
    assert stopped.evaluation is None
    killed = stopped.folder
    assert killed.path != expected.path
    assert killed.checkpoints.steps()[-1] == KILLED_AT

    at_update(-1, lambda: None)
    assert shop.train(f"training.resume={killed.path}").complete  # with nothing that was there
    assert reported(killed) == reported(expected)
    arrays = latest(expected)[0]
    for name, array in latest(killed)[0].items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)


def test_a_run_that_dies_loses_only_what_follows_its_last_checkpoint(
    kept: Workshop, whole: Callable[[str], RunFolder], at_update: AtUpdate
) -> None:
    expected = whole("off")

    def die() -> None:
        raise MemoryError("as if the power had gone")

    at_update(9, die)
    with pytest.raises(MemoryError):
        kept.train("name=dead", "data.test=0")
    dead = RunFolder.open(kept.runs / "latest")
    assert dead.config.name == "dead"
    assert dead.checkpoints.steps() == [5]
    assert [line["step"] for line in reported(dead)][-1] == 8
    at_update(-1, die)
    kept.train(f"training.resume={dead.path}")
    assert reported(dead) == reported(expected)


@pytest.mark.usefixtures("default_signals")
def test_updates_since_the_last_evaluation_are_evaluated_where_a_limit_is_reached(
    kept: Workshop, at_update: AtUpdate
) -> None:
    at_update(KILLED_AT, lambda: os.kill(os.getpid(), signal.SIGTERM))
    killed = kept.train("name=killed", "data.test=0").folder
    at_update(-1, lambda: None)
    resumed = (f"training.resume={killed.path}", f"training.max_steps={KILLED_AT}")
    assert kept.train(*resumed).complete
    assert [line["step"] for line in reported(killed) if "dev/BLEU" in line] == [5, KILLED_AT]


def test_the_best_weights_are_those_of_the_best_score(whole: Callable[[str], RunFolder]) -> None:
    run = whole("off")
    scored = {line["step"]: line["dev/BLEU"] for line in reported(run) if "dev/BLEU" in line}
    assert list(scored) == [5, 10, 12]  # every fifth update, and the last
    metadata = latest(run)[1]
    assert metadata["step"] == 12
    best = max(scored.values())
    assert metadata["best_score"] == best
    assert metadata["best_step"] == next(step for step, s in scored.items() if s == best)


def test_trials_without_dev_scores_cannot_be_compared(kept: Workshop) -> None:
    with pytest.raises(UserError, match="compares dev scores: set"):
        kept.train("data.test=0", "data.dev=0", "training.stop_behind=0.5")


@pytest.mark.parametrize("override", ["data.dev=0", "training.evaluation_sentences=0"])
@pytest.mark.usefixtures("default_signals")
def test_without_scores_the_last_weights_are_the_best(
    kept: Workshop, at_update: AtUpdate, override: str
) -> None:
    said = io.StringIO()
    at_update(KILLED_AT, lambda: os.kill(os.getpid(), signal.SIGTERM))
    run = kept.train("data.test=0", override, console=Console(file=said)).folder
    assert "(best)" not in said.getvalue()
    assert read_metadata(run.checkpoints.best)["best_step"] == 5
    at_update(-1, lambda: None)
    resume = f"training.resume={run.path}"
    assert kept.train(resume).best_score is None
    best, metadata = read_arrays(run.checkpoints.best)
    arrays, position = latest(run)
    assert metadata["best_step"] == position["best_step"] == position["step"] == 12
    for name, array in best.items():
        average = arrays[name.replace("model/", "average/", 1)]
        np.testing.assert_array_equal(array, average, err_msg=name)
    translator = Translator.load(run.path, engine="ctranslate2", quantization="int8")
    assert len(translator.translate(["Hoy hace frío."])) == 1

    # A complete run of an older version gets its best weights when it is resumed.
    run.checkpoints.best.unlink()
    write_arrays(run.checkpoints.path(12), arrays, position | {"best_step": 0})
    kept.train(resume)
    assert read_metadata(run.checkpoints.best)["best_step"] == 12


@pytest.mark.usefixtures("default_signals")
def test_a_run_that_is_stopped_before_it_is_evaluated_has_no_best_weights(
    kept: Workshop, at_update: AtUpdate
) -> None:
    at_update(2, lambda: os.kill(os.getpid(), signal.SIGTERM))
    run = kept.train("data.test=0", "data.dev=0").folder
    assert run.checkpoints.steps() == [2]
    at_update(3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    kept.train(f"training.resume={run.path}")
    assert not run.checkpoints.best.exists()


def test_every_score_follows_the_target_language(
    kept: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    languages = []

    def score(*arguments: Any, language: str, **options: Any) -> list[Score]:
        languages.append(language)
        return corpus_scores(*arguments, language=language, **options)

    for module in ("nmt.training.evaluator", "nmt.inference.evaluation"):
        monkeypatch.setattr(f"{module}.corpus_scores", score)
    turned = (
        *("data.source_language=zh-Hans", "data.target_language=en", "data.reverse=true"),
        "data.check_languages=false",
    )
    run = kept.train(*turned, "training.max_steps=2", "training.evaluate_every=1")
    assert set(languages) == {"zh-Hans"}
    assert len(languages) > 2  # twice on dev, and then on test
    assert run.evaluation is not None
    assert "|tok:zh|" in run.evaluation.scores[0].signature


def test_early_stopping_ends_the_run(kept: Workshop) -> None:
    # With a rate of next to nothing no evaluation is better than the first.
    run = kept.train(
        "data.test=0",
        "training.learning_rate=1e-12",
        "training.evaluate_every=2",
        "training.early_stopping=3",
        "training.max_steps=100",
    )
    assert run.complete
    assert latest(run.folder)[1]["step"] == 8


def test_a_time_limit_ends_the_run(kept: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()  # every look at the clock is one later
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    monkeypatch.setattr("nmt.training.coordination.time", clock)
    run = kept.train(
        "data.test=0",
        "training.max_steps=null",
        "training.max_minutes=0.5",
        "training.schedule=cosine",
        "training.evaluate_every=100000",
    ).folder
    rates = [line["train/learning_rate"] for line in reported(run) if "train/loss" in line]
    assert latest(run)[1]["seconds"] >= 30
    assert len(rates) >= 20
    # The schedule knew the limit: the rate is nearly spent when the time is.
    assert rates[-1] < 0.02 * max(rates)


def read_strictly(path: Path) -> list[dict[str, Any]]:
    """Read lines of JSON, which has no NaN."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in {path}")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def test_an_update_that_is_not_finite_is_skipped_and_counted(
    kept: Workshop, spoil_updates: Callable[[Container[int]], None]
) -> None:
    """Wherever it falls: reports are every 3rd update, evaluations and checkpoints at 5, 10, 12."""
    spoilt = {1, 3, 4, 5, 7, 12}
    spoil_updates(spoilt)
    run = kept.train("data.test=0", "training.log_every=3", "training.keep_checkpoints=9").folder
    assert run.checkpoints.steps() == [5, 10, 12]
    in_row = {5: 3, 10: 0, 12: 1}
    for step in run.checkpoints.steps():
        arrays, metadata = read_arrays(run.checkpoints.path(step))
        assert metadata["skipped"] == sum(number <= step for number in spoilt)
        assert metadata["skipped_in_row"] == in_row[step]
        assert all(np.isfinite(array).all() for array in arrays.values())
    lines = read_strictly(run.path / "metrics.jsonl")
    windows = [line for line in lines if "train/loss" in line]
    counted = {window["step"]: window["train/skipped_updates"] for window in windows}
    assert counted == {3: 2, 6: 4, 9: 5, 12: 6}
    assert all(window["train/loss"] > 0 for window in windows)


def test_a_window_without_a_sound_update_reports_no_loss(
    kept: Workshop, spoil_updates: Callable[[Container[int]], None]
) -> None:
    spoil_updates({4, 5, 6})
    run = kept.train("data.test=0", "training.log_every=3").folder
    losses = [line.get("train/loss", 0) for line in read_strictly(run.path / "metrics.jsonl")]
    assert losses.count(None) == 1


def test_too_many_skipped_in_a_row_end_the_run(
    kept: Workshop, spoil_updates: Callable[[Container[int]], None]
) -> None:
    spoil_updates({2, *range(7, 100)})
    with pytest.raises(
        UserError, match="4 updates in a row were skipped, the last of them update 10"
    ):
        kept.train("data.test=0", "training.max_skipped=4", "name=unsound")
    run = RunFolder.open(kept.runs / "latest")
    assert run.config.name == "unsound"
    assert run.checkpoints.steps() == [5]
    with np.load(run.path / "skipped_update_00000010.npz") as batch:
        assert batch["labels"].shape == batch["source"].shape
    told = json.loads((run.path / "skipped_update_00000010.json").read_text())
    assert told["step"] == 10
    assert {f"model/{name}" for name in told["gradient_norms"]} <= latest(run)[0].keys()


def test_a_spike_of_the_gradient_is_skipped(
    kept: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = iter([math.inf] * 4 + [1e-9] + [math.inf] * 3 + [1e-9] + [math.inf] * 3)
    monkeypatch.setattr(Guard, "norm_limit", property(lambda guard: next(below)))
    run = kept.train("data.test=0").folder
    windows = [line for line in reported(run) if "train/loss" in line]
    assert [window["train/skipped_updates"] for window in windows] == [0] * 4 + [1] * 4 + [2] * 4
    made = [window["train/gradient_norm"] for window in windows if window["train/loss"] is not None]
    assert len(made) == 10
    assert latest(run)[1]["norms"] == made


def test_after_a_spike_training_goes_back_and_on_with_another_order(
    kept: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One before the first checkpoint, at 5, is skipped; three later ones go back to it."""
    spikes = {(2, 0): True, (8, 0): True, (9, 1): True, (10, 2): True}
    orders = []

    def norm_limit(guard: Guard) -> float:
        update = guard._state.step + 1, guard._state.shuffle
        orders.append(update)
        return 1e-9 if spikes.pop(update, False) else math.inf

    monkeypatch.setattr(Guard, "norm_limit", property(norm_limit))
    said = io.StringIO()
    back = ["data.test=0", "training.on_spike=go_back", "training.spike_factor=10"]
    back.append("training.log_every=3")
    run = kept.train(*back, console=Console(file=said, soft_wrap=True)).folder
    expected = [(step, 0) for step in range(1, 10)]
    expected += [(step, 1) for step in range(6, 10)] + [(step, 2) for step in range(6, 11)]
    assert orders == expected + [(step, 3) for step in range(6, 13)]
    assert said.getvalue().count("the gradient spiked; rewound to update 5, ") == 3
    position = latest(run)[1]
    assert (position["order"], position["skipped"], position["step"]) == (3, 1, 12)
    steps = [line["step"] for line in reported(run) if "train/loss" in line]
    assert steps == [3, 6, 9, 12]


def spike_after(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the update after another one spike, in every order of the batches."""
    limit = property(lambda guard: 1e-9 if guard._state.step == step else math.inf)
    monkeypatch.setattr(Guard, "norm_limit", limit)


def test_a_spike_before_the_first_checkpoint_is_not_met_again_after_it(
    kept: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    spike_after(1, monkeypatch)
    run = kept.train(
        "data.test=0",
        "training.on_spike=go_back",
        "training.spike_factor=10",
        "training.log_every=10",
    ).folder
    position = latest(run)[1]
    assert (position["order"], position["skipped"], position["step"]) == (0, 1, 12)


@pytest.mark.usefixtures("default_signals")
def test_a_run_stopped_behind_a_spike_ends_as_if_it_had_not_been_stopped(
    kept: Workshop, at_update: AtUpdate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spike is at update 7, the next report at 9."""
    spikes: set[tuple[int, int]] = set()

    def norm_limit(guard: Guard) -> float:
        update = guard._state.step + 1, guard._state.shuffle
        if update not in spikes:
            return math.inf
        spikes.remove(update)
        return 1e-9

    monkeypatch.setattr(Guard, "norm_limit", property(norm_limit))
    back = ["data.test=0", "training.on_spike=go_back", "training.spike_factor=10"]
    back.append("training.log_every=3")
    runs = []
    for kill in (False, True):
        spikes.add((KILLED_AT, 0))
        stop = partial(os.kill, os.getpid(), signal.SIGTERM) if kill else lambda: None
        at_update(KILLED_AT if kill else -1, stop)
        run = kept.train(*back, f"name=killed_{kill}").folder
        if kill:
            assert latest(run)[1]["step"] == 5
            at_update(-1, stop)
            kept.train(f"training.resume={run.path}")
        assert not spikes
        runs.append(run)
    undisturbed, killed = runs
    arrays = latest(undisturbed)[0]
    for name, array in latest(killed)[0].items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)
    assert latest(killed)[1]["order"] == 1
    assert reported(killed) == reported(undisturbed)


def test_a_spike_in_every_order_ends_the_run(
    kept: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    spike_after(6, monkeypatch)
    with pytest.raises(UserError, match="training was rewound to update 5 2 times, and the "):
        kept.train(
            "data.test=0",
            "training.on_spike=go_back",
            "training.spike_factor=10",
            "training.max_skipped=2",
        )
    assert RunFolder.open(kept.runs / "latest").checkpoints.steps() == [5]


def test_a_checkpoint_is_saved_before_pictures_are_drawn(
    kept: Workshop, whole: Callable[[str], RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk while they are written loses neither updates nor scores."""

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "show_in_tensorboard", fail)
        with pytest.raises(OSError, match="No space"):
            kept.train("data.test=0", "training.jit_compile=off", "name=full")
    run = RunFolder.open(kept.runs / "latest")
    assert run.checkpoints.steps() == [5]
    assert run.checkpoints.best.exists()
    resumed = kept.train(f"training.resume={run.path}").folder
    assert reported(resumed) == reported(whole("off"))


def test_interruptions_take_a_bounded_share_of_the_time(
    kept: Workshop, at_update: AtUpdate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update takes a second, an evaluation two, and a log of attention a quarter.

    The first one of a session compiles, and does not count. A resumed run keeps the intervals.
    """
    now, attended = [0.0], []

    def slow(owner: type, name: str, seconds: float) -> None:
        method = getattr(owner, name)

        def called(self: Any, *arguments: Any) -> Any:
            now[0] += seconds
            if owner is EvaluationRunner:
                attended.append(self._state.step)
            return method(self, *arguments)

        monkeypatch.setattr(owner, name, called)

    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("nmt.training.coordination.time", clock)
    slow(OutOfMemoryRecovery, "update", 1)
    slow(Evaluator, "evaluate", 1.75)
    slow(Evaluator, "read_attention", 0.25)
    slow(EvaluationRunner, "log_attention", 0)
    settings = ("data.test=0", "training.evaluation_share=0.5", "training.max_steps=14")
    settings += ("training.evaluate_every=2", "training.attention_every=1")
    settings += ("training.jit_compile=off", "training.early_stopping=null")

    def evaluations(run: RunFolder) -> list[int]:
        return [line["step"] for line in run.metrics.read() if "dev/loss" in line]

    # 40% of 5 seconds are an evaluation: 3 updates between two, or 4, as only every second one
    # counts. 10% of 2.5 seconds are a log of attention: 3 updates, as 2.25 are too few.
    expected = [2, 4, 8, 12, 14]
    assert evaluations(kept.train(*settings, "name=bounded").folder) == expected
    assert attended == [1, 3, 6, 9, 13]  # at 12, an evaluation logs it

    def die() -> None:
        raise MemoryError("as if the power had gone")

    at_update(11, die)
    with pytest.raises(MemoryError):
        kept.train(*settings, "name=killed")
    at_update(-1, die)
    del attended[:]
    again = kept.train(f"training.resume={kept.runs / 'latest'}").folder
    assert evaluations(again) == expected
    assert attended == [9, 13]


@pytest.mark.long
def test_what_is_garbage_is_collected_at_every_evaluation(
    kept: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without, memory grows by pictures until Python comes to look for them."""
    frozen = []
    collect = gc.collect
    monkeypatch.setattr(gc, "collect", lambda: (frozen.append(gc.get_freeze_count()), collect())[1])
    kept.train("data.test=0")
    during = [count for count in frozen if count]
    assert len(during) == 3  # updates 5, 10 and 12
    assert gc.get_freeze_count() == 0


def test_weights_that_give_no_finite_loss_are_not_kept(kept: Workshop) -> None:
    with pytest.raises(UserError, match=r"loss is not finite .* lower training\.learning_rate"):
        kept.train("data.test=0", "training.learning_rate=1e30")
    assert RunFolder.open(kept.runs / "latest").checkpoints.steps() == []


def test_a_run_has_one_writer(kept: Workshop, at_update: AtUpdate) -> None:
    refused = []

    def resume() -> None:
        with pytest.raises(UserError, match=rf"is being written by process {os.getpid()} on") as it:
            kept.train(f"training.resume={kept.runs / 'latest'}")
        refused.append(it)

    at_update(6, resume)
    run = kept.train("data.test=0").folder
    assert len(refused) == 1
    assert not list(run.path.rglob(".lock"))


def test_a_damaged_checkpoint_is_passed_over(
    kept: Workshop, whole: Callable[[str], RunFolder], tmp_path: Path
) -> None:
    expected = whole("off")
    shutil.copytree(expected.path, tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    newest = run.checkpoints.path(12)
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    said = io.StringIO()
    kept.train(f"training.resume={run.path}", console=Console(file=said, soft_wrap=True))
    assert f"{newest} is damaged" in said.getvalue()
    assert "after update 10" in said.getvalue()
    arrays = latest(expected)[0]
    for name, array in latest(run)[0].items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)
    assert reported(run) == reported(expected)


@pytest.mark.long
def test_best_weights_that_a_kill_kept_back_are_written_at_the_resume(
    kept: Workshop, at_update: AtUpdate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(self: Saver) -> None:
        raise MemoryError("as if the power had gone")

    with monkeypatch.context() as patched:
        patched.setattr(Saver, "save_best", die)
        with pytest.raises(MemoryError):
            kept.train("data.test=0", "name=without best")
    run = RunFolder.open(kept.runs / "latest")
    assert not run.checkpoints.best.exists()
    (run.path / "checkpoints" / ".partial-1234-best.npz").write_bytes(b"half")
    averages = read_arrays(run.checkpoints.path(5))[0]
    found = []
    at_update(6, lambda: found.append(read_arrays(run.checkpoints.best)))
    kept.train(f"training.resume={run.path}")
    [(best, metadata)] = found
    assert metadata["best_step"] == metadata["step"] == 5
    for name, array in best.items():
        average = averages[name.replace("model/", "average/", 1)]
        np.testing.assert_array_equal(array, average, err_msg=name)
    assert not list(run.path.rglob(".partial-*"))


@pytest.mark.long
@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_a_session_that_ends_and_a_scheduler_stop_a_run(
    kept: Workshop,
    at_update: AtUpdate,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    save, handlers = Saver.save, []

    def save_and_observe(self: Saver) -> None:
        handlers.append(signal.getsignal(signal.SIGTERM))
        save(self)

    monkeypatch.setattr(Saver, "save", save_and_observe)
    at_update(3, lambda: os.kill(os.getpid(), number))
    run = kept.train("data.test=0")
    assert run.stopped_by == number
    assert run.folder.checkpoints.steps() == [3]
    [handler] = handlers
    assert callable(handler)  # a signal of another kind does not end the save


@pytest.mark.long
def test_without_dev_and_test_a_run_trains_all_the_same(kept: Workshop) -> None:
    run = kept.train("data.dev=0", "data.test=0")
    assert run.best_score is None
    assert not any(tag.startswith("dev/") for line in run.metrics for tag in line)
    assert run.evaluation is None
    assert run.folder.load_model().count_params() > 0


@pytest.mark.long
def test_one_pair_is_enough(tmp_path: Path, quiet_console: Console) -> None:
    overrides = [
        *tiny_overrides(tmp_path, lines=1),
        "data.dev=0",
        "data.test=0",
        "training.max_steps=60",
        "training.learning_rate=1e-2",
        "training.batch_tokens=64",
        "model.dropout=0",
        "training.evaluate_every=1000",
    ]
    run = fit(overrides, console=quiet_console)
    source, target = (tmp_path / "corpus.tsv").read_text(encoding="utf-8").strip().split("\t")
    assert run.translator().translate([source]) == [target]
