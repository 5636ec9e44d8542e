"""Checked configurations from what Hydra composes and from a run's ``config.yaml``, and back."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import yaml
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    OmegaConfBaseException,
    ValidationError,
)

from nmt.config.checks import check_value, one_of
from nmt.config.data import StageConfig, guess_languages, pass_on
from nmt.config.model import MODEL_CONFIGS
from nmt.config.preparation import PreparationConfig, check_preparation
from nmt.config.schema import GROUPS, SOURCES, Config, check_config, list_keys
from nmt.config.sources import SOURCE_KINDS, locate_at_opus
from nmt.config.tokenizer import resolve_tokenizer
from nmt.config.upgrades import RENAMED_KEYS, list_later_keys, upgrade_data
from nmt.errors import UserError, suggest

MAX_YAML_DEPTH = 16  # nested nodes; a configuration uses four

_TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}

_LANGUAGES = {"source_language": "de", "target_language": "en"}  # with examples


def conf_dir() -> Path:
    """Return the folder of YAML files: inside an installed wheel, or in a checkout."""
    package = Path(__file__).parents[1]
    packaged = package / "_conf"
    return packaged if packaged.is_dir() else package.parent / "conf"


def from_composed(composed: DictConfig) -> Config:
    """Resolve, convert and check a composed configuration.

    Raises:
        UserError: an unknown key (Hydra accepts ``+group.key=value``), a missing value, a value of
            the wrong type, or one that contradicts another.
    """
    config = cast(Config, _convert(composed, _schema(composed)))
    check_config(config)
    return config


def preparation_from_composed(composed: DictConfig) -> PreparationConfig:
    """Resolve, convert and check a configuration of ``nmt.prepare``: see `from_composed`."""
    config = cast(PreparationConfig, _convert(composed, OmegaConf.structured(PreparationConfig)))
    check_preparation(config)
    return config


def _convert(composed: DictConfig, schema: DictConfig) -> Any:
    """Return a composed configuration as an object of the schema."""
    try:
        data = composed.get("data")
        # Else the merge with the schema reports the wrong type.
        has_sources = isinstance(data, DictConfig) and isinstance(data.get("sources"), DictConfig)
        if has_sources:
            set_languages(data)
            _check_languages(data)
            sources = OmegaConf.to_yaml(data.sources)
        values = cast(dict[str, Any], OmegaConf.to_container(composed, resolve=True))
        if has_sources:
            for name, source in values["data"]["sources"].items():
                if not isinstance(source, dict):
                    key = f"{SOURCES}.{name}"
                    raise UserError(
                        f"{key} must be a source: set its keys, as in {key}.weight=2, or remove it "
                        f"with ~{key}"
                    )
            values["data"] = pass_on(values["data"], sources)
        # Merged with the schema again: composed sources have any form, and may lack keys.
        typed = cast(DictConfig, OmegaConf.merge(schema, values))
        if missing := sorted(OmegaConf.missing_keys(typed)):
            raise UserError(_missing_key_message(missing[0], typed))
        config: Any = OmegaConf.to_object(typed)
        locate_at_opus(config.data)
        resolve_tokenizer(config.tokenizer, config.data.languages[0])
        return config
    except OmegaConfBaseException as error:
        raise UserError(explain_omegaconf_error(error)) from error


def set_languages(data: DictConfig, otherwise: Sequence[str | None] = (None, None)) -> None:
    """Set languages that are missing by the names of files or columns, or to ``otherwise``."""
    guessed = guess_languages(cast(dict[str, Any], OmegaConf.to_container(data)))
    for key, guess, language in zip(_LANGUAGES, guessed, otherwise, strict=True):
        if OmegaConf.is_missing(data, key) and (guess or language):
            data[key] = guess or language


def _check_languages(data: DictConfig) -> None:
    """Check that both languages are named; restore Norwegian, ``no``, which YAML reads as False."""
    missing = []
    for key, example in _LANGUAGES.items():
        value = None if OmegaConf.is_missing(data, key) else data.get(key)
        if str(value) == "False":
            data[key] = "no"
        elif str(value) == "True":  # yes, on or true
            raise UserError(
                f"data.{key} must be a language tag, got {value}: put it in quotes, as in "
                f'"{example}"'
            )
        elif not value:
            missing.append(f"data.{key}={example}")
    if missing:
        name = "" if OmegaConf.is_missing(data, "name") else f"data={data.get('name')}"
        raise UserError(
            f"{name or 'data'} does not name its languages: set BCP 47 tags, as in "
            f"{' '.join(missing)}"
        )


def _schema(composed: DictConfig) -> DictConfig:
    """Return the schema for the kind of the configured model, which determines its keys."""
    model = composed.get("model")
    kind = model.get("kind") if isinstance(model, DictConfig) else None
    if kind is None:
        return OmegaConf.structured(Config)
    check_value("model.kind", str(kind), one_of(*MODEL_CONFIGS))
    return OmegaConf.structured(Config(model=MODEL_CONFIGS[kind]()))


def _missing_key_message(key: str, config: DictConfig) -> str:
    """Return the message for a key without a value: of a source, its name may be misspelt."""
    match = re.fullmatch(rf"{re.escape(SOURCES)}\.(.+)\.kind", key)
    if not match:
        return f"no value for configuration key '{key}'"
    others = [name for name in config.data.sources if name != match[1]]
    return (
        f"{SOURCES}.{match[1]} has no kind{suggest(match[1], others)}; a new source needs "
        f"{key}=KIND, one of {', '.join(SOURCE_KINDS)}"
    )


def load(path: Path) -> Config:
    """Read a run's ``config.yaml``, checked against today's schema.

    Raises:
        UserError: the file is missing or damaged, or does not match the schema.
    """
    try:
        text = path.read_text(encoding="utf-8")
        _check_plain_values(text)
        stored = OmegaConf.load(io.StringIO(text))
        if isinstance(stored, ListConfig):
            raise UserError("holds a list instead of a configuration")
        if isinstance(stored.get("data"), DictConfig):
            stored.data = upgrade_data(cast(dict[str, Any], OmegaConf.to_container(stored.data)))
        return from_composed(cast(DictConfig, OmegaConf.merge(list_later_keys(stored), stored)))
    except OmegaConfBaseException as error:
        raise UserError(f"{path}: {explain_omegaconf_error(error)}") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except (yaml.YAMLError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not a readable configuration: {reason}") from error


def _check_plain_values(text: str) -> None:
    """Refuse references and deep nesting, which no run writes: the file may be untrusted.

    ``${oc.env:KEY}`` would copy the environment into the output, aliases expand exponentially, and
    deeply nested nodes overflow the stack.
    """
    depth = 0
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise UserError(f"has the alias *{event.anchor}, expected plain values")
        if isinstance(event, yaml.ScalarEvent) and "${" in event.value:
            raise UserError(f"has the reference {event.value!r}, expected plain values")
        if depth > MAX_YAML_DEPTH:
            raise UserError(f"is nested more than {MAX_YAML_DEPTH} deep")


def to_yaml(config: Config) -> str:
    """Return the configuration as YAML."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def save(config: Config, path: Path) -> None:
    """Write the configuration as YAML."""
    path.write_text(to_yaml(config), encoding="utf-8")


def explain_omegaconf_error(error: OmegaConfBaseException) -> str:
    """Return a one-line message with the key and, if it is unknown, the closest valid one."""
    key = re.sub(r"\[\d+\]", "", error.full_key or str(error.key or ""))  # without list indices
    reason = str(error.msg or error).splitlines()[0]
    if not isinstance(error, ConfigAttributeError | ConfigKeyError):
        if "is not a ListConfig" in reason:
            return f"{key} must be a list, as in {key}=[VALUE]"
        if isinstance(error, ValidationError) and (expected := _describe_type(error)):
            value = "null" if error.value is None else error.value if error.value != "" else "''"
            place = "data.stages: " if error.object_type is StageConfig else ""
            return f"{place}{error.full_key or key} must be {expected}, got {value}"
        return f"configuration key '{key}': {reason}" if key else reason
    if error.object_type is StageConfig:  # an item of a list has no full key
        hint = suggest(key, map(str, cast(Any, error.parent_node)))
        return f"data.stages: unknown key '{key}'{hint}"
    for kind, model in MODEL_CONFIGS.items():
        if key in (f"model.{item.name}" for item in fields(model)):
            return f"configuration key '{key}' needs model.kind={kind}: choose such a model"
    group = key.removesuffix(str(error.key))
    return unknown_key_message(key, [f"{group}{name}" for name in cast(Any, error.parent_node)])


def _describe_type(error: ValidationError) -> str:
    """Return what the key takes that has a value of another type; empty for groups and lists."""
    if is_dataclass(error.object_type):
        hint = get_type_hints(error.object_type).get(str(error.key))
    else:  # an item of a list or dictionary
        hint = next(reversed(get_args(error.ref_type)), None)
    alternatives = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    names = [_TYPES[each] for each in alternatives if each in _TYPES]
    or_null = ", or null" if NoneType in alternatives else ""
    return f"{' or '.join(names)}{or_null}" if names else ""


def unknown_key_message(key: str, siblings: Sequence[str] = ()) -> str:
    """Return the message for an unknown key, with a suggestion."""
    renamed = RENAMED_KEYS.get(key)
    keys = {*list_keys(), *GROUPS}
    group, _, option = key.partition("/")
    if option:
        hint = f"; options in folders are chosen as {group}={option}/NAME"
    elif renamed:
        hint = f"; write {renamed}"
    elif key in {*keys, "size", "experiment"}:  # of the other command
        hint = ": only nmt.train has this key, not nmt.prepare"
    else:
        hint = suggest(key, {*siblings, *keys}) or "; --help lists the keys"
    return f"unknown configuration key '{key}'{hint}"
