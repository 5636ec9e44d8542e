"""Translate a set of pairs and score the result; compare two runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from nmt.config import DecodingConfig
from nmt.data.contexts import remove_contexts
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.files import read_json
from nmt.inference.contract import SearchRequest
from nmt.inference.metrics import References, Score, corpus_scores, sentence_scores
from nmt.inference.significance import compare_outputs
from nmt.inference.translator import Translator
from nmt.startup.progress import track
from nmt.text.words import group_by_length

T = TypeVar("T")
R = TypeVar("R")

MIN_GROUP = 20  # sentences of a document or speaker that is scored apart from others
_CHUNK = 512  # sentences between two updates of the progress bar


@dataclass(frozen=True)
class LengthClass:
    """Scores of the sentences of similar length."""

    words: str  # in the source, as "6-10" or "over 20"
    sentences: int
    scores: Sequence[Score]  # BLEU, chrF2++


@dataclass(frozen=True)
class GroupScores:
    """Scores of the sentences of one document or speaker, or of all with few sentences."""

    group: str | None  # its id; None: all groups with fewer than `MIN_GROUP` sentences
    sentences: int
    scores: Sequence[Score]  # BLEU, chrF2++


@dataclass(frozen=True)
class LanguageScores:
    """Scores of the outputs in one of several languages."""

    language: str  # BCP 47 tag
    sentences: int
    scores: Sequence[Score]  # BLEU, chrF2++


@dataclass(frozen=True)
class ScoredSentence:
    """One sentence of an evaluation."""

    source: str
    reference: str
    output: str
    score: float  # chrF2++ of this sentence


@dataclass(frozen=True)
class Evaluation:
    """Translations of a set of pairs, and their scores."""

    pairs: Sequence[Pair]
    outputs: Sequence[str]
    scores: Sequence[Score]
    language: str  # BCP 47 tag of the outputs; of several languages, the first
    groups: Sequence[str] = ()  # the document or speaker of each pair; empty: unknown
    more_references: References = ()  # besides the targets of the pairs
    # Indices of the outputs by BCP 47 tag; empty: all are in `language`.
    indices_by_language: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return scores and sentences for a file."""
        return {
            "sentences": len(self.pairs),
            "scores": {score.name: asdict(score) for score in self.scores},
            "by_length": list(map(_describe, self.by_length)),
            **({"by_group": list(map(_describe, self.by_group))} if self.groups else {}),
            **({"by_language": list(map(_describe, self.by_language))} if self.by_language else {}),
            "outputs": [
                {"source": pair.source, "reference": pair.target, "output": output}
                | ({"more_references": [each for each in more if each]} if any(more) else {})
                for pair, output, *more in zip(
                    self.pairs, self.outputs, *self.more_references, strict=True
                )
            ],
        }

    @cached_property
    def by_length(self) -> list[LengthClass]:
        """Scores of sentences with 1-5, 6-10, 11-20 and over 20 source words, or letters."""
        classes = group_by_length([pair.source for pair in self.pairs])
        return [
            LengthClass(words, len(indices), self._score(indices))
            for words, indices in classes.items()
            if indices
        ]

    @cached_property
    def by_group(self) -> list[GroupScores]:
        """Scores of each group, the lowest chrF2++ first; small groups are scored together, last.

        A group is small if it has fewer than `MIN_GROUP` sentences.
        """
        indices: dict[str, list[int]] = {}
        for index, group in enumerate(self.groups):
            indices.setdefault(group, []).append(index)
        scored: list[GroupScores] = []
        others: list[int] = []  # sentences of small groups
        for group, members in indices.items():
            if len(members) < MIN_GROUP:
                others += members
            else:
                scored.append(GroupScores(group, len(members), self._score(members)))
        scored.sort(key=lambda group: group.scores[-1].value)
        if others:
            scored.append(GroupScores(None, len(others), self._score(others)))
        return scored

    @cached_property
    def by_language(self) -> list[LanguageScores]:
        """Scores of each language by its own rules; empty if all outputs are in one language."""
        if len(self.indices_by_language) < 2:
            return []
        return [
            LanguageScores(language, len(indices), self._score(indices, language))
            for language, indices in self.indices_by_language.items()
        ]

    def _score(self, indices: Sequence[int], language: str | None = None) -> list[Score]:
        """Return BLEU and chrF2++ of some of the sentences, by default as those of all."""
        return corpus_scores(
            [self.outputs[i] for i in indices],
            [self.pairs[i].target for i in indices],
            language=language or self.language,
            more_references=[[each[i] for i in indices] for each in self.more_references],
            names=("BLEU", "chrF2++"),
        )

    def worst(self, count: int) -> list[ScoredSentence]:
        """Return the ``count`` sentences with the lowest chrF2++, the worst first."""
        if not count:
            return []
        references = [pair.target for pair in self.pairs]
        scores = sentence_scores(self.outputs, references, self.more_references)
        order = sorted(range(len(scores)), key=scores.__getitem__)[:count]
        return [ScoredSentence(*self.pairs[i], self.outputs[i], scores[i]) for i in order]

    def lines(self) -> list[str]:
        """Return one printable line per score."""
        return [
            f"{score.name:8}{score.value:6.2f}"
            + (f" ± {score.half_width:.2f}" if score.half_width is not None else "")
            + f"   {score.signature}"
            for score in self.scores
        ]


def _describe(part: LengthClass | GroupScores | LanguageScores) -> dict[str, Any]:
    """Return the fields of a part for a file, each score as a field of its own."""
    fields = {name: value for name, value in vars(part).items() if name != "scores"}
    return fields | {score.name: score.value for score in part.scores}


@dataclass(frozen=True)
class Difference:
    """Difference between the scores of a system and a baseline."""

    value: float
    p_value: float  # of "no difference": see `nmt.inference.significance`


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same pairs."""

    run: str
    other_run: str
    other_evaluation: Evaluation
    differences: dict[str, Difference]  # by metric

    def as_json(self) -> dict[str, Any]:
        """Return the differences for a file."""
        return {
            "compared_with": self.other_run,
            "compared": {
                name: {"difference": difference.value, "p_value": difference.p_value}
                for name, difference in self.differences.items()
            },
        }


def evaluate(
    translator: Translator,
    pairs: Sequence[Pair],
    console: Console,
    *,
    language: str,
    more_references: References = (),
    **search: Any,
) -> Evaluation:
    """Translate pairs and score them by BLEU, chrF2++ and TER with confidence intervals.

    Args:
        translator: translates the sources.
        pairs: sources and references.
        console: shows a progress bar.
        language: BCP 47 tag of the references.
        more_references: besides the targets of the pairs.
        search: see `SearchRequest`.

    Raises:
        UserError: ``pairs`` is empty.
    """
    if not pairs:
        raise UserError("there is nothing to evaluate: test split or files are empty")
    sources = [pair.source for pair in pairs]
    outputs = translate_with_progress(translator, sources, console, **search)
    return score_outputs(pairs, outputs, language, more_references)


def score_outputs(
    pairs: Sequence[Pair],
    outputs: Sequence[str],
    language: str,
    more_references: References = (),
) -> Evaluation:
    """Return the evaluation of translations into a language; its sources have no contexts."""
    pairs = remove_contexts(pairs)
    scores = corpus_scores(
        outputs,
        [pair.target for pair in pairs],
        language=language,
        more_references=more_references,
        intervals=True,
    )
    return Evaluation(pairs, outputs, scores, language, more_references=more_references)


def compare(
    run: str, evaluation: Evaluation, other_run: str, other_evaluation: Evaluation
) -> Comparison:
    """Compare a run with another one on the same pairs, by paired approximate randomization."""
    compared = compare_outputs(
        other_evaluation.outputs,
        evaluation.outputs,
        [pair.target for pair in evaluation.pairs],
        language=evaluation.language,
        more_references=evaluation.more_references,
    )
    differences = {
        name: Difference(test.difference, test.p_value) for name, test in compared.items()
    }
    return Comparison(run, other_run, other_evaluation, differences)


def name_search(
    decoding: DecodingConfig, *, beam_size: int | None, length_penalty: float | None
) -> str:
    """Return the options of a search for a file name: "beam_4_penalty_1" or "greedy"."""
    beam_size, alpha = SearchRequest(beam_size, length_penalty).resolve_defaults(decoding)
    return "greedy" if beam_size == 1 else f"beam_{beam_size}_penalty_{alpha:g}"


def name_apart(folder: Path, name: str, data: str, content: Mapping[str, Any]) -> str:
    """Return the name of a file that does not overwrite the scores of other data.

    Args:
        folder: of the run.
        name: without its suffix; if other data have it, a number follows the name of the data.
        data: name of the data, a part of ``name``.
        content: of the file.
    """
    for number in count(1):
        numbered = name if number == 1 else name.replace(data, f"{data}_{number}", 1)
        path = folder / f"{numbered}.json"
        try:
            stored = read_json(path)
            is_other = any(stored[key] != content[key] for key in ("scored", "references"))
        except (OSError, ValueError, KeyError, TypeError):  # missing, damaged or old
            is_other = False
        if not is_other:
            return path.name
    raise AssertionError


def translate_with_progress(
    translator: Translator, sources: Sequence[str], console: Console, **search: Any
) -> list[str]:
    """Return the best translations of sentences, with a progress bar."""
    request = SearchRequest(**search)
    translations = run_with_progress(
        lambda chunks: translator.stream(chunks, request), sources, "translating", console
    )
    return [hypotheses[0].text for hypotheses in translations]


def run_with_progress(
    work: Callable[[Iterable[Sequence[T]]], Iterator[list[R]]],
    items: Sequence[T],
    description: str,
    console: Console,
) -> list[R]:
    """Return the results of ``work``, which takes chunks of items, with a progress bar."""
    chunks = (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))
    results = track(work(chunks), len(items), description, console, count=len)
    return list(chain.from_iterable(results))
