"""What turns source ids into target ids: the interface, and the model's own search behind it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
from keras import ops

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.devices import cores, gpus
from nmt.inference.compiled import compiled
from nmt.inference.search import (
    FREE,
    IMPOSSIBLE,
    Algorithm,
    BeamSearch,
    Greedy,
    Hypotheses,
    Rules,
    Sample,
    coverage_penalty,
    run,
)
from nmt.model.transformer import DecodingState, Transformer

_LENGTH_STEP = 8  # positions decoded, or padded to, at a time
_ROW_STEP, _WIDTH_STEP = 8, 4  # sentences and source positions by which larger batches differ
_KEPT_SHARE = 0.75  # of a batch left unfinished: at most so many, and the others leave it
NEVER = (PAD, BOS)  # ids that no output holds


class Beam(NamedTuple):
    """How to search."""

    size: int  # k; 1 is greedy
    length_penalty: float  # alpha of Wu et al. 2016, equation 14
    coverage_penalty: float = 0.0  # beta of the same
    n_best: int = 1  # hypotheses wanted per sentence, at most `size`


class Sampling(NamedTuple):
    """How to draw: see `nmt.inference.search.Sample`."""

    samples: int  # per sentence
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


class Found(NamedTuple):
    """One hypothesis in ids."""

    tokens: tuple[int, ...]  # end mark included
    log_prob: float  # of all tokens, end mark included, in nats
    score: float  # what hypotheses are ranked by


class Engine(Protocol):
    """What turns source ids into target ids.

    Attributes:
        max_length: positions, end mark included, of source and target.
        parallel: batches that may be searched at the same time, from as many threads.
    """

    max_length: int
    parallel: int

    def search(
        self, sources: Sequence[np.ndarray], limits: np.ndarray, beam: Beam, prefix: np.ndarray
    ) -> list[list[Found]]:
        """Search for the best outputs of a batch.

        Args:
            sources: ids without end mark, at least one sentence, of similar length.
            limits: int32 [B], most tokens of each output, end mark included.
            beam: how to search.
            prefix: int32 [P], ids that every output begins with; may be empty.

        Returns:
            Up to `beam.n_best` hypotheses per sentence, best first.
        """
        ...


class KerasEngine:
    """The model itself, searched with its key/value cache.

    On TensorFlow the search runs a few positions at a time: sentences that are finished leave the
    batch, and the cache grows as it is filled. On JAX, which compiles every shape anew, it runs in
    one go over few shapes.
    """

    def __init__(self, model: Transformer) -> None:
        self.model = model
        on_cpu = keras.config.backend() == "tensorflow" and not gpus()
        self.parallel = cores() if on_cpu else 1
        self.max_length = model.max_length
        self._programs: dict[Any, Any] = {}
        self._lock = threading.Lock()
        self._attention = compiled(model, self._weights, (2, 2))
        self._scores = compiled(model, self._log_probs, (2, 2, 2))

    def search(
        self, sources: Sequence[np.ndarray], limits: np.ndarray, beam: Beam, prefix: np.ndarray
    ) -> list[list[Found]]:
        """Search for the best outputs of a batch: see `Engine`."""
        if beam.size == 1:
            beam = Beam(1, 0.0)
        return self._run(beam, sources, limits, prefix, np.zeros(len(sources), np.int32))

    def sample(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        sampling: Sampling,
        prefix: np.ndarray,
        keys: np.ndarray,
    ) -> list[list[Found]]:
        """Draw outputs of a batch; ``keys`` int32 [B] decide what is drawn for each sentence."""
        return self._run(sampling, sources, limits, prefix, keys)

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return the log-probability in nats of every target token, end mark included.

        Args:
            sources: ids without end mark, of similar length.
            targets: ids without end mark, one per source.
        """
        source, target_in, target_out = self._forced(sources, targets)
        found = self._scores(source, target_in, target_out)
        return [row[: len(ids) + 1] for row, ids in zip(found, targets, strict=True)]

    def attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return the weights of each pair, float32, without padded positions.

        Args:
            sources: ids without end mark, S - 1 of them, of similar length.
            targets: ids without end mark, T - 1 of them, one per source.

        Returns:
            Per pair: encoder [layers, H, S, S], decoder [layers, H, T, T], cross [layers, H, T, S].
        """
        found = self._attention(*self._forced(sources, targets)[:2])
        lengths = [(len(s) + 1, len(t) + 1) for s, t in zip(sources, targets, strict=True)]
        return [
            (
                np.stack([layer[row, :, :s, :s] for layer in found[0]]),
                np.stack([layer[row, :, :t, :t] for layer in found[1]]),
                np.stack([layer[row, :, :t, :s] for layer in found[2]]),
            )
            for row, (s, t) in enumerate(lengths)
        ]

    def _forced(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return sources [B, S] and targets as the decoder reads and as it writes them [B, T]."""
        source, target = (
            _padded(side, step=_LENGTH_STEP)[:, : self.max_length] for side in (sources, targets)
        )
        shifted = np.concatenate([np.full((len(target), 1), BOS, np.int32), target[:, :-1]], axis=1)
        shifted[shifted == EOS] = PAD  # behind the end: ignored
        return source, shifted, target

    def _weights(self, source: Any, target: Any) -> Any:
        return tuple(self.model({"source": source, "target": target}, return_attention=True)[1])

    def _log_probs(self, source: Any, target: Any, labels: Any) -> Any:
        logits = self.model({"source": source, "target": target})
        chosen = ops.take_along_axis(logits, labels[..., None], axis=-1)
        return (chosen - ops.logsumexp(logits, axis=-1, keepdims=True))[..., 0]

    def _run(
        self,
        how: Beam | Sampling,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        prefix: np.ndarray,
        keys: np.ndarray,
    ) -> list[list[Found]]:
        source = _padded(sources)
        prefixes = np.tile(prefix.astype(np.int32), (len(sources), 1))
        if not prefixes.shape[1]:
            prefixes = np.full((len(sources), 1), FREE, np.int32)
        search = self._tensorflow if keras.config.backend() == "tensorflow" else self._whole
        found = search(how, source, Rules(limits.astype(np.int32), prefixes), keys)
        return [
            [
                Found(tuple(map(int, tokens[:length])), float(log_prob), float(score))
                for tokens, length, log_prob, score in zip(*sentence, strict=True)
                if score > IMPOSSIBLE / 2
            ]
            for sentence in zip(*found, strict=True)
        ]

    def _whole(
        self, how: Beam | Sampling, source: np.ndarray, rules: Rules, keys: np.ndarray
    ) -> Hypotheses:
        """Search in one compiled call, over few shapes."""
        count, width = source.shape
        rows = 1 << (count - 1).bit_length()
        padded, rules, keys = _filled(source, rules, keys, rows, min(_up(width), self.max_length))
        room = np.arange(_up(int(rules.limits.max())))

        def search(source: Any, limits: Any, prefix: Any, keys: Any, room: Any) -> Any:
            max_length = ops.shape(room)[0]
            state = start_state(self.model, source, how, max_length)
            algorithm = algorithm_for(self.model, how, ops.cast(keys, "uint32"))
            return tuple(run(algorithm, state, Rules(limits, prefix), max_length=max_length))

        with self._lock:
            if how not in self._programs:
                self._programs[how] = compiled(self.model, search, (2, 1, 2, 1, 1))
        found = self._programs[how](padded, *rules, keys, room)
        return Hypotheses(*(part[:count] for part in found))

    def _tensorflow(
        self, how: Beam | Sampling, source: np.ndarray, rules: Rules, keys: np.ndarray
    ) -> Hypotheses:
        """Search a few positions at a time, with ever fewer sentences."""
        import tensorflow as tf

        with self._lock:
            if how not in self._programs:
                self._programs[how] = self._traced(how)
        begin, advance = self._programs[how]
        longest = int(rules.limits.max())
        count, width = source.shape
        width = min(_up(width, _WIDTH_STEP), self.max_length)
        source, rules, keys = _filled(source, rules, keys, _few(count), width)
        rules = Rules(*map(tf.constant, rules))
        progress = begin(tf.constant(source), rules, tf.constant(keys), tf.constant(longest))
        outputs: list[np.ndarray] | None = None
        alive = rows = np.arange(len(source))
        for until in range(_LENGTH_STEP, _up(longest) + 1, _LENGTH_STEP):
            progress, rules, unfinished, found = advance(
                progress, rules, tf.constant(rows, tf.int32), tf.constant(until)
            )
            going = unfinished.numpy()
            left = np.flatnonzero(going)
            if left.size and left.size > _KEPT_SHARE * len(going):
                rows = np.arange(len(going))  # all stay
                continue
            # Of those that are finished as many stay as make a number of rows that recurs.
            stay = _few(left.size) - left.size
            kept = np.concatenate([left, np.flatnonzero(~going)[:stay]])
            parts = [part.numpy() for part in found]
            if outputs is None:
                outputs = [np.zeros((len(source), *part.shape[1:]), part.dtype) for part in parts]
            for output, part in zip(outputs, parts, strict=True):
                output[alive[~going]] = part[~going]
            alive, rows = alive[kept], kept
            if not left.size:
                break
        assert outputs is not None
        assert not left.size, "every output ends at its limit"
        return Hypotheses(*(output[:count] for output in outputs))

    def _traced(self, how: Beam | Sampling) -> tuple[Any, Any]:
        """Return the two functions of a search: begin, and advance."""
        import tensorflow as tf

        def begin(source: Any, rules: Rules, keys: Any, longest: Any) -> Any:
            state = start_state(self.model, source, how, 0)
            algorithm = algorithm_for(self.model, how, tf.cast(keys, tf.uint32))
            return algorithm.begin(state, rules, longest)

        integers = {rank: tf.TensorSpec([None] * rank, tf.int32) for rank in range(3)}
        rules = Rules(integers[1], integers[2])

        def traced(function: Any, *signature: Any) -> Any:
            # Called itself, and not by way of its concrete function, it would warn of retracing
            # when searches of several kinds have been traced.
            whole = tf.function(function, input_signature=signature, autograph=False)
            return whole.get_concrete_function()

        first = traced(begin, integers[2], rules, integers[1], integers[0])
        progress = tf.nest.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), first.structured_outputs
        )

        def advance(progress: Any, rules: Rules, rows: Any, until: Any) -> Any:
            """Keep the sentences ``rows``, make room up to ``until``, and go on to there."""
            index = progress.index
            progress, rules = tf.nest.map_structure(
                lambda tensor: tf.gather(tensor, rows) if tensor.shape.rank else tensor,
                (progress, rules),
            )
            more = until - tf.shape(progress.state.ancestors)[2]
            progress = progress._replace(index=index, state=self.model.grow(progress.state, more))
            algorithm = algorithm_for(self.model, how)
            progress = algorithm.advance(progress, rules, until)
            unfinished = algorithm.unfinished(progress, rules)
            return progress, rules, unfinished, algorithm.result(progress)

        # The cache has grown when it comes back.
        state = progress.state
        loose = state._replace(
            cache=tf.nest.map_structure(
                lambda spec: tf.TensorSpec([None, *_loose(spec.shape)], spec.dtype), state.cache
            ),
            ancestors=tf.TensorSpec([None, state.ancestors.shape[1], None], tf.int32),
        )
        progress = progress._replace(state=loose)
        return first, traced(advance, progress, rules, integers[1], integers[0])


def graph_search(
    model: Transformer, source: Any, limits: Any, beam: Beam, max_length: Any
) -> Hypotheses:
    """Search within a graph.

    Args:
        model: the transformer.
        source: int32 [B, S], end marks included, padded.
        limits: int32 [B], most tokens of each output, end mark included.
        beam: how to search.
        max_length: at least the largest limit.
    """
    state = start_state(model, source, beam, max_length)
    free = ops.full((ops.shape(limits)[0], 1), FREE, "int32")
    return run(algorithm_for(model, beam), state, Rules(limits, free), max_length=max_length)


def start_state(
    model: Transformer, source: Any, how: Beam | Sampling, max_length: Any
) -> DecodingState:
    """Encode ``source`` int32 [B, S], and make room for ``max_length`` positions of a search."""
    covered = isinstance(how, Beam) and how.coverage_penalty > 0
    hypotheses = how.size if isinstance(how, Beam) else how.samples
    return model.start(source, hypotheses=hypotheses, max_length=max_length, track_coverage=covered)


def algorithm_for(model: Transformer, how: Beam | Sampling, key: Any = None) -> Algorithm:
    """Return the search over a model's own steps; ``key`` uint32 [B] is for `Sample` alone."""
    marks: dict[str, Any] = {"step": model.step, "bos": BOS, "eos": EOS, "never": NEVER}
    if isinstance(how, Sampling):
        return Sample(
            key=key,
            samples=how.samples,
            temperature=how.temperature,
            top_k=how.top_k,
            top_p=how.top_p,
            **marks,
        )
    if how.size == 1:
        return Greedy(**marks)
    beta = how.coverage_penalty

    def penalty(state: DecodingState) -> Any:
        return coverage_penalty(state.coverage, state.memory_mask[:, 0], beta)

    return BeamSearch(
        reorder=model.reorder,
        size=how.size,
        alpha=how.length_penalty,
        n_best=how.n_best,
        penalty=penalty if beta else None,
        **marks,
    )


def _loose(shape: Any) -> list[int | None]:
    """Forget the slots of a cache: [B, H, K, slots] or [B, H, slots, K]."""
    return [extent if extent else None for extent in shape[1:]]


def _few(rows: int) -> int:
    """Round up to one of few numbers: TensorFlow keeps memory for every shape it has met."""
    return rows if rows <= _ROW_STEP else _up(rows, _ROW_STEP)


def _filled(
    source: np.ndarray, rules: Rules, keys: np.ndarray, rows: int, width: int
) -> tuple[np.ndarray, Rules, np.ndarray]:
    """Fill a batch [B, S] up to [rows, width], with sentences that are empty."""
    count = len(source)
    padded = np.full((rows, width), PAD, np.int32)
    padded[:, 0] = EOS
    padded[:count, : source.shape[1]] = source
    limits, prefix, keys = (
        np.concatenate([part, np.repeat(part[:1], rows - count, axis=0)])
        for part in (np.asarray(rules.limits), np.asarray(rules.prefix), keys)
    )
    limits[count:] = 1
    return padded, Rules(limits, prefix), keys


def _up(length: int, step: int = _LENGTH_STEP) -> int:
    """Round up to a multiple of ``step``."""
    return -(-length // step) * step


def _padded(sequences: Sequence[np.ndarray], step: int = 1) -> np.ndarray:
    """Return int32 [B, L] of sequences with their end marks, L a multiple of ``step``."""
    padded = np.full((len(sequences), _up(max(map(len, sequences)) + 1, step)), PAD, np.int32)
    for row, ids in zip(padded, sequences, strict=True):
        row[: len(ids)] = ids
        row[len(ids)] = EOS
    return padded
