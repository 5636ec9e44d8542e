"""What a run writes: TensorBoard shows it, and it is the model's own."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from fake_attention import KINDS
from tensorboard import plugin_util
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.util import tensor_util

from nmt import Translator
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.inference.metrics import Score
from nmt.inference.results import Attention
from nmt.runs.folder import RunFolder
from nmt.training.journal import DRAWN_PROBES, DevEvaluation, RunJournal
from nmt.training.report import Report
from nmt.viewer import records

pytest_plugins = ("translators",)
pytestmark = [pytest.mark.xdist_group("tiny run"), pytest.mark.usefixtures("cached_translators")]


@pytest.fixture(scope="module")
def events(tiny_run: Path) -> plugin_event_accumulator.EventAccumulator:
    unlimited = {plugin_event_accumulator.TENSORS: 0}
    reader = plugin_event_accumulator.EventAccumulator(str(tiny_run / "logs"), unlimited)
    reader.Reload()
    return reader


def steps(events: plugin_event_accumulator.EventAccumulator, tag: str) -> list[int]:
    return [event.step for event in events.Tensors(tag)]


def test_curves_are_those_of_metrics_jsonl(
    events: plugin_event_accumulator.EventAccumulator, tiny_run: Path
) -> None:
    lines = [json.loads(line) for line in (tiny_run / "metrics.jsonl").open(encoding="utf-8")]
    for tag in (
        "train/loss",
        "train/perplexity",
        "train/learning_rate",
        "train/gradient_norm",
        "speed/tokens_per_second",
        "speed/padding_share",
        "dev/loss",
        "dev/BLEU",
        "dev/chrF2++",
    ):
        expected = {line["step"]: line[tag] for line in lines if tag in line}
        assert steps(events, tag) == list(expected), tag
        for event in events.Tensors(tag):
            value = float(tensor_util.make_ndarray(event.tensor_proto))
            assert value == pytest.approx(expected[event.step], rel=1e-6), tag


def test_an_evaluation_has_the_numbers_that_were_measured() -> None:
    bleu = Score("BLEU", 12.5, "signature")
    evaluation = DevEvaluation(2.0, [bleu], outputs=[], samples=[], probes=[], draw=False)
    loss = {"dev/loss": 2.0, "dev/perplexity": math.exp(2.0)}
    assert evaluation.values() == {**loss, "dev/BLEU": 12.5}
    assert replace(evaluation, nll=None).values() == {"dev/BLEU": 12.5}
    assert replace(evaluation, scores=[]).values() == loss


def test_samples_are_tables_of_source_reference_and_output(
    events: plugin_event_accumulator.EventAccumulator, tiny_run: Path
) -> None:
    assert steps(events, "samples") == [5, 10, 12]
    text = tensor_util.make_ndarray(events.Tensors("samples")[-1].tensor_proto).item().decode()
    assert text.splitlines()[0] == "| source | reference | output |"
    written = (tiny_run / "samples" / "step_00000012.tsv").read_text(encoding="utf-8").splitlines()
    assert len(text.splitlines()) - 2 == len(written) - 1 == 16
    for row, line in zip(text.splitlines()[2:], written[1:], strict=True):
        assert [html.unescape(cell.strip()) for cell in row.strip("|").split(" | ")] == [
            cell.strip() for cell in line.split("\t")
        ]


def test_tensorboard_shows_samples_as_they_are(tmp_path: Path) -> None:
    texts = ["__init__ *runs*", r"C:\*.txt", r"C:\|x", "a <br> b", "`x` &amp; y", "![a](b.png)"]
    journal = RunJournal(RunFolder(tmp_path))
    samples = [(Pair(source, target), "a_b_") for source, target in pairwise(texts)]
    journal.show_in_tensorboard(
        5, DevEvaluation(nll=1.0, scores=[], outputs=[], samples=samples, probes=[], draw=False)
    )
    journal.close()
    reader = plugin_event_accumulator.EventAccumulator(str(tmp_path / "logs")).Reload()
    markdown = tensor_util.make_ndarray(reader.Tensors("samples")[0].tensor_proto).item()
    cells = re.findall("<td>(.*?)</td>", plugin_util.markdown_to_safe_html(markdown))
    assert list(map(html.unescape, cells)) == [
        cell for source, target in pairwise(texts) for cell in (source, target, "a_b_")
    ]


def test_samples_with_tabs_and_line_breaks_stay_one_row(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    journal = RunJournal(run)
    samples = [(Pair("a", "A"), "x\ty\n\x85 z\r"), (Pair("b", "B"), "")]
    journal.show_in_tensorboard(
        5, DevEvaluation(nll=1.0, scores=[], outputs=[], samples=samples, probes=[], draw=False)
    )
    journal.close()
    written = (run.samples / "step_00000005.tsv").read_text(encoding="utf-8")
    assert written == "source\treference\toutput\na\tA\tx y z\nb\tB\t\n"


def test_heatmaps_of_every_kind_and_layer_at_every_second_evaluation(
    events: plugin_event_accumulator.EventAccumulator, tiny_run: Path
) -> None:
    layers = RunFolder.open(tiny_run).config.model.encoder_layers
    for kind in ("encoder_self_attention", "decoder_masked_self_attention", "cross_attention"):
        for layer in range(1, layers + 1):
            for tag in (f"{kind}/probe_1_layer_{layer}", f"{kind}/probe_1_layer_{layer}/mean"):
                assert steps(events, tag) == [5, 12]


def test_every_probe_is_logged_but_few_are_drawn(tmp_path: Path) -> None:
    tokens = ["▁a", "</s>"]
    uniform = np.full((1, 1, 2, 2), 0.5, np.float32)
    weights = {kind.name: uniform for kind in KINDS}
    attention = Attention(tokens, tokens, tokens, weights, KINDS)
    probes = [(f"sentence {number}", attention) for number in range(1, DRAWN_PROBES + 2)]
    journal = RunJournal(RunFolder(tmp_path))
    for step, draw in ((10, True), (20, False)):
        references = {"sentence 2": "reference"}
        evaluation = DevEvaluation(
            nll=1.0,
            scores=[],
            outputs=[],
            samples=[],
            probes=probes,
            draw=draw,
            references=references,
        )
        journal.show_in_tensorboard(step, evaluation)
    journal.close()
    reader = plugin_event_accumulator.EventAccumulator(str(tmp_path / "logs")).Reload()
    for number, (sentence, _) in enumerate(probes, start=1):
        tag = records.tag(number, sentence)
        assert steps(reader, tag) == [10, 20]
        [record] = tensor_util.make_ndarray(reader.Tensors(tag)[-1].tensor_proto)
        assert records.decode(record).reference == references.get(sentence, "")
        is_drawn = f"cross_attention/probe_{number}_layer_1" in reader.Tags()["tensors"]
        assert is_drawn == (number <= DRAWN_PROBES)
    assert steps(reader, "cross_attention/probe_1_layer_1") == [10]


def test_attention_that_has_no_record_names_the_key(tmp_path: Path) -> None:
    tokens = ["▁a", "</s>"]
    weights = {kind.name: np.full((1, 1, 2, 2), 1.5, np.float32) for kind in KINDS}
    attention = Attention(tokens, tokens, tokens, weights, KINDS)
    journal = RunJournal(RunFolder(tmp_path))
    message = r"training\.probes cannot be logged: .* are between 0 and 1; 'training\.probes=\[\]'"
    with pytest.raises(UserError, match=message):
        journal.log_attention(10, [("a", attention)], {})
    journal.close()


def test_attention_is_logged_between_evaluations(
    events: plugin_event_accumulator.EventAccumulator,
) -> None:
    tag = records.tag(1, "¿Dónde está la estación?")
    assert steps(events, tag) == [4, 5, 8, 10, 12]


def test_attention_of_the_probes_is_shown_in_numbers(
    events: plugin_event_accumulator.EventAccumulator, tiny_run: Path
) -> None:
    lines = [json.loads(line) for line in (tiny_run / "metrics.jsonl").open(encoding="utf-8")]
    for kind in ("encoder", "decoder", "cross"):
        tag = f"attention/entropy/{kind}_layer_1"
        assert steps(events, tag) == [5, 10, 12]
        values = [float(tensor_util.make_ndarray(e.tensor_proto)) for e in events.Tensors(tag)]
        expected = [line[tag] for line in lines if tag in line]
        assert values == pytest.approx(expected, rel=1e-6)
        assert all(0 < value < 5 for value in values)  # nats
    assert steps(events, "attention/eos/cross_layer_1") == [5, 10, 12]


def test_configuration_signature_and_hparams_are_shown(
    events: plugin_event_accumulator.EventAccumulator,
) -> None:
    shown = tensor_util.make_ndarray(events.Tensors("configuration")[0].tensor_proto).item()
    assert b"d_model: 64" in shown
    signature = tensor_util.make_ndarray(events.Tensors("signature/BLEU")[0].tensor_proto).item()
    assert b"tok:13a" in signature
    assert "_hparams_/session_start_info" in events.Tags()["tensors"]


def test_a_resumed_run_shows_its_configuration_again(tiny_run: Path, tmp_path: Path) -> None:
    config = RunFolder.open(tiny_run).config
    for max_steps, resumed_at in ((30, None), (80, 30)):
        journal = RunJournal(RunFolder(tmp_path), resumed_at)
        changed = replace(config, training=replace(config.training, max_steps=max_steps))
        journal.log_configuration(changed, "2 layers", resumed_at or 0)
        journal.close()
    reader = plugin_event_accumulator.EventAccumulator(str(tmp_path / "logs")).Reload()
    assert steps(reader, "configuration") == steps(reader, "summary") == [0, 30]
    for event, max_steps in zip(reader.Tensors("configuration"), (30, 80), strict=True):
        shown = tensor_util.make_ndarray(event.tensor_proto).item().decode()
        assert f"max_steps: {max_steps}\n" in shown
    assert steps(reader, "_hparams_/session_start_info") == [0]


def test_the_model_that_is_kept_translates(tiny_run: Path) -> None:
    outputs = Translator.load(tiny_run).translate(["¿Dónde está la estación?", ""])
    assert len(outputs) == 2
    assert outputs[1] == ""


def test_curves_can_be_read_while_a_run_trains(tmp_path: Path) -> None:
    journal = RunJournal(RunFolder(tmp_path))
    journal.log_report(1, 0.5, Report(2.0, 1e-3, 0.1, 100.0, 0.05, 1.0, 0))
    reader = plugin_event_accumulator.EventAccumulator(str(tmp_path / "logs")).Reload()
    assert steps(reader, "train/loss") == [1]
    journal.close()


def test_a_report_is_recorded_by_tag_and_dropped_at_a_rewind(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    journal = RunJournal(run)
    without_loss = Report(math.nan, 1e-3, 0.25, 100.0, 0.05, 1.5, 3)
    for step in (10, 11):
        journal.log_report(step, step / 3, without_loss)
    journal.rewind(10)
    journal.log_report(11, 8.0, replace(without_loss, nll=2.0))
    journal.close()
    first, last = run.metrics.read()
    expected = {
        "train/learning_rate": 1e-3,
        "train/gradient_norm": 0.25,
        "train/epoch": 1.5,
        "train/skipped_updates": 3,
        "speed/tokens_per_second": 100.0,
        "speed/padding_share": 0.05,
    }
    loss = {"train/loss": None, "train/perplexity": None}
    assert first == {"step": 10, "seconds": 3.333, **loss, **expected}
    loss = {"train/loss": 2.0, "train/perplexity": math.exp(2)}
    assert last == {"step": 11, "seconds": 8.0, **loss, **expected}
    reader = plugin_event_accumulator.EventAccumulator(str(tmp_path / "logs")).Reload()
    assert steps(reader, "train/epoch") == [10, 11], "once after the rewind"
    assert steps(reader, "train/loss") == [11], "NaN is no point of a curve"


def test_dev_outputs_are_kept_and_dropped_when_a_run_is_resumed(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    first = [(Pair("a", "A"), "x\ty\n"), (Pair("b", "B"), "")]
    journal = RunJournal(run)
    journal.append_outputs(5, [])
    for step in (10, 20):
        journal.append_outputs(step, first)
    journal.append_outputs(30, first[:1])
    assert run.dev_outputs.read() == [
        {"step": 10, "pairs": [["a", "A"], ["b", "B"]], "outputs": ["x\ty\n", ""]},
        {"step": 20, "outputs": ["x\ty\n", ""]},
        {"step": 30, "pairs": [["a", "A"]], "outputs": ["x\ty\n"]},
    ]
    journal.rewind(20)
    journal.append_outputs(25, first)
    journal.close()
    records = run.dev_outputs.read()
    assert [record["step"] for record in records] == [10, 20, 25]
    assert ["pairs" in record for record in records] == [True, False, True]
