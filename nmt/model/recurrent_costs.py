"""The costs of a recurrent encoder-decoder in closed form. Importing this loads no Keras."""

from __future__ import annotations

from nmt.model.costs import FULL, BatchShape, Flops, Part, StateBytes
from nmt.model.sizes import RecurrentSizes

_EMBEDDINGS, _BRIDGE = "embeddings (tied)", "bridge"
_ENCODER, _DECODER = "encoder, recurrent", "decoder, recurrent"
_CROSS, _COMBINE = "cross-attention", "context and state combined"
# Matrices [R, R] of an attention layer that apply to a source token, and to a target token.
_MATRICES = {"additive": (1, 1), "dot": (0, 0), "general": (1, 0), "cross": (2, 2)}
_ATTENTIONS = {"additive": "2·R² + R", "dot": "0", "general": "R²", "cross": "4·R² + 4·R"}


class RecurrentCosts:
    """The costs of one recurrent model: see `nmt.model.costs.Costs`."""

    def __init__(self, sizes: RecurrentSizes) -> None:
        self._sizes = sizes
        self._gates = 3 if sizes.cell == "gru" else 4
        # A GRU whose reset gate follows the product has a bias in that product, too.
        self._biases = 2 if sizes.cell == "gru" else 1
        self._states = 1 if sizes.cell == "gru" else 2
        self.labels: tuple[tuple[str, str], ...] = (
            ("embedding", _EMBEDDINGS),
            *((f"encoder_{i}", _ENCODER) for i in range(sizes.encoder_layers)),
            *((f"decoder_{i}", _DECODER) for i in range(sizes.decoder_layers)),
            *((f"bridge_{i}", _BRIDGE) for i in range(sizes.decoder_layers)),
            ("combine", _COMBINE),
            ("reading", _CROSS),
        )

    def describe(self) -> str:
        """See `Costs.describe`."""
        sizes = self._sizes
        heads = f" of {sizes.num_heads} heads" if sizes.attention == "cross" else ""
        return (
            f"D = {sizes.d_model}, R = {sizes.state_width}, g = {self._gates} ({sizes.cell}), "
            f"E = {sizes.encoder_layers}, U = {sizes.decoder_layers}, "
            f"V = {sizes.vocabulary_size:,}; attention: {sizes.attention}{heads}"
            f"{', input feeding' if sizes.input_feeding else ''}"
        )

    def _input_widths(self) -> tuple[list[int], list[int]]:
        """Return the input width of each layer of the encoder, and of the decoder."""
        sizes = self._sizes
        first = 2 * sizes.d_model if sizes.input_feeding else sizes.d_model
        return (
            [sizes.d_model, *[sizes.state_width] * (sizes.encoder_layers - 1)],
            [first, *[sizes.state_width] * (sizes.decoder_layers - 1)],
        )

    def _count_kernels(self) -> tuple[int, int]:
        """Return the number of weights in the cells' matrices: encoder, decoder."""
        width, gates = self._sizes.state_width, self._gates
        encoder, decoder = self._input_widths()
        return (
            sum(size * gates * width + gates * width**2 // 2 for size in encoder),
            sum(size * gates * width + gates * width**2 for size in decoder),
        )

    def list_parts(self) -> list[Part]:
        """See `Costs.list_parts`."""
        sizes = self._sizes
        dimensions = {
            **{"V": sizes.vocabulary_size, "D": sizes.d_model, "R": sizes.state_width},
            **{"E": sizes.encoder_layers, "U": sizes.decoder_layers, "g": self._gates},
        }
        bias = f"{self._biases}·g·R" if self._biases > 1 else "g·R"
        first = "2·D" if sizes.input_feeding else "D"
        formulas = {
            _EMBEDDINGS: "V·D",
            _ENCODER: f"g·R·(D + (E − 1)·R + E·R/2) + E·{bias}",
            _DECODER: f"g·R·({first} + (U − 1)·R + U·R) + U·{bias}",
            _BRIDGE: "U·(R² + R)" if sizes.bridge else "0",
            _CROSS: _ATTENTIONS[sizes.attention],
            _COMBINE: "2·R·D + D",
        }
        parts = [Part.evaluate(*formula, dimensions) for formula in formulas.items()]
        return [part for part in parts if part.parameters]

    def count_flops(self, *, source_length: int, target_length: int) -> Flops:
        """See `Costs.count_flops`.

        A target token attends only to the source: 2·R for each score, and as much for the sum. The
        bridge is left out, as it runs once per sentence.
        """
        sizes, width = self._sizes, self._sizes.state_width
        encoder, decoder = self._count_kernels()
        source, target = (count * width**2 for count in _MATRICES[sizes.attention])
        combine = 2 * width * sizes.d_model
        logits = sizes.vocabulary_size * sizes.d_model
        return Flops(
            source_matrices=2 * (encoder + source),
            target_matrices=2 * (decoder + target + combine + logits),
            source_products=0,
            target_products=4 * width * source_length,
        )

    def estimate_activations(self, batch: BatchShape) -> dict[str, int]:
        """See `Costs.estimate_activations`.

        With N = rows · length positions on each side and b bytes per number, each layer stores its
        inputs, its states, and four numbers of its gates for each of its states; attention its
        weights in float32, keys, values, queries and contexts; the decoder its attentional states;
        dropout one byte for each number; and the loss the exponentials of N·V logits in float32.
        """
        sizes, width = self._sizes, self._sizes.state_width
        encoder, decoder = self._input_widths()
        layers = len(encoder) + len(decoder)
        numbers = sum(encoder) + sum(decoder) + layers * (4 + self._states) * width
        dropped = 3 * sizes.d_model + (layers - 2) * width if sizes.dropout else 0
        memory = width if sizes.attention == "dot" else 2 * width
        return {
            "recurrent layers": batch.vector_bytes(numbers),
            "attention weights": batch.positions * sizes.num_heads * batch.length * FULL,
            "attention vectors": batch.vector_bytes(memory + 2 * width + sizes.d_model),
            "dropout": batch.positions * dropped,
            "loss": batch.positions * sizes.vocabulary_size * FULL,
        }

    def count_state(self, precision: str = "float32") -> StateBytes:
        """See `Costs.count_state`: states, keys and values."""
        sizes, each = self._sizes, BatchShape(1, 1, precision)
        attentional = sizes.d_model if sizes.input_feeding else 0
        memory = sizes.state_width * (1 if sizes.attention == "dot" else 2)
        states = sizes.decoder_layers * self._states * sizes.state_width
        return StateBytes(
            hypothesis=each.vector_bytes(states + attentional),
            target=0,
            source=each.vector_bytes(memory),
        )
