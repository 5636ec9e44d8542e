"""Train a model: ``python -m nmt.train [overrides]``. Configuration: ``conf/train.yaml``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from nmt import compose
from nmt import config as configuration
from nmt.compilation import keep_compiled
from nmt.config import Config
from nmt.errors import UserError, exit_on_user_error, fail
from nmt.memory import collect_rarely, keep_freed_memory
from nmt.quiet import quiet_start

SHOWN = 5  # test translations printed at the end

STATUS_INTERRUPTED = 130

LONG_SHARE = 0.01  # of the training pairs left out as too long, from which it is worth a word


def train(config: Config, console: Console) -> float | None:
    """Train one run, new or resumed, and score it. Returns the best dev BLEU."""
    # Heavy imports wait until the configuration is known to be right.
    with quiet_start():
        import keras  # noqa: F401  (its backend prints notes)

    from nmt import prepare
    from nmt.data.corpus import rejection_table
    from nmt.data.splitting import evenly
    from nmt.inference.engine import KerasEngine
    from nmt.inference.evaluation import evaluate
    from nmt.inference.translator import Translator
    from nmt.inspection.anatomy import parameters_by_part, training_flops_per_token
    from nmt.run import TEST_SCORES_FILE, RunFolder, build_model, set_seed, write_json
    from nmt.training.loop import Trainer
    from nmt.training.step import make_step, resolve_precision

    set_seed(config.seed)  # before any tokenizer is built: it destroys them
    corpus = prepare.corpus_of(config, console)
    console.print(rejection_table(corpus))

    if config.model.dropout is None:
        config.model.dropout = prepare.dropout_for(len(corpus.train))
    if config.training.learning_rate is None:
        config.training.learning_rate = prepare.learning_rate_for(config.model.d_model)
    if config.training.resume is None:
        run = RunFolder.create(config)
        tokenizer = prepare.tokenizer_of(config, corpus, console)
        tokenizer.save(run.path)
        run.write_corpus_record(prepare.record_of(corpus))
    else:
        run = RunFolder.open(Path(config.training.resume))
        if prepare.changed_since(run, corpus):
            raise UserError(
                f"the corpus has changed since {run.path} was started, so that it cannot go on "
                "exactly: restore the corpus, or start a new run"
            )
        tokenizer = run.load_tokenizer()
        run.write_config(config)
    batches = prepare.training_batches(config, corpus, tokenizer)
    dev_batches = prepare.validation_batches(config, corpus, tokenizer)

    with quiet_start():  # looks for devices
        precision = resolve_precision(config.training.precision)
    model = build_model(config, tokenizer.vocabulary_size, precision=precision)
    parts = parameters_by_part(model)
    flops = training_flops_per_token(config.model, tokenizer.vocabulary_size)
    summary = "\n".join(
        [
            f"{batches.pairs:,} pairs in {batches.steps_per_epoch:,} batches per epoch of "
            + ", ".join(f"{rows} x {length}" for rows, length in batches.shapes)
            + f" positions; padding {batches.padding:.1%}; {batches.skipped} pairs too long",
            f"{model.count_params():,} parameters, {precision}, dropout {config.model.dropout}:",
            *(f"  {count:>12,}  {part}" for part, count in parts.items()),
            f"{flops / 1e6:,.1f} MFLOP per token in training",
        ]
    )
    console.print(summary)
    if batches.skipped > LONG_SHARE * (batches.pairs + batches.skipped):
        longest = max(config.training.row_lengths)
        console.print(
            f"many pairs are longer than {longest} tokens and are left out: to train on them, set "
            f"'training.row_lengths=[{longest},{2 * longest}]'"
        )
    console.print(f"run folder: {run.path}")

    trainer = Trainer(
        run=run,
        config=config,
        model=model,
        step=make_step(model, config.training, precision=precision, seed=config.seed),
        batches=batches,
        dev_batches=dev_batches,
        dev=evenly(corpus.dev, config.training.evaluation_sentences),
        translator=Translator(KerasEngine(model), tokenizer, config.decoding),
        console=console,
        summary=summary,
    )
    if not trainer.train():
        console.print(f"stopped; to go on: python -m nmt.train training.resume={run.path}")
        raise SystemExit(STATUS_INTERRUPTED)

    if corpus.test:
        evaluation = evaluate(Translator.load(run.path), corpus.test, console)
        write_json(run.path / TEST_SCORES_FILE, evaluation.as_json())
        console.print(f"\ntest split, {len(corpus.test):,} sentences:")
        console.print("\n".join(evaluation.lines()))
        translated = list(zip(corpus.test, evaluation.outputs, strict=True))
        for pair, output in evenly(translated, SHOWN):
            console.print(f"\n  source     {pair.source}")
            console.print(f"  reference  {pair.target}\n  output     {output}")
    return trainer.position.best_score


def run_job(composed: DictConfig) -> float | None:
    """Run one Hydra job."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    try:
        config = compose.job_config(composed, list(HydraConfig.get().overrides.task))
        keep_compiled(Path(config.cache_dir) / "compiled")
        return train(config, console)
    except UserError as error:
        fail(error)  # here already: Hydra would add a line of its own


def main() -> None:
    """Run the command line."""
    keep_freed_memory()
    collect_rarely()
    configuration.register()
    # Hydra raises instead of printing and exiting with 1: `compose.guarded` says it in one line.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    command: Any = hydra.main(
        version_base="1.3", config_path=str(configuration.conf_dir()), config_name="train"
    )(run_job)
    exit_on_user_error(compose.guarded(command))


if __name__ == "__main__":
    main()
