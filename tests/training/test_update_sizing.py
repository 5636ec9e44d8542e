"""Updates are worked on in micro-batches that fit into memory, and are the same updates."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from sample_configs import configured
from workshop import BackendStep

from nmt.config import TrainingConfig
from nmt.config.training import check_training
from nmt.data.batches import InMemoryBatches
from nmt.data.encoded import EncodedCorpus
from nmt.data.ragged import RaggedIds
from nmt.errors import UserError
from nmt.model.transformer import Transformer
from nmt.runs.building import build_model
from nmt.startup.devices import Gpu
from nmt.training import assembly, update_sizing
from nmt.training.components import AS_CONFIGURED, Components
from nmt.training.defaults import describe_choices, resolve_config
from nmt.training.job import Run
from nmt.training.process_group import ProcessGroup
from nmt.training.update_sizing import (
    CPU_UPDATE,
    EPOCH_UPDATES,
    EVALUATION_EPOCHS,
    LONGEST_INTERVAL,
    MIN_COPIES,
    SMALLEST_UPDATE,
    check_memory,
    choose_by_estimate,
    choose_by_trying,
    estimate_memory,
    is_out_of_memory,
    make_step_within_memory,
    size_updates,
    split_further,
    split_update,
)

if TYPE_CHECKING:
    from workshop import Workshop

pytest_plugins = ("workshop",)
pytestmark = pytest.mark.xdist_group("workshop")

VOCABULARY = 40
AUTO = ("training.batch_tokens=auto", "training.update_tokens=512", "training.row_lengths=[64]")


def memory_error() -> Exception:
    """Return what the backend raises when a device's memory is used up."""
    message = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes."
    if keras.config.backend() == "jax":
        import jax

        return jax.errors.JaxRuntimeError(message)
    import tensorflow as tf

    return tf.errors.ResourceExhaustedError(None, None, message)


@pytest.mark.backend
def test_only_what_says_that_memory_is_used_up_counts() -> None:
    assert is_out_of_memory(memory_error())
    other = type(memory_error())
    if keras.config.backend() == "jax":
        assert not is_out_of_memory(other("INTERNAL: a kernel failed"))
        assert is_out_of_memory(other("INTERNAL: an update failed: RESOURCE_EXHAUSTED"))
        assert is_out_of_memory(other("INTERNAL: out of memory"))
    assert not is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("RESOURCE_EXHAUSTED"))


@settings(deadline=None)  # the first one composes a configuration
@given(st.integers(64, 5000), st.integers(1, 80))
def test_micro_batches_change_and_updates_stay(tokens: int, micro_batches: int) -> None:
    config = replace(configured(*AUTO).training, update_tokens=tokens)
    split = split_update(config, micro_batches)
    assert split.positions_per_update == tokens
    assert isinstance(split.batch_tokens, int)
    assert (split.accumulate - 1) * split.batch_tokens < tokens
    assert split.accumulate * split.batch_tokens >= tokens
    check_training(split)  # what is stored can be gone on with
    assert split_update(split, split.accumulate) == split


def test_halves_come_to_an_end_at_one_row() -> None:
    trial = split_update(configured(*AUTO).training, 1)
    sizes = []
    while trial.accumulate < 8:
        trial = split_further(trial)
        sizes.append((trial.accumulate, trial.batch_tokens))
    assert sizes == [(2, 256), (4, 128), (8, 64)]
    with pytest.raises(UserError, match="micro-batch of one row"):
        split_further(trial)
    odd = replace(configured(*AUTO).training, update_tokens=513)
    assert split_further(split_update(odd, 1)).accumulate == 2


@pytest.mark.parametrize(("most", "expected"), [(512, 1), (511, 2), (200, 4), (64, 8)])
def test_the_fewest_micro_batches_that_fit_are_found(most: int, expected: int) -> None:
    def fits(trial: TrainingConfig) -> bool:
        assert isinstance(trial.batch_tokens, int)
        return trial.batch_tokens <= most

    assert choose_by_trying(configured(*AUTO).training, fits).accumulate == expected


@pytest.mark.parametrize("tokens", [512, 25_000])  # 390 rows of 64, and a rest
def test_a_row_that_never_fits_is_said(tokens: int) -> None:
    tried: list[TrainingConfig] = []
    config = replace(configured(*AUTO).training, update_tokens=tokens)
    with pytest.raises(UserError, match="micro-batch of one row"):
        choose_by_trying(config, lambda trial: bool(tried.append(trial)))
    assert tried[-1].batch_tokens == 64
    assert {trial.positions_per_update for trial in tried} == {tokens}


def test_the_estimate_is_of_what_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    config = resolve_config(configured(*AUTO), pairs=40)
    needed = [estimate_memory(config, VOCABULARY, count) for count in range(1, 9)]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] > needed[-1]
    assert needed[3] == needed[6] > needed[7], "of 8 rows in 7 micro-batches, two share one"
    for count in (1, 2, 5, 8):
        room = needed[count - 1] / (1 - update_sizing.FREE_SHARE) + 1
        monkeypatch.setattr(update_sizing, "available_memory", lambda room=room: room)
        assert choose_by_estimate(config, VOCABULARY) == needed.index(needed[count - 1]) + 1
    monkeypatch.setattr(update_sizing, "available_memory", lambda: needed[-1] / 2)
    with pytest.raises(UserError, match=r"batch_tokens=auto: one row needs .* GB of memory"):
        choose_by_estimate(config, VOCABULARY)


def test_the_estimate_follows_rows_precision_and_parallel_parts() -> None:
    config = resolve_config(configured(*AUTO), pairs=40)

    def estimate(**changes: Any) -> int:
        training = replace(config.training, **({"parallel_parts": 1} | changes))
        return estimate_memory(replace(config, training=training), VOCABULARY, 1)

    parameters = update_sizing._count_parameters(config, VOCABULARY)
    assert estimate(parallel_parts=3) - estimate() == 2 * parameters * 4, "their gradients"
    short, long = estimate(row_lengths=[16]), estimate(row_lengths=[64])
    assert short < estimate(row_lengths=[16, 64]) == estimate(row_lengths=[64, 16]) == long
    precise, half = estimate(precision="float32"), estimate(precision="bfloat16")
    assert estimate(precision="float16") == half < precise
    assert half > update_sizing.PROGRAMS + update_sizing.COPIES * parameters * 4


def test_a_model_that_memory_has_no_room_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = resolve_config(configured("model=tiny", "model.d_model=100000"), pairs=40)
    with pytest.raises(UserError, match=r"parameters, which need at least [\d,]+\.\d GB of memory"):
        assembly._build_model(huge, VOCABULARY, AS_CONFIGURED, Console(quiet=True))
    config = resolve_config(configured("model=tiny"), pairs=40)
    parameters = build_model(config, VOCABULARY, precision="float32").count_params()
    for copies, changed, components in (
        (MIN_COPIES, config, AS_CONFIGURED),
        (1, config, Components(optimizer=keras.optimizers.SGD())),
        (1, replace(config, training=replace(config.training, freeze=["*"])), AS_CONFIGURED),
        (1, replace(config, model=replace(config.model, lora_rank=2)), AS_CONFIGURED),
    ):
        needed = copies * parameters * 4
        monkeypatch.setattr(update_sizing, "available_memory", lambda needed=needed: needed)
        check_memory(changed, VOCABULARY, components)
        monkeypatch.setattr(update_sizing, "available_memory", lambda needed=needed: needed - 1)
        with pytest.raises(UserError, match=f"the model has {parameters:,} parameters"):
            check_memory(changed, VOCABULARY, components)
    check_memory(config, VOCABULARY, Components(model=Transformer))  # its sizes may be others
    monkeypatch.setattr(update_sizing, "gpus", lambda: [Gpu("T4", (7, 5))])
    check_memory(config, VOCABULARY, AS_CONFIGURED)


def test_a_gpu_is_tried_and_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a GPU without room for more than 128 positions a side."""
    tried: list[int] = []
    update = BackendStep.update

    def fail_if_large(self: Any, batch: Any, *more: Any) -> Any:
        tried.append(self._config.accumulate)
        if self._config.batch_tokens > 128:
            raise memory_error()
        return update(self, batch, *more)

    monkeypatch.setattr(update_sizing, "gpus", lambda: [Gpu("T4", (7, 5))])
    monkeypatch.setattr(BackendStep, "update", fail_if_large)
    overrides = (*AUTO, "model=tiny", "training.jit_compile=off", "training.parallel_parts=1")
    config = resolve_config(configured(*overrides), pairs=40)
    model = build_model(config, VOCABULARY, precision="float32")
    before = {name: np.array(weight) for name, weight in model.named_weights().items()}
    ids = RaggedIds.of([np.arange(4, 20, dtype=np.int32)] * 40)
    planned = InMemoryBatches(EncodedCorpus(ids, ids), row_lengths=[64], positions=512, seed=1)
    step, settled = make_step_within_memory(model, config, [planned], ProcessGroup())
    assert tried == [1, 2, 4]
    assert (settled.training.accumulate, settled.training.batch_tokens) == (4, 128)
    assert step._config == settled.training  # type: ignore[attr-defined]
    state = step.state()
    for name, value in before.items():
        np.testing.assert_array_equal(state[f"model/{name}"], value)
    assert not any(array.any() for name, array in state.items() if "optimizer/0002" in name)


def make_stage(*row_lengths: int) -> Any:
    """Return what a trial needs of a stage; a batch is its row length and its rows."""
    shapes = [(1, length) for length in row_lengths]
    return SimpleNamespace(
        shapes=shapes, assemble=lambda index, rows: (shapes[index][1], rows.tolist())
    )


def run_trials(
    monkeypatch: pytest.MonkeyPatch, errors: list[Exception | None], calls: list[Any]
) -> None:
    """Record what is called on a step, whose losses fail with these errors once they are read."""

    class Loss:
        def __float__(self) -> float:
            if error := errors.pop(0):
                calls.append(type(error))
                raise error
            return 1.0

    def update(batch: Any, rate: float, step: int) -> Any:
        calls.append((batch, rate))
        return SimpleNamespace(nll=Loss())

    step = SimpleNamespace(
        state=lambda: "before",
        reconfigure=lambda training: calls.append(training.accumulate),
        update=update,
        restore=calls.append,
    )
    monkeypatch.setattr(update_sizing, "gpus", lambda: [Gpu("T4", (7, 5))])
    monkeypatch.setattr(
        update_sizing, "backend", SimpleNamespace(make_step=lambda *config, **more: step)
    )
    config = configured("training.batch_tokens=auto", "training.update_tokens=512")
    model: Any = None
    stages = [make_stage(64), make_stage(16, 128), make_stage(32)]
    make_step_within_memory(model, config, stages, ProcessGroup())


def test_a_trial_has_one_of_the_longest_rows_and_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    error, trial = memory_error(), ((128, [0]), 0.0)
    calls: list[Any] = []
    run_trials(monkeypatch, [error, None], calls)
    assert calls == [1, trial, type(error), "before", 2, trial, "before"]


def test_a_trial_that_fails_for_another_reason_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Any] = []
    with pytest.raises(RuntimeError, match="a kernel failed"):
        run_trials(monkeypatch, [RuntimeError("a kernel failed"), None], calls)
    assert calls[2:] == [RuntimeError, "before"]


@pytest.mark.parametrize(("gpu", "micro_batches"), [(False, 7), (True, 1)])
def test_processes_agree_on_micro_batches_without_trying(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, micro_batches: int
) -> None:
    """The process with the least memory decides; a trial could fail in one process alone."""
    steps: list[TrainingConfig] = []
    monkeypatch.setattr(update_sizing, "gpus", lambda: [Gpu("T4", (7, 5))] * gpu)
    monkeypatch.setattr(update_sizing, "choose_by_estimate", lambda config, size: 3)
    monkeypatch.setattr(
        update_sizing,
        "backend",
        SimpleNamespace(make_step=lambda model, config, **more: steps.append(config)),
    )
    monkeypatch.setattr(ProcessGroup, "all_gather", lambda group, own: [own, own if gpu else 7])
    config = resolve_config(configured(*AUTO), pairs=40)
    model: Any = SimpleNamespace(vocabulary_size=VOCABULARY)
    _, fitted = make_step_within_memory(model, config, [], ProcessGroup(processes=2))
    assert steps == [fitted.training]
    assert fitted.training == split_update(config.training, micro_batches)


def plan_of(tokens: int) -> Any:
    """Return what the choice needs of the batches of a corpus with so many tokens per side."""
    return SimpleNamespace(tokens_per_epoch=2 * tokens)


def fitted_to(tokens: int, *overrides: str) -> TrainingConfig:
    config = configured("size=l", *overrides)
    return size_updates(config, [plan_of(tokens)]).training


@settings(deadline=None)  # the first one composes a configuration
@given(st.integers(1, 10**8))
def test_the_corpus_determines_an_open_update(tokens: int) -> None:
    update = fitted_to(tokens).positions_per_update
    assert SMALLEST_UPDATE <= update <= 8192
    if update < 8192:
        assert tokens < (EPOCH_UPDATES + 1) * 8192
    if update > SMALLEST_UPDATE:
        assert tokens // update >= EPOCH_UPDATES


def test_a_stage_of_few_pairs_determines_the_update() -> None:
    config = configured("size=l")
    large, small = plan_of(10**8), plan_of(10**5)
    both = size_updates(config, [large, small])
    assert both == size_updates(config, [small]) != size_updates(config, [large])


@pytest.mark.parametrize(
    ("override", "positions"),
    [
        ("training.batch_tokens=4096", 4096),
        ("training.update_tokens=4096", 4096),
        ("training.row_lengths=[64,1024]", 1024),
    ],
)
def test_a_given_update_stays_and_holds_the_longest_row(override: str, positions: int) -> None:
    model = "model.max_length=1024"
    assert fitted_to(1000, override, model).positions_per_update == positions


def test_an_open_interval_of_evaluations_is_some_epochs() -> None:
    intervals = [fitted_to(tokens).evaluate_every or 0 for tokens in (10**3, 10**4, 10**5, 10**8)]
    assert intervals == sorted(intervals)
    assert len(set(intervals)) == 4
    assert intervals[0] == EVALUATION_EPOCHS * 2, "updates of 512, the second one in part"
    assert intervals[-1] == LONGEST_INTERVAL
    assert fitted_to(10**3, "training.evaluate_every=77").evaluate_every == 77


def test_updates_are_small_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for gpus, positions in (([], CPU_UPDATE), ([Gpu("T4", (7, 5))], 8192)):
        monkeypatch.setattr("nmt.training.defaults.gpus", lambda gpus=gpus: gpus)
        resolved = resolve_config(configured("size=l"), pairs=40)
        assert resolved.training.positions_per_update == positions
    monkeypatch.setattr("nmt.training.defaults.gpus", list)
    given = configured("size=l", "training.update_tokens=4096")
    assert resolve_config(given, pairs=40).training.positions_per_update == 4096


def test_without_a_number_to_find_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[TrainingConfig] = []
    config = resolve_config(configured(), pairs=40)
    monkeypatch.setattr(
        update_sizing,
        "backend",
        SimpleNamespace(make_step=lambda model, config, **more: configs.append(config)),
    )
    model: Any = None
    assert make_step_within_memory(model, config, [], ProcessGroup()) == (None, config)
    assert configs == [config.training]


LIMITS = (
    "data.test=0",
    "training.max_steps=6",
    "training.evaluate_every=3",
    "training.log_every=1",
)


def losses(run: Run) -> list[tuple[int, float]]:
    return [(line["step"], line["train/loss"]) for line in run.metrics if "train/loss" in line]


@pytest.fixture(scope="module")
def undisturbed(shop: Workshop) -> Run:
    """A run with enough memory."""
    with shop.keeping():
        return shop.train("name=undisturbed", *LIMITS)


@pytest.fixture
def without_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let one update find no memory, once."""
    update = BackendStep.update

    def arrange(number: int, *, intact: bool = True) -> None:
        left = [number]

        def failing(self: Any, batch: Any, rate: float, step: int, *more: Any) -> Any:
            if [step] == left:
                left.clear()
                raise memory_error()
            return update(self, batch, rate, step, *more)

        monkeypatch.setattr(BackendStep, "update", failing)
        monkeypatch.setattr(BackendStep, "is_intact", lambda self: intact)

    return arrange


@pytest.mark.backend
@pytest.mark.parametrize("intact", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_run_goes_on_in_smaller_parts_and_learns_the_same(
    kept: Workshop, undisturbed: Run, without_memory: Callable[..., None], capsys: Any, intact: bool
) -> None:
    """Where the state is lost, from the last checkpoint."""
    without_memory(5, intact=intact)
    console = Console(width=200, markup=False)
    run = kept.train("name=short", *LIMITS, console=console)
    start = 4 if intact else 3
    line = f"out of memory after update 4; continuing after update {start} with micro-batches of 64"
    assert line in capsys.readouterr().out
    steps, values = zip(*losses(run), strict=True)
    assert steps == (1, 2, 3, 4, 5, 6)
    np.testing.assert_allclose(values, [loss for _, loss in losses(undisturbed)], rtol=1e-6)
    config = run.folder.config.training
    assert (config.accumulate, config.batch_tokens, config.update_tokens) == (4, 64, 256)


@pytest.mark.backend
@pytest.mark.parametrize("what", ["update", "evaluate"])
def test_out_of_memory_undoes_the_update(
    kept: Workshop, undisturbed: Run, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Neither an update that was made before it failed, nor half an evaluation."""
    method, failed = getattr(BackendStep, what), []

    def failing(self: Any, *arguments: Any) -> Any:
        result = method(self, *arguments)
        if not failed:
            failed.append(True)
            raise memory_error()
        return result

    monkeypatch.setattr(BackendStep, what, failing)
    run = kept.train("name=short", *LIMITS)
    assert [line["step"] for line in run.metrics] == [line["step"] for line in undisturbed.metrics]
    for row, expected in zip(run.metrics, undisturbed.metrics, strict=True):
        for tag in {"train/loss", "dev/loss"} & set(expected):
            assert row[tag] == pytest.approx(expected[tag], rel=1e-6)
    assert run.folder.config.training.accumulate == 4


class Lost:
    """A value of an update that has failed."""

    def __bool__(self) -> bool:
        raise memory_error()


def test_out_of_memory_reported_late_redoes_the_update(
    kept: Workshop, undisturbed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On JAX an update fails when what it measured is read, and the state is lost with it."""
    update, failed = BackendStep.update, []

    def failing(self: Any, batch: Any, rate: float, step: int, *more: Any) -> Any:
        result = update(self, batch, rate, step, *more)
        if step == 5 and not failed:
            failed.append(True)
            return result._replace(skipped=Lost())
        return result

    monkeypatch.setattr(BackendStep, "update", failing)
    monkeypatch.setattr(BackendStep, "is_intact", lambda self: False)
    run = kept.train("name=short", *LIMITS)
    steps, values = zip(*losses(run), strict=True)
    assert steps == (1, 2, 3, 4, 5, 6)
    np.testing.assert_allclose(values, [loss for _, loss in losses(undisturbed)], rtol=1e-6)


def test_a_resumed_run_takes_other_micro_batches_of_the_same_updates(
    kept: Workshop, undisturbed: Run
) -> None:
    half = kept.train("name=half", *LIMITS, "training.max_steps=3")
    more = ("training.max_steps=6", "training.batch_tokens=64")
    run = kept.train(f"training.resume={half.path}", *more)
    np.testing.assert_allclose(
        [loss for _, loss in losses(run)], [loss for _, loss in losses(undisturbed)], rtol=1e-6
    )
    config = run.folder.config.training
    assert (config.accumulate, config.batch_tokens, config.update_tokens) == (4, 64, 256)


@pytest.mark.long
def test_out_of_memory_without_a_checkpoint_names_the_remedy(
    kept: Workshop, without_memory: Callable[..., None]
) -> None:
    without_memory(2, intact=False)
    with pytest.raises(UserError, match=r"out of memory after update 1; .*accumulate=4"):
        kept.train("name=lost", *LIMITS)


def test_what_a_size_chooses_is_printed_and_recorded(kept: Workshop) -> None:
    output = io.StringIO()
    open_keys = ("training.batch_tokens=auto", "training.accumulate=1", "training.max_steps=1")
    run = kept.train(
        *("size=l", "tokenizer.vocabulary_size=8000", "training.evaluate_every=null", *open_keys),
        "data.test=0",
        console=Console(file=output, width=1000),
    )
    [line] = [each for each in output.getvalue().splitlines() if each.startswith("chose: ")]
    config = run.folder.config
    assert line == describe_choices(config)
    assert "learning_rate" not in describe_choices(config, has_own_rate=True)
    assert config.tokenizer.vocabulary_size == run.folder.load_tokenizer().vocabulary_size < 8000
    assert config.training.positions_per_update == SMALLEST_UPDATE
    assert config.training.evaluate_every is not None
    assert config.training.evaluate_every < LONGEST_INTERVAL


def test_a_run_finds_its_micro_batches_by_itself(kept: Workshop) -> None:
    overrides = (
        "training.batch_tokens=auto",
        "training.update_tokens=256",
        "training.accumulate=1",
    )
    run = kept.train("name=auto", *LIMITS, *overrides)
    config = run.folder.config.training
    assert (config.accumulate, config.batch_tokens, config.update_tokens) == (1, 256, 256)
