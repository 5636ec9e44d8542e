"""The metrics of a run: one JSON object per report in ``metrics.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.errors import UserError, attach_filename
from nmt.files import format_json_line, write_inside

# What reading JSON raises if it is damaged or has another structure than was written.
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class MetricsFile:
    """Reports of training: ``step``, ``seconds``, and values by TensorBoard's tags.

    Args:
        path: the file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[dict[str, Any]]:
        """Return all reports in order.

        Raises:
            UserError: a line is damaged.
        """
        return [record for _, record in self._lines()]

    def append(self, record: dict[str, Any]) -> None:
        """Add one report."""
        with attach_filename(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(format_json_line(record))

    def drop_after(self, step: int) -> None:
        """Remove reports after an update, for a run that resumes from there.

        Raises:
            UserError: a line is damaged.
        """
        if self._path.is_file():
            lines = [line for line, record in self._lines() if record["step"] <= step]
            write_inside(self._path.parent, self._path.name, "".join(lines))

    def _lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each line and its content, but an incomplete last line of a killed writer."""
        content = self._path.read_bytes() if self._path.is_file() else b""
        for number, line in enumerate(content.splitlines(keepends=True), 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = dict(json.loads(line))
                if not isinstance(record["step"], int):
                    raise ValueError("its step is not an integer")
                yield line.decode(), record
            except MALFORMED as error:
                raise UserError(f"{self._path}, line {number}, is damaged: {error}") from error
