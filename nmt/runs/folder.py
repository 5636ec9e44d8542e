"""The run folder: its files, and how they are written and loaded.

config.yaml       the full resolved configuration
corpus.json       counts and digests of the splits, checksum of the tokenizer
components.json   names of objects passed to `fit` in place of configured ones, if any
tokenizer.*       the tokenizer
checkpoints/      step_*.npz (the last few, complete), best.npz (weights only), start.npz (weights
                  that are not trained, if there are any)
metrics.jsonl     one JSON object per report
dev_outputs.jsonl translations of the dev sentences at every evaluation
logs/             TensorBoard
samples/          a few of these translations, as tables
source_words.tsv  words of the training sources: see `nmt.text.source_words`
lexicon.npz       translations of pieces, for alignments: see `nmt.inference.lexicon`
quality.json      how confidence is computed: see `nmt.inference.quality_model`
evaluation_*.json scores and translations of a split or a file
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config import Config
from nmt.data.splitting import TEST
from nmt.errors import UserError, suggest
from nmt.files import digest_file, format_json, read_json, write_inside
from nmt.runs.custom_model import ModelClass, check_model_class
from nmt.runs.metrics import MALFORMED, MetricsFile
from nmt.text.source_words import SourceWords

if TYPE_CHECKING:  # imported in methods: a wrong path is reported before seconds of imports
    import numpy as np

    from nmt.data.tokenizer import Tokenizer
    from nmt.model.contract import Model
    from nmt.runs.checkpoint import Checkpoints

CONFIG_FILE = "config.yaml"
CORPUS_FILE = "corpus.json"
COMPONENTS_FILE = "components.json"
METRICS_FILE = "metrics.jsonl"
DEV_OUTPUTS_FILE = "dev_outputs.jsonl"
TEST_SCORES_FILE = "evaluation_test.json"
LATEST = "latest"
_MANIFEST_FILE = "manifest.json"  # `nmt.formats.manifest.MANIFEST_FILE`, of exports
_CHECKSUM = "# SHA-256 of the lines below: "  # the first line of config.yaml
_TOKENIZER_CHECKSUM = "tokenizer_sha256"  # in corpus.json


def name_test_scores(test: str) -> str:
    """Return the file of the scores of a finished run on a test set, the test split or another."""
    return TEST_SCORES_FILE if test == TEST else f"evaluation_test_{test}.json"


class RunFolder:
    """One run on disk.

    Args:
        path: the folder.
        model_class: the model class, if the run was trained with one from Python.
    """

    def __init__(self, path: Path, model_class: ModelClass | None = None) -> None:
        self.path = path
        self.model_class = model_class
        self.logs = path / "logs"  # TensorBoard's
        self.samples = path / "samples"  # some dev translations
        self.metrics = MetricsFile(path / METRICS_FILE)
        self.dev_outputs = MetricsFile(path / DEV_OUTPUTS_FILE)

    @classmethod
    def create(cls, config: Config) -> RunFolder:
        """Create ``runs_dir/<date>_<time>_<name>``.

        Raises:
            UserError: the folder cannot be created.
        """
        parent = Path(config.runs_dir)
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        name = re.sub(r"[^\w.-]+", "-", config.name)
        for attempt in range(1, 1000):
            path = parent / f"{stamp}_{name}{f'_{attempt}' if attempt > 1 else ''}"
            try:
                path.mkdir(parents=True)
            except FileExistsError as error:
                if not parent.is_dir():
                    raise UserError(
                        f"runs_dir={parent} is a link, or below one, to a folder that is missing: "
                        "mount its disk, or choose another runs_dir"
                    ) from error
                continue  # two runs in one second
            except OSError as error:
                raise UserError(f"runs_dir={parent} cannot be written to: {error}") from error
            run = cls(path)
            run.write_config(config)
            return run
        raise UserError(f"{parent} already holds a thousand runs of this second")

    @classmethod
    def open(cls, path: Path, model_class: ModelClass | None = None) -> RunFolder:
        """Open an existing run.

        Args:
            path: the folder.
            model_class: see `RunFolder`; only `load_model` needs it.

        Raises:
            UserError: the path is not a run folder.
        """
        if not path.exists():
            runs = [*path.parent.glob(f"*/{CONFIG_FILE}")]
            if path.name == LATEST and runs:  # its run was moved, or the file system has no links
                runs = [max(runs, key=lambda file: file.stat().st_mtime)]
            elif not path.is_absolute():  # perhaps without its folder, or with another one
                runs += Path("runs").glob(f"*/{CONFIG_FILE}")
            hint = suggest(str(path), {str(each.parent) for each in runs})
            if not runs:
                hint = "; train one first: python -m nmt.train"
            raise UserError(f"run {path} does not exist{hint}")
        if not (path / CONFIG_FILE).is_file():
            raise UserError(f"{path} is not a run folder: it has no {CONFIG_FILE}")
        if (path / _MANIFEST_FILE).is_file() and not (path / CORPUS_FILE).is_file():
            raise UserError(f"{path} is an export, not a run folder: name the run it was made from")
        return cls(path.resolve(), model_class)

    @cached_property
    def config(self) -> Config:
        """The run's configuration.

        Raises:
            UserError: the file is missing or damaged, or was changed.
        """
        from nmt.config import files

        path = self.path / CONFIG_FILE
        _check_config(path)
        return files.load(path)

    def write_config(self, config: Config) -> None:
        """Write the configuration as YAML, without ``training.resume``."""
        from nmt.config import files

        training = dataclasses.replace(config.training, resume=None)
        text = files.to_yaml(dataclasses.replace(config, training=training))
        checksum = hashlib.sha256(text.encode()).hexdigest()
        write_inside(self.path, CONFIG_FILE, f"{_CHECKSUM}{checksum}\n{text}")
        self.__dict__.pop("config", None)  # so that it is read again

    def write_json(self, name: str, content: dict[str, Any]) -> Path:
        """Write a JSON file into the run's folder, never outside of it; return its path."""
        write_inside(self.path, name, format_json(content))
        return self.path / name

    def read_components(self) -> dict[str, str]:
        """Return the names of the objects passed to `fit`; empty without any.

        Raises:
            UserError: the file is damaged.
        """
        return _read_if_exists(self.path / COMPONENTS_FILE)

    def write_corpus_record(self, record: dict[str, Any]) -> None:
        """Write what identifies the run's corpus, with the checksum of the tokenizer's file."""
        from nmt.data.tokenizer import find_tokenizer_file

        path = find_tokenizer_file(self.path)
        checksum = {_TOKENIZER_CHECKSUM: digest_file(path)} if path else {}
        self.write_json(CORPUS_FILE, record | checksum)

    def read_corpus_record(self) -> dict[str, Any]:
        """Return what identifies the run's corpus; empty if nothing was written.

        Raises:
            UserError: the file is damaged.
        """
        return _read_if_exists(self.path / CORPUS_FILE)

    def test_scores(self) -> dict[str, dict[str, float | None]]:
        """Return ``value`` and ``half_width`` of each score on the test split; empty without one.

        Raises:
            UserError: the file is damaged.
        """
        path = self.path / TEST_SCORES_FILE
        if not path.is_file():
            return {}
        with _report_damage(path):
            scores = read_json(path)["scores"]
            return {
                name: {"value": score["value"], "half_width": score.get("half_width")}
                for name, score in scores.items()
            }

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """The run's checkpoints."""
        from nmt.runs.checkpoint import Checkpoints

        return Checkpoints(self.path / "checkpoints")

    def load_tokenizer(self) -> Tokenizer:
        """Load the run's tokenizer.

        Raises:
            UserError: it is missing or damaged, or training stopped before it was written.
        """
        from nmt.data.tokenizer import find_tokenizer_file, load_tokenizer

        path = find_tokenizer_file(self.path)
        if path is None and not self.checkpoints.folder.exists():
            raise _no_weights(self)
        checksum = self.read_corpus_record().get(_TOKENIZER_CHECKSUM)  # absent in old runs
        if path and checksum is not None and digest_file(path) != checksum:
            raise UserError(f"{path} is damaged: its SHA-256 is not the one in {CORPUS_FILE}")
        return load_tokenizer(self.path)

    def load_source_words(self) -> SourceWords | None:
        """Load the words of the training sources; None: an older run did not store them.

        Raises:
            UserError: the file is damaged.
        """
        return SourceWords.load(self.path)

    def load_weights(self) -> tuple[dict[str, np.ndarray], Path]:
        """Load the best weights, or the last ones if no best ones were saved.

        Weights that are not trained are included.

        Returns:
            (arrays, the file or folder they come from).

        Raises:
            UserError: the weights are missing or damaged.
        """
        from nmt.runs.checkpoint import read_arrays

        checkpoints = self.checkpoints
        path = checkpoints.best
        if path.is_file():
            return checkpoints.read_start() | read_arrays(path)[0], path
        checkpoint = checkpoints.load_latest(warnings.warn)
        if checkpoint is None:
            raise _no_weights(self)
        arrays, state = checkpoint
        best_step = state.get("best_step", 0)
        if 0 < best_step < state["step"]:
            raise UserError(
                f"{path} is missing, though update {best_step} was the best; to use "
                f"the last one, copy {checkpoints.path(state['step']).name} there"
            )
        if not best_step:
            warnings.warn(
                f"{self.path} has no evaluation yet: these are the weights of its last checkpoint",
                stacklevel=2,
            )
        return checkpoints.read_start() | arrays, checkpoints.folder

    def load_model(self) -> Model:
        """Load the model in float32 with the weights of `load_weights`.

        Raises:
            UserError: the weights are missing or damaged, or do not fit the configuration; or see
                `nmt.runs.custom_model.check_model_class`.
        """
        from nmt.runs.building import build_model, set_weights

        check_model_class(self)
        arrays, path = self.load_weights()
        size = self.load_tokenizer().vocabulary_size
        model = build_model(self.config, size, precision="float32", model_class=self.model_class)
        set_weights(model, arrays, path)
        return model


def _read_if_exists(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file; empty if it does not exist."""
    if not path.is_file():
        return {}
    with _report_damage(path):
        return dict(read_json(path))


@contextmanager
def _report_damage(path: Path) -> Iterator[None]:
    """Turn errors of reading JSON into a `UserError` that names the file."""
    try:
        yield
    except (OSError, *MALFORMED) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def _check_config(path: Path) -> None:
    """Compare a configuration with the checksum in its first line, which old runs lack."""
    try:
        first, _, rest = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    prefix, digest = _CHECKSUM.encode(), hashlib.sha256(rest).hexdigest().encode()
    if first.startswith(prefix) and first.removeprefix(prefix).strip() != digest:
        raise UserError(
            f"{path} is damaged: its SHA-256 is not the one in its first line; if you changed "
            "it, delete that line"
        )


def _no_weights(run: RunFolder) -> UserError:
    """Return the error of a run that stopped early; it names the newest run that has weights."""
    message = f"{run.path} has no weights yet: its training saved no checkpoint"
    best = run.checkpoints.best.relative_to(run.path)
    files = [file for file in run.path.parent.glob(f"*/{best}") if not file.parents[1].is_symlink()]
    if not files:
        return UserError(message)
    newest = max(files, key=lambda file: file.stat().st_mtime)
    return UserError(f"{message}; the newest run with weights is {newest.parents[1]}")


def link_latest(run: Path) -> None:
    """Link ``latest``, beside a run, to the run; an older link is replaced atomically."""
    link = run.parent / LATEST
    partial = link.with_name(f".{LATEST}-{os.getpid()}")
    partial.unlink(missing_ok=True)
    try:
        partial.symlink_to(run.name, target_is_directory=True)
        partial.replace(link)
    except OSError:
        # Without symbolic links, or with a folder called ``latest``, runs go by their full names.
        partial.unlink(missing_ok=True)
