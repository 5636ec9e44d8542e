"""Prepare a corpus that does not fit into memory: ``python -m nmt.prepare output=FOLDER …``.

Configuration: ``conf/prepare.yaml``. Runs train from the folder with ``data=prepared``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig
from rich.console import Console

from nmt.config.command_line import guard, register_schema
from nmt.config.files import conf_dir, preparation_from
from nmt.data.corpus import rejection_table
from nmt.errors import UserError, exit_on_user_error, fail, fail_if_full, naming
from nmt.startup.commands import warn_in_one_line


def run_job(composed: DictConfig) -> None:
    """Run the Hydra job."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    try:
        run(composed, console)
    except UserError as error:
        fail(error)  # here already: Hydra would add a line of its own
    except Exception as error:
        fail_if_full(error)
        raise


def run(composed: DictConfig, console: Console) -> None:
    """Prepare what the command line names, and say what came of it."""
    from dataclasses import replace

    from nmt.data.prepared import load_prepared
    from nmt.data.preparing.prepare import prepare
    from nmt.runs.corpus import read_tests
    from nmt.runs.locking import lock_run

    config = preparation_from(composed)
    folder = Path(config.output).expanduser()
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with lock_run(folder):
        manifest = prepare(config, read_tests(config.data), console)
    corpus = load_prepared(replace(config.data, prepared=str(folder)))
    console.print(rejection_table(corpus))
    tokens = sum(shard["tokens"] for shard in manifest["shards"])
    long = sum(shard["too_long"] for shard in manifest["shards"])
    console.print(
        f"{len(manifest['shards']):,} shards, {tokens:,} tokens of {manifest['vocabulary_size']:,} "
        f"kinds; {long:,} pairs too long for rows of {manifest['row_lengths'][-1]} tokens"
    )
    console.print(f"train from it: python -m nmt.train data=prepared data.prepared={folder}")


def main() -> None:
    """Run the command line."""
    warn_in_one_line()
    register_schema()
    # Hydra raises instead of printing and exiting with 1: `guard` says it in one line.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    command: Any = hydra.main(
        version_base="1.3", config_path=str(conf_dir()), config_name="prepare"
    )(run_job)
    exit_on_user_error(guard(command))


if __name__ == "__main__":
    main()
