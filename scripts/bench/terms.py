"""Measure how well a run uses the terms of a glossary. Prints a Markdown table.

    python scripts/bench/terms.py --run RUN

The glossary has words of the test split with the words that its references use for them, most
often or (--rare) least often; frequent words are left out. It is applied to the whole split: a term
counts as used if the translation has its target, whether or not the reference of that sentence has
it. The alignment that finds the words is that of the run's lexicon.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.data.splitting import Pair
    from nmt.inference.contract import SearchRequest
    from nmt.inference.translator import Translator
    from nmt.runs.folder import RunFolder
    from nmt.text.terms import Glossary, Term

FREQUENT = 150  # words of the training sources that no glossary would have
LEAST_LETTERS = 4


def main() -> None:
    from nmt.arguments import positive_int

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, default=Path("runs/latest"), help="(%(default)s)")
    parser.add_argument("--terms", type=positive_int, default=500, help="(%(default)s)")
    parser.add_argument("--rare", action="store_true", help="the least frequent translations")
    parser.add_argument("--examples", type=int, default=0, help="sentences to print that changed")
    parser.add_argument("--seed", type=int, default=1, help="of the choice (%(default)s)")
    arguments = parser.parse_args()

    from nmt.errors import exit_on_user_error
    from nmt.startup.commands import set_up_translation

    set_up_translation()
    exit_on_user_error(lambda: run(arguments))


def run(arguments: argparse.Namespace) -> None:
    """Measure the run that the command line names, and print the table.

    Raises:
        UserError: the run, its test split or its lexicon cannot be read.
    """
    from nmt.inference.contract import SearchRequest
    from nmt.inference.translator import Translator
    from nmt.runs.corpus import read_corpus
    from nmt.runs.folder import RunFolder
    from nmt.text.terms import Glossary

    folder = RunFolder.open(arguments.run)
    pairs = read_corpus(folder, print).scored_pairs("test")
    translator = Translator.load(folder.path)
    terms = choose_terms(folder, pairs, arguments)
    glossary = Glossary(terms, folder.config.data.languages)
    print(f"{len(terms)} terms, such as {', '.join(f'{a} → {b}' for a, b, _ in terms[:8])}")
    ways = {"none": SearchRequest(), "hard": SearchRequest(glossary=glossary)}
    if translator.segmenter.annotates_terms:
        ways["soft"] = SearchRequest(glossary=glossary, forces_terms=False)
    print("| terms | found | used | BLEU | seconds |\n| --- | ---: | ---: | ---: | ---: |")
    outputs = {name: measure(translator, glossary, pairs, name, ways[name]) for name in ways}
    changed = [i for i, text in enumerate(outputs["none"]) if text != outputs["hard"][i]]
    for i in random.Random(arguments.seed).sample(changed, min(len(changed), arguments.examples)):
        found = [(match.term.source, match.term.target) for match in glossary.find(pairs[i].source)]
        print(f"\n{pairs[i].source}  {found}")
        for name, texts in outputs.items():
            print(f"  {name}: {texts[i]}")


def choose_terms(
    folder: RunFolder, pairs: Sequence[Pair], arguments: argparse.Namespace
) -> list[Term]:
    """Return terms of a test split: source words, and the words of references for them."""
    from nmt.data.term_noise import TermAnnotator
    from nmt.errors import UserError
    from nmt.inference.lexicon import LEXICON_FILE, Lexicon
    from nmt.text.terms import Term

    lexicon, words = Lexicon.load(folder.path), folder.load_source_words()
    if lexicon is None or words is None:
        raise UserError(f"{folder.path} has no {LEXICON_FILE}: train a run, which writes it")
    frequent = set(list(words.counts)[:FREQUENT])
    annotator = TermAnnotator(folder.load_tokenizer(), lexicon.weigh)
    targets: dict[str, Counter[str]] = defaultdict(Counter)
    for source, target in pairs:
        for end, word in annotator.link_words(source, target):
            begin = max(source[:end].rfind(" ") + 1, 0)
            term = source[begin:end].strip("¿¡\"«“'(").lower()
            if len(term) >= LEAST_LETTERS and term not in frequent and word.islower():
                targets[term][word] += 1
    ranked = {
        term: counts.most_common()[-1 if arguments.rare else 0][0]
        for term, counts in targets.items()
    }
    chosen = sorted(ranked.items())
    random.Random(arguments.seed).shuffle(chosen)
    return [Term(*pair) for pair in chosen[: arguments.terms]]


def measure(
    translator: Translator,
    glossary: Glossary,
    pairs: Sequence[Pair],
    name: str,
    request: SearchRequest,
) -> list[str]:
    """Translate a split, print its row, and return the translations."""
    from sacrebleu import corpus_bleu

    begin = time.monotonic()
    texts = [best.text for best, *_ in translator.run([pair.source for pair in pairs], request)]
    seconds = time.monotonic() - begin
    uses = [
        glossary.is_used(match.term, text)
        for pair, text in zip(pairs, texts, strict=True)
        for match in glossary.find(pair.source)
    ]
    bleu = corpus_bleu(texts, [[pair.target for pair in pairs]]).score
    print(f"| {name} | {len(uses):,} | {sum(uses) / len(uses):.1%} | {bleu:.2f} | {seconds:.1f} |")
    return texts


if __name__ == "__main__":
    main()
