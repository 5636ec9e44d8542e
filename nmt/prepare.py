"""Prepare a corpus that does not fit into memory: ``python -m nmt.prepare output=FOLDER …``.

Configuration: ``conf/prepare.yaml``. Runs train from the folder with ``data=prepared``.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from nmt.config.combining import check_held_out
from nmt.config.command_line import quote_if_needed, run_hydra
from nmt.config.files import preparation_from_composed
from nmt.data.rejections import rejection_table
from nmt.errors import exit_on_fixable_error
from nmt.files import make_folder
from nmt.startup.commands import warn_in_one_line
from nmt.startup.console import make_console


def run_job(composed: DictConfig) -> None:
    """Run the Hydra job."""
    with exit_on_fixable_error():  # Hydra would add a line
        run(composed, HydraConfig.get().overrides.task, make_console())


def run(composed: DictConfig, overrides: Sequence[str], console: Console) -> None:
    """Prepare the configured corpus, and print a summary."""
    from dataclasses import replace

    from nmt.data.language_check import check_test_sets
    from nmt.data.prepared import load_prepared
    from nmt.preparing.prepare import prepare
    from nmt.runs.corpus import read_tests
    from nmt.runs.locking import lock_run

    config = preparation_from_composed(composed)
    check_held_out(config.data, overrides)
    folder = make_folder(Path(config.output).expanduser())
    with lock_run(folder):
        tests = read_tests(config.data, console.print)
        check_test_sets(config.data, tests)
        manifest = prepare(config, tests, console)
    corpus = load_prepared(replace(config.data, prepared=str(folder)))
    console.print(rejection_table(corpus))
    tokens = sum(shard["tokens"] for shard in manifest["shards"])
    too_long = sum(shard["too_long"] for shard in manifest["shards"])
    console.print(
        f"{len(manifest['shards']):,} shards, {tokens:,} tokens of {manifest['vocabulary_size']:,} "
        f"kinds; {too_long:,} pairs too long for rows of {manifest['row_lengths'][-1]} tokens"
    )
    override = shlex.quote(f"data.prepared={quote_if_needed(str(folder))}")
    console.print(f"train from it: python -m nmt.train data=prepared {override}")


def main() -> None:
    """Run the command line."""
    warn_in_one_line()
    run_hydra("prepare", run_job)


if __name__ == "__main__":
    main()
