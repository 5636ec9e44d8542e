"""``nmt.inspect corpus``: what a corpus holds, and what cleaning would reject."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rich.console import Console

from nmt.arguments import Subcommands, non_negative_int
from nmt.config.command_line import quote_if_needed
from nmt.errors import UserError

if TYPE_CHECKING:
    from nmt.analysis.corpora.survey import SourceSurvey


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "corpus",
        help="look at a corpus before training: languages, lengths, what cleaning rejects",
        description="Read, clean and split a corpus as nmt.train would, and print what it holds: "
        "lines and encodings of its files, the languages they are in, lengths, rejected lines with "
        "examples, and the command that trains on it.",
    )
    parser.add_argument(
        "corpus",
        nargs="+",
        metavar="FILE or KEY=VALUE",
        help="a file of pairs, or two aligned files, source then target; and overrides of "
        "nmt.train, such as data.columns=es,en or data=tatoeba",
    )
    parser.add_argument(
        "--examples",
        type=non_negative_int,
        default=3,
        metavar="N",
        help="rejected lines that are shown for each reason (%(default)s)",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw lengths: .png, .svg, .pdf")
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print the tables of a corpus, and the command that trains on it."""
    from nmt.analysis.corpora.lengths import Lengths
    from nmt.analysis.corpora.rejections import tabulate_examples
    from nmt.analysis.corpora.survey import survey_sources, tabulate_files, tabulate_languages
    from nmt.analysis.pictures.files import check_suffix, save_figure
    from nmt.analysis.tables import print_listings
    from nmt.config.command_line import list_missing_languages
    from nmt.data.rejections import rejection_table
    from nmt.runs.resuming import compose_config
    from nmt.training.preparation import prepare_corpus

    if arguments.plot is not None:
        check_suffix(arguments.plot)
    overrides = make_overrides(arguments.corpus)
    check_files(list_files(arguments.corpus))
    missing = list_missing_languages(overrides)
    config = compose_config([*overrides, *(f"{key}=und" for key in missing)])
    if config.data.prepared is not None:
        raise UserError("data.prepared: nmt.prepare has cleaned that corpus, see its report")
    surveys = survey_sources(config.data, Path(config.cache_dir), console.print)
    if missing and surveys[0].has_pairs:  # without pairs, cleaning says why
        overrides += choose_languages(surveys, missing)
        config = compose_config(overrides)
    print_listings([tabulate_files(surveys), tabulate_languages(surveys)], console)
    with TemporaryDirectory() as folder:
        rejected = Path(config.data.rejected_file or Path(folder) / "rejected.tsv")
        data = replace(config.data, rejected_file=str(rejected))
        corpus = prepare_corpus(replace(config, data=data), console)
        examples = tabulate_examples(rejected.expanduser(), arguments.examples)
    lengths = Lengths([*corpus.train, *corpus.dev, *corpus.test])
    console.print(rejection_table(corpus))
    console.print()
    print_listings([examples] * bool(examples.rows) + [lengths.as_listing()], console)
    console.print("Characters of the source, and pairs:", *lengths.as_bars(), sep="\n")
    if arguments.plot is not None:
        from nmt.analysis.corpora.plot import draw_lengths

        save_figure(draw_lengths(lengths, config.data.languages), arguments.plot)
        console.print(f"\nwritten to {arguments.plot}")
    console.print(f"\nTrain on it:\n  {shlex.join(['python', '-m', 'nmt.train', *overrides])}")


def list_files(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that are files or patterns of them, not overrides."""
    return [each for each in arguments if "=" not in each or Path(each).exists()]


def check_files(names: Sequence[str]) -> None:
    """Check that files exist, and report a missing one by its name alone, as it is given.

    Raises:
        UserError: one does not.
    """
    from nmt.data.opening import explain_absence, matching_files

    for path in (path for name in names for path in matching_files(name)):
        if not path.exists():
            raise UserError(f"{path} {explain_absence(path)}")


def make_overrides(arguments: Sequence[str]) -> list[str]:
    """Return overrides of nmt.train for files of pairs and other overrides.

    Raises:
        UserError: there are more than two files.
    """
    files = list_files(arguments)
    overrides = [each for each in arguments if each not in files]
    if len(files) > 2:
        raise UserError(
            f"{len(files)} files are given: a corpus is one file of pairs, or two aligned files; "
            "several files of pairs are a pattern in quotes, 'pairs-*.tsv'"
        )
    if not files:
        return overrides
    names = ",".join(map(quote_if_needed, files))
    train = f"[{names}]" if len(files) > 1 and "'" in names else names
    return ["data=files", f"data.train={train}", *overrides]


def choose_languages(surveys: Sequence[SourceSurvey], missing: Sequence[str]) -> list[str]:
    """Return overrides that set the missing languages to those that were identified.

    Raises:
        UserError: they were not.
    """
    keys = ("data.source_language", "data.target_language")
    identified = dict(zip(keys, surveys[0].languages, strict=True))
    unknown = [key for key in missing if identified[key] is None]
    if unknown:
        tags = " ".join(f"{key}=TAG" for key in unknown)
        raise UserError(f"too little text to identify the languages by: give {tags}")
    return [f"{key}={identified[key]}" for key in missing]
