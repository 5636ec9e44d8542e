"""Analyse models and runs: ``python -m nmt.inspect trace "Hoy hace frío."``."""

from __future__ import annotations

import argparse

from nmt.arguments import Parser
from nmt.errors import exit_on_user_error
from nmt.inspect import (
    align,
    average,
    compare,
    corpus,
    explain,
    history,
    project,
    quality,
    report,
    summary,
    trace,
    verify,
    weights,
)
from nmt.startup.commands import set_up_translation
from nmt.startup.console import make_console

SUBCOMMANDS = (
    corpus,
    summary,
    trace,
    explain,
    project,
    weights,
    report,
    align,
    compare,
    history,
    quality,
    verify,
    average,
)


def make_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = Parser(prog="python -m nmt.inspect", description="Analyse models and runs.")
    subcommands = parser.add_subparsers(dest="command", required=True)
    for subcommand in SUBCOMMANDS:
        subcommand.add(subcommands)
    return parser


def main() -> None:
    """Run the command line."""
    set_up_translation()
    arguments = make_parser().parse_args()
    console = make_console()
    exit_on_user_error(lambda: arguments.run_command(arguments, console))


if __name__ == "__main__":
    main()
