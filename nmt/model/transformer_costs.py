"""The costs of a transformer in closed form. Importing this loads no Keras."""

from __future__ import annotations

from nmt.model.costs import FULL, BatchShape, Flops, Part, StateBytes
from nmt.model.sizes import RELATIVE_BUCKETS, AttentionSizes, TransformerSizes

_ENCODER, _DECODER = "encoder self-attention", "decoder masked self-attention"
_CROSS, _FEED_FORWARD = "cross-attention", "feed-forward"
_EMBEDDINGS, _POSITIONS = "embeddings (tied)", "positions"


def count_attention_kernels(sizes: AttentionSizes) -> int:
    """Return the weights in the matrices of one attention layer.

    Queries, keys, values and output of plain heads are [D, D] each: H heads of D / H make a matrix
    of D columns.
    """
    width = sizes.d_model
    keys_and_values = width * sizes.key_value_width
    return width**2 + keys_and_values + sizes.output * width**2


def _write_attention(sizes: AttentionSizes) -> str:
    """Return the formula for all weights of one attention layer."""
    square = 2 if sizes.output else 1  # queries and output, [D, D] each
    if sizes.heads == "pooled":
        terms = [f"({square + 1} + H)·D²"]
        biases = [f"({square + 1} + H)·D"]
    elif sizes.groups < sizes.num_heads:
        factor = "" if square == 1 else f"{square}·"
        terms, biases = [f"{factor}D²", "2·D·G·K"], [f"{factor}D", "2·G·K"]
    else:
        terms, biases = [f"{square + 2}·D²"], [f"{square + 2}·D"]
    terms += biases if sizes.biases else []
    return " + ".join([*terms, "2·K"] if sizes.qk_norm else terms)


class TransformerCosts:
    """The costs of one transformer: see `nmt.model.costs.Costs`."""

    labels: tuple[tuple[str, str], ...] = (
        ("causal_self_attention", _DECODER),
        ("self_attention", _ENCODER),
        ("cross_attention", _CROSS),
        ("feed_forward", _FEED_FORWARD),
        ("embedding", _EMBEDDINGS),
        ("positions", _POSITIONS),
        ("encoder_bias", _POSITIONS),
        ("decoder_bias", _POSITIONS),
    )

    def __init__(self, sizes: TransformerSizes) -> None:
        self._sizes = sizes
        self._is_gated = sizes.activation == "swiglu"
        self._has_final_norms = sizes.norm == "pre"

    def describe(self) -> str:
        """See `Costs.describe`."""
        sizes = self._sizes
        grouped = sizes.cross_attention.groups < sizes.num_heads
        heads = f"H = {sizes.num_heads}"
        heads += f", G = {sizes.cross_attention.groups}" if grouped else ""
        heads += f" ({sizes.heads})" if sizes.heads != "split" else ""
        return (
            f"D = {sizes.d_model}, {heads}, F = {sizes.ffn_width}, "
            f"E = {sizes.encoder_layers}, U = {sizes.decoder_layers}, "
            f"V = {sizes.vocabulary_size:,}, P = {sizes.max_length}; {sizes.norm}-norm, "
            f"{sizes.activation}, positions: {sizes.positions}"
        )

    def list_parts(self) -> list[Part]:
        """See `Costs.list_parts`."""
        sizes, attention = self._sizes, self._sizes.cross_attention
        dimensions = {
            **{"V": sizes.vocabulary_size, "D": sizes.d_model, "F": sizes.ffn_width},
            **{"H": sizes.num_heads, "K": attention.head_width, "G": attention.groups},
            **{"E": sizes.encoder_layers, "U": sizes.decoder_layers, "P": sizes.max_length},
        }
        attention_formula = _write_attention(attention)
        self_attention_formula = _write_attention(sizes.self_attention)
        feed_forward = "3·D·F + 2·F + D" if self._is_gated else "2·D·F + F + D"
        positions = {"learned": "P·D", "relative": f"2·{RELATIVE_BUCKETS}·H"}.get(sizes.positions)
        no_positions = "none" if sizes.positions == "none" else f"{sizes.positions}: none"
        formulas = {
            _EMBEDDINGS: "V·D + V" if sizes.output_bias else "V·D",
            _POSITIONS: positions,
            _ENCODER: f"E·({self_attention_formula})",
            _DECODER: f"U·({self_attention_formula})",
            _CROSS: f"U·({attention_formula})",
            _FEED_FORWARD: f"(E + U)·({feed_forward})",
            "layer normalisation": f"(2·E + 3·U{' + 2' if self._has_final_norms else ''})·2·D",
        }
        parts = [
            Part.evaluate(name, formula, dimensions) if formula else Part(name, no_positions, 0)
            for name, formula in formulas.items()
        ]
        return [part for part in parts if part.parameters or part.name == _POSITIONS]

    def _count_feed_forward_kernels(self) -> int:
        return (3 if self._is_gated else 2) * self._sizes.d_model * self._sizes.ffn_width

    def count_flops(self, *, source_length: int, target_length: int) -> Flops:
        """See `Costs.count_flops`.

        Per layer and attended position, attention costs 2·D for the scores, and as much for the sum
        of values (H times as much where values are D wide).
        """
        sizes, attention = self._sizes, self._sizes.cross_attention
        feed_forward, layers = self._count_feed_forward_kernels(), sizes.decoder_layers
        kernels = count_attention_kernels(attention)
        keys_and_values = sizes.d_model * attention.key_value_width
        source = sizes.encoder_layers * (kernels + feed_forward) + layers * keys_and_values
        target = layers * (2 * kernels - keys_and_values + feed_forward)
        products = 2 * sizes.num_heads * (attention.head_width + attention.value_width)
        return Flops(
            source_matrices=2 * source,
            target_matrices=2 * (target + sizes.vocabulary_size * sizes.d_model),
            source_products=products * source_length * sizes.encoder_layers,
            target_products=products * (source_length + target_length) * layers,
        )

    def estimate_activations(self, batch: BatchShape) -> dict[str, int]:
        """See `Costs.estimate_activations`.

        In the manner of Korthikanti et al. 2022 (section 4.1), for the layers as they are written:
        every tensor that a derivative needs is stored once, however many operations need it. A
        compiler that fuses operations stores less and recomputes cheap ones; an allocator also
        needs room for temporaries. Weights, gradients and optimizer state come on top.

        With N = rows · length positions on each side and b bytes per number, 4 or 2, a layer stores

        - per attention: N·b for each number of queries, keys, values and output; N·H·length weights
          in float32 before and, in b bytes, after masking, one byte more with dropout; the chunked
          kernel instead stores one float32 for each of N·H softmaxes, and its output;
        - per feed-forward: N·F·b for the input of the outer matrix, and more for activations other
          than relu, whose output is its own record: see `_count_feed_forward_numbers`;
        - per norm: its input and its scale in float32, N·D·4 each, and N·D·b for its output;
        - per residual branch: one byte for each of N·D elements, if dropout is on;

        and the loss stores the exponentials of N·V logits in float32. With ``remat``, a layer
        stores only its input, plus the activations of one layer, the largest, at a time.
        """
        sizes = self._sizes
        blocks = [self._estimate_block(batch, attentions=1)] * sizes.encoder_layers
        blocks += [self._estimate_block(batch, attentions=2)] * sizes.decoder_layers
        if sizes.remat:
            largest = max(blocks, key=lambda block: sum(block.values()))
            block_inputs = {"norms": batch.vector_bytes(sizes.d_model) * len(blocks)}
            blocks = [block_inputs, largest]
        total = self._estimate_outside(batch)
        for block in blocks:
            for name, count in block.items():
                total[name] += count
        return total

    def _count_norm(self, batch: BatchShape) -> int:
        """Return the bytes that one norm stores."""
        width = self._sizes.d_model
        return batch.positions * width * 2 * FULL + batch.vector_bytes(width)

    def _count_mask(self, batch: BatchShape) -> int:
        """Return the bytes that dropout on [N, D] stores."""
        return batch.positions * self._sizes.d_model if self._sizes.dropout else 0

    def _estimate_block(self, batch: BatchShape, *, attentions: int) -> dict[str, int]:
        """Estimate the bytes that one layer stores."""
        sizes, attention = self._sizes, self._sizes.cross_attention
        heads = batch.positions * sizes.num_heads
        weights = heads * batch.length * (FULL + batch.bytes_each)
        weights += heads * batch.length if sizes.attention_dropout else 0
        vectors = 2 * sizes.d_model + attention.key_value_width
        if sizes.attention_kernel == "chunked":
            weights = heads * FULL
            vectors += sizes.num_heads * attention.value_width
        inner, branches = batch.positions * sizes.ffn_width, attentions + 1
        return {
            "attention weights": attentions * weights,
            "attention vectors": attentions * batch.vector_bytes(vectors),
            "feed-forward": inner * batch.bytes_each * self._count_feed_forward_numbers(),
            "norms": branches * self._count_norm(batch),
            "dropout": branches * self._count_mask(batch) + (inner if sizes.ffn_dropout else 0),
        }

    def _estimate_outside(self, batch: BatchShape) -> dict[str, int]:
        """Estimate the bytes stored outside of the layers: embeddings, final norms, loss."""
        vectors = batch.vector_bytes(self._sizes.d_model)
        return {
            "attention weights": 0,
            "attention vectors": 0,
            "feed-forward": 0,
            "norms": 2 * (self._count_norm(batch) if self._has_final_norms else vectors),
            "dropout": 2 * self._count_mask(batch),
            "loss": batch.positions * self._sizes.vocabulary_size * FULL,
        }

    def _count_feed_forward_numbers(self) -> int:
        """Return how many [N, F] the feed-forward block stores."""
        activation = self._sizes.activation
        numbers = {"relu": 1, "relu2": 2, "gelu": 5, "silu": 2, "swiglu": 4}[activation]
        # They include the input of the outer matrix; relu also needs its output before dropout.
        return numbers + (1 if self._sizes.ffn_dropout and activation == "relu" else 0)

    def count_state(self, precision: str = "float32") -> StateBytes:
        """See `Costs.count_state`: keys and values of every layer, on either side."""
        numbers = self._sizes.cross_attention.key_value_width
        each = BatchShape(1, 1, precision).vector_bytes(numbers * self._sizes.decoder_layers)
        return StateBytes(hypothesis=0, target=each, source=each)
