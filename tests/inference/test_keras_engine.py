"""The engine searches any decoder that keeps the contract; numbers of a search are its inputs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
from keras import ops
from numpy.typing import NDArray

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.inference import keras_engine
from nmt.inference.compiled import compile_with_weights
from nmt.inference.contract import FREE, BeamOptions, Hypothesis, SamplingOptions
from nmt.inference.keras_engine import KerasEngine, sampling_keys
from nmt.inference.programs import make_algorithm, search_in_graph, start_state
from nmt.inference.search import Constraints, run
from nmt.startup.devices import Gpu

Array = NDArray[Any]
Tokens = tuple[int, ...]

A, B = 3, 4
V = 5
WIDE = 20  # hypotheses: more than there are prefixes of any length, so that none is lost


class Written(NamedTuple):
    """A state: one tensor that stays as it is, and one that grows."""

    source: Any  # int32 [B, S]
    tokens: Any  # int32 [B, k, T]: the token read at each position; -1: none


class Walk:
    """A `Decoder`, and nothing else: no attention, no weights, a table of probabilities.

    The next token depends on the whole source and on all tokens before. Outputs are made of a and
    at most one b, so that their number grows with the square of their length only.
    """

    SIZE = 997
    max_length = 32
    vocabulary_size = V

    def __init__(self, seed: int = 1) -> None:
        self.table = np.random.default_rng(seed).standard_normal((self.SIZE, V)).astype(np.float32)
        self.table[:, A] += 1.5  # some go on for long

    # --- What `Decoder` names. ---

    def start(
        self, source: Any, *, beam_size: int, max_length: Any, track_coverage: bool = False
    ) -> Written:
        unwritten = ops.full((ops.shape(source)[0], beam_size, max_length), -1, "int32")
        return Written(ops.convert_to_tensor(source), unwritten)

    def step(self, tokens: Any, index: Any, state: Written) -> tuple[Any, Written]:
        places = ops.arange(self.capacity(state), dtype="int32")
        written = ops.where(ops.equal(places, index), tokens[:, :, None], state.tokens)
        source_sum = ops.sum(state.source, axis=1)[:, None]  # [B, 1]
        past_sum = ops.sum(ops.where(written < 0, 0, written * (7 * places + 31)), axis=2)
        row = (source_sum * 131 + past_sum) % self.SIZE  # [B, k]
        logits = ops.take(ops.convert_to_tensor(self.table), row, axis=0)  # [B, k, V]
        spent = ops.any(ops.equal(written, B), axis=2)[:, :, None]
        barred = ops.equal(ops.arange(V), B)
        return ops.where(ops.logical_and(spent, barred), -1e9, logits), Written(
            state.source, written
        )

    def reorder(self, state: Written, parents: Any) -> Written:
        tokens = ops.take_along_axis(state.tokens, parents[:, :, None], axis=1)
        return Written(state.source, tokens)

    def capacity(self, state: Written) -> Any:
        return ops.shape(state.tokens)[2]

    def grow(self, state: Written, positions: Any) -> Written:
        batch, places = ops.shape(state.tokens)[0], ops.shape(state.tokens)[1]
        more = ops.full((batch, places, positions), -1, "int32")
        return Written(state.source, ops.concatenate([state.tokens, more], axis=2))

    def growing_axes(self, state: Written) -> Written:
        return Written(source=-1, tokens=2)

    def coverage(self, state: Written) -> tuple[Any, Any]:
        """Let token t of the output attend to the source's t-th, by a third."""
        width, length = ops.shape(state.source)[1], self.capacity(state)
        same = ops.equal(ops.arange(width)[:, None], ops.arange(length) % 4)  # [S, T]
        here = ops.cast(ops.logical_and(state.tokens[:, :, None] >= 0, same), "float32")
        return ops.sum(here, axis=3) / 3, ops.not_equal(state.source, PAD)[:, None]

    # --- The same in plain Python. ---

    def logits(self, source: Sequence[int], tokens: Tokens) -> Array:
        read = (BOS, *tokens)
        row = sum(source) * 131 + sum(token * (7 * t + 31) for t, token in enumerate(read))
        logits = np.float64(self.table[row % self.SIZE])
        if B in read:
            logits[B] = -1e9
        return logits

    def log_probs(self, source: Sequence[int], tokens: Tokens) -> Array:
        logits = self.logits(source, tokens)
        return logits - np.log(np.exp(logits).sum())

    def everything(self, source: Sequence[int], limit: int) -> Iterator[tuple[Tokens, float]]:
        """Yield all outputs of up to ``limit`` tokens, and their log-probabilities."""
        prefixes: list[tuple[Tokens, float]] = [((), 0.0)]
        for _ in range(limit):
            longer = []
            for tokens, log_prob in prefixes:
                following = self.log_probs(source, tokens)
                yield (*tokens, EOS), log_prob + following[EOS]
                longer += [
                    ((*tokens, token), log_prob + following[token])
                    for token in ((A,) if B in tokens else (A, B))
                ]
            prefixes = longer

    def best(
        self, source: Sequence[int], limit: int, alpha: float, beta: float, count: int
    ) -> list[Hypothesis]:
        """Return the best of all outputs."""
        hypotheses = []
        for tokens, log_prob in self.everything(source, limit):
            score = log_prob / ((5 + len(tokens)) / 6) ** alpha
            for s in range(len(source)):
                received = sum(t % 4 == s for t in range(len(tokens))) / 3
                score += beta * math.log(min(max(received, 1e-6), 1)) if beta else 0
            hypotheses.append(Hypothesis(tokens, log_prob, score))
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:count]

    def greedy(self, source: Sequence[int], limit: int) -> Hypothesis:
        tokens: Tokens = ()
        log_prob = 0.0
        while EOS not in tokens:
            following = self.log_probs(source, tokens)
            allowed = [EOS] if len(tokens) == limit - 1 else [EOS, A, B]
            token = max(allowed, key=following.__getitem__)
            tokens, log_prob = (*tokens, token), log_prob + following[token]
        return Hypothesis(tokens, log_prob, log_prob)

    def sample(
        self, source: Sequence[int], limit: int, key: int, temperature: float, top_p: float
    ) -> Hypothesis:
        """Draw by `key`: the largest of logit plus noise."""
        tokens: Tokens = ()
        log_prob = 0.0
        while EOS not in tokens:
            heat = self.logits(source, tokens) / temperature
            heat[[PAD, BOS]] = -math.inf
            if top_p < 1:
                order = np.argsort(-heat)
                shares = np.exp(heat[order] - heat[order[0]])
                shares /= shares.sum()
                heat[order[np.cumsum(shares) - shares >= top_p]] = -math.inf
            numbers = [folded(key, len(tokens), token) >> 8 for token in range(V)]
            noise = -np.log(-np.log((np.array(numbers) + 0.5) / (1 << 24)))
            token = int(np.argmax(heat + noise)) if len(tokens) < limit - 1 else EOS
            log_prob += self.log_probs(source, tokens)[token]
            tokens = (*tokens, token)
        return Hypothesis(tokens, log_prob, log_prob)


class Weightless(Walk):
    """What JAX hands to a compiled program beside its inputs."""

    weights = ()


def folded(key: int, *numbers: int) -> int:
    """The hash of `nmt.model.dropout`, in Python's own integers."""
    low = 0xFFFFFFFF
    for number in numbers:
        key = key + (number + 1) * 0x9E3779B9 & low
        key ^= key >> 16
        key = key * 0x7FEB352D & low
        key ^= key >> 15
        key = key * 0x846CA68B & low
        key ^= key >> 16
    return key


# Sources differ in length, and outputs in their limits: some leave the batch in each piece of it.
SOURCES = [np.array(ids, np.int32) for ids in ([7, 9], [5], [11, 3, 8], [4, 4], [6], [13, 2, 5])]
LIMITS = np.array([18, 2, 7, 12, 4, 18], np.int32)
KEYS = sampling_keys(SOURCES, seed=1)  # seed of `SamplingOptions`
NO_PREFIX = np.zeros(0, np.int32)
ROOM = 20

WALK = Walk() if keras.config.backend() == "tensorflow" else Weightless()


def with_end(source: Array) -> list[int]:
    return [*map(int, source), EOS]


def check(hypotheses: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [hypothesis.tokens for hypothesis in hypotheses] == [
        hypothesis.tokens for hypothesis in expected
    ]
    for name in ("log_prob", "score"):
        ours, theirs = (
            [getattr(hypothesis, name) for hypothesis in side] for side in (hypotheses, expected)
        )
        np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-5)


def padded() -> Array:
    padded_sources = np.full((len(SOURCES), 4), PAD, np.int32)
    for row, source in zip(padded_sources, SOURCES, strict=True):
        row[: len(source) + 1] = with_end(source)
    return padded_sources


@pytest.fixture(scope="module")
def engine() -> KerasEngine:
    return KerasEngine(WALK)


@pytest.mark.backend
@pytest.mark.parametrize("beam_size", [1, WIDE])
def test_the_engine_finds_the_best_of_all_outputs_of_a_decoder(
    engine: KerasEngine, beam_size: int
) -> None:
    outputs = engine.search(
        SOURCES, LIMITS, BeamOptions(beam_size, 0.6, n_best=beam_size), NO_PREFIX
    )
    for hypotheses, source, limit in zip(outputs, SOURCES, LIMITS, strict=True):
        if beam_size == 1:
            check(hypotheses, [WALK.greedy(with_end(source), limit)])
        else:
            check(hypotheses, WALK.best(with_end(source), limit, 0.6, 0.0, beam_size))


@pytest.mark.backend
@pytest.mark.parametrize("beam_size", [1, WIDE])
def test_a_search_in_a_graph_finds_the_same(engine: KerasEngine, beam_size: int) -> None:
    beam = BeamOptions(beam_size, 0.6, n_best=min(beam_size, 3))
    fast = compile_with_weights(
        WALK,
        lambda source, limits: tuple(search_in_graph(WALK, source, limits, beam, ROOM)),
        (2, 1),
    )
    tokens, lengths, log_probs, scores = fast(padded(), LIMITS)
    expected = engine.search(SOURCES, LIMITS, beam, NO_PREFIX)
    for row, best in enumerate(expected):
        hypotheses = [
            Hypothesis(tuple(map(int, ids[:length])), float(log_prob), float(score))
            for ids, length, log_prob, score in zip(
                tokens[row], lengths[row], log_probs[row], scores[row], strict=True
            )
        ]
        check(hypotheses[: len(best)], best)


def repeats(tokens: Tokens, n: int) -> bool:
    ngrams = [tokens[i : i + n] for i in range(len(tokens) - n + 1)]
    return len(set(ngrams)) < len(ngrams)


@pytest.mark.backend
def test_no_ngram_occurs_twice_and_its_length_is_an_input() -> None:
    engine = KerasEngine(WALK)
    for n in (1, 2, 3, 5):
        beam = BeamOptions(WIDE, 0.6, n_best=WIDE, no_repeat_ngram=n)
        outputs = engine.search(SOURCES, LIMITS, beam, NO_PREFIX)
        fast = compile_with_weights(
            WALK,
            lambda source, limits, beam=beam: search_in_graph(WALK, source, limits, beam, ROOM),
            (2, 1),
        )
        in_graph = fast(padded(), LIMITS)
        forbidden = 0
        for row, (source, limit) in enumerate(zip(SOURCES, LIMITS, strict=True)):
            everything = WALK.best(with_end(source), limit, 0.6, 0.0, 10**6)
            expected = [item for item in everything if not repeats(item.tokens, n)]
            forbidden += len(everything) - len(expected)
            check(outputs[row], expected[:WIDE])
            assert tuple(in_graph.tokens[row, 0, : in_graph.lengths[row, 0]]) == expected[0].tokens
        assert forbidden > 0
    assert engine.programs == 1


@pytest.mark.backend
def test_samples_of_a_decoder_are_its_own(engine: KerasEngine) -> None:
    """In pieces or in one: by the same keys the same, with the decoder's own probabilities."""
    count = 400
    sampling = SamplingOptions(count)
    samples = engine.search(SOURCES, LIMITS, sampling, NO_PREFIX)

    def draw(source: Any, limits: Any, keys: Any) -> Any:
        state = start_state(WALK, source, sampling.static_options, ROOM)
        algorithm = make_algorithm(WALK, sampling.static_options, key=ops.cast(keys, "uint32"))
        free = ops.full((ops.shape(limits)[0], 1), FREE, "int32")
        return run(
            algorithm, state, Constraints(limits, free, sampling.parameters), max_length=ROOM
        )

    at_once = compile_with_weights(WALK, draw, (2, 1, 1))(padded(), LIMITS, KEYS)
    for row, (source, limit) in enumerate(zip(SOURCES, LIMITS, strict=True)):
        everything = dict(WALK.everything(with_end(source), limit))
        assert sum(map(math.exp, everything.values())) < 1  # the rest is padding and BOS
        counts = Counter(sample.tokens for sample in samples[row])
        for sample in samples[row]:
            assert sample.log_prob == pytest.approx(everything[sample.tokens], abs=1e-4)
        lengths = at_once.lengths[row]
        tokens = [tuple(map(int, t[:n])) for t, n in zip(at_once.tokens[row], lengths, strict=True)]
        assert counts == Counter(tokens)
        # The first token is EOS as often as it should be.
        following = np.exp(WALK.log_probs(with_end(source), ()))
        share = following[EOS] / following[[EOS, A, B]].sum() if limit > 1 else 1.0
        spread = math.sqrt(count * share * (1 - share))
        assert abs(counts[EOS,] - count * share) <= 4 * spread


def test_finished_sentences_leave_and_the_state_grows(engine: KerasEngine) -> None:
    """What the results above went through, on TensorFlow: 8 positions at a time."""
    beam = BeamOptions(WIDE, 0.6, n_best=WIDE)
    engine.search(SOURCES, LIMITS, beam, NO_PREFIX)
    begin, advance = engine._programs.compiled[beam.static_options]
    calls = []

    def watched(progress: Any, *more: Any) -> Any:
        rows, until = more[-2:]
        calls.append((int(WALK.capacity(progress.state)), len(rows), int(until)))
        return advance(progress, *more)

    engine._programs.compiled[beam.static_options] = begin, watched
    try:
        engine.search(SOURCES, LIMITS, beam, NO_PREFIX)
    finally:
        engine._programs.compiled[beam.static_options] = begin, advance
    room, rows, until = zip(*calls, strict=True)
    assert (room, until) == ((0, 8, 16), (8, 16, 24))
    assert len(SOURCES) == rows[0] > rows[1] > rows[2]


@pytest.fixture
def compilations() -> Iterator[Callable[[], int]]:
    """Count what JAX compiles from here on."""
    if keras.config.backend() == "tensorflow":
        yield lambda: 1  # the engine calls functions of one signature there
        return
    import jax

    compiled = []

    def listen(event: str, duration: float, **_: Any) -> None:
        if listening and event.endswith("backend_compile_duration"):
            compiled.append(event)

    listening = True
    jax.monitoring.register_event_duration_secs_listener(listen)
    yield lambda: len(compiled)
    listening = False


@pytest.mark.backend
def test_numbers_are_inputs_of_a_compiled_search(compilations: Callable[[], int]) -> None:
    """A hundred searches, no two alike: each finds what plain Python finds for its numbers."""
    engine = KerasEngine(WALK)
    sources, limits, keys = SOURCES[:2], np.array([7, 5], np.int32), KEYS[:2]
    texts = list(map(with_end, sources))
    rng = np.random.default_rng(0)
    compiled_so_far = 0
    for number in range(25):
        alpha, beta, temperature = rng.uniform(0, 3), rng.uniform(0.01, 1), rng.uniform(0.2, 3)
        top_p, n_best = rng.uniform(0.3, 0.99), 1 + number % WIDE
        for weight in (0.0, beta):
            beam = BeamOptions(WIDE, alpha, weight, n_best)
            outputs = engine.search(sources, limits, beam, NO_PREFIX)
            for hypotheses, text, limit in zip(outputs, texts, limits, strict=True):
                check(hypotheses, WALK.best(text, limit, alpha, weight, n_best))
        for share in (1.0, top_p):
            sampling = SamplingOptions(3, temperature, top_p=share)
            sampled = engine.search(sources, limits, sampling, NO_PREFIX)
            for samples, text, limit, key in zip(sampled, texts, limits, keys, strict=True):
                expected = [
                    WALK.sample(text, limit, folded(int(key), n), temperature, share)
                    for n in range(3)
                ]
                check(samples, sorted(expected, key=lambda hypotheses: -hypotheses.log_prob))
        if number < 2:  # one wanted, then several
            compiled_so_far = compilations()
    # With and without coverage, one wanted or several; and with and without a nucleus.
    assert engine.programs == 6
    assert compilations() == compiled_so_far > 0


@pytest.mark.backend
def test_on_a_gpu_batches_of_other_lengths_share_a_program(
    monkeypatch: pytest.MonkeyPatch, compilations: Callable[[], int]
) -> None:
    monkeypatch.setattr(keras_engine, "gpus", lambda: [Gpu("H200", (9, 0))])
    engine = KerasEngine(WALK)
    beam = BeamOptions(WIDE, 0.6)
    compiled = []
    for length, limit in ((3, 5), (12, 7)):  # a CPU pads to 8 and 16
        sources, limits = [np.arange(length, dtype=np.int32) % 7 + 4], np.array([limit], np.int32)
        [hypotheses] = engine.search(sources, limits, beam, NO_PREFIX)
        check(hypotheses, WALK.best(with_end(sources[0]), limit, 0.6, 0.0, 1))
        compiled.append(compilations())
    assert compiled[1] == compiled[0] > 0
