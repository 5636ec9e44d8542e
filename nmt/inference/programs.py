"""Searches over a model, compiled once per combination of static options."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.inference.beam_search import BeamSearch
from nmt.inference.compiled import compile_with_weights, trace_function
from nmt.inference.contract import FREE, SUPPRESSED, BeamOptions, SearchParameters, StaticOptions
from nmt.inference.greedy import Greedy, Sample
from nmt.inference.search import Algorithm, Constraints, HypothesisTensors, run
from nmt.model.contract import Decoder, Model

LENGTH_STEP = 8  # positions decoded, or padded to, at a time
_ROW_STEP, _WIDTH_STEP = 8, 4  # sentences and source positions by which larger batches differ
_SHRINK_SHARE = 0.75  # finished sentences leave the batch if at most this share is unfinished


class OneCallPrograms:
    """Programs that search from beginning to end, over few shapes: for JAX, which compiles each.

    Args:
        model: the model to search with.
        on_gpu: pad lengths to 16, 64, 256, …: a GPU compiles a shape for longer than it computes
            padding.

    Attributes:
        compiled: the programs, by the options that select them.
    """

    def __init__(self, model: Model, *, on_gpu: bool = False) -> None:
        self.compiled: dict[StaticOptions, Any] = {}
        self._model = model
        self._round_up = _round_up_to_power if on_gpu else round_up
        self._lock = threading.Lock()

    def search(
        self, options: StaticOptions, source: np.ndarray, constraints: Constraints, keys: np.ndarray
    ) -> HypothesisTensors:
        """Return the hypotheses of a batch as NumPy arrays.

        Args:
            options: select the program.
            source: int32 [B, S], EOS included, padded.
            constraints: NumPy arrays, and the parameters of the search.
            keys: int32 [B], random keys of the sentences; only sampling reads them.
        """
        count, width = source.shape
        rows = 1 << (count - 1).bit_length()
        width = min(self._round_up(width), self._model.max_length)
        source, constraints, keys = _fill_batch(source, constraints, keys, rows, width)
        # Only its length counts: a shape, which JAX compiles for.
        positions = np.arange(self._round_up(int(constraints.limits.max())))
        with self._lock:
            if options not in self.compiled:
                self.compiled[options] = self._compile(options)
        limits, prefix, parameters = constraints
        outputs = self.compiled[options](source, limits, prefix, keys, positions, *parameters)
        return HypothesisTensors(*(output[:count] for output in outputs))

    def _compile(self, options: StaticOptions) -> Any:
        def search(
            source: Any, limits: Any, prefix: Any, keys: Any, positions: Any, *parameters: Any
        ) -> Any:
            max_length = ops.shape(positions)[0]
            state = start_state(self._model, source, options, max_length)
            algorithm = make_algorithm(self._model, options, key=ops.cast(keys, "uint32"))
            constraints = Constraints(limits, prefix, SearchParameters(*parameters))
            return tuple(run(algorithm, state, constraints, max_length=max_length))

        return compile_with_weights(self._model, search, (2, 1, 2, 1, 1, 0, 0), floats=4)


class SteppedPrograms:
    """Programs that search a few positions at a time, for TensorFlow.

    Between two steps, finished sentences leave the batch and the cache grows.

    Attributes:
        compiled: the programs, by the options that select them.
    """

    def __init__(self, model: Model) -> None:
        self.compiled: dict[StaticOptions, Any] = {}
        self._model = model
        self._lock = threading.Lock()

    def search(
        self, options: StaticOptions, source: np.ndarray, constraints: Constraints, keys: np.ndarray
    ) -> HypothesisTensors:
        """Return the hypotheses of a batch: see `OneCallPrograms.search`."""
        import tensorflow as tf

        with self._lock:
            if options not in self.compiled:
                self.compiled[options] = self._trace(options)
        begin, advance = self.compiled[options]
        longest = int(constraints.limits.max())
        count, width = source.shape
        width = min(round_up(width, _WIDTH_STEP), self._model.max_length)
        source, constraints, keys = _fill_batch(
            source, constraints, keys, _round_up_rows(count), width
        )
        # Passing one tensor is faster than passing six.
        parameters = tf.constant(constraints.parameters, tf.float32)
        limits, prefix = tf.constant(constraints.limits), tf.constant(constraints.prefix)
        progress = begin(tf.constant(source), tf.constant(keys), tf.constant(longest))
        outputs: list[np.ndarray] | None = None
        # `kept_rows` are rows of the last step that stay, `batch_rows` those in the whole batch.
        batch_rows = kept_rows = np.arange(len(source))
        for until in range(LENGTH_STEP, round_up(longest) + 1, LENGTH_STEP):
            progress, limits, prefix, unfinished, results = advance(
                progress,
                limits,
                prefix,
                parameters,
                tf.constant(kept_rows, tf.int32),
                tf.constant(until),
            )
            is_unfinished = unfinished.numpy()
            remaining = np.flatnonzero(is_unfinished)
            if remaining.size > _SHRINK_SHARE * len(is_unfinished):
                kept_rows = np.arange(len(is_unfinished))  # all stay
                continue
            # Some finished rows stay, so that the number of rows is one of few.
            fill = np.flatnonzero(~is_unfinished)[: _round_up_rows(remaining.size) - remaining.size]
            kept_rows = np.concatenate([remaining, fill])
            arrays = [result.numpy() for result in results]
            if outputs is None:
                outputs = [np.zeros((len(source), *a.shape[1:]), a.dtype) for a in arrays]
            for output, array in zip(outputs, arrays, strict=True):
                output[batch_rows[~is_unfinished]] = array[~is_unfinished]
            batch_rows = batch_rows[kept_rows]
            if not remaining.size:
                break
        assert outputs is not None
        assert not remaining.size, "every output ends at its limit"
        return HypothesisTensors(*(output[:count] for output in outputs))

    def _trace(self, options: StaticOptions) -> tuple[Any, Any]:
        """Return the two functions of a search: begin, and advance."""
        import tensorflow as tf

        def begin(source: Any, keys: Any, longest: Any) -> Any:
            state = start_state(self._model, source, options, 0)
            algorithm = make_algorithm(self._model, options, key=tf.cast(keys, tf.uint32))
            return algorithm.begin(state, tf.shape(source)[0], longest)

        def advance(
            progress: Any, limits: Any, prefix: Any, parameters: Any, rows: Any, until: Any
        ) -> Any:
            """Keep only some rows, make room up to position ``until``, and search up to there."""
            index = progress.index
            progress, limits, prefix = tf.nest.map_structure(
                lambda tensor: tf.gather(tensor, rows) if tensor.shape.rank else tensor,
                (progress, limits, prefix),
            )
            n_best, ngram, *floats = tf.unstack(parameters)
            integers = tf.cast(n_best, tf.int32), tf.cast(ngram, tf.int32)
            constraints = Constraints(limits, prefix, SearchParameters(*integers, *floats))
            more = until - self._model.capacity(progress.state)
            state = self._model.grow(progress.state, more)
            algorithm = make_algorithm(self._model, options)
            progress = algorithm.advance(
                progress._replace(index=index, state=state), constraints, until
            )
            unfinished = algorithm.unfinished(progress, constraints)
            return progress, limits, prefix, unfinished, algorithm.result(progress)

        scalar, vector, matrix = (tf.TensorSpec([None] * rank, tf.int32) for rank in range(3))
        first = trace_function(begin, matrix, vector, scalar)
        progress = tf.nest.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), first.structured_outputs
        )
        # Tensors that `advance` grows have grown when they are passed to it again.
        axes = self._model.growing_axes(progress.state)
        progress = progress._replace(state=tf.nest.map_structure(_relax, progress.state, axes))
        parameters = tf.TensorSpec([len(SearchParameters._fields)], tf.float32)
        return first, trace_function(advance, progress, vector, matrix, parameters, vector, scalar)


def _relax(spec: Any, axis: int) -> Any:
    """Return a tensor's spec without its batch size and its extent along the growing axis."""
    import tensorflow as tf

    shape = [None, *spec.shape[1:]]
    if axis >= 0:
        shape[axis] = None
    return tf.TensorSpec(shape, spec.dtype)


def search_in_graph(
    model: Decoder, source: Any, limits: Any, beam: BeamOptions, max_length: Any
) -> HypothesisTensors:
    """Search within a graph.

    Args:
        model: the model to search with.
        source: int32 [B, S], EOS included, padded.
        limits: int32 [B], most tokens of each output, EOS included.
        beam: options of the search.
        max_length: at least the largest limit.
    """
    options = beam.static_options
    state = start_state(model, source, options, max_length)
    free = ops.full((ops.shape(limits)[0], 1), FREE, "int32")
    constraints = Constraints(limits, free, beam.parameters)
    return run(make_algorithm(model, options), state, constraints, max_length=max_length)


def start_state(model: Decoder, source: Any, options: StaticOptions, max_length: Any) -> Any:
    """Return the model's state after reading ``source`` int32 [B, S], with room for a search."""
    return model.start(
        source,
        beam_size=options.hypotheses,
        max_length=max_length,
        track_coverage=options.tracks_coverage,
    )


def make_algorithm(model: Decoder, options: StaticOptions, *, key: Any = None) -> Algorithm:
    """Return the search algorithm over a model's steps.

    Args:
        model: the model to search with.
        options: select the algorithm.
        key: uint32 [B], random keys for `Sample.begin`; other steps of a search need none.
    """
    arguments: dict[str, Any] = {
        "step": model.step,
        "bos": BOS,
        "eos": EOS,
        "suppressed": SUPPRESSED,
    }
    if options.is_sampling:
        return Sample(
            key=key,
            samples=options.hypotheses,
            top_k=options.top_k,
            uses_top_p=options.uses_top_p,
            **arguments,
        )
    arguments["uses_no_repeat_ngram"] = options.uses_no_repeat_ngram
    if options.hypotheses == 1:
        return Greedy(**arguments)
    return BeamSearch(
        reorder=model.reorder,
        beam_size=options.hypotheses,
        ended_size=options.hypotheses if options.keeps_n_best else 1,
        coverage=model.coverage if options.tracks_coverage else None,
        **arguments,
    )


def round_up(length: int, step: int = LENGTH_STEP) -> int:
    """Return the smallest multiple of ``step`` that is not below ``length``."""
    return -(-length // step) * step


def _round_up_to_power(length: int) -> int:
    """Return the smallest of 16, 64, 256, … that is not below ``length``."""
    return 1 << max(4, round_up((length - 1).bit_length(), 2))


def pad_sequences(sequences: Sequence[np.ndarray], step: int = 1) -> np.ndarray:
    """Return int32 [B, L] of sequences with EOS, L a multiple of ``step``."""
    padded = np.full((len(sequences), round_up(max(map(len, sequences)) + 1, step)), PAD, np.int32)
    for row, ids in zip(padded, sequences, strict=True):
        row[: len(ids)] = ids
        row[len(ids)] = EOS
    return padded


def _round_up_rows(rows: int) -> int:
    """Round up to one of few numbers: TensorFlow keeps memory for every shape it has seen."""
    return rows if rows <= _ROW_STEP else round_up(rows, _ROW_STEP)


def _fill_batch(
    source: np.ndarray, constraints: Constraints, keys: np.ndarray, rows: int, width: int
) -> tuple[np.ndarray, Constraints, np.ndarray]:
    """Return a batch [B, S] filled up to [rows, width] with empty sentences."""
    count = len(source)
    padded = np.full((rows, width), PAD, np.int32)
    padded[:, 0] = EOS
    padded[:count, : source.shape[1]] = source
    limits, prefix, keys = (
        np.concatenate([array, np.repeat(array[:1], rows - count, axis=0)])
        for array in (np.asarray(constraints.limits), np.asarray(constraints.prefix), keys)
    )
    limits[count:] = 1
    return padded, Constraints(limits, prefix, constraints.parameters), keys
