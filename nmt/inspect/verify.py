"""``nmt.inspect verify``: whether a run or an export is what was written."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from nmt.arguments import Subcommands
from nmt.errors import UserError
from nmt.formats.manifest import MANIFEST_FILE, find_damage
from nmt.formats.verifying import Verdict, list_files, verify_run
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start

VERDICTS = ("sound", "damaged", "unknown")


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "verify",
        help="whether every file of a run or of an export is sound",
        description="Read every file of a run (and of its exports), or of one export: what has a "
        "checksum is compared with it, the rest is read. One line per file: sound, damaged (and "
        "why), or unknown, which nothing here reads. The exit status is 2 if a file is damaged.",
    )
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path("runs/latest"),
        help="of a run or an export (%(default)s)",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print a line per file, and a summary.

    Raises:
        UserError: a file is damaged, or the folder is neither a run nor an export.
    """
    folder: Path = arguments.folder
    with quiet_start():
        found = list(verify(folder))
    for name, verdict, reason in found:
        console.print(f"{verdict:8} {name}{reason and f' ({reason})'}")
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS}
    numbers = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    console.print(f"{len(found)} files: {numbers}")
    if counts["damaged"]:
        first = next(one for one in found if one.verdict == "damaged")
        raise UserError(
            f"{folder} is damaged: {counts['damaged']} of {len(found)} files, such as {first.name}"
        )


def verify(folder: Path) -> Iterator[Verdict]:
    """Judge every file of a run and its exports, or of one export.

    Raises:
        UserError: the folder is neither.
    """
    if (folder / MANIFEST_FILE).is_file():
        yield from verify_export(folder)
        return
    opened = RunFolder.open(folder)
    yield from verify_run(opened.path)
    exports = opened.path / "exports"
    for export in sorted(exports.iterdir()) if exports.is_dir() else ():
        prefix = export.relative_to(opened.path).as_posix()
        if export.is_dir():
            for one in verify_export(export):
                yield one._replace(name=f"{prefix}/{one.name}")
        else:
            yield Verdict(prefix, "unknown")


def verify_export(folder: Path) -> Iterator[Verdict]:
    """Judge every file of an export by its manifest."""
    names = set(list_files(folder)) - {MANIFEST_FILE}
    try:
        found = find_damage(folder)
    except UserError as error:
        yield Verdict(MANIFEST_FILE, "damaged", str(error))
        found = {}
    else:
        yield Verdict(MANIFEST_FILE, "sound")
    for name in sorted(names | found.keys()):
        if name not in found:
            yield Verdict(name, "unknown")
        elif reason := found[name]:
            yield Verdict(name, "damaged", reason)
        else:
            yield Verdict(name, "sound")
