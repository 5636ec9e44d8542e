"""Between Hydra and the program: composed configurations, resumed ones, and errors in one line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, cast

import hydra
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt.config import files
from nmt.config.data import DataConfig
from nmt.config.preparation import PreparationConfig
from nmt.config.schema import GROUPS, SOURCES, Config, list_sibling_keys
from nmt.config.tokenizer import TokenizerConfig
from nmt.config.training import TrainingConfig
from nmt.errors import UserError, exit_on_user_error, fail, fail_if_fixable, suggest

# What a resumed run may change: when it ends, how often it reports, where it searches for the
# best. Everything else would make it another run.
_CHANGEABLE = re.compile(
    r"training\.(max_\w+|early_stopping|stop_behind|resume|log_every|evaluate_every|evaluation_\w+"
    r"|keep_checkpoints|samples|probes|probe_every|attention_every|jit_compile|deterministic|devices"
    r"|spike_factor|on_spike|batch_tokens|accumulate)|decoding(\..*)?|cache_dir|runs_dir|data\.rejected_file"
    r"|data\.prepared|data\.(sources\.\w+\.)?(archive|path|source_path|target_path)"
)


# What a run that starts from another may change of its model: nothing that weights depend on.
_CHANGEABLE_AT_START = re.compile(
    r"model\.(\w*dropout|lora_rank|lora_on|max_length|attention_kernel|remat|name)"
)


# What a prepared corpus has settled, but for what of that is a matter of training.
_SETTLED = r"data\..+|tokenizer(\..*)?"
_STILL_OPEN = re.compile(r"data\.(prepared|temperature|stages(\..*)?|sources\.\w+\.weight)")

_EMBEDDING = ("embedding", "embedding/table")  # names by which it can be frozen


@dataclass
class _OpenData(DataConfig):
    """While it is composed, a name that is new makes a source, or a test."""

    sources: dict[str, Any] = field(default_factory=dict)
    tests: dict[str, Any] = field(default_factory=dict)


@dataclass
class _OpenConfig(Config):
    """What is composed; `files.from_composed` checks that sources are sources."""

    data: DataConfig = field(default_factory=_OpenData)


@dataclass
class _OpenPreparation(PreparationConfig):
    """The same for ``nmt.prepare``."""

    data: DataConfig = field(default_factory=_OpenData)


@cache  # the store is one for the process
def register_schema() -> None:
    """Store the schemas where the defaults lists of ``conf/*.yaml`` find them."""
    of_training = OmegaConf.structured(_OpenConfig)
    OmegaConf.set_struct(of_training.model, False)  # which has the keys of its kind besides
    of_preparation = OmegaConf.structured(_OpenPreparation)
    for name, schema in (("schema", of_training), ("prepare_schema", of_preparation)):
        _open(schema.data)
        ConfigStore.instance().store(name=name, node=schema, provider="nmt")


def _open(data: DictConfig) -> DictConfig:
    """Let sources and tests have any names."""
    OmegaConf.set_struct(data.sources, False)
    OmegaConf.set_struct(data.tests, False)
    return data


def run_hydra(config_name: str, job: Callable[[DictConfig], Any]) -> NoReturn:
    """Run a command line that Hydra reads; exit.

    Args:
        config_name: of the file in ``conf``.
        job: is given what is composed.
    """
    register_schema()
    # Hydra raises instead of printing and exiting with 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    decorate = hydra.main(
        version_base="1.3", config_path=str(files.conf_dir()), config_name=config_name
    )
    command: Any = decorate(job)  # whose argument Hydra gives
    exit_on_user_error(convert_hydra_errors(command))


@contextmanager
def exit_inside_hydra() -> Iterator[None]:
    """Exit on what a user can mend inside of a job: Hydra would add a line of its own."""
    try:
        yield
    except UserError as error:
        fail(error)
    except Exception as error:
        fail_if_fixable(error)
        raise


def convert_hydra_errors(command: Callable[[], Any]) -> Callable[[], None]:
    """Turn what Hydra raises on a bad command line into `UserError`."""

    def run() -> None:
        try:
            command()
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(explain_hydra_error(error)) from error
        except ValueError as error:
            # Hydra's own for some malformed overrides; anywhere else, a bug.
            if not _raised_in(error, "hydra"):
                raise
            groups = ", ".join(GROUPS)
            raise UserError(
                f"{explain_hydra_error(error)}; the groups are {groups}: choose as in model=small"
            ) from error

    return run


def _raised_in(error: BaseException, package: str) -> bool:
    """Whether the innermost frame of a traceback belongs to a package."""
    traceback = error.__traceback__
    module = ""
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__"))
        traceback = traceback.tb_next
    return module.split(".")[0] == package


def explain_hydra_error(error: BaseException) -> str:
    """Say what is wrong with a command line, without Hydra's advice on how to extend the schema."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OmegaConfBaseException):
            return files.explain_omegaconf_error(cause)
        cause = cause.__cause__
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        missing = error.missing_cfg_file
        group, _, name = missing.rpartition("/")
        folder = files.conf_dir() / group
        options = sorted(path.stem for path in folder.glob("*.yaml"))
        return f"there is no {group or 'configuration'} '{name}'{suggest(name, options)}"
    text = " ".join(str(error).split())
    unknown_group = re.match(r"Could not override '([^']+)'", text)
    if unknown_group:
        key = unknown_group.group(1).split("@")[0]
        return files.unknown_key_message(key, list_sibling_keys(key))
    return text


def compose_raw(overrides: Sequence[str] = ()) -> DictConfig:
    """Return what Hydra composes of ``conf/`` and these overrides, unchecked.

    Raises:
        UserError: there is no such key or choice.
    """
    found = []

    def compose_it() -> None:
        with initialize_config_dir(str(files.conf_dir()), version_base="1.3"):
            found.append(compose("train", list(overrides)))

    register_schema()
    convert_hydra_errors(compose_it)()
    return found[0]


def _list_keys(overrides: Sequence[str]) -> list[str]:
    """Return what each override sets: a key, or a group."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    return [override.get_key_element().lstrip("+") for override in parsed]


def combine_for_resume(
    composed: DictConfig, overrides: Sequence[str], stored: Config, where: Path
) -> Config:
    """Return the configuration with which a run goes on: its own, changed by ``overrides``.

    Args:
        composed: what Hydra composed, overrides included.
        overrides: the job's command-line overrides.
        stored: the configuration of the run.
        where: folder of the run; ``training.resume`` of what is returned.

    Raises:
        UserError: a wrong value, or an override that a resumed run cannot take.
    """
    changed = OmegaConf.structured(stored)
    # A folder that comes from elsewhere must not say where to write.
    changed.data.rejected_file = None
    keys = _list_keys(overrides)
    for key in keys:
        if not _CHANGEABLE.fullmatch(key):
            raise UserError(
                f"a resumed run keeps its {key}: {where} holds its configuration; start a new run "
                "to change it"
            )
        if key.startswith(f"{SOURCES}."):
            source = key.split(".")[2]
            if source not in changed.data.sources:
                names = suggest(source, changed.data.sources)
                raise UserError(f"{where} has no source '{source}'{names}")
        OmegaConf.update(changed, key, OmegaConf.select(composed, key))
    _keep_updates(changed.training, stored.training, keys)
    changed.training.resume = str(where)
    return files.from_composed(changed)


def _keep_updates(changed: DictConfig, stored: TrainingConfig, keys: Sequence[str]) -> None:
    """Let updates be as large as they were, whatever micro-batches they are worked on in."""
    split, counted = "training.batch_tokens" in keys, "training.accumulate" in keys
    if split or counted:
        changed.update_tokens = tokens = stored.tokens_per_update
    if split and not counted:
        changed.accumulate = 1  # follows from it
    elif counted and not split:
        changed.batch_tokens = -(-tokens // max(1, changed.accumulate))


def apply_prepared(
    composed: DictConfig, overrides: Sequence[str], stored: Mapping[str, Any], where: str
) -> None:
    """Give a composed configuration what a prepared corpus has settled: sources, tokenizer, rows.

    Args:
        composed: what Hydra composed, overrides included; changed here.
        overrides: the job's command-line overrides.
        stored: the configuration that the corpus was prepared with.
        where: its folder, ``data.prepared``.

    Raises:
        UserError: an override that contradicts it.
    """
    keys = _list_keys(overrides)
    schema = _open(OmegaConf.structured(_OpenData))
    settled = files.LATER_KEYS["data"] | dict(stored["data"]) | {"prepared": where}
    data = cast(DictConfig, OmegaConf.merge(schema, settled))
    for key in keys:
        if re.fullmatch(_SETTLED, key) and not _STILL_OPEN.fullmatch(key):
            raise UserError(
                f"data.prepared={where} keeps its {key}: leave it out, or prepare the corpus anew"
            )
        if key.startswith(f"{SOURCES}.") and key.split(".")[2] not in data.sources:
            name = key.split(".")[2]
            raise UserError(f"{where} has no source '{name}'{suggest(name, data.sources)}")
        if re.fullmatch(r"data\..+", key) and key != "data.prepared":
            inner = key.removeprefix("data.")
            OmegaConf.update(data, inner, OmegaConf.select(composed, key), merge=False)
    lengths = sorted(set(stored["prepare"]["row_lengths"]))
    wanted = list(composed.training.row_lengths)
    if "training.row_lengths" in keys and sorted(set(wanted)) != lengths:
        raise UserError(
            f"training.row_lengths={wanted}: the rows of data.prepared={where} have {lengths} "
            "tokens; leave it out, or prepare the corpus with prepare.row_lengths"
        )
    composed.data = data
    composed.tokenizer = OmegaConf.structured(TokenizerConfig(**stored["tokenizer"]))
    composed.training.row_lengths = lengths


def combine_for_start(
    composed: DictConfig,
    overrides: Sequence[str],
    stored: Config,
    where: Path,
    *,
    paired: bool = False,
) -> Config:
    """Return the configuration of a new run that starts from the weights of another.

    It has the sizes of that run's model, and its languages where the corpus names none. Its
    tokenizer is that of the new corpus, unless it is not to be: `TrainingConfig.new_vocabulary`.

    Args:
        composed: what Hydra composed, overrides included.
        overrides: the job's command-line overrides.
        stored: the configuration of the other run.
        where: folder of the other run; ``training.start_from`` of what is returned.
        paired: whether its tokenizer has a model for each side, as MarianMT's.

    Raises:
        UserError: a wrong value, or an override that contradicts the other run.
    """
    training = composed.training
    if training.new_vocabulary is None:
        fixed = composed.model.lora_rank is not None or any(
            fnmatchcase(name, pattern) for pattern in training.freeze for name in _EMBEDDING
        )
        training.new_vocabulary = not (fixed or paired)
    # How much dropout depends on the new corpus; adapters were merged.
    kept = replace(stored.model, dropout=None, lora_rank=None, lora_on=None)
    model = OmegaConf.structured(kept)
    for key in _list_keys(overrides):
        if key == "model" or key.startswith("model."):
            if not _CHANGEABLE_AT_START.fullmatch(key):
                raise UserError(
                    f"a run that starts from another keeps its {key}: {where} has weights of its "
                    "sizes; leave it out"
                )
            OmegaConf.update(model, key.removeprefix("model."), OmegaConf.select(composed, key))
        elif re.match(r"tokenizer\b", key) and not training.new_vocabulary:
            raise UserError(
                f"a run that starts from another keeps its tokenizer: for one of the new corpus, "
                f"set training.new_vocabulary=true beside {key}"
            )
    composed.model = model
    languages = stored.data.languages[::-1] if composed.data.reverse else stored.data.languages
    for key, language in zip(("source_language", "target_language"), languages, strict=True):
        if OmegaConf.is_missing(composed.data, key):
            composed.data[key] = language
    if not training.new_vocabulary:
        composed.tokenizer = OmegaConf.structured(stored.tokenizer)
    training.start_from = str(where)
    return files.from_composed(composed)
