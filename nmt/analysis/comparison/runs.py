"""What a comparison shows of each run: read from its folder, and from its model."""

from __future__ import annotations

import gc
import itertools
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config.schema import flatten
from nmt.errors import UserError
from nmt.inference.results import Attention
from nmt.inference.translator import Translator
from nmt.model.costs import StateBytes
from nmt.runs.custom_model import check_model_class
from nmt.runs.folder import CONFIG_FILE, RunFolder
from nmt.runs.samples import read_newest_samples
from nmt.startup.quiet import quiet_start

DEV_SCORE, TEST_SCORE = "dev/BLEU", "BLEU"

_SPEED = "speed/tokens_per_second"
_WITHOUT_EFFECT = frozenset({"name", "model.name", "runs_dir", "cache_dir"})  # on any result
_PARTS = re.compile(r"data\.(sources\.\w+\.kind|tests\.\w+)")  # stand for a source, a test set


@dataclass(frozen=True)
class RunSummary:
    """What a run has written, without its weights."""

    name: str
    folder: RunFolder
    differences: Mapping[str, Any]  # configuration keys whose values differ between the runs
    scores: Mapping[str, Mapping[str, float | None]]  # on the test split, by metric
    curve: Sequence[tuple[float, float]]  # (minutes, dev BLEU)
    parameters: int
    state: StateBytes  # in float32
    speed: float | None  # tokens per second
    minutes: float | None

    @property
    def best(self) -> float | None:
        """The best dev BLEU."""
        return max((score for _, score in self.curve), default=None)

    @property
    def test_bleu(self) -> float | None:
        """BLEU on the test split."""
        return self.scores[TEST_SCORE]["value"] if TEST_SCORE in self.scores else None


@dataclass(frozen=True)
class SentenceResult:
    """How one model translates the sentence."""

    kinds: str  # layers and heads by kind of attention; "" if the model cannot be loaded
    translation: str = ""
    attention: Attention | None = None
    reason: str = ""  # for missing attention


def find_runs(paths: Iterable[Path]) -> list[RunFolder]:
    """Open runs, and the runs with a checkpoint inside of other folders, each once.

    Raises:
        UserError: a path is neither a run nor a folder of runs.
    """
    folders: dict[Path, RunFolder] = {}
    for path in paths:
        inside = []
        if path.is_dir() and not (path / CONFIG_FILE).is_file():
            inside = sorted(run for run in path.iterdir() if _has_checkpoint(run))
            if not inside:
                raise UserError(f"{path} is not a run and contains no run with a checkpoint")
        for run in inside or [path]:
            folder = RunFolder.open(run)
            folders.setdefault(folder.path, folder)  # `latest` is a link to another run
    return list(folders.values())


def _has_checkpoint(run: Path) -> bool:
    """Whether training has saved a checkpoint, or best weights."""
    checkpoints = RunFolder(run).checkpoints
    return checkpoints.best.is_file() or bool(checkpoints.steps())


def choose_sentence(folder: RunFolder) -> str | None:
    """Return a sentence to show: a probe of the run, or one of its samples; None without any."""
    for probe in folder.config.training.probes or []:
        return probe
    sources = (sample.source for sample in read_newest_samples(folder.samples))
    return next(filter(None, sources), None)


def summarize_runs(
    folders: Sequence[RunFolder], names: Sequence[str], are_checkpoints: Sequence[bool]
) -> list[RunSummary]:
    """Summarize what each run has written, without loading its weights.

    Args:
        folders: the runs.
        names: of each in the report.
        are_checkpoints: whether one of its checkpoints is compared: scores, curve, speed and time
            are those of the whole run, and left out.
    """
    differences = find_differences([dict(flatten(folder.config)) for folder in folders])
    return [
        _summarize(*each) for each in zip(folders, names, differences, are_checkpoints, strict=True)
    ]


def _summarize(
    folder: RunFolder, name: str, differences: Mapping[str, Any], is_checkpoint: bool
) -> RunSummary:
    check_model_class(folder)  # parameters and state are counted from the sizes
    metrics = [] if is_checkpoint else folder.metrics.read()
    speeds = [record[_SPEED] for record in metrics if record.get(_SPEED) is not None]
    costs = folder.config.model.make_sizes(folder.load_tokenizer().vocabulary_size).costs
    return RunSummary(
        name=name,
        folder=folder,
        differences=differences,
        scores={} if is_checkpoint else folder.test_scores(),
        curve=read_curve(metrics),
        parameters=sum(part.parameters for part in costs.list_parts()),
        state=costs.count_state(),
        speed=statistics.median(speeds) if speeds else None,
        minutes=metrics[-1]["seconds"] / 60 if metrics else None,
    )


def name_runs(folders: Sequence[RunFolder]) -> list[str]:
    """Return the name in each run's configuration, or its folder's name if two runs share it."""
    names = [folder.config.name for folder in folders]
    counts = Counter(names)
    return [
        name if counts[name] == 1 else folder.path.name
        for name, folder in zip(names, folders, strict=True)
    ]


def find_differences(configurations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the keys of each configuration whose values differ among those that have the key.

    A source or test set that only some have is a difference, too.

    Args:
        configurations: values by dotted key; one kind of model has keys that another lacks.
    """
    keys = dict.fromkeys(itertools.chain.from_iterable(configurations))
    changed = []
    for key in keys:
        is_part = _PARTS.fullmatch(key) is not None
        values = [config.get(key) for config in configurations if is_part or key in config]
        if key not in _WITHOUT_EFFECT and any(value != values[0] for value in values):
            changed.append(key)
    return [{key: config[key] for key in changed if key in config} for config in configurations]


def read_curve(metrics: Iterable[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Return (minutes, dev BLEU) of every evaluation."""
    return [
        (record["seconds"] / 60, record[DEV_SCORE])
        for record in metrics
        if record.get(DEV_SCORE) is not None
    ]


def translate_sentence(folder: RunFolder, sentence: str) -> SentenceResult:
    """Translate the sentence with a run's model, and read its attention if possible."""
    try:
        with quiet_start():
            translator = Translator.load(folder)
            kinds = describe_attention(translator)
            hypotheses = translator.hypotheses([sentence])[0]
            attention = translator.attention(sentence, hypotheses[0]) if hypotheses else None
    except UserError as error:
        return SentenceResult("", reason=str(error))
    finally:
        gc.collect()  # frees the previous model
    if attention is None:
        return SentenceResult(kinds, reason="it is not one sentence, or too long for the model")
    return SentenceResult(kinds, hypotheses[0].text, attention)


def describe_attention(translator: Translator) -> str:
    """Return layers × heads of each kind of attention."""
    model = translator.keras_engine("attention").model
    layers = {kind.name: model.attention_layers(kind.name) for kind in model.attention_kinds}
    return ", ".join(f"{name} {len(of)}×{of[0].num_heads}" for name, of in layers.items())
