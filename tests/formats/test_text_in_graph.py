"""Sentences, kept spans and letter case in graph operations, compared with those of nmt.text."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL, corpus_lines, transformer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt import Translator
from nmt.config import DecodingConfig, TokenizerConfig
from nmt.data.tokenizer_training import list_texts, train_tokenizer
from nmt.formats import savedmodel, text_in_graph
from nmt.formats.text_in_graph import Masked
from nmt.inference.engines import Engines
from nmt.inference.keras_engine import KerasEngine
from nmt.text.case import LetterCase, copy_first_capital, recognize_case, to_sentence_case
from nmt.text.cleaning import clean_input, clean_text
from nmt.text.sentences import split_sentences
from nmt.text.spans import SLOTS, find_spans, keep_spans, restore_spans

pytestmark = pytest.mark.xdist_group("exports")

TEXTS = [
    "Hola. ¿Qué tal? Bien.",
    "  Hola.\n\nAdiós. \n",
    "uno\r\ndos\u2028tres",
    "El Sr. López vino. Luego se fue.",
    "Vino el Dr. D. Juan. Ya.",
    "Son las 5 a. m. del día. Fin.",
    "Son las 5 a.m. del día. Fin.",
    "EE. UU. es grande. Sí.",
    "—¡Ven! —dijo él. Y fue.",
    "Bueno... no sé. Sí... No.",
    "hola. que tal? bien",
    "«¿Vas?» preguntó. Fue.",
    "¡¿Qué?! ¡No! Sí",
    "Ve a www.x.com. Luego 3.5 y 3 %. 4 cosas.",
    "これは。本です！はい。",
    "他说：“好。”我走了。「好。」好",
    'वह गया। "हाँ।" फिर आया। अब॥',
    "ما هذا؟ هذا كتاب. نعم؟! لا",
    "یہ کیا ہے؟ یہ کتاب ہے۔ ہاں۔",
    "ሰላም ነው። እንዴት ነህ፧ ደህና።",
    "値は３．５です。",
    " \t ",
]
SPANS = st.lists(
    st.sampled_from(
        ["a@b.es", "5 %", "{x}", "palabra", "😀", ",", SLOTS[0], SLOTS[7], "http://x.y/z", "٣٫٥"]
    ),
    max_size=14,
).map(" ".join)


def settle(check: object) -> None:
    settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))(check)()


def test_sentences_are_those_of_the_library() -> None:
    import tensorflow as tf

    split = tf.function(text_in_graph.make_splitter("sentence"))
    sentences = split(tf.constant(TEXTS))
    pieces = [
        b"".join(parts).decode()
        for parts in zip(
            *(part.numpy() for part in (sentences.before, sentences.text, sentences.after)),
            strict=True,
        )
    ]
    bounds = sentences.splits.numpy()
    for row, text in enumerate(TEXTS):
        assert pieces[bounds[row] : bounds[row + 1]] == split_sentences(text, "es")
        assert set(sentences.rows.numpy()[bounds[row] : bounds[row + 1]]) == {row}


def test_ligatures_are_letters() -> None:
    import tensorflow as tf

    text = "El ﬁn. El ﬂan, la oﬃcina."
    sentences = text_in_graph.make_splitter("line")(tf.constant([text]))
    assert [sentences.text.numpy()[0].decode()] == [clean_input(text)]


def test_joined_sentences_are_the_text() -> None:
    import tensorflow as tf

    split, join = text_in_graph.make_splitter("sentence"), text_in_graph.make_joiner()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def copy(texts: tf.Tensor) -> tf.Tensor:
        sentences = split(texts)
        return join(sentences, sentences.text)

    assert [text.decode() for text in copy(tf.constant(TEXTS)).numpy()] == TEXTS
    words = st.sampled_from(["Sr.", "a.", "Sí.", "¿No?", "va", "—", "…", "...", '"Ah!"', "7."])
    spaces = st.sampled_from([" ", "\n", " \n\n "])
    texts = st.lists(st.tuples(words, spaces), max_size=9).map(
        lambda pairs: "".join(word + space for word, space in pairs)
    )

    def check(texts: list[str]) -> None:
        copied = [text.decode() for text in copy(tf.constant(texts, tf.string)).numpy()]
        assert [text.split() for text in copied] == [text.split() for text in texts]
        breaks = [text.count("\n") for text in texts]
        assert [text.count("\n") for text in copied] == breaks

    settle(given(st.lists(texts, max_size=8))(check))


def test_slots_are_those_of_the_library() -> None:
    import tensorflow as tf

    signature = [tf.TensorSpec([None], tf.string)]
    mask = tf.function(lambda text: tuple(text_in_graph.mask_spans(text, 8)), signature)
    restore = tf.function(
        lambda text, spans, counts: text_in_graph.restore_spans(text, Masked(text, spans, counts)),
        [*signature, tf.TensorSpec([None, 8], tf.string), tf.TensorSpec([None], tf.int64)],
    )
    outputs = st.lists(st.sampled_from([*SLOTS[:3], "to", "be"]), max_size=6).map(" ".join)

    def check(pairs: list[tuple[str, str]]) -> None:
        masked = mask(tf.constant([text for text, _ in pairs], tf.string))
        restored = restore(tf.constant([output for _, output in pairs], tf.string), *masked[1:])
        for row, (text, output) in enumerate(pairs):
            kept = keep_spans(text, list(find_spans(text)))
            assert masked[0][row].numpy().decode() == kept.text
            values = [value.decode() for value in masked[1][row].numpy()]
            assert values == [*kept.values, *[""] * (8 - len(kept.values))]
            assert masked[2][row].numpy() == len(kept.values)
            expected = restore_spans(output, kept.values)[0]
            assert " ".join(restored[row].numpy().decode().split()) == " ".join(expected.split())

    settle(given(st.lists(st.tuples(SPANS, outputs), max_size=9))(check))


def test_capitals() -> None:
    import tensorflow as tf

    texts = ["¡HOLA MUNDO!", "NO", "NASA", "I'M", "Hola", "5", "", "ÑU ÁÉ", "U.S.A.", SLOTS[0]]
    texts += ["我喜欢看NBA比赛。", "أحب مشاهدة NBA.", "DVDを見る。", "Mª JOSÉ", "ДА, ДА!"]
    expected = [recognize_case(text) is LetterCase.UPPER for text in texts]
    assert text_in_graph.is_upper(tf.constant(texts)).numpy().tolist() == expected
    [lowered] = text_in_graph.lower_capitals(tf.constant(texts[:1])).numpy()
    assert lowered.decode() == to_sentence_case(texts[0], LetterCase.UPPER)
    [upper] = text_in_graph.upper_outside_spans(tf.constant([f"así a@b.es {SLOTS[0]}"])).numpy()
    assert upper.decode() == f"ASÍ a@b.es {SLOTS[0]}"


@pytest.mark.parametrize(
    ("lowercases", "slots", "unit"),
    [(True, 8, "sentence"), (False, 8, "line"), (False, 0, "sentence")],
)
def test_a_model_translates_texts_as_the_library(
    lowercases: bool, slots: int, unit: str, tmp_path: Path
) -> None:
    pairs = [line.split("\t")[:2] for line in corpus_lines(200)]
    config = TokenizerConfig("unigram", 500, 0, 0.9998, lowercases, slots)
    texts = list_texts(config, [(clean_text(one), clean_text(other)) for one, other in pairs])
    tokenizer = train_tokenizer(config, texts, str)
    model = transformer(vocabulary_size=tokenizer.vocabulary_size, **SMALL, max_length=64)
    for number, weight in enumerate(model.weights):
        values = np.random.default_rng(number).standard_normal(weight.shape)
        weight.assign(1 + 0.2 * values if weight.name == "gamma" else 0.5 * values)
    decoding = DecodingConfig(
        unit=unit,
        beam_size=1,
        length_penalty=0.6,
        max_length_ratio=1.5,
        max_length_margin=4,
        batch_size=8,
        no_repeat_ngram=0,
    )
    savedmodel.write(model, tokenizer, decoding, tmp_path)
    samples = [
        "¿Dónde está la estación?",
        " Hoy hace frío.  ¡Ven!\n\nDos hombres.",
        "TENGO HAMBRE. Voy.",
        "Escribe a juan@mail.com: son 3,50 €.",
        "12:30",
        "",
    ]
    translator = Translator(Engines(KerasEngine(model)), tokenizer, decoding)
    expected = [best for (best, *_) in translator.hypotheses(samples, no_repeat_ngram=0)]
    outputs = savedmodel.translate(tmp_path, samples)
    # A lost span is last, where the library may find a better place for it.
    assert [sorted(output.text.split()) for output in outputs] == [
        sorted(translation.text.split()) for translation in expected
    ]
    for output, translation in zip(outputs, expected, strict=True):
        assert output.log_prob == pytest.approx(translation.log_prob, abs=1e-2)
    assert outputs[1].text.count("\n") == (2 if unit == "sentence" else 0)
    assert outputs[4].text == "12:30"
    if slots:
        assert outputs[3].text.count("juan@mail.com") == outputs[3].text.count("3,50 €") == 1


def test_first_capitals_are_those_of_python() -> None:
    slot = SLOTS[0]
    texts = [
        "Hola",
        "hola",
        f"{slot} hola",
        f"El {slot}",
        f"¿{slot} Qué?",
        f"5 {slot} a",
        "¡Ah!",
        "ძაღლი",
        "",
    ]
    sources, translations = zip(*product(texts, texts), strict=True)
    written = text_in_graph.copy_first_capital(sources, translations)
    expected = list(map(copy_first_capital, sources, translations))
    assert [text.decode() for text in written.numpy()] == expected
