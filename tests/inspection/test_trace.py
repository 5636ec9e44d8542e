"""A trace is the search that translates: the same outputs, and the model's own probabilities."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from nmt import Translator
from nmt.data.tokenizer import BOS, EOS
from nmt.errors import UserError
from nmt.inspection.trace import CANDIDATES, Trace, parting, record
from nmt.inspection.tree import report

pytestmark = pytest.mark.backend

TEXTS = ["hola", "buenosdias", "x"]


def forced(translator: Translator, text: str, tokens: tuple[int, ...]) -> np.ndarray:
    """Return float64 [T, V]: log-probabilities of a whole forward pass, behind each prefix."""
    source = np.append(translator.tokenizer.encode([text])[0], EOS)
    inputs = {"source": source[None], "target": np.array([[BOS, *tokens]])}
    logits = np.asarray(translator.model(inputs), np.float64)[0]
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.fixture(scope="module")
def traces(letters: Translator) -> dict[tuple[str, int], Trace]:
    return {
        (text, size): record(letters, text, beam_size=size) for text in TEXTS for size in (1, 3, 4)
    }


@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_trace_ends_as_the_search_does(
    letters: Translator, traces: dict[tuple[str, int], Trace], size: int
) -> None:
    for text in TEXTS:
        trace = traces[text, size]
        [found] = letters.hypotheses([text], beam_size=size, n_best=size)
        assert [trace.tokens(node) for node in trace.finished] == [one.tokens for one in found]
        assert trace.texts == [one.text for one in found]
        for node, one in zip(trace.finished, found, strict=True):
            assert trace.nodes[node].total == pytest.approx(one.log_prob, abs=1e-4)
            assert trace.nodes[node].score == pytest.approx(one.score, abs=1e-4)
        assert trace.texts[0] == letters.translate([text], beam_size=size)[0]


@pytest.mark.parametrize("size", [1, 4])
def test_every_probability_is_that_of_a_whole_forward_pass(
    letters: Translator, traces: dict[tuple[str, int], Trace], size: int
) -> None:
    for text in TEXTS:
        trace = traces[text, size]
        inner = {node.parent for node in trace.nodes}
        for leaf in set(range(len(trace.nodes))) - inner:
            tokens = trace.tokens(leaf)
            log_probs = forced(letters, text, tokens)
            path = [trace.nodes[number] for number in (0, *trace.path(leaf))]
            total = 0.0
            for node, after, expected in zip(path, [*path[1:], None], log_probs, strict=True):
                if node.candidates:
                    best = np.sort(np.exp(expected))[::-1][:CANDIDATES]
                    shown = [one.probability for one in node.candidates]
                    np.testing.assert_allclose(shown, best, atol=1e-5)
                    for one in node.candidates:
                        assert one.probability == pytest.approx(
                            np.exp(expected[one.token]), abs=1e-5
                        )
                        assert one.piece == letters.tokenizer.pieces([one.token])[0]
                if after is not None:
                    assert node.candidates
                    assert after.log_prob == pytest.approx(expected[after.token], abs=1e-5)
                    total += expected[after.token]
                    assert after.total == pytest.approx(total, abs=1e-4)


def test_the_tree_is_one_beam_wide(traces: dict[tuple[str, int], Trace]) -> None:
    for (_, size), trace in traces.items():
        depths = [node.depth for node in trace.nodes if node.score is None]
        assert depths.count(0) == 1
        assert max(depths.count(depth) for depth in set(depths)) <= size
        for number, node in enumerate(trace.nodes[1:], start=1):
            assert node.parent is not None
            parent = trace.nodes[node.parent]
            assert node.parent < number
            assert parent.score is None  # what has ended has no children
            assert node.depth == parent.depth + 1
            assert (node.token == EOS) == (node.score is not None)


def test_a_wider_beam_keeps_more(traces: dict[tuple[str, int], Trace]) -> None:
    for text in TEXTS:
        assert len(traces[text, 1].nodes) < len(traces[text, 4].nodes)
        assert len(traces[text, 4].finished) == 4


def test_the_limit_and_a_prefix_are_obeyed(letters: Translator) -> None:
    trace = record(letters, "hola", beam_size=3, prefix="xyz")
    for end in trace.finished:
        assert letters.tokenizer.pieces(trace.tokens(end)[:3]) == ["x", "y", "z"]
    limit = letters.limit(4, 3)
    assert max(node.depth for node in trace.nodes) <= limit
    first = trace.nodes[1]
    assert first.piece == "x"
    assert first.log_prob == pytest.approx(forced(letters, "hola", (first.token,))[0][first.token])


def test_where_greedy_and_beam_part(traces: dict[tuple[str, int], Trace]) -> None:
    parted = 0
    for text in TEXTS:
        greedy, beam = traces[text, 1], traces[text, 4]
        ours, theirs = greedy.tokens(greedy.finished[0]), beam.tokens(beam.finished[0])
        found = parting(greedy, beam)
        assert (found is None) == (ours == theirs)
        if found is None:
            continue
        parted += 1
        assert ours[: found.position] == theirs[: found.position]
        assert (found.greedy.token, found.beam.token) == (
            ours[found.position],
            theirs[found.position],
        )
        assert found.greedy.probability > found.beam.probability  # that is what greedy means
        assert found.greedy_log_prob == greedy.nodes[greedy.finished[0]].total
        assert found.greedy_text == greedy.texts[0]
        assert parting(beam, beam) is None
    assert parted, "no text of these tells greedy from beam"


def test_what_is_shown_names_every_end(traces: dict[tuple[str, int], Trace]) -> None:
    for (text, size), trace in traces.items():
        console = Console(width=200, record=True, file=io.StringIO())
        for part in report(trace, parting(traces[text, 1], trace)):
            console.print(part)
        shown = console.export_text()
        for rank, end in enumerate(trace.finished, start=1):
            assert f"score {trace.nodes[end].score:.3f} #{rank}]" in shown
        assert shown.count("[-") == len(
            set(range(1, len(trace.nodes))) - {node.parent for node in trace.nodes}
        )
        assert ("greedy and beam" in shown) == (size > 1)


@pytest.mark.parametrize(("text", "message"), [("", "is empty"), ("a" * 40, "longer than the 23")])
@pytest.mark.filterwarnings("ignore:a text of")
def test_what_is_no_single_sentence_is_refused(
    letters: Translator, text: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        record(letters, text)
