"""The models and their layers, written in ``keras.ops``, and the interface that they share.

This package imports nothing else of `nmt`.

Dimensions, here and everywhere: ``B`` batch, ``S`` source length, ``T`` target length, ``L`` either
one, ``D`` model width, ``H`` heads, ``K`` width of a head (D / H), ``G`` heads of keys and values,
``C`` width of a head's values, ``R`` width of a recurrent state, ``g`` gates of its cell, ``M``
width of the cell's inputs, ``F`` feed-forward width, ``V`` vocabulary, ``E`` encoder layers, ``U``
decoder layers, ``P`` longest sequence, ``k`` hypotheses per sentence.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.model.attention_roles import CausalSelfAttention, CrossAttention, SelfAttention
    from nmt.model.blocks import DecoderBlock, EncoderBlock, FeedForward
    from nmt.model.encoder_decoder import EncoderDecoder
    from nmt.model.layers import TokenEmbedding
    from nmt.model.recurrent import Recurrent
    from nmt.model.sizes import AttentionSizes, RecurrentSizes, TransformerSizes
    from nmt.model.transformer import Transformer

__all__ = [
    "AttentionSizes",
    "CausalSelfAttention",
    "CrossAttention",
    "DecoderBlock",
    "EncoderBlock",
    "EncoderDecoder",
    "FeedForward",
    "Recurrent",
    "RecurrentSizes",
    "SelfAttention",
    "TokenEmbedding",
    "Transformer",
    "TransformerSizes",
]

_MODULES = {
    "AttentionSizes": "sizes",
    "CausalSelfAttention": "attention_roles",
    "CrossAttention": "attention_roles",
    "DecoderBlock": "blocks",
    "EncoderBlock": "blocks",
    "EncoderDecoder": "encoder_decoder",
    "FeedForward": "blocks",
    "Recurrent": "recurrent",
    "RecurrentSizes": "sizes",
    "SelfAttention": "attention_roles",
    "TokenEmbedding": "layers",
    "Transformer": "transformer",
    "TransformerSizes": "sizes",
}


def __getattr__(name: str) -> Any:
    """Import a class on first use: some users of the package need no Keras."""
    if name in _MODULES:
        return getattr(import_module(f"nmt.model.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'nmt.model' has no attribute {name!r}")
