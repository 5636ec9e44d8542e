"""``nmt.inspect verify``: whether the files of a run or an export are intact."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from nmt.arguments import Subcommands
from nmt.errors import UserError
from nmt.files import UNFINISHED
from nmt.formats.manifest import MANIFEST_FILE, find_damage
from nmt.formats.verifying import Verdict, list_files, verify_run
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start

VERDICTS = ("sound", "damaged", "unknown")


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "verify",
        help="whether the files of a run or an export are intact",
        description="Read every file of a run and its exports, or of one export, and compare it "
        "with its checksum if it has one. Each file is printed as sound, as damaged with the "
        "reason, or as unknown, if no part of this program reads it. The exit status is 2 if a "
        "file is damaged.",
    )
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path("runs/latest"),
        help="a run or an export (%(default)s)",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print a line per file, and a summary.

    Raises:
        UserError: a file is damaged, or the folder is neither a run nor an export.
    """
    folder: Path = arguments.folder
    with quiet_start():
        verdicts = list(verify(folder))
    for name, verdict, reason in verdicts:
        console.print(f"{verdict:8} {name}{reason and f' ({reason})'}")
    counts = {verdict: sum(file.verdict == verdict for file in verdicts) for verdict in VERDICTS}
    numbers = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    console.print(f"{len(verdicts)} files: {numbers}")
    if counts["damaged"]:
        first = next(file for file in verdicts if file.verdict == "damaged")
        raise UserError(
            f"{folder} is damaged: {counts['damaged']} of {len(verdicts)} files, such as "
            f"{first.name}"
        )


def verify(folder: Path) -> Iterator[Verdict]:
    """Yield the verdict on every file of a run and its exports, or of one export.

    Raises:
        UserError: the folder is neither a run nor an export.
    """
    if (folder / MANIFEST_FILE).is_file():
        yield from verify_export(folder)
        return
    opened = RunFolder.open(folder)
    yield from verify_run(opened.path)
    exports = opened.path / "exports"
    for export in sorted(exports.iterdir()) if exports.is_dir() else ():
        prefix = export.relative_to(opened.path).as_posix()
        if export.is_dir() and not export.name.startswith(UNFINISHED):
            for file in verify_export(export):
                yield file._replace(name=f"{prefix}/{file.name}")
        else:
            yield Verdict(prefix, "unknown")


def verify_export(folder: Path) -> Iterator[Verdict]:
    """Yield the verdict on every file of an export, by its manifest."""
    names = set(list_files(folder)) - {MANIFEST_FILE}
    try:
        damage = find_damage(folder)
    except UserError as error:
        yield Verdict(MANIFEST_FILE, "damaged", str(error))
        damage = {}
    else:
        yield Verdict(MANIFEST_FILE, "sound")
    for name in sorted(names | damage.keys()):
        if name not in damage:
            yield Verdict(name, "unknown")
        elif reason := damage[name]:
            yield Verdict(name, "damaged", reason)
        else:
            yield Verdict(name, "sound")
