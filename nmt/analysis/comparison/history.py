"""Which dev sentences a run had right after each of its evaluations: learned, and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from nmt.analysis.comparison.slices import (
    Slice,
    drop_repeated,
    make_slices,
    read_training_words,
)
from nmt.analysis.comparison.stored import METRIC, StoredOutputs, read_dev_outputs
from nmt.data.contexts import remove_contexts
from nmt.data.splitting import DEV, Pair
from nmt.errors import UserError
from nmt.inference.evaluation import translate_with_progress
from nmt.inference.significance import count_statistics
from nmt.inference.translator import Translator
from nmt.runs.averaging import extract_checkpoint
from nmt.runs.corpus import read_corpus
from nmt.runs.custom_model import check_model_class
from nmt.runs.folder import DEV_OUTPUTS_FILE, RunFolder
from nmt.runs.samples import list_sample_files, read_samples
from nmt.startup.quiet import quiet_start

_MIN_EVALUATIONS = 2
_MIN_SLICE = 10  # sentences of a kind that is listed
MIN_RIGHT = 5  # sentences of a kind that are right at the end, for it to be ranked


@dataclass(frozen=True)
class History:
    """The outputs of the same sentences after several evaluations of a run."""

    origin: str  # where the outputs come from
    pairs: Sequence[Pair]
    steps: Sequence[int]
    outputs: Sequence[Sequence[str]]  # by evaluation
    scores: np.ndarray  # METRIC [evaluations, N]
    threshold: float  # METRIC of a sentence that counts as right

    @cached_property
    def right(self) -> np.ndarray:
        """Whether each sentence was right after each evaluation [evaluations, N]."""
        return self.scores >= self.threshold

    @cached_property
    def learned_at(self) -> np.ndarray:
        """The evaluation after which each sentence was first right [N]; -1: never."""
        return np.where(self.right.any(0), self.right.argmax(0), -1)

    @cached_property
    def forgotten(self) -> np.ndarray:
        """Whether each sentence was right before, and not at the end [N]."""
        return self.right.any(0) & ~self.right[-1]

    @cached_property
    def forgetting_events(self) -> np.ndarray:
        """How often each sentence was right and not at the next evaluation [N] (Toneva 2019)."""
        return (self.right[:-1] & ~self.right[1:]).sum(0)


class Progress(NamedTuple):
    """What changed at one evaluation; counts of sentences."""

    step: int
    score: float  # mean METRIC of sentences
    right: int
    learned: int  # right for the first time
    regained: int  # right again
    forgotten: int  # right at the evaluation before, and not here


class SliceProgress(NamedTuple):
    """When a kind of sentences was learned."""

    slice: Slice
    right: list[float]  # share that was right after each evaluation
    half_at: int | None  # update at which half of the final share was right; None: too few are


def list_progress(history: History) -> list[Progress]:
    """Return what changed at each evaluation."""
    progress = []
    ever_right = np.zeros(len(history.pairs), bool)
    before = ever_right
    for number, (step, right) in enumerate(zip(history.steps, history.right, strict=True)):
        progress.append(
            Progress(
                step,
                float(history.scores[number].mean()),
                int(right.sum()),
                int((right & ~ever_right).sum()),
                int((right & ever_right & ~before).sum()),
                int((before & ~right).sum()),
            )
        )
        ever_right, before = ever_right | right, right
    return progress


def list_slices(history: History, slices: Sequence[Slice]) -> list[SliceProgress]:
    """Return when each kind of sentences was learned, the first one first.

    Kinds with few sentences are left out.
    """
    progress = []
    for each in slices:
        if each.size >= _MIN_SLICE:
            shares = history.right[:, each.members].mean(1)
            reached = np.flatnonzero(shares >= shares[-1] / 2)
            is_ranked = history.right[-1, each.members].sum() >= MIN_RIGHT
            half = int(history.steps[reached[0]]) if is_ranked else None
            progress.append(SliceProgress(each, shares.tolist(), half))
    last = max(history.steps) + 1
    return sorted(
        progress,
        key=lambda each: (last if each.half_at is None else each.half_at, -each.right[-1]),
    )


def read_history(run: RunFolder, threshold: float) -> History:
    """Read the outputs that a run kept: of all dev sentences, or of an older run its samples.

    Raises:
        UserError: it kept those of fewer than two evaluations, or they are damaged.
    """
    records = read_dev_outputs(run)
    if len(records) >= _MIN_EVALUATIONS:
        steps, pairs, outputs = _read_records(records)
        return make_history(DEV_OUTPUTS_FILE, pairs, steps, outputs, threshold, _language(run))
    paths = list_sample_files(run.samples)
    if len(paths) < _MIN_EVALUATIONS:
        raise UserError(
            f"{run.path} has translations of {max(len(records), len(paths))} evaluations, and a "
            "history needs two: give --checkpoints to translate with the checkpoints that it kept"
        )
    steps = [int(path.stem.removeprefix("step_")) for path in paths]
    tables = [read_samples(path) for path in paths]
    sides = [[Pair(sample.source, sample.reference) for sample in table] for table in tables]
    pairs = [pair for pair in dict.fromkeys(sides[-1]) if all(pair in each for each in sides)]
    outputs = [
        [table[each.index(pair)].output for pair in pairs]
        for table, each in zip(tables, sides, strict=True)
    ]
    return make_history("samples", pairs, steps, outputs, threshold, _language(run))


def _read_records(
    records: Mapping[int, StoredOutputs],
) -> tuple[list[int], list[Pair], list[list[str]]]:
    """Return steps, the pairs of all evaluations, and their outputs."""
    tables = [dict(zip(record.pairs, record.outputs, strict=True)) for record in records.values()]
    steps = list(records)
    shared = [pair for pair in tables[-1] if all(pair in table for table in tables)]
    return steps, shared, [[table[pair] for pair in shared] for table in tables]


def _language(run: RunFolder) -> str:
    return run.config.data.languages[1]


def make_history(
    origin: str,
    pairs: Sequence[Pair],
    steps: Sequence[int],
    outputs: Sequence[Sequence[str]],
    threshold: float,
    language: str,
) -> History:
    """Score outputs of the same pairs after several evaluations.

    Raises:
        UserError: ``pairs`` is empty.
    """
    if not pairs:
        raise UserError(f"{origin}: no sentence was translated at every evaluation")
    bare = remove_contexts(pairs)
    references = [pair.target for pair in bare]
    statistics = (
        count_statistics(each, references, language=language, names=(METRIC,)) for each in outputs
    )
    scores = np.stack([each[METRIC].score_each() for each in statistics])
    return History(origin, bare, steps, outputs, scores, threshold)


def translate_history(run: RunFolder, threshold: float, folder: Path, console: Console) -> History:
    """Translate the dev split with each complete checkpoint that a run kept.

    Args:
        run: the run.
        threshold: see `History`.
        folder: where runs with the weights of checkpoints are written.
        console: shows progress.

    Raises:
        UserError: it has fewer than two checkpoints, or no dev split; or see `check_model_class`.
    """
    check_model_class(run)
    steps = run.checkpoints.steps()
    if len(steps) < _MIN_EVALUATIONS:
        raise UserError(
            f"{run.path} has {len(steps)} complete checkpoints, and a history needs two: train "
            "with a larger training.keep_checkpoints"
        )
    # Copied first: a run in training removes its older checkpoints.
    models = [extract_checkpoint(run.checkpoints.path(n), folder / str(n)) for n in steps]
    pairs = read_corpus(run, console.print).scored_pairs(DEV)
    if not pairs:
        raise UserError(f"{run.path} has no dev split: a history is of dev sentences")
    outputs = []
    for step, model in zip(steps, models, strict=True):
        console.print(f"update {step:,}: translating {len(pairs):,} sentences")
        with quiet_start():
            translator = Translator.load(model, unit="line")
        sources = [pair.source for pair in pairs]
        outputs.append(translate_with_progress(translator, sources, console, beam_size=1))
    return make_history("checkpoints", pairs, steps, outputs, threshold, _language(run))


def slice_history(run: RunFolder, history: History, log: Callable[[str], None]) -> list[Slice]:
    """Return the kinds of sentences of a history; by source words alone without the corpus."""
    sources, references = zip(*history.pairs, strict=True)
    words = read_training_words(run, lambda: read_corpus(run, log), sources, log)
    return drop_repeated(make_slices(sources, references, run.config.data.languages, words))
