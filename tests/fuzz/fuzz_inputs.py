"""Inputs that all targets share: values drawn from a `FuzzedDataProvider`, and seeds."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

TSV = ("data=files", "data.source_language=es", "data.target_language=en")
LONGEST_INPUT = 4096  # bytes
SHORT_LINE = 64  # bytes; the longest line, so that inputs can exceed it
TEXTS = (
    "La casa\tThe house\n",
    "¿Qué hora es?\tWhat time is it?\n",
    "Ayer \u200dllovió.\tIt rained.\n",
)
NUMBERS = (0, 1, -1, 2, 7, 64, 0.5, -0.0, 1e-9, 1e30, 1e400, float("nan"), 2**31, 2**63, 10**30)
WORDS = ("", "a", "???", "null", "~", "${name}", "${a", "a\nb", "\ud800", "Á\u0301", "1e9", "\0")

Check = Callable[[Any], None]  # called with a `FuzzedDataProvider`
Prepared = tuple[Check, list[bytes]]  # and the seeds


def seed(content: bytes | str, *choices: int) -> bytes:
    """Return an input from which a provider draws these choices, one byte each, then the rest."""
    content = content.encode() if isinstance(content, str) else content
    return content + bytes(reversed(choices))


def pick(data: Any, choices: Sequence[Any]) -> Any:
    """Draw one of the choices."""
    return choices[data.ConsumeIntInRange(0, len(choices) - 1)]


def rest(data: Any) -> bytes:
    """Draw all remaining bytes."""
    return data.ConsumeBytes(data.remaining_bytes())


def draw_text(data: Any) -> str:
    """Draw text of any characters, lone surrogates included."""
    is_utf8 = data.ConsumeBool()
    content = rest(data)
    if is_utf8:
        return content.decode("utf-8", "surrogateescape")
    return content[: len(content) & ~1].decode("utf-16-le", "surrogatepass")


def draw_json(data: Any, depth: int = 3) -> Any:
    """Draw a JSON value; its numbers may be NaN or infinite, its text may hold lone surrogates."""
    choice = data.ConsumeIntInRange(0, 7 if depth else 5)
    if choice < 2:
        return (None, True, False)[data.ConsumeIntInRange(0, 2)]
    if choice == 2:
        return pick(data, NUMBERS)
    if choice == 3:
        return data.ConsumeInt(2)
    if choice == 4:
        return pick(data, WORDS)
    if choice == 5:
        return data.ConsumeBytes(data.ConsumeIntInRange(0, 12)).decode("utf-8", "replace")
    values = [draw_json(data, depth - 1) for _ in range(data.ConsumeIntInRange(0, 4))]
    return (
        values
        if choice == 6
        else {f"{key}": value for key, value in zip("abcd", values, strict=False)}
    )


def mutate_json(data: Any, value: Any) -> Any:
    """Return a JSON value in which one value is replaced, removed or renamed."""
    if isinstance(value, dict | list) and value and data.ConsumeIntInRange(0, 7):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = keys[data.ConsumeIntInRange(0, len(keys) - 1)]
        changed = value.copy()
        action = data.ConsumeIntInRange(0, 7)
        if action == 0:
            del changed[key]
        elif action == 1 and isinstance(changed, dict):
            changed[pick(data, WORDS)] = changed.pop(key)
        else:
            changed[key] = mutate_json(data, value[key])
        return changed
    return draw_json(data)


def edit(data: Any, content: bytes) -> bytes:
    """Return bytes with up to three spans overwritten, removed or inserted."""
    for _ in range(data.ConsumeIntInRange(0, 3)):
        begin = data.ConsumeIntInRange(0, len(content))
        new = data.ConsumeBytes(data.ConsumeIntInRange(0, 8))
        removed = pick(data, (len(new), 0, 1, 16, len(content)))
        content = content[:begin] + new + content[begin + removed :]
    return content


def pack_zip(data: Any, members: dict[str, bytes]) -> bytes:
    """Return a zip of these members with correct checksums."""
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", pick(data, methods)) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def compose_table_config(folder: Path) -> Any:
    """Return a checked configuration whose corpus is a table."""
    from nmt.runs.resuming import compose_config

    return compose_config([f"runs_dir={folder}", *TSV, "data.train=a.tsv", "model=small"])
