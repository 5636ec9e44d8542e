"""Where a rejected word left the beam."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt.analysis.traces.trace import Node, Trace
from nmt.data.tokenizer import EOS


@dataclass(frozen=True)
class Departure:
    """What beam search did with a word that it rejected.

    Attributes:
        kept: pieces of the word that were in the beam.
        pieces: pieces of the word.
        node: the last prefix of the trace with the word's pieces.
        step: position of the token, from 1, at which no prefix with the word was left; of one that
            ended, its length.
        behind: nats by which the best prefix with the word was less probable than the last one
            that was kept at that step; of a returned hypothesis, by which its score is lower than
            the best; of another one that ended, than the last one returned; NaN: the search ended
            before, or the score is not known.
        rank: of the first returned hypothesis with the word; None: it was in none.
        has_ended: whether hypotheses with the word lost against others that ended, by score.
    """

    kept: int
    pieces: int
    node: int
    step: int
    behind: float
    rank: int | None = None
    has_ended: bool = False

    def describe(self, word: str) -> str:
        """Return a sentence for the terminal."""
        if self.rank is not None:
            return (
                f"{word} stayed in the beam: hypothesis {self.rank} has it, with a score lower by "
                f"{self.behind:.2f}"
            )
        if self.has_ended:
            if math.isnan(self.behind):
                return f"a hypothesis that ends with {word} at step {self.step} was not kept"
            return (
                f"a hypothesis with {word} ended at step {self.step}; others scored higher by "
                f"{self.behind:.2f} or more"
            )
        gap = f", {self.behind:.2f} nats behind the last prefix kept"
        if math.isnan(self.behind):
            gap = ": the search had ended"
        if not self.kept:
            return f"{word} never entered the beam (step {self.step}{gap})"
        if self.kept < self.pieces:
            return (
                f"{word} left the beam at step {self.step}, after {self.kept} of its "
                f"{self.pieces} pieces{gap}"
            )
        return f"{word} was pruned at step {self.step}{gap}"


def find_departure(
    trace: Trace, before: Sequence[int], tokens: Sequence[int], log_probs: np.ndarray
) -> Departure:
    """Follow a rejected word through the beam.

    Args:
        trace: of the search.
        before: ids of the prefix of the best hypothesis that the word would follow.
        tokens: ids of the word's pieces.
        log_probs: of each piece, given the prefix and the pieces before it.
    """
    children: dict[int, dict[int, int]] = {}
    for number, each in enumerate(trace.nodes):
        if each.parent is not None:
            children.setdefault(each.parent, {})[each.token] = number
    node, kept = 0, 0
    for token in before:
        node = children[node][token]
    for token in tokens:
        if token not in children.get(node, {}):
            break
        node, kept = children[node][token], kept + 1
    if kept < len(tokens):
        step = len(before) + kept + 1
        if tokens[kept] == EOS:  # ended hypotheses compete by score
            return Departure(kept, len(tokens), node, step, math.nan, has_ended=True)
        missing = trace.nodes[node].total + float(log_probs[kept])
        return Departure(kept, len(tokens), node, step, _gap(trace, step, missing))
    return _follow(trace, children, node, len(tokens))


def _follow(trace: Trace, children: dict[int, dict[int, int]], node: int, pieces: int) -> Departure:
    """Return how the prefixes that begin with those of a node ended."""
    descendants = _descend(children, node)
    ranks = [trace.finished.index(number) for number in descendants if number in trace.finished]
    if ranks:
        rank = min(ranks)
        best, other = (trace.nodes[trace.finished[place]] for place in (0, rank))
        behind = _score(best) - _score(other)
        return Departure(pieces, pieces, trace.finished[rank], other.depth, behind, rank + 1)
    longest = trace.nodes[descendants[-1]].depth
    last = [number for number in descendants if trace.nodes[number].depth == longest]
    live = [number for number in last if trace.nodes[number].candidates]
    step = longest + 1
    if not live:
        ended = [number for number in descendants if trace.nodes[number].score is not None]
        if not ended:
            return Departure(pieces, pieces, last[0], step, math.nan)
        best_node = max(ended, key=lambda number: _score(trace.nodes[number]))
        other = trace.nodes[best_node]
        behind = _score(trace.nodes[trace.finished[-1]]) - _score(other)
        return Departure(pieces, pieces, best_node, other.depth, behind, has_ended=True)
    totals = {number: _continue(trace.nodes[number]) for number in live}
    best_node = max(totals, key=totals.__getitem__)
    return Departure(pieces, pieces, best_node, step, _gap(trace, step, totals[best_node]))


def _continue(node: Node) -> float:
    """Return the log-probability of the best prefix that is one token longer, in nats."""
    longer = [each.probability for each in node.candidates if each.token != EOS]
    return node.total + (math.log(longer[0]) if longer else 0.0)


def _descend(children: dict[int, dict[int, int]], node: int) -> list[int]:
    """Return a node and all nodes that continue it, the shorter prefixes first."""
    reached = [node]
    for number in reached:
        reached += children.get(number, {}).values()
    return reached


def _score(node: Node) -> float:
    return math.nan if node.score is None else node.score


def _gap(trace: Trace, step: int, total: float) -> float:
    """Return how far a prefix is behind the least probable one that was kept at a step; or NaN."""
    kept = [node.total for node in trace.nodes if node.depth == step and node.score is None]
    return min(kept) - total if kept else math.nan
