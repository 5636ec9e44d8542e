"""Manual word alignments, and the error rates of a model's alignments against them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt.analysis.heads.alignment import (
    Links,
    Method,
    SentencePair,
    choose_most_informative,
    find_links,
    link_diagonally,
    list_methods,
    select,
)
from nmt.analysis.tables import Listing
from nmt.errors import UserError
from nmt.text.cleaning import clean_input
from nmt.text.words import join_words

_LINK = re.compile(r"(\d+)([-?])(\d+)")


class Gold(NamedTuple):
    """One sentence pair with manual links."""

    sentences: SentencePair
    sure: Links
    possible: Links  # including the sure ones


class Counts(NamedTuple):
    """Numbers of links from which the alignment error rate is computed."""

    links: int  # |A|
    sure: int  # |S|
    in_sure: int  # |A ∩ S|
    in_possible: int  # |A ∩ P|

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|; 1 without links."""
        return self.in_possible / self.links if self.links else 1.0

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|; 1 without sure links."""
        return self.in_sure / self.sure if self.sure else 1.0

    @property
    def error_rate(self) -> float:
        """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), 0 to 1.

        The alignment error rate of Och & Ney 2003, A Systematic Comparison of Various Statistical
        Alignment Models.
        """
        total = self.links + self.sure
        return 1 - (self.in_sure + self.in_possible) / total if total else 0.0


def compare(links: Links, gold: Gold) -> Counts:
    """Compare the links of one sentence pair with the manual links."""
    return Counts(len(links), len(gold.sure), len(links & gold.sure), len(links & gold.possible))


def add(counts: Iterable[Counts]) -> Counts:
    """Return the sum of the counts."""
    columns = zip(*counts, strict=True)
    return Counts(*(sum(column) for column in columns))


def read_gold(path: Path) -> list[Gold]:
    """Read ``source TAB target TAB links`` lines.

    Words are separated by single spaces. A link is ``0-1`` if sure and ``0?1`` if only possible,
    source before target, counted from 0. Lines that begin with # are comments.

    Raises:
        UserError: the file cannot be read or is empty, or a line is malformed.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserError(f"{path} cannot be read: {reason}") from error
    pairs = [
        _parse(line, f"{path}:{number}")
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not pairs:
        raise UserError(f"{path} contains no sentence pair: source TAB target TAB links")
    return pairs


def _parse(line: str, where: str) -> Gold:
    columns = line.split("\t")
    if len(columns) != 3:
        raise UserError(f"{where}: {len(columns)} columns instead of source TAB target TAB links")
    sides = [clean_input(column).split() for column in columns[:2]]
    if not all(sides):
        raise UserError(f"{where}: the source or the target has no words")
    sure, possible = set(), set()
    for text in columns[2].split():
        match = _LINK.fullmatch(text)
        if match is None:
            raise UserError(f"{where}: {text} is not a link: write 0-1 if sure, 0?1 if possible")
        link = int(match[1]), int(match[3])
        if link[0] >= len(sides[0]) or link[1] >= len(sides[1]):
            raise UserError(
                f"{where}: {text} points beyond the {len(sides[0])} and {len(sides[1])} words"
            )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    (source, source_words), (target, target_words) = map(join_words, sides)
    sentences = SentencePair(source, target, source_words, target_words)
    return Gold(sentences, frozenset(sure), frozenset(possible))


class Comparison:
    """Error rates of every method of a model against manual alignments.

    Args:
        gold: at least two sentence pairs.
        weights: `weigh_rows` of each pair.
        aligned: weights of each pair by `Engine.align`.
    """

    def __init__(
        self, gold: Sequence[Gold], weights: Sequence[np.ndarray], aligned: Sequence[np.ndarray]
    ) -> None:
        self._weights = weights
        _, self.layers, self.heads = weights[0].shape[:3]
        self.methods = [
            method
            for shifted in (False, True)
            for method in list_methods(self.layers, self.heads, shifted=shifted)
        ]
        self._counts = {
            method: [
                compare(find_links(select(pair_weights, method)), pair)
                for pair_weights, pair in zip(weights, gold, strict=True)
            ]
            for method in self.methods
        }
        self.aligned = add(
            compare(find_links(pair_weights), pair)
            for pair_weights, pair in zip(aligned, gold, strict=True)
        )
        self.diagonal = add(
            compare(link_diagonally(*map(len, pair.sentences.words())), pair) for pair in gold
        )

    def counts(self, method: Method) -> Counts:
        """Return the counts of one method on all pairs."""
        return add(self._counts[method])

    def cross_validate(self, family: Sequence[Method]) -> Counts:
        """Choose the best method of a family on every other pair, and measure it on the rest.

        The halves then change roles, so every pair is measured once, by a method chosen without it.
        """
        halves = []
        for half in (0, 1):
            best = min(
                family,
                key=lambda method: add(self._counts[method][1 - half :: 2]).error_rate,
            )
            halves.append(add(self._counts[best][half::2]))
        return add(halves)

    def rows(self) -> list[tuple[str, Counts]]:
        """Return names and counts of the methods of the first table."""
        rows = [("default", self.aligned), ("plain diagonal", self.diagonal)]
        means = [method for method in self.methods if method.head is None]
        rows += [(str(method), self.counts(method)) for method in means]
        for label, shifted in (("plain", False), ("shifted", True)):
            heads = [
                method
                for method in self.methods
                if method.head is not None and method.shifted == shifted
            ]
            best = choose_most_informative(self._weights, heads)
            rows.append((f"most informative head: {best}", self.counts(best)))
            rows.append((f"best head of the other half, {label}", self.cross_validate(heads)))
        rows.append(("best method of the other half", self.cross_validate(self.methods)))
        return rows

    def tabulate(self) -> list[Listing]:
        """Return the tables of the comparison."""
        rates = Listing(
            "Alignment error rate",
            "AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), links A, sure S and possible P by hand "
            "(Och & Ney 2003); lower is better. Default: with the run's lexicon if it "
            "has one. Plain: the position that writes a word. Shifted: "
            "the one that reads it. Most informative: chosen without the links by hand. Best of "
            "the other half: chosen by hand-made links of every other pair, measured on the rest, "
            "both ways.",
            ["method", "links", "precision", "recall", "AER"],
            [
                [name, f"{c.links}", f"{c.precision:.3f}", f"{c.recall:.3f}", f"{c.error_rate:.3f}"]
                for name, c in self.rows()
            ],
        )
        numbers = range(1, self.heads + 1)
        heads = Listing(
            "Alignment error rate of each head",
            "Measured on all pairs: the smallest is therefore too optimistic.",
            ["layer", *(f"head {number}" for number in numbers)],
            [
                [f"{layer}, {'shifted' if shifted else 'plain'}"]
                + [
                    f"{self.counts(Method(layer, number, shifted)).error_rate:.3f}"
                    for number in numbers
                ]
                for layer in range(1, self.layers + 1)
                for shifted in (False, True)
            ],
        )
        return [rates, heads]

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as the content of a JSON file."""

        def describe(counts: Counts) -> dict[str, Any]:
            return counts._asdict() | {
                "precision": counts.precision,
                "recall": counts.recall,
                "error_rate": counts.error_rate,
            }

        return {
            "compared": {name: describe(counts) for name, counts in self.rows()},
            "methods": {str(method): describe(self.counts(method)) for method in self.methods},
        }
