"""The model's own search: an engine that runs the model itself, with its key/value cache."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.inference.compiled import compile_over
from nmt.inference.contract import NEVER, Beam, Hypothesis, Kind, Numbers, Sampling
from nmt.inference.search import (
    FREE,
    IMPOSSIBLE,
    Algorithm,
    BeamSearch,
    Greedy,
    Hypotheses,
    Rules,
    Sample,
    run,
)
from nmt.model.contract import Decoder, Model
from nmt.startup.devices import cores, gpus

_LENGTH_STEP = 8  # positions decoded, or padded to, at a time
_ROW_STEP, _WIDTH_STEP = 8, 4  # sentences and source positions by which larger batches differ
_KEPT_SHARE = 0.75  # of a batch left unfinished: at most so many, and the others leave it


class KerasEngine:
    """The model itself, searched with its key/value cache.

    On TensorFlow the search runs a few positions at a time: sentences that are finished leave the
    batch, and the cache grows as it is filled. On JAX, which compiles every shape anew, it runs in
    one go over few shapes.
    """

    own = True

    def __init__(self, model: Model) -> None:
        self.model = model
        on_cpu = keras.config.backend() == "tensorflow" and not gpus()
        self.parallel = cores() if on_cpu else 1
        self.max_length = model.max_length
        self._programs: dict[Kind, Any] = {}
        self._lock = threading.Lock()
        self._attention = compile_over(model, self._weights, (2, 2))
        self._scores = compile_over(model, self._log_probs, (2, 2, 2))

    @property
    def programs(self) -> int:
        """How many searches have been compiled: one for each `Kind`, whatever the numbers."""
        return len(self._programs)

    def can(self, beam: Beam) -> bool:
        """Whether `search` gives what is asked: it gives everything."""
        return True

    def search(
        self, sources: Sequence[np.ndarray], limits: np.ndarray, beam: Beam, prefix: np.ndarray
    ) -> list[list[Hypothesis]]:
        """Search for the best outputs of a batch: see `nmt.inference.contract.Engine`."""
        return self._run(beam, sources, limits, prefix, np.zeros(len(sources), np.int32))

    def sample(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        sampling: Sampling,
        prefix: np.ndarray,
        keys: np.ndarray,
    ) -> list[list[Hypothesis]]:
        """Draw outputs of a batch; ``keys`` int32 [B] decide what is drawn for each sentence."""
        return self._run(sampling, sources, limits, prefix, keys)

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return the log-probability of every target token: see `nmt.inference.contract.Engine`."""
        source, target_in, target_out = self._forced(sources, targets)
        found = self._scores(source, target_in, target_out)
        return [row[: len(ids) + 1] for row, ids in zip(found, targets, strict=True)]

    def attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[dict[str, np.ndarray]]:
        """Return the weights of each pair, float32, without padded positions.

        Args:
            sources: ids without end mark, S - 1 of them, of similar length.
            targets: ids without end mark, T - 1 of them, one per source.

        Returns:
            Per pair and kind of attention: [layers, H, rows, columns], S or T each.
        """
        found = self._attention(*self._forced(sources, targets)[:2])
        weights = []
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            extent = {"source": len(source) + 1, "target_in": len(target) + 1}
            extent["target_out"] = extent["target_in"]
            weights.append(
                {
                    kind.name: np.stack(
                        [
                            layer[row, :, : extent[kind.rows], : extent[kind.columns]]
                            for layer in found[kind.name]
                        ]
                    )
                    for kind in self.model.attention_kinds
                }
            )
        return weights

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
        return self.model({"source": source, "target": target}, return_attention=True)[1]

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
    ) -> list[list[Hypothesis]]:
        source = _padded(sources)
        prefixes = np.tile(prefix.astype(np.int32), (len(sources), 1))
        if not prefixes.shape[1]:
            prefixes = np.full((len(sources), 1), FREE, np.int32)
        search = self._tensorflow if keras.config.backend() == "tensorflow" else self._whole
        rules = Rules(limits.astype(np.int32), prefixes, how.numbers)
        found = search(how.kind, source, rules, keys)
        return [
            [
                Hypothesis(tuple(map(int, tokens[:length])), float(log_prob), float(score))
                for tokens, length, log_prob, score in zip(*sentence, strict=True)
                if score > IMPOSSIBLE / 2
            ][: how.n_best]
            for sentence in zip(*found, strict=True)
        ]

    def _whole(self, kind: Kind, source: np.ndarray, rules: Rules, keys: np.ndarray) -> Hypotheses:
        """Search in one compiled call, over few shapes."""
        count, width = source.shape
        rows = 1 << (count - 1).bit_length()
        padded, rules, keys = _filled(source, rules, keys, rows, min(_up(width), self.max_length))
        room = np.arange(_up(int(rules.limits.max())))

        def search(
            source: Any, limits: Any, prefix: Any, keys: Any, room: Any, n_best: Any, *floats: Any
        ) -> Any:
            max_length = ops.shape(room)[0]
            state = start_state(self.model, source, kind, max_length)
            algorithm = make_algorithm(self.model, kind, key=ops.cast(keys, "uint32"))
            alpha, beta, temperature, top_p = floats
            numbers = Numbers(alpha, beta, n_best, temperature, top_p)
            rules = Rules(limits, prefix, numbers)
            return tuple(run(algorithm, state, rules, max_length=max_length))

        with self._lock:
            if kind not in self._programs:
                ranks = (2, 1, 2, 1, 1, 0)
                self._programs[kind] = compile_over(self.model, search, ranks, floats=4)
        limits, prefix, (alpha, beta, n_best, temperature, top_p) = rules
        found = self._programs[kind](
            padded, limits, prefix, keys, room, n_best, alpha, beta, temperature, top_p
        )
        return Hypotheses(*(part[:count] for part in found))

    def _tensorflow(
        self, kind: Kind, source: np.ndarray, rules: Rules, keys: np.ndarray
    ) -> Hypotheses:
        """Search a few positions at a time, with ever fewer sentences."""
        import tensorflow as tf

        with self._lock:
            if kind not in self._programs:
                self._programs[kind] = self._traced(kind)
        begin, advance = self._programs[kind]
        longest = int(rules.limits.max())
        count, width = source.shape
        width = min(_up(width, _WIDTH_STEP), self.max_length)
        source, rules, keys = _filled(source, rules, keys, _few(count), width)
        # One tensor is passed more quickly than five.
        numbers = tf.constant(rules.numbers, tf.float32)
        limits, prefix = tf.constant(rules.limits), tf.constant(rules.prefix)
        progress = begin(tf.constant(source), limits, tf.constant(keys), tf.constant(longest))
        outputs: list[np.ndarray] | None = None
        alive = rows = np.arange(len(source))
        for until in range(_LENGTH_STEP, _up(longest) + 1, _LENGTH_STEP):
            progress, limits, prefix, unfinished, found = advance(
                progress, limits, prefix, numbers, tf.constant(rows, tf.int32), tf.constant(until)
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

    def _traced(self, kind: Kind) -> tuple[Any, Any]:
        """Return the two functions of a search: begin, and advance."""
        import tensorflow as tf

        def begin(source: Any, limits: Any, keys: Any, longest: Any) -> Any:
            state = start_state(self.model, source, kind, 0)
            algorithm = make_algorithm(self.model, kind, key=tf.cast(keys, tf.uint32))
            free = tf.fill([tf.shape(limits)[0], 1], FREE)
            return algorithm.begin(state, Rules(limits, free), longest)

        integers = {rank: tf.TensorSpec([None] * rank, tf.int32) for rank in range(3)}

        def traced(function: Any, *signature: Any) -> Any:
            # Called itself, and not by way of its concrete function, it would warn of retracing
            # when searches of several kinds have been traced.
            whole = tf.function(function, input_signature=signature, autograph=False)
            return whole.get_concrete_function()

        first = traced(begin, integers[2], integers[1], integers[1], integers[0])
        progress = tf.nest.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), first.structured_outputs
        )

        def advance(
            progress: Any, limits: Any, prefix: Any, numbers: Any, rows: Any, until: Any
        ) -> Any:
            """Keep the sentences ``rows``, make room up to ``until``, and go on to there."""
            index = progress.index
            progress, limits, prefix = tf.nest.map_structure(
                lambda tensor: tf.gather(tensor, rows) if tensor.shape.rank else tensor,
                (progress, limits, prefix),
            )
            alpha, beta, n_best, temperature, top_p = tf.unstack(numbers)
            of_search = Numbers(alpha, beta, tf.cast(n_best, tf.int32), temperature, top_p)
            rules = Rules(limits, prefix, of_search)
            more = until - self.model.capacity(progress.state)
            progress = progress._replace(index=index, state=self.model.grow(progress.state, more))
            algorithm = make_algorithm(self.model, kind)
            progress = algorithm.advance(progress, rules, until)
            unfinished = algorithm.unfinished(progress, rules)
            return progress, limits, prefix, unfinished, algorithm.result(progress)

        # What grows has grown when it comes back.
        axes = self.model.growing_axes(progress.state)
        progress = progress._replace(state=tf.nest.map_structure(_loose, progress.state, axes))
        floats = tf.TensorSpec([len(Numbers._fields)], tf.float32)
        rules = (integers[1], integers[2], floats)
        return first, traced(advance, progress, *rules, integers[1], integers[0])


def search_in_graph(
    model: Decoder, source: Any, limits: Any, beam: Beam, max_length: Any
) -> Hypotheses:
    """Search within a graph.

    Args:
        model: what is searched with.
        source: int32 [B, S], end marks included, padded.
        limits: int32 [B], most tokens of each output, end mark included.
        beam: how to search.
        max_length: at least the largest limit.
    """
    state = start_state(model, source, beam.kind, max_length)
    free = ops.full((ops.shape(limits)[0], 1), FREE, "int32")
    algorithm = make_algorithm(model, beam.kind)
    return run(algorithm, state, Rules(limits, free, beam.numbers), max_length=max_length)


def start_state(model: Decoder, source: Any, kind: Kind, max_length: Any) -> Any:
    """Read ``source`` int32 [B, S], and make room for ``max_length`` positions of a search."""
    return model.start(
        source,
        beam_size=kind.hypotheses,
        max_length=max_length,
        track_coverage=kind.covered,
    )


def make_algorithm(model: Decoder, kind: Kind, *, key: Any = None) -> Algorithm:
    """Return the search over a model's own steps.

    Args:
        model: what is searched with.
        kind: of search.
        key: uint32 [B], for `Sample` alone.
    """
    marks: dict[str, Any] = {"step": model.step, "bos": BOS, "eos": EOS, "never": NEVER}
    if kind.sampled:
        return Sample(
            key=key, samples=kind.hypotheses, top_k=kind.top_k, nucleus=kind.nucleus, **marks
        )
    if kind.hypotheses == 1:
        return Greedy(**marks)
    return BeamSearch(
        reorder=model.reorder,
        size=kind.hypotheses,
        kept=kind.hypotheses if kind.listed else 1,
        coverage=model.coverage if kind.covered else None,
        **marks,
    )


def _loose(spec: Any, axis: int) -> Any:
    """Forget how many sentences a tensor is of, and its extent along the axis that grows."""
    import tensorflow as tf

    shape = [None, *spec.shape[1:]]
    if axis >= 0:
        shape[axis] = None
    return tf.TensorSpec(shape, spec.dtype)


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
    return padded, Rules(limits, prefix, rules.numbers), keys


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
