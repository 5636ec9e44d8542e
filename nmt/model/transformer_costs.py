"""What a transformer costs, by closed form. Importing this loads no Keras."""

from __future__ import annotations

from nmt.model.costs import FULL, Batch, Flops, Part, StateBytes
from nmt.model.sizes import RELATIVE_BUCKETS, AttentionSizes, Sizes

_ENCODER, _DECODER = "encoder self-attention", "decoder masked self-attention"
_CROSS, _FEED_FORWARD = "cross-attention", "feed-forward"
_EMBEDDINGS, _POSITIONS = "embeddings (tied)", "positions"


def count_attention_kernels(sizes: AttentionSizes) -> int:
    """Return the weights in the matrices of one attention layer.

    Queries, keys, values and output of plain heads are [D, D] each: H heads of D / H make a matrix
    of D columns.
    """
    width = sizes.d_model
    of_values = width * sizes.groups * sizes.value_width
    return width * (width + sizes.groups * sizes.head_width) + of_values + sizes.output * width**2


def _count_attention(sizes: AttentionSizes) -> int:
    """Return all the weights of one attention layer."""
    keys, values = sizes.groups * sizes.head_width, sizes.groups * sizes.value_width
    biases = sizes.d_model + keys + values + sizes.output * sizes.d_model
    norms = 2 * sizes.head_width if sizes.qk_norm else 0
    return count_attention_kernels(sizes) + biases * sizes.biases + norms


def _write_attention(sizes: AttentionSizes) -> str:
    """Return the formula of `_count_attention`."""
    square = 2 if sizes.output else 1  # of queries and output, [D, D] each
    if sizes.heads == "pooled":
        terms = [f"({square + 1} + H)·D²"]
        biases = [f"({square + 1} + H)·D"]
    elif sizes.groups < sizes.num_heads:
        once = "" if square == 1 else f"{square}·"
        terms, biases = [f"{once}D²", "2·D·G·K"], [f"{once}D", "2·G·K"]
    else:
        terms, biases = [f"{square + 2}·D²"], [f"{square + 2}·D"]
    terms += biases if sizes.biases else []
    return " + ".join([*terms, "2·K"] if sizes.qk_norm else terms)


class TransformerCosts:
    """The account of one transformer: see `nmt.model.costs.Costs`."""

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

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._gated = sizes.activation == "swiglu"
        self._pre = sizes.norm == "pre"

    def describe(self) -> str:
        """Return the sizes that the closed forms are made of."""
        sizes = self._sizes
        grouped = sizes.cross_attention.groups < sizes.num_heads
        heads = f"H = {sizes.num_heads}"
        heads += f", G = {sizes.cross_attention.groups}" if grouped else ""
        heads += f" ({sizes.heads})" if sizes.heads != "split" else ""
        return (
            f"D = {sizes.d_model}, {heads}, F = {sizes.ffn_width}, "
            f"E = {sizes.encoder_layers}, C = {sizes.decoder_layers}, "
            f"V = {sizes.vocabulary_size:,}, P = {sizes.max_length}; {sizes.norm}-norm, "
            f"{sizes.activation}, positions: {sizes.positions}"
        )

    def list_parts(self) -> list[Part]:
        """Return the parameters by part."""
        sizes = self._sizes
        width, inner = sizes.d_model, sizes.ffn_width
        encoder, decoder = sizes.encoder_layers, sizes.decoder_layers
        attention = _count_attention(sizes.cross_attention)  # that of self-attention, too
        formula = _write_attention(sizes.cross_attention)
        feed_forward = self._count_feed_forward_kernels() + (2 if self._gated else 1) * inner
        of_feed_forward = "3·D·F + 2·F + D" if self._gated else "2·D·F + F + D"
        norms = 2 * encoder + 3 * decoder + (2 if self._pre else 0)
        parts = [
            Part(
                _EMBEDDINGS,
                "V·D + V" if sizes.output_bias else "V·D",
                sizes.vocabulary_size * (width + sizes.output_bias),
            ),
            self._count_positions(),
            Part(_ENCODER, f"E·({formula})", encoder * attention),
            Part(_DECODER, f"C·({formula})", decoder * attention),
            Part(_CROSS, f"C·({formula})", decoder * attention),
            Part(
                _FEED_FORWARD,
                f"(E + C)·({of_feed_forward})",
                (encoder + decoder) * (feed_forward + width),
            ),
            Part(
                "layer normalisation",
                f"(2·E + 3·C{' + 2' if self._pre else ''})·2·D",
                norms * 2 * width,
            ),
        ]
        return [part for part in parts if part.parameters or part.name == _POSITIONS]

    def _count_positions(self) -> Part:
        sizes = self._sizes
        if sizes.positions == "learned":
            return Part(_POSITIONS, "P·D", sizes.max_length * sizes.d_model)
        if sizes.positions == "relative":
            formula, table = f"2·{RELATIVE_BUCKETS}·H", RELATIVE_BUCKETS * sizes.num_heads
            return Part(_POSITIONS, formula, 2 * table)
        named = "none" if sizes.positions == "none" else f"{sizes.positions}: none"
        return Part(_POSITIONS, named, 0)

    def _count_feed_forward_kernels(self) -> int:
        return (3 if self._gated else 2) * self._sizes.d_model * self._sizes.ffn_width

    def count_flops(self, *, source_length: int, target_length: int) -> Flops:
        """Count the arithmetic of one source and one target token.

        The products of attention cost 2·D for each position attended to and layer for the scores,
        and as much for the sum of values (H times as much where values are D wide).
        """
        sizes, attention = self._sizes, self._sizes.cross_attention
        feed_forward, layers = self._count_feed_forward_kernels(), sizes.decoder_layers
        whole = count_attention_kernels(attention)
        keys_and_values = (
            sizes.d_model * attention.groups * (attention.head_width + attention.value_width)
        )
        source = sizes.encoder_layers * (whole + feed_forward) + layers * keys_and_values
        target = layers * (2 * whole - keys_and_values + feed_forward)
        products = 2 * sizes.num_heads * (attention.head_width + attention.value_width)
        return Flops(
            source_matrices=2 * source,
            target_matrices=2 * (target + sizes.vocabulary_size * sizes.d_model),
            source_products=products * source_length * sizes.encoder_layers,
            target_products=products * (source_length + target_length) * layers,
        )

    def estimate_activations(self, batch: Batch) -> dict[str, int]:
        """Estimate what one batch keeps between the forward and the backward pass.

        In the manner of Korthikanti et al. 2022 (section 4.1), for the layers as they are written:
        what the derivative of each operation needs is kept, once, however many operations need it.
        A compiler that fuses operations keeps less, by recomputing cheap ones; an allocator needs
        room for what is only passing through. Weights, gradients and optimizer state come on top.

        With N = rows · length positions on each side and b bytes per number, 4 or 2, a layer keeps

        - per attention: N·b for each number of queries, keys, values and output; N·H·length weights
          in float32 before and, in b bytes, after masking, one byte more where they are dropped;
          the chunked kernel one float32 for each of N·H softmaxes instead, and its output again;
        - per feed-forward: N·F·b for what the outer matrix reads, and more where the activation is
          another than relu, which is its own record: see `_count_feed_forward_numbers`;
        - per norm: its input and its scale in float32, N·D·4 each, and N·D·b for its output;
        - per residual branch: one byte for each of N·D elements, where dropout is on;

        and the loss the exponentials of N·V logits in float32. With ``remat``, a layer keeps its
        input alone, and one layer at a time, the largest, is worked out again.
        """
        sizes = self._sizes
        blocks = [self._estimate_block(batch, attentions=1)] * sizes.encoder_layers
        blocks += [self._estimate_block(batch, attentions=2)] * sizes.decoder_layers
        if sizes.remat:
            largest = max(blocks, key=lambda one: sum(one.values()))
            kept = {"norms": batch.count_vectors(sizes.d_model) * len(blocks)}
            blocks = [kept, largest]
        summed = self._estimate_outside(batch)
        for block in blocks:
            for name, count in block.items():
                summed[name] += count
        return summed

    def _count_norm(self, batch: Batch) -> int:
        """Return what one norm keeps."""
        width = self._sizes.d_model
        return batch.positions * width * 2 * FULL + batch.count_vectors(width)

    def _count_mask(self, batch: Batch) -> int:
        """Return what dropout on [N, D] keeps."""
        return batch.positions * self._sizes.d_model if self._sizes.dropout else 0

    def _estimate_block(self, batch: Batch, *, attentions: int) -> dict[str, int]:
        """Estimate what one layer keeps."""
        sizes, attention = self._sizes, self._sizes.cross_attention
        heads = batch.positions * sizes.num_heads
        weights = heads * batch.length * (FULL + batch.bytes_each)
        weights += heads * batch.length if sizes.attention_dropout else 0
        of_group = attention.head_width + attention.value_width
        vectors = 2 * sizes.d_model + attention.groups * of_group
        if sizes.attention_kernel == "chunked":
            weights = heads * FULL
            vectors += sizes.num_heads * attention.value_width
        inner, branches = batch.positions * sizes.ffn_width, attentions + 1
        return {
            "attention weights": attentions * weights,
            "attention vectors": attentions * batch.count_vectors(vectors),
            "feed-forward": inner * batch.bytes_each * self._count_feed_forward_numbers(),
            "norms": branches * self._count_norm(batch),
            "dropout": branches * self._count_mask(batch) + (inner if sizes.ffn_dropout else 0),
        }

    def _estimate_outside(self, batch: Batch) -> dict[str, int]:
        """Estimate what is kept outside of the layers: of both stacks, on the embeddings."""
        vectors = batch.count_vectors(self._sizes.d_model)
        of_logits = batch.positions * self._sizes.vocabulary_size * FULL
        return {
            "attention weights": 0,
            "attention vectors": 0,
            "feed-forward": 0,
            "norms": 2 * (self._count_norm(batch) if self._pre else vectors),
            "dropout": 2 * self._count_mask(batch),
            "loss": of_logits,
        }

    def _count_feed_forward_numbers(self) -> int:
        """Return how many [N, F] the feed-forward block keeps."""
        activation = self._sizes.activation
        numbers = {"relu": 1, "relu2": 2, "gelu": 5, "silu": 2, "swiglu": 4}[activation]
        # What the outer matrix reads is among them; relu needs its own output, dropped from or not.
        return numbers + (1 if self._sizes.ffn_dropout and activation == "relu" else 0)

    def count_state(self, precision: str = "float32") -> StateBytes:
        """Count what decoding keeps: keys and values of every layer, on either side."""
        attention = self._sizes.cross_attention
        numbers = attention.groups * (attention.head_width + attention.value_width)
        each = Batch(1, 1, precision).count_vectors(numbers * self._sizes.decoder_layers)
        return StateBytes(hypothesis=0, target=each, source=each)
