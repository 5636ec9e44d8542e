"""A recurrent decoder that reads, at every position, what it attended to at the one before.

Input feeding (Luong et al. 2015, section 3.3) makes attention a part of the recurrence, so that all
of a decoder is one loop: cells, attention, and the vector a that words are written from. Its
gradient is written by hand, see `nmt.model.loops`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from nmt.model.cells import Cell, States, project, restart, step_cell_back
from nmt.model.loops import bias_gradient, call_with_gradient, earlier, kernel_gradient, scan
from nmt.model.scores import Kind, Memory, Reader, of_weights, read, weigh

Tensor = Any


class LayerWeights(NamedTuple):
    """The weights of one layer of cells that are used within the loop; () for what there is not."""

    inputs: Tensor  # [M, G R]: for the first layer, the rows for a, M = D; else M = R
    input_bias: Tensor | tuple[()]  # [G R]; (): added before the loop
    recurrent: Tensor  # [R, G R]
    recurrent_bias: Tensor | tuple[()]  # [G R]

    def turned(self) -> LayerWeights:
        """Return the transposed kernels."""
        return self._replace(
            inputs=ops.transpose(self.inputs), recurrent=ops.transpose(self.recurrent)
        )


class Masks(NamedTuple):
    """What dropout multiplies by; () where it is off."""

    between: tuple[Tensor, ...] = ()  # [T, B, R], for every layer but the first
    weights: Tensor | tuple[()] = ()  # [T, B, H, S]
    written: Tensor | tuple[()] = ()  # [T, B, D]


class Segments(NamedTuple):
    """Which segments tokens belong to; 0 is padding."""

    source: Tensor  # int [B, S]
    target: Tensor  # int [T, B]

    def mask(self, target: Tensor) -> Tensor:
        """Return bool [B, 1, 1, S]: what a position of segments ``target`` int [B] may read."""
        same = ops.equal(self.source, ops.expand_dims(target, -1))
        return ops.logical_and(same, self.source > 0)[:, None, None]


class _Moment(NamedTuple):
    """What is known of one position."""

    layers: tuple[tuple[States, Tensor], ...]  # of each: states, and what `Gru.step` kept
    query: Tensor  # [B, R]
    weights: Tensor  # float32 [B, H, S], before dropout
    context: Tensor  # [B, R]
    written: Tensor  # a [B, D], before dropout


class _Gradients(NamedTuple):
    """Gradients of one position."""

    layers: tuple[tuple[States, Tensor], ...]  # of each: what it went on from, and its gates
    query: Tensor  # [B, R]
    scores: Tensor  # float32 [B, H, S]
    context: Tensor  # [B, R]
    joined: Tensor  # [B, D], within the tanh
    fed: Tensor  # [B, D], the a that was read


class Rows(NamedTuple):
    """What a decoder is run over, and with which weights."""

    x: Tensor  # [T, B, G R], the products of the first layer's inputs, without what is fed
    layers: tuple[LayerWeights, ...]
    reader: Reader  # weights of attention
    memory: Memory  # what is attended to
    segments: Segments  # what of it may be
    keep: Tensor  # [T, B, 1], see `nmt.model.cells.restart`
    begins: tuple[Tensor, ...]  # [T, B, R] for each layer, see there; (): all begin with zeros
    masks: Masks


def decode(cell: Cell, kind: Kind, rows: Rows) -> tuple[Tensor, Tensor]:
    """Run a decoder over rows.

    Args:
        cell: of all layers.
        kind: of score.
        rows: all else.

    Returns:
        (a [T, B, D] after dropout, weights of attention float32 [T, B, H, S]).
    """

    def compute(*fields: Any) -> Any:
        loop = _Loop(cell, kind, Rows(*fields))
        made = loop.run()

        def back(of_written: Tensor, _: Tensor) -> Rows:
            return loop.gradients(made, loop.run_back(made, of_written))

        return (loop.drop(made.written), made.weights), back

    return call_with_gradient(compute, *rows)


def _times(x: Tensor, mask: Tensor | tuple[()]) -> Tensor:
    """Multiply by a mask, if there is one."""
    return x if isinstance(mask, tuple) else x * mask


class _Loop:
    """The loop over positions, forwards and backwards."""

    def __init__(self, cell: Cell, kind: Kind, rows: Rows) -> None:
        self.cell, self.kind, self.rows = cell, kind, rows
        self.layers, self.reader, self.memory = rows.layers, rows.reader, rows.memory
        self.keep, self.masks = rows.keep, rows.masks
        self.begins: tuple[Any, ...] = rows.begins or ((),) * len(rows.layers)
        # What a position reads of the a before it: nothing where a segment begins.
        self.fed_scale = self.keep
        if not isinstance(self.masks.written, tuple):
            self.fed_scale = self.keep * earlier(self.masks.written)

    def drop(self, written: Tensor) -> Tensor:
        """Return a after dropout: [T, B, D]."""
        return _times(written, self.masks.written)

    def run(self) -> _Moment:
        """Return what is known of all positions."""
        given = (
            self.rows.x,
            self.keep,
            self.fed_scale,
            self.begins,
            self.rows.segments.target,
            self.masks.between,
            self.masks.weights,
        )
        return scan(self._step, self._nothing_yet(), given)

    def _step(self, last: _Moment, given: Any) -> _Moment:
        x, keep, fed_scale, begins, target, between, kept_weights = given
        x = x + ops.matmul(last.written * fed_scale, self.layers[0].inputs)
        h, layers = None, []
        for i, layer in enumerate(self.layers):
            if i:
                x = ops.matmul(_times(h, _of(between, i - 1)), layer.inputs) + layer.input_bias
            before = restart(last.layers[i][0], keep, begins[i])
            u = project(before, layer.recurrent, layer.recurrent_bias)
            layers.append(self.cell.step(x, u, before))
            h = layers[i][0][0]
        query = self.reader.ask(h)
        scores = self.kind.scores(self._part(query), self.memory.keys, self.reader.v)
        weights = weigh(scores, self.rows.segments.mask(target))[:, :, 0]
        context = self._read(_times(weights, kept_weights))
        written = self.reader.join(context, h)
        asked = () if isinstance(self.reader.query, tuple) else query
        return _Moment(tuple(layers), asked, weights, context, written)

    def _nothing_yet(self) -> _Moment:
        batch, dtype = ops.shape(self.rows.x)[1], self.rows.x.dtype
        width, depth = self.reader.of_context.shape
        keys = self.memory.keys
        blank = ops.zeros((batch, width), dtype)
        layer = ((blank,) * self.cell.states, ops.zeros((batch, 4 * width), dtype))
        return _Moment(
            (layer,) * len(self.layers),
            () if isinstance(self.reader.query, tuple) else blank,
            ops.zeros((batch, keys.shape[1], ops.shape(keys)[2]), "float32"),
            blank,
            ops.zeros((batch, depth), dtype),
        )

    def _part(self, x: Tensor) -> Tensor:
        """[B, R] -> [B, H, 1, C]."""
        heads, width = self.memory.keys.shape[1], self.memory.keys.shape[3]
        return ops.reshape(x, (-1, heads, 1, width))

    def _join(self, x: Tensor) -> Tensor:
        """[B, H, 1, C] -> [B, R]."""
        return ops.reshape(x, (-1, x.shape[1] * x.shape[3]))

    def _read(self, weights: Tensor) -> Tensor:
        return self._join(read(weights[:, :, None], self.memory.read))

    def _queries(self, made: _Moment) -> Tensor:
        return made.layers[-1][0][0] if isinstance(made.query, tuple) else made.query

    def _before(self, made: _Moment) -> tuple[States, ...]:
        """Return what each position went on from, [T, B, R] each."""
        return tuple(
            restart(tuple(map(earlier, states)), self.keep, begin)
            for (states, _), begin in zip(made.layers, self.begins, strict=True)
        )

    def run_back(self, made: _Moment, of_written: Tensor) -> _Gradients:
        """Return the gradients of all positions, from that of a."""
        turned = self.reader.turned(), [layer.turned() for layer in self.layers]

        def step(later: _Gradients, given: Any) -> _Gradients:
            return self._step_back(later, given, *turned)

        given = (
            self.drop(of_written),
            earlier(self.keep, reverse=True),
            earlier(self.fed_scale, reverse=True),
            self.masks.between,
            self.masks.weights,
            made,
            self._before(made),
        )
        nothing = self._nothing_yet()
        of_nothing = _Gradients(
            nothing.layers,
            nothing.context,
            nothing.weights,
            nothing.context,
            nothing.written,
            nothing.written,
        )
        return scan(step, of_nothing, given, reverse=True)

    def _step_back(self, later: _Gradients, given: Any, reader: Reader, turned: Any) -> _Gradients:
        of_written, keep_later, fed_later, between, kept_weights, made, before = given
        of_written = of_written + later.fed * fed_later
        joined = of_written * (1 - made.written * made.written)
        of_context = ops.matmul(joined, reader.of_context)
        of_scores = of_weights(
            self._part(of_context),
            made.weights[:, :, None],
            self.memory.read,
            kept_weights if isinstance(kept_weights, tuple) else kept_weights[:, :, None],
        )
        queries = self._part(self._queries(made))
        of_query = self._join(
            self.kind.of_queries(of_scores, queries, self.memory.keys, self.reader.v)
        )
        of_h = ops.matmul(joined, reader.of_state) + _through(of_query, reader.query)
        of_layers: list[Any] = [None] * len(self.layers)
        for i in reversed(range(len(self.layers))):
            of_states = tuple(gradient * keep_later for gradient in later.layers[i][0])
            of_states = (of_states[0] + of_h, *of_states[1:])
            of_layers[i] = step_cell_back(
                self.cell, of_states, made.layers[i], before[i], turned[i].recurrent
            )
            of_h = ops.matmul(self.cell.of_input(of_layers[i][1]), turned[i].inputs)
            if i:
                of_h = _times(of_h, _of(between, i - 1))
        return _Gradients(
            tuple(of_layers), of_query, of_scores[:, :, 0], of_context, joined, fed=of_h
        )

    def gradients(self, made: _Moment, found: _Gradients) -> Rows:
        """Return the gradients of all that `decode` was given, from those of all positions."""
        before = self._before(made)
        inputs = [self.fed_scale * earlier(made.written)]
        for i in range(1, len(self.layers)):
            inputs.append(_times(made.layers[i - 1][0][0], _of(self.masks.between, i - 1)))
        of_layers = []
        for layer, read_in, went_on, (_, gates) in zip(
            self.layers, inputs, before, found.layers, strict=True
        ):
            of_input, of_state = self.cell.of_input(gates), self.cell.of_state(gates)
            of_layers.append(
                LayerWeights(
                    kernel_gradient(read_in, of_input),
                    _unless(layer.input_bias, bias_gradient, of_input),
                    kernel_gradient(went_on[0], of_state),
                    _unless(layer.recurrent_bias, bias_gradient, of_state),
                )
            )
        of_keys, of_v = self.kind.of_keys(
            found.scores, self._split(self._queries(made)), self.memory.keys, self.reader.v
        )
        nothing: Any = None
        return Rows(
            x=self.cell.of_input(found.layers[0][1]),
            layers=tuple(of_layers),
            reader=self._of_reader(made, found, of_v),
            memory=self._of_memory(made, found, of_keys),
            segments=nothing,
            keep=nothing,
            begins=tuple(sum(states) for states, _ in found.layers) if self.rows.begins else (),
            masks=nothing,
        )

    def _of_reader(self, made: _Moment, found: _Gradients, of_v: Any) -> Reader:
        h, reader = made.layers[-1][0][0], self.reader
        return Reader(
            _unless(reader.query, kernel_gradient, h, found.query),
            _unless(reader.query_bias, bias_gradient, found.query),
            of_v,
            kernel_gradient(made.context, found.joined),
            kernel_gradient(h, found.joined),
            bias_gradient(found.joined),
        )

    def _of_memory(self, made: _Moment, found: _Gradients, of_keys: Tensor) -> Memory:
        weights = ops.cast(_times(made.weights, self.masks.weights), found.context.dtype)
        of_values = ops.einsum("tbhs,tbhc->bhsc", weights, self._split(found.context))
        if isinstance(self.memory.values, tuple):
            return Memory(of_keys + of_values, ())
        return Memory(of_keys, of_values)

    def _split(self, x: Tensor) -> Tensor:
        """[T, B, R] -> [T, B, H, C]."""
        shape, keys = ops.shape(x), self.memory.keys
        return ops.reshape(x, (shape[0], shape[1], keys.shape[1], keys.shape[3]))


def _of(masks: tuple[Tensor, ...], number: int) -> Any:
    return masks[number] if masks else ()


def _through(of_product: Tensor, turned: Tensor | tuple[()]) -> Tensor:
    return of_product if isinstance(turned, tuple) else ops.matmul(of_product, turned)


def _unless(absent: Any, gradient: Any, *of: Tensor) -> Any:
    return () if isinstance(absent, tuple) else gradient(*of)
