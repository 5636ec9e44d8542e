"""``nmt.inspect align``: word alignments."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from nmt.analysis.tables import print_listings
from nmt.arguments import (
    SET_TERMINAL,
    Subcommands,
    add_encoding,
    add_run,
    check_decoded,
    check_pair_files,
)
from nmt.data.evaluation_sets import read_parallel
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.files import write_json
from nmt.inference.text_files import check_not_input, open_output
from nmt.runs.folder import RunFolder
from nmt.startup.console import make_console
from nmt.startup.progress import track
from nmt.startup.quiet import quiet_start
from nmt.text.cleaning import clean_input

if TYPE_CHECKING:
    import numpy as np

    from nmt.analysis.heads.alignment import Method, SentencePair
    from nmt.inference.translator import Translator

_SAMPLED = 256  # pairs by which a head is chosen


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "align",
        help="word alignments: which source word became which target word",
        description="Word alignments, one line per pair in Pharaoh format: "
        "0-0 2-1 links source words 0 and 2 to target words 0 and 1. Words are separated by white "
        "space; a punctuation mark is a separate word, and in scripts without spaces each letter.",
    )
    parser.add_argument("sentences", nargs="*", help="sentences to translate and align")
    add_run(parser)
    parser.add_argument(
        "--source", type=Path, metavar="FILE", help="align the lines of this file ..."
    )
    parser.add_argument(
        "--reference", type=Path, metavar="FILE", help="... with their translations, line by line"
    )
    add_encoding(parser)
    parser.add_argument(
        "--gold",
        type=Path,
        metavar="FILE",
        help="compare all methods with manual alignments: lines of source TAB target TAB links "
        "(0-1 sure, 0?1 possible), words separated by spaces",
    )
    parser.add_argument("--words", action="store_true", help="print source ||| target ||| links")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write to this file instead of standard output; with --gold, also as JSON",
    )
    method = parser.add_argument_group(
        "method",
        "Default: cross-attention of one layer, without what all words attend to, weighed by the "
        "run's lexicon of translated pieces. The options below read plain cross-attention; without "
        "--head and --best-head as the mean of heads, without --layer of all layers.",
    )
    method.add_argument("--mean", action="store_true", help="the mean of all layers and heads")
    method.add_argument("--layer", type=int, metavar="N", help="this layer, from 1")
    method.add_argument("--head", type=int, metavar="N", help="this head of it, from 1")
    method.add_argument(
        "--best-head",
        action="store_true",
        help="the head, of the layer or of all layers, with the most mutual information of source "
        f"and target words on the first {_SAMPLED} pairs",
    )
    method.add_argument(
        "--shifted",
        action="store_true",
        help="use the position that reads a word, not the one that writes it (Chen et al. 2020)",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Align sentences or files, or compare methods with manual alignments."""
    check_arguments(arguments)
    folder = RunFolder.open(arguments.run)
    pairs = []
    if arguments.source is not None:
        pairs = read_parallel(arguments.source, arguments.reference, arguments.encoding)
    with quiet_start():
        from nmt.analysis.heads.alignment import SentencePair, find_links, format_links
        from nmt.inference.translator import Translator

        has_heads = arguments.gold is not None or _names_heads(arguments)
        translator = Translator.load(folder, engine="keras" if has_heads else "auto")
    if arguments.gold is not None:
        compare_with_gold(arguments, translator, console)
        return
    candidates = list_candidates(arguments, translator) if has_heads else []
    if arguments.sentences:
        outputs = translator.translate(arguments.sentences)
        pairs = [Pair(*both) for both in zip(arguments.sentences, outputs, strict=True)]
    texts = [SentencePair.of(clean_input(pair.source), clean_input(pair.target)) for pair in pairs]
    notes = make_console(stderr=True)
    with open_output(arguments.output) as out:
        # No bar between the lines of the output if both go to the terminal.
        shown = out is not sys.stdout or not out.isatty()
        steps = track(
            weigh(translator, texts, candidates, notes), len(texts), "aligning", notes, shown=shown
        )
        too_long = 0
        for pair, weights in zip(texts, steps, strict=True):
            links = frozenset() if weights is None else find_links(weights)
            too_long += weights is None and bool(pair.source_words and pair.target_words)
            line = format_links(links)
            if arguments.words:
                line = " ||| ".join([*map(" ".join, pair.words()), line])
            print(line, file=out)
    if too_long:
        warnings.warn(
            f"{too_long:,} pairs are longer than the {translator.engine.max_length} positions of "
            "the model: their lines have no links",
            stacklevel=1,
        )


def weigh(
    translator: Translator,
    pairs: Sequence[SentencePair],
    candidates: Sequence[Method],
    notes: Console,
) -> Iterator[np.ndarray | None]:
    """Yield the weights [target words, source words + 1] of each pair: see `align`.

    Args:
        translator: aligns, or returns the attention of heads if there are candidates.
        pairs: sentences to align.
        candidates: methods to read plain attention; the most informative is chosen.
        notes: where the chosen method is printed.
    """
    from nmt.analysis.heads.alignment import align, align_heads, choose_most_informative, select

    if not candidates:
        yield from align(translator, pairs)
        return
    heads = align_heads(translator, pairs)
    first = list(islice(heads, _SAMPLED))
    sample = [weights for weights in first if weights is not None]
    method = choose_most_informative(sample, candidates)
    notes.print(f"links by {method}")
    for weights in chain(first, heads):
        yield None if weights is None else select(weights, method)


def _names_heads(arguments: argparse.Namespace) -> bool:
    """Whether the options ask for plain attention."""
    return bool(
        arguments.mean or arguments.layer is not None or arguments.best_head or arguments.shifted
    )


def check_arguments(arguments: argparse.Namespace) -> None:
    """Check that the options fit together.

    Raises:
        UserError: the inputs are missing, ambiguous or undecodable, options of the method
            contradict each other, or the output is one of the inputs.
    """
    check_decoded(arguments.sentences, {}, SET_TERMINAL)
    inputs = [bool(arguments.sentences), arguments.source is not None, arguments.gold is not None]
    if sum(inputs) != 1:
        raise UserError("give sentences, or --source with --reference, or --gold")
    check_pair_files(arguments)
    if arguments.head is not None and arguments.layer is None:
        raise UserError(f"--head {arguments.head} needs --layer")
    if arguments.mean and (arguments.layer is not None or arguments.best_head):
        raise UserError("--mean is of all layers and heads: leave --layer and --best-head out")
    if arguments.head is not None and arguments.best_head:
        raise UserError("give --head or --best-head, not both")
    if arguments.gold is not None and (_names_heads(arguments) or arguments.words):
        raise UserError(
            "--gold compares all methods: leave --mean, --layer, --head, --best-head, --shifted "
            "and --words out"
        )
    check_not_input(arguments.output, arguments.source, arguments.reference, arguments.gold)


def list_candidates(arguments: argparse.Namespace, translator: Translator) -> list[Method]:
    """Return the methods among which the best one is chosen.

    Raises:
        UserError: the model has no such layer or head.
    """
    from nmt.analysis.heads.alignment import list_methods

    model = translator.keras_engine("attention").model
    crossing = [kind for kind in model.attention_kinds if kind.is_cross]
    attention = model.attention_layers(crossing[0].name)
    layers, heads = len(attention), attention[0].num_heads
    limits = (("--layer", arguments.layer, layers), ("--head", arguments.head, heads))
    for name, value, maximum in limits:
        if value is not None and not 1 <= value <= maximum:
            raise UserError(f"{name} {value}: the run's cross-attention has 1 to {maximum}")
    return [
        method
        for method in list_methods(layers, heads, shifted=arguments.shifted)
        if (
            method.head is not None and arguments.layer in (None, method.layer)
            if arguments.best_head
            else (method.layer, method.head) == (arguments.layer, arguments.head)
        )
    ]


def compare_with_gold(
    arguments: argparse.Namespace, translator: Translator, console: Console
) -> None:
    """Print the error rates of every method on manual alignments.

    Raises:
        UserError: the file is malformed, has fewer than two pairs, or a pair is too long for the
            model.
    """
    from nmt.analysis.heads.alignment import align, align_heads
    from nmt.analysis.heads.gold import Comparison, read_gold

    gold = read_gold(arguments.gold)
    if len(gold) < 2:
        raise UserError(f"{arguments.gold} has one pair: cross-validation needs at least two")
    sentences = [pair.sentences for pair in gold]
    weights = []
    for number, pair_weights in enumerate(align_heads(translator, sentences), start=1):
        if pair_weights is None:
            raise UserError(f"{arguments.gold}: pair {number} is too long for the model")
        weights.append(pair_weights)
    aligned = [each for each in align(translator, sentences) if each is not None]
    comparison = Comparison(gold, weights, aligned)
    print_listings(comparison.tabulate(), console)
    if arguments.output is not None:
        write_json(arguments.output, comparison.as_json())
