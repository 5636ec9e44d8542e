"""What a configuration leaves open, settled once before training: a *finished* configuration.

What ``null`` and ``auto`` became is what a run's ``config.yaml`` says, and what a resumed run does,
on whatever machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import keras

from nmt.config import Config, DataConfig, RecurrentConfig
from nmt.data.splitting import Pair
from nmt.startup.devices import cores, gpus
from nmt.training.fitting import split_update

SMALL_CORPUS = 20_000  # training pairs below which a model soon knows its corpus by heart
# Of the rate of a transformer. Additive attention on Tatoeba, two cores, BLEU on the test split:
# twice as much gave 42.3 in 14 minutes, this one 44.0 in 7 (but after 3 minutes 36.2 against 38.8).
RECURRENT_SHARE = 0.5
# Of the rate that weights drawn at random are trained with, where even the vocabulary stays: what
# is nearly right. Verses are far from Tatoeba: there, the whole rate gave 20.4 BLEU on a held-out
# book in ten minutes, this one 16.0, and the whole rate with a new vocabulary, the default, 27.4.
START_SHARE = 0.25
# What attention is shown of where the embedded corpus is translated from Spanish.
SPANISH_PROBES = ("¿Dónde está la estación?", "Ayer compré un libro muy interesante.")
# Of a batch, on a CPU: each has gradients of its own, as large as the model. More than two are not
# measured (docs/performance.md).
MOST_PARTS = 8
LEAST_PART = 128  # positions per side; parts of 64 are slower than a whole batch of 128 (`small`)


def resolve_config(config: Config, pairs: int, dev: Sequence[Pair] = ()) -> Config:
    """Return the configuration with everything settled that was ``null`` or ``auto``.

    Args:
        config: checked.
        pairs: of the training split, repetitions included.
        dev: the dev split.
    """
    model, training = config.model, config.training
    if model.dropout is None:
        model = replace(model, dropout=default_dropout(pairs))
    if training.learning_rate is None:
        rate = default_learning_rate(model.d_model)
        if isinstance(model, RecurrentConfig):
            rate *= RECURRENT_SHARE
        kept = training.start_from is not None and not training.new_vocabulary
        if kept and model.lora_rank is None:
            rate *= START_SHARE
        training = replace(training, learning_rate=rate)
    if not isinstance(training.batch_tokens, str):
        micro_batches = -(-training.tokens_per_update // training.batch_tokens)
        training = split_update(training, micro_batches)
    if training.deterministic or training.stop_behind is not None:
        # The interval of evaluations follows a clock. Here they must be at the same updates.
        training = replace(training, evaluation_share=None)
    if training.probes is None:
        training = replace(training, probes=default_probes(config.data, dev))
    training = replace(
        training,
        precision=resolve_precision(training.precision),
        parallel_parts=resolve_parallel_parts(training.parallel_parts, training.max_batch_tokens),
        jit_compile="on" if training.jit_compile == "auto" else training.jit_compile,
    )
    return replace(config, model=model, training=training)


def default_probes(data: DataConfig, dev: Sequence[Pair]) -> list[str]:
    """Return the source sentences whose attention is shown by default.

    Of the dev split, one of usual length, and one that is shorter than three quarters of it.
    """
    embedded = any(source.kind == "phrasebook" for source in data.sources.values())
    if embedded and data.languages[0] == "es":
        return list(SPANISH_PROBES)
    by_length = sorted({pair.source for pair in dev}, key=lambda text: (len(text), text))
    places = dict.fromkeys((len(by_length) // 4, len(by_length) // 2))
    return [by_length[place] for place in places if by_length]


def default_dropout(pairs: int) -> float:
    """Return the dropout rate for a number of training pairs.

    0.1 is the base model's of Vaswani et al. 2017; small corpora want 0.3 (Sennrich & Zhang 2019,
    Revisiting Low-Resource Neural Machine Translation).
    """
    return 0.3 if pairs < SMALL_CORPUS else 0.1


def default_learning_rate(d_model: int) -> float:
    """Return the peak learning rate of Adam for a model width.

    The best rate falls with 1 / width (Yang et al. 2022, Tensor Programs V). On the embedded corpus
    2e-3 and 4e-3 did equally well at a width of 128.
    """
    return 0.256 / d_model


def resolve_precision(precision: str) -> str:
    """Return the dtype policy that ``auto`` stands for on this machine's devices."""
    if precision != "auto":
        return precision
    found = gpus()
    if not found:
        return "float32"
    # bfloat16 units came with compute capability 8.0 (Ampere).
    capable = all(gpu.capability >= (8, 0) for gpu in found)
    return "mixed_bfloat16" if capable else "mixed_float16"


def resolve_parallel_parts(parts: int | None, positions: int) -> int:
    """Return how many parts of a batch are worked on at the same time, by default on this machine.

    The products of a small model are too small for all cores of a CPU to share: a part for each
    core keeps them busier than one part on all. A GPU takes the batch whole, and so does JAX, which
    would work on one part after the other.

    Args:
        parts: as configured.
        positions: per side of a micro-batch.
    """
    if parts is not None:
        return parts
    if keras.config.backend() != "tensorflow" or gpus():
        return 1
    return min(cores(), MOST_PARTS, max(1, positions // LEAST_PART))
