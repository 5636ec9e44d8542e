"""Named sources of sentence pairs: their keys, and the ways to refer to them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from nmt.config.checks import MISSING, NonNegativeInt, PositiveFloat, Valid, one_of
from nmt.errors import UserError, suggest

if TYPE_CHECKING:
    from nmt.config.data import DataConfig

FILES, PATTERNS, RUN, SAME, TRANSLATIONS = "files", "patterns", "run", "same", "translations"
SOURCE_KINDS = ("phrasebook", PATTERNS, "zip", FILES, TRANSLATIONS, RUN, SAME)
SPLITS = ("shares", "train", "dev", "test")
_ZIP_KEYS = ("archive", "url", "opus", "sha256")
_FILE_KEYS = (*_ZIP_KEYS, *"path columns encoding group_column pairs members run".split())
# The kinds of sources that some keys are for, and the key that each kind needs.
_KINDS_OF_KEY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("archive", "url", "sha256", "members"), ("zip",)),
    "path": (FILES, TRANSLATIONS),
    "pairs": (PATTERNS,),
    "run": (RUN,),
    "of": (SAME,),
}
_REQUIRED_KEY = {FILES: "path", TRANSLATIONS: "path", "zip": "archive", RUN: "run"}
TWO_ENDINGS = Valid(
    "the endings of two names, source then target",
    lambda members: len(members) == len(set(members)) == 2 and all(members),
)
COLUMN = Valid(
    "the name of a column, or its number from 0",
    lambda column: isinstance(column, str) or (type(column) is int and column >= 0),
)
COLUMNS = Valid(
    "two different columns, source then target, by name or by number from 0; optionally a third "
    "one for weights",
    lambda columns: (
        all(map(COLUMN.accepts, columns)) and 2 <= len(set(columns)) == len(columns) <= 3
    ),
)


@dataclass
class SourceConfig:
    """Where sentence pairs come from, what they are for, and how much of an epoch they are."""

    # phrasebook: the embedded sentences | patterns: the embedded pairs generated from patterns
    # | zip: an archive, zip or .tgz, with one text file of pairs, or two aligned ones
    # | files: a file of pairs, or two aligned files
    # | translations: the same, and the last translation of a text counts
    # | run: training pairs of another run; with a weight, a sample as large as the weight asks for
    # | same: the files of another source, used a second time with other settings
    kind: Annotated[str, one_of(*SOURCE_KINDS)] = MISSING
    archive: str | None = None  # zip: a local file, instead of downloading
    url: str | None = None  # zip: where it is downloaded from
    # zip: corpus and version, such as TED2020/v1, in place of its url at OPUS (opus.nlpl.eu)
    opus: str | None = None
    sha256: str | None = None  # zip: of the archive, in hexadecimal; null: not checked
    # zip: endings of the names of two aligned files in it, source and target; null: one table
    members: Annotated[list[str], TWO_ENDINGS] | None = None
    # files, translations: a file, or two aligned ones, source then target; names may be patterns.
    # Its name tells the format; an unknown one is a table with TAB between its columns.
    path: Any = None
    # Source and target column, by number from 0 or by name; an optional third one holds the weight
    # of a pair in the loss, usually 1. null: the columns named by the languages, else [0, 1]; the
    # embedded corpus has Spanish, English.
    columns: Annotated[list[Any], COLUMNS] | None = None
    encoding: str | None = None  # of the text; null: by its byte order mark, else UTF-8
    # Id of a document or speaker, by number from 0 or by name: its lines stay in one split.
    group_column: Annotated[Any, COLUMN] = None
    pairs: NonNegativeInt = 0  # patterns: how many, from the first
    run: str | None = None  # run: its folder
    of: str | None = None  # same: name of the other source
    # shares: training data, less the shares data.dev and data.test | train: training data only
    # | dev | test
    split: Annotated[str, one_of(*SPLITS)] = "shares"
    # Share of an epoch, relative to the other sources that have a weight: pairs are repeated to
    # approximate it, generated pairs never. null: every pair once.
    weight: PositiveFloat | None = None
    # A word put before every source sentence, such as <2en>.
    tag: Annotated[str, Valid("one word", lambda tag: tag.split() == [tag])] | None = None
    reverse: bool = False  # swap source and target; splits are made before
    # Whether each line follows the one before it, for data.context; an empty line begins another
    # document, and so does a line with another content of `document_column`, a number from 0 or a
    # name.
    ordered: bool = False
    document_column: Annotated[Any, COLUMN] = None  # whose content tells documents apart

    @property
    def has_weights(self) -> bool:
        """Whether a column holds the weights of pairs."""
        return len(self.columns or ()) > 2

    @property
    def is_training(self) -> bool:
        """Whether it has training pairs."""
        return self.split in ("shares", "train")


def source_key(name: str, key: str) -> str:
    """Return the shortest configuration key that sets a key of a source, for messages.

    The files of ``conf/data`` pass short keys on to a source ``pairs``; `data.dev` and `data.test`
    may be files.
    """
    if name in ("pairs", "corrections", "dev", "test"):
        if key == "path":
            return f"data.{name if name in SPLITS else 'train'}"
        if key in ("columns", "encoding") or (key in _ZIP_KEYS and name == "pairs"):
            return f"data.{key}"
    return f"data.sources.{name}.{key}"


def list_paths(source: SourceConfig) -> list[str]:
    """Return the names or patterns of a source's files: none, one, or two that are aligned."""
    if source.path is None:
        return []
    return list(source.path) if isinstance(source.path, list) else [source.path]


def locate_at_opus(data: DataConfig) -> None:
    """Set the address of every source that is named as at OPUS.

    Raises:
        UserError: a name is not a corpus and its version.
    """
    languages = (data.source_language, data.target_language)
    first, second = sorted(languages)
    for name, source in data.sources.items():
        if source.opus is None:
            continue
        key = f"{source_key(name, 'opus')}={source.opus}"
        if source.url is not None:
            raise UserError(f"{key} contradicts its url {source.url}: leave one of them out")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", source.opus):
            raise UserError(f"{key} must name a corpus and its version, such as TED2020/v1")
        address = f"https://object.pouta.csc.fi/OPUS-{source.opus}/moses"
        source.url = f"{address}/{first}-{second}.txt.zip"
        source.members = source.members or [f".{language}" for language in languages]
        source.opus = None


def resolve_same_sources(data: DataConfig) -> DataConfig:
    """Return the configuration with every source of kind ``same`` given the other's files.

    Raises:
        UserError: a source of kind ``same`` names no source that has files.
    """
    sources = dict(data.sources)
    for name, source in data.sources.items():
        key = f"data.sources.{name}.of"
        if source.kind != SAME:
            continue
        if source.of not in data.sources:
            hint = suggest(source.of, data.sources) if source.of else "; name another source"
            raise UserError(f"{key}={source.of}: no such source{hint}")
        other = data.sources[source.of]
        if other.kind == SAME:
            raise UserError(f"{key}={source.of}: that source has no files of its own")
        for file_key in _FILE_KEYS:
            if getattr(source, file_key) != getattr(SourceConfig, file_key):
                raise UserError(
                    f"data.sources.{name}.{file_key}: leave it out, {source.of} determines it"
                )
        files = {file_key: getattr(other, file_key) for file_key in _FILE_KEYS}
        sources[name] = replace(source, of=None, kind=other.kind, **files)
    return replace(data, sources=sources)


def check_source(config: DataConfig, name: str) -> None:
    """Raise a `UserError` if keys of a source contradict its kind or each other.

    Sources of kind ``same`` must be resolved before.
    """
    source, key = config.sources[name], f"data.sources.{name}"
    for item, kinds in _KINDS_OF_KEY.items():
        if getattr(source, item) and source.kind not in kinds:
            raise UserError(f"{key}.{item} needs kind={kinds[0]}, got kind={source.kind}")
    _check_files(config, name)
    _check_columns(source, key)
    if source.kind == PATTERNS and source.split != "train":
        raise UserError(f"{key}.split must be train for generated pairs, got {source.split}")
    is_table = source.kind in (FILES, TRANSLATIONS, "zip") and not source.members
    for item in ("group_column", "document_column"):
        column = getattr(source, item)
        if column is not None and not (is_table and len(list_paths(source)) < 2):
            raise UserError(f"{key}.{item}={column}: only tables have columns, leave it out")
    if source.document_column is not None and not source.ordered:
        raise UserError(f"{key}.document_column is for ordered tables: set {key}.ordered=true")


def _check_columns(source: SourceConfig, key: str) -> None:
    columns = source.columns
    if columns is None:
        return
    if len(list_paths(source)) == 2 or source.members:
        raise UserError(f"{key}.columns={columns}: only tables have columns, leave it out")
    if source.kind in ("phrasebook", PATTERNS) and set(columns) != {0, 1}:
        raise UserError(f"{key}.columns={columns}: the embedded corpus has the columns 0 and 1")
    if len(columns) == 3 and source.split in ("dev", "test"):
        raise UserError(f"{key}.columns={columns}: only training pairs have weights")


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets in the name of the host
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def _check_files(config: DataConfig, name: str) -> None:
    """Check the names and addresses of a source's files."""
    source = config.sources[name]
    paths = list_paths(source)
    if not all(isinstance(path, str) for path in paths) or len(paths) > 2:
        raise UserError(
            f"{source_key(name, 'path')}={source.path}: give a file of pairs, or two aligned "
            "files, source then target"
        )
    if len(set(paths)) < len(paths):
        raise UserError(
            f"{source_key(name, 'path')}={','.join(paths)}: source and target are the same file"
        )
    if source.sha256 and not re.fullmatch(r"[0-9a-fA-F]{64}", source.sha256):
        raise UserError(
            f"{source_key(name, 'sha256')} must be the 64 hexadecimal digits that "
            f"sha256sum prints, got {source.sha256}"
        )
    if source.url and not _is_web_address(source.url):
        raise UserError(
            f"{source_key(name, 'url')} must be an address with http:// or https://, got "
            f"{source.url}: give a local file with {source_key(name, 'archive')}=FILE"
        )
    required = _REQUIRED_KEY.get(source.kind)
    if required and not source.url and not getattr(source, required):
        subject = f"data={config.name}" if len(config.sources) == 1 else f"source '{name}'"
        value = "RUN, the folder of a run" if required == "run" else "FILE"
        other = (
            " or data.opus=CORPUS/VERSION"
            if config.name == "opus" and required == "archive"
            else ""
        )
        raise UserError(f"{subject} needs {source_key(name, required)}={value}{other}")
