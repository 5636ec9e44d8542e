"""Named sources of sentence pairs: their keys, and the ways to refer to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nmt.config.checks import MISSING, check_above_zero, check_at_least, check_choice
from nmt.errors import UserError, suggest

if TYPE_CHECKING:
    from nmt.config.data import DataConfig

PATTERNS, RUN, SAME, TRANSLATIONS = "patterns", "run", "same", "translations"
SOURCE_KINDS = ("phrasebook", PATTERNS, "zip", "tsv", "parallel", TRANSLATIONS, RUN, SAME)
SPLITS = ("shares", "train", "dev", "test")

# Keys of a source that may be given to the group itself, ``data.path=FILE``, and then belong to
# its only source of a kind that has them.
SHORT_KEYS = {
    "archive": ("zip",),
    "url": ("zip",),
    "opus": ("zip",),
    "sha256": ("zip",),
    "path": ("tsv", TRANSLATIONS),
    "columns": ("tsv", TRANSLATIONS, "zip", "phrasebook", PATTERNS),
    "source_path": ("parallel",),
    "target_path": ("parallel",),
}
_OPUS = "https://object.pouta.csc.fi"
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


@dataclass
class SourceConfig:
    """Where sentence pairs come from, what they are for, and how much of an epoch they are."""

    # phrasebook: the embedded sentences | patterns: the embedded pairs generated from patterns
    # | zip: an archive, zip or .tgz, with one text file of pairs, or two aligned ones
    # | tsv: one table | parallel: two aligned files
    # | translations: a table, or a file of TMX, XLIFF or PO; the last translation of a text counts
    # | run: training pairs of another run; with a weight, as many of them as it allows
    # | same: the files of another source, used a second time with other settings
    kind: str = MISSING
    archive: str | None = None  # zip: a local file, instead of downloading
    url: str | None = None  # zip: where it is downloaded from
    # zip: corpus and version, such as TED2020/v1, in place of its url at OPUS (opus.nlpl.eu)
    opus: str | None = None
    sha256: str | None = None  # zip: of the archive, in hexadecimal; null: not checked
    # zip: endings of the names of two aligned files in it, source and target; null: one table
    members: list[str] | None = None
    # tsv, translations: a file, or a file name pattern; a table is plain, .gz, .bz2 or .xz
    path: str | None = None
    # All but parallel: source, target column from 0; the embedded corpus has Spanish, English. An
    # optional third one, for zip and tsv, holds the weight of a pair in the loss, usually 1.
    columns: list[int] = field(default_factory=lambda: [0, 1])
    source_path: str | None = None  # parallel: line-aligned files, or file name patterns
    target_path: str | None = None
    pairs: int = 0  # patterns: how many, from the first
    run: str | None = None  # run: its folder
    of: str | None = None  # same: name of the other source
    # shares: training data, less the shares data.dev and data.test | train: training data only
    # | dev | test
    split: str = "shares"
    # Share of an epoch, relative to the other sources that have a weight: pairs are repeated to
    # approximate it, generated pairs never. null: every pair once.
    weight: float | None = None
    tag: str | None = None  # a word put before every source sentence, such as <2en>
    reverse: bool = False  # swap source and target; splits are made before
    # Whether each line follows the one before it, for data.context; an empty line begins another
    # document, and so does a line with another content of `document_column`, counted from 0.
    ordered: bool = False
    document_column: int | None = None


def source_key(sources: Mapping[str, SourceConfig], name: str, key: str) -> str:
    """Return the shortest configuration key that sets a key of a source, for messages."""
    kinds = SHORT_KEYS.get(key, ())
    is_unique = sum(source.kind in kinds for source in sources.values()) == 1
    has_short = is_unique and sources[name].kind in kinds
    return f"data.{key}" if has_short else f"data.sources.{name}.{key}"


def expand_short_keys(data: DataConfig) -> DataConfig:
    """Return the configuration with each short key moved to its source.

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
                f"data.{key}={value}: no source of data={data.name} has this key; choose "
                f"data={other}, for example"
            )
        if len(names) > 1:
            longer = " or ".join(f"data.sources.{name}.{key}" for name in names)
            raise UserError(f"data.{key}={value}: several sources have this key; write {longer}")
        sources[names[0]] = replace(sources[names[0]], **{key: value})
    for name, source in sources.items():
        if source.opus is not None:
            url = _locate_at_opus(data, source, name)
            members = source.members or [f".{data.source_language}", f".{data.target_language}"]
            sources[name] = replace(source, opus=None, url=url, members=members)
    unset: dict[str, Any] = dict.fromkeys(SHORT_KEYS)
    return replace(data, sources=sources, **unset)


def _locate_at_opus(data: DataConfig, source: SourceConfig, name: str) -> str:
    """Return the address of a corpus at OPUS, which sorts the two languages alphabetically."""
    key = f"{source_key(data.sources, name, 'opus')}={source.opus}"
    if source.url is not None:
        raise UserError(f"{key} contradicts its url {source.url}: leave one of them out")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", source.opus or ""):
        raise UserError(f"{key} must name a corpus and its version, such as TED2020/v1")
    first, second = sorted((data.source_language, data.target_language))
    return f"{_OPUS}/OPUS-{source.opus}/moses/{first}-{second}.txt.zip"


def resolve_same_sources(data: DataConfig) -> DataConfig:
    """Return the configuration with every source of kind ``same`` given the other's files.

    Raises:
        UserError: a source of kind ``same`` names no source that has files.
    """
    sources = dict(data.sources)
    for name, source in data.sources.items():
        key = f"data.sources.{name}.of"
        if source.kind != SAME:
            if source.of is not None:
                raise UserError(f"{key} needs kind={SAME}, got kind={source.kind}")
            continue
        if source.of not in data.sources:
            hint = suggest(source.of, data.sources) if source.of else "; name another source"
            raise UserError(f"{key}={source.of}: no such source{hint}")
        other = data.sources[source.of]
        if other.kind == SAME:
            raise UserError(f"{key}={source.of}: that source has no files of its own")
        default = SourceConfig(kind=SAME)
        file_keys = ("pairs", "members", "run", *SHORT_KEYS)
        for file_key in file_keys:
            if getattr(source, file_key) != getattr(default, file_key):
                raise UserError(
                    f"data.sources.{name}.{file_key}: leave it out, {source.of} determines it"
                )
        files = {file_key: getattr(other, file_key) for file_key in file_keys}
        sources[name] = replace(source, of=None, kind=other.kind, **files)
    return replace(data, sources=sources)


def check_source(config: DataConfig, name: str) -> None:
    """Check one source; those of kind ``same`` must be resolved before.

    Raises:
        UserError: names the first invalid key and its valid values.
    """
    source, key = config.sources[name], f"data.sources.{name}"
    check_choice(f"{key}.split", source.split, SPLITS)
    _check_files(config, name)
    columns = source.columns
    if len(columns) not in (2, 3) or min(columns) < 0 or len(set(columns)) < len(columns):
        raise UserError(
            f"{source_key(config.sources, name, 'columns')}={columns}: give two different column "
            "numbers, source then target, counted from 0; optionally a third one for weights"
        )
    if source.kind == PATTERNS and max(columns) > 1:
        raise UserError(f"{key}.columns={columns}: generated pairs have the columns 0 and 1")
    if len(columns) == 3 and source.split in ("dev", "test"):
        raise UserError(f"{key}.columns={columns}: only training pairs have weights")
    check_at_least(f"{key}.pairs", source.pairs, 0)
    if source.pairs and source.kind != PATTERNS:
        raise UserError(f"{key}.pairs needs kind={PATTERNS}, got kind={source.kind}")
    if source.kind == PATTERNS and source.split != "train":
        raise UserError(f"{key}.split must be train for generated pairs, got {source.split}")
    check_above_zero(f"{key}.weight", source.weight, ", or null")
    if source.document_column is not None:
        check_at_least(f"{key}.document_column", source.document_column, 0)
        if source.kind not in ("tsv", "zip") or source.members or not source.ordered:
            raise UserError(f"{key}.document_column is for ordered tables: set {key}.ordered=true")
    if source.tag is not None and source.tag.split() != [source.tag]:
        raise UserError(f"{key}.tag must be one word, or null, got '{source.tag}'")


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
            raise UserError(f"{key} needs kind=zip, got kind={source.kind}")
        if len(members) != 2 or members[0] == members[1] or not all(members):
            raise UserError(f"{key}={members}: give the endings of two names, source then target")
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
    if source.run and source.kind != RUN:
        raise UserError(f"data.sources.{name}.run needs kind={RUN}, got kind={source.kind}")
    if source.kind == RUN and not source.run:
        raise UserError(f"source '{name}' needs data.sources.{name}.run=RUN, the folder of a run")
    required = {
        "tsv": ("path",),
        TRANSLATIONS: ("path",),
        "parallel": ("source_path", "target_path"),
        "zip": ("archive",),
    }
    keys = required.get(source.kind, ()) if not source.url else ()
    if not all(getattr(source, key) for key in keys):
        subject = f"data={config.name}" if len(sources) == 1 else f"source '{name}'"
        settings = " and ".join(f"{source_key(sources, name, key)}=FILE" for key in keys)
        raise UserError(f"{subject} needs {settings}")
