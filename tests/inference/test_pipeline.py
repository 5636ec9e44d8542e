"""Batches, streams and segments on any engine; the Keras engine for unsupported requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from conftest import small_tokenizer
from translator_inputs import DECODING, SENTENCES

from nmt import Translator
from nmt.data.tokenizer import EOS, Tokenizer
from nmt.errors import UserError
from nmt.inference.contract import BeamOptions, Hypothesis, SamplingOptions, SearchRequest
from nmt.inference.engines import Engines
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.results import Translation
from nmt.inference.segments import enter_remark
from nmt.inference.streaming import translate_file
from nmt.inference.text_files import open_output
from nmt.inference.two_way_segmenting import TwoWaySegmenter
from nmt.runs.resuming import compose_config
from nmt.text.cleaning import LINE_ENDS

pytest_plugins = ("random_translator",)
# On one worker, which compiles each search once: beams are of 1 and 4, samples 4.
pytestmark = pytest.mark.xdist_group("translator")


class Foreign:
    """An engine without Keras, which only searches, without a coverage penalty."""

    max_length = 64
    workers = 1
    keras_engine: KerasEngine | None = None
    can_align = True

    def supports(self, options: BeamOptions | SamplingOptions) -> bool:
        return isinstance(options, BeamOptions) and not options.coverage_penalty

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions | SamplingOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        return [[Hypothesis((*ids[::-1], EOS), -1.0, -1.0)] for ids in sources]

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        return [np.full(len(target) + 1, -0.5, np.float32) for target in targets]


class Meeting(Foreign):
    """An engine whose batches wait for each other: it answers if two are searched at once."""

    workers = 2

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2, timeout=20)
        self.sizes: list[int] = []

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions | SamplingOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        self.sizes.append(len(sources))
        self.barrier.wait()
        return super().search(sources, limits, options, prefix)


def test_batches_are_searched_at_the_same_time_and_come_back_in_order(
    translator: Translator,
) -> None:
    engine = Meeting()
    both = Translator(Engines(engine), translator.tokenizer, translator.decoding)
    outputs = both.hypotheses(SENTENCES)
    assert engine.sizes == [2, 2]
    for sentence, (translation,) in zip(SENTENCES, outputs, strict=True):
        assert [*translation.tokens[:-1]][::-1] == translator.tokenizer.encode([sentence])[
            0
        ].tolist()


class Interrupted(Foreign):
    """An engine that is interrupted in its first batch."""

    def __init__(self) -> None:
        self.batches = 0

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions | SamplingOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        self.batches += 1
        if self.batches > 1:
            time.sleep(0.5)  # within which the caller cancels the others
        raise KeyboardInterrupt


def test_an_interruption_does_not_wait_for_the_batches_behind_it(translator: Translator) -> None:
    engine = Interrupted()
    interrupted = Translator(Engines(engine), translator.tokenizer, translator.decoding)
    with pytest.raises(KeyboardInterrupt):
        interrupted.translate(SENTENCES * 100)
    assert engine.batches < 3  # of 25: the second may have begun


def test_what_fails_in_a_batch_is_raised(translator: Translator) -> None:
    engine = Meeting()
    engine.barrier.abort()
    with pytest.raises(threading.BrokenBarrierError):
        Translator(Engines(engine), translator.tokenizer, translator.decoding).translate(SENTENCES)


def test_what_an_engine_cannot_do_the_own_one_does_and_is_loaded_once(
    translator: Translator,
) -> None:
    loaded: list[KerasEngine] = []

    def load() -> KerasEngine:
        loaded.append(cast(KerasEngine, translator.engine))
        return loaded[0]

    mixed = Translator(Engines(Foreign(), load), translator.tokenizer, translator.decoding)
    assert mixed.hypotheses(["Hola."])[0][0].tokens[-2] == mixed.tokenizer.encode(["Hola."])[0][0]
    assert mixed.score([("Hola.", "Hello.")])[0].log_probs[-1] == -0.5
    assert loaded == []
    covered: dict[str, Any] = {"coverage_penalty": 0.2}
    assert mixed.hypotheses(["Hola."], **covered) == translator.hypotheses(["Hola."], **covered)
    assert mixed.samples(["Hola."], 2) == translator.samples(["Hola."], 2)
    assert mixed.attention("Hola.") is not None
    assert len(loaded) == 1


def test_only_the_own_engine_samples_penalises_coverage_and_shows_attention(
    translator: Translator,
) -> None:
    other = Translator(Engines(Foreign()), translator.tokenizer, translator.decoding)
    with pytest.raises(UserError, match=r"^sampling needs the Keras engine"):
        other.samples(["Hola."], 2)
    with pytest.raises(UserError, match=r"^a coverage penalty needs the Keras engine"):
        other.hypotheses(["Hola."], coverage_penalty=0.2)
    with pytest.raises(UserError, match=r"^attention needs the Keras engine"):
        other.attention("Hola.")


def test_a_stream_reads_one_chunk_ahead_and_keeps_the_order(translator: Translator) -> None:
    read: list[int] = []

    def chunks() -> Iterator[list[str]]:
        for number, sentence in enumerate(SENTENCES):
            read.append(number)
            yield [sentence, "", sentence]

    reversing = Translator(Engines(Foreign()), translator.tokenizer, translator.decoding)
    expected = reversing.hypotheses(SENTENCES)
    with closing(reversing.stream(chunks(), SearchRequest())) as stream:
        for number, chunk in enumerate(stream):
            assert read == list(range(min(number + 2, len(SENTENCES))))
            assert chunk[1][0].text == ""
            assert chunk[0] == chunk[2] == expected[number]
    assert number == len(SENTENCES) - 1


class Writer(KerasEngine):
    """Writes the same ids, whatever it is asked for."""

    max_length = 64
    workers = 1

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = tuple(ids)

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions | SamplingOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        return [[Hypothesis((*self.ids, EOS), -1.0, -1.0)] * options.n_best for _ in sources]


class Sampling(Writer):
    """Returns the same hypotheses for every sentence."""

    def __init__(self, outputs: Sequence[Sequence[int]]) -> None:
        super().__init__(())
        self.hypotheses = [
            Hypothesis((*ids, EOS), -float(number), -float(number))
            for number, ids in enumerate(outputs, 1)
        ]

    def search(self, sources: Sequence[np.ndarray], *_: Any) -> list[list[Hypothesis]]:
        return [self.hypotheses] * len(sources)

    @property
    def can_align(self) -> bool:
        return False


def test_of_equal_samples_the_most_probable_is_ranked(tokenizer: Tokenizer) -> None:
    one, other = tokenizer.encode(["hoy", "hace frío"])
    translator = Translator(Engines(Sampling([one, other, one])), tokenizer, DECODING)
    ranked = translator.minimum_bayes_risk(["hola."], 3)[0]
    assert [(sample.text, sample.log_prob) for sample in ranked] == [
        ("hoy", -1.0),
        ("hace frío", -2.0),
    ]


@pytest.mark.filterwarnings("ignore:a text of")
@pytest.mark.parametrize("end", LINE_ENDS, ids=ascii)
def test_bytes_that_end_a_line_leave_one_line(
    tokenizer: Tokenizer, tmp_path: Path, end: str
) -> None:
    """One line out per line in, whatever was found or drawn: from one text, and from a file."""
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    sign = [pieces.index(f"<0x{byte:02X}>") for byte in end.encode()]
    a, b = (pieces.index(piece) for piece in ("a", "e"))
    ids = [a, *sign, b, *sign]
    assert tokenizer.decode([ids]) == [f"a{end}e{end}"]
    translator = Translator(Engines(Writer(ids)), tokenizer, DECODING)
    long_text = "hoy hace frío, " * 60  # in parts, which are joined
    texts = ["hola.", "", long_text]
    translations = [
        *translator.hypotheses(texts, n_best=2),
        *translator.samples(texts, 2),
        *translator.minimum_bayes_risk(texts, 2),
    ]
    for translation in (translation for candidates in translations for translation in candidates):
        assert translation.text.splitlines() == ([translation.text] if translation.text else [])
    assert translations[0][0].text == "a e "

    (tmp_path / "in").write_text("\n".join(texts), encoding="utf-8")
    with open_output(tmp_path / "out") as out:
        translate_file(
            tmp_path / "in",
            0,
            lambda chunks: translator.stream(chunks, SearchRequest()),
            lambda translations: print(
                "\n".join(translation[0].text for translation in translations), file=out
            ),
            shows_progress=False,
        )
    written = (tmp_path / "out").read_bytes().decode()
    assert written.count("\n") == len(written.splitlines()) == len(texts)
    assert written.splitlines()[1] == ""


class Recording(Foreign):
    """An engine that keeps the sources, and writes them back."""

    def __init__(self) -> None:
        self.sources: list[list[int]] = []

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions | SamplingOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        self.sources += [ids.tolist() for ids in sources]
        return [[Hypothesis((*map(int, ids), EOS), -1.0, -1.0)] for ids in sources]


@pytest.mark.filterwarnings("ignore:a text of")
def test_tags_and_languages_of_a_configuration_reach_the_parts_of_a_long_text(
    tokenizer: Tokenizer, translator: Translator
) -> None:
    config = compose_config(
        [
            "data=files",
            "data.train=a.tsv",
            "data.source_language=es",
            "data.target_language=zh",
            "data.sources.pairs.tag='<2zh>'",
            "training.row_lengths=[24]",
        ]
    )
    engine = Recording()
    tagged = Translator.from_config(
        Engines(engine, lambda: cast(KerasEngine, engine)), tokenizer, config
    )
    tag = tokenizer.encode(["<2zh>"])[0].tolist()
    text = "<2zh> " + "Hoy hace frío. " * 12
    for each in (tagged, tagged.with_keras_engine()):
        engine.sources.clear()
        each.translate([text])
        assert len(engine.sources) > 2
        assert all(ids[: len(tag)] == tag and len(ids) <= 23 for ids in engine.sources)
        segments = [[Translation(text, -1.0, -1.0, ())] for text in ("你好", "世界")]
        assert each.joiner.join_best(segments, 1, ["", "", ""])[0].text == "你好世界"


def test_texts_of_two_directions_are_joined_as_their_letters_are(tokenizer: Tokenizer) -> None:
    config = compose_config(
        [
            *("data=files", "data.train=a.tsv", "data.source_language=es"),
            *("data.target_language=zh", "experiment=both_directions"),
            *("data.sources.pairs.tag='<2zh>'", "data.sources.reversed.tag='<2es>'"),
        ]
    )
    engine = Recording()
    engines = Engines(engine, lambda: cast(KerasEngine, Recording()))
    two_way = Translator.from_config(engines, tokenizer, config)
    for each in (two_way, two_way.with_keras_engine()):
        assert isinstance(each.segmenter, TwoWaySegmenter)
        for texts, joined in ((("你好", "世界"), "你好世界"), (("Hola.", "¿Sí?"), "Hola. ¿Sí?")):
            segments = [[Translation(text, -1.0, -1.0, ())] for text in texts]
            assert each.joiner.join_best(segments, 1, ["", "", ""])[0].text == joined
    assert two_way.with_keras_engine().translate(["Hoy no."]) == ["Hoy no."]
    assert engine.sources == []


class Aligned(Recording):
    """An engine that writes its source back, and aligns each token to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.aligned = 0

    def align(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        self.aligned += len(sources)
        return [
            np.eye(len(target) + 1, len(source) + 1)
            for source, target in zip(sources, targets, strict=True)
        ]


@pytest.fixture(scope="module")
def slotted() -> Tokenizer:
    return small_tokenizer(lowercases=False, slots=3)


def test_tags_are_carried_by_alignment(slotted: Tokenizer) -> None:
    engine = Aligned()
    translator = Translator(Engines(engine), slotted, DECODING)
    texts = [
        "Hoy <b>hace</b> mucho frío.",
        "Hoy hace frío.",
        "<i>¿Vamos? Sí,</i> <a href='x'>vamos</a>.\n\n<b>12</b>",
        "<p>Hola.</p><p>Adiós <file>.</p>",
        "Hoy (o <b>mañana</b>) hace «mucho» frío (5 °C).",
    ]
    assert translator.translate(texts) == texts
    assert engine.aligned == 5, "but for the texts without tags; a remark is aligned by itself"
    assert not any(slotted.encode(["<b>"])[0].tolist() == ids[:3] for ids in engine.sources)
    for text, expected in (
        (texts[0], "Hoy hace mucho frío ."),
        ("Hoy (no) hace frío.", "Hoy no hace frío ."),
    ):
        [[translation]] = translator.run([text], SearchRequest(words=True))
        assert translation.text == text
        words = [text[word.begin : word.end] for word in translation.words]
        assert words == expected.split()
        sources = [[text[slice(*span)] for span in word.sources] for word in translation.words]
        assert sources == [[word] for word in words]


def test_a_translation_begins_with_a_prefix_but_for_tags(slotted: Tokenizer) -> None:
    translator = Translator(Engines(Aligned()), slotted, DECODING)
    [segment] = translator.segmenter.segment("Hoy <b>hace</b> frío.").segments
    assert translator.pipeline.begin_with(segment, "Hoy <b>ha").prefix.full_text == "Hoy ha"
    prefixed = translator.pipeline.begin_with(segment, "Hoy <b>")
    assert (prefixed.prefix.full_text, prefixed.prefix.ends_word) == ("Hoy", True)
    [segment] = translator.segmenter.segment("Hoy hace frío.").segments
    assert translator.pipeline.begin_with(segment, "Hoy <b>ha").prefix.full_text == "Hoy <b>ha"
    [segment] = translator.segmenter.segment("El niño(s) (o no) hace frío.").segments
    begun = translator.pipeline.begin_with(segment, "El niño(s) (o")
    assert enter_remark(begun)[0] == "El niño(s) ("


def test_samples_keep_their_number_with_a_prefix_that_ends_a_word(slotted: Tokenizer) -> None:
    """The search drops hypotheses in which the word continues; a sample is what was drawn."""
    outputs = slotted.encode(["Hoy no", "Hoyes", "Hoy hace"])
    translator = Translator(Engines(Sampling(outputs)), slotted, DECODING)
    text = "Hoy (no) hace frío. Hoy no hace frío."
    assert len(translator.samples([text], 3, prefix="Hoy (")[0]) == 3


def test_words_are_returned_only_if_they_are_requested(slotted: Tokenizer) -> None:
    translator = Translator(Engines(Aligned()), slotted, DECODING)
    for text in ("Hoy <b>hace</b> frío.", "Hoy no. Hoy (hace) frío."):
        assert translator.run([text], SearchRequest())[0][0].words == ()
        assert translator.run([text], SearchRequest(words=True))[0][0].words


class Unaligned(Recording):
    """An engine like an ensemble."""

    can_align = False

    def align(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        raise UserError("no attention")


def test_tags_that_cannot_be_aligned_are_lost_spans(slotted: Tokenizer) -> None:
    """A copied sentence has words without an alignment."""
    translator = Translator(Engines(Unaligned()), slotted, DECODING)
    for text in ("Hoy <b>hace</b> frío.", "Hoy <b>hace</b> frío. https://a.com/b"):
        [[translation]] = translator.run([text], SearchRequest())
        assert translation.text == text, "by position"
        assert translation.lost_spans == ("<b>", "</b>")
