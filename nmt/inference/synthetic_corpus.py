"""The table that synthetic pairs are written to, with a record of where they come from."""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nmt.data.encodings import UTF_8
from nmt.errors import UserError, attach_filename
from nmt.files import digest_file, format_json, write_inside
from nmt.inference.contract import SearchRequest
from nmt.inference.lines import translate_file
from nmt.inference.synthesis import Made, Synthesis
from nmt.runs.folder import RunFolder

RECORD, REJECTED = ".json", ".rejected.tsv"  # behind the name of the output


class SyntheticCorpus:
    """A table of pairs that is written line by line, with a record of where it comes from.

    Args:
        output: the table, source TAB target; what is rejected and the record stand beside it.
        kind: "back" or "forward": whether the text is the target or the source.
        origin: what it is made of and how, as JSON holds it.
    """

    def __init__(self, output: Path, kind: str, origin: dict[str, Any]) -> None:
        self.output, self.kind, self.origin = output, kind, origin
        self.lines = 0
        self.kept = 0
        self.rejected: Counter[str] = Counter()

    @property
    def rejects(self) -> Path:
        """The table of what was rejected: reason TAB source TAB target."""
        return self.output.with_name(self.output.name + REJECTED)

    @property
    def record(self) -> Path:
        """Where it comes from, and how far it is."""
        return self.output.with_name(self.output.name + RECORD)

    def begin(self) -> None:
        """Begin anew.

        Raises:
            UserError: it is there already, or cannot be written.
        """
        if self.output.exists() or self.record.exists():
            raise UserError(f"{self.output} is there already: go on with --resume, or remove it")
        with attach_filename(self.output):
            self.output.parent.mkdir(parents=True, exist_ok=True)
            for path in (self.output, self.rejects):
                path.write_bytes(b"")
        self._write_record(finished=False)

    def go_on(self) -> None:
        """Go on behind what is recorded as written; begin where nothing is.

        Raises:
            UserError: it was made of something else or otherwise, or is damaged.
        """
        if not self.record.exists():
            self.begin()
            return
        try:
            stored = json.loads(self.record.read_text(encoding="utf-8"))
            origin, sizes = stored["origin"], stored["bytes"]
            self.lines, self.kept = int(stored["lines"]), int(stored["kept"])
            self.rejected = Counter({str(k): int(n) for k, n in stored["rejected"].items()})
            ends = int(sizes["kept"]), int(sizes["rejected"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self.record} is damaged: {error}") from error
        for key, value in self.origin.items():
            if origin.get(key) != value:
                raise UserError(
                    f"{self.output} was begun with another {key}: {origin.get(key)!r}, not "
                    f"{value!r}; go on with that, or name another output"
                )
        for path, end in zip((self.output, self.rejects), ends, strict=True):
            with attach_filename(path), path.open("r+b") as file:
                if file.seek(0, 2) < end:
                    raise UserError(f"{path} is shorter than {self.record} says: begin anew")
                file.truncate(end)

    def write(self, made: Sequence[Made]) -> None:
        """Add what became of lines, and then record that it is written."""
        tables: dict[Path, list[str]] = {self.output: [], self.rejects: []}
        for text, translation, reason in made:
            pair = (translation, text) if self.kind == "back" else (text, translation)
            if reason:
                tables[self.rejects].append("\t".join((reason, *pair)))
                self.rejected[reason] += 1
            else:
                tables[self.output].append("\t".join(pair))
        self.lines += len(made)
        self.kept += len(tables[self.output])
        for path, rows in tables.items():
            with attach_filename(path), path.open("a", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{row}\n" for row in rows)
        self._write_record(finished=False)

    def finish(self) -> None:
        """Record that it is complete."""
        self._write_record(finished=True)

    def _write_record(self, *, finished: bool) -> None:
        content = {
            "origin": self.origin,
            "lines": self.lines,
            "kept": self.kept,
            "rejected": dict(sorted(self.rejected.items())),
            "bytes": {"kept": self.output.stat().st_size, "rejected": self.rejects.stat().st_size},
            "finished": finished,
        }
        write_inside(self.record.parent, self.record.name, format_json(content))


def synthesize(
    file: Path,
    corpus: SyntheticCorpus,
    synthesis: Synthesis,
    *,
    shown: bool,
    encoding: str = UTF_8,
) -> None:
    """Translate the lines of a file that the corpus does not have yet.

    Args:
        file: text, one sentence per line.
        corpus: begun.
        synthesis: what makes pairs.
        shown: whether there is a progress bar.
        encoding: of the file.
    """

    def stream(chunks: Iterable[list[str]]) -> Generator[list[Made]]:
        first = corpus.lines
        for chunk in chunks:
            yield synthesis.make(chunk, first)
            first += len(chunk)

    translate_file(file, corpus.lines, stream, corpus.write, shown=shown, encoding=encoding)
    corpus.finish()


def describe_origin(
    kind: str,
    runs: Sequence[Path],
    file: Path,
    synthesis: Synthesis,
    encoding: str = UTF_8,
) -> dict[str, Any]:
    """Return what a corpus is made of and how, as its record keeps it."""
    best = [RunFolder.open(run).checkpoints.best for run in runs]
    weights = [digest_file(path) if path.is_file() else None for path in best]
    settings = asdict(synthesis.request)
    if isinstance(synthesis.request, SearchRequest):
        request = {"search": settings}
    else:
        settings["agreeing"] = settings.pop("rank_by_agreement")  # its name in the record
        request = {"draw": settings}
    content: dict[str, Any] = {
        "kind": kind,
        "runs": [str(run) for run in runs],
        "weights": weights,
        "file": str(file),
        "file_sha256": digest_file(file),
        **request,
        "noise": synthesis.noisy and {"seed": synthesis.seed},
        "filters": asdict(synthesis.filters),
    }
    encoding = codecs.lookup(encoding).name
    if encoding != UTF_8:  # records from before there were others have no encoding
        content["encoding"] = encoding
    return dict(json.loads(json.dumps(content)))
