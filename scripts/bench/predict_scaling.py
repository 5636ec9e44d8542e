"""Predict what many GPUs make of a model: the tables of docs/experiments.md, from formulas.

    python scripts/bench/predict_scaling.py
    python scripts/bench/predict_scaling.py --gpus 8 64 --tokens-per-second base=700000 big=250000

An update takes as long as the slowest GPU computes, plus the all-reduce of the gradients, which
starts when all are computed; or as long as a process needs to build the batch, if that is longer.
docs/experiments.md explains the numbers below and the limits of the formulas.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from workloads import BATCH_TOKENS

ROOT = Path(__file__).parents[2]
MODELS = ("base", "big")
GPUS = (8, 64, 512)
VOCABULARY = 32_000  # pieces of a large corpus, as in Vaswani et al. 2017 (37,000)
PADDING = 0.024  # share of the positions of packed Tatoeba rows: scripts/bench/bench_train.py
NUMBER = 4  # bytes of a float32
# Numbers per parameter: weight, gradient, two moments of Adam, average. The latter three can be
# sharded among GPUs (ZeRO, stage 1: Rajbhandari et al. 2020).
REPLICATED, SHARDED = 2, 3


@dataclass(frozen=True)
class Machine:
    """GPUs in nodes. Rates are those reached, not those of a data sheet, unless stated."""

    peak: float = 989e12  # FLOP/s of bfloat16 products, dense, of an H100 SXM: data sheet
    utilisation: float = 0.15  # of that, by a whole update: assumed
    per_node: int = 8
    inside: float = 0.8 * 450e9  # bytes/s each way of a GPU, NVLink 4: 0.8 of the data sheet
    latency: float = 10e-6  # seconds of one step of a ring: assumed
    spread: float = 0.02  # standard deviation of a GPU's time for an update, relative: assumed
    layout: float = 21e6  # tokens/s of batches that one core builds: measured


# Bytes/s each way between nodes, for each GPU of a node: 0.8 of 400 Gb/s a GPU, of 100 Gb/s a node.
NETWORKS = {
    "InfiniBand": 0.8 * 400e9 / 8,
    "Ethernet": 0.8 * 100e9 / 8 / Machine.per_node,
}
CRITICAL = 400_000  # tokens per update, see `count_learned`: assumed
MEGA, GIGA = 1e6, 1e9


@dataclass(frozen=True)
class Model:
    """What a model needs of GPUs."""

    name: str
    parameters: int
    flops: float  # per token in training
    rate: float  # tokens/s of one GPU alone
    tokens: float  # per update of one GPU, both sides


@dataclass(frozen=True)
class Plan:
    """How the GPUs share updates."""

    number: int = NUMBER  # bytes of a transferred number
    accumulate: int = 1  # micro-batches, each as large as a GPU's batch
    tokens: float | None = None  # per update of all GPUs; None: that of one GPU times their number


class Prediction(NamedTuple):
    """Predicted time and rates of one update."""

    tokens: float
    compute: float  # seconds, as are all below
    waiting: float  # for the slowest
    reducing: float
    layout: float
    seconds: float
    share: float  # of the tokens/s of as many independent GPUs
    learned: float  # see `count_learned`

    @property
    def rate(self) -> float:
        """Tokens/s."""
        return self.tokens / self.seconds

    def format_rates(self) -> tuple[str, str, str]:
        """Return the last cells of a row: tokens/s, scaling efficiency, learned per token."""
        return f"{self.rate / MEGA:.1f} M", f"{self.share:.0%}", f"{self.learned:.0%}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, nargs="+", default=GPUS, metavar="N")
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY, help="(%(default)s)")
    parser.add_argument("--utilisation", type=float, default=Machine.utilisation)
    parser.add_argument("--spread", type=float, default=Machine.spread)
    parser.add_argument(
        "--tokens-per-second",
        nargs="+",
        default=[],
        metavar="NAME=RATE",
        help="measured rate of one GPU; others are assumed",
    )
    arguments = parser.parse_args()
    machine = Machine(utilisation=arguments.utilisation, spread=arguments.spread)
    measured = dict(pair.split("=") for pair in arguments.tokens_per_second)
    models = []
    for name in arguments.models:
        model = make_model(name, arguments.vocabulary, machine)
        models.append(replace(model, rate=float(measured.get(name, model.rate))))
    print(write_tables(models, arguments.gpus, machine))


def make_model(name: str, vocabulary: int, machine: Machine) -> Model:
    """Return what a model of the configuration needs of a GPU."""
    sys.path.insert(0, str(ROOT))
    from nmt.model.costs import count_training_flops_per_token
    from nmt.runs.resuming import compose_config

    costs = compose_config([f"model={name}"]).model.make_sizes(vocabulary).costs
    flops = count_training_flops_per_token(costs)
    return Model(
        name,
        parameters=sum(part.parameters for part in costs.list_parts()),
        flops=flops,
        rate=machine.utilisation * machine.peak / flops,
        tokens=2 * BATCH_TOKENS[name] * (1 - PADDING),
    )


# --- Formulas -----------------------------------------------------------------------------------


def pass_around(members: int, size: float, bandwidth: float, latency: float) -> float:
    """Return the seconds of a ring all-reduce: each sends 2 (n - 1) / n of ``size`` bytes.

    In 2 (n - 1) steps: Patarasuk & Yuan 2009.
    """
    steps = 2 * (members - 1)
    return steps / members * size / bandwidth + steps * latency


def all_reduce(gpus: int, size: float, machine: Machine, between: float) -> float:
    """Return the seconds of an all-reduce of ``size`` bytes, first within nodes, then between them.

    Within a node, a reduce-scatter leaves each GPU with the sum of an equal shard. Each shard is
    then all-reduced among its GPUs in all nodes, in parallel, and gathered again within the nodes.

    Args:
        gpus: number of GPUs, in full nodes or all in one.
        size: bytes of the gradients.
        machine: the nodes.
        between: bytes/s between nodes, per GPU.
    """
    inside = min(gpus, machine.per_node)
    nodes = math.ceil(gpus / machine.per_node)
    return pass_around(inside, size, machine.inside, machine.latency) + pass_around(
        nodes, size / inside, between, machine.latency
    )


def expect_slowest(count: int) -> float:
    """Return the expected maximum of ``count`` normal numbers, in deviations (Blom 1958)."""
    return statistics.NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


def count_learned(tokens: float) -> float:
    """Return the learning per token with large updates, relative to small ones.

    1 / (1 + B / B_critical): McCandlish et al. 2018, section 2.
    """
    return 1 / (1 + tokens / CRITICAL)


def predict(model: Model, gpus: int, machine: Machine, between: float, plan: Plan) -> Prediction:
    """Predict an update."""
    tokens = gpus * model.tokens * plan.accumulate if plan.tokens is None else plan.tokens
    compute = tokens / gpus / model.rate
    waiting = machine.spread * expect_slowest(gpus) * compute
    reducing = all_reduce(gpus, plan.number * model.parameters, machine, between)
    nodes = math.ceil(gpus / machine.per_node)
    layout = tokens / nodes / machine.layout  # each process builds its own rows
    seconds = max(compute + waiting + reducing, layout)
    share = tokens / seconds / (gpus * model.rate)
    return Prediction(
        tokens, compute, waiting, reducing, layout, seconds, share, count_learned(tokens)
    )


# --- Tables -------------------------------------------------------------------------------------


def write_tables(models: Sequence[Model], gpus: Sequence[int], machine: Machine) -> str:
    """Return the tables as Markdown: models, predictions, and what could be changed."""
    return "\n\n".join(
        [
            tabulate(list_models(models)),
            tabulate(list_predictions(models, gpus, machine)),
            tabulate(list_changes(models, max(gpus), machine)),
        ]
    )


def tabulate(rows: Iterable[Sequence[str]]) -> str:
    """Format rows as Markdown; the first one is the header."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    columns = lines[0].count("|") - 1
    return "\n".join([lines[0], "|---" * columns + "|", *lines[1:]])


def list_models(models: Sequence[Model]) -> Iterator[tuple[str, ...]]:
    """Yield the assumptions about each model on one GPU."""
    yield (
        *("model", "parameters", "MFLOP per token", "tokens/s of one GPU", "tokens of one update"),
        *("gradients", "training state", "state sharded over 8"),
    )
    for model in models:
        replicated, sharded = (NUMBER * model.parameters * n for n in (REPLICATED, SHARDED))
        yield (
            *(model.name, f"{model.parameters:,}", f"{model.flops / MEGA:.0f}"),
            *(f"{model.rate:,.0f}", f"{model.tokens:,.0f}"),
            f"{NUMBER * model.parameters / MEGA:.0f} MB",
            *(f"{size / GIGA:.2f} GB" for size in (replicated + sharded, replicated + sharded / 8)),
        )


def list_predictions(
    models: Sequence[Model], gpus: Sequence[int], machine: Machine
) -> Iterator[tuple[str, ...]]:
    """Yield the current update of every model, network and number of GPUs."""
    yield (
        *("model", "between nodes", "GPUs", "tokens per update", "computing, ms", "waiting, ms"),
        *("all-reduce, ms", "layout, ms", "tokens/s", "scaling efficiency", "learned per token"),
    )
    settings = [("–", count) for count in gpus if count <= machine.per_node]
    settings += [(name, count) for name in NETWORKS for count in gpus if count > machine.per_node]
    for model in models:
        for network, count in settings:
            between = NETWORKS.get(network, math.inf)
            prediction = predict(model, count, machine, between, Plan())
            parts = (prediction.compute, prediction.waiting, prediction.reducing, prediction.layout)
            yield (
                *(model.name, network, str(count), f"{prediction.tokens:,.0f}"),
                *(f"{1e3 * part:.1f}" for part in parts),
                *prediction.format_rates(),
            )


def list_changes(models: Sequence[Model], gpus: int, machine: Machine) -> Iterator[tuple[str, ...]]:
    """Yield the effect of each change on the largest number of GPUs."""
    plans = {
        "no change": Plan(),
        "bfloat16 gradients": Plan(number=2),
        "also 4 micro-batches": Plan(number=2, accumulate=4),
        f"also {CRITICAL:,} tokens per update": Plan(number=2, tokens=CRITICAL),
    }
    yield (
        *("model", "between nodes", "changed", "tokens per update", "ms per update"),
        *("tokens/s", "scaling efficiency", "learned per token"),
    )
    for model in models:
        for network, between in NETWORKS.items():
            for name, plan in plans.items():
                prediction = predict(model, gpus, machine, between, plan)
                yield (
                    *(model.name, network, name, f"{prediction.tokens:,.0f}"),
                    f"{1e3 * prediction.seconds:.1f}",
                    *prediction.format_rates(),
                )


if __name__ == "__main__":
    main()
