"""The ``data`` group: named sources of sentence pairs, cleaning, and splitting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from nmt.config.checks import (
    MISSING,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Valid,
    at_least,
    between,
    check_value,
    inside,
)
from nmt.config.noise import NoiseConfig
from nmt.config.sources import (
    FILES,
    SPLITS,
    SourceConfig,
    check_source,
    resolve_same_sources,
)
from nmt.errors import UserError, suggest
from nmt.text.context import CONTEXT_MARK

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")  # endings of compressed files
LANGUAGE = Valid(
    "a BCP 47 tag such as es or pt-BR",
    lambda tag: re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*", tag),
)
SPLIT_SIZE = Valid(
    "a number of pairs, or a share below 1",
    lambda size: size >= 0 and (size < 1 or float(size).is_integer()),
)
WORDS = Valid("single words", lambda tags: all(tag.split() == [tag] for tag in tags))
_NAME = re.compile(r"\w+")
_TAG = re.compile(r"[a-z]{2}([-_]\w+)?")  # of three letters are also .txt and .src


@dataclass
class StageConfig:
    """A stage of training and its mixture of sources. It ends at the first of its limits."""

    # Weights of sources, in place of their own; 0 leaves one out.
    weights: dict[str, float] = field(default_factory=dict)
    steps: PositiveInt | None = None  # updates
    # Of the run: of training.max_minutes, or the limit that is set.
    share: Annotated[float, inside(0, 1)] | None = None
    minutes: PositiveFloat | None = None  # wall clock, validation included
    plateau: PositiveInt | None = None  # evaluations that are not better than the best


@dataclass
class DataConfig:
    """The sentence pairs, their cleaning, and their split."""

    name: str = MISSING  # part of the name of a run
    source_language: Annotated[str, LANGUAGE] = MISSING  # for labels, scores, addresses at OPUS
    target_language: Annotated[str, LANGUAGE] = MISSING  # the same, of translations
    sources: dict[str, SourceConfig] = field(default_factory=dict)  # by a name of your choice
    reverse: bool = MISSING  # swap source and target of every source and every table of tests
    # Weighs sources that have no weight by pairs ** (1 / temperature): 1 keeps their sizes, a
    # large one makes all sources equal.
    temperature: Annotated[float, at_least(1)] | None = MISSING
    stages: list[StageConfig] = MISSING  # one after the other; empty: a single stage
    # More words that a source may begin with, beside the tags of sources: those of the run that
    # training starts from are added.
    known_tags: Annotated[list[str], WORDS] = MISSING

    prepared: str | None = None  # a folder of nmt.prepare, which determines the sources

    noise: NoiseConfig = field(default_factory=NoiseConfig)  # changes of training pairs
    # Phrases of the pairs that are trained on as well: at most this share of the pairs.
    phrases: Annotated[float, between(0, 1)] = MISSING
    # Previous sentences of ordered sources that stand before each source.
    context: NonNegativeInt = MISSING

    min_words: PositiveInt = MISSING  # per side
    max_words: int = MISSING  # per side
    max_characters: PositiveInt = MISSING  # per side
    # Longer side / shorter side, in characters, after multiplying the characters of the side that
    # usually has fewer by `typical_length_ratio`.
    max_length_ratio: Annotated[float, at_least(1)] = MISSING
    length_ratio_margin: int = MISSING  # a difference in characters that is always accepted
    # Characters of a usual target / those of its source; null: the median of each source.
    typical_length_ratio: PositiveFloat | None = MISSING
    check_languages: bool = MISSING  # refuses sources in other languages than those above
    rejected_file: str | None = None  # where training writes rejected lines, with their reasons

    # Pairs: a count (>= 1), or a share (< 1) of the sources with split=shares. Ignored if a source
    # has split=dev, split=test respectively.
    dev: Annotated[float, SPLIT_SIZE] = MISSING
    test: Annotated[float, SPLIT_SIZE] = MISSING
    split_seed: int = MISSING  # not that of the run, so that runs compare on one test split
    # More test sets, by a name of your choice: a table of source TAB target, or a run, whose test
    # split is used. Their pairs are left out of training.
    tests: dict[str, str] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, str]:
        """The language that the model reads, and the one that it writes."""
        languages = (self.source_language, self.target_language)
        return languages[::-1] if self.reverse else languages


@dataclass
class ComposedDataConfig(DataConfig):
    """The group while Hydra composes it: with keys that the files of ``conf/data`` pass on."""

    sources: dict[str, Any] = field(default_factory=dict)
    # More test sets, by a name of your choice: a table of source TAB target, or a run folder.
    tests: dict[str, Any] = field(default_factory=dict)
    train: Any = None  # a file of pairs, or two aligned files, source then target
    columns: Any = None  # data.sources.NAME.columns of these files
    encoding: str | None = None  # data.sources.NAME.encoding of these files
    # Of development: a number of pairs, a share of them below 1, or files like those of data.train.
    dev: Any = MISSING
    test: Any = MISSING  # the same, of the test
    archive: str | None = None  # data.sources.NAME.archive, of data=tatoeba and others
    url: str | None = None  # data.sources.NAME.url
    opus: str | None = None  # data.sources.NAME.opus
    sha256: str | None = None  # data.sources.NAME.sha256


# Keys of `conf/data` only.
COMPOSED_ONLY_KEYS = ("train", "columns", "encoding", "archive", "url", "opus", "sha256")


def pass_on(data: dict[str, Any], sources: str) -> dict[str, Any]:
    """Return a composed and resolved group in the form of `DataConfig`.

    Files of dev and test become sources.

    Args:
        data: the group.
        sources: its sources as YAML before interpolations were resolved.

    Raises:
        UserError: a key has a value that no source reads.
    """
    data = data | {"sources": dict(data["sources"])}
    for split in ("dev", "test"):
        path = data.get(split)
        if isinstance(path, str | list) and path != MISSING:
            if split in data["sources"]:
                raise UserError(f"data.{split}={path}: there is a source '{split}' already")
            columns = data.get("columns")
            if isinstance(columns, list):
                columns = None if isinstance(path, list) else columns[:2]
            data["sources"][split] = {"kind": FILES, "split": split, "path": path} | {
                "columns": columns,
                "encoding": data.get("encoding"),
            }
            data[split] = 0
            sources += "${data.columns} ${data.encoding}"
    for key in COMPOSED_ONLY_KEYS:
        value = data.pop(key, None)
        if value is not None and f"${{data.{key}}}" not in sources:
            corpus = {"archive": "tatoeba", "sha256": "tatoeba", "url": "opus", "opus": "opus"}.get(
                key, "files"
            )
            raise UserError(
                f"data.{key}={value}: no source of data={data.get('name')} reads it; choose "
                f"data={corpus}, for example"
            )
    return data


def guess_languages(data: Mapping[str, Any]) -> list[str | None]:
    """Return the languages by which two aligned files or two columns are named, or None for each.

    >>> guess_languages({"train": ["train.es", "train.pt-BR.gz"]})
    ['es', 'pt-BR']
    >>> guess_languages({"train": "pairs.jsonl", "columns": ["translation.es", "translation.en"]})
    ['es', 'en']
    """
    train, columns = data.get("train"), data.get("columns")
    names = train if isinstance(train, list) else columns if isinstance(columns, list) else []
    compressed = "|".join(map(re.escape, COMPRESSED))
    endings = [re.sub(f"({compressed})$", "", str(name)).split(".")[-1] for name in names[:2]]
    tags = [ending if _TAG.fullmatch(ending) else None for ending in endings]
    return tags if len(tags) == 2 else [None, None]


def list_tags(data: DataConfig) -> list[str]:
    """Return the distinct tags that a source may begin with, in alphabetical order."""
    tags = {source.tag for source in data.sources.values() if source.tag is not None}
    return sorted(tags.union(data.known_tags))


def list_reverse_tags(data: DataConfig) -> list[str]:
    """Return the tags that only reversed sources have, in alphabetical order.

    The list is empty if other sources have no tags: then no tag chooses the direction.
    """
    tags: dict[bool, set[str]] = {False: set(), True: set()}
    for source in data.sources.values():
        if source.tag is not None:
            tags[source.reverse].add(source.tag)
    return sorted(tags[True] - tags[False]) if tags[False] else []


def list_reserved(data: DataConfig) -> list[str]:
    """Return the words that a tokenizer reserves: tags, and the mark of contexts if needed."""
    return [*list_tags(data), *([CONTEXT_MARK] if data.context else [])]


def check_data(config: DataConfig) -> None:
    """Raise a `UserError` if a source is invalid, or if keys contradict each other."""
    if not config.sources:
        if config.prepared is not None:
            return  # the prepared folder has them
        if config.name == "prepared":
            raise UserError("data=prepared needs data.prepared=FOLDER, made by nmt.prepare")
        raise UserError(
            "data.sources is empty: choose a corpus, such as data=files data.train=FILE"
        )
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
        if not path or not isinstance(path, str):  # OmegaConf accepts lists here
            raise UserError(f"data.tests.{name} needs a file of pairs, or a run")
    if not any(source.is_training for source in config.sources.values()):
        raise UserError("data.sources has no training data: give a source split=shares or train")
    check_value("data.max_words", config.max_words, at_least(config.min_words))
    _check_stages(config)
    if config.context and not any(source.ordered for source in config.sources.values()):
        raise UserError(
            f"data.context={config.context} needs lines in the order of their documents: set "
            f"data.sources.{next(iter(config.sources))}.ordered=true if they are"
        )


def _check_stages(config: DataConfig) -> None:
    """Check that every stage but the last has an end, and that each has training data."""
    for number, stage in enumerate(config.stages):
        key = f"data.stages[{number}]"
        for name, weight in stage.weights.items():
            if name not in config.sources:
                hint = suggest(name, config.sources)
                raise UserError(f"{key}.weights: no such source '{name}'{hint}")
            check_value(f"{key}.weights.{name}", weight, at_least(0))
        has_training_data = any(
            source.is_training and stage.weights.get(name) != 0
            for name, source in config.sources.items()
        )
        if not has_training_data:
            raise UserError(f"{key}.weights leave nothing to train on")
        is_last = number == len(config.stages) - 1
        has_limit = {stage.steps, stage.share, stage.minutes, stage.plateau} != {None}
        if is_last and has_limit:
            raise UserError(f"{key} is the last stage and ends with training: leave out its end")
        if not is_last and not has_limit:
            raise UserError(f"{key} has no end: set its steps, share, minutes or plateau")
