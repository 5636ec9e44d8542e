"""Exact attention whose memory grows with T + S instead of T S.

Scores are computed one block of queries and one block of keys at a time, with an online softmax:
each query keeps the largest score so far, the sum of exponentials relative to it and the weighted
sum of values, and rescales them when a larger score comes (Milakov & Gimelshein 2018, algorithm 3;
Rabe & Staats 2021). The backward pass keeps only the output and the logarithm of that sum, and
recomputes the blocks (Dao et al. 2022, section 3.1 and appendix B.4). Both passes are written by
hand, because automatic differentiation of a loop would keep every iteration.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from nmt.model.dropout import MaskParameters, keep_mask, mask_parameters
from nmt.model.masks import MASKED_SCORE, SegmentMask
from nmt.model.positions import expand_distance_bias

Tensor = Any

BLOCK = 512  # smaller blocks use the cores of a CPU less well, and loop more often
MIN_SCORE = 0.5 * MASKED_SCORE  # initial maximum of a query: above every masked score


class _Axis(NamedTuple):
    """The division of T queries or S keys into blocks; fields are tensors if shapes are dynamic."""

    length: Any
    block: Any
    count: Any

    @classmethod
    def cut(cls, length: Any, block: int) -> _Axis:
        """Divide into blocks of nearly equal length, at most ``block``; padding alone is one."""
        if isinstance(length, int) and length == 0:
            return cls(length, 1, 1)
        count = (length + block - 1) // block
        return cls(length, (length + count - 1) // count, count)

    @property
    def padding(self) -> Any:
        """Positions of the last block beyond the length."""
        return self.block * self.count - self.length

    def positions(self, index: Tensor) -> Tensor:
        """Return the positions of block ``index``: int32 [block]."""
        return index * self.block + ops.arange(self.block, dtype="int32")

    def split(self, x: Tensor) -> Tensor:
        """[B, L, H, K] -> [count, B, H, block, K], zeros beyond the length."""
        batch, _, heads, width = ops.shape(x)
        x = _pad(x, (0, 0), (0, self.padding), (0, 0), (0, 0))
        x = ops.reshape(x, (batch, self.count, self.block, heads, width))
        return ops.transpose(x, (1, 0, 3, 2, 4))

    def join(self, x: Tensor) -> Tensor:
        """[count, B, H, block, K] -> [B, L, H, K]."""
        _, batch, heads, _, width = ops.shape(x)
        x = ops.transpose(x, (1, 0, 3, 2, 4))
        x = ops.reshape(x, (batch, self.count * self.block, heads, width))
        return x[:, : self.length]


class _Plan(NamedTuple):
    """The division into blocks."""

    rows: _Axis  # of queries
    columns: _Axis  # of keys
    causal: bool


class _Inputs(NamedTuple):
    """The inputs of all blocks; None where absent."""

    queries: Tensor  # [T blocks, B, H, block, K], times K^-0.5
    keys: Tensor  # [S blocks, B, H, block, K]
    values: Tensor  # [S blocks, B, H, block, C]
    bias: Tensor | None = None  # float32 [H, T + S - 1] of padded T and S: entry t - s + S - 1
    mask: Any = None  # bool [B or 1, H or 1, T or 1, S or 1], padded
    query_segments: Any = None  # [T blocks, B, 1, block, 1]
    key_segments: Any = None  # [S blocks, B, 1, block, 1]
    bits: Tensor | None = None  # this and the next two: `nmt.model.dropout.MaskParameters`
    threshold: Tensor | None = None
    scale: Tensor | None = None


def chunked_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | SegmentMask | None,
    distance_bias: Tensor | None = None,
    dropout_rate: float = 0.0,
    dropout_key: Tensor | None = None,
    *,
    block: int = BLOCK,
) -> Tensor:
    """softmax(Q Kᵀ / sqrt(K) + bias) V, a block of scores at a time.

    The softmax runs in float32 whatever the inputs. A query that may attend to nothing gets zeros.

    Args:
        query: [B, T, H, K].
        key: [B, S, G, K]; head h of the queries reads head h // (H / G).
        value: [B, S, G, C].
        mask: bool, broadcastable to [B, H, T, S], True = may attend; None: every query may attend
            to every key. With a causal `SegmentMask`, blocks entirely in the future are skipped.
        distance_bias: float32 [H, T + S - 1]: entry t - s + S - 1 is added to the score of query t
            and key s.
        dropout_rate: share of the weights dropped in training: the same elements that
            `nmt.model.dropout.dropout` drops from weights [B, H, T, S].
        dropout_key: see there; None: no dropout.
        block: largest number of queries, and of keys, in a block.

    Returns:
        [B, T, H, C], with the dtype of ``value``.
    """
    dtype = value.dtype
    if keras.backend.standardize_dtype(query.dtype) == "float16":  # scores overflow it
        query, key, value = (ops.cast(x, "float32") for x in (query, key, value))
    repeats = query.shape[2] // key.shape[2]
    if repeats > 1:
        key, value = ops.repeat(key, repeats, axis=2), ops.repeat(value, repeats, axis=2)
    rows, columns = (_Axis.cut(ops.shape(x)[1], block) for x in (query, key))
    plan = _Plan(rows, columns, isinstance(mask, SegmentMask) and mask.causal)
    x = _Inputs(
        rows.split(query * ops.cast(query.shape[-1] ** -0.5, query.dtype)),
        columns.split(key),
        columns.split(value),
    )
    if isinstance(mask, SegmentMask):
        x = x._replace(
            query_segments=rows.split(mask.queries[:, :, None, None]),
            key_segments=columns.split(mask.keys[:, :, None, None]),
        )
    elif mask is not None:
        x = x._replace(mask=_pad_mask(mask, plan))
    if distance_bias is not None:
        bias = ops.cast(distance_bias, "float32")
        x = x._replace(bias=_pad(bias, (0, 0), (columns.padding, rows.padding)))
    if dropout_key is not None and dropout_rate > 0:
        row_size = query.shape[2] * rows.length * columns.length
        parameters = mask_parameters(dropout_rate, dropout_key, row_size)
        scale = ops.convert_to_tensor(parameters.scale, "float32")
        x = x._replace(bits=parameters.bits, threshold=parameters.threshold, scale=scale)
    return ops.cast(rows.join(_attend(x, plan)), dtype)


def _pad(x: Tensor, *widths: tuple[Any, Any]) -> Tensor:
    """Pad with zeros, unless all widths are static and zero."""
    is_static = all(isinstance(width, int) for pair in widths for width in pair)
    return x if is_static and not any(map(any, widths)) else ops.pad(x, widths)


def _pad_mask(mask: Tensor, plan: _Plan) -> Tensor:
    """Expand a mask to rank 4 and pad it to full blocks, except for axes of length 1."""
    mask = ops.expand_dims(mask, tuple(range(4 - len(mask.shape))))
    wide = [
        (1, 0) if extent == 1 else (axis.length, axis.padding)
        for axis, extent in zip((plan.rows, plan.columns), mask.shape[2:], strict=True)
    ]
    mask = ops.broadcast_to(mask, (*ops.shape(mask)[:2], *(length for length, _ in wide)))
    return _pad(mask, (0, 0), (0, 0), *((0, padding) for _, padding in wide))


def _attend(x: _Inputs, plan: _Plan) -> Tensor:
    """Return the output in blocks [T blocks, B, H, block, C], with its gradient."""
    inputs = {name: tensor for name, tensor in x._asdict().items() if tensor is not None}

    def attend(*tensors: Tensor) -> Any:  # JAX does not differentiate closed-over tensors
        x = _Inputs(**dict(zip(inputs, tensors, strict=True)))
        output, normalizers = _forward(x, plan)

        def differentiate(upstream: Tensor) -> list[Tensor | None]:
            gradients = _backward(x, plan, output, normalizers, upstream)
            return [gradients.get(name) for name in inputs]

        return output, differentiate

    return ops.custom_gradient(attend)(*inputs.values())


def _forward(x: _Inputs, plan: _Plan) -> tuple[Tensor, Tensor]:
    """Return the output and log Σ exp(scores): [T blocks, B, H, block, C] and [.., block, 1].

    Both are 0 for a query that may attend to nothing.
    """
    shape = ops.shape(x.queries)[1:-1]  # [B, H, block]
    width = x.values.shape[-1]  # C

    def finish_row(i: Tensor, finished: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        def add_block(j: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            largest, total, mixed = state
            scores = _scores(x, plan, i, j, transposed=False)
            larger = ops.maximum(largest, ops.max(scores, axis=-1, keepdims=True))
            decay, weights = ops.exp(largest - larger), ops.exp(scores - larger)
            total = total * decay + ops.sum(weights, axis=-1, keepdims=True)
            dropped = _drop(x, plan, i, j, weights, transposed=False)
            mixed = mixed * decay + _product("bhts,bhsk->bhtk", dropped, x.values[j])
            return larger, total, mixed

        start = (
            ops.full((*shape, 1), MIN_SCORE, "float32"),
            ops.zeros((*shape, 1), "float32"),
            ops.zeros((*shape, width), "float32"),
        )
        end = plan.columns.count
        if plan.causal:
            end = ops.minimum(end, ((i + 1) * plan.rows.block - 1) // plan.columns.block + 1)
        largest, total, mixed = ops.fori_loop(0, end, add_block, start)
        total = ops.where(total > 0, total, 1.0)
        normalizer = ops.where(largest > MIN_SCORE, largest + ops.log(total), 0.0)
        return _put(finished[0], i, mixed / total), _put(finished[1], i, normalizer)

    count = plan.rows.count
    empty = ops.zeros((count, *shape, width), x.values.dtype)
    return ops.fori_loop(0, count, finish_row, (empty, ops.zeros((count, *shape, 1), "float32")))


def _backward(
    x: _Inputs, plan: _Plan, output: Tensor, normalizers: Tensor, upstream: Tensor
) -> dict[str, Tensor]:
    """Return the gradients of queries, keys, values and bias, by their names in `_Inputs`.

    Scores are transposed here, [B, H, S, T], and so are the gradients of queries while they are
    summed: all products then read and write them row by row, which is twice as fast.
    """
    # Σ weights * weight gradients over the keys: [T blocks, B, H, 1, block].
    mean = ops.cast(output, "float32") * ops.cast(upstream, "float32")
    mean = _transpose(ops.sum(mean, axis=-1, keepdims=True))
    normalizers, transposed_keys = _transpose(normalizers), _transpose(x.keys)

    def finish_column(j: Tensor, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        def add_block(i: Tensor, sums: dict[str, Tensor]) -> dict[str, Tensor]:
            weights = ops.exp(_scores(x, plan, i, j, transposed=True) - normalizers[i])
            dropped_gradient = _product("bhsk,bhtk->bhst", x.values[j], upstream[i])
            weight_gradient = _drop(x, plan, i, j, dropped_gradient, transposed=True)
            score_gradient = weights * (weight_gradient - mean[i])
            dropped = _drop(x, plan, i, j, weights, transposed=True)
            query_gradient = sums["queries"][i] + _product(
                "bhks,bhst->bhkt", transposed_keys[j], score_gradient
            )
            new_sums = {
                "queries": _put(sums["queries"], i, query_gradient),
                "keys": sums["keys"] + _product("bhst,bhtk->bhsk", score_gradient, x.queries[i]),
                "values": sums["values"] + _product("bhst,bhtk->bhsk", dropped, upstream[i]),
            }
            if x.bias is not None:
                new_sums["bias"] = _add_to_bias(sums["bias"], plan, i, j, score_gradient)
            return new_sums

        begin = (j * plan.columns.block) // plan.rows.block if plan.causal else 0
        column = {name: ops.zeros_like(gradients[name][j]) for name in ("keys", "values")}
        sums = ops.fori_loop(begin, plan.rows.count, add_block, gradients | column)
        return sums | {name: _put(gradients[name], j, sums[name]) for name in column}

    names = ["queries", "keys", "values"] + ["bias"] * (x.bias is not None)
    start = {name: ops.zeros_like(getattr(x, name), dtype="float32") for name in names}
    start["queries"] = _transpose(start["queries"])
    gradients = ops.fori_loop(0, plan.columns.count, finish_column, start)
    gradients["queries"] = _transpose(gradients["queries"])
    return {name: ops.cast(gradients[name], getattr(x, name).dtype) for name in names}


def _product(equation: str, a: Tensor, b: Tensor) -> Tensor:
    """Multiply in the narrower of the two dtypes, and return float32."""
    dtype = b.dtype if keras.backend.standardize_dtype(a.dtype) == "float32" else a.dtype
    return ops.cast(ops.einsum(equation, ops.cast(a, dtype), ops.cast(b, dtype)), "float32")


def _put(blocks: Tensor, index: Tensor, block: Tensor) -> Tensor:
    """Return the blocks with block ``index`` replaced."""
    return ops.slice_update(blocks, (index, 0, 0, 0, 0), ops.cast(block, blocks.dtype)[None])


def _transpose(x: Tensor) -> Tensor:
    """Swap the last two axes."""
    return ops.swapaxes(x, -2, -1)


def _scores(x: _Inputs, plan: _Plan, i: Tensor, j: Tensor, *, transposed: bool) -> Tensor:
    """Return the scores of query block i and key block j: float32 [B, H, ., .].

    If transposed, they are [.., keys, queries].
    """
    if transposed:
        scores = _product("bhsk,bhtk->bhst", x.keys[j], x.queries[i])
    else:
        scores = _product("bhtk,bhsk->bhts", x.queries[i], x.keys[j])
    if x.bias is not None:
        bias = expand_distance_bias(
            _window(x.bias, plan, i, j), plan.rows.block, plan.columns.block
        )
        scores = scores + (_transpose(bias) if transposed else bias)
    for mask in _block_masks(x, plan, i, j):
        scores = ops.where(_transpose(mask) if transposed else mask, scores, MASKED_SCORE)
    return scores


def _block_masks(x: _Inputs, plan: _Plan, i: Tensor, j: Tensor) -> list[Tensor]:
    """Return the masks of query block i and key block j; a score counts where all are True."""
    masks = []
    rows, columns = plan.rows.positions(i)[:, None], plan.columns.positions(j)[None]
    if x.mask is not None:
        axes = zip((plan.rows, plan.columns), (i, j), x.mask.shape[2:], strict=True)
        slices = [(0, 1) if n == 1 else (at * axis.block, axis.block) for axis, at, n in axes]
        begins, extents = zip(*slices, strict=True)
        masks.append(ops.slice(x.mask, (0, 0, *begins), (*ops.shape(x.mask)[:2], *extents)))
    if x.key_segments is not None:
        keys = _transpose(x.key_segments[j])  # [B, 1, 1, block]
        masks.append(ops.logical_and(ops.equal(x.query_segments[i], keys), keys > 0))
    elif not isinstance(plan.columns.padding, int) or plan.columns.padding > 0:
        masks.append(columns < plan.columns.length)
    if plan.causal:
        masks.append(rows >= columns)
    return masks


def _drop(
    x: _Inputs, plan: _Plan, i: Tensor, j: Tensor, weights: Tensor, *, transposed: bool
) -> Tensor:
    """Drop the weights [B, H, ., .] of a block that `dropout` drops from [B, H, T, S]."""
    if x.bits is None:
        return weights
    batch, heads = ops.shape(weights)[:2]
    rows, columns = plan.rows.positions(i)[:, None], plan.columns.positions(j)
    number = ops.reshape(ops.arange(batch * heads, dtype="int32"), (batch, heads, 1, 1))
    # Unsigned arithmetic wraps around, as it does in `dropout`.
    number, rows, columns = (ops.cast(x, "uint32") for x in (number, rows, columns))
    number = number * ops.cast(plan.rows.length, "uint32") + rows
    number = number * ops.cast(plan.columns.length, "uint32") + columns
    keep = keep_mask(MaskParameters(x.bits, x.threshold, x.scale), number)
    return ops.where(_transpose(keep) if transposed else keep, weights * x.scale, 0.0)


def _window_start(plan: _Plan, i: Tensor, j: Tensor) -> Tensor:
    """Return the start of a block's entries in the padded bias: its first query, last key."""
    rows, columns = plan.rows, plan.columns
    return i * rows.block + (columns.count - 1 - j) * columns.block


def _window(bias: Any, plan: _Plan, i: Tensor, j: Tensor) -> Tensor:
    """Return the entries of the padded bias that a block needs: [H, T + S - 1] of its T and S."""
    extent = plan.rows.block + plan.columns.block - 1
    return ops.slice(bias, (0, _window_start(plan, i, j)), (bias.shape[0], extent))


def _add_to_bias(bias: Tensor, plan: _Plan, i: Tensor, j: Tensor, score_gradient: Tensor) -> Tensor:
    """Add the gradient of a block's transposed scores [B, H, S, T] to that of the padded bias.

    Reshaping the rows to be one element longer shifts each row by one more: all elements of one
    diagonal, which share an entry of the bias, then stand in one column.
    """
    columns, heads = plan.columns.block, bias.shape[0]
    extent = plan.rows.block + columns - 1
    rolled = _pad(ops.sum(score_gradient, axis=0), (0, 0), (0, 0), (columns - 1, 0))
    rolled = _pad(ops.reshape(rolled, (heads, columns * extent)), (0, 0), (0, columns))
    summed = ops.sum(ops.reshape(rolled, (heads, columns, extent + 1)), axis=1)[:, :extent]
    window = _window(bias, plan, i, j) + summed
    return ops.slice_update(bias, (0, _window_start(plan, i, j)), window)
