"""Corrections of translations, kept in a table that a run can learn from."""

from __future__ import annotations

import errno
import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

from fastapi import HTTPException

from nmt.errors import UserError
from nmt.serving.schema import Correction
from nmt.text.cleaning import clean_text
from nmt.text.sentence_pairs import align_sentences

MAX_FILE = 64 << 20  # bytes, several hundred thousand corrections: anybody may send some
_log = logging.getLogger(__name__)


class CorrectionFile:
    """A table of source TAB correction TAB translation TAB date, to which lines are appended.

    Args:
        path: the table; it need not exist.
        languages: BCP 47 tags of source and translation.

    Raises:
        UserError: the name does not end in .tsv, or the file cannot be written.
    """

    def __init__(self, path: Path, languages: tuple[str, str]) -> None:
        self._path = path.expanduser()
        self._languages = languages
        self._lock = threading.Lock()
        if path.suffix != ".tsv":
            raise UserError(f"--corrections {path}: give a name that ends in .tsv")
        try:
            self._append(b"")
        except OSError as error:
            raise UserError(
                f"--corrections {path} cannot be written ({error.strerror}): name another file"
            ) from error

    def add(self, correction: Correction) -> int:
        """Append a correction sentence by sentence, and return the number of lines.

        A text whose correction has another number of sentences is one line. All are cleaned.

        Raises:
            HTTPException: 507 if the file would be too large, 500 if it cannot be written.
        """
        pairs = align_sentences(correction.source, correction.correction, self._languages)
        machine = align_sentences(correction.source, correction.translation, self._languages)
        translations = [translation for _, translation in machine]
        if [source for source, _ in machine] != [source for source, _ in pairs]:
            translations = [clean_text(correction.translation)] * len(pairs)
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        lines = [
            f"{source}\t{corrected}\t{translation}\t{now}\n"
            for (source, corrected), translation in zip(pairs, translations, strict=True)
        ]
        try:
            self._append("".join(lines).encode())
        except OSError as error:
            _log.error("a correction was not kept: %s", error)
            raise HTTPException(500, f"the correction was not kept: {error.strerror}") from error
        return len(lines)

    def _append(self, data: bytes) -> None:
        """Append whole lines and wait until they are on the disk; after an error, append nothing.

        Opened anew each time, the file may be moved or edited meanwhile.
        """
        with self._lock, self._path.open("ab+", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if data and size + len(data) > MAX_FILE:
                raise HTTPException(507, "the file of corrections is full: move it away")
            if size and data:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    data = b"\n" + data  # somebody edited the file
            try:
                if file.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise
