"""One output per input whatever the input; padding, order and batches change nothing."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF
from translator_inputs import SENTENCES, renew

from nmt import Translator
from nmt.config import DecodingConfig
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.errors import UserError
from nmt.inference.contract import BeamOptions, SearchRequest
from nmt.inference.forced_decoding import count_pair_tokens
from nmt.inference.results import Translation
from nmt.inference.segmenting import Segmenter
from nmt.text.cleaning import LINE_ENDS

pytest_plugins = ("random_translator",)
# On one worker, which compiles each search once: beams are of 1 and 4, samples 4.
pytestmark = pytest.mark.xdist_group("translator")


def test_order_and_company_change_nothing(translator: Translator) -> None:
    batch = translator.hypotheses(SENTENCES, beam_size=4, n_best=4)
    backwards = translator.hypotheses(SENTENCES[::-1], beam_size=4, n_best=4)[::-1]
    single = [translator.hypotheses([sentence], beam_size=4, n_best=4)[0] for sentence in SENTENCES]
    for first, second, third in zip(batch, backwards, single, strict=True):
        assert [h.tokens for h in first] == [h.tokens for h in second] == [h.tokens for h in third]
        np.testing.assert_allclose([h.score for h in first], [h.score for h in third], atol=1e-4)


def test_scores_are_the_models_own(translator: Translator) -> None:
    """Beam and greedy scores equal the teacher-forced log-probability of their output."""
    encoded = translator.tokenizer.encode(SENTENCES)
    for beam in (1, 4):
        translations = translator.hypotheses(SENTENCES, beam_size=beam, n_best=beam)
        assert [len(candidates) for candidates in translations] == [beam] * len(SENTENCES)
        sources = [[*ids, EOS] for ids in encoded for _ in range(beam)]
        flat = [candidate for candidates in translations for candidate in candidates]
        source, target = (
            np.array([row + [PAD] * (64 - len(row)) for row in rows])
            for rows in (sources, [[BOS, *candidate.tokens[:-1]] for candidate in flat])
        )
        logits = translator.engine.model({"source": source, "target": target})
        logits = np.asarray(logits).astype(np.float64)
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        for candidate, following in zip(flat, log_probs, strict=True):
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
    assert translator.translate(["", "   ", "\t\u200b\x00"]) == ["", "   ", "\t"]
    assert translator.translate([]) == []
    assert translator.attention("") is None


def test_odd_lines_give_one_line_each(translator: Translator) -> None:
    lines = ["😀🎉👩‍🚀", "日本語", "\ud800 lone surrogate", "x" * 3000, "a\u2028b"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = renew(translator).translate(lines, beam_size=4)
    assert len(outputs) == len(lines)
    assert not any("\n" in output for output in outputs)


def test_one_string_is_not_taken_for_texts(translator: Translator) -> None:
    with pytest.raises(UserError, match=r"texts='Hola\.' is a string: pass a list"):
        translator.translate("Hola.")


def test_arguments_of_another_type_are_named(translator: Translator) -> None:
    with pytest.raises(UserError, match=r"a text must be a string, got \['Hola\.'\]"):
        translator.attention(["Hola."])  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"call attentions\(\[\(text, translation\)\]\)"):
        translator.attention(SENTENCES[1], "Hello.")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="prefix must be a string, got None"):
        translator.translate(["Hola."], prefix=None)  # type: ignore[arg-type]


def test_texts_may_come_from_any_iterable_of_strings(translator: Translator) -> None:
    expected = translator.translate(["Hola.", "Sí."])
    results = translator.translate(text for text in ("Hola.", "Sí."))
    assert results == expected
    assert results.texts == ("Hola.", "Sí.")
    for wrong in (None, 3, float("nan"), b"Hola."):
        with pytest.raises(UserError, match=r"texts has .*, which is not a string"):
            translator.translate(["Hola.", wrong])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"temperature": -1.0}, "temperature must be finite and above 0, got -1"),
        ({"temperature": math.inf}, "temperature must be finite"),
        ({"top_k": -1}, "top_k must be at least 0, got -1"),
        ({"top_p": 90}, "top_p must be above 0 and at most 1, got 90"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"seed": -1}, r"seed must be at least 0 and below 2\^32, got -1"),
        ({"seed": 2**32}, r"below 2\^32, got 4294967296"),
    ],
)
def test_options_of_sampling_have_ranges(
    translator: Translator, options: dict[str, Any], message: str
) -> None:
    options = {"samples": 2} | options
    with pytest.raises(UserError, match=message):
        translator.samples(["Hola."], **options)
    with pytest.raises(UserError, match=message):
        translator.minimum_bayes_risk(["Hola."], **options)


def test_no_translation_at_all_is_refused(translator: Translator) -> None:
    with pytest.raises(UserError, match="n_best must be at least 1, got 0"):
        translator.hypotheses(["Hola."], n_best=0)


def test_a_long_line_is_translated_in_parts_with_one_warning(translator: Translator) -> None:
    translator = renew(translator, "line")
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
    for output, text in zip(outputs, texts, strict=True):
        assert [c for c in output if c in LINE_ENDS] == [c for c in text if c in LINE_ENDS]


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
    search: dict[str, Any] = {"beam_size": beam, "n_best": beam, "no_repeat_ngram": 0}
    batch = translator.hypotheses(sentences, **search)
    lengths = {len(candidates[0].tokens) for candidates in batch}
    assert max(lengths) - min(lengths) >= 16  # twice the positions decoded at a time
    for sentence, candidates in zip(sentences, batch, strict=True):
        (single,) = translator.hypotheses([sentence], **search)
        assert [translation.tokens for translation in single] == [
            translation.tokens for translation in candidates
        ]
        np.testing.assert_allclose(
            [translation.log_prob for translation in single],
            [translation.log_prob for translation in candidates],
            atol=1e-3,
        )


def test_fewer_wanted_are_the_best_of_more(translator: Translator) -> None:
    """Stopping as soon as the best is known never changes which it is."""
    sentences = many(24)
    four = translator.hypotheses(sentences, beam_size=4, n_best=4)
    for count in (1, 2):
        for fewer, more in zip(
            translator.hypotheses(sentences, beam_size=4, n_best=count), four, strict=True
        ):
            assert [translation.tokens for translation in fewer] == [
                translation.tokens for translation in more[:count]
            ]


def test_no_output_holds_padding_or_bos(translator: Translator) -> None:
    for candidates in translator.hypotheses(many(24), beam_size=4, n_best=4):
        for candidate in candidates:
            assert not {PAD, BOS} & set(candidate.tokens)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_prefix_begins_every_output(translator: Translator, beam: int) -> None:
    prefix = "We are"
    forced = tuple(map(int, translator.tokenizer.encode([prefix])[0]))
    for candidates in translator.hypotheses(SENTENCES, beam_size=beam, n_best=beam, prefix=prefix):
        assert candidates
        for candidate in candidates:
            assert candidate.tokens[: len(forced)] == forced
            assert candidate.text.startswith(prefix)
    sampled = translator.samples(SENTENCES[:1], 4, prefix=prefix)[0]
    assert all(candidate.text.startswith(prefix) for candidate in sampled)
    with pytest.raises(UserError, match="the prefix must have at most 63 tokens, got"):
        translator.translate(["Hola."], prefix="we " * 600)


def test_only_the_first_part_of_a_long_text_begins_with_the_prefix(
    translator: Translator,
) -> None:
    translator = renew(translator, "line")
    with pytest.warns(UserWarning, match="in segments"):
        (output,) = translator.translate(["Hoy hace frío. " * 30], beam_size=1, prefix="Zebra")
    assert output.startswith("Zebra")
    assert output.count("Zebra") == 1


def test_samples_depend_on_text_and_seed_alone(translator: Translator) -> None:
    batch = translator.samples(SENTENCES, 4, seed=7)
    single = [translator.samples([sentence], 4, seed=7)[0] for sentence in SENTENCES]
    for first, second in zip(batch, single, strict=True):
        assert [sample.tokens for sample in first] == [sample.tokens for sample in second]
    assert translator.samples(SENTENCES, 4, seed=8) != batch
    assert len({sample.tokens for samples in batch for sample in samples}) > 8


def test_any_text_has_as_many_samples_as_requested(translator: Translator) -> None:
    empty, copied, sentence = translator.samples(["", "12", "Hola."], 2)
    assert [sample.text for sample in empty] == ["", ""]
    assert [sample.text for sample in copied] == ["12", "12"]
    assert len(sentence) == 2


def test_samples_carry_the_models_own_log_probability(translator: Translator) -> None:
    for sentence, samples in zip(
        SENTENCES[:2],
        translator.samples(SENTENCES[:2], 4, temperature=0.7, top_p=0.9),
        strict=True,
    ):
        assert [sample.log_prob for sample in samples] == sorted(
            (sample.log_prob for sample in samples), reverse=True
        )
        source = translator.tokenizer.encode([sentence])
        for sample in samples:
            (forced,) = translator.engine.score(source, [np.array(sample.tokens[:-1])])
            assert sample.log_prob == pytest.approx(forced.sum(), abs=1e-3)


def cut_in_two(translator: Translator) -> tuple[str, list[str]]:
    """Return a text that is cut, and its two parts."""
    text = "Mañana voy a ir al médico. " * 3 + "Hoy hace mucho frío. " * 4
    segments = Segmenter(translator.tokenizer, 63, unit="line").segment(text).segments
    assert len(segments) == 2
    return text.strip(), [segment.text for segment in segments]


@pytest.mark.filterwarnings("ignore:a text of")
def test_samples_of_a_long_text_are_made_of_samples_of_its_parts(translator: Translator) -> None:
    translator = renew(translator, "line")
    text, segments = cut_in_two(translator)
    samples = translator.samples([text], 4, seed=3)[0]
    assert len(samples) == 4
    assert len({sample.text for sample in samples}) > 1
    log_probs = [sample.log_prob for sample in samples]
    assert log_probs == sorted(log_probs, reverse=True)
    segment_samples = translator.samples(segments, 4, seed=3)
    expected = [
        sorted(sample.tokens for sample in each_samples) for each_samples in segment_samples
    ]
    cut = [
        [sample.tokens[: sample.tokens.index(EOS) + 1] for sample in samples],
        [sample.tokens[sample.tokens.index(EOS) + 1 :] for sample in samples],
    ]
    assert [sorted(tokens) for tokens in cut] == expected
    # Not in the order of their probability, in which the engine gives them.
    by_rank = [first.tokens + second.tokens for first, second in zip(*segment_samples, strict=True)]
    assert sorted(by_rank) != sorted(sample.tokens for sample in samples)


@pytest.mark.filterwarnings("ignore:a text of")
def test_alternatives_of_a_long_text_are_the_best_ways_to_join(translator: Translator) -> None:
    translator = renew(translator, "line")
    text, segments = cut_in_two(translator)
    translations = translator.hypotheses([text], beam_size=4, n_best=4)[0]
    first, second = translator.hypotheses(segments, beam_size=4, n_best=4)
    sums = sorted((a.score + b.score for a in first for b in second), reverse=True)
    np.testing.assert_allclose([joined.score for joined in translations], sums[:4], rtol=1e-5)
    assert translations[0].text == f"{first[0].text} {second[0].text}"


def test_cold_samples_are_greedy(translator: Translator) -> None:
    greedy = translator.translate(SENTENCES, beam_size=1, no_repeat_ngram=0)
    for arguments in ({"temperature": 1e-4}, {"top_k": 1}, {"top_p": 1e-6}):
        samples = translator.samples(SENTENCES, 4, **arguments)
        assert [[sample.text for sample in candidates] for candidates in samples] == [
            [text] * 4 for text in greedy
        ], arguments


def test_minimum_bayes_risk_chooses_what_agrees_most(translator: Translator) -> None:
    ranked = translator.minimum_bayes_risk(SENTENCES[:1], 4)[0]
    texts = [sample.text for sample in translator.samples(SENTENCES[:1], 4)[0]]
    assert {sample.text for sample in ranked} == set(texts)
    chrf = CHRF()
    for sample in ranked:
        mean = np.mean([chrf.sentence_score(sample.text, [text]).score for text in texts])
        assert sample.score == pytest.approx(mean)
    assert [sample.score for sample in ranked] == sorted(
        (sample.score for sample in ranked), reverse=True
    )


def test_scores_of_given_ids_are_those_of_the_search(translator: Translator) -> None:
    translations = translator.hypotheses(SENTENCES, beam_size=4, n_best=4)
    sources = translator.tokenizer.encode(SENTENCES)
    for n in range(4):
        targets = [np.array(candidates[n].tokens[:-1], np.int32) for candidates in translations]
        for scores, candidates in zip(
            translator.engine.score(sources, targets), translations, strict=True
        ):
            assert len(scores) == len(candidates[n].tokens)
            assert scores.sum() == pytest.approx(candidates[n].log_prob, abs=1e-3)


@pytest.mark.parametrize("pairs", [("Sí", "No"), [("a", "b", "c")], [("a", None)], ["ab"]])
def test_pairs_are_two_strings(translator: Translator, pairs: Any) -> None:
    for method in (translator.score, translator.attentions):
        with pytest.raises(UserError, match="pair 1 must be a source and a target text"):
            method(pairs)


def test_pairs_may_come_from_any_iterable(translator: Translator) -> None:
    pairs = [("Hola.", "Hello."), ("Sí.", "Yes.")]
    assert translator.score(iter(pairs)) == translator.score(pairs)
    assert len(translator.attentions(iter(pairs))) == 2
    tokens = count_pair_tokens(translator.tokenizer, pairs)
    assert count_pair_tokens(translator.tokenizer, iter(pairs)) == tokens


def test_given_pairs_are_scored_piece_by_piece(translator: Translator) -> None:
    texts = ["Where is the station?", "I like it.", "", "Yes."]
    pair_scores = translator.score(list(zip(SENTENCES, texts, strict=True)))
    sources, targets = (translator.tokenizer.encode(side) for side in (SENTENCES, texts))
    for score, source, target in zip(pair_scores, sources, targets, strict=True):
        assert score.pieces == translator.tokenizer.pieces([*target, EOS])
        (expected,) = translator.engine.score([source], [target])
        np.testing.assert_allclose(score.log_probs, expected, atol=1e-4)
        assert score.log_prob == pytest.approx(expected.sum(), abs=1e-3)
    with pytest.raises(UserError, match="pair 2 must have at most 63 tokens"):
        translator.score([("a", "b"), ("c", "d " * 2000)])


def test_attention_of_given_translations_is_what_writing_them_shows(
    translator: Translator,
) -> None:
    texts = ["Where is the station?", "I like it.", "", "Yes."]
    pairs = list(zip(SENTENCES, texts, strict=True))
    encoded = translator.tokenizer.encode(texts)
    for attention, (source, text), ids in zip(
        translator.attentions(pairs), pairs, encoded, strict=True
    ):
        expected = translator.attention(source, Translation(text, 0.0, 0.0, (*map(int, ids), EOS)))
        assert expected is not None
        assert attention.tokens("source") == expected.tokens("source")
        assert attention.tokens("target_in") == expected.tokens("target_in")
        assert attention.tokens("target_out") == expected.tokens("target_out")
        assert attention.kinds == expected.kinds
        assert list(attention.weights) == list(expected.weights) == ["encoder", "decoder", "cross"]
        for name, weights in expected.weights.items():
            np.testing.assert_allclose(attention.weights[name], weights, atol=1e-5)
    lengths = [
        len(attention.source) for attention in translator.attentions([(s, "") for s in SENTENCES])
    ]
    assert (
        count_pair_tokens(translator.tokenizer, [(source, "") for source in SENTENCES]) == lengths
    )
    with pytest.raises(UserError, match="pair 2 must have at most 63 tokens"):
        translator.attentions([("a", "b"), ("c", "d " * 2000)])


def test_a_coverage_penalty_only_lowers_scores(translator: Translator) -> None:
    without_penalty = translator.hypotheses(SENTENCES, beam_size=4)
    with_penalty = translator.hypotheses(SENTENCES, beam_size=4, coverage_penalty=0.5)
    for (higher,), (lower,) in zip(without_penalty, with_penalty, strict=True):
        assert lower.score <= higher.score
    sentence, (higher,) = SENTENCES[2], with_penalty[2]
    attention = translator.attention(sentence, higher)
    assert attention is not None
    received = attention.cross[-1].mean(0).sum(0)  # [S]
    expected = higher.log_prob / ((5 + len(higher.tokens)) / 6) ** 0.6
    expected += 0.5 * np.log(np.minimum(received, 1)).sum()
    assert higher.score == pytest.approx(expected, abs=1e-3)


def test_the_default_beam_holds_all_requested_translations() -> None:
    decoding = DecodingConfig(beam_size=2, length_penalty=0.6, no_repeat_ngram=0)
    assert SearchRequest(n_best=3).resolve(decoding, 9) == BeamOptions(
        3, 0.6, n_best=3, avoids_loops=True
    )
    assert SearchRequest(n_best=1).resolve(decoding, 9) == BeamOptions(2, 0.6, avoids_loops=True)
    repeating = SearchRequest(no_repeat_ngram=4).resolve(decoding, 9)
    assert (repeating.no_repeat_ngram, repeating.static_options.uses_no_repeat_ngram) == (4, True)
    decoding.no_repeat_ngram = 3
    assert SearchRequest().resolve(decoding, 9) == BeamOptions(2, 0.6, no_repeat_ngram=3)
    assert SearchRequest(no_repeat_ngram=0).resolve(decoding, 9) == BeamOptions(2, 0.6)
    with pytest.raises(UserError, match="no_repeat_ngram must be at least 0, got -1"):
        SearchRequest(no_repeat_ngram=-1).resolve(decoding, 9)
    assert SearchRequest(4, 0.0).resolve_defaults(decoding) == (4, 0.0)


def test_more_wanted_than_the_beam_holds_is_refused(translator: Translator) -> None:
    with pytest.raises(UserError, match="a beam of 3 or more, got 2"):
        translator.hypotheses(["Hola."], beam_size=2, n_best=3)


def test_a_beam_wider_than_the_vocabulary_is_refused(translator: Translator) -> None:
    most = translator.tokenizer.vocabulary_size
    translations = translator.hypotheses(["Hola."], beam_size=most, n_best=2)
    assert len(translations[0]) == 2
    with pytest.raises(UserError, match=f"beam_size must be at most {most}, .* got {most + 1}"):
        translator.hypotheses(["Hola."], beam_size=most + 1)


def test_a_beam_of_none_is_refused(translator: Translator) -> None:
    with pytest.raises(UserError, match=r"^beam_size must be at least 1, got 0$"):
        translator.translate(["Hola."], beam_size=0)


def test_a_coverage_penalty_needs_a_beam() -> None:
    request = SearchRequest(coverage_penalty=0.2)
    message = r"^coverage_penalty=0.2 needs a beam_size of 2 or more, got 1$"
    greedy, wide = (
        DecodingConfig(beam_size=beam_size, length_penalty=0.6, no_repeat_ngram=0)
        for beam_size in (1, 4)
    )
    for requested, decoding in ((1, wide), (None, greedy)):
        with pytest.raises(UserError, match=message):
            replace(request, beam_size=requested).resolve(decoding, 9)
    assert request.resolve(wide, 9).coverage_penalty == 0.2
    assert replace(request, beam_size=2).resolve(greedy, 9).beam_size == 2


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("name", "range_"),
    [("length_penalty", "between 0 and 10"), ("coverage_penalty", "finite and at least 0")],
)
def test_a_penalty_with_which_the_search_would_stop_too_early_is_refused(
    translator: Translator, name: str, range_: str, value: float
) -> None:
    with pytest.raises(UserError, match=f"{name} must be {range_}, got {value}"):
        translator.translate(["Hola."], **{name: value})
