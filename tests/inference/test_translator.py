"""One output per input whatever the input; padding, order and batches change nothing."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt import Translator
from nmt.data.tokenizer import BOS, EOS
from nmt.errors import UserError

pytestmark = pytest.mark.xdist_group("tiny run")

SENTENCES = [
    "¿Dónde está la estación?",
    "Me gusta el café con leche.",
    "Mañana voy a ir al médico con mi hermana porque no me encuentro bien.",
    "Sí.",
]


@pytest.fixture(scope="module")
def translator(tiny_run: Path) -> Translator:
    return Translator.load(tiny_run)


def test_order_and_company_change_nothing(translator: Translator) -> None:
    together = translator.hypotheses(SENTENCES, beam_size=3)
    backwards = translator.hypotheses(SENTENCES[::-1], beam_size=3)[::-1]
    alone = [translator.hypotheses([sentence], beam_size=3)[0] for sentence in SENTENCES]
    for one, two, three in zip(together, backwards, alone, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in two] == [h.tokens for h in three]
        np.testing.assert_allclose([h.score for h in one], [h.score for h in three], atol=1e-4)


def test_scores_are_the_models_own(translator: Translator) -> None:
    """Beam and greedy scores equal the teacher-forced log-probability of their output."""
    for beam in (1, 4):
        for sentence, candidates in zip(
            SENTENCES, translator.hypotheses(SENTENCES, beam_size=beam), strict=True
        ):
            assert len(candidates) == beam
            for candidate in candidates:
                source = np.append(translator.tokenizer.encode([sentence])[0], EOS)
                target = np.array([BOS, *candidate.tokens[:-1]])
                logits = translator.model({"source": source[None], "target": target[None]})
                logits = np.asarray(logits)[0].astype(np.float64)
                log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
                forced = log_probs[np.arange(len(target)), list(candidate.tokens)].sum()
                assert candidate.log_prob == pytest.approx(forced, abs=1e-4)
                assert candidate.tokens[-1] == EOS
                penalty = ((5 + len(candidate.tokens)) / 6) ** (0.6 if beam > 1 else 0)
                assert candidate.score == pytest.approx(forced / penalty, abs=1e-4)


def test_candidates_are_distinct_and_in_order(translator: Translator) -> None:
    for candidates in translator.hypotheses(SENTENCES, beam_size=4):
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
        outputs = translator.translate(lines, beam_size=2)
    assert len(outputs) == len(lines)
    assert not any("\n" in output for output in outputs)


def test_a_long_line_is_translated_in_parts_with_one_warning(tiny_run: Path) -> None:
    translator = Translator.load(tiny_run)
    line = " ".join(["Hoy hace buen tiempo. ¿Vamos a la playa?"] * 625)  # 5,000 words
    with pytest.warns(UserWarning, match="translated in parts") as caught:
        outputs = translator.translate([line, line], beam_size=1)
    assert len(caught) == 1
    assert len(outputs) == 2
    assert outputs[0] == outputs[1]
    parts = translator._encoded(line)
    room = translator.model.max_length - 1
    assert all(0 < len(part) <= room for part in parts)
    assert len(parts) < 1.5 * sum(map(len, parts)) / room
    assert " ".join(translator.tokenizer.decode(parts)) == line
    assert translator.attention(line) is None


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text(max_size=40), max_size=5))
def test_any_text_gives_one_line_per_line(translator: Translator, texts: list[str]) -> None:
    outputs = translator.translate(texts, beam_size=1)
    assert len(outputs) == len(texts)
    assert not any("\n" in output for output in outputs)


def test_a_folder_that_is_no_run_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no run .*; train one first"):
        Translator.load(tmp_path / "latest")
    with pytest.raises(UserError, match=r"is not a run folder: it has no config\.yaml"):
        Translator.load(tmp_path)
