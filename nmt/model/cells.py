"""Recurrent cells, and layers of them over packed rows.

A cell reads the input's product x = W_x i + b and the state's product u = U h (+ b), both for all
its gates at once, and says what gradient they have. σ is the logistic function, ⊙ multiplies by
elements.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from nmt.model.dense import Dense
from nmt.model.loops import bias_gradient, call_with_gradient, earlier, kernel_gradient, scan

Tensor = Any
States = tuple[Tensor, ...]  # [B, R] each; the first of them is what a cell puts out


class Gru:
    """A gated recurrent unit (Cho et al. 2014), the reset gate behind the product.

    z = σ(x_z + u_z), r = σ(x_r + u_r), n = tanh(x_n + r ⊙ u_n), h' = (1 - z) ⊙ n + z ⊙ h, where u
    has a bias of its own: the form that makes one product of all gates, as cuDNN and `keras.layers`
    have it.

    Attributes:
        gates: how many parts products have.
        states: how many tensors a state has.
        recurrent_bias: whether the product of the state has a bias.
    """

    gates, states, recurrent_bias = 3, 1, True

    @staticmethod
    def step(x: Tensor, u: Tensor, states: States) -> tuple[States, Tensor]:
        """Return the next state, and what `back` needs [B, 4 R]."""
        (h,) = states
        width = h.shape[-1]
        both = ops.sigmoid(x[:, : 2 * width] + u[:, : 2 * width])
        z, r = both[:, :width], both[:, width:]
        inner = u[:, 2 * width :]
        n = ops.tanh(x[:, 2 * width :] + r * inner)
        return (n + z * (h - n),), ops.concatenate([both, inner, n], axis=-1)

    @staticmethod
    def back(
        of_states: States, kept: Tensor, states: States, before: States
    ) -> tuple[Tensor, States]:
        """Return the gradient of what goes into the gates [B, 4 R], and of the state before.

        Args:
            of_states: gradient of the next state.
            kept: what `step` kept.
            states: the next state.
            before: the state before.

        Returns:
            (gradients for `of_input` and `of_state`, those of the state before, without what
            reaches it through its product).
        """
        z, r, inner, n = ops.split(kept, 4, axis=-1)
        (of_h,) = of_states
        of_n = of_h * (1 - z) * (1 - n * n)
        of_z = of_h * (before[0] - n) * z * (1 - z)
        of_r = of_n * inner * r * (1 - r)
        return ops.concatenate([of_z, of_r, of_n * r, of_n], axis=-1), (of_h * z,)

    @staticmethod
    def of_state(of_gates: Tensor) -> Tensor:
        """Return the gradient of u [..., 3 R]."""
        return of_gates[..., : of_gates.shape[-1] // 4 * 3]

    @staticmethod
    def of_input(of_gates: Tensor) -> Tensor:
        """Return the gradient of x [..., 3 R]."""
        width = of_gates.shape[-1] // 4
        return ops.concatenate([of_gates[..., : 2 * width], of_gates[..., 3 * width :]], axis=-1)

    @staticmethod
    def begin_bias(width: int) -> np.ndarray:
        """Return what the input's bias begins with."""
        return np.zeros(3 * width, np.float32)


class Lstm:
    """Long short-term memory with a forget gate (Hochreiter & Schmidhuber 1997, Gers et al. 2000).

    i, f, o = σ(x + u) of their parts, g = tanh(x_g + u_g), c' = f ⊙ c + i ⊙ g, h' = o ⊙ tanh(c').
    The parts stand in the order i, f, g, o. The forget gate's bias begins with 1, so that a cell
    begins by remembering (Jozefowicz et al. 2015).
    """

    gates, states, recurrent_bias = 4, 2, False

    @staticmethod
    def step(x: Tensor, u: Tensor, states: States) -> tuple[States, Tensor]:
        """Return the next state, and what `back` needs [B, 4 R]."""
        _, c = states
        i, f, g, o = ops.split(x + u, 4, axis=-1)
        i, f, g, o = ops.sigmoid(i), ops.sigmoid(f), ops.tanh(g), ops.sigmoid(o)
        c = f * c + i * g
        return (o * ops.tanh(c), c), ops.concatenate([i, f, g, o], axis=-1)

    @staticmethod
    def back(
        of_states: States, kept: Tensor, states: States, before: States
    ) -> tuple[Tensor, States]:
        """Return the gradient of what goes into the gates, and of the state before: see `Gru`."""
        i, f, g, o = ops.split(kept, 4, axis=-1)
        of_h, of_c = of_states
        shown = ops.tanh(states[1])
        of_c = of_c + of_h * o * (1 - shown * shown)
        of_gates = [
            of_c * g * i * (1 - i),
            of_c * before[1] * f * (1 - f),
            of_c * i * (1 - g * g),
            of_h * shown * o * (1 - o),
        ]
        return ops.concatenate(of_gates, axis=-1), (ops.zeros_like(of_h), of_c * f)

    @staticmethod
    def of_state(of_gates: Tensor) -> Tensor:
        """Return the gradient of u [..., 4 R]."""
        return of_gates

    @staticmethod
    def of_input(of_gates: Tensor) -> Tensor:
        """Return the gradient of x [..., 4 R]."""
        return of_gates

    @staticmethod
    def begin_bias(width: int) -> np.ndarray:
        """Return what the input's bias begins with."""
        return np.repeat(np.array([0, 1, 0, 0], np.float32), width)


Cell = type[Gru] | type[Lstm]
CELLS: dict[str, Cell] = {"gru": Gru, "lstm": Lstm}


def find_begins(segments: Tensor, *, reverse: bool = False) -> Tensor:
    """Return bool [B, L], True where a segment begins; where it ends, if reversed.

    Args:
        segments: int [B, L].
        reverse: whether rows are read from their end.
    """
    edge = ops.ones_like(segments[:, :1], dtype="bool")
    changes = ops.not_equal(segments[:, 1:], segments[:, :-1])
    return ops.concatenate([changes, edge] if reverse else [edge, changes], axis=1)


def restart(states: States, keep: Tensor, begin: Tensor | tuple[()]) -> States:
    """Return what a position goes on from.

    Args:
        states: [..., B, R] each, of the position before.
        keep: [..., B, 1]: 0 where a segment begins, 1 elsewhere.
        begin: [..., B, R], zero where none begins: what every tensor of a state begins with; ():
            zeros.
    """
    kept = tuple(state * keep for state in states)
    return kept if isinstance(begin, tuple) else tuple(state + begin for state in kept)


def project(states: States, kernel: Tensor, bias: Tensor | tuple[()]) -> Tensor:
    """Return the product u of a state."""
    product = ops.matmul(states[0], kernel)
    return product if isinstance(bias, tuple) else product + bias


class _Moment(NamedTuple):
    """What is known of one position."""

    states: States
    kept: Tensor  # [B, 4 R], what gradients need


class _Gradients(NamedTuple):
    """Gradients of one position."""

    before: States  # of what it went on from
    gates: Tensor  # [B, 4 R]


class Rows(NamedTuple):
    """What a cell is run over, and with which weights."""

    x: Tensor  # [T, B, G R], the inputs' products, their bias included
    kernel: Tensor  # [R, G R], of the state
    bias: Tensor | tuple[()]  # [G R], of the state's product; (): none
    keep: Tensor  # [T, B, 1], see `restart`
    begin: Tensor | tuple[()]  # [T, B, R], see there


def recur(cell: Cell, rows: Rows, *, reverse: bool = False) -> Tensor:
    """Run a cell over rows.

    Args:
        cell: which.
        rows: all else.
        reverse: whether to read from the end; `Rows.keep` is then 0 where segments end.

    Returns:
        [T, B, R].
    """

    def compute(*fields: Any) -> Any:
        rows = Rows(*fields)
        made = _run(cell, rows, reverse=reverse)

        def back(of_output: Tensor) -> Rows:
            return _run_back(cell, rows, made, of_output, reverse=reverse)

        return (made.states[0],), back

    (output,) = call_with_gradient(compute, *rows)
    return output


def _blank(cell: Cell, rows: Rows) -> tuple[States, Tensor]:
    """Return zeros for the states of a position [B, R] each, and for its gates [B, 4 R]."""
    batch, width, dtype = ops.shape(rows.x)[1], rows.kernel.shape[0], rows.x.dtype
    state = ops.zeros((batch, width), dtype)
    return (state,) * cell.states, ops.zeros((batch, 4 * width), dtype)


def _run(cell: Cell, rows: Rows, *, reverse: bool) -> _Moment:
    """Return what is known of all positions."""

    def step(last: _Moment, given: Any) -> _Moment:
        x, keep, begin = given
        before = restart(last.states, keep, begin)
        return _Moment(*cell.step(x, project(before, rows.kernel, rows.bias), before))

    given = (rows.x, rows.keep, rows.begin)
    return scan(step, _Moment(*_blank(cell, rows)), given, reverse=reverse)


def _run_back(cell: Cell, rows: Rows, made: _Moment, of_output: Tensor, *, reverse: bool) -> Rows:
    """Return the gradients of rows, from that of what came out."""
    last = tuple(earlier(state, reverse=reverse) for state in made.states)
    before = restart(last, rows.keep, rows.begin)
    turned = ops.transpose(rows.kernel)

    def step(later: _Gradients, given: Any) -> _Gradients:
        of_output, keep_later, made, before = given
        of_states = tuple(gradient * keep_later for gradient in later.before)
        of_states = (of_states[0] + of_output, *of_states[1:])
        return _Gradients(*step_cell_back(cell, of_states, made, before, turned))

    given = (of_output, earlier(rows.keep, reverse=not reverse), made, before)
    found = scan(step, _Gradients(*_blank(cell, rows)), given, reverse=not reverse)
    of_state = cell.of_state(found.gates)
    nothing: Any = None
    return Rows(
        x=cell.of_input(found.gates),
        kernel=kernel_gradient(before[0], of_state),
        bias=() if isinstance(rows.bias, tuple) else bias_gradient(of_state),
        keep=nothing,
        begin=() if isinstance(rows.begin, tuple) else sum(found.before),
    )


def step_cell_back(
    cell: Cell, of_states: States, made: Any, before: States, turned: Tensor
) -> tuple[States, Tensor]:
    """Return the gradients of what a position went on from, and of its gates [B, 4 R].

    Args:
        cell: which.
        of_states: gradients of its states.
        made: (states, what `Gru.step` kept) of the position.
        before: what it went on from.
        turned: [G R, R], the transposed kernel of the state.
    """
    states, kept = made
    of_gates, of_before = cell.back(of_states, kept, states, before)
    through = ops.matmul(cell.of_state(of_gates), turned)
    return (of_before[0] + through, *of_before[1:]), of_gates


@keras.saving.register_keras_serializable("nmt")
class RecurrentLayer(keras.layers.Layer):
    """Cells over rows of inputs, in one direction.

    Args:
        input_width: M, of what it reads.
        width: R.
        cell: "gru" or "lstm".
        **kwargs: what every Keras layer takes.
    """

    def __init__(self, input_width: int, width: int, cell: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_width, self.width, self.cell = input_width, width, cell
        self.kind = CELLS[cell]
        self.inputs = Dense(
            self.kind.gates * width,
            bias_initializer=lambda shape, dtype=None: ops.convert_to_tensor(
                self.kind.begin_bias(width), dtype
            ),
            name="inputs",
            dtype=self.dtype_policy,
        )
        self.recurrent = Dense(
            self.kind.gates * width,
            use_bias=self.kind.recurrent_bias,
            kernel_initializer="orthogonal",
            name="recurrent",
            dtype=self.dtype_policy,
        )

    def build(self, *input_shapes: Any) -> None:
        """Create the weights; their shapes depend on the sizes alone."""
        self.inputs.build((None, None, self.input_width))
        self.recurrent.build((None, None, self.width))
        self.built = True

    def in_compute_dtype(self, weight: Any) -> Tensor:
        """Return a weight as products take it."""
        return ops.cast(ops.convert_to_tensor(weight), self.compute_dtype)

    @property
    def recurrent_weights(self) -> tuple[Tensor, Tensor | tuple[()]]:
        """The kernel [R, G R] and bias [G R] of the state; (): there is no bias."""
        bias = self.recurrent.bias
        return (
            self.in_compute_dtype(self.recurrent.kernel),
            () if bias is None else self.in_compute_dtype(bias),
        )

    def call(
        self,
        x: Tensor,
        keep: Tensor,
        begin: Tensor | tuple[()] = (),
        reverse: bool = False,
    ) -> Tensor:
        """Read ``x`` [T, B, M]: see `Rows` and `recur` for the rest. Returns [T, B, R]."""
        kernel, bias = self.recurrent_weights
        return recur(self.kind, Rows(self.inputs(x), kernel, bias, keep, begin), reverse=reverse)

    def step(self, x: Tensor, states: States) -> States:
        """Read one more input ``x`` [B, M] for every state."""
        return self.kind.step(self.inputs(x), self.recurrent(states[0]), states)[0]

    def get_config(self) -> dict[str, Any]:
        """Return what rebuilds the layer."""
        return super().get_config() | {
            "input_width": self.input_width,
            "width": self.width,
            "cell": self.cell,
        }


@keras.saving.register_keras_serializable("nmt")
class BidirectionalLayer(keras.layers.Layer):
    """Two `RecurrentLayer` side by side, one from each end (Schuster & Paliwal 1997).

    Args:
        input_width: M, of what it reads.
        width: R, of what it puts out: R / 2 in each direction.
        cell: "gru" or "lstm".
        **kwargs: what every Keras layer takes.
    """

    def __init__(self, input_width: int, width: int, cell: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_width, self.width, self.cell = input_width, width, cell
        self.forwards, self.backwards = (
            RecurrentLayer(input_width, width // 2, cell, name=name, dtype=self.dtype_policy)
            for name in ("forwards", "backwards")
        )

    def build(self, *input_shapes: Any) -> None:
        """Create the weights."""
        for layer in (self.forwards, self.backwards):
            layer.build()
        self.built = True

    def call(self, x: Tensor, segments: Tensor) -> Tensor:
        """Read ``x`` [S, B, M] in rows of ``segments`` int [B, S]. Returns [S, B, R]."""
        sides = []
        for layer, reverse in ((self.forwards, False), (self.backwards, True)):
            keep = keep_within(segments, self.compute_dtype, reverse=reverse)
            sides.append(layer(x, keep, reverse=reverse))
        return ops.concatenate(sides, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Return what rebuilds the layer."""
        return super().get_config() | {
            "input_width": self.input_width,
            "width": self.width,
            "cell": self.cell,
        }


def keep_within(segments: Tensor, dtype: str, *, reverse: bool = False) -> Tensor:
    """Return [L, B, 1]: 0 where a segment of int [B, L] begins (ends, if reversed), 1 elsewhere."""
    keeps = ops.logical_not(find_begins(segments, reverse=reverse))
    return ops.expand_dims(ops.cast(ops.transpose(keeps), dtype), -1)
