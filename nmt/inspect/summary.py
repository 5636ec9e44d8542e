"""``nmt.inspect summary``: size, operations and memory of a model."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from nmt.arguments import StoreOnce, Subcommands
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
        description="Parameters by part beside their closed form, floating-point operations per "
        "token, activations kept for the backward pass of a batch, and memory of decoding: of a "
        "run, or of a configuration that has not been trained.",
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        help="a configuration instead of a run, as overrides of nmt.train: model=base "
        "tokenizer.vocabulary_size=32000 (used as it is, though a small corpus may give less)",
    )
    parser.add_argument("--run", type=Path, action=StoreOnce, help="(runs/latest)")
    parser.add_argument(
        "--batch",
        type=_batch,
        action="append",
        metavar="ROWSxLENGTH",
        help="positions of a batch on each side, such as 64x64; may be repeated (default: the "
        "batches of the configuration)",
    )
    parser.set_defaults(run_command=run)


def _batch(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} is not ROWSxLENGTH, such as 64x64")
    return int(match[1]), int(match[2])


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print the tables of a model."""
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

    batches = arguments.batch or _batches(config)
    longest = max(length for _, length in batches)
    costs = config.model.make_sizes(vocabulary_size).costs
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
    """Return (rows, length) of the configuration's largest batches on a device."""
    training = config.training
    return [(training.max_batch_positions // length, length) for length in training.row_lengths]
