"""The ``data`` group: named sources of sentence pairs, cleaning, and splitting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nmt.config.checks import MISSING, check_above_zero, check_at_least, check_one_of
from nmt.errors import UserError, suggest

PATTERNS, SAME = "patterns", "same"
KINDS = ("phrasebook", PATTERNS, "zip", "tsv", "parallel", SAME)
SPLITS = ("shares", "train", "dev", "test")

# Keys of a source that may be given to the group itself, ``data.path=FILE``, and then belong to
# its one source of a kind that has them.
SHORT_KEYS = {
    "archive": ("zip",),
    "url": ("zip",),
    "opus": ("zip",),
    "sha256": ("zip",),
    "path": ("tsv",),
    "columns": ("tsv", "zip", "phrasebook", PATTERNS),
    "source_path": ("parallel",),
    "target_path": ("parallel",),
}
_OPUS = "https://object.pouta.csc.fi"
_NAME = re.compile(r"\w+")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
# Keys of the group in a run of before version 0.2, which had one corpus.
_OF_ONE_CORPUS = ("kind", "patterns", "pattern_share", *SHORT_KEYS)


@dataclass
class SourceConfig:
    """Where sentence pairs come from, what they are for, and how much of an epoch they are."""

    # phrasebook: the embedded sentences | patterns: the embedded pairs generated from patterns
    # | zip: an archive, zip or .tgz, with one text file of pairs, or two aligned ones
    # | tsv: one table | parallel: two aligned files
    # | same: what another source is made of, to be used once more in another way
    kind: str = MISSING
    archive: str | None = None  # zip: a file already on disk, instead of downloading
    url: str | None = None  # zip: where it is fetched from
    # zip: corpus and version, such as TED2020/v1, in place of its url at OPUS (opus.nlpl.eu)
    opus: str | None = None
    sha256: str | None = None  # zip: of the archive, in hexadecimal; null: it may be any
    # zip: how the names of two aligned files in it end, source and target; null: it has one table
    members: list[str] | None = None
    path: str | None = None  # tsv: a file, plain, .gz, .bz2 or .xz, or a pattern
    # All but parallel: source, target column from 0; the embedded corpus has Spanish, English. A
    # third one holds how much a pair's loss weighs, 1 being usual; zip and tsv.
    columns: list[int] = field(default_factory=lambda: [0, 1])
    source_path: str | None = None  # parallel: line-aligned files, or patterns
    target_path: str | None = None
    pairs: int = 0  # patterns: how many, from the first
    of: str | None = None  # same: the other source's name
    # shares: to train on, but for the shares data.dev and data.test | train: to train on
    # | dev | test
    split: str = "shares"
    # Share of an epoch, relative to the other sources' that have one: pairs are repeated to come
    # near it (generated ones never). null: every pair once.
    weight: float | None = None
    tag: str | None = None  # a word put before every source sentence, such as <2en>
    reverse: bool = False  # to translate the other way; splits are made before


@dataclass
class StageConfig:
    """A part of training, and what it is trained on: it ends at whichever comes first."""

    # Of sources, in place of their own; 0 leaves one out.
    weights: dict[str, float] = field(default_factory=dict)
    steps: int | None = None  # updates
    share: float | None = None  # of the whole run: of training.max_minutes, or what else ends it
    minutes: float | None = None  # wall clock, validation included
    plateau: int | None = None  # evaluations without a better dev BLEU


@dataclass
class DataConfig:
    """Which sentence pairs, how they are cleaned, and how they are split."""

    name: str = MISSING  # part of the name of a run
    source_language: str = MISSING  # BCP 47 tag, for labels, scores and addresses at OPUS
    target_language: str = MISSING
    sources: dict[str, SourceConfig] = field(default_factory=dict)  # by a name of your choice
    reverse: bool = MISSING  # every source, and every table of tests
    # Weighs sources that have no weight by pairs ** (1 / temperature): 1 leaves them as they are, a
    # large one makes all alike.
    temperature: float | None = MISSING
    stages: list[StageConfig] = MISSING  # one after the other; empty: there is one

    prepared: str | None = None  # a folder of nmt.prepare, whose sources these are

    # Short for a key of the one source that has it; null in a finished configuration.
    archive: str | None = None
    url: str | None = None
    opus: str | None = None
    sha256: str | None = None
    path: str | None = None
    columns: list[int] | None = None
    source_path: str | None = None
    target_path: str | None = None

    min_words: int = MISSING  # per side
    max_words: int = MISSING  # per side
    max_characters: int = MISSING  # per side
    # Longer side / shorter side, in characters, once those of the side that usually has fewer are
    # multiplied by `typical_length_ratio`.
    max_length_ratio: float = MISSING
    length_ratio_margin: int = MISSING  # characters by which any pair may differ all the same
    # Characters of a usual target by those of its source; null: the median of each source.
    typical_length_ratio: float | None = MISSING
    rejected_file: str | None = None  # where training writes rejected lines, with their reasons

    # Pairs: a count (>= 1), or a share (< 1) of the sources with split=shares. Not taken where a
    # source has split=dev, split=test respectively.
    dev: float = MISSING
    test: float = MISSING
    split_seed: int = MISSING  # apart from `seed`, so that runs compare on one test split
    # More to score on, by a name of your choice: a table of source TAB target, or a run, whose test
    # split it is. Nothing of it is trained on.
    tests: dict[str, str] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, str]:
        """What the model reads, and what it writes."""
        languages = (self.source_language, self.target_language)
        return languages[::-1] if self.reverse else languages


def list_tags(data: DataConfig) -> list[str]:
    """Return the tags of all sources, each once, in alphabetical order."""
    return sorted({source.tag for source in data.sources.values() if source.tag is not None})


def source_key(sources: Mapping[str, SourceConfig], name: str, key: str) -> str:
    """Return what a user writes to set a key of a source: the short form where it is enough."""
    kinds = SHORT_KEYS.get(key, ())
    alone = sum(source.kind in kinds for source in sources.values()) == 1
    return f"data.{key}" if alone and sources[name].kind in kinds else f"data.sources.{name}.{key}"


def expand_short_keys(data: DataConfig) -> DataConfig:
    """Return the configuration with each short key moved to the source that it is about.

    Raises:
        UserError: no source has such a key, or several have.
    """
    sources = dict(data.sources)
    for key, kinds in SHORT_KEYS.items():
        value = getattr(data, key)
        if value is None:
            continue
        names = [name for name, source in sources.items() if source.kind in kinds]
        if not names:
            other = "tatoeba" if kinds[0] == "zip" else kinds[0]
            raise UserError(
                f"data.{key}={value}: no source of data={data.name} has such a key; choose "
                f"data={other} for one"
            )
        if len(names) > 1:
            longer = " or ".join(f"data.sources.{name}.{key}" for name in names)
            raise UserError(
                f"data.{key}={value}: more than one source has such a key; write {longer}"
            )
        sources[names[0]] = replace(sources[names[0]], **{key: value})
    for name, source in sources.items():
        if source.opus is not None:
            url = _locate_at_opus(data, source, name)
            members = source.members or [f".{data.source_language}", f".{data.target_language}"]
            sources[name] = replace(source, opus=None, url=url, members=members)
    nothing: dict[str, Any] = dict.fromkeys(SHORT_KEYS)
    return replace(data, sources=sources, **nothing)


def _locate_at_opus(data: DataConfig, source: SourceConfig, name: str) -> str:
    """Return where OPUS keeps a corpus: the two languages are in alphabetical order there."""
    key = f"{source_key(data.sources, name, 'opus')}={source.opus}"
    if source.url is not None:
        raise UserError(f"{key} stands for a url, and there is {source.url}: leave one of them out")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", source.opus or ""):
        raise UserError(f"{key} must name a corpus and its version, such as TED2020/v1")
    first, second = sorted((data.source_language, data.target_language))
    return f"{_OPUS}/OPUS-{source.opus}/moses/{first}-{second}.txt.zip"


def resolve_same_sources(data: DataConfig) -> DataConfig:
    """Return the configuration with the files of another source in every one of kind ``same``.

    Raises:
        UserError: one names no source that has files.
    """
    sources = dict(data.sources)
    for name, source in data.sources.items():
        if source.kind != SAME:
            if source.of is not None:
                raise UserError(
                    f"data.sources.{name}.of is for sources of kind {SAME}, and this one is of "
                    f"kind {source.kind}"
                )
            continue
        key = f"data.sources.{name}.of"
        if source.of not in data.sources:
            names = suggest(source.of, data.sources) if source.of else "; name one of the others"
            raise UserError(f"{key}={source.of}: there is no such source{names}")
        other = data.sources[source.of]
        if other.kind == SAME:
            raise UserError(f"{key}={source.of}: that has no files of its own either")
        own = SourceConfig(kind=SAME)
        files = ("kind", "pairs", "members", *SHORT_KEYS)
        for one in files[1:]:
            if getattr(source, one) != getattr(own, one):
                raise UserError(f"data.sources.{name}.{one}: leave it out, it is {source.of}'s")
        sources[name] = replace(source, of=None, **{one: getattr(other, one) for one in files})
    return replace(data, sources=sources)


def check_data(config: DataConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first key that is wrong and what it may be.
    """
    if not config.sources and config.prepared is not None:
        return  # which are the folder's
    if not config.sources and config.name == "prepared":
        raise UserError("data=prepared needs data.prepared=FOLDER, made by nmt.prepare")
    if not config.sources:
        raise UserError("data.sources is empty: choose a corpus, such as data=tsv data.path=FILE")
    for name, source in config.sources.items():
        check_one_of(f"data.sources.{name}.kind", source.kind, KINDS)
    config = resolve_same_sources(config)
    for name in config.sources:
        if not _NAME.fullmatch(name):
            raise UserError(f"data.sources: '{name}' is no name: use letters, digits and _")
        _check_source(config, name)
    for name, where in config.tests.items():
        if not _NAME.fullmatch(name) or name in SPLITS:
            raise UserError(
                f"data.tests: '{name}' is no name: use letters, digits and _, but not "
                f"{', '.join(SPLITS)}"
            )
        if not where:
            raise UserError(f"data.tests.{name} needs a file of pairs, or a run")
    if not any(source.split in ("shares", "train") for source in config.sources.values()):
        raise UserError("data.sources has nothing to train on: no source has split=shares or train")
    if config.temperature is not None:
        check_at_least("data.temperature", config.temperature, 1)
    _check_stages(config)
    check_at_least("data.min_words", config.min_words, 1)
    check_at_least("data.max_words", config.max_words, config.min_words)
    check_at_least("data.max_characters", config.max_characters, 1)
    check_at_least("data.max_length_ratio", config.max_length_ratio, 1)
    check_above_zero("data.typical_length_ratio", config.typical_length_ratio, ", or null")
    check_at_least("data.dev", config.dev, 0)
    check_at_least("data.test", config.test, 0)


def _check_source(config: DataConfig, name: str) -> None:
    source, key = config.sources[name], f"data.sources.{name}"
    check_one_of(f"{key}.split", source.split, SPLITS)
    _check_files(config, name)
    columns = source.columns
    if len(columns) not in (2, 3) or min(columns) < 0 or len(set(columns)) < len(columns):
        raise UserError(
            f"{source_key(config.sources, name, 'columns')}={columns}: give two different column "
            "numbers, source then target, counted from 0; and a third one for weights, if any"
        )
    if source.kind == PATTERNS and max(columns) > 1:
        raise UserError(f"{key}.columns={columns}: generated pairs have the columns 0 and 1")
    if len(columns) == 3 and source.split in ("dev", "test"):
        raise UserError(f"{key}.columns={columns}: weights are for pairs that are trained on")
    check_at_least(f"{key}.pairs", source.pairs, 0)
    if source.pairs and source.kind != PATTERNS:
        raise UserError(f"{key}.pairs={source.pairs} is for sources of kind {PATTERNS}")
    if source.kind == PATTERNS and source.split != "train":
        raise UserError(f"{key}.split={source.split}: generated pairs need split=train")
    check_above_zero(f"{key}.weight", source.weight, ", or null")
    if source.tag is not None and source.tag.split() != [source.tag]:
        raise UserError(f"{key}.tag='{source.tag}' must be one word, or null")


def _check_stages(config: DataConfig) -> None:
    """Check that every stage but the last ends, and has something to train on."""
    for number, stage in enumerate(config.stages):
        key = f"data.stages[{number}]"
        for name, weight in stage.weights.items():
            if name not in config.sources:
                near = suggest(name, config.sources)
                raise UserError(f"{key}.weights: there is no source '{name}'{near}")
            check_at_least(f"{key}.weights.{name}", weight, 0)
        trained = [
            name
            for name, source in config.sources.items()
            if source.split in ("shares", "train") and stage.weights.get(name) != 0
        ]
        if not trained:
            raise UserError(f"{key}.weights leave nothing to train on")
        ends = {name: getattr(stage, name) for name in ("steps", "share", "minutes", "plateau")}
        for name, value in ends.items():
            check_above_zero(f"{key}.{name}", value, ", or null")
        if stage.share is not None and stage.share >= 1:
            raise UserError(f"{key}.share={stage.share} must be below 1: it is a part of the run")
        last = number == len(config.stages) - 1
        if last and any(value is not None for value in ends.values()):
            raise UserError(f"{key} is the last, and ends with training: leave its end out")
        if not last and all(value is None for value in ends.values()):
            raise UserError(f"{key} has no end: set its steps, share, minutes or plateau")


def _check_files(config: DataConfig, name: str) -> None:
    """Check that a source has the files of its kind, and no others."""
    source, sources = config.sources[name], config.sources
    for key in ("archive", "url", "sha256", "path", "source_path", "target_path"):
        if getattr(source, key) and source.kind not in SHORT_KEYS[key]:
            raise UserError(
                f"data.sources.{name}.{key} needs kind={SHORT_KEYS[key][0]}, got kind={source.kind}"
            )
    members = source.members
    if members is not None:
        key = f"data.sources.{name}.members"
        if source.kind != "zip":
            raise UserError(f"{key} is for sources of kind zip, and this one is {source.kind}")
        if len(members) != 2 or members[0] == members[1] or not all(members):
            raise UserError(f"{key}={members}: give how two names end, source then target")
    if source.sha256 and not _SHA256.fullmatch(source.sha256):
        raise UserError(
            f"{source_key(sources, name, 'sha256')} must be the 64 hexadecimal digits that "
            f"sha256sum prints, got {source.sha256}"
        )
    if source.url and not source.url.lower().startswith(("http://", "https://")):
        raise UserError(
            f"{source_key(sources, name, 'url')} must begin with http:// or https://, got "
            f"{source.url}: give a local file with {source_key(sources, name, 'archive')}=FILE"
        )
    needed = {"tsv": ("path",), "parallel": ("source_path", "target_path"), "zip": ("archive",)}
    keys = needed.get(source.kind, ()) if not source.url else ()
    if not all(getattr(source, key) for key in keys):
        which = f"data={config.name}" if len(sources) == 1 else f"source '{name}'"
        wanted = " and ".join(f"{source_key(sources, name, key)}=FILE" for key in keys)
        raise UserError(f"{which} needs {wanted}")


def upgrade_data(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the ``data`` group of an older run in today's form.

    Version 0.1 had one corpus and no sources; 0.2 called the kind ``patterns`` ``grammar``.

    Raises:
        UserError: a stored value is invalid.
    """
    if isinstance(stored.get("sources"), dict):
        return stored | {
            "sources": {
                name: source | {"kind": PATTERNS}
                if isinstance(source, dict) and source.get("kind") == "grammar"
                else source
                for name, source in stored["sources"].items()
            }
        }
    if "sources" in stored or "kind" not in stored:
        return stored
    corpus = str(stored["kind"])
    kind = "zip" if corpus == "tatoeba" else corpus
    source = {"kind": kind} | {
        key: stored[key]
        for key, kinds in SHORT_KEYS.items()
        if kind in kinds and stored.get(key) is not None
    }
    sources = {"pairs": source}
    if corpus == "phrasebook":
        sources = {"written": source}
        if stored.get("patterns"):
            share = stored.get("pattern_share", 0.5)
            if not isinstance(share, float | int):
                raise UserError(f"data.pattern_share={share} is no number")
            source["weight"] = 1 - share
            sources["patterns"] = {
                "kind": PATTERNS,
                "pairs": stored["patterns"],
                "split": "train",
                "weight": share,
            }
    data = {key: value for key, value in stored.items() if key not in _OF_ONE_CORPUS}
    return data | {"name": corpus, "sources": sources}
