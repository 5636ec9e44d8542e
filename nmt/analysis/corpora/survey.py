"""The files of a corpus: their lines, encodings and languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.analysis.tables import Listing
from nmt.config import DataConfig
from nmt.config.sources import PATTERNS, RUN, list_paths, resolve_same_sources
from nmt.data.bilingual import is_bilingual
from nmt.data.encodings import UTF_8, find_mark
from nmt.data.filtering import read_head
from nmt.data.language_check import find_languages, sample_sides
from nmt.data.languages import describe_language
from nmt.data.opening import find_suffix, matching_files, open_unpacked
from nmt.data.reading import read_rows
from nmt.data.table_files import PARQUET

_MARK_SIZE = 4  # bytes that a byte order mark may have


class SourceSurvey(NamedTuple):
    """The files of one source."""

    name: str
    lines: dict[str, int]  # by file; of two aligned files, by the first
    encodings: dict[str, str]  # by file
    languages: tuple[str | None, str | None]  # codes of py3langid; None if uncertain
    has_pairs: bool  # whether any of the lines that they are identified by has both sides


def survey_sources(
    config: DataConfig, cache_dir: Path, log: Callable[[str], None]
) -> list[SourceSurvey]:
    """Read the sources that have lines, whatever their languages.

    Args:
        config: the ``data`` group; a language "und" stands for any.
        cache_dir: keeps downloaded archives.
        log: called with progress messages.

    Raises:
        UserError: a file is missing, damaged or of another kind, or a download fails.
    """
    sources = resolve_same_sources(config).sources
    surveys = []
    for name, source in sources.items():
        if source.kind in (PATTERNS, RUN):
            continue
        languages = (config.source_language, config.target_language)
        head, rows = read_head(
            read_rows(sources, name, cache_dir, log, hashes={}, languages=languages)
        )
        lines = Counter(row.file for row in rows)
        encodings = {
            str(path): source.encoding or _find_encoding(path)
            for pattern in list_paths(source)
            for path in matching_files(pattern)
        }
        sides = sample_sides(head)
        surveys.append(SourceSurvey(name, lines, encodings, find_languages(sides), bool(sides)))
    return surveys


def _find_encoding(path: Path) -> str:
    """Return the encoding of a file of text; empty for a format that names it itself."""
    suffix = find_suffix(path)
    if suffix == PARQUET or is_bilingual(suffix):
        return ""
    with open_unpacked(path, "file") as file:
        return find_mark(file.peek(_MARK_SIZE)) or UTF_8


def tabulate_files(surveys: Sequence[SourceSurvey]) -> Listing:
    """Tabulate the files of all sources."""
    rows = []
    for survey in surveys:
        for file in survey.lines | survey.encodings:
            count = survey.lines.get(file)
            lines = "" if count is None else f"{count:,}"
            rows.append((file, survey.name, lines, survey.encodings.get(file, "")))
    return Listing("Files", "", ("file", "source", "lines", "encoding"), rows)


def tabulate_languages(surveys: Sequence[SourceSurvey]) -> Listing:
    """Tabulate the languages that the texts of each source are in."""
    rows = [
        (
            survey.name,
            *(describe_language(code) if code else "uncertain" for code in survey.languages),
        )
        for survey in surveys
    ]
    return Listing("Languages, as identified", "", ("source", "source side", "target side"), rows)
