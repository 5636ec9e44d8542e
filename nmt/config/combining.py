"""Composed configurations combined with a stored one.

The stored configuration belongs to a resumed run, to the run that a new run starts from, or to a
prepared corpus. It determines some keys; overrides of those are refused. The functions take the
configuration that Hydra composed, overrides included, which they may change, the overrides of the
command line, the stored configuration, and the folder that holds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from nmt.config.data import ComposedDataConfig, DataConfig, list_tags
from nmt.config.files import from_composed, set_languages
from nmt.config.schema import SOURCES, Config
from nmt.config.sources import PATTERNS, RUN
from nmt.config.tokenizer import TokenizerConfig
from nmt.config.training import AUTO, TrainingConfig
from nmt.config.upgrades import LATER_KEYS, upgrade_data
from nmt.errors import UserError, read_backend, suggest

# Keys that a resumed run may change: limits, intervals, paths, search. Any other key would make it
# another run.
_CHANGEABLE_ON_RESUME = re.compile(
    r"training\.(max_(steps|epochs|minutes|skipped)|early_stopping|stop_behind|resume|log_every"
    r"|evaluate_every|evaluation_share|keep_checkpoints|samples|probes|probe_every|attention_every"
    r"|jit_compile|deterministic|devices|spike_factor|on_spike|batch_tokens|accumulate"
    r"|parallel_parts)"
    r"|decoding(\..*)?|cache_dir|runs_dir"
    r"|data\.(rejected_file|prepared|tests\.\w+|sources\.\w+\.(archive|path|run))"
)

# Short keys of files that may have moved, as `conf/data` passes them on.
_FULL_KEYS = {
    "data.train": ("pairs.path", "corrections.path"),
    "data.archive": ("pairs.archive",),
    "data.dev": ("dev.path",),
    "data.test": ("test.path",),
}

# Model keys that a run starting from another may change: no weight's shape depends on them,
# except that of learned positions on max_length.
_CHANGEABLE_ON_START = re.compile(
    r"model\.(\w*dropout|lora_rank|lora_on|max_length|attention_kernel|remat|name)"
)

# Keys that a prepared corpus determines, and exceptions that only matter in training.
_DETERMINED_BY_PREPARATION = re.compile(
    r"data\..+|tokenizer(\..*)?|training\.(row_lengths|tokenizer_lines)"
)
_DETERMINED_BY_TRAINING = re.compile(
    r"~?data\.(temperature|stages(\..*)?)|data\.(prepared|sources\.\w+\.weight)"
)

_BATCH_KEYS = ("row_lengths", "batch_tokens", "update_tokens", "accumulate")  # of training
_TOKENIZER = re.compile(r"tokenizer\b")
_EMBEDDING = ("embedding", "embedding/table")  # names by which it can be frozen


def check_held_out(data: DataConfig, overrides: Sequence[str]) -> None:
    """Check that a new run or a preparation can hold back the pairs that overrides ask for.

    Raises:
        UserError: data.dev or data.test is a number that no source gives pairs for.
    """
    keys = _list_overridden_keys(overrides)
    by_split = {source.split: name for name, source in data.sources.items()}
    for split in ("dev", "test"):
        key, size = f"data.{split}", getattr(data, split)
        if key not in keys or not size:
            continue
        if split in by_split:
            raise UserError(
                f"{key}={size:.10g} would take these pairs from other sources, but source "
                f"{by_split[split]!r} is the {split} split: leave {key} out"
            )
        if "shares" not in by_split:
            names = (name for name, source in data.sources.items() if source.kind != PATTERNS)
            raise UserError(
                f"{key}={size:.10g} needs a source to take these pairs from: set "
                f"{SOURCES}.{next(names, 'NAME')}.split=shares, or {key}=FILE"
            )


def check_effects(config: Config, overrides: Sequence[str]) -> None:
    """Check that no setting of a new run is without effect. Resumed runs are not checked.

    Raises:
        UserError: one is.
    """
    model, training = config.model, config.training
    if model.lora_rank is not None and training.start_from is None:
        raise UserError(
            "model.lora_rank trains adapters only: set training.start_from=RUN, whose weights they "
            "adapt"
        )
    if model.lora_on is not None and model.lora_rank is None:
        raise UserError("model.lora_on needs model.lora_rank, the rank of the adapters")
    if training.on_spike == "go_back" and training.spike_factor is None:
        raise UserError("training.on_spike=go_back needs training.spike_factor, such as 10")
    is_limited = training.max_update_tokens is not None and training.batch_tokens != AUTO
    if is_limited and "training.max_update_tokens" in _list_overridden_keys(overrides):
        raise UserError(
            f"training.max_update_tokens needs training.batch_tokens={AUTO}, got "
            f"{training.batch_tokens}"
        )
    _check_parallel_parts(training)
    _check_weights(config.data)


def _check_parallel_parts(training: TrainingConfig) -> None:
    """Check that parts of a batch are only set where they can be computed in parallel."""
    parts = training.parallel_parts
    if parts in (None, 1):
        return
    if training.devices not in (AUTO, "1"):
        raise UserError(
            f"training.parallel_parts={parts} is for one device, got training.devices="
            f"{training.devices}: leave one of them out"
        )
    if read_backend() == "jax":
        raise UserError(
            f"training.parallel_parts={parts} needs TensorFlow, as JAX computes the parts one "
            "after the other: leave it out"
        )


def _check_weights(data: DataConfig) -> None:
    """Check that not exactly one of several sources has a weight, which would be without effect."""
    in_stages = {name for stage in data.stages for name in stage.weights or ()}
    trained = [name for name, source in data.sources.items() if source.is_training]
    others = [n for n in trained if data.sources[n].weight is None and n not in in_stages]
    if len(trained) - len(others) == 1 < len(trained) and data.temperature is None:
        [weighted] = set(trained) - set(others)
        raise UserError(
            f"{SOURCES}.{weighted}.weight is relative to the weights of other sources: give them "
            f"weights, too: {', '.join(others)}"
        )


def combine_for_resume(
    composed: DictConfig, overrides: Sequence[str], stored: Config, folder: Path
) -> Config:
    """Return the stored configuration of a resumed run, changed by ``overrides``.

    Raises:
        UserError: an invalid value, or an override that a resumed run does not accept.
    """
    combined = OmegaConf.structured(stored)
    # An untrusted folder must not determine where to write.
    combined.data.rejected_file = None
    keys = _list_overridden_keys(overrides)
    for key in keys:
        value = OmegaConf.select(composed, key)
        key = _pass_on(key, combined.data.sources)
        if not _CHANGEABLE_ON_RESUME.fullmatch(key):
            raise UserError(
                f"a resumed run keeps its {key}: {folder} holds its configuration; start a new run "
                "to change it"
            )
        _check_source_exists(key, combined.data.sources, folder)
        test = key.removeprefix("data.tests.")
        if test != key and test not in combined.data.tests:
            raise UserError(
                f"{folder} has no test set '{test}': score other pairs with nmt.evaluate --source "
                "FILE --reference FILE"
            )
        OmegaConf.update(combined, key, value)
    _keep_update_size(combined.training, stored.training, keys)
    combined.training.resume = str(folder)
    return from_composed(combined)


def _pass_on(key: str, sources: DictConfig) -> str:
    """Return the full key of a short one, such as data.train; other keys as they are."""
    for passed in _FULL_KEYS.get(key, ()):
        if passed.partition(".")[0] in sources:
            return f"{SOURCES}.{passed}"
    return key


def _keep_update_size(training: DictConfig, stored: TrainingConfig, keys: Sequence[str]) -> None:
    """Keep the size of an update when an override changes its division into micro-batches."""
    has_size, has_count = "training.batch_tokens" in keys, "training.accumulate" in keys
    if has_size or has_count:
        training.update_tokens = tokens = stored.positions_per_update
    if has_size and not has_count:
        training.accumulate = 1  # batch_tokens determines it
    elif has_count and not has_size:
        training.batch_tokens = -(-tokens // max(1, training.accumulate))


def apply_prepared(
    composed: DictConfig, overrides: Sequence[str], stored: Mapping[str, Any], folder: str
) -> None:
    """Set the sources, tokenizer and row lengths that a prepared corpus determines.

    Raises:
        UserError: an override contradicts the prepared corpus.
    """
    keys = _list_overridden_keys(overrides)
    layers = LATER_KEYS["data"], upgrade_data(stored["data"]), {"prepared": folder}
    data = cast(DictConfig, OmegaConf.merge(ComposedDataConfig, *layers))
    for name in ("temperature", "stages"):  # of an experiment
        if value := OmegaConf.select(composed, f"data.{name}"):
            data[name] = value
    for key in keys:
        is_fixed = _DETERMINED_BY_PREPARATION.fullmatch(key.removeprefix("~"))
        if is_fixed and not _DETERMINED_BY_TRAINING.fullmatch(key):
            raise UserError(
                f"data.prepared={folder} keeps its {key}: leave it out, or prepare the corpus again"
            )
        _check_source_exists(key, data.sources, folder)
        if re.fullmatch(r"data\..+", key) and key != "data.prepared":
            value = OmegaConf.select(composed, key)
            OmegaConf.update(data, key.removeprefix("data."), value, merge=False)
    composed.data = data
    tokenizer = LATER_KEYS["tokenizer"] | stored["tokenizer"]
    composed.tokenizer = OmegaConf.structured(TokenizerConfig(**tokenizer))
    composed.training.row_lengths = sorted(set(stored["prepare"]["row_lengths"]))


def combine_for_start(
    composed: DictConfig,
    overrides: Sequence[str],
    stored: Config,
    folder: Path,
    *,
    has_paired_tokenizer: bool = False,
) -> Config:
    """Return the configuration of a new run that starts from the weights of another.

    The other run determines the model's sizes, its tags, and the languages if the corpus names
    none; if the new corpus has pairs of a run, also dropout and the shape of batches. The new run
    trains a tokenizer or keeps the other's: see `TrainingConfig.new_vocabulary`. It stays null if
    the corpus decides: see `nmt.training.preparation.resolve_vocabulary`.

    Args:
        has_paired_tokenizer: whether its tokenizer has a model for each side, as MarianMT's.

    Raises:
        UserError: an invalid value, or an override that contradicts the other run.
    """
    training = composed.training
    keys = _list_overridden_keys(overrides)
    if training.new_vocabulary is None:
        training.new_vocabulary = _decide_vocabulary(composed, keys, stored, has_paired_tokenizer)
    dropout = None  # it depends on the new corpus
    if any(source.get("kind") == RUN for source in composed.data.sources.values()):
        # That corpus has pairs of a run, most likely of this one.
        dropout = stored.model.dropout
        _keep_batches(training, stored.training, keys)
    sizes = replace(stored.model, dropout=dropout, lora_rank=None, lora_on=None)
    model = OmegaConf.structured(sizes)  # adapters are merged already
    for name in ("dropout", "lora_rank", "lora_on"):  # of an experiment
        if composed.model[name] is not None:
            model[name] = composed.model[name]
    for key in keys:
        if key in ("model", "size") or key.startswith("model."):
            has_table = getattr(stored.model, "positions", None) == "learned"
            is_table = has_table and key == "model.max_length"
            if is_table or not _CHANGEABLE_ON_START.fullmatch(key):
                raise UserError(
                    f"a run that starts from another keeps its {key}: {folder} has weights of its "
                    "sizes; leave it out"
                )
            OmegaConf.update(model, key.removeprefix("model."), OmegaConf.select(composed, key))
        elif _TOKENIZER.match(key) and not training.new_vocabulary:
            raise UserError(
                f"a run that starts from another keeps its tokenizer: {key} needs "
                "training.new_vocabulary=true"
            )
    composed.model = model
    composed.data.known_tags = sorted({*composed.data.known_tags, *list_tags(stored.data)})
    languages = stored.data.languages[::-1] if composed.data.reverse else stored.data.languages
    set_languages(composed.data, languages)
    if training.new_vocabulary is False:
        _keep_tokenizer(composed, stored, folder)
    training.start_from = str(folder)
    return from_composed(composed)


def _decide_vocabulary(
    composed: DictConfig, keys: Sequence[str], stored: Config, has_paired_tokenizer: bool
) -> bool | None:
    """Return whether options ask for a new vocabulary; None: the corpus decides."""
    is_embedding_fixed = composed.model.lora_rank is not None or any(
        fnmatchcase(name, pattern) for pattern in composed.training.freeze for name in _EMBEDDING
    )
    if is_embedding_fixed or has_paired_tokenizer:
        return False
    lacks_mark = composed.data.context and not stored.data.context
    is_new = lacks_mark or composed.data.prepared or any(map(_TOKENIZER.match, keys))
    return True if is_new else None


def _keep_tokenizer(composed: DictConfig, stored: Config, folder: Path) -> None:
    """Set the tokenizer of another run."""
    if composed.data.context and not stored.data.context:
        raise UserError(
            f"data.context={composed.data.context} needs a tokenizer with a piece for its mark, "
            f"which {folder} lacks: set training.new_vocabulary=true"
        )
    composed.tokenizer = OmegaConf.structured(stored.tokenizer)


def _keep_batches(training: DictConfig, stored: TrainingConfig, keys: Sequence[str]) -> None:
    """Set rows and batches of another run, unless an override sets some of them."""
    if not any(key.removeprefix("training.") in _BATCH_KEYS for key in keys):
        for name in _BATCH_KEYS:
            training[name] = getattr(stored, name)


def _list_overridden_keys(overrides: Sequence[str]) -> list[str]:
    """Return the key or group that each override sets; those of Hydra are left out."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    keys = [override.get_key_element().lstrip("+") for override in parsed]
    return [key for key in keys if not key.startswith("hydra.")]


def _check_source_exists(key: str, sources: DictConfig, folder: Path | str) -> None:
    """Check that the stored configuration has the source of an overridden key."""
    if key.startswith(f"{SOURCES}."):
        name = key.split(".")[2]
        if name not in sources:
            raise UserError(f"{folder} has no source '{name}'{suggest(name, sources)}")
