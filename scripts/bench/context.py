"""Measure what a run gains from the sentences before a sentence. Prints two Markdown tables.

    python scripts/bench/context.py --run CONTEXT_RUN --baseline RUN

Both runs have the same split, and only the first was trained with `data.context`. It translates its
test split with the true contexts, without any, and with those of other sentences: a run that reads
its contexts is worse with the last.

Then references are compared with contrastive ones, in which the pronouns for a man, for a woman or
for several are those for others (Müller et al. 2018): how often does the model give the reference
the higher probability? "he" and "she" are exchanged, and so are "him", "her" and "them", "his",
"her" and "their"; but not "he" and "they", as the verb tells them apart. A reference with pronouns
of several kinds is left out. In Spanish references, "you" after a preposition is exchanged: "para
ti" and "para vosotros", "contigo" and "con vosotros", unless another pronoun tells the number; a
verb may. (The verses have no "usted".)
"""

from __future__ import annotations

import argparse
import math
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nmt.data.splitting import Pair
    from nmt.inference.translator import Translator

# Kind -> its forms: subject, object, possessive with and without a noun, reflexive.
PRONOUNS = {
    "man": ("he", "him", "his", "his", "himself"),
    "woman": ("she", "her", "her", "hers", "herself"),
    "several": ("they", "them", "their", "theirs", "themselves"),
}
ONE, SEVERAL = "one person", "several"
SUBJECT, OBJECT, POSSESSIVE = 0, 1, 2
_PRONOUN = re.compile(
    rf"\b(?:{'|'.join({form for forms in PRONOUNS.values() for form in forms})})\b", re.I
)
# Words after which "her" is an object: "he gave her to", not "her house".
_AFTER_OBJECT = re.compile(
    r"(?:\W*$|\s*[^\w\s]|\s+(?:a|about|after|all|alone|an|and|as|at|away|back|because|before|but|by|down"
    r"|for|from|her|his|if|in|into|no|not|of|off|on|or|out|over|so|than|that|the|their|there|these"
    r"|this|those|to|until|up|when|where|which|who|whom|with)\b)",
    re.I,
)
# "You" after a preposition, of one person and of several.
_PREPOSITIONS = "a|á|ante|contra|de|en|entre|hacia|para|por|sin|sobre|tras"
_TO_ONE = re.compile(rf"\b(?:(?P<before>{_PREPOSITIONS}) ti|(?P<con>con)tigo)\b", re.I)
_TO_SEVERAL = re.compile(rf"\b(?:(?P<before>{_PREPOSITIONS})|(?P<con>con)) vosotros\b", re.I)
# Other pronouns and adjectives can show whether "you" is singular or plural: "a ti te digo".
_TELLS_NUMBER = re.compile(
    r"\b(?:t[eúu]|tus|tuy[oa]s?|os|vuestr[oa]s?|mism[oa]s?|sol[oa]s?|tod[oa]s?|much[oa]s)\b", re.I
)
_SPANISH_SUBJECT = re.compile(r"\b(?:él|ella|ellos|ellas)\b", re.I)


class Contrast(NamedTuple):
    """A test pair, and references that say something else."""

    number: int  # of the pair
    kind: str  # of the pronouns
    corrupted: list[str]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="trained with data.context")
    parser.add_argument("--baseline", type=Path, required=True, help="trained without")
    parser.add_argument("--seed", type=int, default=1, help="of the exchange (%(default)s)")
    parser.add_argument("--examples", type=int, default=0, help="contrasts to print")
    arguments = parser.parse_args()

    from nmt.errors import exit_on_user_error
    from nmt.startup.commands import set_up_translation

    set_up_translation()
    exit_on_user_error(lambda: run(arguments))


def run(arguments: argparse.Namespace) -> None:
    """Measure the runs that the command line names, and print the tables.

    Raises:
        UserError: a run cannot be read, reads no contexts, or has another test split.
    """
    from nmt.data.contexts import remove_contexts
    from nmt.errors import UserError
    from nmt.inference.translator import Translator
    from nmt.runs.corpus import read_corpus
    from nmt.runs.folder import RunFolder

    folder, baseline = RunFolder.open(arguments.run), RunFolder.open(arguments.baseline)
    if not folder.config.data.context or baseline.config.data.context:
        raise UserError("--run needs a run with data.context, and --baseline one without")
    pairs = read_corpus(folder, print).test
    bare = remove_contexts(pairs)
    if read_corpus(baseline, print).test != bare:
        raise UserError(f"{baseline.path} has another test split: train both runs on one corpus")
    translators = {
        "baseline": Translator.load(baseline.path, unit="line"),
        "context": Translator.load(folder.path, unit="line"),
    }
    ways = {
        "without": ("baseline", bare),
        "true context": ("context", pairs),
        "no context": ("context", bare),
        "context of another": ("context", exchange_contexts(pairs, arguments.seed)),
    }
    print_scores(translators, ways, bare)
    contrasts = list_contrasts(bare, folder.config.data.languages[1])
    for contrast in contrasts[: arguments.examples]:
        print(f"{contrast.kind}: {pairs[contrast.number]}\n  {contrast.corrupted}")
    print_contrasts(translators, ways, bare, contrasts)


def exchange_contexts(pairs: Sequence[Pair], seed: int) -> list[Pair]:
    """Return pairs with the contexts of others; those without a context have none."""
    from nmt.data.splitting import Pair
    from nmt.text.context import split_context

    sources = [split_context(pair.source) for pair in pairs]
    numbers = [i for i, (context, _) in enumerate(sources) if context]
    random.Random(seed).shuffle(numbers)
    moved = dict(zip(numbers, numbers[1:] + numbers[:1], strict=True))
    return [
        Pair(sources[moved.get(i, i)][0] + sources[i][1], pair.target)
        for i, pair in enumerate(pairs)
    ]


def print_scores(
    translators: dict[str, Translator], ways: dict[str, tuple[str, list[Pair]]], bare: list[Pair]
) -> None:
    """Translate the pairs in each way; print the scores, and the p-values against the first way."""
    from nmt.inference.metrics import corpus_scores
    from nmt.inference.significance import compare_outputs

    references = [pair.target for pair in bare]
    print(f"{len(references):,} sentences\n")
    print("| run | BLEU | p | chrF2++ | p |\n| --- | ---: | ---: | ---: | ---: |")
    first: list[str] = []
    for name, (run_name, pairs) in ways.items():
        translator = translators[run_name]
        outputs = translator.translate([pair.source for pair in pairs])
        first = first or outputs
        language = translator.joiner.language
        compared = compare_outputs(first, outputs, references, language=language)
        names = ("BLEU", "chrF2++")
        cells = []
        for score in corpus_scores(
            outputs, references, language=language, names=names, intervals=True
        ):
            p_value = compared[score.name].p_value
            cells += [f"{score.value:.2f} ± {score.half_width:.2f}", f"{p_value:.3f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def list_contrasts(pairs: Sequence[Pair], language: str) -> list[Contrast]:
    """Return the pairs whose references have pronouns of one kind, with contrastive references."""
    exchange = exchange_number if language == "es" else exchange_pronouns
    contrasts = (exchange(number, pair.target) for number, pair in enumerate(pairs))
    return [contrast for contrast in contrasts if contrast is not None]


def exchange_pronouns(number: int, text: str) -> Contrast | None:
    """Return the contrast of an English text with other pronouns; None if it has no pronouns."""
    kind = find_kind(text)
    if kind is None:
        return None
    others = (corrupt(text, kind, other) for other in PRONOUNS if other != kind)
    corrupted = [other for other in others if other is not None]
    return Contrast(number, kind, corrupted) if corrupted else None


def exchange_number(number: int, text: str) -> Contrast | None:
    """Return the contrast of a Spanish text in which "you" is of the other number.

    None: it has no "you" after a preposition, or another word tells its number.
    """

    def to_several(match: re.Match[str]) -> str:
        return f"{match['before'] or match['con']} vosotros"

    def to_one(match: re.Match[str]) -> str:
        return f"{match['before']} ti" if match["before"] else f"{match['con']}tigo"

    rest = _TO_SEVERAL.sub("", _TO_ONE.sub("", text))
    ones, several = _TO_ONE.search(text), _TO_SEVERAL.search(text)
    if bool(ones) == bool(several) or _TELLS_NUMBER.search(rest) or "vosotros" in rest.lower():
        return None
    if ones:
        return Contrast(number, ONE, [_TO_ONE.sub(to_several, text)])
    return Contrast(number, SEVERAL, [_TO_SEVERAL.sub(to_one, text)])


def find_kind(text: str) -> str | None:
    """Return the kind of the pronouns of an English text; None: no kind, or several."""
    forms = {match[0].lower() for match in _PRONOUN.finditer(text)}
    kinds = [kind for kind in PRONOUNS if forms.intersection(PRONOUNS[kind])]
    return kinds[0] if len(kinds) == 1 else None


def corrupt(text: str, kind: str, other: str) -> str | None:
    """Return an English text whose pronouns of one kind are of another.

    None: the verb would show it, as in "he sees" and "they see".
    """
    is_verb_fixed = "several" in (kind, other)

    def exchange(match: re.Match[str]) -> str:
        form = match[0]
        role = PRONOUNS[kind].index(form.lower())
        if form.lower() == "her":
            role = OBJECT if _AFTER_OBJECT.match(text[match.end() :]) else POSSESSIVE
        new = PRONOUNS[other][role]
        return new.capitalize() if form[0].isupper() else new

    subjects = {forms[SUBJECT] for forms in PRONOUNS.values()}
    if is_verb_fixed and any(match[0].lower() in subjects for match in _PRONOUN.finditer(text)):
        return None
    return _PRONOUN.sub(exchange, text)


def print_contrasts(
    translators: dict[str, Translator],
    ways: dict[str, tuple[str, list[Pair]]],
    bare: Sequence[Pair],
    contrasts: Sequence[Contrast],
) -> None:
    """Print how often the reference is more probable than all contrastive ones, by kind."""
    columns = {
        "all": [True] * len(contrasts),
        "source without él, ella, ellos, ellas": [
            not _SPANISH_SUBJECT.search(bare[each.number].source) for each in contrasts
        ],
    } | {
        kind: [each.kind == kind for each in contrasts]
        for kind in dict.fromkeys(each.kind for each in contrasts)
    }
    heads = [f"{name} ({sum(chosen):,})" for name, chosen in columns.items()]
    print(f"\n| run | {' | '.join(heads)} | p, all |\n| --- |{' ---: |' * (len(heads) + 1)}")
    first: list[bool] = []
    for name, (run_name, pairs) in ways.items():
        wins = judge(translators[run_name], pairs, contrasts)
        first = first or wins
        cells = [f"{share_of(wins, chosen):.1%}" for chosen in columns.values()]
        print(f"| {name} | {' | '.join(cells)} | {mcnemar(first, wins):.3f} |", flush=True)


def share_of(wins: Sequence[bool], chosen: Sequence[bool]) -> float:
    """Return the share of wins among the chosen contrasts; NaN: none is chosen."""
    counted = [win for win, is_chosen in zip(wins, chosen, strict=True) if is_chosen]
    return sum(counted) / len(counted) if counted else math.nan


def judge(
    translator: Translator, pairs: Sequence[Pair], contrasts: Sequence[Contrast]
) -> list[bool]:
    """Return for each contrast whether its reference is more probable than every other."""
    from nmt.data.encoded import fit_contexts
    from nmt.data.splitting import Pair

    segmenter = translator.segmenter
    scored = [
        Pair(pairs[each.number].source, target)
        for each in contrasts
        for target in (pairs[each.number].target, *each.corrupted)
    ]
    fitted = fit_contexts(scored, translator.tokenizer, segmenter.max_tokens, segmenter.tags)
    scores = (score.log_prob for score in translator.score(fitted))
    return [next(scores) > max([next(scores) for _ in each.corrupted]) for each in contrasts]


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Return the p-value of "no difference" by McNemar's exact test, two-sided."""
    from nmt.inference.significance import sign_test

    gained = sum(b and not a for a, b in zip(first, second, strict=True))
    lost = sum(a and not b for a, b in zip(first, second, strict=True))
    return sign_test(gained, lost)


if __name__ == "__main__":
    main()
