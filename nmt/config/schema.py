"""The whole configuration: its groups, their dotted keys, and the checks that span groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from nmt.config.checks import MISSING, at_least, between, check_value, check_values
from nmt.config.data import DataConfig, check_data
from nmt.config.decoding import DecodingConfig
from nmt.config.model import MODEL_CONFIGS, ModelConfig, check_model
from nmt.config.tokenizer import TokenizerConfig, check_tokenizer
from nmt.config.training import TrainingConfig, check_training


@dataclass
class Config:
    """The configuration of a run."""

    name: str = MISSING  # end of the run folder's name
    seed: Annotated[int, between(0, 2**32 - 1)] = MISSING  # of weights, order, dropout and noise
    runs_dir: str = MISSING  # where run folders are made
    cache_dir: str = MISSING  # tokenizers, encoded corpora, downloads and compiled programs
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)


GROUPS: dict[str, Any] = {
    item.name: item.default_factory for item in fields(Config) if is_dataclass(item.default_factory)
}

SOURCES = "data.sources"


def flatten(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys and their values, ``("model.d_model", 256)``, in declaration order."""
    for item in fields(config):
        value = getattr(config, item.name)
        if is_dataclass(value):
            yield from flatten(value, f"{prefix}{item.name}.")
        elif isinstance(value, dict):
            for name, entry in value.items():
                key = f"{prefix}{item.name}.{name}"
                if is_dataclass(entry):
                    yield from flatten(entry, f"{key}.")
                else:
                    yield key, entry
        else:
            yield prefix + item.name, value


def list_keys(schema: Any = Config, prefix: str = "") -> list[str]:
    """Return every dotted key of a schema, groups included; for all sources, `SOURCES`."""
    keys = []
    for item in fields(schema):
        key = prefix + item.name
        keys.append(key)
        groups = MODEL_CONFIGS.values() if key == "model" else [item.default_factory]
        for group in filter(is_dataclass, groups):
            keys += list_keys(group, f"{key}.")
    return list(dict.fromkeys(keys))


def takes_list(key: str, schema: type = Config) -> bool:
    """Return whether the value of a dotted key of a schema is a list."""
    hints: Iterable[Any] = (schema,)
    for name in key.split("."):
        groups = MODEL_CONFIGS.values() if ModelConfig in hints else filter(is_dataclass, hints)
        hints = [get_type_hints(group).get(name) for group in groups]
    return any(get_origin(each) is list for hint in hints for each in (hint, *get_args(hint)))


def check_config(config: Config) -> None:
    """Raise a `UserError` that names the first invalid key and its valid values."""
    check_values(config)
    check_data(config.data)
    check_tokenizer(config.tokenizer)
    check_model(config.model)
    check_training(config.training)
    longest = max(config.training.row_lengths)
    check_value("model.max_length", config.model.max_length, at_least(longest))
