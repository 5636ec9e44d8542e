"""Slices: kinds of sentences that a comparison looks at one by one."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from nmt.data.contexts import remove_contexts
from nmt.data.corpus import Corpus
from nmt.data.prepared import PreparedCorpus
from nmt.errors import UserError
from nmt.runs.folder import RunFolder
from nmt.text.case import LetterCase, recognize_case
from nmt.text.scripts import primary_subtag
from nmt.text.sentences import split_sentences
from nmt.text.spans import find_spans
from nmt.text.words import find_words, group_by_length

FREQUENCIES = (0, 1, 10, 100, 1000, 10_000)  # occurrences in training: lower bounds of the classes
_LETTER = re.compile(r"[^\W\d_]")
_DIGIT = re.compile(r"\d")
_JOINTS = re.compile("['’-]")  # inside of a word
_MARKS = {
    "the source is a question": re.compile("[?？؟]"),
    "the source is an exclamation": re.compile("[!！]"),
    "the source has commas": re.compile("[,、，،]"),
    "the source has quotation marks": re.compile('["«»“”„「」]'),
    "the source has colons, semicolons, dashes or brackets": re.compile(r"[:;：；–—()\[\]]"),
}
_FUNCTION_WORDS = 100
# Words that negate, and words for numbers from two on, by primary subtag of a BCP 47 tag.
_NEGATIONS = {
    "es": "no ni nunca jamás nada nadie ningún ninguno ninguna ningunos ningunas tampoco sin",
    "en": "not no never nothing nobody none neither nor nowhere without cannot",
    "fr": "ne n pas jamais rien personne aucun aucune ni sans nullement",
    "de": "nicht kein keine keinen keinem keiner keines nie niemals nichts niemand weder ohne",
    "it": "non né mai niente nulla nessuno nessuna neanche nemmeno senza",
    "pt": "não nem nunca jamais nada ninguém nenhum nenhuma tampouco sem",
}
_NUMBERS = {
    "es": "dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince veinte "
    "treinta cuarenta cincuenta sesenta setenta ochenta noventa cien ciento cientos mil millón "
    "millones",
    "en": "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred hundreds thousand thousands million millions",
    "fr": "deux trois quatre cinq six sept huit neuf dix onze douze quinze vingt trente quarante "
    "cinquante soixante cent cents mille million millions",
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig vierzig "
    "fünfzig sechzig siebzig achtzig neunzig hundert tausend million millionen",
    "it": "due tre quattro cinque sette otto nove dieci undici dodici quindici venti trenta "
    "quaranta cinquanta cento mille mila milione milioni",
    "pt": "dois duas três quatro cinco seis sete oito nove dez onze doze quinze vinte trinta "
    "quarenta cinquenta cem cento mil milhão milhões",
}


class Slice(NamedTuple):
    """A kind of sentences."""

    name: str  # completes "where ...": "the source has numbers"
    family: str  # what slices of one kind share: "source length"
    members: np.ndarray  # boolean [N]

    @property
    def size(self) -> int:
        """The number of its sentences."""
        return int(self.members.sum())


@dataclass(frozen=True)
class TrainingWords:
    """How often words occur in the training pairs, in lower case."""

    source: Mapping[str, int]
    target: Mapping[str, int]  # empty if the text of the training pairs is not at hand

    @classmethod
    def count(cls, pairs: Iterable[tuple[str, str]]) -> TrainingWords:
        """Count the words of pairs of source and target."""
        counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for pair in pairs:
            for side, text in zip(counts, pair, strict=True):
                side.update(list_words(text))
        return cls(*counts)

    @cached_property
    def function_words(self) -> frozenset[str]:
        """The most frequent words of the sources, which often have no translation of their own."""
        ranked = sorted(self.source.items(), key=lambda item: (-item[1], item[0]))
        return frozenset(word for word, _ in ranked[:_FUNCTION_WORDS])


def read_training_words(
    run: RunFolder,
    read_corpus: Callable[[], Corpus],
    sources: Sequence[str],
    log: Callable[[str], object],
) -> TrainingWords:
    """Return the words that a run was trained on.

    Those of its sources alone, which it kept, if its corpus is prepared or cannot be read; none if
    most letters of ``sources`` have no case, since runs keep only words with case.

    Args:
        run: the run.
        read_corpus: returns its corpus.
        sources: sentences in the language of its sources.
        log: called with progress messages.
    """
    try:
        corpus = read_corpus()
    except UserError as error:
        log(f"frequencies are those of source words alone: {error}")
        corpus = None
    if corpus is None or isinstance(corpus, PreparedCorpus):
        words = run.load_source_words()
        letters = [letter for source in sources for letter in source if letter.isalpha()]
        has_case = 2 * sum(each.lower() != each.upper() for each in letters) >= len(letters)
        return TrainingWords(words.counts if words and has_case else {}, {})
    pairs = (pair for source in corpus.mixture for pair in source.pairs)
    return TrainingWords.count(remove_contexts(pairs))


def split_words(text: str) -> list[str]:
    """Return the words and marks of a text."""
    return [text[begin:end] for begin, end in find_words(text)]


def list_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without marks."""
    return [word.lower() for word in split_words(text) if any(map(str.isalnum, word))]


def name_frequency(low: int, above: int | None) -> str:
    """Return ``10 to 99``; ``above`` is the lower bound of the next class."""
    if above is None:
        return f"{low:,} or more"
    return f"{low:,} to {above - 1:,}" if above - 1 > low else f"{low:,}"


def frequency_classes() -> list[tuple[str, int, float]]:
    """Return name, lowest and highest number of occurrences of each class of `FREQUENCIES`."""
    bounds = [*FREQUENCIES, None]
    return [
        (name_frequency(int(low or 0), above), int(low or 0), (above or math.inf) - 1)
        for low, above in pairwise(bounds)
    ]


def make_slices(
    sources: Sequence[str],
    references: Sequence[str],
    languages: tuple[str, str],
    words: TrainingWords,
    groups: Sequence[str] = (),
) -> list[Slice]:
    """Return the slices that have sentences, but not all sentences.

    Args:
        sources: N sentences.
        references: N.
        languages: BCP 47 tags of source and target.
        words: of the training pairs; without any, slices by frequency are left out.
        groups: the document or speaker of each sentence, "" for none; empty: unknown.
    """
    slices = [
        *_slice_by_length(sources),
        *_slice_by_words(sources, references, words),
        *_slice_by_marks(sources, references, languages),
        *_slice_by_case(sources),
        *_slice_by_group(groups),
    ]
    return [each for each in slices if 0 < each.size < len(sources)]


def drop_repeated(slices: Sequence[Slice]) -> list[Slice]:
    """Return slices without those that have the same sentences as one before them."""
    distinct: dict[bytes, Slice] = {}
    for each in slices:
        distinct.setdefault(each.members.tobytes(), each)
    return list(distinct.values())


def _select(name: str, family: str, texts: Sequence[str], test: Callable[[str], Any]) -> Slice:
    return Slice(name, family, np.array([bool(test(text)) for text in texts]))


def _slice_by_length(sources: Sequence[str]) -> list[Slice]:
    slices = []
    for words, indices in group_by_length(sources).items():
        name = f"the source has {words.replace('-', ' to ')} words"
        members = np.isin(np.arange(len(sources)), indices)
        slices.append(Slice(name, "source length", members))
    return slices


def _slice_by_words(
    sources: Sequence[str], references: Sequence[str], words: TrainingWords
) -> list[Slice]:
    slices = []
    if words.target:
        counts = [[words.target.get(word, 0) for word in list_words(text)] for text in references]
        rarest = np.array([min(each, default=0) for each in counts])
        for name, low, high in frequency_classes():
            title = f"the rarest reference word occurs {name} times in training"
            members = (rarest >= low) & (rarest <= high)
            slices.append(Slice(title, "rarest reference word", members))
    if words.source:
        unseen = [
            [word for word in _list_cased_words(source) if word.lower() not in words.source]
            for source in sources
        ]
        names = [any(word[0].isupper() for word in each) for each in unseen]
        any_unseen = np.array([bool(each) for each in unseen])
        slices.append(Slice("the source has unseen words", "unseen words", any_unseen))
        slices.append(Slice("the source has unseen names", "unseen words", np.array(names)))
    return slices


def _slice_by_group(groups: Sequence[str]) -> list[Slice]:
    names = sorted(set(groups))
    numbers = {name: number for number, name in enumerate(names)}
    members = np.array([numbers[group] for group in groups])
    return [
        Slice(f"the group is {name}", "group", members == number)
        for name, number in numbers.items()
        if name
    ]


def _list_cased_words(text: str) -> list[str]:
    words = split_words(text)
    return [word for word in words if _LETTER.search(word) and not _DIGIT.search(word)]


def _slice_by_marks(
    sources: Sequence[str], references: Sequence[str], languages: tuple[str, str]
) -> list[Slice]:
    digits = np.array([bool(_DIGIT.search(source)) for source in sources])
    numbers = digits | _have_words(sources, references, languages, _NUMBERS)
    negated = _have_words(sources, references, languages, _NEGATIONS)
    slices = [
        Slice("the source has numbers", "numbers", numbers),
        Slice("the source has digits", "numbers", digits),
        Slice("the source has a negation", "negation", negated),
        _select("the source has kept spans", "kept spans", sources, _has_spans),
        _select(
            "the source has several sentences",
            "sentences",
            sources,
            lambda text: len(split_sentences(text, languages[0])) > 1,
        ),
    ]
    marks = (_select(name, "marks", sources, pattern.search) for name, pattern in _MARKS.items())
    return [*slices, *marks]


def _have_words(
    sources: Sequence[str],
    references: Sequence[str],
    languages: tuple[str, str],
    table: Mapping[str, str],
) -> np.ndarray:
    """Return whether each source has a word of the table [N].

    If the table lacks the language of the sources, references are searched.
    """
    for texts, language in zip((sources, references), languages, strict=True):
        words = frozenset(table.get(primary_subtag(language), "").split())
        if words:
            return np.array([_has_word(text, words) for text in texts])
    return np.zeros(len(sources), bool)


def _has_word(text: str, words: frozenset[str]) -> bool:
    return any(
        word in words
        or not words.isdisjoint(_JOINTS.split(word))
        or ("not" in words and word.endswith(("n't", "n’t")))
        for word in list_words(text)
    )


def _has_spans(text: str) -> bool:
    return next(find_spans(text), None) is not None


def _slice_by_case(sources: Sequence[str]) -> list[Slice]:
    cases = {LetterCase.UPPER: "in capitals", LetterCase.TITLE: "in title case"}
    recognized = [recognize_case(source) for source in sources]
    lower = [text == text.lower() != text.upper() for text in sources]
    return [
        *(
            Slice(
                f"the source is {name}",
                "letter case",
                np.array([each is case for each in recognized]),
            )
            for case, name in cases.items()
        ),
        Slice("the source is in lower case", "letter case", np.array(lower)),
    ]
