"""Concrete values for ``null`` and ``auto``: a *resolved* configuration.

Values are resolved once, before training, and written to the run's ``config.yaml``; a resumed run
uses them on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import keras

from nmt.config import Config, DataConfig, RecurrentConfig
from nmt.config.sources import PATTERNS
from nmt.data.contexts import remove_contexts
from nmt.data.splitting import Pair
from nmt.startup.devices import cores, gpus
from nmt.training.update_sizing import CPU_UPDATE, split_update

SMALL_CORPUS = 20_000  # training pairs below which a model soon overfits
RECURRENT_SHARE = 0.5  # of the learning rate of a transformer (docs/experiments.md)
# Of the learning rate of random weights, where a run starts from another run and its vocabulary: a
# higher one learns more of the new corpus, and forgets more (docs/adaptation.md).
START_SHARE = 0.25
SPANISH_PROBES = ("¿Dónde está la estación?", "Ayer compré un libro muy interesante.")
# Of a batch on a CPU: each part has gradients of its own, as large as the model (more than two
# parts are not measured, see docs/performance.md).
MAX_PARTS = 8
MIN_PART = 128  # positions per side; smaller parts are slower than a whole batch


def resolve_config(config: Config, pairs: int, candidates: Sequence[Pair] = ()) -> Config:
    """Return the configuration with concrete values for ``null`` and ``auto``.

    ``training.batch_tokens=auto`` and the interval of evaluations stay: `size_updates` and
    `make_step_within_memory` resolve them.

    Args:
        config: checked.
        pairs: number of pairs in the training split, repetitions included.
        candidates: pairs from which probes are chosen: see `default_probes`.
    """
    model, training = config.model, config.training
    if model.dropout is None:
        model = replace(model, dropout=default_dropout(pairs))
    if training.learning_rate is None:
        rate = default_learning_rate(model.d_model)
        if isinstance(model, RecurrentConfig):
            rate *= RECURRENT_SHARE
        keeps_vocabulary = training.start_from is not None and not training.new_vocabulary
        if keeps_vocabulary and model.lora_rank is None:
            rate *= START_SHARE
        training = replace(training, learning_rate=rate)
    if training.update_tokens is None and training.max_update_tokens is not None and not gpus():
        max_tokens = max(min(training.max_update_tokens, CPU_UPDATE), *training.row_lengths)
        training = replace(training, max_update_tokens=max_tokens)
    if not isinstance(training.batch_tokens, str):
        micro_batches = -(-training.positions_per_update // training.batch_tokens)
        training = split_update(training, micro_batches)
    if training.deterministic or training.stop_behind is not None:
        # Evaluations must be at the same updates in every run: their interval follows no clock.
        training = replace(training, evaluation_share=None)
    if training.probes is None:
        training = replace(training, probes=default_probes(config.data, candidates))
    training = replace(
        training,
        precision=resolve_precision(training.precision),
        parallel_parts=resolve_parallel_parts(
            training.parallel_parts, training.max_batch_positions
        ),
        jit_compile="on" if training.jit_compile == "auto" else training.jit_compile,
    )
    return replace(config, model=model, training=training)


def describe_choices(config: Config, *, has_own_rate: bool = False) -> str:
    """Return one line with the sizes and rates of a resolved configuration, as overrides.

    Args:
        config: resolved.
        has_own_rate: whether an optimizer or a schedule from Python sets the learning rate.
    """
    keys = ("d_model", "encoder_layers", "decoder_layers", "dropout")
    choices = {f"model.{key}": getattr(config.model, key) for key in keys}
    choices["tokenizer.vocabulary_size"] = config.tokenizer.vocabulary_size
    rates = () if has_own_rate else ("learning_rate", "warmup_steps")
    for key in ("batch_tokens", "accumulate", *rates, "evaluate_every", "max_minutes", "precision"):
        choices[f"training.{key}"] = getattr(config.training, key)
    return "chose: " + " ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in choices.items()
        if value is not None
    )


def default_probes(data: DataConfig, candidates: Sequence[Pair]) -> list[str]:
    """Return the source sentences whose attention is shown by default.

    Two of the candidates: at a quarter and at a half of their order by length.

    Args:
        data: the ``data`` group.
        candidates: the dev split or, if it is empty, some training pairs.
    """
    kinds = {source.kind for source in data.sources.values()}
    if kinds in ({"phrasebook"}, {"phrasebook", PATTERNS}) and data.languages[0] == "es":
        return list(SPANISH_PROBES)
    sources = {pair.source for pair in remove_contexts(candidates)}
    by_length = sorted(sources, key=lambda text: (len(text), text))
    indices = dict.fromkeys((len(by_length) // 4, len(by_length) // 2))
    return [by_length[index] for index in indices if by_length]


def default_dropout(pairs: int) -> float:
    """Return the dropout rate for a number of training pairs.

    0.1 as in the base model of Vaswani et al. 2017; 0.3 for small corpora (Sennrich & Zhang 2019,
    Revisiting Low-Resource Neural Machine Translation).
    """
    return 0.3 if pairs < SMALL_CORPUS else 0.1


def default_learning_rate(d_model: int) -> float:
    """Return the peak learning rate of Adam for a model width.

    The best rate falls with 1 / width (Yang et al. 2022, Tensor Programs V); it is 2e-3 at a width
    of 128.
    """
    return 0.256 / d_model


def resolve_precision(precision: str) -> str:
    """Return the dtype policy; ``auto`` becomes the fastest one of this machine's devices."""
    if precision != "auto":
        return precision
    devices = gpus()
    if not devices:
        return "float32"
    # bfloat16 units came with compute capability 8.0 (Ampere).
    has_bfloat16 = all(gpu.capability >= (8, 0) for gpu in devices)
    return "mixed_bfloat16" if has_bfloat16 else "mixed_float16"


def resolve_parallel_parts(parts: int | None, positions: int) -> int:
    """Return how many parts of a batch are computed in parallel, by default for this machine.

    The matrix products of a small model are too small to share among the cores of a CPU: a part for
    each core uses them better. A batch stays whole on a GPU, and with JAX, which would compute the
    parts one after the other.

    Args:
        parts: as configured; None: choose.
        positions: positions per side of a micro-batch.
    """
    if parts is not None:
        return parts
    if keras.config.backend() != "tensorflow" or gpus():
        return 1
    return min(cores(), MAX_PARTS, max(1, positions // MIN_PART))
