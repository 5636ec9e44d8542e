"""``nmt.inspect quality``: fit the confidence of a run, and measure it."""

from __future__ import annotations

import argparse
import random
from typing import TYPE_CHECKING

from rich.console import Console

from nmt.analysis.tables import Listing, print_listings
from nmt.arguments import Subcommands, add_run
from nmt.errors import UserError
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start

if TYPE_CHECKING:
    from nmt.data.corpus import Corpus
    from nmt.inference.quality_model import QualityModel

_SEED = 7  # of the changes to test pairs; those of the fit have another


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "quality",
        help="fit the confidence of a run on its dev split, and measure it on its test split",
        description="Fit the lexicon of alignments (lexicon.npz) and the confidence (quality.json) "
        "of a run, as training does at its end, and write both into its folder. Then measure on "
        "the test split how well confidence tells the chrF2++ of a translation.",
    )
    add_run(parser)
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Fit the confidence of a run, and print how good it is."""
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.inference.quality_fitting import fit_run
        from nmt.runs.corpus import read_corpus

        corpus = read_corpus(folder, console.print)
        model = fit_run(folder, corpus, console.print)
    if model is None:
        raise UserError(f"{folder.path} got no confidence: see the message above")
    console.print(f"written to {folder.path}: confidence and the lexicon of alignments")
    if corpus.test:
        listings = tabulate(folder, corpus, model)
        print_listings(listings, console)
        if not listings:
            console.print(
                "the confidence was not measured: every test source is longer than a row, or has "
                "nothing to translate, such as a number"
            )


def tabulate(folder: RunFolder, corpus: Corpus, model: QualityModel) -> list[Listing]:
    """Return the tables of how well confidence tells the quality of test translations.

    Tables without rows are left out.
    """
    from nmt.data.contexts import remove_contexts
    from nmt.inference.quality_fitting import (
        change_pairs,
        compare_with_log_probs,
        rank_words,
        translate_and_score,
    )
    from nmt.inference.translator import Translator

    translator = Translator.load(folder, unit="line")
    sentences, words = [], []
    tags = translator.segmenter.tags
    changed = change_pairs(remove_contexts(corpus.test, tags), random.Random(_SEED), tags)
    for name, pairs in (("test", corpus.test), ("changed", changed)):
        samples = translate_and_score(translator, pairs, model.lexicon)
        if not samples:
            continue
        for value, correlation in compare_with_log_probs(model, samples).items():
            sentences.append([name, value, *(f"{number:.3f}" for number in correlation)])
        for value, area in rank_words(model, samples).items():
            words.append([name, value, f"{area:.3f}"])
    listings = [
        Listing(
            "Confidence of sentences",
            "Pearson's correlation and Kendall's tau-b with the chrF2++ of each translation, and "
            "the share of the worst tenth by chrF2++ that is in the lowest tenth. "
            "Log-probability: of all tokens, EOS included. Changed: sources with typing errors, "
            "without accents and so on, or shuffled.",
            ["sentences", "by", "Pearson", "Kendall", "worst tenth"],
            sentences,
        ),
        Listing(
            "Confidence of words",
            "Area under the curve: how often a word that the reference has is ranked above one "
            "that it lacks; 0.5 is chance.",
            ["sentences", "by", "area"],
            words,
        ),
    ]
    return [listing for listing in listings if listing.rows]
