"""Attention masks: boolean, True means "may attend".

The model builds each mask once, and it broadcasts to [B, H, T, S]. Layers take it as
``attention_mask``. The padding masks that Keras passes from layer to layer, where a layer is used
outside of a model, are separate arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keras import ops

Tensor = Any

MASKED_SCORE = -1e30  # finite, so that a row with nothing to attend to gives no NaN


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax of scores float32 [B, H, T, S] over the S keys that a mask allows.

    Weights are zero elsewhere, and in rows whose mask is all False.

    Args:
        scores: float32 [B, H, T, S].
        mask: bool, broadcastable to [B, H, T, S]; None: every query may attend to every key.
    """
    if mask is None:
        return ops.softmax(scores, axis=-1)
    weights = ops.softmax(ops.where(mask, scores, MASKED_SCORE), axis=-1)
    return ops.where(mask, weights, 0.0)


@dataclass(frozen=True)
class SegmentMask:
    """`segment_mask` before it is expanded: the chunked kernel expands it block by block.

    A dataclass, since Keras hands it to `call` unchanged; it would flatten a tuple into tensors.
    """

    queries: Tensor  # int [B, T], segment ids; 0 is padding
    keys: Tensor  # int [B, S]
    causal: bool  # whether position t may attend to positions 0 … t only

    def expand(self) -> Tensor:
        """Return the mask as bool [B, 1, T, S]."""
        mask = segment_mask(self.queries, self.keys)
        return mask & causal_mask(ops.shape(self.queries)[1]) if self.causal else mask


def segment_mask(query_segments: Tensor, key_segments: Tensor) -> Tensor:
    """Let tokens attend within their own segment, and nothing attend to padding.

    A row may hold several sentence pairs, numbered 1, 2, …; 0 is padding.

    Args:
        query_segments: int [B, T].
        key_segments: int [B, S].

    Returns:
        bool [B, 1, T, S].
    """
    queries = ops.expand_dims(query_segments, -1)  # [B, T, 1]
    keys = ops.expand_dims(key_segments, 1)  # [B, 1, S]
    same = ops.logical_and(ops.equal(queries, keys), ops.greater(keys, 0))
    return ops.expand_dims(same, 1)  # [B, 1, T, S]


def causal_mask(length: int | Tensor) -> Tensor:
    """Let position t attend to positions 0 … t. Returns bool [1, 1, T, T]."""
    index = ops.arange(length, dtype="int32")
    return ops.expand_dims(ops.greater_equal(index[:, None], index[None, :]), (0, 1))


def ancestor_mask(ancestors: Tensor) -> Tensor:
    """Let each hypothesis attend to the tokens it descends from.

    The k hypotheses of a sentence share a cache of T * k slots: slot t * k + j holds what
    hypothesis j wrote at position t. When the search reorders hypotheses, only the table of
    ancestors changes, and the cache stays where it is.

    Args:
        ancestors: int [B, k, T], the hypothesis j that wrote position t of hypothesis i; -1 where
            nothing has been written.

    Returns:
        bool [B, 1, k, T * k].
    """
    batch, beam_size, length = (ops.shape(ancestors)[axis] for axis in range(3))
    same = ops.equal(ops.expand_dims(ancestors, -1), ops.arange(beam_size, dtype="int32"))
    return ops.reshape(same, (batch, 1, beam_size, length * beam_size))


def combine_masks(attention_mask: Any, padding: Tensor | None) -> Tensor | SegmentMask | None:
    """Combine an attention mask with the padding mask that Keras passes along.

    Args:
        attention_mask: bool of rank 4, or [B, T, S] for all heads; a `SegmentMask`; or None.
        padding: bool [B, S], False for padding; None: no key is padding.

    Raises:
        ValueError: the mask has another rank.
    """
    if attention_mask is not None and not isinstance(attention_mask, SegmentMask):
        attention_mask = ops.cast(attention_mask, "bool")
        if len(attention_mask.shape) == 3:
            attention_mask = ops.expand_dims(attention_mask, 1)
        if len(attention_mask.shape) != 4:
            raise ValueError(
                "attention_mask must be [B, T, S] or broadcastable to [B, H, T, S], got "
                f"{tuple(attention_mask.shape)}; pass padding [B, S] as the layer's mask"
            )
    if padding is None:
        return attention_mask
    keys = ops.expand_dims(ops.cast(padding, "bool"), (1, 2))  # [B, 1, 1, S]
    if isinstance(attention_mask, SegmentMask):
        attention_mask = attention_mask.expand()
    return keys if attention_mask is None else ops.logical_and(attention_mask, keys)
