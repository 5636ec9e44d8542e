"""The manifest of an export: its origin, its settings, how it was checked, and its checksums."""

from __future__ import annotations

import dataclasses
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.errors import UserError
from nmt.files import digest_file, read_json

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.tokenizer import Tokenizer
    from nmt.formats.comparison import ExportCheck

MANIFEST_FILE = "manifest.json"
_OF_FILE_MANAGERS = (".DS_Store", "Thumbs.db", "desktop.ini")


def make_manifest(
    folder: Path,
    run: str,
    config: Config,
    tokenizer: Tokenizer,
    scores: dict[str, float | None],
    check: ExportCheck,
    details: dict[str, Any],
) -> dict[str, Any]:
    """Return the manifest of the export in ``folder``, with the checksums of its files.

    ``config`` is the run's with the export's search, ``scores`` are those of the run's test split,
    and ``details`` are the format's own entries.
    """
    return {
        **details,
        "nmt": version("nmt"),
        "run": run,
        "scores": scores,
        "source_language": config.data.languages[0],
        "target_language": config.data.languages[1],
        "tokenizer": {
            "kind": config.tokenizer.kind,
            "fingerprint": tokenizer.fingerprint,
            "vocabulary_size": tokenizer.vocabulary_size,
            "slots": tokenizer.slots,
            "lowercases": tokenizer.lowercases,
        },
        "positions": config.model.max_length,
        "decoding": dataclasses.asdict(config.decoding),
        "check": {
            "sentences": check.sentences,
            "equal": check.equal,
            "different": [dataclasses.asdict(item) for item in check.differences],
        },
        "files": {
            path.relative_to(folder).as_posix(): digest_file(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != MANIFEST_FILE
        },
    }


def list_other_files(folder: Path) -> list[str] | None:
    """Return the files of a folder that its export does not have; None if it has no export.

    Other programs have a ``manifest.json``, too.
    """
    try:
        content = read_json(folder / MANIFEST_FILE)
        if "nmt" not in content:
            return None
        exported = {*content["files"], MANIFEST_FILE}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    files = (
        path
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() and path.name not in _OF_FILE_MANAGERS
    )
    return [name for path in files if (name := path.relative_to(folder).as_posix()) not in exported]


def find_damage(folder: Path) -> dict[str, str | None]:
    """Compare the files of an export with its manifest.

    Returns:
        Map each file in the manifest to its fault, or None.

    Raises:
        UserError: the manifest is missing or damaged.
    """
    path = folder / MANIFEST_FILE
    try:
        digests = dict(read_json(path)["files"])
    except FileNotFoundError as error:
        raise UserError(f"{folder} is not an export: it has no {MANIFEST_FILE}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: {error!r}") from error
    damage: dict[str, str | None] = {}
    for name, digest in digests.items():
        try:
            if not (folder / name).resolve().is_relative_to(folder.resolve()):
                raise ValueError("it is outside of the export")
            is_equal = digest_file(folder / name) == digest
            damage[name] = None if is_equal else f"its SHA-256 is not the one in {MANIFEST_FILE}"
        except (OSError, ValueError) as error:  # ValueError: or not a valid file name
            damage[name] = getattr(error, "strerror", None) or str(error)
    return damage


def check_files(folder: Path) -> None:
    """Compare an export with its manifest; without one, it is being made.

    Raises:
        UserError: a file is not the one that was exported.
    """
    if (folder / MANIFEST_FILE).is_file():
        for name, reason in find_damage(folder).items():
            if reason:
                raise UserError(f"{folder / name} is damaged: {reason}; export the run again")
