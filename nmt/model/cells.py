"""Recurrent cells: their equations and the gradients of these.

A cell reads the product of its input, x = W_x i + b, and that of its state, u = U h (+ b), both for
all its gates at once. σ is the logistic function, ⊙ multiplies elementwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

Tensor = Any
States = tuple[Tensor, ...]  # [B, R] each; the first is the cell's output


class Gru:
    """A gated recurrent unit (Cho et al. 2014) whose reset gate follows the product.

    z = σ(x_z + u_z), r = σ(x_r + u_r), n = tanh(x_n + r ⊙ u_n), h' = (1 - z) ⊙ n + z ⊙ h, where u
    has a bias of its own: the variant that needs one product for all gates, as in cuDNN and
    `keras.layers`.

    Attributes:
        gates: number of gates in a product.
        states: number of tensors in a state.
        recurrent_bias: whether the product of the state has a bias.
    """

    gates, states, recurrent_bias = 3, 1, True

    @staticmethod
    def step(x: Tensor, u: Tensor, states: States) -> tuple[States, Tensor]:
        """Return the next state, and the residuals [B, 4 R] that `backward` needs."""
        (h,) = states
        width = h.shape[-1]
        z_and_r = ops.sigmoid(x[:, : 2 * width] + u[:, : 2 * width])
        z, r = z_and_r[:, :width], z_and_r[:, width:]
        u_n = u[:, 2 * width :]
        n = ops.tanh(x[:, 2 * width :] + r * u_n)
        return (n + z * (h - n),), ops.concatenate([z_and_r, u_n, n], axis=-1)

    @staticmethod
    def backward(
        state_gradients: States, residuals: Tensor, states: States, previous: States
    ) -> tuple[Tensor, States]:
        """Return the gradients of the gates and of the previous state.

        Args:
            state_gradients: gradients of the next state.
            residuals: from `step`.
            states: the next state.
            previous: the previous state.

        Returns:
            (gate gradients [B, 4 R] for `input_gradient` and `product_gradient`, gradients of the
            previous state, without those that flow through its product).
        """
        z, r, u_n, n = ops.split(residuals, 4, axis=-1)
        (grad_h,) = state_gradients
        grad_n = grad_h * (1 - z) * (1 - n * n)
        grad_z = grad_h * (previous[0] - n) * z * (1 - z)
        grad_r = grad_n * u_n * r * (1 - r)
        return ops.concatenate([grad_z, grad_r, grad_n * r, grad_n], axis=-1), (grad_h * z,)

    @staticmethod
    def product_gradient(gate_gradients: Tensor) -> Tensor:
        """Return the gradient of u [..., 3 R]."""
        return gate_gradients[..., : gate_gradients.shape[-1] // 4 * 3]

    @staticmethod
    def input_gradient(gate_gradients: Tensor) -> Tensor:
        """Return the gradient of x [..., 3 R]."""
        width = gate_gradients.shape[-1] // 4
        parts = [gate_gradients[..., : 2 * width], gate_gradients[..., 3 * width :]]
        return ops.concatenate(parts, axis=-1)

    @staticmethod
    def initial_bias(width: int) -> np.ndarray:
        """Return the initial bias of the input's product."""
        return np.zeros(3 * width, np.float32)


class Lstm:
    """Long short-term memory with a forget gate (Hochreiter & Schmidhuber 1997, Gers et al. 2000).

    i, f, o = σ(x + u) of their gates, g = tanh(x_g + u_g), c' = f ⊙ c + i ⊙ g, h' = o ⊙ tanh(c').
    The order of gates is i, f, g, o. The forget gate's bias is initially 1, so that an untrained
    cell remembers (Jozefowicz et al. 2015).
    """

    gates, states, recurrent_bias = 4, 2, False

    @staticmethod
    def step(x: Tensor, u: Tensor, states: States) -> tuple[States, Tensor]:
        """Return the next state, and the residuals [B, 4 R] that `backward` needs."""
        _, c = states
        i, f, g, o = ops.split(x + u, 4, axis=-1)
        i, f, g, o = ops.sigmoid(i), ops.sigmoid(f), ops.tanh(g), ops.sigmoid(o)
        c = f * c + i * g
        return (o * ops.tanh(c), c), ops.concatenate([i, f, g, o], axis=-1)

    @staticmethod
    def backward(
        state_gradients: States, residuals: Tensor, states: States, previous: States
    ) -> tuple[Tensor, States]:
        """Return the gradients of the gates and of the previous state: see `Gru.backward`."""
        i, f, g, o = ops.split(residuals, 4, axis=-1)
        grad_h, grad_c = state_gradients
        tanh_c = ops.tanh(states[1])
        grad_c = grad_c + grad_h * o * (1 - tanh_c * tanh_c)
        gate_gradients = [
            grad_c * g * i * (1 - i),
            grad_c * previous[1] * f * (1 - f),
            grad_c * i * (1 - g * g),
            grad_h * tanh_c * o * (1 - o),
        ]
        return ops.concatenate(gate_gradients, axis=-1), (ops.zeros_like(grad_h), grad_c * f)

    @staticmethod
    def product_gradient(gate_gradients: Tensor) -> Tensor:
        """Return the gradient of u [..., 4 R]."""
        return gate_gradients

    @staticmethod
    def input_gradient(gate_gradients: Tensor) -> Tensor:
        """Return the gradient of x [..., 4 R]."""
        return gate_gradients

    @staticmethod
    def initial_bias(width: int) -> np.ndarray:
        """Return the initial bias of the input's product."""
        return np.repeat(np.array([0, 1, 0, 0], np.float32), width)


Cell = type[Gru] | type[Lstm]
CELLS: dict[str, Cell] = {"gru": Gru, "lstm": Lstm}


def project_state(states: States, kernel: Tensor, bias: Tensor | tuple[()]) -> Tensor:
    """Return the product u of a state; a ``bias`` of () is absent."""
    product = ops.matmul(states[0], kernel)
    return product if isinstance(bias, tuple) else product + bias


def step_backward(
    cell: Cell,
    state_gradients: States,
    activations: Any,
    previous: States,
    transposed_kernel: Tensor,
) -> tuple[States, Tensor]:
    """Return the gradients of the previous state, and of the gates [B, 4 R].

    Args:
        cell: the kind of cell.
        state_gradients: gradients of the next state.
        activations: (next state, residuals), from `Gru.step`.
        previous: the previous state.
        transposed_kernel: [g R, R], the transposed kernel of the state.
    """
    states, residuals = activations
    gate_gradients, gradients = cell.backward(state_gradients, residuals, states, previous)
    through_product = ops.matmul(cell.product_gradient(gate_gradients), transposed_kernel)
    return (gradients[0] + through_product, *gradients[1:]), gate_gradients
