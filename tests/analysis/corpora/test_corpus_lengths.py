"""Lengths of the sentences of a corpus, as a table, as bars and as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from nmt.analysis.corpora.lengths import Lengths
from nmt.analysis.corpora.plot import draw_lengths
from nmt.analysis.pictures.files import save_figure
from nmt.data.splitting import Pair


def test_percentiles_of_both_sides() -> None:
    lengths = Lengths([Pair("a" * n, "b " * n + "b") for n in range(1, 102)])
    [*_, ratio] = rows = lengths.as_listing().rows
    assert [row[0] for row in rows[:4]] == [
        "source, words",
        "target, words",
        "source, characters",
        "target, characters",
    ]
    assert rows[0][1:] == ("1", "1", "1", "1")
    assert rows[1][1:] == ("52", "97", "101", "102")
    assert rows[2][1:] == ("51", "96", "100", "101")
    assert ratio[-1] == "3.00"  # "b b" for "a"


def test_every_pair_is_in_one_bar() -> None:
    for sizes in ([1], [5, 5, 5], range(1, 300), [1] * 300 + [100_000]):
        lines = Lengths([Pair("a" * n, "b") for n in sizes]).as_bars()
        counts = [int(line.split()[1].replace(",", "")) for line in lines]
        assert sum(counts) == len(sizes)
        assert len(lines) <= 21
        assert max(line.count("█") for line in lines) == 40
        assert counts[0] > 0


def test_bars_name_their_lengths() -> None:
    pairs = [Pair("a" * n, "b") for n in range(40, 100) for _ in range(100)] + [
        Pair("a" * 999, "b")
    ]
    lines = Lengths(pairs).as_bars()
    assert lines[0].split()[0] == "40–44"
    assert [line.split()[:2] for line in lines[-2:]] == [["95–99", "500"], ["100–…", "1"]]


def test_the_last_bar_holds_one_percent_at_most() -> None:
    for sizes in ([20] * 100, [5] * 30 + [40] * 70, range(1, 103), [1] * 297 + [90, 91, 92]):
        lines = Lengths([Pair("a" * n, "b") for n in sizes]).as_bars()
        counts = [int(line.split()[1]) for line in lines if "…" in line]
        assert sum(counts) <= len(sizes) / 100


def test_a_picture_shows_both_histograms(tmp_path: Path) -> None:
    pairs = [Pair("a" * (n % 50 + 1), "b" * (n % 60 + 1)) for n in range(1000)]
    figure = draw_lengths(Lengths(pairs), ("es", "en"))
    left, right, _ = figure.axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["es", "en"]
    assert right.get_xlabel() == "characters, es"
    path = tmp_path / "lengths.png"
    save_figure(figure, path)
    assert np.asarray(Image.open(path).convert("L")).std() > 5
    draw_lengths(Lengths([Pair("a", "b")]), ("es", "en"))  # a single pair has a range, too


def test_every_bar_of_a_picture_holds_as_many_lengths() -> None:
    pairs = [Pair("a" * n, "b" * n) for n in range(2, 100) for _ in range(10)]
    left, *_ = draw_lengths(Lengths(pairs), ("es", "en")).axes
    heights = {height for patch in left.patches for _, height in patch.get_xy()}
    assert heights == {0, 20}
