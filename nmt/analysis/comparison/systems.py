"""The systems of a comparison: runs, checkpoints and files of translations; and their outputs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from nmt.analysis.comparison.runs import find_runs, name_runs
from nmt.analysis.comparison.stored import UNIT, is_current, read_evaluation
from nmt.config import DataConfig
from nmt.data.contexts import add_contexts_to_pairs, remove_contexts
from nmt.data.corpus import Corpus
from nmt.data.evaluation_sets import find_target_language, read_parallel
from nmt.data.language_check import find_languages
from nmt.data.lines import split_lines
from nmt.data.splitting import TEST, Pair, check_split
from nmt.errors import UserError
from nmt.inference.evaluation import name_search, translate_with_progress
from nmt.inference.lines import decode_whole_lines
from nmt.inference.text_files import check_encoding, check_readable, open_pipe
from nmt.inference.translator import Translator
from nmt.runs.averaging import extract_checkpoint, open_run
from nmt.runs.corpus import read_corpus
from nmt.runs.folder import TEST_SCORES_FILE, RunFolder
from nmt.startup.quiet import quiet_start
from nmt.text.scripts import UNKNOWN_LANGUAGE


@dataclass
class System:
    """One of the systems that are compared."""

    name: str
    path: Path  # a run, a checkpoint or a file of translations
    run: RunFolder | None  # whose configuration and corpus it has; None: a file of translations
    model: RunFolder | None  # with its weights: the run, or a copy with those of a checkpoint
    outputs: list[str] = field(default_factory=list)
    seconds: float | None = None  # that translating took; None: the outputs were stored
    stored_in: str = ""  # file of the outputs

    def load(self) -> Translator:
        """Load the model, without the previous one.

        Raises:
            UserError: it has no weights.
        """
        assert self.model is not None, "a file of translations has no model"
        gc.collect()
        with quiet_start():
            return Translator.load(self.model, unit=UNIT)


@dataclass(frozen=True)
class EvaluationData:
    """The sentences that systems are compared on."""

    name: str
    pairs: Sequence[Pair]  # without contexts; a tag stays where none stood
    languages: tuple[str, str]  # BCP 47 tags of source and target
    groups: Sequence[str]  # the document or speaker of each pair; empty: unknown
    stored_as: str | None  # name in the files of stored evaluations; None: of no split

    @property
    def sources(self) -> list[str]:
        """The sources [N]."""
        return [pair.source for pair in self.pairs]

    @property
    def references(self) -> list[str]:
        """The references [N]."""
        return [pair.target for pair in self.pairs]


def open_systems(paths: Iterable[Path], folder: Path) -> list[System]:
    """Open the systems that the command line names, each once.

    Args:
        paths: runs, folders of runs, checkpoints of runs, and files of translations.
        folder: where runs with the weights of checkpoints are written.

    Raises:
        UserError: a path is none of these.
    """
    systems: dict[Path, System] = {}
    for path in paths:
        if path.resolve() in systems:
            continue
        if path.is_file() and path.suffix == ".npz":
            run = open_run(path)
            model = extract_checkpoint(path, folder / f"checkpoint_{len(systems)}")
            name = f"{run.path.name}, {path.stem}"
            systems[path.resolve()] = System(name, path, run, model)
        elif path.is_file():
            systems[path.resolve()] = System(path.name, path, None, None)
        else:
            for run in find_runs([path]):
                systems.setdefault(run.path, System("", run.path, run, run))
    runs = [system for system in systems.values() if not system.name]
    folders = [system.run for system in runs if system.run is not None]
    for system, name in zip(runs, name_runs(folders), strict=True):
        system.name = name
    opened = list(systems.values())
    names = [system.name for system in opened]
    for system in opened:
        if names.count(system.name) > 1:
            system.name = str(system.path)
    return opened


class DataReader:
    """Reads the sentences of a comparison, and what each run reads of them.

    Args:
        split: of the runs, unless there are files.
        files: sources and references; None: the split.
        encoding: of the files.
        log: called with progress messages.
    """

    def __init__(
        self,
        split: str,
        files: tuple[Path, Path] | None,
        encoding: str | None,
        log: Callable[[str], None],
    ) -> None:
        self._split = split
        self._files = files
        self._encoding = encoding
        self._log = log
        self._corpora: dict[Path, Corpus] = {}

    def corpus(self, run: RunFolder) -> Corpus:
        """Return the corpus of a run; it is read once."""
        if run.path not in self._corpora:
            self._corpora[run.path] = read_corpus(run, self._log)
        return self._corpora[run.path]

    def read(self, systems: Sequence[System]) -> EvaluationData:
        """Return the sentences to compare on.

        Raises:
            UserError: without files no system is a run, the split is empty, or a file is
                damaged.
        """
        runs = [system.run for system in systems if system.run is not None]
        if not runs:
            if self._files is None:
                raise UserError(
                    "files of translations need their sources and references: give --source and "
                    "--reference, or compare them with a run"
                )
            pairs = self._read_files()
            source, target = (code or UNKNOWN_LANGUAGE for code in find_languages(pairs))
            return EvaluationData(str(self._files[0]), pairs, (source, target), (), None)
        config = runs[0].config.data
        if self._files is not None:
            name = f"file_{self._files[0].stem}"
            pairs = self._read_files()
            languages = _find_languages(config, pairs)
            return EvaluationData(str(self._files[0]), pairs, languages, (), name)
        check_split(self._split, config.tests)  # before seconds of reading
        corpus = self.corpus(runs[0])
        scored = corpus.scored_pairs(self._split)
        languages = _find_languages(config, scored)
        pairs = remove_contexts(scored)
        if not pairs:
            raise UserError(
                f"{runs[0].path} has no {self._split} split: give --split dev, or --source and "
                "--reference"
            )
        groups = corpus.groups.get(self._split, ())
        name = f"{self._split} split of {runs[0].path.name}"
        return EvaluationData(name, pairs, languages, groups, f"split_{self._split}")

    def _read_files(self) -> list[Pair]:
        assert self._files is not None
        pairs = read_parallel(*self._files, self._encoding)
        if not pairs:
            raise UserError(f"{self._files[0]} has no lines")
        return pairs

    def read_inputs(self, system: System, data: EvaluationData) -> list[str]:
        """Return the sources as a run reads them, with its tags and contexts.

        Raises:
            UserError: the run has other sentences in this split.
        """
        run = system.run
        assert run is not None, "a file of translations reads nothing"
        if self._files is not None:
            config = run.config.data
            pairs = add_contexts_to_pairs(data.pairs, config.context, config.languages[0])
            return [pair.source for pair in pairs]
        pairs = self.corpus(run).scored_pairs(self._split)
        if remove_contexts(pairs) != list(data.pairs):
            raise UserError(
                f"{system.name} has other sentences in its {self._split} split than {data.name}: "
                "compare both on the same files, with --source and --reference"
            )
        return [pair.source for pair in pairs]


def _find_languages(config: DataConfig, pairs: Sequence[Pair]) -> tuple[str, str]:
    """Return the BCP 47 tags of source and target: see `find_target_language`."""
    target = find_target_language(config, [pair.source for pair in pairs])
    return config.languages if target == config.languages[1] else config.languages[::-1]


def fill_outputs(
    system: System,
    data: EvaluationData,
    reader: DataReader,
    console: Console,
    *,
    reuse: bool,
    **search: Any,
) -> None:
    """Set the outputs of a system: from its file, from a stored evaluation, or by translating.

    Args:
        system: the system.
        data: sentences.
        reader: of the sentences.
        console: shows progress.
        reuse: whether stored evaluations are used.
        search: ``beam_size`` and ``length_penalty``; None: the run's.

    Raises:
        UserError: the file has another number of lines, or the run cannot translate.
    """
    if system.model is None or system.run is None:
        system.outputs = read_outputs(system.path, len(data.pairs))
        system.stored_in = str(system.path)
        return
    inputs = reader.read_inputs(system, data)
    if reuse and system.model is system.run:
        stored = find_stored(system.run, data, **search)
        if stored is not None:
            system.stored_in, system.outputs = stored
            console.print(f"{system.name}: translations of {system.stored_in}")
            return
    console.print(f"{system.name}: translating {len(inputs):,} sentences")
    translator = system.load()
    start = time.monotonic()
    system.outputs = translate_with_progress(translator, inputs, console, **search)
    system.seconds = time.monotonic() - start


def read_outputs(path: Path, count: int) -> list[str]:
    """Read a file of translations, one per line.

    Raises:
        UserError: it is unreadable, or has another number of lines or one above 1 MiB.
    """
    check_readable(path)
    check_encoding(path)
    with open_pipe(path) as file:
        lines = list(decode_whole_lines(split_lines(file), str(path)))
    if len(lines) != count:
        raise UserError(
            f"{path} has {len(lines):,} lines for {count:,} sentences: line n must translate "
            "sentence n"
        )
    return lines


def find_stored(
    run: RunFolder, data: EvaluationData, **search: Any
) -> tuple[str, list[str]] | None:
    """Return name and outputs of a stored evaluation of these sentences with the best weights.

    It is not used if it is older than the weights, or has other sentences or search options.
    """
    if data.stored_as is None:
        return None
    searched = name_search(run.config.decoding, **search)
    names = [f"evaluation_{data.stored_as}_{searched}.json"]
    default = name_search(run.config.decoding, beam_size=None, length_penalty=None)
    if data.stored_as == f"split_{TEST}" and searched == default:
        names.append(TEST_SCORES_FILE)
    for path in (run.path / name for name in names):
        stored = read_evaluation(path) if is_current(run, path) else None
        if stored is not None and stored.pairs == list(data.pairs):
            return path.name, list(stored.outputs)
    return None
