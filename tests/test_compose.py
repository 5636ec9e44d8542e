"""A bad command line ends in one line that names the culprit; a resumed run stays the same run."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from nmt.config import command_line as compose
from nmt.config import files
from nmt.config import Config
from nmt.errors import UserError


def composed(*overrides: str) -> DictConfig:
    """Return what the command line would compose."""
    return copy.deepcopy(_composed(*overrides))


@cache
def _composed(*overrides: str) -> DictConfig:
    configuration.register()
    with initialize_config_dir(str(configuration.conf_dir().resolve()), version_base="1.3"):
        return hydra_compose("train", overrides=list(overrides))


def complaint(attempt: Callable[[], Any]) -> str:
    """Return the message of the `UserError`, which must be one line."""
    with pytest.raises(UserError) as caught:
        attempt()
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


# --- Errors of composition --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("data.kin=tsv", "unknown configuration key 'data.kin'; did you mean 'data.kind'?"),
        (
            "training.max_minuts=3",
            "unknown configuration key 'training.max_minuts'; did you mean 'training.max_minutes'?",
        ),
        ("seeed=3", "unknown configuration key 'seeed'; did you mean 'seed'?"),
        ("modell=base", "unknown configuration key 'modell'; did you mean 'model'?"),
        ("tokeniser=bpe", "unknown configuration key 'tokeniser'; did you mean 'tokenizer'?"),
        ("model=bse", "there is no model 'bse'; did you mean 'base'?"),
        ("data=tatoebe", "there is no data 'tatoebe'; did you mean 'tatoeba'?"),
        ("decoding=xyz", "there is no decoding 'xyz'; there is: beam, greedy"),
    ],
)
def test_a_misspelling_is_corrected(override: str, expected: str) -> None:
    assert complaint(compose.guarded(lambda: composed(override))) == expected


@pytest.mark.parametrize(
    ("override", "fragments"),
    [
        ("experiment=foo", ["there is no experiment 'foo'"]),
        ("model.d_model=abc", ["configuration key 'model.d_model'", "abc", "Integer"]),
        ("model.remat=maybe", ["configuration key 'model.remat'", "maybe"]),
        ("training.learning_rate=fast", ["configuration key 'training.learning_rate'", "fast"]),
        ("training.learning_rate=[1,2]", ["configuration key 'training.learning_rate'"]),
        ("model.d_model=null", ["configuration key 'model.d_model'"]),
        ("seed=1.5", ["configuration key 'seed'"]),
        ("training.row_lengths=64", ["configuration key 'training.row_lengths'"]),
        ("training.row_lengths=[64,abc]", ["configuration key 'training.row_lengths", "abc"]),
        ("data.columns=[a,b]", ["configuration key 'data.columns"]),
        ("model.d_model.x=1", ["model.d_model"]),
        ("dataa.kind=tsv", ["unknown configuration key 'dataa", "did you mean 'data"]),
        ("~model.d_model", ["model.d_model"]),
        ("model=null", ["model"]),
        ("data=3", ["data"]),
        ("training.probes=[null]", ["configuration key 'training.probes"]),
        ("model.d_model", ["model.d_model"]),
        ("data", ["data"]),
        ("=3", ["groups"]),
        ("model.d_model=[1", ["[1"]),
        ("name='a", ["'a"]),
        ("data.kind=a b: {", ["a b: {"]),
    ],
)
def test_a_bad_override_is_named_in_one_line(override: str, fragments: list[str]) -> None:
    message = complaint(compose.guarded(lambda: composed(override)))
    for fragment in fragments:
        assert fragment in message
    if fragments[0].startswith("configuration key"):
        assert "unknown" not in message
    for advice in ("HYDRA_FULL_ERROR", "To append to your", "object_type", "Traceback"):
        assert advice not in message


def test_the_cause_counts_not_its_wrapping() -> None:
    with pytest.raises(ConfigCompositionException) as caught:
        composed("data.kin=tsv")
    assert isinstance(caught.value.__cause__, OmegaConfBaseException)
    assert compose.one_line(caught.value) == compose.one_line(caught.value.__cause__)


def test_lines_of_other_errors_are_joined() -> None:
    assert compose.one_line(HydraException("one\n  two\n\tthree")) == "one two three"


def test_guarded_lets_bugs_and_results_through() -> None:
    def bug() -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        compose.guarded(bug)()
    done: list[int] = []
    compose.guarded(lambda: done.append(1))()
    assert done == [1]


# --- Resuming ---------------------------------------------------------------------------------


class Run:
    """A run folder made by hand: a configuration and, by its name, a checkpoint."""

    def __init__(self, path: Path, *overrides: str, step: int | None = 300) -> None:
        self.path = path
        self.config = replace(
            configuration.from_composed(composed("model=tiny", "seed=5", *overrides)),
            runs_dir=str(path.parent),
        )
        (path / "checkpoints").mkdir(parents=True)
        configuration.save(self.config, path / "config.yaml")
        if step is not None:
            (path / "checkpoints" / f"step_{step:08d}.npz").touch()

    def resume(self, *overrides: str) -> Config:
        return resume(self.path, *overrides)


def resume(path: Path | str, *overrides: str) -> Config:
    """Return what `nmt.train training.resume=PATH` would go on with."""
    return job(f"training.resume={path}", *overrides)


def job(*overrides: str) -> Config:
    return compose.job_config(composed(*overrides), list(overrides))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nobody may change: the tests share it."""
    return Run(tmp_path_factory.mktemp("made") / "runs" / "one")


def differences(one: Config, other: Config) -> dict[str, Any]:
    """Return the keys in which two configurations differ, with the second one's values."""
    before = dict(configuration.flatten(one))
    return {key: value for key, value in configuration.flatten(other) if value != before[key]}


def test_a_new_run_takes_every_override() -> None:
    overrides = ["model=tiny", "seed=9", "training.batch_tokens=512"]
    config = job(*overrides)
    assert config == configuration.from_composed(composed(*overrides))
    assert (config.seed, config.model.name, config.training.resume) == (9, "tiny", None)


def test_a_new_run_is_checked() -> None:
    assert "model.num_heads=3" in complaint(lambda: job("model.num_heads=3"))


def test_a_resumed_run_keeps_its_configuration(run: Run) -> None:
    """Whatever the files in conf/ choose: the run was made with other values."""
    assert run.config.seed == 5
    assert differences(run.config, run.resume()) == {"training.resume": str(run.path)}


CHANGES: list[tuple[str, str, Any]] = [
    ("training.max_steps=1000", "training.max_steps", 1000),
    ("training.max_epochs=2.5", "training.max_epochs", 2.5),
    ("training.max_minutes=99", "training.max_minutes", 99.0),
    ("training.early_stopping=null", "training.early_stopping", None),
    ("training.log_every=7", "training.log_every", 7),
    ("training.evaluate_every=7", "training.evaluate_every", 7),
    ("training.evaluation_sentences=7", "training.evaluation_sentences", 7),
    ("training.keep_checkpoints=7", "training.keep_checkpoints", 7),
    ("training.samples=7", "training.samples", 7),
    ("training.probes=['Hola.','Adiós.']", "training.probes", ["Hola.", "Adiós."]),
    ("training.probe_every=7", "training.probe_every", 7),
    ("training.attention_every=7", "training.attention_every", 7),
    ("training.jit_compile=off", "training.jit_compile", "off"),
    ("++training.log_every=7", "training.log_every", 7),
    ("decoding.beam_size=7", "decoding.beam_size", 7),
    ("decoding.length_penalty=1", "decoding.length_penalty", 1.0),
    ("cache_dir=elsewhere", "cache_dir", "elsewhere"),
    ("data.archive=a.zip", "data.archive", "a.zip"),
    ("data.rejected_file=r.txt", "data.rejected_file", "r.txt"),
]


@pytest.mark.parametrize(("override", "key", "value"), CHANGES)
def test_what_a_resumed_run_may_change(run: Run, override: str, key: str, value: Any) -> None:
    at = f"training.resume={run.path}"
    # Every key stands in what was composed; what was not asked for must not be taken over.
    everything = {key: override for override, key, _ in CHANGES if not override.startswith("+")}
    config = compose.job_config(
        composed(at, *(everything | {key: override}).values()), [at, override]
    )
    assert differences(run.config, config) == {"training.resume": str(run.path), key: value}


def test_one_of_two_limits_can_be_lifted(tmp_path: Path) -> None:
    """The run has its own max_steps; that conf/ has none does not matter."""
    run = Run(tmp_path / "runs" / "one", "training.max_steps=500", "training.max_minutes=8")
    config = run.resume("training.max_minutes=null")
    assert (config.training.max_steps, config.training.max_minutes) == (500, None)


def test_several_changes_at_once(run: Run) -> None:
    config = run.resume("training.max_steps=900", "decoding.beam_size=2", "training.samples=3")
    assert differences(run.config, config) == {
        "training.resume": str(run.path),
        "training.max_steps": 900,
        "decoding.beam_size": 2,
        "training.samples": 3,
    }


def test_corpus_files_may_have_moved(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one", "data=tsv", "data.path=old.tsv")
    changes = differences(run.config, run.resume("data.path=new.tsv"))
    assert changes == {"training.resume": str(run.path), "data.path": "new.tsv"}
    run = Run(
        tmp_path / "runs" / "two", "data=parallel", "data.source_path=a", "data.target_path=b"
    )
    changes = differences(run.config, run.resume("data.source_path=c", "data.target_path=d"))
    assert changes == {
        "training.resume": str(run.path),
        "data.source_path": "c",
        "data.target_path": "d",
    }


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("seed=6", "seed"),
        ("seed=5", "seed"),  # what it has already, but it cannot be a wish
        ("name=other", "name"),
        ("model=base", "model"),
        ("model.d_model=128", "model.d_model"),
        ("tokenizer=bpe", "tokenizer"),
        ("tokenizer.vocabulary_size=100", "tokenizer.vocabulary_size"),
        ("data=tatoeba", "data"),
        ("data.dev=5", "data.dev"),
        ("data.split_seed=2", "data.split_seed"),
        ("data.columns=[1,0]", "data.columns"),
        ("training.batch_tokens=512", "training.batch_tokens"),
        ("training.row_lengths=[32]", "training.row_lengths"),
        ("training.accumulate=2", "training.accumulate"),
        ("training.learning_rate=1e-4", "training.learning_rate"),
        ("training.schedule=constant", "training.schedule"),
        ("training.precision=float32", "training.precision"),
        ("training.ema_decay=0.9", "training.ema_decay"),
        ("++training.label_smoothing=0", "training.label_smoothing"),
    ],
)
def test_what_would_make_it_another_run_is_refused(run: Run, override: str, key: str) -> None:
    given = [f"training.resume={run.path}", "training.max_steps=900"]
    message = complaint(lambda: compose.job_config(composed(*given), [*given, override]))
    assert f"keeps its {key}:" in message
    assert str(run.path / "config.yaml") in message


def test_a_wrong_value_is_refused_on_resuming_too(run: Run) -> None:
    assert "training.max_steps" in complaint(lambda: run.resume("training.max_steps=0"))
    assert "decoding.beam_size=0" in complaint(lambda: run.resume("decoding.beam_size=0"))


def test_the_run_on_disk_is_not_touched(run: Run) -> None:
    before = (run.path / "config.yaml").read_bytes()
    run.resume("training.max_steps=900")
    assert (run.path / "config.yaml").read_bytes() == before


def test_latest_is_looked_for_among_the_runs(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one")
    (run.path.parent / "latest").symlink_to(run.path.name, target_is_directory=True)
    config = resume("latest", f"runs_dir={run.path.parent}")
    assert differences(run.config, config) == {"training.resume": str(run.path)}


def test_the_run_that_was_checked_is_the_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run folder was moved: its stored runs_dir is no longer where it lies."""
    monkeypatch.chdir(tmp_path)
    made = Run(tmp_path / "before" / "one")
    made.path.parent.rename(tmp_path / "runs")
    (tmp_path / "runs" / "latest").symlink_to("one", target_is_directory=True)
    config = resume("latest")
    assert config.training.resume == str(tmp_path / "runs" / "one")


def test_a_missing_run(run: Run) -> None:
    message = complaint(lambda: resume(run.path.with_name("onne")))
    assert f"there is no run {run.path.with_name('onne')}" in message
    assert "did you mean 'one'?" in message


def test_no_run_at_all(tmp_path: Path) -> None:
    message = complaint(lambda: resume(tmp_path / "runs" / "one"))
    assert "there is no run" in message
    assert "python -m nmt.train" in message
    message = complaint(lambda: resume("latest", f"runs_dir={tmp_path}"))
    assert f"there is no run {tmp_path / 'latest'}" in message


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    message = complaint(lambda: resume(tmp_path))
    assert f"{tmp_path} is not a run folder" in message


def test_a_run_without_a_checkpoint(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one", step=None)
    message = complaint(run.resume)
    assert f"{run.path} cannot be resumed" in message
    assert "no checkpoint" in message


def test_a_run_with_a_damaged_configuration(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one")
    path = run.path / "config.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("d_model:", "d_modle:"), "utf-8")
    message = complaint(run.resume)
    assert str(path) in message or "model.d_modle" in message
