"""An invalid command line ends in one line that names the cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException
from sample_configs import composed, configured, job
from sample_corpora import complaint

from nmt.config.command_line import (
    check_arguments,
    check_single_run,
    compose_raw,
    convert_hydra_errors,
    explain_hydra_error,
    put_flags_first,
)
from nmt.config.files import conf_dir, from_composed
from nmt.runs.resuming import compose_config

pytestmark = pytest.mark.xdist_group("configurations")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("data.nam=x", "unknown configuration key 'data.nam'; did you mean 'data.name'?"),
        (
            "training.max_minuts=3",
            "unknown configuration key 'training.max_minuts'; did you mean 'training.max_minutes'?",
        ),
        ("seeed=3", "unknown configuration key 'seeed'; did you mean 'seed'?"),
        ("nosuch=3", "unknown configuration key 'nosuch'; --help lists the keys"),
        ("modell=base", "unknown configuration key 'modell'; did you mean 'model'?"),
        ("tokeniser=bpe", "unknown configuration key 'tokeniser'; did you mean 'tokenizer'?"),
        ("model=bse", "unknown model 'bse'; did you mean 'base'?"),
        ("data=tatoebe", "unknown data 'tatoebe'; did you mean 'tatoeba'?"),
        ("decoding=xyz", "unknown decoding 'xyz'; choose from: beam, greedy"),
        (
            "model/heads=one",
            "unknown configuration key 'model/heads'; options in folders are chosen as "
            "model=heads/NAME",
        ),
        (
            "data=my.tsv",
            "unknown data 'my.tsv'; a file of pairs is chosen as data=files data.train=my.tsv",
        ),
        (
            "data.stages=[{steps: 5, typo: 3}]",
            "data.stages: unknown key 'typo'; choose from: minutes, plateau, share, steps, weights",
        ),
    ],
)
def test_a_misspelling_is_corrected(override: str, expected: str) -> None:
    assert complaint(convert_hydra_errors()(lambda: composed(override))) == expected


@pytest.mark.parametrize(
    ("override", "fragments"),
    [
        ("experiment=foo", ["unknown experiment 'foo'"]),
        ("model.d_model=abc", ["model.d_model must be a whole number, got abc"]),
        ("model.remat=maybe", ["model.remat must be true or false, got maybe"]),
        ("training.learning_rate=[1,2]", ["training.learning_rate must be a number, or null, got"]),
        ("training.max_minutes=four", ["training.max_minutes must be a number, or null, got four"]),
        ("model.d_model=null", ["model.d_model must be a whole number, got null"]),
        ("seed=1.5", ["seed must be a whole number, got 1.5"]),
        ("seed=", ["seed must be a whole number, got ''"]),
        ("tokenizer.kind=[1]", ["tokenizer.kind must be text, got [1]"]),
        ("training.row_lengths=64", ["training.row_lengths must be a list, as in training.row_"]),
        ("training.probes=hola", ["training.probes must be a list, as in training.probes=[VALUE]"]),
        ("data.sources.written.columns=3", ["data.sources.written.columns must be a list"]),
        ("training.row_lengths=[64,abc]", ["training.row_lengths[1] must be a whole number, got"]),
        ("data.stages=[{steps: b}]", ["data.stages: steps must be a whole number, or null, got b"]),
        ("data.columns=[a,b]", ["data.columns=['a', 'b']: no source of data=phrasebook reads it"]),
        ("model.d_model.x=1", ["model.d_model"]),
        ("dataa.name=tsv", ["unknown configuration key 'dataa", "did you mean 'data"]),
        ("~model.d_model", ["model.d_model"]),
        (
            "model.kind=rn",
            ["model.kind must be one of transformer, rnn, got rn"],
        ),
        ("model.cell=gru", ["configuration key 'model.cell' needs model.kind=rnn"]),
        ("model=null", ["model"]),
        ("data=3", ["data"]),
        ("training.probes=[null]", ["configuration key 'training.probes"]),
        ("model.d_model", ["model.d_model"]),
        ("data", ["data"]),
        ("=3", ["groups"]),
        ("model.d_model=[1", ["[1"]),
        ("name='a", ["'a"]),
        ("data.name=a b: {", ["a b: {"]),
    ],
)
def test_a_bad_override_is_named_in_one_line(override: str, fragments: list[str]) -> None:
    message = complaint(convert_hydra_errors()(lambda: from_composed(composed(override))))
    for fragment in fragments:
        assert fragment in message
    if fragments[0].startswith("configuration key"):
        assert "unknown" not in message
    for advice in ("HYDRA_FULL_ERROR", "To append to your", "object_type", "Traceback"):
        assert advice not in message


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "seed=1,2",
            "seed takes one value, got 1,2; to train one run per value: "
            "python -m nmt.train -m seed=1,2",
        ),
        (
            "model=small,base",
            "model takes one value, got small,base; to train one run per value: "
            "python -m nmt.train -m model=small,base",
        ),
        (
            "training.row_lengths=32,64",
            "training.row_lengths takes a list in brackets: 'training.row_lengths=[32,64]'",
        ),
        ("model.lora_on=a,b", "model.lora_on takes a list in brackets: 'model.lora_on=[a,b]'"),
        (
            "+data.tests.news=a.de,a.en",
            "data.tests.news takes one table of pairs: to make one of two files: "
            "paste a.de a.en > FILE.tsv",
        ),
    ],
)
def test_several_values_are_for_sweeps(override: str, expected: str) -> None:
    assert complaint(lambda: compose_raw([override])) == expected


def test_a_plugin_that_is_not_installed_is_named_with_its_extra() -> None:
    error = MissingConfigException("not found", "hydra/sweeper/optuna", ["basic"])
    assert explain_hydra_error(error) == (
        "hydra/sweeper=optuna needs another package: pip install 'nmt[sweep]'"
    )


def test_a_single_run_is_no_sweep() -> None:
    check_single_run(["experiment=tatoeba_10m", "data.archive=x.zip"])
    message = complaint(lambda: check_single_run(["experiment=compare_norms"]))
    assert message.startswith("this experiment is a sweep of several runs: start it by")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("seed=1,2", "seed takes one value, got 1,2: nmt.prepare makes one corpus at a time"),
        (
            "prepare.row_lengths=8,16",
            "prepare.row_lengths takes a list in brackets: 'prepare.row_lengths=[8,16]'",
        ),
    ],
)
def test_a_preparation_is_not_swept(override: str, expected: str) -> None:
    def prepare() -> None:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            compose("prepare", [override])

    assert complaint(convert_hydra_errors("prepare")(prepare)) == expected


def test_the_cause_counts_not_its_wrapping() -> None:
    with pytest.raises(ConfigCompositionException) as caught:
        composed("data.nam=x")
    assert isinstance(caught.value.__cause__, OmegaConfBaseException)
    assert explain_hydra_error(caught.value) == explain_hydra_error(caught.value.__cause__)


def test_lines_of_other_errors_are_joined() -> None:
    assert explain_hydra_error(HydraException("one\n  two\n\tthree")) == "one two three"


def test_the_guard_lets_bugs_and_results_through() -> None:
    def bug() -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        convert_hydra_errors()(bug)()
    done: list[int] = []
    convert_hydra_errors()(lambda: done.append(1))()
    assert done == [1]


def test_a_configuration_in_hand_is_that_of_the_command_line() -> None:
    overrides = ["model=tiny", "data.sources.written.weight=0.5"]
    assert compose_config(overrides) == job(*overrides) == configured(*overrides)
    assert "did you mean 'model.d_model'?" in complaint(lambda: compose_config(["model.d_modl=1"]))


def test_inside_of_another_program_that_uses_hydra(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("a: 1\n", encoding="utf-8")
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        assert compose_config(["model=tiny"]).model.name == "tiny"
        assert compose("mine").a == 1


def test_flags_may_stand_between_overrides() -> None:
    given = "a=1 --config-dir my=conf ~b=2 -m +c.d=[1,2] --cfg job --resolve ~e --config-name=x=y"
    expected = (
        "--config-dir my=conf -m --cfg job --resolve --config-name=x=y a=1 ~b=2 +c.d=[1,2] ~e"
    )
    assert put_flags_first(given.split()) == expected.split()
    assert put_flags_first([]) == []


@pytest.mark.parametrize(
    ("argument", "fragment"),
    [
        ("--max_steps", "'--max_steps': keys are written as training.max_steps=VALUE"),
        ("--max-steps=3", "'--max-steps=3': keys are written as training.max_steps=VALUE"),
        ("--training.max_minutes=5", "keys are written as training.max_minutes=VALUE"),
        ("--foo", "'--foo': keys are written as training.max_steps=VALUE"),
        ("#", "'#' begins no comment here: in zsh, setopt interactivecomments"),
        ("my.tsv", "'my.tsv' is not of the form KEY=VALUE; to train on a file"),
    ],
)
def test_what_is_neither_flag_nor_override_is_named(argument: str, fragment: str) -> None:
    assert fragment in complaint(lambda: check_arguments(["seed=1", argument, "3"]))


def test_flags_with_their_values_and_overrides_are_accepted() -> None:
    flags = "-cjob --cfg job -m +a=1 ~b --config-dir my --info defaults -sc install=bash"
    check_arguments(flags.split())
    check_arguments([])


def test_a_key_of_the_other_command_is_named() -> None:
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        for override in ("model=tiny", "seed=1", "size=s"):
            message = complaint(
                convert_hydra_errors()(lambda override=override: compose("prepare", [override]))
            )
            key = override.partition("=")[0]
            expected = f"key '{key}': only nmt.train has this key, not nmt.prepare"
            assert message == f"unknown configuration {expected}"


def test_faults_in_configuration_files_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    head = "# @package _global_\n"
    for name, text in {"broken": "a: [", "misspelt": "training: {max_stps: 3}"}.items():
        (tmp_path / "experiment" / f"{name}.yaml").write_text(head + text)

    def explain(name: str) -> str:
        path = f"hydra.searchpath=[file://{tmp_path}]"
        return complaint(lambda: compose_config([path, f"experiment={name}"]))

    assert explain("misspelt").startswith(
        "experiment/misspelt: unknown configuration key 'training.max_stps'; did you mean"
    )
    assert "broken.yaml" in explain("broken")
