"""Exact attention in memory that grows with T + S, and not with their product.

Scores are made a block of queries and a block of keys at a time. The softmax runs along: each query
keeps the largest score so far, the sum of exponentials below it and the mixture of values, and
scales them down when a larger score comes (Milakov & Gimelshein 2018, algorithm 3; Rabe & Staats
2021). For the backward pass only the output and the logarithm of that sum are kept, and blocks are
computed again (Dao et al. 2022, section 3.1 and appendix B.4). Both passes are written out here,
because what differentiates a loop by itself keeps every turn of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
from keras import ops

from nmt.model.dropout import Odds, keeps, odds
from nmt.model.positions import spread

Tensor = Any

BLOCK = 512  # smaller ones share the cores of a CPU worse, and spare less of the loop
MASKED_SCORE = -1e30  # finite, so that a row with nothing to attend to gives no NaN
LEAST_SCORE = 0.5 * MASKED_SCORE  # what a query begins with: above all that is masked


@dataclass(frozen=True)
class SegmentMask:
    """The mask of `nmt.model.attention.segment_mask`, not spread out: blocks spread their part.

    Keras passes it on as it is: of a tuple it would take tensors alone.
    """

    queries: Tensor  # int [B, T], segment numbers, 0 is padding
    keys: Tensor  # int [B, S]
    causal: bool  # whether position t may attend to positions 0 … t alone


class _Axis(NamedTuple):
    """How T queries or S keys are cut into blocks; of tensors where shapes are dynamic."""

    length: Any
    block: Any
    count: Any

    @classmethod
    def cut(cls, length: Any, block: int) -> _Axis:
        """Cut into blocks as equal as can be, of ``block`` at most."""
        count = (length + block - 1) // block
        return cls(length, (length + count - 1) // count, count)

    @property
    def padding(self) -> Any:
        """What the last block has beyond the length."""
        return self.block * self.count - self.length

    def positions(self, index: Tensor) -> Tensor:
        """Return the places in block ``index``: int32 [block]."""
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
    """What is known of the blocks before any is computed."""

    rows: _Axis  # of queries
    columns: _Axis  # of keys
    causal: bool

    @classmethod
    def make(cls, query: Tensor, key: Tensor, mask: Any, block: int) -> _Plan:
        """Plan the blocks, of ``block`` queries and as many keys at most."""
        return cls(
            _Axis.cut(ops.shape(query)[1], block),
            _Axis.cut(ops.shape(key)[1], block),
            isinstance(mask, SegmentMask) and mask.causal,
        )


class _Inputs(NamedTuple):
    """The tensors that blocks are made of; None where there is nothing of the kind."""

    queries: Tensor  # [T blocks, B, H, block, K], times K^-0.5
    keys: Tensor  # [S blocks, B, H, block, K]
    values: Tensor  # [S blocks, B, H, block, C]
    bias: Tensor | None = None  # float32 [H, T + S - 1] of padded T and S: entry t - s + S - 1
    mask: Any = None  # bool [B or 1, H or 1, T or 1, S or 1], padded
    query_segments: Any = None  # [T blocks, B, 1, block, 1]
    key_segments: Any = None  # [S blocks, B, 1, block, 1]
    bits: Tensor | None = None  # this one and the next two: `nmt.model.dropout.Odds`
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
        mask: bool, broadcastable to [B, H, T, S], True = may attend, or segments; None: everything
            may. Of causal segments, blocks that are wholly in the future are left out.
        distance_bias: float32 [H, T + S - 1]: entry t - s + S - 1 is added to the score of query t
            and key s.
        dropout_rate: share of the weights dropped while training: the very ones that
            `nmt.model.dropout.dropout` drops of weights [B, H, T, S].
        dropout_key: see there; None: no dropout.
        block: queries in a block, and keys, at most.

    Returns:
        [B, T, H, C], of the dtype of ``value``.
    """
    dtype = value.dtype
    if keras.backend.standardize_dtype(query.dtype) == "float16":  # scores overflow it
        query, key, value = (ops.cast(x, "float32") for x in (query, key, value))
    shared = query.shape[2] // key.shape[2]
    if shared > 1:
        key, value = ops.repeat(key, shared, axis=2), ops.repeat(value, shared, axis=2)
    plan = _Plan.make(query, key, mask, block)
    rows, columns = plan.rows, plan.columns
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
        scores = query.shape[2] * plan.rows.length * plan.columns.length  # of a row of the batch
        chances = odds(dropout_rate, dropout_key, scores)
        x = x._replace(**chances._asdict())
        x = x._replace(scale=ops.convert_to_tensor(chances.scale, "float32"))
    return ops.cast(rows.join(_attend(x, plan)), dtype)


def _pad(x: Tensor, *widths: tuple[Any, Any]) -> Tensor:
    """Pad with zeros, unless it is known that there is nothing to pad."""
    known = all(isinstance(width, int) for pair in widths for width in pair)
    return x if known and not any(map(any, widths)) else ops.pad(x, widths)


def _pad_mask(mask: Tensor, plan: _Plan) -> Tensor:
    """Bring a mask to rank 4 and pad it to whole blocks, but for axes that are 1 wide."""
    mask = ops.expand_dims(mask, tuple(range(4 - len(mask.shape))))
    wide = [
        (1, 0) if extent == 1 else (axis.length, axis.padding)
        for axis, extent in zip((plan.rows, plan.columns), mask.shape[2:], strict=True)
    ]
    mask = ops.broadcast_to(mask, (*ops.shape(mask)[:2], *(length for length, _ in wide)))
    return _pad(mask, (0, 0), (0, 0), *((0, padding) for _, padding in wide))


def _attend(x: _Inputs, plan: _Plan) -> Tensor:
    """Return the output in blocks [T blocks, B, H, block, C], with its gradient."""
    given = {name: tensor for name, tensor in x._asdict().items() if tensor is not None}

    def attend(*tensors: Tensor) -> Any:  # all of them: JAX differentiates none that is closed over
        x = _Inputs(**dict(zip(given, tensors, strict=True)))
        output, normalizers = _forward(x, plan)

        def differentiate(upstream: Tensor) -> list[Tensor | None]:
            found = _backward(x, plan, output, normalizers, upstream)
            return [found.get(name) for name in given]

        return output, differentiate

    return ops.custom_gradient(attend)(*given.values())


def _forward(x: _Inputs, plan: _Plan) -> tuple[Tensor, Tensor]:
    """Return the output and log Σ exp(scores): [T blocks, B, H, block, C] and [.., block, 1].

    Of a query that may attend to nothing, both are 0.
    """
    shape = ops.shape(x.queries)[1:-1]  # [B, H, block]
    width = x.values.shape[-1]  # C

    def finish_row(i: Tensor, done: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        def add_block(j: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            largest, total, mixed = state
            scores = _scores(x, plan, i, j, turned=False)
            larger = ops.maximum(largest, ops.max(scores, axis=-1, keepdims=True))
            decay, weights = ops.exp(largest - larger), ops.exp(scores - larger)
            total = total * decay + ops.sum(weights, axis=-1, keepdims=True)
            dropped = _drop(x, plan, i, j, weights, turned=False)
            mixed = mixed * decay + _product("bhts,bhsk->bhtk", dropped, x.values[j])
            return larger, total, mixed

        start = (
            ops.full((*shape, 1), LEAST_SCORE, "float32"),
            ops.zeros((*shape, 1), "float32"),
            ops.zeros((*shape, width), "float32"),
        )
        end = plan.columns.count
        if plan.causal:
            end = ops.minimum(end, ((i + 1) * plan.rows.block - 1) // plan.columns.block + 1)
        largest, total, mixed = ops.fori_loop(0, end, add_block, start)
        total = ops.where(total > 0, total, 1.0)
        normalizer = ops.where(largest > LEAST_SCORE, largest + ops.log(total), 0.0)
        return _put(done[0], i, mixed / total), _put(done[1], i, normalizer)

    count = plan.rows.count
    empty = ops.zeros((count, *shape, width), x.values.dtype)
    return ops.fori_loop(0, count, finish_row, (empty, ops.zeros((count, *shape, 1), "float32")))


def _backward(
    x: _Inputs, plan: _Plan, output: Tensor, normalizers: Tensor, upstream: Tensor
) -> dict[str, Tensor]:
    """Return the gradients of queries, keys, values and bias, by their names in `_Inputs`.

    Scores are turned here, [B, H, S, T], and so are the gradients of queries while they are added
    up: all products then read and write them row by row, which is twice as fast.
    """
    # Σ weights * gradients of weights over the keys: [T blocks, B, H, 1, block].
    mean = ops.cast(output, "float32") * ops.cast(upstream, "float32")
    mean = _turn(ops.sum(mean, axis=-1, keepdims=True))
    normalizers, turned_keys = _turn(normalizers), _turn(x.keys)

    def finish_column(j: Tensor, done: dict[str, Tensor]) -> dict[str, Tensor]:
        def add_block(i: Tensor, found: dict[str, Tensor]) -> dict[str, Tensor]:
            weights = ops.exp(_scores(x, plan, i, j, turned=True) - normalizers[i])
            of_dropped = _product("bhsk,bhtk->bhst", x.values[j], upstream[i])
            of_weights = _drop(x, plan, i, j, of_dropped, turned=True)
            of_scores = weights * (of_weights - mean[i])
            dropped = _drop(x, plan, i, j, weights, turned=True)
            of_queries = found["queries"][i] + _product(
                "bhks,bhst->bhkt", turned_keys[j], of_scores
            )
            more = {
                "queries": _put(found["queries"], i, of_queries),
                "keys": found["keys"] + _product("bhst,bhtk->bhsk", of_scores, x.queries[i]),
                "values": found["values"] + _product("bhst,bhtk->bhsk", dropped, upstream[i]),
            }
            if x.bias is not None:
                more["bias"] = _add_to_bias(found["bias"], plan, i, j, of_scores)
            return more

        begin = (j * plan.columns.block) // plan.rows.block if plan.causal else 0
        column = {name: ops.zeros_like(done[name][j]) for name in ("keys", "values")}
        found = ops.fori_loop(begin, plan.rows.count, add_block, done | column)
        return found | {name: _put(done[name], j, found[name]) for name in column}

    names = ["queries", "keys", "values"] + ["bias"] * (x.bias is not None)
    start = {name: ops.zeros_like(getattr(x, name), dtype="float32") for name in names}
    start["queries"] = _turn(start["queries"])
    found = ops.fori_loop(0, plan.columns.count, finish_column, start)
    found["queries"] = _turn(found["queries"])
    return {name: ops.cast(found[name], getattr(x, name).dtype) for name in names}


def _product(equation: str, one: Tensor, other: Tensor) -> Tensor:
    """Multiply in the narrower of the two dtypes, and return float32."""
    wide = keras.backend.standardize_dtype(one.dtype) == "float32"
    dtype = other.dtype if wide else one.dtype
    return ops.cast(ops.einsum(equation, ops.cast(one, dtype), ops.cast(other, dtype)), "float32")


def _put(blocks: Tensor, index: Tensor, block: Tensor) -> Tensor:
    """Replace one of the blocks."""
    return ops.slice_update(blocks, (index, 0, 0, 0, 0), ops.cast(block, blocks.dtype)[None])


def _turn(x: Tensor) -> Tensor:
    """Swap the last two axes."""
    return ops.swapaxes(x, -2, -1)


def _scores(x: _Inputs, plan: _Plan, i: Tensor, j: Tensor, *, turned: bool) -> Tensor:
    """Return the scores of block i of the queries, block j of the keys: float32 [B, H, ., .].

    Turned, they are [.., keys, queries].
    """
    if turned:
        scores = _product("bhsk,bhtk->bhst", x.keys[j], x.queries[i])
    else:
        scores = _product("bhtk,bhsk->bhts", x.queries[i], x.keys[j])
    if x.bias is not None:
        bias = spread(_window(x.bias, plan, i, j), plan.rows.block, plan.columns.block)
        scores = scores + (_turn(bias) if turned else bias)
    for allowed in _conditions(x, plan, i, j):
        scores = ops.where(_turn(allowed) if turned else allowed, scores, MASKED_SCORE)
    return scores


def _conditions(x: _Inputs, plan: _Plan, i: Tensor, j: Tensor) -> list[Tensor]:
    """Return what must hold for a query of block i to attend to a key of block j."""
    found = []
    rows, columns = plan.rows.positions(i)[:, None], plan.columns.positions(j)[None]
    if x.mask is not None:
        places = zip((plan.rows, plan.columns), (i, j), x.mask.shape[2:], strict=True)
        cut = [(0, 1) if n == 1 else (at * axis.block, axis.block) for axis, at, n in places]
        begins, extents = zip(*cut, strict=True)
        found.append(ops.slice(x.mask, (0, 0, *begins), (*ops.shape(x.mask)[:2], *extents)))
    if x.key_segments is not None:
        keys = _turn(x.key_segments[j])  # [B, 1, 1, block]
        found.append(ops.logical_and(ops.equal(x.query_segments[i], keys), keys > 0))
    elif not isinstance(plan.columns.padding, int) or plan.columns.padding > 0:
        found.append(columns < plan.columns.length)
    if plan.causal:
        found.append(rows >= columns)
    return found


def _drop(
    x: _Inputs, plan: _Plan, i: Tensor, j: Tensor, weights: Tensor, *, turned: bool
) -> Tensor:
    """Drop weights [B, H, ., .] of a block as `dropout` drops those of all, [B, H, T, S]."""
    if x.bits is None:
        return weights
    batch, heads = ops.shape(weights)[:2]
    rows, columns = plan.rows.positions(i)[:, None], plan.columns.positions(j)
    number = ops.reshape(ops.arange(batch * heads, dtype="int32"), (batch, heads, 1, 1))
    # Unsigned, which wraps around in the same way wherever it is done.
    number, rows, columns = (ops.cast(part, "uint32") for part in (number, rows, columns))
    number = number * ops.cast(plan.rows.length, "uint32") + rows
    number = number * ops.cast(plan.columns.length, "uint32") + columns
    kept = keeps(Odds(x.bits, x.threshold, x.scale), number)
    return ops.where(_turn(kept) if turned else kept, weights * x.scale, 0.0)


def _window_start(plan: _Plan, i: Tensor, j: Tensor) -> Tensor:
    """Return where in the padded bias the entries of a block begin: its first query, last key."""
    rows, columns = plan.rows, plan.columns
    return i * rows.block + (columns.count - 1 - j) * columns.block


def _window(bias: Any, plan: _Plan, i: Tensor, j: Tensor) -> Tensor:
    """Return the entries of the padded bias that a block needs: [H, T + S - 1] of its T and S."""
    extent = plan.rows.block + plan.columns.block - 1
    return ops.slice(bias, (0, _window_start(plan, i, j)), (bias.shape[0], extent))


def _add_to_bias(bias: Tensor, plan: _Plan, i: Tensor, j: Tensor, of_scores: Tensor) -> Tensor:
    """Add the gradient of a block's turned scores [B, H, S, T] to that of the padded bias.

    Rows that become one longer shift what is in them by one from row to row: what belongs to one
    entry then stands in one column.
    """
    columns, heads = plan.columns.block, bias.shape[0]
    extent = plan.rows.block + columns - 1
    rolled = _pad(ops.sum(of_scores, axis=0), (0, 0), (0, 0), (columns - 1, 0))
    rolled = _pad(ops.reshape(rolled, (heads, columns * extent)), (0, 0), (0, columns))
    summed = ops.sum(ops.reshape(rolled, (heads, columns, extent + 1)), axis=1)[:, :extent]
    window = _window(bias, plan, i, j) + summed
    return ops.slice_update(bias, (0, _window_start(plan, i, j)), window)
