"""The LiteRT model translates as the run, with operations that LiteRT has built in."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from made_exports import TEXTS, load_run, make_wordpiece

from nmt import Translator
from nmt.data.tokenizer import EOS
from nmt.formats import tflite
from nmt.formats.comparison import read_sources
from nmt.inference.results import Translation
from nmt.text.cleaning import clean_text

pytestmark = pytest.mark.xdist_group("exports")

POSITIONS = 32
DOCUMENT = Path(__file__).parents[2] / "docs" / "exporting.md"


@pytest.fixture(scope="module")
def translator(parrot_run: Path) -> Translator:
    return load_run(parrot_run)


def written(translator: Translator, folder: Path, quantization: str = "float32") -> Path:
    assert translator.decoding.beam_size > 1
    tflite.write(
        translator.engine.model,
        translator.tokenizer,
        translator.decoding,
        folder,
        positions=POSITIONS,
        quantization=quantization,
    )
    return folder


@pytest.fixture(scope="module")
def exported(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(translator, tmp_path_factory.mktemp("tflite"))


@pytest.fixture(scope="module")
def texts(parrot_run: Path, translator: Translator) -> list[str]:
    samples = read_sources(parrot_run / "samples", [], translator.tokenizer, POSITIONS)
    assert len(samples) > 5
    return samples


@pytest.fixture(scope="module")
def expected(texts: list[str], translator: Translator) -> list[Translation]:
    return [hypotheses[0] for hypotheses in translator.hypotheses(texts, no_repeat_ngram=0)]


def test_it_translates_as_the_run(
    exported: Path, texts: list[str], expected: list[Translation]
) -> None:
    for ours, theirs in zip(tflite.translate(exported, texts), expected, strict=True):
        assert ours.text == theirs.text != ""
        assert ours.tokens == theirs.tokens
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-3)
        assert ours.score == pytest.approx(theirs.score, abs=1e-3)


def documented_code(folder: Path, text: str) -> str:
    """Return the document's code that translates without this package, for an export and a text."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("## LiteRT\n")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    for documented, ours in (
        ("64", str(POSITIONS)),
        ("63", str(POSITIONS - 1)),
        ('"runs/latest/exports/tflite"', repr(str(folder))),
        ('"El tren sale a las 12:30."', repr(text)),
    ):
        assert documented in code
        code = code.replace(documented, ours)
    return code


def test_the_documented_code_reads_numbers_and_addresses_as_the_run(
    exported: Path, translator: Translator, tmp_path: Path
) -> None:
    text = "Son 12:30 y 7, ana@example.com y https://example.org/a?b=3."
    script = tmp_path / "documented.py"
    script.write_text(documented_code(exported, text), encoding="utf-8")
    [segment] = translator.segmenter.segment(text).segments
    assert len(segment.spans) == 4
    assert runpy.run_path(str(script))["ids"] == [*segment.ids, EOS]


def test_dates_are_written_in_the_target_language(exported: Path) -> None:
    text = "Son 5 de mayo de 1990."
    [translation] = tflite.translate(exported, [text], languages=("es", "en"))
    assert "May 5, 1990" in translation.text


@pytest.mark.long
def test_without_this_package(
    exported: Path, texts: list[str], expected: list[Translation]
) -> None:
    script = documented_code(exported, clean_text(texts[0]))
    script += """
import json
interpreter = tf.lite.Interpreter(f"{folder}/model.tflite")
operations = sorted({operation["op_name"] for operation in interpreter._get_ops_details()})
print(json.dumps([translation, operations]))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=exported,
    )
    assert done.returncode == 0, done.stderr
    translation, operations = json.loads(done.stdout.splitlines()[-1])
    assert translation == expected[0].text
    assert "WHILE" in operations
    assert not [name for name in operations if name.startswith("Flex") or name == "CUSTOM"]


@pytest.mark.long
def test_quantized_it_is_smaller(
    translator: Translator,
    exported: Path,
    texts: list[str],
    expected: list[Translation],
    tmp_path: Path,
) -> None:
    sizes = [(exported / tflite.MODEL_FILE).stat().st_size]
    for quantization in ("float16", "int8"):
        folder = tmp_path / quantization
        folder.mkdir()
        written(translator, folder, quantization)
        sizes.append((folder / tflite.MODEL_FILE).stat().st_size)
        translations = tflite.translate(folder, texts)
        pairs = zip(translations, expected, strict=True)
        same = sum(ours.text == theirs.text for ours, theirs in pairs)
        assert same >= 0.8 * len(texts), quantization
    assert sizes[0] > sizes[1] > sizes[2]


def test_empty_and_long_texts(exported: Path, translator: Translator) -> None:
    sentence = "Tengo hambre y tengo sueño. "
    ids = translator.tokenizer.encode([clean_text(sentence * 20)])[0]
    cut = translator.tokenizer.decode([ids[: POSITIONS - 1]])[0]
    assert translator.tokenizer.encode([cut])[0].tolist() == ids[: POSITIONS - 1].tolist()
    cut = cut[0].upper() + cut[1:]  # the tokenizer has lower-cased it
    empty, long, short = tflite.translate(exported, [" ", sentence * 20, cut])
    assert (empty.text, empty.tokens) == ("", (EOS,))
    assert long.text == short.text != ""


@pytest.mark.long
def test_a_wordpiece_model(tmp_path: Path) -> None:
    model, tokenizer, decoding, expected = make_wordpiece()
    tflite.write(model, tokenizer, decoding, tmp_path, positions=POSITIONS, quantization="float32")
    for ours, theirs in zip(tflite.translate(tmp_path, TEXTS), expected, strict=True):
        assert ours.text == theirs.text != ""
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-3)
