"""One output per input whatever the input; padding, order and batches change nothing."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from conftest import SMALL, corpus_lines, transformer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from nmt import Translator
from nmt.config import DecodingConfig, TokenizerConfig
from nmt.data.cleaning import clean_text
from nmt.data.tokenizer import BOS, EOS, PAD, Tokenizer
from nmt.data.tokenizer_training import train_tokenizer
from nmt.errors import UserError
from nmt.inference.contract import Beam, Hypothesis, Sampling, SearchRequest
from nmt.inference.forcing import count_tokens
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.results import LINE_ENDS, Translation
from nmt.inference.segmenting import Segmenter
from nmt.inference.streaming import translate_file
from nmt.inference.text_files import open_output
from nmt.runs.resuming import compose_config

# On one worker, which compiles each search once: beams are of 1 and 4, samples 4.
pytestmark = pytest.mark.xdist_group("translator")

SENTENCES = [
    "¿Dónde está la estación?",
    "Me gusta el café con leche.",
    "Mañana voy a ir al médico con mi hermana porque no me encuentro bien.",
    "Sí.",
]


DECODING = DecodingConfig(
    beam_size=4, length_penalty=0.6, max_length_ratio=1.0, max_length_margin=8, batch_size=16
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [clean_text(side) for line in corpus_lines(200) for side in line.split("\t")[:2]]
    return train_tokenizer(TokenizerConfig("unigram", 500, 0, 0.9998), texts, str)


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> Translator:
    """Random weights that end outputs early and late, which those of a few updates do not."""
    model = transformer(
        vocabulary_size=tokenizer.vocabulary_size,
        **SMALL,
        max_length=64,
    )
    for number, weight in enumerate(model.weights):
        values = np.random.default_rng(number).standard_normal(weight.shape)
        weight.assign(1 + 0.2 * values if weight.name == "gamma" else 0.5 * values)
    end_mark = np.array(model.token_table()[EOS])
    beta = model.decoder_norm.beta
    beta.assign(np.array(beta) + end_mark / np.linalg.norm(end_mark))
    return Translator(KerasEngine(model), tokenizer, DECODING)


def anew(translator: Translator) -> Translator:
    """Return a translator that has not warned yet, over the same engine."""
    return Translator(translator.engine, translator.tokenizer, translator.decoding)


def test_order_and_company_change_nothing(translator: Translator) -> None:
    together = translator.hypotheses(SENTENCES, beam_size=4, n_best=4)
    backwards = translator.hypotheses(SENTENCES[::-1], beam_size=4, n_best=4)[::-1]
    alone = [translator.hypotheses([sentence], beam_size=4, n_best=4)[0] for sentence in SENTENCES]
    for one, two, three in zip(together, backwards, alone, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in two] == [h.tokens for h in three]
        np.testing.assert_allclose([h.score for h in one], [h.score for h in three], atol=1e-4)


def test_scores_are_the_models_own(translator: Translator) -> None:
    """Beam and greedy scores equal the teacher-forced log-probability of their output."""
    encoded = translator.tokenizer.encode(SENTENCES)
    for beam in (1, 4):
        found = translator.hypotheses(SENTENCES, beam_size=beam, n_best=beam)
        assert [len(candidates) for candidates in found] == [beam] * len(SENTENCES)
        sources = [[*ids, EOS] for ids in encoded for _ in range(beam)]
        every = [candidate for candidates in found for candidate in candidates]
        source, target = (
            np.array([row + [PAD] * (64 - len(row)) for row in rows])
            for rows in (sources, [[BOS, *candidate.tokens[:-1]] for candidate in every])
        )
        logits = translator.engine.model({"source": source, "target": target})
        logits = np.asarray(logits).astype(np.float64)
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        for candidate, following in zip(every, log_probs, strict=True):
            tokens = list(candidate.tokens)
            forced = following[np.arange(len(tokens)), tokens].sum()
            assert candidate.log_prob == pytest.approx(forced, abs=1e-4)
            assert candidate.tokens[-1] == EOS
            penalty = ((5 + len(tokens)) / 6) ** (0.6 if beam > 1 else 0)
            assert candidate.score == pytest.approx(forced / penalty, abs=1e-4)


def test_candidates_are_distinct_and_in_order(translator: Translator) -> None:
    for candidates in translator.hypotheses(SENTENCES, beam_size=4, n_best=4):
        scores = [candidate.score for candidate in candidates]
        assert scores == sorted(scores, reverse=True)
        assert len({candidate.tokens for candidate in candidates}) == len(candidates)


def test_attention_is_a_distribution_over_the_tokens(translator: Translator) -> None:
    best = translator.hypotheses([SENTENCES[1]])[0][0]
    attention = translator.attention(SENTENCES[1], best)
    assert attention is not None
    source, target = len(attention.source), len(attention.target_out)
    assert source != target
    assert attention.source[-1] == "</s>"
    assert attention.target_in[0] == "<s>"
    assert attention.target_in[1:] == attention.target_out[:-1]
    assert attention.encoder.shape[2:] == (source, source)
    assert attention.decoder.shape[2:] == (target, target)
    assert attention.cross.shape[2:] == (target, source)
    for weights in (attention.encoder, attention.decoder, attention.cross):
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert np.all(attention.decoder == np.tril(attention.decoder))


def test_what_is_not_text_stays_empty(translator: Translator) -> None:
    assert translator.translate(["", "   ", "\t\u200b\x00"]) == ["", "", ""]
    assert translator.translate([]) == []
    assert translator.attention("") is None


def test_odd_lines_give_one_line_each(translator: Translator) -> None:
    lines = ["😀🎉👩‍🚀", "日本語", "\ud800 lone surrogate", "x" * 3000, "a\u2028b"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = anew(translator).translate(lines, beam_size=4)
    assert len(outputs) == len(lines)
    assert not any("\n" in output for output in outputs)


def test_a_long_line_is_translated_in_parts_with_one_warning(translator: Translator) -> None:
    translator = anew(translator)
    line = " ".join(["Hoy hace buen tiempo. ¿Vamos a la playa?"] * 63)  # 504 words
    with pytest.warns(UserWarning, match="translated in segments") as caught:
        outputs = translator.translate([line, line], beam_size=1)
    assert len(caught) == 1
    assert len(outputs) == 2
    assert outputs[0] == outputs[1]
    assert translator.attention(line) is None


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text(max_size=40), max_size=5))
def test_any_text_gives_one_line_per_line(translator: Translator, texts: list[str]) -> None:
    outputs = translator.translate(texts, beam_size=1)
    assert len(outputs) == len(texts)
    assert not any("\n" in output for output in outputs)


def test_a_folder_that_is_no_run_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"run .* does not exist; train one first"):
        Translator.load(tmp_path / "latest")
    with pytest.raises(UserError, match=r"is not a run folder: it has no config\.yaml"):
        Translator.load(tmp_path)


def many(count: int) -> list[str]:
    """Sentences of one to thirty words."""
    words = "hoy hace frío en la ciudad y mañana va a llover mucho".split()
    return [" ".join(words[i % 5 :] * (1 + i % 3))[: 4 + 4 * (i % 20)] for i in range(count)]


@pytest.mark.parametrize("beam", [1, 4])
def test_what_leaves_the_batch_early_is_what_it_is_alone(translator: Translator, beam: int) -> None:
    """Outputs end at many lengths, so that sentences leave and the cache grows."""
    sentences = many(24)
    together = translator.hypotheses(sentences, beam_size=beam, n_best=beam)
    lengths = {len(candidates[0].tokens) for candidates in together}
    assert max(lengths) - min(lengths) >= 16  # twice what is decoded at a time
    for sentence, candidates in zip(sentences, together, strict=True):
        (alone,) = translator.hypotheses([sentence], beam_size=beam, n_best=beam)
        assert [one.tokens for one in alone] == [one.tokens for one in candidates]
        np.testing.assert_allclose(
            [one.log_prob for one in alone], [one.log_prob for one in candidates], atol=1e-3
        )


def test_fewer_wanted_are_the_best_of_more(translator: Translator) -> None:
    """Stopping as soon as the best is known never changes which it is."""
    sentences = many(24)
    four = translator.hypotheses(sentences, beam_size=4, n_best=4)
    for count in (1, 2):
        for fewer, more in zip(
            translator.hypotheses(sentences, beam_size=4, n_best=count), four, strict=True
        ):
            assert [one.tokens for one in fewer] == [one.tokens for one in more[:count]]


def test_no_output_holds_padding_or_begin_marks(translator: Translator) -> None:
    for candidates in translator.hypotheses(many(24), beam_size=4, n_best=4):
        for one in candidates:
            assert not {PAD, BOS} & set(one.tokens)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_prefix_begins_every_output(translator: Translator, beam: int) -> None:
    prefix = "We are"
    forced = tuple(map(int, translator.tokenizer.encode([prefix])[0]))
    for candidates in translator.hypotheses(SENTENCES, beam_size=beam, n_best=beam, prefix=prefix):
        assert candidates
        for one in candidates:
            assert one.tokens[: len(forced)] == forced
            assert one.text.startswith(prefix)
    sampled = translator.samples(SENTENCES[:1], 4, prefix=prefix)[0]
    assert all(one.text.startswith(prefix) for one in sampled)
    with pytest.raises(UserError, match="the prefix must have at most 63 tokens, got"):
        translator.translate(["Hola."], prefix="we " * 600)


def test_only_the_first_part_of_a_long_text_begins_with_the_prefix(
    translator: Translator,
) -> None:
    translator = anew(translator)
    with pytest.warns(UserWarning, match="in segments"):
        (output,) = translator.translate(["Hoy hace frío. " * 30], beam_size=1, prefix="Zebra")
    assert output.startswith("Zebra")
    assert output.count("Zebra") == 1


def test_samples_depend_on_text_and_seed_alone(translator: Translator) -> None:
    together = translator.samples(SENTENCES, 4, seed=7)
    alone = [translator.samples([sentence], 4, seed=7)[0] for sentence in SENTENCES]
    for one, two in zip(together, alone, strict=True):
        assert [sample.tokens for sample in one] == [sample.tokens for sample in two]
    assert translator.samples(SENTENCES, 4, seed=8) != together
    assert len({sample.tokens for samples in together for sample in samples}) > 8


def test_samples_carry_the_models_own_log_probability(translator: Translator) -> None:
    for sentence, samples in zip(
        SENTENCES[:2],
        translator.samples(SENTENCES[:2], 4, temperature=0.7, top_p=0.9),
        strict=True,
    ):
        assert [one.log_prob for one in samples] == sorted(
            (one.log_prob for one in samples), reverse=True
        )
        source = translator.tokenizer.encode([sentence])
        for one in samples:
            (forced,) = translator.engine.score(source, [np.array(one.tokens[:-1])])
            assert one.log_prob == pytest.approx(forced.sum(), abs=1e-3)


def cut_in_two(translator: Translator) -> tuple[str, list[str]]:
    """Return a text that is cut, and its two parts."""
    long = "Mañana voy a ir al médico. " * 3 + "Hoy hace mucho frío. " * 4
    parts = translator.tokenizer.decode(
        [ids.tolist() for ids in Segmenter(translator.tokenizer, 63).segment(long)]
    )
    assert len(parts) == 2
    return long, parts


@pytest.mark.filterwarnings("ignore:a text of")
def test_samples_of_a_long_text_are_made_of_samples_of_its_parts(translator: Translator) -> None:
    long, parts = cut_in_two(translator)
    samples = translator.samples([long], 4, seed=3)[0]
    assert len(samples) == 4
    assert len({one.text for one in samples}) > 1
    log_probs = [one.log_prob for one in samples]
    assert log_probs == sorted(log_probs, reverse=True)
    alone = translator.samples(parts, 4, seed=3)
    expected = [sorted(one.tokens for one in drawn) for drawn in alone]
    cut = [
        [one.tokens[: one.tokens.index(EOS) + 1] for one in samples],
        [one.tokens[one.tokens.index(EOS) + 1 :] for one in samples],
    ]
    assert [sorted(tokens) for tokens in cut] == expected
    # Not in the order of their probability, in which the engine gives them.
    by_rank = [first.tokens + second.tokens for first, second in zip(*alone, strict=True)]
    assert sorted(by_rank) != sorted(one.tokens for one in samples)


@pytest.mark.filterwarnings("ignore:a text of")
def test_alternatives_of_a_long_text_are_the_best_ways_to_join(translator: Translator) -> None:
    long, parts = cut_in_two(translator)
    found = translator.hypotheses([long], beam_size=4, n_best=4)[0]
    one, two = translator.hypotheses(parts, beam_size=4, n_best=4)
    sums = sorted((a.score + b.score for a in one for b in two), reverse=True)
    np.testing.assert_allclose([joined.score for joined in found], sums[:4], rtol=1e-5)
    assert found[0].text == f"{one[0].text} {two[0].text}"


def test_cold_samples_are_greedy(translator: Translator) -> None:
    greedy = translator.translate(SENTENCES, beam_size=1)
    for arguments in ({"temperature": 1e-4}, {"top_k": 1}, {"top_p": 1e-6}):
        samples = translator.samples(SENTENCES, 4, **arguments)
        assert [[one.text for one in some] for some in samples] == [[g] * 4 for g in greedy], (
            arguments
        )


def test_minimum_bayes_risk_chooses_what_agrees_most(translator: Translator) -> None:
    ranked = translator.minimum_bayes_risk(SENTENCES[:1], 4)[0]
    texts = [one.text for one in translator.samples(SENTENCES[:1], 4)[0]]
    assert {one.text for one in ranked} == set(texts)
    chrf = CHRF()
    for one in ranked:
        mean = np.mean([chrf.sentence_score(one.text, [text]).score for text in texts])
        assert one.score == pytest.approx(mean)
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)


def test_scores_of_given_ids_are_those_of_the_search(translator: Translator) -> None:
    found = translator.hypotheses(SENTENCES, beam_size=4, n_best=4)
    sources = translator.tokenizer.encode(SENTENCES)
    for n in range(4):
        targets = [np.array(candidates[n].tokens[:-1], np.int32) for candidates in found]
        for scores, candidates in zip(
            translator.engine.score(sources, targets), found, strict=True
        ):
            assert len(scores) == len(candidates[n].tokens)
            assert scores.sum() == pytest.approx(candidates[n].log_prob, abs=1e-3)


def test_given_pairs_are_scored_piece_by_piece(translator: Translator) -> None:
    texts = ["Where is the station?", "I like it.", "", "Yes."]
    found = translator.score(list(zip(SENTENCES, texts, strict=True)))
    sources, targets = (translator.tokenizer.encode(side) for side in (SENTENCES, texts))
    for score, source, target in zip(found, sources, targets, strict=True):
        assert score.pieces == translator.tokenizer.pieces([*target, EOS])
        (alone,) = translator.engine.score([source], [target])
        np.testing.assert_allclose(score.log_probs, alone, atol=1e-4)
        assert score.log_prob == pytest.approx(alone.sum(), abs=1e-3)
    with pytest.raises(UserError, match="pair 2 must have at most 63 tokens"):
        translator.score([("a", "b"), ("c", "d " * 2000)])


def test_attention_of_given_translations_is_what_writing_them_shows(
    translator: Translator,
) -> None:
    texts = ["Where is the station?", "I like it.", "", "Yes."]
    pairs = list(zip(SENTENCES, texts, strict=True))
    encoded = translator.tokenizer.encode(texts)
    for found, (source, text), ids in zip(
        translator.attentions(pairs), pairs, encoded, strict=True
    ):
        alone = translator.attention(source, Translation(text, 0.0, 0.0, (*map(int, ids), EOS)))
        assert alone is not None
        assert found.tokens("source") == alone.tokens("source")
        assert found.tokens("target_in") == alone.tokens("target_in")
        assert found.tokens("target_out") == alone.tokens("target_out")
        assert found.kinds == alone.kinds
        assert list(found.weights) == list(alone.weights) == ["encoder", "decoder", "cross"]
        for name, expected in alone.weights.items():
            np.testing.assert_allclose(found.weights[name], expected, atol=1e-5)
    lengths = [len(found.source) for found in translator.attentions([(s, "") for s in SENTENCES])]
    assert count_tokens(translator.tokenizer, [(source, "") for source in SENTENCES]) == lengths
    with pytest.raises(UserError, match="pair 2 must have at most 63 tokens"):
        translator.attentions([("a", "b"), ("c", "d " * 2000)])


def test_a_coverage_penalty_only_lowers_scores(translator: Translator) -> None:
    free = translator.hypotheses(SENTENCES, beam_size=4)
    bound = translator.hypotheses(SENTENCES, beam_size=4, coverage_penalty=0.5)
    for (one,), (two,) in zip(free, bound, strict=True):
        assert two.score <= one.score
    sentence, (one,) = SENTENCES[2], bound[2]
    attention = translator.attention(sentence, one)
    assert attention is not None
    received = attention.cross[-1].mean(0).sum(0)  # [S]
    expected = one.log_prob / ((5 + len(one.tokens)) / 6) ** 0.6
    expected += 0.5 * np.log(np.minimum(received, 1)).sum()
    assert one.score == pytest.approx(expected, abs=1e-3)


def test_more_wanted_than_the_beam_holds_is_refused(translator: Translator) -> None:
    with pytest.raises(UserError, match="a beam of 3 or more, got 2"):
        translator.hypotheses(["Hola."], beam_size=2, n_best=3)


def test_a_beam_wider_than_the_vocabulary_is_refused(translator: Translator) -> None:
    most = translator.tokenizer.vocabulary_size
    found = translator.hypotheses(["Hola."], beam_size=most, n_best=2)
    assert len(found[0]) == 2
    with pytest.raises(UserError, match=f"beam_size must be at most {most}, .* got {most + 1}"):
        translator.hypotheses(["Hola."], beam_size=most + 1)


class Foreign:
    """An engine that is not the model itself, and searches without a coverage penalty alone."""

    max_length = 64
    parallel = 1
    keras_engine: KerasEngine | None = None

    def supports(self, options: Beam | Sampling) -> bool:
        return isinstance(options, Beam) and not options.coverage_penalty

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: Beam | Sampling,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        return [[Hypothesis((*ids[::-1], EOS), -1.0, -1.0)] for ids in sources]

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        return [np.full(len(target) + 1, -0.5, np.float32) for target in targets]


class Meeting(Foreign):
    """An engine whose batches wait for each other: it answers if two are searched at once."""

    parallel = 2

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2, timeout=20)
        self.sizes: list[int] = []

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: Beam | Sampling,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        self.sizes.append(len(sources))
        self.barrier.wait()
        return super().search(sources, limits, options, prefix)


def test_batches_are_searched_at_the_same_time_and_come_back_in_order(
    translator: Translator,
) -> None:
    engine = Meeting()
    both = Translator(engine, translator.tokenizer, translator.decoding)
    outputs = both.hypotheses(SENTENCES)
    assert engine.sizes == [2, 2]
    for sentence, (one,) in zip(SENTENCES, outputs, strict=True):
        assert [*one.tokens[:-1]][::-1] == translator.tokenizer.encode([sentence])[0].tolist()


class Interrupted(Foreign):
    """An engine that is interrupted in its first batch."""

    def __init__(self) -> None:
        self.batches = 0

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: Beam | Sampling,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        self.batches += 1
        raise KeyboardInterrupt


def test_an_interruption_does_not_wait_for_the_batches_behind_it(translator: Translator) -> None:
    engine = Interrupted()
    interrupted = Translator(engine, translator.tokenizer, translator.decoding)
    with pytest.raises(KeyboardInterrupt):
        interrupted.translate(SENTENCES * 100)
    assert engine.batches < 3  # of 25: the second may have begun


def test_what_fails_in_a_batch_is_raised(translator: Translator) -> None:
    engine = Meeting()
    engine.barrier.abort()
    with pytest.raises(threading.BrokenBarrierError):
        Translator(engine, translator.tokenizer, translator.decoding).translate(SENTENCES)


def test_what_an_engine_cannot_do_the_own_one_does_and_is_loaded_once(
    translator: Translator,
) -> None:
    loaded: list[KerasEngine] = []

    def load() -> KerasEngine:
        loaded.append(cast(KerasEngine, translator.engine))
        return loaded[0]

    mixed = Translator(Foreign(), translator.tokenizer, translator.decoding, load_keras_engine=load)
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
    other = Translator(Foreign(), translator.tokenizer, translator.decoding)
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

    reversing = Translator(Foreign(), translator.tokenizer, translator.decoding)
    expected = reversing.hypotheses(SENTENCES)
    with closing(reversing.stream(chunks(), SearchRequest())) as stream:
        for number, found in enumerate(stream):
            assert read == list(range(min(number + 2, len(SENTENCES))))
            assert found[1][0].text == ""
            assert found[0] == found[2] == expected[number]
    assert number == len(SENTENCES) - 1


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["length_penalty", "coverage_penalty"])
def test_a_penalty_with_which_the_search_would_stop_too_early_is_refused(
    translator: Translator, name: str, value: float
) -> None:
    with pytest.raises(UserError, match=f"{name} must be finite and at least 0, got {value}"):
        translator.translate(["Hola."], **{name: value})


class Writer(KerasEngine):
    """Writes the same ids, whatever it is asked for."""

    max_length = 64
    parallel = 1

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = tuple(ids)

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: Beam | Sampling,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        return [[Hypothesis((*self.ids, EOS), -1.0, -1.0)] * options.n_best for _ in sources]


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
    translator = Translator(Writer(ids), tokenizer, DECODING)
    long = "hoy hace frío, " * 60  # in parts, which are joined
    texts = ["Hola.", "", long]
    found = [
        *translator.hypotheses(texts, n_best=2),
        *translator.samples(texts, 2),
        *translator.minimum_bayes_risk(texts, 2),
    ]
    for one in (one for candidates in found for one in candidates):
        assert one.text.splitlines() == ([one.text] if one.text else [])
    assert found[0][0].text == "a e "

    (tmp_path / "in").write_text("\n".join(texts), encoding="utf-8")
    with open_output(tmp_path / "out") as out:
        translate_file(
            tmp_path / "in",
            0,
            lambda chunks: translator.stream(chunks, SearchRequest()),
            lambda found: print("\n".join(one[0].text for one in found), file=out),
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
        options: Beam | Sampling,
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
            "data=tsv",
            "data.path=a.tsv",
            "data.source_language=es",
            "data.target_language=zh",
            "data.sources.pairs.tag='<2zh>'",
            "training.row_lengths=[24]",
        ]
    )
    engine = Recording()
    tagged = Translator.from_config(
        engine, tokenizer, config, load_keras_engine=lambda: cast(KerasEngine, engine)
    )
    tag = tokenizer.encode(["<2zh>"])[0].tolist()
    text = "<2zh> " + "Hoy hace frío. " * 12
    for one in (tagged, tagged.with_keras_engine()):
        engine.sources.clear()
        one.translate([text])
        assert len(engine.sources) > 2
        assert all(ids[: len(tag)] == tag and len(ids) <= 23 for ids in engine.sources)
        parts = [[Translation(text, -1.0, -1.0, ())] for text in ("你好", "世界")]
        assert one.joiner.join_best(parts, 1)[0].text == "你好世界"
