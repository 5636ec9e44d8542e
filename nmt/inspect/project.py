"""``nmt.inspect project``: embeddings for TensorBoard's projector."""

from __future__ import annotations

import argparse

from rich.console import Console

from nmt.arguments import Subcommands, add_run
from nmt.errors import UserError
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "project",
        help="write the embeddings for TensorBoard's projector",
        description="Write the run's embeddings, with a label for every token, where TensorBoard's "
        "projector finds them.",
    )
    add_run(parser)
    parser.add_argument(
        "--no-counts",
        action="store_true",
        help="omit how often each token occurs on each side of the training split, which needs the "
        "corpus",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Write the run's embeddings beside its event files."""
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.analysis.dashboard.projector import Counts, write_projector
        from nmt.config.data import list_tags
        from nmt.data.encoded import encode_pairs
        from nmt.data.prepared import PreparedCorpus
        from nmt.runs.corpus import read_corpus

        model, tokenizer = folder.load_model(), folder.load_tokenizer()
    data, counts = folder.config.data, None
    if not arguments.no_counts:
        corpus = read_corpus(folder, console.print)
        if isinstance(corpus, PreparedCorpus):
            raise UserError(f"{corpus.folder} has no text to count tokens in: add --no-counts")
        counts = Counts.of(
            encode_pairs(corpus.train, tokenizer),  # in memory: writes no file
            tokenizer.vocabulary_size,
            data.languages,
        )
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    encoded_tags = tokenizer.encode(list_tags(data))
    tags = [int(ids[0]) for ids in encoded_tags if len(ids) == 1]  # WordPiece splits tags
    for path in write_projector(folder.logs, model.token_table(), pieces, counts, tags):
        console.print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    console.print(
        f"to see them, restart tensorboard --logdir {folder.path.parent} and open Projector"
    )
