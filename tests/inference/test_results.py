"""Results are a leaf, are lines, and show themselves; attention is whatever kinds a model has."""

from __future__ import annotations

import base64
import html
import json
import pickle
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_attention import SOURCE, TARGET, attention, unpack_frame, weights

from nmt.analysis.heads import statistics
from nmt.analysis.pictures.attention_files import write_attention
from nmt.inference.forced_decoding import label_attention
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.results import Attention, PairScore, Results, Translation, to_one_line
from nmt.model.contract import AttentionKind
from nmt.text.cleaning import LINE_ENDS
from nmt.viewer import records

HOSTILE = "<script>alert('x')</script> & \"</iframe>"


def test_importing_results_loads_nothing_heavy() -> None:
    script = "import sys, nmt.inference.results; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "nmt" in loaded
    assert not loaded & {"keras", "tensorflow", "jax", "numpy", "matplotlib", "rich", "hydra"}


def test_a_text_is_one_line() -> None:
    ends = [chr(i) for i in range(sys.maxunicode + 1) if len(f"a{chr(i)}b".splitlines()) > 1]
    assert set(LINE_ENDS) == set(ends)
    text = to_one_line("".join(f"a{end}" for end in ends) + "\r\n\tb")
    assert text.splitlines() == [text]
    assert text == "a " * len(ends) + "   b"


class Reader(HTMLParser):
    """What a browser makes of a piece of HTML: elements, attributes, text."""

    def __init__(self, shown: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.text = ""
        self.feed(shown)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= dict(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_translation_shows_its_text_and_scores() -> None:
    shown = Reader(Translation(HOSTILE, -1.25, -0.75, (5, 2))._repr_html_())
    assert shown.elements == ["p", "small"]
    assert HOSTILE in shown.text
    assert "-0.750" in shown.text
    assert "-1.250" in shown.text


def test_a_list_of_results_shows_each_text_beside_its_translations() -> None:
    translations = [[Translation(HOSTILE, -1.25, -0.75, (5, 2))], []]
    results = Results(translations, [HOSTILE, "Hola."])
    assert results == translations  # a list like any other
    assert json.loads(json.dumps(Results(["a"], ["b"]))) == pickle.loads(
        pickle.dumps(Results(["a"], ["b"]))
    )
    page = results._repr_html_()
    assert page.count("text-align: start; vertical-align: baseline") == 4  # each cell
    shown = Reader(page)
    assert shown.elements == ["table", "tr", "td", "td", "p", "small", "tr", "td", "td"]
    assert shown.text.count(HOSTILE) == 2
    assert "Hola." in shown.text
    plain = Results(["Hi <b>"] * 101, ["Hola"] * 101)
    assert Reader(plain._repr_html_()).text.count("HolaHi <b>") == 100
    assert "and 1 more" in plain._repr_html_()
    plain.append("of another text")  # which sources belong to which results is unknown now
    assert "Hola" not in plain._repr_html_()


def test_no_display_sets_a_text_colour() -> None:
    """Notebooks are light or dark: displays inherit."""
    translation = Translation("a", -1.0, -1.0, (5, 2))
    for shown in (translation, Results([[translation]], ["b"]), PairScore(["a"], [-1.0])):
        assert not re.search(r"(?<![-\w])(color|background)\s*:", shown._repr_html_())


def test_a_scored_pair_shows_each_piece_over_its_log_probability() -> None:
    score = PairScore(["▁Hi", HOSTILE, "</s>"], [-0.25, -1.5, -0.125])
    assert score.log_prob == -1.875
    shown = score._repr_html_()
    assert shown.count("<td>") == 6
    cells = re.findall("<td>(.*?)</td>", shown)
    assert [html.unescape(cell) for cell in cells[:3]] == score.pieces
    assert cells[3:] == ["-0.25", "-1.50", "-0.12"]
    assert set(Reader(shown).elements) == {"table", "tr", "td", "p"}
    assert "-1.875 nats" in shown


def recorded(page: str) -> list[records.Decoded]:
    """Return what the viewer of a page draws."""
    data = re.findall(r'id="attention">(.*?)</script>', page, re.DOTALL)[0]
    return [records.decode(base64.b64decode(entry["record"])) for entry in json.loads(data)]


def test_attention_shows_the_viewer_in_a_frame_of_its_own() -> None:
    original = attention(source=["▁La", HOSTILE, "</s>"])
    shown = Reader(original._repr_html_())
    assert shown.elements[:2] == ["style", "div"]  # a table that the style hides
    assert shown.elements[-1] == "iframe"
    assert not {"script", "iframe"} & {*shown.elements[:-1]}
    page = unpack_frame(shown.attributes["srcdoc"] or "")
    assert "default-src 'none'" in page  # it asks no server for anything
    assert "<script>alert" not in page
    assert not re.search(r""" (?:src|href)=["'](?!data:)""", page)
    [restored] = recorded(page)
    assert restored.tokens["source"] == original.source
    np.testing.assert_allclose(restored.weights["cross"], original.cross, atol=1e-3)


# --- A model with one kind of attention. ----------------------------------------------------------

ONLY = AttentionKind("alignment", "alignment", "target_out", "source")
CROSS = weights(2, 1, len(TARGET), len(SOURCE), 2.0)  # [layers, H = 1, T, S]


class Aligner:
    """A model that has no other attention, padded to what it is given."""

    max_length = 16
    attention_kinds = (ONLY,)
    weights = ()

    def __call__(self, inputs: dict[str, Any], return_attention: bool = False) -> Any:
        assert return_attention
        batch, length = inputs["target"].shape
        padded = np.zeros((batch or 1, 1, length or 8, inputs["source"].shape[1] or 8), np.float32)
        padded[:, :, : CROSS.shape[2], : CROSS.shape[3]] = CROSS[0]
        return None, {"alignment": [padded, padded]}


class Pieces:
    def pieces(self, ids: Any) -> list[str]:
        return [f"piece {i}" for i in ids]


@pytest.fixture
def only() -> Attention:
    engine = KerasEngine(Aligner())  # type: ignore[arg-type]
    source, target = np.arange(5, 5 + 3), np.arange(9, 9 + 4)
    [restored] = engine.attention([source], [target])
    return label_attention(engine, Pieces(), source, target, 2, restored)  # type: ignore[arg-type]


def test_one_kind_of_attention_is_labelled_recorded_and_shown(only: Attention) -> None:
    assert only.kinds == (ONLY,)
    assert list(only.weights) == ["alignment"]
    np.testing.assert_array_equal(only.weights["alignment"], np.stack([CROSS[0], CROSS[0]]))
    assert (only.target_out[-1], only.source[-1]) == ("piece 2", "piece 2")
    decoded = records.decode(records.encode("a sentence", only))
    assert list(decoded.weights) == ["alignment"]
    np.testing.assert_allclose(decoded.weights["alignment"], only.weights["alignment"], atol=1e-3)
    assert decoded.tokens["target_out"] == only.target_out
    srcdoc = Reader(only._repr_html_()).attributes["srcdoc"] or ""
    [shown] = recorded(unpack_frame(srcdoc))
    assert list(shown.weights) == ["alignment"]


def test_one_kind_of_attention_is_measured(only: Attention) -> None:
    means = statistics.average([statistics.sum_up(only)])
    assert list(means) == ["alignment"]
    assert means["alignment"]["diagonal"].shape == (2, 1)
    tags = statistics.summarize_probes([only])
    assert set(tags) == {
        f"attention/{what}/alignment_layer_{layer}"
        for what in ("entropy", "eos")
        for layer in (1, 2)
    }


def test_one_kind_of_attention_is_drawn(only: Attention, tmp_path: Path) -> None:
    translator = SimpleNamespace(attention=lambda *arguments: only)
    translation = Translation("b", -1.0, -1.0, (2,))
    files = list(write_attention(translator, ["a"], [translation], tmp_path))
    assert [file.name for file in files] == [
        f"sentence_1_alignment_layer_{layer}.png" for layer in (1, 2)
    ]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
    [page] = write_attention(translator, ["a"], [translation], tmp_path / "page.html")
    [shown] = recorded(page.read_text(encoding="utf-8"))
    assert list(shown.weights) == ["alignment"]
