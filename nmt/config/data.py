"""The ``data`` group: named sources of sentence pairs, cleaning, and splitting."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nmt.config.checks import MISSING, check_above_zero, check_at_least, check_choice
from nmt.config.noise import NoiseConfig, check_noise
from nmt.config.sources import (
    SOURCE_KINDS,
    SPLITS,
    SourceConfig,
    check_source,
    resolve_same_sources,
)
from nmt.errors import UserError, suggest
from nmt.text.context import CONTEXT_MARK

_NAME = re.compile(r"\w+")


@dataclass
class StageConfig:
    """A stage of training and its mixture of sources. It ends at the first of its limits."""

    # Weights of sources, in place of their own; 0 leaves one out.
    weights: dict[str, float] = field(default_factory=dict)
    steps: int | None = None  # updates
    share: float | None = None  # of the run: of training.max_minutes, or the limit that is set
    minutes: float | None = None  # wall clock, validation included
    plateau: int | None = None  # evaluations without a better dev BLEU


@dataclass
class DataConfig:
    """The sentence pairs, their cleaning, and their split."""

    name: str = MISSING  # part of the name of a run
    source_language: str = MISSING  # BCP 47 tag, for labels, scores and addresses at OPUS
    target_language: str = MISSING
    sources: dict[str, SourceConfig] = field(default_factory=dict)  # by a name of your choice
    reverse: bool = MISSING  # swap source and target of every source and every table of tests
    # Weighs sources that have no weight by pairs ** (1 / temperature): 1 keeps their sizes, a
    # large one makes all sources equal.
    temperature: float | None = MISSING
    stages: list[StageConfig] = MISSING  # one after the other; empty: a single stage

    prepared: str | None = None  # a folder of nmt.prepare, which determines the sources

    # Short forms for a key of the only source that has it; null in a finished configuration.
    archive: str | None = None
    url: str | None = None
    opus: str | None = None
    sha256: str | None = None
    path: str | None = None
    columns: list[int] | None = None
    source_path: str | None = None
    target_path: str | None = None

    noise: NoiseConfig = field(default_factory=NoiseConfig)  # changes of training pairs
    context: int = MISSING  # previous sentences of ordered sources that stand before each source

    min_words: int = MISSING  # per side
    max_words: int = MISSING  # per side
    max_characters: int = MISSING  # per side
    # Longer side / shorter side, in characters, after multiplying the characters of the side that
    # usually has fewer by `typical_length_ratio`.
    max_length_ratio: float = MISSING
    length_ratio_margin: int = MISSING  # a difference in characters that is always accepted
    # Characters of a usual target / those of its source; null: the median of each source.
    typical_length_ratio: float | None = MISSING
    rejected_file: str | None = None  # where training writes rejected lines, with their reasons

    # Pairs: a count (>= 1), or a share (< 1) of the sources with split=shares. Ignored if a source
    # has split=dev, split=test respectively.
    dev: float = MISSING
    test: float = MISSING
    split_seed: int = MISSING  # separate from `seed`, so that runs compare on one test split
    # More test sets, by a name of your choice: a table of source TAB target, or a run, whose test
    # split is used. Their pairs are left out of training.
    tests: dict[str, str] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, str]:
        """The language that the model reads, and the one that it writes."""
        languages = (self.source_language, self.target_language)
        return languages[::-1] if self.reverse else languages


def list_tags(data: DataConfig) -> list[str]:
    """Return the distinct tags of all sources, in alphabetical order."""
    return sorted({source.tag for source in data.sources.values() if source.tag is not None})


def list_reserved(data: DataConfig) -> list[str]:
    """Return the words that a tokenizer reserves: tags, and the mark of contexts if needed."""
    return [*list_tags(data), *([CONTEXT_MARK] if data.context else [])]


def check_data(config: DataConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first invalid key and its valid values.
    """
    if not config.sources:
        if config.prepared is not None:
            return  # the prepared folder has them
        if config.name == "prepared":
            raise UserError("data=prepared needs data.prepared=FOLDER, made by nmt.prepare")
        raise UserError("data.sources is empty: choose a corpus, such as data=tsv data.path=FILE")
    for name, source in config.sources.items():
        check_choice(f"data.sources.{name}.kind", source.kind, SOURCE_KINDS)
    config = resolve_same_sources(config)
    for name in config.sources:
        if not _NAME.fullmatch(name):
            raise UserError(f"data.sources: invalid name '{name}': use letters, digits and _")
        check_source(config, name)
    for name, path in config.tests.items():
        if not _NAME.fullmatch(name) or name in SPLITS:
            raise UserError(
                f"data.tests: invalid name '{name}': use letters, digits and _, but not "
                f"{', '.join(SPLITS)}"
            )
        if not path:
            raise UserError(f"data.tests.{name} needs a file of pairs, or a run")
    if not any(source.split in ("shares", "train") for source in config.sources.values()):
        raise UserError("data.sources has no training data: give a source split=shares or train")
    if config.temperature is not None:
        check_at_least("data.temperature", config.temperature, 1)
    _check_stages(config)
    check_noise(config.noise)
    _check_context(config)
    check_at_least("data.min_words", config.min_words, 1)
    check_at_least("data.max_words", config.max_words, config.min_words)
    check_at_least("data.max_characters", config.max_characters, 1)
    check_at_least("data.max_length_ratio", config.max_length_ratio, 1)
    check_above_zero("data.typical_length_ratio", config.typical_length_ratio, ", or null")
    check_at_least("data.dev", config.dev, 0)
    check_at_least("data.test", config.test, 0)


def _check_context(config: DataConfig) -> None:
    check_at_least("data.context", config.context, 0)
    if config.context and not any(source.ordered for source in config.sources.values()):
        name = next(iter(config.sources))
        raise UserError(
            f"data.context={config.context} needs lines in the order of their documents: set "
            f"data.sources.{name}.ordered=true if they are"
        )


def _check_stages(config: DataConfig) -> None:
    """Check that every stage but the last has an end, and that each has training data."""
    for number, stage in enumerate(config.stages):
        key = f"data.stages[{number}]"
        for name, weight in stage.weights.items():
            if name not in config.sources:
                hint = suggest(name, config.sources)
                raise UserError(f"{key}.weights: no such source '{name}'{hint}")
            check_at_least(f"{key}.weights.{name}", weight, 0)
        has_training_data = any(
            source.split in ("shares", "train") and stage.weights.get(name) != 0
            for name, source in config.sources.items()
        )
        if not has_training_data:
            raise UserError(f"{key}.weights leave nothing to train on")
        limits = {name: getattr(stage, name) for name in ("steps", "share", "minutes", "plateau")}
        for name, value in limits.items():
            check_above_zero(f"{key}.{name}", value, ", or null")
        if stage.share is not None and stage.share >= 1:
            raise UserError(f"{key}.share must be below 1, a share of the run, got {stage.share}")
        is_last = number == len(config.stages) - 1
        has_limit = any(value is not None for value in limits.values())
        if is_last and has_limit:
            raise UserError(f"{key} is the last stage and ends with training: leave out its end")
        if not is_last and not has_limit:
            raise UserError(f"{key} has no end: set its steps, share, minutes or plateau")
