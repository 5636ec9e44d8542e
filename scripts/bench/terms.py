"""Measure how well a run uses the terms of a glossary. Prints a Markdown table.

    python scripts/bench/terms.py --run RUN

The glossary has nouns of the test split, in the singular, with the words that its references use
for them, most often or (--rare) least often. Nouns are words that follow a determiner in a tenth
or more of their occurrences in the English training sentences. The alignment that finds the words
is that of the run's lexicon.

"agreed": the glossary is applied where the reference has the targets of all terms of the sentence
(Dinu et al. 2019), and BLEU is of the whole split. "everywhere": to all sentences, also where the
reference says it in other words, which costs BLEU in any case.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.data.splitting import Pair
    from nmt.data.tokenizer import Tokenizer
    from nmt.inference.lexicon import Lexicon
    from nmt.runs.folder import RunFolder
    from nmt.text.terms import Glossary, Term

DETERMINERS = "a an the my your his her its our their this that".split()
NOUN_SHARE = 0.1  # of the occurrences of a noun, after a determiner
MIN_COUNT = 2  # occurrences in the training sentences
MIN_LETTERS = 3
MIN_PROBABILITY = 0.05  # of a translation of a word


def main() -> None:
    from nmt.arguments import positive_int

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, default=Path("runs/latest"), help="(%(default)s)")
    parser.add_argument("--terms", type=positive_int, default=500, help="(%(default)s)")
    parser.add_argument("--split", default="test", help="(%(default)s)")
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
    corpus = read_corpus(folder, print)
    pairs = corpus.scored_pairs(arguments.split)
    translator = Translator.load(folder.path)
    nouns = list_nouns([pair.target for pair in corpus.train])
    terms = choose_terms(folder, pairs, nouns, arguments)
    glossary = Glossary(terms, folder.config.data.languages)
    print(f"{len(terms)} terms, such as {', '.join(f'{a} → {b}' for a, b, _ in terms[:8])}")
    ways = {
        "none": SearchRequest(),
        "hard": SearchRequest(glossary=glossary),
        "soft": SearchRequest(glossary=glossary, forces_terms=False),
    }
    agreed = [i for i, pair in enumerate(pairs) if agrees(glossary, pair)]
    print("| terms | seconds | used, agreed | BLEU, agreed | used, everywhere | BLEU, everywhere |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    outputs: dict[str, list[str]] = {}
    for name, request in ways.items():
        begin = time.monotonic()
        translations = translator.run([pair.source for pair in pairs], request)
        seconds = time.monotonic() - begin
        texts = outputs[name] = [best.text for best, *_ in translations]
        merged = [texts[i] if i in set(agreed) else outputs["none"][i] for i in range(len(pairs))]
        cells = [
            *score(glossary, [pairs[i] for i in agreed], [texts[i] for i in agreed], pairs, merged),
            *score(glossary, pairs, texts, pairs, texts),
        ]
        print(f"| {name} | {seconds:.1f} | {' | '.join(cells)} |")
    show(glossary, pairs, outputs, agreed, arguments)


def list_nouns(texts: Sequence[str]) -> set[str]:
    """Return the English words that often follow a determiner, in the singular."""
    counts, after_determiner = Counter[str](), Counter[str]()
    for text in texts:
        words = re.findall(r"[a-z]+", text.lower())
        counts.update(words)
        after_determiner.update(word for before, word in pairwise(words) if before in DETERMINERS)
    return {
        word
        for word, count in after_determiner.items()
        if counts[word] >= MIN_COUNT
        and count >= NOUN_SHARE * counts[word]
        and len(word) >= MIN_LETTERS
        and not word.endswith("s")
    }


def choose_terms(
    folder: RunFolder, pairs: Sequence[Pair], nouns: set[str], arguments: argparse.Namespace
) -> list[Term]:
    """Return terms of a test split: source words, and the words of references for them."""
    from nmt.errors import UserError
    from nmt.inference.lexicon import LEXICON_FILE, Lexicon
    from nmt.text.terms import Term

    lexicon = Lexicon.load(folder.path)
    if lexicon is None:
        raise UserError(f"{folder.path} has no {LEXICON_FILE}: train a run, which writes it")
    tokenizer = folder.load_tokenizer()
    targets: dict[str, Counter[str]] = defaultdict(Counter)
    for source, target in pairs:
        for linked, word in link_words(tokenizer, lexicon, source, target):
            term = linked.lower()
            is_plural = term.endswith("s")
            if len(term) >= MIN_LETTERS and not is_plural and word in nouns:
                targets[term][word] += 1
    ranked = {
        term: counts.most_common()[-1 if arguments.rare else 0][0]
        for term, counts in targets.items()
    }
    chosen = sorted(ranked.items())
    random.Random(arguments.seed).shuffle(chosen)
    return [Term(*pair) for pair in chosen[: arguments.terms]]


def link_words(
    tokenizer: Tokenizer, lexicon: Lexicon, source: str, target: str
) -> Iterator[tuple[str, str]]:
    """Yield words that translate each other: each is the most probable counterpart of the other."""
    import numpy as np

    from nmt.text.words import assign_to_words, find_words

    [source_ids] = tokenizer.encode([source])
    [target_ids] = tokenizer.target.encode([target])
    words = find_words(source), find_words(target)
    sides = zip((tokenizer, tokenizer.target), (source, target), words, strict=True)
    columns, rows = (assign_to_words(side.spans(text), spans) for side, text, spans in sides)
    if (len(rows), len(columns)) != (len(target_ids), len(source_ids)):
        return
    weights = lexicon.probabilities(source_ids, target_ids)
    means = (rows / np.maximum(rows.sum(0), 1e-9)).T @ weights
    by_word = means @ (columns / np.maximum(columns.sum(0), 1e-9))  # [target words, source words]
    for column, (begin, end) in enumerate(words[0]):
        row = int(by_word[:, column].argmax())
        if int(by_word[row].argmax()) == column and by_word[row, column] >= MIN_PROBABILITY:
            yield source[begin:end], target[slice(*words[1][row])]


def agrees(glossary: Glossary, pair: Pair) -> bool:
    """Whether a source has terms, and the reference the targets of all of them."""
    matches = glossary.find(pair.source)
    return bool(matches) and all(
        all(glossary.mark_used([each.term], pair.target)) for each in matches
    )


def score(
    glossary: Glossary,
    with_terms: Sequence[Pair],
    texts: Sequence[str],
    pairs: Sequence[Pair],
    outputs: Sequence[str],
) -> list[str]:
    """Return the share of terms that translations use, and the BLEU of others."""
    from sacrebleu import corpus_bleu

    uses = [
        is_used
        for pair, text in zip(with_terms, texts, strict=True)
        for is_used in glossary.mark_used([each.term for each in glossary.find(pair.source)], text)
    ]
    bleu = corpus_bleu(list(outputs), [[pair.target for pair in pairs]]).score
    return [f"{sum(uses) / max(1, len(uses)):.1%} of {len(uses):,}", f"{bleu:.2f}"]


def show(
    glossary: Glossary,
    pairs: Sequence[Pair],
    outputs: dict[str, list[str]],
    agreed: Sequence[int],
    arguments: argparse.Namespace,
) -> None:
    """Print sentences whose translations a glossary changed."""
    changed = [i for i in agreed if outputs["none"][i] != outputs["hard"][i]]
    for i in random.Random(arguments.seed).sample(changed, min(len(changed), arguments.examples)):
        found = [(match.term.source, match.term.target) for match in glossary.find(pairs[i].source)]
        print(f"\n{pairs[i].source}  {found}")
        for name, texts in outputs.items():
            print(f"  {name}: {texts[i]}")


if __name__ == "__main__":
    main()
