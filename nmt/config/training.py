"""The ``training`` group."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nmt.config.checks import MISSING, check_above_zero, check_at_least, check_between, check_choice
from nmt.errors import UserError

AUTO = "auto"
PRECISIONS = ("auto", "float32", "mixed_bfloat16", "mixed_float16")


@dataclass
class TrainingConfig:
    """Initial weights, batches, objective, optimizer, limits and intervals."""

    # A run folder whose weights, tokenizer and sizes a new run starts from.
    start_from: str | None = MISSING
    # Train a tokenizer on the new corpus instead of keeping start_from's. null: yes, unless only
    # adapters are trained, embeddings are frozen, or start_from was imported from MarianMT, whose
    # vocabulary comes from more text.
    new_vocabulary: bool | None = MISSING
    tokenizer_lines: int = MISSING  # largest number of lines that a new tokenizer is trained on
    freeze: list[str] = MISSING  # name patterns of weights that are not trained
    # Devices that share an update. auto: all GPUs of this machine, or its CPU | a number of GPUs,
    # or of virtual devices on the CPU, for rehearsals | multiworker: the processes that TF_CONFIG
    # or SLURM describes
    devices: str = MISSING
    # Positions per side in one micro-batch; auto: as many of update_tokens as fit into memory.
    batch_tokens: int | str = MISSING
    # Positions per side in one update of all devices; null: batch_tokens * accumulate.
    update_tokens: int | None = MISSING
    row_lengths: list[int] = MISSING  # static row lengths in tokens; each is compiled once
    accumulate: int = MISSING  # micro-batches per update
    # Parts of a batch computed concurrently, as far as its rows can be divided. null: one for each
    # core on a CPU with TensorFlow, at most 8, each of at least 128 positions; otherwise one.
    parallel_parts: int | None = MISSING

    label_smoothing: float = MISSING
    dropout_warmup_epochs: float = MISSING  # dropout grows from 0 to its full rates meanwhile
    word_dropout: float = MISSING  # share of the decoder's input words replaced by unknown
    optimizer: str = MISSING  # adam | adamw | muon
    # Peak rate. null: by the model's width, see `nmt.training.defaults.default_learning_rate`.
    learning_rate: float | None = MISSING
    schedule: str = MISSING  # inverse_sqrt | cosine | constant
    warmup_steps: int = MISSING  # updates; at most a tenth of max_steps is used
    beta_1: float = MISSING
    beta_2: float = MISSING
    epsilon: float = MISSING
    weight_decay: float = MISSING  # adamw and muon; kernels only
    clip_norm: float | None = MISSING  # global norm; null: disabled
    ema_decay: float | None = MISSING  # of averaged weights, per update; null: disabled

    precision: str = MISSING  # auto | float32 | mixed_bfloat16 | mixed_float16
    jit_compile: str = MISSING  # auto | on | off
    deterministic: bool = MISSING  # bit-identical operations, on GPUs too

    max_steps: int | None = MISSING  # updates
    max_epochs: float | None = MISSING
    max_minutes: float | None = MISSING  # wall clock, validation included, set-up excluded
    log_every: int = MISSING  # updates
    evaluate_every: int = MISSING  # updates
    # Largest share of the time for evaluations, pictures and attention logs: their intervals become
    # multiples of *_every to stay below it. null: no limit.
    evaluation_share: float | None = MISSING
    # Skips an update whose gradient norm exceeds that of the last reports by this factor; null:
    # disabled.
    spike_factor: float | None = MISSING
    on_spike: str = MISSING  # skip | go_back: rewind to the last checkpoint, with another order
    # Consecutive skipped updates before the run stops; also the most rewinds between two
    # checkpoints.
    max_skipped: int = MISSING
    early_stopping: int | None = MISSING  # evaluations without a better dev BLEU; null: disabled
    # Stops a trial of a sweep if this share of the other runs in its runs_dir had a better score
    # after as many evaluations. null: disabled.
    stop_behind: float | None = MISSING
    evaluation_sentences: int = MISSING  # of the dev split, translated greedily per evaluation
    keep_checkpoints: int = MISSING
    resume: str | None = None  # a run folder, or "latest"

    samples: int = MISSING  # dev sentences shown in TensorBoard per evaluation
    # Source sentences whose attention is logged; empty: none; null: some chosen for the corpus.
    probes: list[str] | None = MISSING
    probe_every: int = MISSING  # evaluations between two pictures of the first two probes
    attention_every: int = MISSING  # updates between two logs of the probes' weights

    @property
    def max_batch_positions(self) -> int:
        """Positions per side in one micro-batch; with ``auto``, in the largest possible one."""
        if isinstance(self.batch_tokens, str):
            return self.positions_per_update
        return self.batch_tokens

    @property
    def positions_per_update(self) -> int:
        """Positions per side in one update."""
        if self.update_tokens is not None:
            return self.update_tokens
        assert isinstance(self.batch_tokens, int), "batch_tokens=auto needs update_tokens"
        return self.batch_tokens * self.accumulate


def check_training(config: TrainingConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first invalid key and its valid values.
    """
    check_at_least("training.tokenizer_lines", config.tokenizer_lines, 2)
    if config.new_vocabulary and config.start_from is None:
        raise UserError("training.new_vocabulary needs training.start_from")
    if not re.fullmatch(r"auto|multiworker|[1-9]\d{0,3}", config.devices):
        raise UserError(
            "training.devices must be auto, multiworker, or a number of devices, got "
            f"{config.devices}"
        )
    if not config.row_lengths:
        raise UserError("training.row_lengths is empty: give one to three row lengths in tokens")
    _check_batch(config)
    positive_keys = ("accumulate", "log_every", "evaluate_every", "probe_every")
    for key in (*positive_keys, "attention_every", "keep_checkpoints", "max_skipped"):
        check_at_least(f"training.{key}", getattr(config, key), 1)
    for key in ("parallel_parts", "early_stopping"):
        if getattr(config, key) is not None:
            check_at_least(f"training.{key}", getattr(config, key), 1)
    non_negative_keys = ("dropout_warmup_epochs", "evaluation_sentences", "samples", "warmup_steps")
    for key in (*non_negative_keys, "weight_decay"):
        check_at_least(f"training.{key}", getattr(config, key), 0)
    check_between("training.label_smoothing", config.label_smoothing, 0, 0.9)
    check_between("training.word_dropout", config.word_dropout, 0, 0.95)
    check_choice("training.precision", config.precision, PRECISIONS)
    check_choice("training.jit_compile", config.jit_compile, ("auto", "on", "off"))
    _check_optimizer(config)
    _check_limits(config)


def _check_batch(config: TrainingConfig) -> None:
    """Check that the sizes of micro-batches and updates agree: two of them determine the third."""
    size, tokens = config.batch_tokens, config.update_tokens
    if tokens is not None:
        check_at_least("training.update_tokens", tokens, 1)
    if isinstance(size, str):
        if size != AUTO:
            raise UserError(
                f"training.batch_tokens must be a number of positions, or auto, got {size}"
            )
        if tokens is None:
            raise UserError(
                "training.batch_tokens=auto needs training.update_tokens=N, the positions per side "
                "of an update"
            )
        if config.devices == "multiworker":
            raise UserError(
                "training.batch_tokens=auto needs a single process: give a number with "
                "training.devices=multiworker"
            )
        if config.accumulate != 1:
            raise UserError(
                f"training.accumulate={config.accumulate} contradicts training.batch_tokens=auto: "
                "leave it out"
            )
    else:
        check_at_least("training.batch_tokens", size, 1)
        if tokens is not None and config.accumulate not in (1, -(-tokens // size)):
            raise UserError(
                f"training.accumulate={config.accumulate} contradicts training.update_tokens="
                f"{tokens} in micro-batches of training.batch_tokens={size}: leave it out"
            )
    for length in config.row_lengths:
        check_between("training.row_lengths", length, 2, config.max_batch_positions)


def _check_optimizer(config: TrainingConfig) -> None:
    check_choice("training.optimizer", config.optimizer, ("adam", "adamw", "muon"))
    if config.weight_decay and config.optimizer == "adam":
        raise UserError("training.weight_decay needs training.optimizer=adamw or muon")
    check_choice("training.schedule", config.schedule, ("inverse_sqrt", "cosine", "constant"))
    for key in ("beta_1", "beta_2"):
        check_between(f"training.{key}", getattr(config, key), 0, 0.999999)
    check_above_zero("training.learning_rate", config.learning_rate)
    check_above_zero("training.clip_norm", config.clip_norm, ", or null")
    if config.spike_factor is not None and not config.spike_factor > 1:
        raise UserError(
            f"training.spike_factor must be above 1, or null, got {config.spike_factor}"
        )
    check_choice("training.on_spike", config.on_spike, ("skip", "go_back"))
    check_above_zero("training.stop_behind", config.stop_behind, ", or null")
    if config.evaluation_share is not None and not 0 < config.evaluation_share < 1:
        raise UserError(
            "training.evaluation_share must be between 0 and 1, or null, got "
            f"{config.evaluation_share}"
        )
    if config.ema_decay is not None:
        check_between("training.ema_decay", config.ema_decay, 0, 0.999999)


def _check_limits(config: TrainingConfig) -> None:
    limits = (config.max_steps, config.max_epochs, config.max_minutes)
    if all(limit is None for limit in limits):
        raise UserError(
            "training has no limit: set training.max_steps, training.max_epochs or "
            "training.max_minutes"
        )
    if any(limit is not None and limit <= 0 for limit in limits):
        raise UserError(
            "training.max_steps, training.max_epochs and training.max_minutes must be above 0"
        )
