"""The table that synthetic pairs are written to, with a record of their origin."""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nmt.data.encodings import UTF_8
from nmt.errors import UserError, attach_filename
from nmt.files import digest_file, format_json, read_json, write_inside
from nmt.inference.contract import SearchRequest
from nmt.inference.streaming import translate_file
from nmt.inference.synthesis import Synthesizer, SyntheticPair
from nmt.runs.folder import RunFolder

_LATER_KEYS = ("round_trip", "quantization", "whole")  # which older records lack
# Keys of an origin: paths, which may be spelled in several ways, and the digests of their content.
_DIGESTS = {"file": "file_sha256", "runs": "weights", "run": "weights"}
RECORD, REJECTED = ".json", ".rejected.tsv"  # suffixes of the output's name


class SyntheticCorpus:
    """A table of pairs that is written chunk by chunk and can be resumed.

    Rejected pairs and the record are written beside the table.

    Args:
        output: path of the table, source TAB target.
        kind: "back" or "forward": whether the text is the target or the source.
        origin: data and options that the corpus is made with, as JSON; see `describe_origin`.

    Attributes:
        lines: number of lines of text that are done.
        accepted: number of pairs in the table.
        rejected: number of rejected pairs by reason.
    """

    def __init__(self, output: Path, kind: str, origin: dict[str, Any]) -> None:
        self.output, self.kind, self.origin = output, kind, origin
        self.lines = 0
        self.accepted = 0
        self.rejected: Counter[str] = Counter()

    @property
    def rejects(self) -> Path:
        """Path of the rejected pairs: reason TAB source TAB target."""
        return self.output.with_name(self.output.name + REJECTED)

    @property
    def record(self) -> Path:
        """Path of the record: origin and progress."""
        return self.output.with_name(self.output.name + RECORD)

    def start(self) -> None:
        """Create an empty table.

        Raises:
            UserError: the table exists or cannot be written.
        """
        if self.output.exists() or self.record.exists():
            raise UserError(f"{self.output} already exists: add --resume, or remove it")
        with attach_filename(self.output):
            self.output.parent.mkdir(parents=True, exist_ok=True)
            for path in (self.output, self.rejects):
                path.write_bytes(b"")
        self._write_record(finished=False)

    def resume(self) -> None:
        """Continue after the last recorded line; start if nothing was recorded.

        Raises:
            UserError: the table has another origin or no record, or is damaged.
        """
        if not self.record.exists():
            if self.output.exists() and self.output.stat().st_size:
                raise UserError(
                    f"{self.output} cannot be resumed, as {self.record} is missing: remove it, or "
                    "name another output"
                )
            self.output.unlink(missing_ok=True)
            self.start()
            return
        try:
            stored = read_json(self.record)
            origin, sizes = _respell(stored["origin"], self.origin), stored["bytes"]
            self.lines, self.accepted = int(stored["lines"]), int(stored["kept"])
            self.rejected = Counter({str(k): int(n) for k, n in stored["rejected"].items()})
            ends = int(sizes["kept"]), int(sizes["rejected"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self.record} is damaged: {error}") from error
        self._check_origin(origin)
        for path, end in zip((self.output, self.rejects), ends, strict=True):
            if not path.is_file():
                raise UserError(f"{path} is missing, but named in {self.record}: start again")
            with attach_filename(path), path.open("r+b") as file:
                if file.seek(0, 2) < end:
                    raise UserError(f"{path} is shorter than {self.record} says: start again")
                file.truncate(end)

    def _check_origin(self, stored: Mapping[str, Any]) -> None:
        """Check that the corpus was started with the same data and options.

        Raises:
            UserError: one differs.
        """
        for key in {**stored, **self.origin}:
            before, value = stored.get(key), self.origin.get(key)
            is_recorded = key in stored or key not in _LATER_KEYS
            if is_recorded and before != value:
                raise UserError(
                    f"{self.output} was started with {key} {before!r}, got {value!r}: "
                    "resume with the same value, or name another output"
                )

    def write(self, pairs: Sequence[SyntheticPair]) -> None:
        """Append the pairs of a chunk of lines, then update the record."""
        tables: dict[Path, list[str]] = {self.output: [], self.rejects: []}
        for text, translation, reason in pairs:
            sides = (translation, text) if self.kind == "back" else (text, translation)
            if reason:
                tables[self.rejects].append("\t".join((reason, *sides)))
                self.rejected[reason] += 1
            else:
                tables[self.output].append("\t".join(sides))
        self.lines += len(pairs)
        self.accepted += len(tables[self.output])
        for path, rows in tables.items():
            with attach_filename(path), path.open("a", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{row}\n" for row in rows)
        self._write_record(finished=False)

    def finish(self) -> None:
        """Record that the corpus is complete."""
        self._write_record(finished=True)

    def _write_record(self, *, finished: bool) -> None:
        content = {
            "origin": self.origin,
            "lines": self.lines,
            "kept": self.accepted,
            "rejected": dict(sorted(self.rejected.items())),
            "bytes": {"kept": self.output.stat().st_size, "rejected": self.rejects.stat().st_size},
            "finished": finished,
        }
        write_inside(self.record.parent, self.record.name, format_json(content))


def _respell(stored: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored origin with the paths of the current one where digests are equal."""
    respelled = dict(stored)
    for key, digest_key in _DIGESTS.items():
        digests = stored.get(digest_key)  # None in it: of a run without a checkpoint
        if digests and all(digests) and digests == current.get(digest_key) and key in current:
            respelled[key] = current[key]
    if stored.get("round_trip") and current.get("round_trip"):
        respelled["round_trip"] = _respell(stored["round_trip"], current["round_trip"])
    return respelled


def write_corpus(
    file: Path,
    corpus: SyntheticCorpus,
    synthesizer: Synthesizer,
    *,
    shows_progress: bool,
    encoding: str = UTF_8,
) -> None:
    """Translate the lines of a file that are not done yet, and write their pairs.

    Args:
        file: text, one sentence per line.
        corpus: a started or resumed corpus.
        synthesizer: translates and filters.
        shows_progress: whether to show a progress bar.
        encoding: encoding of the file.
    """

    def stream(chunks: Iterable[list[str]]) -> Generator[list[SyntheticPair]]:
        first = corpus.lines
        for chunk in chunks:
            yield synthesizer.synthesize(chunk, first)
            first += len(chunk)

    translate_file(
        file,
        corpus.lines,
        stream,
        corpus.write,
        shows_progress=shows_progress,
        encoding=encoding,
    )
    corpus.finish()


def describe_origin(
    kind: str,
    runs: Sequence[Path],
    file: Path,
    synthesizer: Synthesizer,
    *,
    encoding: str = UTF_8,
    back: Path | None = None,
    quantization: str | None = None,
    whole: bool = False,
) -> dict[str, Any]:
    """Return the data and options that a corpus is made with, as in its record.

    Args:
        kind: see `SyntheticCorpus`.
        runs: translate.
        file: text, one sentence per line.
        synthesizer: translates and filters.
        encoding: encoding of the file.
        back: the run that translates back; None: no round trips.
        quantization: of the weights; None: as stored.
        whole: whether a line is translated in one go.
    """
    request = asdict(synthesizer.request)
    is_search = isinstance(synthesizer.request, SearchRequest)
    if not is_search:
        # Names in the record.
        request["count"] = request.pop("samples")
        request["agreeing"] = request.pop("rank_by_agreement")
    content: dict[str, Any] = {
        "kind": kind,
        "runs": [str(run) for run in runs],
        "weights": _digest_weights(runs),
        "file": str(file),
        "file_sha256": digest_file(file),
        "search" if is_search else "draw": request,
        "noise": synthesizer.adds_noise and {"seed": synthesizer.seed},
        "filters": asdict(synthesizer.filters),
        "round_trip": back and {"run": str(back), "weights": _digest_weights([back])},
        "quantization": quantization,
        "whole": whole,
    }
    encoding = codecs.lookup(encoding).name
    if encoding != UTF_8:  # records name other encodings only
        content["encoding"] = encoding
    return dict(json.loads(json.dumps(content)))


def _digest_weights(runs: Sequence[Path]) -> list[str | None]:
    """Return the digests of the best weights; None: a run without a checkpoint."""
    best = [RunFolder.open(run).checkpoints.best for run in runs]
    return [digest_file(path) if path.is_file() else None for path in best]
