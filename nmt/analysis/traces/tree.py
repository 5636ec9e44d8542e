"""A trace for the terminal: the beam as a tree, and the best next tokens at each position."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from nmt.analysis.traces.trace import Node, Parting, Trace

_BEST, _FINISHED, _PRUNED, _NOTE = "bold green", "", "dim", "bold yellow"
_LEGEND = (
    "After a token: its probability given the tokens before it. log p: of the whole prefix, in "
    "nats. score: log p, which beam search divides by the length penalty; #1 is the best. Dim: "
    "dropped prefixes. p: of the written token; 1., 2., …: the most probable tokens there."
)


def render(trace: Trace, parting: Parting | None) -> list[Tree | Table | Text]:
    """Return everything to print about one sentence.

    Args:
        trace: the trace of the search.
        parting: where its best output differs from the greedy one.
    """
    renderables: list[Tree | Table | Text] = [
        draw_tree(trace),
        Text(),
        tabulate_candidates(trace),
        Text(),
        Text(_LEGEND, "dim"),
        Text(),
    ]
    if trace.beam_size > 1:
        renderables.append(Text("\n".join([*describe_parting(trace, parting), ""])))
    return renderables


def draw_tree(trace: Trace, notes: Mapping[int, str] | None = None) -> Tree:
    """Draw the prefixes as a tree; tokens without a branch between them share a line.

    The number after a token is its probability given the previous tokens. A hypothesis that ended
    shows its log-probability, its score and, if returned, its rank. Dropped prefixes are dim.

    Args:
        trace: of the search.
        notes: what to write after prefixes, by their index in the trace.
    """
    notes = notes or {}
    children: dict[int, list[int]] = {}
    for number, node in enumerate(trace.nodes):
        if node.parent is not None:
            children.setdefault(node.parent, []).append(number)
    finished = {node for end in trace.finished for node in trace.path(end)}
    best = set(trace.path(trace.finished[0]))
    kind = "greedy" if trace.beam_size == 1 else f"beam {trace.beam_size}"
    title = Text(f"{' '.join(trace.source)}  ({kind})")
    if 0 in notes:
        title.append(f"  {notes[0]}", _NOTE)
    root = Tree(title)
    pending = [(root, child) for child in children.get(0, [])[::-1]]
    while pending:
        branch, number = pending.pop()
        style = _BEST if number in best else _FINISHED if number in finished else _PRUNED
        line = Text(style=style)
        while True:
            node = trace.nodes[number]
            line.append(f"{'  ' if line else ''}{node.piece} {_format_share(node)}")
            following = children.get(number, [])
            if number in notes:
                line.append(f"  {notes[number]}", _NOTE)
                break
            if len(following) != 1 or (following[0] in best) != (number in best):
                break
            [number] = following
        if not following:
            line.append(f"  {_describe_end(trace, number)}")
        subtree = branch.add(line)
        pending += [(subtree, child) for child in following[::-1]]
    return root


def tabulate_candidates(trace: Trace) -> Table:
    """Return the best next tokens at each position of the best hypothesis, most probable first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", justify="right", style="dim")
    table.add_column("written")
    table.add_column("p", justify="right")
    path = trace.path(trace.finished[0])
    candidates_by_position = [trace.nodes[node].candidates for node in [0, *path[:-1]]]
    for rank in range(1, max(map(len, candidates_by_position)) + 1):
        table.add_column(f"{rank}.", overflow="fold")
    for position, (number, candidates) in enumerate(
        zip(path, candidates_by_position, strict=True), start=1
    ):
        node = trace.nodes[number]
        cells = [Text(f"{option.piece} {option.probability:.3f}") for option in candidates]
        for option, cell in zip(candidates, cells, strict=True):
            if option.token == node.token:
                cell.stylize(_BEST)
        table.add_row(str(position), Text(node.piece, _BEST), _format_share(node), *cells)
    return table


def describe_parting(beam: Trace, parting: Parting | None) -> list[str]:
    """Return lines on where greedy and beam differ, and which output is more probable."""
    if parting is None:
        return [f"greedy and beam {beam.beam_size} write the same"]
    gain = parting.beam_log_prob - parting.greedy_log_prob
    before = " ".join(parting.before) or "BOS"
    return [
        f"greedy and beam {beam.beam_size} part at position {parting.position + 1}, "
        f"after {before}:",
        f"  greedy writes {parting.greedy.piece} ({parting.greedy.probability:.3f}), in the end "
        f"log-probability {parting.greedy_log_prob:.3f}: {parting.greedy_text}",
        f"  the beam writes {parting.beam.piece} ({parting.beam.probability:.3f}), in the end "
        f"log-probability {parting.beam_log_prob:.3f}: {beam.texts[0]}",
        f"  the {'beam' if gain > 0 else 'greedy'} output is the more probable by "
        f"{abs(gain):.3f} nats",
    ]


def _format_share(node: Node) -> str:
    """Return the probability of a token given the previous ones."""
    return f"{math.exp(node.log_prob):.3f}"


def _describe_end(trace: Trace, number: int) -> str:
    """Return log-probability, score and rank at the end of a branch."""
    node = trace.nodes[number]
    if node.score is None:
        return f"[log p {node.total:.2f}]"
    rank = f" #{trace.finished.index(number) + 1}" if number in trace.finished else ""
    return f"[log p {node.total:.2f}, score {node.score:.3f}{rank}]"
