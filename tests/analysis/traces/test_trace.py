"""A trace is the search that translates: the same outputs, and the model's own probabilities."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from nmt import Translator
from nmt.analysis.traces.trace import CANDIDATES, Trace, find_parting, record
from nmt.analysis.traces.tree import render
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.errors import UserError
from nmt.inference.compiled import compile_with_weights

pytestmark = pytest.mark.xdist_group("traces")

LENGTH = 24  # positions of the model: all forward passes have one shape
TEXTS = ["hola", "buenosdias"]
WIDEST = 48  # ends of branches of any trace here, at most

# On another backend every length is compiled anew: one text is enough there.
CASES = [
    *(pytest.param("hola", beam_size, marks=pytest.mark.backend) for beam_size in (1, 4)),
    ("hola", 3),
    ("buenosdias", 4),
]


@pytest.fixture(scope="module")
def traced(letters: Translator) -> Callable[[str, int], Trace]:
    return cache(lambda text, beam_size: record(letters, text, beam_size=beam_size))


@pytest.fixture(scope="module")
def forced(letters: Translator) -> Callable[..., np.ndarray]:
    """Score with whole forward passes: float64 [N, T + 1, V], log-probabilities of what follows."""

    def logits(source: Any, target: Any) -> Any:
        return letters.engine.model({"source": source, "target": target})

    forward = compile_with_weights(letters.engine.model, logits, (2, 2))

    def scored(text: str, prefixes: Sequence[tuple[int, ...]]) -> np.ndarray:
        source = np.full((WIDEST, LENGTH), PAD)
        target = np.full((WIDEST, LENGTH), PAD)
        ids = [*letters.tokenizer.encode([text])[0], EOS]
        source[:, : len(ids)] = ids
        for row, tokens in zip(target, prefixes, strict=False):
            row[: len(tokens) + 1] = [BOS, *tokens]
        logits = forward(source, target)[: len(prefixes)].astype(np.float64)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    return scored


@pytest.mark.parametrize(("text", "beam_size"), CASES)
def test_the_trace_ends_as_the_search_does(
    letters: Translator, traced: Callable[[str, int], Trace], text: str, beam_size: int
) -> None:
    trace = traced(text, beam_size)
    [hypotheses] = letters.hypotheses(
        [text], beam_size=beam_size, n_best=beam_size, no_repeat_ngram=0
    )
    assert [trace.tokens(node) for node in trace.finished] == [
        hypothesis.tokens for hypothesis in hypotheses
    ]
    assert trace.texts == [hypothesis.text for hypothesis in hypotheses]
    for node, hypothesis in zip(trace.finished, hypotheses, strict=True):
        assert trace.nodes[node].total == pytest.approx(hypothesis.log_prob, abs=1e-4)
        assert trace.nodes[node].score == pytest.approx(hypothesis.score, abs=1e-4)


def test_its_best_is_what_is_translated(
    letters: Translator, traced: Callable[[str, int], Trace]
) -> None:
    assert [traced(text, 4).texts[0] for text in TEXTS] == letters.translate(
        TEXTS, no_repeat_ngram=0
    )


def test_options_are_refused_as_by_the_search(letters: Translator) -> None:
    for options, message in (
        ({"length_penalty": 11.0}, "length_penalty must be between 0 and 10"),
        ({"beam_size": 1000}, "beam_size must be at most"),
    ):
        with pytest.raises(UserError, match=message):
            record(letters, "hola", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "beam_size"), CASES)
def test_every_probability_is_that_of_a_whole_forward_pass(
    traced: Callable[[str, int], Trace],
    forced: Callable[..., np.ndarray],
    text: str,
    beam_size: int,
) -> None:
    trace = traced(text, beam_size)
    leaves = sorted(set(range(len(trace.nodes))) - {node.parent for node in trace.nodes})
    expected_rows = forced(text, [trace.tokens(leaf)[: LENGTH - 1] for leaf in leaves])
    for leaf, log_probs in zip(leaves, expected_rows, strict=True):
        path = [trace.nodes[number] for number in (0, *trace.path(leaf))]
        total = 0.0
        for node, after, expected in zip(path, [*path[1:], None], log_probs, strict=False):
            if node.candidates:
                best = np.sort(np.exp(expected))[::-1][:CANDIDATES]
                shown = [candidate.probability for candidate in node.candidates]
                np.testing.assert_allclose(shown, best, atol=1e-5)
                expected_shares = np.exp(
                    expected[[candidate.token for candidate in node.candidates]]
                )
                np.testing.assert_allclose(shown, expected_shares, atol=1e-5)
            if after is not None:
                assert node.candidates
                assert after.log_prob == pytest.approx(expected[after.token], abs=1e-5)
                total += expected[after.token]
                assert after.total == pytest.approx(total, abs=1e-4)


def test_the_tree_is_one_beam_wide(traced: Callable[[str, int], Trace]) -> None:
    for text, beam_size in (("hola", 1), ("hola", 4), ("buenosdias", 4)):
        trace = traced(text, beam_size)
        depths = [node.depth for node in trace.nodes if node.score is None]
        assert depths.count(0) == 1
        assert max(depths.count(depth) for depth in set(depths)) <= beam_size
        for number, node in enumerate(trace.nodes[1:], start=1):
            assert node.parent is not None
            parent = trace.nodes[node.parent]
            assert node.parent < number
            assert parent.score is None  # what has ended has no children
            assert node.depth == parent.depth + 1
            assert (node.token == EOS) == (node.score is not None)


def test_a_wider_beam_keeps_more(traced: Callable[[str, int], Trace]) -> None:
    for text in TEXTS:
        assert len(traced(text, 1).nodes) < len(traced(text, 4).nodes)
        assert len(traced(text, 4).finished) == 4


def test_the_limit_and_a_prefix_are_obeyed(
    letters: Translator, forced: Callable[..., np.ndarray]
) -> None:
    trace = record(letters, "hola", beam_size=3, prefix="xyz")
    for end in trace.finished:
        assert letters.tokenizer.pieces(trace.tokens(end)[:3]) == ["x", "y", "z"]
    limit = letters.pipeline.output_limit(4, 3)
    assert max(node.depth for node in trace.nodes) <= limit
    first = trace.nodes[1]
    assert first.piece == "x"
    assert first.log_prob == pytest.approx(forced("hola", [()])[0, 0, first.token], abs=1e-5)


def test_where_greedy_and_beam_part(traced: Callable[[str, int], Trace]) -> None:
    parted = 0
    for text in TEXTS:
        greedy, beam = traced(text, 1), traced(text, 4)
        ours, theirs = greedy.tokens(greedy.finished[0]), beam.tokens(beam.finished[0])
        parting = find_parting(greedy, beam)
        assert (parting is None) == (ours == theirs)
        if parting is None:
            continue
        parted += 1
        assert ours[: parting.position] == theirs[: parting.position]
        assert (parting.greedy.token, parting.beam.token) == (
            ours[parting.position],
            theirs[parting.position],
        )
        assert parting.greedy.probability > parting.beam.probability  # that is what greedy means
        assert parting.greedy_log_prob == greedy.nodes[greedy.finished[0]].total
        assert parting.greedy_text == greedy.texts[0]
        assert find_parting(beam, beam) is None
    assert parted, "no text of these tells greedy from beam"


def test_what_is_shown_names_every_end(traced: Callable[[str, int], Trace]) -> None:
    for text, beam_size in (("hola", 1), ("hola", 4), ("buenosdias", 4)):
        trace = traced(text, beam_size)
        console = Console(width=200, record=True, file=io.StringIO())
        for part in render(trace, find_parting(traced(text, 1), trace)):
            console.print(part)
        shown = console.export_text()
        for rank, end in enumerate(trace.finished, start=1):
            assert f"score {trace.nodes[end].score:.3f} #{rank}]" in shown
        assert shown.count("[log p") == len(
            set(range(1, len(trace.nodes))) - {node.parent for node in trace.nodes}
        )
        assert ("greedy and beam" in shown) == (beam_size > 1)
        assert "After a token: its probability given the tokens before it." in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "is empty"), ("a" * 40, "one sentence of at most 23 tokens")],
)
@pytest.mark.filterwarnings("ignore:a text of")
def test_what_is_no_single_sentence_is_refused(
    letters: Translator, text: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        record(letters, text)
