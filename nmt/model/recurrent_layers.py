"""Recurrent layers over packed rows: a state starts anew with every segment of a row."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from nmt.model.cells import CELLS, Cell, States, project_state, step_backward
from nmt.model.layers import Dense
from nmt.model.loops import bias_gradient, call_with_gradient, kernel_gradient, scan, shift

Tensor = Any


def find_starts(segments: Tensor, *, reverse: bool = False) -> Tensor:
    """Return bool [B, L], True where a segment starts (ends, if reversed).

    Args:
        segments: int [B, L].
        reverse: whether rows are read from their end.
    """
    edge = ops.ones_like(segments[:, :1], dtype="bool")
    changes = ops.not_equal(segments[:, 1:], segments[:, :-1])
    return ops.concatenate([changes, edge] if reverse else [edge, changes], axis=1)


def make_carry_mask(segments: Tensor, dtype: str, *, reverse: bool = False) -> Tensor:
    """Return [L, B, 1]: 0 where a segment of int [B, L] starts (ends, if reversed), 1 elsewhere."""
    carries = ops.logical_not(find_starts(segments, reverse=reverse))
    return ops.expand_dims(ops.cast(ops.transpose(carries), dtype), -1)


def carry_states(states: States, carry_mask: Tensor, initial: Tensor | tuple[()]) -> States:
    """Return the states that a position reads: carried over, or initial where a segment starts.

    Args:
        states: [..., B, R] each, of the previous position.
        carry_mask: [..., B, 1], see `make_carry_mask`.
        initial: [..., B, R], the initial value of every tensor of a state, zero where no segment
            starts; (): initial states are zeros.
    """
    carried = tuple(state * carry_mask for state in states)
    return carried if isinstance(initial, tuple) else tuple(state + initial for state in carried)


class CellInputs(NamedTuple):
    """The inputs and weights that a cell is run with."""

    x: Tensor  # [T, B, g R], the products of the inputs, biases included
    kernel: Tensor  # [R, g R], of the state
    bias: Tensor | tuple[()]  # [g R], of the state's product; (): none
    carry_mask: Tensor  # [T, B, 1], see `make_carry_mask`
    initial: Tensor | tuple[()]  # [T, B, R], see `carry_states`


class _Activations(NamedTuple):
    """The results of one position."""

    states: States
    residuals: Tensor  # [B, 4 R], for the gradients


class _Gradients(NamedTuple):
    """The gradients of one position."""

    previous: States  # of the states that it read
    gates: Tensor  # [B, 4 R]


def run_cell(cell: Cell, inputs: CellInputs, *, reverse: bool = False) -> Tensor:
    """Run a cell over rows: [T, B, R].

    Args:
        cell: the kind of cell.
        inputs: its inputs and weights.
        reverse: whether to read from the end; the carry mask is then 0 where segments end.
    """

    def compute(*fields: Any) -> Any:
        inputs = CellInputs(*fields)
        activations = _run(cell, inputs, reverse=reverse)

        def backward(output_gradient: Tensor) -> CellInputs:
            return _run_backward(cell, inputs, activations, output_gradient, reverse=reverse)

        return (activations.states[0],), backward

    (output,) = call_with_gradient(compute, *inputs)
    return output


def _zeros(cell: Cell, inputs: CellInputs) -> tuple[States, Tensor]:
    """Return zeros for the states of a position, [B, R] each, and for its gates [B, 4 R]."""
    batch, width, dtype = ops.shape(inputs.x)[1], inputs.kernel.shape[0], inputs.x.dtype
    state = ops.zeros((batch, width), dtype)
    return (state,) * cell.states, ops.zeros((batch, 4 * width), dtype)


def _run(cell: Cell, inputs: CellInputs, *, reverse: bool) -> _Activations:
    """Return the activations of all positions."""

    def step(last: _Activations, position: Any) -> _Activations:
        x, carry_mask, initial = position
        states = carry_states(last.states, carry_mask, initial)
        return _Activations(
            *cell.step(x, project_state(states, inputs.kernel, inputs.bias), states)
        )

    positions = (inputs.x, inputs.carry_mask, inputs.initial)
    return scan(step, _Activations(*_zeros(cell, inputs)), positions, reverse=reverse)


def _run_backward(
    cell: Cell,
    inputs: CellInputs,
    activations: _Activations,
    output_gradient: Tensor,
    *,
    reverse: bool,
) -> CellInputs:
    """Return the gradients of the inputs."""
    last = tuple(shift(state, reverse=reverse) for state in activations.states)
    before = carry_states(last, inputs.carry_mask, inputs.initial)
    transposed_kernel = ops.transpose(inputs.kernel)

    def step(later: _Gradients, position: Any) -> _Gradients:
        output_gradient, later_carry_mask, activations, before = position
        gradients = tuple(gradient * later_carry_mask for gradient in later.previous)
        gradients = (gradients[0] + output_gradient, *gradients[1:])
        return _Gradients(*step_backward(cell, gradients, activations, before, transposed_kernel))

    later_carry_mask = shift(inputs.carry_mask, reverse=not reverse)
    positions = (output_gradient, later_carry_mask, activations, before)
    gradients = scan(step, _Gradients(*_zeros(cell, inputs)), positions, reverse=not reverse)
    product_gradient = cell.product_gradient(gradients.gates)
    no_gradient: Any = None
    return CellInputs(
        x=cell.input_gradient(gradients.gates),
        kernel=kernel_gradient(before[0], product_gradient),
        bias=() if isinstance(inputs.bias, tuple) else bias_gradient(product_gradient),
        carry_mask=no_gradient,
        initial=() if isinstance(inputs.initial, tuple) else sum(gradients.previous),
    )


class _CellLayer(keras.layers.Layer):
    """The configuration that recurrent layers share."""

    def __init__(self, input_width: int, width: int, cell: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_width, self.width, self.cell = input_width, width, cell

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that rebuild the layer."""
        return super().get_config() | {
            "input_width": self.input_width,
            "width": self.width,
            "cell": self.cell,
        }


@keras.saving.register_keras_serializable("nmt")
class RecurrentLayer(_CellLayer):
    """A cell that reads rows of inputs in one direction.

    Args:
        input_width: M, the width of its inputs.
        width: R.
        cell: "gru" or "lstm".
        **kwargs: the arguments of every Keras layer.
    """

    def __init__(self, input_width: int, width: int, cell: str, **kwargs: Any) -> None:
        super().__init__(input_width, width, cell, **kwargs)
        self.cell_type = CELLS[cell]
        self.inputs = Dense(
            self.cell_type.gates * width,
            bias_initializer=lambda shape, dtype=None: ops.convert_to_tensor(
                self.cell_type.initial_bias(width), dtype
            ),
            name="inputs",
            dtype=self.dtype_policy,
        )
        self.recurrent = Dense(
            self.cell_type.gates * width,
            use_bias=self.cell_type.recurrent_bias,
            kernel_initializer="orthogonal",
            name="recurrent",
            dtype=self.dtype_policy,
        )

    def build(self, *input_shapes: Any) -> None:
        """Create the weights; their shapes depend on the sizes only."""
        self.inputs.build((None, None, self.input_width))
        self.recurrent.build((None, None, self.width))
        self.built = True

    def in_compute_dtype(self, weight: Any) -> Tensor:
        """Return a weight in the dtype of products."""
        return ops.cast(ops.convert_to_tensor(weight), self.compute_dtype)

    @property
    def recurrent_weights(self) -> tuple[Tensor, Tensor | tuple[()]]:
        """The kernel [R, g R] and bias [g R] of the state; () where the cell has no such bias."""
        bias = self.recurrent.bias
        return (
            self.in_compute_dtype(self.recurrent.kernel),
            () if bias is None else self.in_compute_dtype(bias),
        )

    def call(
        self,
        x: Tensor,
        carry_mask: Tensor,
        initial: Tensor | tuple[()] = (),
        reverse: bool = False,
    ) -> Tensor:
        """Read ``x`` [T, B, M]: [T, B, R]. See `CellInputs` and `run_cell` for the arguments."""
        kernel, bias = self.recurrent_weights
        inputs = CellInputs(self.inputs(x), kernel, bias, carry_mask, initial)
        return run_cell(self.cell_type, inputs, reverse=reverse)

    def step(self, x: Tensor, states: States) -> States:
        """Read one more input ``x`` [B, M] for every state."""
        return self.cell_type.step(self.inputs(x), self.recurrent(states[0]), states)[0]


@keras.saving.register_keras_serializable("nmt")
class BidirectionalLayer(_CellLayer):
    """Two `RecurrentLayer` side by side, one for each direction (Schuster & Paliwal 1997).

    Args:
        input_width: M, the width of its inputs.
        width: R, the width of its outputs: R / 2 for each direction.
        cell: "gru" or "lstm".
        **kwargs: the arguments of every Keras layer.
    """

    def __init__(self, input_width: int, width: int, cell: str, **kwargs: Any) -> None:
        super().__init__(input_width, width, cell, **kwargs)
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
        """Read ``x`` [S, B, M] in rows of ``segments`` int [B, S]: [S, B, R]."""
        outputs = []
        for layer, reverse in ((self.forwards, False), (self.backwards, True)):
            carry_mask = make_carry_mask(segments, self.compute_dtype, reverse=reverse)
            outputs.append(layer(x, carry_mask, reverse=reverse))
        return ops.concatenate(outputs, axis=-1)
