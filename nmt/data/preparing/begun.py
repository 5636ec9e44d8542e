"""What a prepared corpus is made of, written down as it begins, for those who go on with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from nmt.config.preparation import PreparationConfig
from nmt.config.schema import flatten
from nmt.data.corpus import ExtraTest
from nmt.data.encoded import digest
from nmt.data.prepared import BEGUN_FILE
from nmt.data.preparing.work import read_json, write_json
from nmt.data.reading import matching_files
from nmt.errors import UserError

# What may differ between the command that began and the one that goes on: what the result does not
# depend on, or training chooses.
_OPEN = re.compile(r"output|cache_dir|prepare\.processes|data\.(temperature|sources\.\w+\.weight)")


def begin(folder: Path, config: PreparationConfig, tests: Mapping[str, ExtraTest]) -> None:
    """Write down what is prepared, or check that it is what was begun.

    Raises:
        UserError: something differs, which is named.
    """
    wanted = {key: value for key, value in flatten(config) if not _OPEN.fullmatch(key)} | {
        f"data.tests.{name}": digest([text for pair in one.pairs for text in pair])
        for name, one in tests.items()
    }
    wanted["files"] = {str(path): _describe_file(path) for path in list_files(config)}
    path = folder / BEGUN_FILE
    if not path.is_file():
        others = [one for one in folder.iterdir() if not one.name.startswith(".")]
        if others:
            raise UserError(
                f"output={folder} holds {others[0].name}, and is no prepared corpus: name another "
                "folder"
            )
        write_json(path, wanted)
        return
    begun = read_json(path)
    for now, then, say in (
        (wanted, begun, "was begun with {key}={then}, and not with {now}"),
        (wanted["files"], begun["files"], "was begun before {key} changed"),
    ):
        for key in now | then:
            if key != "files" and now.get(key) != then.get(key):
                told = say.format(key=key, then=then.get(key), now=now.get(key))
                raise UserError(
                    f"output={folder} {told}: name another folder, or give the same command again"
                )


def list_files(config: PreparationConfig) -> list[Path]:
    """Return the files of all sources; what is missing is said where it is read."""
    found: list[Path] = []
    for source in config.data.sources.values():
        for name in (source.path, source.source_path, source.target_path, source.archive):
            found += [path for path in matching_files(name) if path.is_file()] if name else []
    return list(dict.fromkeys(found))


def _describe_file(path: Path) -> str:
    """Return what tells that it has changed: its size, a digest of its beginning and its end."""
    edge = 1 << 16  # bytes
    state = blake2b(digest_size=8)
    size = path.stat().st_size
    with path.open("rb") as file:
        state.update(file.read(edge))
        file.seek(max(0, size - edge))
        state.update(file.read(edge))
    return f"{size} bytes, {state.hexdigest()}"
