"""Dev loss, translations and probes of an evaluation, of a made-up model and several processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.training.evaluator import Evaluator
from nmt.training.process_group import ProcessGroup

PAIRS = [Pair(f"one more source {number}", f"one more target {number}") for number in range(5)]


class FakeTranslator:
    """Writes targets of `PAIRS`; it has no hypothesis for "", and no attention for "unread"."""

    def __init__(self) -> None:
        self.translated: list[str] = []

    def translate(self, sources: Sequence[str], *, beam_size: int) -> list[str]:
        assert beam_size == 1
        self.translated += sources
        return [source.replace("source", "target") for source in sources]

    def hypotheses(self, sentences: Sequence[str], *, beam_size: int) -> list[list[str]]:
        assert beam_size == 1
        return [[f"best of {sentence}", "second"] if sentence else [] for sentence in sentences]

    def attention(self, sentence: str, hypothesis: str) -> str | None:
        return None if sentence == "unread" else f"attention of {hypothesis}"


class TwoProcesses(ProcessGroup):
    """One of two processes; the other one translates as `FakeTranslator` does."""

    def all_gather(self, value: Any) -> list[Any]:
        other = FakeTranslator().translate([p.source for p in PAIRS[1::2]], beam_size=1)
        return [value, other]


def make_evaluator(
    batches: Sequence[list[float]] | None = None,
    *,
    process_group: ProcessGroup | None = None,
    pairs: Sequence[Pair] = PAIRS,
    evaluations: int = 0,
    probes: Sequence[str] | None = (),
    accumulate: int = 1,
) -> Evaluator:
    """Return an evaluator of batches with one token per row, whose losses are the given ones."""

    def evaluate(batch: dict[str, np.ndarray]) -> tuple[float, float]:
        losses = batch["labels"][batch["labels"] != 0]
        return float(losses.sum()), float(losses.size)

    session: Any = SimpleNamespace(
        config=SimpleNamespace(data=None),
        training=SimpleNamespace(samples=2, probe_every=3, probes=probes, accumulate=accumulate),
        state=SimpleNamespace(step=7, evaluations=evaluations),
        process_group=process_group or ProcessGroup(),
        train_step=SimpleNamespace(evaluate=evaluate),
    )
    planned: Any = None
    if batches is not None:
        arrays = [{"labels": np.array(losses)[:, None]} for losses in batches]
        planned = SimpleNamespace(in_order=lambda: iter(arrays))
    translator: Any = FakeTranslator()
    return Evaluator(session, planned, pairs, translator, {"probe": "reference"})


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.training.evaluator.find_target_language", lambda data, sources: "en")


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_loss_is_the_mean_of_all_tokens(accumulate: int) -> None:
    """Not of batches, which differ in their number of tokens, nor of micro-batches."""
    evaluator = make_evaluator([[1.0, 2.0, 3.0], [10.0]], accumulate=accumulate)
    assert evaluator.evaluate().nll == pytest.approx(16 / 4)


@pytest.mark.parametrize("batches", [None, []])
def test_without_dev_rows_there_is_no_loss(batches: list[list[float]] | None) -> None:
    assert make_evaluator(batches).evaluate().nll is None


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_names_the_update(loss: float) -> None:
    with pytest.raises(UserError, match="not finite on the dev split after update 7:"):
        make_evaluator([[1.0], [loss]]).evaluate()


def test_translations_of_all_processes_are_scored_beside_their_pairs() -> None:
    for group in (ProcessGroup(), TwoProcesses(processes=2)):
        evaluator = make_evaluator(process_group=group)
        evaluation = evaluator.evaluate()
        assert list(evaluation.outputs) == [(pair, pair.target) for pair in PAIRS]
        assert list(evaluation.samples) == [evaluation.outputs[0], evaluation.outputs[2]]
        assert [(score.name, score.value) for score in evaluation.scores] == [
            ("BLEU", pytest.approx(100)),
            ("chrF2++", pytest.approx(100)),
        ]
        shard = [pair.source for pair in PAIRS[:: group.processes]]
        assert evaluator._translator.translated == shard  # type: ignore[attr-defined]


def test_without_dev_pairs_there_are_no_scores() -> None:
    evaluation = make_evaluator(pairs=[]).evaluate()
    assert (evaluation.scores, evaluation.outputs, evaluation.samples) == ([], [], [])


def test_probes_are_read_by_the_main_process_alone() -> None:
    probes = ["probe", "", "unread", "last"]
    evaluation = make_evaluator(probes=probes).evaluate()
    assert evaluation.probes == [
        ("probe", "attention of best of probe"),
        ("last", "attention of best of last"),
    ]
    assert evaluation.references == {"probe": "reference"}
    other = ProcessGroup(process=1, processes=2)
    assert make_evaluator(probes=probes, process_group=other).read_attention() == []
    assert make_evaluator(probes=None).read_attention() == []


def test_attention_is_drawn_at_every_probe_every_evaluations() -> None:
    drawn = [make_evaluator(evaluations=number).evaluate().draw for number in range(5)]
    assert drawn == [True, False, False, True, False]
