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
        description="Write the run's embeddings, with a label for every piece, where TensorBoard's "
        "projector finds them.",
    )
    add_run(parser)
    parser.add_argument(
        "--no-counts",
        action="store_true",
        help="leave out how often each piece stands on each side of the training split: the "
        "corpus is not needed then",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Write the run's embeddings beside its events."""
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.analysis.dashboard.projector import Counts, write_projector
        from nmt.data.encoded import encode_pairs
        from nmt.data.prepared import PreparedCorpus
        from nmt.runs.corpus import read_corpus

        model, tokenizer = folder.load_model(), folder.load_tokenizer()
    counts = None
    if not arguments.no_counts:
        corpus = read_corpus(folder, console.print)
        if isinstance(corpus, PreparedCorpus):
            raise UserError(f"{corpus.folder} keeps no text to count in: add --no-counts")
        data = folder.config.data
        counts = Counts.of(
            encode_pairs(corpus.train, tokenizer),  # in memory: nothing is written for a reader
            tokenizer.vocabulary_size,
            data.languages,
        )
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    for path in write_projector(folder.logs, model.token_table(), pieces, counts):
        console.print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    console.print(
        f"to see them: tensorboard --logdir {folder.path.parent}, started anew, and there Projector"
    )
