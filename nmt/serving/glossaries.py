"""Glossaries that requests choose by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fastapi import HTTPException

from nmt.data.glossary_files import read_glossary
from nmt.errors import UserError
from nmt.text.terms import Glossary

_ENDINGS = (".tsv", ".csv")
_FILES = "files *.tsv or *.csv"


def read_glossaries(folder: Path, languages: tuple[str, str]) -> dict[str, Glossary]:
    """Return the glossaries of a folder, by file name without its ending.

    Raises:
        UserError: the folder is missing, or holds no glossary, or an invalid one.
    """
    if not folder.is_dir():
        raise UserError(f"--glossaries {folder} is not a folder: name one with {_FILES}")
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in _ENDINGS)
    if not paths:
        raise UserError(f"{folder} has no glossary: put {_FILES} there")
    by_name = {path.stem: path for path in paths}
    if len(by_name) < len(paths):
        raise UserError(f"{folder} has two glossaries of one name: rename one of them")
    return {name: read_glossary(path, languages) for name, path in by_name.items()}


def choose_glossary(glossaries: Mapping[str, Glossary], name: str | None) -> Glossary | None:
    """Return the glossary of a request; None if it names none.

    Raises:
        HTTPException: 422 if the name is unknown.
    """
    if not name:
        return None
    if name not in glossaries:
        choices = f"choose from: {', '.join(glossaries)}"
        remedy = choices if glossaries else "start the service with --glossaries FOLDER"
        raise HTTPException(422, f"unknown glossary {name[:100]!r}: {remedy}")
    return glossaries[name]
