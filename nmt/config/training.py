"""The ``training`` group."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from nmt.config.checks import (
    MISSING,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    RowLengths,
    Valid,
    above,
    at_least,
    between,
    inside,
    one_of,
)
from nmt.errors import UserError

AUTO = "auto"
MULTIWORKER = "multiworker"
PRECISIONS = ("auto", "float32", "mixed_bfloat16", "mixed_float16")

DEVICES = Valid(
    "auto, multiworker or a number", re.compile(r"auto|multiworker|[1-9]\d{0,3}").fullmatch
)
BATCH_TOKENS = Valid(
    "a number of positions, or auto", lambda size: size == AUTO or (type(size) is int and size > 0)
)
Momentum = Annotated[float, between(0, 0.999999)]  # 1 - momentum is a divisor


@dataclass
class TrainingConfig:
    """Initial weights, batches, objective, optimizer, limits and intervals."""

    # A run folder: a new run starts from its weights, and has its sizes.
    start_from: str | None = MISSING
    # With start_from. true: train a tokenizer on the new corpus | false: keep the other run's |
    # null: true if that cuts the new corpus into clearly fewer tokens, and false if only adapters
    # are trained, embeddings are frozen, or start_from was imported from MarianMT, whose vocabulary
    # comes from more text.
    new_vocabulary: bool | None = MISSING
    # Largest number of lines that a new tokenizer is trained on.
    tokenizer_lines: Annotated[int, at_least(2)] = MISSING
    # Of tokens, in a new run. cooccurrence: from the tokens beside them and in the same pairs; the
    # other weights of a transformer start so that they pass them on | random
    initial_embeddings: Annotated[str, one_of("cooccurrence", "random")] = MISSING
    freeze: list[str] = MISSING  # name patterns of weights that are not trained
    # Devices that share an update. auto: all GPUs of this machine, or its CPU | a number of GPUs,
    # or of virtual devices on the CPU, for rehearsals | multiworker: the processes that TF_CONFIG
    # or SLURM describes
    devices: Annotated[str, DEVICES] = MISSING
    # Positions per side in one micro-batch; auto: as many of an update as fit into memory.
    batch_tokens: Annotated[int | str, BATCH_TOKENS] = MISSING
    # Positions per side in one update of all devices; null: batch_tokens * accumulate, or with
    # batch_tokens=auto, at most max_update_tokens, fewer for a small corpus or without a GPU.
    update_tokens: PositiveInt | None = MISSING
    # With batch_tokens=auto and without update_tokens: most positions per side in one update.
    max_update_tokens: PositiveInt | None = MISSING
    row_lengths: RowLengths = MISSING  # static row lengths in tokens; each is compiled once
    accumulate: PositiveInt = MISSING  # micro-batches per update
    # Parts of a batch that one device computes concurrently with TensorFlow, as far as its rows can
    # be divided. null: one for each core of a CPU, at most 8, each of at least 128 positions; one
    # on GPUs and with JAX.
    parallel_parts: PositiveInt | None = MISSING

    # Probability that the loss spreads over all tokens (Szegedy et al. 2016).
    label_smoothing: Annotated[float, between(0, 0.9)] = MISSING
    dropout_warmup_epochs: NonNegativeFloat = MISSING  # dropout grows from 0 to its rates meanwhile
    # Share of the decoder's input words replaced by unknown.
    word_dropout: Annotated[float, between(0, 0.95)] = MISSING
    # muon: for kernels; Adam for the rest.
    optimizer: Annotated[str, one_of("adam", "adamw", "muon")] = MISSING
    # Peak rate. null: 0.256 / width, and less for some models: docs/training.md.
    learning_rate: PositiveFloat | None = MISSING
    # Of the rate after the warm-up.
    schedule: Annotated[str, one_of("inverse_sqrt", "cosine", "constant")] = MISSING
    warmup_steps: NonNegativeInt = MISSING  # updates; at most a tenth of the run
    beta_1: Momentum = MISSING  # decay of Adam's mean of gradients
    beta_2: Momentum = MISSING  # decay of Adam's mean of squared gradients
    epsilon: PositiveFloat = MISSING  # added to Adam's divisor
    weight_decay: NonNegativeFloat = MISSING  # adamw and muon; kernels only
    clip_norm: PositiveFloat | None = MISSING  # global norm; null: disabled
    ema_decay: Momentum | None = MISSING  # of averaged weights, per update; null: disabled

    # Of arithmetic. auto: float32 on a CPU; on GPUs mixed_bfloat16, or mixed_float16 on older ones.
    precision: Annotated[str, one_of(*PRECISIONS)] = MISSING
    # Compile updates with XLA. auto: on. With JAX, they always are.
    jit_compile: Annotated[str, one_of("auto", "on", "off")] = MISSING
    deterministic: bool = MISSING  # bit-identical operations, on GPUs too

    max_steps: PositiveInt | None = MISSING  # updates
    max_epochs: PositiveFloat | None = MISSING  # passes over the training pairs
    max_minutes: PositiveFloat | None = MISSING  # wall clock, validation included, set-up excluded
    log_every: PositiveInt = MISSING  # updates
    # Updates; null: the updates of 20 epochs, 5,000 at most.
    evaluate_every: PositiveInt | None = MISSING
    # Largest share of the time for evaluations, pictures and attention logs: their intervals become
    # multiples of *_every to stay below it. null: no limit.
    evaluation_share: Annotated[float, inside(0, 1)] | None = MISSING
    # Skips an update whose gradient norm exceeds that of the last reports by this factor; null:
    # disabled.
    spike_factor: Annotated[float, above(1)] | None = MISSING
    # go_back: rewind to the last checkpoint, with another order.
    on_spike: Annotated[str, one_of("skip", "go_back")] = MISSING
    # Consecutive skipped updates before the run stops; also the most rewinds between two
    # checkpoints.
    max_skipped: PositiveInt = MISSING
    # Evaluations, none better than the best, after which the run ends, in the last of its stages;
    # null: disabled.
    early_stopping: PositiveInt | None = MISSING
    # Stops a trial of a sweep if this share of the other runs in its runs_dir had a better score
    # after as many evaluations. null: disabled.
    stop_behind: (
        Annotated[float, Valid("above 0 and at most 1", lambda value: 0 < value <= 1)] | None
    ) = MISSING
    # Of the dev split, translated greedily per evaluation.
    evaluation_sentences: NonNegativeInt = MISSING
    keep_checkpoints: PositiveInt = MISSING  # the latest ones, beside the best
    resume: str | None = None  # a run folder, or "latest"

    samples: NonNegativeInt = MISSING  # dev sentences shown in TensorBoard per evaluation
    # Source sentences whose attention is logged; empty: none; null: some chosen for the corpus.
    probes: list[str] | None = MISSING
    probe_every: PositiveInt = MISSING  # evaluations between two pictures of the first two probes
    attention_every: PositiveInt = MISSING  # updates between two logs of the probes' weights

    @property
    def max_batch_positions(self) -> int:
        """Positions per side in one micro-batch; with ``auto``, in the largest possible one."""
        if isinstance(self.batch_tokens, str):
            return self.positions_per_update
        return self.batch_tokens

    @property
    def positions_per_update(self) -> int:
        """Positions per side in one update; if the corpus determines them, the most of them."""
        if self.update_tokens is not None:
            return self.update_tokens
        if isinstance(self.batch_tokens, str):
            assert self.max_update_tokens is not None, "checked by `check_training`"
            return self.max_update_tokens
        return self.batch_tokens * self.accumulate


def check_training(config: TrainingConfig) -> None:
    """Raise a `UserError` if the keys contradict each other."""
    if config.new_vocabulary and config.start_from is None:
        raise UserError("training.new_vocabulary needs training.start_from")
    if config.weight_decay and config.optimizer == "adam":
        raise UserError("training.weight_decay needs training.optimizer=adamw or muon")
    if config.max_steps is config.max_epochs is config.max_minutes is None:
        raise UserError(
            "training has no limit: set training.max_steps, training.max_epochs or "
            "training.max_minutes"
        )
    _check_batch(config)


def _check_batch(config: TrainingConfig) -> None:
    """Check that the sizes of micro-batches and updates agree: two of them determine the third."""
    size, tokens = config.batch_tokens, config.update_tokens
    if isinstance(size, str):
        if tokens is config.max_update_tokens is None:
            raise UserError(
                "training.batch_tokens=auto needs training.update_tokens=N, the positions per side "
                "of an update, or training.max_update_tokens=N"
            )
        if config.accumulate != 1:
            raise UserError(
                f"training.accumulate={config.accumulate} contradicts training.batch_tokens=auto: "
                "leave it out"
            )
    elif tokens is not None and config.accumulate not in (1, -(-tokens // size)):
        raise UserError(
            f"training.accumulate={config.accumulate} contradicts training.update_tokens="
            f"{tokens} in micro-batches of training.batch_tokens={size}: leave it out"
        )
    sizes = {"update_tokens": tokens}
    if not isinstance(size, str):
        sizes["batch_tokens"] = size
    elif tokens is None:
        sizes["max_update_tokens"] = config.max_update_tokens
    for key, positions in sizes.items():
        if positions is not None and positions < max(config.row_lengths):
            raise UserError(
                f"training.{key}={positions} has no room for a row of "
                f"training.row_lengths={config.row_lengths}"
            )
