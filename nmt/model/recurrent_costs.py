"""What a recurrent encoder-decoder costs, by closed form. Importing this loads no Keras."""

from __future__ import annotations

from nmt.model.costs import FULL, Batch, Flops, Part, StateBytes
from nmt.model.sizes import RecurrentSizes

_EMBEDDINGS, _BRIDGE = "embeddings (tied)", "bridge"
_ENCODER, _DECODER = "encoder, recurrent", "decoder, recurrent"
_CROSS, _COMBINE = "cross-attention", "context and state combined"
# Of an attention layer: matrices [R, R] that a source token, and that a target token meets.
_MATRICES = {"additive": (1, 1), "dot": (0, 0), "general": (1, 0), "cross": (2, 2)}
_ATTENTIONS = {"additive": "2·R² + R", "dot": "none", "general": "R²", "cross": "4·R² + 4·R"}


class RecurrentCosts:
    """The account of one model: see `nmt.model.costs.Costs`."""

    def __init__(self, sizes: RecurrentSizes) -> None:
        self._sizes = sizes
        self._gates = 3 if sizes.cell == "gru" else 4
        # A GRU that resets behind the product has a bias in it, too.
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
        """Return the sizes that the closed forms are made of."""
        sizes = self._sizes
        heads = f" of {sizes.num_heads} heads" if sizes.attention == "cross" else ""
        return (
            f"D = {sizes.d_model}, R = {sizes.state_width}, g = {self._gates} ({sizes.cell}), "
            f"E = {sizes.encoder_layers}, C = {sizes.decoder_layers}, "
            f"V = {sizes.vocabulary_size:,}; attention: {sizes.attention}{heads}"
            f"{', fed back' if sizes.input_feeding else ''}"
        )

    def _read_widths(self) -> tuple[list[int], list[int]]:
        """Return how wide the inputs of each layer of the encoder and of the decoder are."""
        sizes = self._sizes
        fed = 2 * sizes.d_model if sizes.input_feeding else sizes.d_model
        return (
            [sizes.d_model, *[sizes.state_width] * (sizes.encoder_layers - 1)],
            [fed, *[sizes.state_width] * (sizes.decoder_layers - 1)],
        )

    def _count_kernels(self) -> tuple[int, int]:
        """Return the weights in the matrices of the encoder's, and of the decoder's layers."""
        width, gates = self._sizes.state_width, self._gates
        encoder, decoder = self._read_widths()
        return (
            sum(read * gates * width + gates * width**2 // 2 for read in encoder),
            sum(read * gates * width + gates * width**2 for read in decoder),
        )

    def list_parts(self) -> list[Part]:
        """Return the parameters by part."""
        sizes, width = self._sizes, self._sizes.state_width
        layers = (sizes.encoder_layers, sizes.decoder_layers)
        biases = self._biases * self._gates * width
        encoder, decoder = (
            kernels + count * biases
            for kernels, count in zip(self._count_kernels(), layers, strict=True)
        )
        bias = f"{self._biases}·g·R" if self._biases > 1 else "g·R"
        fed = "2·D" if sizes.input_feeding else "D"
        attention = sum(_MATRICES[sizes.attention]) * width**2
        attention += {"additive": width, "cross": 4 * width}.get(sizes.attention, 0)
        parts = [
            Part(_EMBEDDINGS, "V·D", sizes.vocabulary_size * sizes.d_model),
            Part(_ENCODER, f"g·R·(D + (E − 1)·R + E·R/2) + E·{bias}", encoder),
            Part(_DECODER, f"g·R·({fed} + (C − 1)·R + C·R) + C·{bias}", decoder),
            Part(_BRIDGE, "C·(R² + R)", layers[1] * (width**2 + width) * sizes.bridge),
            Part(_CROSS, _ATTENTIONS[sizes.attention], attention),
            Part(_COMBINE, "2·R·D + D", (2 * width + 1) * sizes.d_model),
        ]
        return [part for part in parts if part.parameters]

    def count_flops(self, *, source_length: int, target_length: int) -> Flops:
        """Count the arithmetic of one source and one target token.

        A target token attends to the source alone: 2·R for each score, and as much for the sum.
        The bridge is met once for each sentence, and left out.
        """
        sizes, width = self._sizes, self._sizes.state_width
        encoder, decoder = self._count_kernels()
        of_source, of_target = (count * width**2 for count in _MATRICES[sizes.attention])
        combined = 2 * width * sizes.d_model
        written = sizes.vocabulary_size * sizes.d_model
        return Flops(
            source_matrices=2 * (encoder + of_source),
            target_matrices=2 * (decoder + of_target + combined + written),
            source_products=0,
            target_products=4 * width * source_length,
        )

    def estimate_activations(self, batch: Batch) -> dict[str, int]:
        """Estimate what one batch keeps between the forward and the backward pass.

        With N = rows · length positions on each side and b bytes per number, each layer keeps what
        it reads, four numbers of its gates for each of its state, and its states; attention its
        weights in float32, keys, values, queries and contexts; the decoder what it writes from;
        dropout one byte for each number; and the loss the exponentials of N·V logits in float32.
        """
        sizes, width = self._sizes, self._sizes.state_width
        encoder, decoder = self._read_widths()
        layers = len(encoder) + len(decoder)
        numbers = sum(encoder) + sum(decoder) + layers * (4 + self._states) * width
        dropped = 3 * sizes.d_model + (layers - 2) * width if sizes.dropout else 0
        read = width if sizes.attention == "dot" else 2 * width
        return {
            "recurrent layers": batch.count_vectors(numbers),
            "attention weights": batch.positions * sizes.num_heads * batch.length * FULL,
            "attention vectors": batch.count_vectors(read + 2 * width + sizes.d_model),
            "dropout": batch.positions * dropped,
            "loss": batch.positions * sizes.vocabulary_size * FULL,
        }

    def count_state(self, precision: str = "float32") -> StateBytes:
        """Count what decoding keeps: states, and what it reads of the encoder's."""
        sizes, each = self._sizes, Batch(1, 1, precision)
        written = sizes.d_model if sizes.input_feeding else 0
        read = sizes.state_width * (1 if sizes.attention == "dot" else 2)
        states = sizes.decoder_layers * self._states * sizes.state_width
        return StateBytes(
            hypothesis=each.count_vectors(states + written),
            target=0,
            source=each.count_vectors(read),
        )
