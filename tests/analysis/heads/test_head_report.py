"""The report has every measurement, and no other."""

from __future__ import annotations

import html
import io
import re

import numpy as np
import pytest
from fake_attention import KINDS
from markdown_it import MarkdownIt
from rich.console import Console

from nmt.analysis.heads.ablation import Ablation, Head, HeadScores, Pruning
from nmt.analysis.heads.report import HeadReport
from nmt.analysis.pictures.files import render_png
from nmt.analysis.tables import Listing

LAYERS, HEADS = 2, 3
NAMES = ["entropy", "entropy_share", "confidence", "distance", "mark"]
MORE = {
    "encoder": ["previous", "own", "next"],
    "decoder": ["previous", "own"],
    "cross": ["diagonal"],
}


@pytest.fixture
def report() -> HeadReport:
    rng = np.random.default_rng(1)
    means = {
        kind.name: {name: rng.random((LAYERS, HEADS)) for name in [*NAMES, *MORE[kind.name]]}
        | {"divergence": rng.random((LAYERS, HEADS, HEADS))}
        for kind in KINDS
    }
    return HeadReport("a_run", 7, KINDS, means)


def ablation() -> Ablation:
    result = Ablation(7, HeadScores(2.0, 30.0, "nrefs:1"))
    result.without[Head("encoder", 1, 1)] = HeadScores(2.25, 29.5, "nrefs:1")
    result.without[Head("cross", 2, 3)] = HeadScores(1.75, 31.0, "nrefs:1")
    return result


def test_statistics_alone(report: HeadReport) -> None:
    listings = report.tabulate()
    assert [listing.title for listing in listings] == [
        "Entropy by layer",
        "Encoder self-attention",
        "Decoder masked self-attention",
        "Cross-attention",
    ]
    for listing in listings:
        assert all(len(row) == len(listing.header) for row in listing.rows)
    entropies = [report.means[kind.name]["entropy"].mean(1)[1] for kind in KINDS]
    assert listings[0].rows[1] == ["2", *(f"{value:.2f}" for value in entropies)]
    encoder = listings[1]
    assert len(encoder.rows) == LAYERS * HEADS
    assert encoder.rows[4][0] == "2, 2"
    assert (
        encoder.rows[4][encoder.header.index("next")]
        == f"{report.means['encoder']['next'][1, 1]:.2f}"
    )
    assert "next" not in listings[2].header
    assert "diag." in listings[3].header
    assert "loss" not in encoder.header
    content = report.as_json()
    assert content.keys() == {"run", "sentences", "statistics"}
    assert np.shape(content["statistics"]["cross"]["divergence"]) == (LAYERS, HEADS, HEADS)
    assert np.shape(content["statistics"]["cross"]["role"]) == (LAYERS, HEADS)


def test_what_was_interrupted_shows_as_far_as_it_came(report: HeadReport) -> None:
    report.ablation = ablation()
    encoder, _, cross = report.tabulate()[1:]
    assert encoder.rows[0][-2:] == ["+0.2500", "-0.50"]
    assert encoder.rows[1][-2:] == ["–", "–"]
    assert cross.rows[-1][-2:] == ["-0.2500", "+1.00"]
    content = report.as_json()["importance"]
    assert content["whole"] == {"loss": 2.0, "bleu": 30.0}
    assert content["without"][0] == {
        "kind": "encoder",
        "layer": 1,
        "number": 1,
        "loss": 2.25,
        "bleu": 29.5,
    }
    assert render_png(report.draw())[:4] == b"\x89PNG"


def test_pruning_names_each_head_once(report: HeadReport) -> None:
    report.ablation = ablation()
    order = [Head("cross", 1, number) for number in range(1, 6)]
    report.pruning = Pruning(8, HeadScores(2.0, 30.0, ""), order)
    for count in (1, 2, 4):
        report.pruning.without[count] = HeadScores(2.0 + count / 10, 30.0 - count, "")
    pruned = report.tabulate()[-1]
    assert "with all heads: 2.0000 nats" in report.explain()
    assert pruned.rows == [
        ["0", "0%", "2.0000", "30.00", ""],
        ["1", "20%", "2.1000", "29.00", "cross 1.1"],
        ["2", "40%", "2.2000", "28.00", "cross 1.2"],
        ["4", "80%", "2.4000", "26.00", "cross 1.3, cross 1.4"],
    ]
    assert report.as_json()["pruning"]["without"][1] == {"heads": 2, "loss": 2.2, "bleu": 28.0}
    document = report.as_markdown()
    assert document.startswith("# Attention heads of a_run\n")
    assert "| 4 | 80% | 2.4000 | 26.00 | cross 1.3, cross 1.4 |" in document


def test_the_picture_has_a_cell_per_head(report: HeadReport) -> None:
    figure = report.draw()
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == [kind.title for kind in KINDS]
    shown = panels[2].images[0].get_array()
    np.testing.assert_array_equal(shown, report.means["cross"]["entropy_share"])
    written = [text.get_text() for text in panels[2].texts]
    assert written == [f"{value:.2f}" for value in shown.flat]
    report.ablation = ablation()
    panels = [axes for axes in report.draw().axes if axes.get_title()]
    assert len(panels) == 6
    assert [text.get_text() for text in panels[5].texts] == ["-0.250"]


def test_a_listing_may_be_empty() -> None:
    listing = Listing("Title", "", ["name", "x"], [])
    assert listing.as_markdown() == "## Title\n\n| name | x |\n|---|---:|\n"
    assert [column.header for column in listing.as_table().columns] == ["name", "x"]


def test_markdown_shows_texts_as_they_are() -> None:
    texts = ["__init__ *runs* a_b_", r"C:\*.txt", r"C:\|x", "a <br> b", "`x` &amp; ~~y~~"]
    texts += ["![a](b.png)", "<0.001", "tatoeba_10m", "[16, 32]", "AT&T"]
    document = Listing("*T*", "<i>N", ["*x*"], [[text] for text in texts]).as_markdown()
    rendered = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(document)
    shown = re.findall("<(?:h2|p|th|td)>(.*?)</", rendered)
    assert list(map(html.unescape, shown)) == ["*T*", "<i>N", "*x*", *texts]
    for plain in texts[-4:]:
        assert f"| {plain} |" in document


def test_a_listing_is_the_same_on_both_papers() -> None:
    listing = Listing("Title", "Note.", ["name", "x", "y"], [["a|b", "1", "–"], ["c", "22", "d"]])
    broken = [["a|b", "1", "–"], ["c", "22", "\nd\r"]]
    assert Listing("Title", "Note.", listing.header, broken).as_markdown() == listing.as_markdown()
    assert listing.as_markdown() == (
        "## Title\n\nNote.\n\n| name | x | y |\n|---|---:|---|\n"
        "| a&#124;b | 1 | – |\n| c | 22 | d |\n"
    )
    shown = io.StringIO()
    Console(file=shown, width=80).print(listing.as_table())
    assert [line.split() for line in shown.getvalue().splitlines()] == [
        ["Title"],
        ["name", "x", "y"],
        ["a|b", "1", "–"],
        ["c", "22", "d"],
        ["Note."],
    ]
