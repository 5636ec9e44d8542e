"""Hydra: schemas, composition from ``conf/`` and overrides, and its errors in one line."""

from __future__ import annotations

import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import hydra
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt.config import files
from nmt.config.data import ComposedDataConfig
from nmt.config.help import describe_groups, describe_keys
from nmt.config.model import MODEL_CONFIGS
from nmt.config.preparation import PreparationConfig
from nmt.config.schema import GROUPS, Config, list_keys, takes_list
from nmt.errors import UserError, exit_on_user_error, suggest

_SYNTAX = r"'\"{}\[\]"  # values with these characters are read as they are written
# Keys of `conf/data/files.yaml` and of sources whose values are names, separated by commas.
_NAMES = r"data\.(?:train|dev|test|columns|sources\.\w+\.(?:path|columns|members))"
_FILES = re.compile(rf"^(\+{{0,2}}{_NAMES}=)([^\s,{_SYNTAX}][^{_SYNTAX}]*,[^{_SYNTAX}]+)$")
_BARE = re.compile(rf"(\+{{0,2}}[A-Za-z_][\w.@/]*=)([^{_SYNTAX}]+)", re.ASCII)
_PLAIN = re.compile(r"[\w./*?-]+", re.ASCII)  # needs no quotes

_FLAGS_WITH_VALUES = frozenset(
    "--config-dir -cd --config-name -cn --config-path -cp --cfg -c --package -p --info -i "
    "--experimental-rerun".split()
)
# Of the extra `sweep`, as files of Hydra.
_SWEEP_PLUGINS = ("hydra/launcher/joblib", "hydra/launcher/submitit_slurm", "hydra/sweeper/optuna")
_SHORT_FLAGS = ("-c", "-p", "-i")  # which a value may follow without a space
_FLAGS = _FLAGS_WITH_VALUES | frozenset(
    "--help -h --hydra-help --version --resolve --run -r --multirun -m --shell-completion "
    "-sc".split()
)


@cache  # the store belongs to the process
def register_schemas() -> None:
    """Store the schemas under the names that the defaults lists of ``conf/*.yaml`` use."""
    store = partial(ConfigStore.instance().store, provider="nmt")
    for name, schema in (("schema", Config), ("prepare_schema", PreparationConfig)):
        node = OmegaConf.structured(schema(data=ComposedDataConfig()))
        # Any name makes a source or a test set; `files.from_composed` checks them.
        OmegaConf.set_struct(node.data.sources, False)
        OmegaConf.set_struct(node.data.tests, False)
        store(name=name, node=node)
    for kind, model in MODEL_CONFIGS.items():
        store(group="model/schema", name=kind, node=model)
    OmegaConf.register_new_resolver(
        "describe_groups",
        lambda *names: describe_groups(files.conf_dir(), list(filter(None, names))),
        replace=True,
    )
    # `string.Template` reads the help: a dollar sign is doubled.
    OmegaConf.register_new_resolver(
        "describe_keys",
        lambda *, _root_: describe_keys(_root_).replace("$", "$$"),
        replace=True,
    )


def run_hydra(config_name: str, job: Callable[[DictConfig], Any]) -> NoReturn:
    """Run a command line that Hydra parses; exit.

    Args:
        config_name: name of the primary file in ``conf``, and of the command.
        job: called with the composed configuration.
    """
    register_schemas()
    given = sys.argv[1:]
    sys.argv[1:] = put_flags_first(read_names(given))
    # Hydra raises instead of printing and exiting with 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    decorate = hydra.main(
        version_base="1.3", config_path=str(files.conf_dir()), config_name=config_name
    )
    command: Any = decorate(job)  # Hydra passes its argument

    @convert_hydra_errors(config_name)
    def check_and_run() -> None:
        check_arguments(given)
        command()

    exit_on_user_error(check_and_run)


@contextmanager
def convert_hydra_errors(command: str = "train") -> Iterator[None]:
    """Raise what Hydra raises on an invalid command line as `UserError`.

    Args:
        command: the command whose line it reads, for advice.
    """
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(explain_hydra_error(error, command)) from error
    except yaml.YAMLError as error:
        raise UserError(" ".join(str(error).split())) from error
    except ValueError as error:
        # Hydra raises it for some malformed overrides; from elsewhere, it is a bug.
        if not _raised_in(error, "hydra"):
            raise
        groups = ", ".join(GROUPS)
        raise UserError(
            f"{explain_hydra_error(error)}; the groups are {groups}: choose as in model=small"
        ) from error


def quote(value: str) -> str:
    """Return a value as Hydra reads it: in quotes if it has other than plain characters."""
    if _PLAIN.fullmatch(value):
        return value
    # Hydra takes a backslash literally, except before a quotation mark.
    escaped = re.sub(
        r"(\\*)('|$)", lambda match: 2 * match[1] + match[2].replace("'", "\\'"), value
    )
    return f"'{escaped}'"


def quote_if_needed(name: str) -> str:
    """Return a name as `read_names` reads it: in quotes if it has syntax of Hydra."""
    return quote(name) if re.search(f"[,{_SYNTAX}]", name) else name


def read_names(overrides: Sequence[str]) -> list[str]:
    """Return overrides as Hydra reads them, which knows few characters without quotes.

    ``data.train=a.es,b.en`` is a list, but in a sweep, where a comma separates choices. Values such
    as ``año (1).tsv`` are put in quotes.
    """
    is_sweep = any(re.fullmatch(r"-m|--multirun|hydra\.mode=MULTIRUN", each) for each in overrides)
    return [_read_names(each, is_sweep=is_sweep) for each in overrides]


def _read_names(override: str, *, is_sweep: bool) -> str:
    joined = override if is_sweep else _FILES.sub(r"\1[\2]", override)
    bare = _BARE.fullmatch(override)
    if bare is None or _PLAIN.fullmatch(bare[2]) or _is_readable(joined):
        return joined
    key, value = bare.groups()
    if joined == override and not is_sweep:
        return f"{key}{_quote_name(value)}"
    values = ",".join(map(_quote_name, value.split(",")))
    return f"{key}{values}" if is_sweep else f"{key}[{values}]"


def _quote_name(name: str) -> str:
    name = name.strip()  # as Hydra does
    # No shell expands the ~ of data.train=~/corpus.tsv.
    return quote(str(Path(name).expanduser()) if name.startswith("~/") else name)


def _is_readable(override: str) -> bool:
    try:
        OverridesParser.create().parse_override(override)
    except HydraException:
        return False
    return True


def put_flags_first(arguments: Sequence[str]) -> list[str]:
    """Return a command line with its overrides at the end: Hydra takes them in one place only."""
    before = ["", *arguments]
    is_override = [
        re.match(r"~|[^-][^=]*=", argument) is not None and last not in _FLAGS_WITH_VALUES
        for last, argument in zip(before, arguments, strict=False)
    ]
    ordered = sorted(zip(is_override, arguments, strict=True), key=itemgetter(0))  # is stable
    return [argument for _, argument in ordered]


def check_arguments(arguments: Sequence[str]) -> None:
    """Check that a command line has nothing but flags of Hydra, their values, and overrides.

    Raises:
        UserError: an argument is none of them.
    """
    is_value = False
    for argument in arguments:
        name = argument.partition("=")[0]
        is_known = name in _FLAGS or argument.startswith(_SHORT_FLAGS)
        if argument.startswith("-") and not is_known:
            key = name.strip("-").replace("-", "_")
            keys = [each for each in list_keys() if key in (each, each.split(".")[-1])]
            raise UserError(
                f"unknown flag {argument!r}: keys are written as "
                f"{keys[0] if keys else 'training.max_steps'}=VALUE, without dashes"
            )
        is_override = "=" in argument or argument.startswith(("-", "~"))
        if not (is_override or is_value):
            if argument == "#":
                raise UserError("'#' begins no comment here: in zsh, setopt interactivecomments")
            raise UserError(
                f"{argument!r} is not of the form KEY=VALUE; to train on a file of pairs: "
                "data=files data.train=FILE"
            )
        is_value = argument in _FLAGS_WITH_VALUES


def _raised_in(error: BaseException, package: str) -> bool:
    """Whether the innermost frame of a traceback belongs to a package."""
    *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).split(".")[0] == package


def explain_hydra_error(error: BaseException, command: str = "train") -> str:
    """Return a one-line message, without Hydra's advice on how to extend the schema.

    Args:
        error: what Hydra raised.
        command: the command whose line it read, for advice.
    """
    cause = error.__cause__ or error.__context__ or error
    if isinstance(cause, OmegaConfBaseException):
        place = re.match(r"In '([^']+)'", str(error))
        return f"{f'{place[1]}: ' if place else ''}{files.explain_omegaconf_error(cause)}"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.rpartition("/")
        if error.missing_cfg_file in _SWEEP_PLUGINS:
            return f"{group}={name} needs another package: pip install 'nmt[sweep]'"
        hint = suggest(name, error.options or ())
        if group == "data" and "." in name:
            hint = f"; a file of pairs is chosen as data=files data.train={name}"
        return f"unknown {group or 'configuration'} '{name}'{hint}"
    if isinstance(error, OverrideParseException):
        return f"{error.override} cannot be read: put its value in quotes, as in \"KEY='VALUE'\""
    text = " ".join(str(error).split())
    if several := re.match(r"Ambiguous value for argument '(.*)' 1\. To use it as a list", text):
        return _explain_several_values(several[1], command)
    if unknown_group := re.match(r"Could not override '([^']+)'", text):
        return files.unknown_key_message(unknown_group.group(1).split("@")[0])
    return text


def _explain_several_values(override: str, command: str) -> str:
    """Return the message for values separated by commas outside of a sweep."""
    key, _, values = override.partition("=")
    if key.lstrip("+").startswith("data.tests."):
        sides = values.replace(",", " ")
        return (
            f"{key.lstrip('+')} takes one table of pairs: to make one of two files: "
            f"paste {sides} > FILE.tsv"
        )
    if takes_list(key, Config if command == "train" else PreparationConfig):
        return f"{key} takes a list in brackets: {shlex.quote(f'{key}=[{values}]')}"
    if command != "train":
        return f"{key} takes one value, got {values}: nmt.{command} makes one corpus at a time"
    return (
        f"{key} takes one value, got {values}; to train one run per value: "
        f"python -m nmt.train -m {shlex.quote(override)}"
    )


@convert_hydra_errors()
def compose_raw(overrides: Sequence[str] = (), *, with_hydra: bool = False) -> DictConfig:
    """Return the unchecked configuration that Hydra composes from ``conf/`` and these overrides.

    Args:
        overrides: as on the command line.
        with_hydra: whether it has the configuration of Hydra, too.

    Raises:
        UserError: an unknown key or choice.
    """
    register_schemas()
    with _without_outer_hydra(), initialize_config_dir(str(files.conf_dir()), version_base="1.3"):
        return compose("train", read_names(overrides), return_hydra_config=with_hydra)


@convert_hydra_errors()
def check_single_run(overrides: Sequence[str]) -> None:
    """Check that overrides, such as an experiment, do not ask for a sweep.

    Raises:
        UserError: they do, or an unknown key or choice.
    """
    if compose_raw(overrides, with_hydra=True).hydra.mode == RunMode.MULTIRUN:
        raise UserError(
            "this experiment is a sweep of several runs: start it by python -m nmt.train, or pass "
            "the overrides of one of its trials instead"
        )


@contextmanager
def _without_outer_hydra() -> Iterator[None]:
    """Hide the caller's own use of Hydra, which has one configuration path in a process."""
    outer, GlobalHydra.instance().hydra = GlobalHydra.instance().hydra, None
    try:
        yield
    finally:
        GlobalHydra.instance().hydra = outer


def list_missing_languages(overrides: Sequence[str]) -> list[str]:
    """Return the keys of languages that neither overrides nor names of files tell.

    Raises:
        UserError: an unknown key or choice.
    """
    data = compose_raw(overrides).data
    files.set_languages(data)
    keys = ("source_language", "target_language")
    return [f"data.{key}" for key in keys if OmegaConf.is_missing(data, key)]


def make_command(overrides: Sequence[str]) -> list[str]:
    """Return the command that runs one job alone, with the configuration files of this process."""
    job = HydraConfig.get()
    options = ["--config-name", str(job.job.config_name)]
    names = {"main": "--config-path", "command-line": "--config-dir"}
    for source in job.runtime.config_sources:
        if source.provider in names:
            options += [names[source.provider], source.path]
    # The search path is passed on; other settings of Hydra belong to the sweep.
    pattern = r"\+{0,2}hydra\.searchpath="
    search_paths = [override for override in job.overrides.hydra if re.match(pattern, override)]
    command = [sys.executable, "-m", "nmt.train", *options]
    return [*command, *overrides, *search_paths, "hydra.mode=RUN"]
