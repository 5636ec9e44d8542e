"""CTranslate2 computes what Keras computes, and searches as the project does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
from conftest import RECURRENT, transformer
from made_exports import load_run

from nmt.config import Config
from nmt.data.tokenizer import BOS, EOS, PAD, load_tokenizer
from nmt.errors import UserError
from nmt.formats import ctranslate2
from nmt.formats.comparison import read_sources
from nmt.formats.weights.ctranslate2 import NotConvertibleError, write_model
from nmt.inference.alignment import Aligner
from nmt.inference.contract import BeamOptions, Hypothesis
from nmt.inference.ctranslate2_engine import CTranslate2Engine
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.lexicon import Lexicon
from nmt.model.sizes import POSITIONS, RecurrentSizes
from nmt.model.transformer import Transformer
from nmt.runs.folder import RunFolder

pytestmark = pytest.mark.xdist_group("exports")

NO_PREFIX = np.empty(0, np.int32)


class Words:
    """A vocabulary without a text side."""

    vocabulary_size = 23

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [["[PAD]", "[BOS]", "[EOS]", "[UNK]", *"abcdefghijklmnopqrs"][i] for i in ids]

    def save(self, folder: Path) -> None:
        pass


def random_model(seed: int = 1, **changes: Any) -> Transformer:
    keras.utils.set_random_seed(seed)
    sizes: dict[str, Any] = {
        "vocabulary_size": 23, "d_model": 16, "num_heads": 2, "ffn_width": 24,
        "encoder_layers": 2, "decoder_layers": 1, "dropout": 0.1, "max_length": 12,
    }  # fmt: skip
    model = transformer(**sizes | changes)
    generator = np.random.default_rng(seed)
    for weight in model.weights:  # biases and norms too
        weight.assign(weight.numpy() + generator.normal(0, 0.3, weight.shape))
    return model


def sure_model() -> Transformer:
    """A random model with most of the probability on a few tokens, as a trained one has it."""
    model = random_model()
    model.decoder_norm.gamma.assign(model.decoder_norm.gamma * 3)
    return model


@pytest.fixture(scope="module")
def keras_engine() -> KerasEngine:
    """A search of the kind that is compared with, compiled once: its model takes any weights."""
    return KerasEngine(random_model())


@pytest.fixture(scope="module")
def config(compose: Callable[..., Config]) -> Config:
    return compose("model=tiny", "model.max_length=64")


@pytest.fixture
def engine_of(tmp_path: Path, config: Config) -> Callable[..., CTranslate2Engine]:
    def engine(model: Transformer, quantization: str = "float32") -> Any:
        ctranslate2.write(model, Words(), config, tmp_path, quantization)
        return CTranslate2Engine(tmp_path, Words(), model.max_length)

    return engine


def forced(
    model: Transformer, sources: Sequence[np.ndarray], targets: Sequence[Sequence[int]]
) -> list[np.ndarray]:
    """Log-probabilities float64 [T] of each target, EOS included, by Keras."""
    inputs = {}
    for side, rows in (
        ("source", [[*source, EOS] for source in sources]),
        ("target", [[BOS, *target[:-1]] for target in targets]),
    ):
        longest = max(map(len, rows))
        inputs[side] = np.array([[*row, *[PAD] * (longest - len(row))] for row in rows])
        lengths = np.array([len(row) for row in rows])
        # Said apart, because a search may write the id of padding.
        inputs[f"{side}_segments"] = (np.arange(longest) < lengths[:, None]).astype(np.int32)
    logits = np.asarray(model(inputs)).astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return [
        row[np.arange(len(target)), list(target)]
        for row, target in zip(log_probs, targets, strict=True)
    ]


PAIRS = [
    (np.array([5, 6, 7, 20]), [9, 3, 11]),
    (np.array([8]), [12, 21, 22, 4, 4]),
    (np.array([4, 3, 2, 1, 9, 9, 10]), []),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("norm", "positions", "activation"),
    list(product(("pre", "post"), ("sinusoidal", "learned"), ("relu", "relu2", "gelu", "swiglu"))),
)
def test_log_probabilities_are_the_models_own(
    engine_of: Any, norm: str, positions: str, activation: str
) -> None:
    model = random_model(norm=norm, positions=positions, activation=activation)
    sources, targets = zip(*PAIRS, strict=True)
    scores = engine_of(model).score(sources, targets)
    expected = forced(model, sources, [[*target, EOS] for target in targets])
    for ours, theirs in zip(scores, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("heads", ["split", "own"])
@pytest.mark.parametrize("layer", [0, 1])
def test_alignments_are_those_of_keras(
    config: Config, tmp_path: Path, layer: int, heads: str
) -> None:
    """Multi-query heads too; and with a lexicon, which does the same to both."""
    model = random_model(heads=heads, key_value_heads=1, decoder_layers=2)
    keys = np.array([5 << 32 | 9, 8 << 32 | 12])
    lexicon = Lexicon(keys, np.array([0.5, 0.9], np.float32), layer)
    weights = {name: np.asarray(value) for name, value in model.named_weights().items()}
    tokenizer = Words()
    write_model(weights, tmp_path, model.sizes, tokenizer, tmp_path, alignment_layer=layer)
    sources, targets = zip(*PAIRS, strict=True)
    targets = [np.array(target, np.int32) for target in targets]
    aligner = Aligner(lexicon)
    fast = CTranslate2Engine(tmp_path, tokenizer, model.max_length, aligner=aligner)
    expected = KerasEngine(model, aligner).align(sources, targets)
    for ours, theirs, source, target in zip(
        fast.align(sources, targets), expected, sources, targets, strict=True
    ):
        assert ours.shape == (len(target) + 1, len(source) + 1)
        assert ours.dtype == theirs.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, atol=1e-3)
        np.testing.assert_allclose(ours.sum(1), 1, atol=1e-5)
    assert expected[0][0].argmax() == 0  # as the lexicon says


def test_small_activations_are_normalized_alike(engine_of: Any) -> None:
    """Where the variance is as small as epsilon, another epsilon would show."""
    model = random_model(positions="learned")
    for table in (model.embedding.table, model.positions.table):
        table.assign(table * 1e-3)
    source, target = PAIRS[0]
    scores = engine_of(model).score([source], [target])[0]
    expected = forced(model, [source], [[*target, EOS]])[0]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_quantized_weights_are_smaller_and_near(engine_of: Any, tmp_path: Path) -> None:
    model = random_model()
    before = [weight.numpy() for weight in model.weights]
    sources, targets = zip(*PAIRS, strict=True)
    expected = np.concatenate(forced(model, sources, [[*target, EOS] for target in targets]))
    sizes = []
    # In nats. Products of bytes are less exact on CPUs that have no instructions for them.
    for quantization, tolerance in (("float32", 1e-4), ("float16", 0.02), ("int8", 0.8)):
        scores = np.concatenate(engine_of(model, quantization).score(sources, targets))
        np.testing.assert_allclose(scores, expected, atol=tolerance)
        sizes.append((tmp_path / "model.bin").stat().st_size)
    assert sizes[0] > sizes[1] > sizes[2]
    for weight, array in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), array)


def test_equal_pieces_are_refused(tmp_path: Path, config: Config) -> None:
    class Twins(Words):
        def pieces(self, ids: Sequence[int]) -> list[str]:
            return [*super().pieces(ids)[:-1], "a"]

    with pytest.raises(UserError, match="two tokens of this"):
        ctranslate2.write(random_model(), Twins(), config, tmp_path, "float32")


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        (
            {"heads": "pooled"},
            "CTranslate2 does not support pooled heads (model.heads=pooled)",
        ),
        (
            {"qk_norm": True},
            "CTranslate2 does not support normalised queries of cross-attention "
            "(model.qk_norm=true)",
        ),
        (
            {"positions": "alibi"},
            "CTranslate2 does not support model.positions=alibi",
        ),
        (RecurrentSizes(**RECURRENT), "CTranslate2 does not support recurrent models"),
    ],
)
def test_what_it_does_not_compute_is_refused(
    tmp_path: Path, config: Config, sizes: dict[str, Any] | RecurrentSizes, reason: str
) -> None:
    if isinstance(sizes, dict):
        sizes = dataclasses.replace(random_model().sizes, **sizes)
    model = SimpleNamespace(sizes=sizes)
    with pytest.raises(UserError) as error:
        ctranslate2.write(model, Words(), config, tmp_path, "float32")
    assert str(error.value) == f"{reason}: use --format savedmodel"
    assert list(tmp_path.iterdir()) == []


def test_positions_that_it_does_not_know_are_refused(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.model.sizes.POSITIONS", (*POSITIONS, "new"))
    model = SimpleNamespace(sizes=dataclasses.replace(random_model().sizes, positions="new"))
    with pytest.raises(UserError, match=r"does not support model\.positions=new: use"):
        ctranslate2.write(model, Words(), config, tmp_path, "float32")


def test_weights_that_it_does_not_know_are_refused(tmp_path: Path) -> None:
    model = random_model()
    weights = {name: np.asarray(value) for name, value in model.named_weights().items()}
    weights["encoder_0/gate/kernel"] = np.zeros((16, 16), np.float32)
    with pytest.raises(NotConvertibleError, match="CTranslate2 has no weight encoder_0/gate"):
        write_model(weights, tmp_path, model.sizes, Words(), tmp_path)
    assert list(tmp_path.iterdir()) == []


VARIANTS = [
    {"heads": "own"},
    {"key_value_heads": 1},
    {"key_value_heads": 2, "heads": "own", "attention_biases": False},
    {"attention_output": False, "positions": "none"},
    {"positions": "rotary"},
    {"positions": "relative", "norm": "post"},
    {"positions": "sinusoidal_halves", "norm": "post", "activation": "silu", "output_bias": True},
    {"norm_epsilon": 0.1},
    {"qk_norm": "self"},
    {"qk_norm": "self", "heads": "own", "positions": "rotary"},
    {"qk_norm": "self", "key_value_heads": 2},
    {"qk_norm": "self", "key_value_heads": 1},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_variants_of_attention_are_computed_alike(engine_of: Any, changes: dict[str, Any]) -> None:
    """Sentences as long as it takes to meet several ranges of relative positions."""
    model = random_model(num_heads=4, max_length=64, **changes)
    rng = np.random.default_rng(0)
    sources = [rng.integers(4, 23, count) for count in (4, 45, 30)]
    targets = [rng.integers(4, 23, count).tolist() for count in (50, 3, 0)]
    scores = engine_of(model).score(sources, targets)
    expected = forced(model, sources, [[*target, EOS] for target in targets])
    for ours, theirs in zip(scores, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def sources_and_limits(count: int) -> tuple[list[np.ndarray], np.ndarray]:
    generator = np.random.default_rng(0)
    sources = [generator.integers(3, 23, generator.integers(1, 10)) for _ in range(count)]
    return sources, generator.integers(1, 12, count).astype(np.int32)


@pytest.mark.long
@pytest.mark.parametrize("beam_size", [1, 4])
def test_search_finds_what_keras_finds(
    engine_of: Any, keras_engine: KerasEngine, beam_size: int
) -> None:
    model = sure_model()
    table = model.embedding.table.numpy()
    table[[PAD, BOS]] = 0  # embeddings are tied: a random model likes to repeat BOS
    model.embedding.table.assign(table)
    sources, limits = sources_and_limits(60)
    beam = BeamOptions(beam_size, 0.6, n_best=beam_size)
    hypotheses = engine_of(model).search(sources, limits, beam, NO_PREFIX)
    check_hypotheses(model, sources, limits, hypotheses, alpha=0.6 if beam_size > 1 else 0)
    assert all(1 <= len(ranked) <= beam_size for ranked in hypotheses)
    keras_engine.model.set_weights(model.get_weights())
    expected = keras_engine.search(sources, limits, beam, NO_PREFIX)
    for ours, theirs in zip(hypotheses, expected, strict=True):
        # CTranslate2 lets only the k best candidates end: an early end after them is not found,
        # and here it is better than an end forced by the limit.
        if beam_size == 1 or theirs[0].tokens != (EOS,):
            assert ours[0].tokens == theirs[0].tokens
    assert len({len(theirs[0].tokens) for theirs in expected}) > 3


@pytest.mark.parametrize(
    ("beam_size", "prefix"),
    [(1, []), (1, [5, 6, 5]), pytest.param(4, [5, 6, 5], marks=pytest.mark.long)],
    ids=str,
)
def test_no_ngram_occurs_twice_on_both_engines(
    engine_of: Any, keras_engine: KerasEngine, beam_size: int, prefix: list[int]
) -> None:
    model = sure_model()
    table = model.embedding.table.numpy()
    table[[PAD, BOS]] = 0
    model.embedding.table.assign(table)
    sources, limits = sources_and_limits(40)
    limits = np.maximum(limits, len(prefix) + 1).astype(limits.dtype)
    forced_ids = np.array(prefix, np.int32)
    keras_engine.model.set_weights(model.get_weights())
    for n in (1, 2):
        beam = BeamOptions(beam_size, 0.6, n_best=beam_size, no_repeat_ngram=n)
        hypotheses = engine_of(model).search(sources, limits, beam, forced_ids)
        check_hypotheses(model, sources, limits, hypotheses, alpha=0.6 if beam_size > 1 else 0)
        expected = keras_engine.search(sources, limits, beam, forced_ids)
        for ranked in (*hypotheses, *expected):
            for item in ranked:
                ngrams = list(zip(*(item.tokens[i:] for i in range(n)), strict=False))
                after = ngrams[max(0, len(prefix) - n + 1) :]
                assert len(set(after)) == len(after)
        if beam_size == 1:  # CTranslate2's beam ranks by probabilities of the allowed tokens
            assert [best.tokens for (best,) in hypotheses] == [best.tokens for (best,) in expected]
        loose = keras_engine.search(sources, limits, BeamOptions(beam_size, 0.6), forced_ids)
        assert [ranked[0].tokens for ranked in loose] != [ranked[0].tokens for ranked in expected]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_each_sentence_may_have_a_prefix_of_its_own(
    engine_of: Any, keras_engine: KerasEngine, beam_size: int
) -> None:
    model = sure_model()
    sources, limits = sources_and_limits(4)
    limits = np.maximum(limits, 4).astype(limits.dtype)
    prefixes: list[list[int]] = [[5, 6, 5], [], [6], [5, 5]]
    padded = np.array([[*ids, *[-1] * (3 - len(ids))] for ids in prefixes], np.int32)
    beam = BeamOptions(beam_size, 0.6)
    keras_engine.model.set_weights(model.get_weights())
    for engine in (engine_of(model), keras_engine):
        together = engine.search(sources, limits, beam, padded)
        if engine is not keras_engine:
            check_hypotheses(model, sources, limits, together, alpha=0.6 if beam_size > 1 else 0)
        for row, ids in enumerate(prefixes):
            [alone] = engine.search(
                sources[row : row + 1], limits[row : row + 1], beam, np.array(ids, np.int32)
            )
            assert together[row][0].tokens == alone[0].tokens
            assert together[row][0].log_prob == pytest.approx(alone[0].log_prob, abs=1e-4)
            assert list(alone[0].tokens[: len(ids)]) == ids


@pytest.mark.parametrize("beam_size", [1, 3])
def test_bos_is_never_written(engine_of: Any, keras_engine: KerasEngine, beam_size: int) -> None:
    model = sure_model()
    sources, limits = sources_and_limits(20)
    engine = engine_of(model)
    written = engine._search(
        sources, 12, BeamOptions(beam_size, 0.6), [NO_PREFIX] * len(sources), ()
    )
    assert any(BOS in tokens for hypotheses in written for tokens in hypotheses)
    hypotheses = engine.search(
        sources, limits, BeamOptions(beam_size, 0.6, n_best=beam_size), NO_PREFIX
    )
    check_hypotheses(model, sources, limits, hypotheses, alpha=0.6 if beam_size > 1 else 0)
    if beam_size == 1:
        keras_engine.model.set_weights(model.get_weights())
        expected = keras_engine.search(sources, limits, BeamOptions(1, 0.6), NO_PREFIX)
        assert [best.tokens for best, *_ in hypotheses] == [best.tokens for best, *_ in expected]


def check_hypotheses(
    model: Transformer,
    sources: Sequence[np.ndarray],
    limits: np.ndarray,
    hypotheses: Sequence[Sequence[Hypothesis]],
    alpha: float,
) -> None:
    flat = [(i, item) for i, ranked in enumerate(hypotheses) for item in ranked]
    forced_log_probs = forced(
        model, [sources[i] for i, _ in flat], [item.tokens for _, item in flat]
    )
    for (i, item), log_probs in zip(flat, forced_log_probs, strict=True):
        assert len(item.tokens) <= limits[i]
        assert item.tokens.index(EOS) == len(item.tokens) - 1
        assert not {PAD, BOS} & set(item.tokens)
        assert item.log_prob == pytest.approx(log_probs.sum(), abs=2e-4)
        penalty = ((5 + len(item.tokens)) / 6) ** alpha
        assert item.score == pytest.approx(log_probs.sum() / penalty, abs=2e-4)
    for ranked in hypotheses:
        scores = [item.score for item in ranked]
        assert scores == sorted(scores, reverse=True)
        assert len({item.tokens for item in ranked}) == len(ranked)


def ending_model(wish: float) -> Transformer:
    """A random model that likes EOS the more, the larger the wish."""
    model = random_model()
    model.decoder_norm.beta.assign(wish * model.embedding.table[EOS])
    return model


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_prefix_begins_every_target_and_counts(engine_of: Any, beam_size: int) -> None:
    model = ending_model(2)
    sources, _ = sources_and_limits(12)
    limits = np.array([4, 5, 6, *[11] * 9], np.int32)
    prefix = np.array([7, 8, 9], np.int32)
    beam = BeamOptions(beam_size, 0.6, n_best=beam_size)
    hypotheses = engine_of(model).search(sources, limits, beam, prefix)
    check_hypotheses(model, sources, limits, hypotheses, alpha=0.6 if beam_size > 1 else 0)
    assert all(item.tokens[:3] == (7, 8, 9) for ranked in hypotheses for item in ranked)
    assert any(len(ranked[0].tokens) < 11 for ranked in hypotheses[3:])


@pytest.mark.parametrize("beam_size", [1, 4])
def test_an_empty_target_may_be_found(engine_of: Any, beam_size: int) -> None:
    sources, _ = sources_and_limits(3)
    limits = np.full(3, 9, np.int32)
    hypotheses = engine_of(ending_model(8)).search(
        sources, limits, BeamOptions(beam_size, 0.6), NO_PREFIX
    )
    assert [ranked[0].tokens for ranked in hypotheses] == [(EOS,)] * 3


def test_a_folder_translates_alone(parrot_run: Path, tmp_path: Path) -> None:
    run = RunFolder.open(parrot_run)
    translator = load_run(parrot_run)
    sentences = read_sources(run.samples, [], translator.tokenizer, 64)
    ctranslate2.write(run.load_model(), run.load_tokenizer(), run.config, tmp_path, "float32")
    loaded = ctranslate2.load(tmp_path)
    assert loaded.segmenter.max_tokens == translator.segmenter.max_tokens == 63
    for texts in (sentences, sentences[:1], ["", sentences[1], "\u200b"], []):
        for beam in (1, 4):
            outputs = loaded.translate(texts, beam_size=beam)
            assert outputs == translator.translate(texts, beam_size=beam)
    assert len(set(loaded.translate(sentences))) == len(sentences) > 10
    with pytest.raises(UserError, match="a coverage penalty needs the Keras engine"):
        loaded.translate(sentences, coverage_penalty=0.2)
    rescore = ctranslate2.make_rescore(loaded)
    for candidate in translator.hypotheses(sentences[:1])[0]:
        assert rescore(sentences[0], candidate) == pytest.approx(candidate.log_prob, abs=1e-4)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError, match=r"is not a CTranslate2 model: it has no model\.bin"):
            ctranslate2.load(folder)


def test_a_folder_that_is_no_model_is_refused(parrot_run: Path) -> None:
    with pytest.raises(UserError, match="is not a CTranslate2 model"):
        CTranslate2Engine(parrot_run, load_tokenizer(parrot_run), 64)
