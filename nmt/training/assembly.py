"""Builds what a run trains with: batches, model, compiled update and the loop over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from nmt.analysis.anatomy.counts import count_by_part
from nmt.config import Config
from nmt.config.data import StageConfig
from nmt.data.batches import BatchPlan
from nmt.data.contexts import remove_contexts
from nmt.data.corpus import Corpus
from nmt.data.splitting import Pair, sample_evenly
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.inference.engines import Engines
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.translator import Translator
from nmt.model.contract import Model
from nmt.model.costs import count_training_flops_per_token
from nmt.model.decoding_gap import measure_decoding_gap
from nmt.runs import building
from nmt.runs.folder import RunFolder
from nmt.training.callbacks import Callback
from nmt.training.components import Components
from nmt.training.defaults import describe_choices
from nmt.training.evaluator import Evaluator
from nmt.training.initial_weights import initialize_weights
from nmt.training.loop import Trainer
from nmt.training.preparation import plan_dev, plan_training
from nmt.training.process_group import ProcessGroup
from nmt.training.session import Session
from nmt.training.update_sizing import check_memory, make_step_within_memory, size_updates

# Of `measure_decoding_gap`: rounding of float16 gives 0.002, a convolution across pairs 0.2
LARGEST_GAP = 0.02
_SCORE_DEV = "set data.dev and training.evaluation_sentences above 0"
LONG_SHARE = 0.01  # share of the training pairs that are too long, from which a hint is shown


def make_trainer(
    config: Config,
    corpus: Corpus,
    folder: RunFolder,
    process_group: ProcessGroup,
    console: Console,
    components: Components,
    callbacks: Sequence[Callback],
) -> tuple[Session, Trainer]:
    """Plan the batches, build the model, and print a summary of both.

    Raises:
        UserError: a stage cannot end, the weights to start from do not match, or the model or one
            row does not fit into memory.
    """
    tokenizer = folder.load_tokenizer()
    planned, stages = _plan_stages(config, corpus, tokenizer)
    dev_batches = plan_dev(config, corpus, tokenizer)
    dev = sample_evenly(corpus.dev, config.training.evaluation_sentences)
    if config.training.resume is None:  # a resumed run may have left these stages behind
        check_stages_end(config.data.stages, dev)
        if config.training.stop_behind is not None and not dev:
            raise UserError(f"training.stop_behind compares dev scores: {_SCORE_DEV}")
    model = _build_model(config, tokenizer.vocabulary_size, components, console)
    initialize_weights(model, config, folder, tokenizer, stages[0], process_group, console.print)
    step, sized = make_step_within_memory(model, planned, stages, process_group, components)
    if sized != config and process_group.is_main_process:
        folder.write_config(sized)
    session = Session(folder, sized, model, step, process_group, console, components, callbacks)
    summary = describe(sized, stages, model, components.names.get("model"))
    _print_summary(session, stages, summary)
    probes = sized.training.probes or []
    translator = Translator.from_config(
        Engines(KerasEngine(model)),
        tokenizer,
        sized,
        unit="line",
        words=folder.load_source_words(),
    )
    if process_group.is_main_process:
        _warn_of_hidden_probes(probes, translator, console)
    references = {
        pair.source: pair.target for pair in remove_contexts(corpus.dev) if pair.source in probes
    }
    evaluator = Evaluator(session, dev_batches, dev, translator, references)
    return session, Trainer(session, stages=stages, evaluator=evaluator, summary=summary)


def check_stages_end(stages: Sequence[StageConfig], dev: Sequence[Pair]) -> None:
    """Check that every stage but the last can end.

    Args:
        stages: as configured.
        dev: the pairs that dev BLEU is measured on.

    Raises:
        UserError: a stage ends by dev BLEU alone, which is not measured.
    """
    for number, stage in enumerate(stages):
        limits = {stage.steps, stage.share, stage.minutes}
        if stage.plateau is not None and limits == {None} and not dev:
            raise UserError(
                f"data.stages[{number}] ends by plateau={stage.plateau} alone, without dev scores: "
                f"{_SCORE_DEV}, or the steps, share or minutes of the stage"
            )


def _print_summary(session: Session, stages: Sequence[BatchPlan], summary: str) -> None:
    """Print sizes and rates, batches and model, devices and the folder of a run."""
    config, process_group, console = session.config, session.process_group, session.console
    has_own_rate = session.components.compute_rate is not None
    console.print(describe_choices(config, has_own_rate=has_own_rate))
    console.print(summary)
    if process_group.replicas > 1:
        count = process_group.processes
        processes = f", of {count} processes" if count > 1 else ""
        console.print(f"{process_group.replicas} devices share every update{processes}")
    if any(plan.skipped > LONG_SHARE * (plan.pairs + plan.skipped) for plan in stages):
        console.print(_describe_long_pairs(config))
    console.print(f"run folder: {session.folder.path}")


def _warn_of_hidden_probes(probes: Sequence[str], translator: Translator, console: Console) -> None:
    """Print a warning for each probe that has no attention: see `Translator.attention`."""
    for probe in probes:
        segments = translator.segmenter.segment(probe).segments
        if len(segments) != 1 or segments[0].is_copied:
            console.print(
                f"warning: training.probes: {probe!r} shows no attention, since it is empty, "
                "copied or longer than a row: choose another sentence"
            )


def _build_model(
    config: Config, vocabulary_size: int, components: Components, console: Console
) -> Model:
    """Build the model; warn if one of a class from Python decodes something else than it trains.

    Raises:
        UserError: memory has no room for the model, or such a class lacks a method.
    """
    check_memory(config, vocabulary_size, components)
    model_class, precision = components.model, config.training.precision
    model = building.build_model(
        config, vocabulary_size, precision=precision, model_class=model_class
    )
    if model_class is None:
        return model
    try:
        gap = measure_decoding_gap(model)
    except AttributeError as error:
        raise UserError(
            f"model={components.names['model']}: {error}: see nmt.model.EncoderDecoder"
        ) from error
    if gap > LARGEST_GAP:
        console.print(
            f"warning: model={components.names['model']} decodes other logits than it trains (by "
            f"{gap:.2f} standard deviations): a layer mixes tokens of other pairs or of padding, "
            "or step() differs from the call"
        )
    return model


def _plan_stages(
    config: Config, corpus: Corpus, tokenizer: Tokenizer
) -> tuple[Config, Sequence[BatchPlan]]:
    """Return the configuration as it suits the corpus, and the batches of each stage."""
    stages = plan_training(config, corpus, tokenizer)
    sized = size_updates(config, stages)
    if sized.training.positions_per_update != config.training.positions_per_update:
        stages = plan_training(sized, corpus, tokenizer)
    vocabulary = replace(sized.tokenizer, vocabulary_size=tokenizer.vocabulary_size)
    return replace(sized, tokenizer=vocabulary), stages


def describe(
    config: Config, stages: Sequence[BatchPlan], model: Model, class_name: str | None = None
) -> str:
    """Return a few lines about batches and model.

    Args:
        config: the resolved configuration.
        stages: training batches of each stage.
        model: the model, built.
        class_name: of the model, if it is not the configured one, whose operations are known.
    """
    lines = []
    for number, plan in enumerate(stages, 1):
        lines.append((f"stage {number}: " if len(stages) > 1 else "") + _describe_batches(plan))
    suffix = "" if class_name is None else f" of {class_name}"
    lines.append(
        f"{model.count_params():,} parameters{suffix}{_describe_trained(model)}, "
        f"{config.training.precision}, dropout {config.model.dropout}:"
    )
    lines += [f"  {count:>12,}  {part}" for part, count in count_by_part(model).items()]
    if class_name is None:
        flops = count_training_flops_per_token(model.sizes.costs)
        lines.append(f"{flops / 1e6:,.1f} MFLOP per token to train all weights")
    return "\n".join(lines)


def _describe_long_pairs(config: Config) -> str:
    """Return a line about pairs that fit into no row, and how to train on them."""
    longest = max(config.training.row_lengths)
    line = f"many pairs are longer than {longest} tokens and are left out"
    if config.training.resume is not None or config.data.prepared is not None:
        return line  # the rows of a resumed run or a prepared corpus are fixed
    overrides = [f"'training.row_lengths=[{longest},{2 * longest}]'"]
    if config.model.max_length < 2 * longest:
        overrides.append(f"model.max_length={2 * longest}")
    return f"{line}: to train on them, set {' '.join(overrides)}"


def _describe_batches(plan: BatchPlan) -> str:
    shapes = ", ".join(f"{rows} x {length}" for rows, length in plan.shapes)
    return (
        f"{plan.pairs:,} pairs in {plan.steps_per_epoch:,} batches per epoch of {shapes} "
        f"positions; padding {plan.padding:.1%}; {plan.skipped} pairs too long"
    )


def _describe_trained(model: Model) -> str:
    """Return how many parameters are trained, if not all are."""
    trained = sum(math.prod(weight.shape) for weight in model.trained_weights().values())
    count = model.count_params()
    return "" if trained == count else f" ({trained:,} of them trained, {trained / count:.1%})"
