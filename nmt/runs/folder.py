"""The run folder: what is in it, saving and loading it.

config.yaml       the full resolved configuration
corpus.json       counts and digests of the splits, checksum of the tokenizer
tokenizer.*       the tokenizer
checkpoints/      step_*.npz (complete, the last few), best.npz (weights alone), start.npz (weights
                  that are not trained, where there are any)
metrics.jsonl     one JSON object per report
logs/             TensorBoard
samples/          dev translations at every evaluation
evaluation_*.json scores and translations of a split or a file
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config import Config
from nmt.errors import UserError, attach_filename, nearest
from nmt.files import digest_file, format_json, format_json_line, write_inside

if TYPE_CHECKING:  # imported where they are needed: a wrong path is said before seconds of imports
    import numpy as np

    from nmt.data.tokenizer import Tokenizer
    from nmt.model.contract import Model
    from nmt.runs.checkpoint import Checkpoints

CONFIG_FILE = "config.yaml"
CORPUS_FILE = "corpus.json"
METRICS_FILE = "metrics.jsonl"
TEST_SCORES_FILE = "evaluation_test.json"
LATEST = "latest"
_CHECKSUM = "# SHA-256 of the lines below: "  # the first line of config.yaml
_TOKENIZER_CHECKSUM = "tokenizer_sha256"  # in corpus.json
# What reading JSON raises that is damaged, or of another form than was written.
_MALFORMED = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class RunFolder:
    """One run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, config: Config) -> RunFolder:
        """Make a new folder ``runs_dir/<date>_<time>_<name>`` and point ``latest`` at it.

        Raises:
            UserError: it cannot be made.
        """
        parent = Path(config.runs_dir)
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        name = re.sub(r"[^\w.-]+", "-", config.name)
        for attempt in range(1, 1000):
            path = parent / f"{stamp}_{name}{f'_{attempt}' if attempt > 1 else ''}"
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue  # two runs in one second
            except OSError as error:
                raise UserError(f"runs_dir={parent} cannot be written to: {error}") from error
            run = cls(path)
            run.write_config(config)
            run.link_latest()
            return run
        raise UserError(f"{parent} already holds a thousand runs of this second")

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run.

        Raises:
            UserError: the path is no run folder.
        """
        if not path.exists():
            hint = "train one first: python -m nmt.train"
            if path.parent.is_dir() and path.name != LATEST:
                names = [entry.name for entry in path.parent.iterdir() if entry.is_dir()]
                hint = nearest(path.name, names).lstrip("; ") or hint
            raise UserError(f"there is no run {path}; {hint}")
        if not (path / CONFIG_FILE).is_file():
            raise UserError(f"{path} is not a run folder: it has no {CONFIG_FILE}")
        return cls(path.resolve())

    @cached_property
    def config(self) -> Config:
        """The configuration of the run.

        Raises:
            UserError: the file is missing or damaged, or was changed.
        """
        from nmt.config import files

        self._check_config()
        return files.load(self.path / CONFIG_FILE)

    def _check_config(self) -> None:
        """Compare the configuration with its checksum; runs of earlier versions have none."""
        path = self.path / CONFIG_FILE
        try:
            first, _, rest = path.read_bytes().partition(b"\n")
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}") from error
        checksum = _CHECKSUM.encode()
        found = hashlib.sha256(rest).hexdigest().encode()
        if first.startswith(checksum) and first.removeprefix(checksum).strip() != found:
            raise UserError(
                f"{path} is damaged: its SHA-256 is not the one in its first line; if you changed "
                "it, delete that line"
            )

    def write_config(self, config: Config) -> None:
        """Write the configuration, as YAML."""
        from nmt.config import files

        training = dataclasses.replace(config.training, resume=None)
        stored = dataclasses.replace(config, training=training)
        text = files.to_yaml(stored)
        checksum = hashlib.sha256(text.encode()).hexdigest()
        write_inside(self.path, CONFIG_FILE, f"{_CHECKSUM}{checksum}\n{text}")
        self.__dict__.pop("config", None)  # is read anew

    def link_latest(self) -> None:
        """Make ``latest`` beside the run point at it, replacing an older pointer atomically."""
        pointer = self.path.parent / LATEST
        partial = pointer.with_name(f".{LATEST}-{os.getpid()}")
        partial.unlink(missing_ok=True)
        try:
            partial.symlink_to(self.path.name, target_is_directory=True)
            partial.replace(pointer)
        except OSError:
            # No symbolic links here (or a real folder in the way): the run is named in full then.
            partial.unlink(missing_ok=True)

    def write_corpus_record(self, record: dict[str, Any]) -> None:
        """Keep what tells this run's corpus from another, and its tokenizer from a damaged one."""
        from nmt.data.tokenizer import find_tokenizer_file

        path = find_tokenizer_file(self.path)
        checksum = {_TOKENIZER_CHECKSUM: digest_file(path)} if path else {}
        self.write_json(CORPUS_FILE, record | checksum)

    def write_json(self, name: str, content: dict[str, Any]) -> Path:
        """Write a JSON file into the run's folder, never outside of it; return its path."""
        write_inside(self.path, name, format_json(content))
        return self.path / name

    def read_corpus_record(self) -> dict[str, Any]:
        """Return what was kept of the corpus; empty if nothing was.

        Raises:
            UserError: the file is damaged.
        """
        path = self.path / CORPUS_FILE
        if not path.is_file():
            return {}
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, *_MALFORMED) as error:
            raise UserError(f"{path} is damaged: {error}") from error

    def test_scores(self) -> dict[str, dict[str, float | None]]:
        """Return ``value`` and ``half_width`` of each score on the test split; empty without one.

        Raises:
            UserError: the file with the scores is damaged.
        """
        path = self.path / TEST_SCORES_FILE
        if not path.is_file():
            return {}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))["scores"]
            return {
                name: {"value": score["value"], "half_width": score.get("half_width")}
                for name, score in found.items()
            }
        except (OSError, *_MALFORMED) as error:
            raise UserError(f"{path} is damaged: {error}") from error

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """The run's checkpoints."""
        from nmt.runs.checkpoint import Checkpoints

        return Checkpoints(self.path / "checkpoints")

    @property
    def logs(self) -> Path:
        """Where TensorBoard reads."""
        return self.path / "logs"

    @property
    def samples(self) -> Path:
        """Where dev translations are written."""
        return self.path / "samples"

    def load_tokenizer(self) -> Tokenizer:
        """Load the run's tokenizer.

        Raises:
            UserError: there is none, or it is damaged.
        """
        from nmt.data.tokenizer import find_tokenizer_file, load_tokenizer

        path = find_tokenizer_file(self.path)
        checksum = self.read_corpus_record().get(_TOKENIZER_CHECKSUM)  # none in earlier versions
        if path and checksum is not None and digest_file(path) != checksum:
            raise UserError(f"{path} is damaged: its SHA-256 is not the one in {CORPUS_FILE}")
        return load_tokenizer(self.path)

    def load_weights(self) -> tuple[dict[str, np.ndarray], Path]:
        """Read the best weights, or the last ones if none is best yet, and those not trained.

        Returns:
            (arrays, where they are from).

        Raises:
            UserError: there are none, or they are damaged.
        """
        from nmt.runs.checkpoint import read_arrays

        checkpoints = self.checkpoints
        path = checkpoints.best
        if path.is_file():
            return checkpoints.read_start() | read_arrays(path)[0], path
        found = checkpoints.load_latest(warnings.warn)
        if found is None:
            raise UserError(f"{self.path} has no weights yet: its training saved no checkpoint")
        arrays, position = found
        if position.get("best_score") is not None and position["best_step"] < position["step"]:
            raise UserError(
                f"there is no {path}, though update {position['best_step']} was the best; to take "
                f"the last one, copy {checkpoints.path(position['step']).name} there"
            )
        return checkpoints.read_start() | arrays, checkpoints.folder

    def load_model(self) -> Model:
        """Load the model in float32 with its best weights, or the last ones if none is best yet.

        Raises:
            UserError: there are no weights, or they do not fit.
        """
        from nmt.runs.building import build_model, set_weights

        arrays, path = self.load_weights()
        model = build_model(self.config, self.load_tokenizer().vocabulary_size, precision="float32")
        set_weights(model, arrays, path)
        return model

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """What was reported, in order: ``step``, ``seconds``, and values by TensorBoard's tags."""
        return [record for _, record in self._metrics()]

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Add one line to ``metrics.jsonl``."""
        path = self.path / METRICS_FILE
        with attach_filename(path), path.open("a", encoding="utf-8") as file:
            file.write(format_json_line(record))

    def drop_metrics_after(self, step: int) -> None:
        """Remove what a killed session reported beyond its last checkpoint."""
        if (self.path / METRICS_FILE).is_file():
            kept = [line for line, record in self._metrics() if record["step"] <= step]
            write_inside(self.path, METRICS_FILE, "".join(kept))

    def _metrics(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each line of ``metrics.jsonl`` and what it says.

        Raises:
            UserError: one is damaged. The last may be cut: the session was killed while it wrote.
        """
        path = self.path / METRICS_FILE
        content = path.read_bytes() if path.is_file() else b""
        for number, line in enumerate(content.splitlines(keepends=True), 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = dict(json.loads(line))
                if not isinstance(record["step"], int):
                    raise ValueError("its step is no whole number")
                yield line.decode(), record
            except _MALFORMED as error:
                raise UserError(f"{path}, line {number}, is damaged: {error}") from error
