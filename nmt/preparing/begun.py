"""What a prepared corpus is made of, written down as it begins, for those who go on with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from nmt.config.preparation import PreparationConfig
from nmt.config.schema import flatten
from nmt.data.caching import digest_texts
from nmt.data.corpus import EvaluationSet
from nmt.data.prepared import BEGUN_FILE
from nmt.data.reading import matching_files
from nmt.errors import UserError
from nmt.files import digest_file
from nmt.preparing.work import read_json, write_json

# What may differ between the command that began and the one that goes on: what the result does not
# depend on, or training chooses.
_OPEN = re.compile(r"output|cache_dir|prepare\.processes|data\.(temperature|sources\.\w+\.weight)")


def begin(folder: Path, config: PreparationConfig, tests: Mapping[str, EvaluationSet]) -> None:
    """Write down what is prepared, or check that it is what was begun.

    Raises:
        UserError: something differs, which is named.
    """
    wanted = {key: value for key, value in flatten(config) if not _OPEN.fullmatch(key)} | {
        f"data.tests.{name}": digest_texts([text for pair in one.pairs for text in pair])
        for name, one in tests.items()
    }
    files = list_files(config)
    path = folder / BEGUN_FILE
    if not path.is_file():
        others = [one for one in folder.iterdir() if not one.name.startswith(".")]
        if others:
            raise UserError(
                f"output={folder} holds {others[0].name}, and is no prepared corpus: name another "
                "folder"
            )
        write_json(path, wanted | {"files": {str(one): _describe_file(one) for one in files}})
        return
    begun = read_json(path)
    described = begun.pop("files")
    for key in wanted | begun:
        if wanted.get(key) != begun.get(key):
            _refuse(
                folder, f"was begun with {key}={begun.get(key)}, and not with {wanted.get(key)}"
            )
    present = {str(one): one for one in files}
    for name in present | described:
        if name not in present or not _is_unchanged(present[name], described.get(name)):
            _refuse(folder, f"was begun before {name} changed")


def _refuse(folder: Path, why: str) -> NoReturn:
    raise UserError(f"output={folder} {why}: name another folder, or give the same command again")


def list_files(config: PreparationConfig) -> list[Path]:
    """Return the files of all sources; what is missing is said where it is read."""
    found: list[Path] = []
    for source in config.data.sources.values():
        for name in (source.path, source.source_path, source.target_path, source.archive):
            found += [path for path in matching_files(name) if path.is_file()] if name else []
    return list(dict.fromkeys(found))


def _describe_file(path: Path) -> dict[str, Any]:
    """Return what tells that a file has changed: the times and the size as of now, and a digest."""
    return _stamp(path) | {"sha256": digest_file(path)}


def _stamp(path: Path) -> dict[str, Any]:
    status = path.stat()
    return {"size": status.st_size, "times": [status.st_mtime_ns, status.st_ctime_ns]}


def _is_unchanged(path: Path, described: Any) -> bool:
    """Whether a file is as it was described; it is read only where its times differ.

    A copy has other times and the same digest.
    """
    if isinstance(described, str):  # of an earlier version: its size, and a digest of its ends
        return described.startswith(f"{path.stat().st_size} bytes")
    if not isinstance(described, dict):
        return False
    stamp = _stamp(path)
    if all(described.get(key) == stamp[key] for key in stamp):
        return True
    return described.get("size") == stamp["size"] and described.get("sha256") == digest_file(path)
