"""A rejected word is followed through a hand-made beam."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from nmt.analysis.explaining.departure import find_departure
from nmt.analysis.traces.trace import Candidate, Node, Trace
from nmt.analysis.traces.tree import draw_tree

A, B, C, D, E, END = 11, 12, 13, 14, 15, 2


def node(parent: int | None, depth: int, token: int, total: float, **more: object) -> Node:
    best = (Candidate(9, "x", 0.5),)  # half of a prefix's probability goes to its best child
    return Node(
        parent, depth, token, str(token), -1.0, total, None, best if not more else (), **more
    )  # type: ignore[arg-type]


NODES = [
    node(None, 0, 1, 0.0),
    node(0, 1, A, -0.5),  # 1: the best hypothesis begins with A B
    node(0, 1, C, -1.5),  # 2
    node(1, 2, B, -1.0),  # 3
    node(1, 2, D, -2.0),  # 4: pruned at step 3
    node(2, 2, E, -2.5),  # 5: C E ends
    node(3, 3, A, -1.25),  # 6
    node(5, 3, END, -2.75),  # 7, see below
    node(6, 4, END, -1.5),  # 8
]
for number, score in ((7, -1.0), (8, -0.5)):
    NODES[number].score, NODES[number].candidates = score, ()
TRACE = Trace(["a", "</s>"], 2, 0.6, NODES, [8, 7], ["A B A", "C E"])


def test_a_word_that_never_entered() -> None:
    departure = find_departure(TRACE, (A,), (C,), np.array([-4.0]))
    assert (departure.kept, departure.step, departure.node, departure.rank) == (0, 2, 1, None)
    assert departure.behind == pytest.approx(-2.5 - (-0.5 - 4.0))  # the last one kept is 5
    assert departure.describe("C") == (
        "C never entered the beam (step 2, 2.00 nats behind the last prefix kept)"
    )


def test_a_word_of_which_only_a_piece_entered() -> None:
    departure = find_departure(TRACE, (), (C, A), np.array([-1.5, -2.0]))
    assert (departure.kept, departure.step, departure.node) == (1, 2, 2)
    assert departure.behind == pytest.approx(1.0)
    assert "left the beam at step 2, after 1 of its 2 pieces, 1.00 nats behind" in (
        departure.describe("CA")
    )


def test_a_word_that_was_pruned_later() -> None:
    departure = find_departure(TRACE, (A,), (D,), np.array([-1.5]))
    assert (departure.kept, departure.step, departure.node, departure.rank) == (1, 3, 4, None)
    assert departure.behind == pytest.approx(-1.25 - (-2.0 + math.log(0.5)))
    assert departure.describe("D").startswith("D was pruned at step 3, 1.44 nats behind")


def test_a_word_of_a_lower_hypothesis() -> None:
    departure = find_departure(TRACE, (), (C,), np.array([-1.5]))
    assert (departure.rank, departure.node, departure.behind) == (2, 7, 0.5)
    assert departure.describe("C") == (
        "C stayed in the beam: hypothesis 2 has it, with a score lower by 0.50"
    )


def test_a_word_for_which_the_search_was_over() -> None:
    departure = find_departure(TRACE, (A, B, A), (B,), np.array([-9.0]))
    assert (departure.kept, departure.step) == (0, 4)
    assert math.isnan(departure.behind)
    assert departure.describe("B") == "B never entered the beam (step 4: the search had ended)"


def test_a_word_of_a_hypothesis_that_better_ones_displaced() -> None:
    trace = dataclasses.replace(TRACE, finished=[8], texts=["A B A"])
    departure = find_departure(trace, (), (C,), np.array([-1.5]))
    assert (departure.rank, departure.node, departure.step) == (None, 7, 3)
    assert departure.behind == pytest.approx(-0.5 - -1.0)
    assert departure.describe("C") == (
        "a hypothesis with C ended at step 3; others scored higher by 0.50 or more"
    )


def test_an_ending_that_was_not_kept_is_not_compared_with_live_prefixes() -> None:
    departure = find_departure(TRACE, (A, B), (END,), np.array([-0.1]))
    assert (departure.kept, departure.step, departure.node) == (0, 3, 3)
    assert departure.describe("</s>") == ("a hypothesis that ends with </s> at step 3 was not kept")
    nodes = list(NODES)
    best = (Candidate(END, "</s>", 0.75), Candidate(9, "x", 0.25))
    nodes[4] = dataclasses.replace(NODES[4], candidates=best)
    pruned = find_departure(dataclasses.replace(TRACE, nodes=nodes), (A,), (D,), np.array([-1.5]))
    assert pruned.behind == pytest.approx(-1.25 - (-2.0 + math.log(0.25)))


def test_a_tree_has_notes_behind_prefixes() -> None:
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), width=120)
    console.print(draw_tree(TRACE, {4: "left here", 0: "at the root", 3: "in a chain"}))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].endswith("(beam 2)  at the root")
    assert "14 0.368  left here" in "\n".join(lines)
    chain = next(i for i, line in enumerate(lines) if "in a chain" in line)
    assert "in a chain" in lines[chain]
    assert "11 0.368" in lines[chain + 1]  # goes on below
