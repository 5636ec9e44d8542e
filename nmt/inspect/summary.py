"""``nmt.inspect summary``: what a model is made of."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from nmt.arguments import Subcommands
from nmt.errors import UserError
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start

if TYPE_CHECKING:
    from nmt.config import Config


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "summary",
        help="parameters by part, operations per token, memory of training and decoding",
        description="Parameters by part against their closed form, floating-point operations per "
        "token, what the backward pass keeps of a batch, and decoding of a sentence: of a run, or "
        "of a configuration that has not been trained.",
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        help="a configuration instead of a run, in the words of nmt.train: model=base "
        "tokenizer.vocabulary_size=32000 (taken whole, though a small corpus may support less)",
    )
    parser.add_argument("--run", type=Path, help="(runs/latest)")
    parser.add_argument(
        "--batch",
        type=_batch,
        action="append",
        metavar="ROWSxLENGTH",
        help="positions of a batch on each side, such as 64x64; may be repeated (default: those "
        "of the configuration)",
    )
    parser.set_defaults(run_command=run)


def _batch(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text} is not ROWSxLENGTH, such as 64x64")
    return int(found[1]), int(found[2])


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print what a model is made of."""
    counted = None
    if arguments.overrides:
        if arguments.run is not None:
            raise UserError("give a configuration or --run, not both")
        from nmt.runs.resuming import compose_config

        config = compose_config(arguments.overrides)
        vocabulary_size = config.tokenizer.vocabulary_size
    else:
        folder = RunFolder.open(arguments.run or Path("runs/latest"))
        config = folder.config
        with quiet_start():
            from nmt.analysis.anatomy.counts import count_by_part

            model = folder.load_model()
        counted, vocabulary_size = count_by_part(model), model.vocabulary_size
    from nmt.analysis.anatomy import terminal
    from nmt.runs.building import make_sizes

    batches = arguments.batch or _batches(config)
    longest = max(length for _, length in batches)
    costs = make_sizes(config.model, vocabulary_size).costs
    flops = costs.count_flops(source_length=longest, target_length=longest)
    console.print(f"{config.model.name}: {costs.describe()}")
    for table in (
        terminal.tabulate_parameters(costs.list_parts(), counted),
        terminal.tabulate_flops(flops, longest, longest),
        terminal.tabulate_activations(costs, batches),
        terminal.tabulate_state(costs),
    ):
        console.print()
        console.print(table, soft_wrap=False)


def _batches(config: Config) -> list[tuple[int, int]]:
    """Return (rows, length) of the micro-batches, or else of the updates, of a configuration."""
    training = config.training
    return [(training.max_batch_tokens // length, length) for length in training.row_lengths]
