"""The life of a run: prepare, build, train or go on, score."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from nmt.config import Config
from nmt.data.corpus import Corpus
from nmt.data.rejections import rejection_table
from nmt.data.splitting import TEST, Pair
from nmt.errors import UserError, attach_filename
from nmt.runs.folder import TEST_SCORES_FILE, RunFolder
from nmt.runs.locking import lock_run
from nmt.startup.quiet import quiet_start

if TYPE_CHECKING:  # loads Keras
    from nmt.data.batches import BatchPlan
    from nmt.inference.evaluation import Evaluation
    from nmt.inference.translator import Translator
    from nmt.model.contract import Model
    from nmt.training.loop import Trainer
    from nmt.training.process_group import ProcessGroup

LONG_SHARE = 0.01  # of the training pairs left out as too long, from which it is worth a word


@dataclass(frozen=True)
class Tested:
    """What a run makes of a set of pairs, and what the run did that it started from."""

    evaluation: Evaluation
    before: Evaluation | None  # None: it started from none, or from one that is not there any more


@dataclass(frozen=True)
class Run:
    """A run after training: its folder, what was reported, and what it makes of the test split."""

    folder: RunFolder
    stopped_by: int | None  # the signal that stopped it; ``training.resume`` goes on
    best_score: float | None  # dev BLEU of the weights that are kept; None without a dev split
    evaluation: Evaluation | None  # of the test split; None without one, or while not complete
    tests: Mapping[str, Tested] = field(default_factory=dict)  # by name: that, and ``data.tests``
    written_here: bool = True  # False in all processes but one, of those that train together

    @property
    def complete(self) -> bool:
        """Whether the training came to its end."""
        return self.stopped_by is None

    @property
    def path(self) -> Path:
        """Of the folder."""
        return self.folder.path

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """What was reported, in order: ``step``, ``seconds``, and values by TensorBoard's tags."""
        return self.folder.metrics

    @property
    def scores(self) -> dict[str, float | None]:
        """Scores on the test split, by metric; empty without one."""
        return {name: score["value"] for name, score in self.folder.test_scores().items()}

    def translator(self) -> Translator:
        """Load the best weights."""
        from nmt.inference.translator import Translator

        return Translator.load(self.path)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: scores, and the newest table of samples."""
        lines = [f"<p><b>{escape(self.path.name)}</b></p>"]
        if self.evaluation is not None:
            shown = "\n".join(self.evaluation.lines())
            lines.append(f"<p>test split</p><pre>{escape(shown)}</pre>")
        if self.best_score is not None:
            lines.append(f"<p>best dev BLEU {self.best_score:.2f}</p>")
        newest = max(self.folder.samples.glob("step_*.tsv"), default=None)
        if newest is not None:
            table = newest.read_text(encoding="utf-8").removesuffix("\n")
            rows = [line.split("\t") for line in table.split("\n")]
            cells = [[f"<td>{escape(cell)}</td>" for cell in row] for row in rows]
            lines.append("<table>" + "".join(f"<tr>{''.join(row)}</tr>" for row in cells))
            lines.append("</table>")
        return "\n".join(lines)


def fit(overrides: Sequence[str] = (), *, console: Console | None = None) -> Run:
    """Train a run, new or resumed, as ``python -m nmt.train`` does, and score it.

    >>> run = fit(["data=tatoeba", "model=small"])
    >>> run.translator().translate(["Hoy hace frío."])

    Args:
        overrides: of the configuration, as on the command line.
        console: where progress is shown; None: standard output.

    Raises:
        UserError: a wrong key or value, or what is wrong with the corpus or the run.
    """
    from nmt.runs.resuming import compose_config
    from nmt.startup.commands import set_up_training

    config = compose_config(overrides)
    set_up_training(Path(config.cache_dir), deterministic=config.training.deterministic)
    return train(config, console or Console(highlight=False, markup=False, soft_wrap=True))


def train(config: Config, console: Console) -> Run:
    """Train one run, new or resumed, and score it.

    Args:
        config: checked; what it leaves open is settled here, see `nmt.training.defaults`.
        console: where progress is shown.

    Raises:
        UserError: what is wrong with the corpus or the run.
    """
    # Heavy imports wait until the configuration is known to be right.
    with quiet_start():
        import keras  # noqa: F401  (its backend prints notes)

        from nmt.runs.building import set_seed
        from nmt.startup.devices import report_devices
        from nmt.training.defaults import resolve_config
        from nmt.training.preparation import prepare_corpus
        from nmt.training.process_group import make_process_group

        process_group = make_process_group(config.training.devices)  # before anything is computed
        set_seed(config.seed)  # before any tokenizer is built: it destroys them
    if not process_group.is_main_process:
        console = Console(quiet=True)
        config = replace(config, data=replace(config.data, rejected_file=None))
    report_devices(process_group.replicas // process_group.processes, console.print)
    with contextlib.ExitStack() as held:
        held.enter_context(process_group.fail_together())
        corpus = prepare_corpus(config, console)
        console.print(rejection_table(corpus))
        with quiet_start():  # looks for devices
            finished = resolve_config(config, corpus.epoch_pairs, corpus.dev)
        folder = _settle_run(finished, corpus, process_group, held, console)
        with process_group.scope():
            trainer = _make_trainer(finished, corpus, folder, process_group, console)
            complete = trainer.train()
        whole = complete and not trainer.position.behind
        tests = _test(folder, finished, corpus, process_group, console) if whole else {}
    evaluation = tests[TEST].evaluation if TEST in tests else None
    best_score = trainer.position.best_score
    return Run(
        folder, trainer.stopped_by, best_score, evaluation, tests, process_group.is_main_process
    )


def _test(
    folder: RunFolder, config: Config, corpus: Corpus, process_group: ProcessGroup, console: Console
) -> dict[str, Tested]:
    """Score a complete run on the test split and on ``data.tests``, by name; write that down.

    On the latter, the run that it started from is scored, too: what is learned, and what forgotten.
    """
    from nmt.inference.evaluation import judge, translate_with_progress
    from nmt.inference.translator import Translator
    from nmt.startup.devices import gpus

    sets = ({TEST: corpus.test} if corpus.test else {}) | corpus.tests
    if not sets:
        return {}
    # What the GPU has been doing all the time it does better than the CPU.
    engine = "keras" if gpus() else "auto"
    translator = Translator.load(folder.path, engine=engine)
    start = config.training.start_from if corpus.tests else None
    earlier = Translator.load(start, engine=engine) if start and Path(start).is_dir() else None

    def evaluate(translator: Translator, pairs: Sequence[Pair]) -> Evaluation:
        sources = [pair.source for pair in process_group.shard(pairs)]
        outputs = translate_with_progress(translator, sources, console)
        return judge(
            pairs, process_group.gather_shards(outputs, len(pairs)), config.data.languages[1]
        )

    found = {}
    for name, pairs in sets.items():
        evaluation = evaluate(translator, pairs)
        before = evaluate(earlier, pairs) if earlier else None
        found[name] = Tested(evaluation, before)
        if not process_group.is_main_process:
            continue
        file = TEST_SCORES_FILE if name == TEST else f"evaluation_test_{name}.json"
        content = evaluation.as_json()
        if before is not None:
            content["before"] = {score.name: asdict(score) for score in before.scores}
        folder.write_json(file, content)
    return found


def _settle_run(
    config: Config,
    corpus: Corpus,
    process_group: ProcessGroup,
    held: contextlib.ExitStack,
    console: Console,
) -> RunFolder:
    """Return the run's folder, with its tokenizer and a lock that is ``held``.

    One process makes the folder of a new run, or checks that a resumed one can go on; the others
    wait for it.
    """
    if process_group.is_main_process:
        resume = config.training.resume
        folder = RunFolder.create(config) if resume is None else RunFolder.open(Path(resume))
        held.enter_context(lock_run(folder.path))
        _prepare_folder(folder, config, corpus, console)
        process_group.all_gather(str(folder.path))
        return folder
    return RunFolder.open(Path(str(process_group.all_gather("")[0])))


def _prepare_folder(folder: RunFolder, config: Config, corpus: Corpus, console: Console) -> None:
    """Make the tokenizer of a new run, or check that a resumed one can go on."""
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
        folder.write_corpus_record(make_corpus_record(corpus))
        return
    if has_corpus_changed(folder, corpus):
        raise UserError(
            f"the corpus has changed since {folder.path} was started, so that it cannot go on "
            "exactly: restore the corpus, or start a new run"
        )
    folder.write_config(config)


def _make_trainer(
    config: Config,
    corpus: Corpus,
    folder: RunFolder,
    process_group: ProcessGroup,
    console: Console,
) -> Trainer:
    """BatchPlan the batches and build the model; say what is trained."""
    from nmt.data.splitting import evenly
    from nmt.inference.engine import KerasEngine
    from nmt.inference.translator import Translator
    from nmt.runs.building import build_model
    from nmt.training.adapting import initialize_weights
    from nmt.training.fitting import make_fitting_step
    from nmt.training.loop import Trainer
    from nmt.training.preparation import plan_training, plan_validation

    training = config.training
    tokenizer = folder.load_tokenizer()
    stages = plan_training(config, corpus, tokenizer)
    dev_batches = plan_validation(config, corpus, tokenizer)
    model = build_model(config, tokenizer.vocabulary_size, precision=training.precision)
    initialize_weights(model, config, folder, tokenizer, console.print)
    step, settled = make_fitting_step(model, config, stages, process_group)
    if settled != config and process_group.is_main_process:
        folder.write_config(settled)
    config, training = settled, settled.training
    summary = describe(config, stages, model)
    console.print(summary)
    if process_group.replicas > 1:
        of = f", of {process_group.processes} processes" if process_group.processes > 1 else ""
        console.print(f"{process_group.replicas} devices share every update{of}")
    if any(one.skipped > LONG_SHARE * (one.pairs + one.skipped) for one in stages):
        longest = max(training.row_lengths)
        console.print(
            f"many pairs are longer than {longest} tokens and are left out: to train on them, set "
            f"'training.row_lengths=[{longest},{2 * longest}]'"
        )
    console.print(f"run folder: {folder.path}")
    return Trainer(
        run=folder,
        config=config,
        model=model,
        step=step,
        stages=stages,
        dev_batches=dev_batches,
        dev=evenly(corpus.dev, training.evaluation_sentences),
        translator=Translator.from_config(KerasEngine(model), tokenizer, config),
        process_group=process_group,
        console=console,
        summary=summary,
    )


def describe(config: Config, stages: Sequence[BatchPlan], model: Model) -> str:
    """Say in a few lines what is trained on, and what is trained.

    Args:
        config: finished.
        stages: batches of the training split, of each stage.
        model: built.
    """
    from nmt.analysis.anatomy.counts import count_by_part
    from nmt.model.costs import count_training_flops_per_token

    flops = count_training_flops_per_token(model.sizes.costs)
    return "\n".join(
        [
            *(
                (f"stage {number}: " if len(stages) > 1 else "") + _say_batches(batches)
                for number, batches in enumerate(stages, 1)
            ),
            f"{model.count_params():,} parameters{_say_trained(model)}, "
            f"{config.training.precision}, dropout {config.model.dropout}:",
            *(f"  {count:>12,}  {part}" for part, count in count_by_part(model).items()),
            f"{flops / 1e6:,.1f} MFLOP per token in training",
        ]
    )


def _say_batches(batches: BatchPlan) -> str:
    shapes = ", ".join(f"{rows} x {length}" for rows, length in batches.shapes)
    return (
        f"{batches.pairs:,} pairs in {batches.steps_per_epoch:,} batches per epoch of {shapes} "
        f"positions; padding {batches.padding:.1%}; {batches.skipped} pairs too long"
    )


def _say_trained(model: Model) -> str:
    """Say how many parameters are trained, where that is not all."""
    trained = sum(math.prod(weight.shape) for weight in model.trained_weights().values())
    count = model.count_params()
    return "" if trained == count else f" ({trained:,} of them trained, {trained / count:.1%})"
