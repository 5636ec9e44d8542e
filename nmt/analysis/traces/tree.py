"""A traced search for reading: the beam as a tree, what was offered at each position."""

from __future__ import annotations

import math

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from nmt.analysis.traces.trace import Node, Parting, Trace

_BEST, _FINISHED, _PRUNED = "bold green", "", "dim"


def render(trace: Trace, parted: Parting | None) -> list[Tree | Table | Text]:
    """Return all that there is to see of one sentence.

    Args:
        trace: of the search.
        parted: where the best of it leaves the greedy output.
    """
    shown: list[Tree | Table | Text] = [
        draw_tree(trace),
        Text(),
        tabulate_candidates(trace),
        Text(),
    ]
    if trace.beam_size > 1:
        shown.append(Text("\n".join([*describe_parting(trace, parted), ""])))
    return shown


def draw_tree(trace: Trace) -> Tree:
    """Draw the kept prefixes as a tree; pieces that nothing branches from share a line.

    A number behind a piece is its probability, given what stands before it. What ended has its
    log-probability and score and, if it was returned, its rank; what the search dropped is dim.
    """
    children: dict[int, list[int]] = {}
    for number, node in enumerate(trace.nodes):
        if node.parent is not None:
            children.setdefault(node.parent, []).append(number)
    finished = {node for end in trace.finished for node in trace.path(end)}
    best = set(trace.path(trace.finished[0]))
    kind = "greedy" if trace.beam_size == 1 else f"beam {trace.beam_size}"
    root = Tree(Text(f"{' '.join(trace.source)}  ({kind})"))
    waiting = [(root, child) for child in children.get(0, [])[::-1]]
    while waiting:
        branch, number = waiting.pop()
        style = _BEST if number in best else _FINISHED if number in finished else _PRUNED
        line = Text(style=style)
        while True:
            node = trace.nodes[number]
            line.append(f"{'  ' if line else ''}{node.piece} {_format_share(node)}")
            after = children.get(number, [])
            if len(after) != 1 or (after[0] in best) != (number in best):
                break
            [number] = after
        if not after:
            line.append(f"  {_describe_end(trace, number)}")
        grown = branch.add(line)
        waiting += [(grown, child) for child in after[::-1]]
    return root


def tabulate_candidates(trace: Trace) -> Table:
    """List what was offered at each position of the best hypothesis, most probable first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", justify="right", style="dim")
    table.add_column("written")
    table.add_column("p", justify="right")
    path = trace.path(trace.finished[0])
    offers = [trace.nodes[node].candidates for node in [0, *path[:-1]]]
    for rank in range(1, max(map(len, offers)) + 1):
        table.add_column(f"{rank}.", overflow="fold")
    for position, (number, offered) in enumerate(zip(path, offers, strict=True), start=1):
        node = trace.nodes[number]
        cells = [Text(f"{one.piece} {one.probability:.3f}") for one in offered]
        for one, cell in zip(offered, cells, strict=True):
            if one.token == node.token:
                cell.stylize(_BEST)
        table.add_row(str(position), Text(node.piece, _BEST), _format_share(node), *cells)
    return table


def describe_parting(beam: Trace, found: Parting | None) -> list[str]:
    """Say where greedy and beam part, and which of the two is more probable in the end."""
    if found is None:
        return [f"greedy and beam {beam.beam_size} write the same"]
    gain = found.beam_log_prob - found.greedy_log_prob
    before = " ".join(found.before) or "the begin mark"
    return [
        f"greedy and beam {beam.beam_size} part at position {found.position + 1}, behind {before}:",
        f"  greedy writes {found.greedy.piece} ({found.greedy.probability:.3f}), in the end "
        f"log-probability {found.greedy_log_prob:.3f}: {found.greedy_text}",
        f"  the beam writes {found.beam.piece} ({found.beam.probability:.3f}), in the end "
        f"log-probability {found.beam_log_prob:.3f}: {beam.texts[0]}",
        f"  the {'beam' if gain > 0 else 'greedy'} output is the more probable by "
        f"{abs(gain):.3f} nats",
    ]


def _format_share(node: Node) -> str:
    """Return the probability of a piece, given what stands before it."""
    return f"{math.exp(node.log_prob):.3f}"


def _describe_end(trace: Trace, number: int) -> str:
    """Say how a branch ended."""
    node = trace.nodes[number]
    if node.score is None:
        return f"[log p {node.total:.2f}]"
    rank = f" #{trace.finished.index(number) + 1}" if number in trace.finished else ""
    return f"[log p {node.total:.2f}, score {node.score:.3f}{rank}]"
