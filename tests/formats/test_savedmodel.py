"""The SavedModel translates in a process that knows TensorFlow and tensorflow-text alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import corpus_lines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_exports import TEXTS, load_run, make_tokenizer, make_wordpiece

from nmt import Translator
from nmt.formats import savedmodel, text_in_graph
from nmt.formats.comparison import read_sources
from nmt.inference.results import clean_output
from nmt.text.cleaning import LINE_ENDS, clean_text

pytestmark = pytest.mark.xdist_group("exports")

ODD = [
    "",
    " \t\u200b\x00\u00a0",
    "  Tengo\u00a0 hambre.\x07",
    "man\u0303ana",  # composed by NFC
    "😀👩\u200d🚀 no\u2028sí",
    "¿Y ESTO?",
]


@pytest.fixture(scope="module")
def translator(parrot_run: Path) -> Translator:
    return load_run(parrot_run)


@pytest.fixture(scope="module")
def exported(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("savedmodel")
    assert translator.decoding.beam_size > 1
    model = translator.engine.model
    savedmodel.write(model, translator.tokenizer, translator.decoding, folder)
    return folder


def test_a_fresh_process_translates_as_the_run(
    exported: Path, parrot_run: Path, translator: Translator
) -> None:
    texts = ODD + read_sources(parrot_run / "samples", [], translator.tokenizer, 64)
    script = """
import json, sys
import tensorflow as tf
import tensorflow_text
loaded = tf.saved_model.load(sys.argv[1])
translate = loaded.signatures["serving_default"]
texts = json.loads(sys.argv[2])
together = translate(text=tf.constant(texts))
alone = [translate(text=tf.constant([text])) for text in texts[:6]]
print(json.dumps({
    "together": {name: together[name].numpy().tolist() for name in ("score", "log_prob")},
    "translation": [text.decode() for text in together["translation"].numpy()],
    "alone": [output["translation"].numpy()[0].decode() for output in alone],
    "of none": int(tf.size(translate(text=tf.constant([], tf.string))["translation"])),
    "nmt": sorted(name for name in sys.modules if name.split(".")[0] in ("nmt", "keras")),
}))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(exported), json.dumps(texts)],
        capture_output=True,
        text=True,
        check=False,
        cwd=exported,
    )
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout.splitlines()[-1])
    expected = translator.hypotheses(texts, no_repeat_ngram=0)
    best = [hypotheses[0] for hypotheses in expected]
    for text, translation in zip(outputs["translation"], best, strict=True):
        if translation.lost_spans:  # the library finds a better place for them
            assert sorted(text.split()) == sorted(translation.text.split())
        else:
            assert text == translation.text
    assert sum(not translation.lost_spans for translation in best) > len(texts) // 2
    assert outputs["alone"] == outputs["translation"][:6]
    assert outputs["of none"] == 0
    for name in ("score", "log_prob"):
        values = [getattr(translation, name) for translation in best]
        assert outputs["together"][name] == pytest.approx(values, abs=1e-3)
    assert not [name for name in outputs["nmt"] if name.startswith("nmt")]
    assert all(text.strip() for text in outputs["translation"][2:])


def test_a_long_text_is_cut(exported: Path, translator: Translator) -> None:
    sentence = "tengo hambre y tengo sueño, "
    ids = translator.tokenizer.encode([clean_text(sentence * 20)])[0]
    assert len(ids) > 64
    cut = translator.tokenizer.decode([ids[:63]])[0]
    assert translator.tokenizer.encode([cut])[0].tolist() == ids[:63].tolist()
    long, short = savedmodel.translate(exported, [(sentence * 20).strip(), cut])
    (expected,) = translator.hypotheses([cut], no_repeat_ngram=0)[0]
    assert long.text == short.text == expected.text != ""
    for translation in (long, short):
        assert translation.log_prob == pytest.approx(expected.log_prob, abs=1e-3)


def test_cleaning_in_the_graph_is_clean_text() -> None:
    import tensorflow as tf

    clean = tf.function(text_in_graph.make_cleaner())
    # Marks, spaces, control and format characters, and what NFC rewrites into another.
    signs = st.sampled_from(
        "a .é\u0301\u0327▁\t\n\x00\x1c\x7f\x85\u00a0\u00ad\u034f\u061c\u180e\u2000\u200b\u200c"
        "\u200d\u2028\u202e\u2126\u212b\u3000\ufeff\uac00\u1112\u1161\u11a8\U0001f680\U000e0001\U0010ffff"
    )
    texts = st.lists(st.one_of(st.text(signs, max_size=12), st.text(max_size=12)), max_size=40)

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(texts)
    def check(texts: list[str]) -> None:
        cleaned = clean(tf.constant(texts, tf.string)).numpy()
        assert [text.decode() for text in cleaned] == [clean_text(text) for text in texts]

    check()
    assert clean(tf.constant([b"\xff a\xe2\x82b"])).numpy()[0].decode() == "\ufffd a\ufffdb"


@pytest.mark.parametrize("kind", ["unigram", "bpe", "wordpiece"])
def test_tokenizing_in_the_graph_is_the_tokenizers_own(kind: str) -> None:
    import numpy as np
    import tensorflow as tf

    tokenizer = make_tokenizer(kind)
    encode, decode = map(tf.function, savedmodel._make_coders(tokenizer))
    lines = [clean_text(line) for line in corpus_lines(50)]
    texts = [*lines, *map(clean_text, ODD), "a-b_c 3.5%", "Ⅷ½²٣ ßŞ ー、", "x" * 300, "? ¿ .."]
    expected = [ids.tolist() for ids in tokenizer.encode(texts)]
    assert encode(tf.constant(texts)).to_list() == expected
    ids = np.random.default_rng(0).integers(0, tokenizer.vocabulary_size, (100, 12), np.int32)
    assert [text.decode() for text in decode(tf.constant(ids)).numpy()] == tokenizer.decode(ids)


def test_a_tokenizer_without_operations_of_a_graph_is_refused() -> None:
    wordpiece = make_tokenizer("wordpiece")
    other: Any = SimpleNamespace(
        in_graph=wordpiece.in_graph,
        pieces=wordpiece.pieces,
        vocabulary_size=wordpiece.vocabulary_size,
    )
    with pytest.raises(TypeError, match="encode as a SimpleNamespace does"):
        savedmodel._make_coders(other)


def test_a_decoded_byte_ends_no_line_and_is_no_sign() -> None:
    import tensorflow as tf

    tokenizer = make_tokenizer("unigram")
    _, decode = savedmodel._make_coders(tokenizer)
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    for end in LINE_ENDS:
        ids = [pieces.index(f"<0x{byte:02X}>") for byte in end.encode()]
        [text] = decode(tf.constant([[*ids, pieces.index("a"), *ids]])).numpy()
        assert end in text.decode()
        [cleaned] = text_in_graph.clean_output(tf.constant([text])).numpy()
        assert cleaned.decode() == clean_output(text.decode())
    [text] = decode(tf.constant([[pieces.index("<0xE2>"), pieces.index("a")]])).numpy()
    [cleaned] = text_in_graph.clean_output(tf.constant([text])).numpy()
    assert cleaned.decode() == "a"


@pytest.mark.long
def test_a_wordpiece_model(tmp_path: Path) -> None:
    untrained = make_wordpiece()
    savedmodel.write(untrained.model, untrained.tokenizer, untrained.decoding, tmp_path)
    translations = savedmodel.translate(tmp_path, TEXTS)
    for ours, theirs in zip(translations, untrained.expected, strict=True):
        assert ours.text == theirs.text != ""
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-3)
