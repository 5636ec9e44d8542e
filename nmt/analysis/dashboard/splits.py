"""Translations of whole splits by two runs, for the dashboard: where they differ most, and why.

Runs store the translations of the dev sentences at every evaluation, and those of the test split in
the end; `nmt.evaluate` stores more. The attention of such a sentence is computed on request.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nmt.analysis.dashboard.attending import AttentionProcess, AttentionRequest
from nmt.errors import UserError

if TYPE_CHECKING:  # imported in methods: TensorBoard imports this module when it starts
    from nmt.analysis.comparison.stored import Change, StoredOutputs
    from nmt.runs.folder import RunFolder

PREFIX = "split/"  # of the ids of sentences whose attention is computed: "split/NAME/SOURCE"
_DEV = "dev"
_BEST = "the best weights"
_NAME = re.compile(  # see `list_stored`
    r"(?:(?P<kind>split|test|file)_)?(?P<set>.+?)(?:_(?P<search>(?:greedy|beam_).*))?", re.DOTALL
)
_TITLES = {None: "{} split", "split": "{} split", "test": "{} (test set)", "file": "{} (file)"}


class _File(NamedTuple):
    """A file of translations as it is now, and the evaluation in it that is meant."""

    path: Path
    modified: int
    step: int | None  # None: a file of one evaluation


class Splits:
    """Answers the viewer's requests about splits.

    Args:
        logdir: the folder that TensorBoard shows; "": no single folder, so nothing is found.
    """

    def __init__(self, logdir: str) -> None:
        self._logdir = logdir
        self._attention = AttentionProcess()

    def list_shared(self, first: str, second: str) -> list[dict[str, str]]:
        """Return name and title of the sentences that both runs have translated."""
        from nmt.analysis.comparison.stored import list_stored

        folders = [self._open(name) for name in (first, second)]
        if None in folders:
            return []
        names = [list_stored(folder) for folder in folders if folder is not None]
        shared = [name for name in names[0] if name in names[1]]
        shared.sort(key=lambda name: (name != "test", name != _DEV, name))
        return [{"name": name, "title": _title(name)} for name in shared]

    def compare(
        self, first: str, second: str, name: str, step: int, *, better: int, count: int
    ) -> dict[str, Any]:
        """Return scores of two runs, and the sentences that one of them translates better.

        Args:
            first: name of a run.
            second: name of another run.
            name: of the sentences.
            step: an update; of dev sentences, the evaluations that are nearest to it are compared.
            better: index of the run that translates the sentences better, 0 or 1.
            count: most sentences.

        Raises:
            UserError: a run has not translated the sentences.
        """
        folders = [self._require(run) for run in (first, second)]
        files = [_find_file(folder, name, step) for folder in folders]
        steps = [
            _best_step(folder) if file.step is None else file.step
            for folder, file in zip(folders, files, strict=True)
        ]
        changes = _rank(files[0], files[1], folders[0].config.data.languages[1])
        gains = [change.scores[1] - change.scores[0] for change in changes]
        wins = sum(gain < 0 for gain in gains), sum(gain > 0 for gain in gains)
        chosen = changes[::-1][: wins[1]] if better else changes[: wins[0]]
        return {
            "sentences": len(changes),
            "means": [
                sum(change.scores[i] for change in changes) / max(len(changes), 1) for i in (0, 1)
            ],
            "wins": wins,
            "steps": steps,
            "rows": [
                {
                    "id": f"{PREFIX}{name}/{change.pair.source}",
                    "source": change.pair.source,
                    "reference": change.pair.target,
                    "outputs": change.outputs,
                    "scores": change.scores,
                }
                for change in chosen[:count]
            ],
        }

    def steps(self, run: str, sentence: str) -> list[dict[str, Any]]:
        """Return the updates whose weights can compute the attention of a sentence.

        They are the one of the best weights and, of dev sentences, those of the kept checkpoints
        that were evaluated.
        """
        folder = self._open(run)
        if folder is None:
            return []
        name, source = _split_id(sentence)
        try:
            file = _find_file(folder, name, 0)
            if source not in _sources(file):
                return []
        except UserError:
            return []
        best = _best_step(folder)
        checkpoints = {*folder.checkpoints.steps()} & {*_read(file.path, file.modified)}
        return [
            {"step": step, "time": None, "note": _BEST if step == best else "a kept checkpoint"}
            for step in sorted({*checkpoints, *([] if best is None else [best])})
        ]

    def record(self, run: str, sentence: str, step: int) -> bytes:
        """Return the record of a sentence, computed with the weights after an update.

        Raises:
            UserError: the run has not translated the sentence, or has no attention for it.
        """
        folder = self._require(run)
        name, source = _split_id(sentence)
        texts = _sources(_find_file(folder, name, step)).get(source)
        if texts is None:
            raise UserError(f"{run} has not translated this sentence.")
        full_source, reference = texts
        checkpoint = folder.checkpoints.path(step)
        if _best_step(folder) == step:
            weights = None
        elif name == _DEV and checkpoint.is_file():
            weights = str(checkpoint)
        else:
            raise UserError(f"{run} has not kept the weights of update {step}.")
        if folder.config.data.context and name != _DEV:
            raise UserError(
                f"{run} reads the sentences before each, which evaluations do not store: choose "
                "one of its dev sentences."
            )
        return self._attention.compute(
            AttentionRequest(str(folder.path), weights, full_source, reference)
        )

    def close(self) -> None:
        """End the process that computes attention."""
        self._attention.close()

    def _open(self, run: str) -> RunFolder | None:
        """Return the folder of a run; None: its events are not in a run folder of `logdir`."""
        from nmt.runs.folder import RunFolder

        if not self._logdir:
            return None
        if Path(run).is_absolute() or ".." in Path(run).parts:
            return None
        logs = (Path(self._logdir).expanduser() / run).resolve()
        try:
            return RunFolder.open(logs.parent)
        except UserError:
            return None

    def _require(self, run: str) -> RunFolder:
        folder = self._open(run)
        if folder is None:
            raise UserError(f"{run} is not in a run folder.")
        return folder


def _split_id(sentence: str) -> tuple[str, str]:
    """Return the name of the sentences, and the source, in an id."""
    name, _, source = sentence.removeprefix(PREFIX).partition("/")
    return name, source


def _title(name: str) -> str:
    if name == _DEV:
        return "dev sentences, during training"
    match = _NAME.fullmatch(name)
    assert match is not None, "it matches any name"
    title = _TITLES[match["kind"]].format(match["set"].replace("_", " "))
    return title + (f", {match['search'].replace('_', ' ')}" if match["search"] else "")


def _best_step(folder: RunFolder) -> int | None:
    """Return the update of the best weights; None: unknown."""
    from nmt.runs.checkpoint import read_metadata

    try:
        step = read_metadata(folder.checkpoints.best).get("best_step")
    except UserError:
        return None
    return step if isinstance(step, int) else None


def _find_file(folder: RunFolder, name: str, step: int) -> _File:
    """Return the translations of a run; of dev sentences, those nearest to an update.

    Raises:
        UserError: the run has not translated them.
    """
    from nmt.analysis.comparison.stored import list_stored

    path = list_stored(folder).get(name)
    if path is None:
        raise UserError(f"{folder.path.name} has no translations of the {_title(name)}.")
    file = _File(path, path.stat().st_mtime_ns, None)
    if name != _DEV:
        return file
    steps = [each for each in _read(path, file.modified) if each is not None]
    if not steps:
        raise UserError(f"{folder.path.name} has no translations of the {_title(name)}.")
    return file._replace(step=min(steps, key=lambda each: (abs(each - step), each)))


@functools.lru_cache(maxsize=8)
def _read(path: Path, modified: int) -> dict[int | None, StoredOutputs]:
    """Return the evaluations in a file; ``modified`` tells its versions apart."""
    from nmt.analysis.comparison.stored import read_dev_outputs, read_evaluation
    from nmt.runs.folder import DEV_OUTPUTS_FILE, RunFolder

    if path.name == DEV_OUTPUTS_FILE:
        return dict(read_dev_outputs(RunFolder.open(path.parent)).items())
    stored = read_evaluation(path)
    if stored is None:
        raise UserError(f"{path} is damaged.")
    return {None: stored}


@functools.lru_cache(maxsize=8)
def _sources(file: _File) -> dict[str, tuple[str, str]]:
    """Return the source as the file has it, and the reference, by bare source."""
    from nmt.data.contexts import remove_contexts

    pairs = _read(file.path, file.modified)[file.step].pairs
    bare = remove_contexts(pairs)
    return {each.source: (pair.source, pair.target) for each, pair in zip(bare, pairs, strict=True)}


@functools.lru_cache(maxsize=8)
def _rank(first: _File, second: _File, language: str) -> list[Change]:
    from nmt.analysis.comparison.stored import rank_stored

    outputs = [_read(file.path, file.modified)[file.step] for file in (first, second)]
    return rank_stored(outputs[0], outputs[1], language)
