"""What the comparison says of runs: differences, scores, a plot whose names can be read, a page."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_attention
import pytest
from matplotlib.text import Text
from sample_configs import changed, configured

from nmt.analysis.comparison.page import (
    make_page,
    render_attention,
    render_listing,
    render_section,
)
from nmt.analysis.comparison.plot import draw_comparison, render_comparison, spread
from nmt.analysis.comparison.runs import (
    RunSummary,
    SentenceResult,
    choose_sentence,
    find_differences,
    find_runs,
    name_runs,
    read_curve,
)
from nmt.analysis.comparison.sections import Example, Section
from nmt.analysis.comparison.systems import DataReader, System
from nmt.analysis.comparison.table import (
    describe_differences,
    format_score,
    name_best,
    tabulate,
)
from nmt.analysis.comparison.words import align_words
from nmt.analysis.pictures.files import save_figure
from nmt.analysis.tables import Listing
from nmt.config import Config
from nmt.errors import UserError
from nmt.model.costs import StateBytes
from nmt.runs.folder import RunFolder

HOSTILE = "</section><script>alert(1)</script>$_{&$"


def summary(name: str = "a", **changes: Any) -> RunSummary:
    """Return what a run might have to show."""
    values: dict[str, Any] = {
        "name": name,
        "folder": RunFolder(Path("runs") / name),
        "differences": {"model.positions": "rotary"},
        "scores": {"BLEU": {"value": 47.806, "half_width": 1.5}},
        "curve": [(0.5, 20.0), (1.0, 41.25), (1.5, 40.0)],
        "parameters": 1_636_480,
        "state": StateBytes(0, 2048, 1024),
        "speed": 12_345.6,
        "minutes": 8.5,
    }
    return RunSummary(**values | changes)


NOTHING = summary("b", differences={}, scores={}, curve=[], speed=None, minutes=None)
RESULT = SentenceResult("cross 2×4", "The <b>red</b> house.", fake_attention.attention())


# --- Reading ------------------------------------------------------------------------------------


def write_run(path: Path, config: Config) -> RunFolder:
    path.mkdir(parents=True)
    folder = RunFolder(path)
    folder.write_config(config)
    return folder


@pytest.fixture(scope="module")
def config() -> Config:
    return changed(configured("model=tiny"), {"training.probes": ["Uno.", "Dos."]})


def test_a_folder_of_runs_stands_for_those_with_weights(tmp_path: Path, config: Config) -> None:
    runs = tmp_path / "runs"
    for name in ("1", "2", "3"):
        write_run(runs / name, config)
    # The last one is that of weights that are not trained, before the first evaluation.
    names = ("1/checkpoints/best.npz", "3/checkpoints/step_00000010.npz", "2/checkpoints/start.npz")
    for name in names:
        (runs / name).parent.mkdir()
        (runs / name).touch()
    (runs / "latest").symlink_to("3")
    (runs / "sweeps" / "trials").mkdir(parents=True)
    assert [folder.path.name for folder in find_runs([runs])] == ["1", "3"]
    folders = find_runs([runs / "2", runs, runs / "1"])
    assert [folder.path.name for folder in folders] == ["2", "1", "3"]
    for path, message in ((runs / "sweeps", "contains no run"), (runs / "4", "does not exist")):
        with pytest.raises(UserError, match=message):
            find_runs([path])


def test_the_sentence_is_a_probe_or_a_sample(tmp_path: Path, config: Config) -> None:
    assert choose_sentence(write_run(tmp_path / "1", config)) == "Uno."
    silent = write_run(tmp_path / "2", changed(config, {"training.probes": []}))
    assert choose_sentence(silent) is None
    silent.samples.mkdir()
    table = "source\treference\toutput\nSí.\tYes.\tNo.\n"
    (silent.samples / "step_00000010.tsv").write_text(table, encoding="utf-8")
    assert choose_sentence(silent) == "Sí."


def test_differences_are_keys_with_other_values() -> None:
    small = {"name": "a", "seed": 1, "model.kind": "transformer", "model.heads": "own"}
    other = {"name": "b", "seed": 1, "model.kind": "transformer", "model.heads": "split"}
    recurrent = {"name": "c", "seed": 1, "model.kind": "rnn", "model.cell": "gru"}
    assert find_differences([small]) == [{}]
    assert find_differences([small, other]) == [
        {"model.heads": "own"},
        {"model.heads": "split"},
    ]
    # A key of one kind differs only between runs of that kind: the cell does not.
    assert find_differences([small, other, recurrent]) == [
        {"model.kind": "transformer", "model.heads": "own"},
        {"model.kind": "transformer", "model.heads": "split"},
        {"model.kind": "rnn"},
    ]
    # A source or a test set that only some runs have is a difference.
    plain = {"data.sources.pairs.kind": "files"}
    added = plain | {"data.sources.back.kind": "files", "data.sources.back.weight": 1.0}
    tested = plain | {"data.tests.news": "news.tsv"}
    assert find_differences([plain, added, tested]) == [
        {},
        {"data.sources.back.kind": "files"},
        {"data.tests.news": "news.tsv"},
    ]


def test_runs_of_one_name_have_that_of_their_folders(tmp_path: Path, config: Config) -> None:
    other = dataclasses.replace(config, name="other")
    folders = [
        write_run(tmp_path / name, run_config)
        for name, run_config in (("1", config), ("2", other), ("3", config))
    ]
    assert name_runs(folders) == ["1", "other", "3"]


def test_a_curve_is_of_evaluations_alone() -> None:
    metrics = [
        {"step": 10, "seconds": 30.0, "train/loss": 3.0},
        {"step": 20, "seconds": 60.0, "train/loss": 2.0},
        {"step": 20, "seconds": 60.0, "dev/BLEU": 4.5},
        {"step": 40, "seconds": 90.0, "dev/BLEU": None},
        {"step": 60, "seconds": 120.0, "dev/BLEU": 0.0},
    ]
    assert read_curve(metrics) == [(1.0, 4.5), (2.0, 0.0)]
    assert summary(curve=read_curve(metrics)).best == 4.5
    assert NOTHING.best is None


# --- The table ----------------------------------------------------------------------------------


def test_a_line_of_the_table() -> None:
    listing = tabulate([summary(), NOTHING], [RESULT, SentenceResult("", reason="no weights")])
    cells = dict(zip(listing.header, listing.rows[0], strict=True))
    assert cells == {
        "run": "a",
        "differs in": "positions=rotary",
        "test BLEU": "47.81 ± 1.50",
        "chrF2++": "–",
        "dev BLEU": "41.25",
        "parameters": "1,636,480",
        "tokens/s": "12,346",
        "minutes": "8.5",
        "bytes/hypothesis": "0",
        "bytes/token": "2,048",
        "bytes/source token": "1,024",
        "attention": "cross 2×4",
    }
    assert set(listing.rows[1]) == {"b", "", "–", "1,636,480", "0", "2,048", "1,024"}
    assert listing.as_markdown().count("\n|") == 4


def test_the_best_is_named() -> None:
    runs = [NOTHING, summary("a", curve=[(1, 7.5), (2, 30)]), summary("c", curve=[(1, 31), (2, 2)])]
    assert name_best(runs) == "The best on dev is c, BLEU 31.00. "
    assert name_best([NOTHING]) == ""


def test_values_are_written_as_the_command_line_has_them() -> None:
    differences = {"model.qk_norm": True, "model.key_value_heads": None, "training.rate": 0.002}
    written = describe_differences(differences | {"training.row_lengths": [32, 64]})
    expected = "qk_norm=true, key_value_heads=null, training.rate=0.002"
    assert written == f"{expected}, training.row_lengths=[32, 64]"
    assert format_score({"value": 1.0, "half_width": None}) == "1.00"


# --- The plot -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_places_are_apart_in_order_and_near(seed: int) -> None:
    generator = random.Random(seed)
    positions = [generator.random() ** 4 for _ in range(generator.randrange(1, 25))]
    gap = 0.045
    places = spread(positions, gap)
    ranked = [place for _, place in sorted(zip(positions, places, strict=True))]
    steps = [after - before for before, after in itertools.pairwise(ranked)]
    assert min(steps, default=1) >= min(gap, 1 / max(len(positions) - 1, 1)) - 1e-9
    assert min(places) >= 0
    assert max(places) <= 1 + 1e-9
    again = spread(places, gap)
    assert again == pytest.approx(places)


def test_places_by_hand() -> None:
    assert spread([], 0.1) == []
    assert spread([0.95], 0.1) == pytest.approx([0.95])
    assert spread([0.2, 0.9, 0.5], 0.1) == pytest.approx([0.2, 0.9, 0.5])
    assert spread([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])
    assert spread([1.0, 1.0, 0.0], 0.1) == pytest.approx([0.9, 1.0, 0.0])
    assert spread([0.5] * 3, 2.0) == pytest.approx([0.0, 0.5, 1.0])


def test_a_plot_names_every_run_twice_and_covers_no_name(tmp_path: Path) -> None:
    runs = [summary(f"run {n}", parameters=1_600_000 + n) for n in range(11)]
    runs.append(summary(HOSTILE, scores={"BLEU": {"value": 12.0, "half_width": None}}))
    figure = draw_comparison(runs)
    save_figure(figure, tmp_path / "a.png")
    for axes in figure.axes:
        texts = [text for text in axes.texts if text.get_text()]
        assert [text.get_text() for text in texts] == [run.name for run in runs]
        # Without the lines that lead to the points.
        boxes = sorted((Text.get_window_extent(text) for text in texts), key=lambda box: box.y0)
        for below, above in itertools.pairwise(boxes):
            assert above.y0 >= below.y1 - 1
    left, right = figure.axes
    styles = {(line.get_color(), line.get_linestyle()) for line in left.lines}
    assert len(left.lines) == len(styles) == len(runs)
    assert list(left.lines[0].get_xydata()[1]) == [1.0, 41.25]
    assert "test BLEU" in right.get_ylabel()


def test_a_plot_without_test_scores_is_of_dev_scores() -> None:
    left, right = draw_comparison([summary(scores={}), NOTHING]).axes
    assert "dev BLEU" in right.get_ylabel()
    assert [text.get_text() for text in right.texts] == ["a"]
    assert len(left.lines) == 1
    assert draw_comparison([NOTHING]).axes[0].texts[:] == []


# --- The page -----------------------------------------------------------------------------------


class Elements(HTMLParser):
    """Collects the names of a page's elements, and the frames' pages."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.frames: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag == "iframe":
            self.frames.append(fake_attention.unpack_frame(dict(attrs)["srcdoc"] or ""))


def test_attention_is_in_a_frame_for_each_model_and_no_text_is_taken_for_markup() -> None:
    runs = [summary(), summary(HOSTILE, differences={"name": HOSTILE}), NOTHING]
    results = [
        RESULT,
        dataclasses.replace(RESULT, translation=HOSTILE),
        SentenceResult("", reason=HOSTILE),
    ]
    page = make_page(
        HOSTILE,
        HOSTILE,
        {HOSTILE: [HOSTILE], "b": []},
        [("A", render_attention(HOSTILE, runs, results))],
    )
    elements = Elements(page)
    assert elements.names.count("details") == 3
    assert not {"script", "b", "img"} & set(elements.names)
    assert len(elements.frames) == 2
    for frame in elements.frames:
        assert json.loads(re.findall(r'id="attention">(.*?)</script>', frame)[0])
    assert "positions=rotary" in page


def test_tables_and_sentences_take_no_text_for_markup() -> None:
    listing = Listing(HOSTILE, HOSTILE, ["a", HOSTILE], [[HOSTILE, "1.5"], [HOSTILE, "-2"]])
    example = Example(3, HOSTILE, align_words(HOSTILE, [HOSTILE, "<b>x</b>"]), (100.0, 1.0))
    content = render_section(Section("A", [listing], [example], ["<i>", HOSTILE]))
    elements = Elements(content)
    assert not {"script", "b", "i"} & set(elements.names)
    assert elements.names.count("table") == 2
    assert '<th scope="col" class="number"' in content
    assert content.count('tabindex="0"') == 2  # a keyboard can scroll what is wide
    empty = render_listing(Listing("A", "Nothing.", ["a"], []))
    assert empty == "<h3>A</h3>\n<p>Nothing.</p>\n"


def test_a_page_asks_no_server() -> None:
    page = make_page(
        "a", "b", {"c": ["d"]}, [("d", render_attention("Sí.", [summary()], [RESULT]))]
    )
    for shown in (page, *Elements(page).frames):
        assert set(re.findall(r"https?://[^\s\"'&]+", shown)) <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page


def _luminance(colour: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.2)."""
    digits = colour.lstrip("#")
    digits = "".join(2 * each for each in digits) if len(digits) == 3 else digits
    parts = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_texts_have_enough_contrast_in_both_schemes() -> None:
    page = make_page("a", "b", {"c": ["d"]}, [])
    background, *_ = re.findall(r"background: light-dark\((#\w+), (#\w+)\)", page)
    texts = re.findall(r"(?<![-\w])color: light-dark\((#\w+), (#\w+)\)", page)
    assert len(texts) > 3
    for scheme in range(2):
        for text in texts:
            light, dark = sorted((_luminance(text[scheme]), _luminance(background[scheme])))[::-1]
            assert (light + 0.05) / (dark + 0.05) >= 7, text[scheme]


def test_the_plot_is_a_png() -> None:
    assert render_comparison([summary()]).startswith(b"\x89PNG")


def test_sentences_of_the_other_direction_have_its_languages(tmp_path: Path) -> None:
    """They decide how outputs are scored and which words are told apart."""
    config = configured(
        *("experiment=both_directions", "data=files", "data.train=a.tsv"),
        *("data.source_language=zh", "data.target_language=en"),
        "data.sources.reversed.tag='<2zh>'",
    )
    run: Any = SimpleNamespace(config=config, path=tmp_path)
    systems = [System("run", tmp_path, run, run)]
    files = tmp_path / "source", tmp_path / "reference"
    files[1].write_text("你好。\n", encoding="utf-8")
    for source, languages in (("<2zh> Hello.", ("en", "zh")), ("<2en> 你好。", ("zh", "en"))):
        files[0].write_text(f"{source}\n", encoding="utf-8")
        assert DataReader("test", files, None, print).read(systems).languages == languages
