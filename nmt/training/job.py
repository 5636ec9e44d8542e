"""The life of a run: prepare the corpus, build the model, train or resume, score."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from nmt.config import Config
from nmt.config.training import MULTIWORKER
from nmt.data.corpus import Corpus
from nmt.data.reading import check_files_exist
from nmt.data.rejections import rejection_table
from nmt.data.splitting import TEST
from nmt.errors import UserError, attach_filename
from nmt.inference.results import CELL
from nmt.runs.custom_model import ModelClass
from nmt.runs.folder import COMPONENTS_FILE, LATEST, RunFolder, link_latest
from nmt.runs.locking import lock_run
from nmt.runs.samples import Sample, read_newest_samples
from nmt.startup.console import make_console
from nmt.startup.quiet import quiet_start
from nmt.text.source_words import SourceWords
from nmt.training.callbacks import Callback, list_callbacks
from nmt.training.components import AS_CONFIGURED, Components

if TYPE_CHECKING:  # loads Keras
    import keras

    from nmt.inference.evaluation import Evaluation
    from nmt.inference.translator import Translator
    from nmt.training.process_group import ProcessGroup
    from nmt.training.scoring import SplitScores
    from nmt.training.session import Session


@dataclass(frozen=True)
class Run:
    """A run after training: its folder, metrics, and scores on the test split."""

    folder: RunFolder
    stopped_by: int | None  # the signal that stopped it; ``training.resume`` continues
    best_score: float | None  # dev BLEU of the best weights; None without a dev split
    evaluation: Evaluation | None  # on the test split; None without one, or if not complete
    # By name: the test split, and ``data.tests``.
    tests: Mapping[str, SplitScores] = field(default_factory=dict)
    written_here: bool = True  # whether this process wrote the run; several may share it

    @property
    def complete(self) -> bool:
        """Whether training ended without a signal."""
        return self.stopped_by is None

    @property
    def path(self) -> Path:
        """Path of the run folder."""
        return self.folder.path

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """All reports in order: ``step``, ``seconds``, and values by TensorBoard's tags."""
        return self.folder.metrics.read()

    @property
    def scores(self) -> dict[str, float | None]:
        """Scores on the test split, by metric; empty without one."""
        return {name: score["value"] for name, score in self.folder.test_scores().items()}

    def translator(self) -> Translator:
        """Load the best weights."""
        from nmt.inference.translator import Translator

        return Translator.load(self.folder)

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: scores, and the newest table of samples."""
        lines = [f"<p><b>{escape(self.path.name)}</b></p>"]
        if self.evaluation is not None:
            shown = "\n".join(self.evaluation.lines())
            lines.append(f"<p>test split</p><pre>{escape(shown)}</pre>")
        if self.best_score is not None:
            lines.append(f"<p>best dev BLEU {self.best_score:.2f}</p>")
        samples = []
        with contextlib.suppress(UserError):  # of a damaged table
            samples = read_newest_samples(self.folder.samples)
        if samples:
            rows = (Sample._fields, *samples)
            cells = [[f'<td style="{CELL}">{escape(cell)}</td>' for cell in row] for row in rows]
            lines.append("<table>" + "".join(f"<tr>{''.join(row)}</tr>" for row in cells))
            lines.append("</table>")
        return "\n".join(lines)


def fit(
    overrides: Iterable[str] = (),
    *,
    pairs: Iterable[Any] | None = None,
    dev: Iterable[Any] | None = None,
    test: Iterable[Any] | None = None,
    callbacks: Callback | Iterable[Callback] = (),
    optimizer: keras.optimizers.Optimizer | None = None,
    schedule: Callable[[int], Any] | None = None,
    loss: Callable[[Any, Any], Any] | None = None,
    model: ModelClass | None = None,
    console: Console | None = None,
) -> Run:
    """Train a run, new or resumed, as ``python -m nmt.train`` does, and score it.

    >>> run = fit(["data=tatoeba", "model=small"])
    >>> run.translator().translate(["Hoy hace frío."])
    >>> languages = ["data.source_language=es", "data.target_language=en"]
    >>> run = fit(languages, pairs=[("Hoy hace frío.", "It is cold today."), ...])

    Args:
        overrides: configuration overrides, as on the command line.
        pairs: the corpus, in place of ``data``: see `nmt.data.spooling.spool_pairs`. To resume a
            run, they may be left out as long as ``cache_dir`` has their table.
        dev: the dev split; None: a share of ``pairs``, as configured.
        test: the test split; None: as for ``dev``.
        callbacks: see `Callback`.
        optimizer: see `Components` for this and the next three, which a resumed run needs again.
        schedule: replaces the learning rates.
        loss: replaces cross-entropy as the objective.
        model: the class of the model; its sizes are as configured.
        console: where progress is shown; None: standard output.

    Raises:
        UserError: an unknown key, an invalid value, an experiment of several runs, or a fault in
            an argument, the corpus or the run.
    """
    from nmt.config.command_line import check_single_run
    from nmt.startup.commands import set_up_training
    from nmt.training.pairs import compose_with_pairs

    if isinstance(overrides, str):
        raise UserError(f"overrides={overrides!r} is a string: pass a list of strings")
    overrides = [*overrides]
    callbacks = list_callbacks(callbacks)
    components = Components(optimizer, schedule, loss, model)
    arguments = {"pairs": pairs, "dev": dev, "test": test}
    splits = {name: split for name, split in arguments.items() if split is not None}
    check_single_run(overrides)
    config = compose_with_pairs(overrides, splits)
    set_up_training(Path(config.cache_dir), deterministic=config.training.deterministic)
    with _restored_generators():
        return train(config, console or make_console(), components=components, callbacks=callbacks)


@contextlib.contextmanager
def _restored_generators() -> Iterator[None]:
    """Restore the random numbers of Python and NumPy, which training seeds, for the caller."""
    import random

    import numpy as np

    state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)  # noqa: NPY002


def train(
    config: Config,
    console: Console,
    *,
    components: Components = AS_CONFIGURED,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Train one run, new or resumed, and score it.

    Args:
        config: a checked configuration; `nmt.training.defaults` resolves ``null`` and ``auto``.
        console: where progress is shown.
        components: replace what the configuration would build.
        callbacks: see `Callback`.

    Raises:
        UserError: a fault in the corpus or the run.
    """
    _check_inputs(config, components)
    # Heavy imports wait until the configuration has been checked.
    with quiet_start():
        import keras  # noqa: F401  (its backend prints notes)

        from nmt.runs.building import set_seed
        from nmt.startup.devices import report_devices
        from nmt.training import preparation
        from nmt.training.assembly import make_trainer
        from nmt.training.defaults import resolve_config
        from nmt.training.process_group import make_process_group

        process_group = make_process_group(config.training.devices)  # before anything is computed
        set_seed(config.seed)
    if not process_group.is_main_process:
        console = Console(quiet=True)
        config = replace(config, data=replace(config.data, rejected_file=None))
    report_devices(process_group.local_replicas, console.print)
    with process_group.fail_together(), contextlib.ExitStack() as resources:
        corpus = preparation.prepare_corpus(config, console)
        console.print(rejection_table(corpus))
        config = preparation.resolve_vocabulary(config, corpus, console)
        candidates = preparation.list_probe_candidates(corpus)
        with quiet_start():  # looks for devices
            resolved = resolve_config(config, corpus.epoch_pairs, candidates)
        folder = _open_folder(resolved, corpus, components, process_group, resources, console)
        with process_group.scope():
            session, trainer = make_trainer(
                resolved, corpus, folder, process_group, console, components, callbacks
            )
            if process_group.is_main_process and config.training.resume is None:
                link_latest(folder.path)
            for callback in callbacks:
                callback.on_start(session)
            is_complete = trainer.train()
        tests = _score(session, corpus) if is_complete and not session.state.behind else {}
    evaluation = tests[TEST].evaluation if TEST in tests else None
    best_score, is_main = session.state.best_score, process_group.is_main_process
    run = Run(folder, trainer.stop_signal, best_score, evaluation, tests, is_main)
    for callback in callbacks:
        callback.on_end(run)
    return run


def _check_inputs(config: Config, components: Components) -> None:
    """Check that the files and the run that a new run reads exist, before anything is written.

    Raises:
        UserError: one does not, or see `Components.open_start`.
    """
    training = config.training
    if training.resume is not None:
        return
    # A prepared corpus needs no files; other processes would wait for one that lacks a file.
    if config.data.prepared is None and training.devices != MULTIWORKER:
        check_files_exist(config.data.sources)
    if training.start_from is not None:
        components.open_start(Path(training.start_from))


def _score(session: Session, corpus: Corpus) -> dict[str, SplitScores]:
    """Fit the confidence of a complete run and score it; return the scores by name of the test set.

    The confidence comes first, since translations place lost spans by its lexicon.
    """
    from nmt.training.scoring import fit_confidence, score_run

    if session.process_group.is_main_process:
        fit_confidence(session, corpus)
    session.process_group.barrier()
    return score_run(session, corpus)


def _open_folder(
    config: Config,
    corpus: Corpus,
    components: Components,
    process_group: ProcessGroup,
    resources: contextlib.ExitStack,
    console: Console,
) -> RunFolder:
    """Return the folder of the run in every process, locked while ``resources`` are open.

    The main process creates the folder of a new run, or opens that of a resumed one, and fills or
    checks it; the others wait for that.
    """
    if process_group.is_main_process:
        resume = config.training.resume
        if resume is None:
            folder = RunFolder.create(config)
            folder.model_class = components.model
            resources.enter_context(_remove_if_refused(folder))
        else:
            folder = RunFolder.open(Path(resume), components.model)
        resources.enter_context(lock_run(folder.path))
        _fill_or_check_folder(folder, config, corpus, components, console)
        process_group.broadcast(str(folder.path))
        return folder
    return RunFolder.open(Path(process_group.broadcast("")), components.model)


@contextlib.contextmanager
def _remove_if_refused(folder: RunFolder) -> Iterator[None]:
    """Remove the folder of a new run that a `UserError` ends before its first report.

    ``latest`` then points to the previous run. A folder stays that holds an update that was not
    finite, for diagnosis.
    """
    from nmt.training.guard import DUMP_NAME

    latest = folder.path.with_name(LATEST)
    previous = latest.resolve() if latest.is_symlink() else None
    try:
        yield
    except UserError:
        if not folder.metrics.read() and not any(folder.path.glob(f"{DUMP_NAME}*")):
            shutil.rmtree(folder.path, ignore_errors=True)
            if latest.is_symlink() and not latest.exists():
                latest.unlink()
                if previous is not None and previous.is_dir():
                    link_latest(previous)
        raise


def _fill_or_check_folder(
    folder: RunFolder, config: Config, corpus: Corpus, components: Components, console: Console
) -> None:
    """Write tokenizer and records of a new run, or the configuration of a resumed one.

    Raises:
        UserError: the corpus of a resumed run has changed, or its components differ.
    """
    from nmt.runs.corpus import has_corpus_changed, make_corpus_record
    from nmt.training.preparation import prepare_tokenizer

    if config.training.resume is None:
        start = config.training.start_from
        if start is None or config.training.new_vocabulary:
            tokenizer = prepare_tokenizer(config, corpus, console)
        else:
            tokenizer = RunFolder.open(Path(start)).load_tokenizer()
        with attach_filename(folder.path):
            tokenizer.save(folder.path)
            words = _list_source_words(config, corpus)
            if words is not None:
                words.save(folder.path)
        folder.write_corpus_record(make_corpus_record(corpus))
        if components.names:
            folder.write_json(COMPONENTS_FILE, components.names)
        return
    components.check_resumed(folder)
    if has_corpus_changed(folder, corpus):
        raise UserError(
            f"the corpus has changed since {folder.path} was started, so it cannot be resumed "
            "exactly: restore the corpus, or start a new run"
        )
    folder.write_config(config)


def _list_source_words(config: Config, corpus: Corpus) -> SourceWords | None:
    """Return the words that the model has seen in sources; None if they are not known."""
    from nmt.training.preparation import count_source_words

    words, start = count_source_words(corpus), config.training.start_from
    if words is None or start is None:
        return words
    earlier = RunFolder.open(Path(start)).load_source_words()
    return None if earlier is None else SourceWords.merge([earlier, words])
