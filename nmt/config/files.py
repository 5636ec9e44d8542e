"""Configuration files: the folder of YAML files, and a run's ``config.yaml`` in and out."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt.config.checks import check_one_of
from nmt.config.data import KINDS, SHORT_KEYS, SourceConfig, expand_short_keys, upgrade_data
from nmt.config.model import KINDS as MODELS
from nmt.config.model import MODEL_CONFIGS, ModelConfig
from nmt.config.preparation import PreparationConfig, PrepareConfig, check_preparation
from nmt.config.schema import GROUPS, SOURCES, Config, check, list_sibling_keys
from nmt.errors import UserError, suggest

DEEPEST = 16  # nodes of YAML in each other; four are used

_GROUPS = GROUPS | {"prepare": PrepareConfig}  # of training and of preparation

# Keys that runs of earlier versions lack, with the value that does what those did.
LATER_KEYS: dict[str, dict[str, Any]] = {
    "decoding": {"quantization": "float32"},
    "data": {"reverse": False, "temperature": None, "stages": [], "typical_length_ratio": 1.0},
    "model": {"lora_rank": None, "lora_on": ["*"]},
    "training": {
        "attention_every": 250,
        "deterministic": False,
        "dropout_warmup_epochs": 0,
        "evaluation_share": None,
        "freeze": [],
        "max_skipped": 30,
        "new_vocabulary": False,
        "on_spike": "skip",
        "spike_factor": None,
        "stop_behind": None,
        "update_tokens": None,
        "devices": "auto",
        "parallel_parts": 1,
        "start_from": None,
        "tokenizer_lines": 500_000,
        "word_dropout": 0,
    },
}

_LATER_KEYS_OF_TRANSFORMERS: dict[str, Any] = {
    "kind": "transformer",
    "heads": "split",
    "key_value_heads": None,
    "attention_biases": True,
    "attention_output": True,
    "qk_norm": False,
    "norm_epsilon": 1e-6,
    "output_bias": False,
}

# What earlier versions called otherwise.
_RENAMED = {
    "data.kind": "data.sources.NAME.kind (or choose a corpus: data=tsv)",
    "data.patterns": "data.sources.patterns.pairs",
    "data.pattern_share": "data.sources.patterns.weight and data.sources.written.weight",
}


def conf_dir() -> Path:
    """Return the folder of YAML files: inside an installed wheel, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    packaged = package / "_conf"
    return packaged if packaged.is_dir() else package.parent / "conf"


def from_composed(composed: DictConfig) -> Config:
    """Resolve, convert and check a composed configuration.

    Raises:
        UserError: an unknown key (Hydra lets ``+group.key=value`` through), a missing value, or a
            value of the wrong type or that contradicts another.
    """
    check_keys(composed)
    config = cast(Config, _convert(composed, _schema(_kind_of_model(composed))))
    config.data = expand_short_keys(config.data)
    check(config)
    return config


def preparation_from_composed(composed: DictConfig) -> PreparationConfig:
    """Do the same for a configuration of ``nmt.prepare``.

    Raises:
        UserError: as `from_composed` does.
    """
    check_keys(composed, PreparationConfig)
    config = cast(PreparationConfig, _convert(composed, OmegaConf.structured(PreparationConfig)))
    config.data = expand_short_keys(config.data)
    check_preparation(config)
    return config


def _convert(composed: DictConfig, schema: DictConfig) -> Any:
    """Return the object of a schema that a composed configuration stands for."""
    try:
        _settle_languages(composed.get("data"))
        OmegaConf.resolve(composed)
        values = OmegaConf.to_container(composed)
        # Once more over the schema: what was composed has sources of any form, and may lack keys.
        typed = cast(DictConfig, OmegaConf.merge(schema, values))
        missing = sorted(OmegaConf.missing_keys(typed))
        if missing:
            raise UserError(_say_missing(missing[0], typed))
        return OmegaConf.to_object(typed)
    except OmegaConfBaseException as error:
        raise UserError(explain_omegaconf_error(error)) from error


def _settle_languages(data: Any) -> None:
    """Check that both languages are named; YAML reads Norwegian, ``no``, as False.

    Raises:
        UserError: one is not.
    """
    if not isinstance(data, DictConfig):
        return  # of the wrong type, which is found out later
    missing = []
    for key, example in (("source_language", "de"), ("target_language", "en")):
        value = None if OmegaConf.is_missing(data, key) else data.get(key)
        if str(value) == "False":
            data[key] = "no"
        elif str(value) == "True":  # yes, on or true
            raise UserError(
                f'data.{key} is not a language tag: put it in quotes, as in "{example}"'
            )
        elif not value:
            missing.append(f"data.{key}={example}")
    if missing:
        name = "" if OmegaConf.is_missing(data, "name") else f"data={data.get('name')}"
        raise UserError(
            f"{name or 'data'} does not say which languages it has: set them as in "
            f"{' '.join(missing)} (BCP 47 tags)"
        )


@cache
def _schema(kind: str | None) -> DictConfig:
    model = ModelConfig if kind is None else MODEL_CONFIGS[kind]
    return OmegaConf.structured(Config(model=model()))


def _kind_of_model(composed: DictConfig) -> str | None:
    """Return the kind of a configuration's model: each has keys of its own. None: it has none.

    Raises:
        UserError: there is no such kind.
    """
    model = composed.get("model")
    kind = model.get("kind") if isinstance(model, DictConfig) else None
    if kind is not None:
        check_one_of("model.kind", str(kind), MODELS)
    return kind


def _say_missing(key: str, config: DictConfig) -> str:
    """Say that a key has no value; a source without a kind may be another's name misspelt."""
    match = re.fullmatch(rf"{re.escape(SOURCES)}\.(.+)\.kind", key)
    if not match:
        return f"no value for configuration key '{key}'"
    others = [name for name in config.data.sources if name != match[1]]
    return (
        f"{SOURCES}.{match[1]} has no kind{suggest(match[1], others)}; a source of its own needs "
        f"{key}=KIND, one of {', '.join(KINDS)}"
    )


def check_keys(composed: DictConfig, root: type = Config) -> None:
    """Raise a `UserError` that names the first key the schema lacks, and the nearest one."""
    try:
        for key, known in _unknown_keys(composed, root, ""):
            for kind, model in MODEL_CONFIGS.items():
                if key in (f"model.{item.name}" for item in fields(model)):
                    raise UserError(
                        f"configuration key '{key}' is for models of kind {kind}, and this one is "
                        f"of kind {composed.model.kind}"
                    )
            raise UserError(unknown_key_message(key, known))
    except OmegaConfBaseException as error:
        raise UserError(explain_omegaconf_error(error)) from error


def _unknown_keys(node: Any, schema: type, prefix: str) -> Iterator[tuple[str, list[str]]]:
    if not isinstance(node, DictConfig):
        return  # of the wrong type, which is found out later
    names = {item.name for item in fields(schema)}
    for key in node:
        name = str(key)
        if name not in names:
            yield prefix + name, [prefix + known for known in names]
        elif not prefix and name in _GROUPS:
            kind = _kind_of_model(node) if name == "model" else None
            group = _GROUPS[name] if kind is None else MODEL_CONFIGS[kind]
            yield from _unknown_keys(node[name], group, f"{name}.")
        elif prefix + name == SOURCES:
            yield from _unknown_keys_of_sources(node[name])


def _unknown_keys_of_sources(sources: Any) -> Iterator[tuple[str, list[str]]]:
    if not isinstance(sources, DictConfig):
        return
    for name, source in sources.items():
        key = f"{SOURCES}.{name!s}"
        if not isinstance(source, DictConfig):
            raise UserError(
                f"{key} is no source: set its keys, as in {key}.weight=2; ~{key} takes it out"
            )
        yield from _unknown_keys(source, SourceConfig, f"{key}.")


def load(path: Path) -> Config:
    """Read a run's ``config.yaml`` back, checked against today's schema.

    Raises:
        UserError: it is missing or damaged, or holds what the schema does not.
    """
    try:
        text = path.read_text(encoding="utf-8")
        _refuse_references(text)
        stored = OmegaConf.load(io.StringIO(text))
        if isinstance(stored, ListConfig):
            raise UserError("it holds a list, and no configuration")
        if isinstance(stored.get("data"), DictConfig):
            stored.data = upgrade_data(cast(dict[str, Any], OmegaConf.to_container(stored.data)))
        return from_composed(cast(DictConfig, OmegaConf.merge(_later_keys(stored), stored)))
    except OmegaConfBaseException as error:
        raise UserError(f"{path}: {explain_omegaconf_error(error)}") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except (yaml.YAMLError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not a readable configuration: {reason}") from error


def _later_keys(stored: DictConfig) -> dict[str, Any]:
    """Return what a stored configuration may lack: the first models were all transformers."""
    model = stored.get("model")
    kind = model.get("kind", "transformer") if isinstance(model, DictConfig) else None
    of_kind = _LATER_KEYS_OF_TRANSFORMERS if kind == "transformer" else {}
    of_model = LATER_KEYS["model"] | of_kind
    return LATER_KEYS | {"model": of_model}


def _refuse_references(text: str) -> None:
    """Refuse what no run has written: its configuration may come from elsewhere.

    ``${oc.env:KEY}`` would read the environment into what is shown, aliases multiply, and nodes in
    each other without end overflow the stack.
    """
    depth = 0
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise UserError(f"it refers to itself, with *{event.anchor}; a run's holds values")
        if isinstance(event, yaml.ScalarEvent) and "${" in event.value:
            raise UserError(f"it refers to elsewhere, with {event.value!r}; a run's holds values")
        if depth > DEEPEST:
            raise UserError(f"its values are in each other more than {DEEPEST} deep")


def to_yaml(config: Config) -> str:
    """Return the configuration as YAML."""
    plain = asdict(config)
    for key in SHORT_KEYS:
        if plain["data"][key] is None:  # as each is in a checked configuration
            del plain["data"][key]
    if config.data.prepared is None:
        del plain["data"]["prepared"]
    return OmegaConf.to_yaml(OmegaConf.create(plain))


def save(config: Config, path: Path) -> None:
    """Write the configuration as YAML."""
    path.write_text(to_yaml(config), encoding="utf-8")


def explain_omegaconf_error(error: OmegaConfBaseException) -> str:
    """Say in one line what is wrong, with the key and, if it is unknown, the nearest one."""
    key = re.sub(r"\[\d+\]", "", error.full_key or str(error.key or ""))  # elements of lists
    reason = str(error.msg or error).splitlines()[0]
    if key and key not in (known := list_sibling_keys(key)):
        return unknown_key_message(key, known)
    return f"configuration key '{key}': {reason}" if key else reason


def unknown_key_message(key: str, known: list[str]) -> str:
    """Say that there is no such key, and what to write instead."""
    instead = f"; write {_RENAMED[key]}" if key in _RENAMED else suggest(key, known)
    return f"unknown configuration key '{key}'{instead}"
