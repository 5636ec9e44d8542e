"""The configuration and files of a preparation: recorded at its start, checked when it resumes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from nmt.config.preparation import PreparationConfig
from nmt.config.schema import flatten
from nmt.config.sources import list_paths
from nmt.config.upgrades import flatten_later_keys
from nmt.data.caching import digest_texts
from nmt.data.corpus import EvaluationSet
from nmt.data.opening import matching_files
from nmt.data.prepared import BEGUN_FILE, SHARDS, TOKENIZER
from nmt.errors import UserError
from nmt.files import digest_file, read_json, write_json

# Keys that may differ when a preparation resumes: the result does not depend on them, or training
# chooses them.
_MAY_DIFFER = re.compile(
    r"output|cache_dir|prepare\.processes|data\.(temperature|check_languages|sources\.\w+\.weight)"
)


def forget_refused(folder: Path) -> None:
    """Delete the recorded inputs of a preparation that was refused before its first stage."""
    if [path.name for path in folder.iterdir() if path.name[0] != "."] == [BEGUN_FILE]:
        (folder / BEGUN_FILE).unlink()


def record_inputs(
    folder: Path, config: PreparationConfig, tests: Mapping[str, EvaluationSet]
) -> None:
    """Record the inputs in a new folder; in one that has them, check that they are the same.

    Keys of the tokenizer may change until it is trained.

    Raises:
        UserError: an input has changed, or the folder holds other files.
    """
    current = {key: value for key, value in flatten(config) if not _MAY_DIFFER.fullmatch(key)} | {
        f"data.tests.{name}": digest_texts([text for pair in test.pairs for text in pair])
        for name, test in tests.items()
    }
    files = {str(path): path for path in list_files(config)}
    path = folder / BEGUN_FILE
    if not path.is_file():
        others = [other for other in folder.iterdir() if not other.name.startswith(".")]
        if others:
            raise UserError(
                f"output={folder} holds {others[0].name} but no prepared corpus: name another "
                "folder"
            )
        described = {name: _describe_file(file) for name, file in files.items()}
        write_json(path, current | {"files": described})
        return
    later = flatten_later_keys("data", "tokenizer")  # which older folders lack
    recorded = {key: later[key] for key in later if key in current} | read_json(path)
    described = recorded.pop("files")
    is_encoded = any((folder / name).exists() for name in (TOKENIZER, SHARDS))
    changed = [key for key in current | recorded if current.get(key) != recorded.get(key)]
    for key in changed:
        if is_encoded or not key.startswith("tokenizer."):
            _refuse(
                folder, f"was begun with {key}={recorded.get(key)}, and not with {current.get(key)}"
            )
    for name in files | described:
        if name not in files or not _is_unchanged(files[name], described.get(name)):
            _refuse(folder, f"was begun before {name} changed")
    if changed:  # only the tokenizer, which is not trained yet
        write_json(path, current | {"files": described})


def _refuse(folder: Path, reason: str) -> NoReturn:
    raise UserError(
        f"output={folder} {reason}: name another folder, or give the same command again"
    )


def list_files(config: PreparationConfig) -> list[Path]:
    """Return the existing files of all sources; reading a source reports missing ones."""
    paths: list[Path] = []
    for source in config.data.sources.values():
        for name in (*list_paths(source), source.archive):
            paths += [path for path in matching_files(name) if path.is_file()] if name else []
    return list(dict.fromkeys(paths))


def _describe_file(path: Path) -> dict[str, Any]:
    """Return the size, times and digest of a file, by which a change is noticed."""
    return _stamp(path) | {"sha256": digest_file(path)}


def _stamp(path: Path) -> dict[str, Any]:
    status = path.stat()
    return {"size": status.st_size, "times": [status.st_mtime_ns, status.st_ctime_ns]}


def _is_unchanged(path: Path, described: Any) -> bool:
    """Whether a file is as described; only one with other times, such as a copy, is read."""
    if not isinstance(described, dict):
        return False
    stamp = _stamp(path)
    if all(described.get(key) == stamp[key] for key in stamp):
        return True
    return described.get("size") == stamp["size"] and described.get("sha256") == digest_file(path)
